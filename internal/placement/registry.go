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

package placement

import (
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/rollout"
)

var _ Policies = (*Registry)(nil)

// PolicyState is the state of one PlacementPolicy, whose name it does not have, on this replica: the version that decides, which may always
// fail but is never nil, the data that versions read, and what has become of newer versions.
type PolicyState struct {
	// Policy is the version that decides: with spec.rollout, only in the stages that it has reached, which may be none. If Broken is true, its
	// evaluator always fails, so that Policy.FailurePolicy says what happens to the objects that it matches.
	Policy *Policy
	// Generation is the newest generation that was loaded, apart from one that waits for its data, which only Loaded and Next tell. It is
	// newer than Policy.Generation if it can't decide, so that an earlier version does.
	Generation int64
	// Err says why the newest generation does not decide, for example because it does not compile or reads a type that is not served, or which
	// stored version can't be loaded; nil if the versions decide that the spec and the rollout's status ask for.
	Err error
	// Broken reports whether the version that has to decide can't be loaded: no known generation compiles, or the stored version that the
	// rollout needs does not exist or does not compile.
	Broken bool
	// Binding is the data that Policy reads; nil if Broken.
	Binding *policy.Binding
	// Next is the data that newer versions read. These versions will decide once this data is replicated, or once their rollout begins. It
	// is empty if no version waits.
	Next []*policy.Binding
	// DecidesNothing reports whether Policy has no effect: neither a rule of the decision contract nor spec.predicates.candidates.
	DecidesNothing bool
	// ModuleDigest is the digest of the Rego module that spec.rules of Policy are compiled to; "" if it has no rules.
	ModuleDigest string
	// Warnings are what is probably a mistake in Policy, and the plural names in it that several API groups serve.
	Warnings []string
	// Loaded is the newest version that was loaded, even while it waits for its data.
	Loaded LoadedVersion
	// Staged describes the versions of a policy with spec.rollout; nil for a policy without it.
	Staged *StagedVersions
	// Last is the newest version if it decides in all namespaces and waits for nothing, so that the leader must store it as the last one in
	// force everywhere; nil otherwise.
	Last *policy.Revision
	// Numbered are the versions of a policy with spec.rollout that must be stored under their numbers (policy.NumberedRevisionName), even if
	// they are stored already. The leader stores those that are missing.
	Numbered []*policy.Revision
}

// StagedVersions are the versions of a policy that comes into force in stages. PolicyState.Policy decides in the stages that are reached.
type StagedVersions struct {
	// InForce says which version PolicyState.Policy is, and how far its rollout is.
	InForce rollout.InForce
	// Candidate is the digest that identifies the rollout of the newest version, which may not have begun; "" while that version can't decide.
	Candidate string
	// Stages are the stages of the newest spec.
	Stages *rollout.Stages
	// Before is the version that decides wherever PolicyState.Policy does not yet; nil if none does.
	Before *Policy
	// BeforeBinding is the data that Before reads; nil if Before is nil, or if it can't be loaded any more, so that it always fails.
	BeforeBinding *policy.Binding
}

// LoadedVersion identifies a version of a policy by the UID and the generation of the PlacementPolicy alone.
type LoadedVersion struct {
	UID        types.UID // The UID of the PlacementPolicy.
	Generation int64
}

// Versions returns the versions that decide, one or two: Policy, and then Staged.Before, if there is one. No object matches both.
func (s *PolicyState) Versions() []*Policy {
	if s.Staged == nil || s.Staged.Before == nil {
		return []*Policy{s.Policy}
	}
	return []*Policy{s.Policy, s.Staged.Before}
}

// Decides reports whether p is one of the versions that decide. It returns false if s is nil.
func (s *PolicyState) Decides(p *Policy) bool {
	return s != nil && (s.Policy == p || s.Staged != nil && p != nil && s.Staged.Before == p)
}

// Waits reports whether a newer version waits for its data, or for its rollout. It returns false if s is nil.
func (s *PolicyState) Waits() bool { return s != nil && len(s.Next) > 0 }

// BindingOf returns the data that one of the versions that decide reads. It returns nil if p does not compile or does not decide, and if s
// is nil.
func (s *PolicyState) BindingOf(p *Policy) *policy.Binding {
	switch {
	case !s.Decides(p):
		return nil
	case s.Policy == p:
		return s.Binding
	default:
		return s.Staged.BeforeBinding
	}
}

// InForce returns the bindings of the versions that decide, except for those that do not compile.
func (s *PolicyState) InForce() []*policy.Binding {
	out := []*policy.Binding{s.Binding}
	if s.Staged != nil {
		out = append(out, s.Staged.BeforeBinding)
	}
	return slices.DeleteFunc(out, func(b *policy.Binding) bool { return b == nil })
}

// Bindings returns the bindings of the versions that decide, followed by Next.
func (s *PolicyState) Bindings() []*policy.Binding { return append(s.InForce(), s.Next...) }

// Reads reports whether one of Bindings reads everything that b reads.
func (s *PolicyState) Reads(b *policy.Binding) bool {
	return slices.ContainsFunc(s.Bindings(), func(of *policy.Binding) bool { return of.Covers(b) })
}

// Registry holds the policies of one replica. It is safe for concurrent use. Decisions, and readers of the policies in force, take no lock.
//
// A decision may still evaluate a version when the registry already has another one, or none. The data that such a version reads must
// remain until the decision ends. So the registry counts the decisions that began with each of its states, and keeps an earlier state until
// these have ended.
type Registry struct {
	// mu serializes changes. It is held while a change is published, so that changes arrive in order; subscribers must not make any.
	mu      sync.Mutex
	current atomic.Pointer[registryState] // The newest state.
	// earlier has the states before the current one whose decisions may not have ended, the oldest first. mu guards it.
	earlier []*registryState
	changes notify.Topic[PolicyChange] // Publishes each change of a policy.
	// released is published each time that the last decision that began with one of the earlier states has ended. Decisions that began with
	// other earlier states may go on.
	released notify.Topic[struct{}]
}

// PolicyChange is a change of a policy's state: which versions decided before it, and which do after it. Before and After may be equal.
type PolicyChange struct {
	Name string // The name of the policy.
	// Before and After are the versions that decide, as PolicyState.Versions returns them; nil if the policy is not in the
	// registry.
	Before, After []*Policy
}

// registryState is one state of the registry. It is immutable, except for the number of decisions.
type registryState struct {
	states  []namedState          // The states of all policies, sorted by name.
	inForce []*Policy             // The versions that decide, sorted by name.
	index   *match.Index[*Policy] // Finds the versions that decide by the object that they match.
	// decisions is the number of decisions that began with this state and have not ended.
	decisions atomic.Int64
	// end ends a decision that began with this state.
	end func()
}

// namedState is the state of a policy with its name.
type namedState struct {
	name  string
	state *PolicyState
}

// find returns the index of a policy in states, or where it would be, and whether it is there.
func (s *registryState) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.states, name, func(n namedState, name string) int { return strings.Compare(n.name, name) })
}

// get returns a policy's state; nil if the registry does not have the policy.
func (s *registryState) get(name string) *PolicyState {
	at, known := s.find(name)
	if !known {
		return nil
	}
	return s.states[at].state
}

// NewIndex returns an index that finds policies by the objects that they match. It does not order them.
func NewIndex(policies ...*Policy) *match.Index[*Policy] {
	out := match.NewIndex(func(p *Policy) *match.Matcher { return p.Matcher })
	for _, p := range policies {
		out = out.With(p)
	}
	return out
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	r := &Registry{}
	r.current.Store(r.newState())
	return r
}

// newState returns a state without policies, with its function end.
func (r *Registry) newState() *registryState {
	s := &registryState{index: NewIndex()}
	s.end = func() {
		if s.decisions.Add(-1) == 0 && r.current.Load() != s {
			r.released.Publish(struct{}{})
		}
	}
	return s
}

// Begin begins a decision with the current state, and returns its index. Until end is called, InUse returns the policies of that state. It
// implements Policies.
func (r *Registry) Begin() (index *match.Index[*Policy], end func()) {
	s := r.current.Load()
	for !r.begin(s) {
		s = r.current.Load()
	}
	return s.index, s.end
}

// begin begins a decision with a state. It returns false, without beginning one, if the state is no longer current: the change that
// replaced it may already have counted its decisions.
func (r *Registry) begin(s *registryState) bool {
	s.decisions.Add(1)
	if r.current.Load() == s {
		return true
	}
	s.end()
	return false
}

// SubscribeReleased registers f to be called when InUse may have fewer policies than before because decisions have ended. Changes of
// policies cause no call. A decision calls f, so f must return quickly. Call SubscribeReleased before the first decision.
func (r *Registry) SubscribeReleased(f func()) { r.released.Subscribe(func(struct{}) { f() }) }

// Subscribe registers f to be called after each change of a policy, in the order of the changes. f must return quickly
// and must not call Set or Remove. Call Subscribe before the first Set, or read the registry afterwards.
func (r *Registry) Subscribe(f func(PolicyChange)) { r.changes.Subscribe(f) }

// Set stores s as the state of a policy.
func (r *Registry) Set(name string, s *PolicyState) { r.change(name, s) }

// Remove removes a policy from the registry.
func (r *Registry) Remove(name string) { r.change(name, nil) }

// change replaces the state of a policy; nil removes the policy. It copies lists of pointers, which costs little compared with compiling a
// policy, and shares everything else.
func (r *Registry) change(name string, s *PolicyState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, next := r.current.Load(), r.newState()
	next.states, next.inForce, next.index = old.states, old.inForce, old.index
	at, known := next.find(name)
	to := at
	var before, after []*Policy
	if known {
		before, to = next.states[at].state.Versions(), at+1
	}
	var existing []namedState
	if s != nil {
		after = s.Versions()
		existing = []namedState{{name, s}}
	}
	next.states = slices.Concat(next.states[:at], existing, next.states[to:])
	first, _ := slices.BinarySearchFunc(next.inForce, name, func(p *Policy, name string) int { return strings.Compare(p.Name, name) })
	next.inForce = slices.Concat(next.inForce[:first], after, next.inForce[first+len(before):])
	for _, p := range before {
		if !slices.Contains(after, p) {
			next.index = next.index.Without(p)
		}
	}
	for _, p := range after {
		if !slices.Contains(before, p) {
			next.index = next.index.With(p)
		}
	}
	r.current.Store(next)
	r.earlier = stillUsed(append(r.earlier, old))
	r.changes.Publish(PolicyChange{Name: name, Before: before, After: after})
}

// stillUsed returns the earlier states with which decisions began that have not ended. It marks nothing in the states: decisions begin only
// with the current state anyway, so no earlier one is used again. It changes the slice.
func stillUsed(earlier []*registryState) []*registryState {
	return slices.DeleteFunc(earlier, func(s *registryState) bool { return s.decisions.Load() == 0 })
}

// InUse returns the states of policies that decisions may use, by name: first the earlier states with which decisions began that have not
// ended, and then all current states, as All does. A policy that was removed may be among the former. Subscribers must not call it.
func (r *Registry) InUse() iter.Seq2[string, *PolicyState] {
	r.mu.Lock()
	r.earlier = stillUsed(r.earlier)
	all := append(slices.Clone(r.earlier), r.current.Load())
	r.mu.Unlock()
	return func(yield func(string, *PolicyState) bool) {
		for i, s := range all {
			for _, n := range s.states {
				// Most policies are the same in the next state.
				if i+1 < len(all) && all[i+1].get(n.name) == n.state {
					continue
				}
				if !yield(n.name, n.state) {
					return
				}
			}
		}
	}
}

// InForce returns the versions that decide, sorted by name: two for a policy that comes into force in stages. Callers must not change the
// slice.
func (r *Registry) InForce() []*Policy { return r.current.Load().inForce }

// Selecting returns the versions that decide whose match rules select a type of objects.
func (r *Registry) Selecting(resource schema.GroupVersionResource) []*Policy {
	return slices.DeleteFunc(slices.Clone(r.InForce()), func(p *Policy) bool { return !p.Matcher.SelectsResource(resource) })
}

// Groups returns the names of the groups that share budgets (spec.remediation.budget.group) of the policies in force, except for one
// policy. A name may occur several times.
func (r *Registry) Groups(except string) (out []string) {
	for _, p := range r.InForce() {
		if p.Name != except && p.Budget.Group != "" {
			out = append(out, p.Budget.Group)
		}
	}
	return out
}

// Get returns the state of a policy; nil if the registry does not have the policy.
func (r *Registry) Get(name string) *PolicyState { return r.current.Load().get(name) }

// Published waits until all subscribers have been notified of a change under way, and returns what Get returns. Subscribers must not call
// it.
func (r *Registry) Published(name string) *PolicyState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Get(name)
}

// BindingsInForce returns, by plural name, the API groups of the resource types that a generation of a policy names without a group; nil if
// that generation does not compile or does not decide, or if spec.rollout.revision selects a stored version.
func (r *Registry) BindingsInForce(name string, uid types.UID, generation int64) policy.Bindings {
	s := r.Get(name)
	if s == nil || s.Broken || s.Loaded.UID != uid || s.Policy.Generation != generation || s.Staged != nil && s.Staged.InForce.Revision != 0 {
		return nil
	}
	return s.Binding.Bindings
}

// All returns the state of every policy at the time of the call, by name, sorted by name.
func (r *Registry) All() iter.Seq2[string, *PolicyState] {
	all := r.current.Load().states
	return func(yield func(string, *PolicyState) bool) {
		for _, n := range all {
			if !yield(n.name, n.state) {
				return
			}
		}
	}
}

// FeedsItself reports whether patches for a policy may change the data that it reads: it reads a resource type that it matches, or one that
// another policy matches, which reads a type that this policy matches. Cycles of more than two policies do not count.
func (r *Registry) FeedsItself(name string) bool {
	p := r.Get(name)
	for _, other := range r.All() {
		if p != nil && p.readsMatched(other) && other.readsMatched(p) {
			return true
		}
	}
	return false
}

// readsMatched reports whether a policy reads types of objects that another policy matches.
func (s *PolicyState) readsMatched(other *PolicyState) bool {
	return slices.ContainsFunc(s.InForce(), func(b *policy.Binding) bool {
		return slices.ContainsFunc(b.Resources, func(r policy.Resource) bool {
			return slices.ContainsFunc(other.Versions(), func(v *Policy) bool { return v.Matcher.SelectsResource(r.GroupVersionResource) })
		})
	})
}
