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
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/whatif"
)

// TestCommandsOfManifests checks that the way to apply manifests is one that leaves no fields that the prediction lacks.
func TestCommandsOfManifests(t *testing.T) {
	written := func(by string) string {
		metadata := map[string]string{
			"another program": "managedFields: [{manager: argo, operation: Apply}, {manager: kubectl, operation: Update}]",
			"on the server":   "managedFields: [{manager: kubectl, operation: Apply}]",
			"on the server, and patched": "managedFields: [{manager: kubectl, operation: Apply}, " +
				"{manager: kubectl-patch, operation: Update, fieldsType: FieldsV1, fieldsV1: {'f:spec': {'f:priority': {}}}}]",
			"on the server, with a status": "managedFields: [{manager: kubectl, operation: Apply}, " +
				"{manager: berth, operation: Update, subresource: status, fieldsType: FieldsV1, fieldsV1: {'f:status': {}}}]",
			"by the client": "managedFields: [{manager: kubectl-client-side-apply, operation: Update}], annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}'}",
		}[by]
		return strings.Replace(policies, "metadata: {name: gold}", "metadata: {name: gold, "+metadata+"}", 1)
	}
	another := strings.Replace(onlyGold, "name: gold", "name: silver", 1)
	node := "apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {b: c}}\n"
	for _, tt := range []struct{ by, text, want string }{
		{"nobody", onlyGold, "kubectl apply --server-side"},
		{"another program", onlyGold, "kubectl replace"},
		{"another program", another, "kubectl apply --server-side"},
		{"another program", onlyGold + "---\n" + another, "kubectl apply --server-side --force-conflicts"},
		{"on the server", onlyGold + "---\n" + another, "kubectl apply --server-side"},
		{"on the server, and patched", onlyGold, "kubectl replace"},
		{"on the server, with a status", onlyGold, "kubectl apply --server-side"},
		{"by the client", onlyGold, "kubectl apply"},
		{"by the client", onlyGold + "---\n" + another, "kubectl apply"},
		{"on the server", node, "kubectl apply"},
		{"on the server", node + "---\n" + onlyGold, "kubectl apply --server-side --force-conflicts"},
	} {
		t.Run(tt.by, func(t *testing.T) {
			existing := "apiVersion: v1\nkind: Node\nmetadata: {name: a, managedFields: [{manager: kubelet, operation: Update}]}\n---\n"
			if tt.by == "nobody" {
				existing = ""
			}
			b := serve(t, config(static(t, clusters+written(tt.by)+workloads+existing+quotas))).open(t)
			got := post[answer](t, b, "whatif", map[string]any{"manifests": tt.text})
			if len(got.Commands) != 2 || got.Commands[1] != tt.want+" -f changes.yaml" {
				t.Errorf("commands %q, mistakes %v", got.Commands, got.Mistakes)
			}
		})
	}
}

// TestCommandsOfFields checks that a patch leaves what is predicted.
func TestCommandsOfFields(t *testing.T) {
	b := serve(t, config(static(t, clusters+policies+workloads+quotas))).open(t)
	got := post[answer](t, b, "whatif", map[string]any{"set": []string{
		"scopedquotas/shop/compute:spec.hard={pods: 5}", "clusters.cluster.karmada.io/eu-1:spec.region=1.30", "clusters.cluster.karmada.io/eu-1:spec.zones=[a]",
		"clusters.cluster.karmada.io/eu-1:spec.weight=1.50",
	}})
	want := []string{
		`kubectl patch --type=merge scopedquotas.placement.berth.dev compute --namespace shop --patch '{"spec":{"hard":{"pods":5,"requests.cpu":null}}}'`,
		`kubectl patch --type=merge clusters.cluster.karmada.io eu-1 --patch '{"spec":{"region":"1.30"}}'`,
		`kubectl patch --type=merge clusters.cluster.karmada.io eu-1 --patch '{"spec":{"zones":["a"]}}'`,
		`kubectl patch --type=merge clusters.cluster.karmada.io eu-1 --patch '{"spec":{"weight":1.5}}'`,
	}
	if len(got.Mistakes) > 0 || len(got.Commands) != 5 {
		t.Fatalf("%+v", got)
	}
	if diff := cmp.Diff(want, got.Commands[1:]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]*string{new(`{"pods":"10","requests.cpu":"4"}`), new("eu"), new("[eu-a, eu-b]"), nil}, got.Before); diff != "" {
		t.Errorf("values before (-want +got):\n%s", diff)
	}
}

// TestPages checks that each page of the objects to which something would happen follows the one before, for all objects and for those to
// which the same would happen.
func TestPages(t *testing.T) {
	var text strings.Builder
	for i := range 250 {
		label := "{region: eu}"
		if i%5 == 0 {
			label = `{region: eu, gold: "true"}`
		}
		fmt.Fprintf(&text, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web-%03d, namespace: many, labels: %s}\n---\n", i, label)
	}
	b := serve(t, config(static(t, clusters+policies+text.String()+quotas))).open(t)
	type view struct {
		Total  int
		Report struct {
			Objects []whatif.Object
			Totals  map[whatif.Transition]int
		}
	}
	ask := func(more map[string]any) view {
		body := map[string]any{"manifests": strings.Replace(onlyGold, "values: [gold]", "values: [none]", 1)}
		maps.Copy(body, more)
		return post[view](t, b, "whatif", body)
	}
	all := ask(map[string]any{"limit": 1000})
	if len(all.Report.Objects) != all.Total || all.Total != 250 || all.Report.Totals[whatif.Denied] != 250 {
		t.Fatalf("%d objects of %d, %v", len(all.Report.Objects), all.Total, all.Report.Totals)
	}
	var paged []whatif.Object
	for len(paged) < all.Total {
		page := ask(map[string]any{"offset": len(paged), "transition": whatif.Denied}).Report.Objects
		if len(page) == 0 || len(page) > 100 {
			t.Fatalf("a page of %d objects after %d", len(page), len(paged))
		}
		paged = append(paged, page...)
	}
	if diff := cmp.Diff(all.Report.Objects, paged); diff != "" {
		t.Errorf("the pages (-all +paged):\n%s", diff)
	}
	for name, more := range map[string]map[string]any{
		"another transition": {"transition": whatif.Moved}, "the end": {"offset": 250}, "beyond the end": {"offset": 10_000, "limit": 3},
	} {
		if got := ask(more); len(got.Report.Objects) > 0 || got.Total != 250 {
			t.Errorf("%s: %d objects of %d", name, len(got.Report.Objects), got.Total)
		}
	}
	if got := ask(map[string]any{"offset": -1, "limit": -1}); len(got.Report.Objects) != 100 {
		t.Errorf("negative numbers: %d objects", len(got.Report.Objects))
	}
}
