package placement

import (
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
)

var _ Policies = (*Registry)(nil)

// Standing is how one PlacementPolicy fares on this replica.
type Standing struct {
	// Policy is what decides. Where no text ever compiled it denies what it matches, by an evaluator that always fails.
	Policy *Policy
	// Generation is the newest that was looked at; Policy.Generation is older if that one does not compile.
	Generation int64
	// Err is why the newest generation does not compile; nil if it does.
	Err error
	// Broken says that no generation is known to compile.
	Broken bool
	// Binding is what Policy reads; nil if Broken.
	Binding *policy.Binding
	// Next is what a newer version reads that takes over once that is replicated; nil if none waits.
	Next *policy.Binding
	// Warnings are what the compiler thinks is probably not meant.
	Warnings []string
	// Loaded is the newest version that was looked at, also while it waits for what it reads.
	Loaded Loaded
}

// Loaded identifies a version of a policy.
type Loaded struct {
	UID        types.UID
	Generation int64
}

// Bindings are what the policy reads, and what a newer version that waits does, of those that there are, in this order.
func (s *Standing) Bindings() []*policy.Binding {
	return slices.DeleteFunc([]*policy.Binding{s.Binding, s.Next}, func(b *policy.Binding) bool { return b == nil })
}

// Registry is the set of policies of one replica. It is safe for concurrent use; readers take no lock.
type Registry struct {
	mu          sync.Mutex
	current     atomic.Pointer[standings]
	subscribers []func(name string, before, after *Policy)
}

// standings is one state of the registry; it is immutable. Both lists are sorted by name.
type standings struct {
	all     []named
	inForce []*Policy
	index   *match.Index[*Policy]
}

type named struct {
	name     string
	standing *Standing
}

func (s *standings) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.all, name, func(n named, name string) int { return strings.Compare(n.name, name) })
}

// NewIndex returns an index of policies.
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
	r.current.Store(&standings{index: NewIndex()})
	return r
}

// Subscribe has f called after each change of a policy, with what decided before and decides now; nil stands for
// nothing. f must be quick and must not call Set or Remove. Subscribe before the first Set.
func (r *Registry) Subscribe(f func(name string, before, after *Policy)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subscribers = append(r.subscribers, f)
}

// Set makes s the policy's standing.
func (r *Registry) Set(name string, s *Standing) { r.change(name, s) }

// Remove forgets a policy.
func (r *Registry) Remove(name string) { r.change(name, nil) }

// change copies lists of pointers, which is nothing beside what a policy costs to compile, and shares all else.
func (r *Registry) change(name string, s *Standing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := *r.current.Load()
	at, known := next.find(name)
	to := at
	var before, after *Policy
	if known {
		before, to = next.all[at].standing.Policy, at+1
	}
	var standing []named
	var policy []*Policy
	if s != nil {
		after = s.Policy
		standing, policy = []named{{name, s}}, []*Policy{after}
	}
	next.all = slices.Concat(next.all[:at], standing, next.all[to:])
	next.inForce = slices.Concat(next.inForce[:at], policy, next.inForce[to:])
	if before != after {
		if before != nil {
			next.index = next.index.Without(before)
		}
		if after != nil {
			next.index = next.index.With(after)
		}
	}
	r.current.Store(&next)
	for _, f := range r.subscribers {
		f(name, before, after)
	}
}

// InForce returns the policies that decide, sorted by name. The slice is not to be changed.
func (r *Registry) InForce() []*Policy { return r.current.Load().inForce }

// Index implements Policies.
func (r *Registry) Index() *match.Index[*Policy] { return r.current.Load().index }

// Get returns a policy's standing; nil if it is not known.
func (r *Registry) Get(name string) *Standing {
	current := r.current.Load()
	at, known := current.find(name)
	if !known {
		return nil
	}
	return current.all[at].standing
}

// BoundTo returns the groups that a generation of a policy is bound to; nil if that generation is not in force.
func (r *Registry) BoundTo(name string, uid types.UID, generation int64) policy.Bindings {
	s := r.Get(name)
	if s == nil || s.Broken || s.Loaded.UID != uid || s.Policy.Generation != generation {
		return nil
	}
	return s.Binding.Bindings
}

// All returns every policy's standing by name, sorted, as they are at the time of the call.
func (r *Registry) All() iter.Seq2[string, *Standing] {
	all := r.current.Load().all
	return func(yield func(string, *Standing) bool) {
		for _, n := range all {
			if !yield(n.name, n.standing) {
				return
			}
		}
	}
}
