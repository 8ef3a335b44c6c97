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
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/test/bench/fixture"
	"github.com/berth-dev/berth/webhooks/placementmutator"
)

// BenchmarkWebhook answers an AdmissionReview, without the connection that it comes by: decoded, decided, encoded. The
// Deployments are of 40 projections, which were seen before.
//
//   - by=Fixed is a webhook that returns a fixed patch.
//   - by=Berth is Berth with policies of which some match.
func BenchmarkWebhook(b *testing.B) {
	b.Run("by=Fixed", func(b *testing.B) {
		benchmarkWebhook(b, 50, admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
			return admission.Patched("", jsonpatch.NewOperation("add", "/metadata/annotations/example.com~1placed", "here"))
		}))
	})
	for _, c := range []struct{ clusters, policies, matching int }{{50, 1, 1}, {1000, 1, 1}, {50, 500, 3}} {
		b.Run(fmt.Sprintf("by=Berth/clusters=%d/policies=%d/matching=%d", c.clusters, c.policies, c.matching), func(b *testing.B) {
			w := newWorld(b)
			w.decider.Namespaces = labelled{"shop": {"team": "shop"}}
			for i := range c.policies {
				p := fixture.Policy()
				if i > 0 {
					p = fixture.Variant(i)
				}
				team := "shop"
				if i >= c.matching {
					team = fmt.Sprintf("team-%d", i)
				}
				p.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
				w.put(b, p)
			}
			w.replicate(fixture.Clusters(fixture.FleetNamespace, c.clusters))
			m, err := metrics.New(prometheus.NewRegistry())
			if err != nil {
				b.Fatal(err)
			}
			benchmarkWebhook(b, c.clusters, &placementmutator.Handler{
				Decider: w.decider, Metrics: m, Clock: clock.RealClock{}, FailurePolicy: placementv1.FailurePolicyFail,
				Remediation: func(*admissionv1.AdmissionRequest) (bool, func([]*placement.Verdict) bool) { return false, nil },
			})
		})
	}
}

func benchmarkWebhook(b *testing.B, clusters int, h admission.Handler) {
	b.Helper()
	server := &admission.Webhook{Handler: h}
	var bodies [][]byte
	for i := range 40 {
		bodies = append(bodies, review(b, i, clusters))
	}
	answer := func(i int) *httptest.ResponseRecorder {
		request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "/", bytes.NewReader(bodies[i%len(bodies)]))
		if err != nil {
			b.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		recorder := &httptest.ResponseRecorder{Body: &bytes.Buffer{}}
		server.ServeHTTP(recorder, request)
		return recorder
	}
	for i := range warm {
		text, err := io.ReadAll(answer(i).Body)
		if err != nil {
			b.Fatal(err)
		}
		var r admissionv1.AdmissionReview
		if err := json.Unmarshal(text, &r); err != nil || !r.Response.Allowed || len(r.Response.Patch) == 0 {
			b.Fatal(string(text), err)
		}
	}
	measure(b, func(i int) { answer(i) })
}

// review returns the API server's review of a new Deployment, which has managed fields and no status.
func review(b *testing.B, i, clusters int) []byte {
	b.Helper()
	o := deployment(i, clusters)
	delete(o, "status")
	return reviewOf(b, &admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: "shop", Name: "web",
		Kind:     metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Resource: metav1.GroupVersionResource(fixture.Deployments),
	}, o)
}

// reviewOf returns a review of a dry run with an object.
func reviewOf(b *testing.B, request *admissionv1.AdmissionRequest, object map[string]any) []byte {
	b.Helper()
	request.UID, request.DryRun = "705ab4f5-6393-11e8-b7cc-42010a800002", new(true)
	request.Object = runtime.RawExtension{Raw: fixture.Text(object)}
	text, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	})
	if err != nil {
		b.Fatal(err)
	}
	return text
}
