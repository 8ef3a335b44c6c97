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
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
)

var (
	sites  = schema.GroupVersionResource{Group: "fleet.example.com", Version: "v1", Resource: "sites"}
	racks  = schema.GroupVersionResource{Group: "dc.example.com", Version: "v1", Resource: "racks"}
	nearly = schema.GroupVersionResource{Group: "dc.example.com", Version: "v2", Resource: "racks"}
)

// declaring serves managed clusters and two declared inventories, one of which reads the clusters' names from a field.
type declaring struct {
	served
	inventories *replication.Inventories
}

func (f declaring) Inventories() *replication.Inventories { return f.inventories }

func newSites(t *testing.T) declaring {
	t.Helper()
	inventories, errs := replication.NewInventories(nil,
		replication.Declaration{Group: sites.Group, Version: sites.Version, Resource: sites.Resource, Fields: replication.DeclaredFields{Name: "spec.cluster", Region: "spec.region"}},
		replication.Declaration{Group: racks.Group, Version: racks.Version, Resource: racks.Resource, Fields: replication.DeclaredFields{Region: "spec.region"}},
		replication.Declaration{Group: nearly.Group, Version: nearly.Version, Resource: nearly.Resource, Fields: replication.DeclaredFields{Region: "spec.other"}},
	)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	of := func(resource schema.GroupVersionResource) policy.Resource {
		return policy.Resource{GroupVersionResource: resource}
	}
	return declaring{served{"managedclusters": {managed}, "sites": {of(sites)}, "racks": {of(racks), of(nearly)}}, inventories}
}

// load loads what the watches deliver: prepared objects with the fields that the binding reads.
func (f declaring) load(data *Data, b *policy.Binding, resource schema.GroupVersionResource, objects ...*unstructured.Unstructured) bool {
	for i, o := range objects {
		objects[i] = f.prepared(b, resource, o)
	}
	return data.Load(resource, b.Fields[resource], objects)
}

func (f declaring) prepared(b *policy.Binding, resource schema.GroupVersionResource, o *unstructured.Unstructured) *unstructured.Unstructured {
	f.inventories.Prepare(resource, o)
	out := &unstructured.Unstructured{Object: b.Fields[resource].Project(o.Object)}
	out.SetName(o.GetName())
	return out
}

func (f declaring) prepare(t *testing.T, data *Data, text string) (placement.Evaluator, *policy.Binding) {
	t.Helper()
	m, err := policy.Compile("p", v1(text))
	if err != nil {
		t.Fatal(err)
	}
	b, err := policy.Bind("p", m, nil, f)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := New(data, Options{Timeout: time.Minute, Concurrency: 1}).Prepare(t.Context(), "p", m, b)
	if err != nil {
		t.Fatal(err)
	}
	return ev, b
}

func site(name, cluster, region string) *unstructured.Unstructured {
	return document("", name, "spec", map[string]any{"cluster": cluster, "region": region})
}

// TestDeclaredInventories verifies that clusters of declared inventories are in data.clusters under their own names, unless
// several objects of them or of other inventories have that name.
func TestDeclaredInventories(t *testing.T) {
	f, data := newSites(t), NewData()
	ev, b := f.prepare(t, data, `package p
annotations := {name: sprintf("%s in %s", [trim_suffix(c.source, ".example.com"), object.get(c, "region", "none")]) | some name, c in data.clusters}
`)
	want := []schema.GroupVersionResource{managed.GroupVersionResource, sites, racks}
	if diff := cmp.Diff(want, b.Clusters); diff != "" {
		t.Fatalf("clusters are of (-want +got):\n%s", diff)
	}
	f.load(data, b, managed.GroupVersionResource, document("", "known"))
	f.load(data, b, sites, site("s1", "known", "eu"), site("s2", "twice", "eu"), site("s3", "mine", "eu"), site("s4", "mine", "us"), site("s5", "", "eu"), site("mine", "s6", "cn"))
	f.load(data, b, racks, document("", "twice", "spec", map[string]any{"region": "us"}), document("", "s5", "spec", map[string]any{"region": "us"}))
	expect := func(changed ...string) {
		t.Helper()
		want := map[string]string{
			"s6": "sites.fleet in cn", "s5": "racks.dc in us",
		}
		for i := 0; i < len(changed); i += 2 {
			if want[changed[i]] = changed[i+1]; changed[i+1] == "" {
				delete(want, changed[i])
			}
		}
		if diff := cmp.Diff(want, decide(t, ev, map[string]any{}).Annotations); diff != "" {
			t.Errorf("clusters (-want +got):\n%s", diff)
		}
	}
	expect()
	// Changes of other fields leave the clusters unchanged. A change of a declared field changes them.
	if !data.Put(sites, f.prepared(b, sites, site("s3", "renamed", "eu"))) {
		t.Error("another name is no change")
	}
	expect("renamed", "sites.fleet in eu", "mine", "sites.fleet in us")
	if diff := cmp.Diff([]string{"known", "twice"}, ambiguousNames(data, b)); diff != "" {
		t.Errorf("ambiguous (-want +got):\n%s", diff)
	}
	data.Put(sites, f.prepared(b, sites, site("s3", "mine", "eu")))
	expect()
	if data.Put(sites, f.prepared(b, sites, document("", "s3", "spec", map[string]any{"cluster": "mine", "region": "eu", "beat": "1"}))) {
		t.Error("what nobody reads is a change")
	}
	data.Delete(sites, "", "s2")
	expect("twice", "racks.dc in us")
	if diff := cmp.Diff([]string{"known", "mine"}, ambiguousNames(data, b)); diff != "" {
		t.Errorf("ambiguous (-want +got):\n%s", diff)
	}
}

func ambiguousNames(data *Data, b *policy.Binding) []string {
	var out []string
	for _, a := range data.Ambiguous(b.Clusters) {
		out = append(out, a.Cluster)
	}
	return out
}

// TestDeclaredNamesAreKept verifies that the names of clusters are kept whenever a policy reads data.clusters, even if
// it only looks up one cluster or counts them.
func TestDeclaredNamesAreKept(t *testing.T) {
	for body, want := range map[string]string{
		`x := data.clusters.eu.region`:                   "north",
		`x := sprintf("%d", [count(data.clusters)])`:     "2",
		`some n; data.clusters[n].region == "s"; x := n`: "us",
	} {
		f, data := newSites(t), NewData()
		ev, b := f.prepare(t, data, fmt.Sprintf(`package p
annotations := {"x": x} if { %s }`, body))
		f.load(data, b, managed.GroupVersionResource)
		f.load(data, b, racks)
		f.load(data, b, sites, site("a", "eu", "north"), site("b", "us", "s"))
		if got := decide(t, ev, map[string]any{}).Annotations["x"]; got != want {
			t.Errorf("%s is %q, want %q", body, got, want)
		}
	}
}

// TestClustersArePutTogetherOnce verifies that merged clusters are used until an inventory changes, separately for each
// list of inventories.
func TestClustersArePutTogetherOnce(t *testing.T) {
	data := NewData()
	profile := document("x", "eu")
	data.Replace(profiles.GroupVersionResource, []*unstructured.Unstructured{profile})
	data.Replace(managed.GroupVersionResource, []*unstructured.Unstructured{document("", "us")})
	one := data.inventoriesOf([]schema.GroupVersionResource{profiles.GroupVersionResource})
	both := data.inventoriesOf([]schema.GroupVersionResource{profiles.GroupVersionResource, managed.GroupVersionResource})
	if again := data.inventoriesOf([]schema.GroupVersionResource{profiles.GroupVersionResource}); again != one || one == both {
		t.Error("equal lists are two")
	}
	before := data.current.Load().clusters(both)
	if before.document().clusters.String() == data.current.Load().clusters(one).document().clusters.String() {
		t.Error("two lists have the same clusters")
	}
	data.Replace(pods.GroupVersionResource, []*unstructured.Unstructured{document("x", "a")})
	if data.current.Load().clusters(both) != before {
		t.Error("put together anew for a Pod")
	}
	data.Delete(managed.GroupVersionResource, "", "us")
	if after := data.current.Load().clusters(both); after.document().clusters.String() != data.current.Load().clusters(one).document().clusters.String() {
		t.Errorf("clusters are %v", after)
	}
}
