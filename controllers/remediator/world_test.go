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

package remediator

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

var (
	pods       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// server returns a node with four processors.
func server(i int, unschedulable bool) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Node", "spec": map[string]any{"unschedulable": unschedulable},
		"status": map[string]any{"allocatable": map[string]any{"cpu": "4", "memory": "8Gi", "pods": "110"}},
	}}
	o.SetName(fmt.Sprintf("node-%d", i))
	o.SetLabels(map[string]string{"kubernetes.io/hostname": o.GetName()})
	return o
}

// running returns a pod on a node.
func running(name string, node int, label string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"spec": map[string]any{"nodeName": fmt.Sprintf("node-%d", node), "containers": []any{
			map[string]any{"name": "a", "resources": map[string]any{"requests": map[string]any{"cpu": "100m"}}},
		}},
		"status": map[string]any{"phase": "Running"},
	}}
	o.SetName(name)
	o.SetNamespace("shop")
	o.SetUID(types.UID("uid of " + name))
	o.SetLabels(map[string]string{"app": label})
	return o
}

// populate loads n nodes with two pods each.
func (l *leader) populate(n int) {
	var servers, bound []*unstructured.Unstructured
	for i := range n {
		servers = append(servers, server(i, false))
		for j := range 2 {
			bound = append(bound, running(fmt.Sprintf("pod-%d-%d", i, j), i, "a"))
		}
	}
	l.world.Load(nodes, servers)
	l.world.Load(pods, bound)
	l.world.Load(namespaces, nil)
}

// asking returns a Deployment whose pods request some CPU.
func asking(name string, milli int) *unstructured.Unstructured {
	o := deployment(name, "front", "")
	o.Object["spec"] = map[string]any{
		"replicas": int64(3), "selector": map[string]any{"matchLabels": map[string]any{"app": "asking"}},
		"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "asking"}}, "spec": map[string]any{"containers": []any{
			map[string]any{"name": "a", "image": "a", "resources": map[string]any{"requests": map[string]any{"cpu": fmt.Sprintf("%dm", milli)}}},
		}}},
	}
	return o
}

// fits returns a policy that requires that Deployments fit on a node.
func fits() placementv1.PlacementPolicySpec {
	spec := onDeployments("", "")
	spec.Rego, spec.Predicates = "", &placementv1.Predicates{Candidates: placementv1.PredicateCandidatesNodes}
	return spec
}

// settled marks the world as changed at least predicateSettle ago.
func (l *leader) settled() {
	l.backlog.add(func(b *changes) { b.predicateData = true })
}

// TestWorldDecides checks that objects are decided again after changes of nodes and pods.
func TestWorldDecides(t *testing.T) {
	l := newLeader(t)
	l.populate(2)
	l.apply("p", fits())
	l.catchUp(t.Context())
	l.fill(deployments, []*unstructured.Unstructured{asking("a", 1000), asking("b", 1000), asking("c", 3750), asking("d", 3750)})
	l.decided()
	l.catchUpAndDecide()
	expect := func(what string, violations int) {
		t.Helper()
		l.settled()
		l.catchUpAndDecide()
		if r := l.Ledger.Report("p"); r.Violations != violations || r.Matched != 4 {
			t.Errorf("%d violations of %d objects after %s, want %d", r.Violations, r.Matched, what, violations)
		}
	}
	expect("nothing", 0)
	l.world.Put(pods, running("one-more", 0, "a"))
	expect("a pod on a node", 0)
	l.world.Put(nodes, server(1, true))
	expect("cordoning the other", 2)
	l.world.Put(nodes, server(0, true))
	expect("cordoning both", 4)
	l.world.Put(nodes, server(1, false))
	expect("taking one back", 0)
}

// BenchmarkWorldChanges measures how long it takes to check 100 different Deployments again when a pod changes on one
// of 5,000 nodes. For comparison, it also measures a new decision of each.
func BenchmarkWorldChanges(b *testing.B) {
	const objects, servers = 100, 5000
	l := newLeader(b)
	l.populate(servers)
	l.apply("p", fits())
	l.catchUp(b.Context())
	var list []*unstructured.Unstructured
	for i := range objects {
		list = append(list, asking(fmt.Sprintf("d-%d", i), 100+i))
	}
	l.fill(deployments, list)
	l.drain()
	l.catchUp(b.Context())
	l.drain()
	i := 0
	change := func(b *testing.B) {
		i++
		if !l.world.Put(pods, running("pod-7-0", 7, fmt.Sprint(i))) {
			b.Fatal("nothing changed")
		}
	}
	var sweep time.Duration
	b.Run("sweep", func(b *testing.B) {
		for b.Loop() {
			change(b)
			l.settled()
			l.catchUp(b.Context())
			if n := l.drain(); n != objects {
				b.Fatalf("%d decided", n)
			}
		}
		sweep = b.Elapsed() / time.Duration(b.N)
	})
	b.Run("anew", func(b *testing.B) {
		for b.Loop() {
			change(b)
			b.StopTimer()
			// A new evaluator has no cached decisions.
			l.apply("p", fits())
			evaluator := l.Registry.Get("p").Policy.Evaluator
			b.StartTimer()
			for _, o := range list {
				if d, err := evaluator.Evaluate(b.Context(), o.Object); err != nil || !d.Equal(placement.Decision{}) {
					b.Fatalf("decided %v, %v", d, err)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed()/time.Duration(b.N))/float64(sweep), "anew/sweep")
	})
}
