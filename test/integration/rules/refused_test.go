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
	"encoding/json"
	"errors"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// notChecked is what the API server adds if it does not evaluate the expressions of a schema.
const notChecked = "some validation rules were not checked"

// An error that ends with "..." has more text.
var _ = DescribeTable("Rules are refused", func(ctx SpecContext, spec string, want ...string) {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	Expect(yaml.Unmarshal([]byte(`{apiVersion: placement.berth.dev/v1alpha1, kind: PlacementPolicy, metadata: {name: refused}, spec: {
match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}, `+spec+`}}`), &o.Object)).To(Succeed())
	err := f.Client.Create(ctx, o, client.DryRunAll)
	status, ok := errors.AsType[*apierrors.StatusError](err)
	Expect(ok).To(BeTrue(), "%v", err)
	Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	var got []string
	for _, cause := range status.ErrStatus.Details.Causes {
		if !strings.Contains(cause.Message, notChecked) {
			got = append(got, cause.Field+": "+cause.Message)
		}
	}
	Expect(got).To(HaveLen(len(want)), "%q", got)
	By("comparing the errors with those of the plugin")
	text, err := json.Marshal(o)
	Expect(err).NotTo(HaveOccurred())
	out, err := f.Kubectl(ctx, string(text), "berth", "check", "-o", "json", "-f", "-")
	Expect(err).To(HaveOccurred())
	var checked []struct{ Errors []string }
	Expect(json.NewDecoder(strings.NewReader(out)).Decode(&checked)).To(Succeed(), out)
	Expect(checked).To(HaveLen(1))
	Expect(checked[0].Errors).To(Equal(got))

	for i, text := range want {
		if start, long := strings.CutSuffix(text, "..."); long {
			Expect(got[i]).To(HavePrefix(start))
		} else {
			Expect(got[i]).To(Equal(text))
		}
	}
},
	Entry("with an unknown operator", "rules: [{name: a, require: [{field: region, operator: Equals, values: [eu]}]}]",
		`spec.rules[0].require[0].operator: Unsupported value: "Equals": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Gte", "Lt", "Lte", "Most", "Least"`),
	Entry("with no number", "rules: [{name: a, require: [{label: level, operator: Gt, values: [high]}]}]",
		`spec.rules[0].require[0].values[0]: Invalid value: "high": must be a number, such as 2 or 0.5`),
	Entry("with a quantity as a number", "rules: [{name: a, prefer: [{label: memory, operator: Gt, values: [4Gi], weight: 1}], limit: 1}]",
		`spec.rules[0].prefer[0].values[0]: Invalid value: "4Gi": must be a number, such as 2 or 0.5: set as: Quantity to compare quantities`),
	Entry("with a version as a number", "rules: [{name: a, require: [{label: version, operator: Gte, values: [v1.30]}]}]",
		`spec.rules[0].require[0].values[0]: Invalid value: "v1.30": must be a number, such as 2 or 0.5: set as: Version to compare versions`),
	Entry("with no number as the default", "rules: [{name: a, require: [{label: level, operator: Gt, valueFrom: {label: level, default: low}}]}]",
		`spec.rules[0].require[0].valueFrom.default: Invalid value: "low": must be a number, such as 2 or 0.5`),
	Entry("with two numbers", "rules: [{name: a, require: [{label: level, operator: Gt, values: ['1', '2']}]}]",
		`spec.rules[0].require[0].values: Invalid value: Gt, Gte, Lt and Lte need exactly one value`),
	Entry("that require the most", "rules: [{name: a, require: [{free: cpu, operator: Most}]}]",
		`spec.rules[0].require[0].operator: Forbidden: only prefer has Most and Least, which compare clusters with each other: move this to prefer, with a weight`),
	Entry("that prefer the most of values", "rules: [{name: a, prefer: [{free: cpu, operator: Most, values: ['4'], weight: 10}], limit: 1}]",
		`spec.rules[0].prefer[0].operator: Invalid value: Exists, DoesNotExist, Most and Least have no values: remove values and valueFrom`),
	Entry("that prefer the most of a version", "rules: [{name: a, prefer: [{field: version, operator: Most, weight: 10}], limit: 1}]",
		`spec.rules[0].prefer[0].field: Forbidden: Most and Least read numbers and quantities, and no versions: set operator: Gte with a version, once for each step that matters`),
	Entry("that are unreachable", "rules: [{name: a, limit: 1}, {name: b, limit: 2}]",
		`spec.rules[1]: Forbidden: rule b is never reached: rule a (spec.rules[0]) applies to all objects. Give that rule a condition in when, or move it to the end`),
	Entry("with the condition of another", "rules: [{name: a, when: {expression: 'true'}, limit: 1}, {name: b, when: {expression: 'true'}, limit: 2}]",
		`spec.rules[1]: Forbidden: rule b is never reached: rule a (spec.rules[0]) has the same condition. Merge the two rules, or change a condition`),
	Entry("with the name of another", "rules: [{name: a, when: {expression: 'true'}, limit: 1}, {name: a, limit: 2}]",
		`spec.rules[1]: Duplicate value: {"name":"a"}`),
	Entry("that deny and decide", "rules: [{name: a, deny: never, limit: 1}]",
		`spec.rules[0].deny: Forbidden: a rule that denies decides nothing else: move the other fields to a rule of its own`),
	Entry("that limit nodes", "rules: [{name: a, candidates: Nodes, require: [{label: a, operator: Exists}], limit: 1}]",
		`spec.rules[0].candidates: Forbidden: the scheduler chooses nodes: limit, minGain, weights, message and otherwise are for clusters`),
	Entry("that leave objects to none", "rules: [{name: a, limit: 1, otherwise: NextRule}]",
		`spec.rules[0].otherwise: Forbidden: no rule follows: remove NextRule, or add a rule`),
	Entry("with an unknown placeholder", "rules: [{name: a, set: {annotations: {owner: '{nmae}'}}}]",
		`spec.rules[0].set.annotations[owner]: Invalid value: "{nmae}": has the unknown placeholder {nmae}: known are {kind}, {namespace}, {name}, {label:KEY}, `+
			`{annotation:KEY}, {clusters} and {clusters:json}; write {{ for a brace`),
	Entry("with clusters where there are none", "rules: [{name: a, set: {annotations: {owner: '{clusters}'}}}]",
		`spec.rules[0].set.annotations[owner]: Invalid value: "{clusters}": has the placeholder {clusters}: only set.annotations and set.labels of rules that give clusters have it`),
	Entry("with an expression that does not compile", "rules: [{name: a, when: {expression: 'object.spec.replicas >'}, limit: 1}]",
		`spec.rules[0].when.expression: Invalid value: "object.spec.replicas >": ERROR: <input>:1:23: Syntax error: mismatched input '<EOF>' expecting ...`),
	Entry("with an expression over other variables", "rules: [{name: a, when: {expression: 'request.userInfo.username == \"a\"'}, limit: 1}]",
		`spec.rules[0].when.expression: Invalid value: "request.userInfo.username == \"a\"": ERROR: <input>:1:1: undeclared reference to 'request' (in container '')...`),
	Entry("beside Rego", "rego: package p, rules: [{name: a, limit: 1}]",
		`spec.rules: Forbidden: rules and rego exclude each other: write another policy, which can match the same objects`),
	Entry("beside a remote engine", "remote: {url: 'https://opa.example.com/v1/data/p'}, rules: [{name: a, limit: 1}]",
		`spec.rules: Forbidden: rules and remote exclude each other: write another policy, which can match the same objects`),
	Entry("beside data", "data: {a: 1}, rules: [{name: a, limit: 1}]", `spec.data: Forbidden: rules read no documents of data`),
	Entry("beside types to replicate", "replicate: [{apiGroup: apps, resource: deployments}], rules: [{name: a, limit: 1}]",
		`spec.replicate: Forbidden: Berth knows what rules read`),
	Entry("with a bad key of a cluster's label", "rules: [{name: a, require: [{label: 'pci level', operator: Exists}]}]",
		`spec.rules[0].require[0].label: Invalid value: "pci level": name part must consist of alphanumeric characters, ...`),
	Entry("with a bad key of an object's label", "rules: [{name: a, require: [{label: a, operator: In, valueFrom: {label: a/b/c}}]}]",
		`spec.rules[0].require[0].valueFrom.label: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, ...`),
	Entry("with a bad key of a label that is set", "rules: [{name: a, set: {labels: {'-a': b}}}]",
		`spec.rules[0].set.labels[-a]: Invalid value: "-a": name part must consist of alphanumeric characters, ...`),
	Entry("with a bad key in a selector", "rules: [{name: a, when: {objectSelector: {matchLabels: {'a b': c}}}, limit: 1}]",
		`spec.rules[0].when.objectSelector.matchLabels: Invalid value: "a b": name part must consist of alphanumeric characters, ...`),
	Entry("that are empty", "rules: [{name: a}]",
		`spec.rules[0]: Forbidden: rule a decides nothing, and no rule follows from which it could exempt objects: set one of require, prefer, tolerate, spread, limit, set, warn and deny`),
	Entry("that are none", "rules: []", "spec.rules: Invalid value: 0: spec.rules in body should have at least 1 items"),
	Entry("without a name", "rules: [{limit: 1}]", "spec.rules[0].name: Required value"),
)

var _ = Describe("Warnings about rules", func() {
	warnings := func(ctx SpecContext, rules string) []string {
		GinkgoHelper()
		out := f.MustKubectl(ctx, framework.PolicyManifest(newPolicy("warned", rules)), "apply", "--dry-run=server", "-f", "-")
		var found []string
		for line := range strings.Lines(out) {
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), "Warning: "); ok {
				found = append(found, text)
			}
		}
		return found
	}

	DescribeTable("name what has no effect, and what is never true", func(ctx SpecContext, rules string, want ...any) {
		out := warnings(ctx, rules)
		Expect(out).To(ConsistOf(want...))
		By("comparing the warnings with those of the plugin")
		checked, err := f.Kubectl(ctx, framework.PolicyManifest(newPolicy("warned", rules)), "berth", "check", "-o", "json", "-f", "-")
		Expect(err).NotTo(HaveOccurred(), checked)
		var results []struct{ Warnings []string }
		Expect(json.Unmarshal([]byte(checked), &results)).To(Succeed(), checked)
		Expect(results).To(HaveLen(1))
		Expect(results[0].Warnings).To(ConsistOf(want...))
	},
		Entry("of preferences", "[{name: a, prefer: [{label: tier, operator: Exists, weight: 1}]}]",
			"spec.rules[0].prefer: has no effect: the rule chooses all eligible clusters, and not the best of them. Set limit, or maxDomains or maxClusters of spread, or weights"),
		Entry("of preferences with a limit", "[{name: a, prefer: [{label: tier, operator: Exists, weight: 1}], limit: 1}]"),
		Entry("of minGain", "[{name: a, prefer: [{label: tier, operator: Exists, weight: 5}], weights: Score, minGain: 2}]",
			"spec.rules[0].minGain: has no effect: the rule chooses all eligible clusters, and not the best of them. Set limit, or maxDomains or maxClusters of spread"),
		Entry("of requirements", "[{name: a, require: [{field: region, operator: In, values: [eu]}, {field: region, operator: In, values: [us]}]}]",
			`spec.rules[0].require[1]: no cluster can meet this together with spec.rules[0].require[0]: rule a denies each object that it decides. `+
				`All of them have to be met: to allow any of the values, list them in one entry of require, {field: region, operator: In, values: ["eu", "us"]}`),
		Entry("of selectors", "[{name: a, when: {objectSelector: {matchLabels: {tier: gold}, matchExpressions: [{key: tier, operator: DoesNotExist}]}}, limit: 1}]",
			"spec.rules[0].when.objectSelector.matchExpressions[0]: no object can meet this together with spec.rules[0].when.objectSelector.matchLabels[tier]: "+
				"rule a never applies. All of them have to be met: change or remove one"),
		Entry("of expressions", "[{name: a, when: {expression: '1 > 2'}, limit: 1}]",
			"spec.rules[0].when.expression: is false for every object: rule a never applies. Compare a field of object, as in object.metadata.name == 'shop'"),
		Entry("of placeholders", "[{name: a, deny: 'no {{ name }}'}]",
			"spec.rules[0].deny: {{ name }} stands for the text { name }, because doubled braces stand for single ones. Placeholders have single braces, such as {name}"),
	)

	It("are in the status", func(ctx SpecContext) {
		p := newPolicy("warned", "[{name: a, when: {expression: 'false'}, limit: 1}]")
		Expect(f.Client.Create(ctx, p)).To(Succeed())
		DeferCleanup(f.Client.Delete, p)
		Eventually(func() string {
			Expect(f.Client.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
			if c := meta.FindStatusCondition(p.Status.Conditions, placementv1.ConditionCompiled); c != nil {
				return c.Message
			}
			return ""
		}).WithContext(ctx).Should(ContainSubstring("spec.rules[0].when.expression: is false for every object: rule a never applies"))
	})

	It("name values that no cluster has", func(ctx SpecContext) {
		createCluster(ctx, "eu-1", "eu", nil)
		Eventually(func() []string {
			return warnings(ctx, "[{name: a, require: [{field: name, operator: Exists}, {property: pci-levle, operator: Gt, values: ['1']}]}]")
		}).WithContext(ctx).Should(ConsistOf(`spec.rules[0].require[1].property: no cluster has the property "pci-levle"; did you mean "pci-level"?`))
		Expect(warnings(ctx, "[{name: a, require: [{property: pci-level, operator: Gt, values: ['1']}, {field: region, operator: In, values: [us, EU]}]}]")).
			To(ConsistOf(`spec.rules[0].require[1].values[1]: no cluster has the value "EU" of field region; did you mean "eu"?`,
				`spec.rules[0].require[1]: no cluster has the value "us" of field region now; there are "eu"`))
		Expect(warnings(ctx, "[{name: a, prefer: [{property: pci-level, operator: In, values: ['2'], weight: 1}, {field: name, operator: In, values: [EU-1], weight: 2}], limit: 1}]")).
			To(ConsistOf(`spec.rules[0].prefer[1].values[0]: no cluster has the name "EU-1"; did you mean "eu-1"?`))
	})
})
