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

// Package whatif says what changes of policies, or of objects that they read, would do to the existing objects, without
// making them. It decides each object before and after the changes, and compares the results.
package whatif

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/simulation"
)

// Transition is what changes do to an object.
type Transition string

const (
	// Denied means that a policy denies the object after the changes, and did not before. An existing object stays, and its
	// next update is denied.
	Denied Transition = "Denied"
	// Undecidable means that a policy can't decide the object after the changes, and could before.
	Undecidable Transition = "Undecidable"
	// Allowed means that no policy denies the object any more, and that all can decide it.
	Allowed Transition = "Allowed"
	// Moved means that the object's clusters or the scheduling fields of its pods change.
	Moved Transition = "Moved"
	// Changed means that only other labels or annotations change.
	Changed Transition = "Changed"
	// Matched means that policies match the object that did not before, and that nothing changes.
	Matched Transition = "Matched"
	// Unmatched means that fewer policies match the object, and that nothing changes.
	Unmatched Transition = "Unmatched"
)

// Transitions returns all transitions, the gravest first.
func Transitions() []Transition {
	return []Transition{Denied, Undecidable, Allowed, Moved, Changed, Matched, Unmatched}
}

// Report is what changes would do.
type Report struct {
	// Objects are the objects to which something happens, by transition, type, namespace, and name.
	Objects []Object `json:"objects"`
	// Totals count them.
	Totals map[Transition]int `json:"totals"`
	// Namespaces count them by namespace; cluster-scoped objects are under "".
	Namespaces map[string]map[Transition]int `json:"namespaces"`
	// Unchanged is the number of other objects that policies match.
	Unchanged int `json:"unchanged"`
	// Findings are errors and warnings about the policies that change.
	Findings []Finding `json:"findings,omitempty"`
}

// Object is an object to which something happens.
type Object struct {
	Kind       string     `json:"kind"`
	Resource   string     `json:"resource"`
	Namespace  string     `json:"namespace,omitempty"`
	Name       string     `json:"name"`
	Transition Transition `json:"transition"`
	// Values are the annotations, labels, and scheduling fields that change.
	Values []Value `json:"values,omitempty"`
	// Reasons are messages of policies for Denied, Undecidable, and Allowed, and names of policies for Matched and Unmatched.
	Reasons []string `json:"reasons,omitempty"`
}

// Value is a value that changes; nil stands for an absent one.
type Value struct {
	Field string  `json:"field"`
	Key   string  `json:"key"`
	From  *string `json:"from"`
	To    *string `json:"to"`
	// Policy is the policy that sets the new value, or that set the old one.
	Policy string `json:"policy"`
}

// Finding is an error or a warning about a policy.
type Finding struct {
	Policy  string `json:"policy"`
	Error   bool   `json:"error"`
	Message string `json:"message"`
}

// Session answers several questions about one state of a cluster. It is not safe for concurrent use.
type Session struct {
	cluster *simulation.Cached
	options simulation.Options
	before  *simulation.Simulation
}

// NewSession reads the policies of a cluster and what they read.
func NewSession(ctx context.Context, cluster simulation.Cluster, o simulation.Options) (*Session, error) {
	cached := simulation.NewCached(cluster)
	before, err := simulation.New(ctx, cached, o)
	if err != nil {
		return nil, err
	}
	return &Session{cluster: cached, options: o, before: before}, nil
}

// WhatIf returns what the changes would do.
func (s *Session) WhatIf(ctx context.Context, c Changes) (*Report, error) {
	changed, err := newOverlay(ctx, s.cluster, c)
	if err != nil {
		return nil, err
	}
	after, err := simulation.New(ctx, changed, s.options)
	if err != nil {
		return nil, err
	}
	q := &question{before: s.before, after: after, changed: changed}
	q.findAffected()
	objects, err := q.objects(ctx)
	if err != nil {
		return nil, err
	}
	results, err := q.compareAll(ctx, objects)
	if err != nil {
		return nil, err
	}
	out := newReport(results)
	out.Findings, err = q.findings(ctx)
	return out, err
}

// question is one set of changes.
type question struct {
	before, after *simulation.Simulation
	changed       *overlay
	// affected are the versions of policies whose decisions may change.
	affected []*simulation.Policy
}

// findAffected finds the policies that change, and those that read something that changes.
func (q *question) findAffected() {
	policies := q.changed.changed[placementv1.GroupVersion.WithResource("placementpolicies")]
	_, namespaces := q.changed.changed[schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}]
	for _, s := range []*simulation.Simulation{q.before, q.after} {
		for _, p := range s.Policies() {
			_, changes := policies[types.NamespacedName{Name: p.Name}]
			if changes || namespaces && (p.Matcher.SelectsNamespaces() || p.Matcher.Conditional()) || p.Binding != nil && q.reads(p.Binding) {
				q.affected = append(q.affected, p)
			}
		}
	}
}

// reads reports whether a policy reads objects of a type of which one changes.
func (q *question) reads(b *policy.Binding) bool {
	for resource := range q.changed.changed {
		if b.Fields[resource] != nil || b.PredicateReads[resource] != nil {
			return true
		}
	}
	return false
}

// pair is an object before and after the changes. One of them has no content if the object is created or deleted.
type pair struct{ before, after simulation.Object }

type objectKey struct {
	resource schema.GroupVersionResource
	name     types.NamespacedName
}

func keyOf(o simulation.Object) objectKey {
	return objectKey{o.Resource, types.NamespacedName{Namespace: o.Namespace, Name: o.Content.GetName()}}
}

// objects returns the objects that the policies match before or after the changes.
func (q *question) objects(ctx context.Context) ([]pair, error) {
	var out []pair
	index := map[objectKey]int{}
	for o, err := range q.before.Matched(ctx) {
		if err != nil {
			return nil, err
		}
		index[keyOf(o)] = len(out)
		out = append(out, pair{before: o})
	}
	for o, err := range q.after.Matched(ctx) {
		if err != nil {
			return nil, err
		}
		i, known := index[keyOf(o)]
		if !known {
			i = len(out)
			out = append(out, pair{})
			if existing, err := q.before.Cluster().Get(ctx, o.Resource, o.Namespace, o.Content.GetName()); err == nil && existing != nil {
				out[i].before = simulation.Object{Resource: o.Resource, Namespace: o.Namespace, Content: existing, Exists: true}
			}
		}
		out[i].after = o
	}
	for i := range out {
		if o := out[i].before; out[i].after.Content == nil {
			if _, deleted := q.changed.changed[o.Resource][keyOf(o).name]; !deleted {
				out[i].after = o
			}
		}
	}
	return out, nil
}

// compareAll compares the objects on all processors. A nil result means that nothing happens to an object that a policy
// matches.
func (q *question) compareAll(ctx context.Context, objects []pair) ([]*Object, error) {
	results := make([]*Object, len(objects))
	unmatched := make([]bool, len(objects))
	workers := runtime.GOMAXPROCS(0)
	errs := make([]error, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := w; i < len(objects) && errs[w] == nil; i += workers {
				results[i], unmatched[i], errs[w] = q.compare(ctx, objects[i])
			}
		})
	}
	group.Wait()
	var out []*Object
	for i, result := range results {
		if !unmatched[i] {
			out = append(out, result)
		}
	}
	return out, cmp.Or(errs...)
}

// compare returns what happens to an object; nil if nothing does. unmatched reports whether no policy matches it, before
// and after the changes.
func (q *question) compare(ctx context.Context, p pair) (result *Object, unmatched bool, err error) {
	if !q.concerns(p) {
		return nil, false, nil
	}
	before, err := stateOf(ctx, q.before, p.before)
	if err != nil {
		return nil, false, err
	}
	after, err := stateOf(ctx, q.after, p.after)
	if err != nil {
		return nil, false, err
	}
	if len(before.matched)+len(after.matched) == 0 || p.after.Content == nil {
		return nil, true, nil
	}
	out := before.to(after)
	if out == nil {
		return nil, false, nil
	}
	o := p.after
	out.Kind, out.Resource, out.Namespace, out.Name = o.Content.GetKind(), o.Resource.GroupResource().String(), o.Namespace, o.Content.GetName()
	return out, false, nil
}

// concerns reports whether something may happen to an object: it changes itself, or an affected policy may match it.
func (q *question) concerns(p pair) bool {
	for _, o := range []simulation.Object{p.before, p.after} {
		if o.Content == nil {
			return true
		}
		if _, changes := q.changed.changed[o.Resource][keyOf(o).name]; changes {
			return true
		}
		for _, affected := range q.affected {
			if affected.Matcher.SelectsResource(o.Resource) && affected.Matcher.SelectsLabels(o.Content.GetLabels()) {
				return true
			}
		}
	}
	return false
}

// state is what policies make of an object.
type state struct {
	matched []string
	// denials and failures are why policies deny the object, or can't decide it.
	denials, failures []string
	// wanted are the keys whose value would change.
	wanted map[valueKey]wanted
}

type valueKey struct{ field, key string }

type wanted struct {
	from, to *string
	policy   string
}

// stateOf decides an object.
func stateOf(ctx context.Context, s *simulation.Simulation, o simulation.Object) (*state, error) {
	out := &state{wanted: map[valueKey]wanted{}}
	if o.Content == nil {
		return out, nil
	}
	verdicts, err := s.Verdicts(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("deciding %s: %w", simulation.Describe(o.Content), err)
	}
	for _, v := range verdicts {
		out.matched = append(out.matched, v.Policy.Name)
		if v.Policy.Mode != placementv1.ModeEnforce {
			continue
		}
		if v.Err != nil {
			out.failures = append(out.failures, v.Policy.Name+": "+v.Err.Error())
			continue
		}
		for _, text := range v.Decision.Errors {
			out.denials = append(out.denials, v.Policy.Name+": "+text)
		}
		for _, c := range v.Changes {
			if c.Immutable == "" {
				out.wanted[valueKey{c.Field, c.Key}] = wanted{c.From, c.To, v.Policy.Name}
			}
		}
	}
	slices.Sort(out.matched)
	return out, nil
}

// to returns what happens to an object whose state changes; nil if nothing does.
func (s *state) to(after *state) *Object {
	out := &Object{Values: s.valuesTo(after)}
	switch added, removed := lacking(after.matched, s.matched), lacking(s.matched, after.matched); {
	case len(after.failures) > 0 && len(s.failures) == 0:
		out.Transition, out.Reasons = Undecidable, after.failures
	case len(after.denials) > 0 && len(lacking(after.denials, s.denials)) > 0:
		out.Transition, out.Reasons = Denied, lacking(after.denials, s.denials)
	case len(s.denials)+len(s.failures) > 0 && len(after.denials)+len(after.failures) == 0:
		out.Transition, out.Reasons = Allowed, slices.Concat(s.denials, s.failures)
	case slices.ContainsFunc(out.Values, moves):
		out.Transition = Moved
	case len(out.Values) > 0:
		out.Transition = Changed
	case len(added) > 0:
		out.Transition, out.Reasons = Matched, added
	case len(removed) > 0:
		out.Transition, out.Reasons = Unmatched, removed
	default:
		return nil
	}
	return out
}

func moves(v Value) bool {
	return v.Field == "scheduling" || v.Key == placementv1.ClustersAnnotation || v.Key == placement.PreferencesAnnotation
}

// lacking returns the texts of a that b lacks.
func lacking(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(text string) bool { return slices.Contains(b, text) })
}

// valuesTo returns the values that differ between what the policies want before and after.
func (s *state) valuesTo(after *state) []Value {
	var out []Value
	for key, next := range after.wanted {
		from := next.from
		if before, ok := s.wanted[key]; ok {
			from = before.to
		}
		if !equal(from, next.to) {
			out = append(out, Value{key.field, key.key, from, next.to, next.policy})
		}
	}
	for key, before := range s.wanted {
		// The object keeps its current value.
		if _, ok := after.wanted[key]; !ok && !equal(before.to, before.from) {
			out = append(out, Value{key.field, key.key, before.to, before.from, before.policy})
		}
	}
	slices.SortFunc(out, func(a, b Value) int { return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Key, b.Key)) })
	return out
}

func equal(a, b *string) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

// newReport returns the report on the results, of which nil ones count as unchanged.
func newReport(results []*Object) *Report {
	out := &Report{Objects: []Object{}, Totals: map[Transition]int{}, Namespaces: map[string]map[Transition]int{}}
	for _, r := range results {
		if r == nil {
			out.Unchanged++
			continue
		}
		out.Objects = append(out.Objects, *r)
		out.Totals[r.Transition]++
		if out.Namespaces[r.Namespace] == nil {
			out.Namespaces[r.Namespace] = map[Transition]int{}
		}
		out.Namespaces[r.Namespace][r.Transition]++
	}
	transitions := Transitions()
	slices.SortFunc(out.Objects, func(a, b Object) int {
		return cmp.Or(cmp.Compare(slices.Index(transitions, a.Transition), slices.Index(transitions, b.Transition)),
			strings.Compare(a.Resource, b.Resource), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

// findings returns the errors and warnings of the policies that change.
func (q *question) findings(ctx context.Context) ([]Finding, error) {
	var out []Finding
	changed := q.changed.changed[placementv1.GroupVersion.WithResource("placementpolicies")]
	for _, key := range slices.SortedFunc(maps.Keys(changed), func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) }) {
		p := q.after.Policy(key.Name)
		if p == nil {
			continue
		}
		if p.Err != nil {
			out = append(out, Finding{key.Name, true, p.Err.Error()})
		}
		if p.Module != nil {
			for _, warning := range p.Module.Warnings {
				out = append(out, Finding{key.Name, false, warning})
			}
		}
		matched, err := q.matchesAny(ctx, p)
		if err != nil {
			return nil, err
		}
		if !matched {
			out = append(out, Finding{key.Name, false, "spec.match matches no existing object"})
		}
	}
	return out, nil
}

// matchesAny reports whether a policy matches an existing object.
func (q *question) matchesAny(ctx context.Context, p *simulation.Policy) (bool, error) {
	for o, err := range q.after.Matched(ctx) {
		if err != nil {
			return false, err
		}
		if !p.Matcher.SelectsResource(o.Resource) {
			continue
		}
		if mismatch, err := q.after.Mismatch(ctx, p, o); err != nil || mismatch == nil {
			return true, err
		}
	}
	return false, nil
}
