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
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	. "github.com/onsi/gomega/gstruct"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("The objects of one tenant", func() {
	var alice, bob, carol, dave string
	BeforeEach(func(ctx SpecContext) {
		alice, bob, carol, dave = f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
	})

	// The API server refuses what a policy sets in objects with this annotation.
	full := map[string]string{"example.com/full": "true"}
	refuseFull := func(ctx context.Context) {
		GinkgoHelper()
		example := framework.NewObject(framework.ConfigMap, alice, "example", map[string]string{"example.com/full": "true", tierKey: "gold"})
		f.Refuse(ctx, `!has(object.metadata.annotations) || !("example.com/full" in object.metadata.annotations && "example.com/tier" in object.metadata.annotations)`, "no room", example)
	}
	// in is a condition of a policy: that an object is in one of the namespaces.
	in := func(namespaces ...string) string {
		return `input.metadata.namespace in {"", "` + strings.Join(namespaces, `", "`) + `"}`
	}
	fill := func(ctx context.Context, namespace string, n int, annotations map[string]string) {
		GinkgoHelper()
		for i := range n {
			create(ctx, framework.ConfigMap, namespace, fmt.Sprintf("o-%d", i), annotations)
		}
	}
	onAll := func(ctx context.Context, text string, tune ...func(*placementv1.PlacementPolicy)) string {
		GinkgoHelper()
		p := framework.NewPolicy(framework.NewName("tenants"), text, "", "configmaps", alice, bob, carol, dave)
		for _, t := range tune {
			t(p)
		}
		f.CreateReadyPolicy(ctx, p)
		return p.Name
	}
	expectTiers := func(ctx context.Context, namespace string, want map[string]int) {
		GinkgoHelper()
		Eventually(valuesOf).WithContext(ctx).WithArguments(namespace, tierKey).Should(Equal(want))
	}
	pausedNamespaces := func(name string) int { return total("berth_policy_paused_namespaces", fmt.Sprintf("policy=%q", name)) }
	paused := func(name string) int { return total("berth_policy_paused", fmt.Sprintf("policy=%q", name)) }
	// change has a policy set a tier, and deny the objects in some namespaces, except one of each.
	change := func(ctx context.Context, name, tier string, denied ...string) {
		GinkgoHelper()
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego = framework.Rego(fmt.Sprintf("annotations[%q] := %q", tierKey, tier),
				fmt.Sprintf(`errors contains "closed" if {
	%s
	input.metadata.name != "o-0"
}`, in(denied...)))
		})
	}

	It("hold the change that would harm them for that tenant alone, and those of three tenants for all", func(ctx SpecContext) {
		const objects = 13
		for _, namespace := range []string{alice, bob, carol} {
			fill(ctx, namespace, objects, nil)
		}
		name := onAll(ctx, always(tierKey, "gold"))
		expectCompliant(ctx, name)

		change(ctx, name, "silver", alice)
		expectPausedIn(ctx, name, alice, "12 of the 39 matched objects at once (12 denied), such as configmaps "+alice+"/o-1")
		expectTiers(ctx, bob, map[string]int{"silver": objects})
		expectTiers(ctx, carol, map[string]int{"silver": objects})
		expectTiers(ctx, alice, map[string]int{"gold": objects})
		Expect([]int{paused(name), pausedNamespaces(name)}).To(Equal([]int{0, 1}))

		By("keeping what its owner updates as it is")
		note := func(ctx context.Context) (string, error) {
			err := tryMerge(ctx, framework.ConfigMap, alice, "o-0", map[string]any{"data": map[string]any{"a": "b"}})
			annotations, _ := stored(ctx, framework.ConfigMap, alice, "o-0")
			return annotations[tierKey], err
		}
		Consistently(note).WithContext(ctx).Should(Equal("gold"))
		merge(ctx, framework.ConfigMap, bob, "o-0", map[string]any{"data": map[string]any{"a": "b"}})
		Expect(stored(ctx, framework.ConfigMap, bob, "o-0")).To(HaveKeyWithValue(tierKey, "silver"))

		By("staying so across a restart")
		stopOperator()
		startOperator(ctx)
		Eventually(pausedNamespaces).WithContext(ctx).WithArguments(name).Should(Equal(1))
		expectPausedIn(ctx, name, alice, "12 of the 39 matched objects at once")
		expectTiers(ctx, alice, map[string]int{"gold": objects})

		By("holding a second one")
		change(ctx, name, "bronze", alice, bob)
		Eventually(pausedCondition).WithContext(ctx).WithArguments(name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNamespacesPaused, "in namespaces ", alice, bob))
		expectTiers(ctx, carol, map[string]int{"bronze": objects})
		expectTiers(ctx, bob, map[string]int{"silver": objects})

		By("holding all")
		change(ctx, name, "tin", alice, bob, carol)
		Eventually(pausedCondition).WithContext(ctx).WithArguments(name).
			Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonBlastRadius, "so Berth moves no object of this policy. "))
		expectTiers(ctx, carol, map[string]int{"bronze": objects})
		Eventually(paused).WithContext(ctx).WithArguments(name).Should(Equal(1))
		Expect(pausedNamespaces(name)).To(BeZero())

		By("ending when the change is taken back")
		change(ctx, name, "lead")
		expectNotPaused(ctx, name)
		for _, namespace := range []string{alice, bob, carol} {
			expectTiers(ctx, namespace, map[string]int{"lead": objects})
		}
	})

	It("do not hold a change that denies them because of their own list of clusters", func(ctx SpecContext) {
		fill(ctx, alice, 12, map[string]string{placementv1.ClustersAnnotation: `["us-1"]`})
		fill(ctx, bob, 3, nil)
		name := onAll(ctx, framework.Rego(`clusters := {"eu-1", "us-1"}`))
		Eventually(valuesOf).WithContext(ctx).WithArguments(bob, placementv1.ClustersAnnotation).Should(Equal(map[string]int{`["eu-1","us-1"]`: 3}))
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = framework.Rego(`clusters := {"eu-1"}`) })
		Eventually(valuesOf).WithContext(ctx).WithArguments(bob, placementv1.ClustersAnnotation).Should(Equal(map[string]int{`["eu-1"]`: 3}))
		Eventually(f.Policy).WithContext(ctx).WithArguments(name).Should(HaveField("Status", MatchFields(IgnoreExtras, Fields{
			"WouldDeny": PointTo(BeEquivalentTo(12)), "Paused": BeNil(),
		})))
		expectNotPaused(ctx, name)
	})

	It("stop the patches of that tenant alone where they fail, until they are mended", func(ctx SpecContext) {
		mend := func(namespace string, i int) {
			GinkgoHelper()
			annotate(ctx, framework.ConfigMap, namespace, fmt.Sprintf("o-%d", i), map[string]any{"example.com/full": nil})
		}
		refuseFull(ctx)
		fill(ctx, alice, 4, full)
		fill(ctx, bob, 6, nil)
		name := onAll(ctx, always(tierKey, "gold"), func(p *placementv1.PlacementPolicy) {
			p.Spec.Remediation.Budget = &placementv1.RemediationBudget{MaxConcurrent: 1, PauseAfterFailures: new(intstr.FromInt32(3))}
		})
		expectFailed := func() {
			GinkgoHelper()
			Eventually(pausedCondition).WithContext(ctx).WithArguments(name).
				Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNamespacesPaused, "3 objects failed", "in namespace "+alice, "no room"))
		}
		expectFailed()
		expectTiers(ctx, bob, map[string]int{"gold": 6})
		Eventually(f.Policy).WithContext(ctx).WithArguments(name).Should(HaveField("Status.Waiting", ConsistOf(
			MatchFields(IgnoreExtras, Fields{"Reason": Equal(placementv1.WaitingAfterFailures), "Objects": BeEquivalentTo(1)}),
		)))
		Expect([]int{paused(name), pausedNamespaces(name)}).To(Equal([]int{0, 1}))

		By("staying so across a restart")
		stopOperator()
		startOperator(ctx)
		Eventually(pausedNamespaces).WithContext(ctx).WithArguments(name).Should(Equal(1))
		expectFailed()

		By("going on when its owner mends them")
		for i := range 3 {
			mend(alice, i)
		}
		expectNotPaused(ctx, name)
		mend(alice, 3)
		expectTiers(ctx, alice, map[string]int{"gold": 4})
		expectCompliant(ctx, name)
	})

	It("stop all patches where those of three tenants fail", func(ctx SpecContext) {
		refuseFull(ctx)
		for _, namespace := range []string{alice, bob, carol} {
			fill(ctx, namespace, 2, full)
		}
		name := onAll(ctx, always(tierKey, "gold"), func(p *placementv1.PlacementPolicy) {
			p.Spec.Remediation.Budget = &placementv1.RemediationBudget{MaxConcurrent: 1, PauseAfterFailures: new(intstr.FromInt32(3))}
		})
		Eventually(pausedCondition).WithContext(ctx).WithArguments(name).
			Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonTooManyFailures, "so Berth patches no more objects of this policy (", "no room"))
		Eventually(paused).WithContext(ctx).WithArguments(name).Should(Equal(1))
		Expect(pausedNamespaces(name)).To(BeZero())
	})

	It("do not keep a version from the other stages, and those of three tenants do", func(ctx SpecContext) {
		later := f.NewNamespace(ctx, nil)
		for _, namespace := range []string{alice, bob, carol, dave, later} {
			fill(ctx, namespace, 2, nil)
		}
		name := onAll(ctx, always(tierKey, "gold"), func(p *placementv1.PlacementPolicy) {
			values := &p.Spec.Match.NamespaceSelector.MatchExpressions[0].Values
			*values = append(*values, later)
			p.Spec.Rollout = &placementv1.PolicyRollout{Stages: []placementv1.RolloutStage{
				{Name: "first", NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
					Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: []string{alice, bob, carol, dave},
				}}}},
				{Name: "rest", Percent: 100},
			}}
		})
		await := func(fields Fields) {
			GinkgoHelper()
			Eventually(rolloutOf).WithContext(ctx).WithArguments(name).Should(PointTo(MatchFields(IgnoreExtras, fields)))
		}
		await(Fields{"State": Equal(placementv1.RolloutComplete)})
		expectCompliant(ctx, name)
		// A rule with two values is an error of the evaluation.
		fails := func(tier string, namespaces ...string) {
			GinkgoHelper()
			f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
				p.Spec.Rego = framework.Rego(fmt.Sprintf("annotations[%q] := %q", tierKey, tier),
					fmt.Sprintf(`annotations[%q] := "none" if {
	%s
	input.metadata.name == "o-1"
}`, tierKey, in(namespaces...)))
			})
		}
		fails("silver", alice)
		await(Fields{"State": Equal(placementv1.RolloutComplete), "Revision": BeEquivalentTo(2), "Stages": ContainElement(
			MatchFields(IgnoreExtras, Fields{"Name": Equal("first"), "Failed": BeEquivalentTo(1), "Moved": BeEquivalentTo(7)}))})
		expectTiers(ctx, later, map[string]int{"silver": 2})

		fails("bronze", alice, bob, carol)
		await(Fields{"State": Equal(placementv1.RolloutPaused), "Message": ContainSubstring("3 objects of stage first failed")})
		Consistently(valuesOf).WithContext(ctx).WithArguments(later, tierKey).Should(Equal(map[string]int{"silver": 2}))
	})
})
