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

package lint_test

import (
	"testing"
)

func TestContradictions(t *testing.T) {
	const never = " are never true together: expressions of one body are joined by AND"
	testLogic(t, map[string]logicTest{
		"Range":        {text: body("input.spec.replicas < 2", "input.spec.replicas > 10"), want: []string{"p.rego:4:2: input.spec.replicas < 2 and input.spec.replicas > 10" + never + ". For OR, write a rule for each"}},
		"OneLine":      {text: `errors contains "x" if { input.a <= 2; input.a >= 3 }`, want: []string{"input.a <= 2 and input.a >= 3" + never}},
		"Flipped":      {text: body("2 > input.a", "10 < input.a"), want: []string{never}},
		"Strict":       {text: body("input.a < 2", "input.a >= 2"), want: []string{never}},
		"EqualAndLess": {text: body("input.a == 2", "input.a < 2"), want: []string{never}},
		"TwoValues":    {text: body(`input.kind == "Job"`, `input.kind == "CronJob"`), want: []string{`write input.kind in {"Job", "CronJob"}`}},
		"NotItself":    {text: body(`input.kind == "Job"`, `input.kind != "Job"`), want: []string{never}},
		"InAndEqual":   {text: body(`input.kind in {"Job", "Pod"}`, `input.kind == "CronJob"`), want: []string{never}},
		"InArrays":     {text: body(`input.kind in ["Job", "Pod"]`, `input.kind in ["CronJob"]`), want: []string{never}},
		"Unified":      {text: `errors["x"] { input.kind = "Job"; input.kind = "Pod" }`, v0: true, want: []string{never}},
		"Variable":     {text: body("some c in input.containers", `c.name == "a"`, `c.name == "b"`), want: []string{never}},
		"Assigned":     {text: body("n := input.spec.replicas", "n < 2", "input.spec.replicas > 10"), want: []string{never}},
		"Constants": {text: `low := 2
high := 10
` + body("input.n < low", "input.n > high"), want: []string{never}},
		"Count":     {text: body("count(input.xs) < 1", "count(input.xs) > 3"), want: []string{never}},
		"SameIndex": {text: body("some i", `input.xs[i] == "a"`, `input.xs[i] == "b"`), want: []string{never}},
		"Helper": {text: `odd if {
	input.a == 1
	input.a == 3
}
` + body("odd"), want: []string{never}},
		"Comprehension": {text: body(`count({c | some c in input.xs; c == "a"; c == "b"}) == 0`), want: []string{never}},
		"Else": {text: `labels["a"] := "b" if {
	input.x
} else := "c" if {
	input.a == 1
	input.a == 2
}`, want: []string{never}},
		"Every":       {text: body("every c in input.xs { c > 2; c < 1 }"), want: []string{never}},
		"OncePerBody": {text: body("input.a == 1", "input.a == 2", "input.a == 3"), want: []string{never}},

		"Interval":     {text: body("input.a > 2", "input.a < 10", "input.a != 5")},
		"Closed":       {text: body("input.a >= 2", "input.a <= 2")},
		"TwoRules":     {text: body("input.a < 2") + "\n" + body("input.a > 10")},
		"TwoFields":    {text: body("input.a < 2", "input.b > 10")},
		"Wildcards":    {text: body(`input.xs[_] == "a"`, `input.xs[_] == "b"`)},
		"OfWildcard":   {text: body("x := input.xs[_]", "y := input.xs[_]", `x == "a"`, `y == "b"`)},
		"Indexes":      {text: body("some i, j", `input.xs[i] == "a"`, `input.xs[j] == "b"`)},
		"Members":      {text: body(`"a" in input.xs`, `"b" in input.xs`)},
		"Excluded":     {text: body(`input.a != "a"`, `input.a != "b"`)},
		"Negated":      {text: body(`not input.a == "a"`, `input.a == "b"`)},
		"NegatedRange": {text: body("not input.a < 2", "not input.a >= 2")},
		"Types":        {text: body("input.a > 100", `input.a < "a"`)},
		"Nested":       {text: body(`input.kind == "a"`, `count({1 | input.kind == "b"}) == 0`)},
		"With":         {text: "big if input.a > 3\n" + body("input.a == 1", "big with input.a as 4", "input.a == 2 with input.a as 2")},
		"InAndOne":     {text: body(`input.kind in {"Job", "Pod"}`, `input.kind != "Job"`)},
		"Shadowed":     {text: "n := input.a\n" + body("n == 1", "ys := [n | some n in input.xs; n == 2]", "count(ys) > 0")},
		"DeclaredTwice": {text: `labels["a"] := "b" if {
	n := input.a
	n == 1
} else := "c" if {
	n := input.b
	n == 2
}`},
		"Functions":       {text: "f(x) := x\n" + body("f(input.a) == 1", "f(input.b) == 2")},
		"RelationOfParts": {text: body("walk(input.a, [_, 1])", "walk(input.a, [_, 2])")},
	})
}
