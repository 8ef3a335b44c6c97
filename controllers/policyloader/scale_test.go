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

package policyloader

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/test/growth"
)

// policyCluster is a cache of policies, and an API server that serves one inventory.
type policyCluster struct {
	client.Reader
	policies map[string]*placementv1.PlacementPolicy
}

func (c *policyCluster) Get(_ context.Context, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	obj, ok := c.policies[key.Name]
	into, isPolicy := out.(*placementv1.PlacementPolicy)
	if !ok || !isPolicy {
		return apierrors.NewNotFound(appsv1.Resource("any"), key.Name)
	}
	obj.DeepCopyInto(into)
	return nil
}

func (c *policyCluster) List(_ context.Context, out client.ObjectList, _ ...client.ListOption) error {
	list := out.(*placementv1.PlacementPolicyList)
	for _, obj := range c.policies {
		list.Items = append(list.Items, *obj)
	}
	return nil
}

// profiles is the type that the cluster serves.
var profiles = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}

func (*policyCluster) ByPlural(string) []policy.Resource { return nil }

func (*policyCluster) Exact(r schema.GroupVersionResource) (policy.Resource, bool) {
	return policy.Resource{GroupVersionResource: r, Namespaced: true}, r == profiles
}

func (*policyCluster) Inventories() *replication.Inventories { return replication.Known() }

func (*policyCluster) Refresh(context.Context) error { return nil }
func (*policyCluster) Invalidate()                   {}
func (*policyCluster) Subscribe(func())              {}

// text returns a realistic source of a policy. Sources with different numbers differ.
func text(n int) string {
	return fmt.Sprintf(`package kubernetes.placement

annotations["placement.example/clusters"] := concat(",", sort([name | some name in eligible]))

eligible contains name if {
	some name, cluster in data.clusters
	cluster.labels.jurisdiction == "eu-%d"
	to_number(cluster.labels["pci-level"]) >= level
}

default level := 0

level := to_number(input.metadata.annotations["pci-level"])

errors contains sprintf("no cluster has PCI level %%v", [level]) if count(eligible) == 0
`, n)
}

func newPolicy(name, team, rego string) *placementv1.PlacementPolicy {
	return &placementv1.PlacementPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1},
		Spec: placementv1.PlacementPolicySpec{Rego: rego, Match: placementv1.Match{
			ResourceRules:     []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}},
		}},
	}
}

func policiesOf(n int, rego func(i int) string) *policyCluster {
	c := &policyCluster{policies: map[string]*placementv1.PlacementPolicy{}}
	for i := range n {
		name := fmt.Sprintf("policy-%d", i)
		c.policies[name] = newPolicy(name, name, rego(i))
	}
	return c
}

func newController(t testing.TB, c *policyCluster) (*Controller, *placement.Registry) {
	t.Helper()
	m, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	data := embedded.NewData()
	data.Load(profiles, projection.AllFields(), []*unstructured.Unstructured{})
	registry := placement.NewRegistry()
	return New(Deps{
		Policies: c, Revisions: c, Namespace: "berth-system", Registry: registry, Catalog: c, Metrics: m,
		Engine: embedded.New(data, embedded.Options{Timeout: time.Minute, Concurrency: 2}),
	}), registry
}

func load(t testing.TB, c *Controller, name string) {
	t.Helper()
	if _, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}); err != nil {
		t.Error(err)
	}
}

// loadAll loads all policies, as a replica does at its start.
func loadAll(t testing.TB, c *Controller, from *policyCluster) {
	t.Helper()
	names := make(chan string, len(from.policies))
	for name := range from.policies {
		names <- name
	}
	close(names)
	var all sync.WaitGroup
	for range Workers() {
		all.Go(func() {
			for name := range names {
				load(t, c, name)
			}
		})
	}
	all.Wait()
	if !c.Loaded(t.Context()) {
		t.Fatal("not loaded")
	}
}

// change gives a policy another source.
func (c *policyCluster) change(name, team, rego string) {
	next := newPolicy(name, team, rego)
	next.Generation = c.policies[name].Generation + 1
	c.policies[name] = next
}

func decides(t testing.TB, r *placement.Registry, team string) []*placement.Policy {
	t.Helper()
	gvr := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	index, end := r.Begin()
	defer end()
	return index.CandidatesFor(gvr).Matching(match.Object{
		Resource: gvr, Namespace: "shop", NamespaceLabels: map[string]string{"team": team}, Content: &unstructured.Unstructured{Object: map[string]any{}},
	})
}

// TestLoadsManyAtOnce checks that policies that are loaded concurrently are all in force, and that a change is in force
// after its reconcile.
func TestLoadsManyAtOnce(t *testing.T) {
	from := policiesOf(60, func(i int) string { return text(i % 7) })
	from.policies["policy-3"].Spec.Rego = `package p
labels := x`
	c, registry := newController(t, from)
	loadAll(t, c, from)
	expect := func(want map[string]int) {
		t.Helper()
		got := map[string]int{}
		for _, s := range registry.All() {
			got[fmt.Sprintf("broken %t, failed %t", s.Broken, s.Err != nil)]++
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("policies by state (-want +got):\n%s", diff)
		}
	}
	expect(map[string]int{"broken false, failed false": 59, "broken true, failed true": 1})
	from.change("policy-3", "moved", text(3))
	load(t, c, "policy-3")
	if of := decides(t, registry, "moved"); len(of) != 1 || of[0].Generation != 2 {
		t.Errorf("after the change %v decide", of)
	}
	from.change("policy-4", "moved", `package p
labels := x`)
	load(t, c, "policy-4")
	delete(from.policies, "policy-5")
	load(t, c, "policy-5")
	if of := decides(t, registry, "policy-5"); len(of) != 0 {
		t.Errorf("policy %s decides after it was deleted", of[0].Name)
	}
	expect(map[string]int{"broken false, failed false": 58, "broken false, failed true": 1})
}

// TestChangeCostsTheSame checks that the cost of a changed policy does not depend on the number of other policies.
func TestChangeCostsTheSame(t *testing.T) {
	// A source that was compiled before may still be cached, so each source is new.
	i := 1_000_000
	cost := func(n int) float64 {
		from := policiesOf(n, func(int) string { return text(-1) })
		c, _ := newController(t, from)
		loadAll(t, c, from)
		return testing.AllocsPerRun(20, func() {
			i++
			from.change("policy-0", "policy-0", text(i))
			load(t, c, "policy-0")
		})
	}
	one, many := cost(1), cost(2000)
	if many > 1.1*one {
		t.Errorf("%v allocations with one policy, %v with 2000", one, many)
	}
}

// BenchmarkStart measures how long a replica takes to load its policies, each with a source of its own or all with the
// same.
func BenchmarkStart(b *testing.B) {
	for name, rego := range map[string]func(int) string{"distinct": text, "equal": func(int) string { return text(0) }} {
		for _, n := range []int{100, 1000} {
			b.Run(fmt.Sprintf("texts=%s/policies=%d", name, n), func(b *testing.B) {
				start, seen := growth.ProcessorTime(b), 0
				for b.Loop() {
					// Texts of the last iteration may still be cached.
					from := policiesOf(n, func(i int) string { return rego(seen + i) })
					seen += n
					c, registry := newController(b, from)
					loadAll(b, c, from)
					runtime.KeepAlive(registry)
				}
				b.ReportMetric(float64(growth.ProcessorTime(b)-start)/float64(b.N)/1e9, "cpu-s/op")
			})
		}
	}
}

// BenchmarkVisible measures the time from the change of one policy's source until admission sees it.
func BenchmarkVisible(b *testing.B) {
	for _, n := range []int{1, 2000} {
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			from := policiesOf(n, text)
			c, registry := newController(b, from)
			loadAll(b, c, from)
			b.ReportAllocs()
			i := n
			for b.Loop() {
				i++
				from.change("policy-0", fmt.Sprint(i), text(i))
				load(b, c, "policy-0")
				if len(decides(b, registry, fmt.Sprint(i))) != 1 {
					b.Fatal("not visible")
				}
			}
		})
	}
}
