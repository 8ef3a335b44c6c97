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
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
)

const (
	euAnnotation  = "policy.federation.alpha.kubernetes.io/eu-jurisdiction-required"
	preferences   = "federation.kubernetes.io/replica-set-preferences"
	pciAnnotation = "policy.federation.alpha.kubernetes.io/pci-compliance-level"
)

// fleet returns n cluster profiles of four PCI levels, half of them in the EU.
func fleet(n int) []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, n)
	for i := range out {
		out[i] = document("fleet", fmt.Sprintf("cluster-%d", i),
			"spec", map[string]any{"displayName": fmt.Sprintf("Cluster %d", i), "clusterManager": map[string]any{"name": "fleet"}},
			"status", map[string]any{
				"version":    map[string]any{"kubernetes": "1.36.3"},
				"conditions": []any{map[string]any{"type": "ControlPlaneHealthy", "status": "True", "reason": "Healthy"}},
				"properties": []any{map[string]any{"name": "location", "value": "somewhere"}},
			})
		out[i].SetLabels(map[string]string{
			"topology.berth.dev/jurisdiction": []string{"eu", "us"}[i%2], "compliance.berth.dev/pci-level": fmt.Sprint(i / 2 % 4),
		})
	}
	return out
}

// deployment returns an ordinary workload.
func deployment(uid, level string) map[string]any {
	containers := []any{}
	for i := range 3 {
		containers = append(containers, map[string]any{
			"name": fmt.Sprintf("c%d", i), "image": "registry.example/shop/web:1.2.3",
			"env":       []any{map[string]any{"name": "MODE", "value": "production"}, map[string]any{"name": "LEVEL", "value": "info"}},
			"resources": map[string]any{"limits": map[string]any{"cpu": "500m", "memory": "512Mi"}, "requests": map[string]any{"cpu": "100m", "memory": "128Mi"}},
			"ports":     []any{map[string]any{"containerPort": int64(8080), "protocol": "TCP"}},
		})
	}
	labels := map[string]any{"app": "web", "team": "shop", "tier": "front"}
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{
			"name": "web-" + uid, "namespace": "shop", "uid": uid, "resourceVersion": uid, "labels": labels,
			"annotations": map[string]any{euAnnotation: "true", pciAnnotation: level, "deployment.kubernetes.io/revision": "7"},
		},
		"spec": map[string]any{
			"replicas": int64(3), "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": containers}},
		},
		"status": map[string]any{"replicas": int64(3), "observedGeneration": int64(7)},
	}
}

func federationPolicy(t testing.TB) placementv1.PlacementPolicySpec {
	t.Helper()
	text, err := os.ReadFile("../../../test/bench/fixture/federation.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var p placementv1.PlacementPolicy
	if err := yaml.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	p.Spec.RegoVersion = placementv1.RegoV1
	return p.Spec
}

// plain is unmodified OPA: a prepared query over OPA's own store of all clusters, with a parsed input.
type plain struct{ query rego.PreparedEvalQuery }

func newPlain(t testing.TB, m *policy.Module, clusters []*unstructured.Unstructured) plain {
	t.Helper()
	table := map[string]any{}
	for _, o := range clusters {
		put(table, o.GetNamespace(), o)
	}
	// OPA's store requires numbers as encoding/json decodes them.
	var root map[string]any
	text, err := json.Marshal(map[string]any{"kubernetes": map[string]any{"clusterprofiles": table}})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	query, err := ast.ParseBodyWithOpts(queryText(m), ast.ParserOptions{RegoVersion: ast.RegoV1})
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := rego.New(rego.ParsedQuery(query), rego.Compiler(m.Compiler), rego.Store(inmem.NewFromObject(root))).PrepareForEval(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return plain{prepared}
}

func (p plain) decide(t testing.TB, input ast.Value) placement.Decision {
	t.Helper()
	rules, err := evaluateQuery(t.Context(), &p.query, rego.EvalParsedInput(input))
	if err != nil {
		t.Fatal(err)
	}
	d, err := placement.ParseDecision(rules)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// federation returns the Federation policy of test/bench/fixture, prepared by Berth's engine and by plain OPA.
func federation(t testing.TB, clusters int) (placement.Evaluator, plain) {
	data := NewData()
	objects := fleet(clusters)
	data.Replace(profiles.GroupVersionResource, objects)
	ev, m := prepare(t, New(data, Options{Timeout: time.Minute, Concurrency: 2}), federationPolicy(t))
	return ev, newPlain(t, m, objects)
}

// BenchmarkDecision measures one decision of a typical policy on a Deployment. OPA is plain OPA. Hit is the engine on
// an object that differs from an earlier one only in fields that the policy does not read. Distinct is the engine on an
// object that requests other clusters but has requirements that the engine has seen. Miss is the engine on an object
// with new requirements.
func BenchmarkDecision(b *testing.B) {
	for _, clusters := range []int{50, 1000} {
		ev, opa := federation(b, clusters)
		b.Run(fmt.Sprintf("clusters=%d/by=OPA", clusters), func(b *testing.B) {
			input := ast.MustInterfaceToValue(deployment("a", "2"))
			b.ReportAllocs()
			for b.Loop() {
				opa.decide(b, input)
			}
		})
		b.Run(fmt.Sprintf("clusters=%d/by=Miss", clusters), func(b *testing.B) {
			input := deployment("a", "2")
			annotations := input["metadata"].(map[string]any)["annotations"].(map[string]any)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				// Levels that differ so little allow the same clusters.
				annotations[pciAnnotation] = fmt.Sprintf("1.%d", i)
				decide(b, ev, input)
			}
		})
		b.Run(fmt.Sprintf("clusters=%d/by=Distinct", clusters), func(b *testing.B) {
			input := deployment("a", "2")
			annotations := input["metadata"].(map[string]any)["annotations"].(map[string]any)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				annotations[preferences] = fmt.Sprintf(`{"clusters": {"cluster-%d": {}, "cluster-%d": {}, "other-%d": {}}}`, i%50, i%49, i)
				annotations[pciAnnotation] = fmt.Sprint(i % 4)
				decide(b, ev, input)
			}
		})
		b.Run(fmt.Sprintf("clusters=%d/by=Hit", clusters), func(b *testing.B) {
			inputs := make([]map[string]any, 1000)
			for i := range inputs {
				inputs[i] = deployment(fmt.Sprint(i), fmt.Sprint(i%4))
			}
			for _, input := range inputs {
				decide(b, ev, input)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				decide(b, ev, inputs[i%len(inputs)])
				i++
			}
		})
	}
}

// TestHitsCostLittle verifies that the benchmark compares equal decisions, and that a cache hit costs less than a
// twentieth of a decision by plain OPA. The real factor is a thousand or more; the limit allows for busy machines.
func TestHitsCostLittle(t *testing.T) {
	ev, opa := federation(t, 50)
	for level := range 4 {
		input := deployment("a", fmt.Sprint(level))
		want := opa.decide(t, ast.MustInterfaceToValue(input))
		for range 2 {
			if got := decide(t, ev, input); !got.Equal(want) || len(want.Annotations)+len(want.Errors) == 0 {
				t.Fatalf("level %d: %v by the engine, %v by OPA", level, got, want)
			}
		}
	}
	input := deployment("b", "2")
	value := ast.MustInterfaceToValue(input)
	fastest := func(work func()) time.Duration {
		best := time.Hour
		for range 5 {
			start := time.Now()
			work()
			best = min(best, time.Since(start))
		}
		return best
	}
	const hits = 100
	remembered := fastest(func() {
		for range hits {
			decide(t, ev, input)
		}
	}) / hits
	evaluated := fastest(func() { opa.decide(t, value) })
	if evaluated < 20*remembered {
		t.Errorf("a hit takes %s, plain OPA %s", remembered, evaluated)
	}
}
