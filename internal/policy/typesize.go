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

package policy

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
)

// maxTypeWork limits the estimated steps of OPA's type checker for one policy. A step takes up to a third of a microsecond. The policies of
// the documentation and of the conformance corpus take less than a hundredth of the limit.
const maxTypeWork = 5_000_000

// largest is the maximum of sizes and steps, which keeps sums from overflowing. It is so large that parts a few levels below exceed
// maxTypeWork.
const largest = 1 << 60

// newCompiler returns a compiler that rejects Rego whose types would take too much work to check. OPA's type checker can't be
// canceled, and it compares types as trees: two variables that were each doubled sixteen times take 4^16 steps. documents has the types
// of rules that the compiler can't infer from their values, by path.
func newCompiler(capabilities *ast.Capabilities, documents map[string]types.Type) *ast.Compiler {
	s := &typeSizes{documents: documents, rules: map[string]int{}}
	return ast.NewCompiler().WithCapabilities(capabilities).WithStageAfterID(ast.StageCheckRecursion, ast.CompilerStageDefinition{
		Name: "BerthBoundTypes", MetricName: "compile_stage_berth_bound_types", Stage: s.bound,
	})
}

// typeSizes estimates the steps of the type checker for one compiler. The size of a value is the number of steps to compare its type
// with one of the same shape: one, and two for each step of its parts, because the parts of each side are looked up in the other.
type typeSizes struct {
	// documents has the types of rules that callers of the compiler declare, because it can't infer them from the values, by path.
	documents map[string]types.Type
	// rules has the sizes of rules, and of what functions return, by path. With "*" at the end of the path, it has the size of all
	// rules below, and with "(", that of a function's arguments.
	rules map[string]int
	// vars has the sizes of the variables of the current rule.
	vars  map[ast.Var]int
	spent int // the estimated steps so far, at most largest; above maxTypeWork, the Rego is rejected
}

// plus returns the sum of two sizes, at most largest.
func plus(x, y int) int { return min(x+y, largest) }

// around returns the size of a value whose parts have a total size.
func around(parts int) int { return plus(1, 2*parts) }

// bound is the stage of the compiler, before the type checker, that estimates the steps for all rules together. If the sum exceeds
// maxTypeWork, the error is at the rule at which it does, which need not be the one with the most steps.
func (s *typeSizes) bound(c *ast.Compiler) *ast.Error {
	sorted, _ := c.Graph.Sort()
	for _, node := range sorted {
		rule, ok := node.(*ast.Rule)
		if !ok {
			continue
		}
		if s.rule(rule); s.spent > maxTypeWork {
			return ast.NewError(codeSize, rule.Location, "the types of all rules together take more than %d steps to check: "+
				"a value that holds another value twice takes twice as many; build large values in fewer steps, "+
				"or keep tables in spec.data", maxTypeWork)
		}
	}
	return nil
}

// charge adds to the estimated steps.
func (s *typeSizes) charge(steps int) { s.spent = plus(s.spent, steps) }

// rule adds the steps to check a rule, and adds its size to rules.
func (s *typeSizes) rule(rule *ast.Rule) {
	s.vars = map[ast.Var]int{}
	s.body(rule.Body)
	value := rule.Head.Value
	if rule.Head.RuleKind() == ast.MultiValue {
		value = ast.SetTerm(rule.Head.Key)
	}
	size := s.size(value)
	for _, key := range rule.Ref().DynamicSuffix() {
		size = around(plus(size, s.size(key)))
	}
	path := rule.Ref().GroundPrefix()
	s.charge(min(s.rules[path.String()], size))
	s.add(path.String(), size)
	s.add(path.String()+"(", s.size(ast.ArrayTerm(rule.Head.Args...)))
	for i := range path {
		s.add(path[:i].String()+"*", around(size))
	}
}

// add adds to rules[path], which is at most largest.
func (s *typeSizes) add(path string, size int) { s.rules[path] = plus(s.rules[path], size) }

// body adds the steps to check the expressions of a body.
func (s *typeSizes) body(body ast.Body) {
	for _, expr := range body {
		switch terms := expr.Terms.(type) {
		case *ast.Every:
			s.learn(s.size(terms.Domain), terms.Value)
			s.body(terms.Body)
		case *ast.Not:
			s.body(terms.Body)
		case *ast.Term:
			s.size(terms)
		case []*ast.Term:
			s.call(expr.Operator(), terms)
		}
	}
}

// call adds the steps to check a call, and records what it tells of the sizes of variables. The type checker compares the operands of some
// functions with each other, or with the types of the arguments.
func (s *typeSizes) call(operator ast.Ref, terms []*ast.Term) {
	var all, most, compared int
	for _, term := range terms {
		size := s.size(term)
		compared = plus(compared, min(most, size))
		most, all = max(most, size), plus(all, size)
	}
	switch {
	case operator.HasPrefix(ast.DefaultRootRef):
		s.charge(plus(compared, min(all, s.rules[operator.String()+"("])))
		s.learn(s.rules[operator.String()], terms[1:]...)
	case operator.Equal(ast.Equality.Ref()):
		s.charge(compared)
		s.learn(all, terms[1:]...)
	case operator.Equal(ast.Member.Ref()) || operator.Equal(ast.MemberWithKey.Ref()):
		s.charge(compared)
		s.learn(all/2, terms[1:]...)
	}
}

// learn records a size, if it is above 1, for each variable without a size that is one of the terms or occurs in one, at any depth.
func (s *typeSizes) learn(size int, terms ...*ast.Term) {
	for _, t := range terms {
		ast.WalkVars(t, func(name ast.Var) bool {
			if s.vars[name] == 0 && size > 1 && !ast.ReservedVars.Contains(name) {
				s.vars[name] = size
			}
			return false
		})
	}
}

// size returns the size of a term, and adds the steps to check the term.
func (s *typeSizes) size(t *ast.Term) (out int) {
	add := func(part *ast.Term) { out = plus(out, s.size(part)) }
	switch v := t.Value.(type) {
	case ast.Var:
		return s.named(s.vars[v])
	case ast.Ref:
		size := s.named(s.ref(v))
		s.learn(size, v[1:]...)
		return size
	case *ast.Array:
		v.Foreach(add)
	case ast.Set:
		// The types of all members are compared with each other.
		v.Foreach(add)
		s.charge(out)
	case ast.Object:
		v.Foreach(func(key, part *ast.Term) { add(key); add(part) })
	case *ast.ArrayComprehension:
		s.closure(v.Body)
		add(v.Term)
	case *ast.SetComprehension:
		s.closure(v.Body)
		add(v.Term)
	case *ast.ObjectComprehension:
		s.closure(v.Body)
		add(v.Key)
		add(v.Value)
	}
	return around(out)
}

// closure adds the steps to check a comprehension's body: three times those of the body, because the type checker checks it several times
// for each body around it.
func (s *typeSizes) closure(body ast.Body) {
	before := s.spent
	s.body(body)
	s.charge(2 * (s.spent - before))
}

// named returns the size of what a variable or a reference stands for, at least 1. It adds some steps even if nothing is compared with
// that: errors have its type.
func (s *typeSizes) named(size int) int {
	s.charge(size >> 10)
	return max(size, 1)
}

// ref returns the size of what a reference selects of a variable, a document, a rule, or the rules below a path. If a part of the reference
// is a variable, it adds the steps to compare the types of all members with each other.
func (s *typeSizes) ref(ref ast.Ref) int {
	name, _ := ref[0].Value.(ast.Var)
	size, ground, n := s.vars[name], len(ref.GroundPrefix()), 1
	for ; size == 0 && n < ground; n++ {
		path := ref[:n+1].String()
		if t, typed := s.documents[path]; typed {
			return s.selected(t, ref[n+1:])
		}
		size = s.rules[path]
	}
	if size == 0 {
		size = s.rules[ref[:n].String()+"*"]
	}
	if n = len(ref) - n; ground < len(ref) {
		s.charge(size / 2)
	}
	return size >> n
}

// selected returns the size of what keys select in a value of a type. For a key that is a variable, it adds the steps to compare the types
// of all members.
func (s *typeSizes) selected(t types.Type, keys ast.Ref) int {
	for _, key := range keys {
		value, err := ast.ValueToInterface(key.Value, nil)
		if all := sizeOf(t) / 2; err != nil {
			t = types.Values(t)
			// There is nothing to compare if all members have one type.
			s.charge(all - min(all, sizeOf(t)))
		} else {
			t = types.Select(t, value)
		}
	}
	return sizeOf(t)
}

// sizeOf returns the size of a type of a document: one, and twice the size of each part, at most largest. The keys of objects do not count.
func sizeOf(t types.Type) (out int) {
	var parts []types.Type
	switch t := t.(type) {
	case *types.Array:
		parts = append(parts, t.Dynamic())
	case *types.Object:
		for _, property := range t.StaticProperties() {
			parts = append(parts, property.Value)
		}
		parts = append(parts, t.DynamicValue())
	case types.Any:
		parts = t
	}
	for _, part := range parts {
		out = plus(out, sizeOf(part))
	}
	return around(out)
}
