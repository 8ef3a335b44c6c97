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

package delivery

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
)

func TestObjectOf(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "namespace": "shop", "uid": "u", "annotations": map[string]any{"a": "b"}},
		"spec":     map[string]any{"replicas": int64(3)},
	}}
	want := Object{
		GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Namespace:        "shop", Name: "web", UID: "u", Annotations: map[string]string{"a": "b"}, Replicas: new(int64(3)),
	}
	if diff := cmp.Diff(want, ObjectOf(o)); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
	delete(o.Object, "spec")
	want.Replicas = nil
	if diff := cmp.Diff(want, ObjectOf(o)); diff != "" {
		t.Errorf("object without replicas (-want +got):\n%s", diff)
	}
}

func TestDecisionOf(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]any
		want        []string
		ok          bool
		err         string
		shares      map[string]Share
	}{
		"no placement": {},
		"shares": {
			annotations: map[string]any{placementv1.ClustersAnnotation: `["a"]`, placementv1.ClusterSharesAnnotation: `{"a":{"weight":2},"b":{"replicas":3}}`},
			want:        []string{"a"}, ok: true, shares: map[string]Share{"a": {Weight: new(int64(2))}, "b": {Replicas: new(int64(3))}},
		},
		"no shares": {
			annotations: map[string]any{placementv1.ClustersAnnotation: `["a"]`, placementv1.ClusterSharesAnnotation: `{"a":{"weight":2},"b":{"weight":1e99}}`},
			want:        []string{"a"}, ok: true,
		},
		"clusters":     {annotations: map[string]any{placementv1.ClustersAnnotation: `["b","a"]`}, want: []string{"a", "b"}, ok: true},
		"none is left": {annotations: map[string]any{placementv1.ClustersAnnotation: `[]`}, want: []string{}, ok: true},
		"no list":      {annotations: map[string]any{placementv1.ClustersAnnotation: `a`}, ok: true, err: `is "a", which is no JSON array`},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok, err := DecisionOf(&unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"annotations": test.annotations}}})
			if ok != test.ok || (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("ok is %v, the error %v", ok, err)
			}
			if diff := cmp.Diff(test.want, got.Clusters); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.shares, got.Shares); diff != "" {
				t.Errorf("shares (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRoutesOf(t *testing.T) {
	policy := func(name string, mode placementv1.Mode, d *placementv1.Delivery) *placement.Policy {
		return &placement.Policy{Name: name, Mode: mode, Delivery: d}
	}
	karmadaOnly, both := &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}, &placementv1.Delivery{
		Karmada: &placementv1.KarmadaDelivery{PropagateDependencies: true}, KubeFleet: &placementv1.KubeFleetDelivery{},
	}
	type route struct {
		System string
		Spec   *placementv1.Delivery
	}
	for name, test := range map[string]struct {
		policies []*placement.Policy
		routes   []route
		names    []string
	}{
		"no policy":           {},
		"no delivery":         {policies: []*placement.Policy{policy("a", placementv1.ModeEnforce, nil)}},
		"not enforced":        {policies: []*placement.Policy{policy("a", placementv1.ModeDryRun, both), policy("b", placementv1.ModeWarn, both)}},
		"several systems":     {[]*placement.Policy{policy("a", placementv1.ModeEnforce, both)}, []route{{"karmada", both}, {"kubeFleet", both}}, []string{"a"}},
		"the precedence wins": {[]*placement.Policy{policy("z", placementv1.ModeEnforce, karmadaOnly), policy("a", placementv1.ModeEnforce, both)}, []route{{"karmada", karmadaOnly}, {"kubeFleet", both}}, []string{"a", "z"}},
	} {
		t.Run(name, func(t *testing.T) {
			routes, names := RoutesOf(test.policies, schema.GroupKind{Group: "apps", Kind: "Deployment"})
			var got []route
			for _, r := range routes {
				got = append(got, route{r.Name, r.Spec})
			}
			if diff := cmp.Diff(test.routes, got); diff != "" {
				t.Errorf("routes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.names, names); diff != "" {
				t.Errorf("policies (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMayDeliver(t *testing.T) {
	matching := func(group, version, resource string) *match.Matcher {
		out, errs := match.New(placementv1.Match{ResourceRules: []placementv1.ResourceRule{{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}}}}, nil)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return out
	}
	deployments, workloads := matching("apps", "v1", "deployments"), matching("kueue.x-k8s.io", "v1beta2", "workloads")
	d := &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}
	for name, tc := range map[string]struct {
		policy placement.Policy
		want   bool
	}{
		"with delivery":           {placement.Policy{Mode: placementv1.ModeEnforce, Matcher: deployments, Delivery: d}, true},
		"without delivery":        {placement.Policy{Mode: placementv1.ModeEnforce, Matcher: deployments}, false},
		"of placement objects":    {placement.Policy{Mode: placementv1.ModeEnforce, Matcher: workloads}, true},
		"in mode DryRun":          {placement.Policy{Mode: placementv1.ModeDryRun, Matcher: deployments, Delivery: d}, false},
		"in mode Warn":            {placement.Policy{Mode: placementv1.ModeWarn, Matcher: deployments, Delivery: d}, false},
		"of placements in DryRun": {placement.Policy{Mode: placementv1.ModeDryRun, Matcher: workloads}, false},
	} {
		if got := MayDeliver(&tc.policy); got != tc.want {
			t.Errorf("%s: MayDeliver returns %t, want %t", name, got, tc.want)
		}
	}
}

// TestSystemsOfPlacementObjects checks that a placement object is delivered to its own system, whatever spec.delivery says.
func TestSystemsOfPlacementObjects(t *testing.T) {
	for kind, want := range map[schema.GroupKind]string{
		{Group: "cluster.open-cluster-management.io", Kind: "Placement"}: "openClusterManagement",
		{Group: "kueue.x-k8s.io", Kind: "Workload"}:                      "kueue",
		{Group: "apps", Kind: "Deployment"}:                              "karmada",
	} {
		p := &placement.Policy{Mode: placementv1.ModeEnforce, Delivery: &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}}
		if got := SystemsOf(p, kind); len(got) != 1 || got[0].Name != want {
			t.Errorf("%s is delivered to %+v, want %s", kind, got, want)
		}
		p.Mode = placementv1.ModeDryRun
		if got := SystemsOf(p, kind); got != nil {
			t.Errorf("in mode DryRun, %s is delivered to %+v", kind, got)
		}
	}
}

// TestNativelyDelivered checks that package placement, which has no systems, knows the native ones.
func TestNativelyDelivered(t *testing.T) {
	for _, resource := range NativeResources() {
		if !placement.DeliversNatively(resource.GroupResource()) {
			t.Errorf("%s is not known", resource)
		}
	}
	if placement.DeliversNatively(schema.GroupResource{Group: "apps", Resource: "deployments"}) {
		t.Error("Deployments have no system of their own")
	}
}
