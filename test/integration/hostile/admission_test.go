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

package hostile_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("A policy that denies an object", func() {
	It("denies a plain create", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("deny"), framework.Rego(`errors contains "forbidden content" if input.data.forbidden`), "", "configmaps", namespace))
		object := framework.NewObject(framework.ConfigMap, namespace, "plain", nil)
		object.Object["data"] = map[string]any{"forbidden": "yes"}
		Expect(f.Client.Create(ctx, object)).To(MatchError(ContainSubstring("forbidden content")))
	})
})
