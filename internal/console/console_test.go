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

package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/console"
	"github.com/berth-dev/berth/internal/explain"
	"github.com/berth-dev/berth/internal/fleet"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/whatif"
)

const clusters = `apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: eu-1, labels: {region: eu, "example.com/tier": gold}}
spec: {region: eu, zones: [eu-a, eu-b]}
status:
  conditions: [{type: Ready, status: "True"}]
  resourceSummary: {allocatable: {cpu: "64", memory: 128Gi}, allocated: {cpu: "40", memory: 32Gi}}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: eu-2, labels: {region: eu}}
spec: {region: eu}
status:
  conditions: [{type: Ready, status: "True"}]
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: us-1, labels: {region: us}}
spec: {region: us}
---
`

const policies = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata:
  name: region
  generation: 3
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}", team: a}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  remediation: {mode: Approved}
  rego: |
    package region

    clusters contains name if {
      some name, c in data.clusters
      c.labels.region == input.metadata.labels.region
    }

    errors contains "no region" if not input.metadata.labels.region
status:
  waiting: [{reason: Approval, objects: 1, message: for an approval of the plan of PlacementPolicy region}]
  plan: {digest: abc, state: WaitingForApproval, message: data changed, causes: [ClusterProfile fleet/eu-1 changed], startTime: "2026-01-01T12:00:00Z", moves: 1, done: 0}
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: gold}
spec:
  match:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]
    objectSelector: {matchLabels: {gold: "true"}}
  rules:
  - name: gold
    require: [{label: example.com/tier, operator: In, values: [gold]}]
status:
  rules: [{name: gold, objects: 2}]
---
`

const workloads = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {region: eu, gold: "true"}, annotations: {placement.berth.dev/clusters: '["eu-1","eu-2"]'}}
spec: {replicas: 2}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: moved, namespace: shop, labels: {region: us}, annotations: {placement.berth.dev/clusters: '["eu-1"]'}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: denied, namespace: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop, labels: {region: eu}, annotations: {placement.berth.dev/clusters: '["eu-1","eu-2"]'}}
---
`

const quotas = `apiVersion: placement.berth.dev/v1alpha1
kind: ScopedQuota
metadata: {name: compute, namespace: shop}
spec: {hard: {requests.cpu: "4", pods: "10"}}
status:
  conditions: [{type: Ready, status: "False", reason: UsageOutdated, message: a recount is under way, lastTransitionTime: "2026-01-01T12:00:00Z"}]
  used: {requests.cpu: "3", pods: "12"}
  reservations: [{uid: a, resource: pods, namespace: shop, delta: {requests.cpu: 500m}, expires: "2026-01-01T12:00:00Z"}]
---
apiVersion: placement.berth.dev/v1alpha1
kind: ClusterScopedQuota
metadata: {name: shared}
spec: {hard: {pods: "0"}, mode: Warn, scopes: [BestEffort]}
status:
  used: {pods: "1"}
  selectedNamespaces: 2
  namespaces: [{namespace: shop, used: {pods: "1"}}]
`

func static(t testing.TB, text string) *simulation.Static {
	t.Helper()
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &obj.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, obj)
	}
	out, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), objects...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// options are those of all simulations.
var options = simulation.Options{OwnNamespace: "berth-system"}

func simulate(t testing.TB, cluster simulation.Cluster) *simulation.Simulation {
	t.Helper()
	out, err := simulation.New(t.Context(), cluster, options)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// config returns what the plugin does, in a form that is simple to test.
func config(cluster simulation.Cluster) console.Config {
	return console.Config{
		Read: func(context.Context) (*console.Reading, error) {
			return &console.Reading{Cluster: cluster, Options: options, Source: "files"}, nil
		},
		Check: func(_ context.Context, _ *console.Reading, obj *unstructured.Unstructured) (mistakes, warnings []string) {
			text := obj.GetAnnotations()["mistake"]
			if text == "" {
				return nil, nil
			}
			return []string{text}, []string{"spec.match: it matches much"}
		},
		Manifest: func(p *placementv1.PlacementPolicy) (string, error) {
			text, err := yaml.Marshal(p)
			return string(text), err
		},
		Approvals: func(p *placementv1.PlacementPolicy) []console.Approval {
			if p.Status.Plan == nil {
				return nil
			}
			return []console.Approval{{Plan: true, ID: p.Status.Plan.Digest}}
		},
	}
}

// browser is a client of a console.
type browser struct {
	*http.Client
	guard *console.Guard
}

// serve starts a console. The client has no cookie yet.
func serve(t testing.TB, c console.Config) *browser {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	guard := console.NewGuard(server.Listener.Addr().String())
	server.Config.Handler = guard.Handler(console.New(c).Handler())
	server.Start()
	t.Cleanup(server.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{&http.Client{Jar: jar}, guard}
}

// open opens the link, so that the client has the cookie.
func (b *browser) open(t testing.TB) *browser {
	t.Helper()
	if status, text := b.do(t, http.MethodGet, b.guard.Link(), "", nil); status != http.StatusOK {
		t.Fatalf("opening the link: %d: %s", status, text)
	}
	return b
}

// do sends a request, and returns the status and body of the response.
func (b *browser) do(t testing.TB, method, address, body string, change func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		change(r)
	}
	response, err := b.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// get returns what an endpoint returns.
func get[T any](t testing.TB, b *browser, path string) (out T) {
	t.Helper()
	status, text := b.do(t, http.MethodGet, b.guard.URL()+"api/"+path, "", nil)
	return decoded[T](t, status, text)
}

// post returns what an endpoint returns for a value.
func post[T any](t testing.TB, b *browser, path string, value any) (out T) {
	t.Helper()
	status, text := b.do(t, http.MethodPost, b.guard.URL()+"api/"+path, string(marshal(t, value)), nil)
	return decoded[T](t, status, text)
}

func marshal(t testing.TB, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func decoded[T any](t testing.TB, status int, text string) (out T) {
	t.Helper()
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, text)
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// asJSON returns a value in its JSON form.
func asJSON(t testing.TB, value any) (out any) {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFleet(t *testing.T) {
	cluster := static(t, clusters+policies+workloads+quotas)
	b := serve(t, config(cluster)).open(t)
	f, err := fleet.New(t.Context(), simulate(t, cluster))
	if err != nil {
		t.Fatal(err)
	}
	got := get[struct {
		Source  string
		Objects int
		States  any
		Places  []map[string]any
		Notes   []string
	}](t, b, "fleet")
	if got.Source != "files" || got.Objects != 4 || len(got.Notes) != 0 {
		t.Errorf("source %q, %d objects, notes %q", got.Source, got.Objects, got.Notes)
	}
	if diff := cmp.Diff(asJSON(t, f.States(fleet.ByCluster)), got.States); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	cpu := asJSON(t, map[string]float64{"allocatable": 64, "used": 40})
	if diff := cmp.Diff(cpu, got.Places[0]["cpu"]); diff != "" {
		t.Errorf("CPU of eu-1 (-want +got):\n%s", diff)
	}
	for _, p := range got.Places {
		delete(p, "cpu")
		delete(p, "memory")
	}
	if diff := cmp.Diff(asJSON(t, f.Table(fleet.ByCluster).Places), asJSON(t, got.Places)); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

func TestObjects(t *testing.T) {
	b := serve(t, config(static(t, clusters+policies+workloads+quotas))).open(t)
	for _, tt := range []struct {
		query string
		want  []string
	}{
		{"", []string{"denied", "moved", "web", "api"}},
		{"cluster=eu-1", []string{"moved", "web", "api"}},
		{"cluster=", []string{"denied"}},
		{"state=Violating", []string{"denied", "moved"}},
		{"policy=gold", []string{"web"}},
		{"q=SHOP/W", []string{"web"}},
		{"q=none", nil},
		{"offset=1&limit=1", []string{"moved"}},
		{"offset=9", nil},
	} {
		t.Run(tt.query, func(t *testing.T) {
			got := get[struct {
				Total   int
				Objects []struct{ Name string }
			}](t, b, "objects?"+tt.query)
			var names []string
			for _, o := range got.Objects {
				names = append(names, o.Name)
			}
			if diff := cmp.Diff(tt.want, names); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if paged := strings.Contains(tt.query, "offset"); !paged && got.Total != len(tt.want) || paged && got.Total != 4 {
				t.Errorf("total %d", got.Total)
			}
		})
	}
	if status, text := b.do(t, http.MethodGet, b.guard.URL()+"api/objects?limit=many", "", nil); status != http.StatusBadRequest {
		t.Errorf("a limit that is no number: %d: %s", status, text)
	}
}

func TestCluster(t *testing.T) {
	b := serve(t, config(static(t, clusters+policies+workloads+quotas))).open(t)
	got := get[any](t, b, "cluster?name=eu-1")
	want := map[string]any{"inventory": []any{map[string]any{
		"resource": "clusters.cluster.karmada.io", "name": "eu-1", "labels": map[string]any{"region": "eu", "example.com/tier": "gold"},
		"readBy": map[string]any{"region": []any{"region"}, "example.com/tier": []any{"gold"}},
		"fields": []any{
			map[string]any{"name": "region", "path": "spec.region", "value": "eu", "readBy": []any{}},
			map[string]any{"name": "zones", "path": "spec.zones", "value": "[eu-a, eu-b]", "readBy": []any{}},
		},
		"annotations": []any{},
	}}}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAnnotationsOfClusters checks which annotations of a cluster the console has, and which policies read them.
func TestAnnotationsOfClusters(t *testing.T) {
	annotations := `"a": one, "b.example.com/c": two, "long": "` + strings.Repeat("0123456789", 13) + `"`
	cluster := strings.Replace(clusters, "{name: eu-2, ", "{name: eu-2, annotations: {"+annotations+"}, ", 1)
	const reads = `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: reads}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rego: |
    package reads

    clusters contains name if {
      some name, cluster in data.clusters
      cluster.annotations`
	type annotation struct {
		Name, Path, Value string
		ReadBy            []string
	}
	named := annotation{"b.example.com/c", "metadata.annotations['b.example.com/c']", "two", []string{"reads"}}
	for expression, want := range map[string][]annotation{
		`["b.example.com/c"] == "x"` + "\n    }\n": {named},
		`.none == "x"` + "\n    }\n":               {{"none", "metadata.annotations.none", "", []string{"reads"}}},
		`[_] == "x"` + "\n    }\n":                 {{"a", "metadata.annotations.a", "one", []string{"reads"}}, named},
	} {
		b := serve(t, config(static(t, cluster+workloads+quotas+reads+expression))).open(t)
		got := get[struct {
			Inventory []struct{ Annotations []annotation }
		}](t, b, "cluster?name=eu-2")
		if len(got.Inventory) != 1 {
			t.Fatalf("%s: %+v", expression, got)
		}
		if diff := cmp.Diff(want, got.Inventory[0].Annotations); diff != "" {
			t.Errorf("%s (-want +got):\n%s", expression, diff)
		}
	}
}

// TestFieldsOfClusters checks where the console says that a cluster has its region and zones, and which policies read them.
func TestFieldsOfClusters(t *testing.T) {
	const others = `apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: labeled, labels: {topology.kubernetes.io/region: ap, topology.kubernetes.io/zone: ap-a}}
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: fields}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules: [{name: fields, require: [{field: region, operator: In, values: [eu]}, {field: zone, operator: Exists}]}]
---
`
	b := serve(t, config(static(t, clusters+policies+others+workloads+quotas))).open(t)
	type field struct {
		Name, Path, Value string
		ReadBy            []string
	}
	for name, want := range map[string][]field{
		"eu-2": {{"region", "spec.region", "eu", []string{"fields"}}, {"zones", "spec.zones", "", []string{"fields"}}},
		"labeled": {
			{"region", "metadata.labels['topology.kubernetes.io/region']", "ap", []string{"fields"}},
			{"zones", "metadata.labels['topology.kubernetes.io/zone']", "[ap-a]", []string{"fields"}},
		},
	} {
		got := get[struct{ Inventory []struct{ Fields []field } }](t, b, "cluster?name="+name)
		if len(got.Inventory) != 1 {
			t.Fatalf("%s: %+v", name, got)
		}
		if diff := cmp.Diff(want, got.Inventory[0].Fields); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestLabeled checks which clusters have a label.
func TestLabeled(t *testing.T) {
	b := serve(t, config(static(t, clusters+policies+workloads+quotas))).open(t)
	for label, want := range map[string][]string{
		"region=eu": {"eu-1", "eu-2"}, "region=": {"eu-1", "eu-2", "us-1"}, "example.com/tier=gold": {"eu-1"}, "region=e": {}, "tier=": {},
	} {
		got := get[struct{ Clusters []string }](t, b, "labeled?label="+url.QueryEscape(label)).Clusters
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", label, diff)
		}
	}
}

// TestPartOfPolicy checks which lines of a policy have what a reason names.
func TestPartOfPolicy(t *testing.T) {
	b := serve(t, config(static(t, clusters+policies+workloads+quotas))).open(t)
	for query, want := range map[string]string{
		"name=gold&field=spec.rules[0].require[0]": "    - label: example.com/tier\n      operator: In\n      values:\n      - gold",
		"name=gold&field=spec.rules[0].tolerate":   "  - name: gold\n    require:\n    - label: example.com/tier\n      operator: In\n      values:\n      - gold",
		"name=gold&rule=gold":                      "  - name: gold\n    require:\n    - label: example.com/tier\n      operator: In\n      values:\n      - gold",
		"name=region&line=5":                       "      c.labels.region == input.metadata.labels.region",
		"name=region&line=500":                     `    errors contains "no region" if not input.metadata.labels.region`,
		"name=gold":                                "",
	} {
		got := get[struct {
			Manifest string
			From, To int
		}](t, b, "policy?"+query)
		part := ""
		if got.From > 0 {
			part = strings.Join(strings.Split(got.Manifest, "\n")[got.From-1:got.To], "\n")
		}
		if part != want {
			t.Errorf("%s: lines %d to %d:\n%s\nwant:\n%s\nin:\n%s", query, got.From, got.To, part, want, got.Manifest)
		}
	}
}

// TestWorkload checks that the console explains an object as the commands explain and where do.
func TestWorkload(t *testing.T) {
	cluster := static(t, clusters+policies+workloads+quotas)
	s, b := simulate(t, cluster), serve(t, config(cluster)).open(t)
	for _, name := range []string{"web", "moved", "denied"} {
		t.Run(name, func(t *testing.T) {
			found, err := simulation.FindType(cluster.Catalog(), "deployments")
			if err != nil {
				t.Fatal(err)
			}
			content, err := cluster.Get(t.Context(), found.GroupVersionResource, "shop", name)
			if err != nil {
				t.Fatal(err)
			}
			object, err := s.NewObject(content, true)
			if err != nil {
				t.Fatal(err)
			}
			explanation, err := explain.Explain(t.Context(), s, object, explain.Options{Limit: 25})
			if err != nil {
				t.Fatal(err)
			}
			places, err := fleet.Explain(t.Context(), s, object)
			if err != nil {
				t.Fatal(err)
			}
			got := get[map[string]any](t, b, "workload?resource=deployments.apps&namespace=shop&name="+name)
			want := map[string]any{
				"explanation": asJSON(t, explanation), "places": asJSON(t, places), "command": "kubectl berth explain deployments.apps/" + name + " -n shop",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for query, want := range map[string]string{
		"resource=deployments.apps&namespace=shop&name=none": `there is no object \"none\" of deployments.apps in the namespace \"shop\": it may have been deleted`,
		"resource=clusters.cluster.karmada.io&name=none":     `there is no object \"none\" of clusters.cluster.karmada.io: it may have been deleted`,
		"resource=nothing&name=web":                          "nothing",
	} {
		status, text := b.do(t, http.MethodGet, b.guard.URL()+"api/workload?"+query, "", nil)
		if status != http.StatusNotFound || !strings.Contains(text, want) {
			t.Errorf("%s: %d: %s, want %s", query, status, text, want)
		}
	}
}

func TestPolicies(t *testing.T) {
	b := serve(t, config(static(t, clusters+policies+workloads+quotas))).open(t)
	got := get[struct {
		Policies []struct {
			Name        string
			Rules       []string
			Remediation string
			States      map[string]int
			Errors      []string
			Approvals   []console.Approval
			Status      placementv1.PlacementPolicyStatus
		}
		Notes []string
	}](t, b, "policies")
	if len(got.Policies) != 2 || len(got.Notes) != 0 {
		t.Fatalf("%+v", got)
	}
	gold, region := got.Policies[0], got.Policies[1]
	if diff := cmp.Diff([]string{"gold"}, gold.Rules); diff != "" || gold.Name != "gold" || len(gold.Errors) > 0 {
		t.Errorf("gold: %+v", gold)
	}
	if region.Rules != nil || region.Remediation != "Approved" || region.States["Violating"] != 2 || region.Status.Waiting[0].Objects != 1 ||
		region.Approvals[0].Command != "kubectl berth approve region --id=abc" {
		t.Errorf("region: %+v", region)
	}
	manifest := get[struct{ Manifest string }](t, b, "policy?name=region").Manifest
	if !strings.Contains(manifest, "package region") || !strings.Contains(manifest, "team: a") ||
		strings.Contains(manifest, "last-applied") || strings.Contains(manifest, "digest") {
		t.Errorf("manifest:\n%s", manifest)
	}
	if status, text := b.do(t, http.MethodGet, b.guard.URL()+"api/policy?name=none", "", nil); status != http.StatusNotFound {
		t.Errorf("a policy that there is not: %d: %s", status, text)
	}
}

// TestPlan checks that the console shows the plan of the command plan.
func TestPlan(t *testing.T) {
	cluster := static(t, clusters+policies+workloads+quotas)
	b := serve(t, config(cluster)).open(t)
	want, err := whatif.PlanOf(t.Context(), simulate(t, cluster), "gold")
	if err != nil {
		t.Fatal(err)
	}
	got := get[map[string]any](t, b, "plan?name=gold")
	if got["total"] != float64(len(want.Moves)) || got["command"] != "kubectl berth plan gold" {
		t.Errorf("%v objects, command %v", got["total"], got["command"])
	}
	for _, own := range []string{"total", "command", "flows", "status", "waiting", "approvals"} {
		delete(got, own)
	}
	if diff := cmp.Diff(asJSON(t, want), any(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestQuotas(t *testing.T) {
	b := serve(t, config(static(t, clusters+policies+workloads+quotas))).open(t)
	got := get[map[string]any](t, b, "quotas")
	want := []any{
		map[string]any{
			"kind": "ClusterScopedQuota", "name": "shared", "mode": "Warn", "scopes": []any{"BestEffort"},
			"ready": "Berth has not counted the usage of the quota yet", "selectedNamespaces": 2.0,
			"amounts":    []any{map[string]any{"resource": "pods", "hard": "0", "used": "1", "reserved": "0", "usedShare": 1.0, "reservedShare": 0.0}},
			"namespaces": []any{map[string]any{"namespace": "shop", "used": map[string]any{"pods": "1"}}},
		},
		map[string]any{
			"kind": "ScopedQuota", "namespace": "shop", "name": "compute", "mode": "Enforce", "scopes": []any{},
			"ready": "a recount is under way", "namespaces": []any{},
			"amounts": []any{
				map[string]any{"resource": "pods", "hard": "10", "used": "12", "reserved": "0", "usedShare": 1.2, "reservedShare": 0.0},
				map[string]any{"resource": "requests.cpu", "hard": "4", "used": "3", "reserved": "500m", "usedShare": 0.75, "reservedShare": 0.125},
			},
		},
	}
	if diff := cmp.Diff(any(want), got["quotas"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// withoutRights is a cluster of which a user may not list a type.
type withoutRights struct {
	simulation.Cluster
	resource string
}

func (c withoutRights) List(ctx context.Context, resource schema.GroupVersionResource, fields *projection.FieldSet) ([]*unstructured.Unstructured, error) {
	if resource.Resource == c.resource {
		return nil, fmt.Errorf("listing: %w", apierrors.NewForbidden(resource.GroupResource(), "", nil))
	}
	return c.Cluster.List(ctx, resource, fields)
}

// TestRights checks that a user sees what the user may see, with a note about the rest.
func TestRights(t *testing.T) {
	notes := func(t *testing.T, b *browser, path string) string {
		return strings.Join(get[struct{ Notes []string }](t, b, path).Notes, "\n")
	}
	for _, tt := range []struct {
		resource    string
		fleetStatus int
		notes       map[string]string
	}{
		{"deployments", http.StatusOK, map[string]string{"fleet": "you may not list deployments.apps", "policies": ""}},
		{"clusters", http.StatusForbidden, map[string]string{"policies": "only the status of the policies is known"}},
		{"scopedquotas", http.StatusOK, map[string]string{"quotas": "You may not list scopedquotas", "fleet": ""}},
	} {
		t.Run(tt.resource, func(t *testing.T) {
			b := serve(t, config(withoutRights{static(t, clusters+policies+workloads+quotas), tt.resource})).open(t)
			if status, text := b.do(t, http.MethodGet, b.guard.URL()+"api/fleet", "", nil); status != tt.fleetStatus {
				t.Errorf("fleet: %d: %s", status, text)
			}
			for path, want := range tt.notes {
				if got := notes(t, b, path); want == "" && got != "" || !strings.Contains(got, want) {
					t.Errorf("notes of %s: %q, want %q", path, got, want)
				}
			}
		})
	}
}

// TestRefresh checks that all views show one reading until the user reads the cluster again.
func TestRefresh(t *testing.T) {
	c, read := config(nil), 0
	c.Read = func(context.Context) (*console.Reading, error) {
		read++
		text := clusters + policies + workloads + quotas
		if read > 1 {
			text = strings.Replace(text, "name: web", "name: site", 1)
		}
		return &console.Reading{Cluster: static(t, text), Options: options}, nil
	}
	b := serve(t, c).open(t)
	total := func(name string) int { return get[struct{ Total int }](t, b, "objects?q="+name).Total }
	if total("web") != 1 || total("site") != 0 || read != 1 {
		t.Errorf("before: read %d times", read)
	}
	post[any](t, b, "refresh", map[string]any{})
	if total("web") != 0 || total("site") != 1 || read != 2 {
		t.Errorf("after: read %d times", read)
	}
}

// flaky is a cluster whose policies can't be read for some time.
type flaky struct {
	simulation.Cluster
	failures int
}

// Policies implements simulation.Cluster.
func (c *flaky) Policies(ctx context.Context) ([]placementv1.PlacementPolicy, error) {
	if c.failures > 0 {
		c.failures--
		return nil, errors.New("the connection was lost")
	}
	return c.Cluster.Policies(ctx)
}

// TestPassingError checks that the console tries again after an error that may pass.
func TestPassingError(t *testing.T) {
	b := serve(t, config(&flaky{static(t, clusters+policies+workloads+quotas), 1})).open(t)
	for _, want := range []int{http.StatusInternalServerError, http.StatusOK} {
		if status, text := b.do(t, http.MethodGet, b.guard.URL()+"api/fleet", "", nil); status != want {
			t.Errorf("status %d, want %d: %s", status, want, text)
		}
	}
}
