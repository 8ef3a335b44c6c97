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

package policy

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// chain returns n rules, each of which refers to the previous one. In the template, # is the rule's number and $ the
// number of the previous rule.
func chain(n int, first, rule string) string {
	var out strings.Builder
	fmt.Fprintln(&out, first)
	for i := 1; i < n; i++ {
		fmt.Fprintln(&out, strings.NewReplacer("#", fmt.Sprint(i), "$", fmt.Sprint(i-1)).Replace(rule))
	}
	return out.String()
}

func nested(n int, open, inside, shut string) string {
	return "x := " + strings.Repeat(open, n) + inside + strings.Repeat(shut, n)
}

// reversed returns n lines in which # is the number of a line and $ that of the one below, for expressions that need those below.
func reversed(n int, line string) string {
	var out strings.Builder
	for i := n; i > 0; i-- {
		out.WriteString(strings.NewReplacer("#", fmt.Sprint(i-1), "$", fmt.Sprint(i)).Replace(line))
	}
	return out.String()
}

// TestSize checks that every policy within the limits compiles within the time of a request.
func TestSize(t *testing.T) {
	const header = "package p\n"
	tests := map[string]struct {
		rego, data string
		// refused is a part of the message; empty if the policy must be accepted.
		refused string
	}{
		"TheLongestText":  {rego: "#" + strings.Repeat("x", maxRego-len(header)-1)},
		"ATextTooLong":    {rego: "#" + strings.Repeat("x", maxRego-len(header)), refused: "spec.rego: has 65537 bytes, at most 65536"},
		"TheLargestData":  {data: `{"a": "` + strings.Repeat("x", maxData-9) + `"}`},
		"DataTooLarge":    {data: `{"a": "` + strings.Repeat("x", maxData-8) + `"}`, refused: "spec.data: has 262145 bytes, at most 262144"},
		"TheDeepestList":  {rego: nested(maxDepth-2, "[", "1", "]")},
		"AListTooDeep":    {rego: nested(maxDepth, "[", "1", "]"), refused: "nested more than 64 deep"},
		"AllBrackets":     {rego: nested(30_000, "[", "1", "]"), refused: "nested more than 64 deep"},
		"AllOpenBrackets": {rego: nested(60_000, "[", "", ""), refused: "recursion depth"},
		"ASumTooLong":     {rego: nested(20_000, "1+", "1", ""), refused: "nested more than 64 deep"},
		"Lists":           {rego: nested(maxBodies-1, "[y | y := ", "1", "]")},
		"ListsInLists":    {rego: nested(maxBodies+1, "[y | y := ", "1", "]"), refused: "or comprehensions and every-expressions more than 8"},
		"EveryInEvery":    {rego: "x if {" + strings.Repeat("every y in input {", 1000) + "y" + strings.Repeat("}", 1000) + "}", refused: "or comprehensions and every-expressions more than 8"},
		"TheMostRules":    {rego: chain(maxRules, "x0 := 1", "x# := x$")},
		"TooManyRules":    {rego: chain(maxRules+1, "x0 := 1", "x# := x$"), refused: "there are 513 rules, at most 512"},
		"TooManyBranches": {rego: "x := 1 if input.a" + strings.Repeat(" else := 2 if input.a", maxRules), refused: "rules, at most 512"},
		"TypesThatDouble": {rego: chain(maxRules, "x0 := [1]", "x# := [x$, x$]"), refused: "more than 5000000 steps to check"},
		"ListsOfVariables": {rego: `errors contains "x" if {
` + chain(200, "v0 := [1]", "v# := ["+strings.Repeat("v$, ", 50)+"1]") + "v199 != data.a[_]\n}", data: `{"a": [1, 2]}`, refused: "more than 5000000 steps to check"},
		"CallsWithLists": {rego: `s := lower(concat("", [` + strings.Repeat("\"\", ", 7000) + `input.a]))
errors contains "x" if {
` + strings.Repeat("s == \"A\"\n", 2500) + "}"},
		"EntriesOfAll": {rego: `errors contains "x" if {
	some r in data.a
` + strings.Repeat("not startswith(input.a, r)\n", 2000) + "}", data: `{"a": ["a", "b"]}`},
		"ManyNamesOfData": {rego: "labels := {}\n" + chain(500, "x0 := data.x0", "x# := data.abcdefghijklmnopqrst#"), data: `{"` + strings.Repeat("a", 60) + `": 1}`},
		"ALongBody":       {rego: "x if {\n" + reversed(300, "v$ = v#\n") + "v0 = input.a\n}"},
		"ABodyTooLong":    {rego: "x if {\n" + reversed(3500, "v$ = v#\n") + "v0 = input.a\n}", refused: "p.rego:3:1: berth_size_error: a body has 3501 expressions with 3503 variables"},
		"CallsTooLong": {rego: `f(x) := x
x if {
` + reversed(2500, "f(v#, v$)\n") + "v0 = input.a\n}", refused: "which take too long to order"},
		"ClosuresTooLong": {rego: "x if {\n" + reversed(2000, "v$ = [y | y = v#]\n") + "v0 = input.a\n}", refused: "which take too long to order"},
		"InnerBodiesTooLong": {rego: "x := [1 |\n" + reversed(2500, "f(v#, [v$])\n") + `v0 = input.a]
f(x) := x`, refused: "which take too long to order"},
		"FunctionsOfFunctions": {rego: chain(maxRules, "f0(x) := x", "f#(x) := f$(f$(x))")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			spec := placementv1.PlacementPolicySpec{Rego: header + test.rego, RegoVersion: placementv1.RegoV1}
			if test.data != "" {
				spec.Data = &apiextensionsv1.JSON{Raw: []byte(test.data)}
			}
			_, err := Compile("p", spec)
			switch {
			case test.refused == "" && err != nil:
				message := err.Error()
				t.Errorf("refused: %s", message[:min(len(message), 200)])
			case test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)):
				t.Errorf("error %.200v, want %q", err, test.refused)
			}
		})
	}
}
