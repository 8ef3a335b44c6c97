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

var _ watches.Sink = (*reports)(nil)

// reports holds what systems report of placed objects. Of each object with a report, it holds only what the report says. It is safe
// for concurrent use.
type reports struct {
	// changed is called with the placed objects whose reports changed.
	changed func(...delivery.Key)
	// readers read the objects with reports.
	readers map[schema.GroupVersionResource]delivery.System

	mu     sync.RWMutex
	tables map[schema.GroupVersionResource]*reportTable
}

// reportTable holds the reports of one type.
type reportTable struct {
	byName map[name]delivery.Key
	byKey  map[delivery.Key]delivery.Observation
}

func newReports(changed func(...delivery.Key)) *reports {
	out := &reports{changed: changed, readers: map[schema.GroupVersionResource]delivery.System{}, tables: map[schema.GroupVersionResource]*reportTable{}}
	for _, system := range delivery.AllSystems() {
		for _, kind := range system.ReportKinds() {
			out.readers[kind.GroupVersionResource] = system
		}
	}
	return out
}

// of returns the report of a placed object, or nil.
func (r *reports) of(resource schema.GroupVersionResource, key delivery.Key) *delivery.Observation {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if table := r.tables[resource]; table != nil {
		if found, ok := table.byKey[key]; ok {
			return &found
		}
	}
	return nil
}

// Replace implements watches.Sink.
func (r *reports) Replace(resource schema.GroupVersionResource, _ *projection.FieldSet, objects []*unstructured.Unstructured) {
	next := newReportTable()
	for _, o := range objects {
		if key, ok := delivery.ReportedBy(o); ok {
			next.put(name{resource, o.GetNamespace(), o.GetName()}, key, r.readers[resource].Observe(o))
		}
	}
	r.mu.Lock()
	touched := r.swap(resource, next)
	r.mu.Unlock()
	r.changed(touched...)
}

// Put implements watches.Sink.
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
	if before, known := table.byName[id]; known && (!ok || before != key) {
		touched = append(touched, table.remove(id))
	}
	if ok && table.put(id, key, r.readers[resource].Observe(o)) {
		touched = append(touched, key)
	}
	r.mu.Unlock()
	r.changed(touched...)
}

// Delete implements watches.Sink.
func (r *reports) Delete(resource schema.GroupVersionResource, namespace, objectName string) {
	id := name{resource, namespace, objectName}
	var touched []delivery.Key
	r.mu.Lock()
	if table := r.tables[resource]; table != nil {
		if _, known := table.byName[id]; known {
			touched = append(touched, table.remove(id))
		}
	}
	r.mu.Unlock()
	r.changed(touched...)
}

// Drop implements watches.Sink.
func (r *reports) Drop(resource schema.GroupVersionResource) {
	r.mu.Lock()
	touched := r.swap(resource, nil)
	r.mu.Unlock()
	r.changed(touched...)
}

// swap replaces the table of a type, which may be nil, and returns the placed objects whose reports changed. The caller holds mu.
func (r *reports) swap(resource schema.GroupVersionResource, next *reportTable) []delivery.Key {
	before := r.tables[resource]
	if before == nil {
		before = newReportTable()
	}
	if next == nil {
		delete(r.tables, resource)
		next = newReportTable()
	} else {
		r.tables[resource] = next
	}
	var touched []delivery.Key
	for key, report := range next.byKey {
		if known, ok := before.byKey[key]; !ok || !known.Equal(report) {
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

func newReportTable() *reportTable {
	return &reportTable{byName: map[name]delivery.Key{}, byKey: map[delivery.Key]delivery.Observation{}}
}

// put stores a report, and reports whether it changed.
func (t *reportTable) put(id name, key delivery.Key, report delivery.Observation) bool {
	before, known := t.byKey[key]
	t.byName[id], t.byKey[key] = key, report
	return !known || !before.Equal(report)
}

// remove drops the report of an object, and returns the placed object.
func (t *reportTable) remove(id name) delivery.Key {
	key := t.byName[id]
	delete(t.byName, id)
	delete(t.byKey, key)
	return key
}
