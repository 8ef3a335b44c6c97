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
	"slices"
	"testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/metrics"
)

// TestLabelsOfMetrics checks that each state of a rollout and each reason to wait has a label of metrics of its own.
func TestLabelsOfMetrics(t *testing.T) {
	for _, m := range metrics.All() {
		for _, l := range m.Labels {
			var got []string
			switch m.Name + " " + l.Name {
			case "berth_policy_waiting reason":
				for _, label := range waitingLabels {
					got = append(got, label)
				}
			case "berth_policy_rollout_state state":
				for state, label := range rolloutLabels {
					got = append(got, label)
					want := metrics.Rollout{State: label, Stages: 2, Reached: 1}
					if r := rolloutOf(&placementv1.RolloutStatus{State: state, Reached: new(int32(1)), Stages: make([]placementv1.RolloutStageStatus, 2)}); *r != want {
						t.Errorf("%s is %+v", state, r)
					}
				}
			default:
				continue
			}
			slices.Sort(got)
			if want := slices.Sorted(slices.Values(l.Values)); !slices.Equal(got, want) {
				t.Errorf("%s has the values %q of label %s, want %q", m.Name, got, l.Name, want)
			}
		}
	}
	if rolloutOf(nil) != nil {
		t.Error("a policy without a rollout has one")
	}
}
