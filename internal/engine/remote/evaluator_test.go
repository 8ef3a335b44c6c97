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
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
)

// TestEvaluatorsShareEndpoints verifies that policies with the same endpoint share its state, and with the same
// credentials the client too, and that nothing is kept once no policy needs it.
func TestEvaluatorsShareEndpoints(t *testing.T) {
	e := New(Options{})
	of := func(name, token string) *evaluator {
		return prepare(t, e, name, placementv1.Remote{
			URL:            "https://127.0.0.1:1/v1/data/" + name,
			TokenSecretRef: &placementv1.TokenSecretReference{SecretReference: placementv1.SecretReference{Name: token}},
		})
	}
	p, q, r := of("p", "one"), of("q", "one"), of("r", "two")
	if p.client != q.client || p.client == r.client || p.endpoint != r.endpoint {
		t.Error("shared in another way")
	}
	runtime.KeepAlive(r)
	runtime.KeepAlive(p)
	runtime.KeepAlive(q)
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		runtime.GC()
		return e.evaluators.Len()+e.endpoints.Len() == 0, nil
	})
	if err != nil {
		t.Errorf("%d evaluators, %d endpoints are left", e.evaluators.Len(), e.endpoints.Len())
	}
}

// TestCircuitIgnoresCertificates verifies that a certificate that is not trusted does not open the circuit breaker:
// another policy may trust it.
func TestCircuitIgnoresCertificates(t *testing.T) {
	server := httptest.NewUnstartedServer(says(eu))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	p := prepare(t, New(Options{}), "p", placementv1.Remote{URL: server.URL + "/v1/data/p", Retry: noRetry, TimeoutSeconds: 30})
	defer p.client.CloseIdleConnections()
	for range 2 * faultsToOpen {
		if got := fails(t, p); got.Fault != engine.FaultNetwork {
			t.Fatal(got)
		}
	}
	if h := p.Health(); h.BreakerOpen || h.Err == nil {
		t.Errorf("health is %+v", h)
	}
}

// TestCredentialsAreNotRetried verifies that a Secret that can't be used fails the evaluation at once, without a request.
func TestCredentialsAreNotRetried(t *testing.T) {
	f := newFixture(t, func(http.ResponseWriter, *http.Request) { t.Error("the engine was asked") })
	p := f.put(t, "p", placementv1.Remote{TokenSecretRef: &placementv1.TokenSecretReference{SecretReference: placementv1.SecretReference{Name: "none"}}})
	got := fails(t, p)
	if got.Fault != engine.FaultCredentials || got.Attempts != 1 || errors.Unwrap(got) == nil {
		t.Errorf("got %+v", got)
	}
}
