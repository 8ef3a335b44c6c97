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
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/test/framework"
)

// notes returns what Events in a namespace say about an object.
func notes(ctx context.Context, namespace, about, reason string) ([]string, error) {
	list := &eventsv1.EventList{}
	err := f.Client.List(ctx, list, client.InNamespace(namespace))
	var out []string
	for _, e := range list.Items {
		if e.Regarding.Name == about && e.Reason == reason {
			out = append(out, e.Note)
		}
	}
	return out, err
}

var _ = Describe("A value with control characters", func() {
	const (
		value   = "x\n\x1b[0m\n\x1b[1mPolicy fine\x1b[0m \u202e"
		printed = `x\n\u001b[0m\n\u001b[1mPolicy fine\u001b[0m \u202e`
	)

	It("is escaped in denials, in Events, and in warnings", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("deny"), framework.Rego(
			`errors contains sprintf("team %s", [input.metadata.annotations.denied])`, `warnings contains sprintf("team %s", [input.metadata.annotations.warned])`), "", "configmaps", namespace))
		denied := framework.NewObject(framework.ConfigMap, namespace, "denied", map[string]string{"denied": value})
		err := f.Client.Create(ctx, denied)
		Expect(err).To(MatchError(ContainSubstring("team " + printed)))
		Expect(err.Error()).NotTo(Or(ContainSubstring("\n"), ContainSubstring("\x1b")))
		Eventually(notes).WithContext(ctx).WithArguments(namespace, "denied", events.Denied.Reason).Should(ConsistOf(HaveSuffix("team " + printed)))

		// The API server drops warnings with control characters.
		text, err := framework.NewObject(framework.ConfigMap, namespace, "warned", map[string]string{"warned": value}).MarshalJSON()
		Expect(err).NotTo(HaveOccurred())
		Expect(f.MustKubectl(ctx, string(text), "create", "-f", "-")).To(ContainSubstring("Warning: team " + printed + "\n"))
	})
})

var _ = Describe("An Event in the namespace default", func() {
	It("names no namespace, object, or amount of a user", func(ctx SpecContext) {
		label := framework.NewName("tenant")
		namespace := f.NewNamespace(ctx, map[string]string{"tenant": label})
		named := Or(ContainSubstring(namespace), ContainSubstring("secret-project"), ContainSubstring("used:"))

		By("denying a request by a ClusterScopedQuota")
		q := &placementv1.ClusterScopedQuota{ObjectMeta: metav1.ObjectMeta{Name: label}}
		q.Spec.Hard = framework.Hard("configmaps", "1")
		q.Spec.NamespaceSelector = &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"tenant": placementv1.LabelValue(label)}}
		f.CreateReadyQuota(ctx, q)
		create := func(name string) error {
			return f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, name, map[string]string{"values": "1,2"}))
		}
		Expect(create("secret-project")).To(Succeed())
		Expect(create("secret-project-2")).To(framework.BeForbidden("exceeded quota: " + label))
		Eventually(notes).WithContext(ctx).WithArguments("default", label, events.QuotaDenied.Reason).Should(And(HaveLen(1), Not(ContainElement(named))))

		By("failing to decide an object")
		p := framework.NewPolicy(framework.NewName("undecided"), framework.Rego(`labels.value := value if some value in split(input.metadata.annotations["values"], ",")`), "", "configmaps", namespace)
		f.CreatePolicy(ctx, p)
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionReady).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonObjectsUndecided, namespace+"/secret-project"), "the condition names it")
		Eventually(notes).WithContext(ctx).WithArguments("default", p.Name, events.PolicyUndecided.Reason).Should(And(ConsistOf(HavePrefix("1 objects can't be decided")), Not(ContainElement(named))))
	})

	It("names none when remediation is paused", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		const objects = 12
		for i := range objects {
			Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, fmt.Sprintf("secret-%02d", i), nil))).To(Succeed())
		}
		p := framework.NewPolicy(framework.NewName("pause"), framework.Rego(`labels.tier := "gold"`), "", "configmaps", namespace)
		p.Spec.Remediation = placementv1.Remediation{Mode: placementv1.RemediationAutomatic, BlastRadius: &placementv1.BlastRadius{Percent: 10}}
		f.CreateReadyPolicy(ctx, p)
		labeled := func(ctx context.Context) ([]unstructured.Unstructured, error) {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(framework.ConfigMap)
			err := f.Client.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{"tier": "gold"})
			return list.Items, err
		}
		Eventually(labeled).WithContext(ctx).Should(HaveLen(objects))
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego = framework.Rego(`labels.tier := "gold"`, `errors contains "frozen" if startswith(input.metadata.name, "secret")`)
		})
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionPaused).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNamespacesPaused, "such as configmaps "+namespace+"/secret-00"))
		Eventually(notes).WithContext(ctx).WithArguments("default", p.Name, events.RemediationPaused.Reason).
			Should(And(HaveLen(1), HaveEach(And(ContainSubstring("12 denied"), Not(ContainSubstring("secret-"))))))
		Expect(strings.Contains(namespace, "secret")).To(BeFalse())
	})
})
