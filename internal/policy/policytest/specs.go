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

package policytest

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
)

// SpecOf returns a policy spec that has only Rego.
func SpecOf(version placementv1.RegoVersion, text string) placementv1.PlacementPolicySpec {
	return placementv1.PlacementPolicySpec{RegoVersion: version, Rego: text}
}

// WithData returns the spec with spec.data set to data, which is JSON.
func WithData(spec placementv1.PlacementPolicySpec, data string) placementv1.PlacementPolicySpec {
	spec.Data = &apiextensionsv1.JSON{Raw: []byte(data)}
	return spec
}

// Warned compiles a policy and fails the test unless it has as many warnings as want has texts, and each warning contains its text.
func Warned(t *testing.T, spec placementv1.PlacementPolicySpec, want ...string) {
	t.Helper()
	m, err := policy.Compile("p", spec)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Warnings) != len(want) {
		t.Fatalf("warnings %q, want %q", m.Warnings, want)
	}
	for i := range want {
		if !strings.Contains(m.Warnings[i], want[i]) {
			t.Errorf("warning %q, want %q", m.Warnings[i], want[i])
		}
	}
}

// ReadTexts returns the reads of a module as they are written in Rego, in order.
func ReadTexts(m *policy.Module) []string {
	var out []string
	for _, r := range m.Reads {
		out = append(out, r.String())
	}
	return out
}
