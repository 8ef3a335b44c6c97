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

package analysis

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/projection"
)

// Limits of the search for cacheable rules. A policy that exceeds them has fewer of them. Rules that read no data are rarely costly,
// so they are cacheable only as long as there are no more than maxInputHelpers others.
const (
	maxHelpers      = 256
	maxInputHelpers = 64
	maxHelperSteps  = 1_000_000
)

// CacheableRule is a contract rule, or a rule that contract rules use, whose value can be cached across evaluations. It
// depends on the data and on only a part of the input fields that the contract's rules read.
type CacheableRule struct {
	// Ref refers to the whole document that the rule defines, together with others of its name, such as data.kubernetes.placement.allowed. It
	// may be one that rules define member by member, such as a set, but no function.
	Ref ast.Ref
	// Input are the fields of `input` that the rule reads, directly or through other rules. For two inputs that are
	// equal in these fields, the rule has the same value, is undefined for both, or fails for both.
	Input *projection.FieldSet
}

// reader is a rule, or one call of a function, with its direct reads and the readers that it uses.
type reader struct {
	reads []fieldRead // the direct reads of `input`
	uses  []*reader   // the rules and calls that it uses directly
	// data reports whether it reads documents in `data` other than rules.
	data bool
}

// fieldRead is a read of a field of the input. deep reports whether everything below the field is read, too.
type fieldRead struct {
	node *fieldNode
	deep bool // whether everything below the field is read, too, and not only the field itself
}

// fieldNode is a field and its path.
type fieldNode struct {
	// number is the index of the field in the order of discovery.
	number int
	// input reports whether the field is in `input`, and not in `data`.
	input bool
	// parent is the field that has this one; nil for a whole document.
	parent *fieldNode
	name   string // the name in parent, unless each is true
	each   bool   // whether it stands for each member of parent
}

// read records that a field is read, with everything below it if deep is true. It ignores fields of `data`.
func (u *reader) read(n *fieldNode, deep bool) {
	if n.input {
		u.reads = append(u.reads, fieldRead{n, deep})
	}
}

// within runs a function, attributes the reads that happen in it to a new reader, and returns the reader. Nothing uses the new reader yet:
// the caller adds it to the uses of another one.
func (a *fieldAnalyser) within(happens func()) *reader {
	outer, inner := a.reader, &reader{}
	a.reader = inner
	happens()
	a.reader = outer
	return inner
}

// enter records that member, which the caller has added to the field parent, is read, without what is below it, and returns member. n has
// the name of the member, or says that it stands for each member.
func (a *fieldAnalyser) enter(parent, member *projection.FieldSet, n fieldNode) *projection.FieldSet {
	known, ok := a.nodes[member]
	if !ok {
		above := a.nodes[parent]
		n.number, n.input, n.parent = len(a.nodes), above.input, above
		known = &n
		a.nodes[member] = known
	}
	a.reader.read(known, false)
	return member
}

// Depths of a read.
const (
	unread = iota
	readItself
	readBelow
)

// closure returns how deeply a reader reads each field, directly or through the readers that it uses, by the number of the field. data
// reports whether one of these readers reads data. depths is nil if that takes more than the remaining steps. It does not follow the
// reader without, and met reports whether it would have.
func (a *fieldAnalyser) closure(u, without *reader, steps *int) (depths []byte, data, met bool) {
	out := make([]byte, len(a.nodes))
	seen := map[*reader]bool{u: true, without: true}
	for queue := []*reader{u}; len(queue) > 0; {
		next := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if *steps -= 1 + len(next.reads) + len(next.uses); *steps < 0 {
			return nil, false, false
		}
		data = data || next.data
		for _, r := range next.reads {
			depth := byte(readItself)
			if r.deep {
				depth = readBelow
			}
			out[r.node.number] = max(out[r.node.number], depth)
		}
		for _, used := range next.uses {
			met = met || used == without
			if !seen[used] {
				seen[used] = true
				queue = append(queue, used)
			}
		}
	}
	return out, data, met
}

// helper is a rule that may be cacheable, with how deeply it reads each field of `input`, and whether it reads data.
type helper struct {
	*ruleGroup
	// reads says, by the number of each field, how the rule reads it: unread, readItself, or readBelow. Fields of data are unread.
	reads []byte
	data  bool // whether it reads documents in `data` other than rules
}

// helpers returns the evaluated rules without arguments that read less of the input than all rules together, and that do not use the rule
// of the reader without. It returns those that it has found when the work exceeds maxHelperSteps.
func (a *fieldAnalyser) helpers(without *reader) (out []helper) {
	steps := maxHelperSteps
	all, _, _ := a.closure(a.reader, nil, &steps)
	if all == nil {
		return nil
	}
	for _, g := range a.groups {
		if !g.done || a.overlapped(g) {
			continue
		}
		// The rule cache keeps the complete value, so the value counts as read completely.
		whole := a.within(func() {
			for _, f := range g.value.fields {
				a.reader.read(a.nodes[f.at], true)
			}
		})
		whole.uses = append(whole.uses, g.reader)
		reads, data, met := a.closure(whole, without, &steps)
		if reads == nil {
			break
		}
		if !met && !slices.Equal(reads, all) {
			out = append(out, helper{g, reads, data})
		}
	}
	return out
}

// cacheableRules returns the rules that are cacheable, in the order of the text; nil if there are none. Rules that use the rule
// language.RuleObjectPath are not: their values differ from object to object, and the engine has to see each choice of clusters that they
// make. If no contract rule uses that rule, any rule may be cacheable.
func (a *fieldAnalyser) cacheableRules(pkg ast.Ref) []CacheableRule {
	nodes := a.nodesByNumber()
	helpers := a.helpers(a.pathReader(pkg))
	data := 0
	for _, h := range helpers {
		if h.data {
			data++
		}
	}
	// What is left for the rules that read data, and for the others.
	left := map[bool]int{true: maxHelpers, false: max(maxInputHelpers-data, 0)}
	var out []CacheableRule
	// Rules that read the same fields share the field set.
	sets := map[string]*projection.FieldSet{}
	for _, h := range helpers {
		if left[h.data] == 0 {
			continue
		}
		set, ok := sets[string(h.reads)]
		if !ok {
			set = fieldsOf(nodes, h.reads)
			sets[string(h.reads)] = set
		}
		if set.IsAll() {
			continue
		}
		ref := slices.Clone(pkg[:1])
		for _, name := range h.path {
			ref = append(ref, ast.StringTerm(name))
		}
		left[h.data]--
		out = append(out, CacheableRule{Ref: ref, Input: set})
	}
	return out
}

// pathReader returns the reader of the rule language.RuleObjectPath; nil if no contract rule uses that rule, or if other rules define parts
// of the same document.
func (a *fieldAnalyser) pathReader(pkg ast.Ref) *reader {
	path := constantPath(pkg.Append(ast.StringTerm(language.RuleObjectPath)))
	i := slices.IndexFunc(a.groups, func(g *ruleGroup) bool { return slices.Equal(g.path, path) })
	if i < 0 || !a.groups[i].done || a.overlapped(a.groups[i]) {
		return nil
	}
	return a.groups[i].reader
}

// inputWithoutPath returns the fields of `input` that are read, apart from those that only the rule language.RuleObjectPath reads; nil if
// no contract rule uses that rule, or if finding the fields takes too many steps.
func (a *fieldAnalyser) inputWithoutPath(pkg ast.Ref) *projection.FieldSet {
	path := a.pathReader(pkg)
	if path == nil {
		return nil
	}
	steps := maxHelperSteps
	reads, _, _ := a.closure(a.reader, path, &steps)
	if reads == nil {
		return nil
	}
	return fieldsOf(a.nodesByNumber(), reads)
}

// nodesByNumber returns the fields by their numbers.
func (a *fieldAnalyser) nodesByNumber() []*fieldNode {
	out := make([]*fieldNode, len(a.nodes))
	for _, n := range a.nodes {
		out[n.number] = n
	}
	return out
}

// overlapped reports whether other rules are above or below a group's path. Together with the group they define one document.
func (a *fieldAnalyser) overlapped(g *ruleGroup) bool {
	over := func(other *ruleGroup) bool {
		return other != g && (hasPrefix(other.path, g.path) || hasPrefix(g.path, other.path))
	}
	if slices.ContainsFunc(a.groups, over) {
		return true
	}
	for _, f := range a.functions {
		if over(f) {
			return true
		}
	}
	return false
}

// fieldsOf returns the fields that are read, sealed. reads says how deeply each field is read, by its number.
func fieldsOf(nodes []*fieldNode, reads []byte) *projection.FieldSet {
	root := &projection.FieldSet{}
	var at func(n *fieldNode) *projection.FieldSet
	at = func(n *fieldNode) *projection.FieldSet {
		switch {
		case n.parent == nil:
			return root
		case n.each:
			return at(n.parent).AddEach()
		default:
			return at(n.parent).AddName(n.name)
		}
	}
	for number, depth := range reads {
		switch depth {
		case readItself:
			at(nodes[number])
		case readBelow:
			at(nodes[number]).AddAll()
		}
	}
	return root.Seal()
}
