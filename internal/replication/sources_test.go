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

package replication_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
)

// profilesIn returns a source of ClusterProfiles.
func profilesIn(selector map[string]string, namespaces ...string) replication.Source {
	out := replication.Source{Group: "multicluster.x-k8s.io", Resource: "clusterprofiles", Namespaces: namespaces}
	if selector != nil {
		out.Selector = &metav1.LabelSelector{MatchLabels: selector}
	}
	return out
}

// TestRestrict checks which objects represent clusters.
func TestRestrict(t *testing.T) {
	members := replication.Source{Group: "cluster.kubernetes-fleet.io", Resource: "memberclusters"}
	kubefleet := map[string]string{"x-k8s.io/cluster-manager": "KubeFleet"}
	for name, tc := range map[string]struct {
		sources []replication.Source
		want    string
	}{
		"All":             {nil, "clusterprofiles a/labelled, clusterprofiles a/plain, clusterprofiles b/labelled, memberclusters /plain"},
		"Type":            {[]replication.Source{profilesIn(nil)}, "clusterprofiles a/labelled, clusterprofiles a/plain, clusterprofiles b/labelled"},
		"OtherType":       {[]replication.Source{members}, "memberclusters /plain"},
		"Namespace":       {[]replication.Source{profilesIn(nil, "a", "c")}, "clusterprofiles a/labelled, clusterprofiles a/plain"},
		"Labels":          {[]replication.Source{profilesIn(kubefleet)}, "clusterprofiles a/labelled, clusterprofiles b/labelled"},
		"NamespaceLabels": {[]replication.Source{profilesIn(kubefleet, "b")}, "clusterprofiles b/labelled"},
		"Several":         {[]replication.Source{profilesIn(kubefleet, "b"), members, profilesIn(map[string]string{"x": "y"})}, "clusterprofiles b/labelled, memberclusters /plain"},
		"None":            {[]replication.Source{profilesIn(nil, "c")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inventories, errs := replication.Known().Restrict(field.NewPath("clusterSources"), tc.sources)
			if len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			var got []string
			for _, resource := range replication.Known().Resources() {
				for _, object := range []string{"a/labelled", "a/plain", "b/labelled", "/plain"} {
					namespace, name, _ := strings.Cut(object, "/")
					if (namespace == "") == (resource.Resource == "clusterprofiles") || resource.Version == "v1beta1" || resource.Resource != "clusterprofiles" && resource.Resource != "memberclusters" {
						continue
					}
					obj := &unstructured.Unstructured{Object: map[string]any{}}
					obj.SetNamespace(namespace)
					obj.SetName(name)
					if name == "labelled" {
						obj.SetLabels(kubefleet)
					}
					if _, ok := inventories.Cluster(resource, obj.Object); ok {
						got = append(got, resource.Resource+" "+object)
					}
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRestrictedNames checks that the name is kept of an object that may stop representing a cluster, so that this changes its data.
func TestRestrictedNames(t *testing.T) {
	inventories, errs := replication.Known().Restrict(nil, []replication.Source{profilesIn(map[string]string{"a": "b"})})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	resources := inventories.Resources()
	if len(resources) != 1 {
		t.Fatalf("inventories %v", resources)
	}
	nothing := &projection.FieldSet{}
	if diff := cmp.Diff([]string{".name", ".provider"}, inventories.Needs(resources[0], nothing.Seal()).Paths()); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// TestIdleSources checks which sources, and namespaces of sources, are reported because they select no object.
func TestIdleSources(t *testing.T) {
	resource := schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}
	object := func(namespace string) map[string]any {
		return map[string]any{"metadata": map[string]any{"namespace": namespace, "name": "eu", "labels": map[string]any{"fleet": "a"}}}
	}
	for name, tc := range map[string]struct {
		sources []replication.Source
		objects []map[string]any
		want    []string
	}{
		"Selects":   {[]replication.Source{profilesIn(map[string]string{"fleet": "a"}, "a", "b")}, []map[string]any{object("a"), object("b")}, nil},
		"None":      {nil, []map[string]any{object("a")}, nil},
		"Empty":     {[]replication.Source{profilesIn(nil, "x")}, nil, nil},
		"Namespace": {[]replication.Source{profilesIn(nil, "x")}, []map[string]any{object("a"), object("b")}, []string{"clusterSources[0] of the manager's configuration selects none of the 2 clusterprofiles.multicluster.x-k8s.io"}},
		"Labels":    {[]replication.Source{profilesIn(nil), profilesIn(map[string]string{"fleet": "b"})}, []map[string]any{object("a")}, []string{"clusterSources[1] of the manager's configuration selects none of the 1 clusterprofiles.multicluster.x-k8s.io"}},
		"OneOfTwo":  {[]replication.Source{profilesIn(nil, "a", "bb")}, []map[string]any{object("a"), object("b")}, []string{"clusterSources[0].namespaces[1] of the manager's configuration: it selects no clusterprofiles.multicluster.x-k8s.io in the namespace bb"}},
	} {
		t.Run(name, func(t *testing.T) {
			inventories, errs := replication.Known().Restrict(field.NewPath("clusterSources"), tc.sources)
			if len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			_, idle := inventories.Clusters(resource, tc.objects)
			if diff := cmp.Diff(tc.want, idle); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSourcesAreValidated checks that the errors name the field.
func TestSourcesAreValidated(t *testing.T) {
	with := func(change func(*replication.Source)) replication.Source {
		out := profilesIn(nil)
		change(&out)
		return out
	}
	for name, tc := range map[string]struct {
		source replication.Source
		want   string
	}{
		"Nothing":   {replication.Source{}, `clusterSources[0]: Unsupported value: "": supported values: "clusterprofiles.multicluster.x-k8s.io", "managedclusters.cluster.open-cluster-management.io"`},
		"Unknown":   {with(func(s *replication.Source) { s.Resource = "clusterprofile" }), `clusterSources[0]: Unsupported value: "clusterprofile.multicluster.x-k8s.io"`},
		"Namespace": {with(func(s *replication.Source) { s.Namespaces = []string{"a", "A_b"} }), `clusterSources[0].namespaces[1]: Invalid value: "A_b"`},
		"Scope": {
			replication.Source{Group: "cluster.karmada.io", Resource: "clusters", Namespaces: []string{"a"}},
			"clusterSources[0].namespaces: Forbidden: clusters.cluster.karmada.io have no namespaces; select them by labels",
		},
		"Selector": {
			with(func(s *replication.Source) {
				s.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}
			}), `clusterSources[0].selector: Invalid value`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, errs := replication.Known().Restrict(field.NewPath("clusterSources"), []replication.Source{tc.source})
			if len(errs) == 0 || got != nil {
				t.Fatalf("returned %v, %v", got, errs)
			}
			if text := errs.ToAggregate().Error(); !strings.Contains(text, tc.want) {
				t.Errorf("error %q lacks %q", text, tc.want)
			}
		})
	}
}
