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

package projection

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/runtime"
)

// Union returns the sealed union of several sealed sets.
func Union(sets ...*FieldSet) *FieldSet {
	budget := maxFields
	return union(sets, &budget)
}

// Covers reports whether a sealed set contains every field of another one. If so, a document that was cut to the first set can be cut to
// the other as if it were the whole document.
func (f *FieldSet) Covers(other *FieldSet) bool {
	if f.all || f == other {
		return true
	}
	if other.all || other.each != nil && (f.each == nil || !f.each.Covers(other.each)) {
		return false
	}
	return !slices.ContainsFunc(other.names, func(n namedMember) bool {
		// In a sealed set, the fields of a name include those of every member.
		next := f.member(n.text)
		return next == nil || !next.Covers(n.fields)
	})
}

// Project returns a copy of a document that has only the fields of the sealed set. The copy has the same Value and key as the original for
// this set. It shares with the original the parts that the set contains completely.
func (f *FieldSet) Project(document map[string]any) map[string]any {
	return f.projectObject(document, func(part any) any { return part })
}

// Copy returns a copy of a document that has only the fields of the sealed set, and that shares nothing with the document. The document
// must have only values that a JSON decoder of the API machinery returns.
func (f *FieldSet) Copy(document map[string]any) map[string]any {
	return f.projectObject(document, runtime.DeepCopyJSONValue)
}

// projectObject returns the fields of an object that are in the set. It calls whole for each value that the set contains completely, and
// takes its result.
func (f *FieldSet) projectObject(document map[string]any, whole func(any) any) map[string]any {
	if f.all {
		return whole(document).(map[string]any)
	}
	size := len(document)
	if f.each == nil {
		size = min(len(f.names), size)
	}
	out := make(map[string]any, size)
	f.visit(document, func(n namedMember, value any) { out[n.text] = n.fields.project(value, whole) })
	return out
}

// project returns the fields of a value of any type that are in the set. It calls whole for each value that the set contains completely,
// and takes its result.
func (f *FieldSet) project(document any, whole func(any) any) any {
	if f.all {
		return whole(document)
	}
	switch d := document.(type) {
	case map[string]any:
		return f.projectObject(d, whole)
	case []any:
		if f.each == nil {
			return []any{}
		}
		out := make([]any, len(d))
		for i, member := range d {
			out[i] = f.each.project(member, whole)
		}
		return out
	default:
		return document
	}
}

// Nest returns the sealed set that contains the given sealed set below the member name, and no other field.
func Nest(name string, fields *FieldSet) *FieldSet {
	return Union(&FieldSet{named: map[string]*FieldSet{name: fields}})
}

// EqualValues reports whether two values are equal in the fields of the sealed set. Both values must have at least these fields. Numbers
// are equal only if their texts are, because a policy can distinguish them.
func (f *FieldSet) EqualValues(a, b ast.Value) bool {
	switch x := a.(type) {
	case ast.Object:
		y, ok := b.(ast.Object)
		return ok && (x == y || f.equalObjects(x, y))
	case *ast.Array:
		y, ok := b.(*ast.Array)
		return ok && (x == y || f.equalArrays(x, y))
	case ast.String, ast.Number, ast.Boolean, ast.Null:
		return a == b
	default:
		return a == nil && b == nil
	}
}

// equalObjects reports whether two objects are equal in the fields of the sealed set.
func (f *FieldSet) equalObjects(a, b ast.Object) bool {
	if f.items() == nil {
		for _, n := range f.names {
			x, y := a.Get(n.term), b.Get(n.term)
			if (x == nil) != (y == nil) || x != nil && x != y && !n.fields.EqualValues(x.Value, y.Value) {
				return false
			}
		}
		return true
	}
	return a.Len() == b.Len() && !a.Until(func(key, x *ast.Term) bool {
		y := b.Get(key)
		fields := f.items()
		if name, ok := key.Value.(ast.String); ok {
			fields = f.member(string(name))
		}
		return y == nil || x != y && !fields.EqualValues(x.Value, y.Value)
	})
}

// equalArrays reports whether two arrays are equal in the fields of the sealed set.
func (f *FieldSet) equalArrays(a, b *ast.Array) bool {
	fields := f.items()
	if fields == nil {
		return true
	}
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		if !fields.EqualValues(a.Elem(i).Value, b.Elem(i).Value) {
			return false
		}
	}
	return true
}
