package remote

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
)

// Supplied is what a policy wants in the engine that decides it.
type Supplied struct {
	Policy string
	Remote *policy.Remote
	// Types are the resource types whose objects are to be there.
	Types []policy.Resource
}

// SupplyObserver is told how keeping engines supplied fares. Its methods are safe for concurrent use, and quick.
type SupplyObserver interface {
	// Pushed is called after each request that was to change what an engine has, with the fault; empty for none.
	Pushed(endpoint string, fault engine.Fault)
	// Loading is called when everything is about to be loaded into an engine.
	Loading(endpoint string)
	// Pending is called with how many changes of objects wait to be sent to an engine, whenever that changed.
	Pending(endpoint string, changes int)
	// Released is called when an engine is no longer kept supplied.
	Released(endpoint string)
}

// SupplyOptions configure a Supply.
type SupplyOptions struct {
	Inventories *replication.Inventories
	// Observer is told how it fares; nil for nobody.
	Observer SupplyObserver
	// Content is called when what engines have of policies changed, and State when that, or what keeps it from them, may
	// have. Both must be quick; nil for nobody.
	Content, State func(policies ...string)
}

// Supply keeps engines filled with the objects and the modules that policies want there: one at a time in the whole
// cluster. It is fed with prepared objects (replication.Prepare) and holds each once, as text, however many engines have
// it. Its methods are safe for concurrent use; those that feed it as those of engine.Data.
//
// An engine gets everything at first, and again when it has lost anything, as one does that started anew. After that it
// gets the changes, in their order, as transactions. Its holdings say at every moment what is there.
type Supply struct {
	engine  *Engine
	options SupplyOptions
	ranks   map[schema.GroupVersionResource]int
	// body is maxBody.
	body int

	mu sync.Mutex
	// types are the complete contents, and dropped the types that are not to be had.
	types   map[schema.GroupVersionResource]map[objectKey]*record
	dropped map[schema.GroupVersionResource]bool
	// servers are the engines by their base.
	servers map[string]*server
	running sync.WaitGroup
}

// objectKey tells the objects of a type apart.
type objectKey struct{ namespace, name string }

func compareKeys(a, b objectKey) int {
	return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
}

// NewSupply returns a Supply that reaches engines as e does.
func (e *Engine) NewSupply(o SupplyOptions) *Supply {
	s := &Supply{
		engine: e, options: o, body: maxBody, ranks: map[schema.GroupVersionResource]int{},
		types: map[schema.GroupVersionResource]map[objectKey]*record{}, dropped: map[schema.GroupVersionResource]bool{},
		servers: map[string]*server{},
	}
	for i, inventory := range o.Inventories.Resources() {
		s.ranks[inventory] = i
	}
	if s.options.Observer == nil {
		s.options.Observer = nobody{}
	}
	for _, f := range []*func(...string){&s.options.Content, &s.options.State} {
		if *f == nil {
			*f = func(...string) {}
		}
	}
	return s
}

// nobody is told nothing.
type nobody struct{}

func (nobody) Pushed(string, engine.Fault) {}
func (nobody) Loading(string)              {}
func (nobody) Pending(string, int)         {}
func (nobody) Released(string)             {}

// Set makes wanted what policies want, in order of their names; what is said twice of a policy and an engine is added up,
// but for the modules, which are those that were said last. An engine that nobody wants anything of any more is emptied.
// Everything ends with ctx, which must be the same in every call, and leaves the engines as they are.
func (s *Supply) Set(ctx context.Context, wanted []Supplied) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byBase := map[string][]Supplied{}
	for _, w := range wanted {
		if w.Remote.Base != nil {
			byBase[w.Remote.Base.String()] = append(byBase[w.Remote.Base.String()], w)
		}
	}
	for base, all := range byBase {
		if s.servers[base] == nil && ctx.Err() == nil {
			s.start(ctx, base, all[0].Remote)
		}
	}
	for base, server := range s.servers {
		server.want(byBase[base])
	}
}

// start begins to keep an engine supplied.
func (s *Supply) start(ctx context.Context, base string, r *policy.Remote) {
	server := newServer(s, r.Base, endpointOf(r))
	s.servers[base] = server
	s.running.Go(func() { s.run(ctx, base, server) })
}

// run keeps an engine supplied until nobody wants anything of it.
func (s *Supply) run(ctx context.Context, base string, server *server) {
	for server.run(ctx); ctx.Err() == nil; server.run(ctx) {
		s.mu.Lock()
		if len(server.wants.policies) > 0 {
			// Somebody wants something after all.
			s.mu.Unlock()
			continue
		}
		delete(s.servers, base)
		shared := false
		for _, other := range s.servers {
			shared = shared || other.endpoint == server.endpoint
		}
		if !shared {
			s.options.Observer.Released(server.endpoint)
		}
		s.mu.Unlock()
		return
	}
}

// Wait waits until all that Set began has ended with its context.
func (s *Supply) Wait() { s.running.Wait() }

// Replace gives the complete content of a type, of which all fields are wanted.
func (s *Supply) Replace(resource schema.GroupVersionResource, _ *projection.Fields, objects []*unstructured.Unstructured) {
	next := make(map[objectKey]*record, len(objects))
	for _, o := range objects {
		next[keyOfObject(o)] = s.object(resource, o)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.types[resource]
	changes := map[objectKey]*record{}
	for key, o := range next {
		if standing := old[key]; standing.equal(o) {
			next[key] = standing
		} else {
			changes[key] = o
		}
	}
	for key := range old {
		if next[key] == nil {
			changes[key] = nil
		}
	}
	s.types[resource] = next
	s.changed(resource, changes)
	delete(s.dropped, resource)
	s.wake(resource)
}

// Put gives one object that was added or changed.
func (s *Supply) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	next := s.object(resource, o)
	key := keyOfObject(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	all, ok := s.types[resource]
	if !ok || all[key].equal(next) {
		return
	}
	all[key] = next
	s.changed(resource, map[objectKey]*record{key: next})
	s.wake(resource)
}

// Delete says that one object is gone.
func (s *Supply) Delete(resource schema.GroupVersionResource, namespace, name string) {
	key := objectKey{namespace, name}
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.types[resource]; all[key] != nil {
		delete(all, key)
		s.changed(resource, map[objectKey]*record{key: nil})
		s.wake(resource)
	}
}

// Drop says that a type is no longer wanted, or not to be had.
func (s *Supply) Drop(resource schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.types, resource)
	s.dropped[resource] = true
	for _, server := range s.servers {
		server.backlog.drop(resource)
	}
	s.wake(resource)
}

// changed notes changes for the engines that have the type. The caller holds the lock.
func (s *Supply) changed(resource schema.GroupVersionResource, changes map[objectKey]*record) {
	for _, server := range s.servers {
		server.backlog.add(resource, changes)
	}
}

// wake has the engines looked after that are to have the type. The caller holds the lock.
func (s *Supply) wake(resource schema.GroupVersionResource) {
	for _, server := range s.servers {
		if _, ok := server.wants.types[resource]; ok {
			server.wake()
			s.tellPending(server.endpoint)
		}
	}
}

// tellPending tells how many changes wait. The caller holds the lock.
func (s *Supply) tellPending(endpoint string) {
	pending := 0
	for _, server := range s.servers {
		if server.endpoint == endpoint {
			pending += server.backlog.len()
		}
	}
	s.options.Observer.Pending(endpoint, pending)
}

// Held says whether all engines that are to have a type for a policy have it, and how many objects it has.
func (s *Supply) Held(name string, resource schema.GroupVersionResource) (held bool, objects int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := false
	held = true
	for _, server := range s.servers {
		if _, ok := server.wants.policies[name]; !ok {
			continue
		}
		if _, ok := server.wants.types[resource]; ok {
			found = true
			held = held && server.held[resource]
		}
	}
	return found && held, len(s.types[resource])
}

// Failure is why what a policy wants can't be brought to its engine; nil if nothing is known against it.
func (s *Supply) Failure(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, base := range slices.Sorted(maps.Keys(s.servers)) {
		if err := s.servers[base].failure(name); err != nil {
			return err
		}
	}
	return nil
}

// wants are what an engine is to have. They are replaced as a whole.
type wants struct {
	// remote is how the engine is reached: as the first policy by name says.
	remote *policy.Remote
	types  map[schema.GroupVersionResource]policy.Resource
	// policies are what each wants, by its name.
	policies map[string]Supplied
	// ambiguous are plural names of several types.
	ambiguous map[string]bool
}

func wantsOf(all []Supplied) wants {
	out := wants{types: map[schema.GroupVersionResource]policy.Resource{}, policies: map[string]Supplied{}, ambiguous: map[string]bool{}}
	for _, w := range all {
		w.Types = slices.Concat(out.policies[w.Policy].Types, w.Types)
		out.policies[w.Policy] = w
	}
	for _, name := range out.names() {
		w := out.policies[name]
		if out.remote == nil {
			out.remote = w.Remote
		}
		for _, r := range w.Types {
			for other := range out.types {
				if other.Resource == r.Resource && other != r.GroupVersionResource {
					out.ambiguous[r.Resource] = true
				}
			}
			out.types[r.GroupVersionResource] = r
		}
	}
	return out
}

// names are those of the policies, sorted.
func (w *wants) names() []string { return slices.Sorted(maps.Keys(w.policies)) }

// wanting are the policies that want one of the types, sorted.
func (w *wants) wanting(types map[schema.GroupVersionResource]bool) []string {
	var out []string
	for _, name := range w.names() {
		if slices.ContainsFunc(w.policies[name].Types, func(r policy.Resource) bool { return types[r.GroupVersionResource] }) {
			out = append(out, name)
		}
	}
	return out
}

// want makes all what the engine is to have. The caller holds the lock.
func (s *server) want(all []Supplied) {
	next := wantsOf(all)
	for resource := range s.wants.types {
		if _, ok := next.types[resource]; !ok {
			s.backlog.drop(resource)
		}
	}
	if next.remote == nil {
		next.remote = s.wants.remote
	}
	s.wants = next
	s.wake()
}

// below is the document at a path of an engine.
func below(base *url.URL, path ...string) *url.URL {
	return address(base, append([]string{"v1"}, path...)...)
}
