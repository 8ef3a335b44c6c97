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

package pattern_test

import (
	"math/rand/v2"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/pattern"
	"github.com/berth-dev/berth/test/budget"
)

// TestCheck checks that what policies match with is far below the limits, and that small texts of large expressions are above them.
func TestCheck(t *testing.T) {
	repeat := strings.Repeat
	tests := map[string]struct {
		expression string
		text       int
		all        bool
		unit       string
	}{
		"Name":       {expression: `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`, text: 1 << 19},
		"Subdomain":  {expression: `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`, text: 253, all: true},
		"LongName":   {expression: `^[a-zA-Z0-9]([-_.a-zA-Z0-9]{0,251}[a-zA-Z0-9])?$`, text: 253},
		"Thousand":   {expression: `^.{0,1000}$`, text: 1 << 14},
		"Version":    {expression: `^v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$`, text: 63, all: true},
		"Mail":       {expression: `^[a-zA-Z0-9.!#$%&'*+/=?^_{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`, text: 253},
		"IPv4":       {expression: `^((25[0-5]|(2[0-4]|1\d|[1-9]|)\d)\.?\b){4}$`, text: 253},
		"IPv6":       {expression: ipv6, text: 253},
		"Image":      {expression: `^(registry\.example\.com|quay\.io/example)/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*(:[\w][\w.-]{0,127})?(@sha256:[a-f0-9]{64})?$`, text: 400},
		"Names":      {expression: `^(` + repeat(`some-cluster-name|`, 60) + `other)$`, text: 253},
		"Letters":    {expression: `^[\p{L}\p{N}]+([ _.-][\p{L}\p{N}]+)*$`, text: 253},
		"Invalid":    {expression: `(`, text: 253},
		"Repetition": {expression: `(x{1000})(x{1000})(x{1000})`, unit: "states"},
		"Nested":     {expression: repeat(`(((x{10}){10}){10})`, 3), unit: "states"},
		"Optional":   {expression: `x{0,1000}` + repeat(`y?`, 500), unit: "states"},
		"AtLeast":    {expression: repeat(`(?:x{1000,})`, 3), unit: "states"},
		"Groups":     {expression: repeat(`(x)`, 300), unit: "states"},
		"NoGroups":   {expression: repeat(`()`, 300), unit: "states"},
		"Classes":    {expression: repeat(`\pL`, 40), unit: "states"},
		"Class":      {expression: `^\pL{100}$`, unit: "states"},
		"Folded":     {expression: `(?i)` + repeat(`[\pL]`, 40), unit: "states"},
		"OnePass":    {expression: `^` + repeat(`(`, 300) + `\pL` + repeat(`)`, 300) + `$`, unit: "states"},
		"Length":     {expression: repeat(`(?:)`, 1025), unit: "bytes"},
		"Text":       {expression: `(a|b|c|d|e)*x[ab]{200}`, text: 1 << 20, unit: "steps"},
		"All":        {expression: `a*b|a`, text: 1 << 15, all: true, unit: "steps"},
		"One":        {expression: `a*b|a`, text: 1 << 15},
		"HugeText":   {expression: `(a?){300}`, text: 1 << 40, all: true, unit: "steps"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			excess := pattern.Check(tc.expression, pattern.MaxWritten, tc.text, tc.all)
			if tc.unit == "" && excess == nil {
				t.Logf("%d states", pattern.States(tc.expression))
				return
			}
			if excess == nil || excess.Unit != tc.unit || excess.Size <= excess.Limit {
				t.Fatalf("%+v of %d states, want too many %s", excess, pattern.States(tc.expression), tc.unit)
			}
			if strings.Contains(excess.Error(), tc.expression) {
				t.Errorf("the error has the expression: %v", excess)
			}
		})
	}
}

const ipv6 = `^(([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,7}:|([0-9a-fA-F]{1,4}:){1,6}:[0-9a-fA-F]{1,4}|` +
	`([0-9a-fA-F]{1,4}:){1,5}(:[0-9a-fA-F]{1,4}){1,2}|([0-9a-fA-F]{1,4}:){1,4}(:[0-9a-fA-F]{1,4}){1,3}|` +
	`([0-9a-fA-F]{1,4}:){1,3}(:[0-9a-fA-F]{1,4}){1,4}|([0-9a-fA-F]{1,4}:){1,2}(:[0-9a-fA-F]{1,4}){1,5}|` +
	`[0-9a-fA-F]{1,4}:((:[0-9a-fA-F]{1,4}){1,6})|:((:[0-9a-fA-F]{1,4}){1,7}|:)|fe80:(:[0-9a-fA-F]{0,4}){0,4}%[0-9a-zA-Z]{1,}|` +
	`::(ffff(:0{1,4})?:)?((25[0-5]|(2[0-4]|1?[0-9])?[0-9])\.){3}(25[0-5]|(2[0-4]|1?[0-9])?[0-9])|` +
	`([0-9a-fA-F]{1,4}:){1,4}:((25[0-5]|(2[0-4]|1?[0-9])?[0-9])\.){3}(25[0-5]|(2[0-4]|1?[0-9])?[0-9]))$`

// expression returns a random regular expression.
func expression(r *rand.Rand, depth int) string {
	if depth == 0 {
		leaves := []string{"x", "yz", "[a-f]", `[^\d]`, ".", `\b`, "^", "$", `\pL`, "()", "(?i)k", "é"}
		return leaves[r.IntN(len(leaves))]
	}
	part := func() string { return expression(r, depth-1-r.IntN(depth)) }
	switch r.IntN(8) {
	case 0:
		return "(" + part() + ")"
	case 1:
		return "(?:" + part() + ")" + []string{"*", "+", "?", "*?", "{0}", "{3}", "{2,}", "{0,5}", "{2,7}", "{1,1}"}[r.IntN(10)]
	case 2:
		return "(?:" + part() + "|" + part() + ")"
	default:
		return part() + part()
	}
}

// TestStatesAreEnough checks that no expression compiles to more states than it counts.
func TestStatesAreEnough(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range budget.Rounds(2000) {
		text := expression(r, 1+r.IntN(7))
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			continue
		}
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		// The first instruction fails, and the last one matches.
		if got, want := pattern.States(text), len(program.Inst)-2; got < want {
			t.Errorf("%q: %d states, compiles to %d", text, got, want)
		}
	}
}
