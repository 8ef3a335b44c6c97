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

package quota_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// The sample user stories of the design "Priority in ResourceQuota".
var _ = Describe("Priority in quotas", func() {
	const services = "cluster-services"

	BeforeEach(func(ctx SpecContext) {
		addServiceAccount(ctx, metav1.NamespaceSystem)
		createPriorityClass(ctx, services)
		createPriorityClass(ctx, "other")
	})

	create := func(ctx SpecContext, namespace, class string) error {
		pod := newPod(namespace, "", withPriority(class))
		err := f.Client.Create(ctx, pod)
		if err == nil {
			DeferCleanup(func(ctx SpecContext) {
				Expect(f.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
			})
		}
		return err
	}

	It("story 1: cluster-services priority only in kube-system", func(ctx SpecContext) {
		createReady(ctx, &placementv1.LimitedResource{
			ObjectMeta: metav1.ObjectMeta{Name: "cluster-services"},
			Spec: placementv1.LimitedResourceSpec{Resource: "pods", MatchScopes: []placementv1.ScopeRequirement{
				{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{services}},
			}},
		})
		q := newQuota(metav1.NamespaceSystem, "pods-cluster-services", placementv1.QuotaSpec{
			Hard: hard("pods", "10"), ScopeSelector: scope(corev1.ResourceQuotaScopePriorityClass, corev1.ScopeSelectorOpIn, services),
		})
		createReady(ctx, q)
		elsewhere := newNamespace(ctx, nil)

		By("allowing a pod without priority class in any namespace")
		Expect(create(ctx, elsewhere, "")).To(Succeed())
		Expect(create(ctx, metav1.NamespaceSystem, "")).To(Succeed())
		By("allowing another priority class in any namespace")
		Expect(create(ctx, elsewhere, "other")).To(Succeed())
		Expect(create(ctx, metav1.NamespaceSystem, "other")).To(Succeed())
		By("rejecting it in any other namespace")
		Expect(create(ctx, elsewhere, services)).To(forbidden("insufficient quota to match these scopes: [{PriorityClass In [cluster-services]}]"))
		By("allowing it in kube-system while it passes the quota check")
		for i := range 10 {
			Expect(create(ctx, metav1.NamespaceSystem, services)).To(Succeed(), fmt.Sprint(i))
		}
		Expect(used(ctx, q)).To(Equal(map[string]string{"pods": "10"}))
		Expect(create(ctx, metav1.NamespaceSystem, services)).To(forbidden("exceeded quota: pods-cluster-services, requested: pods=1, used: pods=10, limited: pods=10"))
	})

	It("story 2: a quota for any pod that has a priority", func(ctx SpecContext) {
		createReady(ctx, &placementv1.LimitedResource{
			ObjectMeta: metav1.ObjectMeta{Name: "any-priority"},
			Spec: placementv1.LimitedResourceSpec{Resource: "pods", MatchScopes: []placementv1.ScopeRequirement{
				{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpExists},
			}},
		})
		with, without := newNamespace(ctx, nil), newNamespace(ctx, nil)
		createReady(ctx, newQuota(with, "pods-cluster-services", placementv1.QuotaSpec{
			Hard: hard("pods", "10"), ScopeSelector: scope(corev1.ResourceQuotaScopePriorityClass, corev1.ScopeSelectorOpIn, services),
		}))

		Expect(create(ctx, without, "")).To(Succeed())
		Expect(create(ctx, without, services)).To(forbidden("insufficient quota to match these scopes: [{PriorityClass Exists []}]"))
		Expect(create(ctx, without, "other")).To(forbidden("insufficient quota to match these scopes: [{PriorityClass Exists []}]"))
		Expect(create(ctx, with, "")).To(Succeed())
		Expect(create(ctx, with, services)).To(Succeed())
		Expect(create(ctx, with, "other")).To(forbidden("insufficient quota to match these scopes: [{PriorityClass Exists []}]"))
	})
})
