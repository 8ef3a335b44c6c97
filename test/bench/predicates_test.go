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

package bench_test

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/workload"
	"github.com/berth-dev/berth/test/growth"
)

const (
	// podsPerNode is how many pods each node has.
	podsPerNode = 10
	// antiAffinity is one in how many nodes has a pod that lets no other one of its app be there.
	antiAffinity = 4
)

var (
	nodes      = corev1.SchemeGroupVersion.WithResource("nodes")
	pods       = corev1.SchemeGroupVersion.WithResource("pods")
	namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
)

// The objects are as kubelets and the API server have them: most of it is nothing to predicates.
var (
	nodeText = mustJSON(`
apiVersion: v1
kind: Node
metadata:
  name: node-$i
  uid: 5a1d8f2e-0000-4000-8000-$i
  annotations: {volumes.kubernetes.io/controller-managed-attach-detach: "true", node.alpha.kubernetes.io/ttl: "0"}
  labels:
    kubernetes.io/hostname: node-$i
    kubernetes.io/os: linux
    kubernetes.io/arch: amd64
    node.kubernetes.io/instance-type: large
    topology.kubernetes.io/region: eu-1
    topology.kubernetes.io/zone: eu-1$zone
    disk: $disk
spec: {podCIDR: 10.0.0.0/24, providerID: "cloud:///eu-1/node-$i"}
status:
  allocatable: {cpu: "16", memory: 60Gi, ephemeral-storage: "95551679124", hugepages-1Gi: "0", hugepages-2Mi: "0", pods: "110"}
  capacity: {cpu: "16", memory: 64Gi, ephemeral-storage: 102Gi, hugepages-1Gi: "0", hugepages-2Mi: "0", pods: "110"}
  conditions: [{type: Ready, status: "True", lastHeartbeatTime: "2026-01-01T00:00:00Z"}]
`)
	podText = mustJSON(`
apiVersion: v1
kind: Pod
metadata:
  name: web-$i-7d4b9c5f6d-x2x4z
  namespace: team-$team
  uid: 5a1d8f2e-0000-4000-9000-$i
  labels: {app: web-$app, pod-template-hash: 7d4b9c5f6d, team: team-$team}
  annotations: {prometheus.io/scrape: "true", prometheus.io/port: "8080"}
  ownerReferences:
  - {apiVersion: apps/v1, kind: ReplicaSet, name: web-$i-7d4b9c5f6d, uid: 5a1d8f2e-0000-4000-a000-$i, controller: true}
spec:
  nodeName: node-$node
  serviceAccountName: default
  tolerations:
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  containers:
  - name: web
    image: registry.example/web:1.2.3
    ports: [{name: http, containerPort: 8080, protocol: TCP}]
    env: [{name: A, value: "1"}, {name: B, value: "2"}]
    resources: {requests: {cpu: 250m, memory: 512Mi}, limits: {memory: 1Gi}}
    volumeMounts: [{name: kube-api-access, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}]
  - name: proxy
    image: registry.example/proxy:1.2.3
    resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 256Mi}}
  volumes:
  - {name: kube-api-access, projected: {sources: [{serviceAccountToken: {path: token}}, {configMap: {name: kube-root-ca.crt}}]}}
status:
  phase: Running
  podIP: 10.0.0.1
  conditions: [{type: Ready, status: "True"}, {type: ContainersReady, status: "True"}, {type: PodScheduled, status: "True"}]
  containerStatuses:
  - name: web
    ready: true
    allocatedResources: {cpu: 250m, memory: 512Mi}
    resources: {requests: {cpu: 250m, memory: 512Mi}, limits: {memory: 1Gi}}
  - name: proxy
    ready: true
    allocatedResources: {cpu: 100m, memory: 128Mi}
    resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 256Mi}}
`)
	namespaceText = mustJSON(`
apiVersion: v1
kind: Namespace
metadata: {name: team-$team, labels: {kubernetes.io/metadata.name: team-$team, tier: $tier}}
`)
)

func mustJSON(text string) string {
	out, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		panic(err)
	}
	return string(out)
}

func mustObject(text string, values ...string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON([]byte(strings.NewReplacer(values...).Replace(text))); err != nil {
		panic(err)
	}
	return o
}

// node is one of nodes in three zones.
func node(i int) *unstructured.Unstructured {
	return mustObject(nodeText, "$i", strconv.Itoa(i), "$zone", string('a'+rune(i%3)), "$disk", []string{"ssd", "hdd"}[i%2])
}

// pod is one of the pods that there are: podsPerNode on each node, of 50 apps and 100 teams.
func pod(i int) *unstructured.Unstructured {
	app := strconv.Itoa(i / podsPerNode % 50)
	o := mustObject(podText, "$i", strconv.Itoa(i), "$node", strconv.Itoa(i/podsPerNode), "$team", strconv.Itoa(i%100), "$app", app)
	if i%(antiAffinity*podsPerNode) == 0 {
		term := map[string]any{
			"topologyKey": "kubernetes.io/hostname", "labelSelector": map[string]any{"matchLabels": map[string]any{"app": "web-" + app}},
		}
		o.Object["spec"].(map[string]any)["affinity"] = map[string]any{
			"podAntiAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": []any{term}},
		}
	}
	return o
}

func namespace(i int) *unstructured.Unstructured {
	return mustObject(namespaceText, "$team", strconv.Itoa(i), "$tier", []string{"gold", "silver"}[i%2])
}

// fill puts objects into a world one by one, so that no more than one of them is in memory as a whole.
func fill(w *predicates.NodeCache, resource schema.GroupVersionResource, n int, make func(int) *unstructured.Unstructured) {
	w.Load(resource, nil)
	for i := range n {
		w.Put(resource, make(i))
	}
}

// scene is a world of nodes, whose pods change one after the other in a label.
type scene struct {
	*predicates.NodeCache
	nodes   int
	changes []*unstructured.Unstructured
	next    int
}

// scenes are worlds of so many nodes, made when they are needed and shared: their changes make no other one harder.
var scenes = map[int]func() *scene{}

func init() {
	for _, n := range []int{100, 1000, 5000} {
		scenes[n] = sync.OnceValue(func() *scene { return newScene(n) })
	}
}

func newScene(n int) *scene {
	s := &scene{NodeCache: predicates.NewNodeCache(), nodes: n}
	fill(s.NodeCache, namespaces, 100, namespace)
	fill(s.NodeCache, nodes, n, node)
	fill(s.NodeCache, pods, n*podsPerNode, pod)
	// Twice as many as pods: each change is one.
	for i := range 2000 {
		o := pod(i % 1000)
		labels := o.GetLabels()
		labels["changed"] = strconv.Itoa(i / 1000)
		o.SetLabels(labels)
		s.changes = append(s.changes, o)
	}
	return s
}

// change changes a pod.
func (s *scene) change(b testing.TB) {
	b.Helper()
	if !s.Put(pods, s.changes[s.next%len(s.changes)]) {
		b.Fatal("a change changes nothing")
	}
	s.next++
}

func snapshot(b testing.TB, w *predicates.NodeCache) *predicates.Snapshot {
	b.Helper()
	s, err := w.Snapshot()
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// walked makes a snapshot compute what it does when it is first asked for.
func walked(b testing.TB, s *predicates.Snapshot) {
	b.Helper()
	all, err := s.List()
	if err != nil || len(all) == 0 {
		b.Fatal(len(all), err)
	}
	if _, err := s.HavePodsWithRequiredAntiAffinityList(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkWorld is a change of one pod on one of the nodes that there are, until a snapshot with its lists is there; 100
// such changes until one snapshot; and one that no predicate can see.
func BenchmarkWorld(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("change=pod/nodes=%d", n), func(b *testing.B) {
			s := scenes[n]()
			measure(b, func(int) {
				s.change(b)
				walked(b, snapshot(b, s.NodeCache))
			})
		})
		b.Run(fmt.Sprintf("change=100pods/nodes=%d", n), func(b *testing.B) {
			s := scenes[n]()
			measure(b, func(int) {
				for range 100 {
					s.change(b)
				}
				walked(b, snapshot(b, s.NodeCache))
			})
		})
		b.Run(fmt.Sprintf("change=unseen/nodes=%d", n), func(b *testing.B) {
			s := scenes[n]()
			s.change(b)
			o := s.changes[(s.next-1)%len(s.changes)].DeepCopy()
			o.SetAnnotations(map[string]string{"changed": "only this"})
			measure(b, func(int) {
				if s.Put(pods, o) {
					b.Fatal("what is not read is seen")
				}
				walked(b, snapshot(b, s.NodeCache))
			})
		})
	}
}

// BenchmarkWorldRebuilt is the scheduler's own snapshot, made of objects that are typed already: what each change would
// cost without a world.
func BenchmarkWorldRebuilt(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			var nodes []*corev1.Node
			var pods []*corev1.Pod
			for i := range n {
				nodes = append(nodes, typed[corev1.Node](b, node(i)))
			}
			for i := range n * podsPerNode {
				pods = append(pods, typed[corev1.Pod](b, pod(i)))
			}
			measure(b, func(int) { cache.NewSnapshot(pods, nodes) })
		})
	}
}

func typed[T any](b testing.TB, o *unstructured.Unstructured) *T {
	b.Helper()
	out := new(T)
	if err := apiruntime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
		b.Fatal(err)
	}
	return out
}

// What is placed, as the scheduler's own benchmarks have it: pods that ask for resources only, those that ask for much, and
// those that look at the pods that are there.
var placed = map[string]string{
	"Plain": `
spec:
  containers: [{name: c, resources: {requests: {cpu: 250m, memory: 512Mi}}}]
`,
	"Spread": `
spec:
  nodeSelector: {kubernetes.io/os: linux}
  tolerations: [{key: dedicated, operator: Exists}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [ssd, hdd]}]}]
  topologySpreadConstraints:
  - {maxSkew: 5, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web-1}}}
  containers: [{name: c, ports: [{containerPort: 80, hostPort: 8080}], resources: {requests: {cpu: 250m, memory: 512Mi}}}]
`,
	"PodAffinity": `
spec:
  affinity:
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: topology.kubernetes.io/zone, namespaceSelector: {matchLabels: {tier: gold}}, labelSelector: {matchLabels: {app: web-2}}}
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web-1}}}
  containers: [{name: c, resources: {requests: {cpu: 250m, memory: 512Mi}}}]
`,
}

func place(b testing.TB, name string) workload.Workload {
	b.Helper()
	o := mustObject(mustJSON("apiVersion: v1\nkind: Pod\nmetadata: {namespace: team-1, labels: {app: web-1}}" + placed[name]))
	return workload.Workload{Pod: typed[corev1.Pod](b, o), Replicas: 1}
}

func allPredicates(b testing.TB) *predicates.Set {
	b.Helper()
	registry, err := predicates.NewRegistry()
	if err != nil {
		b.Fatal(err)
	}
	set, err := registry.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	return set
}

// pairs measures judgments, and what they take of processor time for each candidate.
func pairs(b *testing.B, candidates int, work func() (*predicates.Report, error)) {
	b.Helper()
	b.ReportAllocs()
	runtime.GC()
	start := growth.ProcessorTime(b)
	for b.Loop() {
		report, err := work()
		if err != nil || len(report.Verdicts) != candidates {
			b.Fatal(report, err)
		}
	}
	taken := float64(growth.ProcessorTime(b)-start) / float64(b.N)
	b.ReportMetric(taken, "cpu-ns/op")
	b.ReportMetric(taken/float64(candidates), "cpu-ns/pair")
}

// BenchmarkJudge is the judgment of one pod on all nodes by the scheduler's default predicates.
func BenchmarkJudge(b *testing.B) {
	set := allPredicates(b)
	for _, n := range []int{100, 1000, 5000} {
		for _, name := range slices.Sorted(maps.Keys(placed)) {
			b.Run(fmt.Sprintf("pod=%s/nodes=%d", name, n), func(b *testing.B) {
				s, p := snapshot(b, scenes[n]().NodeCache), place(b, name)
				pairs(b, n, func() (*predicates.Report, error) {
					return set.Evaluate(b.Context(), s, p, predicates.Query{Kind: predicates.Nodes})
				})
			})
		}
	}
}

// BenchmarkAgain is the judgment of one pod on 1,000 nodes after another pod has changed, with that change: again, and as
// if it had not been judged before.
func BenchmarkAgain(b *testing.B) {
	const n = 1000
	set := allPredicates(b)
	for _, name := range slices.Sorted(maps.Keys(placed)) {
		for _, by := range []string{"Again", "Judge"} {
			b.Run(fmt.Sprintf("pod=%s/nodes=%d/by=%s", name, n, by), func(b *testing.B) {
				s, p := scenes[n](), place(b, name)
				judge := func() (*predicates.Report, error) {
					return set.Evaluate(b.Context(), snapshot(b, s.NodeCache), p, predicates.Query{Kind: predicates.Nodes})
				}
				report, err := judge()
				if err != nil {
					b.Fatal(err)
				}
				if by == "Again" {
					judge = func() (*predicates.Report, error) {
						return set.Reevaluate(b.Context(), snapshot(b, s.NodeCache), report)
					}
				}
				pairs(b, n, func() (_ *predicates.Report, err error) {
					s.change(b)
					report, err = judge()
					return report, err
				})
			})
		}
	}
}

// BenchmarkJudgeClusters is the judgment of one workload on 100 clusters, and how they become nodes.
func BenchmarkJudgeClusters(b *testing.B) {
	const n = 100
	clusters := map[string]map[string]any{}
	for i := range n {
		clusters[fmt.Sprintf("cluster-%d", i)] = map[string]any{
			"labels":     map[string]any{"env": "prod", "tier": []any{"gold", "silver"}[i%2]},
			"properties": map[string]any{"kubernetes-fleet.io/node-count": "3"},
			"taints":     []any{map[string]any{"key": "maintenance", "value": "yes", "effect": "NoSelect"}},
			"ready":      i%10 > 0, "region": "eu-1", "zones": []any{"eu-1a"},
			"allocatable": map[string]any{"cpu": "60", "memory": "250Gi"}, "allocated": map[string]any{"cpu": "40", "memory": "20Gi"},
		}
	}
	set, p := allPredicates(b), place(b, "Plain")
	p.Replicas = 10
	s := predicates.ClusterSnapshot(clusters)
	b.Run(fmt.Sprintf("clusters=%d/part=Judge", n), func(b *testing.B) {
		pairs(b, n, func() (*predicates.Report, error) {
			return set.Evaluate(b.Context(), s, p, predicates.Query{Kind: predicates.Clusters})
		})
	})
	b.Run(fmt.Sprintf("clusters=%d/part=Snapshot", n), func(b *testing.B) {
		measure(b, func(int) { predicates.ClusterSnapshot(clusters) })
	})
}

// BenchmarkHeapOfWorld is what the heap holds of nodes and of pods, with a snapshot.
func BenchmarkHeapOfWorld(b *testing.B) {
	const n = 1000
	for _, per := range []string{"node", "pod"} {
		b.Run("per="+per, func(b *testing.B) {
			for b.Loop() {
				w, objects, before := predicates.NewNodeCache(), n, heap()
				fill(w, namespaces, 0, namespace)
				fill(w, nodes, n, node)
				if per == "pod" {
					objects, before = n*podsPerNode, heap()
					fill(w, pods, objects, pod)
				} else {
					fill(w, pods, 0, pod)
				}
				s := snapshot(b, w)
				walked(b, s)
				b.ReportMetric(float64(heap()-before)/float64(objects), "heap-B/"+per)
				runtime.KeepAlive(s)
			}
		})
	}
}
