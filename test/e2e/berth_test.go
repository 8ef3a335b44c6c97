//go:build e2e

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("Berth", Ordered, func() {
	Describe("installed with kubectl", func() {
		It("is up", func(ctx SpecContext) {
			follow(ctx, "docs/install.md#With kubectl")
			expectReady(ctx)
		})
		It("places pods that then run, and denies what the policy denies", func(ctx SpecContext) {
			namespace := f.NewNamespace(ctx, nil)
			f.CreateReadyPolicy(ctx, newPolicy("north", namespace))
			Expect(f.Client.Create(ctx, newDeployment(namespace, "shop", 2))).To(Succeed())
			Eventually(pods).WithContext(ctx).WithArguments(namespace).Should(And(HaveLen(2), HaveEach(And(BeReady(), BePlaced("north")))))
		})
	})
})
