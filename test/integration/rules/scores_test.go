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

package rules_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/test/framework"
)

// expectWarning expects a warning about a policy that is applied.
func expectWarning(ctx context.Context, rules, warning string) {
	GinkgoHelper()
	p := newPolicy(framework.NewName("warned"), rules, "nowhere")
	Eventually(func(ctx context.Context) (string, error) {
		return f.Kubectl(ctx, framework.PolicyManifest(p), "apply", "--dry-run=server", "-f", "-")
	}).WithContext(ctx).Should(ContainSubstring(warning))
}

var _ = Describe("Scores of Open Cluster Management", func() {
	It("place objects, and no longer count when they are not valid any more", func(ctx SpecContext) {
		framework.AddOnPlacementScores.Install(ctx, f)
		DeferCleanup(framework.AddOnPlacementScores.Uninstall, f)
		fleet, first, second := framework.NewName("fleet"), framework.NewName("first"), framework.NewName("second")
		create := func(cluster string, score int64) {
			createCluster(ctx, cluster, "eu", map[string]string{"fleet": fleet})
			f.MustKubectl(ctx, "", "create", "namespace", cluster)
			o := framework.NewObject(framework.AddOnPlacementScores.GroupVersionKind, cluster, "usage", nil)
			o.Object["status"] = map[string]any{"scores": []any{map[string]any{"name": "cpuAvailable", "value": score}}}
			f.CreateWithStatus(ctx, o)
		}
		create(first, 20)
		create(second, 80)
		// report reports another score of a cluster.
		report := func(cluster string, score int64, validUntil time.Time) {
			GinkgoHelper()
			o, err := f.Get(ctx, framework.AddOnPlacementScores.GroupVersionKind, cluster, "usage")
			Expect(err).NotTo(HaveOccurred())
			status := map[string]any{"scores": []any{map[string]any{"name": "cpuAvailable", "value": score}}}
			if !validUntil.IsZero() {
				status["validUntil"] = validUntil.UTC().Format(time.RFC3339)
			}
			Expect(unstructured.SetNestedField(o.Object, status, "status")).To(Succeed())
			Expect(f.Client.Status().Update(ctx, o)).To(Succeed())
		}
		const rules = `
- name: idle
  require: [{label: fleet, operator: In, values: [%s]}]
  prefer: [{score: %s, operator: Most, weight: 100}]
  minGain: 20
  limit: 1
`
		By("warning of a score that no cluster has")
		expectWarning(ctx, fmt.Sprintf(rules, fleet, "usage/memAvailable"),
			`no cluster has the score "usage/memAvailable" now, so that this makes no cluster better than others; there are "usage/cpuAvailable"`)

		namespace := f.NewNamespace(ctx, nil)
		p := newPolicy(framework.NewName("idle"), fmt.Sprintf(rules, fleet, "usage/cpuAvailable"), namespace)
		f.CreateReadyPolicy(ctx, p)
		Expect(f.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, "web", nil))).To(Succeed())
		is := func(cluster string) {
			GinkgoHelper()
			Eventually(chosen).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fmt.Sprintf("[%q]", cluster)))
		}
		is(second)
		Expect(f.MustKubectl(ctx, "", "berth", "explain", "deployment", "web", "-n", namespace)).To(And(
			ContainSubstring(`score usage/cpuAvailable is "80", which scores 100 of 100`), ContainSubstring(`score usage/cpuAvailable is "20", which scores 0 of 100`)))

		By("moving them when another cluster has a better score")
		report(first, 100, time.Time{})
		report(second, 10, time.Time{})
		is(first)

		By("moving them when the better score is not valid any more")
		report(first, 100, time.Now().Add(4*time.Second))
		Consistently(chosen).WithContext(ctx).WithArguments(namespace, "web").WithTimeout(shortly).Should(Equal(fmt.Sprintf("[%q]", first)))
		is(second)
		Expect(f.MustKubectl(ctx, "", "berth", "explain", "deployment", "web", "-n", namespace)).To(
			ContainSubstring("score usage/cpuAvailable is missing, which scores 0 of 100"))
	})
})
