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
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Difference is a field whose value differs between two documents.
type Difference struct {
	Path     []string  // the names that lead to the field; none for the whole document. Items of arrays are not told apart
	From, To ast.Value // the values in the first and the second document; nil if it lacks the field
}

// Differences returns the fields of the sealed set whose values differ between documents a and b, sorted by path, at most limit of them.
// more reports whether there are others. Both documents must have at least the fields of the set. An array counts as one field.
func (f *FieldSet) Differences(a, b ast.Value, limit int) (out []Difference, more bool) {
	d := differences{limit: limit}
	d.compare(f, a, b, nil)
	return d.found, d.more
}

// differences collects the differences between two documents.
type differences struct {
	limit int // the maximum length of found
	found []Difference
	more  bool // whether there are more differences than limit
}

// compare adds the differences between two values of the fields f at a path. A value is nil if its document has none.
func (d *differences) compare(f *FieldSet, a, b ast.Value, path []string) {
	if d.more || f.EqualValues(a, b) {
		return
	}
	names := f.membersOf(a, b)
	if len(names) == 0 {
		if d.more = len(d.found) == d.limit; !d.more {
			d.found = append(d.found, Difference{Path: slices.Clone(path), From: a, To: b})
		}
		return
	}
	for _, name := range names {
		d.compare(f.member(name), memberOf(a, name), memberOf(b, name), append(path, name))
	}
}

// membersOf returns the sorted names of the members that are in the set and that at least one of two values has. It returns none if a value
// is neither an object nor nil.
func (f *FieldSet) membersOf(a, b ast.Value) []string {
	names := map[string]bool{}
	for _, value := range []ast.Value{a, b} {
		if value == nil {
			continue
		}
		object, ok := value.(ast.Object)
		if !ok {
			return nil
		}
		object.Foreach(func(key, _ *ast.Term) {
			if name, ok := key.Value.(ast.String); ok && f.member(string(name)) != nil {
				names[string(name)] = true
			}
		})
	}
	return slices.Sorted(maps.Keys(names))
}

// memberOf returns the member of an object; nil if there is none, or the value is not an object.
func memberOf(value ast.Value, name string) ast.Value {
	if object, ok := value.(ast.Object); ok {
		if term := object.Get(ast.StringTerm(name)); term != nil {
			return term.Value
		}
	}
	return nil
}
