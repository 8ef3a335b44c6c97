package remediation

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/watches"
)

var _ watches.Sink = (*targets)(nil)

// targets are the existing objects of every type that some policy matches, as the API server last sent them. Objects
// are never changed: one that is the same pointer is the same object. It is safe for concurrent use.
type targets struct {
	// changed is told of every object that came, changed or went.
	changed func(remediation.Key)

	mu      sync.RWMutex
	objects map[schema.GroupVersionResource]map[remediation.Key]*unstructured.Unstructured
}

func newTargets(changed func(remediation.Key)) *targets {
	return &targets{changed: changed, objects: map[schema.GroupVersionResource]map[remediation.Key]*unstructured.Unstructured{}}
}

func keyOf(resource schema.GroupVersionResource, o *unstructured.Unstructured) remediation.Key {
	return remediation.Key{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Replace implements watches.Sink.
func (t *targets) Replace(resource schema.GroupVersionResource, _ *projection.Fields, objects []*unstructured.Unstructured) {
	next := make(map[remediation.Key]*unstructured.Unstructured, len(objects))
	for _, o := range objects {
		next[keyOf(resource, o)] = strip(o)
	}
	t.mu.Lock()
	old := t.objects[resource]
	var changed []remediation.Key
	for key := range old {
		if _, still := next[key]; !still {
			changed = append(changed, key)
		}
	}
	for key, o := range next {
		if before, known := old[key]; known && before.GetUID() == o.GetUID() && before.GetResourceVersion() == o.GetResourceVersion() {
			next[key] = before
			continue
		}
		changed = append(changed, key)
	}
	t.objects[resource] = next
	t.mu.Unlock()
	for _, key := range changed {
		t.changed(key)
	}
}

// Put implements watches.Sink.
func (t *targets) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	key := keyOf(resource, o)
	t.mu.Lock()
	if t.objects[resource] == nil {
		t.objects[resource] = map[remediation.Key]*unstructured.Unstructured{}
	}
	t.objects[resource][key] = strip(o)
	t.mu.Unlock()
	t.changed(key)
}

// Delete implements watches.Sink.
func (t *targets) Delete(resource schema.GroupVersionResource, namespace, name string) {
	key := remediation.Key{Resource: resource, Namespace: namespace, Name: name}
	t.mu.Lock()
	delete(t.objects[resource], key)
	t.mu.Unlock()
	t.changed(key)
}

// Drop implements watches.Sink.
func (t *targets) Drop(resource schema.GroupVersionResource) {
	t.mu.Lock()
	old := t.objects[resource]
	delete(t.objects, resource)
	t.mu.Unlock()
	for key := range old {
		t.changed(key)
	}
}

// get returns an object; nil if there is none.
func (t *targets) get(key remediation.Key) *unstructured.Unstructured {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.objects[key.Resource][key]
}

// keys returns the objects of the types and namespaces that the functions select.
func (t *targets) keys(resource func(schema.GroupVersionResource) bool, namespace func(string) bool) []remediation.Key {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var out []remediation.Key
	for r, objects := range t.objects {
		if !resource(r) {
			continue
		}
		for key := range objects {
			if namespace(key.Namespace) {
				out = append(out, key)
			}
		}
	}
	return out
}

// strip drops the managed fields, which no decision depends on and which are much of an object.
func strip(o *unstructured.Unstructured) *unstructured.Unstructured {
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	return o
}
