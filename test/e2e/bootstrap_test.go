//go:build e2e

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
