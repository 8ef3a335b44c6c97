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

import "github.com/open-policy-agent/opa/v1/ast"

// NegatedWildcard returns the collection of the first wildcard in the negated expression that begins at a position, such as
// input.spec.template.spec.containers of `not startswith(input.spec.template.spec.containers[_].image, "a")`; nil if there is none.
func NegatedWildcard(parsed *ast.Module, row, col int) (collection ast.Ref) {
	ast.WalkExprs(parsed, func(e *ast.Expr) bool {
		if collection != nil || !e.Negated || e.Location == nil || e.Location.Row != row || e.Location.Col != col {
			return false
		}
		ast.WalkRefs(e, func(ref ast.Ref) bool {
			for i, t := range ref {
				if v, ok := t.Value.(ast.Var); ok && v.IsWildcard() && i > 0 && collection == nil {
					collection = ref[:i]
				}
			}
			return false
		})
		return false
	})
	return collection
}
