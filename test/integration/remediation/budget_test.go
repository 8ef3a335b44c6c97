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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("The pace of remediation", func() {
	const objects, tier = 12, "example.com/tier"
	var namespace, name string
	BeforeEach(func(ctx SpecContext) {
		namespace = f.NewNamespace(ctx, nil)
		name = onConfigMaps(ctx, "pace", always(tier, "gold"), namespace)
		crowd(ctx, namespace, name, objects)
	})
	// tiers returns how many objects have which tier.
	tiers := func(ctx context.Context) (map[string]int, error) { return valuesOf(ctx, namespace, tier) }
	// move changes what the policy decides, and the bounds of its remediation.
	move := func(ctx context.Context, bound func(*placementv1.Remediation)) {
		GinkgoHelper()
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego = always(tier, "silver")
			bound(&p.Spec.Remediation)
		})
	}
	waiting := func(ctx context.Context) ([]placementv1.WaitingObjects, error) {
		p, err := f.Policy(ctx, name)
		return p.Status.Waiting, err
	}

	It("is what the policy's budget allows", func(ctx SpecContext) {
		move(ctx, func(r *placementv1.Remediation) { r.Budget = &placementv1.RemediationBudget{MaxPerMinute: 1} })
		// The first object is moved at once, unless the operator has just started.
		Eventually(waiting).WithContext(ctx).Should(ConsistOf(MatchAllFields(Fields{
			"Reason": Equal(placementv1.WaitingForBudget), "Objects": BeNumerically(">=", objects-1), "Until": BeNil(),
			"Message": HavePrefix("for its turn within the manager's flags --remediation-max-* and spec.remediation.budget of PlacementPolicy " + name),
		})))
		Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionCompliant).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonViolations, "bounds how many are patched a minute"))
		Consistently(tiers).WithContext(ctx).Should(HaveKeyWithValue("gold", BeNumerically(">=", objects-1)))
		Expect(total("berth_policy_waiting", fmt.Sprintf("policy=%q", name), `reason="budget"`)).To(BeNumerically(">=", objects-1))

		By("going on faster when the budget is raised")
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Remediation.Budget.MaxPerMinute = 6000 })
		Eventually(tiers).WithContext(ctx).Should(Equal(map[string]int{"silver": objects}))
		Eventually(waiting).WithContext(ctx).Should(BeEmpty())
		expectCompliant(ctx, name)
	})

	It("is nothing outside of the policy's windows", func(ctx SpecContext) {
		opens := time.Now().UTC().Add(12 * time.Hour).Truncate(time.Minute)
		move(ctx, func(r *placementv1.Remediation) {
			r.Windows = []placementv1.RemediationWindow{{Start: fmt.Sprintf("%d %d * * *", opens.Minute(), opens.Hour()), Duration: metav1.Duration{Duration: time.Hour}}}
		})
		Eventually(waiting).WithContext(ctx).Should(ConsistOf(MatchAllFields(Fields{
			"Reason": Equal(placementv1.WaitingForWindow), "Objects": Equal(int32(objects)),
			"Until":   PointTo(WithTransform(func(t metav1.Time) time.Time { return t.UTC() }, Equal(opens))),
			"Message": ContainSubstring("for a window of PlacementPolicy " + name + ", the next of which opens at " + opens.Format(time.RFC3339)),
		})))
		Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionCompliant).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonViolations, "opens at "+opens.Format(time.RFC3339)))
		Consistently(tiers).WithContext(ctx).Should(Equal(map[string]int{"gold": objects}))

		By("leaving an object where it is if an update changes nothing that the policy reads or writes")
		annotate(ctx, framework.ConfigMap, namespace, "o-01", map[string]any{"example.com/note": "changed"})
		Expect(tiers(ctx)).To(Equal(map[string]int{"gold": objects}))

		By("deciding other requests as usual")
		annotate(ctx, framework.ConfigMap, namespace, "o-00", map[string]any{tier: "mine"})
		create(ctx, framework.ConfigMap, namespace, "new", nil)
		Expect(tiers(ctx)).To(Equal(map[string]int{"gold": objects - 1, "silver": 2}))

		By("patching in a window")
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Remediation.Windows = append(p.Spec.Remediation.Windows, placementv1.RemediationWindow{Start: "* * * * *", Duration: metav1.Duration{Duration: 2 * time.Minute}})
		})
		Eventually(tiers).WithContext(ctx).Should(Equal(map[string]int{"silver": objects + 1}))
		expectCompliant(ctx, name)
	})
})

var _ = Describe("Bounds of remediation that make no sense", func() {
	DescribeTable("are refused with the path of the field", func(ctx SpecContext, remediation map[string]any, message string) {
		p := framework.NewPolicy("refused", always("example.com/tier", "gold"), "", "configmaps")
		object := map[string]any{"apiVersion": placementv1.GroupVersion.String(), "kind": "PlacementPolicy", "metadata": map[string]any{"name": framework.NewName("refused")},
			"spec": map[string]any{"match": p.Spec.Match, "rego": p.Spec.Rego, "remediation": remediation}}
		out, err := f.Kubectl(ctx, framework.Manifest(object), "apply", "-f", "-")
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring(message))
	},
		Entry("an unknown time zone", window("0 22 * * *", "1h", "Europe/Berlim"), "spec.remediation.windows[0].timeZone: Invalid value: berth_window_error: unknown time zone Europe/Berlim"),
		Entry("a schedule that is none", window("22:00", "1h", "UTC"), "spec.remediation.windows[0].start"),
		Entry("a window that ends before it starts", window("0 22 * * *", "-1h", "UTC"), "spec.remediation.windows[0].duration"),
		Entry("no pace", map[string]any{"budget": map[string]any{"maxPerMinute": 0}}, "spec.remediation.budget.maxPerMinute"),
		Entry("no object at the same time", map[string]any{"budget": map[string]any{"maxConcurrent": 0}}, "spec.remediation.budget.maxConcurrent"),
		Entry("no object of a namespace", map[string]any{"budget": map[string]any{"perNamespace": 0}}, "spec.remediation.budget.perNamespace"),
		Entry("a percentage over 100", map[string]any{"budget": map[string]any{"maxUnavailable": "101%"}}, "spec.remediation.budget.maxUnavailable: Invalid value: \"101%\": must be a number from 1 to 1000000 or a percentage from 1% to 100%"),
		Entry("a percentage of nothing", map[string]any{"budget": map[string]any{"maxUnavailable": "0%"}}, "spec.remediation.budget.maxUnavailable"),
		Entry("no unavailable object", map[string]any{"budget": map[string]any{"maxUnavailable": 0}}, "spec.remediation.budget.maxUnavailable"),
		Entry("more objects than there can be", map[string]any{"budget": map[string]any{"maxUnavailable": 3000000000}}, "spec.remediation.budget.maxUnavailable"),
		Entry("a number that is a text", map[string]any{"budget": map[string]any{"maxUnavailable": "3"}}, "spec.remediation.budget.maxUnavailable"),
		Entry("another word than Never", map[string]any{"budget": map[string]any{"pauseAfterFailures": "never"}}, "spec.remediation.budget.pauseAfterFailures: Invalid value: \"never\": must be a number from 0 to 100, or Never"),
		Entry("fewer failures than none", map[string]any{"budget": map[string]any{"pauseAfterFailures": -1}}, "spec.remediation.budget.pauseAfterFailures"),
	)

	It("are warned of where they have no effect", func(ctx SpecContext) {
		p := framework.NewPolicy(framework.NewName("warned"), always("example.com/tier", "gold"), "", "configmaps", f.NewNamespace(ctx, nil))
		p.Spec.Remediation = placementv1.Remediation{Mode: placementv1.RemediationManual, Budget: &placementv1.RemediationBudget{MaxPerMinute: 1}}
		p.APIVersion, p.Kind = placementv1.GroupVersion.String(), "PlacementPolicy"
		Expect(f.MustKubectl(ctx, framework.Manifest(p), "apply", "--dry-run=server", "-f", "-")).To(ContainSubstring("spec.remediation.budget has no effect in mode Manual"))
	})
})

func window(start, duration, zone string) map[string]any {
	return map[string]any{"windows": []any{map[string]any{"start": start, "duration": duration, "timeZone": zone}}}
}
