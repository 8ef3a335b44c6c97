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
	"testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// TestMust checks what is said of a cluster that meets a requirement.
func TestMust(t *testing.T) {
	object := map[string]any{"metadata": map[string]any{"labels": map[string]any{"pci": "3"}, "annotations": map[string]any{"zone": "a"}}}
	label := func(name string) placementv1.Subject { return placementv1.Subject{Label: name} }
	from := func(value placementv1.ObjectValue) *placementv1.ObjectValue { return &value }
	for want, q := range map[string]placementv1.Requirement{
		"must be eu": {
			Subject: placementv1.Subject{Field: placementv1.ClusterFieldRegion}, Operator: placementv1.OperatorIn, Values: []string{"eu"},
		},
		"must be one of a, b":  {Subject: label("tier"), Operator: placementv1.OperatorIn, Values: []string{"a", "b"}},
		"must not be a":        {Subject: label("tier"), Operator: placementv1.OperatorNotIn, Values: []string{"a"}},
		"must be none of a, b": {Subject: label("tier"), Operator: placementv1.OperatorNotIn, Values: []string{"a", "b"}},
		"must exist":           {Subject: placementv1.Subject{Annotation: "a"}, Operator: placementv1.OperatorExists},
		"must not exist":       {Subject: placementv1.Subject{Property: "p"}, Operator: placementv1.OperatorDoesNotExist},
		"must be above 8":      {Subject: placementv1.Subject{Free: "cpu"}, Operator: placementv1.OperatorGt, Values: []string{"8"}},
		"must be below 8":      {Subject: placementv1.Subject{Allocatable: "cpu"}, Operator: placementv1.OperatorLt, Values: []string{"8"}},
		"must be at least 3":   {Subject: label("pci"), Operator: placementv1.OperatorGte, ValueFrom: from(placementv1.ObjectValue{Label: "pci"})},
		"must be a":            {Subject: label("zone"), Operator: placementv1.OperatorIn, ValueFrom: from(placementv1.ObjectValue{Annotation: "zone"})},
		"must be at most 0":    {Subject: label("pci"), Operator: placementv1.OperatorLte, ValueFrom: from(placementv1.ObjectValue{Label: "none", Default: new("0")})},
		"":                     {Subject: label("pci"), Operator: placementv1.OperatorLte, ValueFrom: from(placementv1.ObjectValue{Label: "none"})},
	} {
		if got := Must(q, object); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
