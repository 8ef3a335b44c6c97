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
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/test/budget"
)

// doublings are ways to build values that contain the previous value twice. In a template, # is the number of a value
// and $ the number of the previous one. The steps are rules, or expressions in one body. Each ends with a comparison of
// two values, numbered @.
var doublings = map[string]doubling{
	"Arrays": {`a0 := [1]
b0 := [1]`, `a# := [a$, a$]
b# := [b$, b$]`, "x if a@ == b@"},
	"Objects": {`a0 := 1
b0 := 1`, `a# := {"x": a$, "y": a$}
b# := {"x": b$, "y": b$}`, "x if a@ == b@"},
	"Sets": {`a0 := 1
b0 := 1`, `a# := {[a$, a$]}
b# := {[b$, b$]}`, "x if a@ == b@"},
	"Keys": {`a0 := 1
b0 := 1`, `a# := {[k, k]: 1 | k := a$}
b# := {[k, k]: 1 | k := b$}`, "x if a@ == b@"},
	"Functions": {"f0(x) := x", "f#(x) := [f$(x), f$(x)]", "x if f@(1) == f@(2)"},
	"Functions of values": {`a0 := [1]
b0 := [1]`, `g#(v) := [v, v] if v == a$
a# := g#(a$)
b# := [b$, b$]`, "x if a@ == b@"},
	"Unions": {`a0 := 1
b0 := 1`, `a# := [a$, a$] if input.a else := {"z": a$}
b# := [b$, b$] if input.b else := {"z": b$}`, "x if a@ == b@"},
	"Defaults": {`a0 := 1
b0 := 1`, `default a# := false
a# := [a$, a$] if input.a
default b# := false
b# := [b$, b$] if input.b`, "x if a@ == b@"},
	"Partial sets": {`a0 contains 1
b0 contains 1`, `a# contains [v, v] if some v in a$
b# contains [v, v] if some v in b$`, "x if a@ == b@"},
	"Partial objects": {`a0.x := 1
b0.x := 1`, `a#[k] := [a$, a$] if some k in ["x"]
b#[k] := [b$, b$] if some k in ["x"]`, "x if a@ == b@"},
	"Paths": {`a0.x := 1
b0.x := 1`, `a#.x := a$
a#.y := a$
b#.x := b$
b#.y := b$`, "x if a@ == b@"},
	"Comprehensions": {`a0 := [1]
b0 := [1]`, `a# := [[v, v] | v := a$]
b# := [[v, v] | v := b$]`, "x if a@ == b@"},
	"Members": {`a0 := [1]
b0 := [1]`, `a# := [a$, a$]
b# := [b$, b$]`, "x if b@ in [a@]"},
	"Replaced": {`a0 := [1]
b0 := [1]`, `a# := v if v := [input, input] with input as a$
b# := [b$, b$]`, "x if a@ == b@"},
	"Depth": {`a0 := [1]
b0 := [1]`, `a# := [a$]
b# := [b$]`, "x if a@ == b@"},
	"Argument": {`a0 := [1]
b0 := [1]`, `a# := [a$, a$]
b# := [b$, b$]`, `f(v) := 1 if v == a@
x if f(b@)`},
	"Destructured": {`a0 := [1]
b0 := [1]`, `a# := [v, w] if [v, w] = [a$, a$]
b# := [b$, b$]`, "x if a@ == b@"},
	"Merged": {`a0 := [1]
b0 := [1]`, `a# := [a$, a$]
b# := [b$, b$]`, `x contains a@
x contains b@`},
	"Of a set": doubledTo("x := {a@, b@}"),
	"Selected": doubledTo(`xs := [a@, b@]
x := xs[input.i]`),
	"Selected by key":    doubledTo(`x := {"a": a@, "b": b@}[input.k]`),
	"Selected in a body": doubledTo("x := v if { vs := [a@, b@]; v := vs[_] }"),
	"Every":              doubledTo("x if every v in [a@] { v == b@ }"),
	"Branches":           doubledTo("x := a@ if input.a else := b@"),
	"Mocked":             doubledTo("x if input == b@ with input as a@"),
	"Mocked twice": doubledTo(`y := input
x if y == b@ with input as a@`),
	"Mocked rule":        doubledTo("x if a1 == b1 with a1 as a@ with b1 as b@"),
	"Negated":            doubledTo("x if not a@ == b@"),
	"Of a comprehension": doubledTo("x := [1 | a@ == b@]"),
	"Keys of a document": doubledTo(`x[a@] := 1
x[b@] := 1`),
	"Member with key": doubledTo("x if 0, b@ in [a@]"),
	"Results": doubledTo(`f(v) := a@ if v
f(v) := b@ if not v
x := f(input.v)`),
	"In an object": doubledTo(`x if {"a": a@} == {"a": b@}`),
	"Taken apart":  doubledTo("x if { [v, w] = [a@, b@]; v == w }"),
	"In one body": {`x if {
a0 := [1]
b0 := [1]`, `a# := [a$, a$]
b# := [b$, b$]`, "a@ == b@\n}"},
	"Shown in errors": {`a0 := [1]
b0 := [1]`, `a# := [a$, a$]
b# := [b$, b$]`, `x := a@.name
y := a@ + b@`},
	"Errors about calls": doubledTo(`x := any(a@)
y := all(a@)`),
	"Union of many shapes": {"a0 := 1", `a# := {"k#": a$}`, "x[a@] := [v | v := {a@, [a@]}[_]]"},
}

// doubledTo returns arrays that double, with another last step.
func doubledTo(last string) doubling {
	return doubling{`a0 := [1]
b0 := [1]`, `a# := [a$, a$]
b# := [b$, b$]`, last}
}

// text returns a policy with n steps.
func (d doubling) text(n int) string {
	return "package p\n" + chain(n, d.first, d.step) + strings.ReplaceAll(d.last, "@", fmt.Sprint(n-1))
}

type doubling struct{ first, step, last string }

// compileTime returns how long it takes to compile or reject a policy.
func compileTime(t testing.TB, text string) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	_, err := newCompilation(placementv1.RegoV1, text, false, maxRules)
	return time.Since(began), err
}

// longest is a generous limit. Policies that get past the check of types would take longer than any test may run.
const longest = 20 * time.Second

// TestTypesThatDouble checks that a policy whose types double in each step is compiled or rejected quickly, for any
// number of steps.
func TestTypesThatDouble(t *testing.T) {
	for name, d := range doublings {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{4, 16, 40, 120} {
				took, err := compileTime(t, d.text(n))
				if took > longest {
					t.Errorf("%d steps took %v", n, took)
				}
				if n == 4 && err != nil && strings.Contains(err.Error(), codeSize) {
					t.Errorf("4 steps are refused: %v", err)
				}
				if err != nil && n > 4 && !strings.Contains(err.Error(), codeSize) {
					t.Errorf("%d steps: %.200v", n, err)
				}
			}
		})
	}
}

// wide returns policies in which many expressions use large types.
func wide() map[string]string {
	var table, uses, body strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&table, "\"k%d\": {\"f%d\": 1}, ", i, i)
	}
	for i := range 400 {
		fmt.Fprintf(&uses, "u%d := [v | v := table[_]]\n", i)
	}
	for i := range 1500 {
		fmt.Fprintf(&body, "w%d := [y, %d]; ", i, i)
	}
	return map[string]string{
		"A table": `package p
table := {` + strings.TrimSuffix(table.String(), ", ") + "}\n" + uses.String(),
		"Inner bodies":  "package p\n" + nested(maxBodies-1, "[y | y := ", "[y | y := input.a; "+body.String()+" y]", "]"),
		"Deep literals": "package p\n" + nested(60, "[", "1", "]") + "\nz := " + strings.Repeat("[", 60) + "1" + strings.Repeat("]", 60) + "\nq if x == z",
	}
}

func TestWideTypes(t *testing.T) {
	for name, text := range wide() {
		t.Run(name, func(t *testing.T) {
			took, err := compileTime(t, text)
			if took > longest || err != nil && !strings.Contains(err.Error(), codeSize) {
				t.Errorf("took %v: %.300v", took, err)
			}
			t.Logf("%d bytes, %v, refused: %t", len(text), took, err != nil)
		})
	}
}

// TestTypesAreRefused checks that the message has the position and a suggestion.
func TestTypesAreRefused(t *testing.T) {
	_, err := Compile("p", placementv1.PlacementPolicySpec{Rego: doublings["Arrays"].text(16)})
	want := "p.rego:30:1: berth_size_error: the types of all rules together take more than 5000000 steps to check: a value that holds another value twice takes twice as many"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want it to say %q", err, want)
	}
}

// TestTypesOfModulesAreRefused checks that modules for a remote engine are rejected as well. They would block the
// engine.
func TestTypesOfModulesAreRefused(t *testing.T) {
	_, err := Compile("p", placementv1.PlacementPolicySpec{Remote: &placementv1.Remote{
		URL: "https://opa.example/v1/data/p", Modules: []placementv1.RemoteModule{{Name: "main", Rego: doublings["Objects"].text(16)}},
	}})
	if err == nil || !strings.Contains(err.Error(), "main.rego:30:1: berth_size_error") {
		t.Errorf("error %v", err)
	}
}

// TestTypesOfPoliciesAreTaken checks that the policies in this repository are far below the limit.
func TestTypesOfPoliciesAreTaken(t *testing.T) {
	checked := 0
	for _, dir := range []string{"../../test", "../../docs", "../../config", "analysis/testdata", "../quota"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".rego") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, version := range []placementv1.RegoVersion{placementv1.RegoV0, placementv1.RegoV1} {
				parser, capabilities := language.Of(version)
				module, err := ast.ParseModuleWithOpts(path, string(text), ast.ParserOptions{RegoVersion: parser, Capabilities: capabilities})
				if err != nil {
					continue
				}
				compiler := ast.NewCompiler().WithCapabilities(capabilities).WithDefaultRegoVersion(parser).WithOnlyStagesUpTo(ast.StageCheckRecursion)
				if compiler.Compile(map[string]*ast.Module{path: module}); compiler.Failed() {
					continue
				}
				sizes := &typeSizes{rules: map[string]int{}}
				if err := sizes.bound(compiler); err != nil || sizes.spent > maxTypeWork/100 {
					t.Errorf("%s takes %d steps, %v", path, sizes.spent, err)
				}
				t.Logf("%s takes %d steps", path, sizes.spent)
				checked++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if checked < 20 {
		t.Errorf("only %d policies were checked", checked)
	}
}

// program generates a small policy of random shape, in which each value is built from earlier values.
func program(r *rand.Rand) string {
	var out strings.Builder
	out.WriteString(`package p
v0 := 1
w0 := [1]
`)
	n := 3 + r.IntN(30)
	inBody := r.IntN(3) == 0
	for i := 1; i <= n; i++ {
		for _, name := range []string{"v", "w"} {
			before := func() string { return fmt.Sprintf("%s%d", []string{"v", "w"}[r.IntN(2)], i-1-r.IntN(min(i, 2))) }
			values := []string{
				fmt.Sprintf("[%s, %s]", before(), before()),
				fmt.Sprintf(`{"a": %s, "b": %s}`, before(), before()),
				fmt.Sprintf("{%s, [%s]}", before(), before()),
				fmt.Sprintf("[[z, z] | z := %s]", before()),
				fmt.Sprintf("{[z, z]: z | some z in [%s, %s]}", before(), before()),
				fmt.Sprintf("[y | some z in [%s]; y := [x | x := [z, z]]]", before()),
				fmt.Sprintf("object.get(%s, \"a\", [%s, %s])", before(), before(), before()),
				fmt.Sprintf("array.concat([%s], [%s])", before(), before()),
				fmt.Sprintf("{%s: %s}", before(), before()),
			}
			value := values[r.IntN(len(values))]
			switch r.IntN(6) {
			case 0:
				fmt.Fprintf(&out, "%s%d := %s if input.x else := [%s]\n", name, i, value, before())
			case 1:
				fmt.Fprintf(&out, `default %s%d := 1
%s%d := %s if input.y
`, name, i, name, i, value)
			case 2:
				fmt.Fprintf(&out, `f%s%d(q) := [q, q, %s]
%s%d := f%s%d(%s)
`, name, i, before(), name, i, name, i, before())
			default:
				fmt.Fprintf(&out, "%s%d := %s\n", name, i, value)
			}
		}
	}
	if inBody {
		fmt.Fprintf(&out, "e if { some m in [v%d, w%d]; m == w%d }\n", n, n-1, n)
	}
	fmt.Fprintf(&out, `x if v%d == w%d
y := {v%d, w%d}
`, n, n, n, n)
	return out.String()
}

// TestRandomTypes checks that no small policy takes long, whatever its values are built from.
func TestRandomTypes(t *testing.T) {
	seeds, refused, slowest := budget.Rounds(75), 0, time.Duration(0)
	for seed := range uint64(seeds) {
		text := program(rand.New(rand.NewPCG(seed, 16)))
		took, err := compileTime(t, text)
		if took > longest {
			t.Fatalf("seed %d took %v:\n%s", seed, took, text)
		}
		slowest = max(slowest, took)
		if err != nil && strings.Contains(err.Error(), codeSize) {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no text is refused: the search finds nothing that grows")
	}
	t.Logf("%d of %d texts are refused, the slowest takes %v", refused, seeds, slowest)
}

// FuzzTypes runs the same check on any number of seeds.
func FuzzTypes(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		text := program(rand.New(rand.NewPCG(seed, 16)))
		if took, _ := compileTime(t, text); took > longest {
			t.Errorf("took %v:\n%s", took, text)
		}
	})
}
