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
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
)

var nodes = policy.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}}

// TestIncompleteBeforeTheFirstLoad verifies that an engine that was never loaded does not count as failing, because no
// decision was requested, and that one that lost its data does.
func TestIncompleteBeforeTheFirstLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{answer: eu}
		f := newFixture(t, k.ServeHTTP)
		p := prepare(t, f.engine, "p", placementv1.Remote{Retry: noRetry, Replicate: []placementv1.ReplicatedResource{{Resource: "nodes"}}}, nodes)
		f.evaluate, f.inForce = []placement.Evaluator{p}, []*placement.Policy{{Name: "p", Evaluator: p}}
		for _, step := range []struct {
			stored      *opaclient.Manifest
			health      string
			transitions []string
		}{
			{nil, "unasked", nil},
			{full("1"), "healthy", []string{"p: unasked->healthy"}},
			{nil, "incomplete", []string{"p: healthy->incomplete"}},
		} {
			k.set(step.stored)
			_, err := p.Evaluate(t.Context(), deployment())
			if (err == nil) != (step.stored != nil) {
				t.Error(err)
			}
			if diff := cmp.Diff(step.health, describeHealth(p.Health())); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(step.transitions, f.take()); diff != "" {
				t.Error(diff)
			}
		}
	})
}

// keeper is an engine that serves a manifest.
type keeper struct {
	mu sync.Mutex
	// stored is the manifest; nil for none.
	stored *opaclient.Manifest
	// decide runs during a decision, before the response; nil for nothing.
	decide func(k *keeper)
	answer string
	// posts and looks count the requests for decisions and for the manifest.
	posts, reads int
	// slow is how long a request for the manifest takes.
	slow time.Duration
}

func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		k.mu.Lock()
		k.reads++
		text, err := json.Marshal(map[string]any{"result": k.stored})
		if k.stored == nil {
			text = []byte(`{}`)
		}
		k.mu.Unlock()
		if err != nil {
			panic(err)
		}
		pass(k.slow)
		says(string(text))(w, r)
		return
	}
	k.mu.Lock()
	k.posts++
	decide := k.decide
	k.mu.Unlock()
	if decide != nil {
		decide(k)
	}
	says(k.answer)(w, r)
}

func (k *keeper) set(h *opaclient.Manifest) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stored = h
}

func full(load string) *opaclient.Manifest {
	return &opaclient.Manifest{LoadID: load, Types: map[string]bool{"/v1/nodes": true}}
}

// wantsNodes returns a policy that needs nodes in the engine.
func wantsNodes(t *testing.T, f *fixture, name string, spec placementv1.Remote) *evaluator {
	t.Helper()
	spec.Replicate = []placementv1.ReplicatedResource{{Resource: "nodes"}}
	p := prepare(t, f.engine, name, spec, nodes)
	f.evaluate = append(f.evaluate, p)
	return p
}

// TestManifest verifies that a decision counts only if the engine had everything before it and still has it afterwards.
func TestManifest(t *testing.T) {
	tests := map[string]struct {
		stored *opaclient.Manifest
		decide func(k *keeper)
		fault  engine.Fault
		posts  int
		says   string
	}{
		"Everything":      {stored: full("1"), posts: 1},
		"Nothing":         {fault: engine.FaultIncomplete, says: "nodes"},
		"InPart":          {stored: &opaclient.Manifest{LoadID: "1", Types: map[string]bool{"/v1/nodes": false}}, fault: engine.FaultIncomplete, says: "nodes"},
		"LostMeanwhile":   {stored: full("1"), decide: func(k *keeper) { k.set(nil) }, posts: 1, fault: engine.FaultIncomplete, says: "nodes"},
		"ReloadMeanwhile": {stored: full("1"), decide: func(k *keeper) { k.set(full("2")) }, posts: 1, fault: engine.FaultIncomplete, says: "lost data"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &keeper{stored: tc.stored, decide: tc.decide, answer: eu}
				f := newFixture(t, k.ServeHTTP)
				p := wantsNodes(t, f, "p", placementv1.Remote{Retry: noRetry})
				d, err := p.Evaluate(t.Context(), deployment())
				if engine.FaultOf(err) != tc.fault || k.posts != tc.posts || (err == nil) != (d.Annotations["region"] == "eu") {
					t.Errorf("%d requests, decision %v, error %v", k.posts, d, err)
				}
				if tc.says != "" && !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%q does not say %q", err, tc.says)
				}
			})
		})
	}
}

// TestManifestLost verifies that it is noticed whether an engine restarted empty or was loaded again, without and with
// another attempt.
func TestManifestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{stored: full("1"), answer: eu}
		f := newFixture(t, k.ServeHTTP)
		p := wantsNodes(t, f, "p", placementv1.Remote{})
		decides(t, p)
		k.set(nil)
		k.answer = `{}`
		if got := fails(t, p); got.Fault != engine.FaultIncomplete || got.Attempts != 3 {
			t.Errorf("got %v", got)
		}
		// An undefined result while the engine was empty does not count, even if the engine is loaded again before it
		// responds.
		k.decide = func(k *keeper) {
			k.set(full("2"))
			k.decide, k.answer = nil, eu
		}
		k.set(full("1"))
		if d := decides(t, p); d.Annotations["region"] != "eu" {
			t.Errorf("got %v", d)
		}
	})
}

// TestManifestOfOtherModules verifies that newer modules decide for a policy that still has older ones, but that an
// undefined result from them does not count.
func TestManifestOfOtherModules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{answer: eu}
		f := newFixture(t, k.ServeHTTP)
		p := f.put(t, "p", placementv1.Remote{Retry: noRetry, Modules: []placementv1.RemoteModule{{Name: "m", Rego: "package m"}}})
		stored := func(digest string, superseded ...string) {
			k.set(&opaclient.Manifest{LoadID: "1", Modules: map[string]opaclient.ManifestModules{"p": {Digest: digest, Superseded: superseded}}})
		}
		stored(p.remote.ModulesDigest)
		decides(t, p)
		stored("newer", p.remote.ModulesDigest)
		decides(t, p)
		k.answer = `{}`
		if got := fails(t, p); got.Fault != engine.FaultIncomplete {
			t.Errorf("got %v", got)
		}
		stored("other")
		k.answer = eu
		if got := fails(t, p); got.Fault != engine.FaultIncomplete {
			t.Errorf("got %v", got)
		}
		stored(p.remote.ModulesDigest)
		k.answer = `{}`
		decides(t, p)
	})
}

// TestAnswerOfAnotherServer covers two servers that share one address for a moment. An undefined result from a server
// without the policy's package does not count if the manifest came from the other server.
func TestAnswerOfAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{answer: `{}`}
		f := newFixture(t, k.ServeHTTP)
		p := f.put(t, "p", placementv1.Remote{Retry: noRetry, URL: address0 + "/v1/data/p", Modules: []placementv1.RemoteModule{{Name: "m", Rego: `package p

x := 1`}}})
		k.set(&opaclient.Manifest{LoadID: "1", Modules: map[string]opaclient.ManifestModules{"p": {Digest: p.remote.ModulesDigest}}})
		if got := fails(t, p); got.Fault != engine.FaultIncomplete || !strings.Contains(got.Error(), "package of the policy's modules") {
			t.Errorf("got %v", got)
		}
	})
}

// TestManifestRequestsAreShared verifies that callers which arrive while a request for the manifest is running share
// the next request. The running one may have read an older state.
func TestManifestRequestsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{stored: full("1"), answer: eu}
		f := newFixture(t, k.ServeHTTP)
		p := wantsNodes(t, f, "p", placementv1.Remote{})
		q := wantsNodes(t, f, "q", placementv1.Remote{URL: address0 + "/v1/data/other"})
		decides(t, p)
		k.slow, k.reads = 100*time.Millisecond, 0
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { decides(t, p) })
			all.Go(func() { decides(t, q) })
		}
		began := time.Now()
		all.Wait()
		if k.reads != 2 || time.Since(began) != 200*time.Millisecond {
			t.Errorf("%d reads of the manifest in %s for 20 decisions", k.reads, time.Since(began))
		}

		// A caller that gives up does not end the request of others.
		k.reads = 0
		all.Go(func() { decides(t, p) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		all.Go(func() { decides(t, q) })
		if _, err := p.Evaluate(ctx, deployment()); engine.FaultOf(err) != engine.FaultTimeout {
			t.Errorf("got %v", err)
		}
		all.Wait()
	})
}

func TestDataReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{answer: eu}
		f := newFixture(t, k.ServeHTTP)
		if p := f.put(t, "free", placementv1.Remote{}); !f.engine.DataReady(p.binding) || !f.engine.DataReady(&policy.Binding{}) {
			t.Error("a policy that needs nothing is not ready")
		}
		p := wantsNodes(t, f, "p", placementv1.Remote{})
		expect := func(note string, want bool, reads int) {
			t.Helper()
			got := f.engine.DataReady(p.binding)
			synctest.Wait()
			if got != want || k.reads != reads {
				t.Errorf("%s: ready %t, %d reads", note, got, k.reads)
			}
		}
		expect("first", false, 1)
		k.set(full("1"))
		expect("too early", false, 1)
		pass(minPollInterval)
		expect("it reads", false, 2)
		expect("it has seen", true, 2)
		k.slow = 10 * time.Millisecond
		pass(minPollInterval)
		began := time.Now()
		if !f.engine.DataReady(p.binding) || time.Since(began) > 0 {
			t.Error("it waits")
		}
		pass(time.Second)
	})
}
