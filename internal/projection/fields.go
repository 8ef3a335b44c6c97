package projection

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// maxFields bounds a sealed set. Sealing repeats what is read of every member below each name, which grows beyond
// bounds for a text that is made for it; what does not fit is read as a whole.
const maxFields = 4096

// Fields is a set of fields below a document, itself included. That a field is in the set means: whether it is there,
// of which type it is, and its value if that is a scalar. The members of an object or an array, and how many there
// are, are in the set only if All, Name or Each say so.
//
// Fields are collected by Name, Each and All, by one goroutine. What Seal returns is read-only, safe for concurrent
// use, and what Value, AppendKey, Below and Paths are for.
type Fields struct {
	all   bool
	each  *Fields
	named map[string]*Fields

	// Set by Seal, in the order of the names.
	names []name
}

type name struct {
	text   string
	term   *ast.Term
	fields *Fields
}

// Name returns the fields of the member of that name, which is in the set from now on.
func (f *Fields) Name(name string) *Fields {
	next, ok := f.named[name]
	if !ok {
		next = &Fields{}
		if f.named == nil {
			f.named = map[string]*Fields{}
		}
		f.named[name] = next
	}
	return next
}

// Each returns the fields that are read of every member of an object or array. The names of the members and their
// number are in the set from now on.
func (f *Fields) Each() *Fields {
	if f.each == nil {
		f.each = &Fields{}
	}
	return f.each
}

// All puts everything below into the set.
func (f *Fields) All() { f.all = true }

// Whole says whether the set has the whole document.
func (f *Fields) Whole() bool { return f.all }

// Everything returns the set of all fields, sealed. It is the same one each time.
func Everything() *Fields { return whole }

// Names returns the names of the document's members that are in the set, sealed; ok is false if all members are.
func (f *Fields) Names() (names []string, ok bool) {
	if f.all || f.each != nil {
		return nil, false
	}
	for _, n := range f.names {
		names = append(names, n.text)
	}
	return names, true
}

// Every returns the fields that a sealed set has of every member, sealed; nil if it has none of all of them.
func (f *Fields) Every() *Fields { return f.each }

// Named are the names of members that a sealed set has fields of, in their order, with those fields; what it has of
// every member is among them.
func (f *Fields) Named() iter.Seq2[string, *Fields] {
	return func(yield func(string, *Fields) bool) {
		for _, n := range f.names {
			if !yield(n.text, n.fields) {
				return
			}
		}
	}
}

// Seal returns the set, read-only.
func (f *Fields) Seal() *Fields {
	budget := maxFields
	return union([]*Fields{f}, &budget)
}

// union seals several sets as one.
func union(sets []*Fields, budget *int) *Fields {
	out := &Fields{}
	if *budget--; *budget < 0 || slices.ContainsFunc(sets, (*Fields).Whole) {
		out.all = true
		return out
	}
	var each []*Fields
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
			out.named = make(map[string]*Fields, len(names))
		}
		out.named[text] = next
		out.names = append(out.names, name{text, ast.StringTerm(text), next})
	}
	return out
}

// Below returns the fields at a path of names, sealed; what is read of every member counts for each name.
func (f *Fields) Below(path ...string) *Fields {
	at := f
	for _, name := range path {
		if at.all {
			return at
		}
		next, ok := at.named[name]
		if !ok {
			next = at.each
		}
		if next == nil {
			return &Fields{}
		}
		at = next
	}
	return at
}

// Members returns the fields that are read of members levels below, whatever their names, sealed.
func (f *Fields) Members(levels int) *Fields {
	sets := []*Fields{f}
	for range levels {
		var next []*Fields
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
	budget := maxFields
	return union(sets, &budget)
}

// Paths are the fields as text, sorted: names after dots, or in brackets if they are no words; "*" for every member and
// "**" for everything below. A path stands for those that lead to it.
func (f *Fields) Paths() []string {
	var out []string
	var add func(f *Fields, prefix string)
	add = func(f *Fields, prefix string) {
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
