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
	"cmp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/watches"
)

var _ watches.Sink = (*reports)(nil)

// reports holds what systems report of placed objects in other objects. Of these, it holds only what they report. It is safe for concurrent
// use.
type reports struct {
	// changed is called with the placed objects whose reports changed.
	changed func(...delivery.Key)
	// readers has, by type, the system that reports in objects of the type: for all systems that Berth knows, also those to which no policy
	// delivers.
	readers map[schema.GroupVersionResource]delivery.System

	mu     sync.RWMutex
	tables map[schema.GroupVersionResource]*reportTable // The reports by type, of the types whose objects are all known.
}

// reportTable holds the reports of one type: by the object that reports, and by the placed object.
type reportTable struct {
	reports map[name]report // What each object reports.
	// byKey has the objects that report each placed object, sorted. The report is that of the one which the system itself keeps. The others,
	// which other clients wrote, only tell to which more clusters the system brings the object: Observation.Strays.
	byKey  map[delivery.Key][]name
	system delivery.System // The system that keeps the objects with reports.
	kind   string          // The kind of the objects with reports, by which Observation.Strays names them.
}

// report is what one object, such as a ResourceBinding of Karmada, reports of a placed object.
type report struct {
	key      delivery.Key         // The placed object.
	observed delivery.Observation // What the object reports of it.
}

func newReports(changed func(...delivery.Key)) *reports {
	out := &reports{changed: changed, readers: map[schema.GroupVersionResource]delivery.System{},
		tables: map[schema.GroupVersionResource]*reportTable{}}
	for _, system := range delivery.AllSystems() {
		for _, kind := range system.ReportKinds() {
			out.readers[kind.GroupVersionResource] = system
		}
	}
	return out
}

// of returns what is reported of the placed object key by the objects of a type: what the one says that the system itself writes, and, as
// Strays, all clusters that objects of other clients name. It returns nil if there is no report, or if not all objects of the type are
// known.
func (r *reports) of(resource schema.GroupVersionResource, key delivery.Key) *delivery.Observation {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if table := r.tables[resource]; table != nil {
		return table.of(key)
	}
	return nil
}

// Replace implements watches.Sink: objects are all of a type in which a system reports, in place of those before.
func (r *reports) Replace(resource schema.GroupVersionResource, _ *projection.FieldSet, objects []*unstructured.Unstructured) {
	next := r.newTable(resource)
	for _, o := range objects {
		if key, ok := delivery.ReportedBy(o); ok {
			next.add(name{resource, o.GetNamespace(), o.GetName()}, report{key, r.readers[resource].Observe(o)})
		}
	}
	r.mu.Lock()
	touched := r.swap(resource, next)
	r.mu.Unlock()
	r.changed(touched...)
}

// Put implements watches.Sink: it keeps what an object reports, in place of what it reported before.
func (r *reports) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	key, ok := delivery.ReportedBy(o)
	id := name{resource, o.GetNamespace(), o.GetName()}
	r.mu.Lock()
	table := r.tables[resource]
	if table == nil {
		r.mu.Unlock()
		return
	}
	var touched []delivery.Key
	if before, known := table.reports[id]; known && (!ok || before.key != key) {
		touched = append(touched, table.remove(id)...)
	}
	if ok {
		touched = append(touched, table.put(id, report{key, r.readers[resource].Observe(o)})...)
	}
	r.mu.Unlock()
	r.changed(touched...)
}

// Delete implements watches.Sink: it drops what a deleted object reported.
func (r *reports) Delete(resource schema.GroupVersionResource, namespace, objectName string) {
	id := name{resource, namespace, objectName}
	var touched []delivery.Key
	r.mu.Lock()
	if table := r.tables[resource]; table != nil {
		touched = table.remove(id)
	}
	r.mu.Unlock()
	r.changed(touched...)
}

// Drop implements watches.Sink: it drops the reports of a type that is no longer watched or available.
func (r *reports) Drop(resource schema.GroupVersionResource) {
	r.mu.Lock()
	touched := r.swap(resource, nil)
	r.mu.Unlock()
	r.changed(touched...)
}

// swap replaces the table of a type by next, or drops it if next is nil, and returns the placed objects whose reports changed. The caller
// holds mu.
func (r *reports) swap(resource schema.GroupVersionResource, next *reportTable) []delivery.Key {
	before := r.tables[resource]
	if before == nil {
		before = r.newTable(resource)
	}
	if next == nil {
		delete(r.tables, resource)
		next = r.newTable(resource)
	} else {
		r.tables[resource] = next
	}
	var touched []delivery.Key
	for key := range next.byKey {
		if !same(before.of(key), next.of(key)) {
			touched = append(touched, key)
		}
	}
	for key := range before.byKey {
		if _, still := next.byKey[key]; !still {
			touched = append(touched, key)
		}
	}
	return touched
}

// newTable returns an empty table for a type of objects with reports, with the type's system and kind. It does not store the table in r.
func (r *reports) newTable(resource schema.GroupVersionResource) *reportTable {
	out := &reportTable{reports: map[name]report{}, byKey: map[delivery.Key][]name{}, system: r.readers[resource]}
	for _, kind := range out.system.ReportKinds() {
		if kind.GroupVersionResource == resource {
			out.kind = kind.Kind
		}
	}
	return out
}

// of returns the observation that the system itself reports of a placed object. Its Strays are all clusters that reports of other clients
// name, also those that the system's own report has. It is nil if no object reports the placed object.
func (t *reportTable) of(key delivery.Key) *delivery.Observation {
	names := t.byKey[key]
	if len(names) == 0 {
		return nil
	}
	own, out := t.system.ReportOf(key), delivery.Observation{}
	strays := map[string]string{}
	for _, id := range names {
		observed := t.reports[id].observed
		if id.name == own {
			out = observed
			continue
		}
		for cluster := range observed.Clusters {
			strays[cluster] = cmp.Or(strays[cluster], t.kind+" "+id.name)
		}
	}
	if len(strays) > 0 {
		out.Strays = strays
	}
	return &out
}

// put stores the report of the object id, and returns the placed object if what is reported of it changed. A report of id on another placed
// object must have been removed before.
func (t *reportTable) put(id name, r report) []delivery.Key {
	before := t.of(r.key)
	t.add(id, r)
	return changedOf(r.key, before, t.of(r.key))
}

// add stores a report as put does, without finding out whether what is reported changed.
func (t *reportTable) add(id name, r report) {
	names := t.byKey[r.key]
	t.reports[id] = r
	if at, found := slices.BinarySearchFunc(names, id, compareNames); !found {
		t.byKey[r.key] = slices.Insert(names, at, id)
	}
}

// remove drops the report of the object id, and returns the placed object if what is reported of it changed.
func (t *reportTable) remove(id name) []delivery.Key {
	r, known := t.reports[id]
	if !known {
		return nil
	}
	before := t.of(r.key)
	delete(t.reports, id)
	t.byKey[r.key] = slices.DeleteFunc(t.byKey[r.key], func(other name) bool { return other == id })
	if len(t.byKey[r.key]) == 0 {
		delete(t.byKey, r.key)
	}
	return changedOf(r.key, before, t.of(r.key))
}

// changedOf returns key if the reports of it before and after a change differ; none otherwise.
func changedOf(key delivery.Key, before, after *delivery.Observation) []delivery.Key {
	if same(before, after) {
		return nil
	}
	return []delivery.Key{key}
}

// same reports whether two reports, which may be nil, are equal.
func same(a, b *delivery.Observation) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

// compareNames orders objects of one type and namespace by their names.
func compareNames(a, b name) int { return strings.Compare(a.name, b.name) }
