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
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/celexpression"
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

func TestFields(t *testing.T) {
	tests := map[string]struct {
		expression string
		want       []string
	}{
		"None":     {"1 == 1", nil},
		"Selected": {"object.spec.replicas > 2 && has(object.metadata.labels)", []string{"metadata", "spec"}},
		"Has":      {"has(object.status)", []string{"status"}},
		"Index":    {"object['spec']['replicas'] > 2", []string{"spec"}},
		"Optional": {"object.?spec.?paused.orValue(false) || object[?'data'].hasValue()", []string{"data", "spec"}},
		"Itself":   {"object == object", nil},
		"Iterated": {"object.all(k, k != 'spec') && has(object.spec)", nil},
		"Computed": {"object['a' + 'b'] == 1", nil},
		"Invalid":  {"object.", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, celexpression.Fields(tc.expression)); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
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
