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

// maxTypeParts limits the values in one value. OPA writes the types of values into errors, and sorts the errors by their texts.
const maxTypeParts = 100_000

// newCompiler returns a compiler that rejects Rego whose types would take too much work to check. OPA's type checker can't be
// canceled, and it compares types as trees: two variables that were each doubled sixteen times take 4^16 steps. documents has the types
// of rules that the compiler can't infer from their values, by path.
func newCompiler(capabilities *ast.Capabilities, documents map[string]types.Type) *ast.Compiler {
	s := &typeSizes{documents: documents, rules: map[string]typeSize{}, below: map[string]typeSize{}, arguments: map[string]typeSize{}}
	return ast.NewCompiler().WithCapabilities(capabilities).WithStageAfterID(ast.StageCheckRecursion, ast.CompilerStageDefinition{
		Name: "BerthBoundTypes", MetricName: "compile_stage_berth_bound_types", Stage: s.bound,
	})
}

// typeSize is the size of the type of a value.
type typeSize struct {
	// steps is the number of steps to compare it with one of the same shape: one, and two for each step of its parts, because the
	// parts of each side are looked up in the other.
	steps int
	// parts is the number of values in it, with itself.
	parts int
}

// scalar is the size of a value without parts, and of any value.
var scalar = typeSize{1, 1}

// largest is far above the limits also for what is a few levels below.
const largest = 1 << 60

// and returns the size of two values together.
func (t typeSize) and(other typeSize) typeSize {
	return typeSize{min(t.steps+other.steps, largest), min(t.parts+other.parts, largest)}
}

// around returns the size of a value with the given parts.
func (t typeSize) around() typeSize { return scalar.and(typeSize{2 * t.steps, t.parts}) }

// inner returns the size of a part of a value, at most, some levels below.
func (t typeSize) inner(levels int) typeSize { return typeSize{max(t.steps>>levels, 1), t.parts} }

// sizeOf returns the size of a type.
func sizeOf(t types.Type) typeSize {
	parts, size := []types.Type{}, typeSize{}
	switch t := t.(type) {
	case *types.Array:
		for i := range t.Len() {
			parts = append(parts, t.Select(i))
		}
		parts = append(parts, t.Dynamic())
	case *types.Set:
		parts = append(parts, t.Of())
	case *types.Object:
		for _, property := range t.StaticProperties() {
			parts = append(parts, property.Value)
		}
		parts = append(parts, t.DynamicValue())
	case types.Any:
		parts = t
	}
	for _, part := range parts {
		if part != nil && size.steps < largest {
			size = size.and(sizeOf(part))
		}
	}
	return size.around()
}

// typeSizes estimates the steps of the type checker for one compiler from the sizes of values, with the rules and the variables that
// they refer to.
type typeSizes struct {
	documents map[string]types.Type
	// rules has the sizes of rules, and of what functions return, by path. below has those of all rules below a path, and arguments
	// those of the arguments of functions.
	rules, below, arguments map[string]typeSize
	// vars has the sizes of the variables of the current rule. Those without parts are missing.
	vars map[ast.Var]typeSize
	// spent is the number of steps, and most of values in one value.
	spent, most int
}

// bound is a stage of a compiler. The error has the rule that exceeds the limit.
func (s *typeSizes) bound(c *ast.Compiler) *ast.Error {
	sorted, _ := c.Graph.Sort()
	for _, node := range sorted {
		rule, ok := node.(*ast.Rule)
		if !ok {
			continue
		}
		s.rule(rule)
		if s.most > maxTypeParts {
			return ast.NewError(codeSize, rule.Location, "a value here holds more than %d others: values that hold other values several "+
				"times double in each step; build large values in fewer steps, or keep tables in spec.data", maxTypeParts)
		}
		if s.spent > maxTypeWork {
			return ast.NewError(codeSize, rule.Location, "the types of the values here take more than %d steps to check: "+
				"values that hold other values several times double in each step; build large values in fewer steps, "+
				"or keep tables in spec.data", maxTypeWork)
		}
	}
	return nil
}

func (s *typeSizes) charge(steps int) { s.spent = min(s.spent+steps, maxTypeWork+1) }

// rule adds the size of a rule.
func (s *typeSizes) rule(rule *ast.Rule) {
	s.vars = map[ast.Var]typeSize{}
	s.body(rule.Body)
	value := rule.Head.Value
	if rule.Head.RuleKind() == ast.MultiValue {
		value = ast.SetTerm(rule.Head.Key)
	}
	size := s.size(value)
	for _, key := range rule.Ref().DynamicSuffix() {
		size = size.and(s.composite(key)).around()
	}
	path := rule.Ref().GroundPrefix()
	before := s.rules[path.String()]
	s.charge(min(before.steps, size.steps))
	s.rules[path.String()] = before.and(size)
	if len(rule.Head.Args) > 0 {
		known, args := s.arguments[path.String()], s.composite(rule.Head.Args...)
		s.charge(min(known.steps, args.steps))
		s.arguments[path.String()] = known.and(args)
	}
	for i := range path {
		prefix := path[:i].String()
		s.below[prefix] = s.below[prefix].and(size.around())
	}
}

func (s *typeSizes) body(body ast.Body) {
	for _, expr := range body {
		switch terms := expr.Terms.(type) {
		case *ast.Every:
			s.learn(s.size(terms.Domain), terms.Value)
			s.body(terms.Body)
		case *ast.Term:
			s.size(terms)
		case []*ast.Term:
			s.call(expr.Operator(), terms)
		}
	}
}

// call adds the work of a call. The operands of some are compared with each other, or with the arguments of a function.
func (s *typeSizes) call(operator ast.Ref, terms []*ast.Term) {
	var all typeSize
	var most, compared int
	for _, term := range terms {
		size := s.size(term)
		compared = min(compared+min(most, size.steps), largest)
		most, all = max(most, size.steps), all.and(size)
	}
	s.charge(1)
	switch {
	case operator.HasPrefix(ast.DefaultRootRef):
		s.charge(compared)
		s.charge(min(all.steps, s.arguments[operator.String()].steps))
		s.learn(s.size(terms[0]), terms[1:]...)
	case operator.Equal(ast.Equality.Ref()):
		s.charge(compared)
		s.learn(all, terms[1:]...)
	case operator.Equal(ast.Member.Ref()) || operator.Equal(ast.MemberWithKey.Ref()):
		s.charge(compared)
		s.learn(all.inner(1), terms[1:]...)
	}
}

// learn records the size of the variables in terms, unless they have one.
func (s *typeSizes) learn(size typeSize, terms ...*ast.Term) {
	for _, t := range terms {
		ast.WalkVars(t, func(name ast.Var) bool {
			if _, known := s.vars[name]; !known && size.steps > 1 && !ast.ReservedVars.Contains(name) {
				s.vars[name] = size
			}
			return false
		})
	}
}

// size returns the size of a term.
func (s *typeSizes) size(t *ast.Term) typeSize {
	size := s.term(t)
	s.most = max(s.most, size.parts)
	return size
}

// term is size without a record of the largest value.
func (s *typeSizes) term(t *ast.Term) typeSize {
	switch v := t.Value.(type) {
	case ast.Var:
		if size, known := s.vars[v]; known {
			return size
		}
	case ast.Ref:
		size := s.ref(v)
		s.learn(size, v[1:]...)
		return size
	case *ast.Array:
		parts := make([]*ast.Term, v.Len())
		for i := range parts {
			parts[i] = v.Elem(i)
		}
		return s.composite(parts...)
	case ast.Set:
		size := s.composite(v.Slice()...)
		if v.Len() > 1 {
			s.charge(size.inner(1).steps)
		}
		return size
	case ast.Object:
		var parts []*ast.Term
		v.Foreach(func(key, part *ast.Term) { parts = append(parts, key, part) })
		return s.composite(parts...)
	case *ast.ArrayComprehension:
		return s.closure(v.Body, v.Term)
	case *ast.SetComprehension:
		return s.closure(v.Body, v.Term)
	case *ast.ObjectComprehension:
		return s.closure(v.Body, v.Key, v.Value)
	}
	return scalar
}

// composite returns the size of a value with parts.
func (s *typeSizes) composite(parts ...*ast.Term) typeSize {
	var out typeSize
	for _, part := range parts {
		out = out.and(s.size(part))
	}
	return out.around()
}

// closure returns the size of a comprehension. The type checker checks the body several times for each body around it.
func (s *typeSizes) closure(body ast.Body, parts ...*ast.Term) typeSize {
	before := s.spent
	s.body(body)
	s.charge(2 * (s.spent - before))
	return s.composite(parts...)
}

// ref returns the size of what a reference selects of a variable, a document, a rule, or the rules below a path. If a variable selects,
// the types of all members are compared with each other, as those of a set are.
func (s *typeSizes) ref(ref ast.Ref) typeSize {
	name, _ := ref[0].Value.(ast.Var)
	size, known := s.vars[name]
	n := 1
	for ; !known && ref[0].Equal(ast.DefaultRootDocument) && n < len(ref); n++ {
		if !ref[n].IsGround() {
			break
		}
		path := ref[:n+1].String()
		if t, typed := s.documents[path]; typed {
			return s.selected(t, ref[n+1:])
		}
		size, known = s.rules[path]
	}
	if !known {
		size = s.below[ref[:n].String()]
	}
	if !ref.IsGround() {
		s.charge(size.inner(1).steps)
	}
	return size.inner(len(ref) - n)
}

// selected returns the size of what keys select in a value of a type.
func (s *typeSizes) selected(t types.Type, keys ast.Ref) typeSize {
	for _, key := range keys {
		if !key.IsGround() {
			all := sizeOf(t).inner(1).steps
			t = types.Values(t)
			// There is nothing to compare if all members have one type.
			s.charge(all - min(all, sizeOf(t).steps))
			continue
		}
		value, err := ast.ValueToInterface(key.Value, nil)
		if err != nil {
			return scalar
		}
		t = types.Select(t, value)
	}
	return sizeOf(t)
}
