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
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
)

// counts is an Observer that counts notifications.
type counts struct {
	hits, misses     atomic.Int64
	known, evaluated atomic.Int64
}

func (c *counts) DecisionCacheHit()  { c.hits.Add(1) }
func (c *counts) DecisionCacheMiss() { c.misses.Add(1) }

func (c *counts) RuleCacheUsed(known, evaluated int) {
	c.known.Add(int64(known))
	c.evaluated.Add(int64(evaluated))
}

func (c *counts) want(t *testing.T, hits, misses int64) {
	t.Helper()
	if c.hits.Load() != hits || c.misses.Load() != misses {
		t.Errorf("%d hits, %d misses; want %d and %d", c.hits.Load(), c.misses.Load(), hits, misses)
	}
}

const zonePolicy = `package p
labels := {"zone": data.kubernetes.nodes[input.spec.nodeName].metadata.labels.zone}
errors contains input.spec.error`

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
	ev, _ := prepare(t, e, v1(`package p
labels := {"a": "b"} if input != {}`))
	for range 2 {
		decide(t, ev, onNode("n1", "a"))
	}
	seen.want(t, 0, 0)
}

// blind makes an evaluator assume that its policy reads nothing of the input.
func blind(ev *evaluator) {
	module := *ev.module
	module.Input = (&projection.FieldSet{}).Seal()
	ev.module = &module
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
	decide(t, ev, input)
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
}

// TestRevisionOfClusters verifies that a policy's clusters are those of the inventories that it is bound to. An
// inventory that only another policy reads, of which other fields may be kept, does not contribute.
func TestRevisionOfClusters(t *testing.T) {
	data := newWorld()
	e := New(data, Options{Timeout: time.Minute, Concurrency: 1})
	ev, _ := prepare(t, e, v1(`package p
labels := {"n": sprintf("%d", [count(data.clusters)])}`))
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
