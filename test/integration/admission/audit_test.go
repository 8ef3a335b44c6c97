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
	"bytes"
	"encoding/json"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// auditLog is the API server's; each event is in it before its request is answered.
var auditLog string

// audited returns what Berth said to the audit log of the creation of an object, by webhook and key.
func audited(resource, namespace, name string) map[string]map[string]string {
	GinkgoHelper()
	text, err := os.ReadFile(auditLog)
	Expect(err).NotTo(HaveOccurred())
	out := map[string]map[string]string{}
	for line := range bytes.Lines(text) {
		event := &auditv1.Event{}
		Expect(json.Unmarshal(line, event)).To(Succeed())
		o := event.ObjectRef
		if o == nil || o.Resource != resource || o.Namespace != namespace || o.Name != name {
			continue
		}
		for key, value := range event.Annotations {
			webhook, key, _ := strings.Cut(key, "/")
			// The API server's own annotations are of other domains.
			if !strings.HasSuffix(webhook, "."+placementv1.GroupVersion.Group) {
				continue
			}
			if out[webhook] == nil {
				out[webhook] = map[string]string{}
			}
			Expect(out[webhook]).NotTo(HaveKey(key), "one event was expected")
			out[webhook][key] = value
		}
	}
	return out
}

// auditedOnce is audited where one webhook alone was asked.
func auditedOnce(resource, namespace, name string) map[string]string {
	GinkgoHelper()
	all := audited(resource, namespace, name)
	Expect(all).To(HaveLen(1))
	for _, annotations := range all {
		return annotations
	}
	return nil
}

var _ = Describe("The API server's audit log", func() {
	var namespace string

	BeforeEach(func(ctx SpecContext) { namespace = f.NewNamespace(ctx, nil) })

	create := func(ctx SpecContext, name string, annotations map[string]string) error {
		GinkgoHelper()
		return f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, name, annotations))
	}
	forbidden := map[string]string{"example.com/forbidden": "x"}

	It("says which policies decided, and what", func(ctx SpecContext) {
		p := framework.NewPolicy(framework.NewName("audited.by"), opinionated, "", "configmaps", namespace)
		f.CreateReadyPolicy(ctx, p)
		Expect(create(ctx, "one", nil)).To(Succeed())
		first := auditedOnce("configmaps", namespace, "one")
		Expect(first).To(And(
			HaveLen(3), HaveKeyWithValue("outcome", "allowed"), HaveKeyWithValue("policies", p.Name+"@1"),
			HaveKeyWithValue("decision", MatchRegexp("^sha256:[0-9a-f]{64}$"))))

		By("naming an equal decision alike, after a restart and under another version of the policy")
		stopOperator()
		startOperator(ctx)
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Rego += "# decides as before\n" })
		f.AwaitReady(ctx, p.Name)
		Expect(create(ctx, "two", nil)).To(Succeed())
		second := auditedOnce("configmaps", namespace, "two")
		Expect(second).To(And(HaveKeyWithValue("policies", p.Name+"@2"), HaveKeyWithValue("decision", first["decision"])))

		By("naming another decision otherwise")
		Expect(create(ctx, "three", forbidden)).To(MatchError(ContainSubstring("this is forbidden")))
		third := auditedOnce("configmaps", namespace, "three")
		Expect(third).To(And(HaveKeyWithValue("outcome", "denied"), HaveKeyWithValue("policies", p.Name+"@2"), HaveKey("decision")))
		Expect(third["decision"]).NotTo(Equal(first["decision"]))
	})

	It("says what policies in mode DryRun would do, also beside one that denies", func(ctx SpecContext) {
		// Names that differ in nothing but what a key of an annotation might not hold.
		base := framework.NewName("dry")
		for _, name := range []string{base + ".a", base + "-a"} {
			p := framework.NewPolicy(name, opinionated, "", "configmaps", namespace)
			p.Spec.Mode = placementv1.ModeDryRun
			f.CreatePolicy(ctx, p)
			Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionReady).Should(HaveField("Status", BeEquivalentTo("True")))
		}
		denying := framework.NewPolicy(framework.NewName("z"), opinionated, "", "configmaps", namespace)
		f.CreateReadyPolicy(ctx, denying)
		Expect(create(ctx, "one", forbidden)).NotTo(Succeed())
		Expect(auditedOnce("configmaps", namespace, "one")).To(And(
			HaveKeyWithValue("outcome", "denied"),
			HaveKeyWithValue("policies", base+"-a@1,"+base+".a@1,"+denying.Name+"@1"),
			HaveKeyWithValue("would", And(
				ContainSubstring(`PlacementPolicy "%s-a" (mode DryRun) would deny: this is forbidden`, base),
				ContainSubstring(`PlacementPolicy "%s.a" (mode DryRun) would deny: this is forbidden`, base),
			)),
		))
	})

	It("says that a policy failed", func(ctx SpecContext) {
		p := framework.NewPolicy(framework.NewName("fails"), framework.Rego(`annotations["example.com/number"] := "a"`, `labels["example.com/number"] := json.unmarshal("1") if input.metadata.name`),
			"", "configmaps", namespace)
		f.CreateReadyPolicy(ctx, p)
		Expect(create(ctx, "one", nil)).NotTo(Succeed())
		Expect(auditedOnce("configmaps", namespace, "one")).To(And(
			HaveKeyWithValue("outcome", "error"), HaveKeyWithValue("policies", p.Name+"@1"), HaveKey("decision")))
	})

	It("says which quotas were charged, and which denied", func(ctx SpecContext) {
		f.CreateReadyQuota(ctx, framework.NewScopedQuota(namespace, "few", placementv1.QuotaSpec{Hard: framework.Hard("services", "1")}))
		service := func(name string) *corev1.Service {
			out := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			out.Spec.Ports = []corev1.ServicePort{{Port: 80}}
			return out
		}
		Expect(f.Client.Create(ctx, service("one"))).To(Succeed())
		Expect(auditedOnce("services", namespace, "one")).To(Equal(map[string]string{"outcome": "allowed", "charged": "ScopedQuota/" + namespace + "/few"}))
		Expect(f.Client.Create(ctx, service("two"))).NotTo(Succeed())
		Expect(auditedOnce("services", namespace, "two")).To(Equal(map[string]string{"outcome": "denied", "denied": "ScopedQuota/" + namespace + "/few"}))
	})
})
