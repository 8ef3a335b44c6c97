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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/schemas"
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
	// Findings are errors and warnings about the policies and quotas that change.
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

// Finding is an error or a warning about an object that changes.
type Finding struct {
	// Object is the kind and name of the object, for example "PlacementPolicy data-residency".
	Object  string `json:"object"`
	Error   bool   `json:"error"`
	Message string `json:"message"`
}

// Types checks the types of policies.
type Types interface {
	// Check returns the findings. An error means that the schemas could not be read.
	Check(ctx context.Context, name string, spec placementv1.PlacementPolicySpec, bound policy.Bindings) (*schemas.Report, error)
}

// Session answers several questions about one state of a cluster. The first one decides all objects, and the next ones
// decide only what may change. It is not safe for concurrent use.
type Session struct {
	// Types checks the types of the policies that change. If it is nil, they are not checked.
	Types Types

	cluster *simulation.Cached
	options simulation.Options
	before  *simulation.Simulation
	// objects are the existing objects that policies may match, and states what the policies make of them.
	objects []simulation.Object
	states  []*state
	index   map[objectKey]int
	groups  *groups
}

// NewSession reads the policies of a cluster, what they read, and the objects that they match, and decides these.
func NewSession(ctx context.Context, cluster simulation.Cluster, o simulation.Options) (*Session, error) {
	cached := simulation.NewCached(cluster)
	before, err := simulation.New(ctx, cached, o)
	if err != nil {
		return nil, err
	}
	s := &Session{cluster: cached, options: o, before: before, index: map[objectKey]int{}, groups: newGroups()}
	for o, err := range before.Matched(ctx) {
		if err != nil {
			return nil, err
		}
		s.index[keyOf(o)] = len(s.objects)
		s.objects = append(s.objects, o)
	}
	s.states = make([]*state, len(s.objects))
	return s, parallel(len(s.objects), func(i int) (err error) {
		s.states[i], err = stateOf(ctx, before, s.objects[i], s.groups.evaluateFor(i))
		return err
	})
}

// parallel calls f for the numbers below n on all processors. It returns an error of one of them.
func parallel(n int, f func(i int) error) error {
	workers := runtime.GOMAXPROCS(0)
	errs := make([]error, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := w; i < n && errs[w] == nil; i += workers {
				errs[w] = f(i)
			}
		})
	}
	group.Wait()
	return cmp.Or(errs...)
}

type objectKey struct {
	resource schema.GroupVersionResource
	name     types.NamespacedName
}

func keyOf(o simulation.Object) objectKey {
	return objectKey{o.Resource, types.NamespacedName{Namespace: o.Namespace, Name: o.Content.GetName()}}
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
	q := &question{Session: s, after: after, changed: changed, marked: make([]bool, len(s.objects))}
	if err := q.mark(ctx); err != nil {
		return nil, err
	}
	pairs, err := q.pairs(ctx)
	if err != nil {
		return nil, err
	}
	results := make([]result, len(pairs))
	err = parallel(len(pairs), func(i int) (err error) {
		results[i], err = q.compare(ctx, pairs[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	out := newReport(results)
	for i, marked := range q.marked {
		if !marked && len(s.states[i].matched) > 0 {
			out.Unchanged++
		}
	}
	out.Findings, err = q.findings(ctx)
	return out, err
}

// question is one set of changes.
type question struct {
	*Session
	after   *simulation.Simulation
	changed *overlay
	// marked are the objects to which something may happen, by their index.
	marked []bool
}

// mark marks the objects to which something may happen: those that change, and those for which a policy that changes, or
// that reads something that changes, decides something else.
func (q *question) mark(ctx context.Context) error {
	for resource, objects := range q.changed.changed {
		for name := range objects {
			if i, ok := q.index[objectKey{resource, name}]; ok {
				q.marked[i] = true
			}
		}
	}
	for _, before := range q.before.Policies() {
		if !q.affected(before) {
			continue
		}
		after := q.after.Policy(before.Name)
		if after == nil || !comparable(before, after) {
			q.groups.each(before.Policy, func(g *group) { q.markAll(g) })
			continue
		}
		q.groups.each(before.Policy, func(g *group) {
			decision, err := after.Evaluator.Evaluate(placement.WithNamespace(ctx, g.namespace), g.input)
			if err != nil || g.err != nil || !decision.Equal(g.decision) {
				q.markAll(g)
			}
		})
	}
	for _, after := range q.after.Policies() {
		before := q.before.Policy(after.Name)
		if before != nil && (!q.affected(after) || comparable(before, after)) {
			continue
		}
		if err := q.markMatched(ctx, after); err != nil {
			return err
		}
	}
	return nil
}

func (q *question) markAll(g *group) {
	for _, i := range g.members {
		q.marked[i] = true
	}
}

// markMatched marks the objects that a policy matches after the changes.
func (q *question) markMatched(ctx context.Context, p *simulation.Policy) error {
	return parallel(len(q.objects), func(i int) error {
		if q.marked[i] || !p.Matcher.SelectsResource(q.objects[i].Resource) {
			return nil
		}
		mismatch, err := q.after.Mismatch(ctx, p, q.objects[i])
		q.marked[i] = mismatch == nil
		return err
	})
}

// affected reports whether a policy changes, or reads something that changes.
func (q *question) affected(p *simulation.Policy) bool {
	if _, changes := q.changed.changed[placementv1.GroupVersion.WithResource("placementpolicies")][types.NamespacedName{Name: p.Name}]; changes {
		return true
	}
	for resource := range q.changed.changed {
		if p.Binding != nil && (p.Binding.Fields[resource] != nil || p.Binding.PredicateReads[resource] != nil) {
			return true
		}
	}
	return q.changesNamespaces() && (p.Matcher.SelectsNamespaces() || p.Matcher.Conditional())
}

func (q *question) changesNamespaces() bool {
	return len(q.changed.changed[corev1.SchemeGroupVersion.WithResource("namespaces")]) > 0
}

// comparable reports whether two versions of a policy match the same objects and treat equal decisions alike, and whether
// the later one reads no more of objects than the earlier one. Then equal decisions on one member of each group mean that
// nothing happens to the others.
func comparable(before, after *simulation.Policy) bool {
	text := func(spec placementv1.PlacementPolicySpec) placementv1.PlacementPolicySpec {
		spec.Rego, spec.RegoVersion, spec.Data, spec.Replicate = "", "", nil, nil
		return spec
	}
	return before.Err == nil && after.Err == nil && !before.Matcher.Conditional() && !before.Matcher.SelectsNamespaces() &&
		before.Schedules == after.Schedules && before.Evaluator.Input().Covers(after.Evaluator.Input()) &&
		equality.Semantic.DeepEqual(text(before.Object.Spec.WithDefaults()), text(after.Object.Spec.WithDefaults()))
}

// pair is an object before and after the changes, with what policies make of it before. One of the objects has no content
// if it is created or deleted.
type pair struct {
	before, after simulation.Object
	state         *state
}

// pairs returns the marked objects, and those that only policies after the changes may match.
func (q *question) pairs(ctx context.Context) ([]pair, error) {
	var out []pair
	for i, marked := range q.marked {
		if !marked {
			continue
		}
		p := pair{before: q.objects[i], after: q.objects[i], state: q.states[i]}
		if next, changes := q.changed.changed[p.before.Resource][keyOf(p.before).name]; changes {
			p.after.Content = next
		}
		out = append(out, p)
	}
	for o, err := range q.after.Matched(ctx) {
		if err != nil {
			return nil, err
		}
		if _, known := q.index[keyOf(o)]; known {
			continue
		}
		p := pair{after: o, state: &state{}}
		existing, err := q.cluster.Get(ctx, o.Resource, o.Namespace, o.Content.GetName())
		if err != nil {
			return nil, err
		}
		if p.after.Exists = existing != nil; p.after.Exists {
			p.before = o
		}
		out = append(out, p)
	}
	return out, nil
}

// result is what happens to an object; nil if nothing does. unmatched reports whether no policy matches it, before and
// after the changes.
type result struct {
	*Object
	unmatched bool
}

// compare returns what happens to an object.
func (q *question) compare(ctx context.Context, p pair) (result, error) {
	if p.after.Content == nil {
		return result{unmatched: true}, nil
	}
	after, err := stateOf(ctx, q.after, p.after, nil)
	if err != nil {
		return result{}, err
	}
	if len(p.state.matched)+len(after.matched) == 0 {
		return result{unmatched: true}, nil
	}
	before := *p.state
	if p.before.Content != p.after.Content {
		// Values of the content before are not those that this content keeps.
		before.wanted = maps.Clone(before.wanted)
		maps.DeleteFunc(before.wanted, func(key valueKey, _ wanted) bool {
			_, ok := after.wanted[key]
			return !ok
		})
	}
	out := before.to(after)
	if out == nil {
		return result{}, nil
	}
	o := p.after
	out.Kind, out.Resource, out.Namespace, out.Name = o.Content.GetKind(), o.Resource.GroupResource().String(), o.Namespace, o.Content.GetName()
	return result{Object: out}, nil
}

// state is what policies make of an object.
type state struct {
	matched []string
	// denials and failures are why policies deny the object, or can't decide it.
	denials, failures []string
	// blocked reports whether the object keeps its values because a policy denies it or fails. wanted are the keys whose
	// value changes otherwise.
	blocked bool
	wanted  map[valueKey]wanted
}

type valueKey struct{ field, key string }

type wanted struct {
	from, to *string
	policy   string
}

// stateOf decides an object.
func stateOf(ctx context.Context, s *simulation.Simulation, o simulation.Object, evaluate simulation.Evaluate) (*state, error) {
	out := &state{}
	verdicts, err := s.VerdictsBy(ctx, o, evaluate)
	if err != nil {
		return nil, fmt.Errorf("deciding %s: %w", simulation.Describe(o.Content), err)
	}
	if o.Exists {
		remediation.Freeze(o.Content, verdicts)
	}
	for _, v := range verdicts {
		out.matched = append(out.matched, v.Policy.Name)
		if v.Policy.Mode != placementv1.ModeEnforce {
			continue
		}
		if v.Err != nil {
			out.failures = append(out.failures, v.Policy.Name+": "+v.Err.Error())
			out.blocked = out.blocked || v.Policy.FailurePolicy == placementv1.FailurePolicyFail
			continue
		}
		out.blocked = out.blocked || len(v.Decision.Errors) > 0
		for _, text := range v.Decision.Errors {
			out.denials = append(out.denials, v.Policy.Name+": "+text)
		}
		if o.Exists && v.Policy.Remediation == placementv1.RemediationNewOnly {
			// Existing objects keep their values, also at their next update.
			continue
		}
		for _, c := range v.Changes {
			if c.Immutable == "" {
				if out.wanted == nil {
					out.wanted = map[valueKey]wanted{}
				}
				out.wanted[valueKey{c.Field, c.Key}] = wanted{c.From, c.To, v.Policy.Name}
			}
		}
	}
	slices.Sort(out.matched)
	if out.blocked {
		out.wanted = nil
	}
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
	if after.blocked {
		return nil
	}
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

// newReport returns the report on the results.
func newReport(results []result) *Report {
	out := &Report{Objects: []Object{}, Totals: map[Transition]int{}, Namespaces: map[string]map[Transition]int{}}
	for _, r := range results {
		if r.unmatched {
			continue
		}
		if r.Object == nil {
			out.Unchanged++
			continue
		}
		out.Objects = append(out.Objects, *r.Object)
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
