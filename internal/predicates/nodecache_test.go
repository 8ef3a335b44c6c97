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

package predicates

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/test/budget"
)

// kept holds everything that predicates read of one node, in a comparable form.
type kept struct {
	Labels                       map[string]string
	Taints                       []corev1.Taint
	Unschedulable                bool
	Allocatable, Requested       map[string]int64
	NonZeroCPU, NonZeroMemory    int64
	Ports, Claims, Features      []string
	Pods, Affinity, AntiAffinity []string
}

func quantitiesOf(r fwk.Resource) map[string]int64 {
	out := map[string]int64{
		"cpu": r.GetMilliCPU(), "memory": r.GetMemory(), "storage": r.GetEphemeralStorage(), "pods": int64(r.GetAllowedPodNumber()),
	}
	for name, quantity := range r.GetScalarResources() {
		out[string(name)] = quantity
	}
	// Quantities of removed pods may remain as zeros.
	maps.DeleteFunc(out, func(_ string, quantity int64) bool { return quantity == 0 })
	return out
}

func podsOf(infos []fwk.PodInfo) []string {
	var out []string
	for _, info := range infos {
		p := info.GetPod()
		r := info.CalculateResource()
		out = append(out, fmt.Sprintf("%s/%s labels=%v going=%t resources=%v/%d/%d terms=%v %v", p.Namespace, p.Name, p.Labels,
			p.DeletionTimestamp != nil, quantitiesOf(r.Resource), r.Non0CPU, r.Non0Mem, info.GetRequiredAffinityTerms(), info.GetRequiredAntiAffinityTerms()))
	}
	slices.Sort(out)
	return out
}

func keptOf(info fwk.NodeInfo) kept {
	k := kept{
		Labels: info.Node().Labels, Unschedulable: info.Node().Spec.Unschedulable,
		Allocatable: quantitiesOf(info.GetAllocatable()), Requested: quantitiesOf(info.GetRequested()),
		NonZeroCPU: info.GetNonZeroRequested().GetMilliCPU(), NonZeroMemory: info.GetNonZeroRequested().GetMemory(),
		Pods: podsOf(info.GetPods()), Affinity: podsOf(info.GetPodsWithAffinity()), AntiAffinity: podsOf(info.GetPodsWithRequiredAntiAffinity()),
		Features: []string{fmt.Sprint(info.GetNodeDeclaredFeatures())},
	}
	for _, taint := range info.Node().Spec.Taints {
		taint.TimeAdded = nil
		k.Taints = append(k.Taints, taint)
	}
	for ip, ports := range info.GetUsedPorts() {
		for port := range ports {
			k.Ports = append(k.Ports, fmt.Sprint(ip, port))
		}
	}
	for claim, pods := range info.GetPVCRefCounts() {
		k.Claims = append(k.Claims, fmt.Sprint(claim, pods))
	}
	slices.Sort(k.Ports)
	slices.Sort(k.Claims)
	return k
}

// shown holds everything that predicates read of a snapshot, in a comparable form.
type shown struct {
	Nodes                  map[string]kept
	Affinity, AntiAffinity []string
}

func shownBy(t testing.TB, lister fwk.SharedLister) shown {
	t.Helper()
	w := shown{Nodes: map[string]kept{}}
	lists := lister.NodeInfos()
	all, err := lists.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range all {
		name := info.Node().Name
		w.Nodes[name] = keptOf(info)
		if got, err := lists.Get(name); err != nil || got != info {
			t.Fatalf("Get(%q) is %v, %v", name, got, err)
		}
		for claim := range info.GetPVCRefCounts() {
			if !lister.StorageInfos().IsPVCUsedByPods(claim) {
				t.Fatalf("claim %s is not in use", claim)
			}
		}
	}
	for list, get := range map[*[]string]func() ([]fwk.NodeInfo, error){
		&w.Affinity: lists.HavePodsWithAffinityList, &w.AntiAffinity: lists.HavePodsWithRequiredAntiAffinityList,
	} {
		infos, err := get()
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range infos {
			if same, err := lists.Get(info.Node().Name); err != nil || same != info {
				t.Fatalf("the lists have another %s than Get: %v", info.Node().Name, err)
			}
			*list = append(*list, info.Node().Name)
		}
		slices.Sort(*list)
	}
	return w
}

func mustSnapshot(t testing.TB, w *NodeCache) *Snapshot {
	t.Helper()
	s, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// objects are the objects of an API server, by resource type and name.
type objects map[schema.GroupVersionResource]map[string]*unstructured.Unstructured

func typed[T any](t testing.TB, o *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// rebuilt returns the scheduler's own snapshot of the complete objects, with the pods that its informer and cache would
// have.
func (o objects) rebuilt(t testing.TB, without func(*corev1.Pod) bool) shown {
	t.Helper()
	var nodes []*corev1.Node
	for _, n := range o[nodeResource] {
		nodes = append(nodes, typed[corev1.Node](t, n))
	}
	var pods []*corev1.Pod
	for _, object := range o[podResource] {
		p := typed[corev1.Pod](t, object)
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || without(p) {
			continue
		}
		if _, known := o[nodeResource]["/"+p.Spec.NodeName]; known {
			pods = append(pods, p)
		}
	}
	return shownBy(t, cache.NewSnapshot(pods, nodes))
}

func all(*corev1.Pod) bool { return false }

// random generates objects with fields that predicates read, and with other fields.
type random struct{ *rand.Rand }

func seeded(seed uint64) random { return random{rand.New(rand.NewPCG(seed, seed))} }

func pick[T any](r random, from ...T) T { return from[r.IntN(len(from))] }

func (r random) labels() map[string]any {
	return map[string]any{"app": pick(r, "a", "b"), "zone": pick(r, "x", "y", "z")}
}

func (r random) resources() map[string]any {
	out := map[string]any{"cpu": pick(r, "100m", "1", "1500m"), "memory": pick(r, "1Gi", "100M")}
	if r.IntN(3) == 0 {
		out["example.com/gpu"] = pick(r, "1", "2")
	}
	return out
}

func (r random) node(name string) *unstructured.Unstructured {
	o := map[string]any{
		"metadata": map[string]any{"name": name, "labels": r.labels(), "resourceVersion": fmt.Sprint(r.IntN(100))},
		"spec":     map[string]any{"podCIDR": "10.0.0.0/24"},
		"status": map[string]any{
			"allocatable": map[string]any{"cpu": pick(r, "4", "8"), "memory": "16Gi", "pods": "110", "example.com/gpu": "4"},
			"conditions":  []any{map[string]any{"type": "Ready", "status": pick(r, "True", "False")}},
		},
	}
	if r.IntN(3) == 0 {
		o["spec"].(map[string]any)["taints"] = []any{map[string]any{"key": "k", "effect": pick(r, "NoSchedule", "NoExecute")}}
	}
	if r.IntN(3) == 0 {
		o["spec"].(map[string]any)["unschedulable"] = true
	}
	return &unstructured.Unstructured{Object: o}
}

func (r random) terms() []any {
	return []any{map[string]any{
		"topologyKey": "zone", "labelSelector": map[string]any{"matchLabels": map[string]any{"app": pick(r, "a", "b")}},
	}}
}

func (r random) container(name string) map[string]any {
	c := map[string]any{"name": name, "image": "i:" + fmt.Sprint(r.IntN(9))}
	if r.IntN(4) > 0 {
		c["resources"] = map[string]any{"requests": r.resources()}
	}
	if r.IntN(3) == 0 {
		c["ports"] = []any{
			map[string]any{"containerPort": int64(80), "protocol": "TCP"},
			map[string]any{"containerPort": int64(81), "hostPort": int64(8080 + r.IntN(3)), "protocol": pick(r, "TCP", "UDP")},
		}
	}
	return c
}

func (r random) status(name string) map[string]any {
	s := map[string]any{"name": name, "ready": r.IntN(2) == 0}
	if r.IntN(2) == 0 {
		s["resources"] = map[string]any{"requests": r.resources()}
		s["allocatedResources"] = r.resources()
	}
	return s
}

func (r random) pod(namespace, name string, onto ...string) *unstructured.Unstructured {
	spec := map[string]any{"containers": []any{r.container("c")}}
	status := map[string]any{
		"phase":             pick(r, "Pending", "Running", "Running", "Running", "Succeeded", "Failed"),
		"containerStatuses": []any{r.status("c")},
		"conditions": []any{
			map[string]any{"type": "Ready", "status": "False", "reason": pick(r, "x", "y")},
		},
	}
	if node := pick(r, onto...); node != "" {
		spec["nodeName"] = node
	}
	if r.IntN(3) == 0 {
		status["conditions"] = append(status["conditions"].([]any), map[string]any{"type": "PodResizePending", "reason": pick(r, "Infeasible", "Deferred")})
	}
	if r.IntN(3) == 0 {
		c := r.container("i")
		if r.IntN(2) == 0 {
			c["restartPolicy"] = "Always"
		}
		spec["initContainers"] = []any{c}
		status["initContainerStatuses"] = []any{r.status("i")}
	}
	if r.IntN(4) == 0 {
		spec["overhead"] = r.resources()
	}
	if r.IntN(4) == 0 {
		spec["resources"] = map[string]any{"requests": map[string]any{"cpu": "3"}}
		status["resources"] = map[string]any{"requests": map[string]any{"cpu": pick(r, "2", "4")}}
		status["allocatedResources"] = map[string]any{"cpu": pick(r, "1", "5")}
	}
	if r.IntN(3) == 0 {
		spec["affinity"] = map[string]any{
			"nodeAffinity": map[string]any{},
			pick(r, "podAffinity", "podAntiAffinity"): map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": r.terms()},
		}
	}
	if r.IntN(3) == 0 {
		spec["volumes"] = []any{
			map[string]any{"name": "v", "persistentVolumeClaim": map[string]any{"claimName": pick(r, "c", "d")}},
			map[string]any{"name": "w", "emptyDir": map[string]any{}},
		}
	}
	meta := map[string]any{
		"namespace": namespace, "name": name, "uid": fmt.Sprint(namespace, "-", name, "-", r.IntN(2)), "labels": r.labels(),
		"annotations": map[string]any{"seen": fmt.Sprint(r.IntN(1000))},
	}
	if r.IntN(5) == 0 {
		meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	}
	return &unstructured.Unstructured{Object: map[string]any{"metadata": meta, "spec": spec, "status": status}}
}

func (r random) namespace(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": name, "labels": r.labels(), "annotations": map[string]any{"a": fmt.Sprint(r.IntN(1000))}},
	}}
}

// unseen changes fields that no predicate reads.
func (r random) unseen(resource schema.GroupVersionResource, o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	o.SetAnnotations(map[string]string{"now": fmt.Sprint(r.Uint64())})
	o.SetResourceVersion(fmt.Sprint(r.Uint64()))
	if resource == podResource {
		if err := unstructured.SetNestedField(o.Object, fmt.Sprint("10.0.0.", r.IntN(200)), "status", "podIP"); err != nil {
			panic(err)
		}
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == "Ready" {
				c["reason"] = fmt.Sprint(r.Uint64())
			}
		}
		if err := unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions"); err != nil {
			panic(err)
		}
	}
	return o
}

var (
	someNodes      = []string{"node-a", "node-b", "node-c", "node-d"}
	someNamespaces = []string{"one", "two"}
	somePods       = []string{"p", "q", "r", "s", "t"}
)

func (r random) object(resource schema.GroupVersionResource) *unstructured.Unstructured {
	switch resource {
	case nodeResource:
		return r.node(pick(r, someNodes...))
	case podResource:
		return r.pod(pick(r, someNamespaces...), pick(r, somePods...), append(someNodes, "")...)
	default:
		return r.namespace(pick(r, someNamespaces...))
	}
}

func key(o *unstructured.Unstructured) string { return o.GetNamespace() + "/" + o.GetName() }

// history is a world together with the objects that it should contain.
type history struct {
	random
	world   *NodeCache
	objects objects
	loaded  map[schema.GroupVersionResource]bool
}

func newHistory(seed uint64) *history {
	h := &history{random: seeded(seed), world: NewNodeCache(), objects: objects{}, loaded: map[schema.GroupVersionResource]bool{}}
	for resource := range Reads() {
		h.objects[resource] = map[string]*unstructured.Unstructured{}
	}
	return h
}

// step applies a random event. It returns a description, whether the world reported a change, and whether a predicate
// can see one; nil if only a comparison can tell.
func (h *history) step() (what string, changed bool, visible *bool) {
	resource := pick(h.random, nodeResource, podResource, podResource, podResource, namespaceResource)
	there := h.objects[resource]
	no := false
	switch roll := h.IntN(40); {
	case roll == 0 || !h.loaded[resource]:
		var list []*unstructured.Unstructured
		next := map[string]*unstructured.Unstructured{}
		for range h.IntN(12) {
			o := h.object(resource)
			// Half of the existing objects do not change.
			if old, ok := there[key(o)]; ok && h.IntN(2) == 0 {
				o = old
			}
			next[key(o)] = o
			list = append(list, o)
		}
		h.objects[resource] = next
		h.loaded[resource] = true
		return fmt.Sprint("load ", resource.Resource), h.world.Load(resource, list), nil
	case roll == 1:
		h.objects[resource] = map[string]*unstructured.Unstructured{}
		delete(h.loaded, resource)
		return fmt.Sprint("drop ", resource.Resource), h.world.Drop(resource), nil
	case roll < 10 && len(there) > 0:
		name := pick(h.random, slices.Sorted(maps.Keys(there))...)
		o := h.unseen(resource, there[name])
		there[name] = o
		return fmt.Sprint("touch ", resource.Resource, " ", name), h.world.Put(resource, o), &no
	case roll < 20:
		o := h.object(resource)
		delete(there, key(o))
		return fmt.Sprint("delete ", resource.Resource, " ", key(o)), h.world.Delete(resource, o.GetNamespace(), o.GetName()), nil
	default:
		o := h.object(resource)
		there[key(o)] = o
		return fmt.Sprint("put ", resource.Resource, " ", key(o)), h.world.Put(resource, o), nil
	}
}

// TestWorldIsAsIfRebuilt checks that a world always equals the scheduler's snapshot built from the same objects, and
// that earlier snapshots do not change.
func TestWorldIsAsIfRebuilt(t *testing.T) {
	for seed := range uint64(budget.Rounds(3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newHistory(seed)
			type given struct {
				snapshot *Snapshot
				shown    shown
			}
			var past []given
			var before shown
			var steps []string
			for i := range 200 {
				revision := h.world.Revision()
				what, changed, visible := h.step()
				steps = append(steps, what)
				if visible != nil && changed != *visible {
					t.Fatalf("step %d (%s): changed is %t", i, what, changed)
				}
				if got := h.world.Revision(); len(h.loaded) == len(Reads()) && (got == 0 || revision != 0 && (got > revision) != changed) ||
					len(h.loaded) < len(Reads()) && got != 0 {
					t.Fatalf("step %d (%s): revision %d after %d, changed is %t", i, what, got, revision, changed)
				}
				if len(h.loaded) < len(Reads()) {
					if s, err := h.world.Snapshot(); err == nil {
						t.Fatalf("step %d (%s): a snapshot %v of an incomplete world", i, what, s)
					}
					before = shown{}
					continue
				}
				want := h.objects.rebuilt(t, all)
				if !changed && before.Nodes != nil && !cmp.Equal(before, want) {
					t.Fatalf("step %d (%s): this was not seen: %s", i, what, cmp.Diff(before, want))
				}
				before = want
				// Apply some changes without a snapshot in between.
				if h.IntN(3) == 0 {
					continue
				}
				s := mustSnapshot(t, h.world)
				if diff := cmp.Diff(want, shownBy(t, s), cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("step %d: after %s (-want +got):\n%s", i, strings.Join(steps, ", "), diff)
				}
				if s.Revision() != h.world.Revision() || s.Len() != len(want.Nodes) {
					t.Fatalf("step %d: revision %d of %d, %d nodes of %d", i, s.Revision(), h.world.Revision(), s.Len(), len(want.Nodes))
				}
				past = append(past, given{s, shownBy(t, s)})
				h.checkNamespaces(t, s)
				h.checkWithout(t, s)
			}
			for _, g := range past {
				if diff := cmp.Diff(g.shown, shownBy(t, g.snapshot)); diff != "" {
					t.Fatalf("revision %d changed:\n%s", g.snapshot.Revision(), diff)
				}
			}
		})
	}
}

func (h *history) checkNamespaces(t *testing.T, s *Snapshot) {
	t.Helper()
	want, got := map[string]map[string]string{}, map[string]map[string]string{}
	for _, o := range h.objects[namespaceResource] {
		want[o.GetName()] = o.GetLabels()
	}
	for _, n := range s.namespaces {
		got[n.Name] = n.Labels
		if same, ok := s.namespace(n.Name); !ok || same != n {
			t.Fatalf("namespace %s is not found", n.Name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("namespaces (-want +got):\n%s", diff)
	}
}

// checkWithout compares a snapshot without some pods with one that is built without them.
func (h *history) checkWithout(t *testing.T, s *Snapshot) {
	t.Helper()
	namespace, name := pick(h.random, someNamespaces...), pick(h.random, append(somePods, "")...)
	own := pick(h.random, nil, labels.Everything(), labels.SelectorFromSet(labels.Set{"app": "a"}), labels.SelectorFromSet(labels.Set{"app": "c"}))
	gone := func(p *corev1.Pod) bool {
		return p.Namespace == namespace && (p.Name == name || own != nil && own.Matches(labels.Set(p.Labels)))
	}
	without := s.without(namespace, own, name)
	if diff := cmp.Diff(h.objects.rebuilt(t, gone), shownBy(t, without), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("without %s/%s and %v (-want +got):\n%s", namespace, name, own, diff)
	}
	for i, info := range s.infos {
		hosts := slices.ContainsFunc(info.GetPods(), func(p fwk.PodInfo) bool { return gone(p.GetPod()) })
		if (info == without.infos[i]) == hosts {
			t.Fatalf("%s is the same: %t", info.Node().Name, !hosts)
		}
	}
}

// TestWorldIsReadWhileItChanges reads snapshots while the world changes, for the race detector.
func TestWorldIsReadWhileItChanges(t *testing.T) {
	h := newHistory(1)
	for resource := range Reads() {
		h.world.Load(resource, nil)
		h.loaded[resource] = true
	}
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		readers.Go(func() {
			for last := uint64(0); ; {
				select {
				case <-stop:
					return
				default:
				}
				s, err := h.world.Snapshot()
				if err != nil || s.Revision() < last {
					t.Errorf("revision %d after %d: %v", s.Revision(), last, err)
					return
				}
				last = s.Revision()
				shownBy(t, s)
				shownBy(t, s.without("one", labels.Everything(), ""))
				_, _ = h.world.Size(podResource)
				_ = h.world.Revision() + uint64(i)
			}
		})
	}
	var writers sync.WaitGroup
	for resource := range Reads() {
		r := seeded(uint64(len(resource.Resource)))
		writers.Go(func() {
			for range budget.Rounds(300) {
				o := r.object(resource)
				switch r.IntN(10) {
				case 0:
					h.world.Load(resource, []*unstructured.Unstructured{o, r.object(resource)})
				case 1, 2:
					h.world.Delete(resource, o.GetNamespace(), o.GetName())
				default:
					h.world.Put(resource, o)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
}

func parsed(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

const (
	oneNode = `{metadata: {name: node-a}, status: {allocatable: {cpu: "4", pods: "10"}}}`
	onePod  = `{metadata: {name: p, namespace: d}, spec: {nodeName: node-a, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}`
)

// completed returns a complete world with these objects.
func completed(t testing.TB, nodes, pods []string) *NodeCache {
	t.Helper()
	w := NewNodeCache()
	w.Load(namespaceResource, nil)
	for resource, texts := range map[schema.GroupVersionResource][]string{nodeResource: nodes, podResource: pods} {
		var list []*unstructured.Unstructured
		for _, text := range texts {
			list = append(list, parsed(t, text))
		}
		w.Load(resource, list)
	}
	return w
}

// requested returns the CPU requests of the pods on a node in millicores; -1 if there is no such node.
func requested(t testing.TB, w *NodeCache, node string) int64 {
	t.Helper()
	info, err := mustSnapshot(t, w).Get(node)
	if err != nil {
		return -1
	}
	return info.GetRequested().GetMilliCPU()
}

func TestWorldIsCompleteOnceAllTypesAre(t *testing.T) {
	w := NewNodeCache()
	for i, missing := range []string{"namespaces, nodes, pods: not complete", "nodes, pods: not complete", "pods: not complete", ""} {
		if _, err := w.Snapshot(); missing != "" && (err == nil || err.Error() != missing || w.Revision() != 0) || missing == "" && (err != nil || w.Revision() == 0) {
			t.Errorf("%v, revision %d; want %q", err, w.Revision(), missing)
		}
		if next := []schema.GroupVersionResource{namespaceResource, nodeResource, podResource}; i < len(next) && !w.Load(next[i], nil) {
			t.Error("a type that comes changes nothing")
		}
	}
	if _, ok := w.Size(podResource); !ok {
		t.Error("pods have no size")
	}
	if !w.Drop(podResource) || w.Drop(podResource) || w.Put(podResource, parsed(t, onePod)) {
		t.Error("what was dropped is there")
	}
	if _, ok := w.Size(podResource); ok {
		t.Error("what was dropped has a size")
	}
	other := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	if w.Load(other, nil) || w.Put(other, parsed(t, onePod)) || w.Delete(other, "d", "p") || w.Drop(other) {
		t.Error("a type that no predicate looks at changes something")
	}
}

func TestPodBeforeItsNode(t *testing.T) {
	w := completed(t, nil, nil)
	if w.Put(podResource, parsed(t, onePod)) {
		t.Error("a pod is seen before its node")
	}
	if !w.Put(nodeResource, parsed(t, oneNode)) || requested(t, w, "node-a") != 1000 {
		t.Error("the pod is not there once its node is")
	}
	if !w.Delete(nodeResource, "", "node-a") || requested(t, w, "node-a") != -1 {
		t.Error("the node is there still")
	}
	if !w.Put(nodeResource, parsed(t, oneNode)) || requested(t, w, "node-a") != 1000 {
		t.Error("the pod is forgotten with its node")
	}
	if !w.Delete(podResource, "d", "p") || requested(t, w, "node-a") != 0 || w.Delete(podResource, "d", "p") {
		t.Error("the pod is not gone")
	}
}

func TestPodsThatEndLeaveTheirNode(t *testing.T) {
	for _, phase := range []string{"Succeeded", "Failed"} {
		w := completed(t, []string{oneNode}, []string{onePod})
		o := parsed(t, onePod)
		o.Object["status"] = map[string]any{"phase": phase}
		if !w.Put(podResource, o) || requested(t, w, "node-a") != 0 {
			t.Errorf("a pod is there that has %s", phase)
		}
		if n, ok := w.Size(podResource); n != 0 || !ok {
			t.Errorf("%d pods are counted", n)
		}
	}
}

// TestWorldLeavesOutWhatIsNoObject checks that objects which the API server would reject count as absent, and replace
// an earlier object of the same name.
func TestWorldLeavesOutWhatIsNoObject(t *testing.T) {
	for _, broken := range []string{
		`{metadata: {name: p, namespace: d, deletionTimestamp: soon}, spec: {nodeName: node-a}}`,
		`{metadata: {name: p, namespace: d, labels: [a]}, spec: {nodeName: node-a}}`,
		`{metadata: {name: p, namespace: d}, spec: {nodeName: node-a, containers: [1]}}`,
		`{metadata: {name: p, namespace: d}, spec: {nodeName: node-a, containers: [{name: c, resources: {requests: {cpu: much}}}]}}`,
		`{metadata: {name: p, namespace: d}, spec: {nodeName: [node-a]}}`,
		`{metadata: {name: p, namespace: d}, spec: 1}`,
	} {
		w := completed(t, []string{oneNode}, []string{onePod})
		if !w.Put(podResource, parsed(t, broken)) || requested(t, w, "node-a") != 0 {
			t.Errorf("%s is there", broken)
		}
	}
	w := completed(t, []string{oneNode}, []string{onePod})
	if !w.Put(nodeResource, parsed(t, `{metadata: {name: node-a}, status: {allocatable: 1}}`)) || requested(t, w, "node-a") != -1 {
		t.Error("a node is there that is none")
	}
	if w.Put(nodeResource, parsed(t, `{metadata: {}}`)) {
		t.Error("a node is there without a name")
	}
}

// TestLoadTakesTheLastOfAName checks that the last of several objects of one name counts, as if they had been put in
// order.
func TestLoadTakesTheLastOfAName(t *testing.T) {
	other := strings.Replace(onePod, `"1"`, `"2"`, 1)
	w := completed(t, []string{oneNode}, []string{onePod, other})
	if got := requested(t, w, "node-a"); got != 2000 {
		t.Errorf("%d are requested", got)
	}
	if w.Load(podResource, []*unstructured.Unstructured{parsed(t, onePod), parsed(t, other)}) {
		t.Error("what is there already changes something")
	}
	if !w.Load(podResource, []*unstructured.Unstructured{parsed(t, other), parsed(t, onePod)}) || requested(t, w, "node-a") != 1000 {
		t.Error("what is there already counts more than what comes")
	}
}

// TestSnapshotsShareWhatStays checks that a change replaces one NodeInfo, and that snapshots are identical without
// changes.
func TestSnapshotsShareWhatStays(t *testing.T) {
	nodes := []string{oneNode, strings.ReplaceAll(oneNode, "node-a", "node-b")}
	w := completed(t, nodes, []string{onePod})
	before := mustSnapshot(t, w)
	if w.Put(podResource, parsed(t, onePod)) || mustSnapshot(t, w) != before {
		t.Error("there is another snapshot of the same")
	}
	if !w.Delete(podResource, "d", "p") {
		t.Error("the pod is there still")
	}
	after := mustSnapshot(t, w)
	if after.infos[0] == before.infos[0] || after.infos[1] != before.infos[1] || &after.names[0] != &before.names[0] {
		t.Error("snapshots share what changed, or do not share what did not")
	}
}

// TestReplicasShareTheirShape checks that replicas share their resources, ports, and terms, which take most of the
// memory.
func TestReplicasShareTheirShape(t *testing.T) {
	w := completed(t, []string{oneNode}, []string{onePod, strings.Replace(onePod, "name: p", "name: q", 1)})
	var shapes []*shape
	w.pods.Ascend(func(r record) bool {
		shapes = append(shapes, r.pod.shape)
		return true
	})
	if len(shapes) != 2 || shapes[0] != shapes[1] {
		t.Error("replicas are kept twice")
	}
}
