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

package deliverer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/replication"
)

// TestReadyClusters checks which members of a system are known to have joined it.
func TestReadyClusters(t *testing.T) {
	members := schema.GroupVersionResource{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1", Resource: "memberclusters"}
	changes := 0
	c := newClusters(func() { changes++ })
	object := func(name, joined string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Joined", "status": joined}}}}}
		o.SetName(name)
		replication.Known().Prepare(members, o)
		return o
	}
	c.Replace(members, memberFields, []*unstructured.Unstructured{object("eu-1", "True"), object("eu-2", "Unknown")})
	if changes != 1 || !c.isReady(members, "eu-1") || c.isReady(members, "eu-2") || c.isReady(members, "eu-3") {
		t.Errorf("%d changes, eu-1 %t, eu-2 %t, eu-3 %t", changes, c.isReady(members, "eu-1"), c.isReady(members, "eu-2"), c.isReady(members, "eu-3"))
	}
	c.Put(members, object("eu-2", "True"))
	c.Put(members, object("eu-2", "True"))
	c.Delete(members, "", "eu-1")
	if changes != 3 || c.isReady(members, "eu-1") || !c.isReady(members, "eu-2") {
		t.Errorf("%d changes, eu-1 %t, eu-2 %t", changes, c.isReady(members, "eu-1"), c.isReady(members, "eu-2"))
	}
}

// TestClusters checks which objects represent clusters, and that only changes of that are reported.
func TestClusters(t *testing.T) {
	profiles := schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}
	changes := 0
	c := newClusters(func() { changes++ })
	profile := func(namespace, name, label string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetNamespace(namespace)
		o.SetName(name)
		o.SetLabels(map[string]string{"a": label})
		replication.Known().Prepare(profiles, o)
		return o
	}
	for _, step := range []struct {
		what    string
		do      func()
		want    string
		changes int
	}{
		{"an object before the type is complete", func() { c.Put(profiles, profile("fleet", "eu", "1")) }, "", 0},
		{"the type", func() { c.Replace(profiles, clusterFields, []*unstructured.Unstructured{profile("fleet", "eu", "1")}) }, "fleet", 1},
		{"another label", func() { c.Put(profiles, profile("fleet", "eu", "2")) }, "fleet", 0},
		{"the type again", func() { c.Replace(profiles, clusterFields, []*unstructured.Unstructured{profile("fleet", "eu", "3")}) }, "fleet", 0},
		{"an object that represents no cluster", func() { c.Put(profiles, &unstructured.Unstructured{Object: map[string]any{}}) }, "fleet", 0},
		{"an object of another name", func() { c.Put(profiles, profile("fleet", "us", "1")) }, "fleet", 1},
		{"an unknown object", func() { c.Delete(profiles, "fleet", "ap") }, "fleet", 0},
		{"a deletion", func() { c.Delete(profiles, "fleet", "eu") }, "", 1},
		{"the end of the type", func() { c.Drop(profiles) }, "", 1},
		{"the end again", func() { c.Drop(profiles) }, "", 0},
	} {
		changes = 0
		step.do()
		namespace := ""
		if claims := c.claims()["eu"]; len(claims) > 0 {
			namespace = claims[0].Namespace
		}
		if diff := cmp.Diff([]any{step.want, step.changes}, []any{namespace, changes}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.what, diff)
		}
	}
}

// TestGoneClusters checks which decided clusters no object represents any more.
func TestGoneClusters(t *testing.T) {
	managed, profiles, members := replication.Known().Resources()[1], replication.Known().Resources()[0], replication.Known().Resources()[3]
	c := newClusters(func() {})
	fill := func(resource schema.GroupVersionResource, objects ...*unstructured.Unstructured) {
		for _, o := range objects {
			replication.Known().Prepare(resource, o)
		}
		c.Replace(resource, memberFields, objects)
	}
	object := func(namespace, name, manager string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterManager": map[string]any{"name": manager}}}}
		o.SetNamespace(namespace)
		o.SetName(name)
		return o
	}
	names := []string{"deleted", "derived", "member", "managed", "other", "profile"}
	fill(managed, object("", "managed", ""), object("", "other", ""))
	fill(profiles, object("shop", "managed", "open-cluster-management"), object("shop", "derived", "open-cluster-management"), object("shop", "profile", "another"), object("fleet-system", "member", "KubeFleet"))
	fill(members, object("", "member", ""))
	if diff := cmp.Diff([]string{"deleted", "derived"}, c.gone(managed.GroupResource(), names)); diff != "" {
		t.Errorf("gone (-want +got):\n%s", diff)
	}
	c.Delete(managed, "", "managed")
	// What KubeFleet derives is not derived from an object of Open Cluster Management.
	c.Delete(members, "", "member")
	if diff := cmp.Diff([]string{"deleted", "derived", "managed"}, c.gone(managed.GroupResource(), names)); diff != "" {
		t.Errorf("gone after a deletion (-want +got):\n%s", diff)
	}
}
