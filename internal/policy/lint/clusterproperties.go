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

// fieldProperties is the field of data.clusters[name] that has the cluster's properties, by name.
const fieldProperties = "properties"

// ClusterProperty is a property of clusters that a policy reads by a constant name.
type ClusterProperty struct {
	// Row and Col are the position of the name's first use. Both count from 1.
	Row, Col int
	// Name is the key in data.clusters[name].properties.
	Name string
}

// ClusterProperties returns the properties of clusters that the policy reads by constant names, sorted by position. It
// follows names within a rule, and arguments of the policy's own functions.
func ClusterProperties(compiler *ast.Compiler) []ClusterProperty {
	module := moduleOf(compiler)
	var out []ClusterProperty
	add := func(key *ast.Term, fallback *ast.Location) {
		name, ok := key.Value.(ast.String)
		at := key.Location
		if at == nil {
			at = fallback
		}
		if ok && at != nil {
			out = append(out, ClusterProperty{Row: at.Row, Col: at.Col, Name: string(name)})
		}
	}
	s := &constantSearch{assigned: map[ast.Var]ast.Ref{}}
	s.assignments(module)
	s.arguments(module)
	ast.WalkRefs(module, func(ref ast.Ref) bool {
		// A variable may denote a part of the reference, so the key is one of the parts that are written here.
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
	slices.SortStableFunc(out, func(a, b ClusterProperty) int { return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.Col, b.Col)) })
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
