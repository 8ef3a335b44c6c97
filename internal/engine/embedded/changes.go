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

package embedded

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
)

// State is the content of Data at one time. The zero State has no content.
type State struct{ snapshot *snapshot }

// State returns the current content.
func (d *Data) State() State { return State{d.current.Load()} }

// Since returns the changes from the state earlier to s. It compares nothing: the methods of Changes compare when they are called.
func (s State) Since(earlier State) *Changes { return &Changes{from: earlier, to: s} }

// Changes are the differences between two states. They keep both states in memory. They are safe for concurrent use.
type Changes struct {
	from, to State
	// records has, by type (GroupVersionResource), a function that returns the type's changed records. All policies share its result.
	records sync.Map
}

// Between reports whether c has the changes from the state earlier to the state later.
func (c *Changes) Between(earlier, later State) bool { return c.from == earlier && c.to == later }

// ObjectChange is one object that was created, deleted, or changed between two states.
type ObjectChange struct {
	Namespace, Name  string
	Created, Deleted bool
	// Fields are the fields of a changed object that differ, and Normal those of its normal form. Both are empty for an object that was
	// created or deleted.
	Fields, Normal []projection.Difference
	More           bool // whether further fields differ
}

// Objects returns the objects of a type that were created or deleted, or that differ in some of the fields: at most limit objects, each
// with at most limit differing fields of either form. more reports whether there are further objects. The result is empty if one of the
// states does not have the fields.
func (c *Changes) Objects(resource schema.GroupVersionResource, fields *projection.FieldSet, limit int) (out []ObjectChange, more bool) {
	if c.from.snapshot == nil || c.to.snapshot == nil || c.from == c.to {
		return nil, false
	}
	old, next := c.from.snapshot.tables[resource], c.to.snapshot.tables[resource]
	if old == nil || next == nil || !old.fields.Covers(fields) || !next.fields.Covers(fields) {
		return nil, false
	}
	find, known := c.records.Load(resource)
	if !known {
		find, _ = c.records.LoadOrStore(resource, sync.OnceValue(func() []recordChange { return changedRecords(old, next) }))
	}
	set := &fieldSet{fields: fields}
	for _, r := range find.(func() []recordChange)() {
		if r.old != nil && r.next != nil && set.sameContent(r.old, r.next) {
			continue
		}
		if len(out) == limit {
			return out, true
		}
		changed := ObjectChange{Namespace: r.namespace.Value(), Name: r.name, Created: r.old == nil, Deleted: r.next == nil}
		if !changed.Created && !changed.Deleted {
			var moreFields, moreNormal bool
			changed.Fields, moreFields = fields.Differences(valueOf(r.old.terms[ownForm]), valueOf(r.next.terms[ownForm]), limit)
			changed.Normal, moreNormal = replication.FieldsOfNormal(fields).Differences(valueOf(r.old.terms[normalForm]), valueOf(r.next.terms[normalForm]), limit)
			changed.More = moreFields || moreNormal
		}
		out = append(out, changed)
	}
	return out, false
}

// recordChange is an object of which the projection differs between two tables, with its projections in both; nil if a table lacks it.
type recordChange struct {
	record
	change
}

// changedRecords returns the objects that only one of two tables has, or that have different projections in them. It compares projections
// by pointer, so an equal projection at another address counts as different.
func changedRecords(old, next *table) (out []recordChange) {
	created := 0
	next.records.Ascend(func(r record) bool {
		before, known := old.records.Get(r)
		if !known {
			created++
		}
		if before.projected != r.projected {
			out = append(out, recordChange{r, change{before.projected, r.projected}})
		}
		return true
	})
	if old.records.Len()+created == next.records.Len() {
		return out
	}
	old.records.Ascend(func(r record) bool {
		if !next.records.Has(r) {
			out = append(out, recordChange{r, change{old: r.projected}})
		}
		return true
	})
	return out
}
