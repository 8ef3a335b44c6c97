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
	// Given reports whether the value of the rule clusters contains the constant.
	Given bool
	// Field is the path of the field of data.clusters[name] that the policy compares with the constant. If the field is
	// a collection, its members are compared. Field is empty if the constant is compared with the name.
	Field []string
}

// ClusterConstants returns the cluster names in the values of the rule clusters, the constants that the policy compares
// with fields of data.clusters, and the constant keys of data.clusters. They are sorted by position.
func ClusterConstants(compiler *ast.Compiler) []ClusterConstant {
	module := moduleOf(compiler)
	s := &constantSearch{assigned: map[ast.Var]ast.Ref{}}
	s.names(module)
	s.fields(module)
	out := s.found
	slices.SortStableFunc(out, func(a, b ClusterConstant) int { return a.Compare(b.Position) })
	return slices.CompactFunc(out, func(a, b ClusterConstant) bool {
		return a.Position == b.Position && a.Value == b.Value && slices.Equal(a.Field, b.Field)
	})
}

// constantSearch collects constants that denote clusters or values of their fields.
type constantSearch struct {
	found []ClusterConstant
	// assigned maps variables to the references that are assigned to them.
	assigned map[ast.Var]ast.Ref
}

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

// names collects the constants in the values of the rule clusters.
func (s *constantSearch) names(module *ast.Module) {
	ast.WalkRules(module, func(clause *ast.Rule) bool {
		switch {
		case language.RuleName(clause) != language.RuleClusters:
		case clause.Head.RuleKind() == ast.MultiValue:
			s.add(clause.Head.Key, clause.Location, true, nil)
		case len(clause.Head.Ref()) > 1:
			s.add(clause.Head.Ref()[1], clause.Location, true, nil)
		case clause.Head.Value != nil:
			s.each(clause.Head.Value, clause.Location, true, nil)
			if object, ok := clause.Head.Value.Value.(ast.Object); ok {
				object.Foreach(func(name, _ *ast.Term) { s.add(name, clause.Location, true, nil) })
			}
		}
		return false
	})
}

// each adds the members of a constant array or set.
func (s *constantSearch) each(t *ast.Term, at *ast.Location, given bool, field []string) {
	for _, member := range members(t) {
		s.add(member, at, given, field)
	}
}

// assignments collects the variables that references are assigned to.
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

// fields collects the constants that are compared with fields of clusters, and the constant keys of data.clusters.
func (s *constantSearch) fields(module *ast.Module) {
	s.assignments(module)
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
				s.each(b, e.Location, false, field)
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

// field returns the path below data.clusters[name] that a term refers to. The result ok is false for other terms.
func (s *constantSearch) field(t *ast.Term) (path []string, ok bool) {
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

// fieldProperties is the field of data.clusters[name] that has the cluster's properties, by name.
const fieldProperties = "properties"

// ClusterProperty is a property of clusters that a policy reads by a constant name.
type ClusterProperty struct {
	// Position is the position of the name's first use.
	Position
	// Name is the key in data.clusters[name].properties.
	Name string
}

// ClusterProperties returns the properties of clusters that the policy reads by constant names, sorted by position. It
// follows names within a rule, and arguments of the policy's own functions.
func ClusterProperties(compiler *ast.Compiler) []ClusterProperty {
	module := moduleOf(compiler)
	var out []ClusterProperty
	add := func(key *ast.Term, fallback *ast.Location) {
		if name, at := textAt(key, fallback); at != nil {
			out = append(out, ClusterProperty{Position: PositionOf(at), Name: name})
		}
	}
	s := &constantSearch{assigned: map[ast.Var]ast.Ref{}}
	s.assignments(module)
	s.arguments(module)
	ast.WalkRefs(module, func(ref ast.Ref) bool {
		// A variable at the head of the reference may denote data.clusters or a part of it, as c in c.properties.gpu. Of the whole
		// reference, only the keys that are written here have a position in the text.
		whole, ok := s.clusterRef(ast.NewTerm(ref))
		field, _ := language.Part(whole, 3)
		if key := len(ref) - len(whole) + 4; ok && field == fieldProperties && len(whole) > 4 && key > 0 {
			add(ref[key], ref[0].Location)
		}
		return false
	})
	ast.WalkExprs(module, func(e *ast.Expr) bool {
		if !e.IsCall() || !e.Operator().Equal(ast.ObjectGet.Ref()) || len(e.Operands()) < 2 {
			return false
		}
		if path, ok := s.field(e.Operand(0)); ok && len(path) == 1 && path[0] == fieldProperties {
			add(e.Operand(1), e.Location)
		}
		return false
	})
	slices.SortStableFunc(out, func(a, b ClusterProperty) int { return a.Compare(b.Position) })
	seen := map[string]bool{}
	return slices.DeleteFunc(out, func(p ClusterProperty) bool {
		repeated := seen[p.Name]
		seen[p.Name] = true
		return repeated
	})
}

// arguments adds the parameters of the module's functions to the assigned variables. It omits a parameter unless all
// calls pass clusters, or all calls pass the properties of clusters.
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
					if _, known := s.assigned[name]; !isVar || known {
						continue
					}
					if ref := s.argument(calls[rule.Ref().String()], i); ref != nil {
						s.assigned[name], added = ref, true
					}
				}
			}
		}
	}
}

// argument returns the reference that represents the i-th argument of all calls. It returns nil if there is none.
func (s *constantSearch) argument(calls []*ast.Expr, i int) ast.Ref {
	var out ast.Ref
	for _, call := range calls {
		if i >= len(call.Operands()) {
			return nil
		}
		ref, ok := s.clusterRef(call.Operand(i))
		if field, _ := language.Part(ref, 3); !ok || len(ref) > 4 || len(ref) == 4 && field != fieldProperties || out != nil && len(out) != len(ref) {
			return nil
		}
		out = ref
	}
	return out
}
