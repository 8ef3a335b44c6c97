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
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/berth-dev/berth/internal/pattern"
)

// Mistakes returns messages about what is probably wrong with an expression, such as a match condition or that of a rule: comparisons that
// do not test what they seem to test, such as one by < with a number in quotes, or by == with a wildcard. It returns none for an expression
// that can't be parsed.
func Mistakes(expression string) []string {
	_, parsed, err := parse(expression, environment.StoredExpressions)
	if err != nil {
		return nil
	}
	m := &mistakes{info: parsed.NativeRep().SourceInfo(), joined: map[int64]bool{}}
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(m.visit))
	return m.texts
}

// mistakes collects messages about what is probably wrong with one expression, each message once.
type mistakes struct {
	info  *ast.SourceInfo // To write parts of the expression as text. A part with a macro such as exists() can't be written.
	texts []string        // The messages.
	// joined has the IDs of the && and || expressions that were already examined, some as parts of a larger one with the same operator.
	joined map[int64]bool
}

// add adds a message unless there is an equal one.
func (m *mistakes) add(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(m.texts, text) {
		m.texts = append(m.texts, text)
	}
}

// source returns the text of a parsed expression. ok is false if it can't be written as CEL, such as one with a macro.
func (m *mistakes) source(e ast.Expr) (text string, ok bool) {
	text, err := parser.Unparse(e, m.info)
	return text, err == nil
}

// visit adds messages about what is probably wrong with one call: of a comparison, of && or ||, or of startsWith, endsWith, or matches. It
// ignores all other expressions.
func (m *mistakes) visit(e ast.Expr) {
	if e.Kind() != ast.CallKind {
		return
	}
	call := e.AsCall()
	args := call.Args()
	if call.IsMemberFunction() {
		args = append([]ast.Expr{call.Target()}, args...)
	}
	if len(args) != 2 {
		return
	}
	switch function := call.FunctionName(); function {
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		m.order(args[0], args[1])
	case operators.Equals, operators.NotEquals, operators.In:
		m.wildcards(args[0], args[1])
	case operators.LogicalOr:
		m.exclusive(e, function, operators.NotEquals, "is always true: each value differs from at least one of the two. To exclude both, join "+
			"the comparisons by &&")
	case operators.LogicalAnd:
		m.exclusive(e, function, operators.Equals, "is always false: no value equals both. To allow either, join the comparisons by ||")
	case "startsWith", "endsWith":
		text, ok := literal(args[0])
		if value, written := m.source(args[1]); ok && written && args[1].Kind() != ast.LiteralKind {
			m.add("%q.%s(%s) tests the constant, and not the value: write %s.%s(%q)", text, function, value, value, function, text)
		}
	case "matches":
		text, ok := literal(args[1])
		if value, written := m.source(args[0]); ok && written && pattern.IsGlob(text) {
			m.add("%q is a regular expression, which matches wherever a text has %q: write %s.startsWith(%q)",
				text, text[:len(text)-2], value, text[:len(text)-1])
		}
	}
}

// amounts matches texts that are numbers or quantities. Whole numbers of four digits or more are years and dates, too, which texts compare
// as well as numbers do.
var amounts = regexp.MustCompile(`^([0-9]{1,3}|[0-9]+\.[0-9]+|[0-9]+(\.[0-9]+)?([KMGTPE]i?|[numk]))$`)

// order adds a message if <, <=, >, or >= compares a value with a number or quantity in quotes, and so as texts.
func (m *mistakes) order(left, right ast.Expr) {
	text, ok := literal(right)
	value := left
	if !ok {
		text, ok = literal(left)
		value = right
	}
	if name, written := m.source(value); ok && written && amounts.MatchString(text) && value.Kind() != ast.LiteralKind {
		m.add("%s is compared with the text %q, and as a text, 10 is less than 2. If the field is a number, write the number without quotes; "+
			"if it is a text, compare quantity(%s).compareTo(quantity(%q)) with 0", name, text, name, text)
	}
}

// invalidName matches a character that no name of a namespace has.
var invalidName = regexp.MustCompile(`[^-a-z0-9]`)

// namespaceOfObject is the expression for the namespace of an object.
const namespaceOfObject = "object.metadata.namespace"

// namespaceVariables are how expressions read the namespace of the object.
var namespaceVariables = []string{namespaceOfObject, "request.namespace"}

// compared returns the source of a value, and the constants that an expression compares it with by ==, !=, or in. name is "" if the value
// can't be written as CEL. constants is nil if no operand, and no member of a list, is a constant text.
func (m *mistakes) compared(left, right ast.Expr) (name string, constants []string) {
	if _, ok := literal(left); ok {
		left, right = right, left
	}
	list := []ast.Expr{right}
	if right.Kind() == ast.ListKind {
		list = right.AsList().Elements()
	}
	for _, e := range list {
		if text, ok := literal(e); ok {
			constants = append(constants, text)
		}
	}
	name, _ = m.source(left)
	return name, constants
}

// wildcards adds a message if ==, !=, or in compares a name, namespace, or label of the object with a text that contains *, such as
// "prod-*", or a namespace with a text that no namespace has as its name: these are never equal.
func (m *mistakes) wildcards(left, right ast.Expr) {
	name, constants := m.compared(left, right)
	if !slices.Contains([]string{"object.metadata.name", namespaceOfObject}, name) && !strings.HasPrefix(name, "object.metadata.labels") {
		return
	}
	const names = "the name of a namespace consists of lower-case letters, digits, and hyphens"
	for _, text := range constants {
		isPattern, own := strings.Contains(text, "*"), strings.ReplaceAll(text, "*", "")
		switch {
		case name == namespaceOfObject && invalidName.MatchString(own) && isPattern:
			m.add("%s is never %q: * stands for itself there. As a pattern, it would match no namespace either, because %s", name, text, names)
		case name == namespaceOfObject && invalidName.MatchString(own):
			m.add("%s is never %q: %s", name, text, names)
		case !isPattern:
		case strings.Index(text, "*") == len(text)-1 && len(text) > 1:
			m.add("%s is never %q, in which * stands for itself: write %s.startsWith(%q)", name, text, name, own)
		case strings.LastIndex(text, "*") == 0 && len(text) > 1:
			m.add("%s is never %q, in which * stands for itself: write %s.endsWith(%q)", name, text, name, own)
		default:
			m.add("%s is never %q, in which * stands for itself: write %s.matches() with a regular expression", name, text, name)
		}
	}
}

// Namespaces returns the names that an expression compares with the namespace of the object or of the request: those that it can select,
// and those that it can exclude. It returns none for an expression that can't be parsed, and knows nothing of parts that are not joined by
// && and ||.
func Namespaces(expression string) (selected, excluded []string) {
	return constantsOf(expression, namespaceVariables...)
}

// TypeNames returns the constants that an expression compares, by ==, !=, or in, with a field of the object that identifies its type, kind
// or apiVersion. It does not tell which of them the expression selects. It knows nothing of parts that are not joined by !, && and ||.
func TypeNames(expression, field string) []string {
	selected, excluded := constantsOf(expression, objectVariable+"."+field)
	return append(selected, excluded...)
}

// constantsOf returns the constants that an expression compares, by ==, !=, or in, with one of the values whose sources are given: those
// that it can select, and those that it can exclude. It returns none for an expression that can't be parsed, and knows nothing of parts
// that are not joined by !, && and ||.
func constantsOf(expression string, sources ...string) (selected, excluded []string) {
	_, parsed, err := parse(expression, environment.StoredExpressions)
	if err != nil {
		return nil, nil
	}
	m := &mistakes{info: parsed.NativeRep().SourceInfo()}
	m.conditions(parsed.NativeRep().Expr(), func(e ast.Expr, selects, _ bool) {
		switch function := e.AsCall().FunctionName(); function {
		case operators.Equals, operators.NotEquals, operators.In:
			name, constants := m.compared(e.AsCall().Args()[0], e.AsCall().Args()[1])
			switch {
			case !slices.Contains(sources, name):
			case selects == (function != operators.NotEquals):
				selected = append(selected, constants...)
			default:
				excluded = append(excluded, constants...)
			}
		}
	})
	return selected, excluded
}

// NameTest is a test of the name of the object's namespace in an expression: startsWith, endsWith, contains, or matches, with a constant.
type NameTest struct {
	function, constant string
}

// phrases say, for each function of a NameTest, what the names have in common for which it is true.
var phrases = map[string]string{"startsWith": "starts with", "endsWith": "ends with", "contains": "contains", "matches": "matches"}

// String describes the names of namespaces that meet the test, as in `starts with "prod-"`.
func (t NameTest) String() string { return fmt.Sprintf("%s %q", phrases[t.function], t.constant) }

// MayMeet reports whether the name of a namespace meets the test. It also returns true if that can't be evaluated, because the constant is
// not a valid regular expression, or too large.
func (t NameTest) MayMeet(name string) bool {
	switch t.function {
	case "startsWith":
		return strings.HasPrefix(name, t.constant)
	case "endsWith":
		return strings.HasSuffix(name, t.constant)
	case "contains":
		return strings.Contains(name, t.constant)
	}
	if pattern.Check(t.constant, pattern.MaxWritten, len(name), false) != nil {
		return true
	}
	re, err := compiledPattern(t.constant)
	return err != nil || re.MatchString(name)
}

// NamespaceTests returns the tests of the namespace of the object without which an expression is false: those that select objects, and that
// are no alternatives to others, which may be for namespaces to come. It returns none for an expression that can't be parsed, and knows
// nothing of parts that are not joined by && and ||.
func NamespaceTests(expression string) []NameTest {
	_, parsed, err := parse(expression, environment.StoredExpressions)
	if err != nil {
		return nil
	}
	m := &mistakes{info: parsed.NativeRep().SourceInfo()}
	var out []NameTest
	m.conditions(parsed.NativeRep().Expr(), func(e ast.Expr, selects, required bool) {
		call := e.AsCall()
		if !selects || !required || !call.IsMemberFunction() || phrases[call.FunctionName()] == "" || len(call.Args()) != 1 {
			return
		}
		constant, ok := literal(call.Args()[0])
		if name, written := m.source(call.Target()); ok && written && slices.Contains(namespaceVariables, name) {
			out = append(out, NameTest{call.FunctionName(), constant})
		}
	})
	return out
}

// conditions calls visit for each call, and each macro such as exists(), in an expression that !, && and || join with others. selects
// reports whether it must be true, and not false, for the whole to be true by it. required reports whether the whole is false otherwise.
func (m *mistakes) conditions(root ast.Expr, visit func(e ast.Expr, selects, required bool)) {
	var collect func(e ast.Expr, selects, required bool)
	collect = func(e ast.Expr, selects, required bool) {
		if e.Kind() == ast.ComprehensionKind {
			visit(e, selects, required)
		}
		if e.Kind() != ast.CallKind {
			return
		}
		switch args := e.AsCall().Args(); e.AsCall().FunctionName() {
		case operators.LogicalNot:
			collect(args[0], !selects, required)
		case operators.LogicalAnd, operators.LogicalOr:
			// The negation of a || b requires both to be false.
			all := (e.AsCall().FunctionName() == operators.LogicalAnd) == selects
			for _, part := range args {
				collect(part, selects, required && all)
			}
		default:
			visit(e, selects, required)
		}
	}
	collect(root, true, true)
}

// exclusive adds a message about an expression such as `a != "x" || a != "y"`, which compares one value with two different texts. join is
// its outer operator and compare its inner one. consequence is the end of the message.
func (m *mistakes) exclusive(e ast.Expr, join, compare, consequence string) {
	if m.joined[e.ID()] {
		return
	}
	compared := map[string]string{}
	var collect func(ast.Expr)
	collect = func(e ast.Expr) {
		if e.Kind() != ast.CallKind || len(e.AsCall().Args()) != 2 {
			return
		}
		args := e.AsCall().Args()
		switch e.AsCall().FunctionName() {
		case join:
			m.joined[e.ID()] = true
			collect(args[0])
			collect(args[1])
		case compare:
			value, constant := args[0], args[1]
			text, ok := literal(constant)
			if !ok {
				value = args[1]
				text, ok = literal(args[0])
			}
			name, written := m.source(value)
			before, found := compared[name]
			switch {
			case !ok || !written || value.Kind() == ast.LiteralKind:
			case found && before != text:
				m.add("%s is compared with %q and %q, which %s", name, before, text, consequence)
			default:
				compared[name] = text
			}
		}
	}
	collect(e)
}
