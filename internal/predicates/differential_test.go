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

package predicates_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/predicates/predicatestest"
	"github.com/berth-dev/berth/internal/workload"
	"github.com/berth-dev/berth/test/budget"
)

// The tests compare with the scheduler's framework. It uses the scheduler's own snapshot, which is rebuilt from the
// complete objects for each evaluation. For a comparison with a real kube-scheduler, see
// test/integration/schedulerdifferential.

// defaults returns kube-scheduler's default profile without plugins that do not filter, and without the filters that
// Default omits, which need more than nodes, pods, and namespaces.
func defaults(t testing.TB, set *predicates.Set) *schedulerconfig.KubeSchedulerProfile {
	t.Helper()
	config, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	profile := config.Profiles[0]
	chosen := &schedulerconfig.Plugins{}
	chosen.QueueSort.Enabled = []schedulerconfig.Plugin{{Name: names.PrioritySort}}
	chosen.Bind.Enabled = []schedulerconfig.Plugin{{Name: names.DefaultBinder}}
	prepares := []string{names.NodeAffinity, names.NodePorts, names.NodeResourcesFit, names.PodTopologySpread, names.InterPodAffinity}
	for _, plugin := range profile.Plugins.MultiPoint.Enabled {
		if !slices.Contains(set.Names(), plugin.Name) {
			continue
		}
		chosen.Filter.Enabled = append(chosen.Filter.Enabled, plugin)
		if slices.Contains(prepares, plugin.Name) {
			chosen.PreFilter.Enabled = append(chosen.PreFilter.Enabled, plugin)
		}
	}
	if got, want := len(chosen.Filter.Enabled), len(set.Names()); got != want || want != 8 {
		t.Fatalf("%d of %d predicates are in the scheduler's default profile", got, want)
	}
	profile.Plugins = chosen
	return &profile
}

// oracle evaluates pods as kube-scheduler does.
type oracle struct {
	framework.Framework
	snapshot *cache.Snapshot
}

func newOracle(t testing.TB, profile *schedulerconfig.KubeSchedulerProfile, w predicatestest.World) oracle {
	t.Helper()
	var present []*corev1.Pod
	for _, pod := range w.Pods {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if !ended && slices.ContainsFunc(w.Nodes, func(n *corev1.Node) bool { return n.Name == pod.Spec.NodeName }) {
			present = append(present, pod)
		}
	}
	snapshot := cache.NewSnapshot(present, w.Nodes)
	factory := informers.NewSharedInformerFactory(nil, 0)
	for _, namespace := range w.Namespaces {
		if err := factory.Core().V1().Namespaces().Informer().GetIndexer().Add(namespace); err != nil {
			t.Fatal(err)
		}
	}
	f, err := frameworkruntime.NewFramework(t.Context(), plugins.NewInTreeRegistry(), profile,
		frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithInformerFactory(factory))
	if err != nil {
		t.Fatal(err)
	}
	return oracle{f, snapshot}
}

// judge returns verdicts without replica counts.
func (o oracle) judge(t testing.TB, pod *corev1.Pod) map[string]predicates.Verdict {
	t.Helper()
	state := framework.NewCycleState()
	allowed, whole, by := o.RunPreFilterPlugins(t.Context(), state, pod)
	if !whole.IsSuccess() && !whole.IsRejected() {
		t.Fatal(whole.AsError())
	}
	infos, err := o.snapshot.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]predicates.Verdict{}
	for _, info := range infos {
		name := info.Node().Name
		status := whole
		switch {
		case !whole.IsSuccess():
		case !allowed.AllNodes() && !allowed.NodeNames.Has(name):
			// This is the message of findNodesThatFitPod.
			status = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", slices.Sorted(maps.Keys(by))))
			status.SetPlugin(strings.Join(slices.Sorted(maps.Keys(by)), ","))
		default:
			status = o.RunFilterPlugins(t.Context(), state, pod, info)
		}
		if !status.IsSuccess() && !status.IsRejected() {
			t.Fatal(status.AsError())
		}
		out[name] = predicates.Verdict{Name: name, Outcome: &predicates.Outcome{Feasible: true}}
		if !status.IsSuccess() {
			out[name] = predicates.Verdict{Name: name, Outcome: &predicates.Outcome{
				Predicate: status.Plugin(), Reasons: status.Reasons(), Preemption: status.Code() == fwk.Unschedulable,
			}}
		}
	}
	return out
}

// verdicts returns all verdicts on a workload, including replica counts.
func verdicts(t testing.TB, profile *schedulerconfig.KubeSchedulerProfile, w predicatestest.World, of workload.Workload) []predicates.Verdict {
	t.Helper()
	others := slices.DeleteFunc(slices.Clone(w.Pods), func(pod *corev1.Pod) bool {
		return pod.Namespace == of.Pod.Namespace &&
			(pod.Name == of.Name || of.Own != nil && of.Own.Matches(labels.Set(pod.Labels)))
	})
	w.Pods = others
	all := newOracle(t, profile, w).judge(t, of.Pod)
	var out []predicates.Verdict
	for _, name := range slices.Sorted(maps.Keys(all)) {
		v := all[name]
		for fits := v.Feasible; fits; {
			v.Replicas++
			if v.Replicas == of.Replicas {
				break
			}
			replica := of.Pod.DeepCopy()
			replica.Name = fmt.Sprintf("%s-replica-%d", replica.Name, v.Replicas)
			replica.UID, replica.Spec.NodeName = types.UID(replica.Name), name
			w.Pods = append(w.Pods, replica)
			fits = newOracle(t, profile, w).judge(t, of.Pod)[name].Feasible
		}
		w.Pods = others
		out = append(out, v)
	}
	return out
}

// cut converts an object of the API server to what a NodeCache gets.
func cut(t testing.TB, resource schema.GroupVersionResource, o runtime.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	// Encode and decode as JSON, so that numbers have the same types as in objects from the API server.
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: predicates.Reads()[resource].Project(out)}
}

var (
	nodeResource      = corev1.SchemeGroupVersion.WithResource("nodes")
	podResource       = corev1.SchemeGroupVersion.WithResource("pods")
	namespaceResource = corev1.SchemeGroupVersion.WithResource("namespaces")
)

func cutAll[T runtime.Object](t testing.TB, resource schema.GroupVersionResource, objects []T) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for _, o := range objects {
		out = append(out, cut(t, resource, o))
	}
	return out
}

// match is a comparison on one world that changes, with the workloads to evaluate.
type match struct {
	rng       *rand.Rand
	generator *predicatestest.Generator
	profile   *schedulerconfig.KubeSchedulerProfile
	set       *predicates.Set
	objects   predicatestest.World
	world     *predicates.NodeCache
	// covered counts verdicts by reason.
	covered map[string]int
}

// play compares verdicts on a generated world, and again after each of several changes.
func (m *match) play(t testing.TB) {
	t.Helper()
	m.generator = predicatestest.New(m.rng, "")
	m.objects = m.generator.World(m.rng.IntN(7))
	m.world = predicates.NewNodeCache()
	m.world.Load(nodeResource, cutAll(t, nodeResource, m.objects.Nodes))
	m.world.Load(podResource, cutAll(t, podResource, m.objects.Pods))
	m.world.Load(namespaceResource, cutAll(t, namespaceResource, m.objects.Namespaces))
	var judged []workload.Workload
	var reports []*predicates.Report
	for range 3 {
		of := m.workload()
		report, err := m.set.Evaluate(t.Context(), m.snapshot(t), of, predicates.Query{Kind: predicates.Nodes})
		if err != nil {
			t.Fatalf("%v\n%s", err, show(t, of.Pod))
		}
		m.compare(t, of, report)
		if again, err := m.set.Evaluate(t.Context(), m.snapshot(t), of, predicates.Query{Kind: predicates.Nodes}); err != nil || !cmp.Equal(report.Verdicts, again.Verdicts) {
			t.Fatalf("judged once more: %v\n%s", err, cmp.Diff(report.Verdicts, again.Verdicts))
		}
		judged, reports = append(judged, of), append(reports, report)
		m.change(t)
		for i, old := range reports {
			next, err := m.set.Reevaluate(t.Context(), m.snapshot(t), old)
			if err != nil {
				t.Fatal(err)
			}
			if same := cmp.Equal(old.Verdicts, next.Verdicts); same != (old == next) {
				t.Fatalf("the verdicts are the same: %t; the report is the same: %t", same, old == next)
			}
			reports[i] = next
			m.compare(t, judged[i], next)
		}
	}
}

func (m *match) snapshot(t testing.TB) *predicates.Snapshot {
	t.Helper()
	s, err := m.world.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// workload returns a workload for a generated pod. The pod may already be on a node, and the workload may have other
// pods.
func (m *match) workload() workload.Workload {
	of := workload.Workload{Pod: m.generator.Pod(), Replicas: 1 + m.rng.IntN(4)}
	switch n := m.rng.IntN(10); {
	case n < 2 && len(m.objects.Pods) > 0:
		of.Pod = m.objects.Pods[m.rng.IntN(len(m.objects.Pods))].DeepCopy()
		of.Name, of.Replicas = of.Pod.Name, 1
	case n < 5:
		of.Own = labels.SelectorFromSet(of.Pod.Labels)
	case n < 6 && len(m.objects.Nodes) > 0:
		of.Pod.Spec.NodeName = m.objects.Nodes[m.rng.IntN(len(m.objects.Nodes))].Name
	}
	// With an empty selector, PodTopologySpread does not count existing pods when it prepares (countPodsMatchSelector),
	// but it counts each added pod (updateWithPod). The replica count is found by adding pods, so such workloads have
	// one replica.
	if slices.ContainsFunc(of.Pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.LabelSelector != nil && len(c.LabelSelector.MatchLabels)+len(c.LabelSelector.MatchExpressions) == 0
	}) {
		of.Replicas = 1
	}
	return of
}

func (m *match) compare(t testing.TB, of workload.Workload, report *predicates.Report) {
	t.Helper()
	want := verdicts(t, m.profile, m.objects, of)
	// The scheduler returns the reasons of a node in any order, and only sorts them when it counts them.
	anyOrder := cmpopts.SortSlices(func(a, b string) bool { return a < b })
	if diff := cmp.Diff(want, report.Verdicts, cmpopts.EquateEmpty(), anyOrder); diff != "" {
		t.Fatalf("verdicts (-scheduler +ours):\n%s\n%d replicas, own: %v, name: %q\n%s\non %s", diff, of.Replicas, of.Own, of.Name, show(t, of.Pod), show(t, m.objects))
	}
	for _, v := range report.Verdicts {
		m.covered[v.Predicate]++
		for _, reason := range v.Reasons {
			m.covered[reason]++
		}
		m.covered[fmt.Sprintf("%d of %d replicas", v.Replicas, of.Replicas)]++
	}
}

// change changes some objects, or none.
func (m *match) change(t testing.TB) {
	t.Helper()
	put := func(resource schema.GroupVersionResource, o runtime.Object) {
		m.world.Put(resource, cut(t, resource, o))
	}
	for range m.rng.IntN(3) {
		switch n := m.rng.IntN(8); {
		case n < 2 && len(m.objects.Pods) > 0:
			i := m.rng.IntN(len(m.objects.Pods))
			m.world.Delete(podResource, m.objects.Pods[i].Namespace, m.objects.Pods[i].Name)
			m.objects.Pods = slices.Delete(slices.Clone(m.objects.Pods), i, i+1)
		case n < 4 && len(m.objects.Pods) > 0:
			i := m.rng.IntN(len(m.objects.Pods))
			pod := m.objects.Pods[i].DeepCopy()
			other := m.generator.Running(pod.Spec.NodeName)
			pod.Labels, pod.Status, pod.DeletionTimestamp = other.Labels, other.Status, other.DeletionTimestamp
			m.objects.Pods = slices.Clone(m.objects.Pods)
			m.objects.Pods[i] = pod
			put(podResource, pod)
		case n < 5 && len(m.objects.Nodes) > 0:
			pod := m.generator.Running(m.objects.Nodes[m.rng.IntN(len(m.objects.Nodes))].Name)
			m.objects.Pods = append(slices.Clone(m.objects.Pods), pod)
			put(podResource, pod)
		case n < 6 && len(m.objects.Nodes) > 0:
			i := m.rng.IntN(len(m.objects.Nodes))
			m.objects.Nodes = slices.Clone(m.objects.Nodes)
			m.objects.Nodes[i] = m.generator.Node(m.objects.Nodes[i].Name)
			put(nodeResource, m.objects.Nodes[i])
		case n < 7 && len(m.objects.Nodes) > 1:
			i := m.rng.IntN(len(m.objects.Nodes))
			m.world.Delete(nodeResource, "", m.objects.Nodes[i].Name)
			m.objects.Nodes = slices.Delete(slices.Clone(m.objects.Nodes), i, i+1)
		default:
			m.objects.Namespaces = m.generator.Namespaces()
			for _, namespace := range m.objects.Namespaces {
				put(namespaceResource, namespace)
			}
		}
	}
}

func show(t testing.TB, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func newMatch(t testing.TB) *match {
	t.Helper()
	registry, err := predicates.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	set, err := registry.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	schedulermetrics.InitMetrics()
	return &match{profile: defaults(t, set), set: set, covered: map[string]int{}}
}

func TestVerdictsAreTheSchedulers(t *testing.T) {
	m, seeds := newMatch(t), budget.Rounds(60)
	for seed := range uint64(seeds) {
		m.rng = rand.New(rand.NewPCG(seed, 0))
		m.play(t)
	}
	// The comparison must cover all of these reasons, otherwise it shows too little.
	for _, reason := range []string{
		"NodeName", "node(s) were unschedulable", "node(s) had untolerated taint(s)",
		"node(s) didn't match Pod's node affinity/selector", "node(s) didn't satisfy plugin(s) [NodeAffinity]", "pod affinity terms conflict",
		"node(s) didn't have free ports for the requested pod ports",
		"Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage", "Insufficient example.com/gpu", "Insufficient hugepages-2Mi",
		"node(s) didn't match pod topology spread constraints", "node(s) didn't match pod topology spread constraints (missing required label)",
		"node(s) didn't match pod affinity rules", "node(s) didn't match pod anti-affinity rules", "node(s) didn't satisfy existing pods anti-affinity rules",
		"1 of 1 replicas", "1 of 4 replicas", "2 of 3 replicas", "4 of 4 replicas",
	} {
		if m.covered[reason] < seeds/30 {
			t.Errorf("%q: %d times", reason, m.covered[reason])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.covered)) {
		t.Logf("%6d %s", m.covered[name], name)
	}
}

func FuzzVerdicts(f *testing.F) {
	for seed := range byte(8) {
		f.Add([]byte{seed, 200, 100, 50})
	}
	m := newMatch(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		m := *m
		m.rng, m.covered = rand.New(predicatestest.Source(data)), map[string]int{}
		m.play(t)
	})
}
