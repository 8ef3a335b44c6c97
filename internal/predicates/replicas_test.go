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
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/workload"
	"github.com/berth-dev/berth/test/budget"
)

func TestReplicas(t *testing.T) {
	const spread = `topologySpreadConstraints: [{maxSkew: 3, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule,
		labelSelector: {matchLabels: {app: x}}}]`
	cases := map[string]struct {
		reason   string
		names    []string
		pod      string
		replicas int
		want     int
	}{
		"Capped":     {"No more fit than there are to be.", nil, `containers: [{name: c}]`, 3, 3},
		"One":        {"One is one, whatever is said.", nil, `containers: [{name: c}]`, 0, 1},
		"Cpu":        {"As many as there is cpu for.", nil, `containers: [{name: c, resources: {requests: {cpu: 1500m}}}]`, 100, 5},
		"Pods":       {"As many as there may be pods.", nil, `containers: [{name: c}]`, 1000, 110},
		"Ports":      {"Each wants the port.", nil, `containers: [{name: c, ports: [{containerPort: 80, hostPort: 80}]}]`, 5, 1},
		"Spread":     {"What PreFilter counted knows of the copies.", nil, spread + `, containers: [{name: c}]`, 20, 3},
		"Endless":    {"A pod that asks for nothing fits without end, which nobody waits for.", []string{"NodePorts"}, `containers: [{name: c, ports: [{hostPort: 0, containerPort: 80}]}]`, 1 << 30, 1 << 30},
		"NotCounted": {"Where no predicate looks at pods, nothing is tried.", []string{"NodeUnschedulable", "NodeAffinity"}, `containers: [{name: c}]`, 1 << 30, 1 << 30},
	}
	world := snapshotWith(t, big("a", ""), big("b", ""))
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := podOf(t, "{metadata: {labels: {app: x}}, spec: {"+tc.pod+"}}")
			w.Replicas = tc.replicas
			r := judge(t, setOf(t, tc.names), world, w, Query{Names: []string{"a"}})
			diff(t, tc.reason, []Verdict{{Name: "a", Outcome: &Outcome{Feasible: true, Replicas: tc.want}}}, r.Verdicts)
		})
	}
}

func TestReplicasEnd(t *testing.T) {
	// A predicate that reads the pods on a node and never rejects.
	s := setOf(t, []string{"Any"}, predicate("Any", func(string) *fwk.Status { return nil }))
	w := podOf(t, `{spec: {containers: [{name: c}]}}`)
	w.Replicas = 1 << 30
	r := judge(t, s, snapshotWith(t, big("a", "")), w, Query{})
	diff(t, "There is an end to trying.", []Verdict{{Name: "a", Outcome: &Outcome{Feasible: true, Replicas: maxReplicasPerCandidate}}}, r.Verdicts)
}

// TestReplicasAreBoundedTogether checks that the search for replica counts ends in time, for any number of replicas and
// candidates.
func TestReplicasAreBoundedTogether(t *testing.T) {
	s := setOf(t, []string{"Any"}, predicate("Any", func(string) *fwk.Status { return nil }))
	for name, c := range map[string]struct{ nodes, containers, want int }{
		"One":    {1, 1, maxReplicasPerCandidate},
		"Many":   {64, 1, maxReplicasTotal / 64},
		"More":   {2000, 1, minReplicasTried},
		"Large":  {64, 160, maxReplicasTotal / 64 / 11},
		"Larger": {2000, 1600, stride},
	} {
		t.Run(name, func(t *testing.T) {
			var nodes []string
			for i := range c.nodes {
				nodes = append(nodes, big(fmt.Sprint("n", i), ""))
			}
			w := podOf(t, "{spec: {containers: ["+strings.Repeat("{name: c},", c.containers)+"]}}")
			w.Replicas = math.MaxInt32
			for _, v := range judge(t, s, snapshotWith(t, nodes...), w, Query{}).Verdicts {
				if v.Replicas != c.want {
					t.Fatalf("%d replicas are counted on each, want %d", v.Replicas, c.want)
				}
			}
		})
	}
}

// TestReplicasFit compares replica counts with worlds in which the copies are on the node.
func TestReplicasFit(t *testing.T) {
	const nodes, most = 4, 9
	s := setOf(t, nil)
	counted := map[int]int{}
	for seed := range uint64(budget.Rounds(120)) {
		g := newGenerator(seed)
		objects := g.objects(nodes, 8)
		w := g.workload(t, 1+g.IntN(most))
		for _, v := range judge(t, s, snapshotWith(t, objects...), w, Query{}).Verdicts {
			want := 0
			if v.Feasible {
				want = placed(t, s, objects, w, v.Name)
			}
			if v.Replicas != want {
				text, _ := yaml.Marshal(w.Pod)
				t.Fatalf("seed %d: %d of %d fit on %s, not %d\n%v\n%s", seed, want, w.Replicas, v.Name, v.Replicas, objects, text)
			}
			counted[want]++
		}
	}
	if len(counted) < most {
		t.Errorf("the worlds are not various enough: %v", counted)
	}
}

// placed adds copies to a node until it is no longer feasible.
func placed(t *testing.T, s *Set, objects []string, w workload.Workload, node string) int {
	t.Helper()
	world := worldWith(t, objects...)
	// Remove the workload's own pods, so that they are not confused with the copies.
	for _, name := range own(current(t, world), w) {
		world.Delete(podResource, w.Pod.Namespace, name)
	}
	alone := workload.Workload{Pod: w.Pod, Replicas: 1}
	for n := 0; n < w.Replicas; n++ {
		v := judge(t, s, current(t, world), alone, Query{Names: []string{node}}).Verdicts
		if !v[0].Feasible {
			return n
		}
		pod := w.Pod.DeepCopy()
		pod.Name, pod.Spec.NodeName = fmt.Sprintf("copy-%d", n), node
		text, err := yaml.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		put(t, world, string(text))
	}
	return w.Replicas
}

// own returns the names of a workload's existing pods.
func own(world *Snapshot, w workload.Workload) []string {
	var out []string
	for _, info := range world.infos {
		for _, p := range info.GetPods() {
			pod := p.GetPod()
			if pod.Namespace == w.Pod.Namespace && (pod.Name == w.Name || w.Own != nil && w.Own.Matches(labels.Set(pod.Labels))) {
				out = append(out, pod.Name)
			}
		}
	}
	return out
}

func TestOwnPods(t *testing.T) {
	world := snapshotWith(t, big("a", ""),
		`{metadata: {name: p, labels: {app: x}}, spec: {nodeName: a, containers: [{name: c, resources: {requests: {cpu: 5}}}]}}`,
		`{metadata: {name: q, namespace: other, labels: {app: x}}, spec: {nodeName: a, containers: [{name: c, resources: {requests: {cpu: 1}}}]}}`)
	const pod = `{metadata: {labels: {app: x}}, spec: {containers: [{name: c, resources: {requests: {cpu: 5}}}]}}`
	s := setOf(t, nil)
	w := podOf(t, pod)
	diff(t, "Another pod is in the way.", "0/1 nodes fit: 1 Insufficient cpu", judge(t, s, world, w, Query{}).Summary())
	w.Own = labels.SelectorFromSet(labels.Set{"app": "x"})
	diff(t, "A workload's own pod is not.", "1/1 nodes fit", judge(t, s, world, w, Query{}).Summary())
	w = podOf(t, pod)
	w.Name = "p"
	diff(t, "A pod is not in its own way.", "1/1 nodes fit", judge(t, s, world, w, Query{}).Summary())
	w.Name = "q"
	diff(t, "One of the name in another namespace is another one.", "0/1 nodes fit: 1 Insufficient cpu",
		judge(t, s, world, w, Query{}).Summary())
}

// TestReplicasCancelled cancels the context during the search for the replica count.
func TestReplicasCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	s := setOf(t, []string{"Any"}, predicate("Any", func(string) *fwk.Status {
		if calls++; calls == 3 {
			cancel()
		}
		return nil
	}))
	w := podOf(t, `{spec: {containers: [{name: c}]}}`)
	w.Replicas = 1 << 16
	if _, err := s.Evaluate(ctx, snapshotWith(t, big("a", "")), w, Query{Kind: Nodes}); !errors.Is(err, context.Canceled) || calls > 4 {
		t.Errorf("it goes on once it is cancelled: %v after %d calls", err, calls)
	}
}
