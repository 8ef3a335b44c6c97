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
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/watches"
)

var _ watches.Sink = (*works)(nil)

// works holds to which clusters systems carry placed objects, by objects of System.WorkKinds, here called works. A work carries a placed
// object even after that is deleted. The subject of a work is what it carries: the type of the work, with the namespace and name by which
// it refers to the placed object. works also knows which placed objects to pass to changed. It is safe for concurrent use.
type works struct {
	// changed is called with the placed objects whose clusters may have changed.
	changed func(...delivery.Key)
	// systems has the system of each type of works.
	systems map[schema.GroupVersionResource]delivery.System

	mu sync.Mutex
	// tables has what each work carries, by the type and the name of the work.
	tables map[schema.GroupVersionResource]map[name]delivery.Carried
	// clusters has what each work carries, by subject and then by work. A subject is what a work carries, under the name that the work has
	// for it, with the type of the work.
	clusters map[name]map[name]delivery.Carried
	// readers are the placed objects for which of was called, by subject.
	readers map[name]delivery.Key
}

// subjectOf returns the subject of a work: its type, with the namespace and name by which it refers to what it carries.
func subjectOf(resource schema.GroupVersionResource, carried delivery.Carried) name {
	return name{resource, carried.Namespace, carried.Name}
}

func newWorks(changed func(...delivery.Key)) *works {
	out := &works{
		changed: changed, systems: map[schema.GroupVersionResource]delivery.System{},
		tables: map[schema.GroupVersionResource]map[name]delivery.Carried{}, clusters: map[name]map[name]delivery.Carried{},
		readers: map[name]delivery.Key{},
	}
	for _, system := range delivery.AllSystems() {
		for _, kind := range system.WorkKinds() {
			out.systems[kind.GroupVersionResource] = system
		}
	}
	return out
}

// of returns the clusters to which works of a type carry the placed object reader, with how they carry it there; not nil. From now on,
// changed is called with reader when the result may have changed.
func (w *works) of(resource schema.GroupVersionResource, reader delivery.Key) map[string]delivery.Carried {
	what := w.carriedOf(resource, reader)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readers[what] = reader
	return w.byCluster(what)
}

// at returns the clusters to which works of a type carry a placed object, as of does. Unlike of, it does not register the object for calls
// of changed, and does not end a registration.
func (w *works) at(resource schema.GroupVersionResource, placed delivery.Key) map[string]delivery.Carried {
	what := w.carriedOf(resource, placed)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byCluster(what)
}

// byCluster returns how a subject is carried, by cluster. Of several works that carry it to one cluster, it has the Missing of one that has
// any, and Ending and Absent if all have them. The caller holds mu.
func (w *works) byCluster(what name) map[string]delivery.Carried {
	out := map[string]delivery.Carried{}
	for _, carried := range w.clusters[what] {
		if before, known := out[carried.Cluster]; known {
			carried.Missing, carried.Ending, carried.Absent = max(before.Missing, carried.Missing), before.Ending && carried.Ending,
				before.Absent && carried.Absent
		}
		out[carried.Cluster] = carried
	}
	return out
}

// carriedOf returns the subject of works that carry a placed object: the type resource of these works, with the namespace and the name by
// which they refer to the object.
func (w *works) carriedOf(resource schema.GroupVersionResource, placed delivery.Key) name {
	return name{resource, placed.Namespace, w.systems[resource].CarriedAs(delivery.Object{GroupVersionKind: placed.WithVersion(""),
		Name: placed.Name})}
}

// forget ends the calls of changed with a placed object, which does not exist any more.
func (w *works) forget(reader delivery.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for resource := range w.systems {
		delete(w.readers, w.carriedOf(resource, reader))
	}
}

// Replace implements watches.Sink: objects are all works of a type, in place of those before.
func (w *works) Replace(resource schema.GroupVersionResource, _ *projection.FieldSet, objects []*unstructured.Unstructured) {
	w.mu.Lock()
	touched := w.clear(resource)
	w.tables[resource] = map[name]delivery.Carried{}
	for _, o := range objects {
		if read, ok := w.systems[resource].CarriedBy(o); ok {
			touched = append(touched, w.set(name{resource, o.GetNamespace(), o.GetName()}, &read)...)
		}
	}
	w.mu.Unlock()
	w.changed(touched...)
}

// Put implements watches.Sink: it records what a work carries now.
func (w *works) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	var next *delivery.Carried
	if read, ok := w.systems[resource].CarriedBy(o); ok {
		next = &read
	}
	w.mu.Lock()
	touched := w.set(name{resource, o.GetNamespace(), o.GetName()}, next)
	w.mu.Unlock()
	w.changed(touched...)
}

// Delete implements watches.Sink: a deleted work carries nothing any more.
func (w *works) Delete(resource schema.GroupVersionResource, namespace, objectName string) {
	w.mu.Lock()
	touched := w.set(name{resource, namespace, objectName}, nil)
	w.mu.Unlock()
	w.changed(touched...)
}

// Drop implements watches.Sink: it drops the works of a type that is no longer watched or available.
func (w *works) Drop(resource schema.GroupVersionResource) {
	w.mu.Lock()
	touched := w.clear(resource)
	delete(w.tables, resource)
	w.mu.Unlock()
	w.changed(touched...)
}

// clear drops the works of a type, and returns the readers of what they carried. The caller holds mu.
func (w *works) clear(resource schema.GroupVersionResource) []delivery.Key {
	var touched []delivery.Key
	for id := range w.tables[resource] {
		touched = append(touched, w.set(id, nil)...)
	}
	return touched
}

// set records what the work id carries, nil for nothing, and returns the readers of what is now carried differently. The caller holds mu.
func (w *works) set(id name, next *delivery.Carried) []delivery.Key {
	table := w.tables[id.GroupVersionResource]
	before, known := table[id]
	if table == nil || known && next != nil && before == *next || !known && next == nil {
		return nil
	}
	var touched []delivery.Key
	note := func(what name) {
		if reader, read := w.readers[what]; read {
			touched = append(touched, reader)
		}
	}
	if known {
		what := subjectOf(id.GroupVersionResource, before)
		if next == nil || what != subjectOf(id.GroupVersionResource, *next) {
			note(what)
		}
		delete(w.clusters[what], id)
		if len(w.clusters[what]) == 0 {
			delete(w.clusters, what)
		}
		delete(table, id)
	}
	if next != nil {
		what := subjectOf(id.GroupVersionResource, *next)
		note(what)
		if w.clusters[what] == nil {
			w.clusters[what] = map[name]delivery.Carried{}
		}
		w.clusters[what][id] = *next
		table[id] = *next
	}
	return touched
}
