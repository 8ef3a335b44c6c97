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

// AbsentLabel is a label that an object must not have. The policy decides nothing about an object that has it.
type AbsentLabel struct {
	// Row and Col are the position of the first condition that requires the absence. Both count from 1.
	Row, Col int
	Key      string
}

// AbsentLabels returns the labels that every clause of the contract rules requires to be absent, as in `not
// input.metadata.labels.team`.
func AbsentLabels(compiler *ast.Compiler) []AbsentLabel {
	var out []AbsentLabel
	first := true
	for _, rule := range moduleOf(compiler).Rules {
		if !slices.Contains(language.ContractRules, language.RuleName(rule)) {
			continue
		}
		for clause := rule; clause != nil; clause = clause.Else {
			absent := absentLabels(clause.Body)
			if first {
				out, first = absent, false
			}
			out = slices.DeleteFunc(out, func(label AbsentLabel) bool {
				return !slices.ContainsFunc(absent, func(other AbsentLabel) bool { return other.Key == label.Key })
			})
			if len(out) == 0 {
				return nil
			}
		}
	}
	return out
}

var labelsRef = ast.InputRootRef.Append(ast.StringTerm("metadata")).Append(ast.StringTerm("labels"))

func absentLabels(body ast.Body) []AbsentLabel {
	var out []AbsentLabel
	for _, expr := range body {
		term, ok := expr.Terms.(*ast.Term)
		if !ok || !expr.Negated || len(expr.With) > 0 || expr.Location == nil {
			continue
		}
		ref, ok := term.Value.(ast.Ref)
		if !ok || len(ref) != len(labelsRef)+1 || !ref.HasPrefix(labelsRef) {
			continue
		}
		if key, isText := language.Part(ref, len(labelsRef)); isText {
			out = append(out, AbsentLabel{Row: expr.Location.Row, Col: expr.Location.Col, Key: key})
		}
	}
	return out
}
