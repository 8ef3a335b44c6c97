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
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// TestTakeOver verifies which decisions the next version of a policy takes over: on an object that gets clusters, and on one that is
// denied. The clusters have the levels 0, 1, and 2.
func TestTakeOver(t *testing.T) {
	const rego = `package p

clusters contains name if {
	some name, c in data.clusters
	to_number(c.labels.pci) >= to_number(input.metadata.annotations.pci)
}

errors contains "no cluster" if count(clusters) == 0
`
	with := func(spec placementv1.PlacementPolicySpec, change func(*placementv1.PlacementPolicySpec)) placementv1.PlacementPolicySpec {
		change(&spec)
		return spec
	}
	// level has rules that deny objects of a high level, and with a threshold for all objects.
	level := func(value string) placementv1.PlacementPolicySpec {
		return ruledBy(t, `[{name: a, require: [{label: pci, operator: Gte, values: ["`+value+`"]}, {label: pci, operator: Gte, valueFrom: {annotation: pci}}]}]`)
	}
	prefer := func(value string) placementv1.PlacementPolicySpec {
		return ruledBy(t, `[{name: a, require: [{label: pci, operator: Gte, valueFrom: {annotation: pci}}], `+
			`prefer: [{label: pci, operator: In, values: ["2", "`+value+`"], weight: 1}], limit: 1}]`)
	}
	type taken struct{ Clusters, Denial bool }
	tests := map[string]struct {
		before, after placementv1.PlacementPolicySpec
		between       func(before *evaluator)
		want          taken
	}{
		"SameRego":  {v1(rego), v1(rego), nil, taken{true, true}},
		"SameRules": {level("1"), level("1"), nil, taken{true, true}},
		"OtherRego": {v1(rego), v1(rego + "\nwarnings := []\n"), nil, taken{}},
		"OtherData": {v1(rego), with(v1(rego), func(s *placementv1.PlacementPolicySpec) {
			s.Data = &apiextensionsv1.JSON{Raw: json.RawMessage(`{"acme": {}}`)}
		}), nil, taken{}},
		"OtherInputLimit": {v1(rego), with(v1(rego), func(s *placementv1.PlacementPolicySpec) { s.Limits = &placementv1.Limits{InputBytes: 5000} }), nil, taken{}},
		"RulesForRego":    {v1(rego), level("1"), nil, taken{}},
		"RegoForRules":    {level("1"), v1(rego), nil, taken{}},
		// The texts of denials name the threshold.
		"ThresholdThatNoClusterCrosses": {level("1"), level("0.5"), nil, taken{Clusters: true}},
		"ThresholdThatAClusterCrosses":  {level("1"), level("1.5"), nil, taken{}},
		"PreferenceForNoCluster":        {prefer("7"), prefer("8"), nil, taken{Clusters: true}},
		"PreferenceForACluster":         {prefer("7"), prefer("1"), nil, taken{}},
		"OtherOperator":                 {level("1"), with(level("0.5"), func(s *placementv1.PlacementPolicySpec) { s.Rules[0].Require[0].Operator = placementv1.OperatorGt }), nil, taken{}},
		"AnotherRule": {level("1"), with(level("0.5"), func(s *placementv1.PlacementPolicySpec) {
			s.Rules = append([]placementv1.Rule{{Name: "b", When: &placementv1.RuleCondition{Expression: "false"}, Deny: "no"}}, s.Rules...)
		}), nil, taken{}},
		"OtherDataBetween": {level("1"), level("1"), func(before *evaluator) {
			before.engine.data.Replace(managed.GroupVersionResource, []*unstructured.Unstructured{document("", "us", "spec", map[string]any{})})
		}, taken{}},
		"OtherEngine": {level("1"), level("1"), func(before *evaluator) { before.engine, _ = ruledEngine() }, taken{}},
	}
	objects := func(name string) (placed, denied map[string]any) {
		placed, denied = ruledObject(name), ruledObject(name)
		denied["metadata"].(map[string]any)["annotations"] = map[string]any{"pci": "9"}
		return placed, denied
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e, seen := ruledEngine()
			before, _ := prepare(t, e, tc.before)
			placed, denied := objects("web")
			if d := decide(t, before, placed); len(d.Errors) > 0 {
				t.Fatal(d.Errors)
			}
			if d := decide(t, before, denied); len(d.Errors) == 0 {
				t.Fatal("the object is not denied")
			}
			if tc.between != nil {
				tc.between(before.(*evaluator))
			}
			after, _ := prepare(t, e, tc.after)
			after.(*evaluator).TakeOver(t.Context(), before)
			fresh, _ := prepare(t, e, tc.after)
			var got taken
			for object, known := range map[*map[string]any]*bool{&placed: &got.Clusters, &denied: &got.Denial} {
				want, hits := decide(t, fresh, *object), seen.hits.Load()
				if d := decide(t, after, *object); !d.Equal(want) {
					t.Errorf("decides %v, want %v", d, want)
				}
				*known = seen.hits.Load() > hits
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
