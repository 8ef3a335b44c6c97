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
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/policytest"
)

// FuzzCompile checks that every text compiles or is rejected with a diagnostic, with the same result each time.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{
		"", "package p", `package p
labels := {}`, `package kubernetes.placement
import data.kubernetes.clusters
errors[x] { clusters[x] }`,
		`package p
errors contains x if data.kubernetes[x]`, `package p
annotations["a/b"] := data.resources["apps/v1"].deployments`,
		`package p
x if every y in data.clusters { y }`, `package p
x := http.send({})`, `package a["b"].c
warnings contains $"{data.a}"`,
		`package p
f(x) := x
labels := f(1) with f as input.y`, `# METADATA
# title: x
package p
default labels := {}`,
		`package p
labels := {x: y | some x, y in data.acme}
else := data[input.x]`, `package p
errors contains r if {
	some _, r in data.acme.a
	x := lower(input.x)
	x == "A"
	x in [r]
	not startswith(input.x, r)
}`,
		`package p
import data.acme as d
errors[x] { x = d.a[_]; input.y != x; input.labels.a-b.c/d-1; input.z < 1; 2 < input.z }`,
		"package \"p\"", `package data
x := data`, "package input",
	} {
		f.Add(text, `{"acme": {"a": [1, 2.50]}}`, false, false)
		f.Add(text, `[]`, true, true)
	}
	f.Fuzz(func(t *testing.T, text, data string, v0, listed bool) {
		spec := policytest.WithData(policytest.SpecOf(placementv1.RegoV1, text), data)
		if v0 {
			spec.RegoVersion = placementv1.RegoV0
		}
		if listed {
			spec.Replicate = []placementv1.ReplicatedResource{{Resource: "pods"}}
		}
		m, err := policy.Compile("p", spec)
		again, errAgain := policy.Compile("p", spec)
		if err != nil {
			var compileError *policy.CompileError
			if !errors.As(err, &compileError) || len(compileError.Diagnostics) == 0 {
				t.Fatalf("error without diagnostics: %T %v", err, err)
			}
			if errAgain == nil || err.Error() != errAgain.Error() {
				t.Fatalf("the second time: %v; the first: %v", errAgain, err)
			}
			return
		}
		if errAgain != nil {
			t.Fatalf("compiles at first, and then not: %v", errAgain)
		}
		if diff := cmp.Diff(policytest.ReadTexts(m), policytest.ReadTexts(again)); diff != "" {
			t.Fatalf("reads differ from try to try: %s", diff)
		}
		if reads := policytest.ReadTexts(m); !slices.IsSorted(reads) || len(slices.Compact(reads)) != len(m.Reads) {
			t.Fatalf("reads are not sorted, or double: %v", reads)
		}
		if _, err := policy.Bind("p", m, spec.Replicate, served{resource("", "v1", "pods")}); err != nil {
			t.Fatal(err)
		}
	})
}
