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

package predicates

import (
	"fmt"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/test/budget"
)

// TestReevaluateIsEvaluate compares the results of Reevaluate after some changes with those of Evaluate.
func TestReevaluateIsEvaluate(t *testing.T) {
	const nodes, pods = 5, 10
	s := setOf(t, nil)
	same, fewer, seeds := 0, 0, budget.Rounds(60)
	for seed := range uint64(seeds) {
		g := newGenerator(seed)
		world := worldWith(t, g.objects(nodes, pods)...)
		w := g.workload(t, 1+g.IntN(4))
		q := Query{Kind: Nodes}
		switch g.IntN(4) {
		case 0:
			q.Names = []string{"n1", "n0", "n7", "n3"}
		case 1:
			q.Selector = labels.SelectorFromSet(labels.Set{"disk": "ssd"})
		}
		r := judge(t, s, current(t, world), w, q)
		for range 12 {
			for range g.IntN(3) {
				g.change(t, world, nodes, pods)
			}
			want := judge(t, s, current(t, world), w, q)
			asked := s.evaluated.Load()
			got, err := s.Reevaluate(t.Context(), current(t, world), r)
			if err != nil {
				t.Fatal(err)
			}
			if int(s.evaluated.Load()-asked) < len(want.Verdicts) {
				fewer++
			}
			if (got == r) != r.equal(want) || !got.equal(want) {
				text, _ := yaml.Marshal(w.Pod)
				t.Fatalf("seed %d: not what is judged anew: the same is %v\nwant %v\ngot  %v\nhad  %v\n%s", seed, got == r,
					want.Verdicts, got.Verdicts, r.Verdicts, text)
			}
			if got == r {
				same++
			}
			r = got
		}
	}
	if same < 10*seeds/3 || fewer < 10*seeds/3 {
		t.Errorf("the worlds are not various enough: %d times the same, %d times less asked", same, fewer)
	}
}

func TestReevaluateEvaluatesWhatChanged(t *testing.T) {
	const zonal = `{metadata: {labels: {app: x}}, spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}],
		topologySpreadConstraints: [{maxSkew: 9, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule,
		labelSelector: {matchLabels: {app: x}}}]}}`
	const plain = `{spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}`
	small := func(cpu int) string {
		return fmt.Sprintf(`{metadata: {name: p}, spec: {nodeName: n7, containers: [{name: c, resources: {requests: {cpu: %d}}}]}}`, cpu)
	}
	cases := map[string]struct {
		reason string
		pod    string
		change func(*testing.T, *NodeCache)
		asked  int64
		same   bool
	}{
		"Nothing":   {"Of the same snapshot nothing is asked.", plain, func(*testing.T, *NodeCache) {}, 0, true},
		"Elsewhere": {"A pod that leaves room is seen on its node only.", plain, func(t *testing.T, w *NodeCache) { put(t, w, small(1)) }, 1, true},
		"Full":      {"A pod that leaves none changes a verdict.", plain, func(t *testing.T, w *NodeCache) { put(t, w, small(8)) }, 1, false},
		"Node":      {"A new node has a verdict of its own.", plain, func(t *testing.T, w *NodeCache) { put(t, w, big("n99", "")) }, 1, false},
		"Gone":      {"A node that is gone has none.", plain, func(t *testing.T, w *NodeCache) { w.Delete(nodeResource, "", "n3") }, 0, false},
		"Spread":    {"Where one node's pods matter to another, all are asked.", zonal, func(t *testing.T, w *NodeCache) { put(t, w, small(1)) }, 20, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var nodes []string
			for i := range 20 {
				nodes = append(nodes, big(fmt.Sprintf("n%d", i), ""))
			}
			world := worldWith(t, nodes...)
			s := setOf(t, nil)
			r := judge(t, s, current(t, world), podOf(t, tc.pod), Query{})
			diff(t, "All nodes are asked at first.", int64(20), s.evaluated.Load())
			tc.change(t, world)
			for range 2 {
				before := s.evaluated.Load()
				again, err := s.Reevaluate(t.Context(), current(t, world), r)
				if err != nil {
					t.Fatal(err)
				}
				diff(t, tc.reason, tc.asked, s.evaluated.Load()-before)
				diff(t, tc.reason, tc.same, again == r)
				// Once the verdicts are known for a snapshot, Reevaluate evaluates nothing more on it.
				r, tc.asked, tc.same = again, 0, true
			}
		})
	}
}

func TestReevaluateByAnotherSet(t *testing.T) {
	world := snapshotWith(t, big("a", ", spec: {unschedulable: true}"))
	all := setOf(t, nil)
	few, err := all.Narrow([]string{"NodeName"})
	if err != nil {
		t.Fatal(err)
	}
	r := judge(t, all, world, podOf(t, `{spec: {containers: [{name: c}]}}`), Query{})
	again, err := few.Reevaluate(t.Context(), world, r)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "What other predicates said is not taken over.", "1/1 nodes fit", again.Summary())
}

// TestAtOnce runs concurrent evaluations on several snapshots, for the race detector.
func TestAtOnce(t *testing.T) {
	s := setOf(t, nil)
	g := newGenerator(1)
	world := worldWith(t, g.objects(6, 20)...)
	first := g.workload(t, 5)
	r := judge(t, s, current(t, world), first, Query{})
	var done sync.WaitGroup
	for range 8 {
		g.change(t, world, 6, 20)
		snapshot, w := current(t, world), g.workload(t, 4)
		done.Go(func() {
			for range 5 {
				want := judge(t, s, snapshot, first, Query{})
				if got, err := s.Reevaluate(t.Context(), snapshot, r); err != nil || !got.equal(want) {
					t.Errorf("judged at once with others: %v, %v instead of %v", err, got, want.Verdicts)
				}
				judge(t, s, snapshot, w, Query{})
			}
		})
	}
	done.Wait()
}
