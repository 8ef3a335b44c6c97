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
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
)

// TestContradictionsOfAllPairs checks that two comparisons contradict each other if and only if no value satisfies
// both.
func TestContradictionsOfAllPairs(t *testing.T) {
	var values, constants []*ast.Term
	for _, text := range []string{"null", "0", "1", "1.5", "2", "2.5", `""`, `"a"`, `"aa"`, `"b"`, "[]"} {
		values = append(values, ast.MustParseTerm(text))
	}
	for _, text := range []string{"1", "2", `"a"`} {
		constants = append(constants, ast.MustParseTerm(text))
	}
	var comparisons []comparison
	for _, operator := range []*ast.Builtin{ast.Equality, ast.NotEqual, ast.LessThan, ast.LessThanEq, ast.GreaterThan, ast.GreaterThanEq, ast.Member} {
		for i, constant := range constants {
			c := comparison{operator: operator.Name, values: []*ast.Term{constant}}
			if operator == ast.Member {
				c.values = constants[i:]
			}
			comparisons = append(comparisons, c)
		}
	}
	for _, x := range comparisons {
		for _, y := range comparisons {
			both := slices.ContainsFunc(values, func(v *ast.Term) bool { return x.holds(v) && y.holds(v) })
			if got := x.contradicts(y); got == both {
				t.Errorf("%s %v and %s %v: contradicts = %t", x.operator, x.values, y.operator, y.values, got)
			}
		}
	}
}
