/*
Copyright 2026 The Berth Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package metrics

import "github.com/prometheus/client_golang/prometheus"

// rolloutStates are the values of a label for the states of a rollout.
var rolloutStates = []string{RolloutProgressing, RolloutSoaking, RolloutWaitingForApproval, RolloutPaused,
	RolloutComplete, RolloutRolledBack}

// Rollout is how far the newest version of a policy is rolled out: its state, such as RolloutSoaking, the number of its stages, and the
// number of those that are reached.
type Rollout struct {
	State           string // such as RolloutSoaking
	Stages, Reached int    // the number of all stages, and of those that are reached
}

// rolloutMetrics are the metrics of policies with spec.rollout. Other policies have no series.
type rolloutMetrics struct {
	state, stages, reached *prometheus.GaugeVec // 1 for the present state and 0 for others; numbers of stages
}

// newRolloutMetrics returns metrics without series.
func newRolloutMetrics() rolloutMetrics {
	return rolloutMetrics{state: policyRolloutState.gauge(), stages: policyRolloutStages.gauge(), reached: policyRolloutReached.gauge()}
}

// collectors returns the metrics, which New registers.
func (r rolloutMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{r.state, r.stages, r.reached}
}

// set sets the series of a policy.
func (r rolloutMetrics) set(policy string, at Rollout) {
	for _, state := range rolloutStates {
		r.state.WithLabelValues(policy, state).Set(oneIf(at.State == state))
	}
	r.stages.WithLabelValues(policy).Set(float64(at.Stages))
	r.reached.WithLabelValues(policy).Set(float64(at.Reached))
}

// forget removes the series of a policy. It names each of them, because a partial match would visit those of all policies.
func (r rolloutMetrics) forget(policy string) {
	for _, state := range rolloutStates {
		r.state.DeleteLabelValues(policy, state)
	}
	r.stages.DeleteLabelValues(policy)
	r.reached.DeleteLabelValues(policy)
}
