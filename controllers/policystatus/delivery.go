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
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/status"
)

// modeReasons are the reasons of conditions of policies that are not enforced.
var modeReasons = map[placementv1.Mode]string{placementv1.ModeWarn: placementv1.ReasonWarnMode,
	placementv1.ModeDryRun: placementv1.ReasonDryRunMode}

// delivers reports whether the policy has spec.delivery, or decides objects that Berth delivers without it: objects of a multi-cluster
// system, which get their clusters themselves.
func (f Facts) delivers() bool { return f.State.Policy.Delivery != nil || f.Delivery.Placed > 0 }

// delivered returns status.delivery: the names of the multi-cluster systems, and how many objects are placed, delivered, and, if a system
// reports that, running. It returns nil if the policy delivers nothing.
func (f Facts) delivered() *placementv1.DeliveryStatus {
	if !f.delivers() {
		return nil
	}
	var names []string
	for _, system := range delivery.Systems(f.State.Policy.Delivery) {
		names = append(names, system.Name)
	}
	for _, name := range f.Delivery.Systems {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	out := &placementv1.DeliveryStatus{
		Systems: strings.Join(names, ","), Placed: new(int32(f.Delivery.Placed)), Delivered: new(int32(f.Delivery.Delivered)),
	}
	if f.Delivery.Runs() {
		out.Running = new(int32(f.Delivery.Running))
	}
	return out
}

// deliveredCondition returns the condition Delivered: True once all placed objects are delivered, and in all of their clusters and in no
// others. It is False before, and for a policy that is not enforced. It returns nil if the policy delivers nothing.
func (f Facts) deliveredCondition() *metav1.Condition {
	if !f.delivers() {
		return nil
	}
	r := f.Delivery
	var out *metav1.Condition
	switch progress := fmt.Sprintf("%d of %d placed objects are delivered", r.Delivered, r.Placed); {
	case f.State.Policy.Mode != placementv1.ModeEnforce:
		out = status.False(modeReasons[f.State.Policy.Mode], "a policy that is not enforced delivers nothing")
	case r.FirstFailed != nil:
		out = status.False(r.FirstFailed.Failure.Reason, fmt.Sprintf("%s; %d failed, the first is %s: %s", progress, r.Failed,
			subject(r.FirstFailed),
			r.FirstFailed.Failure.Message))
	case r.FirstRemaining != nil:
		out = status.False(placementv1.ReasonDelivering, fmt.Sprintf("%s; %d are still in clusters that they have to leave, the first is "+
			"%s: %s; if that lasts, see whether the system reaches the cluster, or delete the workload there", progress, r.Remaining,
			subject(r.FirstRemaining),
			r.FirstRemaining.Run.Message))
	case r.FirstSurging != nil:
		out = status.False(placementv1.ReasonDelivering, fmt.Sprintf("%s; %d stay in clusters that they have to leave, until they run in "+
			"their new clusters and the objects that they contain have left, the first is %s: it stays in %s", progress, r.Surging,
			subject(r.FirstSurging),
			status.FirstNames(strings.Split(r.FirstSurging.Kept, ","))))
	case r.FirstAbsent != nil:
		out = status.False(placementv1.ReasonDelivering, fmt.Sprintf("%s; %d are not in all of their clusters, the first is %s: %s; if "+
			"that lasts, see what keeps the system from bringing it there, or have the policy decide another cluster", progress, r.Absent,
			subject(r.FirstAbsent), r.FirstAbsent.Run.Message))
	case r.Delivered < r.Placed || !f.DeliverySettled:
		out = status.False(placementv1.ReasonDelivering, progress)
	default:
		out = status.True(placementv1.ReasonDelivered, progress)
	}
	if r.FirstNoted != nil {
		out.Message += fmt.Sprintf("; %d are delivered without a part of their decision, the first is %s: %s", r.Noted,
			subject(r.FirstNoted), r.FirstNoted.Note)
	}
	if r.FirstUndecided != nil {
		out.Message += fmt.Sprintf("; no policy decides the clusters of %d more, which are not delivered, and keep what was delivered before: "+
			"the first is %s", r.Undecided, subject(r.FirstUndecided))
	}
	return out
}

// runningCondition returns the condition Running: True if all placed objects run in their clusters, and Unknown if that can't be known of
// one. It returns nil if the policy delivers nothing, or if no system reports where objects run.
func (f Facts) runningCondition() *metav1.Condition {
	r := f.Delivery
	if !f.delivers() || r.Reported == 0 {
		return nil
	}
	switch progress := fmt.Sprintf("%d of %d placed objects run in their clusters", r.Running, r.Reported); {
	case r.FirstUnknown != nil:
		return status.Unknown(r.FirstUnknown.Run.Reason, r.FirstUnknown.Run.Message)
	case r.FirstNotRunning != nil:
		return status.False(placementv1.ReasonNotRunning, fmt.Sprintf("%s; the first that does not is %s: %s", progress,
			subject(r.FirstNotRunning),
			r.FirstNotRunning.Run.Message))
	case !f.DeliverySettled:
		return status.False(placementv1.ReasonNotRunning, progress+" so far")
	default:
		return status.True(placementv1.ReasonRunning, progress)
	}
}

// delivery sets status.delivery and the conditions Delivered and Running. A new leader keeps those of old until all objects have a result.
func (s *setter) delivery(old placementv1.PlacementPolicyStatus, f Facts) {
	if !f.DeliverySettled && old.Delivery != nil {
		// A new leader has not looked at all objects yet.
		s.out.Delivery = old.Delivery
		return
	}
	s.out.Delivery = f.delivered()
	s.Set(placementv1.ConditionDelivered, f.deliveredCondition())
	s.Set(placementv1.ConditionRunning, f.runningCondition())
}

// asDelivered returns the condition Compliant: False with the reason NotDelivered if the policy is enforced, the condition Delivered is
// False for any reason, also while delivery only goes on, and compliant is not False for another reason; compliant otherwise. Objects that
// have their placement may then run in clusters that were not decided, or not in those that were, even if the policy does not decide
// existing objects.
func (s *setter) asDelivered(compliant *metav1.Condition, f Facts) *metav1.Condition {
	delivered := s.Find(placementv1.ConditionDelivered)
	if f.State.Policy.Mode != placementv1.ModeEnforce || delivered == nil || delivered.Status != metav1.ConditionFalse {
		return compliant
	}
	if compliant.Status == metav1.ConditionFalse && compliant.Reason != placementv1.ReasonNotDelivered {
		return compliant
	}
	return status.False(placementv1.ReasonNotDelivered,
		"workloads may run in clusters that were not decided, or may not run in clusters that were: "+delivered.Message)
}

// subject returns an object's name for a message, such as "deployments.apps shop/web".
func subject(o *delivery.ReportedObject) string {
	if o.Namespace == "" {
		return o.Resource.String() + " " + o.Name
	}
	return o.Resource.String() + " " + o.Namespace + "/" + o.Name
}
