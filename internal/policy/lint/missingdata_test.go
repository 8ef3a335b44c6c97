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
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/lint"
	"github.com/berth-dev/berth/internal/policy/policytest"
)

// TestFindings checks that each reference to a document that spec.data lacks is a finding, and so is the head of a rule
// that resembles a contract rule.
func TestFindings(t *testing.T) {
	const missing = "the policy reads data.io, which spec.data does not have; Berth keeps clusters at data.clusters[name] and objects of the cluster at data.kubernetes.<plural>"
	tests := map[string]struct {
		version placementv1.RegoVersion
		text    string
		want    []lint.Finding
	}{
		"OldLayout": {placementv1.RegoV0, `package p
annotations["a"] = x { x := data.io.k8s.x }
errors["b"] { data.io }
`, []lint.Finding{
			{Position: lint.Position{Row: 2, Col: 29}, Message: missing, Undefined: true}, {Position: lint.Position{Row: 3, Col: 15}, Message: missing, Undefined: true}}},
		"Import": {placementv1.RegoV0, `package p
import data.io.k8s as k
annotations["a"] = x { x := k.x }
`, []lint.Finding{
			{Position: lint.Position{Row: 3, Col: 29}, Message: missing, Undefined: true}}},
		"There": {placementv1.RegoV1, `package p
labels["a"] := data.acme.x
`, nil},
		"Near": {placementv1.RegoV1, `package p
labels := {}
deny contains "x" if input.y
`, []lint.Finding{
			{Position: lint.Position{Row: 3, Col: 1}, Message: "the rule deny decides nothing: Berth evaluates annotations, labels, scheduling, clusters, errors, warnings. Did you mean errors?"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spec := policytest.SpecOf(tc.version, tc.text)
			spec.Data = &apiextensionsv1.JSON{Raw: []byte(`{"acme": {"x": "y"}}`)}
			for range 2 {
				m, err := policy.Compile("p", spec)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, m.Findings); diff != "" {
					t.Errorf("findings (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestMissingDataNamesWhatIsThere checks that the message about missing data suggests the right name.
func TestMissingDataNamesWhatIsThere(t *testing.T) {
	const missing = "the policy reads data.zones, which spec.data does not have"
	testLogic(t, map[string]logicTest{
		"Renamed": {text: `labels["a"] := data.zones.x`, data: `{"regions": {}, "zone": {}}`, want: []string{missing + "; it has regions, zone; did you mean data.zone?"}},
		"Far":     {text: `labels["a"] := data.zones.x`, data: `{"regions": {}}`, want: []string{missing + "; it has regions"}},
		"Many":    {text: `labels["a"] := data.zones.x`, data: `{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1}`, want: []string{missing + "; it has a, b, c, d, e, and 2 more"}},
		"Both":    {text: `labels["a"] := data.zones[data.zone]`, data: `{"zone": {}}`, want: []string{missing + "; it has zone"}},
		"Berth's": {text: `labels["a"] := data.cluster.eu.region`, want: []string{"the policy reads data.cluster, which spec.data does not have; did you mean data.clusters?"}},
		"Beside":  {text: `labels["a"] := data.cluster[data.regions.eu].region`, data: `{"regions": {"eu": "eu-1"}}`, want: []string{"data.cluster, which spec.data does not have; it has regions; did you mean data.clusters?"}},
		"Two":     {text: `labels["a"] := data.zones[data.region]`, data: `{"zone": {}, "regions": {}}`, want: []string{"data.region, data.zones, which spec.data does not have; it has regions, zone; did you mean data.regions, data.zone?"}},
	})
}
