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
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
)

// TestCircuit verifies that an engine that keeps failing gets no requests from any policy, and then one trial request.
func TestCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, asked := &switched{}, 0
		server.to(rejects(500))
		f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
			asked++
			server.ServeHTTP(w, r)
		})
		p := f.put(t, "p", placementv1.Remote{Retry: noRetry})
		q := f.put(t, "q", placementv1.Remote{URL: address0 + "/v1/data/other"})
		for range faultsToOpen {
			if got := fails(t, p); got.Fault != engine.FaultServer {
				t.Fatal(got)
			}
		}
		began := time.Now()
		got := fails(t, q)
		if got.Fault != engine.FaultCircuitOpen || asked != faultsToOpen || time.Since(began) > 0 || got.Attempts != 0 || strings.Contains(got.Error(), "attempt") {
			t.Errorf("%v after %d requests and %s", got, asked, time.Since(began))
		}
		for _, part := range []string{began.UTC().Format(time.RFC3339), "server", "status 500"} {
			if !strings.Contains(got.Error(), part) {
				t.Errorf("%q does not say %q", got, part)
			}
		}
		if h := q.Health(); !h.BreakerOpen || engine.FaultOf(h.Err) != engine.FaultServer {
			t.Errorf("health is %+v", h)
		}

		pass(openFor + time.Millisecond)
		// One request is let through, and fails.
		if got := fails(t, p); got.Fault != engine.FaultServer {
			t.Error(got)
		}
		if got := fails(t, p); got.Fault != engine.FaultCircuitOpen || asked != faultsToOpen+1 {
			t.Errorf("%v after %d requests", got, asked)
		}

		// While the trial is running, other requests are not let through.
		pass(openFor + time.Millisecond)
		server.to(func(w http.ResponseWriter, r *http.Request) {
			pass(100 * time.Millisecond)
			says(eu)(w, r)
		})
		var both sync.WaitGroup
		both.Go(func() { decides(t, p) })
		synctest.Wait()
		if got := fails(t, q); got.Fault != engine.FaultCircuitOpen {
			t.Error(got)
		}
		both.Wait()
		decides(t, q)
		if h := p.Health(); h.BreakerOpen || h.Err != nil {
			t.Errorf("health is %+v", h)
		}
		want := []string{
			"p: unasked->server", "q: unasked->server", "p: server->open", "q: server->open", "p: open->healthy", "q: open->healthy",
		}
		if diff := cmp.Diff(want, f.take()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestCircuitStaysOpenAsAskedFor verifies that the engine sets the delay until the next trial, within limits.
func TestCircuitStaysOpenAsAskedFor(t *testing.T) {
	for header, want := range map[string]time.Duration{"0": firstOpen, "25": 25 * time.Second, "3600": maxOpenFor} {
		t.Run(header, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &switched{}
				server.to(status(503, "Retry-After", header, ""))
				f := newFixture(t, server.ServeHTTP)
				p := f.put(t, "p", placementv1.Remote{Retry: noRetry})
				for range faultsToOpen {
					inVain(t, p)
				}
				server.to(says(eu))
				pass(want - time.Millisecond)
				if got := fails(t, p); got.Fault != engine.FaultCircuitOpen {
					t.Error(got)
				}
				pass(2 * time.Millisecond)
				decides(t, p)
			})
		})
	}
}

// TestCircuitIsOpenLongerEachTime verifies that a server that restarts soon gets a trial, and that the trials of one
// that keeps failing become rarer.
func TestCircuitIsOpenLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &switched{}
		server.to(rejects(500))
		f := newFixture(t, server.ServeHTTP)
		p := f.put(t, "p", placementv1.Remote{Retry: noRetry})
		open := func() {
			for range faultsToOpen {
				inVain(t, p)
			}
		}
		open()
		for _, pause := range []time.Duration{firstOpen, 2 * firstOpen, 4 * firstOpen, 8 * firstOpen, openFor, openFor} {
			until := time.Now().Add(pause)
			pass(pause - time.Millisecond)
			if got := fails(t, p); got.Fault != engine.FaultCircuitOpen || !strings.Contains(got.Error(), until.UTC().Format(time.RFC3339)) {
				t.Fatalf("%v before %s", got, until)
			}
			pass(2 * time.Millisecond)
			if got := fails(t, p); got.Fault != engine.FaultServer {
				t.Fatalf("%v after %s", got, until)
			}
		}
		server.to(says(eu))
		pass(openFor + time.Millisecond)
		decides(t, p)
		server.to(rejects(500))
		open()
		pass(firstOpen + time.Millisecond)
		if got := fails(t, p); got.Fault != engine.FaultServer {
			t.Errorf("%v: a circuit that was closed opens as at first", got)
		}
	})
}

// TestCircuitOfAnotherPolicysFaults verifies that faults which concern one policy do not open the circuit breaker for
// others.
func TestCircuitOfAnotherPolicysFaults(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"unauthorized": rejects(401), "refused": rejects(404), "undefined": says(`{}`), "credentials": nil, "malformed": says(`<html>`),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
					if strings.HasSuffix(r.URL.Path, "/good") {
						says(eu)(w, r)
						return
					}
					answer(w, r)
				})
				spec := placementv1.Remote{Retry: noRetry, Undefined: placementv1.UndefinedError}
				if answer == nil {
					spec.TokenSecretRef = &placementv1.TokenSecretReference{SecretReference: placementv1.SecretReference{Name: "none"}}
				}
				bad := f.put(t, "bad", spec)
				good := f.put(t, "good", placementv1.Remote{URL: address0 + "/v1/data/good"})
				for range 2 * faultsToOpen {
					if got := fails(t, bad); string(got.Fault) != name {
						t.Fatal(got)
					}
				}
				decides(t, good)
				if h := good.Health(); h.Err != nil || h.BreakerOpen {
					t.Errorf("health is %+v", h)
				}
				if h := bad.Health(); string(engine.FaultOf(h.Err)) != name || h.BreakerOpen {
					t.Errorf("health is %+v", h)
				}
			})
		})
	}
}

// TestInFlight verifies that the number of concurrent requests to an engine is limited, and that further requests wait
// until their deadline.
func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			pass(400 * time.Millisecond)
			mu.Lock()
			now--
			mu.Unlock()
			says(eu)(w, r)
		})
		p := f.put(t, "p", placementv1.Remote{Retry: noRetry})
		var all sync.WaitGroup
		for range 2 * maxInFlight {
			all.Go(func() { decides(t, p) })
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		if _, err := p.Evaluate(ctx, deployment()); engine.FaultOf(err) != engine.FaultTimeout || !strings.Contains(err.Error(), "under way") {
			t.Errorf("got %v", err)
		}
		all.Wait()
		if most != maxInFlight {
			t.Errorf("%d requests at a time", most)
		}
		if h := p.Health(); h.Err != nil {
			t.Errorf("health is %+v", h)
		}
	})
}
