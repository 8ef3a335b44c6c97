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

package schedulerdifferential_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/predicates/predicatestest"
)

const (
	// witness is the name of a namespace, of a node and of a pod on it, by which is seen what the scheduler has seen: it
	// gets its changes of one type in their order, and of several types in any. They are part of every world.
	witness = "witness"
	// epochLabel is that of the witnesses, and is changed last of all.
	epochLabel = "test.berth.dev/epoch"

	// parallel is how many requests are made at once.
	parallel = 8
)

var (
	nodes      = corev1.SchemeGroupVersion.WithResource("nodes")
	pods       = corev1.SchemeGroupVersion.WithResource("pods")
	namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
)

var kinds = map[schema.GroupVersionResource]schema.GroupVersionKind{
	nodes:      corev1.SchemeGroupVersion.WithKind("Node"),
	pods:       corev1.SchemeGroupVersion.WithKind("Pod"),
	namespaces: corev1.SchemeGroupVersion.WithKind("Namespace"),
}

// mirror is a predicates.NodeCache of what the API server has.
type mirror struct {
	*predicates.NodeCache
	epoch int
}

// load replaces the world with what the API server has, and reports whether it has changed.
func (m *mirror) load(ctx context.Context) (changed bool) {
	GinkgoHelper()
	reads := predicates.Reads()
	Expect(slices.Collect(maps.Keys(reads))).To(ConsistOf(nodes, pods, namespaces))
	for gvr, fields := range reads {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kinds[gvr])
		Expect(f.Client.List(ctx, list)).To(Succeed())
		var objects []*unstructured.Unstructured
		for _, o := range list.Items {
			objects = append(objects, &unstructured.Unstructured{Object: fields.Project(o.Object)})
		}
		changed = m.Load(gvr, objects) || changed
	}
	return changed
}

// follow tells the world what became of objects that were created, changed or deleted.
func (m *mirror) follow(ctx context.Context, gvr schema.GroupVersionResource, keys ...client.ObjectKey) {
	GinkgoHelper()
	fields := predicates.Reads()[gvr]
	for _, key := range keys {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(kinds[gvr])
		err := f.Client.Get(ctx, key, o)
		if apierrors.IsNotFound(err) {
			m.Delete(gvr, key.Namespace, key.Name)
			continue
		}
		Expect(err).NotTo(HaveOccurred())
		m.Put(gvr, &unstructured.Unstructured{Object: fields.Project(o.Object)})
	}
}

// each does something with all objects, some at once.
func each[T any](ctx context.Context, objects []T, do func(ctx context.Context, o T) error) {
	GinkgoHelper()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, o := range objects {
		group.Go(func() error { return do(ctx, o) })
	}
	Expect(group.Wait()).To(Succeed())
}

// createRunning creates a pod that is on a node, and reports its status.
func createRunning(ctx context.Context, pod *corev1.Pod) error {
	status, deleting := pod.Status, pod.DeletionTimestamp != nil
	pod = pod.DeepCopy()
	if err := f.Client.Create(ctx, pod); err != nil {
		return err
	}
	before := pod.DeepCopy()
	// What the API server says of the pod stays.
	pod.Status.Phase, pod.Status.ContainerStatuses = status.Phase, status.ContainerStatuses
	pod.Status.Conditions = append(pod.Status.Conditions, status.Conditions...)
	if err := f.Client.Status().Patch(ctx, pod, client.MergeFrom(before)); err != nil {
		return err
	}
	if deleting {
		// No kubelet ends it.
		return f.Client.Delete(ctx, pod)
	}
	return nil
}

// begin replaces all nodes and pods there are by those of a generated world.
func (m *mirror) begin(ctx context.Context, w predicatestest.World) {
	GinkgoHelper()
	for _, namespace := range w.Namespaces {
		removeAll(ctx, namespace.Name)
	}
	old := &corev1.NodeList{}
	Expect(f.Client.List(ctx, old)).To(Succeed())
	each(ctx, old.Items, func(ctx context.Context, node corev1.Node) error {
		if node.Name == witness {
			return nil
		}
		return f.Client.Delete(ctx, &node)
	})
	setNamespaces(ctx, w.Namespaces)
	each(ctx, w.Nodes, func(ctx context.Context, node *corev1.Node) error { return f.Client.Create(ctx, node.DeepCopy()) })
	each(ctx, w.Pods, createRunning)
	m.advance(ctx)
}

// removeAll removes the pods of a namespace, those on their way out included.
func removeAll(ctx context.Context, namespace string, options ...client.DeleteAllOfOption) {
	GinkgoHelper()
	options = append(options, client.InNamespace(namespace), client.GracePeriodSeconds(0))
	Expect(f.Client.DeleteAllOf(ctx, &corev1.Pod{}, options...)).To(Succeed())
}

// setNamespaces gives namespaces their labels.
func setNamespaces(ctx context.Context, namespaces []*corev1.Namespace) {
	GinkgoHelper()
	each(ctx, namespaces, func(ctx context.Context, namespace *corev1.Namespace) error {
		err := f.Client.Create(ctx, namespace.DeepCopy())
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		existing := &corev1.Namespace{}
		if err := f.Client.Get(ctx, client.ObjectKeyFromObject(namespace), existing); err != nil {
			return err
		}
		existing.Labels = namespace.Labels
		return f.Client.Update(ctx, existing)
	})
}

// createWitnesses creates what advance changes.
func createWitnesses(ctx context.Context) {
	GinkgoHelper()
	Expect(f.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: witness}})).To(Succeed())
	room := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceCPU: resource.MustParse("1")}
	Expect(f.Client.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: witness},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: witness, Effect: corev1.TaintEffectNoSchedule}}},
		Status:     corev1.NodeStatus{Allocatable: room, Capacity: room},
	})).To(Succeed())
	Expect(createRunning(ctx, witnessPod(witness, witness))).To(Succeed())
}

func witnessPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: witness, Name: name, Labels: map[string]string{witness: name}},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "registry.example/witness:1"}},
			Tolerations: []corev1.Toleration{{Key: witness, Operator: corev1.TolerationOpExists}},
		},
	}
}

// advance returns when the scheduler has seen all that was done before.
func (m *mirror) advance(ctx context.Context) {
	GinkgoHelper()
	m.epoch++
	epoch := strconv.Itoa(m.epoch)
	for _, o := range []client.Object{&corev1.Namespace{}, &corev1.Node{}} {
		Expect(f.Client.Get(ctx, client.ObjectKey{Name: witness}, o)).To(Succeed())
		labels := maps.Clone(o.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		labels[epochLabel] = epoch
		o.SetLabels(labels)
		Expect(f.Client.Update(ctx, o)).To(Succeed())
	}
	// The pod fits the witness node alone, and that if the scheduler knows the labels of both. It is a new one each time,
	// since what the scheduler saw of pods before it sees this one is in order.
	attempt := 0
	Eventually(func(ctx context.Context) []string {
		attempt++
		pod := witnessPod(fmt.Sprintf("probe-%d-%d", m.epoch, attempt), "")
		pod.Annotations = map[string]string{holdAnnotation: ""}
		pod.Spec.NodeSelector = map[string]string{epochLabel: epoch}
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey:       epochLabel,
			LabelSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{witness: witness}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{epochLabel: epoch}},
		}}}}
		Expect(f.Client.Create(ctx, pod)).To(Succeed())
		awaitVerdicts(ctx, []*corev1.Pod{pod})
		removeUnbound(ctx, witness)
		return asked.of(string(pod.UID))
	}).WithContext(ctx).WithTimeout(patience).WithPolling(settlePolling).Should(Equal([]string{witness}), "the scheduler does not see what there is")
}

// removeUnbound removes the pods of a namespace that are on no node.
func removeUnbound(ctx context.Context, namespace string) {
	GinkgoHelper()
	removeAll(ctx, namespace, client.MatchingFields{"spec.nodeName": ""})
}
