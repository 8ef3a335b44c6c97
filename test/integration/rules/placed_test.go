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
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/test/framework"
)

// moduleDigest returns the digest in the status of a policy whose newest generation is in force.
func moduleDigest(ctx context.Context, name string) (string, error) {
	p, err := f.Policy(ctx, name)
	if err == nil && p.Status.GenerationInForce != p.Generation {
		err = fmt.Errorf("generation %d is in force, not %d", p.Status.GenerationInForce, p.Generation)
	}
	return p.Status.ModuleDigest, err
}

// digestOf returns the digest that the plugin prints for a policy.
func digestOf(ctx context.Context, p *placementv1.PlacementPolicy) string {
	GinkgoHelper()
	digest, name, _ := strings.Cut(strings.TrimSpace(f.MustKubectl(ctx, framework.PolicyManifest(p), "berth", "render", "--digest", "-f", "-")), "  ")
	Expect(name).To(Equal(p.Name))
	return digest
}

func tryCreate(ctx context.Context, o *unstructured.Unstructured) func() error {
	return func() error { return f.Client.Create(ctx, o.DeepCopy(), client.DryRunAll) }
}

var _ = Describe("A policy with rules", func() {
	It("places objects, moves them when a cluster changes, and denies those that no cluster suits", func(ctx SpecContext) {
		createCluster(ctx, "eu-1", "eu", map[string]string{"pci-level": "3"})
		createCluster(ctx, "eu-2", "eu", map[string]string{"pci-level": "1"})
		createCluster(ctx, "us-1", "us", map[string]string{"pci-level": "3"})
		createCluster(ctx, "us-2", "us", nil)
		namespace := f.NewNamespace(ctx, nil)
		p := newPolicy(framework.NewName("pci"), `
- name: eu-pci
  when: {annotations: [{key: example.com/eu, operator: In, values: ["true"]}]}
  require:
  - {field: region, operator: In, values: [eu]}
  - {label: pci-level, operator: Gte, valueFrom: {annotation: example.com/level, default: "0"}}
  set: {annotations: {example.com/where: "{clusters}"}}
`, namespace)
		p.Spec.Remediation.BlastRadius = &placementv1.BlastRadius{Percent: 100}
		f.CreateReadyPolicy(ctx, p)

		By("placing them at admission")
		web := framework.NewObject(framework.Deployment, namespace, "web", map[string]string{"example.com/eu": "true", "example.com/level": "2"})
		Expect(f.Client.Create(ctx, web)).To(Succeed())
		Expect(web.GetAnnotations()).To(And(HaveKeyWithValue(placementv1.ClustersAnnotation, `["eu-1"]`), HaveKeyWithValue("example.com/where", "eu-1")))
		other := framework.NewObject(framework.Deployment, namespace, "other", nil)
		Expect(f.Client.Create(ctx, other)).To(Succeed())
		Expect(other.GetAnnotations()).NotTo(HaveKey(placementv1.ClustersAnnotation))

		By("moving them when the label of a cluster changes")
		label(ctx, "eu-2", "pci-level", "2")
		Eventually(chosen).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(`["eu-1","eu-2"]`))
		label(ctx, "eu-1", "pci-level", "1")
		Eventually(chosen).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(`["eu-2"]`))

		By("denying an object that no cluster suits")
		strict := framework.NewObject(framework.Deployment, namespace, "strict", map[string]string{"example.com/eu": "true", "example.com/level": "3"})
		Eventually(tryCreate(ctx, strict)).WithContext(ctx).Should(And(
			WithTransform(apierrors.IsForbidden, BeTrue()),
			MatchError(ContainSubstring("rule eu-pci: 0/4 clusters are eligible: 2 with label pci-level not at least 3, 2 with region not eu"))))

		By("comparing the digest of the module with that of the plugin")
		Expect(moduleDigest(ctx, p.Name)).To(And(HavePrefix("sha256:"), Equal(digestOf(ctx, p))))
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Rules[0].Limit = 1 })
		p.Spec.Rules[0].Limit = 1
		Eventually(moduleDigest).WithContext(ctx).WithArguments(p.Name).Should(Equal(digestOf(ctx, p)))
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rules, p.Spec.Rego = nil, `package p

labels.a := "b"
`
		})
		Eventually(moduleDigest).WithContext(ctx).WithArguments(p.Name).Should(BeEmpty())
	})

	It("has the digest of the version that is rolled out", func(ctx SpecContext) {
		canary := f.NewNamespace(ctx, map[string]string{"stage": "canary"})
		p := newPolicy(framework.NewName("staged"), "[{name: one, limit: 1}]", canary, f.NewNamespace(ctx, nil))
		p.Spec.Rollout = &placementv1.PolicyRollout{Stages: []placementv1.RolloutStage{{
			Name: "canary", NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "canary"}}, Soak: &metav1.Duration{Duration: time.Hour},
		}}}
		f.CreateReadyPolicy(ctx, p)
		Eventually(moduleDigest).WithContext(ctx).WithArguments(p.Name).Should(Equal(digestOf(ctx, p)))
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Rules[0].Limit = 2 })
		p.Spec.Rules[0].Limit = 2
		Eventually(moduleDigest).WithContext(ctx).WithArguments(p.Name).Should(Equal(digestOf(ctx, p)))
	})

	It("neither writes nor decides an object when a threshold changes that no cluster crosses", func(ctx SpecContext) {
		createCluster(ctx, "high", "eu", map[string]string{"pci-level": "5"})
		createCluster(ctx, "low", "eu", map[string]string{"pci-level": "1"})
		namespace := f.NewNamespace(ctx, nil)
		p := newPolicy(framework.NewName("threshold"), "[{name: pci, require: [{label: pci-level, operator: Gte, values: ['2']}], limit: 1}]", namespace)
		p.Spec.Remediation.BlastRadius = &placementv1.BlastRadius{Percent: 100}
		f.CreateReadyPolicy(ctx, p)
		versions := func() map[string]string {
			GinkgoHelper()
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(framework.Deployment)
			Expect(f.Client.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
			out := map[string]string{}
			for _, o := range list.Items {
				out[o.GetName()] = o.GetResourceVersion()
			}
			return out
		}
		for i := range 5 {
			Expect(f.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, fmt.Sprintf("web-%d", i), nil))).To(Succeed())
		}
		Expect(chosen(ctx, namespace, "web-0")).To(Equal(`["high"]`))
		before := versions()
		Expect(before).To(HaveLen(5))
		digest, err := moduleDigest(ctx, p.Name)
		Expect(err).NotTo(HaveOccurred())

		evaluations := func() map[string]float64 {
			GinkgoHelper()
			out, err := manager.Series("berth_decision_memo_total", fmt.Sprintf("result=%q", metrics.MemoMiss))
			Expect(err).NotTo(HaveOccurred())
			Expect(out).NotTo(BeEmpty())
			return out
		}
		evaluated := evaluations()
		for _, level := range []string{"3", "4", "5"} {
			f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Rules[0].Require[0].Values = []string{level} })
			Eventually(moduleDigest).WithContext(ctx).WithArguments(p.Name).ShouldNot(Equal(digest))
			f.AwaitReady(ctx, p.Name)
			Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionCompliant).Should(HaveField("Status", metav1.ConditionTrue))
		}
		Consistently(versions).WithContext(ctx).Should(Equal(before))
		Expect(evaluations()).To(Equal(evaluated))

		By("writing each of them when the other cluster crosses it")
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rules[0].Require[0].Operator, p.Spec.Rules[0].Require[0].Values = placementv1.OperatorLt, []string{"2"}
		})
		for name := range before {
			Eventually(chosen).WithContext(ctx).WithArguments(namespace, name).Should(Equal(`["low"]`))
		}
	})

	It("says in the denial why it leaves out each cluster of the developer's list", func(ctx SpecContext) {
		createCluster(ctx, "eu-1", "eu", map[string]string{"pci-level": "2"})
		createCluster(ctx, "eu-2", "eu", map[string]string{"pci-level": "1"})
		createCluster(ctx, "us-1", "us", map[string]string{"pci-level": "3"})
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, newPolicy(framework.NewName("reasons"), `
- name: pci
  require:
  - {field: region, operator: In, values: [eu]}
  - {label: pci-level, operator: Gte, values: ["2"]}
`, namespace))
		o := framework.NewObject(framework.Deployment, namespace, "web", map[string]string{placementv1.ClustersAnnotation: `["us-1","eu-2","ap-1"]`})
		Expect(f.Client.Create(ctx, o)).To(MatchError(ContainSubstring("no cluster is left: this policy allows eu-1; annotation placement.berth.dev/clusters " +
			"asks for ap-1 (in no inventory), eu-2 (with label pci-level not at least 2), us-1 (with region not eu)")))
		o.SetAnnotations(map[string]string{placementv1.ClustersAnnotation: `["us-1","eu-1"]`})
		Expect(f.Client.Create(ctx, o)).To(Succeed())
		Expect(o.GetAnnotations()).To(HaveKeyWithValue(placementv1.ClustersAnnotation, `["eu-1"]`))
	})

	It("applies to objects by expressions and by the labels of their namespaces", func(ctx SpecContext) {
		createCluster(ctx, "eu-1", "eu", nil)
		createCluster(ctx, "us-1", "us", nil)
		production := f.NewNamespace(ctx, map[string]string{"stage": "production"})
		test := f.NewNamespace(ctx, map[string]string{"stage": "test"})
		p := newPolicy(framework.NewName("conditions"), `
- name: large
  when: {expression: "has(object.spec.replicas) && object.spec.replicas > 10"}
  require: [{field: region, operator: In, values: [us]}]
- name: production
  when: {namespaceSelector: {matchLabels: {stage: production}}}
  require: [{field: region, operator: In, values: [eu]}]
`, production, test)
		p.Spec.Remediation.BlastRadius = &placementv1.BlastRadius{Percent: 100}
		f.CreateReadyPolicy(ctx, p)
		create := func(namespace, name string, replicas int64) string {
			GinkgoHelper()
			o := framework.NewObject(framework.Deployment, namespace, name, nil)
			Expect(unstructured.SetNestedField(o.Object, replicas, "spec", "replicas")).To(Succeed())
			Expect(f.Client.Create(ctx, o)).To(Succeed())
			return o.GetAnnotations()[placementv1.ClustersAnnotation]
		}
		Expect(create(production, "small", 1)).To(Equal(`["eu-1"]`))
		Expect(create(production, "large", 11)).To(Equal(`["us-1"]`))
		Expect(create(test, "large", 11)).To(Equal(`["us-1"]`))
		Expect(create(test, "small", 10)).To(BeEmpty())

		By("following the label of a namespace")
		f.MustKubectl(ctx, "", "label", "namespace", test, "stage=production", "--overwrite")
		Eventually(chosen).WithContext(ctx).WithArguments(test, "small").Should(Equal(`["eu-1"]`))

		By("following the field that the expression reads")
		f.MustKubectl(ctx, "", "scale", "deployment/small", "-n", test, "--replicas=12")
		Eventually(chosen).WithContext(ctx).WithArguments(test, "small").Should(Equal(`["us-1"]`))
	})
})
