package placement

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

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
	// Warnings are what the compiler thinks is probably not meant.
	Warnings []string
}

// Registry is the set of policies of one replica. It is safe for concurrent use; readers take no lock.
type Registry struct {
	mu          sync.Mutex
	current     atomic.Pointer[standings]
	subscribers []func(name string, before, after *Policy)
}

// standings is one state of the registry; it is immutable.
type standings struct {
	byName  map[string]*Standing
	inForce []*Policy
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	r := &Registry{}
	r.current.Store(&standings{})
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

func (r *Registry) change(name string, s *Standing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := maps.Clone(r.current.Load().byName)
	if next == nil {
		next = map[string]*Standing{}
	}
	var before, after *Policy
	if old := next[name]; old != nil {
		before = old.Policy
	}
	if s == nil {
		delete(next, name)
	} else {
		next[name], after = s, s.Policy
	}
	state := &standings{byName: next}
	for _, standing := range next {
		state.inForce = append(state.inForce, standing.Policy)
	}
	slices.SortFunc(state.inForce, func(a, b *Policy) int { return strings.Compare(a.Name, b.Name) })
	r.current.Store(state)
	for _, f := range r.subscribers {
		f(name, before, after)
	}
}

// InForce implements Policies.
func (r *Registry) InForce() []*Policy { return r.current.Load().inForce }

// Get returns a policy's standing; nil if it is not known.
func (r *Registry) Get(name string) *Standing { return r.current.Load().byName[name] }

// All returns every policy's standing by name. The map is not to be changed.
func (r *Registry) All() map[string]*Standing { return r.current.Load().byName }
