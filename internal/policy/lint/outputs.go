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

// OutputConstant is a constant text in a value of the rules annotations, labels, and scheduling.
type OutputConstant struct {
	// Position is the position of the constant.
	Position
	// Path has the name of the rule, and the names below it, such as scheduling, nodeSelector, and the key of a label.
	Path  []string
	Value string // the constant
	// Always reports whether the rule gives the constant to every object, because its clause has no condition, and is no default and no
	// else clause.
	Always bool
}

// OutputConstants returns the constant texts in the values of the rules annotations, labels, and scheduling, sorted by position. It leaves
// out those below a name that is not constant.
func OutputConstants(compiler *ast.Compiler) []OutputConstant {
	var out []OutputConstant
	elses := map[*ast.Rule]bool{}
	ast.WalkRules(moduleOf(compiler), func(clause *ast.Rule) bool {
		if clause.Else != nil {
			elses[clause.Else] = true
		}
		name := language.RuleName(clause)
		if !slices.Contains([]string{language.RuleAnnotations, language.RuleLabels, language.RuleScheduling}, name) || clause.Head.Value == nil {
			return false
		}
		path := []string{name}
		for _, step := range clause.Head.Ref()[1:] {
			text, constant := step.Value.(ast.String)
			if !constant {
				return false
			}
			path = append(path, string(text))
		}
		always := !clause.Default && !elses[clause] && clause.Body.Equal(alwaysTrue)
		for _, c := range outputConstants(path, clause.Head.Value, clause.Location) {
			c.Always = always
			out = append(out, c)
		}
		return false
	})
	slices.SortStableFunc(out, func(a, b OutputConstant) int { return a.Compare(b.Position) })
	return out
}

// alwaysTrue is the body of a clause without conditions.
var alwaysTrue = ast.NewBody(ast.NewExpr(ast.BooleanTerm(true)))

// outputConstants returns the constant texts in the value at a path, also in objects inside it. fallback is the location of those without
// one of their own.
func outputConstants(path []string, value *ast.Term, fallback *ast.Location) []OutputConstant {
	object, isObject := value.Value.(ast.Object)
	if !isObject {
		text, at := textAt(value, fallback)
		if at == nil || len(path) == 1 {
			return nil
		}
		return []OutputConstant{{Position: PositionOf(at), Path: path, Value: text}}
	}
	var out []OutputConstant
	object.Foreach(func(key, member *ast.Term) {
		if name, constant := key.Value.(ast.String); constant {
			out = append(out, outputConstants(append(slices.Clone(path), string(name)), member, fallback)...)
		}
	})
	return out
}
