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
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/policy/language"
)

// checkManyValues warns about clauses that set a constant key to the name of each cluster, or of each replicated
// object, that they match. If two match, the evaluation fails. Clauses that may select a single one are not reported:
// those with a condition on a label, on a value of the object, or on the name. The module must be compiled.
func (r *Report) checkManyValues(module *ast.Module) {
	for _, rule := range module.Rules {
		name := language.RuleName(rule)
		if name != language.RuleAnnotations && name != language.RuleLabels && name != language.RuleScheduling ||
			rule.Head.RuleKind() != ast.SingleValue || !rule.Head.Ref().IsGround() {
			continue
		}
		for clause := rule; clause != nil; clause = clause.Else {
			if collection := manyValues(clause); collection != nil {
				r.warnAt(clause.Location, fmt.Sprintf("%s has a different value for each member of %s that the clause matches: if the clause "+
					"matches two, the evaluation fails. Choose one, as in min({name | some name, member in %s; ...})", clause.Head.Ref(),
					collection, collection))
			}
		}
	}
}

// maxManyValues limits the variables of a clause's value that are examined, and the passes over its body for each of them. A clause that
// exceeds it is not reported. The analysis of a policy of maximum size must not take long.
const maxManyValues = 8

// manyValues returns the collection over whose keys the value of a clause ranges; nil if there is none, or if only one key can be meant.
func manyValues(clause *ast.Rule) ast.Ref {
	if slices.ContainsFunc(clause.Body, hasWith) {
		return nil
	}
	keys := valueKeys(clause)
	if len(keys) > maxManyValues {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		it := iteration{key: key, source: keys[key]}
		if collection := it.collection(clause.Body); collection != nil && it.tie(clause.Body, collection) &&
			!hasOneMember(clause.Body, collection) {
			return collection
		}
	}
	return nil
}

// valueKeys returns the variables that a clause's value contains, as they are or as arguments of sprintf. Each is mapped to the body
// expression that puts it into the value, or to nil if it is in the head.
func valueKeys(clause *ast.Rule) map[ast.Var]*ast.Expr {
	out := map[ast.Var]*ast.Expr{}
	in := func(node any, source *ast.Expr) {
		ast.NewGenericVisitor(func(x any) bool {
			switch x := x.(type) {
			case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension, ast.Ref, ast.Call, ast.Set:
				return true
			case ast.Var:
				out[x] = source
			}
			return false
		}).Walk(node)
	}
	in(clause.Head.Value, nil)
	value, ok := clause.Head.Value.Value.(ast.Var)
	if !ok {
		return out
	}
	for _, expr := range clause.Body {
		operands := expr.Operands()
		if expr.IsCall() && expr.Operator().Equal(ast.Sprintf.Ref()) && len(operands) == 3 && operands[2].Value.Compare(value) == 0 {
			in(operands[1], expr)
		}
	}
	return out
}

// iteration is a variable that ranges over the keys of a collection: the names of clusters, the names of replicated cluster-scoped objects,
// or the namespaces of replicated namespaced objects.
type iteration struct {
	key ast.Var // the variable
	// source is the expression of the body that builds the value from the key, and so is no condition on the key; nil if the head does.
	source *ast.Expr
	// tied are the variables that depend on the key.
	tied map[ast.Var]bool
}

// collection returns the reference over whose keys the variable ranges in a body: data.clusters, or a replicated type, such as
// data.kubernetes.pods, whose keys are namespaces. It returns nil if the variable is no such key.
func (it *iteration) collection(body ast.Body) ast.Ref {
	var out ast.Ref
	for _, expr := range body {
		ast.WalkRefs(expr, func(ref ast.Ref) bool {
			if n := keyAt(ref); out == nil && n > 0 && ref[n].Value.Compare(it.key) == 0 {
				out = ref[:n]
			}
			return false
		})
	}
	return out
}

// keyAt returns the index in a reference of the first key below data.clusters or below a replicated type: 2 in data.clusters[name], 3 in
// data.kubernetes.pods[namespace][name], and 4 in data.resources["v1"].pods[namespace][name]. It returns 0 for other references, and for
// those without a key.
func keyAt(ref ast.Ref) int {
	if !ref.HasPrefix(ast.DefaultRootRef) {
		return 0
	}
	root, _ := language.Part(ref, 1)
	at := map[string]int{language.RootClusters: 2, language.RootKubernetes: 3, language.RootResources: 4}[root]
	if at == 0 || len(ref) <= at || !ref[:at].IsGround() {
		return 0
	}
	return at
}

// tie sets tied to the variables of a body that depend on the key. It reports whether the body has no condition on the key, and only
// conditions on the member that many members can satisfy. If it returns false, tied may lack variables.
func (it *iteration) tie(body ast.Body, collection ast.Ref) bool {
	it.tied = map[ast.Var]bool{it.key: true}
	for before, passes := 0, 0; before != len(it.tied); passes++ {
		if before = len(it.tied); passes > maxManyValues {
			return false
		}
		for _, expr := range body {
			if expr != it.source && it.mentions(expr) && !it.tieCommon(expr, collection) {
				return false
			}
		}
	}
	return true
}

// hasOneMember reports whether a body requires that the collection has at most one member, as in count(collection) ==
// 1.
func hasOneMember(body ast.Body, collection ast.Ref) bool {
	// In compiled Rego, each call is an expression of its own, and a variable holds the collection.
	collections, counts := map[ast.Var]bool{}, map[ast.Var]bool{}
	isCollection := func(t *ast.Term) bool {
		v, isVar := t.Value.(ast.Var)
		return isVar && collections[v] || t.Value.Compare(collection) == 0
	}
	// A variable's definition may follow its use.
	for range 2 {
		for _, expr := range body {
			operands := expr.Operands()
			if expr.Negated || !expr.IsCall() || len(operands) != 2 {
				continue
			}
			if v, isVar := operands[0].Value.(ast.Var); isVar && expr.IsEquality() && isCollection(operands[1]) {
				collections[v] = true
			}
			if expr.Operator().Equal(ast.Count.Ref()) && isCollection(operands[0]) {
				if result, ok := operands[1].Value.(ast.Var); ok {
					counts[result] = true
				} else if isAtMost(operands[1], 1) {
					return true
				}
			} else if v, ok := equatedCount(expr, operands, counts); ok {
				counts[v] = true
			} else if boundsCount(expr, operands, counts) {
				return true
			}
		}
	}
	return false
}

// equates reports whether a comparison is true only of two equal operands.
func equates(expr *ast.Expr) bool { return expr.IsEquality() || expr.Operator().Equal(ast.Equal.Ref()) }

// equatedCount returns the variable that a comparison equates with one that holds the number of members of a collection; counts are those
// variables. ok is false for other comparisons.
func equatedCount(expr *ast.Expr, operands []*ast.Term, counts map[ast.Var]bool) (v ast.Var, ok bool) {
	for i, operand := range operands {
		if count, isVar := operand.Value.(ast.Var); isVar && counts[count] && equates(expr) {
			v, ok = operands[1-i].Value.(ast.Var)
			return v, ok
		}
	}
	return "", false
}

// boundsCount reports whether a comparison requires that the number of members of a collection is at most one, as n == 1, n <= 1, or n < 2.
// counts are the variables that hold this number.
func boundsCount(expr *ast.Expr, operands []*ast.Term, counts map[ast.Var]bool) bool {
	is := func(b *ast.Builtin) bool { return expr.Operator().Equal(b.Ref()) }
	equal := equates(expr)
	for i, operand := range operands {
		other := operands[1-i]
		count, ok := operand.Value.(ast.Var)
		if !ok || !counts[count] {
			continue
		}
		first := i == 0
		switch {
		case equal, first && is(ast.LessThanEq), !first && is(ast.GreaterThanEq):
			return isAtMost(other, 1)
		case first && is(ast.LessThan), !first && is(ast.GreaterThan):
			return isAtMost(other, 2)
		}
	}
	return false
}

// isAtMost reports whether a term is an integer constant that is at most the limit.
func isAtMost(term *ast.Term, limit int) bool {
	number, ok := term.Value.(ast.Number)
	if !ok {
		return false
	}
	n, ok := number.Int()
	return ok && n <= limit
}

// mentions reports whether an expression contains the key or a variable that depends on it.
func (it *iteration) mentions(expr *ast.Expr) (found bool) {
	ast.WalkVars(expr, func(v ast.Var) bool {
		found = found || it.tied[v]
		return found
	})
	return found
}

// commonChecks are the only operators, =, !=, <, <=, >, >=, and `in`, whose comparisons of a field of clusters with constants are assumed
// to be true of many clusters. A condition with any other function, such as startswith, may select a single cluster.
var commonChecks = []*ast.Builtin{
	ast.Equality, ast.NotEqual, ast.Member, ast.LessThan, ast.LessThanEq, ast.GreaterThan, ast.GreaterThanEq,
}

// tieCommon adds to tied the variables that an expression sets to a part of the member. It reports whether the expression only reads the
// member, or compares fields that many members share with constants.
func (it *iteration) tieCommon(expr *ast.Expr, collection ast.Ref) bool {
	if expr.Negated {
		return false
	}
	if term, ok := expr.Terms.(*ast.Term); ok {
		return it.isCommon(term, collection)
	}
	if !expr.IsCall() || !slices.ContainsFunc(commonChecks, func(b *ast.Builtin) bool { return expr.Operator().Equal(b.Ref()) }) {
		return false
	}
	for _, operand := range expr.Operands() {
		switch v := operand.Value.(type) {
		case ast.Var:
			if !expr.IsEquality() && !it.tied[v] || v.Compare(it.key) == 0 {
				return false
			}
			it.tied[v] = true
		case ast.Ref:
			if !it.isCommon(operand, collection) {
				return false
			}
		default:
			if !ast.IsConstant(v) {
				return false
			}
		}
	}
	return true
}

// commonFields are the fields of clusters that do not identify a single cluster. commonLabels are such labels.
var (
	commonFields = []string{"region", "zones", "ready", "terminating", "taints", "capacity", "allocatable", "allocated"}
	commonLabels = []string{"topology.kubernetes.io/region", "topology.kubernetes.io/zone"}
)

// isCommon reports whether a term is a whole member of the collection, or a part of a cluster that other clusters share: one of
// commonFields, such as its region, or of commonLabels. It returns false for other parts of clusters, and for parts of replicated objects.
func (it *iteration) isCommon(term *ast.Term, collection ast.Ref) bool {
	ref, ok := term.Value.(ast.Ref)
	if !ok {
		return false
	}
	path := ref[1:]
	if ref.HasPrefix(collection) && len(ref) > len(collection) && ref[len(collection)].Value.Compare(it.key) == 0 {
		path = ref[len(collection)+1:]
	} else if head, isVar := ref[0].Value.(ast.Var); !isVar || head.Compare(it.key) == 0 || !it.tied[head] {
		return false
	}
	for _, t := range path {
		if v, isVar := t.Value.(ast.Var); !t.IsGround() && (!isVar || !v.IsWildcard()) {
			return false
		}
	}
	if len(path) == 0 {
		return true
	}
	if root, _ := language.Part(collection, 1); root != language.RootClusters {
		return false
	}
	name, _ := language.Part(path, 0)
	if name == "labels" {
		label, _ := language.Part(path, 1)
		return slices.Contains(commonLabels, label)
	}
	return slices.Contains(commonFields, name)
}
