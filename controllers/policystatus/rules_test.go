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

package policystatus_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/policystatus"
	"github.com/berth-dev/berth/internal/findings"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/status"
)

// TestRuleCounts checks that the status has each rule of the version in force, and those of an earlier version that decide objects.
func TestRuleCounts(t *testing.T) {
	f := sound()
	f.State.Policy.Rules, f.Report.Rules = []string{"eu", "any"}, map[string]int{"old": 1, "eu": 3}
	want := []placementv1.RuleStatus{{Name: "eu", Objects: new(int32(3))}, {Name: "any", Objects: new(int32(0))}, {Name: "old", Objects: new(int32(1))}}
	got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, f)
	if diff := cmp.Diff(want, got.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	// While objects are decided again, the counts stay.
	f.Report.Rules, f.Report.Assessing = map[string]int{"any": 1}, true
	if diff := cmp.Diff(want, policystatus.Compute(got, f).Rules); diff != "" {
		t.Errorf("rules while objects are decided (-want +got):\n%s", diff)
	}
	f.Report.Assessing, f.State.Policy.Remediation = false, placementv1.RemediationOff
	if after := policystatus.Compute(got, f).Rules; after != nil {
		t.Errorf("rules of a policy that looks at no existing objects: %v", after)
	}
}

// TestWaitsFor checks the summary of what objects and the rollout wait for, and whose window it is.
func TestWaitsFor(t *testing.T) {
	f := sound()
	f.Report.Moved, f.Report.Violations = 3, 3
	f.Waiting = remediation.Waiting{Paced: 1, Closed: 2, ClosedFor: "other"}
	f.Rollout = &placementv1.RolloutStatus{State: placementv1.RolloutSoaking, Reached: new(int32(1))}
	got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, f)
	if want := "Budget (1), Window (2), Soak"; got.WaitsFor != want {
		t.Errorf("got %q, want %q", got.WaitsFor, want)
	}
	want := []placementv1.WaitingObjects{
		{Reason: placementv1.WaitingForBudget, Objects: 1, Message: "for its turn within the manager's flags --remediation-max-* and spec.remediation.budget of PlacementPolicy p, or for an update that changes what the policy reads or writes"},
		{Reason: placementv1.WaitingForWindow, Objects: 2, Message: "for a window of PlacementPolicy other, none of which ever opens, or for an update that changes what the policy reads or writes"},
	}
	if diff := cmp.Diff(want, got.Waiting); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
}

// TestFindingsOfCounts checks that a finding that depends on the number of matched objects is in the status while it holds.
func TestFindingsOfCounts(t *testing.T) {
	f := sound()
	f.Types = &status.TypeState{Others: []findings.Finding{{Message: "too many", Below: 9}}}
	for matched, want := range map[int]int{0: 0, 4: 0, 5: 1, 8: 1, 9: 0} {
		f.Report.Matched = matched
		if got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, f).Findings; len(got) != want {
			t.Errorf("%d matched objects: findings %v, want %d", matched, got, want)
		}
	}
}

// TestFindingsOfCountsStay checks that such a finding does not come and go with single objects.
func TestFindingsOfCountsStay(t *testing.T) {
	f, old := sound(), placementv1.PlacementPolicyStatus{}
	f.Types = &status.TypeState{Others: []findings.Finding{{Message: "too many", Level: findings.Advice, Below: 9, Until: 17}}}
	for i, step := range []struct{ matched, want int }{
		{9, 0}, {8, 1}, {9, 1}, {16, 1}, {17, 0}, {16, 0}, {5, 1}, {4, 1}, {3, 1}, {2, 0}, {4, 0},
	} {
		f.Report.Matched = step.matched
		if old = policystatus.Compute(old, f); len(old.Findings) != step.want {
			t.Errorf("step %d, %d matched objects: findings %v, want %d", i, step.matched, old.Findings, step.want)
		}
	}
}

// TestFindingsOfNothing checks that a finding that holds while nothing is matched is in the status only then.
func TestFindingsOfNothing(t *testing.T) {
	f := sound()
	f.Types = &status.TypeState{Others: []findings.Finding{{Message: "matches nothing", Level: findings.Advice, Unmatched: true}}}
	for matched, want := range map[int]int{0: 1, 1: 0, 9: 0} {
		f.Report.Matched = matched
		if got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, f).Findings; len(got) != want {
			t.Errorf("%d matched objects: findings %v, want %d", matched, got, want)
		}
	}
	// How many objects match is not known.
	f.Report.Matched, f.State.Policy.Remediation = 0, placementv1.RemediationOff
	if got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, f).Findings; len(got) > 0 {
		t.Errorf("an unknown number of matched objects: findings %v", got)
	}
}
