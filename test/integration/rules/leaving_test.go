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

package rules_test

import (
	"context"
	"encoding/json"
	"maps"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// given is what policies give a Deployment.
type given struct {
	Clusters, Shares, Annotation, Scheduler string
	Labels, NodeSelector                    map[string]string
}

func givenTo(o *unstructured.Unstructured) given {
	GinkgoHelper()
	out := given{Labels: map[string]string{}}
	annotations, labels := o.GetAnnotations(), o.GetLabels()
	out.Clusters, out.Shares, out.Annotation = annotations[placementv1.ClustersAnnotation], annotations[placementv1.ClusterSharesAnnotation], annotations["example.com/by"]
	maps.Copy(out.Labels, labels)
	delete(out.Labels, "tier")
	var err error
	out.Scheduler, _, err = unstructured.NestedString(o.Object, "spec", "template", "spec", "schedulerName")
	Expect(err).NotTo(HaveOccurred())
	out.NodeSelector, _, err = unstructured.NestedStringMap(o.Object, "spec", "template", "spec", "nodeSelector")
	Expect(err).NotTo(HaveOccurred())
	return out
}

var _ = Describe("An object that stops matching a policy", func() {
	var gold, silver *placementv1.PlacementPolicy
	var namespace string

	// gold gives all that a policy can give; silver other clusters, and nothing else.
	BeforeEach(func(ctx SpecContext) {
		for _, name := range []string{"c0", "c1", "c2"} {
			createCluster(ctx, name, "eu", nil)
		}
		namespace = f.NewNamespace(ctx, map[string]string{"tier": "gold"})
		gold = newPolicy(framework.NewName("gold"), `
- name: gold
  require: [{field: name, operator: In, values: [c0]}]
  prefer: [{field: name, operator: In, values: [c0], weight: 100}]
  weights: Score
  set:
    annotations: {example.com/by: gold}
    labels: {by: gold}
    nodeSelector: {disk: ssd}
    schedulerName: gold-scheduler
`, namespace)
		silver = newPolicy(framework.NewName("silver"), `[{name: silver, require: [{field: name, operator: In, values: [c1, c2]}]}]`, namespace)
		for _, p := range []*placementv1.PlacementPolicy{gold, silver} {
			p.Spec.Remediation.BlastRadius = &placementv1.BlastRadius{Percent: 100}
		}
	})

	create := func(ctx context.Context, name, tier string) *unstructured.Unstructured {
		GinkgoHelper()
		o := framework.NewObject(framework.Deployment, namespace, name, nil)
		o.SetLabels(map[string]string{"tier": tier})
		Expect(f.Client.Create(ctx, o)).To(Succeed())
		return o
	}
	ofGold := given{
		Clusters: `["c0"]`, Shares: `{"c0":{"weight":100}}`, Annotation: "gold", Scheduler: "gold-scheduler",
		Labels: map[string]string{"by": "gold"}, NodeSelector: map[string]string{"disk": "ssd"},
	}
	ofSilver := given{Clusters: `["c1","c2"]`, Scheduler: "default-scheduler", Labels: map[string]string{}}
	get := func(ctx context.Context, name string) given {
		GinkgoHelper()
		o, err := f.Get(ctx, framework.Deployment, namespace, name)
		Expect(err).NotTo(HaveOccurred())
		return givenTo(o)
	}
	// expectLikeNew waits until the object has what a new one gets.
	expectLikeNew := func(ctx context.Context) {
		GinkgoHelper()
		Eventually(get).WithContext(ctx).WithArguments("web").Should(Equal(ofSilver))
		Expect(givenTo(create(ctx, "new", "silver"))).To(Equal(ofSilver))
		Eventually(f.Condition).WithContext(ctx).WithArguments(silver.Name, placementv1.ConditionCompliant).Should(HaveField("Status", metav1.ConditionTrue))
	}

	It("has what the other policy gives at once when its label changes", func(ctx SpecContext) {
		gold.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
		silver.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "silver"}}
		f.CreateReadyPolicy(ctx, gold)
		f.CreateReadyPolicy(ctx, silver)
		o := create(ctx, "web", "gold")
		Expect(givenTo(o)).To(Equal(ofGold))

		By("relabelling it, although the policies have no cluster in common")
		f.MustKubectl(ctx, "", "label", "deployment", "web", "-n", namespace, "tier=silver", "--overwrite")
		Expect(get(ctx, "web")).To(Equal(ofSilver))
		expectLikeNew(ctx)
		f.MustKubectl(ctx, "", "label", "deployment", "web", "-n", namespace, "tier=gold", "--overwrite")
		Expect(get(ctx, "web")).To(Equal(ofGold))

		By("taking the label away, so that no policy matches it")
		f.MustKubectl(ctx, "", "label", "deployment", "web", "-n", namespace, "tier-")
		Expect(get(ctx, "web")).To(Equal(ofGold))
		f.MustKubectl(ctx, "", "label", "deployment", "web", "-n", namespace, "tier=silver")
		Expect(get(ctx, "web")).To(Equal(ofSilver))
	})

	It("has what the other policy gives when its namespace is relabelled", func(ctx SpecContext) {
		byTier := func(tier string) *metav1.LabelSelector {
			return &metav1.LabelSelector{MatchLabels: map[string]string{"tier": tier, "kubernetes.io/metadata.name": namespace}}
		}
		gold.Spec.Match.NamespaceSelector, silver.Spec.Match.NamespaceSelector = byTier("gold"), byTier("silver")
		f.CreateReadyPolicy(ctx, gold)
		f.CreateReadyPolicy(ctx, silver)
		Expect(givenTo(create(ctx, "web", "any"))).To(Equal(ofGold))
		f.MustKubectl(ctx, "", "label", "namespace", namespace, "tier=silver", "--overwrite")
		expectLikeNew(ctx)
	})

	It("has what the other policy gives when the match is narrowed", func(ctx SpecContext) {
		f.CreateReadyPolicy(ctx, gold)
		Expect(givenTo(create(ctx, "web", "silver"))).To(Equal(ofGold))
		f.ChangePolicy(ctx, gold.Name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
		})
		f.AwaitReady(ctx, gold.Name)
		Consistently(get).WithContext(ctx).WithArguments("web").WithTimeout(shortly).Should(Equal(ofGold), "no other policy gives it anything")
		f.CreateReadyPolicy(ctx, silver)
		expectLikeNew(ctx)
	})

	It("has what the other policy gives when the policy is deleted", func(ctx SpecContext) {
		f.CreateReadyPolicy(ctx, gold)
		Expect(givenTo(create(ctx, "web", "silver"))).To(Equal(ofGold))
		f.DeletePolicy(ctx, gold.Name)
		Consistently(get).WithContext(ctx).WithArguments("web").WithTimeout(shortly).Should(Equal(ofGold), "no other policy gives it anything")
		f.CreateReadyPolicy(ctx, silver)
		expectLikeNew(ctx)
	})

	It("loses it in the same way if the other policy exists when the policy is deleted", func(ctx SpecContext) {
		common := newPolicy(framework.NewName("common"), `[{name: common, set: {annotations: {example.com/common: "yes"}}}]`, namespace)
		f.CreateReadyPolicy(ctx, gold)
		f.CreateReadyPolicy(ctx, common)
		Expect(givenTo(create(ctx, "web", "any"))).To(Equal(ofGold))
		f.DeletePolicy(ctx, gold.Name)
		want := given{Clusters: ofGold.Clusters, Shares: ofGold.Shares, Scheduler: "default-scheduler", Labels: map[string]string{}}
		Eventually(get).WithContext(ctx).WithArguments("web").Should(Equal(want), "the clusters and their shares stay until another policy gives some")
	})

	It("keeps the label of a policy that excludes it, also if the object is older than the policy and another policy matches it", func(ctx SpecContext) {
		// Their selectors differ, so that the API server calls one webhook for each, and the second one sees the label.
		once := newPolicy(framework.NewName("once"), `[{name: once, set: {labels: {done: "yes"}}}]`, namespace)
		once.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "done", Operator: metav1.LabelSelectorOpDoesNotExist}}}
		silver.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "silver"}}
		f.CreateReadyPolicy(ctx, silver)
		Expect(givenTo(create(ctx, "web", "silver"))).To(Equal(ofSilver))
		f.CreateReadyPolicy(ctx, once)
		want := ofSilver
		want.Labels = map[string]string{"done": "yes"}
		Eventually(get).WithContext(ctx).WithArguments("web").Should(Equal(want))
		Expect(givenTo(create(ctx, "new", "silver"))).To(Equal(want))
		f.MustKubectl(ctx, "", "label", "deployment", "web", "-n", namespace, "done-")
		Expect(get(ctx, "web")).To(Equal(want))
	})

	It("stays where the policy that it leaves denies that", func(ctx SpecContext) {
		guard := newPolicy(framework.NewName("guard"), `
- name: guard
  when: {expression: "object.metadata.?labels.?tier.orValue('') != 'gold'"}
  deny: an object of the tier gold keeps its tier
- name: gold
  require: [{field: name, operator: In, values: [c0]}]
`, namespace)
		guard.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
		silver.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "silver"}}
		f.CreateReadyPolicy(ctx, guard)
		f.CreateReadyPolicy(ctx, silver)
		create(ctx, "web", "gold")
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{"tier": "silver"}}})
		Expect(err).NotTo(HaveOccurred())
		out, err := f.Kubectl(ctx, "", "patch", "deployment", "web", "-n", namespace, "--type=merge", "-p", string(patch))
		Expect(err).To(HaveOccurred())
		Expect(out + err.Error()).To(ContainSubstring("an object of the tier gold keeps its tier (the policy matches the object before this update, and decides whether the object may leave it)"))
		o, err := f.Get(ctx, framework.Deployment, namespace, "web")
		Expect(err).NotTo(HaveOccurred())
		o.SetLabels(nil)
		Expect(f.Client.Update(ctx, o)).To(WithTransform(apierrors.IsForbidden, BeTrue()))
	})
})
