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
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/test/budget"
)

const scalingModule = `package scaling

scaled := k8s.scale(input.values, input.lowest, input.highest)
`

// TestScale verifies that values become integers in proportion.
func TestScale(t *testing.T) {
	rules := newChoosing(t, scalingModule, "scaled")
	for name, test := range map[string]struct {
		values          map[string]any
		lowest, highest int64
		want            map[string]string
	}{
		"most":        {map[string]any{"a": json.Number("1"), "b": json.Number("1.5"), "c": json.Number("4")}, 0, 100, map[string]string{"a": "0", "b": "16", "c": "100"}},
		"least":       {map[string]any{"a": json.Number("1"), "b": json.Number("1.5"), "c": json.Number("4")}, 100, 0, map[string]string{"a": "100", "b": "83", "c": "0"}},
		"quantities":  {map[string]any{"a": "500m", "b": json.Number("1"), "c": "1.5"}, 0, 10, map[string]string{"a": "0", "b": "5", "c": "10"}},
		"equal":       {map[string]any{"a": "1Gi", "b": "1024Mi"}, 7, 0, map[string]string{"a": "7", "b": "7"}},
		"negative":    {map[string]any{"a": json.Number("-3"), "b": json.Number("0"), "c": json.Number("3")}, -10, 10, map[string]string{"a": "-10", "b": "0", "c": "10"}},
		"exact":       {map[string]any{"a": "9007199254740992", "b": "9007199254740993", "c": "9007199254740994"}, 0, 2, map[string]string{"a": "0", "b": "1", "c": "2"}},
		"no value":    {map[string]any{}, 0, 100, map[string]string{}},
		"one integer": {map[string]any{"a": json.Number("1"), "b": json.Number("2")}, 5, 5, map[string]string{"a": "5", "b": "5"}},
		"one value":   {map[string]any{"a": json.Number("-1")}, 0, 60, map[string]string{"a": "60"}},
		"nearly best": {map[string]any{"a": "0", "b": "99999999999", "c": "100G"}, 0, 100, map[string]string{"a": "0", "b": "99", "c": "100"}},
		"thirds":      {map[string]any{"a": json.Number("0"), "b": json.Number("1"), "c": json.Number("2"), "d": json.Number("3")}, 100, 0, map[string]string{"a": "100", "b": "66", "c": "33", "d": "0"}},
		"tiny":        {map[string]any{"a": json.Number("0.1"), "b": json.Number("0.2"), "c": json.Number("0.3")}, 0, 2, map[string]string{"a": "0", "b": "1", "c": "2"}},
		"floats":      {map[string]any{"a": json.Number("-1.7976931348623157e+308"), "b": json.Number("5e-324"), "c": json.Number("1.7976931348623157e+308")}, 0, 10, map[string]string{"a": "0", "b": "5", "c": "10"}},
		"exponents":   {map[string]any{"a": "1e3", "b": "2k", "c": "3000"}, 0, 10, map[string]string{"a": "0", "b": "5", "c": "10"}},
		"extremes":    {map[string]any{"a": json.Number("0"), "b": json.Number("1")}, -1 << 53, 1 << 53, map[string]string{"a": "-9007199254740992", "b": "9007199254740992"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rules.Evaluate(t.Context(), map[string]any{"values": test.values, "lowest": test.lowest, "highest": test.highest})
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]any{}
			for name, n := range test.want {
				want[name] = json.Number(n)
			}
			if diff := cmp.Diff(map[string]any{"scaled": want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNoScale verifies that operands which are not valid end the evaluation.
func TestNoScale(t *testing.T) {
	rules := newChoosing(t, scalingModule, "scaled")
	for name, change := range map[string]map[string]any{
		"Values":  {"values": []any{int64(1)}},
		"Text":    {"values": map[string]any{"a": "much"}},
		"Lowest":  {"lowest": "0"},
		"Highest": {"highest": json.Number("0.5")},
		"Above":   {"highest": int64(1)<<53 + 1},
		"Below":   {"lowest": -int64(1)<<53 - 1},
		"Unit":    {"values": map[string]any{"a": "1e999999"}},
		"Member":  {"values": map[string]any{"a": true}},
	} {
		t.Run(name, func(t *testing.T) {
			input := map[string]any{"values": map[string]any{"a": int64(1)}, "lowest": int64(0), "highest": int64(1)}
			maps.Copy(input, change)
			if got, err := rules.Evaluate(t.Context(), input); err == nil || !strings.Contains(err.Error(), "k8s.scale: ") {
				t.Errorf("%v %v, want an error of the function", got, err)
			}
		})
	}
}

// TestScaleIsMonotonic verifies for random values that a better value never becomes less, and that the ends become the ends.
func TestScaleIsMonotonic(t *testing.T) {
	rules := newChoosing(t, scalingModule, "scaled")
	random := rand.New(rand.NewPCG(1, 0))
	for range budget.Rounds(200) {
		values := map[string]any{}
		numbers := map[string]int64{}
		for i := range 1 + random.IntN(20) {
			name := fmt.Sprint("c", i)
			numbers[name] = random.Int64N(50) - 25
			values[name] = numbers[name]
		}
		lowest, highest := random.Int64N(101), random.Int64N(101)
		got, err := rules.Evaluate(t.Context(), map[string]any{"values": values, "lowest": lowest, "highest": highest})
		if err != nil {
			t.Fatal(err)
		}
		scaled, _ := got["scaled"].(map[string]any)
		least, greatest := slices.Min(slices.Collect(maps.Values(numbers))), slices.Max(slices.Collect(maps.Values(numbers)))
		for a, x := range numbers {
			n, _ := scaled[a].(json.Number).Int64()
			switch {
			case least == greatest && n != max(lowest, highest), least != greatest && x == least && n != lowest, least != greatest && x == greatest && n != highest:
				t.Fatalf("%d of %v becomes %d, from %d to %d", x, numbers, n, lowest, highest)
			}
			for b, y := range numbers {
				m, _ := scaled[b].(json.Number).Int64()
				if x < y && (lowest < highest && n > m || lowest > highest && n < m) || x == y && n != m {
					t.Fatalf("%d becomes %d and %d becomes %d, from %d to %d", x, n, y, m, lowest, highest)
				}
			}
		}
	}
}
