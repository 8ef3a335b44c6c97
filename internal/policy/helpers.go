package policy

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/projection"
)

// Bounds of the search for helpers. A text that exceeds them has fewer.
const (
	maxHelpers     = 64
	maxHelperSteps = 100_000
)

// Helper is a rule on the way to the contract's rules, or one of them, whose value others need not ask for again: it
// depends on the data and on a part of what the contract's rules read of the input.
type Helper struct {
	// Ref is the whole document that the rule makes, such as data.kubernetes.placement.allowed.
	Ref ast.Ref
	// Input are the fields of `input` that the rule reads, itself and through others: inputs that differ nowhere there
	// have the same value of the rule, or both have none, or evaluating it fails for both.
	Input *projection.Fields
}

// reader is a rule, or a call of a function, with what it reads by itself and what it uses.
type reader struct {
	reads []fieldRead
	uses  []*reader
}

// fieldRead is that a field of the input is read; all of what is below it, too, if deep.
type fieldRead struct {
	node *fieldNode
	deep bool
}

// fieldNode is a field and the way to it.
type fieldNode struct {
	// number is that of the node among all, in the order in which they were found.
	number int
	// input says that it is a field of `input`.
	input bool
	// parent is nil for a whole document; of a parent it is the member of that name, or each member.
	parent *fieldNode
	name   string
	each   bool
}

func (u *reader) read(n *fieldNode, deep bool) {
	if n.input {
		u.reads = append(u.reads, fieldRead{n, deep})
	}
}

// within has a reader of its own read what happens within.
func (a *fieldAnalyser) within(happens func()) *reader {
	outer, inner := a.reader, &reader{}
	a.reader = inner
	happens()
	a.reader = outer
	return inner
}

// enter notes that a member is read, and where it is: n is what tells it from other members.
func (a *fieldAnalyser) enter(parent, member *projection.Fields, n fieldNode) *projection.Fields {
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

// depth of a read of a field.
const (
	unread = iota
	readItself
	readBelow
)

// closure is what a reader reads, by the numbers of the fields, itself and through what it uses; nil if that takes more
// than what is left of the steps.
func (a *fieldAnalyser) closure(u *reader, steps *int) []byte {
	out := make([]byte, len(a.nodes))
	seen := map[*reader]bool{u: true}
	for queue := []*reader{u}; len(queue) > 0; {
		next := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if *steps -= 1 + len(next.reads) + len(next.uses); *steps < 0 {
			return nil
		}
		for _, r := range next.reads {
			depth := byte(readItself)
			if r.deep {
				depth = readBelow
			}
			out[r.node.number] = max(out[r.node.number], depth)
		}
		for _, used := range next.uses {
			if !seen[used] {
				seen[used] = true
				queue = append(queue, used)
			}
		}
	}
	return out
}

// helpers returns the rules that read less than all of them together.
func (a *fieldAnalyser) helpers(pkg ast.Ref) []Helper {
	steps := maxHelperSteps
	all := a.closure(a.reader, &steps)
	if all == nil {
		return nil
	}
	nodes := make([]*fieldNode, len(a.nodes))
	for _, n := range a.nodes {
		nodes[n.number] = n
	}
	var out []Helper
	// Rules that read the same share the set.
	sets := map[string]*projection.Fields{}
	for _, g := range a.groups {
		if !g.done || len(out) == maxHelpers || a.overlapped(g) {
			continue
		}
		// What is remembered is all of the value.
		whole := a.within(func() { a.deepenValue(g.value) })
		whole.uses = append(whole.uses, g.reader)
		reads := a.closure(whole, &steps)
		if reads == nil {
			break
		}
		if slices.Equal(reads, all) {
			continue
		}
		set, ok := sets[string(reads)]
		if !ok {
			set = fieldsOf(nodes, reads)
			sets[string(reads)] = set
		}
		if set.Whole() {
			continue
		}
		ref := slices.Clone(pkg[:1])
		for _, name := range g.path {
			ref = append(ref, ast.StringTerm(name))
		}
		out = append(out, Helper{Ref: ref, Input: set})
	}
	return out
}

// overlapped says whether there are rules above or below a group's path: what they make is one document in part.
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

// deepenValue reads all of a value for the reader at hand, and leaves what the module reads as it is.
func (a *fieldAnalyser) deepenValue(p places) {
	for _, f := range p.fields {
		a.reader.read(a.nodes[f.at], true)
	}
}

// fieldsOf returns the fields that are read, sealed.
func fieldsOf(nodes []*fieldNode, reads []byte) *projection.Fields {
	root := &projection.Fields{}
	var at func(n *fieldNode) *projection.Fields
	at = func(n *fieldNode) *projection.Fields {
		switch {
		case n.parent == nil:
			return root
		case n.each:
			return at(n.parent).Each()
		default:
			return at(n.parent).Name(n.name)
		}
	}
	for number, depth := range reads {
		switch depth {
		case readItself:
			at(nodes[number])
		case readBelow:
			at(nodes[number]).All()
		}
	}
	return root.Seal()
}
