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

package delivery_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// karmada plays Karmada for the Deployments of a namespace: it chooses the clusters of each PropagationPolicy, and one round later the
// object is healthy in those clusters in which anything becomes healthy.
type karmada struct {
	namespace string
	owners    []*unstructured.Unstructured

	mu sync.Mutex
	// healthy are the clusters in which objects become healthy.
	healthy []string
	// chosen are the clusters that were chosen in the round before, by object, and bound is what its binding says.
	chosen map[string][]string
	bound  map[string]string
	// most is the largest number of objects that were between clusters at the same time: their PropagationPolicy names clusters in none of
	// which they are healthy.
	most int
}

// start plays Karmada until the spec ends, whose context may end before.
func (k *karmada) start(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		wait.Until(func() { k.round(ctx) }, framework.Interval, stop)
	}()
	DeferCleanup(func() {
		close(stop)
		<-done
	})
}

func (k *karmada) round(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delivered, err := clustersByOwner(ctx, k.namespace)
	if err != nil {
		return
	}
	between := 0
	for _, owner := range k.owners {
		clusters, found := delivered[owner.GetName()]
		if !found {
			// It is not delivered yet.
			continue
		}
		before := k.chosen[owner.GetName()]
		var healthy []string
		for _, name := range clusters {
			if slices.Contains(before, name) && slices.Contains(k.healthy, name) {
				healthy = append(healthy, name)
			}
		}
		between += min(1, len(clusters)-len(healthy))
		if state := fmt.Sprint(clusters, healthy); k.bound[owner.GetName()] != state {
			k.bound[owner.GetName()] = state
			bind(ctx, owner, clusters, healthy...)
		}
		k.chosen[owner.GetName()] = clusters
	}
	k.most = max(k.most, between)
}

// heal declares in which clusters objects become healthy from now on, and forgets the number so far.
func (k *karmada) heal(clusters ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.healthy, k.most = clusters, 0
}

// between returns the largest number of objects that were between clusters at the same time since heal.
func (k *karmada) between() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.most
}

var _ = Describe("Moves of many workloads", func() {
	const workloads = 30
	var (
		fl        fleet
		namespace string
		p         *placementv1.PlacementPolicy
		system    *karmada
	)

	// choose makes one of the two clusters the one that the policy decides, in one write.
	choose := func(ctx context.Context, region string) {
		GinkgoHelper()
		o, err := f.Get(ctx, framework.ClusterProfile, fl.namespace, fl.cluster("a"))
		Expect(err).NotTo(HaveOccurred())
		o.SetLabels(map[string]string{"example.com/fleet": fl.label, "topology.kubernetes.io/region": "eu", "example.com/active": region})
		Expect(f.Client.Update(ctx, o)).To(Succeed())
	}

	// leftFor returns the number of workloads that Berth took to a cluster.
	leftFor := func(ctx context.Context, name string) (n int) {
		delivered, err := clustersByOwner(ctx, namespace)
		if err != nil {
			return 0
		}
		for _, clusters := range delivered {
			if slices.Equal(clusters, fl.clusters(name)) {
				n++
			}
		}
		return n
	}

	// begin places the workloads on cluster a, where they run.
	begin := func(ctx context.Context, budget placementv1.RemediationBudget) {
		GinkgoHelper()
		fl, namespace = newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		fl.move(ctx, "b", "us")
		choose(ctx, "eu")
		p = fl.policy(toKarmada, namespace)
		p.Spec.Rego = fmt.Sprintf(`package deliver

clusters contains name if {
	some name, cluster in data.clusters
	cluster.labels["example.com/fleet"] == %q
	cluster.region == data.clusters[%q].labels["example.com/active"]
}`, fl.label, fl.cluster("a"))
		p.Spec.Remediation.Budget = &budget
		f.CreateReadyPolicy(ctx, p)
		system = &karmada{namespace: namespace, chosen: map[string][]string{}, bound: map[string]string{}}
		for i := range workloads {
			system.owners = append(system.owners, deploy(ctx, namespace, fmt.Sprintf("web-%02d", i)))
		}
		system.heal(fl.clusters("a")...)
		system.start(ctx)
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning, fmt.Sprintf("%d of %[1]d placed objects run in their clusters", workloads)))
	}

	// release lets the patches go on that stopped after failures.
	release := func(ctx context.Context) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			now, err := f.Policy(ctx, p.Name)
			g.Expect(err).NotTo(HaveOccurred())
			now.Annotations = map[string]string{placementv1.ResumeAfterFailuresAnnotation: now.Status.Failures.Pause}
			g.Expect(f.Client.Update(ctx, now)).To(Succeed())
		}).Should(Succeed())
		Eventually(f.Policy).WithContext(ctx).WithArguments(p.Name).Should(
			HaveField("Status.Waiting", ConsistOf(And(HaveField("Reason", placementv1.WaitingForBudget), HaveField("Objects", BeEquivalentTo(workloads-2))))))
	}

	It("stop where nothing becomes ready in the new cluster", func(ctx SpecContext) {
		begin(ctx, placementv1.RemediationBudget{
			MaxConcurrent: 2, PauseAfterFailures: new(intstr.FromInt32(1)), MoveTimeout: &metav1.Duration{Duration: 10 * time.Second},
		})
		choose(ctx, "us")
		Eventually(f.Policy).WithContext(ctx).WithArguments(p.Name).Should(HaveField("Status.Failures.Sample", ContainElement(And(
			HaveField("Reason", placementv1.RolloutFailed),
			HaveField("Message", ContainSubstring("the object does not run in its clusters 10s after it was moved: cluster "+fl.cluster("b")+": its health is Unhealthy")),
		))))
		Eventually(f.Policy).WithContext(ctx).WithArguments(p.Name).Should(And(
			HaveField("Status.Failures.Objects", HaveValue(BeEquivalentTo(2))),
			HaveField("Status.Failures.PausedNamespaces", ConsistOf(namespace)),
			HaveField("Status.Plan.State", placementv1.PlanInProgress),
			HaveField("Status.Plan.Rollouts", BeEquivalentTo(2)),
			HaveField("Status.Waiting", ConsistOf(And(HaveField("Reason", placementv1.WaitingAfterFailures), HaveField("Objects", BeEquivalentTo(workloads-2))))),
		))
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionPaused).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNamespacesPaused, "2 objects failed"))
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionCompliant).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonViolations, fmt.Sprintf("%d of them wait because patches or rollouts of too many objects failed", workloads-2)))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, fmt.Sprintf("%d of %d placed objects run in their clusters", workloads-2, workloads)))

		By("staying there after the release, because the two hold their places")
		release(ctx)
		Expect(leftFor(ctx, "b")).To(Equal(2))

		By("going on when they run")
		system.heal(fl.clusters("a", "b")...)
		Eventually(leftFor).WithContext(ctx).WithArguments("b").Should(Equal(workloads))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))
		Eventually(f.Policy).WithContext(ctx).WithArguments(p.Name).Should(And(
			HaveField("Status.Plan.State", placementv1.PlanCompleted), HaveField("Status.Failures", BeNil()),
		))
	})

	It("fail in time also under a new leader, which does not undo the release by the one before", func(ctx SpecContext) {
		begin(ctx, placementv1.RemediationBudget{
			MaxConcurrent: 2, PauseAfterFailures: new(intstr.FromInt32(1)), MoveTimeout: &metav1.Duration{Duration: 15 * time.Second},
		})
		choose(ctx, "us")
		text := func(o placementv1.ObjectReference) string { return string(o) }
		ofNamespace := HaveField("Object", WithTransform(text, HavePrefix("deployments.apps "+namespace+"/")))
		underWay := And(ofNamespace, HaveField("Since.Time", Not(BeZero())), HaveField("Deadline", Not(BeNil())))
		Eventually(f.Policy).WithContext(ctx).WithArguments(p.Name).Should(HaveField("Status.Moving", HaveExactElements(underWay, underWay)))
		operator.Stop()
		Expect(f.Policy(ctx, p.Name)).To(And(HaveField("Status.Moving", HaveLen(2)), HaveField("Status.Failures", BeNil())))
		operator = f.StartReadyManager(ctx)
		failed := HaveField("Deadline", BeNil())
		Eventually(f.Policy).WithContext(ctx).WithArguments(p.Name).Should(And(
			HaveField("Status.Failures.Objects", HaveValue(BeEquivalentTo(2))),
			HaveField("Status.Failures.Sample", HaveEach(And(
				HaveField("Reason", placementv1.RolloutFailed),
				HaveField("Message", ContainSubstring("the object does not run in its clusters 15s after it was moved: cluster "+fl.cluster("b")+": its health is Unhealthy")),
			))),
			HaveField("Status.Failures.PausedNamespaces", ConsistOf(namespace)),
			HaveField("Status.Plan.State", placementv1.PlanInProgress),
			HaveField("Status.Plan.Rollouts", BeEquivalentTo(2)),
			HaveField("Status.Moving", HaveExactElements(failed, failed)),
			HaveField("Status.Waiting", ConsistOf(And(HaveField("Reason", placementv1.WaitingAfterFailures), HaveField("Objects", BeEquivalentTo(workloads-2))))),
		))
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionPaused).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNamespacesPaused, "2 objects failed"))
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionCompliant).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonViolations, fmt.Sprintf("%d of them wait because patches or rollouts of too many objects failed", workloads-2)))

		By("going on to count the two after the release, under the next leader")
		release(ctx)
		operator.Stop()
		operator = f.StartReadyManager(ctx)
		Eventually(operator.Series).WithContext(ctx).WithArguments("berth_policy_waiting", fmt.Sprintf("policy=%q", p.Name), `reason="budget"`).Should(HaveEach(BeEquivalentTo(workloads - 2)))
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionCompliant).Should(framework.BeCondition(
			metav1.ConditionFalse, placementv1.ReasonViolations, "2 objects that did not run in their new clusters in time still count as being moved in their namespaces"))
		Expect(f.Policy(ctx, p.Name)).To(And(
			HaveField("Status.Failures", BeNil()), HaveField("Status.Plan.State", placementv1.PlanInProgress), HaveField("Status.Plan.Rollouts", BeEquivalentTo(2)),
		))
		Expect(leftFor(ctx, "b")).To(Equal(2))

		By("going on when they run")
		system.heal(fl.clusters("a", "b")...)
		Eventually(leftFor).WithContext(ctx).WithArguments("b").Should(Equal(workloads))
		Eventually(f.Policy).WithContext(ctx).WithArguments(p.Name).Should(And(
			HaveField("Status.Plan.State", placementv1.PlanCompleted), HaveField("Status.Moving", BeEmpty()), HaveField("Status.Failures", BeNil()),
		))
	})

	It("never have more of them between clusters than the budget allows, also while leaders change", func(ctx SpecContext) {
		begin(ctx, placementv1.RemediationBudget{MaxConcurrent: 2})
		system.heal(fl.clusters("a", "b")...)
		choose(ctx, "us")
		for _, moved := range []int{5, 15} {
			Eventually(leftFor).WithContext(ctx).WithArguments("b").Should(BeNumerically(">=", moved))
			operator.Stop()
			operator = f.StartReadyManager(ctx)
		}
		Eventually(leftFor).WithContext(ctx).WithArguments("b").WithTimeout(2 * framework.Timeout).Should(Equal(workloads))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))
		Expect(system.between()).To(And(BeNumerically(">", 0), BeNumerically("<=", 2)))
		Eventually(f.Policy).WithContext(ctx).WithArguments(p.Name).Should(HaveField("Status.Plan.State", placementv1.PlanCompleted))
	})
})
