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

// Supplied is what a policy needs in the engine that decides it.
type Supplied struct {
	Policy string
	Remote *policy.Remote
	// Types are the resource types whose objects are pushed.
	Types []policy.Resource
}

// SupplyObserver is notified about pushes to engines. Its methods are safe for concurrent use and return quickly.
type SupplyObserver interface {
	// Pushed is called after each request that writes to an engine. fault is empty for a success.
	Pushed(endpoint string, fault engine.Fault)
	// Loading is called before a full load of an engine begins.
	Loading(endpoint string)
	// Pending is called with the number of object changes that wait to be pushed to an engine, whenever it changes.
	Pending(endpoint string, changes int)
	// Released is called when Berth stops pushing to an engine.
	Released(endpoint string)
}

// SupplyOptions configure a Supply.
type SupplyOptions struct {
	Inventories *replication.Inventories
	// Observer is notified about pushes; nil for no notifications.
	Observer SupplyObserver
	// Content is called when the pushed data or modules of policies changed. State is called when that, or the error that
	// prevents it, may have changed. Both must return quickly; nil for no calls.
	Content, State func(policies ...string)
}

// Supply pushes to remote engines the objects and modules that policies need there. The leader runs it, so only one
// Supply at a time pushes to an engine. Supply receives prepared objects (see replication.Prepare) and keeps the JSON
// of each once, however many engines have it. Its methods are safe for concurrent use. For the methods that receive
// objects, the rules of engine.Data apply.
//
// An engine gets a full load at first, and again when it has lost data, as after a restart. After that it gets the
// changes in order, as transactions. The manifest in the engine always lists what is there.
type Supply struct {
	engine  *Engine
	options SupplyOptions
	ranks   map[schema.GroupVersionResource]int
	// body is the maximum size of the objects in a request: maxBody except in tests.
	body int

	mu sync.Mutex
	// types are the contents of the complete types. dropped are the types that are not needed any more or not served.
	types   map[schema.GroupVersionResource]map[objectKey]*record
	dropped map[schema.GroupVersionResource]bool
	// servers are the engines by their base URL.
	servers map[string]*server
	running sync.WaitGroup
}

// objectKey identifies an object within its type.
type objectKey struct{ namespace, name string }

func compareKeys(a, b objectKey) int {
	return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
}

// NewSupply returns a Supply that reaches engines in the same way as e.
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

// nobody is an observer that ignores all notifications.
type nobody struct{}

func (nobody) Pushed(string, engine.Fault) {}
func (nobody) Loading(string)              {}
func (nobody) Pending(string, int)         {}
func (nobody) Released(string)             {}

// Set replaces what policies need. wanted is sorted by policy name. If it has several entries of a policy for one
// engine, their types are combined, and the modules are those of the last entry. An engine that no policy needs any
// more is emptied. All work ends with ctx, which must be the same in every call; the engines then keep what they have.
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

// start begins to push to an engine.
func (s *Supply) start(ctx context.Context, base string, r *policy.Remote) {
	server := newServer(s, r.Base, endpointOf(r))
	s.servers[base] = server
	s.running.Go(func() { s.run(ctx, base, server) })
}

// run pushes to an engine until no policy needs it.
func (s *Supply) run(ctx context.Context, base string, server *server) {
	for server.run(ctx); ctx.Err() == nil; server.run(ctx) {
		s.mu.Lock()
		if len(server.wants.policies) > 0 {
			// A policy needs the engine again.
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

// Wait waits until all goroutines that Set started have ended, after the end of their context.
func (s *Supply) Wait() { s.running.Wait() }

// Replace sets the complete content of a type. The objects must have all fields.
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

// Put adds or replaces one object.
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

// Delete removes one object.
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

// Drop removes a type that is not needed any more or not served.
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

// changed adds changes to the backlogs of the engines. The caller holds the lock.
func (s *Supply) changed(resource schema.GroupVersionResource, changes map[objectKey]*record) {
	for _, server := range s.servers {
		server.backlog.add(resource, changes)
	}
}

// wake wakes the goroutines of the engines that need the type. The caller holds the lock.
func (s *Supply) wake(resource schema.GroupVersionResource) {
	for _, server := range s.servers {
		if _, ok := server.wants.types[resource]; ok {
			server.wake()
			s.tellPending(server.endpoint)
		}
	}
}

// tellPending notifies the observer of the number of pending changes. The caller holds the lock.
func (s *Supply) tellPending(endpoint string) {
	pending := 0
	for _, server := range s.servers {
		if server.endpoint == endpoint {
			pending += server.backlog.len()
		}
	}
	s.options.Observer.Pending(endpoint, pending)
}

// Held reports whether all engines that need a type for a policy have it, and returns the number of the type's objects.
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

// Failure returns the error that prevents pushing what a policy needs; nil if there is none.
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

// wants is what an engine needs. It is replaced as a whole.
type wants struct {
	// remote is the configuration to reach the engine. It is that of the first policy by name.
	remote *policy.Remote
	types  map[schema.GroupVersionResource]policy.Resource
	// policies are the needs of each policy, by its name.
	policies map[string]Supplied
	// ambiguous are plural names that several types share.
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

// names returns the names of the policies, sorted.
func (w *wants) names() []string { return slices.Sorted(maps.Keys(w.policies)) }

// wanting returns the policies that need one of the types, sorted.
func (w *wants) wanting(types map[schema.GroupVersionResource]bool) []string {
	var out []string
	for _, name := range w.names() {
		if slices.ContainsFunc(w.policies[name].Types, func(r policy.Resource) bool { return types[r.GroupVersionResource] }) {
			out = append(out, name)
		}
	}
	return out
}

// want replaces what the engine needs. The caller holds the lock.
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

// below returns the URL of a path below the engine's v1 API.
func below(base *url.URL, path ...string) *url.URL {
	return address(base, append([]string{"v1"}, path...)...)
}
