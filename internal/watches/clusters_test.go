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

package watches

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/internal/replication"
)

var profiles = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}

// catalogWithProfiles returns the catalog of an API server that serves ClusterProfiles, too.
func catalogWithProfiles(t *testing.T) *Catalog {
	t.Helper()
	server := cluster()
	server.groups = append(server.groups, group(profiles.Group, profiles.Version, profiles.Version))
	server.lists = append(server.lists, list(profiles.GroupVersion().String(), metav1.APIResource{Name: "clusterprofiles", Kind: "ClusterProfile", Namespaced: true, Verbs: readable}))
	catalog := NewCatalog(server, replication.Known())
	if err := catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return catalog
}

func TestClusters(t *testing.T) {
	profile := func(name string) runtime.Object {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": profiles.GroupVersion().String(), "kind": "ClusterProfile", "metadata": map[string]any{"name": name, "namespace": "inventory"},
		}}
	}
	catalog := catalogWithProfiles(t)
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{profiles: "ClusterProfileList"}, profile("eu-1"), profile("eu-2"))
	clusters := &Clusters{Client: client, Catalog: catalog}
	all, _, err := clusters.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []any
	for _, c := range all {
		names = append(names, c["name"])
	}
	if diff := cmp.Diff([]any{"eu-1", "eu-2"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}

	more := &unstructured.UnstructuredList{}
	more.SetContinue("more")
	client.PrependReactor("list", "clusterprofiles", func(clienttesting.Action) (bool, runtime.Object, error) { return true, more, nil })
	if all, _, err = clusters.All(t.Context()); len(all) > 0 || err != nil {
		t.Errorf("of too many: %v, %v", all, err)
	}
	client.PrependReactor("list", "clusterprofiles", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("forbidden") })
	if _, _, err = clusters.All(t.Context()); err == nil {
		t.Error("no error")
	}
}

// TestCapacityIsOfAll checks that the resources of some of the clusters and nodes are never taken for those of all.
func TestCapacityIsOfAll(t *testing.T) {
	nodes := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	catalog := catalogWithProfiles(t)
	node := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "n-1"}, "status": map[string]any{"allocatable": map[string]any{"cpu": "2"}},
	}}
	for name, tc := range map[string]struct {
		tooMany string
		want    string
	}{
		"all":               {"", "2"},
		"too many clusters": {"clusterprofiles", "0"},
		"too many nodes":    {"nodes", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
				map[schema.GroupVersionResource]string{profiles: "ClusterProfileList", nodes: "NodeList"}, node)
			more := &unstructured.UnstructuredList{}
			more.SetContinue("more")
			client.PrependReactor("list", tc.tooMany, func(clienttesting.Action) (bool, runtime.Object, error) { return true, more, nil })
			capacity := &Capacity{Clusters: &Clusters{Client: client, Catalog: catalog}, Nodes: &Nodes{Client: client}}
			all, err := capacity.All(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if cpu := all[corev1.ResourceCPU]; cpu.String() != tc.want {
				t.Errorf("got %s, want %s", cpu.String(), tc.want)
			}
		})
	}
}
