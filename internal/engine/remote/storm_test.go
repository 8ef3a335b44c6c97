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

package remote_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/engine/remote"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/framework/faultproxy"
	"github.com/berth-dev/berth/test/framework/opaserver"
)

// TestStorm compresses an hour of faults between Berth and a real OPA server. Each evaluation must yield the server's
// own decision or an error, and no goroutines or connections may remain afterwards.
func TestStorm(t *testing.T) {
	server := opaserver.Start(t, opaserver.Options{Files: map[string]string{"placement.rego": `package placement

annotations.zone := input.metadata.name`}})
	before := goleak.IgnoreCurrent()
	t.Run("Faults", func(t *testing.T) { storm(t, server.URL()) })
	goleak.VerifyNone(t, before)
}

func storm(t *testing.T, server string) {
	const atOnce, questions = 24, 96
	enough := int64(budget.Rounds(200))
	proxy := faultproxy.Start(t, faultproxy.Options{Target: server})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	proxy.Choose(faultproxy.Mixed(seed, 0.5, faultproxy.All(2<<20)...))

	var decided, failed atomic.Int64
	faults := func() (sum int64) {
		for _, n := range proxy.Met() {
			sum += n
		}
		return sum
	}
	rounds := 0
	for ; faults() < enough; rounds++ {
		// Use a new engine, because its circuit breaker would stay open for longer than the test runs.
		p := prepare(t, remote.New(remote.Options{Clients: opaclient.NewPool(opaclient.Options{UserAgent: "berth/test"})}), proxy.URL())
		todo := make(chan struct{}, questions)
		for range questions {
			todo <- struct{}{}
		}
		close(todo)
		var done sync.WaitGroup
		for range atOnce {
			done.Go(func() {
				for range todo {
					ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
					decision, err := p.Evaluate(ctx, map[string]any{"metadata": map[string]any{"name": "eu"}})
					cancel()
					var fault *engine.RemoteError
					var contract *placement.ContractError
					switch {
					case err == nil && decision.Annotations["zone"] == "eu":
						decided.Add(1)
					case errors.As(err, &fault), errors.As(err, &contract):
						failed.Add(1)
					default:
						t.Errorf("decided %v, %v: neither what the server says nor an error", decision, err)
					}
				}
			})
		}
		done.Wait()
	}
	t.Logf("%d rounds, %d decided, %d failed, %d connections; faults %v", rounds, decided.Load(), failed.Load(), proxy.Connections(), proxy.Met())
	if decided.Load() == 0 || failed.Load() == 0 {
		t.Error("all questions fared alike")
	}

	proxy.Set(faultproxy.Fault{})
	deadline := time.Now().Add(20 * time.Second)
	for open := 1; open > 0; open = proxy.Open() {
		// Connections are closed when their owner is collected.
		runtime.GC()
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are left", open)
		}
		runtime.Gosched()
	}
}

func prepare(t *testing.T, e *remote.Engine, url string) placement.Evaluator {
	t.Helper()
	m, err := policy.Compile("storm", placementv1.PlacementPolicySpec{Remote: &placementv1.Remote{
		URL: url + "/v1/data/placement", Insecure: true, Undefined: placementv1.UndefinedError,
		Retry: placementv1.RemoteRetry{InitialBackoffMilliseconds: 1, MaxBackoffMilliseconds: 10},
	}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.Prepare(t.Context(), "storm", m, &policy.Binding{Remote: m.Remote})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
