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
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("The webhook for workloads", Label("versions"), func() {
	It("decides objects that get their names from generateName", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		p := framework.NewPolicy(framework.NewName("generated"), framework.Rego(`annotations["example.com/zone"] := input.metadata.generateName`), "", "configmaps", namespace)
		f.CreateReadyPolicy(ctx, p)
		obj := framework.NewObject(framework.ConfigMap, namespace, "", map[string]string{"example.com/zone": "mine"})
		obj.SetGenerateName("shop-")
		Expect(f.Client.Create(ctx, obj)).To(Succeed())
		Expect(stored(ctx, framework.ConfigMap, namespace, obj.GetName())).To(HaveKeyWithValue("example.com/zone", "shop-"))

		// The record made before the name was is worth something after: the developer's value returns.
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = framework.Rego(`annotations["other"] := "x"`) })
		Eventually(f.Get).WithContext(ctx).WithArguments(framework.ConfigMap, namespace, obj.GetName()).
			Should(HaveField("GetAnnotations()", HaveKeyWithValue("example.com/zone", "mine")))
	})

	It("decides cluster-scoped objects", func(ctx SpecContext) {
		p := framework.NewPolicy(framework.NewName("clusters"), zone, "federation.k8s.io", "clusters")
		p.Spec.Match.ResourceRules[0].APIVersions = []string{"*"}
		p.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"scope": p.Name}}
		f.CreateReadyPolicy(ctx, p)
		cluster := framework.NewObject(federatedCluster, "", p.Name, nil)
		cluster.SetLabels(map[string]string{"scope": p.Name})
		Expect(f.Client.Create(ctx, cluster)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(f.Client.Delete(ctx, cluster)).To(Succeed()) })
		Expect(stored(ctx, federatedCluster, "", p.Name)).To(Equal(map[string]string{"example.com/zone": "a"}))
	})

	It("decides namespaces, by their own labels", func(ctx SpecContext) {
		p := framework.NewPolicy(framework.NewName("namespaces"), zone, "", "namespaces")
		p.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"scope": p.Name}}
		f.CreateReadyPolicy(ctx, p)
		kind := schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
		Expect(stored(ctx, kind, "", f.NewNamespace(ctx, map[string]string{"scope": p.Name}))).To(Equal(map[string]string{"example.com/zone": "a"}))
		Expect(stored(ctx, kind, "", f.NewNamespace(ctx, map[string]string{"scope": "none"}))).To(BeEmpty())
	})

	It("decides an object whose namespace was created a moment before", func(ctx SpecContext) {
		p := framework.NewPolicy(framework.NewName("fresh"), zone, "", "configmaps")
		p.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"scope": p.Name}}
		f.CreateReadyPolicy(ctx, p)
		for range 10 {
			namespace := f.NewNamespace(ctx, map[string]string{"scope": p.Name})
			Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "c", nil))).To(Succeed())
			Expect(stored(ctx, framework.ConfigMap, namespace, "c")).To(HaveKey("example.com/zone"))
		}
	})

	It("never holds up what a cluster needs to live, whatever a policy matches", func(ctx SpecContext) {
		p := framework.NewPolicy(framework.NewName("everything"), framework.Rego(`errors contains "nothing is allowed" if not input.metadata.labels.allowed`), "*", "*")
		p.Spec.Match.ResourceRules[0].APIVersions = []string{"*"}
		p.Spec.Remediation.Mode = placementv1.RemediationOff
		f.CreatePolicy(ctx, p)
		DeferCleanup(func(ctx SpecContext) {
			f.DeletePolicy(ctx, p.Name)
			if operator == nil {
				operator = f.StartReadyManager(ctx)
			}
			Eventually(workloadWebhooks).WithContext(ctx).Should(BeEmpty())
			// Until the API server has noticed, specs would be denied.
			Eventually(func(ctx SpecContext) error {
				return f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, metav1.NamespaceDefault, "open", nil), client.DryRunAll)
			}).WithContext(ctx).Should(Succeed())
		})
		f.AwaitReady(ctx, p.Name)
		for _, stopped := range []bool{false, true} {
			By(fmt.Sprintf("the operator stopped: %t", stopped))
			if stopped {
				stopOperator()
			}
			Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, metav1.NamespaceDefault, framework.NewName("c"), nil))).NotTo(Succeed())
			if !stopped {
				// The events of denials are not themselves denied.
				Eventually(f.EventNotes).WithContext(ctx).WithArguments(metav1.NamespaceDefault, events.Denied.Reason).
					Should(ContainElement(ContainSubstring(p.Name)))
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: framework.NewName("node")}}
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: framework.NewName("lease")}}
			for _, obj := range []client.Object{
				node, lease,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: framework.NewName("c")}},
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: framework.OperatorNamespace, Name: framework.NewName("c")}},
				&certificatesv1.CertificateSigningRequest{
					ObjectMeta: metav1.ObjectMeta{Name: framework.NewName("csr")},
					Spec: certificatesv1.CertificateSigningRequestSpec{
						Request: newSigningRequest(), SignerName: "example.com/signer", Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
					},
				},
				framework.NewPolicy(framework.NewName("another"), zone, "apps", "replicasets", "nowhere"),
			} {
				Expect(f.Client.Create(ctx, obj)).To(Succeed(), "%T", obj)
				DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(f.Client.Delete(ctx, obj))).To(Succeed()) })
			}
			node.Labels = map[string]string{"changed": "yes"}
			Expect(f.Client.Update(ctx, node)).To(Succeed())
			lease.Spec.HolderIdentity = new("somebody")
			Expect(f.Client.Update(ctx, lease)).To(Succeed())
			clients, err := kubernetes.NewForConfig(f.Config)
			Expect(err).NotTo(HaveOccurred())
			_, err = clients.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "x"}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = clients.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "x", ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"},
			}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
	})

	It("lets an object go whose finalizer is removed", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		obj := framework.NewObject(framework.ConfigMap, namespace, "c", nil)
		obj.SetFinalizers([]string{"example.com/hold"})
		Expect(f.Client.Create(ctx, obj)).To(Succeed())
		Expect(f.Client.Delete(ctx, obj)).To(Succeed())
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("deny"), framework.Rego(`errors contains "nothing is allowed"`), "", "configmaps", namespace))
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "other", nil))).NotTo(Succeed())
		held, err := f.Get(ctx, framework.ConfigMap, namespace, "c")
		Expect(err).NotTo(HaveOccurred())
		unstructured.RemoveNestedField(held.Object, "metadata", "finalizers")
		Expect(f.Client.Update(ctx, held)).To(Succeed())
		_, err = f.Get(ctx, framework.ConfigMap, namespace, "c")
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		Expect(err).To(HaveOccurred())
	})
})
