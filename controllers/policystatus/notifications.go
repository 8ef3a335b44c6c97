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
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
)

// Notification is a change of a policy's status that an Event on the policy reports to users. The message has no names and values of
// objects, since users who may read the Event may not be allowed to read the objects.
type Notification struct {
	Kind    events.Kind // The kind of the Event.
	Message string
}

// starting are the reasons of the condition Ready that every policy has for a while after it is created or changed. No Event reports them.
var starting = []string{placementv1.ReasonNotInForce, placementv1.ReasonWebhookPending, placementv1.ReasonReplicating}

// Notifications returns the changes between two statuses of a policy that Events report to users.
func Notifications(before, after placementv1.PlacementPolicyStatus) []Notification {
	var out []Notification
	was, is := conditionOf(before, placementv1.ConditionReady), conditionOf(after, placementv1.ConditionReady)
	switch {
	case is.Status == metav1.ConditionTrue && was.Status != metav1.ConditionTrue:
		out = append(out, Notification{events.PolicyReady, is.Message})
	case is.Status != metav1.ConditionFalse || is.Reason == placementv1.ReasonObjectsUndecided || slices.Contains(starting, is.Reason):
	case was.Status != metav1.ConditionFalse || was.Reason != is.Reason:
		out = append(out, Notification{events.PolicyNotReady, is.Reason + ": " + notReady(is)})
	}
	switch undecidedBefore, undecidedNow := number(before.Undecided), number(after.Undecided); {
	case undecidedBefore == 0 && undecidedNow > 0:
		out = append(out, Notification{events.PolicyUndecided, fmt.Sprintf("%d objects can't be decided; the Ready condition names one and says "+
			"why, or, if it is False for another reason, the Compliant condition does", undecidedNow)})
	case undecidedBefore > 0 && undecidedNow == 0 && after.Undecided != nil:
		out = append(out, Notification{events.PolicyDecided, "all existing objects can be decided"})
	}
	if differed, differ := violations(before), violations(after); differed == 0 && differ > 0 {
		out = append(out, Notification{events.PolicyViolated, fmt.Sprintf("%d of %d objects differ from what the policy decides: the policy "+
			"would deny %d and move %d", differ, number(after.Matched), number(after.WouldDeny), number(after.WouldMove))})
	}
	was, is = conditionOf(before, placementv1.ConditionReplicated), conditionOf(after, placementv1.ConditionReplicated)
	if is.Reason == placementv1.ReasonAmbiguousClusters && (was.Reason != is.Reason || was.Message != is.Message) {
		out = append(out, Notification{events.ClustersAmbiguous, "several objects of the inventories have the same cluster name, so the " +
			"policy places nothing in this cluster; the condition Replicated names them"})
	}
	return slices.Concat(out, rolled(before.Rollout, after.Rollout), planned(before.Plan, after.Plan), approved(before.Plan, after.Plan),
		unapproved(before, after), undelivered(before, after))
}

// notReady returns the message of the condition Ready, without the error of a push to a remote engine that fails, which may name objects.
func notReady(ready metav1.Condition) string {
	if ready.Reason == placementv1.ReasonPushFailed {
		return "Berth can't push what the policy needs to the engine; see the Replicated condition"
	}
	return ready.Message
}

// delivering are the reasons with which Delivered is False although no delivery fails: no Event reports them.
var delivering = []string{placementv1.ReasonDelivering, placementv1.ReasonWarnMode, placementv1.ReasonDryRunMode}

// undelivered returns a notification that a delivery fails, if Delivered is False for another reason than before, and not because delivery
// only goes on or the policy is not enforced. It returns none otherwise, also if only the message changed.
func undelivered(before, after placementv1.PlacementPolicyStatus) []Notification {
	was, is := conditionOf(before, placementv1.ConditionDelivered), conditionOf(after, placementv1.ConditionDelivered)
	if after.Delivery == nil || is.Status != metav1.ConditionFalse || is.Reason == was.Reason || slices.Contains(delivering, is.Reason) {
		return nil
	}
	return []Notification{{events.DeliveryFailed,
		fmt.Sprintf("%s: %d of %d placed objects are delivered; the condition Delivered has the first that failed, and why",
			is.Reason, number(after.Delivery.Delivered), number(after.Delivery.Placed))}}
}

// approved returns a notification that a plan was approved, also if another user had approved it before; none if after is not approved, or
// the same user had approved the same plan. Both plans may be nil.
func approved(before, after *placementv1.RemediationPlan) []Notification {
	if after == nil || after.Approval == nil {
		return nil
	}
	if before != nil && before.Digest == after.Digest && before.Approval != nil && before.Approval.User == after.Approval.User {
		return nil
	}
	return []Notification{{events.PlanApproved, fmt.Sprintf("plan %s was approved by %s", after.Digest, after.Approval.User)}}
}

// unapproved returns a notification that a plan waits for an approval, if its state has become that or its digest differs from before, also
// while remediation is paused for another reason; or that the annotation of the policy approves a plan that Berth does not know.
func unapproved(before, after placementv1.PlacementPolicyStatus) []Notification {
	was, is := conditionOf(before, placementv1.ConditionPaused), conditionOf(after, placementv1.ConditionPaused)
	old, plan := ptr.Deref(before.Plan, placementv1.RemediationPlan{}), ptr.Deref(after.Plan, placementv1.RemediationPlan{})
	switch {
	case is.Reason == placementv1.ReasonUnknownPlan:
		if was.Reason == is.Reason && was.Message == is.Message {
			return nil
		}
		return []Notification{{events.PlanNotApproved, is.Message}}
	case plan.State != placementv1.PlanWaitingForApproval, plan.State == old.State && plan.Digest == old.Digest:
		return nil
	}
	// Remediation may also be paused for another reason, which the condition Paused then has.
	message := fmt.Sprintf("plan %s moves %d objects, and waits for an approval; the policy's condition Paused has "+
		"the command that approves it", plan.Digest, plan.Moves)
	return []Notification{{events.PlanWaits, message}}
}

// rolled returns the changes of a rollout that Events report. Both statuses may be nil.
func rolled(before, after *placementv1.RolloutStatus) []Notification {
	if after == nil {
		return nil
	}
	var out []Notification
	state, reached, revision := placementv1.RolloutState(""), int32(0), int64(0)
	if before != nil {
		state, reached, revision = before.State, number(before.Reached), before.Revision
	}
	if n := number(after.Reached); n > 0 && n <= int32(len(after.Stages)) && (n > reached || revision != after.Revision) &&
		after.State != placementv1.RolloutComplete {
		out = append(out, Notification{events.StageReached, fmt.Sprintf("revision %d decides in stage %s, %d of %d", after.Revision,
			after.Stages[n-1].Name, n, len(after.Stages))})
	}
	if state == after.State && revision == after.Revision {
		return out
	}
	switch after.State {
	case placementv1.RolloutWaitingForApproval:
		out = append(out, Notification{events.StageWaits, after.Message})
	case placementv1.RolloutPaused:
		out = append(out, Notification{events.RolloutPaused, after.Message})
	case placementv1.RolloutComplete:
		out = append(out, Notification{events.RolloutCompleted, fmt.Sprintf("revision %d decides everywhere", after.Revision)})
	case placementv1.RolloutRolledBack:
		out = append(out, Notification{events.RolledBack, fmt.Sprintf("revision %d decides everywhere, because spec.rollout.revision says so",
			after.Revision)})
	}
	return out
}

// planned returns a notification that a plan started or is completed; none if neither changed. Both plans may be nil.
func planned(before, after *placementv1.RemediationPlan) []Notification {
	if after == nil || before != nil && before.Digest == after.Digest && before.State == after.State {
		return nil
	}
	switch after.State {
	case placementv1.PlanInProgress:
		return []Notification{{events.PlanStarted, fmt.Sprintf("plan %s moves %d objects, because %s", after.Digest, after.Moves, after.Message)}}
	case placementv1.PlanCompleted:
		return []Notification{{events.PlanCompleted, fmt.Sprintf("plan %s is completed: none of its %d objects has to be moved any more",
			after.Digest, after.Moves)}}
	}
	return nil
}

// conditionOf returns the condition of a status with a type; an empty condition if there is none.
func conditionOf(s placementv1.PlacementPolicyStatus, name string) metav1.Condition {
	return ptr.Deref(meta.FindStatusCondition(s.Conditions, name), metav1.Condition{})
}

// violations returns the number of objects that the policy would deny or move. Unlike status.violations, it leaves out undecided objects.
func violations(s placementv1.PlacementPolicyStatus) int32 {
	return number(s.WouldDeny) + number(s.WouldMove)
}

// number returns the number to which n points; 0 for nil.
func number(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}
