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

package celexpression

import (
	"slices"

	"github.com/google/cel-go/common/ast"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Paths returns the paths of the fields of the object that an expression reads, or whose presence it tests, as far as their names are
// constant, sorted and each of them once. It returns none for an expression that does not compile.
func Paths(expression string) [][]string {
	compiled, err := compile(expression, environment.StoredExpressions)
	if err != nil {
		return nil
	}
	var out [][]string
	for _, use := range ast.MatchDescendants(ast.NavigateAST(compiled.NativeRep()), isObject) {
		if path, _ := pathFrom(use); len(path) > 0 {
			out = append(out, path)
		}
	}
	slices.SortFunc(out, slices.Compare[[]string])
	return slices.CompactFunc(out, slices.Equal[[]string])
}

// pathFrom returns the path that an expression selects at one use of the variable object, such as [metadata name] for object.metadata.name.
// presence reports whether the expression only tests whether the object has the path.
func pathFrom(use ast.NavigableExpr) (path []string, presence bool) {
	for {
		parent, ok := use.Parent()
		if !ok {
			return path, false
		}
		name, part, ok := selected(parent, use, path)
		if !ok {
			return path, false
		}
		path = append(path, name)
		if !part {
			return path, true
		}
		use = parent
	}
}
