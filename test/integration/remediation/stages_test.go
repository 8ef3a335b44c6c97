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
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	. "github.com/onsi/gomega/gstruct"
	"github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/test/framework"
)

// rolloutOf returns how far a policy is rolled out.
func rolloutOf(ctx context.Context, policy string) (*placementv1.RolloutStatus, error) {
	p, err := f.Policy(ctx, policy)
	return p.Status.Rollout, err
}

var _ = Describe("A policy that comes into force in stages", func() {
	const objects, tier = 3, "example.com/tier"
	var canary, half, rest, name string
	stages := func(tune ...func([]placementv1.RolloutStage)) *placementv1.PolicyRollout {
		out := &placementv1.PolicyRollout{Stages: []placementv1.RolloutStage{
			{Name: "canary", NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "canary"}}},
			{Name: "half", NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "half"}}, Approval: true},
		}}
		for _, t := range tune {
			t(out.Stages)
		}
		return out
	}
	// tiers returns the tier of the existing ConfigMaps of each namespace, and that of one that is created now.
	tiers := func(ctx context.Context) (map[string]string, error) {
		out := map[string]string{}
		for stage, namespace := range map[string]string{"canary": canary, "half": half, "rest": rest} {
			values, err := valuesOf(ctx, namespace, tier)
			if err != nil {
				return nil, err
			}
			created := framework.NewObject(framework.ConfigMap, namespace, "created-now", nil)
			if err := f.Client.Create(ctx, created, client.DryRunAll); err != nil {
				return nil, err
			}
			for value, n := range values {
				out[stage] += fmt.Sprintf("%d %s ", n, value)
			}
			out[stage] += "new " + created.GetAnnotations()[tier]
		}
		return out, nil
	}
	all := func(of map[string]string) types.GomegaMatcher {
		want := map[string]string{}
		for stage, value := range of {
			want[stage] = fmt.Sprintf("%d %s new %s", objects, value, value)
		}
		return Equal(want)
	}
	await := func(ctx context.Context, state placementv1.RolloutState, fields Fields) placementv1.RolloutStatus {
		GinkgoHelper()
		fields["State"] = Equal(state)
		Eventually(rolloutOf).WithContext(ctx).WithArguments(name).Should(PointTo(MatchFields(IgnoreExtras, fields)))
		out, err := rolloutOf(ctx, name)
		Expect(err).NotTo(HaveOccurred())
		return *out
	}
	approve := func(ctx context.Context, id string) {
		GinkgoHelper()
		f.MustKubectl(ctx, "", "annotate", "--overwrite", "placementpolicy", name, placementv1.ApproveStageAnnotation+"="+id)
	}
	BeforeEach(func(ctx SpecContext) {
		canary, half, rest = f.NewNamespace(ctx, map[string]string{"stage": "canary"}), f.NewNamespace(ctx, map[string]string{"stage": "half"}), f.NewNamespace(ctx, nil)
		for _, namespace := range []string{canary, half, rest} {
			for i := range objects {
				create(ctx, framework.ConfigMap, namespace, fmt.Sprintf("o-%d", i), nil)
			}
		}
		name = framework.NewName("staged")
		f.CreateReadyPolicy(ctx, framework.NewPolicy(name, always(tier, "gold"), "", "configmaps", canary, half, rest))
		Eventually(tiers).WithContext(ctx).Should(all(map[string]string{"canary": "gold", "half": "gold", "rest": "gold"}))
	})

	It("decides by the version before in stages that are not reached, and rolls back at once", func(ctx SpecContext) {
		By("adding stages to a policy that is in force")
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Rollout = stages() })
		first := await(ctx, placementv1.RolloutComplete, Fields{"Stage": Equal("Complete")})
		Expect(first.Revision).To(BeEquivalentTo(1))
		Eventually(tiers).WithContext(ctx).Should(all(map[string]string{"canary": "gold", "half": "gold", "rest": "gold"}))

		By("changing the policy")
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = always(tier, "silver") })
		waits := await(ctx, placementv1.RolloutWaitingForApproval, Fields{"Reached": HaveValue(BeEquivalentTo(1)), "Stage": Equal("canary 1/2"), "PreviousRevision": BeEquivalentTo(1)})
		Expect(waits.Stages[0]).To(MatchFields(IgnoreExtras, Fields{"Name": Equal("canary"), "Matched": BeEquivalentTo(objects), "Moved": BeEquivalentTo(objects), "Failed": BeZero()}))
		Expect(waits.Stages[1]).To(MatchFields(IgnoreExtras, Fields{"Name": Equal("half"), "Matched": BeEquivalentTo(objects), "Moved": BeZero(), "StartTime": BeNil()}))
		Expect(f.MustKubectl(ctx, "", "get", "plpol", name)).To(ContainSubstring("canary 1/2"))
		Eventually(tiers).WithContext(ctx).Should(all(map[string]string{"canary": "silver", "half": "gold", "rest": "gold"}))
		Eventually(eventNotes).WithContext(ctx).WithArguments(metav1.NamespaceDefault, name, events.StageReached.Reason).Should(ContainElement(ContainSubstring("canary")))

		Expect(total("berth_policy_rollout_stages_reached", fmt.Sprintf("policy=%q", name))).To(Equal(1))
		Expect(total("berth_policy_rollout_state", fmt.Sprintf("policy=%q", name), `state="waiting_for_approval"`)).To(Equal(1))

		By("changing an object of a stage that is not reached")
		annotate(ctx, framework.ConfigMap, half, "o-0", map[string]any{tier: "own"})
		Expect(tiers(ctx)).To(all(map[string]string{"canary": "silver", "half": "gold", "rest": "gold"}))

		By("restarting the operator")
		stopOperator()
		startOperator(ctx)
		// The API server may call the webhook of the replica that stopped once more. No answer may be that of another version.
		Eventually(func(g Gomega) {
			got, err := tiers(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			if matches, _ := all(map[string]string{"canary": "silver", "half": "gold", "rest": "gold"}).Match(got); !matches {
				StopTrying(fmt.Sprintf("another version decides: %v", got)).Now()
			}
		}).WithContext(ctx).Should(Succeed())
		Expect(await(ctx, placementv1.RolloutWaitingForApproval, Fields{}).ApprovalID).To(Equal(waits.ApprovalID))

		By("approving another stage")
		approve(ctx, waits.ApprovalID+"x")
		Consistently(tiers, 2*time.Second).WithContext(ctx).Should(all(map[string]string{"canary": "silver", "half": "gold", "rest": "gold"}))

		By("rolling back")
		f.MustKubectl(ctx, "", "patch", "plpol", name, "--type=merge", "-p", `{"spec":{"rollout":{"revision":1}}}`)
		await(ctx, placementv1.RolloutRolledBack, Fields{"Revision": BeEquivalentTo(1), "Stage": Equal("Revision 1")})
		Eventually(tiers).WithContext(ctx).Should(all(map[string]string{"canary": "gold", "half": "gold", "rest": "gold"}))

		By("rolling out again, to the end")
		f.MustKubectl(ctx, "", "patch", "plpol", name, "--type=merge", "-p", `{"spec":{"rollout":{"revision":null}}}`)
		again := await(ctx, placementv1.RolloutWaitingForApproval, Fields{"Reached": HaveValue(BeEquivalentTo(1))})
		Expect(again.ApprovalID).NotTo(Equal(waits.ApprovalID))
		approve(ctx, again.ApprovalID)
		// The approval was for the last stage, and the rest has one of its own.
		others := await(ctx, placementv1.RolloutWaitingForApproval, Fields{"Reached": HaveValue(BeEquivalentTo(2)), "Message": ContainSubstring(rest + ") wait for an approval of their own")})
		Expect(others.ApprovalID).NotTo(Equal(again.ApprovalID))
		Eventually(tiers).WithContext(ctx).Should(all(map[string]string{"canary": "silver", "half": "silver", "rest": "gold"}))
		Consistently(tiers, time.Second).WithContext(ctx).Should(all(map[string]string{"canary": "silver", "half": "silver", "rest": "gold"}))
		approve(ctx, others.ApprovalID)
		await(ctx, placementv1.RolloutComplete, Fields{"Revision": Equal(again.Revision), "PreviousRevision": BeZero(), "Revisions": Equal([]int64{again.Revision, 1})})
		Eventually(tiers).WithContext(ctx).Should(all(map[string]string{"canary": "silver", "half": "silver", "rest": "silver"}))
	})

	It("is not in force anywhere before its first stage, if there was no version before", func(ctx SpecContext) {
		f.DeletePolicy(ctx, name)
		p := framework.NewPolicy(name, always(tier, "bronze"), "", "configmaps", canary, half, rest)
		p.Spec.Rollout = stages(func(s []placementv1.RolloutStage) { s[0].Approval = true })
		f.CreatePolicy(ctx, p)
		waits := await(ctx, placementv1.RolloutWaitingForApproval, Fields{"Reached": HaveValue(BeEquivalentTo(0)), "PreviousRevision": BeZero(), "Stage": Equal("0/2")})
		Consistently(tiers, time.Second).WithContext(ctx).ShouldNot(ContainElement(ContainSubstring("bronze")))
		approve(ctx, waits.ApprovalID)
		second := await(ctx, placementv1.RolloutWaitingForApproval, Fields{"Reached": HaveValue(BeEquivalentTo(1))})
		Eventually(tiers).WithContext(ctx).Should(And(HaveKeyWithValue("canary", fmt.Sprintf("%d bronze new bronze", objects)), HaveKeyWithValue("half", Not(ContainSubstring("bronze")))))
		Expect(second.Message).To(ContainSubstring("; after it, namespaces of no stage (1, such as %s) follow after another approval", rest))
		approve(ctx, second.ApprovalID)
		others := await(ctx, placementv1.RolloutWaitingForApproval, Fields{"Reached": HaveValue(BeEquivalentTo(2))})
		approve(ctx, others.ApprovalID)
		await(ctx, placementv1.RolloutComplete, Fields{})
		Eventually(tiers).WithContext(ctx).Should(all(map[string]string{"canary": "bronze", "half": "bronze", "rest": "bronze"}))
	})

	It("says what follows its last stage, and asks for no other approval if nothing does", func(ctx SpecContext) {
		apply := func(tune ...func([]placementv1.RolloutStage)) string {
			GinkgoHelper()
			text, err := json.Marshal(map[string]any{"spec": map[string]any{"rollout": stages(tune...)}})
			Expect(err).NotTo(HaveOccurred())
			return f.MustKubectl(ctx, "", "patch", "plpol", name, "--type=merge", "-p", string(text))
		}
		follow := "namespaces of no stage (1, such as " + rest + ") follow after the last stage \"half\", "
		Expect(apply()).To(ContainSubstring(follow + "after another approval"))
		Expect(apply(func(s []placementv1.RolloutStage) {
			s[1].Approval, s[1].Soak = false, &metav1.Duration{Duration: time.Hour}
		})).To(ContainSubstring(follow + "after its soak, without an approval"))
		Eventually(f.Policy).WithContext(ctx).WithArguments(name).Should(HaveField("Status.Findings", ContainElement(ContainSubstring(follow+"after its soak, without an approval"))))
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = always(tier, "silver") })
		await(ctx, placementv1.RolloutSoaking, Fields{"Reached": HaveValue(BeEquivalentTo(2)), "Message": HaveSuffix("; after it, namespaces of no stage (1, such as %s) follow without an approval", rest)})
		Eventually(tiers).WithContext(ctx).Should(all(map[string]string{"canary": "silver", "half": "silver", "rest": "gold"}))

		By("having all namespaces in the last stage, which has an approval")
		Expect(apply(func(s []placementv1.RolloutStage) { s[1].NamespaceSelector = &metav1.LabelSelector{} })).NotTo(ContainSubstring("follow after the last stage"))
		waits := await(ctx, placementv1.RolloutWaitingForApproval, Fields{"Reached": HaveValue(BeEquivalentTo(1))})
		Expect(waits.Message).To(HaveSuffix(waits.ApprovalID))
		approve(ctx, waits.ApprovalID)
		await(ctx, placementv1.RolloutComplete, Fields{})
		Eventually(tiers).WithContext(ctx).Should(all(map[string]string{"canary": "silver", "half": "silver", "rest": "silver"}))
	})

	It("tolerates no failure in any namespace with 0, and any failure with Never", func(ctx SpecContext) {
		// With two other namespaces of the stage that have objects, one namespace with a failure does not stop a stage by itself.
		others := []string{f.NewNamespace(ctx, map[string]string{"stage": "canary"}), f.NewNamespace(ctx, map[string]string{"stage": "canary"})}
		for _, namespace := range others {
			create(ctx, framework.ConfigMap, namespace, "o", nil)
		}
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Match.NamespaceSelector.MatchExpressions[0].Values = append(p.Spec.Match.NamespaceSelector.MatchExpressions[0].Values, others...)
			p.Spec.Rollout = stages(func(s []placementv1.RolloutStage) {
				s[0].PauseAfterFailures, s[1].Approval = new(intstr.FromInt32(0)), false
			})
		})
		await(ctx, placementv1.RolloutComplete, Fields{})
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego = framework.Rego(fmt.Sprintf(`annotations[%q] := "silver"`, tier), fmt.Sprintf(`annotations[%q] := "gold" if input.metadata.name == "o-1"`, tier))
		})
		await(ctx, placementv1.RolloutPaused, Fields{"Reached": HaveValue(BeEquivalentTo(1)), "Message": ContainSubstring("its pauseAfterFailures is 0")})
		f.MustKubectl(ctx, "", "patch", "plpol", name, "--type=json", "-p", `[{"op":"replace","path":"/spec/rollout/stages/0/pauseAfterFailures","value":"Never"},{"op":"replace","path":"/spec/rollout/stages/1/pauseAfterFailures","value":"Never"}]`)
		await(ctx, placementv1.RolloutComplete, Fields{})
	})

	It("does not go on while objects of a stage fail", func(ctx SpecContext) {
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rollout = stages(func(s []placementv1.RolloutStage) { s[1].Approval = false })
		})
		await(ctx, placementv1.RolloutComplete, Fields{"Revision": BeEquivalentTo(1)})
		// A rule with two values is an error of the evaluation.
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego = framework.Rego(fmt.Sprintf(`annotations[%q] := "silver"`, tier), fmt.Sprintf(`annotations[%q] := "gold" if input.metadata.name == "o-1"`, tier))
		})
		paused := await(ctx, placementv1.RolloutPaused, Fields{"Reached": HaveValue(BeEquivalentTo(1))})
		Expect(paused.Message).To(ContainSubstring("1 objects of stage canary failed, 0 more are denied than before"))
		Consistently(rolloutOf, 2*time.Second).WithContext(ctx).WithArguments(name).Should(HaveField("Reached", HaveValue(BeEquivalentTo(1))))

		By("denying an object of the first stage")
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego = framework.Rego(fmt.Sprintf(`annotations[%q] := "silver"`, tier), `errors contains "no" if input.metadata.name == "o-1"`)
		})
		denies := await(ctx, placementv1.RolloutPaused, Fields{"Revision": BeNumerically(">", paused.Revision), "Message": ContainSubstring("1 more are denied than before")})
		Expect(denies.Stages[0]).To(MatchFields(IgnoreExtras, Fields{"Denied": BeEquivalentTo(1), "DeniedBefore": ConsistOf(placementv1.NamespaceObjects{Namespace: "*", Objects: new(int32(0))}), "Moved": BeEquivalentTo(objects - 1)}))

		By("correcting the policy")
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = always(tier, "silver") })
		await(ctx, placementv1.RolloutComplete, Fields{"Revision": BeNumerically(">", paused.Revision)})
		Eventually(tiers).WithContext(ctx).Should(all(map[string]string{"canary": "silver", "half": "silver", "rest": "silver"}))
	})

	It("waits for the soak of a stage", func(ctx SpecContext) {
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rollout = stages(func(s []placementv1.RolloutStage) {
				s[0].Soak, s[1].Approval = &metav1.Duration{Duration: time.Hour}, false
			})
		})
		await(ctx, placementv1.RolloutComplete, Fields{})
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = always(tier, "silver") })
		soaks := await(ctx, placementv1.RolloutSoaking, Fields{"Reached": HaveValue(BeEquivalentTo(1))})
		Expect(soaks.Stages[0].MovedTime).NotTo(BeNil())

		By("making the soak shorter, which needs no new rollout")
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rollout.Stages[0].Soak = &metav1.Duration{Duration: time.Second}
		})
		await(ctx, placementv1.RolloutComplete, Fields{"Revision": Equal(soaks.Revision)})

		By("taking the stages away in the midst of a rollout")
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego, p.Spec.Rollout.Stages[0].Soak = always(tier, "gold"), &metav1.Duration{Duration: time.Hour}
		})
		await(ctx, placementv1.RolloutSoaking, Fields{})
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Rollout = nil })
		Eventually(tiers).WithContext(ctx).Should(all(map[string]string{"canary": "gold", "half": "gold", "rest": "gold"}))
		Eventually(rolloutOf).WithContext(ctx).WithArguments(name).Should(BeNil())
		Expect(total("berth_policy_rollout_state", fmt.Sprintf("policy=%q", name))).To(BeZero())
	})
})
