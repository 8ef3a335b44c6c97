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
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/internal/pattern"
	"github.com/berth-dev/berth/internal/policy/language"
)

// checkContradictions adds warnings on pairs of expressions in one body that compare the same term with constants and cannot both be true.
// The author has probably confused AND with OR.
func (r *Report) checkContradictions(rule *ast.Rule, n *names) {
	ast.WalkBodies(rule, func(body ast.Body) bool {
		known := map[string][]comparison{}
		for _, expr := range body {
			c, ok := n.comparison(expr)
			if !ok || len(known[c.subject]) == maxComparisons {
				continue
			}
			if i := slices.IndexFunc(known[c.subject], c.contradicts); i >= 0 {
				other := known[c.subject][i]
				r.warnAt(expr.Location, fmt.Sprintf("%s and %s are never true together: expressions of one body are joined by AND. For OR, %s",
					source(other.expr), source(expr), other.alternative(c)))
				known[c.subject] = nil
				continue
			}
			known[c.subject] = append(known[c.subject], c)
		}
		return false
	})
}

// maxComparisons limits how many comparisons of one term are checked against each other.
const maxComparisons = 16

// comparison is an expression that compares a term with a constant, or with the members of a constant collection.
type comparison struct {
	// subject identifies the term: equal subjects in one body have equal values.
	subject string
	// operator is the operator with the term on the left: eq, neq, lt, lte, gt, gte, or internal.member_2.
	operator string
	// values has the constant or, for internal.member_2, the members of the constant set or array.
	values []*ast.Term
	expr   *ast.Expr // the expression itself
}

// mirrored maps the name of each comparison operator to that of the operator with the same meaning after the operands are swapped, such as
// that of < to that of >. Both = and == are mapped to =.
var mirrored = map[string]string{
	ast.Equality.Name: ast.Equality.Name, ast.Equal.Name: ast.Equality.Name, ast.NotEqual.Name: ast.NotEqual.Name,
	ast.LessThan.Name: ast.GreaterThan.Name, ast.LessThanEq.Name: ast.GreaterThanEq.Name,
	ast.GreaterThan.Name: ast.LessThan.Name, ast.GreaterThanEq.Name: ast.LessThanEq.Name,
}

// comparison converts an expression, such as x == 1, 1 < x, or x in {1, 2}, to a comparison of a term with a constant, or with the members
// of a constant set or array on the right of `in`. The result ok is false for other expressions, for those with `not` or `with`, for a
// collection that is empty or has more than maxMembers members, and for a term that may have several values in one solution, such as xs[_].
func (n *names) comparison(expr *ast.Expr) (c comparison, ok bool) {
	if expr.Negated || len(expr.With) > 0 || !expr.IsCall() || len(expr.Operands()) != 2 {
		return c, false
	}
	operator, left, right := expr.Operator().String(), expr.Operand(0), n.resolve(expr.Operand(1))
	c = comparison{operator: operator, expr: expr}
	if operator == ast.Member.Name {
		c.values = fewMembers(right)
	} else if flipped, known := mirrored[operator]; known {
		if ast.IsConstant(right.Value) {
			c.operator = mirrored[flipped]
		} else {
			c.operator = flipped
			left, right = right, n.resolve(left)
		}
		c.values = []*ast.Term{right}
	}
	if len(c.values) == 0 || slices.ContainsFunc(c.values, func(t *ast.Term) bool { return !ast.IsConstant(t.Value) }) {
		return c, false
	}
	resolved := n.resolve(left)
	if c.subject = n.subject(resolved); c.subject == "" {
		c.subject = n.subject(left)
	}
	return c, c.subject != ""
}

// subject returns the text of a term, which identifies its value in a body. It returns "" for constants, and for terms that may have
// several values in one solution of a body, as those with wildcards do. It does not replace names by what they denote.
func (n *names) subject(term *ast.Term) string {
	text, known := n.subjects[term]
	if !known {
		if single(term) && !ast.IsConstant(term.Value) {
			text = term.String()
		}
		n.subjects[term] = text
	}
	return text
}

// maxMembers limits the size of the constant collections that are examined.
const maxMembers = 64

// fewMembers returns the members of a set or an array. It returns nil for other terms, and for more than maxMembers
// members.
func fewMembers(collection *ast.Term) []*ast.Term {
	all := members(collection)
	if len(all) > maxMembers {
		return nil
	}
	return all
}

// members returns the members of a set or an array; nil for other terms.
func members(collection *ast.Term) (out []*ast.Term) {
	switch c := collection.Value.(type) {
	case ast.Set:
		return c.Slice()
	case *ast.Array:
		c.Foreach(func(t *ast.Term) { out = append(out, t) })
	}
	return out
}

// single reports whether a term has only one value in each solution of a body, even if it is written several times. Terms with named
// variables have, since these are bound in a solution. It is false for terms with wildcards, comprehensions, calls of the policy's
// functions, or calls of builtin functions that are relations.
func single(term *ast.Term) bool {
	ok := true
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
			ok = false
		case ast.Var:
			ok = ok && !x.IsWildcard()
		case ast.Call:
			function, known := ast.BuiltinMap[x[0].String()]
			ok = ok && known && !function.Relation
		}
		return !ok
	}).Walk(term)
	return ok
}

// contradicts reports whether no value satisfies both comparisons, which must have the same subject: for example x == 1 and x in {2, 3}, x
// == 1 and x != 1, or x > 2 and x < 1.
func (c comparison) contradicts(other comparison) bool {
	for _, pair := range [][2]comparison{{c, other}, {other, c}} {
		x, y := pair[0], pair[1]
		if x.operator == ast.Equality.Name || x.operator == ast.Member.Name {
			return !slices.ContainsFunc(x.values, y.holds)
		}
		if x.isLower() && y.isUpper() {
			order := x.values[0].Value.Compare(y.values[0].Value)
			return order > 0 || order == 0 && (x.operator == ast.GreaterThan.Name || y.operator == ast.LessThan.Name)
		}
	}
	return false
}

// isLower reports whether the comparison is > or >=, with the subject on the left.
func (c comparison) isLower() bool {
	return c.operator == ast.GreaterThan.Name || c.operator == ast.GreaterThanEq.Name
}

// isUpper reports whether the comparison is < or <=, with the subject on the left.
func (c comparison) isUpper() bool {
	return c.operator == ast.LessThan.Name || c.operator == ast.LessThanEq.Name
}

// holds reports whether the comparison is true for a value. Rego defines an order over values of all types.
func (c comparison) holds(value *ast.Term) bool {
	order := value.Value.Compare(c.values[0].Value)
	switch c.operator {
	case ast.NotEqual.Name:
		return order != 0
	case ast.LessThan.Name:
		return order < 0
	case ast.LessThanEq.Name:
		return order <= 0
	case ast.GreaterThan.Name:
		return order > 0
	case ast.GreaterThanEq.Name:
		return order >= 0
	default:
		return slices.ContainsFunc(c.values, func(t *ast.Term) bool { return t.Equal(value) })
	}
}

// alternative returns a suggestion what to write in place of two contradicting comparisons with one subject: "write x in {1, 2}" if both
// are equalities and that text is short; otherwise "write a rule for each". It is never empty.
func (c comparison) alternative(other comparison) string {
	if c.operator == ast.Equality.Name && other.operator == ast.Equality.Name {
		if text := fmt.Sprintf("write %s in {%s, %s}", c.subject, c.values[0], other.values[0]); len(text) <= 2*maxSource {
			return text
		}
	}
	return "write a rule for each"
}

// maxSource limits the text of an expression in a message, in bytes.
const maxSource = 80

// source returns an expression as its author wrote it. It returns OPA's rendering if the original is missing or too
// long.
func source(expr *ast.Expr) string {
	if text := string(expr.Location.Text); text != "" && len(text) <= maxSource {
		return text
	}
	return expr.String()
}

// checkComparisons warns about single calls and comparisons in a rule that are probably mistakes: swapped arguments, a glob as a regular
// expression, the result of lower or upper compared with letters of the other case, a wildcard or an impossible namespace compared with a
// name, and a size in bytes compared with a small number.
func (r *Report) checkComparisons(rule *ast.Rule, n *names) {
	eachCall(rule, func(c funcCall) {
		if len(c.operands) != 2 {
			return
		}
		left, right := n.resolve(c.operands[0]), n.resolve(c.operands[1])
		for _, message := range []string{swapped(c, right), inPattern(c, left, right)} {
			if message != "" {
				r.warnAt(c.at, message)
			}
		}
		if _, ordered := mirrored[c.operator]; ordered && ast.IsConstant(left.Value) {
			left, right = right, left
		}
		for _, message := range []string{inOneCase(c, left, right), ofNames(c, left, right), n.inBytes(c, left, right)} {
			if message != "" {
				r.warnAt(c.at, message)
			}
		}
	})
}

// swapped returns a warning if the first argument of startswith or endswith is a constant and the second one is not; otherwise "".
func swapped(c funcCall, second *ast.Term) string {
	if c.operator != ast.StartsWith.Name && c.operator != ast.EndsWith.Name {
		return ""
	}
	if _, ok := c.operands[0].Value.(ast.String); !ok || ast.IsConstant(second.Value) {
		return ""
	}
	what := "begins"
	if c.operator == ast.EndsWith.Name {
		what = "ends"
	}
	return fmt.Sprintf("%s(%s, %s) is true if the constant %s %s with the other argument. The function examines its first argument: "+
		"did you mean %s(%s, %s)?",
		c.operator, c.operands[0], c.operands[1], c.operands[0], what, c.operator, c.operands[1], c.operands[0])
}

// inPattern returns a warning about the first argument of regex.match, which is the regular expression: if it is a value of the object,
// while the second one is a constant that looks like a regular expression, or if it is a glob; otherwise "".
func inPattern(c funcCall, expression, text *ast.Term) string {
	if c.operator != ast.RegexMatch.Name {
		return ""
	}
	constant, isText := text.Value.(ast.String)
	if ref, ok := expression.Value.(ast.Ref); ok && ref.HasPrefix(ast.InputRootRef) && isText &&
		strings.ContainsAny(string(constant), `^$*+?()[]{}|\`) {
		return fmt.Sprintf("the first argument of regex.match is the regular expression: did you mean regex.match(%s, %s)?",
			brief(c.operands[1]), brief(c.operands[0]))
	}
	glob, ok := expression.Value.(ast.String)
	if !ok || len(glob) > maxCompared || !pattern.IsGlob(string(glob)) {
		return ""
	}
	return fmt.Sprintf("%s is a regular expression, which matches wherever a text has %q: write startswith(%s, %q)",
		glob, string(glob[:len(glob)-2]), brief(c.operands[1]), string(glob[:len(glob)-1]))
}

// maxCompared is the maximum length, in bytes, of the constants that checkComparisons examines, for example for wildcards and letters of
// the wrong case. No name of an object is longer.
const maxCompared = 253

// compared returns the constant strings with which an operator compares its other operand: constant, or its members for `in`. It returns
// none for operators other than =, ==, !=, `in`, startswith, endswith, and contains, and leaves out strings of more than maxCompared bytes.
// The result whole reports whether the operator compares all of the operand, as the first four do; the others search the operand.
func compared(operator string, constant *ast.Term) (values []string, whole bool) {
	terms := []*ast.Term{constant}
	switch operator {
	case ast.Equality.Name, ast.Equal.Name, ast.NotEqual.Name:
		whole = true
	case ast.Member.Name:
		terms, whole = fewMembers(constant), true
	case ast.StartsWith.Name, ast.EndsWith.Name, ast.Contains.Name:
	default:
		return nil, false
	}
	for _, term := range terms {
		if text, ok := term.Value.(ast.String); ok && len(text) <= maxCompared {
			values = append(values, string(text))
		}
	}
	return values, whole
}

// inOneCase returns a warning if lower(x) is compared with a constant that has upper-case letters, or upper(x) with one
// that has lower-case letters; otherwise "".
func inOneCase(c funcCall, subject, constant *ast.Term) string {
	function, ok := subject.Value.(ast.Call)
	if !ok {
		return ""
	}
	convert, letters := strings.ToLower, "lower-case"
	switch function[0].String() {
	case ast.Lower.Name:
	case ast.Upper.Name:
		convert, letters = strings.ToUpper, "upper-case"
	default:
		return ""
	}
	values, whole := compared(c.operator, constant)
	for _, value := range values {
		if meant := convert(value); meant != value && !slices.Contains(values, meant) {
			relation := "never equals"
			if !whole {
				relation = "never contains"
			}
			return fmt.Sprintf("%s has only %s letters, so that it %s %q: write %q", brief(subject), letters, relation, value, meant)
		}
	}
	return ""
}

// brief returns the text of a term, for messages. Of a text of more than maxSource bytes, it returns the beginning and "...".
func brief(term *ast.Term) string {
	text := term.String()
	if len(text) > maxSource {
		text = strings.ToValidUTF8(text[:maxSource], "") + "..."
	}
	return text
}

// ofNames returns a warning if input.metadata.name or input.metadata.namespace is compared with a constant that contains the wildcard *, or
// if input.metadata.namespace is compared by ==, !=, or `in` with a text that no namespace can be named; otherwise "".
func ofNames(c funcCall, subject, constant *ast.Term) string {
	ref, ok := subject.Value.(ast.Ref)
	if !ok || len(ref) != 3 || !ref.HasPrefix(ast.InputRootRef) {
		return ""
	}
	field, _ := language.Part(ref, 2)
	if metadata, _ := language.Part(ref, 1); metadata != "metadata" || field != "namespace" && field != "name" {
		return ""
	}
	values, whole := compared(c.operator, constant)
	for _, value := range values {
		if strings.Contains(value, "*") {
			return fmt.Sprintf("%s is never %q: comparisons don't know wildcards. Write %s", ref, value, withoutWildcard(ref, value))
		}
		if reasons := validation.IsDNS1123Label(value); whole && field == "namespace" && value != "" && len(reasons) > 0 {
			return fmt.Sprintf("%s is never %q: no namespace has this name: %s", ref, value, reasons[0])
		}
	}
	return ""
}

// withoutWildcard returns the expression that replaces a comparison of a reference with a pattern that has wildcards: startswith if the
// only ones end it, endswith if the only one begins it, or glob.match.
func withoutWildcard(ref ast.Ref, pattern string) string {
	if prefix := strings.TrimSuffix(pattern, "*"); prefix != "" && !strings.Contains(prefix, "*") {
		return fmt.Sprintf("startswith(%s, %q)", ref, prefix)
	}
	if suffix := strings.TrimPrefix(pattern, "*"); suffix != "" && !strings.Contains(suffix, "*") {
		return fmt.Sprintf("endswith(%s, %q)", ref, suffix)
	}
	return fmt.Sprintf("glob.match(%q, [], %s)", pattern, ref)
}

// maxFewBytes is the number below which a constant that is compared with a size in bytes is probably in another unit, such as GiB.
const maxFewBytes = 1024

// inBytes returns a warning if a size in bytes, such as a result of units.parse_bytes, is compared with a positive number below
// maxFewBytes, which is probably in another unit; otherwise "".
func (n *names) inBytes(c funcCall, subject, constant *ast.Term) string {
	if _, ordered := mirrored[c.operator]; !ordered || !n.isBytes(subject) {
		return ""
	}
	number, ok := constant.Value.(ast.Number)
	if !ok || len(number) > maxCompared {
		return ""
	}
	if bytes, err := json.Number(number).Float64(); err != nil || bytes <= 0 || bytes >= maxFewBytes {
		return ""
	}
	return fmt.Sprintf("%s gives bytes, and %s is %s bytes: write a quantity with its unit, as in %s(\"%sGi\")",
		ast.UnitsParseBytes.Name, number, number, ast.UnitsParseBytes.Name, number)
}

// isBytes reports whether a term is a call of units.parse_bytes, or a call of the function sum, max, or min on an array or set
// comprehension of such calls. It returns false for other terms, also for a + b.
func (n *names) isBytes(term *ast.Term) bool {
	function, ok := term.Value.(ast.Call)
	if !ok || len(function) != 2 {
		return false
	}
	switch function[0].String() {
	case ast.UnitsParseBytes.Name:
		return true
	case ast.Sum.Name, ast.Max.Name, ast.Min.Name:
		var member *ast.Term
		switch values := n.resolve(function[1]).Value.(type) {
		case *ast.ArrayComprehension:
			member = values.Term
		case *ast.SetComprehension:
			member = values.Term
		default:
			return false
		}
		call, ok := n.resolve(member).Value.(ast.Call)
		return ok && call[0].String() == ast.UnitsParseBytes.Name
	}
	return false
}
