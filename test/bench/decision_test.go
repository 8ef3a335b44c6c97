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

package bench_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/test/bench/fixture"
)

// warm is how many decisions are made before the measurement. They fill the caches.
const warm = 1100

// BenchmarkDecision is one decision of the typical policy on a Deployment that is decoded already; with
// policy=Federation, of the Federation policy, which is kinder to OPA.
//
//   - by=OPA is plain OPA: a prepared query, the default store in memory, an input that is parsed already.
//   - by=Distinct is Berth where no two Deployments ask for the same clusters.
//   - by=NoRuleCache is the same without the rule cache.
//   - by=Seen is Berth where another Deployment was alike in what the policy reads.
func BenchmarkDecision(b *testing.B) {
	federation, err := fixture.Federation()
	if err != nil {
		b.Fatal(err)
	}
	for _, clusters := range []int{50, 1000} {
		benchmarkDecision(b, fmt.Sprintf("clusters=%d", clusters), fixture.Policy(), clusters)
	}
	for _, clusters := range []int{50, 1000} {
		benchmarkDecision(b, fmt.Sprintf("policy=Federation/clusters=%d", clusters), federation, clusters)
	}
}

func benchmarkDecision(b *testing.B, name string, p *placementv1.PlacementPolicy, clusters int) {
	objects := fixture.Clusters(fixture.FleetNamespace, clusters)
	b.Run(name+"/by=OPA", func(b *testing.B) {
		opa := newPlain(b, p, objects)
		inputs := make([]ast.Value, 40)
		for i := range inputs {
			inputs[i] = ast.MustInterfaceToValue(deployment(i, clusters))
		}
		measure(b, func(i int) { opa.decide(b, inputs[i%len(inputs)]) })
	})
	distinct := func(b *testing.B, prepare func(*policy.Module)) {
		w := newWorld(b)
		evaluator := w.putPrepared(b, p, prepare).Evaluator
		w.replicate(objects)
		input, annotations := deployments(clusters)
		decide := func(i int) {
			annotations[fixture.PCIAnnotation], annotations[fixture.RequestedAnnotation] = levels[i%fixture.Levels], fixture.Requested(i, clusters)
			w.decide(b, evaluator, input)
		}
		for i := range 40 {
			decide(i)
		}
		measure(b, func(i int) { decide(40 + i) })
	}
	b.Run(name+"/by=Distinct", func(b *testing.B) { distinct(b, func(*policy.Module) {}) })
	b.Run(name+"/by=NoRuleCache", func(b *testing.B) { distinct(b, func(m *policy.Module) { m.CacheableRules = nil }) })
	b.Run(name+"/by=Seen", func(b *testing.B) {
		w := newWorld(b)
		evaluator := w.put(b, p).Evaluator
		w.replicate(objects)
		inputs := make([]map[string]any, 1000)
		for i := range inputs {
			inputs[i] = fixture.Stored("shop", fmt.Sprintf("web-%d", i), i%fixture.Levels, fixture.Requested(i%40, clusters))
		}
		for i := range warm {
			w.decide(b, evaluator, inputs[i%len(inputs)])
		}
		measure(b, func(i int) { w.decide(b, evaluator, inputs[i%len(inputs)]) })
	})
}

var levels = []string{"0", "1", "2", "3"}

// deployment asks for the i-th wish of clusters.
func deployment(i, clusters int) map[string]any {
	return fixture.Stored("shop", "web", i%fixture.Levels, fixture.Requested(i, clusters))
}

// deployments is a Deployment, and its annotations to be changed.
func deployments(clusters int) (object, annotations map[string]any) {
	object = deployment(0, clusters)
	annotations, _, _ = unstructured.NestedMap(object, "metadata", "annotations")
	metadata, _ := object["metadata"].(map[string]any)
	metadata["annotations"] = annotations
	return object, annotations
}

// The benchmark compares what decides alike, and something.
func TestDecisionsAreOPAs(t *testing.T) {
	p, objects := fixture.Policy(), fixture.Clusters(fixture.FleetNamespace, 50)
	opa, w := newPlain(t, p, objects), newWorld(t)
	evaluator := w.put(t, p).Evaluator
	w.replicate(objects)
	for i := range 100 {
		input := deployment(i, 50)
		want, got := opa.decide(t, ast.MustInterfaceToValue(input)), w.decide(t, evaluator, input)
		if got.Annotations[fixture.RequestedAnnotation] != want.Annotations[fixture.RequestedAnnotation] ||
			!slices.Equal(got.Errors, want.Errors) || len(want.Annotations) == 0 {
			t.Errorf("%v: %v by Berth, %v by OPA", fixture.Requested(i, 50), got, want)
		}
	}
}

// plain is OPA as it comes.
type plain struct{ query rego.PreparedEvalQuery }

func newPlain(b testing.TB, p *placementv1.PlacementPolicy, clusters []*unstructured.Unstructured) plain {
	b.Helper()
	table := map[string]any{}
	for _, o := range clusters {
		table[o.GetName()] = o.Object
	}
	// OPA's store takes JSON's own numbers.
	var root map[string]any
	text := fixture.Text(map[string]any{"kubernetes": map[string]any{"clusterprofiles": map[string]any{fixture.FleetNamespace: table}}})
	if err := json.Unmarshal(text, &root); err != nil {
		b.Fatal(err)
	}
	query, err := rego.New(
		// Of the rules that there are; one that is undefined does not make the others so.
		rego.Query(`annotations := [x | x := data.kubernetes.placement.annotations]; errors := [x | x := data.kubernetes.placement.errors]`),
		rego.Module("policy.rego", p.Spec.Rego), rego.Store(inmem.NewFromObject(root)),
	).PrepareForEval(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return plain{query}
}

func (p plain) decide(b testing.TB, input ast.Value) placement.Decision {
	b.Helper()
	results, err := p.query.Eval(b.Context(), rego.EvalParsedInput(input))
	if err != nil {
		b.Fatal(err)
	}
	rules := map[string]any{}
	for rule, values := range results[0].Bindings {
		if list, ok := values.([]any); ok && len(list) == 1 {
			rules[rule] = list[0]
		}
	}
	d, err := placement.ParseDecision(rules)
	if err != nil {
		b.Fatal(err)
	}
	return d
}
