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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/policystatus"
	"github.com/berth-dev/berth/internal/events"
)

// rollout returns the status of a rollout of revision 7 in two stages.
func rollout(state placementv1.RolloutState, reached int32, message string) *placementv1.RolloutStatus {
	return &placementv1.RolloutStatus{
		State: state, Revision: 7, PreviousRevision: 3, Reached: &reached, Message: message,
		Stages: []placementv1.RolloutStageStatus{{Name: "canary"}, {Name: "prod"}},
	}
}

func TestRolledOut(t *testing.T) {
	first := rollout(placementv1.RolloutProgressing, 1, "wait")
	first.PreviousRevision = 0
	tests := map[string]struct {
		rollout *placementv1.RolloutStatus
		pending bool
		// reason is empty for no condition.
		status          metav1.ConditionStatus
		reason, message string
		// ready is part of the message of Ready.
		ready string
	}{
		"None":        {ready: "generation"},
		"Pending":     {pending: true, status: metav1.ConditionFalse, reason: placementv1.ReasonRollingOut, message: "the newest version is in force nowhere", ready: "in force nowhere"},
		"NotReached":  {rollout: rollout(placementv1.RolloutProgressing, 0, "wait"), status: metav1.ConditionFalse, reason: placementv1.ReasonRollingOut, message: "revision 7 decides in no stage yet, and revision 3 decides everywhere: wait", ready: "revision 3 decides everywhere"},
		"FirstStage":  {rollout: rollout(placementv1.RolloutSoaking, 1, "wait"), status: metav1.ConditionFalse, reason: placementv1.ReasonRollingOut, message: "revision 7 decides in the first 1 of 2 stages, and revision 3 decides everywhere else: wait", ready: "revision 3 decides everywhere else"},
		"NewPolicy":   {rollout: first, status: metav1.ConditionFalse, reason: placementv1.ReasonRollingOut, message: "no version decides everywhere else", ready: "no version decides everywhere else"},
		"Waits":       {rollout: rollout(placementv1.RolloutWaitingForApproval, 1, "approve"), status: metav1.ConditionFalse, reason: placementv1.ReasonWaitingForApproval, message: "approve", ready: "approve"},
		"Paused":      {rollout: rollout(placementv1.RolloutPaused, 1, "failed"), status: metav1.ConditionFalse, reason: placementv1.ReasonRolloutPaused, message: "failed", ready: "failed"},
		"Complete":    {rollout: rollout(placementv1.RolloutComplete, 2, ""), status: metav1.ConditionTrue, reason: placementv1.ReasonRolledOut, message: "revision 7 decides everywhere", ready: "generation"},
		"RolledBack":  {rollout: rollout(placementv1.RolloutRolledBack, 0, ""), status: metav1.ConditionFalse, reason: placementv1.ReasonRolledBack, message: "because spec.rollout.revision says so", ready: "spec.rollout.revision"},
		"Lost":        {rollout: rollout(placementv1.RolloutComplete, 2, "not stored"), status: metav1.ConditionFalse, reason: placementv1.ReasonRolloutPaused, message: "revision 7 decides everywhere: not stored", ready: "not stored"},
		"NextPending": {rollout: rollout(placementv1.RolloutComplete, 2, ""), pending: true, status: metav1.ConditionFalse, reason: placementv1.ReasonRollingOut, message: "ControllerRevision", ready: "in force nowhere"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			facts := sound()
			facts.Rollout, facts.RolloutPending = tc.rollout, tc.pending
			got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
			c := meta.FindStatusCondition(got.Conditions, placementv1.ConditionRolledOut)
			switch {
			case (c == nil) != (tc.reason == ""):
				t.Errorf("condition %+v", c)
			case c != nil && (c.Status != tc.status || c.Reason != tc.reason || !strings.Contains(c.Message, tc.message)):
				t.Errorf("condition %s %s: %s", c.Status, c.Reason, c.Message)
			}
			if ready := meta.FindStatusCondition(got.Conditions, placementv1.ConditionReady); ready.Status != metav1.ConditionTrue || !strings.Contains(ready.Message, tc.ready) {
				t.Errorf("Ready: %s: %s", ready.Status, ready.Message)
			}
		})
	}
}

func TestNotificationsOfRollouts(t *testing.T) {
	next := rollout(placementv1.RolloutProgressing, 1, "")
	next.Revision = 8
	reached := policystatus.Notification{Kind: events.StageReached, Message: "revision 7 decides in stage canary, 1 of 2"}
	tests := map[string]struct {
		before, after *placementv1.RolloutStatus
		want          []policystatus.Notification
	}{
		"None":      {},
		"Removed":   {before: rollout(placementv1.RolloutProgressing, 1, "")},
		"Begun":     {after: rollout(placementv1.RolloutProgressing, 1, ""), want: []policystatus.Notification{reached}},
		"Unchanged": {before: rollout(placementv1.RolloutProgressing, 1, "a"), after: rollout(placementv1.RolloutProgressing, 1, "b")},
		"NextStage": {
			before: rollout(placementv1.RolloutSoaking, 1, ""), after: rollout(placementv1.RolloutProgressing, 2, ""),
			want: []policystatus.Notification{{Kind: events.StageReached, Message: "revision 7 decides in stage prod, 2 of 2"}},
		},
		"Superseded": {
			before: rollout(placementv1.RolloutSoaking, 1, ""), after: next,
			want: []policystatus.Notification{{Kind: events.StageReached, Message: "revision 8 decides in stage canary, 1 of 2"}},
		},
		"Waits": {
			before: rollout(placementv1.RolloutSoaking, 1, ""), after: rollout(placementv1.RolloutWaitingForApproval, 1, "approve"),
			want: []policystatus.Notification{{Kind: events.StageWaits, Message: "approve"}},
		},
		"Paused": {
			before: rollout(placementv1.RolloutProgressing, 1, ""), after: rollout(placementv1.RolloutPaused, 1, "failed"),
			want: []policystatus.Notification{{Kind: events.RolloutPaused, Message: "failed"}},
		},
		"Completed": {
			before: rollout(placementv1.RolloutSoaking, 2, ""), after: rollout(placementv1.RolloutComplete, 2, ""),
			want: []policystatus.Notification{{Kind: events.RolloutCompleted, Message: "revision 7 decides everywhere"}},
		},
		"RolledBack": {
			before: rollout(placementv1.RolloutPaused, 1, ""), after: rollout(placementv1.RolloutRolledBack, 0, ""),
			want: []policystatus.Notification{{Kind: events.RolledBack, Message: "revision 7 decides everywhere, because spec.rollout.revision says so"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := policystatus.Notifications(placementv1.PlacementPolicyStatus{Rollout: tc.before}, placementv1.PlacementPolicyStatus{Rollout: tc.after})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("notifications (-want +got):\n%s", diff)
			}
		})
	}
}
