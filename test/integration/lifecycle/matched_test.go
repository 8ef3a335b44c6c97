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

package lifecycle_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// manifest is a policy that places what a rule matches, in namespaces that a selector selects.
func manifest(name, group, resource, selector string) string {
	return fmt.Sprintf(`apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: %s}
spec:
  match:
    resourceRules: [{apiGroups: [%q], apiVersions: [v1], resources: [%s]}]
    namespaceSelector: %s
  rego: |
    package placement
    annotations["example.com/zone"] := "a"
`, name, group, resource, selector)
}

// apply applies a manifest and returns what kubectl says.
func apply(ctx context.Context, text string) string {
	GinkgoHelper()
	out, err := f.Kubectl(ctx, text, "apply", "-f", "-")
	Expect(err).NotTo(HaveOccurred(), out)
	return out
}

var _ = Describe("A policy whose match matches nothing", Label("versions"), func() {
	It("is warned of and not ready until the type is served", func(ctx SpecContext) {
		start(ctx)
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("unserved")
		group, plural := framework.NewName("sea")+".example.com", framework.NewName("rafts")
		said := apply(ctx, manifest(name, group, plural, "{matchLabels: {kubernetes.io/metadata.name: "+namespace+"}}"))
		DeferCleanup(f.DeletePolicy, name)
		Expect(said).To(ContainSubstring(`Warning: spec.match.resourceRules[0].resources[0]: the API server does not serve "` + plural + `"`))
		Eventually(condition).WithContext(ctx).WithArguments(name, placementv1.ConditionReady).Should(Equal("False/NotServed"))
		Expect(condition(ctx, name, placementv1.ConditionEnforced)).To(Equal("False/NotServed"))

		crd := framework.NewCRD(group, "v1", plural, "Raft", apiextensionsv1.NamespaceScoped)
		f.InstallCRD(ctx, crd)
		DeferCleanup(f.UninstallCRD, crd.Name)
		f.AwaitReady(ctx, name)
		Expect(condition(ctx, name, placementv1.ConditionEnforced)).To(Equal("True/Enforced"))
		raft := framework.NewObject(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Raft"}, namespace, "r", nil)
		Expect(f.Client.Create(ctx, raft)).To(Succeed())
		Expect(raft.GetAnnotations()).To(HaveKeyWithValue("example.com/zone", "a"))
	})

	It("is told of what was probably meant", func(ctx SpecContext) {
		start(ctx)
		name := framework.NewName("misspelt")
		DeferCleanup(f.DeletePolicy, name)
		Expect(apply(ctx, manifest(name, "apps", "deployment", "{}"))).To(ContainSubstring("did you mean deployments?"))
		Expect(apply(ctx, manifest(name, "apps/v1", "deployments", "{}"))).To(ContainSubstring(`did you mean deployments in apiGroups ["apps"]?`))
		Expect(apply(ctx, manifest(name, "", "deploy", "{}"))).To(ContainSubstring(`did you mean deployments in apiGroups ["apps"]?`))
		Expect(apply(ctx, manifest(name, "apps", "deployments", "{matchLabels: {kubernetes.io/metadata.name: kube-system}}"))).To(ContainSubstring("can't match anything"))
		Eventually(condition).WithContext(ctx).WithArguments(name, placementv1.ConditionReady).Should(Equal("False/NothingMatched"))
		Expect(apply(ctx, manifest(name, "apps", "deployments", "{}"))).NotTo(ContainSubstring("Warning"))
		f.AwaitReady(ctx, name)
	})

	It("says that its namespaces do not exist, and follows them", func(ctx SpecContext) {
		start(ctx)
		name, team := framework.NewName("nowhere"), framework.NewName("team")
		said := apply(ctx, manifest(name, "", "configmaps", "{matchLabels: {team: "+team+"}}"))
		DeferCleanup(f.DeletePolicy, name)
		Expect(said).To(ContainSubstring("namespaceSelector selects none of the namespaces that there are"))
		Eventually(condition).WithContext(ctx).WithArguments(name, placementv1.ConditionEnforced).Should(Equal("True/NoNamespaces"))
		f.AwaitReady(ctx, name)
		namespace := f.NewNamespace(ctx, map[string]string{"team": team})
		Eventually(condition).WithContext(ctx).WithArguments(name, placementv1.ConditionEnforced).Should(Equal("True/Enforced"))
		f.MustKubectl(ctx, "", "label", "namespace", namespace, "team-")
		Eventually(condition).WithContext(ctx).WithArguments(name, placementv1.ConditionEnforced).Should(Equal("True/NoNamespaces"))
	})
})

var _ = Describe("A quota that can't count", Label("versions"), func() {
	of := func(ctx context.Context, q placementv1.Quota, conditionType string) (string, error) {
		if err := f.Client.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
			return "", err
		}
		c := meta.FindStatusCondition(q.QuotaStatus().Conditions, conditionType)
		if c == nil {
			return "", nil
		}
		return string(c.Status) + "/" + c.Reason + ": " + c.Message, nil
	}

	It("is warned of, and its status says so", func(ctx SpecContext) {
		start(ctx)
		namespace, class := f.NewNamespace(ctx, nil), framework.NewName("gold")
		scoped := func(name, spec string) (*placementv1.ScopedQuota, string) {
			text := fmt.Sprintf("apiVersion: placement.berth.dev/v1alpha1\nkind: ScopedQuota\nmetadata: {name: %s, namespace: %s}\nspec: %s\n", name, namespace, spec)
			var said string
			// The webhook may be a moment younger than the replica.
			Eventually(func(ctx context.Context) string {
				said = apply(ctx, text)
				return said
			}).WithContext(ctx).Should(ContainSubstring("Warning: "))
			return &placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, said
		}
		q, said := scoped("singular", `{hard: {count/deployment.apps: "1"}}`)
		Expect(said).To(ContainSubstring("the API server serves no deployment.apps in namespaces (did you mean deployments.apps?)"))
		Eventually(of).WithContext(ctx).WithArguments(q, placementv1.ConditionReady).Should(And(HavePrefix("False/NotServed"), ContainSubstring("did you mean deployments.apps?")))

		q, said = scoped("class", `{hard: {pods: "1"}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [`+class+`]}]}}`)
		Expect(said).To(ContainSubstring("there is no PriorityClass " + class))
		Eventually(of).WithContext(ctx).WithArguments(q, placementv1.ConditionMatched).Should(HavePrefix("False/UnknownClass"))
		f.MustKubectl(ctx, "", "create", "priorityclass", class, "--value=7")
		DeferCleanup(func(ctx SpecContext) { f.MustKubectl(ctx, "", "delete", "priorityclass", class) })
		Eventually(of).WithContext(ctx).WithArguments(q, placementv1.ConditionMatched).Should(HavePrefix("True/Matched"))

		shared := &placementv1.ClusterScopedQuota{ObjectMeta: metav1.ObjectMeta{Name: framework.NewName("shared")}}
		cluster := "apiVersion: placement.berth.dev/v1alpha1\nkind: ClusterScopedQuota\nmetadata: {name: " + shared.Name + "}\nspec: {hard: {pods: 1}, namespaceSelector: {matchLabels: {%s: %s}}}\n"
		DeferCleanup(func(ctx SpecContext) { f.MustKubectl(ctx, "", "delete", "csquota", shared.Name) })
		Expect(apply(ctx, fmt.Sprintf(cluster, "team", namespace))).To(ContainSubstring("selects none of the namespaces"))
		Eventually(of).WithContext(ctx).WithArguments(shared, placementv1.ConditionMatched).Should(HavePrefix("False/NoNamespaces"))
		Expect(apply(ctx, fmt.Sprintf(cluster, corev1.LabelMetadataName, "kube-system"))).To(ContainSubstring("it selects kube-system only"))
		Eventually(of).WithContext(ctx).WithArguments(shared, placementv1.ConditionReady).Should(HavePrefix("False/NothingMatched"))
		f.MustKubectl(ctx, "", "label", "namespace", namespace, "team="+namespace)
		Expect(apply(ctx, fmt.Sprintf(cluster, "team", namespace))).NotTo(ContainSubstring("Warning"))
		Eventually(of).WithContext(ctx).WithArguments(shared, placementv1.ConditionReady).Should(HavePrefix("True/InForce"))
	})

	It("says which resources no node has", func(ctx SpecContext) {
		start(ctx)
		namespace := f.NewNamespace(ctx, nil)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: framework.NewName("gpus")}}
		node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
		Expect(f.Client.Create(ctx, node)).To(Succeed())
		DeferCleanup(f.Client.Delete, node)
		q := &placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gpus"}}
		apply(ctx, fmt.Sprintf("apiVersion: placement.berth.dev/v1alpha1\nkind: ScopedQuota\nmetadata: {name: %s, namespace: %s}\n", q.Name, namespace)+
			"spec: {hard: {requests.nvidia.com/gpus: 4}}\n")
		Eventually(of).WithContext(ctx).WithArguments(q, placementv1.ConditionMatched).Should(
			Equal("True/Matched: what the quota names exists, but no node has nvidia.com/gpus now"))

		limit := &placementv1.LimitedResource{ObjectMeta: metav1.ObjectMeta{Name: framework.NewName("gpus")}}
		apply(ctx, fmt.Sprintf("apiVersion: placement.berth.dev/v1alpha1\nkind: LimitedResource\nmetadata: {name: %s}\n", limit.Name)+
			"spec: {resource: pods, matchContains: [nvidia.com/gpus], namespaceSelector: {matchLabels: {"+corev1.LabelMetadataName+": "+namespace+"}}}\n")
		DeferCleanup(f.Client.Delete, limit)
		matched := func(ctx context.Context) string {
			Expect(f.Client.Get(ctx, client.ObjectKeyFromObject(limit), limit)).To(Succeed())
			if c := meta.FindStatusCondition(limit.Status.Conditions, placementv1.ConditionMatched); c != nil {
				return c.Message
			}
			return ""
		}
		Eventually(matched).WithContext(ctx).Should(HaveSuffix("but no node has a resource whose name contains nvidia.com/gpus now"))
	})
})
