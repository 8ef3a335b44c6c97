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

package placementmutator_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
)

// fitting returns a policy that requires that objects fit on the only node, which has 2 CPUs.
func fitting(t *testing.T, mode placementv1.Mode) *placement.Policy {
	t.Helper()
	registry, err := predicates.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	set, err := registry.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	world := predicates.NewNodeCache()
	world.Load(corev1.SchemeGroupVersion.WithResource("nodes"), []*unstructured.Unstructured{{Object: map[string]any{
		"metadata": map[string]any{"name": "n"},
		"status":   map[string]any{"allocatable": map[string]any{"cpu": "2", "pods": "10"}},
	}}})
	world.Load(corev1.SchemeGroupVersion.WithResource("pods"), nil)
	world.Load(corev1.SchemeGroupVersion.WithResource("namespaces"), nil)
	engine := embedded.New(embedded.NewData(), embedded.Options{Timeout: time.Minute, Concurrency: 2, Predicates: set, World: world})
	spec := placementv1.PlacementPolicySpec{Predicates: &placementv1.Predicates{Candidates: placementv1.PredicateCandidatesNodes}}
	m, err := policy.Compile("fits", spec.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	evaluator, err := engine.Prepare(t.Context(), "fits", m, &policy.Binding{})
	if err != nil {
		t.Fatal(err)
	}
	p := policyOf(t, "fits", mode, placementv1.FailurePolicyFail, answer{})
	p.Evaluator = evaluator
	return p
}

// TestHandleWhatFitsNowhere checks that an object that fits nowhere is denied, warned about or counted, as the policy's
// mode says.
func TestHandleWhatFitsNowhere(t *testing.T) {
	const reason = "0/1 nodes fit: 1 Insufficient cpu"
	deployment := func(cpu string) string {
		return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"selector":{"matchLabels":{"a":"b"}},` +
			`"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"c","resources":{"requests":{"cpu":"` + cpu + `"}}}]}}}}`
	}
	tests := map[placementv1.Mode]struct {
		allowed, warned bool
	}{
		placementv1.ModeEnforce: {},
		placementv1.ModeWarn:    {allowed: true, warned: true},
		placementv1.ModeDryRun:  {allowed: true},
	}
	for mode, tc := range tests {
		t.Run(string(mode), func(t *testing.T) {
			f := newFixture(t, fitting(t, mode))
			got := f.Handle(t.Context(), request(deployment("3")))
			if got.Allowed != tc.allowed || !tc.allowed && !strings.Contains(got.Result.Message, reason) {
				t.Errorf("allowed %t, %v", got.Allowed, got.Result)
			}
			if warned := strings.Contains(strings.Join(got.Warnings, "\n"), reason); warned != tc.warned {
				t.Errorf("warnings %q", got.Warnings)
			}
			if got := f.Handle(t.Context(), request(deployment("1"))); !got.Allowed || len(got.Warnings) > 0 {
				text, _ := json.Marshal(got)
				t.Errorf("what fits: %s", text)
			}
		})
	}
}
