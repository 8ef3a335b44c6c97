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
	"strings"
	"testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/policytest"
)

func TestCompileRefuses(t *testing.T) {
	cases := map[string]struct {
		spec placementv1.PlacementPolicySpec
		want string
	}{
		"Syntax": {placementv1.PlacementPolicySpec{Rego: `package p
errors contains {`}, "p.rego:2:"},
		"Empty": {placementv1.PlacementPolicySpec{Rego: ""}, "rego_parse_error"},
		"V1TextAsV0": {placementv1.PlacementPolicySpec{Rego: `package p
errors contains "x" if true`, RegoVersion: placementv1.RegoV0}, "p.rego:2:"},
		"V0TextAsV1": {placementv1.PlacementPolicySpec{Rego: `package p
errors["x"] { true }`}, "p.rego:2:"},
		"HTTP": {placementv1.PlacementPolicySpec{Rego: `package p
labels := http.send({})`}, "http.send is not allowed"},
		"Runtime": {placementv1.PlacementPolicySpec{Rego: `package p
labels := opa.runtime()`}, "opa.runtime is not allowed"},
		"Clock": {placementv1.PlacementPolicySpec{Rego: `package p
labels := {"a": time.now_ns()}`}, "time.now_ns is not allowed"},
		"Function": {placementv1.PlacementPolicySpec{Rego: `package p
labels(x) := x`}, "p.rego:2:1: berth_contract_error"},
		"DataRoot": {policytest.WithData(policytest.SpecOf(placementv1.RegoV1, "package p"), `{"kubernetes":{}}`), "berth_data_error"},
		"DataShadows": {policytest.WithData(policytest.SpecOf(placementv1.RegoV1, `package a.b
labels := {}`), `{"a":{"b":{"c":1}}}`), "berth_data_error"},
		"DataList": {policytest.WithData(policytest.SpecOf(placementv1.RegoV1, "package p"), `[]`), "berth_data_error"},
		"DynamicType": {placementv1.PlacementPolicySpec{Rego: `package p
labels := data.kubernetes[input.kind]`}, "p.rego:2:11: berth_unresolved_read"},
		"WholeData": {placementv1.PlacementPolicySpec{Rego: `package p
labels := data`}, "rego_recursion_error"},
		"WalkAll": {placementv1.PlacementPolicySpec{Rego: `package p
labels := [x | walk(data.kubernetes, x)]`}, "berth_unresolved_read"},
		"DynamicGroup": {placementv1.PlacementPolicySpec{Rego: `package p
labels := data.resources[input.x].pods`}, "berth_unresolved_read"},
		"PrefixInVar": {placementv1.PlacementPolicySpec{Rego: `package p
labels := y if { x := data.kubernetes; y := x.pods }`}, "berth_unresolved_read"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Compile("p", tc.spec)
			if _, ok := errors.AsType[*policy.CompileError](err); !ok {
				t.Fatalf("error %v, want a *CompileError", err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v\nwant %q", err, tc.want)
			}
		})
	}
}
