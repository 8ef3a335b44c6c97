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

package remediator

import (
	"context"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/remediation"
)

// emit emits an Event on the object, unless too many that are alike came lately. emitSums reports how many it left out. cause says why the
// policies act; it is empty if Events of different causes are bounded together.
func (c *Controller) emit(s *scope, kind events.Kind, due remediation.Due, cause, message string) {
	of := events.Alike{Kind: kind, Namespace: s.key.Namespace, Policy: due[0].Policy.Name, Policies: due.Policies(), Cause: cause}
	if c.limiter.Permits(of) {
		c.Events.OnObject(s.object, s.key.Namespace, kind, message)
	}
}

// sumTexts describe events that were not emitted, by their kind.
var sumTexts = map[events.Kind]string{
	events.Remediated:         "%d more objects were patched",
	events.Evicted:            "%d more Pods were evicted",
	events.RemediationFailed:  "%d more patches failed, possibly for other reasons than those in the Events on the first objects",
	events.RemediationStopped: "%d more objects are not patched for now, possibly for other reasons than those in the Events on the first objects",
}

// emitSums emits sums of the events that emit did not emit: those that are due, or all of them. A sum is on the namespace of the objects.
// That of objects without a namespace is on the policy.
func (c *Controller) emitSums(ctx context.Context, all bool) {
	for _, sum := range c.limiter.Sums(all) {
		message := sum.Policies + ": " + fmt.Sprintf(sumTexts[sum.Kind], sum.Events)
		if sum.Cause != "" {
			message += "; cause: " + sum.Cause
		}
		if sum.Namespace != "" {
			c.Events.SumOnNamespace(sum.Namespace, sum.Kind, message)
		} else {
			c.Events.SumOnPolicy(ctx, c.Policies, sum.Policy, sum.Kind, message)
		}
	}
}

// causeNote is the part of the note of an Event that says why an object was moved.
func causeNote(reasons remediation.Reasons) string {
	out := strings.Join(reasons.Shown, ", ")
	if len(reasons.ApprovedBy) > 0 {
		out += "; approved by " + strings.Join(reasons.ApprovedBy, ", ")
	}
	return out
}
