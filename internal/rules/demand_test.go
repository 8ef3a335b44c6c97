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

package rules

import (
	"strings"
	"testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// TestDemand checks what is said of the value of an object that requirements compare clusters with, and that the value replaces the names
// of Rego rules of the rendered module.
func TestDemand(t *testing.T) {
	object := map[string]any{"metadata": map[string]any{"labels": map[string]any{"pci": "3", "level": "two", "cpu": "500m", "region": "eu"}}}
	require := func(subject placementv1.Subject, operator placementv1.RequirementOperator, from placementv1.ObjectValue) placementv1.Requirement {
		return placementv1.Requirement{Subject: subject, Operator: operator, ValueFrom: &from}
	}
	label := placementv1.Subject{Label: "l"}
	for name, tc := range map[string]struct {
		q placementv1.Requirement
		// rendered is a part of the module, and want the same with the value of the object.
		rendered, want string
		unusable       string
	}{
		"Number": {
			require(label, placementv1.OperatorGte, placementv1.ObjectValue{Label: "pci"}), "number(cluster.labels.l) >= compared_require_1_eu_pci", "number(cluster.labels.l) >= 3", "",
		},
		"Text": {
			require(label, placementv1.OperatorIn, placementv1.ObjectValue{Label: "region"}), "cluster.labels.l in {value_require_1_eu_pci}", `cluster.labels.l in {"eu"}`, "",
		},
		"Quantity": {
			require(placementv1.Subject{Allocatable: "cpu"}, placementv1.OperatorGt, placementv1.ObjectValue{Label: "cpu"}),
			"k8s.quantity.compare(quantity(cluster.allocatable.cpu), compared_require_1_eu_pci) > 0", `k8s.quantity.compare(quantity(cluster.allocatable.cpu), "500m") > 0`, "",
		},
		"Default": {
			require(label, placementv1.OperatorLt, placementv1.ObjectValue{Annotation: "none", Default: new("7")}), "number(cluster.labels.l) < compared_require_1_eu_pci", "number(cluster.labels.l) < 7", "",
		},
		"Unreadable": {
			require(label, placementv1.OperatorGte, placementv1.ObjectValue{Label: "level"}), "compared_require_1_eu_pci", `"two"`,
			`can't read metadata.labels[level] of the object: "two" must be a number, such as 2 or 0.5`,
		},
		"Missing": {
			require(label, placementv1.OperatorIn, placementv1.ObjectValue{Annotation: "a.b/c"}), "value_require_1_eu_pci", "",
			"compares with metadata.annotations[a.b/c], which the object does not have",
		},
	} {
		t.Run(name, func(t *testing.T) {
			rule := placementv1.Rule{Name: "eu-pci", Require: []placementv1.Requirement{tc.q}}
			module, _, errs := Render([]placementv1.Rule{rule})
			if len(errs) > 0 || !strings.Contains(module.Text, tc.rendered) {
				t.Fatalf("errors %v, module\n%s", errs, module.Text)
			}
			d, ok := DemandOf(rule, 0, object)
			if !ok {
				t.Fatal("no demand")
			}
			if got := d.In(tc.rendered); !d.IsMissing && got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
			if d.IsDefault != (name == "Default") || d.IsMissing != (name == "Missing") {
				t.Errorf("demand %+v", d)
			}
			if tc.unusable != "" && (d.Unusable() != tc.unusable || !d.Names(tc.rendered)) {
				t.Errorf("%s, want %s", d.Unusable(), tc.unusable)
			}
		})
	}
	// The names of one rule's Rego rules begin with those of the other.
	region := require(label, placementv1.OperatorIn, placementv1.ObjectValue{Label: "region"})
	d, _ := DemandOf(placementv1.Rule{Name: "eu", Require: []placementv1.Requirement{region}}, 0, object)
	if got := d.In("value_require_1_eu == value_require_1_eu_pci"); got != `"eu" == value_require_1_eu_pci` {
		t.Errorf("the value replaces the name of another rule: %s", got)
	}
	rule := placementv1.Rule{Name: "eu", Require: []placementv1.Requirement{{Subject: label, Operator: placementv1.OperatorExists}}}
	if d, ok := DemandOf(rule, 0, object); ok {
		t.Errorf("demand %+v of a requirement without valueFrom", d)
	}
}
