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

package lint

import (
	"cmp"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/policy/language"
)

// ClusterConstant is a constant in a policy that denotes a cluster's name or the value of a cluster's field.
type ClusterConstant struct {
	// Position is the position of the constant.
	Position
	// Value is the constant's value.
	Value string
	// Given reports whether the constant is in the value of the rule clusters, so that the policy gives this cluster to objects.
	Given bool
	// Field is the path of the field of data.clusters[name] that the policy compares with the constant, such as region. If the field is a
	// collection, its members are compared. Field is empty if the constant is a name of a cluster: one that the policy compares with
	// names, a key of data.clusters, or one with Given.
	Field []string
}

// ClusterConstants returns the cluster names in the values of the rule clusters, the constants that the policy compares with names of
// clusters and with fields of data.clusters, and the constant keys of data.clusters. They are sorted by position.
func ClusterConstants(compiler *ast.Compiler) []ClusterConstant {
	module := scopedModuleOf(compiler)
	s := newConstantSearch(module)
	s.names(module)
	s.fields(module)
	out := s.found
	slices.SortStableFunc(out, func(a, b ClusterConstant) int { return a.Compare(b.Position) })
	return slices.CompactFunc(out, func(a, b ClusterConstant) bool {
		return a.Position == b.Position && a.Value == b.Value && slices.Equal(a.Field, b.Field)
	})
}

// constantSearch collects in found the constants that a module uses as names of clusters, or compares with fields of clusters. It also
// knows which variables of the module denote clusters and their names.
type constantSearch struct {
	found []ClusterConstant
	// assigned maps variables to the references that are assigned to them.
	assigned map[ast.Var]ast.Ref
	// each are variables that range over the names of clusters.
	each map[ast.Var]bool
}

// newConstantSearch returns a search in a module in which the variables of different scopes already have different names. It has recorded
// what the variables denote, and has found no constant yet. It does not change the module.
func newConstantSearch(module *ast.Module) *constantSearch {
	s := &constantSearch{assigned: map[ast.Var]ast.Ref{}, each: map[ast.Var]bool{}}
	s.assignments(module)
	s.iterations(module)
	s.arguments(module)
	return s
}

// add adds a term to found if the term is a constant text, at its position or else at fallback. given and field are the fields of its
// ClusterConstant.
func (s *constantSearch) add(t *ast.Term, fallback *ast.Location, given bool, field []string) {
	if text, at := textAt(t, fallback); at != nil {
		s.found = append(s.found, ClusterConstant{Position: PositionOf(at), Value: text, Given: given, Field: field})
	}
}

// textAt returns a constant string and its location, or fallback if the term has none. It returns no location for other
// terms.
func textAt(t *ast.Term, fallback *ast.Location) (string, *ast.Location) {
	text, ok := t.Value.(ast.String)
	if !ok {
		return "", nil
	}
	return string(text), cmp.Or(t.Location, fallback)
}

// names adds the constant names of clusters in the values of the rule clusters to found: members of a set or an array, and keys of an
// object. It does not follow variables.
func (s *constantSearch) names(module *ast.Module) {
	ast.WalkRules(module, func(clause *ast.Rule) bool {
		switch {
		case language.RuleName(clause) != language.RuleClusters:
		case clause.Head.RuleKind() == ast.MultiValue:
			s.add(clause.Head.Key, clause.Location, true, nil)
		case len(clause.Head.Ref()) > 1:
			s.add(clause.Head.Ref()[1], clause.Location, true, nil)
		case clause.Head.Value != nil:
			s.members(clause.Head.Value, clause.Location, true, nil)
			if object, ok := clause.Head.Value.Value.(ast.Object); ok {
				object.Foreach(func(name, _ *ast.Term) { s.add(name, clause.Location, true, nil) })
			}
		}
		return false
	})
}

// members adds the constant texts in an array or set to found, each at its own position or else at fallback. It adds nothing for other
// terms. given and field are the fields of their ClusterConstants.
func (s *constantSearch) members(t *ast.Term, fallback *ast.Location, given bool, field []string) {
	for _, member := range members(t) {
		s.add(member, fallback, given, field)
	}
}

// assignments records the variables on the left of `:=` or `=` with a reference on the right, each with that reference.
func (s *constantSearch) assignments(module *ast.Module) {
	ast.WalkExprs(module, func(e *ast.Expr) bool {
		if !e.IsEquality() {
			return false
		}
		name, isVar := e.Operand(0).Value.(ast.Var)
		if ref, isRef := e.Operand(1).Value.(ast.Ref); isVar && isRef {
			s.assigned[name] = ref
		}
		return false
	})
}

// iterations records the variables that range over the names of clusters. It omits variables that an expression sets to another value.
func (s *constantSearch) iterations(module *ast.Module) {
	ast.WalkRefs(module, func(ref ast.Ref) bool {
		if root, _ := language.Part(ref, 1); ref.HasPrefix(ast.DefaultRootRef) && root == language.RootClusters && len(ref) > 2 {
			if name, isVar := ref[2].Value.(ast.Var); isVar {
				s.each[name] = true
			}
		}
		return false
	})
	ast.WalkExprs(module, func(e *ast.Expr) bool {
		if !e.IsEquality() {
			return false
		}
		for i, other := range []int{1, 0} {
			if name, isVar := e.Operand(i).Value.(ast.Var); isVar && !ast.IsConstant(e.Operand(other).Value) {
				delete(s.each, name)
			}
		}
		return false
	})
}

// fields adds the constants that are compared with names or fields of clusters, and the constant keys of data.clusters, to found.
func (s *constantSearch) fields(module *ast.Module) {
	ast.WalkExprs(module, func(e *ast.Expr) bool {
		if !e.IsCall() || len(e.Operands()) != 2 {
			return false
		}
		a, b := e.Operand(0), e.Operand(1)
		switch operator := e.Operator(); {
		case operator.Equal(ast.Equality.Ref()), operator.Equal(ast.NotEqual.Ref()):
			for _, pair := range [][2]*ast.Term{{a, b}, {b, a}} {
				if field, ok := s.field(pair[0]); ok {
					s.add(pair[1], e.Location, false, field)
				}
			}
		case operator.Equal(ast.Member.Ref()):
			if field, ok := s.field(a); ok {
				s.members(b, e.Location, false, field)
			}
			if field, ok := s.field(b); ok {
				s.add(a, e.Location, false, field)
			}
		}
		return false
	})
	ast.WalkRefs(module, func(ref ast.Ref) bool {
		if root, _ := language.Part(ref, 1); ref.HasPrefix(ast.DefaultRootRef) && root == language.RootClusters && len(ref) > 2 {
			s.add(ref[2], ref[0].Location, false, nil)
		}
		return false
	})
}

// maxAssigned limits how many assignments from variable to variable are followed.
const maxAssigned = 8

// field returns the path below data.clusters[name] that a term refers to: empty for the name, and that of the collection for a member of
// one. The result ok is false for other terms.
func (s *constantSearch) field(t *ast.Term) (path []string, ok bool) {
	if name, isVar := t.Value.(ast.Var); isVar && s.each[name] {
		return nil, true
	}
	ref, ok := s.clusterRef(t)
	if !ok || len(ref) < 4 {
		return nil, false
	}
	for i, step := range ref[3:] {
		name, isString := step.Value.(ast.String)
		if !isString && i == len(ref)-4 && i > 0 {
			break
		}
		if !isString {
			return nil, false
		}
		path = append(path, string(name))
	}
	return path, true
}

// clusterRef returns the reference to data.clusters[name], or to a part of it, that a term denotes. The result ok is
// false for other terms.
func (s *constantSearch) clusterRef(t *ast.Term) (ref ast.Ref, ok bool) {
	switch v := t.Value.(type) {
	case ast.Ref:
		ref = v
	case ast.Var:
		ref = ast.Ref{t}
	default:
		return nil, false
	}
	for range maxAssigned {
		name, isVar := ref[0].Value.(ast.Var)
		source, assigned := s.assigned[name]
		if !isVar || !assigned {
			break
		}
		ref = append(slices.Clone(source), ref[1:]...)
	}
	root, _ := language.Part(ref, 1)
	return ref, ref.HasPrefix(ast.DefaultRootRef) && root == language.RootClusters && len(ref) > 2
}

// ClusterKey is the name of a label, an annotation, or a property of clusters that a policy reads.
type ClusterKey struct {
	// Position is the position of the name's first use.
	Position
	// Document is the field of data.clusters[name] that has the name: "labels", "annotations", or "properties".
	Document, Name string
}

// documentsOfClusters are the fields of data.clusters[name] whose members have names of their own.
var documentsOfClusters = []string{"labels", "annotations", "properties"}

// ClusterKeys returns the labels, annotations, and properties of clusters that the policy reads by constant names, each once, sorted by
// position. It follows names within a rule, and arguments of the policy's own functions.
func ClusterKeys(compiler *ast.Compiler) []ClusterKey {
	module := scopedModuleOf(compiler)
	var out []ClusterKey
	add := func(document string, key *ast.Term, fallback *ast.Location) {
		if name, at := textAt(key, fallback); at != nil && slices.Contains(documentsOfClusters, document) {
			out = append(out, ClusterKey{Position: PositionOf(at), Document: document, Name: name})
		}
	}
	s := newConstantSearch(module)
	ast.WalkRefs(module, func(ref ast.Ref) bool {
		// A variable at the head of the reference may denote data.clusters or a part of it, as c in c.properties.gpu. Of the whole
		// reference, only the keys that are written here have a position in the text.
		whole, ok := s.clusterRef(ast.NewTerm(ref))
		if key := len(ref) - len(whole) + 4; ok && len(whole) > 4 && key > 0 {
			document, _ := language.Part(whole, 3)
			add(document, ref[key], ref[0].Location)
		}
		return false
	})
	ast.WalkExprs(module, func(e *ast.Expr) bool {
		if !e.IsCall() || !e.Operator().Equal(ast.ObjectGet.Ref()) || len(e.Operands()) < 2 {
			return false
		}
		if path, ok := s.field(e.Operand(0)); ok && len(path) == 1 {
			add(path[0], e.Operand(1), e.Location)
		}
		return false
	})
	slices.SortStableFunc(out, func(a, b ClusterKey) int { return a.Compare(b.Position) })
	type named struct{ document, name string }
	seen := map[named]bool{}
	return slices.DeleteFunc(out, func(k ClusterKey) bool {
		repeated := seen[named{k.Document, k.Name}]
		seen[named{k.Document, k.Name}] = true
		return repeated
	})
}

// arguments records the parameters of the module's functions as variables that references are assigned to, or that range over names. It
// omits a parameter unless all calls pass clusters, all calls pass the same document of clusters, or all calls pass names.
func (s *constantSearch) arguments(module *ast.Module) {
	calls := map[string][]*ast.Expr{}
	ast.WalkExprs(module, func(e *ast.Expr) bool {
		if e.IsCall() {
			name := e.Operator().String()
			calls[name] = append(calls[name], e)
		}
		return false
	})
	// A function may pass its own argument to another function, so repeat until nothing is added.
	for added, n := true, 0; added && n < maxAssigned; n++ {
		added = false
		for _, rule := range module.Rules {
			for clause := rule; clause != nil; clause = clause.Else {
				for i, parameter := range clause.Head.Args {
					name, isVar := parameter.Value.(ast.Var)
					if _, known := s.assigned[name]; !isVar || known || s.each[name] {
						continue
					}
					ref, names := s.argument(calls[rule.Ref().String()], i)
					switch {
					case names:
						s.each[name], added = true, true
					case ref != nil:
						s.assigned[name], added = ref, true
					}
				}
			}
		}
	}
}

// argument returns a reference that stands for the i-th argument of all calls: to data.clusters[name], or to one of labels, annotations,
// and properties in it, the same in all calls, even if the calls pass different clusters. It returns nil if there is none. names reports
// whether all calls pass a variable for the name of a cluster; out is then nil.
func (s *constantSearch) argument(calls []*ast.Expr, i int) (out ast.Ref, names bool) {
	for n, call := range calls {
		if i >= len(call.Operands()) {
			return nil, false
		}
		name, isVar := call.Operand(i).Value.(ast.Var)
		named := isVar && s.each[name]
		if n > 0 && named != names {
			return nil, false
		}
		if names = named; named {
			continue
		}
		ref, ok := s.clusterRef(call.Operand(i))
		field, _ := language.Part(ref, 3)
		if !ok || len(ref) > 4 || len(ref) == 4 && !slices.Contains(documentsOfClusters, field) {
			return nil, false
		}
		if before, _ := language.Part(out, 3); out != nil && (len(out) != len(ref) || before != field) {
			return nil, false
		}
		out = ref
	}
	return out, names
}
