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
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/tracing"
)

// record records the decisions, and finds out which of them require a patch. It proceeds if there are any, and if the
// object settles.
func (c *Controller) record(ctx context.Context, s *scope) (proceed bool, err error) {
	verdicts := s.outcome.Verdicts
	c.decideAgain(s.key, verdicts, c.groups.Record(s.key, s.decisions))
	s.result.RequeueAfter = c.remoteQueue.decided(s.key, verdicts)
	for _, v := range verdicts {
		if !v.Until.IsZero() {
			// A moment later, so that the time has come on the replica that decides the patch as well.
			s.retryWithin(v.Until.Sub(c.Clock.Now()) + time.Second)
		}
	}
	remediation.Qualify(s.object, verdicts)
	unsettled := c.unsettled(ctx, s)
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(tracing.Decision.String(s.outcome.Digest()))
	}
	c.conclude(ctx, c.Ledger.Record(s.key, s.object.GetUID(), s.object.GetResourceVersion(), verdicts, unsettled)...)
	c.objects.recorded(s.key)
	s.due = c.Ledger.Permit(s.key, s.object.GetUID(), verdicts)
	c.Scheduler.Decided(s.key, s.due)
	return len(s.due) > 0 && !unsettled, nil
}

// unsettled reports whether the object must not be patched because it does not keep what Berth patches. If others change it back,
// the ledger gets to know who.
func (c *Controller) unsettled(ctx context.Context, s *scope) bool {
	judged := c.Scheduler.Judge(c.Clock.Now(), s.key, remediation.Decided{Object: s.object, Verdicts: s.outcome.Verdicts, Decisions: s.decisions})
	if judged.Standing == remediation.Settling {
		return judged.TooOften
	}
	s.retryWithin(judged.Again)
	if !judged.Began {
		return true
	}
	why := "its decision changes after each patch"
	if judged.Standing == remediation.Contested {
		by := c.writerOf(ctx, s, judged.Due)
		c.Ledger.Contest(s.key, by, remediation.Names(judged.Due)...)
		why = by + " changes it back after each patch"
	}
	c.Events.OnObject(s.object, s.key.Namespace, events.RemediationStopped, fmt.Sprintf("%s: %s, so Berth leaves it alone for %s, or until a policy for its type changes", judged.Due.Policies(), why, judged.Again.Round(time.Minute)))
	return true
}

// writerOf returns who changes the object back: a field manager, as the API server recorded it. The cached object does not have the
// field managers.
func (c *Controller) writerOf(ctx context.Context, s *scope, due remediation.Due) string {
	live, err := c.Client.Resource(s.key.Resource).Namespace(s.key.Namespace).Get(ctx, s.key.Name, metav1.GetOptions{})
	if err == nil {
		if manager := remediation.ManagerOf(live.GetManagedFields(), due); manager != "" {
			return fmt.Sprintf("field manager %q", manager)
		}
	}
	return "another client"
}

// usesPredicates reports whether a version that decides evaluates predicates.
func (c *Controller) usesPredicates(p *placement.Policy) bool {
	return usesPredicates(c.Registry.Get(p.Name).BindingOf(p))
}

// decideAgain enqueues objects that must be decided again after the decision on one of them. If that object itself was
// overtaken by a change, and predicates or a remote engine took part, it waits for predicateSettle; otherwise continuous
// changes would cause continuous decisions. If an engine failed, it is retried anyway, with the backoff of failures.
func (c *Controller) decideAgain(decided remediation.Key, verdicts []*placement.Verdict, again []remediation.Key) {
	if len(again) == 0 {
		return
	}
	settles := func(v *placement.Verdict) bool { return isRemote(v) || c.usesPredicates(v.Policy) }
	if slices.Contains(again, decided) && slices.ContainsFunc(verdicts, settles) {
		again = slices.DeleteFunc(again, func(key remediation.Key) bool { return key == decided })
		if !slices.ContainsFunc(verdicts, isTemporary) {
			c.objects.enqueueAfter(decided, predicateSettle)
		}
	}
	policies := make([]*placement.Policy, len(verdicts))
	for i, v := range verdicts {
		policies[i] = v.Policy
	}
	// A change of data may be found here before the sweep that it causes.
	c.enqueueTogether(remediation.Cause{Data: sets.New("data that the policy reads")}, policies, again)
}
