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
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/policy/language"
)

// findUnequalEntries returns the comparisons of a rule that are true if any entry of a collection differs from a value of the object, a
// cluster, or a replicated object, and whose entry nothing else in the rule uses. They are always true if the collection has two different
// entries. It leaves out those in clauses, which are already found.
func findUnequalEntries(rule *ast.Rule, n *names, clauses []eachEntry) []eachEntry {
	uses := map[ast.Var]int{}
	ast.WalkVars(rule, func(v ast.Var) bool {
		uses[v]++
		return false
	})
	var out []eachEntry
	ast.WalkBodies(rule, func(body ast.Body) bool {
		for _, expr := range body {
			if hasWith(expr) || !isUnequal(expr) || slices.ContainsFunc(clauses, func(c eachEntry) bool { return c.at == expr.Location }) {
				continue
			}
			for i, entry := range expr.Operands() {
				subject, collection := expr.Operand(1-i), n.wildcardOf(entry)
				if v, ok := entry.Value.(ast.Var); ok {
					collection = n.onlyCompared(v, body, expr, uses)
				}
				if collection == nil || n.wildcardOf(subject) != nil || n.isEntry(subject) || mentions(subject, entry) {
					continue
				}
				if !n.ofObject(subject, map[ast.Var]bool{}) && !n.ofDocument(subject) {
					continue
				}
				out = append(out, eachEntry{collection: collection, at: expr.Location, message: fmt.Sprintf(
					"%s is always true, because nothing equals all of %s: one entry that differs is enough. "+
						"For an expression that is true only if no entry is equal, write not %s in the collection",
					source(expr), brief(collection), brief(subject))})
			}
		}
		return false
	})
	return out
}

// isUnequal reports whether an expression is true if two terms differ: a != b, not a == b, or not a = b.
func isUnequal(expr *ast.Expr) bool {
	if !expr.IsCall() || len(expr.Operands()) != 2 {
		return false
	}
	operator := expr.Operator().String()
	return operator == ast.NotEqual.Name && !expr.Negated || mirrored[operator] == ast.Equality.Name && expr.Negated
}

// onlyCompared returns the collection over whose entries a variable iterates in a body, if the rule uses the variable in no other
// expression than expr; otherwise nil. uses has the number of times that the rule mentions each variable.
func (n *names) onlyCompared(v ast.Var, body ast.Body, expr *ast.Expr, uses map[ast.Var]int) *ast.Term {
	for _, other := range body {
		collection := n.iteration(other, v)
		if other == expr || collection == nil {
			continue
		}
		mentioned := 0
		for _, e := range []*ast.Expr{other, expr} {
			ast.WalkVars(e, func(name ast.Var) bool {
				if name == v {
					mentioned++
				}
				return false
			})
		}
		if mentioned == uses[v] {
			return collection
		}
	}
	return nil
}

// isEntry reports whether a term is a variable that `some v in xs` or `some k, v in xs` declares as the member v of a collection that the
// method known knows. A comparison of it with an entry of a collection compares two entries. It returns false for other terms, also for
// xs[_].
func (n *names) isEntry(term *ast.Term) bool {
	v, ok := term.Value.(ast.Var)
	return ok && n.iterated[v] != nil && n.known(n.iterated[v]) != nil
}

// ofDocument reports whether a term is a part of a document in data that Berth fills, such as a cluster.
func (n *names) ofDocument(term *ast.Term) bool {
	for range maxNameSteps {
		term = n.resolve(term)
		head := term
		if ref, ok := term.Value.(ast.Ref); ok {
			if ref.HasPrefix(ast.DefaultRootRef) {
				root, _ := language.Part(ref, 1)
				return slices.Contains(language.Roots, root)
			}
			head = ref[0]
		}
		v, ok := head.Value.(ast.Var)
		if !ok {
			return false
		}
		if term = n.iterated[v]; term == nil {
			term = n.resolve(head)
		}
		if term == head {
			return false
		}
	}
	return false
}
