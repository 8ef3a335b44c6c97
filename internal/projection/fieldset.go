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
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// maxFields limits the size of a sealed set. Sealing copies the fields that are read of every member below each name,
// which a crafted policy can make arbitrarily large. Fields beyond the limit are read completely.
const maxFields = 4096

// FieldSet is a set of the fields of a document that a policy or other code reads, or that are kept. The document itself is a field. Of a
// field in the set, a reader knows whether it exists, its type, and its value if that is a scalar. The members of an object or an array,
// and their number, are in the set only if AddAll, AddName, or AddEach adds them.
//
// One goroutine collects the fields by AddName, AddEach, and AddAll. Seal returns a read-only set that is safe for concurrent use. The
// other methods require a sealed set.
type FieldSet struct {
	all   bool                 // whether everything below is in the set
	each  *FieldSet            // the fields of every member or item; nil for none
	named map[string]*FieldSet // the fields of the members with these names

	// names has the members of named, sorted by name. Only a sealed set has it.
	names []namedMember
}

// namedMember is a member of an object that is in a set.
type namedMember struct {
	text   string    // the name of the member
	term   *ast.Term // the name as a term of OPA
	fields *FieldSet // the fields of the member that are in the set
}

// Fields returns the sealed set of the fields at some paths, whose names are separated by dots. "*" stands for every member, and "**" at
// the end for everything below.
func Fields(paths ...string) *FieldSet {
	f := &FieldSet{}
	for _, path := range paths {
		at := f
		for name := range strings.SplitSeq(path, ".") {
			switch name {
			case "*":
				at = at.AddEach()
			case "**":
				at.AddAll()
			default:
				at = at.AddName(name)
			}
		}
	}
	return f.Seal()
}

// AddName adds the object member (the JSON key) of a name to the set. It returns the set of the fields below the member, for chaining:
// fields that are added to it are added to the whole set. Without such additions, only the member itself is in the set.
func (f *FieldSet) AddName(name string) *FieldSet {
	next, ok := f.named[name]
	if !ok {
		next = &FieldSet{}
		if f.named == nil {
			f.named = map[string]*FieldSet{}
		}
		f.named[name] = next
	}
	return next
}

// AddEach adds every member of an object or item of an array to the set. It returns the set of the fields below each of them, for chaining
// as with AddName.
func (f *FieldSet) AddEach() *FieldSet {
	if f.each == nil {
		f.each = &FieldSet{}
	}
	return f.each
}

// AddAll adds everything below the field to the set.
func (f *FieldSet) AddAll() { f.all = true }

// IsAll reports whether the set contains the whole document.
func (f *FieldSet) IsAll() bool { return f.all }

var allFields = &FieldSet{all: true}

// AllFields returns the sealed set of all fields. It returns the same pointer each time.
func AllFields() *FieldSet { return allFields }

// MemberNames returns the sorted names of the document's members that are in a sealed set; none if only the document itself is. ok is false
// if all members are, by AddAll or AddEach.
func (f *FieldSet) MemberNames() (names []string, ok bool) {
	if f.all || f.each != nil {
		return nil, false
	}
	for _, n := range f.names {
		names = append(names, n.text)
	}
	return names, true
}

// EveryMember returns the sealed set of the fields that a sealed set has for every member, as AddEach added them; nil if AddEach added
// none, and if IsAll is true.
func (f *FieldSet) EveryMember() *FieldSet { return f.each }

// NamedMembers yields the members that a sealed set has by name, sorted, each with the sealed set of its fields. That includes the fields
// that the set has for every member. It yields none if IsAll is true.
func (f *FieldSet) NamedMembers() iter.Seq2[string, *FieldSet] {
	return func(yield func(string, *FieldSet) bool) {
		for _, n := range f.names {
			if !yield(n.text, n.fields) {
				return
			}
		}
	}
}

// Seal returns a read-only copy of the set.
func (f *FieldSet) Seal() *FieldSet { return Union(f) }

// member returns the set of the fields of the member with a name; nil if the member is not in the set.
func (f *FieldSet) member(name string) *FieldSet {
	if f.all {
		return f
	}
	if fields, ok := f.named[name]; ok {
		return fields
	}
	return f.each
}

// items returns the set of the fields of each item of an array, as AddAll or AddEach added them; nil if neither did, so that the items and
// their number are not in the set.
func (f *FieldSet) items() *FieldSet {
	if f.all {
		return f
	}
	return f.each
}

// visit calls member for those members of an object that are in the set. n.term is nil if all members are in the set.
func (f *FieldSet) visit(object map[string]any, member func(n namedMember, value any)) {
	if f.items() != nil {
		for name, value := range object {
			member(namedMember{text: name, fields: f.member(name)}, value)
		}
		return
	}
	for _, n := range f.names {
		if value, ok := object[n.text]; ok {
			member(n, value)
		}
	}
}

// union returns the sealed union of several sets. It lowers budget by 1 for each field. When the budget is used up, the union contains
// everything below a field.
func union(sets []*FieldSet, budget *int) *FieldSet {
	out := &FieldSet{}
	if *budget--; *budget < 0 || slices.ContainsFunc(sets, (*FieldSet).IsAll) {
		out.all = true
		return out
	}
	var each []*FieldSet
	names := map[string]bool{}
	for _, f := range sets {
		if f.each != nil {
			each = append(each, f.each)
		}
		for name := range f.named {
			names[name] = true
		}
	}
	if len(each) > 0 {
		out.each = union(each, budget)
	}
	for _, text := range slices.Sorted(maps.Keys(names)) {
		below := slices.Clone(each)
		for _, f := range sets {
			if next, ok := f.named[text]; ok {
				below = append(below, next)
			}
		}
		next := union(below, budget)
		if out.named == nil {
			out.named = make(map[string]*FieldSet, len(names))
		}
		out.named[text] = next
		out.names = append(out.names, namedMember{text, ast.StringTerm(text), next})
	}
	return out
}

// AtPath returns the sealed set of the fields below a path of names, which includes those that the set has for every member. It is empty if
// the path is not in the set.
func (f *FieldSet) AtPath(path ...string) *FieldSet {
	at := f
	for _, name := range path {
		if at = at.member(name); at == nil {
			return &FieldSet{}
		}
	}
	return at
}

// UnionAtDepth returns the sealed union of the fields of all members that are the given number of levels below the document. It is empty if
// the set has no such members, and has all fields if the set contains everything below a field above them.
func (f *FieldSet) UnionAtDepth(levels int) *FieldSet {
	sets := []*FieldSet{f}
	for range levels {
		var next []*FieldSet
		for _, at := range sets {
			if at.all {
				return at
			}
			if at.each != nil {
				next = append(next, at.each)
			}
			for _, n := range at.names {
				next = append(next, n.fields)
			}
		}
		sets = next
	}
	return Union(sets...)
}

// Paths returns the fields as sorted texts, such as .spec.clusters or .metadata["a.b"]. "*" stands for every member and "**" for everything
// below. A path includes the fields on it, which have no texts of their own. It returns none if only the document itself is in the set.
func (f *FieldSet) Paths() []string {
	var out []string
	var add func(f *FieldSet, prefix string)
	add = func(f *FieldSet, prefix string) {
		if f.all {
			out = append(out, prefix+".**")
			return
		}
		if f.each != nil {
			add(f.each, prefix+".*")
		}
		for _, n := range f.names {
			add(n.fields, prefix+step(n.text))
		}
		if f.each == nil && len(f.names) == 0 && prefix != "" {
			out = append(out, prefix)
		}
	}
	add(f, "")
	slices.Sort(out)
	return out
}

// step returns the text of a name in a path: after a dot, or in brackets if it is not an identifier.
func step(name string) string {
	if ast.IsVarCompatibleString(name) {
		return "." + name
	}
	return fmt.Sprintf("[%q]", strings.ToValidUTF8(name, "?"))
}
