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
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
)

// The sizes of the large fleet.
const (
	manyClusters  = 1_000
	manyWorkloads = 100_000
	manyRegions   = 40
)

const regionPolicy = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: region}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rego: |
    package region

    clusters contains name if {
      some name, c in data.clusters
      c.labels.region == input.metadata.labels.region
    }
`

// largeSnapshot returns the text of a snapshot of a large fleet.
func largeSnapshot(t testing.TB) []byte {
	t.Helper()
	var objects []*unstructured.Unstructured
	object := func(apiVersion, kind, namespace, name string, labels map[string]string) *unstructured.Unstructured {
		out := &unstructured.Unstructured{}
		out.SetAPIVersion(apiVersion)
		out.SetKind(kind)
		out.SetNamespace(namespace)
		out.SetName(name)
		out.SetLabels(labels)
		objects = append(objects, out)
		return out
	}
	names := map[string][]string{}
	for i := range manyClusters {
		region, name := fmt.Sprintf("region-%d", i%manyRegions), fmt.Sprintf("cluster-%d", i)
		names[region] = append(names[region], name)
		object("multicluster.x-k8s.io/v1alpha1", "ClusterProfile", "fleet", name, map[string]string{"region": region, "topology.kubernetes.io/region": region})
	}
	for i := range manyWorkloads {
		region := fmt.Sprintf("region-%d", i%manyRegions)
		slices.Sort(names[region])
		list, err := json.Marshal(names[region])
		if err != nil {
			t.Fatal(err)
		}
		web := object("apps/v1", "Deployment", fmt.Sprintf("team-%d", i%200), fmt.Sprintf("web-%d", i), map[string]string{"region": region})
		web.SetAnnotations(map[string]string{"placement.berth.dev/clusters": string(list)})
	}
	policy := static(t, regionPolicy)
	existing, err := policy.Policies(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(existing[0])
	if err != nil {
		t.Fatal(err)
	}
	own := &unstructured.Unstructured{}
	if err := own.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), append(objects, own)...)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := simulate(t, cluster).Snapshot(t.Context(), simulation.KubernetesDiscovery())
	if err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(snapshot); err != nil {
		t.Fatal(err)
	}
	return text
}

// BenchmarkConsole is the console for 100,000 workloads of 40 projections and 1,000 clusters.
//
//   - part=First is the time from the text of a snapshot to the first response of the fleet.
//   - part=Edit is the time for an edit of the policy. It reports the 95th percentile, too.
//   - part=Workloads is a search for workloads, and part=Workload an explanation with the reasons for all clusters.
func BenchmarkConsole(b *testing.B) {
	text := largeSnapshot(b)
	start := func(b *testing.B) *browser {
		b.Helper()
		recorded, err := simulation.DecodeSnapshot(text)
		if err != nil {
			b.Fatal(err)
		}
		cluster, err := recorded.Cluster(replication.Known())
		if err != nil {
			b.Fatal(err)
		}
		return serve(b, config(cluster)).open(b)
	}
	b.Run("part=First", func(b *testing.B) {
		for b.Loop() {
			if got := get[struct{ Objects int }](b, start(b), "fleet"); got.Objects != manyWorkloads {
				b.Fatalf("%d objects", got.Objects)
			}
		}
	})
	b.Run("part=Edit", func(b *testing.B) {
		console, i := start(b), 0
		var times []time.Duration
		edit := func() {
			i++
			edited := regionPolicy + fmt.Sprintf("      name != \"cluster-%d\"\n    }\n", i%manyClusters)
			edited = regionPolicy[:len(regionPolicy)-len("    }\n")] + edited[len(regionPolicy):]
			started := time.Now()
			got := post[answer](b, console, "whatif", map[string]any{"manifests": edited})
			times = append(times, time.Since(started))
			if got.Total != manyWorkloads/manyRegions || len(got.Mistakes) > 0 {
				b.Fatalf("%d objects, mistakes %v", got.Total, got.Mistakes)
			}
		}
		edit()
		times = nil
		for b.Loop() {
			edit()
		}
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)*95/100].Milliseconds()), "p95-ms")
	})
	b.Run("part=Workloads", func(b *testing.B) {
		console := start(b)
		for b.Loop() {
			get[any](b, console, "objects?q=web-9999")
		}
	})
	b.Run("part=Workload", func(b *testing.B) {
		console := start(b)
		for b.Loop() {
			get[any](b, console, "workload?resource=deployments.apps&namespace=team-1&name=web-1&limit=1000")
		}
	})
}
