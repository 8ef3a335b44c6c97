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

package policyreports_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policyreport"
	"github.com/berth-dev/berth/test/framework"
)

// compliant are the annotations of a ConfigMap that complies with the policy of the specs.
var compliant = map[string]string{"example.com/tier": "gold"}

// The first spec installs the CRDs.
var _ = Describe("Policy reports", Ordered, func() {
	It("begin when their CRDs are installed, and list the violations of a namespace", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		create(ctx, namespace, "right", compliant)
		web := create(ctx, namespace, "web", nil)
		create(ctx, namespace, "denied", map[string]string{"example.com/deny": "yes"})
		create(ctx, namespace, "broken", map[string]string{"example.com/break": "yes"})
		policy := onlyReport(ctx, "", "configmaps", namespace)
		want := []string{policy + ": error Undecided: broken", policy + ": fail Denied: denied", policy + ": fail Differs: web"}
		install(ctx, report, clusterReport)
		Eventually(listed).WithContext(ctx).WithArguments(report, namespace).Should(Equal(want))
		Expect(summaryOf(ctx, report, namespace)).To(Equal(map[string]int64{"fail": 2, "error": 1}))
		first, err := stored(ctx, report, namespace)
		Expect(err).NotTo(HaveOccurred())
		Expect(first.Object).To(HaveKeyWithValue("source", "berth"))
		Expect(first.GetLabels()).To(HaveKeyWithValue("app.kubernetes.io/managed-by", "berth"))
		Expect(first.GetAnnotations()).NotTo(HaveKey(policyreport.OmittedAnnotation))
		Expect(resultsOf(first)[1]).To(HaveKeyWithValue("message", "denied is not allowed"))
		Expect(resultsOf(first)[2]).To(And(
			HaveKeyWithValue("message", "annotation example.com/tier is absent, should be gold"),
			HaveKeyWithValue("resources", ConsistOf(Equal(map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace, "name": "web", "uid": string(web.GetUID()),
			}))),
		))

		By("writing those of the other API as soon as it is served")
		install(ctx, policyReport, clusterPolicyReport)
		Eventually(listed).WithContext(ctx).WithArguments(policyReport, namespace).Should(Equal(want))
		Expect(summaryOf(ctx, policyReport, namespace)).To(Equal(map[string]int64{"fail": 2, "error": 1}))
		other, err := stored(ctx, policyReport, namespace)
		Expect(err).NotTo(HaveOccurred())
		Expect(resultsOf(other)).To(HaveEach(HaveKeyWithValue("source", "berth")))
	})

	It("are updated in place, and deleted with the last violation", func(ctx SpecContext) {
		namespace, quiet := f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		create(ctx, namespace, "web", nil)
		create(ctx, quiet, "web", nil)
		policy := onlyReport(ctx, "", "configmaps", namespace, quiet)
		Eventually(listed).WithContext(ctx).WithArguments(report, namespace).Should(Equal([]string{policy + ": fail Differs: web"}))
		Eventually(exists).WithContext(ctx).WithArguments(report, quiet).Should(BeTrue())
		before, err := stored(ctx, report, namespace)
		Expect(err).NotTo(HaveOccurred())
		untouched, err := stored(ctx, report, quiet)
		Expect(err).NotTo(HaveOccurred())

		create(ctx, namespace, "api", nil)
		create(ctx, namespace, "fine", compliant)
		Eventually(listed).WithContext(ctx).WithArguments(report, namespace).
			Should(Equal([]string{policy + ": fail Differs: api", policy + ": fail Differs: web"}))
		after, err := stored(ctx, report, namespace)
		Expect(err).NotTo(HaveOccurred())
		Expect(after.GetUID()).To(Equal(before.GetUID()))

		By("joining the violations of all policies")
		second := onlyReport(ctx, "", "configmaps", namespace)
		Eventually(listed).WithContext(ctx).WithArguments(report, namespace).Should(ConsistOf(
			policy+": fail Differs: api", policy+": fail Differs: web", second+": fail Differs: api", second+": fail Differs: web",
		))
		f.DeletePolicy(ctx, second)
		Eventually(listed).WithContext(ctx).WithArguments(report, namespace).Should(HaveLen(2))

		annotate(ctx, namespace, "api", compliant)
		Expect(f.Client.Delete(ctx, framework.NewObject(framework.ConfigMap, namespace, "web", nil))).To(Succeed())
		Eventually(exists).WithContext(ctx).WithArguments(report, namespace).Should(BeFalse())
		Eventually(exists).WithContext(ctx).WithArguments(policyReport, namespace).Should(BeFalse())

		By("not writing what did not change")
		same, err := stored(ctx, report, quiet)
		Expect(err).NotTo(HaveOccurred())
		Expect(identityOf(same)).To(Equal(identityOf(untouched)))
		f.DeletePolicy(ctx, policy)
		Eventually(exists).WithContext(ctx).WithArguments(report, quiet).Should(BeFalse())
	})

	It("are deleted with the last violation of other objects, if they violate a policy themselves", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		create(ctx, namespace, "web", nil)
		p := newReporter("", "configmaps", namespace)
		p.Spec.Match.ResourceRules = append(p.Spec.Match.ResourceRules, placementv1.ResourceRule{
			APIGroups: []string{report.Group}, APIVersions: []string{report.Version}, Resources: []string{"reports"},
		})
		f.CreatePolicy(ctx, p)
		Eventually(f.Policy).WithContext(ctx).WithArguments(p.Name).Should(HaveField("Status.Violations", HaveValue(BeEquivalentTo(2))))
		Expect(listed(ctx, report, namespace)).To(Equal([]string{p.Name + ": fail Differs: web"}))
		annotate(ctx, namespace, "web", compliant)
		Eventually(exists).WithContext(ctx).WithArguments(report, namespace).Should(BeFalse())
	})

	It("count all violations and list a bounded number", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		for i := range policyreport.MaxResults + 3 {
			create(ctx, namespace, fmt.Sprintf("web-%d", i), nil)
		}
		onlyReport(ctx, "", "configmaps", namespace)
		for _, kind := range []schema.GroupVersionKind{report, policyReport} {
			Eventually(summaryOf).WithContext(ctx).WithArguments(kind, namespace).Should(Equal(map[string]int64{"fail": policyreport.MaxResults + 3}))
			o, err := stored(ctx, kind, namespace)
			Expect(err).NotTo(HaveOccurred())
			Expect(resultsOf(o)).To(HaveLen(policyreport.MaxResults))
			Expect(o.GetAnnotations()).To(HaveKeyWithValue(policyreport.OmittedAnnotation, "3"))
		}
	})

	It("have one for the objects without a namespace", func(ctx SpecContext) {
		o := framework.NewObject(wagon, "", framework.NewName("wagon"), nil)
		Expect(f.Client.Create(ctx, o)).To(Succeed())
		policy := onlyReport(ctx, wagon.Group, "wagons")
		for _, kind := range []schema.GroupVersionKind{clusterReport, clusterPolicyReport} {
			Eventually(listed).WithContext(ctx).WithArguments(kind, "").Should(Equal([]string{policy + ": fail Differs: " + o.GetName()}))
		}
		f.DeletePolicy(ctx, policy)
		for _, kind := range []schema.GroupVersionKind{clusterReport, clusterPolicyReport} {
			Eventually(exists).WithContext(ctx).WithArguments(kind, "").Should(BeFalse())
		}
	})

	It("of an earlier leader are kept while they are true, and removed otherwise", func(ctx SpecContext) {
		kept, stale := f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		create(ctx, kept, "web", nil)
		create(ctx, stale, "web", nil)
		onlyReport(ctx, "", "configmaps", kept)
		gone := onlyReport(ctx, "", "configmaps", stale)
		for _, namespace := range []string{kept, stale} {
			Eventually(exists).WithContext(ctx).WithArguments(report, namespace).Should(BeTrue())
		}
		before, err := stored(ctx, report, kept)
		Expect(err).NotTo(HaveOccurred())
		operator.Stop()
		f.DeletePolicy(ctx, gone)
		startOperator(ctx)
		Eventually(exists).WithContext(ctx).WithArguments(report, stale).Should(BeFalse())
		Eventually(exists).WithContext(ctx).WithArguments(policyReport, stale).Should(BeFalse())
		Consistently(func(g Gomega) {
			after, err := stored(ctx, report, kept)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(identityOf(after)).To(Equal(identityOf(before)))
		}).Should(Succeed())
	})

	It("are deleted by the commands of docs/operating.md", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		create(ctx, namespace, "web", nil)
		Expect(f.Client.Create(ctx, framework.NewObject(wagon, "", framework.NewName("wagon"), nil))).To(Succeed())
		onlyReport(ctx, "", "configmaps", namespace)
		onlyReport(ctx, wagon.Group, "wagons")
		all := map[schema.GroupVersionKind]string{report: namespace, policyReport: namespace, clusterReport: "", clusterPolicyReport: ""}
		for kind, in := range all {
			Eventually(exists).WithContext(ctx).WithArguments(kind, in).Should(BeTrue())
		}
		operator.Stop()
		text, err := os.ReadFile("../../../docs/operating.md")
		Expect(err).NotTo(HaveOccurred())
		commands := regexp.MustCompile(`(?m)^kubectl delete .*reports\..*$`).FindAllString(string(text), -1)
		Expect(commands).To(HaveLen(len(all)))
		for _, command := range commands {
			f.MustKubectl(ctx, "", strings.Fields(command)[1:]...)
		}
		for kind, in := range all {
			Expect(exists(ctx, kind, in)).To(BeFalse())
		}
	})
})
