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

package typecheck

import (
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/policy/lint"
)

// locate sets the field Rule of each finding that prevents a definition of a contract rule from ever having a value. It
// returns the contract rules of which no definition can ever have a value, in the contract's order.
func locate(module *ast.Module, findings []Finding) []string {
	if len(findings) == 0 {
		return nil
	}
	broken := map[lint.Position]bool{}
	for _, f := range findings {
		if !f.holds {
			broken[f.Position] = true
		}
	}
	rules := map[string][]*ast.Rule{}
	for _, rule := range module.Rules {
		name := language.RuleName(rule)
		rules[name] = append(rules[name], rule)
	}
	dead := map[string]bool{}
	isDead := func(rule *ast.Rule) bool {
		_, found := failure(module.Package.Path, rule, broken, dead)
		return found
	}
	// A helper without a value also invalidates the rules that need it. An empty set or object is a value.
	for changed := true; changed; {
		changed = false
		for name, definitions := range rules {
			if !dead[name] && !slices.ContainsFunc(definitions, hasValueAnyway) &&
				!slices.ContainsFunc(definitions, func(r *ast.Rule) bool { return !isDead(r) }) {
				dead[name], changed = true, true
			}
		}
	}
	var out []string
	for _, name := range language.ContractRules {
		definitions := rules[name]
		alive := slices.ContainsFunc(definitions, func(r *ast.Rule) bool { return r.Default || !isDead(r) })
		if len(definitions) > 0 && !alive {
			out = append(out, name)
		}
		for _, rule := range definitions {
			at, _ := failure(module.Package.Path, rule, broken, dead)
			for i := range findings {
				if at == findings[i].Position {
					findings[i].Rule = name
				}
			}
		}
	}
	return out
}

// hasValueAnyway reports whether a rule's document exists even if none of its bodies is ever true: for a default rule, a partial set, and a
// partial object.
func hasValueAnyway(rule *ast.Rule) bool {
	return rule.Default || rule.Head.RuleKind() == ast.MultiValue || len(rule.Head.Ref()) > 1
}

// failure reports whether a rule can never have a value because of its body or head, and returns the position of the finding that
// causes this. The position is zero if the cause is a helper without a value. broken are the positions of findings, and dead the names of
// the helpers without a value.
func failure(pkg ast.Ref, rule *ast.Rule, broken map[lint.Position]bool, dead map[string]bool) (lint.Position, bool) {
	if rule.Else != nil {
		if _, found := failure(pkg, rule.Else, broken, dead); !found {
			return lint.Position{}, false
		}
	}
	if at := lint.PositionOf(rule.Location); broken[at] {
		return at, true
	}
	dead = visible(rule, dead)
	for _, expr := range rule.Body {
		if expr.Negated {
			continue
		}
		if at, found := failureIn(pkg, expr, broken, dead); found {
			return at, true
		}
	}
	return failureIn(pkg, rule.Head, broken, dead)
}

// visible returns the names in dead, except those that variables of the rule hide.
func visible(rule *ast.Rule, dead map[string]bool) map[string]bool {
	out := maps.Clone(dead)
	hide := func(x any) {
		ast.WalkVars(x, func(v ast.Var) bool {
			delete(out, string(v))
			return false
		})
	}
	hide(rule.Head.Args)
	ast.WalkExprs(rule, func(e *ast.Expr) bool {
		switch terms := e.Terms.(type) {
		case *ast.SomeDecl:
			for _, symbol := range terms.Symbols {
				if call, ok := symbol.Value.(ast.Call); ok {
					// The last operand of `some x in collection` is the collection.
					for _, declared := range call[1 : len(call)-1] {
						hide(declared)
					}
					continue
				}
				hide(symbol)
			}
		case []*ast.Term:
			if e.IsAssignment() && len(terms) > 1 {
				hide(terms[1])
			}
		}
		return false
	})
	return out
}

// failureIn searches a node of the syntax tree for a finding, or for a helper without a value, that prevents the node from having a value.
// It skips comprehensions and negations, which have a value anyway. at is the position of the finding; zero for a helper.
func failureIn(pkg ast.Ref, node any, broken map[lint.Position]bool, dead map[string]bool) (at lint.Position, found bool) {
	look := func(location *ast.Location) {
		if location != nil && !found && broken[lint.PositionOf(location)] {
			at, found = lint.PositionOf(location), true
		}
	}
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension, *ast.Every, *ast.Not, ast.Args:
			return true
		case *ast.Expr:
			if x.Negated {
				return true
			}
			look(x.Location)
		case *ast.Term:
			look(x.Location)
			switch value := x.Value.(type) {
			case ast.Var:
				found = found || dead[string(value)]
			case ast.Ref:
				found = found || refersToDead(pkg, value, dead)
			}
		}
		return found
	}).Walk(node)
	return at, found
}

// refersToDead reports whether a reference is to a rule of the module that has no value: it begins with a name in dead, or with pkg, the
// package of the module, and such a name.
func refersToDead(pkg, ref ast.Ref, dead map[string]bool) bool {
	if name, ok := ref[0].Value.(ast.Var); ok && dead[string(name)] {
		return true
	}
	name, ok := language.Part(ref, len(pkg))
	return ok && ref.HasPrefix(pkg) && dead[name]
}
