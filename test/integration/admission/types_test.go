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
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("the types of a policy", Label("versions"), func() {
	apply := func(ctx SpecContext, p *placementv1.PlacementPolicy) string {
		GinkgoHelper()
		out, err := f.Kubectl(ctx, framework.PolicyManifest(p), "apply", "--server-side", "-f", "-")
		Expect(err).NotTo(HaveOccurred(), out)
		DeferCleanup(f.DeletePolicy, p.Name)
		return out
	}

	// The rules begin in line 3.
	DescribeTable("are checked against the schemas that the API server publishes, with a warning at apply",
		func(ctx SpecContext, rules string, want ...string) {
			p := framework.NewPolicy(framework.NewName("typed"), framework.Rego(rules), "apps", "deployments", f.NewNamespace(ctx, nil))
			out := apply(ctx, p)
			for _, w := range want {
				Expect(out).To(ContainSubstring(w))
			}
			if len(want) == 0 {
				Expect(out).NotTo(ContainSubstring("Warning"))
			}
		},
		Entry("a misspelt field", `annotations["a"] := input.metadata.lables.tier`,
			`.rego:3:21: input.metadata.lables.tier is undefined`, "did you mean input.metadata.labels.tier?", "this definition of the rule annotations never has a value"),
		Entry("a field that another kind has", `annotations["a"] := input.spec.containers[0].image`, `input.spec has no field "containers"`),
		Entry("a comparison of a number with a string", `errors contains "no" if input.spec.replicas > "3"`,
			`.rego:3:25: input.spec.replicas > "3" compares a number with a string`),
		Entry("the request of a webhook", `errors contains "no" if input.request.object.spec.replicas > 3`, "input is the object itself"),
		Entry("the payload of a Secret", `annotations["a"] := data.kubernetes.secrets.x.y.data.token`, "the payload of Secrets is never replicated"),
		Entry("a field of a replicated object", `annotations["a"] := data.kubernetes.namespaces.x.metadata.label.y`, "did you mean data.kubernetes.namespaces.x.metadata.labels.y?"),
		Entry("a quantity and a number", `errors contains "no" if input.spec.template.spec.containers[_].resources.limits.cpu > 4`,
			`.rego:3:25: input.spec.template.spec.containers[_].resources.limits.cpu > 4 compares a quantity with a number`, "use k8s.quantity.compare(x, y) > 0"),
		Entry("amounts of a quota as text", `warnings contains "full" if { q := data.berth.quotas.x.y; q.used.pods >= q.hard.pods }`,
			"q.used.pods >= q.hard.pods compares quantities as text"),
		Entry("nothing in quantities that are compared as such", `errors contains "no" if k8s.quantity.compare(input.spec.template.spec.containers[_].resources.limits.cpu, 4) > 0`),
		Entry("nothing in what is right", `annotations["a"] := input.metadata.labels.tier
errors contains "no" if input.spec.replicas > 3`),
	)

	It("name a type of which the policy can never decide an object, and leave the policy ready", func(ctx SpecContext) {
		p := framework.NewPolicy(framework.NewName("mute"), framework.Rego(`errors contains "no" if input.spec.containers[0].image == "x"`), "apps", "deployments", f.NewNamespace(ctx, nil))
		p.Spec.Match.ResourceRules = append(p.Spec.Match.ResourceRules, placementv1.ResourceRule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
		})
		Expect(apply(ctx, p)).To(ContainSubstring(`.rego:3:25: no rule of the policy ever has a value for an object of deployments.apps, so that the policy neither places nor denies it: input.spec.containers`))
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionCompiled).
			Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonTypeErrors))
		f.AwaitReady(ctx, p.Name)

		By("telling kinds apart")
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego = framework.Rego(`errors contains "no" if { input.kind == "Pod"; input.spec.containers[0].image == "x" }`)
		})
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionCompiled).
			Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonTypeChecked))
	})

	It("are an error at apply where the policy is strict", func(ctx SpecContext) {
		p := framework.NewPolicy(framework.NewName("strict"), framework.Rego(`annotations["a"] := input.metadata.lables.tier`), "apps", "deployments", "nowhere")
		p.Spec.Strict = true
		out, err := f.Kubectl(ctx, framework.PolicyManifest(p), "apply", "--server-side", "-f", "-")
		Expect(err).To(HaveOccurred(), out)
		Expect(out).To(ContainSubstring(p.Name + ".rego:3:21: input.metadata.lables.tier is undefined"))
	})

	It("are in the status, and a policy that can decide nothing is not ready", func(ctx SpecContext) {
		p := framework.NewPolicy(framework.NewName("typed"), framework.Rego(`annotations["a"] := input.metadata.lables.tier`), "apps", "deployments", "nowhere")
		apply(ctx, p)
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionReady).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonTypeErrors))
		Expect(f.Condition(ctx, p.Name, placementv1.ConditionCompiled)).To(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonTypeErrors))
		stored, err := f.Policy(ctx, p.Name)
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Status.Findings).To(ConsistOf(And(HavePrefix("rego:3:21: "), ContainSubstring("did you mean input.metadata.labels.tier?"))))

		By("correcting it")
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego = framework.Rego(`annotations["a"] := input.metadata.labels.tier`)
		})
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionCompiled).
			Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonTypeChecked))
		f.AwaitReady(ctx, p.Name)
		stored, err = f.Policy(ctx, p.Name)
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Status.Findings).To(BeEmpty())
	})

	It("follow a CustomResourceDefinition", func(ctx SpecContext) {
		crd := framework.NewCRD("typed.example.com", "v1", "crates", "Crate", apiextensionsv1.NamespaceScoped)
		spec := func(open bool) apiextensionsv1.JSONSchemaProps {
			out := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"weight": {Type: "integer"}}}
			if open {
				out.XPreserveUnknownFields = new(true)
			}
			return out
		}
		describe := func(crd *apiextensionsv1.CustomResourceDefinition, open bool) {
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec(open)},
			}
		}
		describe(crd, true)
		f.InstallCRD(ctx, crd)
		DeferCleanup(f.UninstallCRD, crd.Name)
		p := framework.NewPolicy(framework.NewName("typed"), framework.Rego(`annotations["a"] := input.spec.wieght`), "typed.example.com", "crates", "nowhere")
		f.CreateReadyPolicy(ctx, p)
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionCompiled).
			Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonTypeChecked))

		By("closing the schema")
		base := crd.DeepCopy()
		describe(crd, false)
		crd.ResourceVersion = ""
		base.ResourceVersion = ""
		Expect(f.Client.Patch(ctx, crd, client.MergeFrom(base))).To(Succeed())
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionReady).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonTypeErrors))
	})
})
