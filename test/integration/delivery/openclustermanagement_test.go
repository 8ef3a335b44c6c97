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
	"fmt"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var toOpenClusterManagement = placementv1.Delivery{OpenClusterManagement: &placementv1.OpenClusterManagementDelivery{}}

// replicaSet does with the Placement of a namespace what a ManifestWorkReplicaSet of Open Cluster Management does: while the Placement
// exists, there is a ManifestWork in each cluster that its PlacementDecisions have, and in no other. While it does not exist, all stay.
// It follows manifestworkreplicaset_deploy_reconcile.go of Open Cluster Management, commit 00f84c32b, after version 1.3.1. As there, each
// of the kinds has a watch of its own.
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
		p.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "left", Operator: metav1.LabelSelectorOpDoesNotExist}}}
		again := p.DeepCopy()
		f.CreateReadyPolicy(ctx, p)
		web := deploy(ctx, namespace, "web")
		mode := func(mode placementv1.Mode) {
			f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Mode = mode })
		}
		deliver := func(to *placementv1.Delivery) {
			f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Delivery = to })
		}
		label := func(value string) {
			Expect(f.Client.Patch(ctx, web, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"left":`+value+`}}}`)))).To(Succeed())
		}
		for _, switched := range []struct{ off, on func() }{
			{func() { mode(placementv1.ModeDryRun) }, func() { mode(placementv1.ModeEnforce) }},
			{func() { deliver(nil) }, func() { deliver(&toOpenClusterManagement) }},
			{func() { label(`"yes"`) }, func() { label("null") }},
		} {
			for range 2 {
				Eventually(consumer.running).WithContext(ctx).Should(Equal(fl.clusters("a", "b")))
				switched.off()
				Eventually(all).WithContext(ctx).WithArguments(ocmPlacement, namespace, "web").Should(BeEmpty())
				switched.on()
				Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
			}
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
		fl, namespace := fleet{label: framework.NewName("fleet"), namespace: f.NewNamespace(ctx, nil)}, f.NewNamespace(ctx, nil)
		first := fl.manage(ctx, "a")
		// Registration deletes its ClusterProfiles a moment after the ManagedCluster.
		fl.derive(ctx, "a", fl.namespace)
		consumer := startReplicaSet(ctx, namespace)
		p := fl.policy(toOpenClusterManagement, namespace)
		// Without another cluster, the decision stays.
		p.Spec.Clusters = nil
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

		By("being gone, while the policy still decides it")
		release(ctx, first)
		gone := framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonDelivered, "clusters that no inventory has: "+first.GetName())
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(gone)
		operator.Stop()
		operator = f.StartReadyManager(ctx)
		// The new leader has delivered a later object, so it has looked at the earlier one, too.
		fl.manage(ctx, "b")
		Eventually(consumer.running).WithContext(ctx).Should(Equal(fl.clusters("b")))
		_, deleted := consumer.state()
		Expect(deleted).To(Equal(fl.clusters("a")))
	})
})

// manage creates a cluster of a fleet as a ManagedCluster of the region eu that is available. A finalizer holds it, as in Open Cluster
// Management.
func (fl fleet) manage(ctx context.Context, name string) *unstructured.Unstructured {
	GinkgoHelper()
	o := framework.NewObject(managedCluster, "", fl.cluster(name), nil)
	o.SetLabels(map[string]string{"example.com/fleet": fl.label, corev1.LabelTopologyRegion: "eu"})
	o.Object["spec"] = map[string]any{"hubAcceptsClient": true}
	o.SetFinalizers([]string{"cluster.open-cluster-management.io/api-resource-cleanup"})
	Expect(f.Client.Create(ctx, o)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(f.Client.Delete(ctx, o))).To(Succeed())
		release(ctx, o)
	})
	fl.report(ctx, name, metav1.ConditionTrue)
	return o
}

// change changes a ManagedCluster.
func (fl fleet) change(ctx context.Context, name, patch string) {
	GinkgoHelper()
	o := framework.NewObject(managedCluster, "", fl.cluster(name), nil)
	Expect(f.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// report sets the condition that the lease controller of registration sets: Unknown when the agent no longer renews its Lease.
func (fl fleet) report(ctx context.Context, name string, available metav1.ConditionStatus) {
	GinkgoHelper()
	o := framework.NewObject(managedCluster, "", fl.cluster(name), nil)
	status := fmt.Sprintf(`{"status":{"conditions":[{"type":"ManagedClusterConditionAvailable","status":%q,"reason":"Specs","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, available)
	Expect(f.Client.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(status)))).To(Succeed())
}

// derive creates the ClusterProfile that registration keeps of a ManagedCluster in a namespace that has a ManagedClusterSetBinding.
func (fl fleet) derive(ctx context.Context, name, namespace string) {
	GinkgoHelper()
	o := framework.NewObject(framework.ClusterProfile, namespace, fl.cluster(name), nil)
	o.SetLabels(map[string]string{"x-k8s.io/cluster-manager": "open-cluster-management", "open-cluster-management.io/cluster-name": fl.cluster(name)})
	o.Object["spec"] = map[string]any{"displayName": fl.cluster(name), "clusterManager": map[string]any{"name": "open-cluster-management"}}
	Expect(f.Client.Create(ctx, o)).To(Succeed())
	DeferCleanup(f.Client.Delete, o)
}

// carryManifestWork creates the ManifestWork by which a ManifestWorkReplicaSet brings a workload to a cluster. Its agent has applied it,
// and reports the number of its two replicas that are ready. removed plays the agent that removes it.
func carryManifestWork(ctx context.Context, namespace, placement, cluster string, ready int64) (report func(ready int64), removed func()) {
	GinkgoHelper()
	o := framework.NewObject(manifestWork.GroupVersionKind, cluster, "web", nil)
	o.SetLabels(map[string]string{
		"work.open-cluster-management.io/manifestworkreplicaset": namespace + ".web", "work.open-cluster-management.io/placementname": placement,
	})
	removed = carryBy(ctx, o, "cluster.open-cluster-management.io/manifest-work-cleanup")
	report = func(ready int64) {
		GinkgoHelper()
		condition := func(kind string) any {
			return map[string]any{"type": kind, "status": "True", "observedGeneration": int64(1), "reason": "Specs", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
		}
		value := func(name string, of int64) any {
			return map[string]any{"name": name, "fieldValue": map[string]any{"type": "Integer", "integer": of}}
		}
		o.Object["status"] = map[string]any{
			"conditions": []any{condition("Applied"), condition("Available")},
			"resourceStatus": map[string]any{"manifests": []any{map[string]any{
				"statusFeedback": map[string]any{"values": []any{value("Replicas", 2), value("ReadyReplicas", ready)}},
			}}},
		}
		Expect(f.Client.Status().Update(ctx, o)).To(Succeed())
	}
	report(ready)
	return report, removed
}

// What is played here was seen with the agents of commit 00f84c32b: test/realsystems/open-cluster-management.md has the scenarios.
var _ = Describe("A workload that a ManifestWorkReplicaSet carries", func() {
	It("is reported where it must not run, where it is not ready, and where its cluster does not answer", func(ctx SpecContext) {
		fl, namespace := fleet{label: framework.NewName("fleet")}, f.NewNamespace(ctx, nil)
		fl.manage(ctx, "a")
		fl.manage(ctx, "b")
		p := fl.policy(toOpenClusterManagement, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		placement := must(only(ctx, ocmPlacement, namespace, "web")).GetName()
		_, removedA := carryManifestWork(ctx, namespace, placement, fl.cluster("a"), 2)
		// The same Placement of another namespace is another one.
		carryManifestWork(ctx, f.NewNamespace(ctx, nil), placement, "elsewhere-"+fl.label, 2)
		runs := func(status metav1.ConditionStatus, reason string, texts ...string) {
			GinkgoHelper()
			Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(status, reason, texts...))
		}
		runs(metav1.ConditionFalse, placementv1.ReasonNotRunning, "cluster "+fl.cluster("b")+": Open Cluster Management has not brought it there")
		reportB, removedB := carryManifestWork(ctx, namespace, placement, fl.cluster("b"), 0)
		runs(metav1.ConditionFalse, placementv1.ReasonNotRunning, "cluster "+fl.cluster("b")+": 0 of 2 replicas are ready")
		reportB(2)
		runs(metav1.ConditionTrue, placementv1.ReasonRunning)

		By("a cluster whose Lease expires")
		fl.report(ctx, "b", metav1.ConditionUnknown)
		runs(metav1.ConditionFalse, placementv1.ReasonNotRunning, fl.cluster("b"), "because the cluster is not available")
		Expect(deliveredCondition(ctx, p.Name)).To(beDelivered(1))

		By("a cluster that it has to leave while its agent is away")
		fl.change(ctx, "b", `{"metadata":{"labels":{"topology.kubernetes.io/region":"us"}}}`)
		still := "it still runs in cluster " + fl.cluster("b")
		runs(metav1.ConditionFalse, placementv1.ReasonNotRunning, still)
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDelivering, still))
		removedB()
		runs(metav1.ConditionTrue, placementv1.ReasonRunning)
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))

		By("a workload that has to leave all clusters")
		fl.change(ctx, "a", `{"metadata":{"labels":{"topology.kubernetes.io/region":"us"}}}`)
		still = "it still runs in cluster " + fl.cluster("a")
		runs(metav1.ConditionFalse, placementv1.ReasonNotRunning, still)
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDelivering, still))
		removedA()
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
	})

	It("by a Placement of a user is reported, too", func(ctx SpecContext) {
		fl, namespace := fleet{label: framework.NewName("fleet")}, f.NewNamespace(ctx, nil)
		fl.manage(ctx, "a")
		p := fl.native(ocmPlacement, "placements", namespace)
		f.CreateReadyPolicy(ctx, p)
		o := framework.NewObject(ocmPlacement, namespace, "web", map[string]string{"cluster.open-cluster-management.io/experimental-scheduling-disable": "true"})
		o.Object["spec"] = map[string]any{}
		Expect(f.Client.Create(ctx, o)).To(Succeed())
		Eventually(decidedIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		_, removed := carryManifestWork(ctx, namespace, "web", fl.cluster("z"), 2)
		still := "it still runs in cluster " + fl.cluster("z")
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDelivering, still))
		removed()
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
	})
})

// With the feature gate ClusterProfile, registration keeps such ClusterProfiles: pkg/registration/hub/clusterprofile.
var _ = Describe("A ManagedCluster with ClusterProfiles that are derived from it", func() {
	It("counts alone, with its labels and taints", func(ctx SpecContext) {
		fl, other, namespace := fleet{label: framework.NewName("fleet"), namespace: f.NewNamespace(ctx, nil)}, f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		for _, name := range []string{"a", "b"} {
			fl.derive(ctx, name, fl.namespace)
			fl.manage(ctx, name)
			fl.derive(ctx, name, other)
		}
		p := fl.policy(toOpenClusterManagement, namespace)
		p.Spec.Rego = ""
		p.Spec.Rules = []placementv1.Rule{{Name: "eu", Require: []placementv1.Requirement{
			{Subject: placementv1.Subject{Field: "region"}, Operator: placementv1.OperatorIn, Values: []string{"eu"}},
			{Subject: placementv1.Subject{Label: "example.com/fleet"}, Operator: placementv1.OperatorIn, Values: []string{fl.label}},
		}}}
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		Eventually(decidedIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a", "b")))
		fl.change(ctx, "b", `{"spec":{"taints":[{"key":"example.com/drain","value":"","effect":"NoSelect"}]}}`)
		Eventually(decidedIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		fl.change(ctx, "b", `{"spec":{"taints":null}}`)
		Eventually(decidedIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a", "b")))

		By("a ClusterProfile of another manager, which may be another cluster")
		o := framework.NewObject(framework.ClusterProfile, namespace, fl.cluster("b"), nil)
		o.SetLabels(map[string]string{"x-k8s.io/cluster-manager": "open-cluster-management"})
		Expect(f.Client.Create(ctx, o)).To(Succeed())
		Eventually(decidedIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		Expect(f.Client.Delete(ctx, o)).To(Succeed())
		Eventually(decidedIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a", "b")))
	})
})

// release lets the API server delete an object that its finalizers hold.
func release(ctx context.Context, o *unstructured.Unstructured) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(f.Client.Patch(ctx, o, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
}
