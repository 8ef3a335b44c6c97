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

package tracing_test

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/decisionlog"
	"github.com/berth-dev/berth/test/framework"
)

var errMissing = errors.New("no such span has come yet")

const zones = `package placement

annotations["example.com/zone"] := "a" if not input.metadata.annotations["example.com/forbidden"]

errors contains "this is forbidden" if input.metadata.annotations["example.com/forbidden"]
`

var _ = Describe("A trace", func() {
	var namespace string

	BeforeEach(func(ctx SpecContext) { namespace = f.NewNamespace(ctx, nil) })

	// find waits for a span of Berth.
	find := func(ctx context.Context, name string, attributes map[string]string) span {
		GinkgoHelper()
		var found span
		Eventually(func() (err error) {
			found, err = collected.find(name, attributes)
			return err
		}).WithContext(ctx).Should(Succeed(), "%s %v", name, attributes)
		return found
	}
	named := func(name string, attributes map[string]string) OmegaMatcher {
		all := []OmegaMatcher{HaveField("Name", name)}
		for key, value := range attributes {
			all = append(all, HaveField("Attributes", HaveKeyWithValue(key, value)))
		}
		return And(all...)
	}

	It("goes from the API server's request through the decision to the patch", func(ctx SpecContext) {
		p := framework.NewPolicy(namespace, zones, "", "configmaps", namespace)
		f.CreateReadyPolicy(ctx, p)
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "placed", nil))).To(Succeed())
		admission := find(ctx, "admission placement", map[string]string{"berth.object.name": "placed"})
		Expect(admission.Attributes).To(And(
			HaveKeyWithValue("berth.outcome", "patched"), HaveKeyWithValue("berth.policies", p.Name+"@1"),
			HaveKeyWithValue("berth.decision", HavePrefix("sha256:")), HaveKeyWithValue("berth.object.resource", "configmaps.v1"),
			HaveKeyWithValue("k8s.namespace.name", namespace), HaveKeyWithValue("berth.request.operation", "CREATE"),
		))
		Eventually(collected.parts).WithContext(ctx).WithArguments(admission).Should(ConsistOf(
			named("match", nil),
			named("evaluate", map[string]string{"berth.policy": p.Name, "berth.outcome": "changed", "berth.policy.mode": "Enforce"}),
			named("patch", nil),
		))
		Eventually(collected.parent).WithContext(ctx).WithArguments(admission).Should(HaveField("Service", "apiserver"))

		By("telling a denial")
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "denied", map[string]string{"example.com/forbidden": "x"}))).NotTo(Succeed())
		admission = find(ctx, "admission placement", map[string]string{"berth.object.name": "denied"})
		Expect(admission.Attributes).To(HaveKeyWithValue("berth.outcome", "denied"))
		Eventually(collected.parts).WithContext(ctx).WithArguments(admission).Should(ConsistOf(
			named("match", nil), named("evaluate", map[string]string{"berth.outcome": "denied"})))
	})

	It("shows how a quota was charged", func(ctx SpecContext) {
		f.CreateReadyQuota(ctx, framework.NewScopedQuota(namespace, "few", placementv1.QuotaSpec{Hard: framework.Hard("services", "1")}))
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "counted"}}
		service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		Expect(f.Client.Create(ctx, service)).To(Succeed())
		admission := find(ctx, "admission quota", map[string]string{"berth.object.name": "counted"})
		Expect(admission.Attributes).To(And(
			HaveKeyWithValue("berth.outcome", "allowed"), HaveKeyWithValue("berth.charged", "ScopedQuota/"+namespace+"/few")))
		Eventually(collected.parts).WithContext(ctx).WithArguments(admission).Should(ContainElements(
			named("usage", nil), named("decide", map[string]string{"berth.outcome": "allowed"}), named("charge", nil)))

		By("going on with the write of the quota's status")
		var charge span
		for _, part := range collected.parts(admission) {
			if part.Name == "charge" {
				charge = part
			}
		}
		Eventually(collected.parts).WithContext(ctx).WithArguments(charge).Should(ConsistOf(named("HTTP PUT", nil)))
	})

	It("leads from remediation through the API server and back", func(ctx SpecContext) {
		object := framework.NewObject(framework.ConfigMap, namespace, "standing", nil)
		Expect(f.Client.Create(ctx, object)).To(Succeed())
		p := framework.NewPolicy(namespace, zones, "", "configmaps", namespace)
		f.CreateReadyPolicy(ctx, p)
		remediation := find(ctx, "remediation", map[string]string{"berth.object.name": "standing", "berth.outcome": "patched"})
		Expect(remediation.Attributes).To(HaveKeyWithValue("berth.decision", HavePrefix("sha256:")))
		Expect(remediation.Parent).To(BeEmpty())
		Eventually(collected.parts).WithContext(ctx).WithArguments(remediation).Should(ContainElements(
			named("evaluate", map[string]string{"berth.policy": p.Name}), named("HTTP PATCH", nil)))
		Eventually(collected.logs.about).WithContext(ctx).WithArguments("standing").Should(ConsistOf(And(
			HavePrefix("berth: "), ContainSubstring("placement decision"), ContainSubstring(p.Name), ContainSubstring("example.com/zone"),
			ContainSubstring(string(decisionlog.Patched)), ContainSubstring("came into force"))))
		Eventually(func() bool {
			asked, err := collected.find("admission placement", map[string]string{"berth.object.name": "standing", "berth.request.operation": "UPDATE"})
			return err == nil && collected.ledTo(remediation, asked)
		}).WithContext(ctx).Should(BeTrue())
	})
})
