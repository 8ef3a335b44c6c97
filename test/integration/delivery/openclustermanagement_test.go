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

package delivery_test

import (
	"context"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var toOpenClusterManagement = placementv1.Delivery{OpenClusterManagement: &placementv1.OpenClusterManagementDelivery{}}

// replicaSet does with the Placement of a namespace what a ManifestWorkReplicaSet of Open Cluster Management does: while the Placement
// exists, there is a ManifestWork in each cluster that its PlacementDecisions have, and in no other. While it does not exist, all stay.
// It follows manifestworkreplicaset_deploy_reconcile.go of Open Cluster Management, commit 00f84c32b, after version 1.3.1. As there, each of
// the kinds has a watch of its own.
type replicaSet struct {
	mu        sync.Mutex
	placement bool
	decisions map[string][]string
	works     sets.Set[string]
	// deleted are the clusters whose ManifestWork was deleted, in this order.
	deleted []string
}

// startReplicaSet starts a consumer of the only Placement of a namespace. It ends with the spec.
func startReplicaSet(ctx context.Context, namespace string) *replicaSet {
	GinkgoHelper()
	r := &replicaSet{decisions: map[string][]string{}, works: sets.New[string]()}
	c, err := client.NewWithWatch(f.Config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	for _, kind := range []schema.GroupVersionKind{ocmPlacement, ocmDecision} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		w, err := c.Watch(ctx, list, client.InNamespace(namespace))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(w.Stop)
		go func() {
			for event := range w.ResultChan() {
				if o, ok := event.Object.(*unstructured.Unstructured); ok {
					r.observe(o, event.Type == watch.Deleted)
				}
			}
		}()
	}
	return r
}

func (r *replicaSet) observe(o *unstructured.Unstructured, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case o.GetKind() == ocmPlacement.Kind:
		r.placement = !gone
	case gone:
		delete(r.decisions, o.GetName())
	default:
		var clusters []string
		entries, _, _ := unstructured.NestedSlice(o.Object, "status", "decisions")
		for _, entry := range entries {
			name, _, _ := unstructured.NestedString(entry.(map[string]any), "clusterName")
			clusters = append(clusters, name)
		}
		r.decisions[o.GetName()] = clusters
	}
	if !r.placement {
		return
	}
	decided := sets.New[string]()
	for _, clusters := range r.decisions {
		decided.Insert(clusters...)
	}
	r.deleted = append(r.deleted, sets.List(r.works.Difference(decided))...)
	r.works = decided
}

// state returns the clusters with a ManifestWork, sorted, and those that lost it.
func (r *replicaSet) state() (works, deleted []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return sets.List(r.works), slices.Clone(r.deleted)
}

func (r *replicaSet) running() []string {
	works, _ := r.state()
	return works
}

var _ = Describe("A ManifestWorkReplicaSet of Open Cluster Management", func() {
	It("deletes nothing when delivery stops and starts again", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		consumer := startReplicaSet(ctx, namespace)
		p := fl.policy(toOpenClusterManagement, namespace)
		again := p.DeepCopy()
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		mode := func(mode placementv1.Mode) {
			f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Mode = mode })
		}
		for range 3 {
			Eventually(consumer.running).WithContext(ctx).Should(Equal(fl.clusters("a", "b")))
			mode(placementv1.ModeDryRun)
			Eventually(all).WithContext(ctx).WithArguments(ocmPlacement, namespace, "web").Should(BeEmpty())
			mode(placementv1.ModeEnforce)
			Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		}
		f.DeletePolicy(ctx, p.Name)
		Eventually(all).WithContext(ctx).WithArguments(ocmPlacement, namespace, "web").Should(BeEmpty())
		f.CreateReadyPolicy(ctx, again)
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))

		By("moving the workload, which is the first change that deletes")
		fl.move(ctx, "a", "us")
		Eventually(consumer.running).WithContext(ctx).Should(Equal(fl.clusters("b")))
		_, deleted := consumer.state()
		Expect(deleted).To(Equal(fl.clusters("a")))
	})

	// Registration waits until a cluster that is being deleted has no ManifestWorks, and a consumer of decisions with the cluster creates
	// them each time that they are deleted: pkg/registration/hub/gc and pkg/placement/controllers/scheduling/helpers.go.
	It("does not bring a workload back to a cluster that is being deleted, although it is the only one", func(ctx SpecContext) {
		fl, namespace := fleet{label: framework.NewName("fleet")}, f.NewNamespace(ctx, nil)
		join := func(name string) *unstructured.Unstructured {
			o := framework.NewObject(managedCluster, "", fl.cluster(name), nil)
			o.SetLabels(map[string]string{"example.com/fleet": fl.label, corev1.LabelTopologyRegion: "eu"})
			o.Object["spec"] = map[string]any{"hubAcceptsClient": true}
			o.SetFinalizers([]string{"cluster.open-cluster-management.io/api-resource-cleanup"})
			Expect(f.Client.Create(ctx, o)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) {
				Expect(client.IgnoreNotFound(f.Client.Delete(ctx, o))).To(Succeed())
				release(ctx, o)
			})
			return o
		}
		first := join("a")
		consumer := startReplicaSet(ctx, namespace)
		p := fl.policy(toOpenClusterManagement, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		Eventually(consumer.running).WithContext(ctx).Should(Equal(fl.clusters("a")))

		Expect(f.Client.Delete(ctx, first)).To(Succeed())
		Eventually(consumer.running).WithContext(ctx).Should(BeEmpty())
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonDelivered, "clusters that are being deleted: "+first.GetName()))

		By("restarting Berth, which writes nothing before it has read the clusters")
		operator.Stop()
		operator = f.StartReadyManager(ctx)
		join("b")
		Eventually(consumer.running).WithContext(ctx).Should(Equal(fl.clusters("b")))
		_, deleted := consumer.state()
		Expect(deleted).To(Equal(fl.clusters("a")))
	})
})

// release lets the API server delete an object that its finalizers hold.
func release(ctx context.Context, o *unstructured.Unstructured) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(f.Client.Patch(ctx, o, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
}
