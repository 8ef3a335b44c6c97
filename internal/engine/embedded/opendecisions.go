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

package embedded

import (
	"slices"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/rules"
)

const (
	// openDecisionsBytes is the maximum size of each of the two generations of open decisions, with what clusters are chosen from.
	openDecisionsBytes = 4 << 20
	// maxOpenCandidates is from how many clusters a choice is made without an evaluation, which has a slot and a deadline.
	maxOpenCandidates = 1 << 14
)

// openDecisions caches open decisions of a policy with spec.rules: decisions without the choice of clusters, which depends on the object's
// path. Objects that differ in nothing else share one, so that only the clusters are chosen for each of them. It is safe for concurrent
// use.
type openDecisions struct {
	module *policy.Module
	// fields are the fields of the input that open decisions depend on.
	fields *projection.FieldSet
	cache  decisionCache
	use    fieldSetUse // counts the lookups of open decisions
}

// newOpenDecisions returns an empty cache for a module; nil if the policy has no spec.rules, if none of them chooses among the eligible
// clusters by limit or spread, if predicates check its decisions, or if more than the clusters of a decision depends on which are chosen,
// such as a label with {clusters}. What depends on the name otherwise, such as a label with {name}, is a part of the key.
func newOpenDecisions(m *policy.Module) *openDecisions {
	fields := m.InputWithoutChoice()
	if fields == nil {
		return nil
	}
	return &openDecisions{module: m, fields: fields, cache: decisionCache{limit: openDecisionsBytes}}
}

// decide returns the decision on an object, as an evaluation would. ok is false if the object has to be evaluated: the input is too large,
// the cache has no open decision for it, or is not used, because open decisions seldom repeat or the object stays in a cluster that is not
// ready.
func (o *openDecisions) decide(revision uint64, state evaluationState, input map[string]any) (d placement.Decision, ok bool) {
	if o == nil || len(state.tolerated) > 0 || !o.use.countLookup() {
		return placement.Decision{}, false
	}
	buffer := keyBuffers.Get().(*[]byte)
	defer keyBuffers.Put(buffer)
	key, ok := o.fields.AppendKey((*buffer)[:0], input)
	*buffer = key
	if !ok {
		return placement.Decision{}, false
	}
	known := o.cache.get(revision, key)
	if known == nil {
		return placement.Decision{}, false
	}
	path, ok := rules.ObjectPath(input)
	if !ok || engine.CheckInput(o.module.Input, input, o.module.InputBytes) != nil {
		return placement.Decision{}, false
	}
	o.use.hits.Add(1)
	return known.Complete(path), true
}

// Complete implements placement.OpenDecision. It returns the decision with the clusters that are chosen for the object with a path.
func (r *cachedDecision) Complete(path string) placement.Decision {
	out := r.decision
	if r.choice != nil {
		out.Clusters, _ = r.choice.of(path)
		slices.Sort(out.Clusters)
	}
	return out
}

// put stores the open decision of an evaluation. It stores none if more than one choice of clusters depends on the object's path, if the
// choice is from more than maxOpenCandidates clusters, if the object stays in a cluster that is not ready, or if open decisions seldom
// repeat.
func (o *openDecisions) put(revision uint64, state evaluationState, input map[string]any, a evaluation) {
	if o == nil || len(state.tolerated) > 0 || len(a.choices) > 1 || !o.use.repeats() {
		return
	}
	open := &cachedDecision{decision: a.decision}
	if len(a.choices) == 1 {
		open.choice = &a.choices[0]
	}
	path, ok := rules.ObjectPath(input)
	open.path = path
	if !ok || !open.Complete(path).Equal(a.decision) || open.choice != nil &&
		(len(open.choice.names) > maxOpenCandidates || !open.choice.valid()) {
		return
	}
	if key, ok := o.fields.AppendKey(nil, input); ok {
		o.cache.put(revision, key, open)
	}
}

var (
	_ placement.Chooser      = (*evaluator)(nil)
	_ placement.OpenDecision = (*cachedDecision)(nil)
)

// OpenInput implements placement.Chooser. It returns the fields of the input that the policy's decisions depend on apart from the choice of
// clusters; nil if the policy has no open decisions.
func (p *evaluator) OpenInput() *projection.FieldSet {
	if p.openDecisions == nil {
		return nil
	}
	return p.openDecisions.fields
}

// Open implements placement.Chooser. It returns the cached open decision on an input, and the path of the object. ok is false if there is
// none for the current data. It is also false if open decisions seldom repeat, if the object stays in a cluster that is not ready, or if
// the input is too large.
func (p *evaluator) Open(input map[string]any) (open placement.OpenDecision, path string, ok bool) {
	o := p.openDecisions
	if o == nil || len(toleratedIn(input)) > 0 || !o.use.repeats() || engine.CheckInput(p.module.Input, input, p.module.InputBytes) != nil {
		return nil, "", false
	}
	path, ok = rules.ObjectPath(input)
	if !ok {
		return nil, "", false
	}
	known := p.opened(input)
	if known == nil {
		return nil, "", false
	}
	if path != known.path {
		o.use.lookups.Add(1)
		o.use.hits.Add(1)
		p.engine.Observer.DecisionCacheHit()
	}
	return known, path, true
}

// opened returns the cached open decision on an input that was made for the current data; nil if there is none. It looks for one even if
// open decisions seldom repeat. The caller has checked that the policy has open decisions.
func (p *evaluator) opened(input map[string]any) *cachedDecision {
	state, err := p.currentState()
	if err != nil {
		return nil
	}
	buffer := keyBuffers.Get().(*[]byte)
	defer keyBuffers.Put(buffer)
	key, ok := p.openDecisions.fields.AppendKey((*buffer)[:0], input)
	*buffer = key
	if !ok {
		return nil
	}
	return p.openDecisions.cache.get(p.revision(state.snapshot), key)
}

// ChangesTo implements placement.OpenDecision. It compares open decisions: what they decide besides clusters, and the clusters that they
// choose from. concerns reports whether an object with a path that has the clusters may get other clusters from later. ok is false if every
// object may get another decision.
func (r *cachedDecision) ChangesTo(later placement.OpenDecision) (concerns func(path string, clusters []string) bool, ok bool) {
	next, ok := later.(*cachedDecision)
	if !ok || (r.choice == nil) != (next.choice == nil) {
		return nil, false
	}
	before, after := r.decision, next.decision
	if r.choice == nil {
		return func(string, []string) bool { return false }, before.Equal(after)
	}
	before.Clusters, after.Clusters = nil, nil
	if !before.Equal(after) || r.choice.bounds != next.choice.bounds {
		return nil, false
	}
	changes := r.choice.changesTo(next.choice)
	if changes == nil {
		return nil, false
	}
	return func(path string, clusters []string) bool {
		return changes.Concern(path, clusters) && !slices.Equal(clusters, next.Complete(path).Clusters)
	}, true
}
