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

package admission_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// zone is a policy that sets one annotation.
var zone = framework.Rego(`annotations["example.com/zone"] := "a"`)

var _ = Describe("With the operator stopped", Label("versions"), func() {
	It("everything is admitted where no policy exists", func(ctx SpecContext) {
		Eventually(workloadWebhooks).WithContext(ctx).Should(BeEmpty())
		stopOperator()
		namespace := f.NewNamespace(ctx, nil)
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ReplicaSet, namespace, "nginx", nil))).To(Succeed())
		Expect(f.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, "nginx", nil))).To(Succeed())
	})

	It("what a policy matches is refused, and nothing else", func(ctx SpecContext) {
		namespace, other := f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		p := framework.NewPolicy(framework.NewName("closed"), zone, "apps", "replicasets", namespace)
		p.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"placed": "yes"}}
		p.Spec.Match.MatchConditions = []admissionregistrationv1.MatchCondition{{
			Name: "no-trials", Expression: `!("trial" in object.metadata.labels)`,
		}}
		f.CreateReadyPolicy(ctx, p)
		replicaSet := func(namespace string, labels map[string]string) client.Object {
			obj := framework.NewObject(framework.ReplicaSet, namespace, framework.NewName("nginx"), nil)
			obj.SetLabels(labels)
			return obj
		}
		deployment := framework.NewObject(framework.Deployment, namespace, "nginx", nil)
		deployment.SetLabels(map[string]string{"placed": "yes"})
		Expect(f.Client.Create(ctx, replicaSet(namespace, map[string]string{"placed": "yes"}))).To(Succeed())
		stopOperator()

		Expect(f.Client.Create(ctx, replicaSet(namespace, map[string]string{"placed": "yes"}))).
			To(MatchError(ContainSubstring("failed calling webhook")))
		Expect(f.Client.Create(ctx, deployment)).To(Succeed(), "another resource")
		Expect(f.Client.Create(ctx, replicaSet(other, map[string]string{"placed": "yes"}))).To(Succeed(), "another namespace")
		Expect(f.Client.Create(ctx, replicaSet(namespace, map[string]string{"placed": "no"}))).To(Succeed(), "objectSelector")
		Expect(f.Client.Create(ctx, replicaSet(namespace, map[string]string{"placed": "yes", "trial": ""}))).To(Succeed(), "matchConditions")
	})

	It("what a policy with failurePolicy Ignore matches is admitted undecided", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		p := framework.NewPolicy(framework.NewName("ignored"), zone, "apps", "replicasets", namespace)
		p.Spec.FailurePolicy = placementv1.FailurePolicyIgnore
		f.CreateReadyPolicy(ctx, p)
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ReplicaSet, namespace, "before", nil))).To(Succeed())
		Expect(stored(ctx, framework.ReplicaSet, namespace, "before")).To(HaveKey("example.com/zone"))
		stopOperator()
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ReplicaSet, namespace, "after", nil))).To(Succeed())
		Expect(stored(ctx, framework.ReplicaSet, namespace, "after")).To(BeEmpty())
	})

	It("a policy can be corrected and deleted", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		p := framework.NewPolicy(framework.NewName("correctable"), zone, "apps", "replicasets", namespace)
		f.CreateReadyPolicy(ctx, p)
		stopOperator()
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Priority = 7 })
		f.DeletePolicy(ctx, p.Name)
		_, err := f.Policy(ctx, p.Name)
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		Expect(err).To(HaveOccurred())
	})
})

var _ = Describe("The workload webhooks", Label("versions"), func() {
	It("exist while policies do", func(ctx SpecContext) {
		Eventually(workloadWebhooks).WithContext(ctx).Should(BeEmpty())
		namespace := f.NewNamespace(ctx, nil)
		p := framework.NewPolicy(framework.NewName("hooked"), zone, "apps", "replicasets", namespace)
		f.CreateReadyPolicy(ctx, p)
		Expect(workloadWebhooks(ctx)).To(ConsistOf(And(
			HaveField("SideEffects", HaveValue(Equal(admissionregistrationv1.SideEffectClassNone))),
			HaveField("FailurePolicy", HaveValue(Equal(admissionregistrationv1.Fail))),
			HaveField("Rules", ConsistOf(HaveField("Rule.Resources", ConsistOf("replicasets")))),
		)))
		f.DeletePolicy(ctx, p.Name)
		Eventually(workloadWebhooks).WithContext(ctx).Should(BeEmpty())
		Eventually(func(ctx context.Context) error {
			return f.Client.Create(ctx, framework.NewObject(framework.ReplicaSet, namespace, framework.NewName("open"), nil))
		}).WithContext(ctx).Should(Succeed())
	})
})
