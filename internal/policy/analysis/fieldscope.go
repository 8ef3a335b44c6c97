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

	"github.com/berth-dev/berth/internal/celexpression"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/workload"
)

// fieldScope is the analysis of one rule. Variables of the same name are treated as one variable, also across nested
// bodies. If they are in fact two, the result looks like one variable that is bound twice, and thus compared.
type fieldScope struct {
	a       *fieldAnalyser
	classes map[ast.Var]*class // by the name of the variable
	// order lists the classes in the order of their first mention, also those that were merged into others later.
	order []*class
}

// class is a set of variables that are set equal to each other.
type class struct {
	// parent is the class that this class was merged into; nil for a root.
	parent *class
	// equations is the number of equations that have one of the variables on a side, and variables the number of variables.
	equations, variables int
	// definitions return the values of the sides of these equations that are not variables.
	definitions []func() places

	// running reports whether the value is being computed, and done whether it is known.
	running, done bool
	value         places // what the variables may be
}

// root returns the class that c was merged into, directly or not; c itself if it was not merged.
func (c *class) root() *class {
	for c.parent != nil {
		c = c.parent
	}
	return c
}

// class returns the class of a variable, and creates it if needed.
func (s *fieldScope) class(v ast.Var) *class {
	c, ok := s.classes[v]
	if !ok {
		c = &class{variables: 1}
		s.classes[v] = c
		s.order = append(s.order, c)
	}
	return c.root()
}

// define adds an equation between a variable and a term that is not a variable. definition returns the value of the term.
func (s *fieldScope) define(v ast.Var, definition func() places) {
	c := s.class(v)
	c.equations++
	c.definitions = append(c.definitions, definition)
}

// equate adds an equation between two variables, by merging their classes. It does nothing if they are in one class already.
func (s *fieldScope) equate(v, w ast.Var) {
	c, d := s.class(v), s.class(w)
	if c == d {
		// They are already known to be equal.
		return
	}
	d.parent = c
	c.equations += d.equations + 1
	c.variables += d.variables
	c.definitions = append(c.definitions, d.definitions...)
}

// local returns the variable that a term is. The result is false for other terms, and for `input` and `data`.
func local(t *ast.Term) (ast.Var, bool) {
	v, ok := t.Value.(ast.Var)
	return v, ok && v != ast.InputRootDocument.Value && v != ast.DefaultRootDocument.Value
}

// collect finds the equations of a rule, and those of its parameters with the arguments. An argument whose parameter is not a variable
// counts as read completely.
func (s *fieldScope) collect(r *ast.Rule, arguments []places) {
	for i, argument := range arguments {
		if i >= len(r.Head.Args) {
			s.a.lost = true
			return
		}
		if v, ok := local(r.Head.Args[i]); ok {
			s.define(v, func() places { return argument })
			continue
		}
		s.a.deepen(argument)
	}
	equations := func(e *ast.Expr) bool {
		s.equations(e)
		return false
	}
	ast.WalkExprs(r.Body, equations)
	ast.WalkExprs(r.Head, equations)
}

// equations adds what an expression defines or equates to the classes of its variables: a whole side of = or := that is a variable, an
// output operand of a call, and the key and value of `every`. It does not look into patterns such as [x, y].
func (s *fieldScope) equations(e *ast.Expr) {
	if every, ok := e.Terms.(*ast.Every); ok {
		if every.Key != nil {
			if v, ok := local(every.Key); ok {
				s.define(v, func() places { return anything })
			}
		}
		if v, ok := local(every.Value); ok {
			s.define(v, func() places { return s.members(every.Domain) })
		}
		return
	}
	terms, ok := e.Terms.([]*ast.Term)
	if !ok {
		return
	}
	if left, right, ok := equation(terms); ok {
		v, isLeft := local(left)
		w, isRight := local(right)
		switch {
		case isLeft && isRight:
			s.equate(v, w)
		case isLeft:
			s.define(v, func() places { return s.value(right) })
		case isRight:
			s.define(w, func() places { return s.value(left) })
		}
		return
	}
	if output := s.output(terms); output != nil {
		if v, ok := local(output); ok {
			s.define(v, func() places { return s.call(terms) })
		}
	}
}

// equation returns the two sides of an expression x = y or x := y.
func equation(terms []*ast.Term) (left, right *ast.Term, ok bool) {
	if len(terms) != 3 {
		return nil, nil, false
	}
	operator, ok := terms[0].Value.(ast.Ref)
	if !ok || !operator.Equal(ast.Equality.Ref()) && !operator.Equal(ast.Assign.Ref()) {
		return nil, nil, false
	}
	return terms[1], terms[2], true
}

// output returns the operand of a call that receives the result; nil if the call has no such operand.
func (s *fieldScope) output(terms []*ast.Term) *ast.Term {
	operator, ok := terms[0].Value.(ast.Ref)
	if !ok {
		return nil
	}
	if arity := s.a.compiler.GetArity(operator); arity < 0 || len(terms) != arity+2 {
		return nil
	}
	return terms[len(terms)-1]
}

// settle evaluates every variable. Variables that are compared read the values that they are compared with.
func (s *fieldScope) settle() {
	for _, c := range s.order {
		s.valueOf(c)
	}
}

// valueOf returns the value of the variables of a class. If there are more equations than variables, all sides are compared and so read
// completely.
func (s *fieldScope) valueOf(c *class) places {
	c = c.root()
	if c.done {
		return c.value
	}
	compared := c.equations > c.variables
	if c.running && compared {
		// The variable is compared with something that is computed from itself, as in lower(name) == name. All of its definitions
		// are read completely below.
		return anything
	}
	if c.running || !s.a.step() {
		// Circular definitions are unsafe, so that OPA does not compile them.
		s.a.lost = true
		return anything
	}
	c.running = true
	value := anything
	for _, definition := range c.definitions {
		if value = definition(); compared {
			s.a.deepen(value)
			value = anything
		}
	}
	c.value, c.running, c.done = value, false, true
	return value
}

// body records the reads of the expressions of a body.
func (s *fieldScope) body(body ast.Body) {
	for _, e := range body {
		if !s.a.step() {
			return
		}
		s.expression(e)
	}
}

// expression records the reads of an expression.
func (s *fieldScope) expression(e *ast.Expr) {
	for _, w := range e.With {
		// Whether OPA can replace a value below the target depends on the existing value.
		s.value(w.Target)
		s.deep(w.Value)
	}
	switch terms := e.Terms.(type) {
	case *ast.Term:
		s.value(terms)
	case []*ast.Term:
		s.callOrEquation(terms)
	case *ast.Every:
		s.members(terms.Domain)
		for _, t := range []*ast.Term{terms.Key, terms.Value} {
			if t == nil {
				continue
			}
			if _, ok := local(t); !ok {
				s.a.lost = true
			}
		}
		s.body(terms.Body)
	case *ast.Not:
		s.body(terms.Body)
	case *ast.LogicalAnd:
		s.body(terms.Lhs)
		s.body(terms.Rhs)
	case *ast.LogicalOr:
		s.body(terms.Lhs)
		s.body(terms.Rhs)
	default:
		s.a.lost = true
	}
}

// callOrEquation records the reads of an expression that is a call or an equation. terms are its operator and its operands.
func (s *fieldScope) callOrEquation(terms []*ast.Term) {
	if left, right, ok := equation(terms); ok {
		v, isLeft := local(left)
		w, isRight := local(right)
		switch {
		case isLeft:
			s.valueOf(s.class(v))
		case isRight:
			s.valueOf(s.class(w))
		default:
			s.deep(left)
			s.deep(right)
		}
		return
	}
	output := s.output(terms)
	if output == nil {
		s.call(terms)
		return
	}
	if v, ok := local(output); ok {
		s.valueOf(s.class(v))
		return
	}
	s.a.deepen(s.call(terms))
	s.deep(output)
}

// members returns what the members of a collection may be: the members of the fields that it may be, and an unknown value for any other
// collection, such as a literal.
func (s *fieldScope) members(t *ast.Term) places {
	return s.a.follow(s.value(t), []operand{{many: true}})
}

// value returns what is known about a term's value, and records the reads that are needed to compute it.
func (s *fieldScope) value(t *ast.Term) places {
	switch v := t.Value.(type) {
	case ast.Var:
		switch {
		case v.Equal(ast.InputRootDocument.Value):
			return places{fields: []place{{at: s.a.input}}}
		case v.Equal(ast.DefaultRootDocument.Value):
			return s.a.dataRef(s, ast.DefaultRootRef)
		}
		return s.valueOf(s.class(v))
	case ast.Ref:
		return s.ref(v)
	case ast.String:
		return places{texts: []string{string(v)}}
	case ast.Call:
		return s.call(v)
	}
	s.deep(t)
	return anything
}

// ref returns what a reference may select, and records the reads that are needed for that.
func (s *fieldScope) ref(ref ast.Ref) places {
	if ref[0].Equal(ast.DefaultRootDocument) {
		return s.a.dataRef(s, ref)
	}
	if len(ref) == 1 {
		return s.value(ref[0])
	}
	operands := s.operands(ref[1:])
	return s.a.follow(s.value(ref[0]), operands)
}

// operands returns what the parts of a reference may be.
func (s *fieldScope) operands(path []*ast.Term) []operand {
	out := make([]operand, len(path))
	for i, t := range path {
		out[i] = s.operand(t)
	}
	return out
}

// operand returns what one part of a reference may be. A variable is compared with the existing names, unless it can only be one of a few
// known strings.
func (s *fieldScope) operand(t *ast.Term) operand {
	if text, ok := t.Value.(ast.String); ok {
		return operand{texts: []string{string(text)}}
	}
	switch t.Value.(type) {
	case ast.Number, ast.Boolean, ast.Null:
		return operand{}
	}
	value := s.value(t)
	if !value.other && len(value.fields) == 0 && len(value.texts) > 0 {
		return operand{texts: value.texts, many: len(value.texts) > 1}
	}
	s.a.deepen(value)
	return operand{many: true}
}

// deep records that the value of a term is read, with everything below it.
func (s *fieldScope) deep(t *ast.Term) {
	switch v := t.Value.(type) {
	case ast.Null, ast.Boolean, ast.Number, ast.String:
	case ast.Var, ast.Ref, ast.Call:
		s.a.deepen(s.value(t))
	case *ast.Array:
		v.Foreach(s.deep)
	case ast.Set:
		v.Foreach(s.deep)
	case ast.Object:
		v.Foreach(func(key, value *ast.Term) {
			s.deep(key)
			s.deep(value)
		})
	case *ast.ArrayComprehension:
		s.body(v.Body)
		s.deep(v.Term)
	case *ast.SetComprehension:
		s.body(v.Body)
		s.deep(v.Term)
	case *ast.ObjectComprehension:
		s.body(v.Body)
		s.deep(v.Key)
		s.deep(v.Value)
	default:
		s.a.lost = true
	}
}

// shallow lists the builtin functions that depend only on their operand's type.
var shallow = []string{
	ast.IsArray.Name, ast.IsBoolean.Name, ast.IsNull.Name, ast.IsNumber.Name, ast.IsObject.Name, ast.IsSet.Name,
	ast.IsString.Name, ast.TypeNameBuiltin.Name,
}

// counting lists the builtin functions that depend only on the names or the number of their operand's members.
var counting = []string{ast.Count.Name, ast.ObjectKeys.Name}

// call records the reads of a call and returns its result.
func (s *fieldScope) call(terms []*ast.Term) places {
	operator, ok := terms[0].Value.(ast.Ref)
	if !ok {
		s.a.lost = true
		return anything
	}
	arity := s.a.compiler.GetArity(operator)
	if arity < 0 || len(terms) < arity+1 {
		s.a.lost = true
		return anything
	}
	operands := terms[1 : arity+1]
	name := operator.String()
	if f, ok := s.a.functions[name]; ok {
		arguments := make([]places, arity)
		for i, t := range operands {
			arguments[i] = s.value(t)
		}
		return s.a.call(f, arguments)
	}
	if operator.HasPrefix(ast.DefaultRootRef) {
		// A function without arguments is a rule.
		return s.a.dataRef(s, operator)
	}
	switch {
	case slices.Contains(shallow, name):
		s.value(operands[0])
	case slices.Contains(counting, name):
		s.members(operands[0])
	case name == ast.ObjectGet.Name:
		return s.objectGet(operands)
	case name == language.Feasible.Name, name == language.FeasibleClusters.Name:
		// The value is one that a workload is built from.
		s.a.readFields(s.value(operands[0]), workload.Fields())
		for _, t := range operands[1:] {
			s.deep(t)
		}
	case name == language.CEL.Name && isText(operands[0]):
		expression, _ := operands[0].Value.(ast.String)
		s.a.readFields(s.value(operands[1]), celexpression.Fields(string(expression)))
	default:
		for _, t := range operands {
			s.deep(t)
		}
	}
	return anything
}

// isText reports whether a term is a constant string.
func isText(t *ast.Term) bool {
	_, ok := t.Value.(ast.String)
	return ok
}

// objectGet evaluates object.get(object, key or path, default).
func (s *fieldScope) objectGet(operands []*ast.Term) places {
	var path []operand
	switch key := operands[1].Value.(type) {
	case *ast.Array:
		key.Foreach(func(t *ast.Term) { path = append(path, s.operand(t)) })
	default:
		o := s.operand(operands[1])
		if len(o.texts) == 0 {
			// The key may be a path of any length.
			s.deep(operands[0])
			s.deep(operands[2])
			return anything
		}
		path = append(path, o)
	}
	found := s.a.follow(s.value(operands[0]), path)
	if ast.IsConstant(operands[2].Value) {
		// The result depends on the field alone, and a constant default contains no fields to read.
		return found
	}
	return s.a.join(found, s.value(operands[2]))
}
