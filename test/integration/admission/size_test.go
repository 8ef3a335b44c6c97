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

package admission_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// The API server stores up to 256 KiB of annotations, and the record of requested values is one of them.
var _ = Describe("An object with large annotations", func() {
	const notes, other = "example.com/notes", "example.com/other"
	const overwrites = `package placement

annotations["example.com/notes"] := "none"
`
	var namespace string

	BeforeEach(func(ctx SpecContext) { namespace = f.NewNamespace(ctx, nil) })

	policy := func(ctx context.Context) string {
		GinkgoHelper()
		p := framework.NewPolicy(framework.NewName("size"), overwrites, "", "configmaps", namespace)
		f.CreateReadyPolicy(ctx, p)
		return p.Name
	}
	create := func(ctx context.Context, name string, annotations map[string]string) error {
		return f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, name, annotations))
	}
	large := map[string]string{notes: strings.Repeat(`"`, 100_000), other: strings.Repeat("y", 100_000)}

	It("is created if JSON need not escape its values, and gets them back", func(ctx SpecContext) {
		p := policy(ctx)
		for name, text := range map[string]string{"html": "<&>", "quotes": `"`, "lines": "a\\b\n"} {
			value := strings.Repeat(text, 110_000/len(text))
			Expect(create(ctx, name, map[string]string{notes: value})).To(Succeed())
			Expect(stored(ctx, framework.ConfigMap, namespace, name)).To(HaveKeyWithValue(notes, "none"))
			defer Eventually(stored).WithContext(ctx).WithArguments(framework.ConfigMap, namespace, name).Should(HaveKeyWithValue(notes, value))
		}
		f.ChangePolicy(ctx, p, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego = framework.Rego("labels := {}")
		})
	})

	It("is denied with the policy, the key, and the sizes if there is no room for the record", func(ctx SpecContext) {
		p := policy(ctx)
		Expect(create(ctx, "c", large)).To(MatchError(And(ContainSubstring(`PlacementPolicy "`+p+`": annotation `+notes), ContainSubstring("100000 bytes"), ContainSubstring("262144"))))
	})

	It("stays as it is if it is older than the policy, is a violation, and can be updated", func(ctx SpecContext) {
		Expect(create(ctx, "c", large)).To(Succeed())
		p := policy(ctx)
		Eventually(func() (placementv1.PlacementPolicyStatus, error) {
			var out placementv1.PlacementPolicy
			err := f.Client.Get(ctx, types.NamespacedName{Name: p}, &out)
			return out.Status, err
		}).WithContext(ctx).Should(HaveField("ViolationSample", ContainElement(HaveField("Message", ContainSubstring("there is no room to record the value that the developer requested")))))
		f.MustKubectl(ctx, "", "label", "configmap", "c", "-n", namespace, "example.com/x=y")
		f.MustKubectl(ctx, "", "annotate", "configmap", "c", "-n", namespace, "example.com/small=y")
		Expect(stored(ctx, framework.ConfigMap, namespace, "c")).To(HaveKeyWithValue(notes, large[notes]))
		By("following the policy as soon as there is room")
		f.MustKubectl(ctx, "", "annotate", "configmap", "c", "-n", namespace, other+"-")
		Eventually(stored).WithContext(ctx).WithArguments(framework.ConfigMap, namespace, "c").Should(HaveKeyWithValue(notes, "none"))
		By("refusing an update that takes the room again")
		obj, err := f.Get(ctx, framework.ConfigMap, namespace, "c")
		Expect(err).NotTo(HaveOccurred())
		annotations := obj.GetAnnotations()
		annotations[other] = large[other]
		obj.SetAnnotations(annotations)
		Expect(f.Client.Update(ctx, obj)).To(MatchError(ContainSubstring(`PlacementPolicy "` + p + `": annotation ` + notes)))
	})
})
