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
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
)

// store holds the objects of all types, each once however many engines have it, and passes their changes to the feeds
// of the engines. It is safe for concurrent use.
type store struct {
	// inventories are the types whose objects represent clusters.
	inventories map[schema.GroupVersionResource]bool
	bodyLimit   int // the maximum size in bytes of the objects in a request: maxBody except in tests
	observer    Observer

	mu sync.Mutex
	// types has the objects of each complete type. A type is complete from Replace until Drop.
	types   map[schema.GroupVersionResource]map[objectKey]*record
	dropped map[schema.GroupVersionResource]bool // the types that Drop was called for, as not needed or not served, until Replace
	feeds   map[*feed]bool                       // one for each engine
}

// Replace sets the complete content of a type, and marks the type as complete. The objects must have all fields.
func (s *store) Replace(resource schema.GroupVersionResource, _ *projection.FieldSet, objects []*unstructured.Unstructured) {
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
	delete(s.dropped, resource)
	s.notify(resource, changes)
}

// Put adds or replaces one object. It does nothing if the type is not complete.
func (s *store) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	next := s.newRecord(resource, o)
	key := keyOfObject(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	all, ok := s.types[resource]
	if !ok || all[key].equal(next) {
		return
	}
	all[key] = next
	s.notify(resource, map[objectKey]*record{key: next})
}

// Delete removes one object, if it is there.
func (s *store) Delete(resource schema.GroupVersionResource, namespace, name string) {
	key := objectKey{namespace, name}
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.types[resource]; all[key] != nil {
		delete(all, key)
		s.notify(resource, map[objectKey]*record{key: nil})
	}
}

// Drop removes a type that is not needed any more or not served.
func (s *store) Drop(resource schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.types, resource)
	s.dropped[resource] = true
	for f := range s.feeds {
		f.backlog.drop(resource)
	}
	s.notify(resource, nil)
}

// size returns the number of objects of a type.
func (s *store) size(resource schema.GroupVersionResource) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.types[resource])
}

// Ambiguous returns the cluster names that several objects of the types have, sorted, with these objects. Only objects that represent
// clusters count.
func (s *store) Ambiguous(types []policy.Resource) []replication.Ambiguity {
	claims := replication.Claims{}
	s.mu.Lock()
	for _, resource := range types {
		for key, o := range s.types[resource.GroupVersionResource] {
			if o.cluster != "" {
				claims.Add(o.cluster, o.claim(resource.GroupResource(), key))
			}
		}
	}
	s.mu.Unlock()
	return claims.Ambiguous()
}

// notify adds changes to all feeds, and wakes the writers of the engines that need the type. The caller holds the lock.
func (s *store) notify(resource schema.GroupVersionResource, changes map[objectKey]*record) {
	for f := range s.feeds {
		f.backlog.add(resource, changes)
		if f.needed[resource] {
			f.signal.Notify()
			f.reportPending()
		}
	}
}

// newFeed adds a feed for the writer of an engine at an endpoint.
func (s *store) newFeed(endpoint string) *feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &feed{store: s, endpoint: endpoint, signal: notify.NewSignal(), backlog: newBacklog(s.bodyLimit)}
	s.feeds[f] = true
	return f
}

// feed passes to the writer of one engine the content and the changes of types. It has the types that the engine needs, and the changes
// that are still to be pushed. The lock of the store makes it safe for concurrent use.
type feed struct {
	store    *store
	endpoint string // the scheme, host, and port of the engine, for the observer
	// signal receives a value when there may be work for the writer. Several of them are merged into one.
	signal notify.Signal

	// needed are the types that the engine needs; the writer removes others from it. The store's lock guards it.
	needed  map[schema.GroupVersionResource]bool
	backlog backlog // the changes that the engine does not have yet; the store's lock guards it
}

// reportPending notifies the observer of the number of pending changes of the feed's endpoint, which is the sum of those of all feeds with
// this endpoint. The caller holds the lock of the store.
func (f *feed) reportPending() {
	pending := 0
	for other := range f.store.feeds {
		if other.endpoint == f.endpoint {
			pending += other.backlog.len()
		}
	}
	f.store.observer.Pending(f.endpoint, pending)
}

// close removes the feed from the store, with its pending changes. It does not notify the observer.
func (f *feed) close() {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	delete(f.store.feeds, f)
}

// setNeeded replaces the types that the engine needs. It stops following those that it does not need any more, and drops their changes.
func (f *feed) setNeeded(types map[schema.GroupVersionResource]policy.Resource) {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	for resource := range f.needed {
		if _, ok := types[resource]; !ok {
			f.backlog.drop(resource)
		}
	}
	f.needed = map[schema.GroupVersionResource]bool{}
	for resource := range types {
		f.needed[resource] = true
	}
}

// reset drops all changes and stops following all types, so that they are loaded again.
func (f *feed) reset() {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	f.backlog = newBacklog(f.store.bodyLimit)
	f.reportPending()
}

// loadable returns the types that the engine needs and whose objects the store has completely. The value reports whether the changes of the
// type are followed.
func (f *feed) loadable() map[schema.GroupVersionResource]bool {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	out := map[schema.GroupVersionResource]bool{}
	for r := range f.needed {
		if f.store.types[r] != nil {
			out[r] = f.backlog.followed[r]
		}
	}
	return out
}

// follow starts to follow the changes of a type, and returns its objects before these changes; nil if the engine does not need the type any
// more, or if it is not complete. ambiguous reports whether the engine needs another type with the same plural name.
func (f *feed) follow(resource schema.GroupVersionResource) (objects map[objectKey]*record, ambiguous bool) {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	f.backlog.drop(resource)
	if !f.needed[resource] || f.store.types[resource] == nil {
		return nil, false
	}
	f.backlog.followed[resource] = true
	return maps.Clone(f.store.types[resource]), f.ambiguous(resource)
}

// needs reports whether the engine needs a type that is served. ambiguous reports whether the engine needs another type with the same
// plural name.
func (f *feed) needs(resource schema.GroupVersionResource) (needed, ambiguous bool) {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	return f.needed[resource] && !f.store.dropped[resource], f.ambiguous(resource)
}

// ambiguous reports whether the engine needs another type with the same plural name. The caller holds the lock.
func (f *feed) ambiguous(resource schema.GroupVersionResource) bool {
	for other := range f.needed {
		if other.Resource == resource.Resource && other != resource {
			return true
		}
	}
	return false
}

// next removes and returns the oldest changes, which are pushed together; nil if none are waiting. It does not change which types are
// followed.
func (f *feed) next() *window {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	return f.backlog.pop()
}

// pushed notifies the observer of the number of changes that are left, after a push, in all feeds with the endpoint of this one.
func (f *feed) pushed() {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	f.reportPending()
}

// record is one object in the form that engines get: its JSON and, of a quota or an object that represents a cluster, the JSON of its
// normal form. It is immutable.
type record struct {
	// object is the object as JSON, and normal its normal form as JSON; nil if it has none.
	object, normal []byte
	// cluster is the name of the cluster that the object represents; empty for none. manager is the Manager of the object's
	// replication.Claim.
	cluster, manager string
}

// objectKey identifies an object within its type.
type objectKey struct{ namespace, name string }

// compareKeys orders objects by namespace, then by name.
func compareKeys(a, b objectKey) int {
	return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
}

func keyOfObject(o *unstructured.Unstructured) objectKey {
	return objectKey{o.GetNamespace(), o.GetName()}
}

// newRecord returns the record of a prepared object, with the normal form if the object has one. It does not store it.
func (s *store) newRecord(resource schema.GroupVersionResource, o *unstructured.Unstructured) *record {
	own, normal := replication.Parts(o.Object)
	out := &record{object: toJSON(own)}
	if normal != nil {
		out.normal = toJSON(normal)
		if s.inventories[resource] {
			out.cluster, _ = normal["name"].(string)
			out.manager = replication.ClaimOf(resource.GroupResource(), "", "", normal).Manager
		}
	}
	return out
}

// toJSON returns a value as JSON. It does not report errors: the value must be one that can be written as JSON, such as what was read from
// JSON.
func toJSON(value any) []byte {
	// Values that were read from JSON can always be written as JSON.
	out, _ := json.Marshal(value)
	return out
}

// claim returns what identifies the object, of a type with objects that represent clusters.
func (o *record) claim(resource schema.GroupResource, key objectKey) replication.Claim {
	return replication.Claim{Resource: resource, Namespace: key.namespace, Name: key.name, Manager: o.manager}
}

// equal reports whether two objects have the same JSON in both forms. Either may be nil.
func (o *record) equal(other *record) bool {
	return o == other || o != nil && other != nil && bytes.Equal(o.object, other.object) && bytes.Equal(o.normal, other.normal)
}

// size estimates the number of bytes that pushing the object, or its deletion if o is nil, takes.
func (o *record) size() int {
	if o == nil {
		return changeBytes
	}
	return 2*len(o.object) + len(o.normal) + changeBytes
}

// keyedRecord is an object with its key.
type keyedRecord struct {
	objectKey
	*record
}

// splitBySize returns the objects in order of their names, split into lists. A list with more than one object has at
// most limit bytes. There is at least one list.
func splitBySize(objects map[objectKey]*record, limit int) [][]keyedRecord {
	out := [][]keyedRecord{nil}
	bytes := 0
	for _, key := range slices.SortedFunc(maps.Keys(objects), compareKeys) {
		o := objects[key]
		last := &out[len(out)-1]
		if bytes += o.size(); bytes > limit && len(*last) > 0 {
			out = append(out, nil)
			last, bytes = &out[len(out)-1], o.size()
		}
		*last = append(*last, keyedRecord{key, o})
	}
	return out
}
