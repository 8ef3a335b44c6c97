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
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

const operatorAccount = framework.OperatorNamespace + ":berth-controller-manager"

// berthMay returns the answer of the API server to whether Berth may use a verb on a resource.
func berthMay(ctx context.Context, verb, resource string) string {
	out, _ := f.Kubectl(ctx, "", "auth", "can-i", verb, resource, "--as=system:serviceaccount:"+operatorAccount)
	return out
}

func bindRole(ctx context.Context, name, clusterRole string) {
	GinkgoHelper()
	f.MustKubectl(ctx, "", "create", "clusterrolebinding", name, "--clusterrole="+clusterRole, "--serviceaccount="+operatorAccount)
}

// keepOnlyRole leaves Berth what an installation has, and the ClusterRole of one system, until the spec ends.
func keepOnlyRole(ctx context.Context, role string) {
	GinkgoHelper()
	// What an installation may read anyway, such as ClusterProfiles.
	bindRole(ctx, "berth-test-default", "berth-workloads-default")
	DeferCleanup(func(ctx SpecContext) { f.MustKubectl(ctx, "", "delete", "clusterrolebinding", "berth-test-default") })
	others := map[string]string{"berth-test-wide": "berth-dev-wide"}
	for _, system := range []string{"karmada", "kubefleet", "placementdecision", "openclustermanagement", "kueue"} {
		others["berth-delivery-"+system] = "berth-delivery-" + system
	}
	delete(others, role)
	for name, clusterRole := range others {
		f.MustKubectl(ctx, "", "delete", "clusterrolebinding", name)
		DeferCleanup(func(ctx SpecContext) { bindRole(ctx, name, clusterRole) })
	}
	lost := "patch propagationpolicies.policy.karmada.io"
	if role == "berth-delivery-karmada" {
		lost = "patch placements.cluster.open-cluster-management.io"
	}
	Eventually(func(ctx context.Context) string {
		verb, resource, _ := strings.Cut(lost, " ")
		return berthMay(ctx, verb, resource)
	}).WithContext(ctx).Should(HavePrefix("no"))
}

var _ = Describe("The ClusterRole of a system", func() {
	DescribeTable("is all that delivery to it needs, beside what an installation has",
		func(ctx SpecContext, role string, delivery placementv1.Delivery, kind schema.GroupVersionKind, stays bool) {
			keepOnlyRole(ctx, "berth-delivery-"+role)
			fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
			p := fl.policy(delivery, namespace)
			f.CreateReadyPolicy(ctx, p)
			deploy(ctx, namespace, "web")
			Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
			before := must(only(ctx, kind, namespace, "web")).GetResourceVersion()
			fl.move(ctx, "b", "us")
			Eventually(only).WithContext(ctx).WithArguments(kind, namespace, "web").ShouldNot(HaveField("GetResourceVersion()", before))
			Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
			Expect(f.Condition(ctx, p.Name, placementv1.ConditionCompliant)).To(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonCompliant))
			if running, err := runningCondition(ctx, p.Name); err == nil {
				Expect(running.Reason).NotTo(Equal(placementv1.ReasonForbidden), running.Message)
			}
			if stays {
				return
			}
			By("withdrawing it")
			Expect(f.Client.Delete(ctx, p)).To(Succeed())
			Eventually(all).WithContext(ctx).WithArguments(kind, namespace, "web").Should(BeEmpty())
		},
		Entry("Karmada", "karmada", toKarmada, propagationPolicy, false),
		Entry("KubeFleet", "kubefleet", placementv1.Delivery{KubeFleet: &placementv1.KubeFleetDelivery{}}, resourcePlacement, false),
		Entry("SIG Multicluster", "placementdecision", placementv1.Delivery{PlacementDecision: &placementv1.PlacementDecisionDelivery{}}, placementDecision, false),
		Entry("Open Cluster Management", "openclustermanagement", placementv1.Delivery{OpenClusterManagement: &placementv1.OpenClusterManagementDelivery{}}, ocmDecision, true),
	)
})
