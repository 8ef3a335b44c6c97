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

package push

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
)

// PolicyNeeds is what a policy needs in the engine that decides it.
type PolicyNeeds struct {
	Policy string
	Remote *policy.Remote
	// Types are the resource types whose objects are pushed.
	Types []policy.Resource
}

// Observer is notified about pushes to engines. Its methods are safe for concurrent use and return quickly.
type Observer interface {
	// Pushed is called after each request that writes to an engine. fault is empty for a success.
	Pushed(endpoint string, fault engine.Fault)
	// Loading is called before a full load of an engine begins.
	Loading(endpoint string)
	// Pending is called with the number of object changes that wait to be pushed to an engine, whenever it changes.
	Pending(endpoint string, changes int)
	// Released is called when Berth stops pushing to an engine.
	Released(endpoint string)
}

// Options configure a Pusher.
type Options struct {
	// Clients are the clients of the engines.
	Clients     *opaclient.Pool
	Inventories *replication.Inventories
	// Observer is notified about pushes; nil for no notifications.
	Observer Observer
	// ContentChanged is called when the pushed data or modules of policies changed. StateChanged is called when that, or
	// the error that prevents it, may have changed. Both must return quickly; nil for no calls.
	ContentChanged, StateChanged func(policies ...string)
}

// Pusher pushes to remote engines the objects and modules that policies need there. The leader runs it, so only one
// Pusher at a time pushes to an engine. A Pusher receives prepared objects (see replication.Prepare) and keeps the JSON
// of each once, however many engines have it. Its methods are safe for concurrent use. For the methods that receive
// objects, the rules of engine.Data apply.
//
// An engine gets a full load at first, and again when it has lost data, as after a restart. After that it gets the
// changes in order, as transactions. The manifest in the engine always lists what is there.
type Pusher struct {
	options Options
	ranks   map[schema.GroupVersionResource]int
	// bodyLimit is the maximum size of the objects in a request: maxBody except in tests.
	bodyLimit int

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

// New returns a Pusher that pushes nothing yet.
func New(o Options) *Pusher {
	s := &Pusher{
		options: o, bodyLimit: maxBody, ranks: map[schema.GroupVersionResource]int{},
		types: map[schema.GroupVersionResource]map[objectKey]*record{}, dropped: map[schema.GroupVersionResource]bool{},
		servers: map[string]*server{},
	}
	for i, inventory := range o.Inventories.Resources() {
		s.ranks[inventory] = i
	}
	if s.options.Observer == nil {
		s.options.Observer = noObserver{}
	}
	for _, f := range []*func(...string){&s.options.ContentChanged, &s.options.StateChanged} {
		if *f == nil {
			*f = func(...string) {}
		}
	}
	return s
}

// noObserver is an observer that ignores all notifications.
type noObserver struct{}

func (noObserver) Pushed(string, engine.Fault) {}
func (noObserver) Loading(string)              {}
func (noObserver) Pending(string, int)         {}
func (noObserver) Released(string)             {}

// Set replaces what policies need. wanted is sorted by policy name. If it has several entries of a policy for one
// engine, their types are combined, and the modules are those of the last entry. An engine that no policy needs any
// more is emptied. All work ends with ctx, which must be the same in every call; the engines then keep what they have.
func (s *Pusher) Set(ctx context.Context, wanted []PolicyNeeds) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byBase := map[string][]PolicyNeeds{}
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
		server.setNeeds(byBase[base])
	}
}

// start begins to push to an engine.
func (s *Pusher) start(ctx context.Context, base string, r *policy.Remote) {
	server := newServer(s, r.Base, opaclient.EndpointOf(r))
	s.servers[base] = server
	s.running.Go(func() { s.run(ctx, base, server) })
}

// run pushes to an engine until no policy needs it.
func (s *Pusher) run(ctx context.Context, base string, server *server) {
	for server.run(ctx); ctx.Err() == nil; server.run(ctx) {
		s.mu.Lock()
		if len(server.needs.policies) > 0 {
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
func (s *Pusher) Wait() { s.running.Wait() }

// Replace sets the complete content of a type. The objects must have all fields.
func (s *Pusher) Replace(resource schema.GroupVersionResource, _ *projection.FieldSet, objects []*unstructured.Unstructured) {
	next := make(map[objectKey]*record, len(objects))
	for _, o := range objects {
		next[keyOfObject(o)] = s.newRecord(resource, o)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.types[resource]
	changes := map[objectKey]*record{}
	for key, o := range next {
		if existing := old[key]; existing.equal(o) {
			next[key] = existing
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
	s.enqueueChanges(resource, changes)
	delete(s.dropped, resource)
	s.wake(resource)
}

// Put adds or replaces one object.
func (s *Pusher) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	next := s.newRecord(resource, o)
	key := keyOfObject(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	all, ok := s.types[resource]
	if !ok || all[key].equal(next) {
		return
	}
	all[key] = next
	s.enqueueChanges(resource, map[objectKey]*record{key: next})
	s.wake(resource)
}

// Delete removes one object.
func (s *Pusher) Delete(resource schema.GroupVersionResource, namespace, name string) {
	key := objectKey{namespace, name}
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.types[resource]; all[key] != nil {
		delete(all, key)
		s.enqueueChanges(resource, map[objectKey]*record{key: nil})
		s.wake(resource)
	}
}

// Drop removes a type that is not needed any more or not served.
func (s *Pusher) Drop(resource schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.types, resource)
	s.dropped[resource] = true
	for _, server := range s.servers {
		server.backlog.drop(resource)
	}
	s.wake(resource)
}

// enqueueChanges adds changes to the backlogs of the engines. The caller holds the lock.
func (s *Pusher) enqueueChanges(resource schema.GroupVersionResource, changes map[objectKey]*record) {
	for _, server := range s.servers {
		server.backlog.add(resource, changes)
	}
}

// wake wakes the goroutines of the engines that need the type. The caller holds the lock.
func (s *Pusher) wake(resource schema.GroupVersionResource) {
	for _, server := range s.servers {
		if _, ok := server.needs.types[resource]; ok {
			server.wake()
			s.reportPending(server.endpoint)
		}
	}
}

// reportPending notifies the observer of the number of pending changes. The caller holds the lock.
func (s *Pusher) reportPending(endpoint string) {
	pending := 0
	for _, server := range s.servers {
		if server.endpoint == endpoint {
			pending += server.backlog.len()
		}
	}
	s.options.Observer.Pending(endpoint, pending)
}

// Complete reports whether all engines that need a type for a policy have it, and returns the number of the type's
// objects.
func (s *Pusher) Complete(name string, resource schema.GroupVersionResource) (complete bool, objects int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := false
	complete = true
	for _, server := range s.servers {
		if _, ok := server.needs.policies[name]; !ok {
			continue
		}
		if _, ok := server.needs.types[resource]; ok {
			found = true
			complete = complete && server.completeTypes[resource]
		}
	}
	return found && complete, len(s.types[resource])
}

// Failure returns the error that prevents pushing what a policy needs; nil if there is none.
func (s *Pusher) Failure(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, base := range slices.Sorted(maps.Keys(s.servers)) {
		if err := s.servers[base].errorFor(name); err != nil {
			return err
		}
	}
	return nil
}

// engineNeeds is what an engine needs. It is replaced as a whole.
type engineNeeds struct {
	// remote is the configuration to reach the engine. It is that of the first policy by name.
	remote *policy.Remote
	types  map[schema.GroupVersionResource]policy.Resource
	// policies are the needs of each policy, by its name.
	policies map[string]PolicyNeeds
	// ambiguous are plural names that several types share.
	ambiguous map[string]bool
}

func engineNeedsOf(all []PolicyNeeds) engineNeeds {
	out := engineNeeds{types: map[schema.GroupVersionResource]policy.Resource{}, policies: map[string]PolicyNeeds{}, ambiguous: map[string]bool{}}
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
func (w *engineNeeds) names() []string { return slices.Sorted(maps.Keys(w.policies)) }

// policiesNeeding returns the policies that need one of the types, sorted.
func (w *engineNeeds) policiesNeeding(types map[schema.GroupVersionResource]bool) []string {
	var out []string
	for _, name := range w.names() {
		if slices.ContainsFunc(w.policies[name].Types, func(r policy.Resource) bool { return types[r.GroupVersionResource] }) {
			out = append(out, name)
		}
	}
	return out
}

// setNeeds replaces what the engine needs. The caller holds the lock.
func (s *server) setNeeds(all []PolicyNeeds) {
	next := engineNeedsOf(all)
	for resource := range s.needs.types {
		if _, ok := next.types[resource]; !ok {
			s.backlog.drop(resource)
		}
	}
	if next.remote == nil {
		next.remote = s.needs.remote
	}
	s.needs = next
	s.wake()
}
