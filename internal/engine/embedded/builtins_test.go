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

package embedded

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/policy"
)

// arithmetic is a module that returns each function's value.
const arithmetic = `package arithmetic

sum := k8s.quantity.add(input.x, input.y)

difference := k8s.quantity.sub(input.x, input.y)

order := k8s.quantity.compare(input.x, input.y)
`

func newArithmetic(t testing.TB) policy.Rules {
	t.Helper()
	module, err := policy.CompileGenerated("arithmetic", arithmetic, []string{"sum", "difference", "order"})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := New(NewData(), Options{}).PrepareGenerated(t.Context(), "arithmetic", module)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestQuantities(t *testing.T) {
	tests := map[string]struct {
		x, y            any
		sum, difference string
		order           int
	}{
		"equal, written otherwise":     {x: "1", y: "1000m", sum: "2", difference: "0", order: 0},
		"numbers":                      {x: json.Number("1"), y: json.Number("2"), sum: "3", difference: "-1", order: -1},
		"a number and a text":          {x: "1500m", y: json.Number("1"), sum: "2500m", difference: "500m", order: 1},
		"a number with a point":        {x: json.Number("0.5"), y: "500m", sum: "1", difference: "0", order: 0},
		"a number with an exponent":    {x: json.Number("1e3"), y: "1k", sum: "2e3", difference: "0", order: 0},
		"the form of the first":        {x: "1Gi", y: "1G", sum: "2073741824", difference: "73741824", order: 1},
		"no binary fraction":           {x: "100m", y: "200m", sum: "300m", difference: "-100m", order: -1},
		"more than a float can tell":   {x: "9007199254740993", y: "9007199254740992", sum: "18014398509481985", difference: "1", order: 1},
		"more than an int64 can hold":  {x: "9223372036854775807", y: "1", sum: "9223372036854775808", difference: "9223372036854775806", order: 1},
		"the smallest part":            {x: "1n", y: "2n", sum: "3n", difference: "-1n", order: -1},
		"below zero":                   {x: "-1", y: "-2", sum: "-3", difference: "1", order: 1},
		"zero, whatever its suffix is": {x: "0", y: "0Gi", sum: "0", difference: "0", order: 0},
	}
	rules := newArithmetic(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := rules.Evaluate(t.Context(), map[string]any{"x": test.x, "y": test.y})
			if err != nil {
				t.Fatal(err)
			}
			if got["sum"] != test.sum || got["difference"] != test.difference || got["order"] != json.Number(fmt.Sprint(test.order)) {
				t.Errorf("%v, want %s, %s, %d", got, test.sum, test.difference, test.order)
			}
		})
	}
}

// TestNoQuantity verifies that a value which is not a quantity is an error. It must not count as zero or make a rule
// undefined, because either could admit an object that the rule should deny.
func TestNoQuantity(t *testing.T) {
	rules := newArithmetic(t)
	for _, bad := range []any{"", "one", "1 Gi", "1gi", "0x10", "1e", "--1", "1,5", "1Gi1", " 1", "NaN", "Inf"} {
		for _, input := range []map[string]any{{"x": bad, "y": "1"}, {"x": "1", "y": bad}} {
			if got, err := rules.Evaluate(t.Context(), input); err == nil || !strings.Contains(err.Error(), "is not a quantity") {
				t.Errorf("%v: %v %v, want an error that says so", input, got, err)
			}
		}
	}
	for _, bad := range []any{nil, true, []any{"1"}, map[string]any{"value": "1"}} {
		if got, err := rules.Evaluate(t.Context(), map[string]any{"x": "1", "y": bad}); err == nil {
			t.Errorf("%v: %v", bad, got)
		}
	}
}

// FuzzQuantities compares the functions with resource.Quantity, and that with exact fractions.
func FuzzQuantities(f *testing.F) {
	for _, seed := range [][2]string{
		{"1", "1000m"}, {"1Gi", "1G"}, {"0", "-1"}, {"9223372036854775807", "9223372036854775807"}, {"1e18", "1n"}, {"1.5Gi", "3Ei"}, {"x", "1"}, {"0.1", "0.2"},
		{"123456789012345678901234567890", "1"}, {"1E", "1e1"}, {"-0", "+0"}, {".5", "5."},
	} {
		f.Add(seed[0], seed[1])
	}
	rules := newArithmetic(f)
	f.Fuzz(func(t *testing.T, x, y string) {
		if len(x) > 64 || len(y) > 64 {
			t.Skip("the API admits no such amounts")
		}
		left, failedLeft := resource.ParseQuantity(x)
		right, failedRight := resource.ParseQuantity(y)
		got, err := rules.Evaluate(t.Context(), map[string]any{"x": x, "y": y})
		if (failedLeft != nil || failedRight != nil) != (err != nil) {
			t.Fatalf("%q, %q: %v, want %v, %v", x, y, err, failedLeft, failedRight)
		}
		if err != nil {
			return
		}
		if want := json.Number(fmt.Sprint(left.Cmp(right))); got["order"] != want {
			t.Errorf("%q, %q: order %v, want %s", x, y, got["order"], want)
		}
		a, b := exact(left), exact(right)
		if want := a.Cmp(b); got["order"] != json.Number(fmt.Sprint(want)) {
			t.Errorf("%q, %q: order %v, exactly %d", x, y, got["order"], want)
		}
		for rule, want := range map[string]*big.Rat{"sum": new(big.Rat).Add(a, b), "difference": new(big.Rat).Sub(a, b)} {
			text, _ := got[rule].(string)
			value, err := resource.ParseQuantity(text)
			if err != nil {
				t.Fatalf("%q, %q: %s is %q: %v", x, y, rule, text, err)
			}
			if exact(value).Cmp(want) != 0 {
				t.Errorf("%q, %q: %s is %s, want %s", x, y, rule, text, want)
			}
		}
	})
}

// exact returns a quantity as a fraction.
func exact(q resource.Quantity) *big.Rat {
	out, _ := new(big.Rat).SetString(q.AsDec().String())
	return out
}
