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
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/console"
	"github.com/berth-dev/berth/internal/whatif"
)

// answer is the response of /api/whatif.
type answer struct {
	Mistakes     []console.Mistake
	Report       map[string]any
	Total, Moves int
	Flows        []console.Flow
	Commands     []string
	Before       []*string
	Approvals    []map[string]any
	Notes        []string
}

// onlyGold is another version of the policy gold.
const onlyGold = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: gold}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules: [{name: gold, require: [{label: example.com/tier, operator: In, values: [gold]}]}]
`

// TestWhatif checks that the console predicts what a session predicts, also for one question after the other.
func TestWhatif(t *testing.T) {
	cluster := static(t, clusters+policies+workloads+quotas)
	b := serve(t, config(cluster)).open(t)
	manifest := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(onlyGold), &manifest.Object); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		manifests string
		set       []string
		remove    []string
		flows     []console.Flow
		commands  []string
		before    []*string
		approved  float64 // the number of objects that wait for an approval of the plan of the policy region
	}{
		{name: "nothing", flows: []console.Flow{}, commands: []string{}},
		{
			name: "another policy", manifests: onlyGold, flows: []console.Flow{{From: "eu-2", Objects: 1}},
			commands: []string{"kubectl berth whatif -f changes.yaml", "kubectl apply --server-side -f changes.yaml"},
		},
		{
			name:  "another label",
			set:   []string{"clusters.cluster.karmada.io/eu-2:metadata.labels.region=us", "clusters.cluster.karmada.io/eu-1:metadata.labels['example.com/tier']"},
			flows: []console.Flow{{From: "eu-2", Pending: true, Objects: 1}}, before: []*string{new("eu"), new("gold")}, approved: 1,
			commands: []string{
				"kubectl berth whatif --set clusters.cluster.karmada.io/eu-2:metadata.labels.region=us " +
					`--set 'clusters.cluster.karmada.io/eu-1:metadata.labels['\''example.com/tier'\'']'`,
				"kubectl label --overwrite clusters.cluster.karmada.io eu-2 region=us",
				"kubectl label --overwrite clusters.cluster.karmada.io eu-1 example.com/tier-",
			},
		},
		{
			name: "another field and a deletion", set: []string{"clusters.cluster.karmada.io/eu-1:spec.region=us"}, remove: []string{"clusters.cluster.karmada.io/eu-2"},
			flows: []console.Flow{{From: "eu-2", Pending: true, Objects: 1}}, before: []*string{new("eu")}, approved: 1,
			commands: []string{
				"kubectl berth whatif --set clusters.cluster.karmada.io/eu-1:spec.region=us --delete clusters.cluster.karmada.io/eu-2",
				`kubectl patch --type=merge clusters.cluster.karmada.io eu-1 --patch '{"spec":{"region":"us"}}'`,
				"kubectl delete clusters.cluster.karmada.io eu-2",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var changes whatif.Changes
			if tt.manifests != "" {
				changes.Apply = []*unstructured.Unstructured{manifest}
			}
			for _, text := range tt.set {
				assignment, err := whatif.ParseAssignment(t.Context(), cluster, text)
				if err != nil {
					t.Fatal(err)
				}
				changes.Set = append(changes.Set, assignment)
			}
			for _, text := range tt.remove {
				reference, err := whatif.ParseReference(t.Context(), cluster, text)
				if err != nil {
					t.Fatal(err)
				}
				changes.Delete = append(changes.Delete, reference)
			}
			session, err := whatif.NewSession(t.Context(), cluster, options)
			if err != nil {
				t.Fatal(err)
			}
			want, err := session.WhatIf(t.Context(), changes)
			if err != nil {
				t.Fatal(err)
			}
			got := post[answer](t, b, "whatif", map[string]any{"manifests": tt.manifests, "set": tt.set, "delete": tt.remove})
			if diff := cmp.Diff(asJSON(t, want), any(got.Report)); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.flows, got.Flows); diff != "" {
				t.Errorf("flows (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.commands, got.Commands); diff != "" {
				t.Errorf("commands (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(append([]*string{}, tt.before...), got.Before); diff != "" {
				t.Errorf("values before (-want +got):\n%s", diff)
			}
			approvals := []map[string]any{}
			if tt.approved > 0 {
				approvals = append(approvals, map[string]any{"command": "kubectl berth approve region", "objects": tt.approved})
			}
			if diff := cmp.Diff(approvals, got.Approvals); diff != "" {
				t.Errorf("approvals (-want +got):\n%s", diff)
			}
			if got.Total != len(want.Objects) || got.Moves != want.Moves() || len(got.Mistakes) > 0 {
				t.Errorf("%d objects, %d moves, mistakes %v", got.Total, got.Moves, got.Mistakes)
			}
		})
	}
}

// TestStillWaiting asks for the objects that wait as before.
func TestStillWaiting(t *testing.T) {
	b := serve(t, config(static(t, clusters+policies+workloads+late+strings.Replace(late, "late", "later", 1)+quotas))).open(t)
	asked := map[string]any{"set": []string{"clusters.cluster.karmada.io/eu-1:metadata.labels['example.com/tier']"}}
	if first := post[answer](t, b, "whatif", asked); first.Report["waiting"] != 2.0 || first.Total != 1 {
		t.Fatalf("%d objects, report %v", first.Total, first.Report)
	}
	asked["transition"] = "Waiting"
	value := map[string]any{
		"field": "annotations", "key": "placement.berth.dev/clusters", "from": `["eu-1","us-1"]`, "to": `["us-1"]`, "policy": "region", "pending": true,
		"waits": "for an approval of the plan of PlacementPolicy region (kubectl berth approve region), or for an update that changes what the policy reads or writes",
	}
	object := func(name string) any {
		return map[string]any{"kind": "Deployment", "resource": "deployments.apps", "namespace": "shop", "name": name, "transition": "Waiting", "values": []any{value}}
	}
	want := []any{object("late"), object("later")}
	if diff := cmp.Diff(any(want), post[answer](t, b, "whatif", asked).Report["objects"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	asked["offset"], asked["limit"] = 1, 5
	if diff := cmp.Diff(any(want[1:]), post[answer](t, b, "whatif", asked).Report["objects"]); diff != "" {
		t.Errorf("the second one (-want +got):\n%s", diff)
	}
}

// TestUnaffected checks why changes of clusters do nothing.
func TestUnaffected(t *testing.T) {
	const rules = `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: both}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules: [{name: both, require: [{field: region, operator: In, values: [eu]}, {label: level, operator: Gte, values: ["3"]}]}]
`
	b := serve(t, config(static(t, clusters+policies+workloads+quotas+rules))).open(t)
	const level = "clusters.cluster.karmada.io/us-1:metadata.labels.level=4"
	for _, tt := range []struct {
		set  []string
		want []string
	}{
		{[]string{level}, []string{"both reads level, and excludes us-1 anyway: region is us, must be eu."}},
		{[]string{"clusters.cluster.karmada.io/us-1:metadata.labels.other=4"}, []string{"No policy reads other of us-1."}},
		{[]string{"clusters.cluster.karmada.io/us-1:metadata.annotations.other=4"}, []string{"No policy reads other of us-1."}},
		// The cluster lacks nothing else.
		{[]string{"clusters.cluster.karmada.io/eu-2:metadata.labels.level=4"}, []string{}},
		// The first reason is the field itself.
		{[]string{"clusters.cluster.karmada.io/us-1:spec.region=ap"}, []string{}},
		{[]string{"clusters.cluster.karmada.io/us-1:spec.syncMode=Pull"}, []string{}},
		{[]string{"deployments.apps/shop/web:metadata.labels.level=4"}, []string{}},
		{[]string{level, "clusters.cluster.karmada.io/us-1:spec.region=eu"}, []string{}},
	} {
		got := post[struct{ Reasons []string }](t, b, "unaffected", map[string]any{"set": tt.set}).Reasons
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.set, diff)
		}
	}
}

// TestMistakes checks the places of mistakes.
func TestMistakes(t *testing.T) {
	b := serve(t, config(static(t, clusters+policies+workloads+quotas))).open(t)
	withMistake := func(text string) string {
		return `# A comment
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata:
  name: region
  annotations: {mistake: "` + text + `"}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rego: |

    package region

    labels.a := "b"
`
	}
	const rules = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: gold, annotations: {mistake: 'spec.rules[1].require[0].operator: Unsupported value: "Equals"'}}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules:
  - name: one
  - name: two
    require:
    - {label: a, operator: Equals}
`
	at := func(line, column int) console.Mistake {
		return console.Mistake{Line: line, Column: column, Object: "PlacementPolicy region", Error: true}
	}
	for _, tt := range []struct {
		name, text string
		want       console.Mistake
	}{
		{"Rego", withMistake("region.rego:4:8: rego_type_error"), at(14, 12)},
		{"a line of Rego", withMistake("rule labels at region.rego:2 has a mistake"), at(12, 5)},
		{"a field", withMistake("spec.match.resourceRules[0].resources[0]: Invalid value"), at(9, 78)},
		{"a field of several lines", withMistake("spec.match: Invalid value"), at(9, 3)},
		{"an unknown field", withMistake(`unknown field \"spec.unknown\"`), at(8, 1)},
		{"a text without a place", withMistake("it has a mistake"), at(3, 1)},
		{"an item of a list", rules, console.Mistake{Line: 10, Column: 28, Object: "PlacementPolicy gold", Error: true}},
		{"YAML", "a: b\n---\n---\nb: c\n  d: [\n", console.Mistake{Line: 5, Column: 3, Error: true}},
		{"no object", "a: b\n", console.Mistake{Line: 1, Column: 1, Error: true}},
		{"an alias", onlyGold + "---\na: &b c\nd: *b\n", console.Mistake{Line: 9, Column: 4, Error: true}},
		{"a line that the Rego has not", withMistake("region.rego:99999999999:2"), at(14, 6)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := post[answer](t, b, "whatif", map[string]any{"manifests": tt.text})
			if len(got.Mistakes) == 0 {
				t.Fatal("no mistake")
			}
			first := got.Mistakes[0]
			if tt.name == "YAML" {
				// The document before is no object.
				first = got.Mistakes[1]
			}
			if first.Message == "" {
				t.Error("no message")
			}
			first.Message = ""
			if diff := cmp.Diff(asJSON(t, tt.want), asJSON(t, first)); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, got.Mistakes[0].Message)
			}
			if tt.want.Object == "" && got.Report != nil {
				t.Error("a report although nothing can be tried")
			}
		})
	}
	for name, set := range map[string]string{
		"no assignment": "region", "no such type": "nothing/a:b=c", "no such object": "clusters.cluster.karmada.io/none:metadata.labels.a=b",
		"a control character": "clusters.cluster.karmada.io/eu-1:metadata.labels.region=us\x1b[2J",
	} {
		got := post[answer](t, b, "whatif", map[string]any{"set": []string{set}})
		if len(got.Mistakes) != 1 || got.Report != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for name, text := range map[string]string{
		"a text of more than 1 MiB": strings.Repeat("# much\n", 200_000),
		"more than 100 policies":    strings.Repeat(onlyGold+"---\n", 101),
		"more than 100 mistakes":    strings.Repeat("a: b\n---\n", 1000),
	} {
		got := post[answer](t, b, "whatif", map[string]any{"manifests": text})
		if n := len(got.Mistakes); n == 0 || n > 101 || !got.Mistakes[n-1].Error || got.Report != nil {
			t.Errorf("%s: %d mistakes, report %v", name, n, got.Report)
		}
	}
	if status, _ := b.do(t, http.MethodPost, b.guard.URL()+"api/whatif", strings.Repeat(" ", 5<<20)+"{}", nil); status != http.StatusBadRequest {
		t.Errorf("a body of 5 MiB: %d", status)
	}
}

// TestLongText checks that the time for a text grows with its length alone.
func TestLongText(t *testing.T) {
	b := serve(t, config(static(t, clusters+policies+workloads+quotas))).open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	body := string(marshal(t, map[string]any{"manifests": strings.Repeat("#\n", 500_000)}))
	status, text := b.do(t, http.MethodPost, b.guard.URL()+"api/whatif", body, func(r *http.Request) { *r = *r.WithContext(ctx) })
	if got := decoded[answer](t, status, text); len(got.Mistakes) > 0 {
		t.Errorf("mistakes %v", got.Mistakes)
	}
}
