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
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/berth-dev/berth/internal/decisionlog"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/printable"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/tracing"
)

// emit emits an Event on the object, unless too many that are alike came lately. cause says why the policies act; it is empty for Events
// that have no causes.
func (c *Controller) emit(s *scope, kind events.Kind, due remediation.Due, cause, message string) {
	of := events.Alike{Kind: kind, Namespace: s.key.Namespace, Policy: due[0].Policy.Name, Policies: due.Policies()}
	if c.limiter.Count(of, cause) {
		c.Events.OnObject(s.object, s.key.Namespace, kind, message)
	}
}

// emitSums emits the sums of the Events that emit left out: those that are due, or all of them.
func (c *Controller) emitSums(ctx context.Context, all bool) {
	for _, sum := range c.limiter.Sums(all) {
		c.Events.OnSum(ctx, c.Policies, sum)
	}
}

// causeNote returns the part of the note of an Event that says why an object was moved, without causes that not all readers of the Event
// may know, and who approved the move, if it was approved; "" if there is nothing to say.
func causeNote(reasons remediation.Reasons) string {
	out := strings.Join(reasons.Shown, ", ")
	if len(reasons.ApprovedBy) > 0 {
		out += "; approved by " + strings.Join(reasons.ApprovedBy, ", ")
	}
	return out
}

// maxAction is the maximum length of the actions in the note of an Event, in bytes, so that there is room for the causes.
const maxAction = 603

// movedNote returns the note of the Event on an object that was moved: what was done, cut to maxAction bytes, then always "; cause: " with
// why, and who approved it, if it was approved.
func movedNote(action string, reasons remediation.Reasons) string {
	return printable.Truncate(action, maxAction) + "; cause: " + causeNote(reasons)
}

// logMove writes to the log of decisions and the trace that an object was patched or evicted. The duration in the log is that since the
// cause, or since began if the time of the cause is not known.
func (c *Controller) logMove(ctx context.Context, s *scope, outcome string, began time.Time, reasons remediation.Reasons) {
	trace.SpanFromContext(ctx).SetAttributes(tracing.Cause.StringSlice(reasons.Causes))
	if !reasons.Since.IsZero() {
		began = reasons.Since
	}
	action := decisionlog.Patched
	if outcome == metrics.RemediationEvicted {
		action = decisionlog.Evicted
	}
	now := c.Clock.Now()
	c.Decisions.Write(ctx, now, decisionlog.Entry{
		Source: decisionlog.Remediation, Action: action,
		Object: decisionlog.ObjectOf(s.key.Resource, s.key.Namespace, s.object), Policies: decisionlog.PoliciesOf(s.due),
		Changes: decisionlog.ChangesOf(s.due, nil), Causes: reasons.Causes, Plans: reasons.Plans, ApprovedBy: reasons.ApprovedBy,
		DurationSeconds: now.Sub(began).Seconds(),
	})
}
