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
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/test/bench/fixture"
	"github.com/berth-dev/berth/webhooks/placementmutator"
)

// preferred is a preference for a quarter of the clusters.
const preferred = `{label: region, operator: In, values: [region-0, region-1, region-2, region-3, region-4, region-5, region-6, region-7, region-8, region-9], weight: 10}`

// choosing are rules for 1,000 clusters.
var choosing = []struct{ by, rule string }{
	{"Require", `{name: a, require: [{field: name, operator: In, values: [cluster-6, cluster-7]}]}`},
	{"Limit", `{name: a, limit: 1}`},
	{"Prefer", `{name: a, limit: 1, prefer: [` + preferred + `]}`},
	{"Spread", `{name: a, limit: 2, prefer: [` + preferred + `], spread: {label: region, minDomains: 2}}`},
	{"Text", `{name: a, limit: 2, prefer: [` + preferred + `], spread: {label: region, minDomains: 2}, set: {annotations: {on: "{clusters}"}}}`},
}

// choosingPolicy returns a policy of one rule.
func choosingPolicy(b testing.TB, rule string) *placementv1.PlacementPolicy {
	b.Helper()
	p := fixture.Policy()
	p.Spec.Rego = ""
	if err := yaml.UnmarshalStrict([]byte("["+rule+"]"), &p.Spec.Rules); err != nil {
		b.Fatal(err)
	}
	return p
}

// forEachChoosing calls run with each of the rules in force, as a policy of its own.
func forEachChoosing(b *testing.B, run func(b *testing.B, w *world, evaluator placement.Evaluator)) {
	clusters := fixture.Clusters(fixture.FleetNamespace, simulatedClusters)
	for i, cluster := range clusters {
		labels := cluster.GetLabels()
		labels["region"] = fmt.Sprintf("region-%d", i%simulatedRegions)
		cluster.SetLabels(labels)
	}
	for _, one := range choosing {
		b.Run("by="+one.by, func(b *testing.B) {
			w := newWorld(b)
			p := w.put(b, choosingPolicy(b, one.rule))
			w.replicate(clusters)
			w.replicateAs(fixture.KarmadaClusters, nil)
			run(b, w, p.Evaluator)
		})
	}
}

// BenchmarkChoosing is one decision on a Deployment of a new name, with 1,000 clusters.
//
//   - by=Require gives two that it names.
//   - by=Limit gives one of them, of which none is preferred.
//   - by=Prefer gives one of the 250 that are preferred.
//   - by=Spread gives two of those, of two regions. by=Text does, too, and has a text with their names, so that it is evaluated for each
//     Deployment.
func BenchmarkChoosing(b *testing.B) {
	forEachChoosing(b, func(b *testing.B, w *world, evaluator placement.Evaluator) {
		input := deployment(0, simulatedClusters)
		metadata, _ := input["metadata"].(map[string]any)
		decide := func(i int) {
			metadata["name"] = fmt.Sprintf("web-%d", i)
			w.decide(b, evaluator, input)
		}
		for i := range warm {
			decide(i)
		}
		measure(b, func(i int) { decide(warm + i) })
	})
}

// BenchmarkChoosingWebhook answers an AdmissionReview of a Deployment of a new name by the same policies, as BenchmarkWebhook does.
func BenchmarkChoosingWebhook(b *testing.B) {
	forEachChoosing(b, func(b *testing.B, w *world, _ placement.Evaluator) {
		m, err := metrics.New(prometheus.NewRegistry())
		if err != nil {
			b.Fatal(err)
		}
		server := &admission.Webhook{Handler: &placementmutator.Handler{
			Decider: w.decider, Metrics: m, Clock: clock.RealClock{}, FailurePolicy: placementv1.FailurePolicyFail,
			Remediation: func(*admissionv1.AdmissionRequest) (bool, func([]*placement.Verdict) bool) { return false, nil },
		}}
		body := review(b, 0, simulatedClusters)
		answer := func(i int) *httptest.ResponseRecorder {
			text := bytes.ReplaceAll(body, []byte(`"name":"web"`), fmt.Appendf(nil, `"name":"web-%08d"`, i))
			request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "/", bytes.NewReader(text))
			if err != nil {
				b.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			recorder := &httptest.ResponseRecorder{Body: &bytes.Buffer{}}
			server.ServeHTTP(recorder, request)
			return recorder
		}
		for i := range warm {
			if text, err := io.ReadAll(answer(i).Body); err != nil || !bytes.Contains(text, []byte(`"patch":`)) {
				b.Fatal(string(text), err)
			}
		}
		measure(b, func(i int) { answer(warm + i) })
	})
}
