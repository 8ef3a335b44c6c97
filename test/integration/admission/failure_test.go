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
	"fmt"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/test/framework"
)

// deadline is how the operator names the deadline of an evaluation.
var deadline = fmt.Sprintf("deadline of %s", framework.EvaluationTimeout)

// endless runs longer than any client waits.
var endless = framework.Rego(`annotations["n"] := count([1 |
	some a in numbers.range(1, 5000)
	some b in numbers.range(1, 5000)
	some c in numbers.range(1, 5000)
	(a * b) + c < 0
])`)

var _ = Describe("A policy that runs for ever", func() {
	It("is cut off at its deadline, and others decide meanwhile", func(ctx SpecContext) {
		stuck, quick := f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		name := framework.NewName("endless")
		p := framework.NewPolicy(name, endless, "", "configmaps", stuck)
		p.Spec.Remediation.Mode = placementv1.RemediationOff
		f.CreateReadyPolicy(ctx, p)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("quick"), zone, "", "configmaps", quick))

		var denied sync.WaitGroup
		var ended atomic.Int32
		for range 3 {
			object := framework.NewObject(framework.ConfigMap, stuck, framework.NewName("stuck"), nil)
			denied.Go(func() {
				defer GinkgoRecover()
				defer ended.Add(1)
				Expect(f.Client.Create(ctx, object)).To(MatchError(And(
					ContainSubstring("PlacementPolicy %q can't decide", name), ContainSubstring(deadline))))
			})
		}
		meanwhile := 0
		for range 5 {
			Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, quick, framework.NewName("quick"), nil))).To(Succeed())
			if ended.Load() == 0 {
				meanwhile++
			}
		}
		denied.Wait()
		Expect(meanwhile).NotTo(BeZero(), "the others wait for those that are stuck")
		Eventually(f.EventNotes).WithContext(ctx).WithArguments(stuck, events.EvaluationFailed.Reason).
			Should(ContainElement(ContainSubstring(deadline)))
		Expect(operator.Ready(ctx)).To(Succeed())
		Expect(operator.Series("berth_decision_errors_total", `policy="`+name+`"`, `source="admission"`)).To(HaveEach(BeEquivalentTo(3)))
	})

	It("decides as soon as it has another text, however often its evaluation exceeded its deadline", func(ctx SpecContext) {
		name, namespace := framework.NewName("endless"), f.NewNamespace(ctx, nil)
		p := framework.NewPolicy(name, endless, "", "configmaps", namespace)
		p.Spec.Remediation.Mode = placementv1.RemediationOff
		f.CreateReadyPolicy(ctx, p)
		create := func(ctx SpecContext) error {
			return f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, framework.NewName("c"), nil))
		}
		for range 4 {
			Expect(create(ctx)).To(MatchError(And(ContainSubstring("PlacementPolicy %q can't decide", name), ContainSubstring(deadline))))
		}
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = zone })
		Eventually(create).WithContext(ctx).Should(Succeed())
	})

	It("admits with a warning if its failurePolicy is Ignore", func(ctx SpecContext) {
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("endless")
		p := framework.NewPolicy(name, endless, "", "configmaps", namespace)
		p.Spec.FailurePolicy = placementv1.FailurePolicyIgnore
		p.Spec.Remediation.Mode = placementv1.RemediationOff
		f.CreateReadyPolicy(ctx, p)
		// Another policy on the same object still counts.
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("quick"), zone, "", "configmaps", namespace))
		out := f.MustKubectl(ctx, framework.Manifest(framework.NewObject(framework.ConfigMap, namespace, "c", nil)), "create", "-f", "-")
		Expect(out).To(And(ContainSubstring("Warning: PlacementPolicy %q can't decide", name), ContainSubstring(deadline), ContainSubstring("ignored")))
		Expect(stored(ctx, framework.ConfigMap, namespace, "c")).To(Equal(map[string]string{"example.com/zone": "a"}))
	})
})

var _ = Describe("A result that the decision contract does not know", func() {
	DescribeTable("is denied with the names of policy and rule",
		func(ctx SpecContext, rules, rule, message string) {
			namespace, name := f.NewNamespace(ctx, nil), framework.NewName("contract")
			f.CreateReadyPolicy(ctx, framework.NewPolicy(name, framework.Rego(rules), "", "configmaps", namespace))
			Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "c", nil))).To(MatchError(And(
				ContainSubstring("PlacementPolicy %q can't decide", name), ContainSubstring(rule), ContainSubstring(message))))
			Eventually(f.EventNotes).WithContext(ctx).WithArguments(namespace, events.EvaluationFailed.Reason).
				Should(ConsistOf(And(ContainSubstring(name), ContainSubstring(rule))))
		},
		Entry("a label that is no string", `labels["n"] := json.unmarshal("1")`, "rule labels", `key "n": must be a string, is a number`),
		Entry("a label value that is not valid", `labels["n"] := sprintf("no %s", ["spaces"])`, "rule labels", `key "n": "no spaces"`),
		Entry("a label key that is not valid", `labels[key] := "x" if key := sprintf("a %s", ["b"])`, "rule labels", `key "a b"`),
		Entry("labels that are no object", `labels := json.unmarshal("[]")`, "rule labels", "must be an object"),
		Entry("an annotation key that is not valid", `annotations[key] := "x" if key := sprintf("a %s", ["b"])`, "rule annotations", `key "a b"`),
		Entry("an annotation of Berth's own", `annotations[key] := "{}" if key := sprintf("placement.berth.dev/%s", ["requested"])`, "rule annotations", "is Berth's own"),
		Entry("errors that are no strings", `errors contains json.unmarshal("7")`, "rule errors", "must hold strings, holds a number"),
		Entry("errors that are one string", `errors := json.unmarshal("\"no\"")`, "rule errors", "must be a set or an array of strings"),
		Entry("warnings that are no strings", `warnings contains json.unmarshal("{\"a\": 1}")`, "rule warnings", "must hold strings, holds an object"),
		Entry("a complete rule with two values", `annotations := {"a": "1"} if input.kind == "ConfigMap"

annotations := {"a": "2"} if input.apiVersion == "v1"`,
			".rego:5", "conflicting values"),
		Entry("a key with two values", `annotations["a"] := "1" if input.kind == "ConfigMap"

annotations["a"] := "2" if input.apiVersion == "v1"`,
			".rego:5", "conflicting values"),
	)

	It("is refused at apply if it can never be valid, and takes down no policy", func(ctx SpecContext) {
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("contract")
		f.CreateReadyPolicy(ctx, framework.NewPolicy(name, zone, "", "configmaps", namespace))
		for text, message := range map[string]string{
			`package p

errors := count(data.clusters) == 0`: "errors must be a set or an array of strings, is a boolean",
			`package p

scheduling := {"nodeselector": {"a": "b"}}`: "scheduling.nodeselector: unknown; did you mean nodeSelector?",
			`package p

errors["no"] { input.metadata.labels.x }`: "the text is Rego v0, as it was before OPA 1.0: set spec.regoVersion: v0",
			`package p

annotations := ["a"]

deny contains "no" if true`: "annotations must be an object, is an array",
		} {
			// An update can conflict with one of the status.
			Eventually(func(ctx context.Context) error {
				changed, err := f.Policy(ctx, name)
				if err != nil {
					return err
				}
				changed.Spec.Rego = text
				return f.Client.Update(ctx, changed)
			}).WithContext(ctx).Should(MatchError(ContainSubstring(message)))
		}
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "c", nil))).To(Succeed())
		Expect(stored(ctx, framework.ConfigMap, namespace, "c")).To(Equal(map[string]string{"example.com/zone": "a"}))
	})
})
