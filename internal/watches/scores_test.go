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
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/internal/replication"
)

func TestScores(t *testing.T) {
	resource := replication.AddOnPlacementScores
	score := func(cluster, validUntil string) runtime.Object {
		status := map[string]any{"validUntil": validUntil, "scores": []any{map[string]any{"name": "cpu", "value": int64(7)}}}
		o := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		o.SetAPIVersion(resource.GroupVersion().String())
		o.SetKind("AddOnPlacementScore")
		o.SetNamespace(cluster)
		o.SetName("usage")
		return o
	}
	server := cluster()
	catalog := NewCatalog(server, replication.Known())
	if err := catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: "AddOnPlacementScoreList"},
		score("eu-1", "2999-01-01T00:00:00Z"), score("eu-2", "2020-01-01T00:00:00Z"))
	scores := &Scores{Client: client, Catalog: catalog}
	if all, err := scores.All(t.Context()); len(all) > 0 || err != nil || len(client.Actions()) > 0 {
		t.Errorf("of a type that is not served: %v, %v after %d requests", all, err, len(client.Actions()))
	}

	server.groups = append(server.groups, group(resource.Group, resource.Version, resource.Version))
	server.lists = append(server.lists, list(resource.GroupVersion().String(),
		metav1.APIResource{Name: resource.Resource, Kind: "AddOnPlacementScore", Namespaced: true, Verbs: readable}))
	if err := catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := scores.All(t.Context())
	if diff := cmp.Diff(map[string]map[string]any{"eu-1": {"usage/cpu": int64(7)}}, all); diff != "" || err != nil {
		t.Errorf("scores (-want +got), and error %v:\n%s", err, diff)
	}

	more := &unstructured.UnstructuredList{}
	more.SetContinue("more")
	client.PrependReactor("list", resource.Resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, more, nil })
	if _, err := scores.All(t.Context()); err == nil {
		t.Error("no error of too many objects")
	}
}
