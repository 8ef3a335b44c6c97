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
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/growth"
)

// The sizes of the large fleet.
const (
	manyClusters   = 1_000
	manyRegions    = 40
	manyNamespaces = 200
)

// manyWorkloads is how many workloads it has, a multiple of the numbers of regions and namespaces.
var manyWorkloads = budget.Size(30_000, 100_000)

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

// withoutCluster returns the policy without one of the clusters.
func withoutCluster(i int) string {
	return strings.Replace(regionPolicy, "      c.labels", fmt.Sprintf("      name != \"cluster-%d\"\n      c.labels", i%manyClusters), 1)
}

// deniedIn returns the policy with a denial of the workloads of one of the regions.
func deniedIn(i int) string {
	return regionPolicy + fmt.Sprintf(`
    errors contains "closed" if input.metadata.labels.region == "region-%d"
`, i%manyRegions)
}

// withoutNamespace returns the policy without the workloads of one of the namespaces.
func withoutNamespace(i int) string {
	selector := fmt.Sprintf("namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [team-%d]}]}", i%manyNamespaces)
	return strings.Replace(regionPolicy, "match: {", "match: {"+selector+", ", 1)
}

// movedCluster returns one of the clusters in the next region.
func movedCluster(i int) string {
	region := fmt.Sprintf("region-%d", (i+1)%manyRegions)
	return fmt.Sprintf("apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ClusterProfile\nmetadata:\n  name: cluster-%d\n  namespace: fleet\n"+
		"  labels: {region: %s, topology.kubernetes.io/region: %s}\n", i%manyClusters, region, region)
}

// editKinds are the kinds of edits of the playground, by the name of their benchmark, with the number of workloads to which they happen.
var editKinds = []struct {
	name  string
	text  func(i int) string
	total int
}{
	{"Edit", withoutCluster, manyWorkloads / manyRegions},
	{"Denial", deniedIn, manyWorkloads / manyRegions},
	{"Match", withoutNamespace, manyWorkloads / manyNamespaces},
	{"Cluster", movedCluster, manyWorkloads / manyRegions},
}

// largeSnapshot returns the text of a snapshot of a large fleet with a number of workloads, each of which has the clusters of its region.
func largeSnapshot(t testing.TB, workloads int) []byte {
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
	for i := range manyNamespaces {
		name := fmt.Sprintf("team-%d", i)
		object("v1", "Namespace", "", name, map[string]string{"kubernetes.io/metadata.name": name})
	}
	names := map[string][]string{}
	for i := range manyClusters {
		region, name := fmt.Sprintf("region-%d", i%manyRegions), fmt.Sprintf("cluster-%d", i)
		names[region] = append(names[region], name)
		object("multicluster.x-k8s.io/v1alpha1", "ClusterProfile", "fleet", name, map[string]string{"region": region, "topology.kubernetes.io/region": region})
	}
	for i := range workloads {
		region := fmt.Sprintf("region-%d", i%manyRegions)
		slices.Sort(names[region])
		list, err := json.Marshal(names[region])
		if err != nil {
			t.Fatal(err)
		}
		web := object("apps/v1", "Deployment", fmt.Sprintf("team-%d", i%manyNamespaces), fmt.Sprintf("web-%d", i), map[string]string{"region": region})
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

// openSnapshot opens a console that shows a snapshot.
func openSnapshot(t testing.TB, text []byte) *browser {
	t.Helper()
	recorded, err := simulation.DecodeSnapshot(text)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := recorded.Cluster(replication.Known())
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, config(cluster))
}

// measure measures work. It reports the processor time, garbage collection included, which depends less than the time on what else the
// machine does.
func measure(b *testing.B, work func()) {
	b.Helper()
	b.ReportAllocs()
	runtime.GC()
	n, start := 0, growth.ProcessorTime(b)
	for b.Loop() {
		work()
		n++
	}
	b.ReportMetric(float64(growth.ProcessorTime(b)-start)/float64(n), "cpu-ns/op")
}

// BenchmarkConsole is the console for 100,000 workloads of 40 projections and 1,000 clusters.
//
//   - part=First is the work from the text of a snapshot to the first response of the fleet, and part=Few the same for 1,000 workloads.
//   - part=Edit is that for an edit of the policy, which takes a cluster from 2,500 workloads, and its bytes the size of the response.
//     part=Denial denies as many, part=Match no longer matches 500, and part=Cluster moves a cluster to another region, so that 2,500
//     lose it.
//   - part=Workloads is a search for workloads, and part=Workload an explanation with the reasons for all clusters.
//
// Garbage is collected as in the plugin.
func BenchmarkConsole(b *testing.B) {
	b.Cleanup(simulation.SetGarbageCollector())
	text := largeSnapshot(b, manyWorkloads)
	b.Run("part=First", func(b *testing.B) {
		measure(b, func() {
			if got := get[struct{ Objects int }](b, openSnapshot(b, text).open(b), "fleet"); got.Objects != manyWorkloads {
				b.Fatalf("%d objects", got.Objects)
			}
		})
	})
	b.Run("part=Few", func(b *testing.B) {
		few := largeSnapshot(b, 1000)
		measure(b, func() { get[any](b, openSnapshot(b, few).open(b), "fleet") })
	})
	for _, kind := range editKinds {
		b.Run("part="+kind.name, func(b *testing.B) {
			console, i, size := openSnapshot(b, text).open(b), 0, 0
			edit := func() {
				i++
				status, response := console.do(b, "POST", console.guard.URL()+"api/whatif", string(marshal(b, map[string]any{"manifests": kind.text(i)})), nil)
				got := decoded[answer](b, status, response)
				if size = len(response); got.Total != kind.total || len(got.Mistakes) > 0 {
					b.Fatalf("%d objects, mistakes %v", got.Total, got.Mistakes)
				}
			}
			edit()
			measure(b, edit)
			b.ReportMetric(float64(size), "B/page")
		})
	}
	b.Run("part=Workloads", func(b *testing.B) {
		console := openSnapshot(b, text).open(b)
		measure(b, func() { get[any](b, console, "objects?q=web-9999") })
	})
	b.Run("part=Workload", func(b *testing.B) {
		console := openSnapshot(b, text).open(b)
		measure(b, func() {
			get[any](b, console, "workload?resource=deployments.apps&namespace=team-1&name=web-1&limit=1000")
		})
	})
}

// BenchmarkPages is the console in a real browser, for 100,000 workloads of 40 projections and 1,000 clusters.
//
// It reports the processor time from the start to the first view, of the console and of the page. Then it edits the text of the playground
// in various ways, one edit after the other, and reports the median and the 95th percentile of the time from the change of the text to the
// picture with the new list of moves, and the processor time that the page and the console take for each, which depends less on what else
// the machine does. After each picture the user looks at it for a moment, in which the console collects garbage.
func BenchmarkPages(b *testing.B) {
	const edits, looks = 40, 700 * time.Millisecond
	b.Cleanup(simulation.SetGarbageCollector())
	text, c := largeSnapshot(b, manyWorkloads), startChromium(b)
	c.call("Performance.enable", nil, nil)
	// The tree for screen readers would be made again for each picture.
	c.call("Accessibility.disable", nil, nil)
	runtime.GC()
	start := growth.ProcessorTime(b)
	server := openSnapshot(b, text)
	c.call("Page.navigate", map[string]any{"url": server.guard.Link()}, nil)
	c.await("document.querySelector('canvas')")
	firstConsole, firstPage := growth.ProcessorTime(b)-start, c.processTime()
	c.visit("#/playground?policy=region", editorHas("name: region"))
	c.edit(withoutCluster(0))
	c.await("document.querySelector('.result tbody tr')")
	i := 0
	var times []time.Duration
	page, console := c.processTime(), growth.ProcessorTime(b)
	for b.Loop() {
		for range edits {
			i++
			// The edits concern one region after the other, whose workloads have other names.
			times = append(times, time.Duration(c.timeOf(editKinds[i%len(editKinds)].text(i))*float64(time.Millisecond)))
			notify.Sleep(b.Context(), looks)
		}
	}
	b.ReportMetric(float64(firstConsole), "first-console-cpu-ns")
	b.ReportMetric(float64(firstPage), "first-page-cpu-ns")
	b.ReportMetric(float64(c.processTime()-page)/float64(i), "page-cpu-ns")
	b.ReportMetric(float64(growth.ProcessorTime(b)-console)/float64(i), "console-cpu-ns")
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2]), "p50-ns")
	b.ReportMetric(float64(times[len(times)*95/100]), "p95-ns")
}

// processTime returns the processor time that the process of the page has taken.
func (c *chromium) processTime() time.Duration {
	c.t.Helper()
	var got struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	c.call("Performance.getMetrics", nil, &got)
	for _, m := range got.Metrics {
		if m.Name == "ProcessTime" {
			return time.Duration(m.Value * float64(time.Second))
		}
	}
	c.t.Fatal("the browser does not say how much processor time the page has taken")
	return 0
}

// timeOf returns the time from an edit to the next picture with another list of moves, in milliseconds.
func (c *chromium) timeOf(text string) float64 {
	c.t.Helper()
	encoded := string(marshal(c.t, text))
	return evaluate[float64](c, `new Promise((resolve) => {
		const first = () => document.querySelector(".result tbody tr")?.textContent ?? "", before = first();
		const content = document.querySelector(".editor").shadowRoot.querySelector(".cm-content");
		content.focus();
		content.dispatchEvent(new KeyboardEvent("keydown", { key: "a", code: "KeyA", keyCode: 65, ctrlKey: true, bubbles: true }));
		const data = new DataTransfer();
		data.setData("text/plain", `+encoded+`);
		const start = performance.now();
		content.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
		const look = () => requestAnimationFrame(() => {
			if (first() === before || first() === "") look();
			else requestAnimationFrame(() => resolve(performance.now() - start));
		});
		look();
	})`)
}

// maxHeap is how much the console keeps for each workload at most, with the fleet, the playground, and the last answer, in bytes. So
// 100,000 workloads take at most 400 MB.
const maxHeap = 4_000

// TestMemory checks that what the console keeps is bounded by the number of workloads, also after many edits and readings.
func TestMemory(t *testing.T) {
	workloads := budget.Size(20_000, 100_000)
	text := largeSnapshot(t, workloads)
	before := heapInUse()
	b := openSnapshot(t, text).open(t)
	for i := range 2 {
		get[any](t, b, "fleet")
		get[any](t, b, "objects?q=web-1")
		for edit := range 3 {
			if got := post[answer](t, b, "whatif", map[string]any{"manifests": withoutCluster(10*i + edit)}); got.Total != workloads/manyRegions {
				t.Fatalf("%d objects", got.Total)
			}
		}
		post[any](t, b, "refresh", map[string]any{})
	}
	post[answer](t, b, "whatif", map[string]any{"manifests": withoutCluster(1)})
	if per := (heapInUse() - before) / int64(workloads); per > maxHeap {
		t.Errorf("the console keeps %d bytes for each workload, more than %d", per, maxHeap)
	} else {
		t.Logf("the console keeps %d bytes for each workload", per)
	}
	// The console is in use until here.
	get[any](t, b, "schema")
}

// heapInUse returns how much the heap holds.
func heapInUse() int64 {
	// What finalizers hold goes with the second collection.
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
