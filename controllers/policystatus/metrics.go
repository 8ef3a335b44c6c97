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

package policystatus

import (
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/metrics"
)

// waitingLabels are the labels of metrics for the reasons why objects wait.
var waitingLabels = map[placementv1.WaitingReason]string{
	placementv1.WaitingForBudget: metrics.WaitingBudget, placementv1.WaitingForWindow: metrics.WaitingWindow,
	placementv1.WaitingForApproval: metrics.WaitingApproval, placementv1.WaitingForAvailability: metrics.WaitingAvailability,
	placementv1.WaitingAfterFailures: metrics.WaitingFailures, placementv1.WaitingForDisruptionBudget: metrics.WaitingDisruption,
}

// rolloutLabels are the labels of metrics for the states of a rollout.
var rolloutLabels = map[placementv1.RolloutState]string{
	placementv1.RolloutProgressing: metrics.RolloutProgressing, placementv1.RolloutSoaking: metrics.RolloutSoaking,
	placementv1.RolloutWaitingForApproval: metrics.RolloutWaitingForApproval, placementv1.RolloutPaused: metrics.RolloutPaused,
	placementv1.RolloutComplete: metrics.RolloutComplete, placementv1.RolloutRolledBack: metrics.RolloutRolledBack,
}

// objectsByRule returns the number of objects that each rule decides, by its name; 0 for a rule without a number.
func objectsByRule(rules []placementv1.RuleStatus) map[string]int {
	out := map[string]int{}
	for _, rule := range rules {
		out[rule.Name] = int(ptr.Deref(rule.Objects, 0))
	}
	return out
}

// objectsByReason returns the number of objects that wait for each reason in status.waiting, by the reason's label in metrics. Reasons that
// are not there are absent.
func objectsByReason(s placementv1.PlacementPolicyStatus) map[string]int {
	out := map[string]int{}
	for _, w := range s.Waiting {
		out[waitingLabels[w.Reason]] = int(w.Objects)
	}
	return out
}

// rolloutOf returns how far a policy is rolled out, for metrics: the state, the number of stages, and how many of them are reached; nil for
// a policy without a rollout.
func rolloutOf(s *placementv1.RolloutStatus) *metrics.Rollout {
	if s == nil {
		return nil
	}
	return &metrics.Rollout{State: rolloutLabels[s.State], Stages: len(s.Stages), Reached: int(ptr.Deref(s.Reached, 0))}
}
