//go:build e2e

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

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// deckLabel is what nodes have that a policy chooses among.
const deckLabel = "example.com/deck"

// chooseDeck is a policy's text that has pods run on the nodes of a deck.
func chooseDeck(deck string) string {
	return fmt.Sprintf(`package e2e

scheduling := {"nodeSelector": {%q: %q}}
`, deckLabel, deck)
}

// onDecks is what a policy says of the nodes that pods run on, and the scheduler does about it.
func onDecks() {
	const cargo = "containers"
	var upper, lower string

	BeforeAll(func(ctx SpecContext) {
		names := strings.Fields(must(ctx, "kubectl get nodes --output=jsonpath={.items[*].metadata.name}"))
		Expect(names).To(HaveLen(nodes))
		upper, lower = names[0], names[1]
		p := framework.NewPolicy("decks", chooseDeck("upper"), "apps", "deployments", harbour)
		p.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"cargo": "true"}}
		p.Spec.Predicates = &placementv1.Predicates{Candidates: placementv1.PredicateCandidatesNodes}
		f.CreateReadyPolicy(ctx, p)
		DeferCleanup(func(ctx SpecContext) {
			must(ctx, "kubectl --namespace "+harbour+" delete deployment "+cargo+" --ignore-not-found")
			must(ctx, "kubectl label nodes --all "+deckLabel+"-")
			must(ctx, "kubectl uncordon "+lower)
			expectPods(ctx, cargo, 0, "")
		})
	})

	create := func(ctx context.Context) error {
		d := newDeployment(harbour, cargo, 2)
		d.Labels = map[string]string{"cargo": "true"}
		return f.Client.Create(ctx, d)
	}
	running := func(node string) types.GomegaMatcher {
		return And(HaveLen(2), HaveEach(And(BeReady(), HaveField("Spec.NodeName", node))))
	}
	compliant := func(ctx context.Context, status metav1.ConditionStatus, reason string) {
		GinkgoHelper()
		Eventually(f.Condition).WithContext(ctx).WithArguments("decks", placementv1.ConditionCompliant).
			Should(framework.BeCondition(status, reason))
	}

	It("denies what no node is fit for, in the scheduler's words", func(ctx SpecContext) {
		Eventually(create).WithContext(ctx).Should(framework.BeForbidden("0/2 nodes fit: 2 node(s) didn't match Pod's node affinity/selector"))
	})
	It("has pods run on the nodes that the policy chooses", func(ctx SpecContext) {
		must(ctx, "kubectl label node "+upper+" "+deckLabel+"=upper")
		Eventually(create).WithContext(ctx).Should(Succeed())
		Eventually(pods).WithContext(ctx).WithArguments(harbour, client.MatchingLabels{"app": cargo}).Should(running(upper))
	})
	It("moves them when the policy changes", func(ctx SpecContext) {
		must(ctx, "kubectl label node "+lower+" "+deckLabel+"=lower")
		f.ChangePolicy(ctx, "decks", func(p *placementv1.PlacementPolicy) { p.Spec.Rego = chooseDeck("lower") })
		Eventually(pods).WithContext(ctx).WithArguments(harbour, client.MatchingLabels{"app": cargo}).Should(running(lower))
		compliant(ctx, metav1.ConditionTrue, placementv1.ReasonCompliant)
	})
	It("moves one Deployment after the other, so that a PodDisruptionBudget has enough pods all the time", func(ctx SpecContext) {
		const crates = 4
		crate := client.MatchingLabels{"crate": "true"}
		f.ChangePolicy(ctx, "decks", func(p *placementv1.PlacementPolicy) {
			p.Spec.Remediation.Budget = &placementv1.RemediationBudget{MaxUnavailable: new(intstr.FromInt32(1))}
		})
		budget := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: harbour, Name: "crates"},
			Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(crates - 1)), Selector: &metav1.LabelSelector{MatchLabels: crate}},
		}
		Expect(f.Client.Create(ctx, budget)).To(Succeed())
		for i := range crates {
			d := newDeployment(harbour, fmt.Sprint("crate-", i), 1)
			d.Labels = map[string]string{"cargo": "true", "crate": "true"}
			d.Spec.Template.Labels["crate"] = "true"
			// While its only pod is replaced, none is there.
			d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
			Expect(f.Client.Create(ctx, d)).To(Succeed())
		}
		DeferCleanup(func(ctx SpecContext) {
			must(ctx, "kubectl --namespace "+harbour+" delete deployment --selector crate=true --ignore-not-found")
			must(ctx, "kubectl --namespace "+harbour+" delete poddisruptionbudget crates")
			Eventually(allPods).WithContext(ctx).WithArguments(harbour, crate).Should(BeEmpty())
		})
		on := func(node string) types.GomegaMatcher {
			return And(HaveLen(crates), HaveEach(And(BeReady(), HaveField("Spec.NodeName", node))))
		}
		Eventually(pods).WithContext(ctx).WithArguments(harbour, crate).Should(on(lower))
		Eventually(func(ctx context.Context) (int32, error) {
			err := f.Client.Get(ctx, client.ObjectKeyFromObject(budget), budget)
			return budget.Status.CurrentHealthy, err
		}).WithContext(ctx).Should(BeEquivalentTo(crates))

		watching, err := client.NewWithWatch(f.Config, client.Options{Scheme: f.Client.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		w, err := watching.Watch(ctx, &policyv1.PodDisruptionBudgetList{}, client.InNamespace(harbour))
		Expect(err).NotTo(HaveOccurred())
		fewest := make(chan int32)
		go func() {
			least := int32(crates)
			for event := range w.ResultChan() {
				if b, ok := event.Object.(*policyv1.PodDisruptionBudget); ok && b.Name == budget.Name {
					least = min(least, b.Status.CurrentHealthy)
				}
			}
			fewest <- least
		}()
		f.ChangePolicy(ctx, "decks", func(p *placementv1.PlacementPolicy) { p.Spec.Rego = chooseDeck("upper") })
		Eventually(pods).WithContext(ctx).WithArguments(harbour, crate).WithTimeout(3 * time.Minute).Should(on(upper))
		Eventually(f.Policy).WithContext(ctx).WithArguments("decks").Should(HaveField("Status.Plan.State", placementv1.PlanCompleted))
		w.Stop()
		Expect(<-fewest).To(BeEquivalentTo(crates-1), "they were not moved one after the other")

		f.ChangePolicy(ctx, "decks", func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego = chooseDeck("lower")
			p.Spec.Remediation.Budget = nil
		})
		Eventually(pods).WithContext(ctx).WithArguments(harbour, client.MatchingLabels{"app": cargo}).Should(running(lower))
	})
	It("says so when the node is closed, and when it is open again", func(ctx SpecContext) {
		must(ctx, "kubectl cordon "+lower)
		compliant(ctx, metav1.ConditionFalse, placementv1.ReasonViolations)
		must(ctx, "kubectl uncordon "+lower)
		compliant(ctx, metav1.ConditionTrue, placementv1.ReasonCompliant)
	})
}
