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

// Package objectcache keeps the existing objects that policies match, and enqueues those that change for remediation.
package objectcache

import (
	"sync"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-dev/berth/internal/packed"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/watches"
)

var _ watches.Packer = (*Cache)(nil)

// Cache holds the existing objects of every type that some policy matches, as the API server last sent them, cut to the fields that
// decisions need, and packed. It enqueues objects that change, and knows which are queued. It is safe for concurrent use.
type Cache struct {
	trim   func(*projection.FieldSet, *unstructured.Unstructured)
	listed func(schema.GroupVersionResource, []remediation.Key)

	mu     sync.RWMutex
	tables map[schema.GroupVersionResource]*table
	// packers has, for each type that is being listed, the packer of the objects read so far. A complete list takes it for its table. A list
	// that fails, or whose type is dropped, leaves it to the next one.
	packers map[schema.GroupVersionResource]*packed.Packer
	// workqueue is nil until Start.
	workqueue workqueue.TypedRateLimitingInterface[remediation.CompactKey]
}

// table holds the objects of one type.
type table struct {
	fields  *projection.FieldSet // The field set to which the objects are cut: that of the last Replace; all fields before the first.
	packer  *packed.Packer
	objects map[types.NamespacedName]packed.Object
	// queued are the objects that are in the workqueue and that no worker has taken, and unrecorded those for which Recorded was not called
	// since they came into the cache.
	queued, unrecorded sets.Set[types.NamespacedName]
}

// newTable returns an empty table, with room for size objects, of objects that a packer packs; a new packer if it is nil.
func newTable(fields *projection.FieldSet, packer *packed.Packer, size int) *table {
	if packer == nil {
		packer = packed.NewPacker()
	}
	return &table{
		fields: fields, packer: packer, objects: make(map[types.NamespacedName]packed.Object, size),
		queued: sets.New[types.NamespacedName](), unrecorded: sets.New[types.NamespacedName](),
	}
}

// unpack returns a copy of an object, which the caller owns. The table must have the object.
func (t *table) unpack(name types.NamespacedName) *unstructured.Unstructured {
	return t.packer.Unpack(t.objects[name], name.Namespace, name.Name)
}

// remove removes an object from queued or unrecorded. It replaces a set that is empty then by a new one, because a map keeps its memory.
func remove(set *sets.Set[types.NamespacedName], name types.NamespacedName) {
	if set.Delete(name); set.Len() == 0 {
		*set = sets.New[types.NamespacedName]()
	}
}

// New returns an empty cache that enqueues nothing before Start. trim removes from an object that has the given fields what need not be
// kept. listed is called with the objects that were added, changed or deleted when the content of a type was replaced or dropped. It must
// enqueue them.
func New(trim func(*projection.FieldSet, *unstructured.Unstructured), listed func(schema.GroupVersionResource, []remediation.Key)) *Cache {
	return &Cache{
		trim: trim, listed: listed, tables: map[schema.GroupVersionResource]*table{}, packers: map[schema.GroupVersionResource]*packed.Packer{},
	}
}

// Start makes the cache enqueue objects in a workqueue from now on. Changes before the call are not enqueued.
func (c *Cache) Start(queue workqueue.TypedRateLimitingInterface[remediation.CompactKey]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workqueue = queue
}

// Started reports whether Start was called, so that objects can be enqueued.
func (c *Cache) Started() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.workqueue != nil
}

// nameOf returns the namespace and the name of an object. Names in one namespace share one copy of its name.
func nameOf(o *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: unique.Make(o.GetNamespace()).Value(), Name: o.GetName()}
}

// named returns the key of an object of a type.
func named(resource schema.GroupVersionResource, name types.NamespacedName) remediation.Key {
	return remediation.Key{Resource: resource, Namespace: name.Namespace, Name: name.Name}
}

// Replace replaces the objects of a type, and passes those that were added, changed, or deleted to listed; all objects if fields has fields
// that they lacked before. It implements watches.Sink.
func (c *Cache) Replace(resource schema.GroupVersionResource, fields *projection.FieldSet, objects []*unstructured.Unstructured) {
	watches.ReplaceByPacking(c, resource, fields, objects)
}

// listedObject is what Pack returns: the name and the packed form of one object of a list that is still being read, and may fail.
type listedObject struct {
	name   types.NamespacedName
	packed packed.Object
}

// Pack trims and packs an object of a list that is being read, and returns it as a listedObject. It implements watches.Packer.
func (c *Cache) Pack(resource schema.GroupVersionResource, fields *projection.FieldSet, o *unstructured.Unstructured) any {
	c.mu.Lock()
	p := c.packers[resource]
	if p == nil {
		p = packed.NewPacker()
		c.packers[resource] = p
	}
	c.mu.Unlock()
	c.trim(fields, o)
	return listedObject{nameOf(o), p.Pack(o)}
}

// ReplacePacked does what Replace does, with objects that Pack returned. It implements watches.Packer.
func (c *Cache) ReplacePacked(resource schema.GroupVersionResource, fields *projection.FieldSet, objects []any) {
	c.mu.Lock()
	old, next := c.tables[resource], newTable(fields, c.packers[resource], len(objects))
	delete(c.packers, resource)
	c.mu.Unlock()
	for _, o := range objects {
		o := o.(listedObject)
		next.objects[o.name] = o.packed
	}
	if old == nil {
		old = newTable(fields, nil, 0)
	}
	// No other call changes the objects of the type meanwhile, so they are compared without the lock, which workers need.
	grown := !old.fields.Covers(fields)
	var changed []remediation.Key
	for name := range old.objects {
		if _, still := next.objects[name]; !still {
			changed = append(changed, named(resource, name))
		}
	}
	for name := range next.objects {
		if _, known := old.objects[name]; !known || grown || !same(old.unpack(name), next.unpack(name)) {
			changed = append(changed, named(resource, name))
		}
	}
	c.mu.Lock()
	for name := range next.objects {
		if old.queued.Has(name) {
			next.queued.Insert(name)
		}
		if _, known := old.objects[name]; !known || old.unrecorded.Has(name) {
			next.unrecorded.Insert(name)
		}
	}
	c.tables[resource] = next
	c.mu.Unlock()
	c.listed(resource, changed)
}

// Is reports whether an object exists and still is the given version of it.
func (c *Cache) Is(key remediation.Key, version *unstructured.Unstructured) bool {
	now, _ := c.Get(key)
	return now != nil && same(now, version)
}

// same reports whether two objects have the same UID and the same resourceVersion.
func same(a, b *unstructured.Unstructured) bool {
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
}

// Put stores an object that was added or changed, and enqueues it. Only an added one counts as an object on which no decision was recorded
// yet. Before Replace has given the cache the objects of the type, Put stores the object with all fields. It implements watches.Sink.
func (c *Cache) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	name := nameOf(o)
	c.mu.Lock()
	at := c.tables[resource]
	if at == nil {
		at = newTable(projection.AllFields(), nil, 0)
		c.tables[resource] = at
	}
	c.trim(at.fields, o)
	before, known := at.objects[name]
	at.objects[name] = at.packer.Pack(o)
	if known {
		at.packer.Release(before)
	} else {
		at.unrecorded.Insert(name)
	}
	c.mu.Unlock()
	c.Enqueue(named(resource, name))
}

// Delete removes an object, and enqueues its key, also if the cache did not have the object. It implements watches.Sink.
func (c *Cache) Delete(resource schema.GroupVersionResource, namespace, name string) {
	key := remediation.Key{Resource: resource, Namespace: namespace, Name: name}
	c.mu.Lock()
	if at, id := c.find(key); at != nil {
		at.packer.Release(at.objects[id])
		delete(at.objects, id)
		remove(&at.queued, id)
		remove(&at.unrecorded, id)
	}
	c.mu.Unlock()
	c.Enqueue(key)
}

// Drop removes all objects of a type that is no longer watched, and passes them to listed. It implements watches.Sink.
func (c *Cache) Drop(resource schema.GroupVersionResource) {
	c.mu.Lock()
	old := c.tables[resource]
	delete(c.tables, resource)
	c.mu.Unlock()
	if old == nil {
		return
	}
	var dropped []remediation.Key
	for name := range old.objects {
		dropped = append(dropped, named(resource, name))
	}
	c.listed(resource, dropped)
}

// find returns the table that contains an object, nil if there is none, and the object's name in it. The caller holds mu.
func (c *Cache) find(key remediation.Key) (*table, types.NamespacedName) {
	name := types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
	if at := c.tables[key.Resource]; at != nil {
		if _, known := at.objects[name]; known {
			return at, name
		}
	}
	return nil, name
}

// Get returns an object, which the caller owns, and the field set to which it is cut; nil if the object does not exist.
func (c *Cache) Get(key remediation.Key) (*unstructured.Unstructured, *projection.FieldSet) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if at, name := c.find(key); at != nil {
		return at.unpack(name), at.fields
	}
	return nil, nil
}

// Take returns the same as Get, for a worker that begins to process the object. From now on, a change enqueues the key again.
func (c *Cache) Take(key remediation.Key) (*unstructured.Unstructured, *projection.FieldSet) {
	c.mu.Lock()
	if at, name := c.find(key); at != nil {
		remove(&at.queued, name)
	}
	c.mu.Unlock()
	return c.Get(key)
}

// Recorded declares that a decision on an object was recorded, or that it can't be decided for now.
func (c *Cache) Recorded(key remediation.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, name := c.find(key); at != nil {
		remove(&at.unrecorded, name)
	}
}

// Pending returns how many objects of some types are in the workqueue, and on how many no decision was recorded yet.
func (c *Cache) Pending(resources []schema.GroupVersionResource) (queued, unrecorded int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, r := range resources {
		if at := c.tables[r]; at != nil {
			queued, unrecorded = queued+at.queued.Len(), unrecorded+at.unrecorded.Len()
		}
	}
	return queued, unrecorded
}

// Enqueue adds objects to the workqueue, except for those that count as queued already. An object that the cache does not have is always
// added. Enqueue does nothing before Start: the watches, which start later, will enqueue every object.
func (c *Cache) Enqueue(keys ...remediation.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.workqueue == nil {
		return
	}
	for _, key := range keys {
		if at, name := c.find(key); at != nil {
			if at.queued.Has(name) {
				continue
			}
			at.queued.Insert(name)
		}
		c.workqueue.Add(key.Compact())
	}
}

// EnqueueAfter adds an object to the workqueue after a delay. The object does not count as queued in Pending or Idle. EnqueueAfter does
// nothing before Start.
func (c *Cache) EnqueueAfter(key remediation.Key, d time.Duration) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.workqueue != nil {
		c.workqueue.AddAfter(key.Compact(), d)
	}
}

// Labels returns the labels of an object; nil if the object does not exist.
func (c *Cache) Labels(key remediation.Key) map[string]string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if at, name := c.find(key); at != nil {
		return at.packer.Labels(at.objects[name], key.Namespace, key.Name)
	}
	return nil
}

// Idle returns the keys of the objects that are not queued, of the types for which selects returns true, by type and namespace. Objects
// that EnqueueAfter delays are not queued.
func (c *Cache) Idle(selects func(schema.GroupVersionResource) bool) map[schema.GroupVersionResource]map[string][]remediation.Key {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := map[schema.GroupVersionResource]map[string][]remediation.Key{}
	for resource, at := range c.tables {
		if !selects(resource) {
			continue
		}
		in := map[string][]remediation.Key{}
		for name := range at.objects {
			if !at.queued.Has(name) {
				in[name.Namespace] = append(in[name.Namespace], named(resource, name))
			}
		}
		out[resource] = in
	}
	return out
}

// Within returns the keys of the cached objects of a namespace.
func (c *Cache) Within(namespace string) (out []remediation.Key) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for resource, at := range c.tables {
		for name := range at.objects {
			if name.Namespace == namespace {
				out = append(out, named(resource, name))
			}
		}
	}
	return out
}
