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
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var toKubeFleet = placementv1.Delivery{KubeFleet: &placementv1.KubeFleetDelivery{}}

// carry plays the work generator of KubeFleet 0.3.1 (pkg/controllers/workgenerator/controller.go): it creates the Work by which an agent
// brings what a placement selects to a cluster. A cluster-scoped object has no namespace.
func carry(ctx context.Context, namespace, placement, cluster string) (removed func()) {
	GinkgoHelper()
	o := framework.NewObject(framework.KubeFleetWorks.GroupVersionKind, "fleet-member-"+cluster, namespace+"."+placement+"-work", nil)
	if namespace == "" {
		o.SetName(placement + "-work")
	}
	labels := map[string]string{"kubernetes-fleet.io/parent-CRP": placement}
	if namespace != "" {
		labels["kubernetes-fleet.io/parent-placement-namespace"] = namespace
	}
	o.SetLabels(labels)
	return carryBy(ctx, o, "kubernetes-fleet.io/work-cleanup")
}

// carryBy creates a Work in the namespace of its cluster. The finalizer is that of the controller that deletes what the Work carries in the
// cluster: removed plays that this is done.
func carryBy(ctx context.Context, o *unstructured.Unstructured, finalizer string) (removed func()) {
	GinkgoHelper()
	of := framework.NewObject(namespaceObject, "", o.GetNamespace(), nil)
	Expect(client.IgnoreAlreadyExists(f.Client.Create(ctx, of))).To(Succeed())
	o.SetFinalizers([]string{finalizer})
	o.Object["spec"] = map[string]any{}
	Expect(f.Client.Create(ctx, o)).To(Succeed())
	remove := func(ctx context.Context) {
		GinkgoHelper()
		base := o.DeepCopy()
		o.SetFinalizers(nil)
		Expect(client.IgnoreNotFound(f.Client.Patch(ctx, o, client.MergeFrom(base)))).To(Succeed())
		Expect(client.IgnoreNotFound(f.Client.Delete(ctx, o))).To(Succeed())
	}
	DeferCleanup(remove)
	return func() {
		GinkgoHelper()
		remove(ctx)
	}
}

// maxUnavailable returns the field of the only ResourcePlacement of an object; 0 if Berth does not set it.
func maxUnavailable(ctx context.Context, namespace, owner string) (int64, error) {
	o, err := only(ctx, resourcePlacement, namespace, owner)
	if err != nil {
		return 0, err
	}
	out, _, err := unstructured.NestedInt64(o.Object, "spec", "strategy", "rollingUpdate", "maxUnavailable")
	return out, err
}

// What KubeFleet does here was seen with KubeFleet 0.3.1: test/realsystems/kubefleet.md has the scenarios.
var _ = Describe("A workload that KubeFleet still has in another cluster", func() {
	It("is reported as long as its Work exists, and KubeFleet is asked to remove it at once", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKubeFleet, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		Eventually(fleetClusters).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a", "b")))
		placement := must(only(ctx, resourcePlacement, namespace, "web")).GetName()
		removed := map[string]func(){}
		for _, name := range []string{"a", "b"} {
			removed[name] = carry(ctx, namespace, placement, fl.cluster(name))
		}
		// The same placement of another namespace is another one.
		carry(ctx, f.NewNamespace(ctx, nil), placement, "elsewhere")
		reportPlaced(ctx, namespace, "web", fl.clusters("a", "b")...)
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		Expect(maxUnavailable(ctx, namespace, "web")).To(BeZero())

		By("naming the cluster that has to be left, also when KubeFleet no longer reports it")
		fl.move(ctx, "b", "us")
		Eventually(fleetClusters).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		Eventually(maxUnavailable).WithContext(ctx).WithArguments(namespace, "web").Should(BeNumerically(">", 200))
		reportPlaced(ctx, namespace, "web", fl.cluster("a"))
		still := "it still runs in cluster " + fl.cluster("b")
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, still))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDelivering, still))

		By("setting back what was asked for when it is gone")
		removed["b"]()
		Eventually(maxUnavailable).WithContext(ctx).WithArguments(namespace, "web").Should(BeZero())
		reportPlaced(ctx, namespace, "web", fl.cluster("a"))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))

		By("reporting a workload that has to leave all clusters")
		fl.move(ctx, "a", "us")
		Eventually(all).WithContext(ctx).WithArguments(resourcePlacement, namespace, "web").Should(BeEmpty())
		still = "it still runs in cluster " + fl.cluster("a")
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, still))
		Expect(deliveredCondition(ctx, p.Name)).To(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDelivering, still))
		removed["a"]()
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
	})

	It("is reported if KubeFleet does not bring it to its cluster", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKubeFleet, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		missing := namespace + "/web: cluster " + fl.cluster("a") + ": KubeFleet has not brought it there"
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDelivering, "1 are not in all of their clusters", missing))
		Eventually(compliantCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotDelivered, missing))
		Expect(runningCondition(ctx, p.Name)).To(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, missing))

		By("bringing it there")
		reportPlaced(ctx, namespace, "web", fl.cluster("a"))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		Eventually(compliantCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonCompliant))
	})

	It("says when Works are not served", func(ctx SpecContext) {
		framework.KubeFleetWorks.Uninstall(ctx, f)
		DeferCleanup(func(ctx SpecContext) { framework.KubeFleetWorks.Install(ctx, f) })
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKubeFleet, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		Eventually(fleetClusters).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionUnknown, placementv1.ReasonNotServed, "works.placement.kubernetes-fleet.io"))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
	})
})

var fleetMember = framework.Definition{
	GroupVersionKind: schema.GroupVersionKind{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1", Kind: "MemberCluster"},
	File:             "cluster.kubernetes-fleet.io_memberclusters.yaml", Plural: "memberclusters", Scope: apiextensionsv1.ClusterScoped, Status: true,
}

// takeUp plays KubeFleet: it has the only ResourcePlacement of an object report on a snapshot of the object.
func takeUp(ctx context.Context, namespace, owner, index string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		o, err := only(ctx, resourcePlacement, namespace, owner)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(unstructured.SetNestedField(o.Object, index, "status", "observedResourceIndex")).To(Succeed())
		g.Expect(f.Client.Status().Update(ctx, o)).To(Succeed())
	}).Should(Succeed())
}

// KubeFleet 0.3.1 collects changes for 15 seconds before it makes a snapshot of a workload, and reports on the one before until then
// (shouldCreateNewResourceSnapshotNow in pkg/utils/controller/resource_snapshot_resolver.go).
var _ = Describe("A workload whose last change KubeFleet has not noticed", func() {
	const outdated = "KubeFleet has not noticed the last change of the object"

	It("does not count as running", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKubeFleet, namespace)
		f.CreateReadyPolicy(ctx, p)
		web := deploy(ctx, namespace, "web")
		reportPlaced(ctx, namespace, "web", fl.cluster("a"))
		takeUp(ctx, namespace, "web", "0")
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))
		base := web.DeepCopy()
		Expect(unstructured.SetNestedField(web.Object, int64(2), "spec", "replicas")).To(Succeed())
		Expect(f.Client.Patch(ctx, web, client.MergeFrom(base))).To(Succeed())
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, outdated))
		Expect(deliveredCondition(ctx, p.Name)).To(beDelivered(1))
		takeUp(ctx, namespace, "web", "1")
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))
	})

	It("is being moved by a patch of its pods", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKubeFleet, namespace)
		p.Spec.Remediation.Budget = &placementv1.RemediationBudget{MaxConcurrent: 1, MaxUnavailable: new(intstr.FromString("100%"))}
		f.CreateReadyPolicy(ctx, p)
		workloads := []string{"one", "two"}
		for _, name := range workloads {
			deploy(ctx, namespace, name)
			reportPlaced(ctx, namespace, name, fl.cluster("a"))
			takeUp(ctx, namespace, name, "0")
		}
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning, "2 of 2"))
		patched := func(ctx context.Context) (out []string, err error) {
			for _, name := range workloads {
				o, err := f.Get(ctx, framework.Deployment, namespace, name)
				if err != nil {
					return nil, err
				}
				if _, found, _ := unstructured.NestedString(o.Object, "spec", "template", "spec", "nodeSelector", "example.com/disk"); found {
					out = append(out, name)
				}
			}
			return out, nil
		}
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego += `

scheduling.nodeSelector["example.com/disk"] := "encrypted"`
		})
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, outdated))
		Consistently(patched).WithContext(ctx).Should(HaveLen(1))
		takeUp(ctx, namespace, must(patched(ctx))[0], "1")
		Eventually(patched).WithContext(ctx).Should(HaveLen(2))
	})
})

// join creates a cluster of a fleet as a MemberCluster, or changes whether its agent has joined.
func (fl fleet) join(ctx context.Context, name, joined string) {
	GinkgoHelper()
	o := framework.NewObject(fleetMember.GroupVersionKind, "", fl.cluster(name), nil)
	o.SetLabels(map[string]string{"example.com/fleet": fl.label, corev1.LabelTopologyRegion: "eu"})
	o.Object["spec"] = map[string]any{"identity": map[string]any{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}}
	if client.IgnoreNotFound(f.Client.Get(ctx, client.ObjectKeyFromObject(o), o)) == nil && o.GetUID() == "" {
		Expect(f.Client.Create(ctx, o)).To(Succeed())
		DeferCleanup(f.Client.Delete, o.DeepCopy())
	}
	o.Object["status"] = map[string]any{"conditions": []any{map[string]any{
		"type": "Joined", "status": joined, "reason": "Specs", "message": "", "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
	}}}
	Expect(f.Client.Status().Update(ctx, o)).To(Succeed())
}

var _ = Describe("A cluster that has not joined KubeFleet", func() {
	It("is not delivered to before it joins, and is reported", func(ctx SpecContext) {
		fleetMember.Install(ctx, f)
		DeferCleanup(func(ctx SpecContext) { fleetMember.Uninstall(ctx, f) })
		fl, namespace := newFleet(ctx), f.NewNamespace(ctx, nil)
		fl.join(ctx, "a", "True")
		fl.join(ctx, "b", "Unknown")
		p := fl.policy(toKubeFleet, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		Eventually(fleetClusters).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		reportPlaced(ctx, namespace, "web", fl.cluster("a"))
		missing := "cluster " + fl.cluster("b") + ": it has not joined KubeFleet"
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, missing))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonDelivered, missing))
		fl.join(ctx, "b", "True")
		Eventually(fleetClusters).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a", "b")))
		reportPlaced(ctx, namespace, "web", fl.clusters("a", "b")...)
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))
	})
})

var _ = Describe("A delivered Namespace", func() {
	It("keeps the clusters in which KubeFleet still has what is in it", func(ctx SpecContext) {
		fl := newFleet(ctx, "a", "b")
		fl.move(ctx, "b", "us")
		of := fl.create(ctx, namespaceObject)
		p, wide := fl.policy(surging(toKubeFleet, time.Hour), of.GetName()), fl.clusterScoped(toKubeFleet, namespaceObject, "namespaces")
		f.CreateReadyPolicy(ctx, p)
		f.CreateReadyPolicy(ctx, wide)
		deploy(ctx, of.GetName(), "web")
		Eventually(fleetClusters).WithContext(ctx).WithArguments(of.GetName(), "web").Should(Equal(fl.clusters("a")))
		Eventually(inKubeFleet.clustersOf).WithContext(ctx).WithArguments(of.GetName()).Should(Equal(fl.clusters("a")))
		removed := carry(ctx, of.GetName(), must(only(ctx, resourcePlacement, of.GetName(), "web")).GetName(), fl.cluster("a"))
		reportPlaced(ctx, of.GetName(), "web", fl.cluster("a"))

		By("while they are kept until the workload runs elsewhere")
		fl.move(ctx, "b", "eu")
		fl.move(ctx, "a", "us")
		Eventually(fleetClusters).WithContext(ctx).WithArguments(of.GetName(), "web").Should(Equal(fl.clusters("a", "b")))
		Eventually(inKubeFleet.clustersOf).WithContext(ctx).WithArguments(of.GetName()).Should(Equal(fl.clusters("a", "b")))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(wide.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDelivering, "it stays in "+fl.cluster("a")))

		By("while KubeFleet has not removed the workload")
		reportPlaced(ctx, of.GetName(), "web", fl.clusters("a", "b")...)
		Eventually(fleetClusters).WithContext(ctx).WithArguments(of.GetName(), "web").Should(Equal(fl.clusters("b")))
		Consistently(inKubeFleet.clustersOf).WithContext(ctx).WithArguments(of.GetName()).Should(Equal(fl.clusters("a", "b")))
		removed()
		Eventually(inKubeFleet.clustersOf).WithContext(ctx).WithArguments(of.GetName()).Should(Equal(fl.clusters("b")))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(wide.Name).Should(beDelivered(1))
	})

	It("keeps the clusters to which Karmada still brings what is in it", func(ctx SpecContext) {
		fl := newFleet(ctx, "a", "b")
		fl.move(ctx, "b", "us")
		of, other := fl.create(ctx, namespaceObject), fl.create(ctx, namespaceObject)
		p, wide := fl.policy(surging(toKarmada, time.Hour), of.GetName()), fl.clusterScoped(toKarmada, namespaceObject, "namespaces")
		f.CreateReadyPolicy(ctx, p)
		f.CreateReadyPolicy(ctx, wide)
		web := deploy(ctx, of.GetName(), "web")
		Eventually(clustersIn).WithContext(ctx).WithArguments(of.GetName(), "web").Should(Equal(fl.clusters("a")))
		bind(ctx, web, fl.clusters("a"), fl.cluster("a"))
		Eventually(inKarmada.clustersOf).WithContext(ctx).WithArguments(of.GetName()).Should(Equal(fl.clusters("a")))
		fl.move(ctx, "b", "eu")
		fl.move(ctx, "a", "us")
		Eventually(clustersIn).WithContext(ctx).WithArguments(of.GetName(), "web").Should(Equal(fl.clusters("a", "b")))
		Eventually(inKarmada.clustersOf).WithContext(ctx).WithArguments(of.GetName()).Should(Equal(fl.clusters("a", "b")))
		// A Namespace without delivered objects leaves at once.
		Eventually(inKarmada.clustersOf).WithContext(ctx).WithArguments(other.GetName()).Should(Equal(fl.clusters("b")))
		Consistently(inKarmada.clustersOf).WithContext(ctx).WithArguments(of.GetName()).Should(Equal(fl.clusters("a", "b")))
		bind(ctx, web, fl.clusters("a", "b"), fl.clusters("a", "b")...)
		Eventually(clustersIn).WithContext(ctx).WithArguments(of.GetName(), "web").Should(Equal(fl.clusters("b")))
		Eventually(inKarmada.clustersOf).WithContext(ctx).WithArguments(of.GetName()).Should(Equal(fl.clusters("b")))
	})
})
