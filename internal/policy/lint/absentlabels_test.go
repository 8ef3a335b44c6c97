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

func TestAbsentLabels(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want []lint.AbsentLabel
	}{
		"One": {`errors contains "no" if not input.metadata.labels["example.com/owner"]`, []lint.AbsentLabel{{Position: lint.Position{Row: 2, Col: 25}, Key: "example.com/owner"}}},
		"Beside": {`errors contains "no" if {
	input.spec.x
	not input.metadata.labels.a
	not input.metadata.labels.b
}`, []lint.AbsentLabel{{Position: lint.Position{Row: 4, Col: 2}, Key: "a"}, {Position: lint.Position{Row: 5, Col: 2}, Key: "b"}}},
		"All": {`errors contains "no" if not input.metadata.labels.a
labels.x := "y" if not input.metadata.labels.a`, []lint.AbsentLabel{{Position: lint.Position{Row: 2, Col: 25}, Key: "a"}}},
		"Some": {`errors contains "no" if not input.metadata.labels.a
labels.x := "y"`, nil},
		"Else": {`labels.x := "y" if {
	not input.metadata.labels.a
} else := "z"`, nil},
		"Value":      {`errors contains "no" if not input.metadata.labels.a == "b"`, nil},
		"Present":    {`errors contains "no" if input.metadata.labels.a`, nil},
		"Annotation": {`errors contains "no" if not input.metadata.annotations.a`, nil},
		"Template":   {`errors contains "no" if not input.spec.template.metadata.labels.a`, nil},
		"Variable": {`errors contains "no" if {
	some k in ["a", "b"]
	not input.metadata.labels[k]
}`, nil},
		"OtherInput": {`errors contains "no" if not input.metadata.labels.a with input as {}`, nil},
		"NoClause":   {`x := 1`, nil},
		"DefaultToo": {`default errors := []
errors := ["no"] if not input.metadata.labels.a`, nil},
		"HelperRules": {`errors contains "no" if missing
missing if not input.metadata.labels.a`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := policy.Compile("p", policytest.SpecOf(placementv1.RegoV1, "package p\n"+tc.body+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, lint.AbsentLabels(m.Compiler)); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}
