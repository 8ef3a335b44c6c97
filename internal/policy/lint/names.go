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
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/policy/language"
)

// names holds the names that a rule can use, in the parsed (uncompiled) module, and the term that each of them denotes, if it is
// known without evaluation: those of the module's rules and imports, and the rule's own variables.
type names struct {
	// module has the names of rules and imports. Each is mapped to its value if that does not depend on a body;
	// otherwise to nil.
	module map[ast.Var]*ast.Term
	// local has the variables that the rule declares. Each is mapped to the term that it is assigned if there is only
	// one; otherwise to nil.
	local map[ast.Var]*ast.Term
	// iterated has the variables that `some` declares as members of a collection, as v in `some v in xs`, each mapped to the collection.
	iterated map[ast.Var]*ast.Term
	// subjects caches the results of the method subject.
	subjects map[*ast.Term]string
}

// moduleNames returns the names of a module's rules, and of its imports from data and input. A rule is mapped to its value, as it is
// written, such as input.kind, and an import to its path. A name is mapped to nil if it is that of a function, if its value depends on a
// body, or if there are several of it.
func moduleNames(parsed *ast.Module) map[ast.Var]*ast.Term {
	out := map[ast.Var]*ast.Term{}
	add := func(name ast.Var, value *ast.Term) {
		if _, twice := out[name]; twice {
			value = nil
		}
		out[name] = value
	}
	for _, rule := range parsed.Rules {
		value := rule.Head.Value
		if rule.Default || rule.Else != nil || len(rule.Head.Args) > 0 || len(rule.Head.Ref()) > 1 || rule.Head.RuleKind() != ast.SingleValue ||
			!rule.Body.Equal(ast.NewBody(ast.NewExpr(ast.BooleanTerm(true)))) {
			value = nil
		}
		add(ast.Var(language.RuleName(rule)), value)
	}
	for _, imported := range parsed.Imports {
		if path, ok := imported.Path.Value.(ast.Ref); ok && (path.HasPrefix(ast.DefaultRootRef) || path.HasPrefix(ast.InputRootRef)) {
			add(imported.Name(), imported.Path)
		}
	}
	return out
}

// namesOf returns the names that a rule and its else clauses can use: those in module, a result of moduleNames, and the variables that the
// arguments and bodies of the rule declare.
func namesOf(rule *ast.Rule, module map[ast.Var]*ast.Term) *names {
	n := &names{module: module, local: map[ast.Var]*ast.Term{}, iterated: map[ast.Var]*ast.Term{}, subjects: map[*ast.Term]string{}}
	for _, arg := range rule.Head.Args {
		n.declare(arg, nil)
	}
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.SomeDecl:
			n.some(x)
		case *ast.Every:
			n.declare(x.Key, nil)
			n.declare(x.Value, nil)
		case *ast.Expr:
			if operands := x.Operands(); len(operands) == 2 && x.IsAssignment() {
				n.declare(operands[0], operands[1])
			} else if len(operands) == 2 && x.IsEquality() && !x.Negated {
				n.unify(operands[0], operands[1])
				n.unify(operands[1], operands[0])
			}
		}
		return false
	}).Walk(rule)
	return n
}

// declare adds the variables of a pattern to local, with the value if the pattern is a single variable. A variable that is declared twice,
// or that has the name of a rule, gets no value.
func (n *names) declare(pattern, value *ast.Term) {
	if pattern == nil {
		return
	}
	if _, single := pattern.Value.(ast.Var); !single {
		value = nil
	}
	ast.WalkVars(pattern, func(v ast.Var) bool {
		_, twice := n.local[v]
		if _, rule := n.module[v]; twice || rule {
			value = nil
			delete(n.iterated, v)
		}
		n.local[v] = value
		return false
	})
}

// unify adds a variable that `=` may declare. It ignores rules and comparisons with constants.
func (n *names) unify(pattern, value *ast.Term) {
	v, ok := pattern.Value.(ast.Var)
	if _, rule := n.module[v]; ok && !rule && !ast.IsConstant(value.Value) {
		n.declare(pattern, value)
	}
}

// some adds the variables of `some x` and `some k, v in xs` to local, without a value, and of these only the member v to iterated, with xs
// as its collection.
func (n *names) some(decl *ast.SomeDecl) {
	for _, symbol := range decl.Symbols {
		in, ok := symbol.Value.(ast.Call)
		if !ok {
			n.declare(symbol, nil)
			continue
		}
		value, single := in[len(in)-2].Value.(ast.Var)
		_, known := n.local[value]
		for _, pattern := range in[1 : len(in)-1] {
			n.declare(pattern, nil)
		}
		if _, rule := n.module[value]; single && !known && !rule {
			n.iterated[value] = in[len(in)-1]
		}
	}
}

// resolve returns the term that a name denotes. It returns the term itself if that is not a name, or if the name has no
// single value that is known without evaluation.
func (n *names) resolve(term *ast.Term) *ast.Term {
	for range maxNameSteps {
		v, ok := term.Value.(ast.Var)
		if !ok {
			return term
		}
		value, local := n.local[v]
		if !local {
			value = n.module[v]
		}
		if value == nil {
			return term
		}
		term = value
	}
	return term
}

// maxNameSteps limits how many names that denote other names are followed. The name that is reached then counts as not known.
const maxNameSteps = 8

// funcCall is a call of a function, either a whole expression or a part of one.
type funcCall struct {
	operator string // the name of the function
	operands []*ast.Term
	at       *ast.Location // the position of the call
}

func hasWith(expr *ast.Expr) bool { return len(expr.With) > 0 }

// eachCall calls visit for each call in a node, except in expressions with `with` and in declarations with `some`.
func eachCall(node any, visit func(funcCall)) {
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.SomeDecl:
			return true
		case *ast.Expr:
			if hasWith(x) {
				return true
			}
			if x.IsCall() {
				visit(funcCall{x.Operator().String(), x.Operands(), x.Location})
			}
		case *ast.Term:
			if c, ok := x.Value.(ast.Call); ok {
				visit(funcCall{c[0].String(), slices.Clone(c[1:]), x.Location})
			}
		}
		return false
	}).Walk(node)
}
