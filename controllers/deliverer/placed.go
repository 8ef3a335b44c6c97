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

package deliverer

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/watches"
)

var _ watches.Sink = (*placedObjects)(nil)

// placedObjects holds the existing objects of the types that policies deliver, cut to the fields that delivery needs. It is
// safe for concurrent use. Objects are never modified.
type placedObjects struct {
	// changed is called with the objects that were added, changed, or deleted.
	changed func(...delivery.Key)

	mu     sync.RWMutex
	tables map[schema.GroupVersionResource]map[delivery.Key]*unstructured.Unstructured
}

func newPlacedObjects(changed func(...delivery.Key)) *placedObjects {
	return &placedObjects{changed: changed, tables: map[schema.GroupVersionResource]map[delivery.Key]*unstructured.Unstructured{}}
}

// keyOf returns the key of a placed object.
func keyOf(o *unstructured.Unstructured) delivery.Key {
	return delivery.Key{GroupKind: o.GroupVersionKind().GroupKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Replace implements watches.Sink.
func (p *placedObjects) Replace(resource schema.GroupVersionResource, _ *projection.FieldSet, objects []*unstructured.Unstructured) {
	next := make(map[delivery.Key]*unstructured.Unstructured, len(objects))
	for _, o := range objects {
		next[keyOf(o)] = o
	}
	p.mu.Lock()
	keys := slices.Collect(maps.Keys(next))
	for key := range p.tables[resource] {
		if _, still := next[key]; !still {
			keys = append(keys, key)
		}
	}
	p.tables[resource] = next
	p.mu.Unlock()
	p.changed(keys...)
}

// Put implements watches.Sink.
func (p *placedObjects) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	p.mu.Lock()
	at := p.tables[resource]
	if at == nil {
		at = map[delivery.Key]*unstructured.Unstructured{}
		p.tables[resource] = at
	}
	at[keyOf(o)] = o
	p.mu.Unlock()
	p.changed(keyOf(o))
}

// Delete implements watches.Sink.
func (p *placedObjects) Delete(resource schema.GroupVersionResource, namespace, name string) {
	p.mu.Lock()
	key, known := delivery.Key{}, false
	for other := range p.tables[resource] {
		// All objects of a type have the same kind.
		key = delivery.Key{GroupKind: other.GroupKind, Namespace: namespace, Name: name}
		_, known = p.tables[resource][key]
		break
	}
	delete(p.tables[resource], key)
	p.mu.Unlock()
	if known {
		p.changed(key)
	}
}

// Drop implements watches.Sink.
func (p *placedObjects) Drop(resource schema.GroupVersionResource) {
	p.mu.Lock()
	old := p.tables[resource]
	delete(p.tables, resource)
	p.mu.Unlock()
	p.changed(slices.Collect(maps.Keys(old))...)
}

// get returns an object and its resource. If it is read in several versions, it is that of the one that sorts first. It returns
// nil if the object is not known.
func (p *placedObjects) get(key delivery.Key) (resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for r, table := range p.tables {
		if found := table[key]; found != nil && (o == nil || r.Version < resource.Version) {
			resource, o = r, found
		}
	}
	return resource, o
}

// keys returns the keys of the objects for which selects returns true.
func (p *placedObjects) keys(selects func(schema.GroupVersionResource, delivery.Key) bool) []delivery.Key {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var out []delivery.Key
	for resource, table := range p.tables {
		for key := range table {
			if selects(resource, key) {
				out = append(out, key)
			}
		}
	}
	return out
}
