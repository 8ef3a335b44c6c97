package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/projection"
)

// Bounds of the analysis. A text that exceeds them reads everything.
const (
	maxAnalysisSteps = 100_000
	maxAliases       = 32
)

// fieldAnalyser finds the fields of `input` and `data` that the contract's rules can come to know.
//
// It runs the compiled module with places in documents for values. A local variable that was bound once, to a place,
// stands for that place, and what is read below the variable is read below the place. A function is run for each list
// of places that it is called with. Whatever else is done with a place (it is compared, built into another value,
// handed to a builtin function, or returned where values are compared for conflicts) reads everything below it. That
// makes the analysis sound: what it does not know, it takes for such a use, and where even that would not cover it, it
// gives up and takes all of the documents.
//
// The order of expressions plays no part: unification binds in whatever order evaluation chooses. A binding is told
// from a comparison by counting. Variables that are set equal form a class, and a class with as many equations as
// variables is a tree around its one definition, in which nothing is compared.
type fieldAnalyser struct {
	compiler    *ast.Compiler
	groups      []*ruleGroup
	functions   map[string]*ruleGroup
	input, data *projection.Fields
	calls       map[string]*call
	nodes       map[*projection.Fields]*fieldNode
	steps       int
	// reader is what reads at the moment.
	reader *reader
	// lost says that the analysis has given up.
	lost bool
	// mocked says that the text evaluates something under another input or other data: a rule then has several values
	// in one evaluation. mockedData says that rules may be among what is replaced.
	mocked, mockedData bool
}

// ruleGroup are the rules that make up one document, or one function.
type ruleGroup struct {
	// path is below `data`, as far as it is constant.
	path     []string
	rules    []*ast.Rule
	complete bool

	running, done bool
	value         places
	reader        *reader
}

// call is a function that was run for one list of places.
type call struct {
	value  places
	reader *reader
}

// place is a field that a value may be.
type place struct {
	at *projection.Fields
	// many says that it may be several fields within one evaluation of the rule that is looked at.
	many bool
}

// places is what is known of a value: the fields that it may be, strings that it may be, and whether it may be
// something else, below which nothing is left to be read.
type places struct {
	fields []place
	texts  []string
	other  bool
}

var anything = places{other: true}

// analyseFields finds what the contract's rules of the module read, and those on the way to them.
func (m *Module) analyseFields(module *ast.Module) {
	a := &fieldAnalyser{
		compiler: m.Compiler, functions: map[string]*ruleGroup{},
		input: &projection.Fields{}, data: &projection.Fields{},
		calls: map[string]*call{}, reader: &reader{},
	}
	a.nodes = map[*projection.Fields]*fieldNode{a.input: {input: true}, a.data: {number: 1}}
	a.addRules(module.Rules)
	ast.WalkWiths(module, func(w *ast.With) bool {
		a.noteMock(w)
		return false
	})
	for _, rule := range m.Rules {
		a.deepen(a.dataRef(nil, m.Package.Append(ast.StringTerm(rule))))
	}
	if m.Clusters {
		a.readClusters()
	}
	switch {
	case a.lost:
		a.input.All()
		a.data.All()
	case !m.Nodes && !m.Clusters:
		// What predicates said has to be looked at again when their world has changed, and is known of decisions alone.
		m.Helpers = a.helpers(m.Package)
	}
	m.Input, m.Data = a.input.Seal(), a.data.Seal()
}

// ObjectFields returns the fields that the module reads of the objects of a resource type, at the place that the read
// names; namespaced says whether the type is. Of clusters and quotas they are fields of the normal form.
func (m *Module) ObjectFields(r Read, namespaced bool) *projection.Fields {
	path := []string{rootKubernetes, r.Plural}
	switch {
	case r.Clusters:
		path = []string{rootClusters}
	case r.Quotas != "":
		path = []string{rootBerth, r.Quotas}
	case r.GroupVersion != "":
		path = []string{rootResources, r.GroupVersion, r.Plural}
	}
	// Objects are below their names, and below their namespaces' if they have any.
	levels := 1
	if namespaced {
		levels = 2
	}
	return m.Data.Below(path...).Members(levels)
}

func (a *fieldAnalyser) addRules(rules []*ast.Rule) {
	index := map[string]*ruleGroup{}
	for _, rule := range rules {
		ref := rule.Ref()
		path := constantPath(ref)
		key := strings.Join(path, "\x00")
		g, ok := index[key]
		if !ok {
			g = &ruleGroup{path: path, complete: true}
			index[key] = g
			if len(rule.Head.Args) > 0 {
				a.functions[ref.String()] = g
			} else {
				a.groups = append(a.groups, g)
			}
		}
		g.rules = append(g.rules, rule)
		// Those of a partial document have several values at a time.
		if rule.Head.RuleKind() != ast.SingleValue || rule.Head.Key != nil || !ref.IsGround() || len(path) != len(ref)-1 {
			g.complete = false
		}
	}
}

// constantPath is the reference without its head, up to the first part that is no string.
func constantPath(ref ast.Ref) []string {
	path := []string{}
	for i := 1; i < len(ref); i++ {
		name, ok := part(ref, i)
		if !ok {
			break
		}
		path = append(path, name)
	}
	return path
}

// noteMock looks at what a `with` replaces. A function that stands in for another one may read more of its arguments.
func (a *fieldAnalyser) noteMock(w *ast.With) {
	a.mocked = true
	ref, ok := w.Target.Value.(ast.Ref)
	if !ok || !ref.HasPrefix(ast.InputRootRef) && !ref.HasPrefix(ast.DefaultRootRef) {
		a.lost = true
		return
	}
	if !ref.HasPrefix(ast.DefaultRootRef) {
		return
	}
	a.mockedData = true
	path := constantPath(ref)
	for _, f := range a.functions {
		if hasPrefix(path, f.path) || hasPrefix(f.path, path) {
			a.lost = true
		}
	}
}

func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

// step counts work, and says whether to go on.
func (a *fieldAnalyser) step() bool {
	if a.steps++; a.steps > maxAnalysisSteps {
		a.lost = true
	}
	return !a.lost
}

// deepen reads everything below a value.
func (a *fieldAnalyser) deepen(p places) {
	for _, f := range p.fields {
		f.at.All()
		a.reader.read(a.nodes[f.at], true)
	}
}

// join is either of two values.
func (a *fieldAnalyser) join(p, q places) places {
	out := places{other: p.other || q.other, fields: slices.Clone(p.fields), texts: slices.Clone(p.texts)}
	for _, f := range q.fields {
		if !slices.Contains(out.fields, f) {
			out.fields = append(out.fields, f)
		}
	}
	for _, t := range q.texts {
		if !slices.Contains(out.texts, t) {
			out.texts = append(out.texts, t)
		}
	}
	if len(out.fields) > maxAliases {
		a.deepen(out)
		out.fields, out.other = nil, true
	}
	if len(out.texts) > maxAliases {
		out.texts, out.other = nil, true
	}
	return out
}

// operand is what is known of one part of a reference.
type operand struct {
	// texts are all that it may be, if there are any.
	texts []string
	many  bool
}

// follow goes down from a value.
func (a *fieldAnalyser) follow(from places, operands []operand) places {
	for _, o := range operands {
		// Nothing is below a string.
		next := places{other: from.other}
		for _, f := range from.fields {
			next = a.join(next, a.descend(f, o))
		}
		from = next
	}
	return from
}

func (a *fieldAnalyser) descend(f place, o operand) places {
	many := f.many || o.many
	if len(o.texts) == 0 || slices.ContainsFunc(o.texts, isIndex) {
		return places{fields: []place{{a.enter(f.at, f.at.Each(), fieldNode{each: true}), many}}}
	}
	var out places
	for _, text := range o.texts {
		out.fields = append(out.fields, place{a.enter(f.at, f.at.Name(text), fieldNode{name: text}), many || len(o.texts) > 1})
	}
	return out
}

// isIndex says whether a name may find a member of an array: the store takes it for a number then.
func isIndex(name string) bool {
	_, err := strconv.Atoi(name)
	return err == nil
}

// dataRef reads a reference that starts with `data`, of the cluster's data, of rules, or of both.
func (a *fieldAnalyser) dataRef(s *fieldScope, ref ast.Ref) places {
	operands := make([]operand, 0, len(ref)-1)
	for _, term := range ref[1:] {
		operands = append(operands, s.operand(term))
	}
	base := a.follow(places{fields: []place{{at: a.data}}}, operands)
	path := constantPath(ref)
	var hits, overlaps []*ruleGroup
	for _, g := range a.groups {
		switch {
		case hasPrefix(path, g.path):
			hits = append(hits, g)
		case hasPrefix(g.path, path):
			overlaps = append(overlaps, g)
		}
	}
	switch {
	case len(hits) == 0 && len(overlaps) == 0:
		return base
	case len(hits) == 1 && len(overlaps) == 0 && hits[0].complete:
		return a.follow(a.group(hits[0]), operands[len(hits[0].path):])
	}
	for _, g := range append(hits, overlaps...) {
		a.deepen(a.group(g))
	}
	// Documents and rules are merged here, and whether they can be depends on the documents.
	a.deepen(base)
	return anything
}

// group returns the value of a complete rule. What a partial one holds is read by the rule itself.
func (a *fieldAnalyser) group(g *ruleGroup) places {
	if g.running {
		// The compiler refuses recursion.
		a.lost = true
		return anything
	}
	if !g.done {
		g.running = true
		g.reader = a.within(func() { g.value = a.run(g, nil) })
		g.running, g.done = false, true
	}
	a.reader.uses = append(a.reader.uses, g.reader)
	return g.value
}

// call returns the value of a function for its arguments.
func (a *fieldAnalyser) call(g *ruleGroup, arguments []places) places {
	var key strings.Builder
	fmt.Fprintf(&key, "%q", g.path)
	many := false
	single := make([]places, len(arguments))
	for i, p := range arguments {
		single[i] = places{texts: p.texts, other: p.other}
		var numbers []int
		for _, f := range p.fields {
			many = many || f.many
			single[i].fields = append(single[i].fields, place{at: f.at})
			numbers = append(numbers, a.nodes[f.at].number)
		}
		slices.Sort(numbers)
		fmt.Fprintf(&key, "|%v %q %t", numbers, p.texts, p.other)
	}
	c, ok := a.calls[key.String()]
	if !ok {
		if g.running {
			a.lost = true
			return anything
		}
		g.running = true
		c = &call{}
		c.reader = a.within(func() { c.value = a.run(g, single) })
		g.running = false
		a.calls[key.String()] = c
	}
	a.reader.uses = append(a.reader.uses, c.reader)
	if !many {
		return c.value
	}
	// Within one call an argument is one field; for the caller it is many.
	out := places{texts: c.value.texts, other: c.value.other}
	for _, f := range c.value.fields {
		out.fields = append(out.fields, place{f.at, true})
	}
	return out
}

// run evaluates the rules of a group.
func (a *fieldAnalyser) run(g *ruleGroup, arguments []places) places {
	var out places
	producers := 0
	for _, rule := range g.rules {
		if !rule.Default {
			producers++
		}
	}
	for _, rule := range g.rules {
		for r := rule; r != nil; r = r.Else {
			if !a.step() {
				return anything
			}
			value := a.rule(g, r, arguments)
			// Two values of one document are compared: unless there can be but one, it matters what it is.
			if !rule.Default && producers > 1 || !a.single(value) {
				a.deepen(value)
				value = places{texts: value.texts, other: true}
			}
			out = a.join(out, value)
		}
	}
	if a.mockedData {
		out.texts, out.other = nil, true
	}
	return out
}

// single says whether a value is the same whenever it is asked for.
func (a *fieldAnalyser) single(p places) bool {
	if len(p.fields) == 0 {
		return true
	}
	return len(p.fields) == 1 && len(p.texts) == 0 && !p.other && !p.fields[0].many && !a.mocked
}

// rule reads one rule, without its else, and returns its value.
func (a *fieldAnalyser) rule(g *ruleGroup, r *ast.Rule, arguments []places) places {
	s := &fieldScope{a: a, classes: map[ast.Var]*class{}}
	s.collect(r, arguments)
	s.body(r.Body)
	if !g.complete {
		for _, term := range r.Head.Ref()[1:] {
			s.deep(term)
		}
		if r.Head.Key != nil {
			s.deep(r.Head.Key)
		}
		if r.Head.Value != nil {
			s.deep(r.Head.Value)
		}
		s.settle()
		return anything
	}
	value := s.value(r.Head.Value)
	s.settle()
	return value
}
