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
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	admissionreview "github.com/berth-dev/berth/internal/review"
	"github.com/berth-dev/berth/webhooks/placementmutator"
)

const (
	// backtracks is the policy of the hostile suite: it exceeds its deadline for a text of many lines.
	backtracks = `package placement

labels := {"lines": sprintf("%d", [n])} if {
	lines := split(input.data.text, "\n")
	n := count([1 | some a in lines; some b in lines; a == b])
}`
	// attackers is the number of clients that send the hostile object at the same time.
	attackers = 4
	// rounds is how often each load is applied, and requests how many requests of the other tenant are measured each time.
	rounds   = 3
	requests = 200
	// pause is the time from an answer to the tenant's next request, so that it has to get a processor again.
	pause = time.Millisecond
)

// BenchmarkTenants measures the latency of the webhook for one tenant while clients of another namespace send objects that keep the policy
// busy until its deadline. Each of the tenant's requests needs an evaluation. The loads take turns, so that what else the machine does
// affects them alike:
//
//   - alone: no other requests.
//   - attacked: the clients send the object of the hostile suite again and again.
//   - computing: in place of the clients, a goroutine computes for each evaluation slot that a namespace may have. It needs nothing but a
//     processor, so no slots can make the ratios smaller than these.
//
// The figures are percentiles, and the ratios of those under a load to those without.
func BenchmarkTenants(b *testing.B) {
	server := newTenantServer(b)
	loads := []struct {
		name string
		// start starts the load, which ends with the context.
		start func(context.Context, *sync.WaitGroup)
	}{{"alone", func(context.Context, *sync.WaitGroup) {}}, {"attacked", server.attack}, {"computing", compute}}
	latencies := make([][]time.Duration, len(loads))
	for b.Loop() {
		for range rounds {
			for i, load := range loads {
				runtime.GC()
				ctx, stop := context.WithCancel(b.Context())
				var running sync.WaitGroup
				load.start(ctx, &running)
				latencies[i] = append(latencies[i], server.latencies(b)...)
				stop()
				running.Wait()
			}
		}
	}
	for _, l := range latencies {
		slices.Sort(l)
	}
	for _, percent := range []int{50, 99} {
		alone := percentile(latencies[0], percent)
		for i, load := range loads {
			value := percentile(latencies[i], percent)
			b.ReportMetric(value, fmt.Sprintf("%s-p%d-ns", load.name, percent))
			if i > 0 {
				b.ReportMetric(value/alone, fmt.Sprintf("%s-p%d-ratio", load.name, percent))
			}
		}
	}
}

// compute starts as many goroutines that compute as a namespace may have evaluation slots.
func compute(ctx context.Context, running *sync.WaitGroup) {
	for range embedded.DefaultConcurrency(runtime.GOMAXPROCS(0)) / 4 {
		running.Go(func() {
			for ctx.Err() == nil {
			}
		})
	}
}

// percentile returns a percentile of sorted latencies, in nanoseconds.
func percentile(sorted []time.Duration, percent int) float64 {
	return float64(sorted[(len(sorted)-1)*percent/100])
}

// tenantServer serves reviews as the manager does, but without TLS.
type tenantServer struct {
	url     string
	client  *http.Client
	hostile []byte        // the review of an object that keeps the policy busy
	decided chan struct{} // receives a value for each hostile object that the policy begins to decide
	sent    int           // the number of requests of latencies so far
}

// observedEvaluator is the evaluator of a policy, which calls began for each evaluation of an object in the attackers' namespace.
type observedEvaluator struct {
	placement.Evaluator
	began func()
}

// Evaluate implements placement.Evaluator.
func (e observedEvaluator) Evaluate(ctx context.Context, input map[string]any) (placement.Decision, error) {
	if placement.NamespaceOf(ctx) == "attacker" {
		e.began()
	}
	return e.Evaluator.Evaluate(ctx, input)
}

// newTenantServer starts a server with the policy backtracks, and the evaluation slots and the deadline that are the manager's defaults.
func newTenantServer(b *testing.B) *tenantServer {
	b.Helper()
	s := &tenantServer{decided: make(chan struct{}, attackers), hostile: configMapReview(b, "attacker", strings.Repeat("\n", 400_000))}
	w := newWorld(b)
	w.engine = embedded.New(w.data, embedded.Options{Timeout: time.Second, Concurrency: embedded.DefaultConcurrency(runtime.GOMAXPROCS(0))})
	p := w.put(b, &placementv1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "busy"}, Spec: placementv1.PlacementPolicySpec{
		Match: placementv1.Match{ResourceRules: []placementv1.ResourceRule{{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"},
		}}},
		Rego: backtracks, Mode: placementv1.ModeEnforce, FailurePolicy: placementv1.FailurePolicyIgnore,
	}})
	p.Evaluator = observedEvaluator{p.Evaluator, func() {
		select {
		case s.decided <- struct{}{}:
		default: // attack has returned.
		}
	}}
	m, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(admissionreview.New(&placementmutator.Handler{
		Decider: w.decider, Metrics: m, Clock: clock.RealClock{}, FailurePolicy: placementv1.FailurePolicyFail,
		Remediation: func(*admissionv1.AdmissionRequest) (bool, func([]*placement.Verdict) bool) { return false, nil },
	}, admissionreview.NewMemory(), placementmutator.Deadline))
	b.Cleanup(server.Close)
	s.url, s.client = server.URL, server.Client()
	return s
}

// attack starts the clients that send the hostile object, and returns once as many evaluations of it have begun.
func (s *tenantServer) attack(ctx context.Context, running *sync.WaitGroup) {
	for len(s.decided) > 0 {
		<-s.decided
	}
	for range attackers {
		running.Go(func() {
			for ctx.Err() == nil {
				// The error of a request that is canceled at the end does not matter.
				_, _ = s.send(ctx, s.hostile)
			}
		})
	}
	for range attackers {
		<-s.decided
	}
}

// latencies sends requests of the namespace "shop" one after another, and returns how long each took.
func (s *tenantServer) latencies(b *testing.B) []time.Duration {
	b.Helper()
	out := make([]time.Duration, requests)
	next := time.NewTimer(pause)
	defer next.Stop()
	for i := range out {
		// No decision is cached for a new text.
		s.sent++
		body := configMapReview(b, "shop", fmt.Sprintf("a\nb\n%d", s.sent))
		<-next.C
		start := time.Now()
		answer, err := s.send(b.Context(), body)
		if err != nil || !bytes.Contains(answer, []byte(`"allowed":true`)) {
			b.Fatal(string(answer), err)
		}
		out[i] = time.Since(start)
		next.Reset(pause)
	}
	return out
}

// send sends a review and returns the answer.
func (s *tenantServer) send(ctx context.Context, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// configMapReview returns the API server's review of a new ConfigMap with a text.
func configMapReview(b *testing.B, namespace, text string) []byte {
	b.Helper()
	return reviewOf(b, &admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: namespace, Name: "texts",
		Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "configmaps"},
	}, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": namespace, "name": "texts"},
		"data": map[string]any{"text": text},
	})
}
