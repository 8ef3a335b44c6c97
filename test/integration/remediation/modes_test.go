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

package remediation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("A policy that comes after the objects", func() {
	var namespace string
	var before map[string]string

	BeforeEach(func(ctx SpecContext) {
		namespace = f.NewNamespace(ctx, nil)
		create(ctx, framework.ConfigMap, namespace, "bare", nil)
		create(ctx, framework.ConfigMap, namespace, "other", map[string]string{tierKey: "lead"})
		create(ctx, framework.ConfigMap, namespace, "right", map[string]string{tierKey: "gold"})
		var err error
		before, err = versions(ctx, framework.ConfigMap, namespace)
		Expect(err).NotTo(HaveOccurred())
	})

	expectUntouched := func(ctx context.Context) {
		GinkgoHelper()
		Consistently(versions).WithContext(ctx).WithArguments(framework.ConfigMap, namespace).Should(Equal(before))
		Expect(remediationsBelow(namespace)).To(BeEmpty())
	}
	sample := func(ctx context.Context, policy string) (map[string]string, error) {
		p, err := f.Policy(ctx, policy)
		out := map[string]string{}
		for _, v := range p.Status.ViolationSample {
			out[string(v.Object)] = v.Message
		}
		return out, err
	}
	expectTwoViolations := func(ctx context.Context, policy string) {
		GinkgoHelper()
		expectCounts(ctx, policy, counts{Matched: 3, Violations: 2, Remediated: 0})
		Expect(sample(ctx, policy)).To(And(
			HaveLen(2),
			HaveKeyWithValue("configmaps "+namespace+"/bare", ContainSubstring(tierKey)),
			HaveKeyWithValue("configmaps "+namespace+"/other", And(ContainSubstring("lead"), ContainSubstring("gold"))),
		))
		Expect(f.Condition(ctx, policy, placementv1.ConditionCompliant)).
			To(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonViolations, "2 of 3"))
		Expect(total("berth_violations", fmt.Sprintf("policy=%q", policy))).To(Equal(2))
	}

	It("patches what differs", func(ctx SpecContext) {
		policy := onConfigMaps(ctx, "automatic", always(tierKey, "gold"), namespace)
		for _, name := range []string{"bare", "other", "right"} {
			expectAnnotations(ctx, framework.ConfigMap, namespace, name, map[string]string{tierKey: "gold"})
		}
		expectCounts(ctx, policy, counts{Matched: 3, Violations: 0, Remediated: 2})
		expectCompliant(ctx, policy)
		after, err := versions(ctx, framework.ConfigMap, namespace)
		Expect(err).NotTo(HaveOccurred())
		Expect(moved(before, after)).To(Equal([]string{"bare", "other"}))
		Eventually(eventNotes).WithContext(ctx).WithArguments(namespace, "other", events.Remediated.Reason).
			Should(ConsistOf(And(ContainSubstring(policy), ContainSubstring("lead"), ContainSubstring("gold"))))
	})

	It("lists what differs, with remediation Manual, until its owner acts", func(ctx SpecContext) {
		policy := onConfigMaps(ctx, "manual", always(tierKey, "gold"), namespace, withRemediation(placementv1.RemediationManual))
		expectTwoViolations(ctx, policy)
		expectUntouched(ctx)

		By("keeping what an update leaves alone that the policy neither reads nor writes")
		merge(ctx, framework.ConfigMap, namespace, "bare", map[string]any{"data": map[string]any{"k": "v"}})
		annotate(ctx, framework.ConfigMap, namespace, "other", map[string]any{"example.com/note": "x"})
		Expect(stored(ctx, framework.ConfigMap, namespace, "bare")).To(BeEmpty())
		Expect(stored(ctx, framework.ConfigMap, namespace, "other")).To(Equal(map[string]string{tierKey: "lead", "example.com/note": "x"}))
		expectTwoViolations(ctx, policy)
		By("deciding an update of what the policy writes, and what is new")
		annotate(ctx, framework.ConfigMap, namespace, "bare", map[string]any{tierKey: "silver"})
		Expect(stored(ctx, framework.ConfigMap, namespace, "bare")).To(Equal(map[string]string{tierKey: "gold"}))
		expectCounts(ctx, policy, counts{Matched: 3, Violations: 1, Remediated: 0})
		Expect(framework.AnnotationsOf(create(ctx, framework.ConfigMap, namespace, "new", nil))).To(Equal(map[string]string{tierKey: "gold"}))
		expectCounts(ctx, policy, counts{Matched: 4, Violations: 1, Remediated: 0})
		By("patching the rest when the mode becomes Automatic")
		f.ChangePolicy(ctx, policy, func(p *placementv1.PlacementPolicy) { p.Spec.Remediation.Mode = placementv1.RemediationAutomatic })
		expectAnnotations(ctx, framework.ConfigMap, namespace, "other", map[string]string{tierKey: "gold", "example.com/note": "x"})
		expectCounts(ctx, policy, counts{Matched: 4, Violations: 0, Remediated: 1})
	})

	It("keeps a placement, with remediation Manual, when an update changes nothing that the expression of a rule reads", func(ctx SpecContext) {
		placed := func(zone string) func(*placementv1.PlacementPolicy) {
			return func(p *placementv1.PlacementPolicy) {
				p.Spec.Rego = ""
				p.Spec.Rules = []placementv1.Rule{{
					Name: "placed", When: &placementv1.RuleCondition{Expression: "object.metadata.name.startsWith('b') && object.?data.?site.orValue('') != 'none'"},
					Set: &placementv1.RuleSettings{Annotations: map[string]placementv1.RuleText{tierKey: placementv1.RuleText(zone)}},
				}}
			}
		}
		policy := onConfigMaps(ctx, "when", "", namespace, placed("a"), withRemediation(placementv1.RemediationManual))
		created := create(ctx, framework.ConfigMap, namespace, "box", map[string]string{})
		merge(ctx, framework.ConfigMap, namespace, "box", map[string]any{"data": map[string]any{"site": "x"}})
		Expect(stored(ctx, framework.ConfigMap, namespace, created.GetName())).To(Equal(map[string]string{tierKey: "a"}))
		f.ChangePolicy(ctx, policy, placed("b"))
		f.AwaitReady(ctx, policy)
		merge(ctx, framework.ConfigMap, namespace, "box", map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"team": "x"}, "annotations": map[string]any{"example.com/note": "x"}},
			"data":     map[string]any{"other": "v"},
		})
		Expect(stored(ctx, framework.ConfigMap, namespace, "box")).To(Equal(map[string]string{tierKey: "a", "example.com/note": "x"}))
		merge(ctx, framework.ConfigMap, namespace, "box", map[string]any{"data": map[string]any{"site": "y"}})
		Expect(stored(ctx, framework.ConfigMap, namespace, "box")).To(HaveKeyWithValue(tierKey, "b"))
	})

	It("keeps what was decided when the object was new, with remediation NewOnly", func(ctx SpecContext) {
		text := framework.Rego(
			fmt.Sprintf("annotations[%q] := %q", tierKey, "gold"),
			`errors contains "no sites any more" if input.data.site == "x"`,
		)
		policy := onConfigMaps(ctx, "new", text, namespace, withRemediation(placementv1.RemediationNewOnly))
		Eventually(f.Condition).WithContext(ctx).WithArguments(policy, placementv1.ConditionCompliant).
			Should(framework.BeCondition(metav1.ConditionUnknown, placementv1.ReasonRemediationOff, "NewOnly"))
		expectUntouched(ctx)
		By("keeping the placement of an update of what the policy reads, unless the policy denies it")
		merge(ctx, framework.ConfigMap, namespace, "other", map[string]any{"data": map[string]any{"site": "y"}})
		Expect(stored(ctx, framework.ConfigMap, namespace, "other")).To(Equal(map[string]string{tierKey: "lead"}))
		Expect(tryMerge(ctx, framework.ConfigMap, namespace, "other", map[string]any{"data": map[string]any{"site": "x"}})).To(MatchError(ContainSubstring("no sites any more")))
		By("deciding an update of what it writes, and what is new")
		Expect(tryMerge(ctx, framework.ConfigMap, namespace, "other", map[string]any{"data": map[string]any{"site": "x"}, "metadata": map[string]any{"annotations": map[string]any{tierKey: "tin"}}})).
			To(MatchError(ContainSubstring("no sites any more")))
		annotate(ctx, framework.ConfigMap, namespace, "bare", map[string]any{tierKey: "silver"})
		Expect(stored(ctx, framework.ConfigMap, namespace, "bare")).To(Equal(map[string]string{tierKey: "gold"}))
		Expect(framework.AnnotationsOf(create(ctx, framework.ConfigMap, namespace, "new", nil))).To(Equal(map[string]string{tierKey: "gold"}))
		Expect(countsOf(ctx, policy)).To(And(HaveField("Matched", -1), HaveField("Violations", -1)))
	})

	It("ignores what exists, with remediation Off", func(ctx SpecContext) {
		policy := onConfigMaps(ctx, "off", always(tierKey, "gold"), namespace, withRemediation(placementv1.RemediationOff))
		Eventually(f.Condition).WithContext(ctx).WithArguments(policy, placementv1.ConditionCompliant).
			Should(framework.BeCondition(metav1.ConditionUnknown, placementv1.ReasonRemediationOff))
		expectUntouched(ctx)
		Expect(countsOf(ctx, policy)).To(And(HaveField("Matched", -1), HaveField("Violations", -1)))
		Expect(decided(policy)).To(BeZero())
	})

	DescribeTable("counts and never patches", func(ctx SpecContext, mode placementv1.Mode) {
		policy := onConfigMaps(ctx, "mode", always(tierKey, "gold"), namespace, withMode(mode))
		expectTwoViolations(ctx, policy)
		expectUntouched(ctx)
	},
		Entry("in mode Warn", placementv1.ModeWarn),
		Entry("in mode DryRun", placementv1.ModeDryRun),
	)

	It("lists what no patch can heal and does not patch it", func(ctx SpecContext) {
		policy := onConfigMaps(ctx, "errors", framework.Rego(
			fmt.Sprintf("annotations[%q] := %q", tierKey, "gold"),
			fmt.Sprintf(`errors contains "lead is not available" if input.metadata.annotations[%q] == "lead"`, tierKey),
		), namespace)
		expectAnnotations(ctx, framework.ConfigMap, namespace, "bare", map[string]string{tierKey: "gold"})
		expectCounts(ctx, policy, counts{Matched: 3, Violations: 1, Remediated: 1})
		Expect(sample(ctx, policy)).To(HaveKeyWithValue("configmaps "+namespace+"/other", ContainSubstring("lead is not available")))
		Consistently(stored).WithContext(ctx).WithArguments(framework.ConfigMap, namespace, "other").Should(Equal(map[string]string{tierKey: "lead"}))
		Expect(remediationsBelow(namespace)).NotTo(HaveKey("other"))
	})

	// undecidable is a policy that does not become ready, as it can't decide an object.
	undecidable := func(ctx context.Context, prefix string, mode placementv1.RemediationMode, text string) string {
		GinkgoHelper()
		p := framework.NewPolicy(framework.NewName(prefix), text, "", "configmaps", namespace)
		p.Spec.Remediation.Mode = mode
		f.CreatePolicy(ctx, p)
		return p.Name
	}

	It("says which objects it can't decide, and heals when it can", func(ctx SpecContext) {
		policy := undecidable(ctx, "failing", placementv1.RemediationAutomatic, framework.Rego(`annotations[sprintf("%s a key", ["not"])] := "x" if input.metadata.name == "bare"`))
		Eventually(f.Condition).WithContext(ctx).WithArguments(policy, placementv1.ConditionCompliant).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonEvaluationFailed, "bare"))
		Consistently(stored).WithContext(ctx).WithArguments(framework.ConfigMap, namespace, "bare").Should(BeEmpty())
		f.ChangePolicy(ctx, policy, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = always(tierKey, "gold") })
		expectAnnotations(ctx, framework.ConfigMap, namespace, "bare", map[string]string{tierKey: "gold"})
		expectCompliant(ctx, policy)
	})

	It("is not ready while it can't decide an object, and tells so", func(ctx SpecContext) {
		policy := undecidable(ctx, "undecided", placementv1.RemediationManual, framework.Rego(
			`annotations[sprintf("%s a key", ["not"])] := "x" if input.metadata.name == "bare"`,
			fmt.Sprintf(`errors contains "lead is not available" if input.metadata.annotations[%q] == "lead"`, tierKey),
		))
		ready := func() AsyncAssertion {
			return Eventually(f.Condition).WithContext(ctx).WithArguments(policy, placementv1.ConditionReady)
		}
		columns := func(ctx context.Context) ([]string, error) {
			out, err := f.Kubectl(ctx, "", "get", "plpol", policy, "-o", "wide")
			header, row, _ := strings.Cut(out, "\n")
			var shown []string
			for _, name := range []string{"READY", "VIOLATIONS", "WOULD-DENY", "WOULD-MOVE", "UNDECIDED", "CONFLICTED"} {
				// A column may be empty, such as STAGE.
				if i := strings.Index(header, name); i >= 0 && i < len(row) {
					value, _, _ := strings.Cut(row[i:], " ")
					shown = append(shown, name+"="+value)
				}
			}
			return shown, err
		}
		told := func(reason string) AsyncAssertion {
			return Eventually(eventNotes).WithContext(ctx).WithArguments(metav1.NamespaceDefault, policy, reason)
		}
		ready().Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonObjectsUndecided, "1 of 3 objects can't be decided, such as configmaps "+namespace+"/bare: "))
		Eventually(columns).WithContext(ctx).Should(Equal([]string{"READY=False", "VIOLATIONS=2", "WOULD-DENY=1", "WOULD-MOVE=0", "UNDECIDED=1", "CONFLICTED=0"}))
		Expect(sample(ctx, policy)).To(HaveKeyWithValue("configmaps "+namespace+"/bare", HavePrefix("can't be decided: ")))
		// An Event of the policy names no objects, since users read it who may not read these.
		told(events.PolicyUndecided.Reason).Should(ContainElement(HavePrefix("1 objects can't be decided; the Ready condition names one")))
		told(events.PolicyViolated.Reason).Should(ContainElement(ContainSubstring("1 of 3 objects differ")))

		stopOperator()
		restarted := time.Now()
		startOperator(ctx)
		// The next leader has to decide all objects first, and takes nothing back meanwhile.
		Consistently(f.Condition).WithContext(ctx).WithArguments(policy, placementv1.ConditionReady).
			Should(HaveField("Status", metav1.ConditionFalse))
		ready().Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonObjectsUndecided))
		Expect(eventNotesSince(ctx, restarted, metav1.NamespaceDefault, policy, events.PolicyReady.Reason)).To(BeEmpty())

		f.ChangePolicy(ctx, policy, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = always(tierKey, "gold") })
		ready().Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonInForce))
		Eventually(columns).WithContext(ctx).Should(Equal([]string{"READY=True", "VIOLATIONS=2", "WOULD-DENY=0", "WOULD-MOVE=2", "UNDECIDED=0", "CONFLICTED=0"}))
		told(events.PolicyDecided.Reason).ShouldNot(BeEmpty())
		Eventually(eventNotesSince).WithContext(ctx).WithArguments(restarted, metav1.NamespaceDefault, policy, events.PolicyReady.Reason).ShouldNot(BeEmpty())

		f.ChangePolicy(ctx, policy, func(p *placementv1.PlacementPolicy) {
			p.Spec.Match.ResourceRules = []placementv1.ResourceRule{{APIGroups: []string{"example.com"}, APIVersions: []string{"v1"}, Resources: []string{"nothings"}}}
		})
		told(events.PolicyNotReady.Reason).Should(ContainElement(ContainSubstring("NotServed: ")))
	})
})

var _ = Describe("An automatic policy beside a manual one", func() {
	It("leaves the manual one's keys until a user changes the object", func(ctx SpecContext) {
		fleet, namespace := newFleet(ctx, "eu1", "us1"), f.NewNamespace(ctx, nil)
		create(ctx, framework.ConfigMap, namespace, "web", map[string]string{tierKey: "lead"})
		manual := onConfigMaps(ctx, "manual", always(tierKey, "gold"), namespace, withRemediation(placementv1.RemediationManual))
		automatic := onConfigMaps(ctx, "automatic", framework.Rego(
			fmt.Sprintf(`annotations[%q] := data.kubernetes.clusterprofiles[%q].eu1.metadata.labels.pci`, clustersKey, fleet),
		), namespace)
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{tierKey: "lead", clustersKey: "yes"})
		expectCounts(ctx, manual, counts{Matched: 1, Violations: 1, Remediated: 0})

		certify(ctx, fleet, "eu1", "no")
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{tierKey: "lead", clustersKey: "no"})
		expectCounts(ctx, automatic, counts{Matched: 1, Violations: 0, Remediated: 2})
		expectCounts(ctx, manual, counts{Matched: 1, Violations: 1, Remediated: 0})

		By("applying both to an update of what both write")
		annotate(ctx, framework.ConfigMap, namespace, "web", map[string]any{tierKey: "ours"})
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{tierKey: "gold", clustersKey: "no"})
		expectCounts(ctx, manual, counts{Matched: 1, Violations: 0, Remediated: 0})

		By("taking no user for its remediation who only calls himself so")
		f.ChangePolicy(ctx, manual, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = always(tierKey, "bronze") })
		expectCounts(ctx, manual, counts{Matched: 1, Violations: 1, Remediated: 0})
		Expect(f.Client.Patch(ctx, framework.NewObject(framework.ConfigMap, namespace, "web", nil),
			client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"mine"}}}`, tierKey)), client.FieldOwner(remediation.FieldManager))).To(Succeed())
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{tierKey: "bronze", clustersKey: "no"})

		By("leaving what the manual one has applied, too")
		f.ChangePolicy(ctx, manual, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = always(tierKey, "silver") })
		expectCounts(ctx, manual, counts{Matched: 1, Violations: 1, Remediated: 0})
		certify(ctx, fleet, "eu1", "maybe")
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{tierKey: "bronze", clustersKey: "maybe"})
		By("not forgetting what the developer asked of the manual one meanwhile")
		f.ChangePolicy(ctx, manual, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego = framework.Rego("annotations := {}")
			p.Spec.Remediation.Mode = placementv1.RemediationAutomatic
		})
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{tierKey: "mine", clustersKey: "maybe"})
	})
})

var _ = Describe("Policies that give clusters", func() {
	gives := func(names ...string) string {
		text, err := json.Marshal(names)
		Expect(err).NotTo(HaveOccurred())
		return framework.Rego("clusters := " + string(text))
	}
	const key = placementv1.ClustersAnnotation
	clusters := func(ctx context.Context, namespace, name string) (string, error) {
		annotations, err := stored(ctx, framework.ConfigMap, namespace, name)
		return annotations[key], err
	}

	It("narrow an existing object together, and leave it where no cluster is left", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		create(ctx, framework.ConfigMap, namespace, "web", map[string]string{key: `["ap","eu","us"]`})
		residency := onConfigMaps(ctx, "residency", gives("ap", "eu"), namespace)
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{key: `["ap","eu"]`})
		cost := onConfigMaps(ctx, "cost", gives("eu", "us"), namespace)
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{key: `["eu"]`})
		expectCounts(ctx, residency, counts{Matched: 1, Violations: 0, Remediated: 1})
		expectCounts(ctx, cost, counts{Matched: 1, Violations: 0, Remediated: 1})

		By("leaving it where it is, as a violation")
		f.ChangePolicy(ctx, cost, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = gives("us") })
		expectCounts(ctx, cost, counts{Matched: 1, Violations: 1, Remediated: 1})
		expectCounts(ctx, residency, counts{Matched: 1, Violations: 1, Remediated: 1})
		p, err := f.Policy(ctx, cost)
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Status.ViolationSample).To(ConsistOf(HaveField("Message", And(
			ContainSubstring("no cluster is left: this policy allows us"), ContainSubstring("asks for ap, eu, us"),
		))))
		Consistently(clusters).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(`["eu"]`))
		By("denying a new one, with what each of them allows")
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "new", nil))).To(MatchError(And(
			ContainSubstring("PlacementPolicy %q: no cluster is left: this policy allows us", cost),
			ContainSubstring("PlacementPolicy %q: no cluster is left: this policy allows ap, eu", residency),
		)))
		By("writing the empty list if both say so")
		clear := func(p *placementv1.PlacementPolicy) {
			p.Spec.Clusters = &placementv1.ClustersRule{OnEmpty: placementv1.OnEmptyClear}
		}
		f.ChangePolicy(ctx, cost, clear)
		f.ChangePolicy(ctx, residency, clear)
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{key: `[]`})

		By("widening it when one is deleted")
		f.DeletePolicy(ctx, cost)
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{key: `["ap","eu"]`})
		By("giving the developer's list back when none gives clusters any more")
		f.ChangePolicy(ctx, residency, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = framework.Rego("annotations := {}") })
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{key: `["ap","eu","us"]`})
	})
})

var _ = Describe("Two policies on one object", func() {
	conflict := func(ctx context.Context, policy string) func() (metav1.Condition, error) {
		return func() (metav1.Condition, error) { return f.Condition(ctx, policy, placementv1.ConditionEnforced) }
	}
	DescribeTable("are decided by priority, then by name, whichever came first", func(ctx SpecContext, winnerFirst, byName bool) {
		namespace := f.NewNamespace(ctx, nil)
		create(ctx, framework.ConfigMap, namespace, "before", map[string]string{tierKey: "lead"})
		first, second := framework.NewName("pair"), framework.NewName("pair")
		winner, loser := second, first
		if byName {
			winner, loser = first, second
		}
		add := func(name, value string) {
			p := framework.NewPolicy(name, always(tierKey, value, "example.com/"+value, "yes"), "", "configmaps", namespace)
			if name == winner && !byName {
				p.Spec.Priority = 1
			}
			f.CreateReadyPolicy(ctx, p)
		}
		if winnerFirst {
			add(winner, "won")
			add(loser, "lost")
		} else {
			add(loser, "lost")
			expectAnnotations(ctx, framework.ConfigMap, namespace, "before", map[string]string{tierKey: "lost", "example.com/lost": "yes"})
			add(winner, "won")
		}
		create(ctx, framework.ConfigMap, namespace, "after", map[string]string{tierKey: "lead"})
		want := map[string]string{tierKey: "won", "example.com/won": "yes", "example.com/lost": "yes"}
		expectAnnotations(ctx, framework.ConfigMap, namespace, "before", want)
		expectAnnotations(ctx, framework.ConfigMap, namespace, "after", want)
		Eventually(conflict(ctx, winner)).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonConflict, loser))
		Eventually(conflict(ctx, loser)).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonConflict, winner))
		for _, policy := range []string{winner, loser} {
			expectCompliant(ctx, policy)
			Eventually(countsOf).WithContext(ctx).WithArguments(policy).Should(And(HaveField("Matched", 2), HaveField("Violations", 0)))
		}
		settled, err := versions(ctx, framework.ConfigMap, namespace)
		Expect(err).NotTo(HaveOccurred())
		Consistently(versions).WithContext(ctx).WithArguments(framework.ConfigMap, namespace).Should(Equal(settled))

		By("handing the key to the other one, then back to the developer, who asked for something else")
		f.ChangePolicy(ctx, winner, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = always("example.com/won", "yes") })
		want[tierKey] = "lost"
		expectAnnotations(ctx, framework.ConfigMap, namespace, "before", want)
		Eventually(conflict(ctx, loser)).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonEnforced))
		f.ChangePolicy(ctx, loser, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = always("example.com/lost", "yes") })
		want[tierKey] = "lead"
		expectAnnotations(ctx, framework.ConfigMap, namespace, "before", want)
		expectAnnotations(ctx, framework.ConfigMap, namespace, "after", want)
	},
		Entry("priority, winner first", true, false),
		Entry("priority, winner last", false, false),
		Entry("name, winner first", true, true),
		Entry("name, winner last", false, true),
	)
})

var _ = Describe("A policy that never settles", func() {
	// expectStopped waits until patching stops and says so, and checks that everything else goes on.
	expectStopped := func(ctx context.Context, policy, namespace string) {
		GinkgoHelper()
		Eventually(f.Condition).WithContext(ctx).WithArguments(policy, placementv1.ConditionCompliant).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotSettling, "web"))
		stopped, err := versions(ctx, framework.ConfigMap, namespace)
		Expect(err).NotTo(HaveOccurred())
		Consistently(versions).WithContext(ctx).WithArguments(framework.ConfigMap, namespace).Should(Equal(stopped))
		Expect(operator.Ready(ctx)).To(Succeed())
		Eventually(eventNotes).WithContext(ctx).WithArguments(namespace, "web", events.RemediationStopped.Reason).ShouldNot(BeEmpty())

		By("deciding what other policies match, as ever")
		elsewhere := f.NewNamespace(ctx, nil)
		create(ctx, framework.ConfigMap, elsewhere, "web", nil)
		onConfigMaps(ctx, "healthy", always(tierKey, "gold"), elsewhere)
		expectAnnotations(ctx, framework.ConfigMap, elsewhere, "web", map[string]string{tierKey: "gold"})

		By("going on when the policy is corrected")
		f.ChangePolicy(ctx, policy, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = always("example.com/rounds", "corrected") })
		// It may be too late for the object itself: the brake forgets after a minute.
		Eventually(stored).WithContext(ctx).WithTimeout(2*framework.Timeout).WithArguments(framework.ConfigMap, namespace, "web").
			Should(HaveKeyWithValue("example.com/rounds", "corrected"))
		expectCompliant(ctx, policy)
	}

	It("is stopped where it reads the type that it changes", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		create(ctx, framework.ConfigMap, namespace, "web", nil)
		policy := onConfigMaps(ctx, "feedback", framework.Rego(
			fmt.Sprintf(`seen := to_number(object.get(data.kubernetes.configmaps[%q].web.metadata, ["annotations", "example.com/rounds"], "0"))`, namespace),
			`annotations["example.com/rounds"] := sprintf("%d", [seen + 1])`,
		), namespace)
		expectStopped(ctx, policy, namespace)
	})

	It("is stopped where it depends on what every write changes", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		create(ctx, framework.ConfigMap, namespace, "web", nil)
		policy := onConfigMaps(ctx, "version", framework.Rego(`annotations["example.com/rounds"] := input.metadata.resourceVersion`), namespace)
		expectStopped(ctx, policy, namespace)
	})

	It("is stopped where two policies feed each other through two types", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		create(ctx, framework.ConfigMap, namespace, "web", nil)
		create(ctx, framework.Deployment, namespace, "web", nil)
		follow := func(plural string) string {
			return framework.Rego(
				fmt.Sprintf(`seen := to_number(object.get(data.kubernetes.%s[%q].web.metadata, ["annotations", "example.com/rounds"], "0"))`, plural, namespace),
				`annotations["example.com/rounds"] := sprintf("%d", [seen + 1])`,
			)
		}
		policy := onConfigMaps(ctx, "mutual", follow("deployments"), namespace)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("mutual"), follow("configmaps"), "apps", "deployments", namespace))
		expectStopped(ctx, policy, namespace)
	})
})

var _ = Describe("kubectl get placementpolicies", func() {
	It("shows the state of a policy", func(ctx SpecContext) {
		fleet, namespace := newFleet(ctx, "eu1", "us1"), f.NewNamespace(ctx, nil)
		create(ctx, framework.ConfigMap, namespace, "a", map[string]string{clustersKey: "eu1_us1"})
		create(ctx, framework.ConfigMap, namespace, "b", map[string]string{clustersKey: "gone"})
		create(ctx, framework.ConfigMap, namespace, "c", nil)
		automatic := onConfigMaps(ctx, "columns", certified("annotations", clustersKey, fleet), namespace)
		manual := onConfigMaps(ctx, "columns", always(tierKey, "gold"), namespace,
			withRemediation(placementv1.RemediationManual), withMode(placementv1.ModeWarn))
		expectCounts(ctx, automatic, counts{Matched: 3, Violations: 0, Remediated: 1})
		expectCounts(ctx, manual, counts{Matched: 3, Violations: 3, Remediated: 0})

		lines := strings.Split(strings.TrimSpace(f.MustKubectl(ctx, "", "get", "placementpolicies", automatic, manual)), "\n")
		Expect(strings.Fields(lines[0])).To(Equal([]string{"NAME", "READY", "MODE", "MATCHED", "VIOLATIONS", "WAITING", "REMEDIATED", "STAGE", "AGE"}))
		Expect(strings.Fields(lines[1])).To(HaveExactElements(automatic, "True", "Enforce", "3", "0", "1", MatchRegexp(`^\d+m?s?`)))
		Expect(strings.Fields(lines[2])).To(HaveExactElements(manual, "True", "Warn", "3", "3", "0", MatchRegexp(`^\d+m?s?`)))

		lines = strings.Split(strings.TrimSpace(f.MustKubectl(ctx, "", "get", "plpol", automatic, manual, "-o", "wide")), "\n")
		Expect(strings.Fields(lines[0])[9:]).To(Equal([]string{"REASON", "WOULD-DENY", "WOULD-MOVE", "UNDECIDED", "CONFLICTED", "DELIVERY"}))
		Expect(strings.Fields(lines[1])[7:]).To(Equal([]string{"InForce", "0", "0", "0", "0"}))
		Expect(strings.Fields(lines[2])[7:]).To(Equal([]string{"InForce", "0", "3", "0", "0"}))
		Expect(f.MustKubectl(ctx, "", "get", "berth")).To(ContainSubstring(automatic))
	})

	It("goes on counting remediations after a restart", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		create(ctx, framework.ConfigMap, namespace, "a", nil)
		policy := onConfigMaps(ctx, "restart", always(tierKey, "gold"), namespace)
		expectCounts(ctx, policy, counts{Matched: 1, Violations: 0, Remediated: 1})
		stopOperator()
		startOperator(ctx)
		f.ChangePolicy(ctx, policy, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = always(tierKey, "silver") })
		expectCounts(ctx, policy, counts{Matched: 1, Violations: 0, Remediated: 2})
	})
})

var _ = Describe("An object that another client changes back", func() {
	It("is left alone after three rounds", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		// The API server records no field managers of an object that is created without any field.
		asked := map[string]string{"example.com/app": "shop"}
		create(ctx, framework.ConfigMap, namespace, "web", asked)
		create(ctx, framework.ConfigMap, namespace, "other", asked)
		rival := f.StartRival(ctx, namespace, map[string]string{tierKey: "theirs"})
		policy := onConfigMaps(ctx, "contested", always(tierKey, "ours"), namespace)
		rival.Fight(ctx, f, framework.ConfigMap, "web", 3)
		Eventually(f.Condition).WithContext(ctx).WithArguments(policy, placementv1.ConditionCompliant).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonContested, fmt.Sprintf("configmaps %s/web (field manager %q)", namespace, framework.RivalManager)))
		Eventually(eventNotes).WithContext(ctx).WithArguments(namespace, "web", events.RemediationStopped.Reason).
			Should(ConsistOf(And(ContainSubstring(framework.RivalManager), ContainSubstring(policy))))
		stopped, err := versions(ctx, framework.ConfigMap, namespace)
		Expect(err).NotTo(HaveOccurred())
		Consistently(versions).WithContext(ctx).WithArguments(framework.ConfigMap, namespace).Should(Equal(stopped))

		By("moving other objects, as ever")
		expectAnnotations(ctx, framework.ConfigMap, namespace, "other", map[string]string{"example.com/app": "shop", tierKey: "ours"})

		By("trying again when the policy changes")
		f.ChangePolicy(ctx, policy, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = always(tierKey, "others") })
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{"example.com/app": "shop", tierKey: "others"})
		expectCompliant(ctx, policy)
	})
})
