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
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("An object whose clusters no policy decides", func() {
	const decided = "example.com/decided"
	var (
		fl        fleet
		namespace string
	)

	BeforeEach(func(ctx SpecContext) { fl, namespace = newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil) })

	// policy decides the objects with a label alone.
	policy := func(ctx context.Context, delivery *placementv1.Delivery) string {
		GinkgoHelper()
		p := fl.policy(toKarmada, namespace)
		p.Spec.Rego = fmt.Sprintf(`package deliver

clusters := {name | some name, cluster in data.clusters; cluster.labels["example.com/fleet"] == %q} if input.metadata.labels[%q] == "true"
`, fl.label, decided)
		p.Spec.Delivery = delivery
		f.CreateReadyPolicy(ctx, p)
		return p.Name
	}
	deployed := func(ctx context.Context, name, label, clusters string) {
		GinkgoHelper()
		o := framework.NewObject(framework.Deployment, namespace, name, map[string]string{placementv1.ClustersAnnotation: clusters})
		o.SetLabels(map[string]string{decided: label})
		Expect(f.Client.Create(ctx, o)).To(Succeed())
	}
	label := func(ctx context.Context, name, value string) {
		GinkgoHelper()
		f.MustKubectl(ctx, "", "label", "deployment", name, "-n", namespace, "--overwrite", decided+"="+value)
	}
	text := func(names ...string) string { return fmt.Sprintf("[%q]", fl.clusters(names...)[0]) }
	undecided := func(ctx context.Context, p string, objects int) {
		GinkgoHelper()
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonDelivered,
			fmt.Sprintf("no policy decides the clusters of %d more, which are not delivered", objects)))
	}

	It("is not delivered to the clusters that its developer names", func(ctx SpecContext) {
		p := policy(ctx, &toKarmada)
		deployed(ctx, "foreign", "false", `["no-such"]`)
		deployed(ctx, "ours", "true", `["no-such",`+text("a")[1:])
		By("delivering a list that a policy decided and that is as the developer requests")
		deployed(ctx, "same", "true", text("a"))
		for _, name := range []string{"ours", "same"} {
			Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, name).Should(Equal(fl.clusters("a")))
		}
		undecided(ctx, p, 1)
		Expect(all(ctx, propagationPolicy, namespace, "foreign")).To(BeEmpty())
		By("delivering it when a policy decides it")
		f.MustKubectl(ctx, "", "annotate", "deployment", "foreign", "-n", namespace, "--overwrite", placementv1.ClustersAnnotation+"="+text("b"))
		label(ctx, "foreign", "true")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "foreign").Should(Equal(fl.clusters("b")))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p).Should(beDelivered(3))
	})

	It("keeps what was delivered while a policy decided it", func(ctx SpecContext) {
		p := policy(ctx, &toKarmada)
		deployed(ctx, "web", "true", text("a"))
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		label(ctx, "web", "false")
		undecided(ctx, p, 1)
		f.MustKubectl(ctx, "", "annotate", "deployment", "web", "-n", namespace, "--overwrite", placementv1.ClustersAnnotation+`=["no-such"]`)
		deployed(ctx, "next", "true", text("b"))
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "next").Should(Equal(fl.clusters("b")))
		Expect(clustersIn(ctx, namespace, "web")).To(Equal(fl.clusters("a")))
		By("also if the annotation is removed")
		f.MustKubectl(ctx, "", "annotate", "deployment", "web", "-n", namespace, placementv1.ClustersAnnotation+"-")
		label(ctx, "next", "false")
		undecided(ctx, p, 2)
		Expect(clustersIn(ctx, namespace, "web")).To(Equal(fl.clusters("a")))
	})

	It("differs from one that was decided before the policy delivered", func(ctx SpecContext) {
		p := policy(ctx, nil)
		deployed(ctx, "same", "true", text("a"))
		deployed(ctx, "foreign", "false", text("a"))
		Expect(f.Get(ctx, framework.Deployment, namespace, "same")).To(HaveField("GetAnnotations()", Not(HaveKey(placementv1.RequestedAnnotation))))
		f.ChangePolicy(ctx, p, func(p *placementv1.PlacementPolicy) { p.Spec.Delivery = &toKarmada })
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "same").Should(Equal(fl.clusters("a")))
		undecided(ctx, p, 1)
		Expect(all(ctx, propagationPolicy, namespace, "foreign")).To(BeEmpty())
	})

	It("is not delivered where it was decided earlier, by its record of that time", func(ctx SpecContext) {
		p := fl.policy(toKarmada, namespace)
		p.Spec.Rego += `

errors contains "too long" if count(input.metadata.annotations.long) > 100000
`
		p.Spec.FailurePolicy = placementv1.FailurePolicyIgnore
		p.Spec.Limits = &placementv1.Limits{InputBytes: 4096}
		f.CreateReadyPolicy(ctx, p)
		deployed(ctx, "updated", "true", text("a"))
		deployed(ctx, "created", "true", text("a"))
		records := map[string]string{}
		for _, name := range []string{"updated", "created"} {
			Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, name).Should(Equal(fl.clusters("a")))
			o, err := f.Get(ctx, framework.Deployment, namespace, name)
			Expect(err).NotTo(HaveOccurred())
			records[name] = o.GetAnnotations()[placementv1.RequestedAnnotation]
			f.MustKubectl(ctx, "", "annotate", "deployment", name, "-n", namespace, placementv1.ClustersAnnotation+"-")
		}
		fl.move(ctx, "a", "us")
		for _, name := range []string{"updated", "created"} {
			Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, name).Should(Equal(fl.clusters("b")))
		}
		By("writing the record of that time while the policy can't decide")
		replay := func(name string) map[string]string {
			return map[string]string{placementv1.ClustersAnnotation: text("a"), placementv1.RequestedAnnotation: records[name], "long": strings.Repeat("x", 8192)}
		}
		updated, err := f.Get(ctx, framework.Deployment, namespace, "updated")
		Expect(err).NotTo(HaveOccurred())
		updated.SetAnnotations(replay("updated"))
		Expect(f.Client.Update(ctx, updated)).To(Succeed())
		f.MustKubectl(ctx, "", "delete", "deployment", "created", "-n", namespace)
		Expect(f.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, "created", replay("created")))).To(Succeed())
		for _, name := range []string{"updated", "created"} {
			Expect(f.Get(ctx, framework.Deployment, namespace, name)).To(HaveField("GetAnnotations()", HaveKeyWithValue(placementv1.ClustersAnnotation, text("a"))))
		}
		deployed(ctx, "next", "true", text("b"))
		undecided(ctx, p.Name, 2)
		Expect(clustersIn(ctx, namespace, "updated")).To(Equal(fl.clusters("b")))
	})
})
