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
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
)

// State is the content of Data at one time. The zero State stands for none: Changes from it, or to it, have no objects.
type State struct{ snapshot *snapshot }

// State returns the present content of the data, which later changes of the data do not change.
func (d *Data) State() State { return State{d.current.Load()} }

// Since returns the changes from the state earlier to s. It compares nothing: the methods of Changes compare when they are called. They
// find no changes if one of the states has no content.
func (s State) Since(earlier State) *Changes { return &Changes{from: earlier, to: s} }

// Changes are the differences between two states. They keep both states in memory. They are safe for concurrent use.
type Changes struct {
	from, to State
	// records has, by type (GroupVersionResource), a function that returns the type's changed records. All policies share its result.
	records sync.Map
}

// Between reports whether c has the changes from the state earlier to the state later.
func (c *Changes) Between(earlier, later State) bool { return c.from == earlier && c.to == later }

// ObjectChange is one object that was created, deleted, or changed between two states, with the fields that differ. The caller knows its
// resource type.
type ObjectChange struct {
	Namespace, Name  string
	Created, Deleted bool
	// Fields are the fields of a changed object that differ, and Normal those of its normal form. Both are empty for an object that was
	// created or deleted.
	Fields, Normal []projection.Difference
	More           bool // whether more fields differ than Fields and Normal have
}

// Limits of the description of a change: of the fields that it names, and of the bytes of a value.
const (
	maxFields = 2
	maxValue  = 40
)

// Describe returns a message that describes the change: "created", "deleted", or the first maxFields fields that differ, such as "label
// zone changed", and "and others" for more. It contains the values of fields only if values is set: those of an object that does not
// represent a cluster may be secret.
func (c ObjectChange) Describe(values bool) string {
	switch {
	case c.Created:
		return "created"
	case c.Deleted:
		return "deleted"
	}
	var texts []string
	for _, d := range slices.Concat(c.Normal, c.Fields) {
		text := fieldName(d.Path) + " changed"
		if from, to := valueText(d.From), valueText(d.To); values && from != "" && to != "" {
			text = fieldName(d.Path) + " " + from + " → " + to
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if len(texts) > maxFields || c.More {
		texts = append(texts[:min(len(texts), maxFields)], "and others")
	}
	return strings.Join(texts, ", ")
}

// fieldName returns a field's path, in an object or in its normal form, as text for a message: "label zone" or "spec.replicas".
func fieldName(path []string) string {
	inMetadata := path
	if len(path) == 3 && path[0] == "metadata" {
		inMetadata = path[1:]
	}
	if len(inMetadata) == 2 && (inMetadata[0] == "labels" || inMetadata[0] == "annotations") {
		return strings.TrimSuffix(inMetadata[0], "s") + " " + inMetadata[1]
	}
	var out strings.Builder
	for i, name := range path {
		switch {
		case strings.ContainsAny(name, "./ "):
			fmt.Fprintf(&out, "[%q]", name)
		case i > 0:
			out.WriteString("." + name)
		default:
			out.WriteString(name)
		}
	}
	return out.String()
}

// valueText returns a value for a message: a string in quotes, cut to maxValue bytes, another scalar as JSON, "none" for nil, and "" for an
// object or an array.
func valueText(value ast.Value) string {
	switch v := value.(type) {
	case nil:
		return "none"
	case ast.String:
		if len(v) > maxValue {
			return fmt.Sprintf("%q...", strings.ToValidUTF8(string(v[:maxValue]), ""))
		}
		return fmt.Sprintf("%q", string(v))
	case ast.Number, ast.Boolean, ast.Null:
		return v.String()
	}
	return ""
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
			changed.Normal, moreNormal = replication.FieldsOfNormal(fields).Differences(valueOf(r.old.terms[normalForm]),
				valueOf(r.next.terms[normalForm]), limit)
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

// changedRecords returns the objects that only one of two tables has, or that have different projections in them. Neither table may be nil.
// It compares projections by pointer, so an equal projection at another address counts as different.
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
