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
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/watches"
)

var _ watches.Sink = (*placedObjects)(nil)

// placedObjects holds the existing objects of the types that policies deliver, cut to the fields that delivery needs. It is
// safe for concurrent use. Objects are never modified.
type placedObjects struct {
	// changed is called with the objects that were added, changed, or deleted, and those made from an object whose labels changed.
	changed func(...delivery.Key)
	// settled is called with a type when its last object that was not reconciled is reconciled or deleted.
	settled func(schema.GroupVersionResource)

	mu sync.RWMutex
	// tables has the types whose objects are all known.
	tables map[schema.GroupVersionResource]*placedTable
}

// placedTable holds all existing objects of one type, and which of them have not been reconciled yet. There is none for a type whose
// objects are not all known.
type placedTable struct {
	fields  *projection.FieldSet // The fields with which the objects are read.
	objects map[delivery.Key]*unstructured.Unstructured
	// made has, by the object from which they were made, such as a CronJob, the objects of this type that have it as their controller.
	made map[delivery.Key]sets.Set[delivery.Key]
	// open has true for the objects that have not been reconciled since they became known.
	open map[delivery.Key]bool
}

func newPlacedTable(fields *projection.FieldSet, size int) *placedTable {
	return &placedTable{
		fields: fields, objects: make(map[delivery.Key]*unstructured.Unstructured, size), made: map[delivery.Key]sets.Set[delivery.Key]{},
		open: map[delivery.Key]bool{},
	}
}

// put adds or replaces an object. It does not change whether the object has been reconciled.
func (t *placedTable) put(key delivery.Key, o *unstructured.Unstructured) {
	t.remove(key)
	t.objects[key] = o
	for _, of := range delivery.ControllersOf(o) {
		if t.made[of.Key] == nil {
			t.made[of.Key] = sets.New[delivery.Key]()
		}
		t.made[of.Key].Insert(key)
	}
}

// remove removes an object, if the table has it. It stays in open.
func (t *placedTable) remove(key delivery.Key) {
	o := t.objects[key]
	if o == nil {
		return
	}
	delete(t.objects, key)
	for _, of := range delivery.ControllersOf(o) {
		if t.made[of.Key].Delete(key); t.made[of.Key].Len() == 0 {
			delete(t.made, of.Key)
		}
	}
}

func newPlacedObjects(changed func(...delivery.Key), settled func(schema.GroupVersionResource)) *placedObjects {
	return &placedObjects{changed: changed, settled: settled, tables: map[schema.GroupVersionResource]*placedTable{}}
}

// keyOf returns the key of a placed object: its group, kind, namespace, and name.
func keyOf(o *unstructured.Unstructured) delivery.Key {
	return delivery.Key{GroupKind: o.GroupVersionKind().GroupKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Replace implements watches.Sink: objects are all of a type, in place of those before. Those that were not known before have not been
// reconciled yet; the others count as reconciled if they were, even if they changed. It calls changed with all of them, and with those that
// no longer exist.
func (p *placedObjects) Replace(resource schema.GroupVersionResource, fields *projection.FieldSet, objects []*unstructured.Unstructured) {
	next := newPlacedTable(fields, len(objects))
	p.mu.Lock()
	before := p.tables[resource]
	if before == nil {
		before = &placedTable{}
	}
	keys := make([]delivery.Key, 0, len(objects))
	for _, o := range objects {
		key := keyOf(o)
		next.put(key, o)
		if before.objects[key] == nil || before.open[key] {
			next.open[key] = true
		}
		keys = append(keys, key)
	}
	for key := range before.objects {
		if _, still := next.objects[key]; !still {
			keys = append(keys, key)
		}
	}
	p.tables[resource] = next
	settled := len(before.open) > 0 && len(next.open) == 0
	p.mu.Unlock()
	p.changed(keys...)
	if settled {
		p.settled(resource)
	}
}

// Put implements watches.Sink: it adds or replaces an object of a type whose other objects are known. An object that was not known before
// has not been reconciled; one that changed counts as reconciled if it was. It calls changed with the object and, if its labels changed,
// with those made from it.
func (p *placedObjects) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	key := keyOf(o)
	keys := []delivery.Key{key}
	p.mu.Lock()
	if at := p.tables[resource]; at != nil {
		if before := at.objects[key]; before == nil {
			at.open[key] = true
		} else if !maps.Equal(before.GetLabels(), o.GetLabels()) {
			keys = append(keys, p.controlledBy(key)...)
		}
		at.put(key, o)
	}
	p.mu.Unlock()
	p.changed(keys...)
}

// controlledBy returns the objects that were made from the object controller: policies that deliver that one do not deliver them. The
// caller holds mu.
func (p *placedObjects) controlledBy(controller delivery.Key) []delivery.Key {
	var out []delivery.Key
	for _, table := range p.tables {
		out = append(out, table.made[controller].UnsortedList()...)
	}
	return out
}

// Delete implements watches.Sink: it removes an object, which then need not be reconciled for the type to settle. It calls changed with the
// object alone.
func (p *placedObjects) Delete(resource schema.GroupVersionResource, namespace, name string) {
	p.mu.Lock()
	key, known, settled := delivery.Key{}, false, false
	if at := p.tables[resource]; at != nil {
		for other := range at.objects {
			// All objects of a type have the same kind.
			key = delivery.Key{GroupKind: other.GroupKind, Namespace: namespace, Name: name}
			_, known = at.objects[key]
			break
		}
		// An object that is deleted before it was reconciled may be the last one to wait for.
		settled = at.open[key] && len(at.open) == 1
		at.remove(key)
		delete(at.open, key)
	}
	p.mu.Unlock()
	if known {
		p.changed(key)
	}
	if settled {
		p.settled(resource)
	}
}

// Drop implements watches.Sink: it drops the objects of a type that is no longer watched or available.
func (p *placedObjects) Drop(resource schema.GroupVersionResource) {
	p.mu.Lock()
	old := p.tables[resource]
	delete(p.tables, resource)
	p.mu.Unlock()
	if old != nil {
		p.changed(slices.Collect(maps.Keys(old.objects))...)
	}
}

// placedVersion is an object as it is read in one version of its type.
type placedVersion struct {
	resource schema.GroupVersionResource
	fields   *projection.FieldSet // The fields with which the object is read.
	object   *unstructured.Unstructured
}

// get returns an object in the versions in which it is read, sorted by version, and the types, of any kind, whose objects are all known,
// each with true. Both are from the same time: an object that is in none of the complete types of its kind does not exist.
func (p *placedObjects) get(key delivery.Key) (versions []placedVersion, complete map[schema.GroupVersionResource]bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	complete = make(map[schema.GroupVersionResource]bool, len(p.tables))
	for resource, table := range p.tables {
		complete[resource] = true
		if o := table.objects[key]; o != nil {
			versions = append(versions, placedVersion{resource, table.fields, o})
		}
	}
	slices.SortFunc(versions, func(a, b placedVersion) int { return strings.Compare(a.resource.Version, b.resource.Version) })
	return versions, complete
}

// reconciled records that the object key was reconciled as it was read in some versions of its type. From then on it counts as reconciled,
// also if it has changed since.
func (p *placedObjects) reconciled(versions []placedVersion, key delivery.Key) {
	var settled []schema.GroupVersionResource
	p.mu.Lock()
	for _, v := range versions {
		if at := p.tables[v.resource]; at != nil && at.open[key] {
			delete(at.open, key)
			if len(at.open) == 0 {
				settled = append(settled, v.resource)
			}
		}
	}
	p.mu.Unlock()
	for _, resource := range settled {
		p.settled(resource)
	}
}

// isSettled reports whether all objects of a type are known and have been reconciled.
func (p *placedObjects) isSettled(resource schema.GroupVersionResource) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	at := p.tables[resource]
	return at != nil && len(at.open) == 0
}

// isReconciled reports whether an object is known, and has been reconciled since it became known.
func (p *placedObjects) isReconciled(resource schema.GroupVersionResource, key delivery.Key) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	at := p.tables[resource]
	return at != nil && at.objects[key] != nil && !at.open[key]
}

// among returns those of the keys whose objects are known.
func (p *placedObjects) among(keys []delivery.Key) []delivery.Key {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.DeleteFunc(slices.Clone(keys), func(key delivery.Key) bool {
		for _, table := range p.tables {
			if table.objects[key] != nil {
				return false
			}
		}
		return true
	})
}

// keys returns the keys of the objects for which selects returns true. An object that is read in several versions may be repeated.
func (p *placedObjects) keys(selects func(schema.GroupVersionResource, delivery.Key) bool) []delivery.Key {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var out []delivery.Key
	for resource, table := range p.tables {
		for key := range table.objects {
			if selects(resource, key) {
				out = append(out, key)
			}
		}
	}
	return out
}
