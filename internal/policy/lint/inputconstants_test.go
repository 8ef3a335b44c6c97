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

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/lint"
	"github.com/berth-dev/berth/internal/policy/policytest"
)

func TestInputConstants(t *testing.T) {
	v0, v1 := placementv1.RegoV0, placementv1.RegoV1
	kind := func(row, col int, value string) lint.InputConstant {
		return lint.InputConstant{Position: lint.Position{Row: row, Col: col}, Field: "kind", Value: value}
	}
	differs := func(c lint.InputConstant) lint.InputConstant {
		c.Differs = true
		return c
	}
	for name, tc := range map[string]struct {
		version placementv1.RegoVersion
		body    string
		want    []lint.InputConstant
	}{
		"Equal":      {v1, `errors contains "no" if input.kind == "pods"`, []lint.InputConstant{kind(2, 25, "pods")}},
		"Turned":     {v1, `errors contains "no" if "pods" == input.kind`, []lint.InputConstant{kind(2, 25, "pods")}},
		"Unified":    {v0, `errors["no"] { input.kind = "pods" }`, []lint.InputConstant{kind(2, 16, "pods")}},
		"APIVersion": {v1, `errors contains "no" if input.apiVersion == "v1"`, []lint.InputConstant{{Position: lint.Position{Row: 2, Col: 25}, Field: "apiVersion", Value: "v1"}}},
		"Differs":    {v1, `errors contains "no" if input.kind != "pods"`, []lint.InputConstant{differs(kind(2, 25, "pods"))}},
		"Negated":    {v1, `errors contains "no" if not input.kind == "pods"`, []lint.InputConstant{differs(kind(2, 25, "pods"))}},
		"Set":        {v1, `errors contains "no" if input.kind in {"pods", "Job"}`, []lint.InputConstant{kind(2, 25, "Job"), kind(2, 25, "pods")}},
		"NotInArray": {v1, `errors contains "no" if not input.kind in ["pods"]`, []lint.InputConstant{differs(kind(2, 25, "pods"))}},
		"SetByName": {v1, `errors contains "no" if input.kind in kinds
kinds := {"pods"}`, []lint.InputConstant{kind(2, 25, "pods")}},
		"Variable": {v1, `errors contains "no" if {
	kind := input.kind
	kind == "pods"
}`, []lint.InputConstant{kind(4, 2, "pods")}},
		"Helper": {v1, `errors contains "no" if is_pod
is_pod if input.kind == "pods"`, []lint.InputConstant{kind(3, 11, "pods")}},
		"Nested":     {v1, `errors contains "no" if count([1 | input.kind == "pods"]) > 0`, []lint.InputConstant{kind(2, 36, "pods")}},
		"OtherField": {v1, `errors contains "no" if input.spec.kind == "pods"`, nil},
		"OtherInput": {v1, `errors contains "no" if is_pod with input as {"kind": "pods"}
is_pod if input.kind == "pods"`, nil},
		"NoConstant": {v1, `errors contains "no" if input.kind == input.metadata.labels.kind`, nil},
		"SetOfInput": {v1, `errors contains "no" if input.kind in {"pods", input.x}`, nil},
		"SetBySome": {v1, `errors contains "no" if input.kind in kinds
kinds contains "pods" if input.x`, nil},
		"Number": {v1, `errors contains "no" if input.kind == 1`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := policy.Compile("p", policytest.SpecOf(tc.version, "package p\n"+tc.body+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, lint.InputConstants(m.Compiler)); diff != "" {
				t.Errorf("constants (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPoliciesWithoutRego checks that policies that a remote engine decides have no names and constants.
func TestPoliciesWithoutRego(t *testing.T) {
	if found := len(lint.InputConstants(nil)) + len(lint.ClusterConstants(nil)) + len(lint.ClusterKeys(nil)) + len(lint.AbsentLabels(nil)); found > 0 {
		t.Errorf("%d are found", found)
	}
}
