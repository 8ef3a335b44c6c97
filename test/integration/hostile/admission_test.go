package hostile_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("A policy that denies an object", func() {
	It("denies a plain create", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("deny"), rego(`errors contains "forbidden content" if input.data.forbidden`), "", "configmaps", namespace))
		object := framework.NewObject(framework.ConfigMap, namespace, "plain", nil)
		object.Object["data"] = map[string]any{"forbidden": "yes"}
		Expect(f.Client.Create(ctx, object)).To(MatchError(ContainSubstring("forbidden content")))
	})
})
