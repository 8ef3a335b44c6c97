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
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("Two policies on one object", func() {
	DescribeTable("give the same result in whatever order they were created",
		func(ctx SpecContext, first, second int, priorities [2]int32, winner int) {
			namespace := f.NewNamespace(ctx, nil)
			// Of two new names the earlier sorts first.
			names := [2]string{framework.NewName("pair"), framework.NewName("pair")}
			for _, i := range []int{first, second} {
				p := framework.NewPolicy(names[i], framework.Rego(
					fmt.Sprintf(`annotations["example.com/both"] := "%d"`, i),
					fmt.Sprintf(`annotations["example.com/only-%d"] := "x"`, i),
					fmt.Sprintf(`labels["example.com/both"] := "%d"`, i),
				), "", "configmaps", namespace)
				p.Spec.Priority = priorities[i]
				f.CreateReadyPolicy(ctx, p)
			}
			Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "c", nil))).To(Succeed())
			got, err := f.Get(ctx, framework.ConfigMap, namespace, "c")
			Expect(err).NotTo(HaveOccurred())
			Expect(framework.AnnotationsOf(got)).To(Equal(map[string]string{
				"example.com/both": fmt.Sprint(winner), "example.com/only-0": "x", "example.com/only-1": "x",
			}))
			Expect(got.GetLabels()).To(Equal(map[string]string{"example.com/both": fmt.Sprint(winner)}))
			for i, name := range names {
				Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionEnforced).
					Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonConflict, names[1-i]))
				Expect(f.Condition(ctx, name, placementv1.ConditionReady)).To(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonInForce))
			}
			// Patching settles: the loser does not fight.
			Consistently(f.Get).WithContext(ctx).WithArguments(framework.ConfigMap, namespace, "c").
				WithTimeout(framework.Quiet / 2).Should(HaveField("GetResourceVersion()", got.GetResourceVersion()))

			// Without the winner its value stays until the other is asked; then there is no conflict left.
			f.DeletePolicy(ctx, names[winner])
			Eventually(f.Condition).WithContext(ctx).WithArguments(names[1-winner], placementv1.ConditionEnforced).
				Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonEnforced))
			Eventually(f.Get).WithContext(ctx).WithArguments(framework.ConfigMap, namespace, "c").
				Should(HaveField("GetAnnotations()", HaveKeyWithValue("example.com/both", fmt.Sprint(1-winner))))
		},
		Entry("by name, in that order", 0, 1, [2]int32{5, 5}, 0),
		Entry("by name, against it", 1, 0, [2]int32{5, 5}, 0),
		Entry("by priority, the winner first", 1, 0, [2]int32{-1, 3}, 1),
		Entry("by priority, the winner last", 0, 1, [2]int32{-1, 3}, 1),
	)

	It("both deny: both messages reach the client", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		for _, message := range []string{"first objection", "second objection"} {
			f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("deny"), framework.Rego(fmt.Sprintf("errors contains %q", message)), "", "configmaps", namespace))
		}
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "c", nil))).
			To(MatchError(And(ContainSubstring("first objection"), ContainSubstring("second objection"))))
	})

	It("agree: there is no conflict", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		names := []string{framework.NewName("agree"), framework.NewName("agree")}
		for _, name := range names {
			f.CreateReadyPolicy(ctx, framework.NewPolicy(name, zone, "", "configmaps", namespace))
		}
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "c", nil))).To(Succeed())
		for _, name := range names {
			Eventually(f.Policy).WithContext(ctx).WithArguments(name).Should(HaveField("Status.Matched", HaveValue(BeEquivalentTo(1))))
			Expect(f.Condition(ctx, name, placementv1.ConditionEnforced)).To(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonEnforced))
		}
	})
})
