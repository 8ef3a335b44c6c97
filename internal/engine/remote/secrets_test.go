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

package remote

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
)

// TestSecretsAreSentWithoutData verifies that Secrets are sent without their confidential content, and that the object
// itself is not changed.
func TestSecretsAreSentWithoutData(t *testing.T) {
	for _, path := range []string{"/v1/data/policy", "/v0/data/policy"} {
		synctest.Test(t, func(t *testing.T) {
			var got string
			f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = string(body)
				says(`{"result": {"errors": []}}`)(w, r)
			})
			p := f.put(t, "p", placementv1.Remote{URL: address0 + path})
			secret := map[string]any{
				"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
				"data": map[string]any{"key-s3cr3t": "djQxdTM="}, "stringData": map[string]any{"other": "v41u3"},
				"metadata": map[string]any{
					"name": "mine", "annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": `{"data": "v41u3"}`, "a": "b"},
					"managedFields": []any{map[string]any{"fieldsV1": map[string]any{"f:data": map[string]any{"f:key-s3cr3t": map[string]any{}}}}},
				},
			}
			before := cmp.Diff(nil, secret)
			if _, err := p.Evaluate(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			for _, hidden := range []string{"djQxdTM=", "v41u3", "s3cr3t", "last-applied"} {
				if strings.Contains(got, hidden) {
					t.Errorf("the engine got %q", got)
				}
			}
			if !strings.Contains(got, `"mine"`) || !strings.Contains(got, `{"a":"b"}`) {
				t.Errorf("the engine got %q", got)
			}
			if cmp.Diff(nil, secret) != before {
				t.Error("the object was changed")
			}
		})
	}
}

// TestPoliciesOnSecretsAreRefused verifies that a policy that matches Secrets is not prepared, even if it is already
// stored.
func TestPoliciesOnSecretsAreRefused(t *testing.T) {
	rule := func(group, resource string) placementv1.Match {
		return placementv1.Match{ResourceRules: []placementv1.ResourceRule{{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{"configmaps", resource}}}}
	}
	tests := map[string]struct {
		match     placementv1.Match
		replicate []placementv1.ReplicatedResource
		refused   bool
		warned    bool
	}{
		"Named":      {match: rule("", "secrets"), refused: true, warned: true},
		"AnyGroup":   {match: rule("*", "secrets"), refused: true, warned: true},
		"OtherGroup": {match: rule("secrets.example", "secrets")},
		"Wildcard":   {match: rule("", "*"), warned: true},
		"Replicated": {match: rule("", "pods"), replicate: []placementv1.ReplicatedResource{{Resource: "secrets"}}, refused: true},
		"Other":      {match: rule("", "pods"), replicate: []placementv1.ReplicatedResource{{Resource: "nodes"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := policy.Compile("p", placementv1.PlacementPolicySpec{
				Match: tc.match, Remote: &placementv1.Remote{URL: "https://opa.example/v1/data/p", Replicate: tc.replicate},
			})
			if err != nil {
				t.Fatal(err)
			}
			if warned := len(m.Warnings) > 0; warned != tc.warned {
				t.Errorf("warnings %q", m.Warnings)
			}
			_, err = New(Options{}).Prepare(t.Context(), "p", m, &policy.Binding{Remote: m.Remote})
			if refused := err != nil; refused != tc.refused || refused && !strings.Contains(err.Error(), "--allow-remote-secrets") {
				t.Errorf("error %v", err)
			}
			if _, err = New(Options{AllowSecrets: true}).Prepare(t.Context(), "p", m, &policy.Binding{Remote: m.Remote}); err != nil {
				t.Errorf("allowed: %v", err)
			}
		})
	}
}
