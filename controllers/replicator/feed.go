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

package replicator

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/watches"
)

// Store keeps the fields of prepared objects (see replication.Prepare) that policies read. Its methods are safe for
// concurrent use, but the changes of one resource type come from one goroutine at a time, in order. Implementations
// neither change the objects nor keep them after the call. Each method that changes data reports whether the kept data
// changed.
type Store interface {
	// Load replaces the content of a resource type with the objects and marks the type as complete. Only the given fields
	// of these objects and of all later ones are kept.
	Load(resource schema.GroupVersionResource, fields *projection.FieldSet, objects []*unstructured.Unstructured) bool
	// Put adds or replaces one object of a resource type that is complete.
	Put(resource schema.GroupVersionResource, object *unstructured.Unstructured) bool
	// Delete removes one object.
	Delete(resource schema.GroupVersionResource, namespace, name string) bool
	// Drop removes a resource type.
	Drop(resource schema.GroupVersionResource) bool
	// Size returns the number of objects of a resource type and an estimate of their memory in bytes. ok is false while
	// the type is not complete.
	Size(resource schema.GroupVersionResource) (objects int, bytes int64, ok bool)
}

// feed fills one store: it watches the types that policies, or their predicates, read from the store, and keeps the fields that these read.
type feed struct {
	store   Store
	watches *watches.Consumer
	// reads returns the types and fields that one policy reads from the store.
	reads func(*policy.Binding) map[schema.GroupVersionResource]*projection.FieldSet
	// content publishes the types whose objects changed, and states the types whose watch state changed, or whose data became too old for
	// a policy, or is not too old any more.
	content, states notify.Topic[schema.GroupVersionResource]

	mu sync.Mutex
	// kept has the types and fields that policies read when the watches were last set. Others do not count as replicated, even if the store
	// still has them. mu is held while set computes it.
	kept map[schema.GroupVersionResource]*projection.FieldSet
}

func newFeed(hub *watches.Hub, store Store, reads func(*policy.Binding) map[schema.GroupVersionResource]*projection.FieldSet) *feed {
	f := &feed{store: store, reads: reads}
	f.watches = hub.NewConsumer(watches.Valid(sink{f}, clock.RealClock{}), f.states.Publish)
	return f
}

// set starts, changes, and ends watches, so that the types and fields are watched that the policies in the registry read. It does not wait
// for the objects.
func (f *feed) set(ctx context.Context, registry *placement.Registry) {
	f.mu.Lock()
	f.kept = f.wanted(registry)
	kept := f.kept
	f.mu.Unlock()
	f.watches.Set(ctx, kept)
}

// wanted returns the types and fields that policies read: those in force, versions that wait for their data, and earlier versions
// whose decisions have not ended.
func (f *feed) wanted(registry *placement.Registry) map[schema.GroupVersionResource]*projection.FieldSet {
	sets := map[schema.GroupVersionResource][]*projection.FieldSet{}
	for _, state := range registry.InUse() {
		for _, binding := range state.Bindings() {
			for resource, fields := range f.reads(binding) {
				// Many policies read the same fields.
				if !slices.ContainsFunc(sets[resource], func(f *projection.FieldSet) bool { return f.Covers(fields) }) {
					sets[resource] = append(sets[resource], fields)
				}
			}
		}
	}
	out := make(map[schema.GroupVersionResource]*projection.FieldSet, len(sets))
	for resource, all := range sets {
		out[resource] = watches.WithValidity(resource, projection.Union(all...))
	}
	return out
}

// state returns the watch state of some fields of a type, and the number of its objects in the store.
func (f *feed) state(resource schema.GroupVersionResource, fields *projection.FieldSet) (watches.State, int) {
	state, _ := f.watches.StateOfFields(resource, fields)
	objects, _, _ := f.store.Size(resource)
	return state, objects
}

// settled reports whether all wanted fields are complete in the store, or their types known to be unavailable. Fields that no policy read
// when the watches were last set do not count as complete.
func (f *feed) settled(wanted map[schema.GroupVersionResource]*projection.FieldSet) bool {
	f.mu.Lock()
	kept := f.kept
	f.mu.Unlock()
	for resource, fields := range wanted {
		if all, ok := kept[resource]; !ok || !all.Covers(fields) {
			return false
		}
		if state, _ := f.watches.StateOfFields(resource, fields); !state.Settled() {
			return false
		}
	}
	return true
}

// sink writes watched objects into a feed's store.
type sink struct{ *feed }

var _ watches.Sink = sink{}

// Replace makes the store keep the objects in place of all that it has of the type, and of these and later ones only the fields. Like Put,
// Delete, and Drop, it is called by the watches.
func (s sink) Replace(resource schema.GroupVersionResource, fields *projection.FieldSet, objects []*unstructured.Unstructured) {
	s.tell(resource, s.store.Load(resource, fields, objects))
}

// Put adds an object to the store, or replaces it.
func (s sink) Put(resource schema.GroupVersionResource, object *unstructured.Unstructured) {
	s.tell(resource, s.store.Put(resource, object))
}

// Delete removes an object from the store.
func (s sink) Delete(resource schema.GroupVersionResource, namespace, name string) {
	s.tell(resource, s.store.Delete(resource, namespace, name))
}

// Drop removes from the store all objects of a type that is no longer watched or available.
func (s sink) Drop(resource schema.GroupVersionResource) {
	s.tell(resource, s.store.Drop(resource))
}

// tell publishes in content that the objects of a type changed, if they did.
func (s sink) tell(resource schema.GroupVersionResource, changed bool) {
	if changed {
		s.content.Publish(resource)
	}
}

// predicateData adapts the nodes and pods of predicates to Store. Its Size returns 0 bytes.
type predicateData struct{ *predicates.NodeCache }

var _ Store = predicateData{}

// Load replaces the kept nodes or pods by the objects, and reports whether that changed any. It ignores the fields because the NodeCache
// knows which fields it keeps.
func (w predicateData) Load(resource schema.GroupVersionResource, _ *projection.FieldSet, objects []*unstructured.Unstructured) bool {
	return w.NodeCache.Load(resource, objects)
}

// Size returns the number of the kept nodes or pods, and 0 bytes, because the size is not known. ok is false while not all objects of the
// type are known.
func (w predicateData) Size(resource schema.GroupVersionResource) (objects int, bytes int64, ok bool) {
	objects, ok = w.NodeCache.Size(resource)
	return objects, 0, ok
}
