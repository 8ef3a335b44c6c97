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
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// ordinary returns a typical policy. Policies with different numbers differ.
func ordinary(n int) string {
	return fmt.Sprintf(`package kubernetes.placement

annotations["placement.example/clusters"] := concat(",", sort([name | some name in eligible]))

eligible contains name if {
	some name, cluster in data.clusters
	cluster.labels.jurisdiction == "eu-%d"
	to_number(cluster.labels["pci-level"]) >= level
}

default level := 0

level := to_number(input.metadata.annotations["pci-level"])

errors contains sprintf("no cluster has PCI level %%v", [level]) if count(eligible) == 0
`, n)
}

func mustCompile(t testing.TB, name string, spec placementv1.PlacementPolicySpec) *Module {
	t.Helper()
	m, err := Compile(name, spec)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestEqualTextsShare checks that policies with equal Rego share the compilation, and nothing that is specific to one
// policy.
func TestEqualTextsShare(t *testing.T) {
	text := `package p
labels := {"a": data.x, "b": data.y}`
	a := mustCompile(t, "a", placementv1.PlacementPolicySpec{Rego: text, Data: &apiextensionsv1.JSON{Raw: []byte(`{"x": "1"}`)}})
	b := mustCompile(t, "b", placementv1.PlacementPolicySpec{Rego: text, Data: &apiextensionsv1.JSON{Raw: []byte(`{"y": "1"}`)}})
	if a.Compiler != b.Compiler || a.Digest != b.Digest || a.Input != b.Input {
		t.Error("two policies of one text share nothing")
	}
	if a.Static.Get(ast.StringTerm("x")) == nil || b.Static.Get(ast.StringTerm("x")) != nil {
		t.Error("two policies of one text share their data")
	}
	if strings.Contains(strings.Join(a.Warnings, "\n"), "data.x") || !strings.Contains(strings.Join(a.Warnings, "\n"), "data.y") ||
		!strings.Contains(strings.Join(b.Warnings, "\n"), "data.x") {
		t.Errorf("warnings are %q and %q", a.Warnings, b.Warnings)
	}
	for name, spec := range map[string]placementv1.PlacementPolicySpec{
		"OtherText":    {Rego: text + "\n"},
		"OtherVersion": {Rego: text, RegoVersion: placementv1.RegoV0},
		"Listed":       {Rego: text, Replicate: []placementv1.ReplicatedResource{{Resource: "pods"}}},
	} {
		spec.Rego = strings.ReplaceAll(spec.Rego, ":=", "=")
		plain := mustCompile(t, "plain", placementv1.PlacementPolicySpec{Rego: strings.ReplaceAll(text, ":=", "=")})
		if other := mustCompile(t, name, spec); other.Digest == plain.Digest || other.Compiler == plain.Compiler {
			t.Errorf("%s: is the same to the compiler", name)
		}
	}
}

// TestMessagesNameTheFile checks that messages name the policy's own file, even if another policy with the same Rego
// was compiled first.
func TestMessagesNameTheFile(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"Parse": {`package p
labels := {`, "%[1]s.rego:2:"},
		"Compile": {`package p
labels := x`, "%[1]s.rego:2:11: rego_unsafe_var_error: var x is unsafe"},
		"Contract": {`package p
labels(x) := x`, "%[1]s.rego:2:1: berth_contract_error: "},
		"Read": {`package p
labels := data.kubernetes[input.kind]`, "%[1]s.rego:2:11: berth_unresolved_read: "},
		// This message itself contains positions.
		"Defaults": {`package p
default labels := {}
default labels := {}`, "%[1]s.rego:2, %[1]s.rego:3"},
		"Empty": {"", "%[1]s.rego"},
	} {
		t.Run(name, func(t *testing.T) {
			var all sync.WaitGroup
			for _, file := range []string{"a", "b", "c", "d"} {
				all.Go(func() {
					_, err := Compile(file, placementv1.PlacementPolicySpec{Rego: tc.text})
					if err == nil {
						t.Error("compiles")
						return
					}
					if want := fmt.Sprintf(tc.want, file); !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), textFile) {
						t.Errorf("is\n%v\nwant %q", err, want)
					}
				})
			}
			all.Wait()
		})
	}
}

// heap returns the number of bytes in use after garbage collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestRetained checks that the memory per policy is bounded, and negligible if another policy has the same Rego.
func TestRetained(t *testing.T) {
	const n = 200
	compiled := func(text func(i int) string) int64 {
		modules := make([]*Module, n)
		before := heap()
		for i := range modules {
			modules[i] = mustCompile(t, fmt.Sprint(i), placementv1.PlacementPolicySpec{Rego: text(i)})
		}
		after := heap()
		runtime.KeepAlive(modules)
		return (after - before) / n
	}
	// Do not count values that are created only once.
	compiled(func(int) string { return ordinary(-1) })
	distinct := compiled(ordinary)
	shared := mustCompile(t, "shared", placementv1.PlacementPolicySpec{Rego: ordinary(-2)})
	equal := compiled(func(int) string { return ordinary(-2) })
	runtime.KeepAlive(shared)
	t.Logf("%d bytes of a distinct text, %d of one that is known", distinct, equal)
	if distinct > 256<<10 {
		t.Errorf("%d bytes are kept of a distinct text", distinct)
	}
	if equal > 4<<10 {
		t.Errorf("%d bytes are kept of a text that is known", equal)
	}
}

// TestUnitsGoWithTheirPolicies checks that a compilation is released when no policy uses it any more.
func TestUnitsGoWithTheirPolicies(t *testing.T) {
	before := heap()
	for i := range 100 {
		mustCompile(t, "p", placementv1.PlacementPolicySpec{Rego: ordinary(1000 + i)})
	}
	for range 1000 {
		if units.Len() < 50 {
			break
		}
		runtime.GC()
	}
	if n := units.Len(); n >= 50 {
		t.Errorf("%d texts are known, and no policy has them", n)
	}
	if grown := heap() - before; grown > 50*(64<<10) {
		t.Errorf("%d bytes are kept of texts that no policy has", grown)
	}
}

func BenchmarkCompile(b *testing.B) {
	b.Run("text=distinct", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			i++
			mustCompile(b, "p", placementv1.PlacementPolicySpec{Rego: ordinary(1_000_000 + i)})
		}
	})
	b.Run("text=known", func(b *testing.B) {
		known := mustCompile(b, "p", placementv1.PlacementPolicySpec{Rego: ordinary(0)})
		b.ReportAllocs()
		for b.Loop() {
			mustCompile(b, "p", placementv1.PlacementPolicySpec{Rego: ordinary(0)})
		}
		runtime.KeepAlive(known)
	})
}
