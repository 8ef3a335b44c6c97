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

var _ watches.Sink = (*works)(nil)

// works holds to which clusters systems carry placed objects, also those that are gone. It is safe for concurrent use.
type works struct {
	// changed is called with the placed objects whose clusters may have changed.
	changed func(...delivery.Key)
	// systems read the objects.
	systems map[schema.GroupVersionResource]delivery.System

	mu sync.Mutex
	// tables have what each object carries, and clusters has the clusters of what is carried, by the objects that carry it there.
	// What is carried has the type of these, and the name that delivery.System.CarriedAs returns.
	tables   map[schema.GroupVersionResource]map[name]carried
	clusters map[name]map[name]destination
	// readers are the placed objects for which of was called, by what is carried.
	readers map[name]delivery.Key
}

// carried is what an object carries: something, to a cluster.
type carried struct {
	what name
	destination
}

// destination is a cluster to which an object carries something. ending reports whether that object is being deleted, and what it carries
// is therefore removed from the cluster.
type destination struct {
	cluster string
	ending  bool
}

func newWorks(changed func(...delivery.Key)) *works {
	out := &works{
		changed: changed, systems: map[schema.GroupVersionResource]delivery.System{},
		tables: map[schema.GroupVersionResource]map[name]carried{}, clusters: map[name]map[name]destination{}, readers: map[name]delivery.Key{},
	}
	for _, system := range delivery.AllSystems() {
		for _, kind := range system.WorkKinds() {
			out.systems[kind.GroupVersionResource] = system
		}
	}
	return out
}

// of returns the clusters to which objects of a type carry a placed object, sorted and not nil, and those of them from which it is being
// removed. From now on, changed is called with the reader, which is the placed object, when they change.
func (w *works) of(resource schema.GroupVersionResource, reader delivery.Key) (clusters, ending []string) {
	what := w.carriedOf(resource, reader)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readers[what] = reader
	return w.sorted(what)
}

// at returns what of returns, without a reader.
func (w *works) at(resource schema.GroupVersionResource, placed delivery.Key) []string {
	what := w.carriedOf(resource, placed)
	w.mu.Lock()
	defer w.mu.Unlock()
	clusters, _ := w.sorted(what)
	return clusters
}

// sorted returns the clusters to which something is carried, and those of them to which only objects carry it that are being deleted. The
// caller holds mu.
func (w *works) sorted(what name) (clusters, ending []string) {
	stays := map[string]bool{}
	for _, to := range w.clusters[what] {
		stays[to.cluster] = stays[to.cluster] || !to.ending
	}
	clusters = append([]string{}, slices.Sorted(maps.Keys(stays))...)
	return clusters, slices.DeleteFunc(slices.Clone(clusters), func(name string) bool { return stays[name] })
}

// carriedOf returns what objects of a type carry of a placed object.
func (w *works) carriedOf(resource schema.GroupVersionResource, placed delivery.Key) name {
	return name{resource, placed.Namespace, w.systems[resource].CarriedAs(delivery.Object{GroupVersionKind: placed.WithVersion(""), Name: placed.Name})}
}

// forget drops a placed object that is gone.
func (w *works) forget(reader delivery.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for resource := range w.systems {
		delete(w.readers, w.carriedOf(resource, reader))
	}
}

// read returns what an object carries. ok is false if that is not known.
func (w *works) read(resource schema.GroupVersionResource, o *unstructured.Unstructured) (out carried, ok bool) {
	namespace, what, cluster, ok := w.systems[resource].CarriedBy(o)
	return carried{name{resource, namespace, what}, destination{cluster, o.GetDeletionTimestamp() != nil}}, ok
}

// Replace implements watches.Sink.
func (w *works) Replace(resource schema.GroupVersionResource, _ *projection.FieldSet, objects []*unstructured.Unstructured) {
	w.mu.Lock()
	touched := w.clear(resource)
	w.tables[resource] = map[name]carried{}
	for _, o := range objects {
		if read, ok := w.read(resource, o); ok {
			touched = append(touched, w.set(name{resource, o.GetNamespace(), o.GetName()}, &read)...)
		}
	}
	w.mu.Unlock()
	w.changed(touched...)
}

// Put implements watches.Sink.
func (w *works) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	var next *carried
	if read, ok := w.read(resource, o); ok {
		next = &read
	}
	w.mu.Lock()
	touched := w.set(name{resource, o.GetNamespace(), o.GetName()}, next)
	w.mu.Unlock()
	w.changed(touched...)
}

// Delete implements watches.Sink.
func (w *works) Delete(resource schema.GroupVersionResource, namespace, objectName string) {
	w.mu.Lock()
	touched := w.set(name{resource, namespace, objectName}, nil)
	w.mu.Unlock()
	w.changed(touched...)
}

// Drop implements watches.Sink.
func (w *works) Drop(resource schema.GroupVersionResource) {
	w.mu.Lock()
	touched := w.clear(resource)
	delete(w.tables, resource)
	w.mu.Unlock()
	w.changed(touched...)
}

// clear drops the objects of a type, and returns the readers of what they carried. The caller holds mu.
func (w *works) clear(resource schema.GroupVersionResource) []delivery.Key {
	var touched []delivery.Key
	for id := range w.tables[resource] {
		touched = append(touched, w.set(id, nil)...)
	}
	return touched
}

// set records what an object carries, nil for nothing, and returns the readers of what is carried to other clusters than before. The caller holds mu.
func (w *works) set(id name, next *carried) []delivery.Key {
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
		note(before.what)
		delete(w.clusters[before.what], id)
		if len(w.clusters[before.what]) == 0 {
			delete(w.clusters, before.what)
		}
		delete(table, id)
	}
	if next != nil {
		note(next.what)
		if w.clusters[next.what] == nil {
			w.clusters[next.what] = map[name]destination{}
		}
		w.clusters[next.what][id] = next.destination
		table[id] = *next
	}
	return touched
}
