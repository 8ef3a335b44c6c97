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

package policy_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/analysis"
	"github.com/berth-dev/berth/internal/policy/policytest"
	"github.com/berth-dev/berth/internal/replication"
)

// served is a fake API server. It lists the preferred version of each group first.
type served []policy.Resource

func (s served) ByPlural(plural string) []policy.Resource {
	var out []policy.Resource
	groups := map[string]bool{}
	for _, r := range s {
		if r.Resource == plural && !groups[r.Group] {
			groups[r.Group] = true
			out = append(out, r)
		}
	}
	return out
}

func (s served) Exact(resource schema.GroupVersionResource) (policy.Resource, bool) {
	i := slices.IndexFunc(s, func(r policy.Resource) bool { return r.GroupVersionResource == resource })
	if i < 0 {
		return policy.Resource{}, false
	}
	return s[i], true
}

// Inventories returns the built-in inventories and the declared type sites.
func (s served) Inventories() *replication.Inventories {
	out, _ := replication.NewInventories(nil, replication.Declaration{
		Group: "fleet.example.com", Version: "v1", Resource: "sites", Fields: replication.DeclaredFields{Name: "spec.cluster"},
	})
	return out
}

func resource(group, version, plural string) policy.Resource {
	return policy.Resource{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: plural}}
}

func TestBind(t *testing.T) {
	var (
		pods        = resource("", "v1", "pods")
		deployments = resource("apps", "v1", "deployments")
		events      = resource("", "v1", "events")
		newEvents   = resource("events.k8s.io", "v1", "events")
		beta        = resource("shop.example", "v1beta1", "carts")
		alpha       = resource("shop.example", "v1alpha1", "carts")
		profiles    = resource("multicluster.x-k8s.io", "v1alpha1", "clusterprofiles")
		members     = resource("cluster.kubernetes-fleet.io", "v1", "memberclusters")
		sites       = resource("fleet.example.com", "v1", "sites")
		scoped      = resource("placement.berth.dev", "v1alpha1", "scopedquotas")
		oldMembers  = resource("cluster.kubernetes-fleet.io", "v1beta1", "memberclusters")
	)
	world := served{pods, deployments, newEvents, events, beta, alpha}
	at := func(r policy.Resource, path ...string) policy.BoundPath {
		return policy.BoundPath{Path: path, Resource: r.GroupVersionResource}
	}
	tests := map[string]struct {
		reads   string
		listed  []placementv1.ReplicatedResource
		served  served
		want    policy.Binding
		wantErr string
	}{
		"Nothing": {reads: `input.x`, served: world},
		"Unique": {
			reads: `data.kubernetes.pods.x`, served: world,
			want: policy.Binding{
				Paths: []policy.BoundPath{at(pods, "kubernetes", "pods")}, Resources: []policy.Resource{pods}, Bindings: policy.Bindings{"pods": ""},
			},
		},
		"Ambiguous": {
			reads: `data.kubernetes.events.x`, served: world,
			wantErr: `p.rego:2:16: berth_ambiguous_resource: data.kubernetes.events is served by several API groups: write data.resources["events.k8s.io/v1"].events or data.resources["v1"].events`,
		},
		"AmbiguityResolved": {
			reads: `data.resources["events.k8s.io/v1"].events.x`, served: world,
			want: policy.Binding{Paths: []policy.BoundPath{at(newEvents, "resources", "events.k8s.io/v1", "events")}, Resources: []policy.Resource{newEvents}},
		},
		"AmbiguityResolvedToCore": {
			reads: `data.resources.v1.events.x`, served: world,
			want: policy.Binding{Paths: []policy.BoundPath{at(events, "resources", "v1", "events")}, Resources: []policy.Resource{events}},
		},
		"BothPlaces": {
			reads: `data.resources.v1.pods.x == data.kubernetes.pods.x`, served: world,
			want: policy.Binding{
				Paths:     []policy.BoundPath{at(pods, "kubernetes", "pods"), at(pods, "resources", "v1", "pods")},
				Resources: []policy.Resource{pods}, Bindings: policy.Bindings{"pods": ""},
			},
		},
		"Missing": {
			reads: `data.kubernetes.carts2.x`, served: world,
			want: policy.Binding{Missing: []analysis.Read{{Plural: "carts2", Row: 2, Col: 16}}},
		},
		"MissingVersion": {
			reads: `data.resources["apps/v1beta1"].deployments.x`, served: world,
			want: policy.Binding{Missing: []analysis.Read{{Plural: "deployments", GroupVersion: "apps/v1beta1", Row: 2, Col: 16}}},
		},
		"PreferredVersion": {
			reads: `data.kubernetes.carts.x`, served: world,
			want: policy.Binding{
				Paths: []policy.BoundPath{at(beta, "kubernetes", "carts")}, Resources: []policy.Resource{beta}, Bindings: policy.Bindings{"carts": "shop.example"},
			},
		},
		"TwoVersions": {
			reads: `data.resources["shop.example/v1alpha1"].carts.x == data.resources["shop.example/v1beta1"].carts.x`, served: world,
			want: policy.Binding{
				Paths:     []policy.BoundPath{at(alpha, "resources", "shop.example/v1alpha1", "carts"), at(beta, "resources", "shop.example/v1beta1", "carts")},
				Resources: []policy.Resource{alpha, beta},
			},
		},
		"NoInventory": {
			reads: `data.clusters.x`, served: world,
			want: policy.Binding{Missing: []analysis.Read{{Clusters: true, Row: 2, Col: 16, Note: "the clusters of clusterprofiles.multicluster.x-k8s.io, " +
				"managedclusters.cluster.open-cluster-management.io, clusters.cluster.karmada.io, memberclusters.cluster.kubernetes-fleet.io, " +
				"sites.fleet.example.com"}}},
		},
		"Inventories": {
			reads: `data.clusters.x`, served: append(slices.Clone(world), sites, profiles, members, oldMembers),
			want: policy.Binding{
				Clusters:  []schema.GroupVersionResource{profiles.GroupVersionResource, members.GroupVersionResource, sites.GroupVersionResource},
				Resources: []policy.Resource{members, sites, profiles},
			},
		},
		"OlderVersionOfInventory": {
			reads: `data.clusters.x`, served: append(slices.Clone(world), oldMembers),
			want: policy.Binding{Clusters: []schema.GroupVersionResource{oldMembers.GroupVersionResource}, Resources: []policy.Resource{oldMembers}},
		},
		"Quotas": {
			reads: `[data.berth.quotas.team.gold.used, data.berth.clusterquotas]`, served: append(slices.Clone(world), scoped),
			want: policy.Binding{
				Paths:     []policy.BoundPath{{Path: []string{"berth", "quotas"}, Resource: scoped.GroupVersionResource, Quota: true}},
				Resources: []policy.Resource{scoped},
				Missing:   []analysis.Read{{Quotas: "clusterquotas", Row: 2, Col: 51}},
			},
		},
		"Listed": {
			reads: `data.kubernetes[input.kind].x`, served: world,
			listed: []placementv1.ReplicatedResource{{Resource: "pods"}, {APIGroup: "apps", Resource: "deployments"}, {Resource: "pods"}},
			want: policy.Binding{
				Paths: []policy.BoundPath{
					at(deployments, "kubernetes", "deployments"), at(pods, "kubernetes", "pods"),
					at(deployments, "resources", "apps/v1", "deployments"), at(pods, "resources", "v1", "pods"),
				},
				Resources: []policy.Resource{pods, deployments},
			},
		},
		"ListedBesidesRead": {
			reads: `data.kubernetes.pods.x`, listed: []placementv1.ReplicatedResource{{Resource: "pods"}}, served: world,
			want: policy.Binding{
				Paths:     []policy.BoundPath{at(pods, "kubernetes", "pods"), at(pods, "resources", "v1", "pods")},
				Resources: []policy.Resource{pods}, Bindings: policy.Bindings{"pods": ""},
			},
		},
		"ListedMissing": {
			reads: `input.x`, listed: []placementv1.ReplicatedResource{{Resource: "nothings"}, {APIGroup: "apps", Resource: "nothings"}}, served: world,
			want: policy.Binding{Missing: []analysis.Read{{Plural: "nothings", Listed: true}, {Plural: "nothings", Listed: true, Group: "apps"}}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spec := policytest.SpecOf(placementv1.RegoV1, `package p
values := [1 | `+tc.reads+`]
labels := {} if values`)
			spec.Replicate = tc.listed
			m, err := policy.Compile("p", spec)
			if err != nil {
				t.Fatal(err)
			}
			b, err := policy.Bind("p", m, tc.listed, tc.served)
			if tc.wantErr != "" {
				var compileError *policy.CompileError
				if !errors.As(err, &compileError) || err.Error() != tc.wantErr {
					t.Fatalf("error is %v, want %s", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range b.Resources {
				if b.Fields[r.GroupVersionResource] == nil {
					t.Errorf("no fields of %v", r)
				}
			}
			if diff := cmp.Diff(&tc.want, b, cmpopts.IgnoreFields(policy.Binding{}, "Fields")); diff != "" {
				t.Errorf("binding (-want +got):\n%s", diff)
			}
		})
	}
}

// TestListedMissingIsNamed checks that a message names a type that spec.replicate lists by its group, and not as a
// reference in Rego.
func TestListedMissingIsNamed(t *testing.T) {
	spec := policytest.SpecOf(placementv1.RegoV1, `package p
labels := input.x`)
	spec.Replicate = []placementv1.ReplicatedResource{{APIGroup: "apps", Resource: "nothings"}}
	m, err := policy.Compile("p", spec)
	if err != nil {
		t.Fatal(err)
	}
	b, err := policy.Bind("p", m, spec.Replicate, served{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := (&policy.NotServedError{Missing: b.Missing}).Error(), "the API server does not serve nothings.apps"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

// TestListedNamesakes checks that the first of two listed types with one plural name is bound to the plural name, and
// that both are bound to their unambiguous paths.
func TestListedNamesakes(t *testing.T) {
	old, recent := resource("", "v1", "events"), resource("events.k8s.io", "v1", "events")
	m, err := policy.Compile("p", policytest.SpecOf(placementv1.RegoV1, `package p
labels := input.x`))
	if err != nil {
		t.Fatal(err)
	}
	listed := []placementv1.ReplicatedResource{{APIGroup: "events.k8s.io", Resource: "events"}, {Resource: "events"}}
	b, err := policy.Bind("p", m, listed, served{old, recent})
	if err != nil {
		t.Fatal(err)
	}
	want := []policy.BoundPath{
		{Path: []string{"kubernetes", "events"}, Resource: recent.GroupVersionResource},
		{Path: []string{"resources", "events.k8s.io/v1", "events"}, Resource: recent.GroupVersionResource},
		{Path: []string{"resources", "v1", "events"}, Resource: old.GroupVersionResource},
	}
	if diff := cmp.Diff(want, b.Paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

// TestBindFields checks that the fields of a type are collected from all paths at which the policy reads it. For
// clusters and quotas, they are fields of the normal form, which is a part of the prepared object.
func TestBindFields(t *testing.T) {
	nodes := resource("", "v1", "nodes")
	quotas := policy.Resource{GroupVersionResource: placementv1.GroupVersion.WithResource("scopedquotas"), Namespaced: true}
	profiles := policy.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}, Namespaced: true}
	managed := resource("cluster.open-cluster-management.io", "v1", "managedclusters")
	sites := resource("fleet.example.com", "v1", "sites")
	const normal = `["placement.berth.dev/normal-form"]`
	tests := map[string]struct {
		body   string
		listed []placementv1.ReplicatedResource
		want   map[policy.Resource][]string
	}{
		"OnePlace":   {body: `data.kubernetes.nodes[_].metadata.labels.zone == input.zone`, want: map[policy.Resource][]string{nodes: {".metadata.labels.zone.**"}}},
		"TwoPlaces":  {body: `data.kubernetes.nodes[_].a == data.resources.v1.nodes[_].b`, want: map[policy.Resource][]string{nodes: {".a.**", ".b.**"}}},
		"Existence":  {body: `data.kubernetes.nodes[input.name]`, want: map[policy.Resource][]string{nodes: nil}},
		"Whole":      {body: `data.kubernetes.nodes[_] == input.node`, want: map[policy.Resource][]string{nodes: {".**"}}},
		"Names":      {body: `count(data.kubernetes.nodes) > 1`, want: map[policy.Resource][]string{nodes: nil}},
		"Clusters":   {body: `data.clusters[_].region == "eu"`, want: map[policy.Resource][]string{profiles: {".provider", ".region.**"}, managed: {".region.**"}, sites: {".name", ".region.**"}}},
		"Quotas":     {body: `data.berth.quotas[_][_].used.pods == "1"`, want: map[policy.Resource][]string{quotas: {".used.pods.**"}}},
		"BothForms":  {body: `data.clusters[_].region == data.kubernetes.managedclusters[_].spec.x`, want: map[policy.Resource][]string{profiles: {".provider", ".region.**"}, managed: {".region.**", ".spec.x.**"}, sites: {".name", ".region.**"}}},
		"Listed":     {body: `data.kubernetes[input.kind][_].x == 1`, listed: []placementv1.ReplicatedResource{{Resource: "nodes"}}, want: map[policy.Resource][]string{nodes: {".x.**"}}},
		"ListedOnly": {body: `input.x`, listed: []placementv1.ReplicatedResource{{Resource: "nodes"}}, want: map[policy.Resource][]string{nodes: nil}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spec := policytest.SpecOf(placementv1.RegoV1, `package p
labels := {"x": "y"} if `+tc.body)
			spec.Replicate = tc.listed
			m, err := policy.Compile("p", spec)
			if err != nil {
				t.Fatal(err)
			}
			b, err := policy.Bind("p", m, tc.listed, served{nodes, quotas, profiles, managed, sites})
			if err != nil {
				t.Fatal(err)
			}
			got := map[policy.Resource][]string{}
			for _, r := range b.Resources {
				got[r] = nil
				for _, path := range b.Fields[r.GroupVersionResource].Paths() {
					got[r] = append(got[r], strings.TrimPrefix(path, normal))
				}
				slices.Sort(got[r])
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

// refreshed is a catalog that serves more types after a refresh.
type refreshed struct {
	served
	more      served
	refreshes int
	err       error
}

func (r *refreshed) Refresh(context.Context) error {
	r.refreshes++
	r.served = append(r.served, r.more...)
	return r.err
}

// TestBindToCurrent checks that the catalog is refreshed once if a type is missing, and not otherwise.
func TestBindToCurrent(t *testing.T) {
	m, err := policy.Compile("p", policytest.SpecOf(placementv1.RegoV1, `package p
errors contains x if data.kubernetes.pods.a[x]
`))
	if err != nil {
		t.Fatal(err)
	}
	pods, unavailable := served{resource("", "v1", "pods")}, errors.New("unavailable")
	tests := map[string]struct {
		catalog            refreshed
		refreshes, missing int
		want               error
	}{
		"Served":      {catalog: refreshed{served: pods}},
		"Installed":   {catalog: refreshed{more: pods}, refreshes: 1},
		"Missing":     {refreshes: 1, missing: 1},
		"Unavailable": {catalog: refreshed{err: unavailable}, refreshes: 1, want: unavailable},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b, err := policy.BindToCurrent(t.Context(), "p", m, nil, &tc.catalog, nil)
			if tc.catalog.refreshes != tc.refreshes || !errors.Is(err, tc.want) || err == nil && len(b.Missing) != tc.missing {
				t.Errorf("%d refreshes, error %v, binding %+v", tc.catalog.refreshes, err, b)
			}
		})
	}
}
