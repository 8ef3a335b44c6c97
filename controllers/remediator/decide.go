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

	"go.opentelemetry.io/otel/trace"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/tracing"
)

// decide decides the object. It proceeds if all policies have decided on everything that they read.
func (c *Controller) decide(ctx context.Context, s *scope) (proceed bool, err error) {
	s.outcome, err = c.Decider.Assess(ctx, c.request(s.key, s.object, c.evaluator(s)))
	if err != nil {
		tracing.Fail(trace.SpanFromContext(ctx), err)
		c.Ledger.Skip(s.key)
		c.objects.recorded(s.key)
		c.conclude(ctx)
		return false, fmt.Errorf("deciding %s: %w", s.key, err)
	}
	lacks := func(v *placement.Verdict) bool { return !s.fields.Covers(v.Policy.Evaluator.Input()) }
	if !s.fields.Covers(c.neededFields.forType(s.key.Resource)) || slices.ContainsFunc(s.outcome.Verdicts, lacks) {
		// A policy was added meanwhile, or reads more than the analysis found, and may have seen an incomplete object.
		c.FieldsReadChanged()
		s.result.RequeueAfter = incompleteDelay
		return false, nil
	}
	if slices.ContainsFunc(s.outcome.Verdicts, isPending) {
		// A policy patches nothing before all objects of an assessment are decided. A remote engine may be slow, so from now on
		// only the policies that match the object wait for it.
		s.waits = true
		c.Ledger.Await(s.key, remediation.Names(s.outcome.Verdicts)...)
		c.conclude(ctx)
		return false, nil
	}
	return true, nil
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

// evaluator returns the function that evaluates policies on the object. It reuses known decisions. Policies with a
// remote engine are pending until the engine has answered. Each decision is added to the scope.
func (c *Controller) evaluator(s *scope) evaluateFunc {
	return func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
		var decision *remediation.PolicyDecision
		if r, ok := p.Remote(); ok {
			if decision = c.remoteQueue.decision(p, r.Health().Endpoint, s.key, s.object); decision == nil {
				return placement.Decision{}, errPending
			}
		} else if decision = c.groups.Lookup(p, input); !decision.Known {
			decision.Decision, decision.Err = c.evaluate(ctx, p, input)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.decisions = append(s.decisions, decision)
		return decision.Decision, decision.Err
	}
}

// query has the engine of a policy decide the current version of an object, and returns that version. It returns nil if
// there is nothing to decide any more.
//
// It decides the object as the workers do, but with all other policies pending. So the policy gets the same input as
// there, which is not kept while the query waits.
func (c *Controller) query(ctx context.Context, asked *placement.Policy, key remediation.Key) (*remediation.PolicyDecision, *unstructured.Unstructured) {
	obj, fields := c.objects.get(key)
	state := c.Registry.Get(asked.Name)
	if obj == nil || !state.Decides(asked) || !fields.Covers(asked.Evaluator.Input()) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	ctx, span := startTrace(ctx, c.Tracing, "remediation question", key)
	defer span.End()
	decision := remediation.NewPolicyDecision(asked)
	var evaluated placement.Decision
	outcome, err := c.Decider.Assess(ctx, c.request(key, obj, func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
		if p != asked {
			return placement.Decision{}, errPending
		}
		var err error
		evaluated, err = c.evaluate(ctx, p, input)
		return evaluated, err
	}))
	tracing.Fail(span, err)
	if err != nil {
		// The workers will get the same error and retry.
		return nil, nil
	}
	i := slices.IndexFunc(outcome.Verdicts, func(v *placement.Verdict) bool { return v.Policy == asked })
	if i < 0 {
		return nil, nil
	}
	// The verdict has what merging makes of the decision, beside policies that are pending.
	decision.Decision, decision.Err = evaluated, outcome.Verdicts[i].Err
	return decision, obj
}

// evaluate evaluates a policy on an input.
func (c *Controller) evaluate(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
	return c.Metrics.Evaluate(ctx, c.Clock, metrics.SourceRemediation, p, input)
}
