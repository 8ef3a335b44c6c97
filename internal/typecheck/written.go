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

package typecheck

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/lint"
	"github.com/berth-dev/berth/internal/rules"
)

// written is a comparison as it is written in the policy: its operator and its operands. The zero value stands for an expression that is no
// comparison.
type written struct {
	operator    *ast.Builtin
	left, right *ast.Term
}

// equating has the names of the operators that compare their operands without order: ==, =, and !=.
var equating = []string{ast.Equal.Name, ast.Equality.Name, ast.NotEqual.Name}

// writtenComparisons returns the comparisons in a policy, by position. Of two at one position, as in x < 2 == true, it returns the outer
// one.
func writtenComparisons(source *ast.Module) map[lint.Position]written {
	out := map[lint.Position]written{}
	add := func(operator string, operands []*ast.Term, at *ast.Location) {
		if at == nil || len(operands) != 2 || ordering[operator] == nil && !slices.Contains(equating, operator) {
			return
		}
		if _, outer := out[lint.PositionOf(at)]; !outer {
			out[lint.PositionOf(at)] = written{ast.BuiltinMap[operator], operands[0], operands[1]}
		}
	}
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.Expr:
			if x.IsCall() {
				add(x.Operator().String(), x.Operands(), x.Location)
			}
		case *ast.Term:
			if call, ok := x.Value.(ast.Call); ok {
				add(call[0].String(), call[1:], x.Location)
			}
		}
		return false
	}).Walk(source)
	return out
}

// equates reports whether the operator compares its operands without order.
func (w written) equates() bool {
	return w.operator != nil && slices.Contains(equating, w.operator.Name)
}

// meant returns the expression that the author probably means, if the operands have the types left and right, which differ: the comparison
// with one operand converted or, for a text and an array, `text in array` or its negation; "" if it is not known.
func (w written) meant(left, right types.Type) string {
	turned := !isText(left)
	if w.operator == nil || turned && !isText(right) {
		return ""
	}
	text, other, of := w.left, w.right, right
	if turned {
		text, other, of = w.right, w.left, left
	}
	if w.equates() && describedAs(of, list) && possible(types.Values(of), types.S) {
		meant := fmt.Sprintf("%s in %s", text, other)
		if w.operator.Name == ast.NotEqual.Name {
			meant = "not " + meant
		}
		return meant
	}
	l, r := w.converted(text, other, of)
	if turned {
		l, r = r, l
	}
	return w.with(l, r)
}

// list is the type of arrays of any values.
var list = types.NewArray(nil, types.A)

// maxMeant is the maximum length of a comparison that a message suggests, in bytes.
const maxMeant = 160

// with returns the comparison with other operands; "" if they are empty or too long.
func (w written) with(left, right string) string {
	if text := fmt.Sprintf("%s %s %s", left, w.operator.Infix, right); left != "" && right != "" && len(text) <= maxMeant {
		return text
	}
	return ""
}

// converted returns the texts of two operands, changed so that both have one type. The operand text is a string; other has the type of. It
// converts to or from a number or a boolean, and returns empty texts for other types, and for conversions that make no sense.
func (w written) converted(text, other *ast.Term, of types.Type) (newText, newOther string) {
	constant, isConstant := text.Value.(ast.String)
	isNumber, isBoolean := describedAs(of, types.N), describedAs(of, types.B)
	switch {
	case isConstant && isNumber && rules.Reads(placementv1.ValueTypeNumber, string(constant)),
		isConstant && isBoolean && (constant == "true" || constant == "false"):
		return string(constant), other.String()
	case isConstant || isVersion(text):
		return "", ""
	case w.equates() && (isNumber || isBoolean) && ast.IsConstant(other.Value):
		return text.String(), strconv.Quote(other.String())
	case isNumber:
		return toNumber(text), other.String()
	}
	return "", ""
}

// toNumber returns the expression that reads a text as a number.
func toNumber(text *ast.Term) string { return fmt.Sprintf("%s(%s)", ast.ToNumber.Name, text) }

// Constants of which it is known what they are compared with by order. Whole numbers of four digits or more are years and dates, too, and
// those that begin with a zero have a fixed width; texts compare both as well as numbers do.
var (
	numbers  = regexp.MustCompile(`^(0|[1-9][0-9]{0,2}|(0|[1-9][0-9]*)\.[0-9]+)$`)
	versions = regexp.MustCompile(`^v?[0-9]+\.[0-9]`)
)

// asTexts returns what is wrong with an order comparison (<, <=, >, >=) of a value that may be a string with a string constant that is a
// number or, for a value named like a version, a version: they are compared as texts. It says what to write instead: to_number, or for a
// version a comparison of its numbers. It returns "" for other comparisons. have begins with the types of the operands.
func (w written) asTexts(have []types.Type) string {
	if w.operator == nil || w.equates() || len(have) < 2 {
		return ""
	}
	text, constant, of := w.left, w.right, have[0]
	_, turned := w.left.Value.(ast.String)
	if turned {
		text, constant, of = w.right, w.left, have[1]
	}
	value, ok := constant.Value.(ast.String)
	if !ok || ast.IsConstant(text.Value) || of == nil || !possible(of, types.S) {
		return ""
	}
	switch {
	case isVersion(text) && versions.MatchString(string(value)):
		return fmt.Sprintf(`versions as text, in which "1.9" is greater than "1.10"; compare the numbers in them, `+
			`as in to_number(split(%s, ".")[1])`, text)
	case !numbers.MatchString(string(value)):
		return ""
	}
	left, right := toNumber(text), string(value)
	if turned {
		left, right = right, left
	}
	message := `numbers as text, in which "9" is greater than "10"`
	if meant := w.with(left, right); meant != "" {
		message += fmt.Sprintf("; "+didYouMean+" %s?", meant)
	}
	return message
}

// isVersion reports whether a term is probably the text of a version, and not that of a number: a reference whose last name ends with
// version, regardless of case, such as cluster.version.
func isVersion(t *ast.Term) bool {
	ref, ok := t.Value.(ast.Ref)
	if !ok {
		return false
	}
	name, isName := ref[len(ref)-1].Value.(ast.String)
	return isName && strings.HasSuffix(strings.ToLower(string(name)), "version")
}

// isText reports whether all values of a type are strings.
func isText(t types.Type) bool { return describedAs(t, types.S) }

// describedAs reports whether messages describe two types alike, as all types of objects.
func describedAs(t, other types.Type) bool {
	return policy.DescribeType(t) == policy.DescribeType(other)
}
