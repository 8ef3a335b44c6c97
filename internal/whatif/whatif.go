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
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/rollout"
	"github.com/berth-dev/berth/internal/schemas"
	"github.com/berth-dev/berth/internal/simulation"
)

// Types checks what policies read against the schemas of the types.
type Types interface {
	// Check returns the findings. An error means that the schemas could not be read.
	Check(ctx context.Context, name string, spec placementv1.PlacementPolicySpec, bound policy.Bindings) (*schemas.Report, error)
}

// Session answers several questions about the effect of changes on one state of a cluster. It decides all objects when it is created, and
// for each question only those that may be decided otherwise. It is not safe for concurrent use.
type Session struct {
	// Types checks the types in the policies that change. If it is nil, they are not checked.
	Types Types
	// Recount reports whether the cluster has all objects that quotas count. Otherwise, as in a snapshot, the usage of quotas is what their
	// status says.
	Recount bool

	cluster *simulation.Cached
	options simulation.Options
	before  *simulation.Simulation // the simulation without changes
	// partial makes the session leave out types that the user may not list, instead of returning an error.
	partial bool
	// missing are the types that the session left out and that policies may match before the changes.
	missing []string
	// objects are the existing objects that policies may match, type by type.
	objects []simulation.Object
	lists   map[schema.GroupVersionResource]listed // where the objects of each type are in objects
	states  []*state                               // what the policies decide for each of objects; never nil, also if no policy matches it
	index   map[objectKey]int                      // the index of each object in objects
	groups  *groups                                // the objects, grouped by what policies read of them
	// places has, for each of objects, the index of its type and namespace in byPlace, which has each such pair once. Whether a policy
	// matches none, some, or all objects of a pair is computed once for the pair.
	places  []int32
	byPlace map[place]int32
	// copies are the indices in objects of those that have a controller and a list of clusters, which may be a copy of the list of the
	// controller. They are decided again whenever a policy that matches them, or an object of a type that it reads, changes.
	copies []int
	// checked has the last report on the types in each policy, by name. Reports keep the schemas in memory that they used.
	checked map[string]*schemas.Report
}

// NewSession reads the policies of a cluster, the objects that they read, and those that they may match, and decides the latter.
func NewSession(ctx context.Context, cluster simulation.Cluster, o simulation.Options) (*Session, error) {
	return newSession(ctx, cluster, o, false)
}

// NewPartialSession is NewSession for a user who may not list all types that policies match. Reports name the types that are missing. If
// the user may not list what policies read, it is an error, because the policies can't decide without that.
func NewPartialSession(ctx context.Context, cluster simulation.Cluster, o simulation.Options) (*Session, error) {
	return newSession(ctx, cluster, o, true)
}

// newSession reads and decides what NewSession does. partial reports whether types that policies match and that the user may not list are
// left out, and are no error. Session.missing has their names.
func newSession(ctx context.Context, cluster simulation.Cluster, o simulation.Options, partial bool) (*Session, error) {
	cached := simulation.NewCached(cluster)
	before, err := simulation.New(ctx, cached, o)
	if err != nil {
		return nil, err
	}
	s := &Session{
		cluster: cached, options: o, before: before, partial: partial, index: map[objectKey]int{}, groups: newGroups(),
		byPlace: map[place]int32{},
		lists:   map[schema.GroupVersionResource]listed{}, checked: map[string]*schemas.Report{},
	}
	for l, err := range before.MatchedLists(ctx) {
		if s.mayLeaveOut(err) {
			s.missing = append(s.missing, l.Resource.GroupResource().String())
			continue
		}
		if err != nil {
			return nil, err
		}
		s.lists[l.Resource.GroupVersionResource] = listed{l.Contents, len(s.objects)}
		for _, content := range l.Contents {
			o := l.Object(content)
			if metav1.GetControllerOfNoCopy(content) != nil && content.GetAnnotations()[placementv1.ClustersAnnotation] != "" {
				s.copies = append(s.copies, len(s.objects))
			}
			s.index[keyOf(o)] = len(s.objects)
			s.objects = append(s.objects, o)
			s.places = append(s.places, s.placeOf(o))
		}
	}
	s.states = make([]*state, len(s.objects))
	return s, simulation.Parallel(len(s.objects), func(i int) (err error) {
		s.states[i], err = stateOf(ctx, before, s.objects[i], s.groups.evaluateFor(i))
		return err
	})
}

// place is a type of objects and a namespace.
type place struct {
	resource  schema.GroupVersionResource
	namespace string // empty for cluster-scoped objects
}

// placeOf returns the index of the place of an object, which byPlace has. It gives a new place the next index.
func (s *Session) placeOf(o simulation.Object) int32 {
	at := place{o.Resource, o.Namespace}
	i, ok := s.byPlace[at]
	if !ok {
		i = int32(len(s.byPlace))
		s.byPlace[at] = i
	}
	return i
}

// listed has the existing objects of one type (contents). Session.objects has them in the same order, from the index first on.
type listed struct {
	contents []*unstructured.Unstructured
	first    int // the index of the first one in Session.objects
}

// isList reports whether two slices are the same slice, or both are empty. It does not compare their members.
func isList(a, b []*unstructured.Unstructured) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// mayLeaveOut reports whether an error of listing a type means that the session leaves the type out.
func (s *Session) mayLeaveOut(err error) bool { return s.partial && apierrors.IsForbidden(err) }

var (
	placementPolicies = placementv1.GroupVersion.WithResource("placementpolicies")
	namespaces        = corev1.SchemeGroupVersion.WithResource("namespaces")
)

// objectKey identifies an object: by its type in its API version, its namespace ("" for cluster-scoped objects), and its name.
type objectKey struct {
	resource schema.GroupVersionResource
	name     types.NamespacedName
}

// keyOf returns the key of an object: its type in its API version, its namespace, and its name.
func keyOf(o simulation.Object) objectKey {
	return objectKey{o.Resource, types.NamespacedName{Namespace: o.Namespace, Name: o.Content.GetName()}}
}

// WhatIf returns what changes of the cluster would do. The next call starts from the same state again. An error names the object whose
// change is not possible, or says what could not be read.
func (s *Session) WhatIf(ctx context.Context, c Changes) (*Report, error) {
	changed, err := newOverlay(ctx, s.cluster, c)
	if err != nil {
		return nil, err
	}
	after, err := simulation.New(ctx, changed, s.options)
	if err != nil {
		return nil, err
	}
	q := &question{Session: s, after: after, requests: after, changed: changed, marked: make([]bool, len(s.objects))}
	q.unenforced = policiesNoLongerEnforced(s.before, after)
	if err := q.countAgain(ctx); err != nil {
		return nil, err
	}
	if err := q.read(ctx); err != nil {
		return nil, err
	}
	if err := q.mark(ctx); err != nil {
		return nil, err
	}
	pairs, err := q.pairs(ctx)
	if err != nil {
		return nil, err
	}
	q.results = make([]result, len(pairs))
	err = simulation.Parallel(len(pairs), func(i int) (err error) {
		q.results[i], err = q.compare(ctx, pairs[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	out := newReport(q.results)
	out.Missing = q.missing
	q.addUnchanged(out, pairs)
	out.Rules = q.rules()
	out.Findings, err = q.findings(ctx)
	return out, err
}

// addUnchanged adds the objects to the report that policies match and to which nothing happens: those that are not marked, and those of the
// pairs without an Object in their result.
func (q *question) addUnchanged(out *Report, pairs []pair) {
	next := 0
	compared := func() {
		if r := q.results[next]; r.Object == nil && r.after != nil {
			out.addUnchanged(pairs[next].Object, r.after)
		}
		next++
	}
	for i, marked := range q.marked {
		switch {
		case q.contents[i].Content == nil:
			// It does not exist any more.
		case marked:
			// The pairs begin with the marked objects, in this order.
			compared()
		case len(q.states[i].matched) > 0:
			out.addUnchanged(q.contents[i], q.states[i])
		}
	}
	for next < len(pairs) {
		compared()
	}
}

// question computes the effect of one set of changes.
type question struct {
	*Session
	// after is the simulation of the cluster after the changes. requests decides the requests of the changes themselves: it is a simulation of
	// the same cluster in which quotas do not count yet what these requests create.
	after, requests *simulation.Simulation
	changed         *overlay // the cluster after the changes
	// unenforced are the names of the policies that are enforced before the changes, and exist and are not enforced after them.
	unenforced []string
	// recounted are the quotas whose status differs because of the changes, if policies read quotas.
	recounted recounted
	// contents are Session.objects with the fields that policies read after the changes. An object that was missing when its type was read
	// again has no Content, because it no longer exists.
	contents []simulation.Object
	// others are the objects that policies may match only after the changes, such as those that these create.
	others []simulation.Object
	// missing are the types that the user may not list and that policies may match before or after the changes.
	missing []string
	// marked reports, by index in Session.objects, whether something may happen to an object, so that it is decided again.
	marked  []bool
	results []result // of the marked objects, and of others
}

// policiesNoLongerEnforced returns the names of the policies that are enforced in one simulation, and exist and are not enforced in
// another.
func policiesNoLongerEnforced(before, after *simulation.Simulation) (out []string) {
	for _, p := range before.Policies() {
		if next := after.Policy(p.Name); p.Mode == placementv1.ModeEnforce && next != nil && next.Mode != placementv1.ModeEnforce {
			out = append(out, p.Name)
		}
	}
	return out
}

// read lists the objects that policies may match after the changes, and sets contents, others, and missing of the question.
func (q *question) read(ctx context.Context) error {
	q.contents, q.missing = q.objects, slices.Clone(q.Session.missing)
	own := false
	for l, err := range q.after.MatchedLists(ctx) {
		if q.mayLeaveOut(err) {
			if missing := l.Resource.GroupResource().String(); !slices.Contains(q.missing, missing) {
				q.missing = append(q.missing, missing)
			}
			continue
		}
		if err != nil {
			return err
		}
		before := q.lists[l.Resource.GroupVersionResource]
		if isList(before.contents, l.Contents) {
			// Most lists are as they were.
			continue
		}
		if !own {
			q.contents, own = slices.Clone(q.objects), true
		}
		q.readAgain(before, l)
	}
	return nil
}

// readAgain updates contents and others for a type whose list after the changes differs from that before. An object that is in the later
// list gets the content that it has there, or is added to others if the session does not have it. One that is missing from it gets no
// Content, unless the changes themselves delete it.
func (q *question) readAgain(before listed, after simulation.List) {
	found := make([]bool, len(before.contents))
	next := 0
	for _, content := range after.Contents {
		o := after.Object(content)
		// Most objects come as they did before, and in the same order.
		i, known := before.first+next, next < len(before.contents) && before.contents[next] == content
		if !known {
			i, known = q.index[keyOf(o)]
		}
		if !known {
			q.others = append(q.others, o)
			continue
		}
		q.contents[i], found[i-before.first] = o, true
		next = i - before.first + 1
	}
	for n := range before.contents {
		i := before.first + n
		if _, changes := q.changed.change(keyOf(q.objects[i])); !found[n] && !changes {
			// It does not exist any more.
			q.contents[i].Content = nil
		}
	}
}

// mark marks the objects to which something may happen: those that change, and those that a policy may decide otherwise because it changes,
// or reads something that changes.
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
		if after == nil || !q.treatsAlike(before, after) {
			for _, v := range before.Versions() {
				for _, g := range q.groups.of(v.Policy) {
					q.markAll(g)
				}
			}
			continue
		}
		if err := q.markConcerned(ctx, before, after); err != nil {
			return err
		}
		for _, i := range q.copies {
			// Whether such an object keeps the clusters of its controller depends on more than the decision.
			q.marked[i] = q.marked[i] || slices.Contains(q.states[i].matched, before.Name)
		}
	}
	for _, after := range q.after.Policies() {
		before := q.before.Policy(after.Name)
		if before != nil && !q.affected(after) {
			continue
		}
		alike := before != nil && q.treatsAlike(before, after)
		if alike && equality.Semantic.DeepEqual(before.Spec.Match, after.Spec.Match) {
			continue
		}
		if err := q.markMatched(ctx, after, alike); err != nil {
			return err
		}
	}
	return nil
}

// markConcerned marks the objects that a policy matches before the changes and that it may decide otherwise after them, or that it can't
// decide before or after them, which is no error. It does not check whether the policy still matches them after the changes.
func (q *question) markConcerned(ctx context.Context, before, after *simulation.Policy) error {
	// No other group of the policy has the members of one.
	groups := q.groups.of(before.Policy)
	same := decideAlike(before.Spec, after.Spec) && !q.rereads(before) && !q.rereads(after)
	return simulation.Parallel(len(groups), func(i int) error {
		if same && groups[i].err == nil {
			// The decision is the same.
			return nil
		}
		groups[i].concerned(ctx, before.Evaluator, after.Evaluator, func(index int) { q.marked[index] = true })
		// An error of the policy is what happens to the objects.
		return ctx.Err()
	})
}

// markAll marks all members of a group. It is safe to call concurrently for several groups of one policy, which have no common members.
func (q *question) markAll(g *group) {
	for _, i := range g.members {
		q.marked[i] = true
	}
}

// markMatched marks the objects that a policy matches after the changes. With alike, which reports whether the policy treats objects alike
// that it matches before and after the changes, it marks those that the policy matches only before or only after them.
func (q *question) markMatched(ctx context.Context, p *simulation.Policy, alike bool) error {
	matches, err := q.matchesByPlace(ctx, p)
	if err != nil {
		return err
	}
	return simulation.Parallel(len(q.objects), func(i int) error {
		if q.marked[i] || q.contents[i].Content == nil {
			return nil
		}
		is := matches[q.places[i]]
		if is == simulation.MatchesSome {
			mismatch, err := q.after.Mismatch(ctx, p, q.contents[i])
			if err != nil {
				return err
			}
			is = simulation.MatchesAll
			if mismatch != nil {
				is = simulation.MatchesNone
			}
		}
		matched := alike && slices.Contains(q.states[i].matched, p.Name)
		q.marked[i] = matched != (is == simulation.MatchesAll)
		return nil
	})
}

// matchesByPlace returns, by index in Session.byPlace, whether a policy matches none, some, or all of the objects of the place after the
// changes, as far as the type and the namespace decide.
func (q *question) matchesByPlace(ctx context.Context, p *simulation.Policy) ([]simulation.Matches, error) {
	out := make([]simulation.Matches, len(q.byPlace))
	for at, i := range q.byPlace {
		var err error
		if out[i], err = q.after.MatchesIn(ctx, p, at.resource, at.namespace); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// affected reports whether the changes alter a policy itself, an object of a type that it reads or, if it needs them, Namespaces.
func (q *question) affected(p *simulation.Policy) bool {
	return q.changesPolicy(p.Name) || q.rereads(p)
}

// rereads reports whether the changes alter an object of a type that a policy reads or, if the policy needs them, Namespaces.
func (q *question) rereads(p *simulation.Policy) bool {
	for _, resources := range []map[schema.GroupVersionResource]map[types.NamespacedName]change{q.changed.changed, q.recounted} {
		for resource := range resources {
			if p.Fields(resource) != nil || p.PredicateReads(resource) != nil {
				return true
			}
		}
	}
	return q.changesNamespaces() && p.NeedsNamespaces()
}

// changesNamespaces reports whether the changes apply, set, or delete a Namespace, even if that leaves it as it was.
func (q *question) changesNamespaces() bool {
	return len(q.changed.changed[namespaces]) > 0
}

// treatsAlike reports whether at most the match and the decisions of a policy differ before and after the changes, because its match,
// rules, Rego, or data do. All else in its spec must be equal, such as its mode, it must compile and be in force in all namespaces, and
// must read no more of objects than before. Then equal decisions on one member of each group mean that nothing happens to the others that
// the policy still matches. It returns false if that is not certain.
func (q *question) treatsAlike(before, after *simulation.Policy) bool {
	text := func(spec placementv1.PlacementPolicySpec) placementv1.PlacementPolicySpec {
		spec.Match, spec.Rules, spec.Rego, spec.RegoVersion, spec.Data, spec.Replicate = placementv1.Match{}, nil, "", "", nil, nil
		return spec
	}
	decides := func(p *simulation.Policy) bool { return p.Err == nil && p.Assignment.Target != rollout.None }
	if q.changesNamespaces() && (before.NeedsNamespaces() || after.NeedsNamespaces()) {
		return false
	}
	// A match condition that fails matches the object, and keeps the policy from deciding it. Mismatch does not tell that.
	if (before.Matcher.Conditional() || after.Matcher.Conditional()) && !equality.Semantic.DeepEqual(before.Spec.Match, after.Spec.Match) {
		return false
	}
	return decides(before) && decides(after) && !before.Assignment.Partial() && !after.Assignment.Partial() &&
		before.Schedules == after.Schedules && before.Evaluator.Input().Covers(after.Evaluator.Input()) &&
		equality.Semantic.DeepEqual(text(before.Spec), text(after.Spec))
}

// decideAlike reports whether the specs of a policy before and after the changes have the same rules, Rego, spec.data, and spec.replicate.
// Then the policy decides equal objects alike that it matches in both, given the same data, if its mode and all else are the same, too.
func decideAlike(a, b placementv1.PlacementPolicySpec) bool {
	return equality.Semantic.DeepEqual(a.Rules, b.Rules) && a.Rego == b.Rego && a.RegoVersion == b.RegoVersion &&
		equality.Semantic.DeepEqual(a.Data, b.Data) && equality.Semantic.DeepEqual(a.Replicate, b.Replicate)
}

// pair is an object after the changes (Content is nil if it is deleted), with what policies decided for it before.
type pair struct {
	simulation.Object
	// original is the object before the changes, if they alter or delete it.
	original *unstructured.Unstructured
	before   *state // what policies decided before the changes; never nil, and empty for a new object
}

// pairs returns the marked objects, and then those in others, each with what policies decided for it before the changes. Those in others
// that existed before, such as objects that no policy matched then, are decided for that; new ones have an empty state.
func (q *question) pairs(ctx context.Context) ([]pair, error) {
	var out []pair
	add := func(o simulation.Object, before *state) error {
		p := pair{Object: o, before: before}
		if c, changes := q.changed.change(keyOf(o)); changes {
			p.original, p.Content = c.before, c.after
			p.Exists, p.Old = false, c.before
		}
		if p.before == nil {
			p.before = &state{}
			if o := (simulation.Object{Resource: p.Resource, Namespace: p.Namespace, Content: cmp.Or(p.original, p.Content),
				Exists: true}); p.Exists || p.original != nil {
				var err error
				if p.before, err = stateOf(ctx, q.before, o, nil); err != nil {
					return err
				}
			}
		}
		out = append(out, p)
		return nil
	}
	for i, marked := range q.marked {
		if !marked || q.contents[i].Content == nil {
			continue
		}
		if err := add(q.contents[i], q.states[i]); err != nil {
			return nil, err
		}
	}
	for _, o := range q.others {
		if err := add(o, nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// result is what happens to one object, with its state after the changes; Object is nil if nothing does.
type result struct {
	*Object
	// after is what policies decide for the object after the changes; nil if it is deleted, or if no policy matches it before or after
	// them.
	after *state
	// matched are the names of the policies that match the object after the changes. harmed are those with automatic remediation that newly
	// deny it, can't decide it, or allow it no cluster. One that did not match it before counts only if it removes all clusters of the object.
	matched, harmed []string
	namespace       string // the namespace of the object; "" if it is cluster-scoped, or if after is nil
	// rules are the rules that decide the object after the changes.
	rules []decidingRule
}

// compare decides an object after the changes, and returns what happens to it. The result is empty if the object is deleted, or if no
// policy matches it before or after.
func (q *question) compare(ctx context.Context, p pair) (result, error) {
	if p.Content == nil {
		return result{}, nil
	}
	if err := ctx.Err(); err != nil {
		// The client has given up the request.
		return result{}, err
	}
	decides := q.after
	if !p.Exists {
		decides = q.requests
	}
	after, err := stateOf(ctx, decides, p.Object, nil)
	if err != nil {
		return result{}, err
	}
	if len(p.before.matched)+len(after.matched) == 0 {
		return result{}, nil
	}
	before := *p.before
	if p.original != nil {
		before.wanted, after.wanted = withoutOwn(before.wanted, after.wanted, p.original, p.Content)
	}
	out := result{after: after, matched: after.matched, namespace: p.Namespace, rules: after.rules}
	if p.Exists {
		// What developers do to their objects pauses no policy.
		out.harmed = before.harmedBy(after)
	}
	out.Object = before.to(after, !p.Exists, q.changesPolicy)
	if p.Exists {
		out.Object = q.released(out.Object, &before, after)
	}
	if out.Object == nil {
		return out, nil
	}
	o := p.Object
	out.Kind, out.Resource, out.Namespace, out.Name = o.Content.GetKind(), o.Resource.GroupResource().String(),
		o.Namespace, o.Content.GetName()
	return out, nil
}

// released returns what happens to an existing object because policies that match it are no longer enforced: the transition Unenforced,
// with the names of those that match it before and after the changes. It returns happens, what happens to the object apart from that, if
// there are no such policies, or if happens is neither nil nor Kept.
func (q *question) released(happens *Object, before, after *state) *Object {
	if happens != nil && happens.Transition != Kept {
		return happens
	}
	names := slices.DeleteFunc(slices.Clone(q.unenforced), func(name string) bool {
		return !slices.Contains(before.matched, name) || !slices.Contains(after.matched, name)
	})
	if len(names) == 0 {
		return happens
	}
	out := &Object{Transition: Unenforced, Reasons: names}
	if happens != nil {
		out.Dropped = happens.Dropped
	}
	return out
}

// changesPolicy reports whether the changes apply, set, or delete the policy of a name, even if that leaves it as it was.
func (q *question) changesPolicy(name string) bool {
	_, changes := q.changed.change(objectKey{placementPolicies, types.NamespacedName{Name: name}})
	return changes
}

// withoutOwn returns before and after, the values that policies decide before and after an update of an object (from old to updated),
// without those that are no work of the policies: in before, those that no policy decides any more and that the update itself changes; in
// after, those that old has already and for which before has no due value.
func withoutOwn(before, after map[valueKey]*wanted, old, updated *unstructured.Unstructured) (_, _ map[valueKey]*wanted) {
	before, after = maps.Clone(before), maps.Clone(after)
	maps.DeleteFunc(before, func(key valueKey, w *wanted) bool {
		_, decided := after[key]
		kept := w.Change
		kept.To = w.From
		return !decided && !podscheduling.IsContribution(key.key) && !kept.Done(updated)
	})
	maps.DeleteFunc(after, func(key valueKey, w *wanted) bool {
		return (before[key] == nil || before[key].due == nil) && w.Done(old)
	})
	return before, after
}
