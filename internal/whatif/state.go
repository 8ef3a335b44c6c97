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

package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/simulation"
)

// state is what policies make of an object.
type state struct {
	matched []string
	// denials and failures are why policies deny the object, or can't decide it.
	denials, failures []reason
	// blocked reports whether the object keeps its values because a policy denies it or fails. wanted are the keys for which
	// policies decide another value otherwise.
	blocked bool
	wanted  map[valueKey]wanted
	// harmed are the policies that leave the object without a placement, and whether they remove all of its clusters.
	harmed map[string]bool
}

// reason is what one policy says.
type reason struct{ policy, text string }

func (r reason) String() string { return r.policy + ": " + r.text }

func texts(reasons []reason) []string {
	var out []string
	for _, r := range reasons {
		out = append(out, r.String())
	}
	return out
}

type valueKey struct{ field, key string }

// wanted is a value that a policy decides.
type wanted struct {
	placement.Change
	policy string
	// due reports whether the object gets the value at once. Otherwise it may get it at its next update.
	due bool
}

// value returns the value of a key after remediation.
func (w wanted) value() *string {
	if w.due {
		return w.To
	}
	return w.From
}

// stateOf decides an object. The state after an update has the values that the update leads to.
func stateOf(ctx context.Context, s *simulation.Simulation, o simulation.Object, evaluate simulation.Evaluate) (*state, error) {
	verdicts, made, err := decide(ctx, s, o, evaluate)
	if err != nil {
		return nil, fmt.Errorf("deciding %s: %w", simulation.Describe(o.Content), err)
	}
	out := &state{}
	for _, v := range verdicts {
		out.matched = append(out.matched, v.Policy.Name)
		if v.Policy.Mode != placementv1.ModeEnforce {
			continue
		}
		if remediation.Harms(v) {
			if out.harmed == nil {
				out.harmed = map[string]bool{}
			}
			out.harmed[v.Policy.Name] = remediation.RemovesAllClusters(v)
		}
		if v.Err != nil {
			out.failures = append(out.failures, reason{v.Policy.Name, v.Err.Error()})
			out.blocked = out.blocked || v.Policy.FailurePolicy == placementv1.FailurePolicyFail
			continue
		}
		out.blocked = out.blocked || len(v.Decision.Errors) > 0
		for _, text := range v.Decision.Errors {
			out.denials = append(out.denials, reason{v.Policy.Name, text})
		}
		if o.Exists && v.Policy.Remediation == placementv1.RemediationNewOnly {
			// Existing objects keep their values, also at their next update.
			continue
		}
		for _, c := range v.Changes {
			if c.Immutable != "" || !made(c) {
				continue
			}
			if out.wanted == nil {
				out.wanted = map[valueKey]wanted{}
			}
			out.wanted[valueKey{c.Field, c.Key}] = wanted{c, v.Policy.Name, !o.Exists || v.Policy.PatchesExisting()}
		}
	}
	slices.Sort(out.matched)
	if out.blocked {
		out.wanted = nil
	}
	return out, nil
}

// decide returns the verdicts on an object, and a function that reports whether a change is made if no policy denies the
// object.
func decide(ctx context.Context, s *simulation.Simulation, o simulation.Object, evaluate simulation.Evaluate) ([]*placement.Verdict, func(placement.Change) bool, error) {
	if o.Old == nil {
		verdicts, err := s.VerdictsBy(ctx, o, evaluate)
		if o.Exists {
			remediation.Freeze(o.Content, verdicts)
		}
		return verdicts, func(placement.Change) bool { return true }, err
	}
	// An update may leave the values of policies that do not change existing objects as they were.
	outcome, err := s.Decide(ctx, o)
	if err != nil || outcome.Object == nil {
		return nil, nil, err
	}
	return outcome.Verdicts, func(c placement.Change) bool { return c.Done(outcome.Object) }, nil
}

// to returns what happens to an object whose state changes; nil if nothing does. A request, which the changes make, is
// denied even if policies denied the object already.
func (s *state) to(after *state, request bool) *Object {
	out := &Object{Values: s.valuesTo(after)}
	denials, failures := lacking(after.denials, s.denials), slices.DeleteFunc(slices.Clone(after.failures), s.failed)
	if request {
		denials, failures = after.denials, after.failures
	}
	switch added, removed := lacking(after.matched, s.matched), lacking(s.matched, after.matched); {
	case len(denials) > 0:
		out.Transition, out.Reasons = Denied, texts(denials)
	case len(failures) > 0:
		out.Transition, out.Reasons = Undecidable, texts(failures)
	case s.blocked && !after.blocked, len(s.failures) > 0 && len(after.failures)+len(after.denials) == 0:
		gone := slices.DeleteFunc(slices.Clone(s.failures), after.failed)
		out.Transition, out.Reasons = Allowed, texts(slices.Concat(lacking(s.denials, after.denials), gone))
	case slices.ContainsFunc(out.Values, moves):
		out.Transition = Moved
	case slices.ContainsFunc(out.Values, func(v Value) bool { return !v.Pending }):
		out.Transition = Changed
	case len(out.Values) > 0:
		out.Transition = Pending
	case len(added) > 0:
		out.Transition, out.Reasons = Matched, added
	case len(removed) > 0:
		out.Transition, out.Reasons = Unmatched, removed
	default:
		return nil
	}
	return out
}

// harmedBy returns the policies that leave the object without a placement, and that count for their blast radius: those that
// decided otherwise before, and those that remove the clusters of an object that they did not match before.
func (s *state) harmedBy(after *state) []string {
	var out []string
	for name, removes := range after.harmed {
		if _, before := s.harmed[name]; slices.Contains(s.matched, name) && !before || !slices.Contains(s.matched, name) && removes {
			out = append(out, name)
		}
	}
	return out
}

// failed reports whether the policy of the reason can't decide the object. The text of a failure may change without
// anything else changing.
func (s *state) failed(r reason) bool {
	return slices.ContainsFunc(s.failures, func(known reason) bool { return known.policy == r.policy })
}

func moves(v Value) bool {
	return !v.Pending && (v.Field == "scheduling" || v.Key == placementv1.ClustersAnnotation || v.Key == placement.PreferencesAnnotation)
}

// lacking returns the members of a that b lacks.
func lacking[T comparable](a, b []T) []T {
	return slices.DeleteFunc(slices.Clone(a), func(member T) bool { return slices.Contains(b, member) })
}

// valuesTo returns the values that change. These are the values after remediation, or those that the object can get at its
// next update if the policies did not decide the same before.
func (s *state) valuesTo(after *state) []Value {
	if after.blocked {
		return nil
	}
	var out []Value
	add := func(key valueKey, from, to *string, policy string, pending bool) {
		if !equal(from, to) {
			out = append(out, Value{key.field, key.key, from, to, policy, pending})
		}
	}
	for key, next := range after.wanted {
		before, ok := s.wanted[key]
		if !ok {
			before.Change.From = next.From
		}
		switch {
		case !equal(before.value(), next.value()):
			add(key, before.value(), next.value(), next.policy, false)
		case !next.due && !(ok && equal(before.To, next.To)):
			add(key, next.From, next.To, next.policy, true)
		}
	}
	for key, before := range s.wanted {
		// The object keeps its current value.
		if _, ok := after.wanted[key]; !ok {
			add(key, before.value(), before.From, before.policy, false)
		}
	}
	slices.SortFunc(out, func(a, b Value) int { return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Key, b.Key)) })
	return out
}

func equal(a, b *string) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
