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

// SchedulingConstant is a constant text in a value of the rule scheduling.
type SchedulingConstant struct {
	// Position is the position of the constant.
	Position
	// Path has the names below scheduling, such as nodeSelector and the key of a label.
	Path  []string
	Value string
}

// SchedulingConstants returns the constant texts in the values of the rule scheduling, sorted by position. Those below a name that is not
// constant are left out.
func SchedulingConstants(compiler *ast.Compiler) []SchedulingConstant {
	var out []SchedulingConstant
	ast.WalkRules(moduleOf(compiler), func(clause *ast.Rule) bool {
		if language.RuleName(clause) != language.RuleScheduling || clause.Head.Value == nil {
			return false
		}
		var path []string
		for _, step := range clause.Head.Ref()[1:] {
			name, constant := step.Value.(ast.String)
			if !constant {
				return false
			}
			path = append(path, string(name))
		}
		out = append(out, schedulingConstants(path, clause.Head.Value, clause.Location)...)
		return false
	})
	slices.SortStableFunc(out, func(a, b SchedulingConstant) int { return a.Compare(b.Position) })
	return out
}

// schedulingConstants returns the constant texts in the value at a path.
func schedulingConstants(path []string, value *ast.Term, fallback *ast.Location) []SchedulingConstant {
	object, isObject := value.Value.(ast.Object)
	if !isObject {
		text, at := textAt(value, fallback)
		if at == nil || len(path) == 0 {
			return nil
		}
		return []SchedulingConstant{{PositionOf(at), path, text}}
	}
	var out []SchedulingConstant
	object.Foreach(func(key, member *ast.Term) {
		if name, constant := key.Value.(ast.String); constant {
			out = append(out, schedulingConstants(append(slices.Clone(path), string(name)), member, fallback)...)
		}
	})
	return out
}
