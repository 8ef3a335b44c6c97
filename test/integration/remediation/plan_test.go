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
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	. "github.com/onsi/gomega/gstruct"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/test/framework"
)

// planOf returns a policy's plan.
func planOf(ctx context.Context, policy string) (*placementv1.RemediationPlan, error) {
	p, err := f.Policy(ctx, policy)
	return p.Status.Plan, err
}

// plan waits for a plan in a state, with some fields, and returns it.
func plan(ctx context.Context, policy string, state placementv1.PlanState, fields Fields) placementv1.RemediationPlan {
	GinkgoHelper()
	fields["State"] = Equal(state)
	Eventually(planOf).WithContext(ctx).WithArguments(policy).Should(PointTo(MatchFields(IgnoreExtras, fields)))
	out, err := planOf(ctx, policy)
	Expect(err).NotTo(HaveOccurred())
	return *out
}

var _ = Describe("The plan of remediation", func() {
	const tier = "example.com/tier"

	It("is known before the first object is patched, and says how far it is", func(ctx SpecContext) {
		const objects = 12
		namespace := f.NewNamespace(ctx, nil)
		name := onConfigMaps(ctx, "plan", always(tier, "gold"), namespace)
		crowd(ctx, namespace, name, objects)
		told := func(reason string) AsyncAssertion {
			return Eventually(eventNotes).WithContext(ctx).WithArguments(metav1.NamespaceDefault, name, reason)
		}
		Expect(planOf(ctx, name)).To(BeNil())

		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego, p.Spec.Remediation.Mode = always(tier, "silver"), placementv1.RemediationManual
		})
		changed, err := f.Policy(ctx, name)
		Expect(err).NotTo(HaveOccurred())
		proposed := plan(ctx, name, placementv1.PlanProposed, Fields{
			"Message": Equal(fmt.Sprintf("generation %d of the policy came into force", changed.Generation)),
			"Moves":   BeEquivalentTo(objects), "Done": HaveValue(BeEquivalentTo(0)),
			"Transitions": ConsistOf(fmt.Sprintf("%d objects: annotation %s from gold to silver", objects, tier)),
		})

		By("carrying out the same plan when the mode becomes Automatic, and a window opens")
		opens := time.Now().UTC().Add(12 * time.Hour)
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Remediation.Mode = placementv1.RemediationAutomatic
			p.Spec.Remediation.Windows = []placementv1.RemediationWindow{{Start: fmt.Sprintf("%d %d * * *", opens.Minute(), opens.Hour()), Duration: metav1.Duration{Duration: time.Hour}}}
		})
		plan(ctx, name, placementv1.PlanInProgress, Fields{"Digest": Equal(proposed.Digest), "Done": HaveValue(BeEquivalentTo(0))})
		told(events.PlanStarted.Reason).Should(ConsistOf(ContainSubstring("plan " + proposed.Digest + " moves 12 objects")))
		Expect(total("berth_policy_plan_moves", fmt.Sprintf("policy=%q", name))).To(Equal(objects))

		annotate(ctx, framework.ConfigMap, namespace, "o-00", map[string]any{tier: "its owner asks for another"})
		plan(ctx, name, placementv1.PlanInProgress, Fields{"Digest": Equal(proposed.Digest), "Moves": BeEquivalentTo(objects), "Done": HaveValue(BeEquivalentTo(1))})
		Expect(eventNotes(ctx, metav1.NamespaceDefault, name, events.PlanCompleted.Reason)).To(BeEmpty())

		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Remediation.Windows = nil })
		plan(ctx, name, placementv1.PlanCompleted, Fields{"Digest": Equal(proposed.Digest), "Moves": BeEquivalentTo(objects), "Done": HaveValue(BeEquivalentTo(objects))})
		told(events.PlanCompleted.Reason).Should(ConsistOf(ContainSubstring(proposed.Digest)))
		Expect(total("berth_policy_plan_done", fmt.Sprintf("policy=%q", name))).To(Equal(objects))
	})

	It("names the data that changed", func(ctx SpecContext) {
		fleet, namespace := newFleet(ctx, "eu1"), f.NewNamespace(ctx, nil)
		create(ctx, framework.ConfigMap, namespace, "web", map[string]string{tier: "gold"})
		create(ctx, framework.ConfigMap, namespace, "db", map[string]string{tier: "gold"})
		name := onConfigMaps(ctx, "data", framework.Rego(fmt.Sprintf(`annotations["example.com/pci"] := data.kubernetes.clusterprofiles[%q].eu1.metadata.labels.pci`, fleet)), namespace)
		plan(ctx, name, placementv1.PlanCompleted, Fields{"Moves": BeEquivalentTo(2)})
		certify(ctx, fleet, "eu1", "no")
		plan(ctx, name, placementv1.PlanCompleted, Fields{
			"Message":     Equal("clusterprofiles.multicluster.x-k8s.io changed"),
			"Transitions": ConsistOf("2 objects: annotation example.com/pci from yes to no"),
		})
	})
})

var _ = Describe("A policy whose plans need an approval", func() {
	const objects, tier = 12, "example.com/tier"
	var namespace, name string
	BeforeEach(func(ctx SpecContext) {
		namespace = f.NewNamespace(ctx, nil)
		name = onConfigMaps(ctx, "approved", always(tier, "gold"), namespace)
		crowd(ctx, namespace, name, objects)
	})
	tiers := func(ctx context.Context) (map[string]int, error) { return valuesOf(ctx, namespace, tier) }
	decide := func(ctx context.Context, value string) placementv1.RemediationPlan {
		GinkgoHelper()
		before, err := planOf(ctx, name)
		Expect(err).NotTo(HaveOccurred())
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego, p.Spec.Remediation.Mode = always(tier, value), placementv1.RemediationApproved
		})
		digest := Not(BeEmpty())
		if before != nil {
			digest = Not(Equal(before.Digest))
		}
		return plan(ctx, name, placementv1.PlanWaitingForApproval, Fields{"Digest": digest, "Moves": BeEquivalentTo(objects), "Done": HaveValue(BeEquivalentTo(0)), "Approval": BeNil()})
	}
	approve := func(ctx context.Context, digest string) {
		GinkgoHelper()
		f.MustKubectl(ctx, "", "annotate", "placementpolicy", name, "--overwrite", placementv1.ApproveAnnotation+"="+digest)
	}
	unapproved := func(ctx context.Context, reason, message string) {
		GinkgoHelper()
		Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionPaused).Should(framework.BeCondition(metav1.ConditionTrue, reason, message))
	}
	told := func(ctx context.Context, reason string) AsyncAssertion {
		return Eventually(eventNotes).WithContext(ctx).WithArguments(metav1.NamespaceDefault, name, reason)
	}

	It("moves nothing but what was approved", func(ctx SpecContext) {
		first := decide(ctx, "silver")
		unapproved(ctx, placementv1.ReasonWaitingForApproval, "kubectl annotate plpol "+name+" --overwrite placement.berth.dev/approve="+first.Digest)
		told(ctx, events.PlanWaits.Reason).Should(ConsistOf(ContainSubstring(first.Digest)))
		p, err := f.Policy(ctx, name)
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Status.Waiting).To(ConsistOf(MatchFields(IgnoreExtras, Fields{
			"Reason": Equal(placementv1.WaitingForApproval), "Objects": BeEquivalentTo(objects), "Message": ContainSubstring("kubectl berth approve " + name),
		})))
		Expect(p.Status.WaitsFor).To(Equal(fmt.Sprintf("Approval (%d)", objects)))

		By("leaving the plan alone when another policy has the objects patched")
		onConfigMaps(ctx, "beside", always("example.com/beside", "x"), namespace)
		expectAnnotations(ctx, framework.ConfigMap, namespace, "o-11", map[string]string{tier: "gold", "example.com/beside": "x"})
		Expect(tiers(ctx)).To(Equal(map[string]int{"gold": objects}))

		By("refusing the approval of another plan")
		approve(ctx, "0123456789abcdef")
		unapproved(ctx, placementv1.ReasonUnknownPlan, "approves plan 0123456789abcdef, but the plan that moves 12 objects is "+first.Digest)
		told(ctx, events.PlanNotApproved.Reason).Should(ConsistOf(ContainSubstring("0123456789abcdef")))

		By("refusing the approval of an earlier plan")
		second := decide(ctx, "bronze")
		approve(ctx, first.Digest)
		unapproved(ctx, placementv1.ReasonUnknownPlan, "is "+second.Digest)
		Consistently(tiers).WithContext(ctx).Should(Equal(map[string]int{"gold": objects}))

		By("carrying out the plan once it is approved")
		approve(ctx, second.Digest)
		Eventually(tiers).WithContext(ctx).Should(Equal(map[string]int{"bronze": objects}))
		done := plan(ctx, name, placementv1.PlanCompleted, Fields{"Digest": Equal(second.Digest), "Done": HaveValue(BeEquivalentTo(objects))})
		Expect(done.Approval).To(PointTo(MatchFields(IgnoreExtras, Fields{"User": Equal("berth-admin"), "Time": Not(BeNil())})))
		told(ctx, events.PlanApproved.Reason).Should(ConsistOf(ContainSubstring("plan " + second.Digest + " was approved by berth-admin")))
		Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionPaused).Should(BeZero())
		Expect(remediationsBelow(namespace)).To(HaveLen(objects))
	})

	It("asks again when an approved plan changes before it is carried out", func(ctx SpecContext) {
		first := decide(ctx, "silver")
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Remediation.Budget = &placementv1.RemediationBudget{MaxPerMinute: 20}
		})
		approve(ctx, first.Digest)
		plan(ctx, name, placementv1.PlanInProgress, Fields{"Digest": Equal(first.Digest), "Approval": Not(BeNil())})
		Eventually(tiers).WithContext(ctx).Should(HaveKeyWithValue("silver", BeNumerically(">=", 1)))

		By("deciding otherwise")
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego, p.Spec.Remediation.Budget = always(tier, "bronze"), nil
		})
		second := plan(ctx, name, placementv1.PlanWaitingForApproval, Fields{"Digest": Not(Equal(first.Digest)), "Moves": BeEquivalentTo(objects), "Approval": BeNil()})
		unapproved(ctx, placementv1.ReasonWaitingForApproval, second.Digest)
		Consistently(tiers).WithContext(ctx).ShouldNot(HaveKey("bronze"))
	})

	It("goes on with an approved plan under another leader", func(ctx SpecContext) {
		first := decide(ctx, "silver")
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Remediation.Budget = &placementv1.RemediationBudget{MaxPerMinute: 20}
		})
		Expect(storedPlans(ctx, name)).To(BeEmpty())
		approve(ctx, first.Digest)
		Eventually(tiers).WithContext(ctx).Should(HaveKeyWithValue("silver", BeNumerically(">=", 2)))
		Expect(storedPlans(ctx, name)).To(HaveLen(1))

		By("losing the leader in the midst of the plan")
		stopOperator()
		Expect(tiers(ctx)).To(HaveKey("gold"))
		startOperator(ctx)
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Remediation.Budget = nil })
		done := plan(ctx, name, placementv1.PlanCompleted, Fields{
			"Digest": Equal(first.Digest), "Moves": BeEquivalentTo(objects), "Done": HaveValue(BeEquivalentTo(objects)), "Transitions": Equal(first.Transitions),
		})
		Expect(done.Approval).To(PointTo(MatchFields(IgnoreExtras, Fields{"User": Equal("berth-admin")})))
		Expect(tiers(ctx)).To(Equal(map[string]int{"silver": objects}))
		for object, n := range remediationsBelow(namespace) {
			Expect(n).To(Equal(1), object)
		}

		By("not keeping it any longer")
		Eventually(storedPlans).WithContext(ctx).WithArguments(name).Should(BeEmpty())

		By("asking for another approval of an equal plan")
		decide(ctx, "gold")
	})

	It("asks again when something else has to be moved under another leader", func(ctx SpecContext) {
		first := decide(ctx, "silver")
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Remediation.Budget, p.Spec.FailurePolicy = &placementv1.RemediationBudget{MaxPerMinute: 20}, placementv1.FailurePolicyIgnore
		})
		approve(ctx, first.Digest)
		Eventually(tiers).WithContext(ctx).Should(HaveKeyWithValue("silver", BeNumerically(">=", 2)))
		stopOperator()
		By("creating an object that the webhook does not decide")
		create(ctx, framework.ConfigMap, namespace, "late", map[string]string{tier: "gold"})
		startOperator(ctx)
		second := plan(ctx, name, placementv1.PlanWaitingForApproval, Fields{"Digest": Not(Equal(first.Digest)), "Approval": BeNil()})
		unapproved(ctx, placementv1.ReasonWaitingForApproval, second.Digest)
		before, err := tiers(ctx)
		Expect(err).NotTo(HaveOccurred())
		Consistently(tiers).WithContext(ctx).Should(Equal(before))
		Eventually(storedPlans).WithContext(ctx).WithArguments(name).Should(BeEmpty())
	})
})

// storedPlans returns the names of the ControllerRevisions that store an approved plan of a policy.
func storedPlans(ctx context.Context, policyName string) ([]string, error) {
	list := &appsv1.ControllerRevisionList{}
	err := f.Client.List(ctx, list, client.MatchingLabels{"placement.berth.dev/approved-plan": policy.RevisionName(policyName)})
	out := []string{}
	for _, revision := range list.Items {
		out = append(out, revision.Name)
	}
	return out, err
}
