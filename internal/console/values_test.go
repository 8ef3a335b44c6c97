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
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/casetest"
	"github.com/berth-dev/berth/internal/replication"
)

func TestValues(t *testing.T) {
	b := serve(t, config(static(t, clusters+policies+workloads+quotas))).open(t)
	got := get[struct {
		Fields, Labels, ObjectLabels map[string][]string
		Resources                    []string
	}](t, b, "values")
	for _, tt := range []struct {
		name      string
		got, want []string
	}{
		{"regions", got.Fields["region"], []string{"eu", "us"}},
		{"zones", got.Fields["zone"], []string{"eu-a", "eu-b"}},
		{"tiers", got.Labels["example.com/tier"], []string{"gold"}},
		{"resources", got.Resources, []string{"cpu", "memory"}},
		{"labels of workloads", got.ObjectLabels["region"], []string{"eu", "us"}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestValuesWithoutRights checks that values that the user may not read are missing.
func TestValuesWithoutRights(t *testing.T) {
	for _, resource := range []string{"clusters", "deployments"} {
		b := serve(t, config(withoutRights{static(t, clusters+policies+workloads+quotas), resource})).open(t)
		got := get[struct{ Fields, ObjectLabels map[string][]string }](t, b, "values")
		if missing := len(got.Fields) == 0; missing != (resource == "clusters") || len(got.ObjectLabels) != 0 {
			t.Errorf("without %s: %+v", resource, got)
		}
	}
}

func TestSchema(t *testing.T) {
	b := serve(t, config(static(t, clusters+policies+workloads+quotas))).open(t)
	got := get[struct {
		Properties map[string]struct{ Properties map[string]any }
	}](t, b, "schema")
	if got.Properties["spec"].Properties["rules"] == nil {
		t.Errorf("the schema has no rules")
	}
}

func TestManifestOfQuota(t *testing.T) {
	b := serve(t, config(static(t, clusters+policies+workloads+quotas))).open(t)
	text := get[struct{ Manifest string }](t, b, "manifest?resource=scopedquotas.placement.berth.dev&namespace=shop&name=compute").Manifest
	if !strings.Contains(text, "requests.cpu: \"4\"") || strings.Contains(text, "status") {
		t.Errorf("manifest:\n%s", text)
	}
	got := post[answer](t, b, "whatif", map[string]any{"manifests": text})
	if got.Report == nil || len(got.Mistakes) > 0 {
		t.Errorf("%+v", got)
	}
}

// exported is the response of /api/testcase.
type exported struct {
	Name, File    string
	NeedsManifest bool
	Cases, Total  int
}

// TestTestCase checks that an exported test passes with the change, and fails without it.
func TestTestCase(t *testing.T) {
	b := serve(t, config(static(t, clusters+policies+workloads+quotas))).open(t)
	run := func(t *testing.T, got exported, manifests string) []casetest.Result {
		t.Helper()
		dir := t.TempDir()
		for name, text := range map[string]string{got.Name: got.File, "changes.yaml": manifests} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		file, err := casetest.Load(filepath.Join(dir, got.Name))
		if err != nil {
			t.Fatal(err)
		}
		results, err := file.Run(t.Context(), casetest.Options{Simulation: options, Inventories: replication.Known(), Clock: clock.RealClock{}})
		if err != nil {
			t.Fatal(err)
		}
		return results
	}
	failed := func(results []casetest.Result) (out int) {
		for _, r := range results {
			if len(r.Failures) > 0 {
				out++
			}
		}
		return out
	}
	t.Run("policy", func(t *testing.T) {
		got := post[exported](t, b, "testcase", map[string]any{"manifests": onlyGold})
		if !got.NeedsManifest || got.Cases != 3 || got.Total != 3 {
			t.Fatalf("%+v", got)
		}
		if results := run(t, got, onlyGold); len(results) != 3 || failed(results) > 0 {
			t.Errorf("%+v\n%s", results, got.File)
		}
		if results := run(t, got, strings.Replace(onlyGold, "values: [gold]", "values: [silver]", 1)); failed(results) == 0 {
			t.Error("the test passes for another policy, too")
		}
	})
	t.Run("label", func(t *testing.T) {
		got := post[exported](t, b, "testcase", map[string]any{"set": []string{"clusters.cluster.karmada.io/eu-2:metadata.labels.region=us"}})
		if got.NeedsManifest || got.Cases == 0 {
			t.Fatalf("%+v", got)
		}
		if results := run(t, got, ""); failed(results) > 0 {
			t.Errorf("%+v\n%s", results, got.File)
		}
		got.File = strings.Replace(got.File, "region: us\n    name: eu-2", "region: eu\n    name: eu-2", 1)
		if results := run(t, got, ""); failed(results) == 0 {
			t.Error("the test passes without the change, too")
		}
	})
	for name, tried := range map[string]map[string]any{"nothing happens": {}, "a mistake": {"manifests": "a: ["}} {
		if status, text := b.do(t, http.MethodPost, b.guard.URL()+"api/testcase", string(marshal(t, tried)), nil); status != http.StatusBadRequest {
			t.Errorf("%s: %d: %s", name, status, text)
		}
	}
}

// TestTryWithoutRights checks that a user who may not list a type sees what happens to the others, and which are missing.
func TestTryWithoutRights(t *testing.T) {
	const statefulSet = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop, labels: {region: eu}, annotations: {placement.berth.dev/clusters: '["eu-1","eu-2"]'}}
---
`
	both := strings.ReplaceAll(policies, "resources: [deployments]", "resources: [deployments, statefulsets]")
	b := serve(t, config(withoutRights{static(t, clusters+both+workloads+statefulSet+quotas), "statefulsets"})).open(t)
	got := post[answer](t, b, "whatif", map[string]any{"manifests": onlyGold})
	if got.Report == nil || got.Total == 0 || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "You may not list statefulsets.apps") {
		t.Errorf("without StatefulSets: %+v", got)
	}
	// What policies read decides all objects.
	b = serve(t, config(withoutRights{static(t, clusters+policies+workloads+quotas), "clusters"})).open(t)
	withMistake := strings.Replace(onlyGold, "{name: gold}", "{name: gold, annotations: {mistake: it is wrong}}", 1)
	got = post[answer](t, b, "whatif", map[string]any{"manifests": withMistake})
	if got.Report != nil || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "is not known") || len(got.Mistakes) != 2 {
		t.Errorf("without clusters: %+v", got)
	}
}
