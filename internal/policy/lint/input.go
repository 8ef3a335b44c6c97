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

// InputConstant is a constant that a policy compares with a field of the input that identifies the object's type: its kind or apiVersion.
type InputConstant struct {
	// Position is the position of the comparison.
	Position
	// Field is "kind" or "apiVersion".
	Field string
	Value string // the constant
	// Differs reports whether the comparison is true if the field differs from Value, as in input.kind != "Pod".
	Differs bool
}

// InputConstants returns the constants that the policy compares with input.kind and input.apiVersion, one by one or as
// members of a set or an array. They are sorted by position. It returns nil if the policy replaces input by `with`.
func InputConstants(compiler *ast.Compiler) []InputConstant {
	module := scopedModuleOf(compiler)
	replaced := false
	ast.WalkWiths(module, func(w *ast.With) bool {
		ref, ok := w.Target.Value.(ast.Ref)
		replaced = replaced || ok && ref.HasPrefix(ast.InputRootRef)
		return replaced
	})
	if replaced {
		return nil
	}
	refs := referencesOf(module)
	var out []InputConstant
	ast.WalkExprs(module, func(e *ast.Expr) bool {
		out = append(out, comparedConstants(compiler, e, refs)...)
		return false
	})
	slices.SortStableFunc(out, func(a, b InputConstant) int { return a.Compare(b.Position) })
	return out
}

// references maps variables to the references that they are equal to. It is for modules that scopedModuleOf returned.
type references map[ast.Var]ast.Ref

// referencesOf returns the variables of a module that stand for references, as after kind := input.kind, each with its reference as
// written, or the last one if it has several. The module is one that scopedModuleOf returned, so that no two scopes share a variable.
func referencesOf(module *ast.Module) references {
	out := references{}
	ast.WalkExprs(module, func(e *ast.Expr) bool {
		if e.Negated || !e.IsEquality() {
			return false
		}
		for i, operand := range e.Operands() {
			v, isVar := operand.Value.(ast.Var)
			if ref, ok := e.Operand(1 - i).Value.(ast.Ref); ok && isVar {
				out[v] = ref
			}
		}
		return false
	})
	return out
}

// of returns a term that is a reference as it is, and for a variable the reference that r maps it to; nil for other variables and terms.
func (r references) of(term *ast.Term) ast.Ref {
	switch v := term.Value.(type) {
	case ast.Var:
		return r[v]
	case ast.Ref:
		return v
	}
	return nil
}

// typeField returns "kind" or "apiVersion" if a reference is to that field of the input; "" for other references.
func typeField(ref ast.Ref) string {
	name, ok := language.Part(ref, 1)
	if ok && len(ref) == 2 && ref.HasPrefix(ast.InputRootRef) && (name == "kind" || name == "apiVersion") {
		return name
	}
	return ""
}

// comparedConstants returns the constants that an expression compares with input.kind or input.apiVersion; nil if it compares these with
// anything but texts.
func comparedConstants(compiler *ast.Compiler, e *ast.Expr, refs references) []InputConstant {
	operands := e.Operands()
	if !e.IsCall() || len(operands) != 2 || e.Location == nil {
		return nil
	}
	at := InputConstant{Position: PositionOf(e.Location), Differs: e.Negated}
	var values []*ast.Term
	operator := e.Operator()
	switch {
	case operator.Equal(ast.Member.Ref()):
		at.Field, values = typeField(refs.of(operands[0])), constantMembers(compiler, operands[1], refs)
	case operator.Equal(ast.NotEqual.Ref()) || operator.Equal(ast.Equal.Ref()) || e.IsEquality():
		at.Differs = at.Differs != operator.Equal(ast.NotEqual.Ref())
		if at.Field, values = typeField(refs.of(operands[0])), operands[1:]; at.Field == "" {
			at.Field, values = typeField(refs.of(operands[1])), operands[:1]
		}
	}
	var out []InputConstant
	for _, value := range values {
		text, ok := value.Value.(ast.String)
		if at.Field == "" || !ok {
			return nil
		}
		at.Value = string(text)
		out = append(out, at)
	}
	return out
}

// constantMembers returns the members of a set or an array, or of a rule of the policy with a single clause, with or without conditions,
// whose value is written as a set or an array. It returns nil for other terms.
func constantMembers(compiler *ast.Compiler, term *ast.Term, refs references) []*ast.Term {
	if ref := refs.of(term); ref != nil {
		rules := compiler.GetRulesExact(ref)
		if len(rules) != 1 || rules[0].Head.Value == nil || rules[0].Else != nil || len(rules[0].Head.Args) > 0 {
			return nil
		}
		term = rules[0].Head.Value
	}
	return members(term)
}

// AbsentLabel is a label because of which a policy decides nothing about an object that has it.
type AbsentLabel struct {
	// Position is the position of the first condition that requires the absence.
	Position
	Key string // the key of the label
}

// AbsentLabels returns the labels that every clause of every contract rule requires to be absent, as in `not input.metadata.labels.team`;
// none without contract rules.
func AbsentLabels(compiler *ast.Compiler) []AbsentLabel {
	var out []AbsentLabel
	first := true
	for _, rule := range moduleOf(compiler).Rules {
		if !slices.Contains(language.ContractRules, language.RuleName(rule)) {
			continue
		}
		for clause := rule; clause != nil; clause = clause.Else {
			absent := labelsRequiredAbsent(clause.Body)
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

// labelsRequiredAbsent returns the labels that the body of a rule requires the object not to have, as in `not input.metadata.labels.team`.
func labelsRequiredAbsent(body ast.Body) []AbsentLabel {
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
			out = append(out, AbsentLabel{Position: PositionOf(expr.Location), Key: key})
		}
	}
	return out
}

// NeededKey is the key of a label or an annotation without which a policy gives an object no clusters. It does not have the value that the
// policy requires.
type NeededKey struct {
	// Position is the position of the first condition that compares it.
	Position
	// Field is "labels" or "annotations", and Key the key in it.
	Field, Key string
}

// NeededKeys returns the keys of labels and annotations that every clause of the rule clusters requires to equal a constant, so that the
// rule is the empty set for objects without them. It does not return the constants, which may differ between clauses. It returns none if
// the rule can be undefined for such objects, or if the policy has the rule errors.
func NeededKeys(compiler *ast.Compiler) []NeededKey {
	module := scopedModuleOf(compiler)
	refs := referencesOf(module)
	var out []NeededKey
	first := true
	for _, rule := range module.Rules {
		switch name := language.RuleName(rule); {
		case name == language.RuleErrors, name == language.RuleClusters && rule.Head.RuleKind() != ast.MultiValue:
			return nil
		case name != language.RuleClusters:
			continue
		}
		keys := neededKeys(rule.Body, refs)
		if first {
			out, first = keys, false
		}
		out = slices.DeleteFunc(out, func(k NeededKey) bool {
			return !slices.ContainsFunc(keys, func(other NeededKey) bool { return other.Field == k.Field && other.Key == k.Key })
		})
	}
	return out
}

// neededKeys returns the keys of labels and annotations that the body of a rule requires to equal a constant, each with the position of the
// comparison; nil if there are none.
func neededKeys(body ast.Body, refs references) (out []NeededKey) {
	for _, e := range body {
		if e.Negated || len(e.With) > 0 || e.Location == nil || len(e.Operands()) != 2 || !e.IsEquality() &&
			!e.Operator().Equal(ast.Equal.Ref()) {
			continue
		}
		for i, operand := range e.Operands() {
			ref := refs.of(operand)
			if !ast.IsConstant(e.Operand(1-i).Value) || len(ref) != len(labelsRef)+1 || !ref.HasPrefix(labelsRef[:2]) {
				continue
			}
			field, _ := language.Part(ref, 2)
			if key, isText := language.Part(ref, 3); isText && (field == "labels" || field == "annotations") {
				out = append(out, NeededKey{PositionOf(e.Location), field, key})
			}
		}
	}
	return out
}
