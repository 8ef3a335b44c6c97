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
	"github.com/google/cel-go/common/operators"
	"k8s.io/apiserver/pkg/cel/environment"
)

// KeyTest is a comparison in an expression of a label or an annotation of the object with constants: of its value or, if Key is empty, of
// the keys. It is false for an object that has none of the constants.
type KeyTest struct {
	Field string // "labels" or "annotations".
	// Key is the key whose value is compared. It is "" if the keys themselves are compared, as by in and exists().
	Key    string
	Values []string // The constants with which it compares; at least one.
}

// KeyTests returns the comparisons of labels and annotations without which an expression is false: those that select objects, and that are
// no alternatives to others. It returns none for an expression that can't be parsed, and knows nothing of parts that are not joined by
// && and ||.
func KeyTests(expression string) []KeyTest {
	_, parsed, err := parse(expression, environment.StoredExpressions)
	if err != nil {
		return nil
	}
	var out []KeyTest
	(&mistakes{}).conditions(parsed.NativeRep().Expr(), func(e ast.Expr, selects, required bool) {
		if !selects || !required {
			return
		}
		if test, ok := keyTest(e); ok {
			out = append(out, test)
		}
	})
	return out
}

// keyTest returns the comparison of labels or annotations, or of their keys, with constants that an expression is, by ==, in, or exists();
// false for other expressions, such as those with != or has().
func keyTest(e ast.Expr) (test KeyTest, ok bool) {
	if e.Kind() == ast.ComprehensionKind {
		return keysTest(e.AsComprehension())
	}
	value, constants, ok := equality(e)
	if !ok {
		return test, false
	}
	if test.Field = keyedField(value, 2); test.Field != "" {
		// It is an expression such as 'tier' in object.metadata.labels.
		test.Values, ok = literals(constants)
		return test, ok && e.AsCall().FunctionName() == operators.In && e.AsCall().Args()[1].Kind() != ast.ListKind
	}
	test.Values, ok = literals(constants)
	if isMember(value, "orValue") {
		fallback, constant := literal(value.AsCall().Args()[0])
		if !constant || slices.Contains(test.Values, fallback) {
			return test, false
		}
		value = value.AsCall().Target()
	}
	if test.Field = keyedField(value, 3); test.Field == "" {
		return test, false
	}
	test.Key = pathOf(value)[2]
	return test, ok
}

// keysTest returns the comparison that a macro exists() is which compares the keys of labels or annotations, as in
// object.metadata.labels.exists(k, k == 'tier'); false for other macros, such as all().
func keysTest(macro ast.ComprehensionExpr) (test KeyTest, ok bool) {
	test.Field = keyedField(macro.IterRange(), 2)
	step := macro.LoopStep()
	if test.Field == "" || macro.HasIterVar2() || step.Kind() != ast.CallKind || step.AsCall().FunctionName() != operators.LogicalOr {
		return test, false
	}
	value, constants, ok := equality(step.AsCall().Args()[1])
	if !ok || value.Kind() != ast.IdentKind || value.AsIdent() != macro.IterVar() {
		return test, false
	}
	test.Values, ok = literals(constants)
	return test, ok
}

// equality returns the value that an expression compares by == or in, and what it compares the value with. For 'tier' in
// object.metadata.labels, the value is the map. ok is false for other expressions.
func equality(e ast.Expr) (value ast.Expr, with []ast.Expr, ok bool) {
	if e.Kind() != ast.CallKind || len(e.AsCall().Args()) != 2 {
		return nil, nil, false
	}
	left, right := e.AsCall().Args()[0], e.AsCall().Args()[1]
	switch e.AsCall().FunctionName() {
	case operators.Equals:
		if left.Kind() == ast.LiteralKind {
			left, right = right, left
		}
		return left, []ast.Expr{right}, true
	case operators.In:
		if right.Kind() == ast.ListKind {
			return left, right.AsList().Elements(), true
		}
		return right, []ast.Expr{left}, left.Kind() == ast.LiteralKind
	}
	return nil, nil, false
}

// literals returns the values of expressions that are constant strings; false if there are none, or if one is something else.
func literals(list []ast.Expr) (out []string, ok bool) {
	for _, e := range list {
		text, constant := literal(e)
		if !constant {
			return nil, false
		}
		out = append(out, text)
	}
	return out, len(out) > 0
}

// keyedField returns "labels" or "annotations" if an expression is the map of that name in the metadata of the object, or a member of it.
// length is the number of names in the path of the expression: 2 for the map, and 3 for a member. It returns "" for other expressions.
func keyedField(e ast.Expr, length int) string {
	path := pathOf(e)
	if len(path) != length || !slices.ContainsFunc(mapFields, func(m []string) bool { return slices.Equal(m, path[:2]) }) {
		return ""
	}
	return path[1]
}

// pathOf returns the path of the field of the object that an expression is, such as [metadata name] for object.metadata.name. Optional
// fields count like others, also with .orValue({}). It returns nil for other expressions, and for the object itself.
func pathOf(e ast.Expr) []string {
	operand, name := e, ""
	switch call := e.AsCall(); {
	case e.Kind() == ast.SelectKind && !e.AsSelect().IsTestOnly():
		operand, name = e.AsSelect().Operand(), e.AsSelect().FieldName()
	case isMember(e, "orValue") && call.Args()[0].Kind() == ast.MapKind && call.Args()[0].AsMap().Size() == 0:
		return pathOf(call.Target())
	case e.Kind() == ast.CallKind && len(call.Args()) == 2 && slices.Contains(selectors, call.FunctionName()):
		operand = call.Args()[0]
		name, _ = literal(call.Args()[1])
	}
	if name == "" {
		return nil
	}
	if path := pathOf(operand); path != nil || operand.Kind() == ast.IdentKind && operand.AsIdent() == objectVariable {
		return append(path, name)
	}
	return nil
}

// isMember reports whether an expression is a call of a function of that name on a value, with one argument.
func isMember(e ast.Expr, function string) bool {
	return e.Kind() == ast.CallKind && e.AsCall().IsMemberFunction() && e.AsCall().FunctionName() == function && len(e.AsCall().Args()) == 1
}
