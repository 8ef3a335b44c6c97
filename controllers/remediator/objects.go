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

package remediator

import (
	"maps"
	"slices"
	"sync"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/watches"
)

var _ watches.Sink = (*objectCache)(nil)

// objectCache holds the existing objects of every type that some policy matches, as the API server last sent them, with the needed
// fields. Objects are never modified: the same pointer means the same version. It enqueues objects that change, and knows which are
// queued. It is safe for concurrent use.
type objectCache struct {
	// listed is called with the objects that were added, changed or deleted when the content of a type was replaced or dropped. It must
	// enqueue them.
	listed func(schema.GroupVersionResource, []remediation.Key)

	mu     sync.RWMutex
	tables map[schema.GroupVersionResource]*typeTable
	// workqueue is nil until the controller is started because this replica is the leader.
	workqueue workqueue.TypedRateLimitingInterface[remediation.Key]
}

// typeTable holds the objects of one type.
type typeTable struct {
	// fields is the field set of the objects.
	fields  *projection.FieldSet
	objects map[remediation.Key]*cachedObject
	// queued is the number of queued objects, and unrecorded of those for which no decision was recorded yet.
	queued, unrecorded int
}

type cachedObject struct {
	object *unstructured.Unstructured
	// queued is set while the object is in the workqueue and no worker has taken it. recorded is set once a decision on it was recorded.
	queued, recorded bool
}

// add adds an object, or adds -1 times one, to the counters.
func (t *typeTable) add(o *cachedObject, n int) {
	if o.queued {
		t.queued += n
	}
	if !o.recorded {
		t.unrecorded += n
	}
}

func newObjectCache(listed func(schema.GroupVersionResource, []remediation.Key)) *objectCache {
	return &objectCache{listed: listed, tables: map[schema.GroupVersionResource]*typeTable{}}
}

// start makes the cache enqueue objects.
func (t *objectCache) start(queue workqueue.TypedRateLimitingInterface[remediation.Key]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.workqueue = queue
}

// started reports whether the cache enqueues objects.
func (t *objectCache) started() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.workqueue != nil
}

func keyOf(resource schema.GroupVersionResource, o *unstructured.Unstructured) remediation.Key {
	return remediation.Key{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Replace implements watches.Sink.
func (t *objectCache) Replace(resource schema.GroupVersionResource, fields *projection.FieldSet, objects []*unstructured.Unstructured) {
	next := &typeTable{fields: fields, objects: make(map[remediation.Key]*cachedObject, len(objects))}
	for _, o := range objects {
		trim(fields, o)
		next.objects[keyOf(resource, o)] = &cachedObject{object: o}
	}
	t.mu.Lock()
	old := t.tables[resource]
	if old == nil {
		old = &typeTable{fields: fields}
	}
	grown := !old.fields.Covers(fields)
	var changed []remediation.Key
	for key := range old.objects {
		if _, still := next.objects[key]; !still {
			changed = append(changed, key)
		}
	}
	for key, now := range next.objects {
		before := old.objects[key]
		if before != nil {
			now.queued, now.recorded = before.queued, before.recorded
		}
		next.add(now, 1)
		if before != nil && same(before.object, now.object) && !grown {
			next.objects[key] = before
		} else {
			changed = append(changed, key)
		}
	}
	t.tables[resource] = next
	t.mu.Unlock()
	t.listed(resource, changed)
}

// same reports whether two objects are the same version. It compares contents, too: after a restore of the API server's store from a
// backup, two versions of an object can have the same resource version.
func same(a, b *unstructured.Unstructured) bool {
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion() && equality.Semantic.DeepEqual(a.Object, b.Object)
}

// Put implements watches.Sink.
func (t *objectCache) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	key := keyOf(resource, o)
	t.mu.Lock()
	at := t.tables[resource]
	if at == nil {
		at = &typeTable{fields: projection.AllFields(), objects: map[remediation.Key]*cachedObject{}}
		t.tables[resource] = at
	}
	trim(at.fields, o)
	if at.objects[key] == nil {
		at.objects[key] = &cachedObject{}
		at.add(at.objects[key], 1)
	}
	at.objects[key].object = o
	t.mu.Unlock()
	t.enqueue(key)
}

// Delete implements watches.Sink.
func (t *objectCache) Delete(resource schema.GroupVersionResource, namespace, name string) {
	key := remediation.Key{Resource: resource, Namespace: namespace, Name: name}
	t.mu.Lock()
	if o, at := t.find(key); o != nil {
		at.add(o, -1)
		delete(at.objects, key)
	}
	t.mu.Unlock()
	t.enqueue(key)
}

// Drop implements watches.Sink.
func (t *objectCache) Drop(resource schema.GroupVersionResource) {
	t.mu.Lock()
	old := t.tables[resource]
	delete(t.tables, resource)
	t.mu.Unlock()
	if old != nil {
		t.listed(resource, slices.Collect(maps.Keys(old.objects)))
	}
}

// find returns an object and the table that contains it, or nil. The caller holds mu.
func (t *objectCache) find(key remediation.Key) (*cachedObject, *typeTable) {
	at := t.tables[key.Resource]
	if at == nil || at.objects[key] == nil {
		return nil, nil
	}
	return at.objects[key], at
}

// get returns an object and its field set; nil if the object does not exist.
func (t *objectCache) get(key remediation.Key) (*unstructured.Unstructured, *projection.FieldSet) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if o, at := t.find(key); o != nil {
		return o.object, at.fields
	}
	return nil, nil
}

// take returns the same as get. The key may be enqueued again from now on.
func (t *objectCache) take(key remediation.Key) (*unstructured.Unstructured, *projection.FieldSet) {
	t.mark(key, func(o *cachedObject) { o.queued = false })
	return t.get(key)
}

// recorded declares that a decision on an object was recorded, or that it can't be decided for now.
func (t *objectCache) recorded(key remediation.Key) {
	t.mark(key, func(o *cachedObject) { o.recorded = true })
}

// mark changes the marks of an object, if it exists.
func (t *objectCache) mark(key remediation.Key, change func(*cachedObject)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o, at := t.find(key); o != nil {
		at.add(o, -1)
		change(o)
		at.add(o, 1)
	}
}

// pending returns how many objects of some types are queued, and of how many no decision was recorded yet.
func (t *objectCache) pending(resources []schema.GroupVersionResource) (queued, unrecorded int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, r := range resources {
		if at := t.tables[r]; at != nil {
			queued, unrecorded = queued+at.queued, unrecorded+at.unrecorded
		}
	}
	return queued, unrecorded
}

// enqueue adds those objects to the workqueue that are not queued. It does nothing before start: the watches, which start later, will
// enqueue every object.
func (t *objectCache) enqueue(keys ...remediation.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.workqueue == nil {
		return
	}
	for _, key := range keys {
		if o, at := t.find(key); o != nil {
			if o.queued {
				continue
			}
			o.queued = true
			at.queued++
		}
		t.workqueue.Add(key)
	}
}

// enqueueAfter adds an object to the workqueue after a delay.
func (t *objectCache) enqueueAfter(key remediation.Key, d time.Duration) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.workqueue != nil {
		t.workqueue.AddAfter(key, d)
	}
}

// idle returns the objects that are not queued, of the types that selects selects, by type and namespace.
func (t *objectCache) idle(selects func(schema.GroupVersionResource) bool) map[schema.GroupVersionResource]map[string][]*unstructured.Unstructured {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := map[schema.GroupVersionResource]map[string][]*unstructured.Unstructured{}
	for resource, at := range t.tables {
		if !selects(resource) {
			continue
		}
		out[resource] = map[string][]*unstructured.Unstructured{}
		for key, o := range at.objects {
			if !o.queued {
				out[resource][key.Namespace] = append(out[resource][key.Namespace], o.object)
			}
		}
	}
	return out
}

// within returns the objects of a namespace.
func (t *objectCache) within(namespace string) (out []remediation.Key) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, at := range t.tables {
		for key := range at.objects {
			if key.Namespace == namespace {
				out = append(out, key)
			}
		}
	}
	return out
}

// trim removes from an object with the given field set what a field set can't exclude and no decision needs. It also shares strings that
// are equal in many objects.
func trim(fields *projection.FieldSet, o *unstructured.Unstructured) {
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	if fields.IsAll() {
		return
	}
	if !fields.Covers(withCopy) {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations", lastApplied)
	}
	share("", o.Object)
}

// maxShared is the length of the longest string that is shared. Longer ones, such as records of requested values, are hardly ever equal.
const maxShared = 40

// own holds the members of metadata that are different in every object.
var own = map[string]bool{"name": true, "uid": true, "resourceVersion": true}

// share replaces the strings in the value of a member by shared ones.
func share(member string, value any) any {
	switch v := value.(type) {
	case string:
		if len(v) <= maxShared {
			return shared(v)
		}
	case []any:
		for i := range v {
			v[i] = share("", v[i])
		}
	case map[string]any:
		for key, inner := range v {
			if member != "metadata" || !own[key] {
				inner = share(key, inner)
			}
			v[shared(key).(string)] = inner
		}
	}
	return value
}

// shared returns the shared interface value of a string. Besides the string it saves the 16 bytes that each interface value would
// allocate.
func shared(text string) any { return unique.Make(any(text)).Value() }
