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

package hostile_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// matchesInRego matches a pattern of the object with the function that the object names.
var matchesInRego = framework.Rego(
	`errors contains "regular" if { input.data.function == "match"; regex.match(input.data.pattern, input.data.text) }`,
	`errors contains "regular" if { input.data.function == "find"; regex.find_n(input.data.pattern, input.data.text, -1) != [] }`,
	`errors contains "regular" if { input.data.function == "split"; count(regex.split(input.data.pattern, input.data.text)) > 1 }`,
	`errors contains "regular" if { input.data.function == "template"; regex.template_match(input.data.pattern, input.data.text, "<", ">") }`,
	`errors contains "regular" if { input.data.function == "globs"; regex.globs_match(input.data.pattern, input.data.text) }`,
	`errors contains "glob" if { input.data.function == "glob"; glob.match(input.data.pattern, [], input.data.text) }`,
)

// matchesInRules is the same in the CEL of rules.
var matchesInRules = func() []placementv1.Rule {
	out := make([]placementv1.Rule, 0, 3)
	for function, call := range map[string]string{
		"match": "object.data.text.matches(object.data.pattern)",
		"find":  "object.data.text.find(object.data.pattern) != ''",
		"all":   "object.data.text.findAll(object.data.pattern).size() > 0",
	} {
		out = append(out, placementv1.Rule{
			Name: function, When: &placementv1.RuleCondition{Expression: "object.data['function'] == '" + function + "' && " + call}, Deny: "regular",
		})
	}
	return out
}()

var _ = Describe("A policy that takes a pattern from the object", Ordered, func() {
	var inRego, inRules, inCondition string

	BeforeAll(func(ctx SpecContext) {
		startOperator(ctx)
		inRego, inRules, inCondition = f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("rego"), matchesInRego, "", "configmaps", inRego))
		p := framework.NewPolicy(framework.NewName("rules"), "", "", "configmaps", inRules)
		p.Spec.Rules = matchesInRules
		f.CreateReadyPolicy(ctx, p)
		p = framework.NewPolicy(framework.NewName("condition"), framework.Rego(`errors contains "regular"`), "", "configmaps", inCondition)
		p.Spec.Match.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "matches", Expression: "object.data.text.matches(object.data.pattern)"}}
		f.CreateReadyPolicy(ctx, p)
	})

	// create returns the error of a request to create an object with a pattern.
	create := func(ctx SpecContext, namespace, function, pattern, text string) error {
		object := framework.NewObject(framework.ConfigMap, namespace, "patterns", nil)
		object.Object["data"] = map[string]any{"function": function, "pattern": pattern, "text": text}
		return f.Client.Create(ctx, object, client.DryRunAll)
	}
	namespaces := map[string]*string{"Rego": &inRego, "CEL": &inRules, "a match condition": &inCondition}

	DescribeTable("is not made to compile a large one", func(ctx SpecContext, in, function, pattern, want string) {
		start := processorTime()
		Expect(create(ctx, *namespaces[in], function, pattern, strings.Repeat("a", 60)+"c")).To(MatchError(ContainSubstring(want)))
		Expect(processorTime() - start).To(BeNumerically("<", affordable))
	},
		Entry("with repeated repetitions", "Rego", "match", strings.Repeat("(x{1000})", 450), "states"),
		Entry("with repeated character classes", "Rego", "find", `^\pL{1000}$`, "states"),
		Entry("with many groups", "Rego", "split", strings.Repeat("(a?)", 600), "states"),
		Entry("in a template", "Rego", "template", "[<"+strings.Repeat("x{900}y", 4)+">", "states"),
		Entry("with repetitions of two globs", "Rego", "globs", strings.Repeat(".*a+", 8), "steps"),
		Entry("with the alternatives of a glob", "Rego", "glob", strings.Repeat("{a,a}", 60)+"b", "steps"),
		Entry("with the wildcards of a glob", "Rego", "glob", strings.Repeat("*a", 12)+"b*c", "steps"),
		Entry("with repeated repetitions", "CEL", "match", strings.Repeat("(x{1000})", 450), "states"),
		Entry("with repeated character classes", "CEL", "find", `^\pL{1000}$`, "states"),
		Entry("with many groups", "CEL", "all", strings.Repeat("(a?)", 600), "states"),
		Entry("that is long", "CEL", "match", strings.Repeat("()", 3000), "bytes"),
		Entry("with nested repetitions", "a match condition", "", strings.Repeat("(x{0,1000})", 4), "states"),
	)

	DescribeTable("matches one of usual size", func(ctx SpecContext, in, function, pattern string) {
		Expect(create(ctx, *namespaces[in], function, pattern, "eu-west-1.example.com")).To(MatchError(Or(ContainSubstring("regular"), ContainSubstring("glob"))))
	},
		Entry(nil, "Rego", "match", `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`),
		Entry(nil, "Rego", "glob", `{eu,us}-*-?.**.com`),
		Entry(nil, "CEL", "match", `^[a-z0-9.-]{1,253}$`),
		Entry(nil, "CEL", "all", `[a-z]+-[a-z]+`),
	)
})
