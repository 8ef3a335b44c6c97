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
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
)

// PolicyNeeds is what a policy needs in the engine that decides it: resource types and modules.
type PolicyNeeds struct {
	Policy string
	// Remote says how to reach the engine, and has the modules to push.
	Remote *policy.Remote
	// Types are the resource types whose objects are pushed.
	Types []policy.Resource
}

// Observer is notified, by the address of an engine, about requests that write to it and whether they failed, about full loads, about the
// number of changes that wait, and about the end of pushing to it. Its methods are safe for concurrent use and return quickly.
type Observer interface {
	// Pushed is called after each request that writes to an engine. fault is empty for a success.
	Pushed(endpoint string, fault engine.Fault)
	// Loading is called before a full load of an engine begins.
	Loading(endpoint string)
	// Pending is called with the number of object changes that wait to be pushed to an engine, when some are added or pushed, and when all are
	// dropped to load the engine again. It is not called when a type is no longer needed, and its changes are dropped.
	Pending(endpoint string, changes int)
	// Released is called when Berth stops pushing to an engine.
	Released(endpoint string)
}

// Options configure a Pusher: the HTTP clients of the engines, the types whose objects represent clusters, and the callbacks. Sizes and
// intervals can't be configured.
type Options struct {
	// Clients are the clients of the engines. It must not be nil.
	Clients *opaclient.Pool
	// Inventories are the types whose objects represent clusters. It must not be nil.
	Inventories *replication.Inventories
	// Observer is notified about pushes. It must not be nil.
	Observer Observer
	// ContentChanged is called when the pushed data or modules of policies changed. StateChanged is called when that, or
	// the error that prevents it, may have changed. Both must return quickly.
	ContentChanged, StateChanged func(policies ...string)
}

// Pusher pushes to remote engines the objects and modules that policies need there. The leader runs it, so only one
// Pusher at a time pushes to an engine, apart from a moment after a change of the leader. A Pusher receives prepared
// objects (see replication.Prepare). Its methods are safe for concurrent use, but the changes of one resource type must
// come from one goroutine at a time, in order. They neither change the objects nor keep them.
//
// An engine gets a full load at first, and again when it has lost data, as after a restart. After that it gets the
// changes in order, as transactions. The manifest in the engine always lists what is there.
type Pusher struct {
	Options
	// store receives the objects.
	*store

	mu sync.Mutex
	// writers are the writers of the engines by base URL. Policies with the same URL share one. It is removed once no policy needs the engine,
	// and it is emptied or does not respond.
	writers map[string]*writer
	running sync.WaitGroup
}

// New returns a Pusher that pushes nothing yet.
func New(o Options) *Pusher {
	inventories := map[schema.GroupVersionResource]bool{}
	for _, inventory := range o.Inventories.Resources() {
		inventories[inventory] = true
	}
	return &Pusher{Options: o, writers: map[string]*writer{}, store: &store{
		inventories: inventories, bodyLimit: maxBody, observer: o.Observer, types: map[schema.GroupVersionResource]map[objectKey]*record{},
		dropped: map[schema.GroupVersionResource]bool{}, feeds: map[*feed]bool{},
	}}
}

// Set replaces what policies need. wanted is sorted by policy name. If it has several entries of a policy for one engine, their types are
// combined, and the modules are those of the last entry that has some. An engine that no policy needs any more is emptied. The pushing ends
// with ctx, which must be the same in every call; the engines then keep what they have.
func (s *Pusher) Set(ctx context.Context, wanted []PolicyNeeds) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byBase := map[string][]PolicyNeeds{}
	for _, w := range wanted {
		if w.Remote.Base != nil {
			byBase[w.Remote.Base.String()] = append(byBase[w.Remote.Base.String()], w)
		}
	}
	for base, w := range s.writers {
		w.setNeeds(needsOf(byBase[base]))
	}
	for base, all := range byBase {
		if s.writers[base] == nil && ctx.Err() == nil {
			w := s.newWriter(all[0].Remote)
			w.setNeeds(needsOf(all))
			s.writers[base] = w
			s.running.Go(func() { s.run(ctx, base, w) })
		}
	}
}

// newWriter returns the writer of an engine.
func (s *Pusher) newWriter(r *policy.Remote) *writer {
	endpoint := opaclient.EndpointOf(r)
	status := &status{changed: s.StateChanged, refusals: map[string]refusal{}}
	session := &session{
		sender: &requests{clients: s.Clients, observer: s.Observer, endpoint: endpoint, status: status},
		base:   r.Base, published: status.setManifest,
	}
	feed := s.newFeed(endpoint)
	return &writer{
		observer: s.Observer, status: status, feed: feed, state: unknown, session: session,
		objects: &objects{session: session, status: status, feed: feed, contentChanged: s.ContentChanged},
		modules: &modules{
			session: session, status: status, contentChanged: s.ContentChanged,
			older: map[string]opaclient.ManifestModules{}, kept: map[string]refusedDeletion{},
		},
	}
}

// run pushes to the engine at a base URL until ctx ends or no policy needs the engine. In the latter case it removes the writer.
func (s *Pusher) run(ctx context.Context, base string, w *writer) {
	for w.run(ctx); ctx.Err() == nil; w.run(ctx) {
		s.mu.Lock()
		if len(w.status.currentNeeds().policies) > 0 {
			// A policy needs the engine again.
			s.mu.Unlock()
			continue
		}
		delete(s.writers, base)
		w.feed.close()
		shared := false
		for _, other := range s.writers {
			shared = shared || other.feed.endpoint == w.feed.endpoint
		}
		if !shared {
			s.Observer.Released(w.feed.endpoint)
		}
		s.mu.Unlock()
		return
	}
}

// Wait waits until all goroutines that Set started have ended, after the end of their context.
func (s *Pusher) Wait() { s.running.Wait() }

// Complete reports whether all engines that the policy with a name uses and that need a type have all of the type's objects; false if there
// is no such engine. It also returns the number of the type's objects in the cluster.
func (s *Pusher) Complete(name string, resource schema.GroupVersionResource) (complete bool, objects int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := false
	complete = true
	for _, w := range s.writers {
		if needed, has := w.status.has(name, resource); needed {
			found, complete = true, complete && has
		}
	}
	return found && complete, s.size(resource)
}

// Failure returns the error that prevents pushing what the policy with a name needs; nil if there is none. If several engines have one, it
// is that of the first engine by URL.
func (s *Pusher) Failure(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, base := range slices.Sorted(maps.Keys(s.writers)) {
		if err := s.writers[base].status.failure(name); err != nil {
			return err
		}
	}
	return nil
}
