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

package waiting_test

import (
	"testing"
	"time"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/waiting"
	"github.com/berth-dev/berth/internal/window"
)

// TestOf checks what is said of an existing object that a policy decides otherwise than it is.
func TestOf(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	night := []placementv1.RemediationWindow{{Start: "0 22 * * *"}}
	night[0].Duration.Duration = time.Hour
	const orUpdate = ", or for an update that changes what the policy reads or writes"
	const approval, opens = "for an approval of the plan of PlacementPolicy p (kubectl berth approve p)",
		"for a window of PlacementPolicy p, the next of which opens at 2026-03-02T22:00:00Z"
	approved := &placementv1.RemediationPlan{State: placementv1.PlanInProgress, Approval: &placementv1.PlanApproval{User: "alice"}}
	for name, test := range map[string]struct {
		policy placement.Policy
		status placementv1.PlacementPolicyStatus
		now    time.Time
		want   string
	}{
		"Automatic":     {policy: placement.Policy{Remediation: placementv1.RemediationAutomatic}},
		"Approval":      {policy: placement.Policy{Remediation: placementv1.RemediationApproved}, want: approval + orUpdate},
		"Approved":      {policy: placement.Policy{Remediation: placementv1.RemediationApproved}, status: placementv1.PlacementPolicyStatus{Plan: approved}},
		"Window":        {policy: placement.Policy{Remediation: placementv1.RemediationAutomatic, Windows: window.ParseAll(night)}, want: opens + orUpdate},
		"OpenWindow":    {policy: placement.Policy{Remediation: placementv1.RemediationAutomatic, Windows: window.ParseAll(night)}, now: noon.Add(10*time.Hour + time.Minute)},
		"InvalidWindow": {policy: placement.Policy{Remediation: placementv1.RemediationAutomatic, Windows: window.Windows{{}}}, want: "for a window of PlacementPolicy p, none of which ever opens" + orUpdate},
		"Both":          {policy: placement.Policy{Remediation: placementv1.RemediationApproved, Windows: window.ParseAll(night)}, want: approval + ", and then " + opens + orUpdate},
		"Budget": {
			policy: placement.Policy{Remediation: placementv1.RemediationAutomatic, Budget: placementv1.RemediationBudget{MaxPerMinute: 1}},
			want:   "for its turn within the manager's flags --remediation-max-* and spec.remediation.budget of PlacementPolicy p" + orUpdate,
		},
		"Group": {
			policy: placement.Policy{Remediation: placementv1.RemediationAutomatic, Budget: placementv1.RemediationBudget{Group: "moves"}},
			want:   "for its turn within the manager's flags --remediation-max-* and spec.remediation.budget of PlacementPolicy p, which the policies of the group moves share" + orUpdate,
		},
		"Failures": {
			policy: placement.Policy{Remediation: placementv1.RemediationAutomatic},
			status: placementv1.PlacementPolicyStatus{Failures: &placementv1.MoveFailures{Pause: "3-x", PausedNamespaces: []string{"shop"}}},
			want: "until the patches of PlacementPolicy p, of which too many failed, are resumed " +
				"(kubectl annotate plpol p --overwrite placement.berth.dev/resume-after-failures=3-x)",
		},
		"FailuresElsewhere": {
			policy: placement.Policy{Remediation: placementv1.RemediationAutomatic},
			status: placementv1.PlacementPolicyStatus{Failures: &placementv1.MoveFailures{Pause: "3-x", PausedNamespaces: []string{"bank"}}},
		},
		"BlastRadius": {
			policy: placement.Policy{Remediation: placementv1.RemediationAutomatic}, status: placementv1.PlacementPolicyStatus{Paused: &placementv1.PausedChange{Change: "x"}},
			want: "until the remediation of PlacementPolicy p, which a change paused, is resumed (the policy's condition Paused has the command)",
		},
		"Manual": {policy: placement.Policy{Remediation: placementv1.RemediationManual}, want: "for an update that changes what PlacementPolicy p reads or writes (spec.remediation.mode of PlacementPolicy p is Manual)"},
		"Off":    {policy: placement.Policy{Remediation: placementv1.RemediationOff}, want: "for its next update (spec.remediation.mode of PlacementPolicy p is Off)"},
	} {
		if test.now.IsZero() {
			test.now = noon
		}
		test.policy.Name = "p"
		if got := waiting.Of(&test.policy, test.status, "shop", test.now).String(); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestOfRollout(t *testing.T) {
	for state, want := range map[placementv1.RolloutState]string{
		placementv1.RolloutWaitingForApproval: "for an approval of the next stage of PlacementPolicy p (kubectl berth approve p)",
		placementv1.RolloutSoaking:            "until a stage of PlacementPolicy p has soaked (status.rollout.message says until when)",
		placementv1.RolloutProgressing:        "",
	} {
		if got := waiting.OfRollout("p", &placementv1.RolloutStatus{State: state}).String(); got != want {
			t.Errorf("%s: got %q, want %q", state, got, want)
		}
	}
	if got := waiting.OfRollout("p", nil); got != nil {
		t.Errorf("without a rollout: %v", got)
	}
}
