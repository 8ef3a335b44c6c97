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

package plugin_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

const (
	federationNamespace = "kube-federation-scheduling-policy"
	preferences         = "federation.kubernetes.io/replica-set-preferences"
)

var federatedCluster = schema.GroupVersionKind{Group: "federation.k8s.io", Version: "v1beta1", Kind: "Cluster"}

// federationPolicy is the design document's handling of conflicts, with the rules that it leaves to the reader.
const federationPolicy = `package kubernetes.placement

import data.kubernetes.clusters

errors["requested replica-set-preferences includes invalid clusters"] {
  invalid_clusters = developer_clusters - policy_defined_clusters
  invalid_clusters != set()
}

annotations["federation.kubernetes.io/replica-set-preferences"] = value {
  eu_required
  value := {"clusters": {name: {"weight": 1} | policy_defined_clusters[name]}, "rebalance": true}
}

eu_required { input.metadata.annotations["policy.federation.alpha.kubernetes.io/eu-jurisdiction-required"] = "true" }

policy_defined_clusters[name] {
  eu_required
  startswith(clusters[name].status.region, "europe-")
}

policy_defined_clusters[name] {
  not eu_required
  clusters[name]
}

developer_clusters[name] {
  json.unmarshal(input.metadata.annotations["federation.kubernetes.io/replica-set-preferences"], wanted)
  wanted.clusters[name]
}
`

func configMap(namespace, name string, labels map[string]string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Data: data}
}

func replicaSet(namespace, name string, annotations map[string]string) *unstructured.Unstructured {
	GinkgoHelper()
	return framework.NewObject(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}, namespace, name, annotations)
}

// What an OPA with kube-mgmt has is moved into policies.
var _ = Describe("kubectl berth migrate configmaps", Ordered, func() {
	rego := map[string]string{"openpolicyagent.org/policy": "rego"}

	BeforeAll(func(ctx SpecContext) {
		crd := framework.NewCRD("federation.k8s.io", "v1beta1", "clusters", "Cluster", apiextensionsv1.ClusterScoped)
		f.InstallCRD(ctx, crd)
		DeferCleanup(f.UninstallCRD, crd.Name)
		for name, region := range map[string]string{"gce-europe-west1": "europe-west1", "gce-europe-west2": "europe-west2", "gce-us-central1": "us-central1"} {
			cluster := framework.NewObject(federatedCluster, "", name, nil)
			cluster.Object["status"] = map[string]any{"region": region}
			f.CreateWithStatus(ctx, cluster)
		}
	})

	It("brings the federation's policy over, and workloads are placed as the design says", func(ctx SpecContext) {
		By("having the well-known namespace, where ConfigMaps need no label")
		Expect(f.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: federationNamespace}})).To(Succeed())
		Expect(f.Client.Create(ctx, configMap(federationNamespace, "scheduling-policy", nil, map[string]string{"policy.rego": federationPolicy}))).To(Succeed())
		Expect(f.Client.Create(ctx, configMap(federationNamespace, "kube-root-ca.crt", nil, map[string]string{"ca.crt": "-----BEGIN CERTIFICATE-----"}))).To(Succeed())

		out, err := f.Shell(ctx, "kubectl berth migrate configmaps --namespace="+federationNamespace+
			" --selector= --resource=replicasets.apps/v1 --mode=Enforce | kubectl apply --server-side -f -")
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(out).To(ContainSubstring("placementpolicy.placement.berth.dev/scheduling-policy serverside-applied"))
		DeferCleanup(f.DeletePolicy, "scheduling-policy")
		f.AwaitReady(ctx, "scheduling-policy")
		p, err := f.Policy(ctx, "scheduling-policy")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Spec.Rego).To(Equal(federationPolicy))
		Expect(p.Spec.RegoVersion).To(Equal(placementv1.RegoV0))

		namespace := f.NewNamespace(ctx, nil)
		nginx := replicaSet(namespace, "nginx-eu", map[string]string{
			"policy.federation.alpha.kubernetes.io/eu-jurisdiction-required": "true",
		})
		Expect(f.Client.Create(ctx, nginx)).To(Succeed())
		Expect(nginx.GetAnnotations()[preferences]).To(MatchJSON(
			`{"clusters": {"gce-europe-west1": {"weight": 1}, "gce-europe-west2": {"weight": 1}}, "rebalance": true}`))

		Expect(f.Client.Create(ctx, replicaSet(namespace, "nginx-us", map[string]string{
			"policy.federation.alpha.kubernetes.io/eu-jurisdiction-required": "true",
			preferences: `{"clusters": {"gce-us-central1": {"weight": 1}}}`,
		}))).To(MatchError(ContainSubstring("requested replica-set-preferences includes invalid clusters")))
	})

	It("prints nothing by halves, and reads all namespaces on demand", func(ctx SpecContext) {
		namespace, other := f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		Expect(f.Client.Create(ctx, configMap(namespace, "labels", rego, map[string]string{"p.rego": `package labels

labels := data.lib.labels
`}))).To(Succeed())
		Expect(f.Client.Create(ctx, configMap(other, "lib", rego, map[string]string{"lib.rego": `package lib

labels := {"a": "b"}
`}))).To(Succeed())
		Expect(f.Client.Create(ctx, configMap(namespace, "admission", rego, map[string]string{"a.rego": `package kubernetes.admission

deny[x] { x := input.request.uid }
`}))).To(Succeed())
		Expect(f.Client.Create(ctx, configMap(namespace, "unrelated", nil, map[string]string{"a": "b"}))).To(Succeed())

		By("reading one namespace")
		out, err := f.Shell(ctx, "kubectl berth migrate configmaps -n "+namespace)
		Expect(err).To(HaveOccurred())
		Expect(out).To(And(ContainSubstring(namespace+"/admission/a.rego: left out"), Not(ContainSubstring("unrelated")), Not(ContainSubstring("kind:"))))
		Expect(out).To(ContainSubstring("the policy reads data.lib, which spec.data does not have"))

		By("reading all")
		_, err = f.Shell(ctx, "kubectl berth migrate configmaps -A --package=labels | kubectl apply --server-side -f -")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(f.DeletePolicy, "labels")
		f.AwaitReady(ctx, "labels")
		p, err := f.Policy(ctx, "labels")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Spec.Mode).To(Equal(placementv1.ModeDryRun))
		Expect(p.Spec.Rego).To(And(ContainSubstring("labels := lib_labels\n"), ContainSubstring(`lib_labels := {"a": "b"}
`)))

		By("reading what kubectl prints")
		out, err = f.Shell(ctx, "kubectl get configmaps -A -o yaml | kubectl berth migrate configmaps -f - --package=labels 2>/dev/null | kubectl diff --server-side -f -")
		Expect(err).NotTo(HaveOccurred(), out)

		By("applying it once more")
		out, err = f.Shell(ctx, "kubectl berth migrate configmaps -A --package=labels 2>/dev/null | kubectl diff --server-side -f -")
		Expect(err).NotTo(HaveOccurred(), out)
	})
})
