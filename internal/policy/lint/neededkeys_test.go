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

func TestNeededKeys(t *testing.T) {
	const eu = `clusters contains "eu" if input.metadata.labels.a == "x"
`
	for name, tc := range map[string]struct {
		body string
		want []lint.NeededKey
	}{
		"Label":      {eu, []lint.NeededKey{{Position: lint.Position{Row: 2, Col: 27}, Field: "labels", Key: "a"}}},
		"Annotation": {`clusters contains "eu" if "x" == input.metadata.annotations["b/c"]`, []lint.NeededKey{{Position: lint.Position{Row: 2, Col: 27}, Field: "annotations", Key: "b/c"}}},
		"All":        {eu + `clusters contains "us" if input.metadata.labels.a == "y"`, []lint.NeededKey{{Position: lint.Position{Row: 2, Col: 27}, Field: "labels", Key: "a"}}},
		"Some":       {eu + `clusters contains "us"`, nil},
		"Errors":     {eu + `errors contains "a is missing" if not input.metadata.labels.a`, nil},
		"Undefined":  {`clusters := {"eu"} if input.metadata.labels.a == "x"`, nil},
		"Different":  {`clusters contains "eu" if input.metadata.labels.a != "x"`, nil},
		"Negated":    {`clusters contains "eu" if not input.metadata.labels.a == "x"`, nil},
		"Template":   {`clusters contains "eu" if input.spec.template.metadata.labels.a == "x"`, nil},
		"OtherRule":  {`labels.b := "c" if input.metadata.labels.a == "x"`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := policy.Compile("p", policytest.SpecOf(placementv1.RegoV1, "package p\n"+tc.body+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			got := lint.NeededKeys(m.Compiler)
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}
