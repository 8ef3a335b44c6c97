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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
)

func start(t *testing.T, f *fixture) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.engine.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestHealth verifies that a fault counts for some time after it occurred, even if requests succeed meanwhile, and that
// each kind of fault is reported once.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &switched{}
		f := newFixture(t, server.ServeHTTP)
		p := f.put(t, "p", placementv1.Remote{Retry: noRetry})
		expect := func(note string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, f.take()); diff != "" {
				t.Errorf("%s: %s", note, diff)
			}
		}
		if diff := cmp.Diff("unasked", describeHealth(p.Health())); diff != "" {
			t.Error(diff)
		}
		server.to(says(eu))
		decides(t, p)
		decides(t, p)
		expect("the first answer", "p: unasked->healthy")
		server.to(rejects(500))
		began := time.Now()
		inVain(t, p)
		inVain(t, p)
		expect("a fault", "p: healthy->server")
		pass(3 * time.Second)
		server.to(rejects(503))
		inVain(t, p)
		expect("another kind", "p: server->back_pressure")
		if h := p.Health(); !h.Since.Equal(began) {
			t.Errorf("failing since %s, began %s", h.Since, began)
		}
		server.to(says(eu))
		pass(recoveryPeriod - time.Millisecond)
		decides(t, p)
		expect("a success, too early")
		pass(time.Millisecond)
		decides(t, p)
		expect("a success", "p: back_pressure->healthy")

		// A fault of the endpoint takes precedence over one of the policy itself.
		server.to(rejects(401))
		inVain(t, p)
		server.to(rejects(500))
		inVain(t, p)
		expect("its own and the endpoint's", "p: healthy->unauthorized", "p: unauthorized->server")
		pass(recoveryPeriod)
		server.to(rejects(401))
		inVain(t, p)
		expect("its own only", "p: server->unauthorized")
	})
}

// TestHealthWithoutRequests verifies that a fault which was followed by a success expires without further requests.
func TestHealthWithoutRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &switched{}
		f := newFixture(t, server.ServeHTTP)
		p := f.put(t, "p", placementv1.Remote{Retry: noRetry})
		start(t, f)
		server.to(rejects(500))
		inVain(t, p)
		pass(recoveryPeriod)
		server.to(says(eu))
		decides(t, p)
		server.to(rejects(500))
		inVain(t, p)
		server.to(says(eu))
		decides(t, p)
		pass(recoveryPeriod + tickInterval)
		want := []string{"p: unasked->server", "p: server->healthy", "p: healthy->server", "p: server->healthy"}
		if diff := cmp.Diff(want, f.take()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestHealthWithoutRequestsAnyMore verifies that probes repeat a failed request at intervals, so that recovery is
// noticed without other requests.
func TestHealthWithoutRequestsAnyMore(t *testing.T) {
	for _, c := range []struct {
		name   string
		fails  http.HandlerFunc
		until  string
		faults int
	}{
		{"endpoint", rejects(500), "server", 1},
		{"circuit", rejects(500), "open", faultsToOpen},
		{"policy", rejects(401), "unauthorized", 1},
		{"document", says(`{}`), "undefined", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, asked := &switched{}, atomic.Int64{}
				f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
					asked.Add(1)
					server.ServeHTTP(w, r)
				})
				p := f.put(t, "p", placementv1.Remote{Retry: noRetry, Undefined: placementv1.UndefinedError})
				start(t, f)
				server.to(c.fails)
				for range c.faults {
					inVain(t, p)
				}
				if diff := cmp.Diff(c.until, describeHealth(p.Health())); diff != "" {
					t.Fatal(diff)
				}
				asked.Store(0)
				pass(3*probeInterval + tickInterval)
				if n := asked.Load(); n < 2 || n > 3 {
					t.Errorf("asked %d times in %s", n, 3*probeInterval)
				}
				server.to(says(eu))
				pass(probeInterval + recoveryPeriod)
				if diff := cmp.Diff("healthy", describeHealth(p.Health())); diff != "" {
					t.Error(diff)
				}
				asked.Store(0)
				pass(time.Hour)
				if n := asked.Load(); n > 0 {
					t.Errorf("asked %d times though it is well", n)
				}
			})
		})
	}
}

// TestProbeOfWhatAlwaysFails verifies that a probe that keeps failing does not open the circuit breaker for other
// requests.
func TestProbeOfWhatAlwaysFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &switched{}
		f := newFixture(t, server.ServeHTTP)
		p := f.put(t, "p", placementv1.Remote{Retry: noRetry})
		q := f.put(t, "q", placementv1.Remote{Retry: noRetry, URL: address0 + "/v1/data/other"})
		start(t, f)
		server.to(rejects(500))
		inVain(t, p)
		pass(10 * probeInterval)
		if h := p.Health(); h.BreakerOpen {
			t.Fatal("the circuit is opened by what nobody waits for")
		}
		for range faultsToOpen - 1 {
			inVain(t, p)
		}
		// The time is between two probes, because each probe is the one request that an open circuit breaker lets through.
		pass(10*probeInterval + tickInterval/2)
		server.to(says(eu))
		decides(t, q)
		if diff := cmp.Diff("healthy", describeHealth(p.Health())); diff != "" {
			t.Error(diff)
		}
	})
}

// TestProbeLeavesEngineAlone verifies that probes respect Retry-After, and that no two policies send a probe at once
// while the circuit breaker is open.
func TestProbeLeavesEngineAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, asked := &switched{}, atomic.Int64{}
		f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			server.ServeHTTP(w, r)
		})
		p := f.put(t, "p", placementv1.Remote{Retry: noRetry})
		q := f.put(t, "q", placementv1.Remote{Retry: noRetry})
		start(t, f)
		server.to(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "40")
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		for range faultsToOpen {
			inVain(t, p)
		}
		inVain(t, q)
		asked.Store(0)
		pass(39 * time.Second)
		if n := asked.Load(); n > 0 {
			t.Errorf("asked %d times before its time", n)
		}
		pass(3 * time.Second)
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times after its time", n)
		}
	})
}

// TestHealthOutlivesEvaluators verifies that a policy that is bound again without a change keeps its health, and that a
// changed one starts without.
func TestHealthOutlivesEvaluators(t *testing.T) {
	f := newFixture(t, rejects(401))
	spec := placementv1.Remote{Retry: noRetry}
	p := f.put(t, "p", spec)
	inVain(t, p)
	if got := engine.FaultOf(f.put(t, "p", spec).Health().Err); got != engine.FaultUnauthorized {
		t.Errorf("bound anew: %q", got)
	}
	spec.TimeoutSeconds = 2
	if got := f.put(t, "p", spec).Health(); got.Queried || got.Err != nil {
		t.Errorf("changed: %+v", got)
	}
}

// TestRevised verifies that existing objects are decided again at the refresh interval and when data changed.
func TestRevised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, says(eu))
		p := f.put(t, "p", placementv1.Remote{RefreshSeconds: 100})
		q := f.put(t, "q", placementv1.Remote{})
		start(t, f)
		first, other := p.Revision(), q.Revision()
		pass(90*time.Second - tickInterval)
		if p.Revision() != first || len(f.takeRevised()) > 0 {
			t.Error("too early")
		}
		pass(10*time.Second + 2*tickInterval)
		if p.Revision() == first || q.Revision() != other {
			t.Error("not in time")
		}
		if diff := cmp.Diff([]string{"p"}, f.takeRevised()); diff != "" {
			t.Error(diff)
		}
		pass(1000 * time.Second)
		if n := len(f.takeRevised()); n < 9 || n > 12 {
			t.Errorf("%d times in 1000 seconds", n)
		}
		f.engine.PushedDataChanged("q", "gone")
		if q.Revision() == other || q.Revision() == p.Revision() {
			t.Error("not when data changed")
		}
		if diff := cmp.Diff([]string{"q"}, f.takeRevised()); diff != "" {
			t.Error(diff)
		}
	})
}
