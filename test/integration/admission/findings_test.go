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
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("Objects of a matched type that a policy can't decide", func() {
	const (
		edge        = `[{name: edge, set: {nodeSelector: {node-role: edge}}}]`
		services    = `{apiGroups: [""], apiVersions: [v1], resources: [services]}`
		deployments = `{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}`
		// The type of Knative, which has a pod template of its own.
		knative = `{apiGroups: [serving.knative.dev], apiVersions: [v1], resources: [services]}`
		said    = "the policy sets fields of pods, and %s have no pod template that is known"
	)
	knativeService := schema.GroupVersionKind{Group: "serving.knative.dev", Version: "v1", Kind: "Service"}
	install := func(ctx context.Context) {
		GinkgoHelper()
		f.InstallCRD(ctx, framework.NewCRD(knativeService.Group, knativeService.Version, "services", knativeService.Kind, apiextensionsv1.NamespaceScoped))
		DeferCleanup(f.UninstallCRD, "services.serving.knative.dev")
	}
	// newPolicy returns a policy with Rego, or with rules if text is a list.
	newPolicy := func(ctx context.Context, text, resources string) *placementv1.PlacementPolicy {
		GinkgoHelper()
		p := framework.NewPolicy(framework.NewName("podless"), "", "", "", f.NewNamespace(ctx, nil))
		if text[0] == '[' {
			Expect(yaml.UnmarshalStrict([]byte(text), &p.Spec.Rules)).To(Succeed())
		} else {
			p.Spec.Rego = framework.Rego(text)
		}
		p.Spec.Match.ResourceRules = nil
		Expect(yaml.UnmarshalStrict([]byte("["+resources+"]"), &p.Spec.Match.ResourceRules)).To(Succeed())
		return p
	}
	namespaceOf := func(p *placementv1.PlacementPolicy) string {
		return p.Spec.Match.NamespaceSelector.MatchExpressions[0].Values[0]
	}
	apply := func(ctx SpecContext, p *placementv1.PlacementPolicy) (string, error) {
		DeferCleanup(f.DeletePolicy, p.Name)
		return f.Kubectl(ctx, framework.PolicyManifest(p), "apply", "--server-side", "-f", "-")
	}
	// refusal returns the answer to a strict policy that is the same otherwise.
	refusal := func(ctx SpecContext, p *placementv1.PlacementPolicy) string {
		GinkgoHelper()
		strict := p.DeepCopy()
		strict.Name, strict.Spec.Strict = p.Name+"-strict", true
		out, err := apply(ctx, strict)
		Expect(err).To(HaveOccurred(), out)
		return out
	}
	messages := func(ctx context.Context, name string) ([]string, error) {
		p, err := f.Policy(ctx, name)
		return p.Status.Findings, err
	}
	service := func(gvk schema.GroupVersionKind, namespace string) *unstructured.Unstructured {
		out := framework.NewObject(gvk, namespace, "", nil)
		out.SetGenerateName("s-")
		out.Object["spec"] = map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}
		return out
	}

	DescribeTable("are in the warning, in the findings, and in Ready, and a strict policy is refused",
		func(ctx SpecContext, text, resources, plural string, gvk schema.GroupVersionKind) {
			if gvk == knativeService {
				install(ctx)
			}
			p := newPolicy(ctx, text, resources)
			out, err := apply(ctx, p)
			Expect(err).NotTo(HaveOccurred(), out)
			Expect(out).To(ContainSubstring(said, plural))
			Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionReady).Should(And(
				framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonTypeErrors), HaveField("Message", ContainSubstring(said, plural))))
			Expect(messages(ctx, p.Name)).To(ConsistOf(ContainSubstring(said, plural)))

			// A controller that retries 500 at once is told that the same request fails again.
			Eventually(func(ctx context.Context) error { return f.Client.Create(ctx, service(gvk, namespaceOf(p))) }).WithContext(ctx).Should(And(
				Satisfy(apierrors.IsInvalid), MatchError(ContainSubstring("PlacementPolicy %q can't decide", p.Name)), MatchError(ContainSubstring("under podTemplates"))))
			Expect(refusal(ctx, p)).To(ContainSubstring(said, plural))
		},
		Entry("by rules", edge, services, "services", schema.GroupVersionKind{Version: "v1", Kind: "Service"}),
		Entry("by Rego", `scheduling.nodeSelector["node-role"] := "edge"`, services, "services", schema.GroupVersionKind{Version: "v1", Kind: "Service"}),
		Entry("of a kind that has a template of its own", edge, knative, "services.serving.knative.dev", knativeService),
		Entry("by their priority", `[{name: edge, set: {priorityClassName: system-node-critical}}]`, services, "services", schema.GroupVersionKind{Version: "v1", Kind: "Service"}),
	)

	It("leave a policy ready that decides those of another type", func(ctx SpecContext) {
		p := newPolicy(ctx, edge, services+", "+deployments)
		out, err := apply(ctx, p)
		Expect(err).NotTo(HaveOccurred(), out)
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionCompiled).Should(And(
			framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonTypeErrors), HaveField("Message", ContainSubstring(said, "services"))))
		f.AwaitReady(ctx, p.Name)
		Expect(refusal(ctx, p)).To(ContainSubstring(said, "services"))
	})

	It("make a policy not ready if no rule applies to any of them", func(ctx SpecContext) {
		p := newPolicy(ctx, `[{name: a, when: {namespaceSelector: {matchLabels: {team: x}}}, deny: "no"}]`, `{apiGroups: [""], apiVersions: [v1], resources: [persistentvolumes]}`)
		p.Spec.Match.NamespaceSelector = nil
		out, err := apply(ctx, p)
		Expect(err).NotTo(HaveOccurred(), out)
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionReady).Should(And(
			framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonTypeErrors), HaveField("Message", ContainSubstring("persistentvolumes have no namespace"))))
		Expect(refusal(ctx, p)).To(ContainSubstring("persistentvolumes have no namespace"))
	})

	It("are found in a policy that was not validated, and when their type is installed later", func(ctx SpecContext) {
		stopOperator()
		p, later := newPolicy(ctx, edge, services), newPolicy(ctx, edge, knative)
		for _, p := range []*placementv1.PlacementPolicy{p, later} {
			out, err := apply(ctx, p)
			Expect(err).NotTo(HaveOccurred(), out)
			Expect(out).NotTo(ContainSubstring("Warning"))
		}
		startOperator(ctx)
		Eventually(messages).WithContext(ctx).WithArguments(p.Name).Should(ConsistOf(ContainSubstring(said, "services")))
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionReady).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonTypeErrors))
		Expect(messages(ctx, later.Name)).To(BeEmpty())

		install(ctx)
		Eventually(messages).WithContext(ctx).WithArguments(later.Name).Should(ConsistOf(ContainSubstring(said, "services.serving.knative.dev")))
		Eventually(f.Condition).WithContext(ctx).WithArguments(later.Name, placementv1.ConditionReady).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonTypeErrors))
	})
})

var _ = Describe("What is warned of when a policy is applied", func() {
	BeforeEach(func(ctx SpecContext) {
		f.InstallClusterProfiles(ctx)
		DeferCleanup(f.UninstallCRD, "clusterprofiles.multicluster.x-k8s.io")
		eu := framework.NewObject(framework.ClusterProfile, f.NewNamespace(ctx, nil), "eu-1", nil)
		eu.SetLabels(map[string]string{"pci-compliance-level": "2"})
		eu.Object["status"] = map[string]any{"properties": []any{map[string]any{"name": "topology.kubernetes.io/region", "value": "europe-west1"}}}
		f.CreateWithStatus(ctx, eu)
	})

	DescribeTable("is in the findings afterwards, and refused if it is a mistake and the policy is strict",
		func(ctx SpecContext, spec, said string, mistake bool) {
			p := framework.NewPolicy(framework.NewName("warned"), "", "", "configmaps", f.NewNamespace(ctx, nil))
			Expect(yaml.UnmarshalStrict([]byte(spec), &p.Spec)).To(Succeed())
			DeferCleanup(f.DeletePolicy, p.Name)
			out, err := f.Kubectl(ctx, framework.PolicyManifest(p), "apply", "--server-side", "-f", "-")
			Expect(err).NotTo(HaveOccurred(), out)
			Expect(out).To(ContainSubstring(said))
			Eventually(func(g Gomega, ctx context.Context) {
				stored, err := f.Policy(ctx, p.Name)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(stored.Status.Findings).To(ContainElement(ContainSubstring(said)))
			}).WithContext(ctx).Should(Succeed())
			want := framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonTypeChecked)
			if mistake {
				want = framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonTypeErrors)
			}
			Expect(f.Condition(ctx, p.Name, placementv1.ConditionCompiled)).To(And(want, HaveField("Message", ContainSubstring(said))))
			f.AwaitReady(ctx, p.Name)

			p.Name, p.Spec.Strict = p.Name+"-strict", true
			DeferCleanup(f.DeletePolicy, p.Name)
			out, err = f.Kubectl(ctx, framework.PolicyManifest(p), "apply", "--server-side", "-f", "-")
			Expect(out).To(ContainSubstring(said))
			if !mistake {
				Expect(err).NotTo(HaveOccurred(), out)
				return
			}
			Expect(err).To(HaveOccurred(), out)
			Expect(out).To(ContainSubstring("is invalid"))
		},
		Entry("a label that no cluster has", `rules: [{name: a, require: [{label: pci-compliance-levle, operator: Exists}]}]`, `did you mean "pci-compliance-level"?`, true),
		Entry("a misspelt cluster in Rego", `rego: |
  package p
  clusters contains "eu1"
`, `did you mean "eu-1"?`, true),
		Entry("a selector that applies to no object of a type", `{rules: [{name: a, when: {namespaceSelector: {matchLabels: {a: b}}}, deny: "no"}], match: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [persistentvolumes, configmaps]}]}}`,
			"persistentvolumes have no namespace", true),
		Entry("a kind that no matched object has", `rego: |
  package p
  labels.a := "b" if input.kind == "Configmap"
`, `did you mean "ConfigMap"?`, true),
		Entry("pods of other kinds", `{rules: [{name: a, set: {priorityClassName: system-node-critical}}], match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}}`,
			"the policy restricts the pods of deployments.apps, and does not match pods", false),
		Entry("bounds without effect", `{rules: [{name: a, set: {labels: {a: b}}}], remediation: {mode: Manual, budget: {maxPerMinute: 1}}}`, "spec.remediation.budget has no effect in mode Manual", false),
		Entry("bounds of moves of which no system reports", `{rules: [{name: a, require: [{label: tier, operator: In, values: [gold]}]}], remediation: {budget: {maxConcurrent: 2}}}`,
			"moves between clusters are not limited by maxConcurrent", false),
		Entry("stages without namespaces", `{rules: [{name: a, set: {labels: {a: b}}}], rollout: {stages: [{name: canary, namespaceSelector: {matchLabels: {a: canary}}}, {name: rest, percent: 100}]}}`,
			`stage "canary" has no namespace`, false),
	)

	It("is refused in rules as in Rego if nothing can meet it", func(ctx SpecContext) {
		for _, spec := range []string{
			`rules: [{name: a, require: [{field: region, operator: In, values: [eu]}, {field: region, operator: In, values: [us]}]}]`,
			`rego: |
  package p
  labels.a := "b" if { input.metadata.name == "x"; input.metadata.name == "y" }
`,
		} {
			p := framework.NewPolicy(framework.NewName("strict"), "", "", "configmaps", "nowhere")
			Expect(yaml.UnmarshalStrict([]byte(spec), &p.Spec)).To(Succeed())
			p.Spec.Strict = true
			out, err := f.Kubectl(ctx, framework.PolicyManifest(p), "apply", "--server-side", "-f", "-")
			Expect(err).To(HaveOccurred(), out)
			Expect(out).To(Or(ContainSubstring("no cluster can meet this"), ContainSubstring("are never true together")))
		}
	})
})

var _ = Describe("A failure that only the policy's author can end", func() {
	DescribeTable("is answered as invalid",
		func(ctx SpecContext, spec, said string) {
			p := framework.NewPolicy(framework.NewName("fails"), "", "", "configmaps", f.NewNamespace(ctx, nil))
			Expect(yaml.UnmarshalStrict([]byte(spec), &p.Spec)).To(Succeed())
			f.CreateReadyPolicy(ctx, p)
			obj := framework.NewObject(framework.ConfigMap, p.Spec.Match.NamespaceSelector.MatchExpressions[0].Values[0], "", nil)
			obj.SetGenerateName("step-")
			Expect(unstructured.SetNestedField(obj.Object, strings.Repeat("x", 2000), "data", "x")).To(Succeed())
			Expect(f.Client.Create(ctx, obj)).To(And(Satisfy(apierrors.IsInvalid), MatchError(ContainSubstring("PlacementPolicy %q can't decide", p.Name)), MatchError(ContainSubstring(said))))
		},
		Entry("a label value that is not valid", `rules: [{name: a, set: {labels: {from: "{name}"}}}]`, `"step-"`),
		Entry("an expression that fails", `rules: [{name: a, when: {expression: "object.metadata.name == 'x'"}, set: {labels: {a: b}}}]`, "no such key: name"),
		Entry("two values of one rule", `rego: |
  package p
  labels.a := x if some x in ["b", input.metadata.generateName]
`, "eval_conflict_error"),
		Entry("an object that is larger than its limit", `{rego: "package p\nlabels.a := \"b\" if not input.data.x\nlabels.b := \"c\" if input.metadata.generateName", limits: {inputBytes: 1024}}`, "spec.limits.inputBytes"),
	)
})
