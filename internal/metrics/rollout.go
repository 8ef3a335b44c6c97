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

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// rolloutStates are the values of a label for the states of a rollout.
var rolloutStates = map[string]placementv1.RolloutState{
	RolloutProgressing: placementv1.RolloutProgressing, RolloutSoaking: placementv1.RolloutSoaking,
	RolloutWaitingForApproval: placementv1.RolloutWaitingForApproval,
	RolloutPaused:             placementv1.RolloutPaused, RolloutComplete: placementv1.RolloutComplete, RolloutRolledBack: placementv1.RolloutRolledBack,
}

// rolloutMetrics are the metrics of policies that come into force in stages. Other policies have no series.
type rolloutMetrics struct {
	state, stages, reached *prometheus.GaugeVec
}

func newRolloutMetrics() rolloutMetrics {
	return rolloutMetrics{state: policyRolloutState.gauge(), stages: policyRolloutStages.gauge(), reached: policyRolloutReached.gauge()}
}

func (r rolloutMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{r.state, r.stages, r.reached}
}

func (r rolloutMetrics) set(policy string, s *placementv1.RolloutStatus) {
	for label, state := range rolloutStates {
		r.state.WithLabelValues(policy, label).Set(oneIf(s.State == state))
	}
	r.stages.WithLabelValues(policy).Set(float64(len(s.Stages)))
	r.reached.WithLabelValues(policy).Set(float64(ptr.Deref(s.Reached, 0)))
}

// forget removes the series of a policy. It names each of them, because a partial match would visit those of all policies.
func (r rolloutMetrics) forget(policy string) {
	for label := range rolloutStates {
		r.state.DeleteLabelValues(policy, label)
	}
	r.stages.DeleteLabelValues(policy)
	r.reached.DeleteLabelValues(policy)
}
