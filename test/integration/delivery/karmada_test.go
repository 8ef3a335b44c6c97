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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/test/framework"
)

// carryWork plays the binding controller of Karmada 1.18.2 (pkg/controllers/binding/common.go): it creates the Work by which Karmada brings
// a Deployment to a cluster.
func carryWork(ctx context.Context, owner *unstructured.Unstructured, cluster string) (removed func()) {
	GinkgoHelper()
	o := framework.NewObject(framework.KarmadaWorks.GroupVersionKind, "karmada-es-"+cluster, owner.GetName()+"-"+owner.GetNamespace(), nil)
	o.SetAnnotations(map[string]string{
		"resourcebinding.karmada.io/namespace": owner.GetNamespace(), "resourcebinding.karmada.io/name": owner.GetName() + "-deployment",
	})
	return carryBy(ctx, o, "karmada.io/execution-controller")
}

// What Karmada does here was seen with Karmada 1.18.2: test/realsystems/karmada.md has the scenarios.
var _ = Describe("A workload that Karmada delivers", func() {
	It("does not count as running and delivered while a cluster that it left can't be reached", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKarmada, namespace)
		f.CreateReadyPolicy(ctx, p)
		web := deploy(ctx, namespace, "web")
		carryWork(ctx, web, fl.cluster("a"))
		removed := carryWork(ctx, web, fl.cluster("b"))
		// The binding of the same name in another namespace is another one.
		carryWork(ctx, framework.NewObject(framework.Deployment, f.NewNamespace(ctx, nil), "web", nil), fl.cluster("c"))
		bind(ctx, web, fl.clusters("a", "b"), fl.clusters("a", "b")...)
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))
		Expect(deliveredCondition(ctx, p.Name)).To(beDelivered(1))

		By("leaving the cluster out of the binding, while its Work stays")
		fl.move(ctx, "b", "us")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		bind(ctx, web, fl.clusters("a"), fl.cluster("a"))
		still := "it still runs in cluster " + fl.cluster("b")
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, still))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDelivering, still))
		Eventually(compliantCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotDelivered, "deployments.apps "+namespace+"/web: "+still, "or delete the workload there"))

		By("removing the Work, as Karmada does when it reaches the cluster again")
		removed()
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		Eventually(compliantCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonCompliant))
	})

	It("keeps the other cluster until an earlier copy is removed in a cluster that can be reached again", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		fl.move(ctx, "b", "us")
		p := fl.policy(surging(toKarmada, time.Hour), namespace)
		f.CreateReadyPolicy(ctx, p)
		web := deploy(ctx, namespace, "web")
		carryWork(ctx, web, fl.cluster("a"))
		bind(ctx, web, fl.clusters("a"), fl.cluster("a"))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))
		removed := carryWork(ctx, web, fl.cluster("b"))
		Expect(f.Client.DeleteAllOf(ctx, framework.NewObject(framework.KarmadaWorks.GroupVersionKind, "", "", nil), client.InNamespace("karmada-es-"+fl.cluster("b")))).To(Succeed())

		By("reporting the earlier copy as healthy")
		fl.move(ctx, "b", "eu")
		fl.move(ctx, "a", "us")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a", "b")))
		bind(ctx, web, fl.clusters("a", "b"), fl.clusters("a", "b")...)
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, "cluster "+fl.cluster("b")+": Karmada still has to remove an earlier copy of the object"))
		Expect(clustersIn(ctx, namespace, "web")).To(Equal(fl.clusters("a", "b")))

		By("removing it")
		removed()
		carryWork(ctx, web, fl.cluster("b"))
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("b")))
	})

	It("fails before a minute has passed if Karmada prefers another policy, which the webhook refuses", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKarmada, namespace)
		f.CreateReadyPolicy(ctx, p)
		web, preferred := deploy(ctx, namespace, "web"), rival{namespace: namespace, name: "a-rival"}
		Expect(preferred.take(ctx, web)).NotTo(Succeed())
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDeliveryFailed, "Karmada does not follow PropagationPolicy "+namespace+"/", "see the Events of the placed object"))
		Eventually(compliantCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotDelivered, namespace+"/web: Karmada does not follow"))

		By("giving it to Berth's policy when the other one is gone")
		Expect(rival{namespace: namespace, name: delivery.NameOf(delivery.ObjectOf(web))}.take(ctx, web)).To(Succeed())
		bind(ctx, web, fl.clusters("a"), fl.cluster("a"))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
	})

	// Karmada's controller keeps its finalizer as long as it can't write the workload, such as while Berth's webhook does not respond.
	It("does not keep the status of others from changing while its policy is being deleted", func(ctx SpecContext) {
		fl, namespace, other := newFleet(ctx, "a"), f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		p, otherPolicy := fl.policy(toKarmada, namespace), fl.policy(toKarmada, other)
		f.CreateReadyPolicy(ctx, p)
		f.CreateReadyPolicy(ctx, otherPolicy)
		web, shop := deploy(ctx, namespace, "web"), deploy(ctx, other, "shop")
		bind(ctx, shop, fl.clusters("a"), fl.cluster("a"))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		Eventually(runningCondition).WithContext(ctx).WithArguments(otherPolicy.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))

		By("creating the workload again while a finalizer holds the policy of the one before")
		held, err := only(ctx, propagationPolicy, namespace, "web")
		Expect(err).NotTo(HaveOccurred())
		finalizers := func(ctx context.Context, list ...string) {
			GinkgoHelper()
			base := held.DeepCopy()
			held.SetFinalizers(list)
			Expect(f.Client.Patch(ctx, held, client.MergeFrom(base))).To(Succeed())
		}
		finalizers(ctx, "karmada.io/propagation-policy-controller")
		Expect(f.Client.Delete(ctx, held)).To(Succeed())
		Expect(f.Client.Delete(ctx, web)).To(Succeed())
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(0))
		deploy(ctx, namespace, "web")
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDelivering, "0 of 1 placed objects are delivered"))

		By("taking the other workload out of its cluster")
		bind(ctx, shop, fl.clusters("a"))
		Eventually(runningCondition).WithContext(ctx).WithArguments(otherPolicy.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning))

		By("removing the finalizer")
		finalizers(ctx)
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
	})
})
