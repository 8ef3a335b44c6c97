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

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// deckLabel is what nodes have that a policy chooses among.
const deckLabel = "example.com/deck"

// chooseDeck is a policy's text that has pods run on the nodes of a deck.
func chooseDeck(deck string) string {
	return fmt.Sprintf("package e2e\n\nscheduling := {\"nodeSelector\": {%q: %q}}\n", deckLabel, deck)
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
	It("says so when the node is closed, and when it is open again", func(ctx SpecContext) {
		must(ctx, "kubectl cordon "+lower)
		compliant(ctx, metav1.ConditionFalse, placementv1.ReasonViolations)
		must(ctx, "kubectl uncordon "+lower)
		compliant(ctx, metav1.ConditionTrue, placementv1.ReasonCompliant)
	})
}
