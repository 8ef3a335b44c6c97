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
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/workload"
)

// Limits of the analysis. For a policy that exceeds them, the analysis assumes that the policy reads everything.
const (
	maxAnalysisSteps = 100_000
	maxAliases       = 32
)

// fieldAnalyser finds the fields of `input` and `data` that can influence the values of the contract's rules.
//
// It evaluates the compiled module symbolically: its values are positions in documents ("places"). A local variable
// that is bound once, to a place, denotes that place. A read below the variable is a read below the place. A function
// is evaluated once for each list of places that it is called with. Every other use of a place reads everything below
// it. Such uses are comparisons, construction of other values, calls of builtin functions, and results that OPA
// compares for conflicts. Therefore the analysis is sound: it treats what it does not understand as such a use. Where
// that would not be enough, it gives up and assumes that the policy reads both documents completely.
//
// The order of expressions is irrelevant, because unification binds in whatever order evaluation chooses. The analysis
// distinguishes bindings from comparisons by counting. Variables that are set equal form a class. A class with as many
// equations as variables is a tree around its one definition, and nothing is compared in it.
type fieldAnalyser struct {
	compiler *ast.Compiler
	// groups are the rules without arguments.
	groups    []*ruleGroup
	functions map[string]*ruleGroup // by their references
	// input and data are the fields that are read, as far as they were found.
	input, data *projection.FieldSet
	// calls are the results of functions, by the function and its arguments.
	calls map[string]*call
	nodes map[*projection.FieldSet]*fieldNode // the fields by their field sets
	steps int                                 // the steps of work so far; the analysis gives up after a limit
	// reader is the reader that current reads are attributed to.
	reader *reader
	// lost reports whether the analysis has given up, so that all of both documents counts as read.
	lost bool
	// mocked reports whether a `with` of the policy replaces something, so that a rule may have several values in one evaluation. mockedData
	// reports whether one replaces something in `data`, which may be a rule. More fields then count as read completely. Neither keeps rules
	// from being cacheable.
	mocked, mockedData bool
}

// ruleGroup is the set of rules that define one document or one function.
type ruleGroup struct {
	// path has the parts of the reference to the document or function below `data`, up to the first part that is not constant.
	path  []string
	rules []*ast.Rule
	// complete reports whether each rule defines the whole document, and not a member of it.
	complete bool

	// running reports whether the group is being evaluated, and done whether value and reader are known.
	running, done bool
	value         places  // what the document may be
	reader        *reader // what the rules read
}

// call is the result of evaluating a function once, for one list of arguments.
type call struct {
	value  places  // what the result may be
	reader *reader // what the call reads
}

// place is a field of `input` or `data` that a value may refer to.
type place struct {
	// at is the field in the field set of its document.
	at *projection.FieldSet
	// many reports whether the place may stand for several fields within one evaluation of the current rule.
	many bool
}

// places describes what a value may be: some fields of `input` and `data`, some constant strings, and perhaps another value.
type places struct {
	fields []place  // the fields that the value may be
	texts  []string // the strings that it may be
	other  bool     // whether it may also be another value, of which no more reads have to be recorded
}

var anything = places{other: true}

// analyseFields sets Input, Data, InputWithoutPath, and CacheableRules by the fields that the given rules of the module read, directly or
// through other rules.
func (d *Dependencies) analyseFields(compiler *ast.Compiler, module *ast.Module, rules []string) {
	a := &fieldAnalyser{
		compiler: compiler, functions: map[string]*ruleGroup{},
		input: &projection.FieldSet{}, data: &projection.FieldSet{},
		calls: map[string]*call{}, reader: &reader{},
	}
	a.nodes = map[*projection.FieldSet]*fieldNode{a.input: {input: true}, a.data: {number: 1}}
	a.addRules(module.Rules)
	ast.WalkWiths(module, func(w *ast.With) bool {
		a.noteMock(w)
		return false
	})
	pkg := module.Package.Path
	for _, rule := range rules {
		a.deepen(a.dataRef(nil, pkg.Append(ast.StringTerm(rule))))
	}
	if d.Clusters {
		a.readClusters()
	}
	switch {
	case a.lost:
		a.input.AddAll()
		a.data.AddAll()
	case !d.Nodes && !d.Clusters:
		// Results of predicates must be checked again after nodes, pods, or clusters change. The engine tracks these
		// results for decisions only, so such policies have no cacheable rules.
		d.CacheableRules = a.cacheableRules(pkg)
		d.InputWithoutPath = a.inputWithoutPath(pkg)
	}
	d.Input, d.Data = a.input.Seal(), a.data.Seal()
}

// addRules adds rules to a.groups and functions to a.functions, those that define one document or function together.
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
		// A partial document has several values at a time.
		if rule.Head.RuleKind() != ast.SingleValue || rule.Head.Key != nil || !ref.IsGround() || len(path) != len(ref)-1 {
			g.complete = false
		}
	}
}

// constantPath returns the reference without its head, up to the first part that is not a string.
func constantPath(ref ast.Ref) []string {
	path := []string{}
	for i := 1; i < len(ref); i++ {
		name, ok := language.Part(ref, i)
		if !ok {
			break
		}
		path = append(path, name)
	}
	return path
}

// noteMock records that a `with` of the policy replaces something, and whether that is in the data, where it may be a rule, but not what it
// is. If it replaces a function, builtin or of the policy, which may read more of its arguments, the analysis gives up.
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

// hasPrefix reports whether a path begins with a prefix.
func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

// step counts one step of work, and reports whether the analysis should continue.
func (a *fieldAnalyser) step() bool {
	if a.steps++; a.steps > maxAnalysisSteps {
		a.lost = true
	}
	return !a.lost
}

// deepen records that the fields which a value may be are read, with everything below them.
func (a *fieldAnalyser) deepen(p places) {
	for _, f := range p.fields {
		f.at.AddAll()
		a.reader.read(a.nodes[f.at], true)
	}
}

// join returns a value that may be everything that either value may be. If that is more than maxAliases fields, they count as read with
// everything below them, and the value may be anything; if it is more than maxAliases strings, the value may be anything.
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

// operand describes one part of a reference.
type operand struct {
	// texts are all strings that the part may be. If empty, the part may be any value, and so select any member.
	texts []string
	many  bool // reports whether the part may have several values within one evaluation
}

// follow returns what a reference selects of a value. The operands are the parts of the reference below the value.
func (a *fieldAnalyser) follow(from places, operands []operand) places {
	for _, o := range operands {
		// A string has no members.
		next := places{other: from.other}
		for _, f := range from.fields {
			next = a.join(next, a.descend(f, o))
		}
		from = next
	}
	return from
}

// descend returns the members of a field that an operand of a reference can select.
func (a *fieldAnalyser) descend(f place, o operand) places {
	many := f.many || o.many
	if len(o.texts) == 0 || slices.ContainsFunc(o.texts, isIndex) {
		return places{fields: []place{{a.enter(f.at, f.at.AddEach(), fieldNode{each: true}), many}}}
	}
	var out places
	for _, text := range o.texts {
		out.fields = append(out.fields, place{a.enter(f.at, f.at.AddName(text), fieldNode{name: text}), many || len(o.texts) > 1})
	}
	return out
}

// isIndex reports whether a name is an integer, such as "0", and so may select an array element. The store converts such names to numbers.
func isIndex(name string) bool {
	_, err := strconv.Atoi(name)
	return err == nil
}

// dataRef returns the value of a reference that starts with `data`: that of the one complete rule that it leads to, or the fields of the
// data if it leads to no rule. In all other cases, such as several rules or a partial one, all that it may refer to counts as read
// completely, and the value is unknown.
func (a *fieldAnalyser) dataRef(s *fieldScope, ref ast.Ref) places {
	operands := s.operands(ref[1:])
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
		a.reader.data = true
		return base
	case len(hits) == 1 && len(overlaps) == 0 && hits[0].complete:
		return a.follow(a.group(hits[0]), operands[len(hits[0].path):])
	}
	for _, g := range append(hits, overlaps...) {
		a.deepen(a.group(g))
	}
	// Here documents and rules are merged. Whether the merge succeeds depends on the documents.
	a.reader.data = true
	a.deepen(base)
	return anything
}

// group returns the value of a complete rule, which it evaluates at the first call. For a partial rule, the evaluation has marked the
// contents as read.
func (a *fieldAnalyser) group(g *ruleGroup) places {
	if g.running {
		// The compiler rejects recursion.
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
	// Within one call, an argument is one field; for the caller, it may be many.
	out := places{texts: c.value.texts, other: c.value.other}
	for _, f := range c.value.fields {
		out.fields = append(out.fields, place{f.at, true})
	}
	return out
}

// run evaluates the rules of a group, for arguments if it is a function, and returns the value of all of them together.
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
			// OPA compares several values of one document, so the value matters unless there can be only one.
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

// single reports whether a value refers to the same thing in all uses within one evaluation: it can be no field at all, or it can only be
// one field, which does not stand for several, and the policy has no `with`.
func (a *fieldAnalyser) single(p places) bool {
	if len(p.fields) == 0 {
		return true
	}
	return len(p.fields) == 1 && len(p.texts) == 0 && !p.other && !p.fields[0].many && !a.mocked
}

// rule evaluates one rule, without its else branch, and returns its value.
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

// clusterFields are the fields of a cluster's normal form that predicates read.
var clusterFields = []string{"labels", "properties", "taints", "ready", "terminating", "region", "zones", "capacity",
	"allocatable", "allocated"}

var sealedClusterFields = func() *projection.FieldSet {
	out := &projection.FieldSet{}
	for _, name := range clusterFields {
		out.AddName(name).AddAll()
	}
	return out.Seal()
}()

// ClusterFields returns the fields of a cluster's normal form that predicates read, sealed.
func ClusterFields() *projection.FieldSet { return sealedClusterFields }

// WithCandidates returns the dependencies of a policy, with what is read in addition to check its decisions against candidates: the pods of
// the input, and the nodes or the clusters. It returns the dependencies unchanged if there are no candidates.
func (d Dependencies) WithCandidates(candidates placementv1.PredicateCandidates) Dependencies {
	switch candidates {
	case placementv1.PredicateCandidatesNodes:
		d.Nodes = true
	case placementv1.PredicateCandidatesClusters:
		d.Clusters = true
		if !slices.ContainsFunc(d.Reads, func(r Read) bool { return r.Clusters }) {
			d.Reads = append(slices.Clone(d.Reads), Read{Clusters: true})
			slices.SortFunc(d.Reads, compareReads)
		}
		each := &projection.FieldSet{}
		for _, name := range clusterFields {
			each.AddName(language.RootClusters).AddEach().AddName(name).AddAll()
		}
		d.Data = projection.Union(d.Data, each.Seal())
	default:
		return d
	}
	d.Input = projection.Union(d.Input, workload.Fields())
	return d
}

// WithTolerated returns the dependencies of a policy, with what is read in addition to let existing objects stay in clusters that are not
// ready: the names of these clusters in the input (language.InputTolerated), and the taints of all clusters.
func (d Dependencies) WithTolerated() Dependencies {
	input, data := &projection.FieldSet{}, &projection.FieldSet{}
	input.AddName(language.InputTolerated).AddAll()
	taint := data.AddName(language.RootClusters).AddEach().AddName("taints").AddEach()
	for _, name := range []string{"key", "effect", "timeAdded"} {
		taint.AddName(name)
	}
	d.Input, d.Data = projection.Union(d.Input, input.Seal()), projection.Union(d.Data, data.Seal())
	return d
}

// analysePredicates sets Nodes and Clusters if the module calls the predicates' functions. A reference in a `with`, or in
// an unused rule, counts as a call.
func (d *Dependencies) analysePredicates(module *ast.Module) {
	ast.WalkRefs(module, func(ref ast.Ref) bool {
		d.Nodes = d.Nodes || ref.Equal(language.Feasible.Ref())
		d.Clusters = d.Clusters || ref.Equal(language.FeasibleClusters.Ref())
		return false
	})
}

// readClusters records that the fields of clusters which predicates read are read.
func (a *fieldAnalyser) readClusters() {
	cluster := a.follow(places{fields: []place{{at: a.data}}}, []operand{{texts: []string{language.RootClusters}}, {many: true}})
	a.deepen(a.follow(cluster, []operand{{texts: clusterFields}}))
}

// readFields records that the fields of a value which are in a field set are read. Everything below a field is read only if it is in the
// set, too.
func (a *fieldAnalyser) readFields(p places, fields *projection.FieldSet) {
	if !a.step() {
		return
	}
	if fields.IsAll() {
		a.deepen(p)
		return
	}
	if each := fields.EveryMember(); each != nil {
		a.readFields(a.follow(p, []operand{{many: true}}), each)
	}
	for name, below := range fields.NamedMembers() {
		a.readFields(a.follow(p, []operand{{texts: []string{name}}}), below)
	}
}
