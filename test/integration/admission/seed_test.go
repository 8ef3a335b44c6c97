package admission_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The operator", func() {
	It("becomes ready without a policy", func(ctx SpecContext) {
		m := f.StartReadyManager(ctx)
		DeferCleanup(m.Stop)
		out := f.MustKubectl(ctx, "", "get", "mutatingwebhookconfigurations")
		Expect(out).To(ContainSubstring("No resources found"))
	})
})
