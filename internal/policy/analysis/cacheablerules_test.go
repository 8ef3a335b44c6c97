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

package analysis_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// TestCacheableRules checks which rules are cacheable, and which fields of the input each of them reads.
func TestCacheableRules(t *testing.T) {
	const id = `labels := {"id": input.id}
`
	tests := map[string]struct {
		text string
		want map[string]string
	}{
		"OfData":   {text: id + `errors contains n if data.kubernetes.nodes[n]`, want: map[string]string{"errors": ""}},
		"OfALevel": {text: id + `errors contains n if data.kubernetes.nodes[n].level > input.level`, want: map[string]string{"errors": ".level.**"}},
		"OfAllOfIt": {
			text: "errors contains n if data.kubernetes.nodes[n].level > input.level",
			want: map[string]string{},
		},
		"ThroughOthers": {
			text: id + `a := input.a
b contains x if { x := a.b; input.c }
errors contains x if some x in b`,
			// The other rules read only a part of the value of a, but the cache for a has all of it.
			want: map[string]string{"a": ".a.**", "b": ".a.b.** .c", "errors": ".a.b.** .c"},
		},
		"ThroughFunctions": {
			text: id + `f(o) := o.a
g(o) := f(o.b)
x := f(input)
y := g(input)
errors contains "x" if x == y`,
			want: map[string]string{"x": ".a.**", "y": ".b.a.**", "errors": ".a.** .b.a.**"},
		},
		// The function has already been evaluated for the same places.
		"FunctionAgain": {
			text: id + `f(o) := o.a.b
x if f(input) == 1
y if f(input) == 2
errors contains "x" if { x; y }`,
			want: map[string]string{"x": ".a.b.**", "y": ".a.b.**", "errors": ".a.b.**"},
		},
		"FunctionsAreNone": {text: id + `f(o) := o.a
errors contains "x" if f(input)`, want: map[string]string{"errors": ".a"}},
		"Unused": {text: id + "a := input.a", want: map[string]string{}},
		"Overlapping": {text: id + `a.b := input.b
a[x] := 1 if { x := input.c }
errors contains "x" if a.b`, want: map[string]string{"errors": ".b.** .c.**"}},
		"Whole": {text: id + `a if input == {}
errors contains "x" if a
b := input.b
warnings contains "y" if b`, want: map[string]string{"labels": ".id.**", "b": ".b.**", "warnings": ".b"}},
		"UnderOtherInput": {
			text: id + `a := input.a
b := x if x := a with input as {"a": input.b}
errors contains "x" if { a; b }`,
			want: map[string]string{"a": ".a.**", "b": ".a.** .b.**", "errors": ".a.** .b.**"},
		},
		"OfThePath": {
			text: id + `object_path := input.a
x := object_path
y contains n if { some n in data.kubernetes.nodes; n.b == x }
z := input.b
errors contains z if y`,
			want: map[string]string{"z": ".b.**"},
		},
		"Mocked": {text: id + `f(x) := x.a
g(x) := x.b
errors contains "x" if f(input.c) with f as g`, want: map[string]string{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := compileFor(placementv1.RegoV1, "package p\n"+tc.text)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, h := range m.CacheableRules {
				got[strings.TrimPrefix(h.Ref.String(), "data.p.")] = strings.Join(h.Input.Paths(), " ")
			}
			if name != "Whole" {
				delete(got, "labels")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("helpers (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInputWithoutPath checks which fields the rules read apart from the object's path.
func TestInputWithoutPath(t *testing.T) {
	const path = `object_path := concat("/", [input.kind, name])
name := input.metadata.name
`
	for name, tc := range map[string]struct {
		text string
		want string
		none bool
	}{
		"None":   {text: `labels := {"id": input.id}`, none: true},
		"Unused": {text: path + `labels := {"id": input.id}`, none: true},
		"Alone":  {text: path + "errors contains object_path", want: ""},
		"Others": {text: path + `errors contains object_path
labels := {"id": input.id}`, want: ".id.**"},
		"Shared": {text: path + `errors contains object_path
warnings contains name`, want: ".metadata.name.**"},
		"Above": {text: path + `errors contains object_path
warnings contains input.metadata`, want: ".metadata.**"},
		"Everyone": {text: path + `errors contains object_path
warnings contains "x" if input == {}`, want: ".**"},
		"Functions": {text: path + `errors contains object_path
f(o) := o.a
warnings contains f(input)`, want: ".a.**"},
		"Overlap": {text: `object_path.a := input.a
object_path[x] := 1 if { x := input.b }
errors contains "x" if object_path.a`, none: true},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := compileFor(placementv1.RegoV1, "package p\n"+tc.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.InputWithoutPath; (got == nil) != tc.none || got != nil && strings.Join(got.Paths(), " ") != tc.want {
				t.Errorf("got %v, want %q", got, tc.want)
			}
		})
	}
}

func TestCacheableRulesAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString(`package p
labels := {"id": input.id}
r0 := input.a
`)
	before := "r0"
	for i := 1; i < 200; i++ {
		name, field := "r"+strings.Repeat("i", i), string(rune('a'+i%26))+strings.Repeat("x", i/26)
		fmt.Fprintf(&text, `%s := concat("", [%s, input.%s])
`, name, before, field)
		before = name
	}
	fmt.Fprintf(&text, `errors contains "x" if %s == "a"
`, before)
	m, err := compileFor(placementv1.RegoV1, text.String())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(m.CacheableRules); n == 0 || n > 64 {
		t.Errorf("%d helpers", n)
	}
}

// Rules that read data come first, however many rules that read only the input precede them.
func TestCacheableRulesReadData(t *testing.T) {
	for _, tc := range []struct{ data, wantData, wantInput int }{{1, 2, 62}, {80, 81, 0}, {300, 256, 0}} {
		var text strings.Builder
		text.WriteString(`package p
labels := {"id": input.id}
`)
		var used []string
		for i := range 100 {
			fmt.Fprintf(&text, "input_%d := input.a\n", i)
			used = append(used, fmt.Sprintf("input_%d", i))
		}
		for i := range tc.data {
			fmt.Fprintf(&text, "data_%d contains n if some n in data.kubernetes.nodes\n", i)
			used = append(used, fmt.Sprintf("data_%d", i))
		}
		// This one reads data, too.
		for names := range slices.Chunk(used, 50) {
			fmt.Fprintf(&text, `errors contains "b" if { %s }
`, strings.Join(names, "; "))
		}
		m, err := compileFor(placementv1.RegoV1, text.String())
		if err != nil {
			t.Fatal(err)
		}
		data, input := 0, 0
		for _, h := range m.CacheableRules {
			if name := strings.TrimPrefix(h.Ref.String(), "data.p."); strings.HasPrefix(name, "data_") || name == "errors" {
				data++
			} else {
				input++
			}
		}
		if data != tc.wantData || input != tc.wantInput {
			t.Errorf("%d rules that read data, and %d that do not, want %d and %d", data, input, tc.wantData, tc.wantInput)
		}
	}
}
