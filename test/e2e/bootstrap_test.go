//go:build e2e

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

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// downAtStart is what a cluster can do while no replica is there, whatever types the policies match.
func downAtStart() {
	It("keeps neither the API server from starting nor a node from joining by a policy with wildcards", func(ctx SpecContext) {
		p := framework.NewPolicy("everything", rego("north"), "*", "*")
		p.Spec.Match.ResourceRules[0].APIVersions = []string{"*"}
		p.Spec.Remediation.Mode = placementv1.RemediationOff
		f.CreateReadyPolicy(ctx, p)
		newConfigMap := func() *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "adrift-", Labels: map[string]string{"unseaworthy": "true"}}}
		}
		Eventually(f.Client.Create).WithContext(ctx).WithArguments(newConfigMap()).Should(framework.BeForbidden("no berth for the unseaworthy"))
		scaleToZero(ctx)
		Expect(f.Client.Create(ctx, newConfigMap())).To(MatchError(ContainSubstring("failed calling webhook")))

		// What it lacks it writes when it starts.
		must(ctx, "kubectl delete clusterrole system:basic-user")
		must(ctx, "kubectl delete clusterrolebinding system:basic-user")
		Expect(kube.RestartAPIServer(ctx)).To(Succeed())
		must(ctx, "kubectl get clusterrole,clusterrolebinding system:basic-user")

		node, err := kube.AddNode(ctx)
		Expect(err).NotTo(HaveOccurred())
		must(ctx, "kubectl get csinode "+node)
		Expect(kube.RemoveNode(ctx)).To(Succeed())
		Expect(f.Client.Create(ctx, newConfigMap())).To(MatchError(ContainSubstring("failed calling webhook")))

		must(ctx, scaleUp)
		expectReady(ctx)
	})
}
