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
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/test/framework"
)

// The API server of these specs has neither kubelets nor controllers. So an evicted Pod stays until a spec removes it, and no
// Pod takes its place unless a spec creates it.
var _ = Describe("Running Pods whose scheduling violates a decision", func() {
	var namespace, name string
	BeforeEach(func(ctx SpecContext) {
		namespace, name = f.NewNamespace(ctx, nil), framework.NewName("evict")
	})

	// run creates a Pod of a ReplicaSet that is ready on a node; change may be nil.
	run := func(ctx context.Context, pod string, change func(*corev1.Pod)) {
		GinkgoHelper()
		p := framework.NewPod(namespace, pod, func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": "web"}
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: types.UID(namespace), Controller: new(true)}}
			p.Spec.NodeName = "node-1"
			p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
			if change != nil {
				change(p)
			}
		})
		status := p.Status
		Expect(f.Client.Create(ctx, p)).To(Succeed())
		p.Status = status
		Expect(f.Client.Status().Update(ctx, p)).To(Succeed())
	}
	// apply creates the policy, which moves all Pods to a zone; change may be nil.
	apply := func(ctx context.Context, change func(*placementv1.Remediation)) {
		GinkgoHelper()
		p := framework.NewPolicy(name, zone("a"), "", "pods", namespace)
		p.Spec.Remediation.Evict = true
		p.Spec.Remediation.Budget = &placementv1.RemediationBudget{MaxUnavailable: new(intstr.FromString("100%"))}
		if change != nil {
			change(&p.Spec.Remediation)
		}
		f.CreateReadyPolicy(ctx, p)
	}
	// pods returns the names of the Pods that are evicted and not gone yet, and of the others.
	pods := func(ctx context.Context) (evicted, kept []string, err error) {
		var all corev1.PodList
		err = f.Client.List(ctx, &all, client.InNamespace(namespace))
		for _, p := range all.Items {
			if p.DeletionTimestamp != nil {
				evicted = append(evicted, p.Name)
			} else {
				kept = append(kept, p.Name)
			}
		}
		return evicted, kept, err
	}
	evicted := func(ctx context.Context) ([]string, error) {
		out, _, err := pods(ctx)
		return out, err
	}
	kept := func(ctx context.Context) ([]string, error) {
		_, out, err := pods(ctx)
		return out, err
	}
	// stop removes an evicted Pod, as the kubelet does when its containers have stopped.
	stop := func(ctx context.Context, pod string) {
		GinkgoHelper()
		Expect(f.Client.Delete(ctx, framework.NewPod(namespace, pod, nil), client.GracePeriodSeconds(0))).To(Succeed())
	}
	status := func(ctx context.Context) (placementv1.PlacementPolicyStatus, error) {
		p, err := f.Policy(ctx, name)
		return p.Status, err
	}
	waits := func(reason placementv1.WaitingReason, n int) OmegaMatcher {
		return HaveField("Waiting", ConsistOf(MatchFields(IgnoreExtras, Fields{"Reason": Equal(reason), "Objects": BeEquivalentTo(n)})))
	}

	It("are evicted one by one, as a PodDisruptionBudget allows", func(ctx SpecContext) {
		budget := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
			Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		}
		Expect(f.Client.Create(ctx, budget)).To(Succeed())
		// allow writes the status of the budget, as its controller does.
		allow := func(n int32) {
			GinkgoHelper()
			Expect(f.Client.Get(ctx, client.ObjectKeyFromObject(budget), budget)).To(Succeed())
			budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, DisruptionsAllowed: n, CurrentHealthy: 2, DesiredHealthy: 1, ExpectedPods: 2}
			Expect(f.Client.Status().Update(ctx, budget)).To(Succeed())
		}
		run(ctx, "web-1", nil)
		run(ctx, "web-2", nil)
		run(ctx, "free", func(p *corev1.Pod) { p.Labels = nil })
		apply(ctx, nil)

		By("evicting others while the PodDisruptionBudget allows nothing")
		Eventually(evicted).WithContext(ctx).Should(ConsistOf("free"))
		Eventually(status).WithContext(ctx).Should(waits(placementv1.WaitingForDisruptionBudget, 2))
		Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionCompliant).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonViolations, "2 of them are Pods that wait because a PodDisruptionBudget does not allow their eviction"))
		Expect(total("berth_policy_waiting", fmt.Sprintf("policy=%q", name), `reason="disruptionbudget"`)).To(Equal(2))
		Expect(eventNotes(ctx, namespace, "free", events.Evicted.Reason)).To(ConsistOf(ContainSubstring(name)))
		stop(ctx, "free")

		By("evicting one Pod for each disruption that it allows")
		for range 2 {
			allow(1)
			Eventually(evicted).WithContext(ctx).Should(HaveLen(1))
			Consistently(evicted).WithContext(ctx).Should(HaveLen(1))
			gone, err := evicted(ctx)
			Expect(err).NotTo(HaveOccurred())
			stop(ctx, gone[0])
		}
		Eventually(status).WithContext(ctx).Should(And(HaveField("Waiting", BeEmpty()), HaveField("Remediated", HaveValue(BeEquivalentTo(3)))))
		plan(ctx, name, placementv1.PlanCompleted, Fields{"Moves": BeEquivalentTo(3), "Done": HaveValue(BeEquivalentTo(3))})
		p, err := f.Policy(ctx, name)
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Status.Failures).To(BeNil())
		Expect(total("berth_remediations_total", fmt.Sprintf("policy=%q", name), `outcome="evicted"`)).To(Equal(3))
		expectCompliant(ctx, name)

		By("placing a new Pod")
		run(ctx, "web-3", nil)
		Expect(kept(ctx)).To(ConsistOf("web-3"))
		expectCompliant(ctx, name)
	})

	It("count as failed if the Eviction API can't evict them", func(ctx SpecContext) {
		for _, budget := range []string{"one", "two"} {
			Expect(f.Client.Create(ctx, &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: budget},
				Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
			})).To(Succeed())
		}
		run(ctx, "web", nil)
		apply(ctx, nil)
		Eventually(status).WithContext(ctx).Should(HaveField("Failures", PointTo(HaveField("Sample", ConsistOf(And(
			HaveField("Object", placementv1.ObjectReference("pods "+namespace+"/web")), HaveField("Reason", placementv1.PatchRefused), HaveField("Message", ContainSubstring("more than one PodDisruptionBudget")),
		))))))
		Eventually(eventNotes).WithContext(ctx).WithArguments(namespace, "web", events.RemediationFailed.Reason).Should(ContainElement(ContainSubstring("more than one PodDisruptionBudget")))
		Expect(evicted(ctx)).To(BeEmpty())
	})

	It("stay, and are reported, if no controller creates others, or if they do not run", func(ctx SpecContext) {
		run(ctx, "web", nil)
		run(ctx, "bare", func(p *corev1.Pod) { p.OwnerReferences = nil })
		run(ctx, "daemon", func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "DaemonSet" })
		run(ctx, "succeeded", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		run(ctx, "failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		run(ctx, "gated", func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.SchedulingGates = "", []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
			p.Status = corev1.PodStatus{Phase: corev1.PodPending}
		})
		run(ctx, "pending", func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
		})
		run(ctx, "terminating", nil)
		Expect(f.Client.Delete(ctx, framework.NewPod(namespace, "terminating", nil), client.GracePeriodSeconds(600))).To(Succeed())
		apply(ctx, nil)
		Eventually(evicted).WithContext(ctx).Should(ConsistOf("web", "terminating"))
		sample := func(ctx context.Context) (map[string]string, error) {
			s, err := status(ctx)
			out := map[string]string{}
			for _, v := range s.ViolationSample {
				_, _, pod := v.Object.Parse()
				out[pod] = v.Message
			}
			return out, err
		}
		first := Keys{
			"bare":    HaveSuffix("(not evicted: no controller will create another Pod; delete the Pod and create it again)"),
			"daemon":  HaveSuffix("(not evicted: the Pod's DaemonSet might create no other Pod, or only one on the same node)"),
			"failed":  HaveSuffix("(not evicted: the Pod has finished)"),
			"gated":   HaveSuffix("(not evicted: the Pod has scheduling gates; Berth may evict it once it is bound to a node)"),
			"pending": HaveSuffix("(not evicted: the Pod is not bound to a node yet; Berth may evict it once it is)"),
		}
		Eventually(sample).WithContext(ctx).Should(MatchAllKeys(first))
		Consistently(kept).WithContext(ctx).Should(ConsistOf("bare", "daemon", "succeeded", "failed", "gated", "pending"))
		Expect(eventNotes(ctx, namespace, "terminating", events.Evicted.Reason)).To(BeEmpty())
		Expect(status(ctx)).To(HaveField("WouldMove", HaveValue(BeEquivalentTo(8))))

		By("naming the others once the first are gone")
		for pod := range first {
			stop(ctx, pod.(string))
		}
		Eventually(sample).WithContext(ctx).Should(MatchAllKeys(Keys{
			"succeeded":   HaveSuffix("(not evicted: the Pod has finished)"),
			"terminating": ContainSubstring("immutable"),
			"web":         ContainSubstring("immutable"),
		}))
		stop(ctx, "web")
		plan(ctx, name, placementv1.PlanCompleted, Fields{"Moves": BeEquivalentTo(1)})
	})

	It("stay if the policy does not evict", func(ctx SpecContext) {
		run(ctx, "web", nil)
		apply(ctx, func(r *placementv1.Remediation) { r.Evict = false })
		Eventually(status).WithContext(ctx).Should(HaveField("ViolationSample", ConsistOf(HaveField("Message", ContainSubstring("immutable")))))
		Consistently(kept).WithContext(ctx).Should(ConsistOf("web"))
		Expect(planOf(ctx, name)).To(BeNil())
	})

	It("are evicted within the budget of the policy", func(ctx SpecContext) {
		for i := range 3 {
			run(ctx, fmt.Sprintf("web-%d", i), nil)
		}
		apply(ctx, func(r *placementv1.Remediation) { r.Budget.MaxConcurrent = 1 })
		for waiting := 2; waiting >= 0; waiting-- {
			Eventually(evicted).WithContext(ctx).Should(HaveLen(1))
			Consistently(evicted).WithContext(ctx).Should(HaveLen(1))
			if waiting > 0 {
				Eventually(status).WithContext(ctx).Should(waits(placementv1.WaitingForBudget, waiting))
			}
			gone, err := evicted(ctx)
			Expect(err).NotTo(HaveOccurred())
			stop(ctx, gone[0])
		}
		expectCompliant(ctx, name)
	})

	It("are evicted when those in the place of others are ready", func(ctx SpecContext) {
		for i := range 3 {
			run(ctx, fmt.Sprintf("web-%d", i), nil)
		}
		apply(ctx, func(r *placementv1.Remediation) { r.Budget.MaxUnavailable = new(intstr.FromInt32(1)) })
		Eventually(evicted).WithContext(ctx).Should(HaveLen(1))
		Eventually(status).WithContext(ctx).Should(waits(placementv1.WaitingForAvailability, 2))
		run(ctx, "new", func(p *corev1.Pod) { p.Status.Conditions = nil })
		gone, err := evicted(ctx)
		Expect(err).NotTo(HaveOccurred())
		stop(ctx, gone[0])
		Consistently(evicted).WithContext(ctx).Should(BeEmpty())
		var pod corev1.Pod
		Expect(f.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "new"}, &pod)).To(Succeed())
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		Expect(f.Client.Status().Update(ctx, &pod)).To(Succeed())
		Eventually(evicted).WithContext(ctx).Should(HaveLen(1))
		Expect(kept(ctx)).To(And(HaveLen(2), ContainElement("new")))
	})

	It("wait for the approval of their plan", func(ctx SpecContext) {
		run(ctx, "web-1", nil)
		run(ctx, "web-2", nil)
		apply(ctx, func(r *placementv1.Remediation) { r.Mode = placementv1.RemediationApproved })
		proposed := plan(ctx, name, placementv1.PlanWaitingForApproval, Fields{
			"Moves": BeEquivalentTo(2), "Transitions": ConsistOf("2 objects: nodeSelector example.com/zone from (none) to a"),
		})
		Eventually(status).WithContext(ctx).Should(waits(placementv1.WaitingForApproval, 2))
		Consistently(kept).WithContext(ctx).Should(ConsistOf("web-1", "web-2"))
		f.MustKubectl(ctx, "", "annotate", "placementpolicy", name, placementv1.ApproveAnnotation+"="+proposed.Digest)
		Eventually(evicted).WithContext(ctx).Should(ConsistOf("web-1", "web-2"))
		gone, err := evicted(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, pod := range slices.Sorted(slices.Values(gone)) {
			stop(ctx, pod)
		}
		plan(ctx, name, placementv1.PlanCompleted, Fields{"Digest": Equal(proposed.Digest), "Done": HaveValue(BeEquivalentTo(2))})
	})
})
