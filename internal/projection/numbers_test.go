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

package projection

import (
	"bytes"
	"math"
	"testing"
)

// TestNumbersAreAsInJSON checks that a float is written as in JSON, at any depth, so that all engines see the same
// text.
func TestNumbersAreAsInJSON(t *testing.T) {
	all := &FieldSet{}
	all.AddAll()
	for number, want := range map[float64]string{1e8: "100000000", 1234567.5: "1234567.5", 0.00001: "0.00001", 1e21: "1e+21", 0.5: "0.5", 1: "1"} {
		document := map[string]any{"a": []any{map[string]any{"b": number}}}
		got, err := all.Seal().Value(document)
		if text := `{"a": [{"b": ` + want + `}]}`; err != nil || got.String() != text {
			t.Errorf("%v is %s, %v; want %s", number, got, err, text)
		}
		if document["a"].([]any)[0].(map[string]any)["b"] != number {
			t.Error("the document was changed")
		}
	}
}

// FuzzIntegers checks that the integer and the float of one number have equal keys if and only if their values are
// equal.
func FuzzIntegers(f *testing.F) {
	for _, n := range []int64{0, 1, -1, 1000000, 1 << 53, 1<<53 + 1, 1<<53 + 2, -1 << 53, 1 << 62, math.MaxInt64, math.MinInt64} {
		f.Add(n)
	}
	fields := &FieldSet{}
	fields.AddAll()
	fields.Seal()
	f.Fuzz(func(t *testing.T, n int64) {
		float := float64(n)
		one, err := fields.Value(n)
		if err != nil {
			t.Fatal(err)
		}
		other, err := fields.Value(float)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := fields.AppendKey(nil, n)
		b, _ := fields.AppendKey(nil, float)
		if equal := bytes.Equal(a, b); equal && one.String() != other.String() || !equal && one.String() == other.String() && n <= maxExact && n >= -maxExact {
			t.Errorf("%d is %v as an integer and %v as a float; their keys are equal: %t", n, one, other, equal)
		}
	})
}

// TestNegativeZeroIsNoInteger checks that -0 keeps its sign.
func TestNegativeZeroIsNoInteger(t *testing.T) {
	fields := &FieldSet{}
	fields.AddAll()
	fields.Seal()
	a, _ := fields.AppendKey(nil, int64(0))
	if b, _ := fields.AppendKey(nil, math.Copysign(0, -1)); bytes.Equal(a, b) {
		t.Error("0 and -0 have the same key")
	}
}
