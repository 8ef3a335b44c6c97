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
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/tracing"
)

// incompleteDelay is the delay before an object is decided again of which some policy reads fields that are not fetched yet. When they
// are fetched, the object is enqueued anyway. The delay is for the case that the policy is deleted before that.
const incompleteDelay = time.Second

// gather takes the newest version of the object. It reports whether the object can be decided now.
func (c *Controller) gather(ctx context.Context, s *scope) bool {
	read := c.objects.take
	if s.task != nil {
		read = c.objects.get
	}
	if s.object, s.fields = read(s.key); s.object == nil {
		c.forget(ctx, s.key)
		return false
	}
	if c.Decider.RecordsScheduling(s.object, s.key.Namespace) && c.types.schedule(s.key.Resource) {
		c.rewatch.Notify()
	}
	if !s.fields.Covers(c.types.fields(s.key.Resource)) {
		s.result.RequeueAfter = incompleteDelay
		return false
	}
	return true
}

// forget drops all state of an object that does not exist any more.
func (c *Controller) forget(ctx context.Context, key remediation.Key) {
	c.groups.Forget(key)
	c.Scheduler.Forget(c.Clock.Now(), key)
	c.remoteQueue.forget(key)
	c.conclude(ctx, c.Ledger.Forget(key)...)
}

// decide decides the object. It proceeds if all policies have decided on everything that they read.
func (c *Controller) decide(ctx context.Context, s *scope) (proceed bool, err error) {
	if err := c.assessObject(ctx, s); err != nil {
		tracing.Fail(trace.SpanFromContext(ctx), err)
		c.Ledger.Skip(s.key)
		c.objects.recorded(s.key)
		c.conclude(ctx)
		return false, fmt.Errorf("deciding %s: %w", s.key, err)
	}
	verdicts := s.outcome.Verdicts
	lacks := func(v *placement.Verdict) bool { return !s.fields.Covers(v.Policy.Evaluator.Input()) }
	if !s.fields.Covers(c.types.fields(s.key.Resource)) || slices.ContainsFunc(verdicts, lacks) {
		// A policy was added meanwhile, or reads more than the analysis found, and may have seen an incomplete object.
		c.FieldsReadChanged()
		s.result.RequeueAfter = incompleteDelay
		return false, nil
	}
	if s.task != nil {
		s.waits = !c.remoteQueue.count(s.task, s.object)
		return !s.waits, nil
	}
	endpoints := endpointsOf(verdicts)
	if endpoints != "" {
		// A policy patches nothing before all objects of an assessment are decided. A remote engine may be slow, so from now on
		// only the policies that match the object wait for it.
		c.Ledger.Await(s.key, remediation.Names(verdicts)...)
		c.conclude(ctx)
	}
	s.waits = c.remoteQueue.takeOver(s.key, endpoints)
	return !s.waits, nil
}

// assessObject sets the outcome and the decisions. If engines were queried, it decides the object again with their responses, because
// policies and namespaces may have changed meanwhile.
func (c *Controller) assessObject(ctx context.Context, s *scope) (err error) {
	for {
		if s.task != nil {
			s.task.again.Store(false)
		}
		known := len(s.responses)
		s.decisions = nil
		s.outcome, err = c.Decider.Assess(ctx, c.request(s.key, s.object, c.evaluator(s)))
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

// evaluateFunc evaluates a policy on behalf of a Decider.
type evaluateFunc = func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error)

// request returns the request to decide an existing object as if Berth updated it without a change.
func (c *Controller) request(key remediation.Key, obj *unstructured.Unstructured, evaluate evaluateFunc) placement.Request {
	return placement.Request{
		Resource:  key.Resource,
		Namespace: key.Namespace,
		Object:    obj,
		Old:       obj,
		Admission: placement.AdmissionOf(admissionv1.Update, key.Resource, key.Namespace, obj, c.Identity),
		Evaluate:  evaluate,
	}
}

// evaluator returns the function that evaluates policies on the object. It reuses known decisions. Policies with a remote engine are
// pending until the object has a task. Each decision is added to the scope.
func (c *Controller) evaluator(s *scope) evaluateFunc {
	return func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
		var decision *remediation.PolicyDecision
		if engine, remote := p.Remote(); !remote {
			if decision = c.groups.Lookup(p, input); !decision.Known {
				decision.Decision, decision.Err = c.evaluate(ctx, p, input)
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

// query returns the response of a policy's engine. It queries the engine once, when fewer than maxRunningTasks queries to it run.
func (c *Controller) query(ctx context.Context, s *scope, p *placement.Policy, endpoint string, input map[string]any) *remediation.PolicyDecision {
	s.mu.Lock()
	response := s.responses[p]
	s.mu.Unlock()
	if response != nil {
		return response
	}
	if slot := c.remoteQueue.slot(endpoint); slot.Acquire(ctx, 1) == nil {
		defer slot.Release(1)
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	response = remediation.NewPolicyDecision(p)
	s.mu.Lock()
	s.responses[p] = response
	s.mu.Unlock()
	response.Decision, response.Err = c.evaluate(ctx, p, input)
	return response
}

// evaluate evaluates a policy on an input.
func (c *Controller) evaluate(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
	return c.Metrics.Evaluate(ctx, c.Clock, metrics.SourceRemediation, p, input)
}

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
	c.emit(s, events.RemediationStopped, fmt.Sprintf("%s: %s, so Berth leaves it alone for %s, or until a policy for its type changes", judged.Due.Policies(), why, judged.Again.Round(time.Minute)))
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

// decideAgain enqueues objects that must be decided again after the decision on one of them. If that object itself was
// overtaken by a change, and predicates or a remote engine took part, it waits for predicateSettle; otherwise continuous
// changes would cause continuous decisions. If an engine failed, it is retried anyway, with the backoff of failures.
func (c *Controller) decideAgain(decided remediation.Key, verdicts []*placement.Verdict, again []remediation.Key) {
	if len(again) == 0 {
		return
	}
	evaluatesPredicates := func(v *placement.Verdict) bool { return usesPredicates(c.Registry.Get(v.Policy.Name).BindingOf(v.Policy)) }
	if slices.Contains(again, decided) && (endpointsOf(verdicts) != "" || slices.ContainsFunc(verdicts, evaluatesPredicates)) {
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
