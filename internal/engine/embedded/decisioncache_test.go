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

package embedded

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
)

// counts is an Observer that counts notifications.
type counts struct {
	hits, misses atomic.Int64
	// quarantines counts the quarantines that began, and releases those that ended.
	quarantines, releases, namespaces atomic.Int64
	known, evaluated                  atomic.Int64
	mu                                sync.Mutex
	mismatches                        []string
}

func (c *counts) DecisionCacheHit()  { c.hits.Add(1) }
func (c *counts) DecisionCacheMiss() { c.misses.Add(1) }

func (c *counts) Quarantined(string) { c.quarantines.Add(1) }

func (c *counts) NamespaceQuarantined(string, string, bool) { c.namespaces.Add(1) }

func (c *counts) Released(string) { c.releases.Add(1) }
func (c *counts) RuleCacheUsed(known, evaluated int) {
	c.known.Add(int64(known))
	c.evaluated.Add(int64(evaluated))
}
func (c *counts) CacheMismatch(policy string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mismatches = append(c.mismatches, policy)
}

func (c *counts) want(t *testing.T, hits, misses int64, mismatches ...string) {
	t.Helper()
	if c.hits.Load() != hits || c.misses.Load() != misses || !slices.Equal(c.mismatches, mismatches) {
		t.Errorf("%d hits, %d misses, mismatches %v; want %d, %d and %v", c.hits.Load(), c.misses.Load(), c.mismatches, hits, misses, mismatches)
	}
}

const zonePolicy = "package p\nlabels := {\"zone\": data.kubernetes.nodes[input.spec.nodeName].metadata.labels.zone}\nerrors contains input.spec.error"

func onNode(name, uid string) map[string]any {
	return map[string]any{"metadata": map[string]any{"uid": uid}, "spec": map[string]any{"nodeName": name}}
}

func decide(t testing.TB, ev placement.Evaluator, input map[string]any) placement.Decision {
	t.Helper()
	d, err := ev.Evaluate(t.Context(), input)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDecisionCache(t *testing.T) {
	seen := &counts{}
	data := newWorld()
	e := New(data, Options{Timeout: time.Minute, Concurrency: 1, Observer: seen})
	ev, _ := prepare(t, e, v1(zonePolicy))
	zone := func(input map[string]any, want string) {
		t.Helper()
		if got := decide(t, ev, input).Labels["zone"]; got != want {
			t.Errorf("zone %q, want %q", got, want)
		}
	}
	zone(onNode("n1", "a"), "eu-1")
	seen.want(t, 0, 1)
	zone(onNode("n1", "b"), "eu-1")
	seen.want(t, 1, 1)
	zone(onNode("n2", "a"), "us-1")
	zone(onNode("n3", "a"), "")
	seen.want(t, 1, 3)
	// A change of data that the policy does not read changes nothing.
	data.Put(pods.GroupVersionResource, document("a", "b"))
	zone(onNode("n1", "c"), "eu-1")
	seen.want(t, 2, 3)
	moved := document("", "n1")
	moved.SetLabels(map[string]string{"zone": "eu-2"})
	data.Put(nodes.GroupVersionResource, moved)
	zone(onNode("n1", "a"), "eu-2")
	zone(onNode("n1", "a"), "eu-2")
	seen.want(t, 3, 4)
	data.Drop(nodes.GroupVersionResource)
	if _, err := ev.Evaluate(t.Context(), onNode("n1", "a")); err == nil {
		t.Error("a decision was cached beyond its data")
	}
	data.Replace(nodes.GroupVersionResource, nil)
	zone(onNode("n1", "a"), "")
	seen.want(t, 3, 5)
}

func TestErrorsAreNotCached(t *testing.T) {
	seen := &counts{}
	e := New(newWorld(), Options{Timeout: time.Minute, Concurrency: 1, Observer: seen})
	ev, _ := prepare(t, e, v1(zonePolicy))
	wrong := map[string]any{"spec": map[string]any{"error": int64(1)}}
	for range 2 {
		if _, err := ev.Evaluate(t.Context(), wrong); err == nil {
			t.Fatal("the contract is broken, and nobody says so")
		}
	}
	seen.want(t, 0, 2)
}

func TestNoDecisionCacheForAllOfTheInput(t *testing.T) {
	seen := &counts{}
	e := New(newWorld(), Options{Timeout: time.Minute, Concurrency: 1, Observer: seen})
	ev, _ := prepare(t, e, v1("package p\nlabels := {\"a\": \"b\"} if input != {}"))
	for range 2 {
		decide(t, ev, onNode("n1", "a"))
	}
	seen.want(t, 0, 0)
}

// blinded returns an evaluator that assumes that its policy reads nothing of the input.
func blinded(t *testing.T, e *Engine, text string) *evaluator {
	t.Helper()
	ev, _ := prepare(t, e, v1(text))
	out := ev.(*evaluator)
	module := *out.module
	module.Input = (&projection.FieldSet{}).Seal()
	out.module = &module
	return out
}

// TestMismatch verifies that checks find a wrong set of fields, report it once, and turn the cache off.
func TestMismatch(t *testing.T) {
	seen := &counts{}
	e := New(newWorld(), Options{Timeout: time.Minute, Concurrency: 1, Observer: seen})
	ev := blinded(t, e, zonePolicy)
	if got := decide(t, ev, onNode("n1", "a")); len(got.Labels) > 0 {
		t.Fatalf("the policy is not blind: %v", got)
	}
	for range 3 {
		if got := decide(t, ev, onNode("n1", "a")); got.Labels["zone"] != "eu-1" {
			t.Errorf("decision %v", got)
		}
	}
	seen.want(t, 1, 1, "p")
}

// TestMismatchByError verifies that checks find an error where a decision was cached.
func TestMismatchByError(t *testing.T) {
	seen := &counts{}
	e := New(newWorld(), Options{Timeout: time.Minute, Concurrency: 1, Observer: seen})
	ev := blinded(t, e, zonePolicy)
	decide(t, ev, onNode("n1", "a"))
	if _, err := ev.Evaluate(t.Context(), map[string]any{"spec": map[string]any{"error": int64(1)}}); err == nil {
		t.Error("no error")
	}
	seen.want(t, 1, 1, "p")
}

// TestChecksStandBack verifies that a check without a free slot or without time delays no caller and reports nothing.
func TestChecksStandBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &counts{}
		e := New(newWorld(), Options{Timeout: time.Second, Concurrency: 1, Observer: seen})
		ev := blinded(t, e, zonePolicy)
		decide(t, ev, onNode("n1", "a"))
		e.slots.acquire(t.Context(), "another", "")
		if got := decide(t, ev, onNode("n1", "a")); len(got.Labels) > 0 {
			t.Errorf("a check was made: %v", got)
		}
		e.slots.release("another", "")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := ev.Evaluate(ctx, onNode("n1", "a")); err != nil {
			t.Errorf("a check that has no time fails: %v", err)
		}
		synctest.Wait()
		seen.want(t, 2, 1)
	})
}

func TestChecksAreRareAndFirstOften(t *testing.T) {
	m := &decisionCache{limit: decisionCacheBytes}
	m.put(noData, []byte("a"), &cachedDecision{})
	var at []int
	for n := 1; n <= 3*checkEvery; n++ {
		if m.get(noData, []byte("a")) == nil {
			t.Fatal("not known")
		}
		if m.sample(checkEvery) {
			at = append(at, n)
		}
	}
	want := []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3072}
	if diff := cmp.Diff(want, at); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
}

func TestDecisionCacheIsBounded(t *testing.T) {
	m := &decisionCache{limit: decisionCacheBytes}
	d := &cachedDecision{decision: placement.Decision{Annotations: map[string]string{"a": string(make([]byte, 1000))}}}
	key := func(i int) []byte { return fmt.Appendf(nil, "key %d", i) }
	const n = 10_000
	for i := range n {
		m.put(noData, key(i), d)
		if m.get(noData, key(0)) == nil {
			t.Fatalf("what is asked for all the time is forgotten after %d others", i)
		}
	}
	if held := (len(m.young) + len(m.old)) * 1000; held > 2*decisionCacheBytes || held < decisionCacheBytes/2 {
		t.Errorf("holds %d bytes", held)
	}
	if m.get(noData, key(1)) != nil {
		t.Error("nothing is forgotten")
	}
	m.put(noData, []byte("big"), &cachedDecision{decision: placement.Decision{Errors: []string{string(make([]byte, decisionCacheBytes))}}})
	if m.get(noData, []byte("big")) != nil {
		t.Error("a decision is larger than the cache")
	}
	m.put(noData+2, key(1), d)
	m.put(noData+1, key(2), d)
	if len(m.young) != 1 || len(m.old) != 0 {
		t.Errorf("decisions of older data are kept: %d and %d", len(m.young), len(m.old))
	}
}

// TestHitsAreFree verifies that a cache hit takes no slot, starts no goroutine, and allocates nothing.
func TestHitsAreFree(t *testing.T) {
	e := New(newWorld(), Options{Timeout: time.Minute, Concurrency: 1})
	ev, _ := prepare(t, e, v1(zonePolicy))
	input := onNode("n1", "a")
	// Skip the first hits, which are checked more often.
	for range checkEvery + 1 {
		decide(t, ev, input)
	}
	e.slots.acquire(t.Context(), "another", "")
	ctx := t.Context()
	if n := testing.AllocsPerRun(500, func() {
		if _, err := ev.Evaluate(ctx, input); err != nil {
			t.Error(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestDecisionCacheAndChanges verifies that each decision, cached or not, is of one state of the data while the data
// changes. A label is never older than the revision that was read before the evaluation, and equal revisions have equal
// decisions. The callers share decisions, so the race detector finds writes to them.
func TestDecisionCacheAndChanges(t *testing.T) {
	data := NewData()
	node := func(n int) []*unstructured.Unstructured {
		o := document("", "n1")
		o.SetLabels(map[string]string{"zone": fmt.Sprintf("z%d", n)})
		return []*unstructured.Unstructured{o}
	}
	data.Replace(nodes.GroupVersionResource, node(0))
	seen := &counts{}
	e := New(data, Options{Timeout: time.Minute, Concurrency: 2, Observer: seen})
	ev, _ := prepare(t, e, v1(zonePolicy))
	var written atomic.Int64
	stop := keepReading(func() bool {
		least := written.Load()
		before := ev.Revision()
		d, err := ev.Evaluate(t.Context(), onNode("n1", "a"))
		after := ev.Revision()
		again, errAgain := ev.Evaluate(t.Context(), onNode("n1", "b"))
		if err != nil || errAgain != nil {
			t.Errorf("%v, %v", err, errAgain)
			return false
		}
		var n int64
		if _, err := fmt.Sscanf(d.Labels["zone"], "z%d", &n); err != nil || n < least {
			t.Errorf("zone %q, though z%d was written before (%v)", d.Labels["zone"], least, err)
			return false
		}
		if before == after && ev.Revision() == before && !maps.Equal(d.Labels, again.Labels) {
			t.Errorf("%v and %v at one revision", d, again)
			return false
		}
		return true
	})
	for n := 1; n <= 200; n++ {
		data.Replace(nodes.GroupVersionResource, node(n))
		written.Store(int64(n))
	}
	stop()
	if len(seen.mismatches) > 0 {
		t.Error("mismatches")
	}
}

// TestRevisionOfClusters verifies that a policy's clusters are those of the inventories that it is bound to. An
// inventory that only another policy reads, of which other fields may be kept, does not contribute.
func TestRevisionOfClusters(t *testing.T) {
	data := newWorld()
	e := New(data, Options{Timeout: time.Minute, Concurrency: 1})
	ev, _ := prepare(t, e, v1("package p\nlabels := {\"n\": sprintf(\"%d\", [count(data.clusters)])}"))
	fleet := schema.GroupVersionResource{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1", Resource: "memberclusters"}
	revisions := []uint64{ev.Revision()}
	expect := func(n string) {
		t.Helper()
		if got := decide(t, ev, map[string]any{}).Labels["n"]; got != n {
			t.Errorf("%s clusters, want %s", got, n)
		}
	}
	expect("2")
	data.Replace(fleet, []*unstructured.Unstructured{document("", "fleet")})
	expect("2")
	data.Drop(fleet)
	if ev.Revision() != revisions[0] {
		t.Error("an inventory that the policy does not read changed its revision")
	}
	data.Put(managed.GroupVersionResource, prepared(managed, document("", "more")))
	revisions = append(revisions, ev.Revision())
	expect("3")
	data.Delete(managed.GroupVersionResource, "", "more")
	revisions = append(revisions, ev.Revision())
	expect("2")
	if len(slices.Compact(slices.Clone(revisions))) != 3 || !slices.IsSorted(revisions) {
		t.Errorf("revisions %v", revisions)
	}
}

func TestDeadlinesAreNotCached(t *testing.T) {
	seen := &counts{}
	e := New(NewData(), Options{Timeout: 20 * time.Millisecond, Concurrency: 1, Observer: seen})
	ev, _ := prepare(t, e, v1(endless))
	for range 2 {
		if _, err := ev.Evaluate(t.Context(), map[string]any{}); !errors.Is(err, engine.ErrDeadline) {
			t.Errorf("error %v", err)
		}
	}
	seen.want(t, 0, 2)
}
