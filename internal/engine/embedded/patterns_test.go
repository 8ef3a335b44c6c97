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
	"errors"
	"fmt"
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/pattern"
)

// texts returns the terms of strings.
func texts(values ...string) []*ast.Term {
	out := make([]*ast.Term, len(values))
	for i, v := range values {
		out[i] = ast.StringTerm(v)
	}
	return out
}

// globOf returns the operands of glob.match.
func globOf(glob, text string, delimiters ...string) []*ast.Term {
	return operandsOf(ast.StringTerm(glob), ast.ArrayTerm(texts(delimiters...)...), ast.StringTerm(text))
}

// TestPatterns checks which patterns are evaluated. Those that are refused took from seconds to years, or gigabytes.
func TestPatterns(t *testing.T) {
	repeat := strings.Repeat
	image := "registry.example.com/team/service/component-name:v1.27.3-rc.1"
	tests := []struct {
		function string
		operands []*ast.Term
		refused  bool
	}{
		{"glob.match", globOf("*.example.com", "api.example.com"), false},
		{"glob.match", globOf("*", repeat("a", maxText)), false},
		{"glob.match", globOf("{api,web}-*-{eu,us}-*", "api-shop-eu-west-1", "-"), false},
		{"glob.match", globOf("{"+repeat("some-cluster-name,", 25)+"other}", "other"), false},
		{"glob.match", globOf("{"+repeat("some-cluster-name,", 100)+"other}", "other"), true},
		{"glob.match", globOf("**/*/*:v*", image, "/"), false},
		{"glob.match", globOf("*a*a*a*a*a*a*a*a*a*c*b", repeat("a", 60)+"b"), true},
		{"glob.match", globOf(repeat("{a,a}", 30)+"b", repeat("a", 31)), true},
		{"glob.match", globOf(repeat("{*a,*aa}", 8)+"b", repeat("a", 31)), true},
		{"glob.match", globOf("*"+repeat("?", 2000)+"b", repeat("a", maxText)), true},
		{"glob.match", globOf(repeat("{a}", 700), "a"), true},
		{"glob.match", operandsOf(word, ast.ArrayTerm(names(maxDelimiters+1)...), word), true},
		{"regex.globs_match", texts("a.a.[0-9]+z", "a.b.[0-9]*z"), false},
		{"regex.globs_match", texts(repeat(".*a+", 8), repeat("a", 40)+"c"), true},
		{"regex.globs_match", texts(repeat("a*[ab]*", 10)+"c", repeat("a", 40)), true},
		{"regex.template_match", texts("urn:<[a-z]+>:<[0-9]{1,4}>", "urn:foo:12", "<", ">"), false},
		{"regex.template_match", texts("urn:{[a-z]{1,9}}", "urn:foo", "{", "}"), false},
		{"regex.template_match", texts("[<(x{1000})(x{1000})(x{1000})>", "x", "<", ">"), true},
		{"regex.template_match", texts("<x{1000}><x{1000}><x{1000}>(", "x", "<", ">"), true},
		{"regex.template_match", texts(repeat(".", pattern.MaxLength+1), "x", "<", ">"), true},
		{"regex.match", texts(repeat("(x{1000})", 450), "xx"), true},
		{"regex.find_n", append(texts(`\pL{1000}`, "xx"), aNumber), true},
		{"regex.split", texts(repeat(`\pL`, 1000), "xx"), true},
		{"regex.replace", texts("xx", "^"+repeat("(", 400)+`\pL`+repeat(")", 400)+"$", "y"), true},
		{"regex.find_all_string_submatch_n", append(texts(repeat("(a?)", 300)+"b", repeat("a", 500)), aNumber), true},
		{"re_match", texts(repeat("x{900}y", 4), "xx"), true},
		{"regex.is_valid", texts("[" + repeat(`\pL`, 5000) + "]"), true},
	}
	for _, tc := range tests {
		t.Run(fmt.Sprintf("%s/%.40s", tc.function, tc.operands[0]), func(t *testing.T) {
			err := call(tc.function, tc.operands)
			if limit, refused := errors.AsType[*engine.LimitError](err); refused != tc.refused {
				t.Errorf("limit %v, error %v, want a refusal: %t", limit, err, tc.refused)
			}
		})
	}
}

// TestWrittenPatterns checks that only what the text of a policy contains may be as large as that.
func TestWrittenPatterns(t *testing.T) {
	guardBuiltins()
	large := `(x{600}|` + strings.Repeat("some-cluster-name|", 80) + `other)`
	glob := "{" + strings.Repeat("some-cluster-name,", 80) + "other}"
	tests := map[string]struct {
		rego    string
		refused bool
	}{
		"Written":    {rego: "x if regex.match(`LARGE`, input.other)"},
		"InRule":     {rego: "names := `LARGE`\nx if regex.match(names, input.other)"},
		"InVariable": {rego: "x if { names := `LARGE`; regex.match(names, input.other) }"},
		"InFunction": {rego: "f(names) if regex.match(names, input.other)\nx if f(`LARGE`)"},
		"InArray":    {rego: "x if { some names in [`LARGE`]; regex.match(names, input.other) }"},
		"Replaced":   {rego: "x if regex.replace(input.other, `LARGE`, `y`) == `y`"},
		"Template":   {rego: "x if regex.template_match(`<LARGE>`, input.other, `<`, `>`)"},
		"Glob":       {rego: "x if glob.match(`GLOB`, [], input.other)"},
		"OfInput":    {rego: "x if regex.match(input.large, input.other)", refused: true},
		"OfInputInFunction": {rego: `f(names) if regex.match(names, input.other)
x if f(input.large)`, refused: true},
		"OfInputInArray": {rego: "x if { some names in [input.large, `a`]; regex.match(names, input.other) }", refused: true},
		"OfInputInRule": {rego: `names := input.large
x if regex.match(names, input.other)`, refused: true},
		"OfInputInObject": {rego: "x if regex.match({`a`: input.large}.a, input.other)", refused: true},
		"OfData":          {rego: "x if regex.match(data.large, input.other)", refused: true},
		"Defaulted":       {rego: "x if regex.match(object.get(input, `large`, `a`), input.other)", refused: true},
		"Concatenated":    {rego: "x if regex.match(concat(``, [input.large, ``]), input.other)", refused: true},
		"Formatted":       {rego: "x if regex.match(sprintf(`%s`, [input.large]), input.other)", refused: true},
		"Repeated":        {rego: "x if regex.match(concat(`y`, [s | some i in input.many; s := `abcdefgh`]), input.other)", refused: true},
		"Mocked":          {rego: "x if regex.match(input.a, `other`) with input.a as input.large", refused: true},
		"TemplateOfInput": {rego: "x if regex.template_match(input.template, input.other, `<`, `>`)", refused: true},
		"GlobOfInput":     {rego: "x if glob.match(input.glob, [], input.other)", refused: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("LARGE", large, "GLOB", glob).Replace("package p\n" + tc.rego)
			evaluated, err := rego.New(rego.Module("p.rego", text), rego.Query("data.p.x"), rego.StrictBuiltinErrors(true),
				rego.Store(inmem.NewFromObject(map[string]any{"large": large})),
				rego.Input(map[string]any{"other": "other", "large": large, "template": "<" + large + ">", "glob": glob, "many": make([]int, 200)}),
			).Eval(t.Context())
			if tc.refused != (err != nil) || tc.refused != (len(evaluated) == 0) {
				t.Errorf("%v, error %v, want a refusal: %t", evaluated, err, tc.refused)
			}
		})
	}
}

// hostilePatterns returns n different patterns of the shapes that take the most memory, as large as is allowed.
func hostilePatterns(n int) []string {
	repeat := strings.Repeat
	each := func(format string, members int) string {
		var out strings.Builder
		for i := range members {
			fmt.Fprintf(&out, format, rune(0x4e00+2*i))
		}
		return out.String()
	}
	shapes := []func(size, number int) string{
		func(size, number int) string { return fmt.Sprint(repeat("(x{100})", size), number) },
		func(size, number int) string { return fmt.Sprint(repeat("x*y*", size), number) },
		func(size, number int) string { return fmt.Sprintf("^%s%d$", each("%c?", size), number) },
		func(size, number int) string { return fmt.Sprintf("^(?:%sx)*%d$", each("%cx|", size), number) },
		func(size, number int) string {
			return fmt.Sprintf(`^%s\pL%s%d$`, repeat("(", size), repeat(")", size), number)
		},
		func(size, number int) string { return fmt.Sprintf(`^[\pL\d]{%d}%d$`, size, number) },
		func(size, number int) string { return fmt.Sprintf(`^[%s]{4}%d$`, each("%c", size), number) },
		func(size, number int) string { return fmt.Sprintf(`^(?i)[k-s]{1,%d}%d$`, size, number) },
		func(size, number int) string { return fmt.Sprint(repeat("()", size), number) },
	}
	sizes := make([]int, len(shapes))
	for i, shape := range shapes {
		for allowed := true; allowed; sizes[i]++ {
			next := shape(sizes[i]+1, 789)
			_, err := syntax.Parse(next, syntax.Perl)
			allowed = err == nil && pattern.Check(next, pattern.MaxStates, 2, true) == nil
		}
	}
	out := make([]string, n)
	for i := range out {
		out[i] = shapes[i%len(shapes)](sizes[i%len(shapes)]-1, 100+i)
	}
	return out
}

// heapOf returns the memory in bytes that f leaves in use.
func heapOf(f func()) int {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return int(after.HeapAlloc) - int(before.HeapAlloc)
}

// TestPatternsThatStay checks how much memory users can fill in OPA's caches of patterns, which are those of the process.
func TestPatternsThatStay(t *testing.T) {
	patterns := hostilePatterns(300)
	for i := range 20 {
		// It is beyond the limit.
		patterns = append(patterns, fmt.Sprint(strings.Repeat("(x{1000})", 100), i))
	}
	got := heapOf(func() {
		for i, p := range patterns {
			for function, operands := range map[string][]*ast.Term{
				"regex.match": texts(p, "xx"),
				"glob.match":  globOf(strings.Repeat("[a]", maxGlob/3-1)+fmt.Sprint(i), "a"),
			} {
				err := call(function, operands)
				if _, refused := errors.AsType[*engine.LimitError](err); err != nil && (!refused || i < 300) {
					t.Fatalf("%.60s: %v", p, err)
				}
			}
		}
	})
	if got > 12<<20 {
		t.Errorf("%d MiB stay", got>>20)
	}
	t.Logf("%d KiB stay", got>>10)
}
