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

// FieldSet is a set of fields of a document, including the document itself. For a field in the set, a reader knows
// whether it exists, its type, and its value if that is a scalar. The members of an object or an array, and their
// number, are in the set only if AddAll, AddName, or AddEach adds them.
//
// One goroutine collects the fields by AddName, AddEach, and AddAll. Seal returns a read-only set that is safe for
// concurrent use. The other methods require a sealed set.
type FieldSet struct {
	all   bool
	each  *FieldSet
	named map[string]*FieldSet

	// names is set by Seal and sorted by name.
	names []namedMember
}

// namedMember is a member of an object: its name, as text and as a term, and the fields of it in the set.
type namedMember struct {
	text   string
	term   *ast.Term
	fields *FieldSet
}

// Fields returns the sealed set of the fields at some paths. The names of a path are separated by dots. "*" stands for every
// member, and "**" at the end for everything below.
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

// AddName adds the object member (the JSON key) of that name to the set. It returns the set of the fields below the member,
// for chaining: adding to it adds to the whole set. Without such additions, only the member itself is in the set.
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

// AddEach returns the fields that are read of every member of an object or array. It adds the names and the number of the
// members to the set.
func (f *FieldSet) AddEach() *FieldSet {
	if f.each == nil {
		f.each = &FieldSet{}
	}
	return f.each
}

// AddAll adds everything below to the set.
func (f *FieldSet) AddAll() { f.all = true }

// IsAll reports whether the set contains the whole document.
func (f *FieldSet) IsAll() bool { return f.all }

var allFields = &FieldSet{all: true}

// AllFields returns the sealed set of all fields. It returns the same pointer each time.
func AllFields() *FieldSet { return allFields }

// MemberNames returns the names of the document's members in a sealed set. The result ok is false if all members are in the
// set.
func (f *FieldSet) MemberNames() (names []string, ok bool) {
	if f.all || f.each != nil {
		return nil, false
	}
	for _, n := range f.names {
		names = append(names, n.text)
	}
	return names, true
}

// EveryMember returns the sealed fields that a sealed set has of every member; nil if it has no such fields.
func (f *FieldSet) EveryMember() *FieldSet { return f.each }

// NamedMembers returns the members that a sealed set has by name, sorted, each with its fields. These include the fields
// that the set has of every member.
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

// member returns the fields of the member called name; nil if the set has none of them.
func (f *FieldSet) member(name string) *FieldSet {
	if f.all {
		return f
	}
	if fields, ok := f.named[name]; ok {
		return fields
	}
	return f.each
}

// items returns the fields of each item of an array; nil if the set has none of them.
func (f *FieldSet) items() *FieldSet {
	if f.all {
		return f
	}
	return f.each
}

// visit calls member for each member of an object that is in the set, with the fields of the member. The term of a name
// is nil if all members are in the set.
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

// union seals several sets as one.
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

// AtPath returns the sealed fields at a path of names. Fields of every member apply to each name.
func (f *FieldSet) AtPath(path ...string) *FieldSet {
	at := f
	for _, name := range path {
		if at = at.member(name); at == nil {
			return &FieldSet{}
		}
	}
	return at
}

// UnionAtDepth returns the sealed union of the fields of all members that are the given number of levels below.
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

// Paths returns the fields as sorted texts. Names follow dots, or are in brackets if they are not identifiers. "*"
// stands for every member and "**" for everything below. A path includes all of its prefixes.
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

func step(name string) string {
	if ast.IsVarCompatibleString(name) {
		return "." + name
	}
	return fmt.Sprintf("[%q]", strings.ToValidUTF8(name, "?"))
}
