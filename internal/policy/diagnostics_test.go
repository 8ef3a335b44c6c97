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

package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/policy/policytest"
)

// diagnostics compiles a policy and returns its errors, one per line; nil if there are none.
func diagnostics(t *testing.T, spec placementv1.PlacementPolicySpec) []string {
	t.Helper()
	_, err := policy.Compile("p", spec)
	if err == nil {
		return nil
	}
	compileError, ok := errors.AsType[*policy.CompileError](err)
	if !ok {
		t.Fatalf("error is a %T: %v", err, err)
	}
	lines := make([]string, len(compileError.Diagnostics))
	for i, d := range compileError.Diagnostics {
		lines[i] = d.String()
	}
	if want := strings.Join(lines, "\n"); err.Error() != want {
		t.Errorf("the error says\n%s\nand its diagnostics\n%s", err, want)
	}
	return lines
}

// TestDiagnostics compares the beginnings of the diagnostics: file:row:col: code: message.
func TestDiagnostics(t *testing.T) {
	v0, v1 := placementv1.RegoV0, placementv1.RegoV1
	tests := map[string]struct {
		spec placementv1.PlacementPolicySpec
		want []string
	}{
		"NoPackage": {policytest.SpecOf(v1, `errors contains "x" if true`), []string{"p.rego:1:1: rego_parse_error: "}},
		"Parse": {policytest.SpecOf(v1, `package p

labels := {"a": }
`), []string{"p.rego:3:17: rego_parse_error: unexpected } token", "p.rego:3:17: rego_parse_error: "}},
		"ParseV0": {policytest.SpecOf(v0, `package p

labels = {"a": }
`), []string{"p.rego:3:16: rego_parse_error: unexpected } token", "p.rego:3:16: rego_parse_error: "}},
		"V0AsV1": {policytest.SpecOf(v1, `package p

errors["x"] { true }
`), []string{
			"p.rego:3:1: rego_parse_error: the text is Rego v0, as it was before OPA 1.0: set spec.regoVersion: v0, or rewrite it by opa fmt --v0-v1 (the error as v1: `if` keyword is required before rule body)",
		}},
		"V1AsV0": {policytest.SpecOf(v0, `package p

errors contains "x" if true
`), []string{
			"p.rego:3:1: rego_parse_error: the text is Rego v1: remove spec.regoVersion: v0 (the error as v0: ",
		}},
		"Caret": {policytest.SpecOf(v1, `package p

	labels := {"a": }
`), []string{`p.rego:3:18: rego_parse_error: unexpected } token
	 labels := {"a": }
	                 ^`, "p.rego:3:18: "}},
		"RecursionThroughData": {policytest.WithData(policytest.SpecOf(v1, `package acme

customers := data.acme.customers
`), `{"acme": {"regions": []}}`), []string{
			"p.rego:3:1: rego_recursion_error: rule data.acme.customers is recursive: data.acme.customers -> data.acme.customers; data.acme is both the policy's package (data.acme) and a document of spec.data",
		}},
		"Unsafe": {policytest.SpecOf(v1, `package p
labels := {"a": x}
`), []string{"p.rego:2:17: rego_unsafe_var_error: var x is unsafe"}},
		"UnsafeV0": {policytest.SpecOf(v0, `package p
labels[x] = "a" { y := 1 }
`), []string{"p.rego:2:8: rego_unsafe_var_error: var x is unsafe"}},
		"UnsafeWildcard": {policytest.SpecOf(v1, `package p
errors contains "x" if {
	not startswith(input.spec.containers[_].image, "a/")
}
`), []string{"p.rego:3:2: rego_unsafe_var_error: var _ is unsafe: not does not iterate over input.spec.containers: for any member, write some c in input.spec.containers " +
			"before the expression; for all members, write every c in input.spec.containers { not ... }; and write c in place of input.spec.containers[_]"}},
		"UnsafeWildcardWithoutNot": {policytest.SpecOf(v1, `package p
errors contains "x" if startswith(_, "a/")
`), []string{"p.rego:2:24: rego_unsafe_var_error: var _ is unsafe"}},
		"Type": {policytest.SpecOf(v1, `package p
errors contains "x" if 1 == "a"
`), []string{"p.rego:2:24: rego_type_error: match error"}},
		"TypeOfArgument": {policytest.SpecOf(v1, `package p
labels := {"a": upper(1)}
`), []string{"p.rego:2:17: rego_type_error: upper: invalid argument(s)"}},
		"Undefined": {policytest.SpecOf(v1, `package p
labels := {"a": f(1)}
`), []string{"p.rego:2:17: rego_type_error: undefined function f"}},
		"Recursion": {policytest.SpecOf(v1, `package p
labels := annotations
annotations := labels
`), []string{"p.rego:2:1: rego_recursion_error: ", "p.rego:3:1: rego_recursion_error: "}},
		"Conflict": {policytest.SpecOf(v1, `package p
labels := {}
labels contains "a"
`), []string{"p.rego:2:1: rego_type_error: conflicting rules data.p.labels found"}},
		"Several": {policytest.SpecOf(v1, `package p
labels := {"a": x}
annotations := {"a": y}
`), []string{"p.rego:2:17: rego_unsafe_var_error: ", "p.rego:3:22: rego_unsafe_var_error: "}},
		"FunctionV0": {policytest.SpecOf(v0, `package p
errors(x) = y { y := x }
`), []string{"p.rego:2:1: berth_contract_error: errors is a function"}},
		"DataResources": {policytest.WithData(policytest.SpecOf(v1, `package p
labels := {}`), `{"resources": 1}`), []string{"p.rego: berth_data_error: spec.data.resources: the name is taken"}},
		"DataClusters": {policytest.WithData(policytest.SpecOf(v1, `package p
labels := {}`), `{"clusters": null}`), []string{"p.rego: berth_data_error: spec.data.clusters: the name is taken"}},
		"DataBerth": {policytest.WithData(policytest.SpecOf(v1, `package p
labels := {}`), `{"berth": ""}`), []string{"p.rego: berth_data_error: spec.data.berth: the name is taken"}},
		"DataAbove": {policytest.WithData(policytest.SpecOf(v1, `package acme.placement
labels := {}`), `{"acme": 1}`), []string{"p.rego: berth_data_error: spec.data: has a document at data.acme.placement"}},
		"DataBeside": {policytest.WithData(policytest.SpecOf(v1, `package acme.placement
labels := {}`), `{"acme": {"customers": [1]}}`), nil},
		"ReadBerth": {policytest.SpecOf(v1, `package p
labels := {"a": data.berth.x}`), []string{"p.rego:2:17: berth_unresolved_read: data.berth.x: below data.berth are only data.berth.quotas[namespace][name], data.berth.clusterquotas[name], and data.berth.ambiguousclusters[name]"}},
		"BadGroupVersion": {policytest.SpecOf(v1, `package p
labels := {"a": "b"} if data.resources["a/b/c"].pods`), []string{"p.rego:2:25: berth_unresolved_read: "}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := diagnostics(t, tc.spec)
			full := slices.Clone(got)
			for i := range got {
				if i < len(tc.want) && strings.HasPrefix(got[i], tc.want[i]) {
					got[i] = tc.want[i]
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("diagnostics (-want +got):\n%s\nin full:\n%s", diff, strings.Join(full, "\n"))
			}
		})
	}
}

// TestEmptyTextIsSaidOnce checks that the error for Rego without a package does not contain another error.
func TestEmptyTextIsSaidOnce(t *testing.T) {
	for _, text := range []string{"", "# nothing", "\n\n"} {
		for _, d := range diagnostics(t, policytest.SpecOf(placementv1.RegoV1, text)) {
			if strings.Count(d, "rego_parse_error") != 1 {
				t.Errorf("%q: %s", text, d)
			}
		}
	}
}

// forbiddenCalls has a well-typed call of each builtin function that policies must not call.
var forbiddenCalls = map[string]string{
	"http.send":              `http.send({"method": "GET", "url": "http://localhost"})`,
	"opa.runtime":            `opa.runtime()`,
	"time.now_ns":            `time.now_ns()`,
	"rand.intn":              `rand.intn("seed", 10)`,
	"uuid.rfc4122":           `uuid.rfc4122("seed")`,
	"net.lookup_ip_addr":     `net.lookup_ip_addr("localhost")`,
	"rego.parse_module":      `rego.parse_module("a.rego", "package a")`,
	"io.jwt.decode":          `io.jwt.decode("a.b.c")`,
	"bits.lsh":               `bits.lsh(1, 1000000000)`,
	"net.cidr_expand":        `net.cidr_expand("10.0.0.0/8")`,
	"graph.reachable":        `graph.reachable({}, {"a"})`,
	"providers.aws.sign_req": `providers.aws.sign_req({}, {}, 1)`,
}

func TestForbiddenBuiltins(t *testing.T) {
	for name, call := range forbiddenCalls {
		if _, known := ast.BuiltinMap[name]; !known {
			t.Errorf("OPA does not know %s: the case checks nothing", name)
		}
		texts := map[string]placementv1.PlacementPolicySpec{
			"Call": policytest.SpecOf(placementv1.RegoV1, fmt.Sprintf(`package p
annotations := {"a": x} if x := %s
`, call)),
			"CallV0": policytest.SpecOf(placementv1.RegoV0, fmt.Sprintf(`package p
annotations = {"a": x} { x := %s }
`, call)),
			"InFunction": policytest.SpecOf(placementv1.RegoV1, fmt.Sprintf(`package p
annotations := {"a": f(1)}
f(y) := x if { x := %s; y }
`, call)),
			"MockOf": policytest.SpecOf(placementv1.RegoV1, fmt.Sprintf(`package p
annotations := {"a": x} if x := count([]) with count as %s
`, name)),
			"Mocked": policytest.SpecOf(placementv1.RegoV1, fmt.Sprintf(`package p
annotations := {"a": 1} if true with %s as 1
`, name)),
			"MockedByRule": policytest.SpecOf(placementv1.RegoV1, fmt.Sprintf(`package p
f(x) := x
g := 1 if f(1)
annotations := {"a": 1} if g with f as %s
`, name)),
		}
		for form, spec := range texts {
			t.Run(name+form, func(t *testing.T) {
				got := diagnostics(t, spec)
				if len(got) == 0 {
					t.Fatal("compiles")
				}
				if strings.HasPrefix(form, "Call") && !strings.Contains(strings.Join(got, "\n"), name+" is not allowed in a placement policy") {
					t.Errorf("does not say why: %q", got)
				}
			})
		}
	}
}

func TestNondeterministicBuiltins(t *testing.T) {
	for name, b := range ast.BuiltinMap {
		if !b.Nondeterministic {
			continue
		}
		args := make([]string, b.Decl.Arity())
		for i := range args {
			args[i] = fmt.Sprintf("input[%d]", i)
		}
		call := fmt.Sprintf("%s(%s)", name, strings.Join(args, ", "))
		for version, text := range map[placementv1.RegoVersion]string{
			placementv1.RegoV0: `package p
annotations = {"a": x} { x := %s }
`,
			placementv1.RegoV1: `package p
annotations := {"a": x} if { x := %s }
`,
		} {
			if got := diagnostics(t, policytest.SpecOf(version, fmt.Sprintf(text, call))); len(got) == 0 {
				t.Errorf("%s: %s compiles", version, name)
			}
		}
	}
}

func TestContractRules(t *testing.T) {
	v0, v1 := placementv1.RegoV0, placementv1.RegoV1
	nothing := "the package data.p defines none of the rules annotations, labels, scheduling, clusters, errors, warnings: the policy decides nothing"
	tests := map[string]struct {
		version  placementv1.RegoVersion
		body     string
		want     []string
		warnings []string
	}{
		"None":     {version: v1, body: "x := 1", warnings: []string{nothing}},
		"Complete": {version: v1, body: "labels := {}", want: []string{"labels"}},
		"AllInOrder": {version: v1, body: `warnings := []
errors := []
clusters := []
labels := {}
annotations := {}`, want: []string{"annotations", "labels", "clusters", "errors", "warnings"}},
		"HeadRef": {version: v1, body: `annotations["x/y"] := 1
labels.a := "b"`, want: []string{"annotations", "labels"}},
		"HeadRefVariable": {version: v1, body: "annotations[k] := v if some k, v in input", want: []string{"annotations"}},
		"HeadRefDeep":     {version: v1, body: `annotations[k].deep["er"] := v if some k, v in input`, want: []string{"annotations"}},
		"PartialSet": {version: v1, body: `errors contains "no"
warnings contains x if some x in input`, want: []string{"errors", "warnings"}},
		"Default":         {version: v1, body: "default labels := {}", want: []string{"labels"}},
		"Else":            {version: v1, body: `labels := {"a": "b"} if input.a else := {}`, want: []string{"labels"}},
		"PartialObjectV0": {version: v0, body: `annotations["x"] = y { y = input.y }`, want: []string{"annotations"}},
		"PartialSetV0": {version: v0, body: `errors["no"] { input.x }
warnings[msg] { msg = input.y }`, want: []string{"errors", "warnings"}},
		"ContainsV0": {version: v0, body: `import future.keywords
errors contains "no" if input.x`, want: []string{"errors"}},
		"Several": {version: v1, body: `errors contains "a"
errors contains "b" if input.x`, want: []string{"errors"}},
		"BelowAnother":  {version: v1, body: "other.labels := {}", warnings: []string{nothing}},
		"LocalVariable": {version: v1, body: "x if { labels := 1; labels == 1 }", warnings: []string{nothing}},
		"HelperFunctions": {version: v1, body: `labels := {"a": f(1)}
f(x) := "b" if x`, want: []string{"labels"}},
		"MissingStaticData": {version: v1, body: `labels := {"a": data.acme.x}`, want: []string{"labels"}, warnings: []string{"the policy reads data.acme, which spec.data does not have"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := policy.Compile("p", policytest.SpecOf(tc.version, "package p\n"+tc.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, m.Rules); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.warnings, m.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDiagnosticsAreStable checks that repeated compilations give the same error, so that the API server's response is
// stable.
func TestDiagnosticsAreStable(t *testing.T) {
	text := `package p
labels := {"a": "b"}
warnings contains data.kubernetes[input.a]
annotations := data.resources[input.b]
errors contains data.berth.x`
	want := diagnostics(t, policytest.SpecOf(placementv1.RegoV1, text))
	if len(want) != 3 {
		t.Fatalf("diagnostics %q", want)
	}
	for range 20 {
		if diff := cmp.Diff(want, diagnostics(t, policytest.SpecOf(placementv1.RegoV1, text))); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestStaticDataKeepsNumbers(t *testing.T) {
	m, err := policy.Compile("p", policytest.WithData(policytest.SpecOf(placementv1.RegoV1, `package p
labels := {}`), `{"a": {"n": 12345678901234567890, "f": 1.10}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := m.Static.String(), `{"a": {"f": 1.10, "n": 12345678901234567890}}`; got != want {
		t.Errorf("data is %s, want %s", got, want)
	}
}

func TestRevisions(t *testing.T) {
	want := policy.Revision{UID: "uid", Generation: 7, Spec: policytest.WithData(policytest.SpecOf(placementv1.RegoV0, "package p"), `{"a":1}`)}
	text, err := policy.EncodeRevision(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := policy.DecodeRevision(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("revision (-want +got):\n%s", diff)
	}
	if _, err := policy.DecodeRevision([]byte("{")); err == nil {
		t.Error("half a revision is decoded")
	}
	a, b := policy.RevisionName(strings.Repeat("a", 253)), policy.RevisionName("b")
	if a == b || len(a) > 63 {
		t.Errorf("names %q and %q", a, b)
	}
}

func TestRenamedBuiltins(t *testing.T) {
	for name, want := range map[string]string{
		"json_marshal": "json.marshal", "json_unmarshal": "json.unmarshal", "base64url_decode": "base64url.decode", "time_parse_rfc3339_ns": "time.parse_rfc3339_ns",
		"io_jwt_decode": "io.jwt.decode", "yaml_unmarshal": "yaml.unmarshal", "re_match": "", "to_number": "", "my_helper": "", "count": "",
	} {
		if got, ok := language.RenamedBuiltin(name); got != want || ok != (want != "") {
			t.Errorf("%s is %q today, %t", name, got, ok)
		}
	}
	got := diagnostics(t, policytest.SpecOf(placementv1.RegoV0, `package p
annotations["a"] = x { x := json_marshal(input) }
`))
	if len(got) != 1 || !strings.Contains(got[0], "undefined function json_marshal (it was renamed: write json.marshal)") {
		t.Errorf("diagnostics %q", got)
	}
}
