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
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
)

// TestWorks checks in which clusters an object is known to be, and of which changes its reader is told.
func TestWorks(t *testing.T) {
	placed := delivery.Object{GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Namespace: "shop", Name: "web"}
	own := delivery.NameOf(placed)
	resource := schema.GroupVersionResource{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Resource: "works"}
	work := func(cluster, name, placement string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetNamespace("fleet-member-" + cluster)
		o.SetName(name)
		o.SetLabels(map[string]string{"kubernetes-fleet.io/parent-CRP": placement, "kubernetes-fleet.io/parent-placement-namespace": "shop"})
		return o
	}
	ends := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		o.SetDeletionTimestamp(new(metav1.Unix(1, 0)))
		return o
	}
	// A ManifestWork says what it lacks. Its status changes the clusters of a reader.
	works := delivery.Systems(&placementv1.Delivery{OpenClusterManagement: &placementv1.OpenClusterManagementDelivery{}})[0].WorkKinds()[0].GroupVersionResource
	manifestWork := func(name, placement string, ready int64) *unstructured.Unstructured {
		condition := func(kind string) any {
			return map[string]any{"type": kind, "status": "True", "observedGeneration": int64(1)}
		}
		value := func(name string, of int64) any {
			return map[string]any{"name": name, "fieldValue": map[string]any{"type": "Integer", "integer": of}}
		}
		o := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
			"conditions":     []any{condition("Applied"), condition("Available")},
			"resourceStatus": map[string]any{"manifests": []any{map[string]any{"statusFeedback": map[string]any{"values": []any{value("Replicas", 2), value("ReadyReplicas", ready)}}}}},
		}}}
		o.SetNamespace("eu-3")
		o.SetName(name)
		o.SetGeneration(1)
		o.SetLabels(map[string]string{"work.open-cluster-management.io/manifestworkreplicaset": "shop.web.1", "work.open-cluster-management.io/placementname": placement})
		return o
	}
	reader := delivery.Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "shop", Name: "web"}
	var told []delivery.Key
	w := newWorks(func(keys ...delivery.Key) { told = append(told, keys...) })
	for _, step := range []struct {
		what   string
		do     func()
		want   []string
		told   int
		ending []string
	}{
		{"a Work before the type is complete", func() { w.Put(resource, work("eu-1", "a", own)) }, []string{}, 0, nil},
		{"the type", func() { w.Replace(resource, nil, []*unstructured.Unstructured{work("eu-1", "a", own)}) }, []string{"eu-1"}, 1, nil},
		{"a Work in another cluster", func() { w.Put(resource, work("eu-2", "a", own)) }, []string{"eu-1", "eu-2"}, 1, nil},
		{"a second Work in a cluster", func() { w.Put(resource, work("eu-2", "b", own)) }, []string{"eu-1", "eu-2"}, 1, nil},
		{"the same", func() { w.Put(resource, work("eu-2", "b", own)) }, []string{"eu-1", "eu-2"}, 0, nil},
		{"a Work of another placement", func() { w.Put(resource, work("us-1", "c", "db-1")) }, []string{"eu-1", "eu-2"}, 0, nil},
		{"a Work that changes to another placement", func() { w.Put(resource, work("eu-1", "a", "db-1")) }, []string{"eu-2"}, 1, nil},
		{"one of two Works goes", func() { w.Delete(resource, "fleet-member-eu-2", "b") }, []string{"eu-2"}, 1, nil},
		{"an unknown one goes", func() { w.Delete(resource, "fleet-member-eu-2", "b") }, []string{"eu-2"}, 0, nil},
		{"the other one is being deleted", func() { w.Put(resource, ends(work("eu-2", "a", own))) }, []string{"eu-2"}, 1, []string{"eu-2"}},
		{"a second one is not", func() { w.Put(resource, work("eu-2", "b", own)) }, []string{"eu-2"}, 1, nil},
		{"it goes", func() { w.Delete(resource, "fleet-member-eu-2", "b") }, []string{"eu-2"}, 1, []string{"eu-2"}},
		{"a Work without labels", func() { w.Put(resource, work("eu-2", "a", "")) }, []string{}, 1, nil},
		{"the end of the type", func() { w.Put(resource, work("eu-1", "a", own)); w.Drop(resource) }, []string{}, 2, nil},
	} {
		// The reader has asked before.
		w.of(resource, reader)
		told = nil
		step.do()
		clusters := w.of(resource, reader)
		ending := slices.DeleteFunc(slices.Sorted(maps.Keys(clusters)), func(name string) bool { return !clusters[name].Ending })
		if diff := cmp.Diff([][]string{step.want, step.ending}, [][]string{slices.Sorted(maps.Keys(clusters)), ending}, cmpopts.EquateEmpty()); clusters == nil || diff != "" || len(told) != step.told {
			t.Errorf("%s: told %v (-want +got):\n%s", step.what, told, diff)
		}
	}
	name := w.systems[works].CarriedAs(delivery.Object{GroupVersionKind: reader.WithVersion("v1"), Name: reader.Name})
	for _, step := range []struct {
		what string
		do   func()
		want map[string]string
		told int
	}{
		{"a ManifestWork", func() { w.Replace(works, nil, []*unstructured.Unstructured{manifestWork("a", name, 2)}) }, map[string]string{"eu-3": ""}, 1},
		{"with an unready replica", func() { w.Put(works, manifestWork("a", name, 1)) }, map[string]string{"eu-3": "1 of 2 replicas are ready"}, 1},
		{"a second one that is ready", func() { w.Put(works, manifestWork("b", name, 2)) }, map[string]string{"eu-3": "1 of 2 replicas are ready"}, 1},
		{"the first one is ready", func() { w.Put(works, manifestWork("a", name, 2)) }, map[string]string{"eu-3": ""}, 1},
		{"no change", func() { w.Put(works, manifestWork("a", name, 2)) }, map[string]string{"eu-3": ""}, 0},
		{"of another Placement", func() { w.Put(works, manifestWork("a", "other", 2)); w.Put(works, manifestWork("b", "other", 2)) }, map[string]string{}, 2},
		{"the end", func() { w.Drop(works) }, map[string]string{}, 0},
	} {
		w.of(works, reader)
		told = nil
		step.do()
		got := map[string]string{}
		for name, carried := range w.of(works, reader) {
			got[name] = carried.Missing
		}
		if diff := cmp.Diff(step.want, got); diff != "" || len(told) != step.told {
			t.Errorf("%s: told %v (-want +got):\n%s", step.what, told, diff)
		}
	}
	w.forget(reader)
	if len(w.readers) > 0 || len(w.clusters) > 0 {
		t.Errorf("left: %v, %v", w.readers, w.clusters)
	}
}
