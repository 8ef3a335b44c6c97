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
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/watches"
)

var _ watches.Sink = (*objectCache)(nil)

// objectCache holds the existing objects of every type that some policy matches, as the API server last sent them, with the
// needed fields. Objects are never modified: the same pointer means the same version. It is safe for concurrent use.
type objectCache struct {
	// changed is called with objects that were added, changed or deleted.
	changed func(...remediation.Key)

	mu     sync.RWMutex
	tables map[schema.GroupVersionResource]*typeTable
}

// typeTable holds the objects of one type.
type typeTable struct {
	// fields is the field set of the objects; nil means whole objects.
	fields  *projection.FieldSet
	objects map[remediation.Key]*cachedObject
	// queued is the number of queued objects.
	queued int
}

type cachedObject struct {
	object *unstructured.Unstructured
	// queued is set while the object is in the workqueue and no worker has taken it.
	queued bool
}

func newObjectCache(changed func(...remediation.Key)) *objectCache {
	return &objectCache{changed: changed, tables: map[schema.GroupVersionResource]*typeTable{}}
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
	grown := !covers(old.fields, fields)
	var changed []remediation.Key
	for key := range old.objects {
		if _, still := next.objects[key]; !still {
			changed = append(changed, key)
		}
	}
	for key, now := range next.objects {
		before, known := old.objects[key]
		if known && same(before.object, now.object) && !grown {
			next.objects[key] = before
			continue
		}
		now.queued = known && before.queued
		changed = append(changed, key)
	}
	for _, o := range next.objects {
		if o.queued {
			next.queued++
		}
	}
	t.tables[resource] = next
	t.mu.Unlock()
	t.changed(changed...)
}

// same reports whether two objects are the same version. It compares contents, too: after a restore of the API server's
// store from a backup, two versions of an object can have the same resource version.
func same(a, b *unstructured.Unstructured) bool {
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion() && equality.Semantic.DeepEqual(a.Object, b.Object)
}

// Put implements watches.Sink.
func (t *objectCache) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	key := keyOf(resource, o)
	t.mu.Lock()
	at := t.tables[resource]
	if at == nil {
		at = &typeTable{objects: map[remediation.Key]*cachedObject{}}
		t.tables[resource] = at
	}
	trim(at.fields, o)
	if state, ok := at.objects[key]; ok {
		state.object = o
	} else {
		at.objects[key] = &cachedObject{object: o}
	}
	t.mu.Unlock()
	t.changed(key)
}

// Delete implements watches.Sink.
func (t *objectCache) Delete(resource schema.GroupVersionResource, namespace, name string) {
	key := remediation.Key{Resource: resource, Namespace: namespace, Name: name}
	t.mu.Lock()
	if at := t.tables[resource]; at != nil {
		if o := at.objects[key]; o != nil && o.queued {
			at.queued--
		}
		delete(at.objects, key)
	}
	t.mu.Unlock()
	t.changed(key)
}

// Drop implements watches.Sink.
func (t *objectCache) Drop(resource schema.GroupVersionResource) {
	t.mu.Lock()
	old := t.tables[resource]
	delete(t.tables, resource)
	t.mu.Unlock()
	if old == nil {
		return
	}
	keys := make([]remediation.Key, 0, len(old.objects))
	for key := range old.objects {
		keys = append(keys, key)
	}
	t.changed(keys...)
}

// take returns an object, or nil if it does not exist, and its field set, which is nil for the whole object. The key
// may be enqueued again from now on.
func (t *objectCache) take(key remediation.Key) (*unstructured.Unstructured, *projection.FieldSet) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := t.tables[key.Resource]; at != nil {
		if o, ok := at.objects[key]; ok {
			if o.queued {
				at.queued--
			}
			o.queued = false
			return o.object, at.fields
		}
	}
	return nil, nil
}

// get returns the same as take, but leaves the object queued.
func (t *objectCache) get(key remediation.Key) (*unstructured.Unstructured, *projection.FieldSet) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if at := t.tables[key.Resource]; at != nil {
		if o, ok := at.objects[key]; ok {
			return o.object, at.fields
		}
	}
	return nil, nil
}

// queue marks objects as queued, and returns those that were not queued before.
func (t *objectCache) queue(keys []remediation.Key) []remediation.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]remediation.Key, 0, len(keys))
	for _, key := range keys {
		if at := t.tables[key.Resource]; at != nil {
			if o, ok := at.objects[key]; ok {
				if o.queued {
					continue
				}
				o.queued = true
				at.queued++
			}
		}
		out = append(out, key)
	}
	return out
}

// deciding reports whether an object of one of the types is queued.
func (t *objectCache) deciding(resources []schema.GroupVersionResource) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.ContainsFunc(resources, func(r schema.GroupVersionResource) bool {
		at := t.tables[r]
		return at != nil && at.queued > 0
	})
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
		byNamespace := map[string][]*unstructured.Unstructured{}
		for key, o := range at.objects {
			if !o.queued {
				byNamespace[key.Namespace] = append(byNamespace[key.Namespace], o.object)
			}
		}
		out[resource] = byNamespace
	}
	return out
}

// within returns the objects of a namespace.
func (t *objectCache) within(namespace string) []remediation.Key {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var out []remediation.Key
	for _, at := range t.tables {
		for key := range at.objects {
			if key.Namespace == namespace {
				out = append(out, key)
			}
		}
	}
	return out
}
