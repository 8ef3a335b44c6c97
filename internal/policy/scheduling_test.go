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
	"testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
)

func TestRestrictsPods(t *testing.T) {
	for rego, want := range map[string]bool{
		`labels.a := "b"`:                                                               false,
		`scheduling.nodeSelector.disk := "ssd"`:                                         true,
		`scheduling.priorityClassName := "high"`:                                        true,
		`scheduling.schedulerName := "s" if input.a`:                                    true,
		`scheduling.tolerations := [{"key": input.a}]`:                                  false,
		`scheduling := {"tolerations": [{"key": "a"}]}`:                                 false,
		`scheduling := {"tolerations": [{"key": "a"}], "nodeSelector": {"a": input.a}}`: true,
		`scheduling := input.metadata.annotations`:                                      true,
		`scheduling[k] := v if some k, v in {"tolerations": []}`:                        true,
		`scheduling.topologySpreadConstraints := [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}]`:             false,
		`scheduling.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution := []`:                                         false,
		`scheduling.affinity := {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": data.w}]}}`:             false,
		`scheduling.affinity := {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": input.spec.zone}]}}`: true,
		`scheduling.tolerations := []

scheduling.nodeSelector.a := "b" if input.a`: true,
	} {
		spec := placementv1.PlacementPolicySpec{Rego: "package p\n\n" + rego + "\n"}
		m, err := policy.Compile("p", spec.WithDefaults())
		if m == nil {
			t.Fatalf("%s: %v", rego, err)
		}
		if m.RestrictsPods != want {
			t.Errorf("%s: RestrictsPods is %t", rego, m.RestrictsPods)
		}
	}
}
