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
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	. "github.com/onsi/gomega/gstruct"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// zone returns a policy that places pods on the nodes of a zone.
func zone(value string) string {
	return framework.Rego(fmt.Sprintf(`scheduling.nodeSelector["example.com/zone"] := %q`, value))
}

// zoneOf returns the zone of the nodes on which the pods of a Deployment run; "" for any.
func zoneOf(o *unstructured.Unstructured) string {
	value, _, err := unstructured.NestedString(o.Object, "spec", "template", "spec", "nodeSelector", "example.com/zone")
	Expect(err).NotTo(HaveOccurred())
	return value
}

// rollOut writes the status of a Deployment, as the deployment controller does, when its rollout is complete or has failed.
func rollOut(ctx context.Context, namespace, name string, complete bool) {
	GinkgoHelper()
	o, err := f.Get(ctx, framework.Deployment, namespace, name)
	Expect(err).NotTo(HaveOccurred())
	progress := map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
	if !complete {
		progress = map[string]any{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
	}
	o.Object["status"] = map[string]any{"observedGeneration": o.GetGeneration(), "conditions": []any{
		progress, map[string]any{"type": "Available", "status": "True"},
	}}
	Expect(f.Client.Status().Update(ctx, o)).To(Succeed())
}

var _ = Describe("Patches that roll pods", func() {
	const objects = 6
	var namespaces []string
	var name string
	// begin creates Deployments in n namespaces, and a policy that moves all of them.
	begin := func(ctx context.Context, n int, budget placementv1.RemediationBudget) {
		GinkgoHelper()
		namespaces = nil
		for range n {
			namespaces = append(namespaces, f.NewNamespace(ctx, nil))
		}
		for i := range objects {
			create(ctx, framework.Deployment, namespaces[i%n], fmt.Sprintf("web-%d", i), nil)
			rollOut(ctx, namespaces[i%n], fmt.Sprintf("web-%d", i), true)
		}
		name = framework.NewName("rollout")
		p := framework.NewPolicy(name, zone("a"), "apps", "deployments", namespaces...)
		p.Spec.Remediation.Budget = &budget
		f.CreateReadyPolicy(ctx, p)
	}
	// all returns the Deployments of the namespaces.
	all := func(ctx context.Context) (out []*unstructured.Unstructured, err error) {
		for _, namespace := range namespaces {
			objects, err := list(ctx, framework.Deployment, namespace)
			if err != nil {
				return nil, err
			}
			for _, o := range objects {
				out = append(out, o)
			}
		}
		return out, nil
	}
	// underWay returns the names of the Deployments that were moved and whose rollout is not complete, by namespace.
	underWay := func(ctx context.Context) (map[string][]string, error) {
		objects, err := all(ctx)
		out := map[string][]string{}
		for _, o := range objects {
			if observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); zoneOf(o) == "a" && observed < o.GetGeneration() {
				out[o.GetNamespace()] = append(out[o.GetNamespace()], o.GetName())
			}
		}
		return out, err
	}
	number := func(ctx context.Context) (n int, err error) {
		byNamespace, err := underWay(ctx)
		for _, names := range byNamespace {
			n += len(names)
		}
		return n, err
	}
	waits := func(ctx context.Context, reason placementv1.WaitingReason, n int) {
		GinkgoHelper()
		Eventually(f.Policy).WithContext(ctx).WithArguments(name).Should(HaveField("Status.Waiting", ConsistOf(
			MatchFields(IgnoreExtras, Fields{"Reason": Equal(reason), "Objects": BeEquivalentTo(n)}),
		)))
	}
	// advance completes the rollouts one by one until all objects are moved. It checks before each that not too many are under
	// way.
	advance := func(ctx context.Context, check func(map[string][]string)) {
		GinkgoHelper()
		for range objects {
			Eventually(number).WithContext(ctx).Should(BeNumerically(">", 0))
			byNamespace, err := underWay(ctx)
			Expect(err).NotTo(HaveOccurred())
			check(byNamespace)
			for namespace, names := range byNamespace {
				rollOut(ctx, namespace, names[0], true)
				break
			}
		}
		Eventually(f.Policy).WithContext(ctx).WithArguments(name).Should(HaveField("Status.Plan", PointTo(MatchFields(IgnoreExtras, Fields{
			"State": Equal(placementv1.PlanCompleted), "Done": PointTo(BeEquivalentTo(objects)), "Rollouts": BeZero(),
		}))))
		expectCompliant(ctx, name)
		Expect(total("berth_policy_plan_duration_seconds", fmt.Sprintf("policy=%q", name))).To(Equal(1))
	}

	It("leave as many objects available as maxUnavailable asks for, also when the leader changes", func(ctx SpecContext) {
		begin(ctx, 2, placementv1.RemediationBudget{MaxUnavailable: new(intstr.FromString("34%"))})
		Eventually(number).WithContext(ctx).Should(Equal(2))
		waits(ctx, placementv1.WaitingForAvailability, objects-2)
		Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionCompliant).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonViolations, "wait because 2 objects are unavailable, and spec.remediation.budget.maxUnavailable allows 2"))
		Eventually(total).WithContext(ctx).WithArguments("berth_policy_waiting", fmt.Sprintf("policy=%q", name), `reason="availability"`).Should(Equal(objects - 2))
		// The objects that wait are known before the first patch is counted.
		Eventually(f.Policy).WithContext(ctx).WithArguments(name).Should(HaveField("Status.Plan", PointTo(MatchFields(IgnoreExtras, Fields{
			"State": Equal(placementv1.PlanInProgress), "Done": PointTo(BeEquivalentTo(2)), "Rollouts": BeEquivalentTo(2),
		}))))

		By("changing the leader")
		stopOperator()
		startOperator(ctx)
		waits(ctx, placementv1.WaitingForAvailability, objects-2)
		Consistently(number).WithContext(ctx).Should(Equal(2))

		By("moving an object that is not ready anyway")
		objects, err := all(ctx)
		Expect(err).NotTo(HaveOccurred())
		i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return zoneOf(o) == "" })
		rollOut(ctx, objects[i].GetNamespace(), objects[i].GetName(), false)
		Eventually(number).WithContext(ctx).Should(Equal(3))
		rollOut(ctx, objects[i].GetNamespace(), objects[i].GetName(), true)
		Eventually(number).WithContext(ctx).Should(Equal(2))

		By("going on as rollouts complete")
		for range len(objects) - 1 {
			Eventually(number).WithContext(ctx).Should(BeNumerically(">", 0))
			byNamespace, err := underWay(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(number(ctx)).To(BeNumerically("<=", 2))
			for namespace, names := range byNamespace {
				rollOut(ctx, namespace, names[0], true)
				break
			}
		}
		expectCompliant(ctx, name)
	})

	It("move as few objects at the same time as maxConcurrent and perNamespace allow", func(ctx SpecContext) {
		begin(ctx, 2, placementv1.RemediationBudget{MaxConcurrent: 3, PerNamespace: 1, MaxUnavailable: new(intstr.FromString("100%"))})
		Eventually(number).WithContext(ctx).Should(Equal(2))
		waits(ctx, placementv1.WaitingForBudget, objects-2)
		advance(ctx, func(byNamespace map[string][]string) {
			for namespace, names := range byNamespace {
				Expect(names).To(HaveLen(1), "in %s", namespace)
			}
		})
	})

	It("stop after as many failed rollouts as pauseAfterFailures says, and go on when a user says so", func(ctx SpecContext) {
		begin(ctx, 1, placementv1.RemediationBudget{MaxConcurrent: 1, MaxUnavailable: new(intstr.FromString("100%")), PauseAfterFailures: new(intstr.FromInt32(2))})
		for range 2 {
			Eventually(number).WithContext(ctx).Should(Equal(1))
			byNamespace, err := underWay(ctx)
			Expect(err).NotTo(HaveOccurred())
			for namespace, names := range byNamespace {
				rollOut(ctx, namespace, names[0], false)
			}
		}
		failed := func(ctx context.Context, message string) string {
			GinkgoHelper()
			Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionPaused).
				Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNamespacesPaused, "2 objects failed", "in namespace "+namespaces[0], message))
			p, err := f.Policy(ctx, name)
			Expect(err).NotTo(HaveOccurred())
			Expect(p.Status.Failures).To(PointTo(MatchFields(IgnoreExtras, Fields{
				"Objects": PointTo(BeEquivalentTo(2)), "Sample": HaveEach(And(HaveField("Reason", placementv1.RolloutFailed), HaveField("Message", "its rollout failed: Progress deadline exceeded"))),
			})))
			return p.Status.Failures.Pause
		}
		pause := failed(ctx, "such as deployments.apps spec-")
		waits(ctx, placementv1.WaitingAfterFailures, objects-2)
		Expect(total("berth_policy_paused_namespaces", fmt.Sprintf("policy=%q", name))).To(Equal(1))
		Expect(eventNotes(ctx, "default", name, "PlacementRemediationPaused")).To(ContainElement(ContainSubstring("2 objects failed")))

		By("keeping the pause when the leader changes")
		stopOperator()
		startOperator(ctx)
		Expect(failed(ctx, pause)).To(Equal(pause))
		waits(ctx, placementv1.WaitingAfterFailures, objects-2)
		Consistently(number).WithContext(ctx).Should(BeZero())

		By("ignoring another pause")
		f.MustKubectl(ctx, "", "annotate", "placementpolicy", name, placementv1.ResumeAfterFailuresAnnotation+"=1-0")
		Consistently(number).WithContext(ctx).Should(BeZero())

		By("going on")
		f.MustKubectl(ctx, "", "annotate", "placementpolicy", name, "--overwrite", placementv1.ResumeAfterFailuresAnnotation+"="+pause)
		for range objects - 2 {
			Eventually(number).WithContext(ctx).Should(Equal(1))
			byNamespace, err := underWay(ctx)
			Expect(err).NotTo(HaveOccurred())
			for namespace, names := range byNamespace {
				rollOut(ctx, namespace, names[0], true)
			}
		}
		expectCompliant(ctx, name)
	})
})

var _ = Describe("Patches that the API server refuses", func() {
	DescribeTable("stop after as many as pauseAfterFailures says", func(ctx SpecContext, limit int32, failed int, status metav1.ConditionStatus, reason string) {
		const objects, tier = 6, "example.com/tier"
		namespace := f.NewNamespace(ctx, nil)
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: framework.NewName("no-silver")},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				}}}},
				Validations: []admissionregistrationv1.Validation{{Expression: `!has(object.metadata.annotations) || object.metadata.annotations[?"example.com/tier"].orValue("") != "silver"`, Message: "no silver"}},
			},
		}
		Expect(f.Client.Create(ctx, policy)).To(Succeed())
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
				MatchResources: &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{}},
			},
		}
		DeferCleanup(func(ctx SpecContext) { Expect(f.Client.Delete(ctx, policy)).To(Succeed()) })
		// The API server applies and drops the policy some time after it is stored.
		probe := create(ctx, framework.ConfigMap, f.NewNamespace(ctx, nil), "probe", nil)
		binding.Spec.MatchResources.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{
			Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: []string{namespace, probe.GetNamespace()},
		}}
		Expect(f.Client.Create(ctx, binding)).To(Succeed())
		silver := func(ctx context.Context) error {
			return tryMerge(ctx, framework.ConfigMap, probe.GetNamespace(), probe.GetName(), map[string]any{"metadata": map[string]any{"annotations": map[string]any{tier: "silver"}}})
		}
		Eventually(silver).WithContext(ctx).Should(MatchError(ContainSubstring("no silver")))
		name := onConfigMaps(ctx, "refused", always(tier, "gold"), namespace, func(p *placementv1.PlacementPolicy) {
			p.Spec.Remediation.Budget = &placementv1.RemediationBudget{MaxConcurrent: 1, PauseAfterFailures: new(intstr.FromInt32(limit))}
		})
		crowd(ctx, namespace, name, objects)
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = always(tier, "silver") })
		Eventually(f.Policy).WithContext(ctx).WithArguments(name).Should(HaveField("Status.Failures", PointTo(MatchFields(IgnoreExtras, Fields{
			"Objects": PointTo(BeEquivalentTo(failed)), "Pause": Not(BeEmpty()), "Sample": HaveEach(And(HaveField("Reason", placementv1.PatchRefused), HaveField("Message", ContainSubstring("no silver")))),
		}))))
		Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionPaused).
			Should(framework.BeCondition(status, reason, "no silver"))

		By("trying again when the cause is corrected and a user says so")
		Expect(f.Client.Delete(ctx, binding)).To(Succeed())
		Eventually(silver).WithContext(ctx).Should(Succeed())
		p, err := f.Policy(ctx, name)
		Expect(err).NotTo(HaveOccurred())
		f.MustKubectl(ctx, "", "annotate", "placementpolicy", name, placementv1.ResumeAfterFailuresAnnotation+"="+p.Status.Failures.Pause)
		Eventually(valuesOf).WithContext(ctx).WithArguments(namespace, tier).Should(Equal(map[string]int{"silver": objects}))
		Eventually(f.Policy).WithContext(ctx).WithArguments(name).Should(HaveField("Status.Failures", BeNil()))
		Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionPaused).Should(BeZero())
	},
		Entry("in their namespace", int32(3), 3, metav1.ConditionFalse, placementv1.ReasonNamespacesPaused),
		Entry("everywhere, if none is tolerated", int32(0), 1, metav1.ConditionTrue, placementv1.ReasonTooManyFailures),
	)
})
