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
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/internal/attempts"
	"github.com/berth-dev/berth/internal/decisions"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/feasibility"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/patching"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/tracing"
)

// retryDelay is the delay before an object is tried again whose fields are not all fetched yet, that has not been delivered yet, or that
// another client changed. A watch usually enqueues it before that.
const retryDelay = time.Second

// gather gets the newest version of the object from the cache. It reports whether the object can be decided now. It can't if it no longer
// exists, so that gather drops all records of it, or while fields that decisions need are not fetched.
func (c *Controller) gather(ctx context.Context, s *scope) bool {
	read := c.objects.Take
	if s.task != nil {
		read = c.objects.Get
	}
	if s.object, s.fields = read(s.key); s.object == nil {
		c.Scheduler.Forget(c.Clock.Now(), s.key)
		c.groups.Forget(s.key)
		c.remoteQueue.forget(s.key)
		c.conclude(ctx, c.Ledger.Forget(s.key)...)
		return false
	}
	if c.Decider.RecordsScheduling(s.object, s.key.Namespace) && c.types.addScheduled(s.key.Resource) {
		c.rewatch.Notify()
	}
	if !s.fields.Covers(c.types.fields(s.key.Resource)) {
		s.retryWithin(retryDelay)
		return false
	}
	return true
}

// decide evaluates all policies on the object. It reports whether the result counts. It does not if the decision of the object as a whole
// failed (see scope.err), if a policy needs fields that are missing, or if the remoteQueue has to decide the object.
func (c *Controller) decide(ctx context.Context, s *scope) bool {
	if err := c.assessObject(ctx, s); err != nil {
		tracing.Fail(trace.SpanFromContext(ctx), err)
		c.Ledger.Skip(s.key)
		c.objects.Recorded(s.key)
		c.conclude(ctx)
		s.err = fmt.Errorf("deciding %s: %w", s.key, err)
		return false
	}
	verdicts := s.outcome.Verdicts
	lacks := func(v *placement.Verdict) bool { return !s.fields.Covers(v.Policy.Evaluator.Input()) }
	if !s.fields.Covers(c.types.fields(s.key.Resource)) || slices.ContainsFunc(verdicts, lacks) {
		// A policy was added meanwhile, or reads more than the analysis found, and may have seen an incomplete object.
		c.FieldsReadChanged()
		s.retryWithin(retryDelay)
		return false
	}
	if s.task != nil {
		s.waits = !c.remoteQueue.commit(s.task, s.object)
		return !s.waits
	}
	endpoints := endpointsOf(verdicts)
	if endpoints != "" {
		// A policy patches nothing before all objects of an assessment are decided. A remote engine may be slow, so from now on only the
		// policies that match the object wait for it.
		c.Ledger.Await(s.key, remediation.Names(verdicts)...)
		c.conclude(ctx)
	}
	s.waits = c.remoteQueue.takeOver(s.key, endpoints)
	return !s.waits
}

// assessObject sets the outcome and the decisions to what Decider.Assess returns for an update that changes nothing. If it queried engines,
// it decides the object again with their responses, because policies and namespaces may have changed meanwhile. The error is one of the
// object as a whole. That of a single policy, such as errPending or of a query, is in its verdict.
func (c *Controller) assessObject(ctx context.Context, s *scope) (err error) {
	request := c.request(s)
	for {
		if s.task != nil {
			s.task.again.Store(false)
		}
		known := len(s.responses)
		s.decisions = nil
		s.outcome, err = c.Decider.Assess(ctx, request)
		if err != nil || len(s.responses) == known {
			return err
		}
		for _, v := range s.outcome.Verdicts {
			if response := s.responses[v.Policy]; response != nil {
				// A client that panicked has no response, but an error in the verdict.
				response.Err = v.Err
			}
		}
	}
}

// request returns an update that does not change the object, by Berth's own user, as the request on which policies decide.
func (c *Controller) request(s *scope) placement.Request {
	return placement.Request{
		Resource: s.key.Resource, Namespace: s.key.Namespace, Object: s.object, Old: s.object, Evaluate: c.evaluator(s),
		Admission: placement.AdmissionOf(admissionv1.Update, s.key.Resource, s.key.Namespace, s.object, c.Identity),
	}
}

// evaluator returns the function that evaluates policies on the object. If an object with the same projection has a decision on the current
// data, the function reuses it. It returns errPending for a policy with a remote engine until the object has a task. It adds each decision
// to the scope.
func (c *Controller) evaluator(s *scope) func(context.Context, *placement.Policy, map[string]any) (placement.Decision, error) {
	return func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
		var decision *decisions.PolicyDecision
		if engine, remote := p.Remote(); !remote {
			if decision = c.groups.Lookup(p, input); !decision.Known {
				decision.Evaluated(c.evaluate(ctx, p, input))
			}
		} else if s.task == nil {
			return placement.Decision{}, errPending
		} else {
			decision = c.query(ctx, s, p, engine.Health().Endpoint, input)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.decisions = append(s.decisions, decision)
		return decision.Decision, decision.Err
	}
}

// query returns the response of a policy's engine to the object's task. It queries the engine once for each task and policy. It waits until
// fewer than maxRunningTasks queries to that endpoint run. A failure is in the response's Err.
func (c *Controller) query(ctx context.Context, s *scope, p *placement.Policy, endpoint string,
	input map[string]any) *decisions.PolicyDecision {
	s.mu.Lock()
	response := s.responses[p]
	s.mu.Unlock()
	if response != nil {
		return response
	}
	slot, _ := c.remoteQueue.slots.LoadOrStore(endpoint, semaphore.NewWeighted(maxRunningTasks))
	if slot := slot.(*semaphore.Weighted); slot.Acquire(ctx, 1) == nil {
		defer slot.Release(1)
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	response = decisions.NewPolicyDecision(p)
	s.mu.Lock()
	s.responses[p] = response
	s.mu.Unlock()
	response.Decision, response.Err = c.evaluate(ctx, p, input)
	return response
}

// evaluate evaluates a policy on an input, and measures and traces the evaluation.
func (c *Controller) evaluate(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
	return tracing.Evaluate(ctx, c.Clock, c.Metrics, metrics.SourceRemediation, p, input)
}

// record records the decisions in the ledger, and sets due. It reports whether the object must be patched: a decision requires a patch that
// needs no approval or has it, and earlier patches of the object lasted and were not too many.
func (c *Controller) record(ctx context.Context, s *scope) bool {
	verdicts := s.outcome.Verdicts
	c.decideAgain(s.key, verdicts, c.groups.Record(s.key, s.decisions))
	s.retryWithin(c.remoteQueue.decided(s.key, verdicts))
	for _, v := range verdicts {
		if !v.Until.IsZero() {
			// A moment later, so that the time has come on the replica that decides the patch as well.
			s.retryWithin(v.Until.Sub(c.Clock.Now()) + time.Second)
		}
	}
	feasibility.Qualify(s.object, verdicts)
	unsettled := c.judge(ctx, s)
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(tracing.Decision.String(s.outcome.Digest()))
	}
	c.blame(s.key, verdicts)
	c.conclude(ctx, c.Ledger.Record(s.key, s.object.GetUID(), s.object.GetResourceVersion(), verdicts, unsettled)...)
	_, _, clusters := s.outcome.ClustersIn(s.object)
	c.Ledger.Place(s.key, clusters, verdicts)
	c.objects.Recorded(s.key)
	s.due = c.Ledger.Permit(s.key, s.object.GetUID(), verdicts)
	c.Scheduler.Decided(s.key, s.due)
	return len(s.due) > 0 && !unsettled
}

// judge reports whether the object must not be patched because earlier patches of it did not last, or were too many. If another client
// reverts them, it tells the ledger the client's name. It emits an Event when it finds out that patches do not last.
func (c *Controller) judge(ctx context.Context, s *scope) bool {
	judged := c.Scheduler.Judge(c.Clock.Now(), s.key, s.object, s.outcome.Verdicts, decisions.DataOf(s.decisions))
	s.retryWithin(judged.Again)
	if judged.Stability == attempts.Settling {
		return judged.TooOften
	}
	if !judged.Began {
		return true
	}
	why := "the decision keeps changing after Berth's patch"
	if judged.Stability == attempts.Contested {
		by := c.Patcher.Reverter(ctx, s.key, judged.Due)
		c.Ledger.Contest(s.key, by, remediation.Names(judged.Due)...)
		why = fmt.Sprintf("%s changes the object back after each patch", by)
	}
	c.emit(s, events.RemediationStopped, judged.Due, "", fmt.Sprintf(
		"%s: %s, so Berth does not patch the object for %s, or until a policy for the object's type changes",
		judged.Due.Policies(), why, judged.Again.Round(time.Minute)))
	return true
}

// decideAgain enqueues the objects in again, which must be decided again after the decision on one of them. That object may be in again
// itself, because data changed during its decision. It then waits for predicateSettle if predicates or a remote engine took part, so that
// continuous changes don't cause continuous decisions. After a temporary failure it is not enqueued, because it is retried with backoff
// anyway.
func (c *Controller) decideAgain(decided remediation.Key, verdicts []*placement.Verdict, again []remediation.Key) {
	if len(again) == 0 {
		return
	}
	evaluatesPredicates := func(v *placement.Verdict) bool {
		return usesPredicates(c.Registry.Get(v.Policy.Name).BindingOf(v.Policy))
	}
	if slices.Contains(again, decided) && (endpointsOf(verdicts) != "" || slices.ContainsFunc(verdicts, evaluatesPredicates)) {
		again = slices.DeleteFunc(again, func(key remediation.Key) bool { return key == decided })
		if !slices.ContainsFunc(verdicts, isTemporary) {
			c.objects.EnqueueAfter(decided, predicateSettle)
		}
	}
	policies, cause := make([]*placement.Policy, len(verdicts)), remediation.Cause{}
	for i, v := range verdicts {
		policies[i] = v.Policy
		if cause.Unknown() {
			// A change of data may be found here before the sweep that it causes.
			cause = c.dataCause(v.Policy)
		}
	}
	c.enqueueTogether(cause, policies, again)
}

// act patches or evicts the object if the Scheduler allows that now. Otherwise the object is enqueued again once it may be patched.
func (c *Controller) act(ctx context.Context, s *scope) {
	if !c.ask(s) {
		return
	}
	began, reasons, policies := c.Clock.Now(), c.Ledger.Reasons(s.key, s.due), remediation.Names(s.due)
	made, outcome := events.Remediated, metrics.RemediationPatched
	if s.due.Evicts(s.key.Resource.GroupResource()) {
		made, outcome = events.Evicted, metrics.RemediationEvicted
	}
	patch, err := c.Patcher.Patch(ctx, s.key, s.object, s.due)
	patch.Object, patch.Data = s.object, decisions.DataOf(s.decisions)
	result := c.Scheduler.Done(c.Clock.Now(), s.key, s.due, patch)
	s.retryWithin(result.Retry)
	switch {
	case patch.Ending == remediation.Made:
		c.count(ctx, s, outcome)
		c.emit(s, made, s.due, causeNote(reasons), movedNote(s.due.String(), reasons))
		c.logMove(ctx, s, outcome, began, reasons)
		if result.Unsettled {
			c.emit(s, events.RemediationStopped, s.due, "", s.due.Policies()+": Berth patched the object too often within a minute, because the "+
				"decision keeps changing after its patch; it patches the object again after that minute")
		}
		if result.Age > 0 {
			c.emit(s, events.RemediationStopped, s.due, "", fmt.Sprintf("%s: Berth evicted this Pod, but its controller keeps creating Pods "+
				"that violate the decision; Berth evicts the Pod that takes its place only when that Pod is %s old", s.due.Policies(), result.Age))
		}
		c.Ledger.Remediated(s.key, s.object.GetResourceVersion(), policies...)
		c.changed(policies)
	case patch.Ending == remediation.Overtaken || apierrors.IsConflict(err):
		c.count(ctx, s, metrics.RemediationConflict)
		if err != nil {
			c.changed(c.Ledger.Obstruct(s.key, "another client updated the object at the same time; Berth tries again each second", false,
				policies...))
		}
		s.retryWithin(retryDelay)
	case patch.Ending == remediation.Protected:
		c.changed(policies)
	case patch.Ending != remediation.Unmade:
		c.count(ctx, s, metrics.RemediationFailed)
		c.changed(c.Ledger.Obstruct(s.key, err.Error(), patching.Unauthorized(err), policies...))
		if !errors.Is(err, patching.ErrNotTaken) {
			c.emit(s, events.RemediationFailed, s.due, "", fmt.Sprintf("%s: %v", s.due.Policies(), err))
		}
		log := ctrllog.FromContext(ctx)
		if !result.Report {
			log = log.V(1)
		}
		// The failure is not an error of Berth, which would be logged with a stack trace.
		log.Info("Patching failed; it is tried again later", "object", s.key.String(), "policies", s.due.Policies(), "reason", err.Error(),
			"countsForPauseAfterFailures", patch.Ending == remediation.Refused)
	}
}

// ask reports whether the Scheduler allows that the object is patched or evicted now. It returns false, without asking, if the object must
// be delivered before. If ask returns false, the object is decided again later.
func (c *Controller) ask(s *scope) bool {
	carrier := c.carrierOf(s.key)
	if s.due.MovesClusters() && !carrier.Reports && c.Deliveries.Pending(s.key.Resource, s.key.Namespace, s.key.Name) {
		// It is delivered first, which is no event for this controller.
		s.retryWithin(retryDelay)
		return false
	}
	s.asked = true
	ok, retry := c.Scheduler.Ask(c.Clock.Now(), s.key, s.object, s.due, carrier)
	if !ok {
		s.retryWithin(retry)
		c.changed(remediation.Names(s.due))
	}
	return ok
}

// count counts the outcome of the patch of the object in the metrics of each policy that required it.
func (c *Controller) count(ctx context.Context, s *scope, outcome string) {
	trace.SpanFromContext(ctx).SetAttributes(tracing.Outcome.String(outcome))
	for _, v := range s.due {
		c.Metrics.Remediation(v.Policy.Name, outcome)
	}
}

// changed calls Changed with the name of each policy whose account in the ledger changed.
func (c *Controller) changed(policies []string) {
	for _, name := range policies {
		c.Changed(name)
	}
}

// schedule enqueues the objects that the Scheduler allows to be patched, whenever an event or the time lets objects go on, until ctx ends.
// It reports policies whose patches stopped because too many failed, and emits sums of Events.
func (c *Controller) schedule(ctx context.Context) {
	for {
		c.emitSums(ctx, false)
		next := c.Scheduler.Schedule(c.Clock.Now())
		c.objects.Enqueue(next.Keys...)
		for _, name := range next.Unsettled {
			c.settleReadiness(name)
		}
		c.changed(next.Changed)
		for _, name := range next.Paused {
			waiting := c.Scheduler.Waiting(c.Clock.Now(), name)
			ctrllog.FromContext(ctx).Info("Remediation is paused: patches or rollouts of too many objects failed, counted over all namespaces",
				"policy", name, "where", waiting.PausedIn.String(), "objects", len(waiting.Failures))
			c.Events.OnPolicy(ctx, c.Policies, name, events.RemediationPaused, waiting.PauseMessage(name, false))
			c.Changed(name)
		}
		// Windows open by the time of day, which may be set.
		wake := time.Minute
		if !next.Wake.IsZero() {
			wake = min(wake, max(next.Wake.Sub(c.Clock.Now()), time.Millisecond))
		}
		select {
		case <-ctx.Done():
			c.emitSums(context.WithoutCancel(ctx), true)
			return
		case <-c.Scheduler.Changes():
		case <-c.Clock.After(wake):
		}
	}
}
