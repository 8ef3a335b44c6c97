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
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("kubectl apply of a policy", Label("versions"), func() {
	refuse := func(ctx SpecContext, p *placementv1.PlacementPolicy, want ...string) {
		GinkgoHelper()
		out, err := f.Kubectl(ctx, framework.PolicyManifest(p), "apply", "--server-side", "-f", "-")
		if err == nil {
			DeferCleanup(f.DeletePolicy, p.Name)
		}
		Expect(err).To(HaveOccurred(), out)
		for _, w := range want {
			Expect(out).To(ContainSubstring(w))
		}
		_, err = f.Policy(ctx, p.Name)
		Expect(err).To(HaveOccurred())
	}

	// The rules begin in line 3.
	DescribeTable("refuses with file, line, column and the compiler's message",
		func(ctx SpecContext, rules string, want ...string) {
			refuse(ctx, framework.NewPolicy("refused", framework.Rego(rules), "apps", "replicasets"), want...)
		},
		Entry("what does not parse", `annotations["a"] := "b" if {
`, "refused.rego:5:0: rego_parse_error: unexpected eof token"),
		Entry("the old language without regoVersion", `errors["no"] { true }`, "refused.rego:3:1: rego_parse_error", "`if` keyword is required"),
		Entry("an unsafe variable", `errors contains x if y == 1`, "refused.rego:3:17: rego_unsafe_var_error: var x is unsafe"),
		Entry("a type error", `errors contains "no" if startswith(1, "a")`, "refused.rego:3:25: rego_type_error", "startswith"),
		Entry("a recursion", `errors contains x if some x in other

other contains x if some x in errors`, "refused.rego:3:1: rego_recursion_error"),
		Entry("http.send", `errors contains "no" if http.send({"method": "get", "url": "http://example.com"}).status_code == 200`,
			"refused.rego:3:25: rego_type_error: undefined function http.send", "http.send is not allowed"),
		Entry("opa.runtime", `errors contains opa.runtime().env.HOME`, "refused.rego:3:", "opa.runtime is not allowed"),
		Entry("time.now_ns", `annotations["now"] := time.now_ns()`, "refused.rego:3:", "time.now_ns is not allowed"),
		Entry("rand.intn", `annotations["r"] := rand.intn("x", 9)`, "refused.rego:3:", "rand.intn is not allowed"),
		Entry("a contract rule that is a function", `annotations(x) := {"a": x}`, "refused.rego:3:1: berth_contract_error: annotations is a function"),
		Entry("a resource type that only evaluation knows", `errors contains "no" if data.kubernetes[input.kind]`,
			"refused.rego:3:25: berth_unresolved_read", "spec.replicate"),
		Entry("every resource type", `errors contains "no" if count(data.kubernetes) > 1`, "refused.rego:3:31: berth_unresolved_read"),
		Entry("a path that no resource type has", `errors contains "no" if data.resources["a/b/c"].widgets`, "refused.rego:3:25: berth_unresolved_read"),
	)

	It("refuses all mistakes at once", func(ctx SpecContext) {
		refuse(ctx, framework.NewPolicy("refused", framework.Rego("errors contains x", "warnings contains y"), "apps", "replicasets"),
			"refused.rego:3:17: rego_unsafe_var_error: var x", "refused.rego:5:19: rego_unsafe_var_error: var y")
	})

	DescribeTable("refuses what the text has nothing to do with",
		func(ctx SpecContext, change func(*placementv1.PlacementPolicySpec), want ...string) {
			p := framework.NewPolicy("refused", zone, "apps", "replicasets")
			change(&p.Spec)
			refuse(ctx, p, want...)
		},
		Entry("data under a name that Berth fills", func(s *placementv1.PlacementPolicySpec) {
			s.Data = &apiextensionsv1.JSON{Raw: []byte(`{"kubernetes":{"clusters":{}}}`)}
		}, "spec.data.kubernetes: the name is taken"),
		Entry("data that hides the policy's rules", func(s *placementv1.PlacementPolicySpec) {
			s.Data = &apiextensionsv1.JSON{Raw: []byte(`{"placement":{"annotations":{}}}`)}
		}, "spec.data", "where the policy's own rules are"),
		Entry("CEL that does not compile", func(s *placementv1.PlacementPolicySpec) {
			s.Match.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "bad", Expression: "object.metadata +"}}
		}, "spec.match.matchConditions[0].expression", "Syntax error"),
		Entry("CEL that is no condition", func(s *placementv1.PlacementPolicySpec) {
			s.Match.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "bad", Expression: "1 + 1"}}
		}, "spec.match.matchConditions[0].expression", "bool"),
		Entry("the authorizer in CEL", func(s *placementv1.PlacementPolicySpec) {
			s.Match.MatchConditions = []admissionregistrationv1.MatchCondition{{
				Name: "bad", Expression: "authorizer.group('').resource('pods').check('get').allowed()",
			}}
		}, "spec.match.matchConditions[0].expression", "authorizer"),
		Entry("a condition whose name is no qualified name", func(s *placementv1.PlacementPolicySpec) {
			s.Match.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "not a name", Expression: "true"}}
		}, "spec.match.matchConditions[0].name"),
		Entry("a namespaceSelector with an unknown operator", func(s *placementv1.PlacementPolicySpec) {
			s.Match.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
		}, "spec.match.namespaceSelector", "Near"),
		Entry("an objectSelector with a bad value", func(s *placementv1.PlacementPolicySpec) {
			s.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "not valid!"}}
		}, "spec.match.objectSelector", "not valid!"),
		Entry("nodes", func(s *placementv1.PlacementPolicySpec) {
			s.Match.ResourceRules[0] = placementv1.ResourceRule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes"}}
		}, "spec.match.resourceRules[0].resources", `policies never match "nodes"`),
		Entry("leases", func(s *placementv1.PlacementPolicySpec) {
			s.Match.ResourceRules[0] = placementv1.ResourceRule{APIGroups: []string{"coordination.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"leases"}}
		}, "spec.match.resourceRules[0].resources", `policies never match "leases"`),
		Entry("Berth's own kinds", func(s *placementv1.PlacementPolicySpec) {
			s.Match.ResourceRules[0].APIGroups = []string{"placement.berth.dev"}
		}, "spec.match.resourceRules[0].apiGroups", "policies never match"),
		Entry("a subresource", func(s *placementv1.PlacementPolicySpec) {
			s.Match.ResourceRules[0].Resources = []string{"replicasets/scale"}
		}, "spec.match.resourceRules[0].resources", "subresources can't be matched"),
		Entry("a wildcard among others", func(s *placementv1.PlacementPolicySpec) {
			s.Match.ResourceRules[0].Resources = []string{"*", "replicasets"}
		}, "spec.match.resourceRules[0].resources", `"*" must be the only item`),
		Entry("no resource rule", func(s *placementv1.PlacementPolicySpec) { s.Match.ResourceRules = nil }, "spec.match"),
		Entry("no text", func(s *placementv1.PlacementPolicySpec) { s.Rego = "" }, "spec.rego", "required where predicates.candidates is not set"),
		Entry("no text where predicates are only named", func(s *placementv1.PlacementPolicySpec) {
			s.Rego, s.Predicates = "", &placementv1.Predicates{Names: []string{"NodeAffinity"}}
		}, "spec.rego", "required where predicates.candidates is not set"),
		Entry("unknown candidates", func(s *placementv1.PlacementPolicySpec) {
			s.Predicates = &placementv1.Predicates{Candidates: "Racks"}
		}, "spec.predicates.candidates", `"Racks"`),
		Entry("a rule that is a function", func(s *placementv1.PlacementPolicySpec) { s.Rego = framework.Rego("clusters(x) := x") }, "spec.rego", "clusters is a function"),
		Entry("an unknown mode", func(s *placementv1.PlacementPolicySpec) { s.Mode = "Loud" }, "spec.mode", `"Loud"`),
		Entry("a priority out of range", func(s *placementv1.PlacementPolicySpec) { s.Priority = 1000001 }, "spec.priority"),
	)

	It("keeps the old version when it refuses the new one", func(ctx SpecContext) {
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("kept")
		p := framework.NewPolicy(name, zone, "apps", "replicasets", namespace)
		f.CreateReadyPolicy(ctx, p)
		p = framework.NewPolicy(name, framework.Rego("errors contains x"), "apps", "replicasets", namespace)
		out, err := f.Kubectl(ctx, framework.PolicyManifest(p), "apply", "--server-side", "--force-conflicts", "-f", "-")
		Expect(err).To(HaveOccurred(), out)
		Expect(out).To(ContainSubstring(name + ".rego:3:17: rego_unsafe_var_error"))
		Expect(f.Policy(ctx, name)).To(HaveField("Spec.Rego", zone))
	})

	It("takes a policy without a text that has candidates, and does not miss any", func(ctx SpecContext) {
		for _, candidates := range []placementv1.PredicateCandidates{placementv1.PredicateCandidatesNodes, placementv1.PredicateCandidatesClusters} {
			p := framework.NewPolicy(framework.NewName("textless"), "", "apps", "replicasets", f.NewNamespace(ctx, nil))
			p.Spec.Predicates = &placementv1.Predicates{Candidates: candidates}
			Expect(f.MustKubectl(ctx, framework.PolicyManifest(p), "apply", "--server-side", "--dry-run=server", "-f", "-")).NotTo(
				ContainSubstring("decides nothing"))
		}
	})

	It("warns where no rule of the contract is defined", func(ctx SpecContext) {
		p := framework.NewPolicy(framework.NewName("idle"), framework.Rego("allow := true"), "apps", "replicasets", f.NewNamespace(ctx, nil))
		DeferCleanup(f.DeletePolicy, p.Name)
		Expect(f.MustKubectl(ctx, framework.PolicyManifest(p), "apply", "--server-side", "-f", "-")).To(And(
			ContainSubstring("Warning:"), ContainSubstring("decides nothing")))
	})
})

var _ = Describe("A plural name that two groups serve", Label("versions"), func() {
	It("is refused by itself, naming both, and accepted with its group", func(ctx SpecContext) {
		for _, group := range []string{"north.example.com", "south.example.com"} {
			crd := framework.NewCRD(group, "v1", "harbours", "Harbour", apiextensionsv1.ClusterScoped)
			f.InstallCRD(ctx, crd)
			DeferCleanup(f.UninstallCRD, crd.Name)
		}
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("harbours")
		bare := framework.NewPolicy(name, framework.Rego(`annotations["n"] := count(data.kubernetes.harbours)`), "", "configmaps", namespace)
		Eventually(func(ctx SpecContext) string {
			out, err := f.Kubectl(ctx, framework.PolicyManifest(bare), "apply", "--server-side", "--dry-run=server", "-f", "-")
			if err == nil {
				return ""
			}
			return out
		}).WithContext(ctx).Should(And(
			ContainSubstring(name+".rego:3:27: berth_ambiguous_resource"),
			ContainSubstring(`data.resources["north.example.com/v1"].harbours`),
			ContainSubstring(`data.resources["south.example.com/v1"].harbours`),
		))

		f.CreateReadyPolicy(ctx, framework.NewPolicy(name,
			framework.Rego(`annotations["n"] := count(data.resources["south.example.com/v1"].harbours)`), "", "configmaps", namespace))
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "c", nil))).To(Succeed())
		Expect(stored(ctx, framework.ConfigMap, namespace, "c")).To(Equal(map[string]string{"n": "0"}))
	})
})

var _ = Describe("A policy that reads a type which is not served", Label("versions"), func() {
	It("is stored with a warning, denies meanwhile, and decides once the type is there", func(ctx SpecContext) {
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("lights")
		p := framework.NewPolicy(name, framework.Rego(`annotations["lit"] := concat(",", [n | some n, _ in data.kubernetes.lighthouses])`), "", "configmaps", namespace)
		DeferCleanup(f.DeletePolicy, name)
		Expect(f.MustKubectl(ctx, framework.PolicyManifest(p), "apply", "--server-side", "-f", "-")).To(And(
			ContainSubstring("Warning: the policy reads data.kubernetes.lighthouses"), ContainSubstring("not serve")))
		Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionReplicated).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotServed, "data.kubernetes.lighthouses"))
		Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionEnforced).
			Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonEnforced))
		Expect(f.Condition(ctx, name, placementv1.ConditionReady)).To(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotServed))
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "early", nil))).To(MatchError(And(
			ContainSubstring(name), ContainSubstring("data.kubernetes.lighthouses"), ContainSubstring("no complete copy"))))

		crd := framework.NewCRD("sea.example.com", "v1", "lighthouses", "Lighthouse", apiextensionsv1.ClusterScoped)
		f.InstallCRD(ctx, crd)
		DeferCleanup(f.UninstallCRD, crd.Name)
		f.AwaitReady(ctx, name)
		kind := framework.ConfigMap
		kind.Group, kind.Kind = "sea.example.com", "Lighthouse"
		Expect(f.Client.Create(ctx, framework.NewObject(kind, "", "eddystone", nil))).To(Succeed())
		Eventually(f.Policy).WithContext(ctx).WithArguments(name).
			Should(HaveField("Status.Dependencies", ConsistOf(HaveField("Objects", HaveValue(BeEquivalentTo(1))))))
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "late", nil))).To(Succeed())
		Expect(stored(ctx, framework.ConfigMap, namespace, "late")).To(Equal(map[string]string{"lit": "eddystone"}))
	})
})
