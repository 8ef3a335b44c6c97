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

package tracing_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/tracing"
)

func TestOffCostsNothing(t *testing.T) {
	ctx, request, policy, oh := t.Context(), &admissionv1.AdmissionRequest{}, &placement.Policy{}, errors.New("oh")
	audited := map[string]string{"decision": "d"}
	allocations := testing.AllocsPerRun(100, func() {
		inner, span := tracing.Start(tracing.Join(tracing.Detach(ctx), ctx), "part")
		if span.IsRecording() || inner != ctx {
			t.Error("something is recorded")
		}
		tracing.Fail(span, oh)
		tracing.Evaluated(span, policy, metrics.OutcomeError, oh)
		tracing.Answered(ctx, request, "allowed", audited)
	})
	if allocations != 0 {
		t.Errorf("%v allocations while tracing is off", allocations)
	}

	off, err := tracing.New(ctx, tracing.Options{})
	if off != nil || err != nil {
		t.Fatalf("a provider without an endpoint: %v, %v", off, err)
	}
	next := http.NewServeMux()
	if got := off.Handler("name", next); got != http.Handler(next) {
		t.Errorf("handler is wrapped: %v", got)
	}
	cfg := &rest.Config{}
	off.Wrap(cfg)
	if cfg.WrapTransport != nil {
		t.Error("the client is wrapped")
	}
	if inner, span := off.Root(ctx, "root"); inner != ctx || span.IsRecording() {
		t.Error("a trace begins")
	}
}

func TestNewRefuses(t *testing.T) {
	tests := map[string]tracing.Options{
		"NoScheme":      {Endpoint: "collector:4317"},
		"OtherScheme":   {Endpoint: "grpc://collector:4317"},
		"NoHost":        {Endpoint: "http://"},
		"NegativeRate":  {Endpoint: "http://collector:4317", SamplingPerMillion: -1},
		"MoreThanEvery": {Endpoint: "http://collector:4317", SamplingPerMillion: 1_000_001},
	}
	for name, o := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := tracing.New(t.Context(), o); err == nil {
				t.Errorf("%+v is accepted", o)
			}
			if _, err := tracing.NewLogs(t.Context(), "--decision-log", o.Endpoint, ""); (err == nil) != (o.SamplingPerMillion != 0) {
				t.Errorf("%s: error %v", o.Endpoint, err)
			}
		})
	}
}

// hanging returns the address of a collector that accepts connections and never responds.
func hanging(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	return listener.Addr().String()
}

// TestDeadCollector checks that a collector that hangs or is unavailable delays neither requests nor the exit of the
// process, even if more spans wait than the SDK keeps.
func TestDeadCollector(t *testing.T) {
	for name, address := range map[string]string{"hangs": hanging(t), "refuses": "127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			p, err := tracing.New(t.Context(), tracing.Options{Endpoint: "http://" + address, SamplingPerMillion: 1_000_000})
			if err != nil {
				t.Fatal(err)
			}
			recorded := 0
			h := p.Handler("admission", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				for range 4 {
					_, span := tracing.Start(r.Context(), "part")
					if span.IsRecording() {
						recorded++
					}
					span.End()
				}
			}))
			// The SDK keeps 2048 spans and exports 512 at once, and the timeout of an export is 10 seconds. Requests that waited for exports
			// would take two minutes, and an end that exports all spans 40 seconds.
			const requests = 2000
			start := time.Now()
			for range requests {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody))
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("%d requests took %v", requests, took)
			}
			if recorded != 4*requests {
				t.Errorf("%d spans were recorded, want %d", recorded, 4*requests)
			}
			ended, end := context.WithCancel(t.Context())
			end()
			start = time.Now()
			if err := p.Start(ended); err != nil {
				t.Error(err)
			}
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("the end took %v", took)
			}
		})
	}
}
