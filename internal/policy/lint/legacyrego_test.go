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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/policytest"
)

// TestOldTexts checks the warnings about expressions that had another meaning in older versions of OPA.
func TestOldTexts(t *testing.T) {
	const lookup = "not customers[input.metadata.labels.customer]"
	tests := map[string]struct {
		version placementv1.RegoVersion
		body    string
		want    []string
	}{
		"Lookup": {placementv1.RegoV0, `customers = {"a": 1}
errors["no"] { ` + lookup + " }", []string{"p.rego:3:16: " + lookup + ": where input.metadata.labels.customer is undefined this is true"}},
		"LookupV1": {placementv1.RegoV1, `customers := {"a": 1}
errors contains "no" if ` + lookup, nil},
		"Needed": {placementv1.RegoV0, `customers = {"a": 1}
errors["no"] { input.metadata.labels.customer; ` + lookup + " }", nil},
		"NeededLater": {placementv1.RegoV0, `customers = {"a": 1}
errors["no"] { x := input.metadata.labels.customer; x != ""; ` + lookup + " }", nil},
		"Kind": {placementv1.RegoV0, `kinds = {"Pod"}
errors["no"] { not kinds[input.kind]; not kinds[input.apiVersion] }`, nil},
		"Namespace": {placementv1.RegoV0, `errors["no"] { not data.kubernetes.namespaces[input.metadata.namespace].metadata.labels.ok; not data.kubernetes.nodes[input.metadata.name] }`, nil},
		"Constant": {placementv1.RegoV0, `customers = {"a": 1}
errors["no"] { not customers.a }`, nil},
		"Resource": {placementv1.RegoV0, `errors["no"] { input.resource.metadata.name == "x" }`, []string{"p.rego:2:16: input.resource: the object is input itself"}},
		"Layout":   {placementv1.RegoV0, `annotations["a"] = x { x := data.io.k8s.clusters.a }`, []string{"the policy reads data.io, which spec.data does not have; Berth keeps clusters at data.clusters[name]"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := policy.Compile("p", policytest.SpecOf(tc.version, "package p\n"+tc.body+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			got := m.Warnings
			for i := range got {
				if i < len(tc.want) && strings.HasPrefix(got[i], tc.want[i]) {
					got[i] = tc.want[i]
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
