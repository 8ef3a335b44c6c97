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

package celexpression_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/celexpression"
	"github.com/berth-dev/berth/test/budget"
)

func TestEvaluate(t *testing.T) {
	object := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
		"spec":     map[string]any{"replicas": int64(3), "ratio": 0.5, "names": []any{"a", "b"}, "none": nil},
	}
	tests := map[string]struct {
		expression string
		want       bool
		err        string
	}{
		"Number":       {expression: "object.spec.replicas > 2", want: true},
		"Float":        {expression: "object.spec.ratio < 0.6", want: true},
		"List":         {expression: "object.spec.names.exists(n, n == 'c')"},
		"Null":         {expression: "object.spec.none == null", want: true},
		"Absent":       {expression: "has(object.spec.paused)"},
		"Optional":     {expression: "object.?spec.?paused.orValue(true)", want: true},
		"Quantity":     {expression: "quantity('1Gi').isGreaterThan(quantity('1M'))", want: true},
		"MissingValue": {expression: "object.spec[object.metadata.labels.app] == 1", err: "no such key: test with has()"},
		"MissingField": {expression: "object.spec.paused", err: "no such key: paused: test with has() whether the object has the field"},
		"NoBoolean":    {expression: "object.spec.replicas", err: "must be a boolean, is int"},
		"Type":         {expression: "'a'", err: "must be a boolean, is string"},
		"Syntax":       {expression: "object.", err: "Syntax error"},
		"Cost": {
			expression: "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, " +
				"[1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, object.spec.replicas + a + b + c + d + e + f > 0))))))",
			err: "cost",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			// The second evaluation finds the compiled expression.
			for range 2 {
				got, err := celexpression.Evaluate(t.Context(), tc.expression, object)
				if err != nil && strings.Contains(err.Error(), ": web") {
					t.Errorf("the error has a value of the object: %v", err)
				}
				if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%v, %v, want %v, %q", got, err, tc.want, tc.err)
				}
			}
		})
	}
}

// TestFields checks which fields an expression is said to read.
func TestFields(t *testing.T) {
	tests := map[string]struct {
		expression string
		want       []string
	}{
		"None":           {"1 == 1", nil},
		"Selected":       {"object.spec.replicas > 2", []string{".spec.replicas.**"}},
		"Name":           {"object.metadata.name.startsWith('s')", []string{".metadata.name.**"}},
		"Has":            {"has(object.status)", []string{".status"}},
		"HasMember":      {"has(object.metadata.labels.tier)", []string{".metadata.labels.tier"}},
		"HasAndRead":     {"has(object.metadata.labels) && object.metadata.labels['tier'] == 'gold'", []string{".metadata.labels.tier.**"}},
		"Index":          {"object['spec']['replicas'] > 2", []string{".spec.replicas.**"}},
		"Optional":       {"object.?spec.?paused.orValue(false) || object[?'data'].hasValue()", []string{".data.**", ".spec.paused.**"}},
		"Member":         {"'a.b/c' in object.metadata.annotations && 'tier' in object.metadata.labels", []string{`.metadata.annotations["a.b/c"]`, ".metadata.labels.tier"}},
		"MemberOfList":   {"'x' in object.metadata.finalizers", []string{".metadata.finalizers.**"}},
		"MemberOf":       {"object.spec.a in object.metadata.labels", []string{".metadata.labels.**", ".spec.a.**"}},
		"NotTheObject":   {"object.metadata.labels in [{'a': 'b'}]", []string{".metadata.labels.**"}},
		"Items":          {"object.spec.template.spec.containers.all(c, c.image.startsWith('a'))", []string{".spec.template.spec.containers.**"}},
		"Item":           {"object.spec.items[0].name == 'a'", []string{".spec.items.**"}},
		"Key":            {"{'a': 'b'}[object.spec.key] == 'b'", []string{".spec.key.**"}},
		"KeyOfMember":    {"object.spec.map[object.spec.key] == 'b'", []string{".spec.key.**", ".spec.map.**"}},
		"Whole":          {"size(object.spec) > 2 || object.spec.a == 1", []string{".spec.**"}},
		"Twice":          {"object.spec.a == object.spec.b", []string{".spec.a.**", ".spec.b.**"}},
		"InAMacro":       {"[1].exists(x, object.spec.a == x)", []string{".spec.a.**"}},
		"Itself":         {"object == object", []string{".**"}},
		"ItselfAndField": {"object.spec.a == 1 && object != null", []string{".**"}},
		"Iterated":       {"object.all(k, k != 'spec') && has(object.spec)", []string{".**"}},
		"Computed":       {"object['a' + 'b'] == 1", []string{".**"}},
		"ComputedBelow":  {"object.spec['a' + 'b'] == 1", []string{".spec.**"}},
		"Invalid":        {"object.", []string{".**"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, celexpression.Fields(tc.expression).Paths()); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

// expression returns a random expression. Many fail on many objects.
func expression(r *rand.Rand, depth int) string {
	field := func() string {
		out := "object"
		for range 1 + r.IntN(3) {
			name := []string{"a", "b", "metadata", "labels"}[r.IntN(4)]
			out += fmt.Sprintf([]string{".%s", "['%s']", ".%s", ".?%s", "[?'%s']", "[0].%s"}[r.IntN(6)], name)
		}
		return out
	}
	if depth == 0 {
		return fmt.Sprintf([]string{
			"%s == 1", "has(%s.a)", "'a' in %s", "size(%s) > 1", "%s.all(x, x != null)", "%s.orValue(1) == 1", "%s.hasValue()", "%s.a == %[1]s.b",
			"'a' in object.metadata.labels && %s == 'x'", "object.metadata.labels['a'] == %s", "type(%s) == map",
			"[%s].exists(x, x == 1)", "{'a': %s}.a == 1", "dyn(%s) == null", "object.a[%s] == 1", "[1].exists(object, object == %s)", "has(%s.a.b) || true",
		}[r.IntN(17)], field())
	}
	return fmt.Sprintf([]string{"(%s && %s)", "(%s || %s)", "(%s ? true : %s)"}[r.IntN(3)], expression(r, depth-1), expression(r, depth-1))
}

// value returns a random value of an object.
func value(r *rand.Rand, depth int) any {
	switch n := r.IntN(8); {
	case n < 5 && depth > 0:
		out := map[string]any{}
		for _, name := range []string{"a", "b", "metadata", "labels"} {
			if r.IntN(3) > 0 {
				out[name] = value(r, depth-1)
			}
		}
		return out
	case n == 5 && depth > 0:
		return []any{value(r, depth-1), value(r, depth-1)}
	case n == 6:
		return nil
	case n == 7:
		return "x"
	}
	return int64(r.IntN(2))
}

// TestFieldsAreEnough checks that an expression has the same value on an object that has nothing but the fields which it reads.
func TestFieldsAreEnough(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	values := 0
	for range budget.Rounds(400) {
		expression := expression(r, r.IntN(3))
		if celexpression.Check(expression) != nil {
			continue
		}
		fields := celexpression.Fields(expression)
		object := map[string]any{"a": value(r, 3), "b": value(r, 3), "metadata": value(r, 3)}
		if r.IntN(2) == 0 {
			// The API server accepts nothing else.
			object["metadata"] = map[string]any{"labels": map[string]any{"a": "x", "b": "y"}, "a": value(r, 2)}
		} else if celexpression.Fields("'a' in object.metadata.labels").Covers(fields) {
			continue
		}
		whole, err := celexpression.Evaluate(t.Context(), expression, object)
		cut, errOfCut := celexpression.Evaluate(t.Context(), expression, fields.Project(object))
		if whole != cut || fmt.Sprint(err) != fmt.Sprint(errOfCut) {
			t.Fatalf("%s\non %v: %v, %v\non %v: %v, %v", expression, object, whole, err, fields.Project(object), cut, errOfCut)
		}
		if err == nil {
			values++
		}
	}
	if values < 20 {
		t.Errorf("only %d expressions have a value", values)
	}
}

// TestNestedQuantities checks that each call evaluates its operand once. If it was twice, this one would not end.
func TestNestedQuantities(t *testing.T) {
	expression := "object.a"
	for range 30 {
		expression = "(isQuantity(" + expression + ") ? '1' : 'x')"
	}
	if got, err := celexpression.Evaluate(t.Context(), expression+" == '1'", map[string]any{"a": "1"}); err != nil || !got {
		t.Errorf("%t, error %v", got, err)
	}
}

// TestQuantities evaluates values of an object as quantities. Without a bound, some would take forever.
func TestQuantities(t *testing.T) {
	for text, want := range map[string]struct{ is, larger string }{
		"2":                                 {"true", "true"},
		"1e3":                               {"true", "true"},
		"500m":                              {"true", "false"},
		"1Ei":                               {"true", "true"},
		"release":                           {"false", "error"},
		"123456789012345678901e2000000000":  {"false", "error"},
		"123456789012345678901E-2000000000": {"false", "error"},
		"123456789012345678901e+99999999999999999999": {"false", "error"},
	} {
		object := map[string]any{"a": text}
		for expression, want := range map[string]string{"isQuantity(object.a)": want.is, "quantity(object.a).isGreaterThan(quantity('1'))": want.larger} {
			value, err := celexpression.Evaluate(t.Context(), expression, object)
			got := strconv.FormatBool(value)
			if err != nil {
				got = "error"
			}
			if got != want {
				t.Errorf("%s of %q: %s (%v), want %s", expression, text, got, err, want)
			}
		}
	}
}

func TestConstant(t *testing.T) {
	tests := map[string]struct {
		expression      string
		value, constant bool
	}{
		"False":        {"false", false, true},
		"Folded":       {"1 == 1", true, true},
		"And":          {"has(object.spec) && 'a' == 'b'", false, true},
		"Or":           {"true || object.spec.paused", true, true},
		"Conditional":  {"1 > 2 ? object.spec.paused : false", false, true},
		"List":         {"['a', 'b'].exists(x, x == 'c')", false, true},
		"Negated":      {"!has(object.metadata.labels)", false, false},
		"Field":        {"object.spec.replicas > 2", false, false},
		"Optional":     {"object.?spec.?paused.orValue(true)", false, false},
		"Iterated":     {"object.spec.names.all(n, n != 'a')", false, false},
		"Itself":       {"object == object", false, false},
		"Fails":        {"1 / 0 == 1", false, false},
		"OrOfUnknown":  {"object.spec.paused || false", false, false},
		"Invalid":      {"object.", false, false},
		"NotABoolean":  {"'a'", false, false},
		"OtherMembers": {"dyn(1) == object", false, false},
		// Without a bound, the parser takes forever, and nothing interrupts it.
		"HugeExponent":        {"quantity('123456789012345678901e2000000000').isGreaterThan(quantity('1'))", false, false},
		"HugeExponentTested":  {"isQuantity('123456789012345678901e2000000000')", false, true},
		"QuantityFromUnknown": {"quantity(object.spec.size).isGreaterThan(quantity('1'))", false, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if value, constant := celexpression.Constant(t.Context(), tc.expression); value != tc.value || constant != tc.constant {
				t.Errorf("%v, %v, want %v, %v", value, constant, tc.value, tc.constant)
			}
		})
	}
}
