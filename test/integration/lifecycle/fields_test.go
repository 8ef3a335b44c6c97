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

package lifecycle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// reading is a policy that shows a field of the Secret "facts", below its metadata or in the language's own words.
func reading(namespace, field string) string {
	return framework.Rego(fmt.Sprintf(`annotations["example.com/zone"] := json.marshal(data.kubernetes.secrets[%q].facts%s)`, namespace, field))
}

// readingAccount is a policy that shows the name of the ServiceAccount "default".
func readingAccount(namespace string) string {
	return framework.Rego(fmt.Sprintf(`annotations["example.com/zone"] := data.kubernetes.serviceaccounts[%q].default.metadata.name`, namespace))
}

// show asks which zone an object of a type would be given.
func show(ctx context.Context, obj client.Object) (string, error) {
	err := f.Client.Create(ctx, obj, client.DryRunAll)
	return obj.GetAnnotations()["example.com/zone"], err
}

var _ = Describe("What is replicated of objects", Label("versions"), func() {
	facts := func(ctx context.Context, namespace string) *corev1.Secret {
		GinkgoHelper()
		out := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "facts", Labels: map[string]string{"zone": "a"}, Annotations: map[string]string{
				"pool": "gold", corev1.LastAppliedConfigAnnotation: `{"data":"hunter2"}`,
			}},
			StringData: map[string]string{"password": "hunter2"},
		}
		Expect(f.Client.Create(ctx, out)).To(Succeed())
		return out
	}
	fields := func(ctx context.Context, policy string) []string {
		var types []struct{ Fields []string }
		Expect(json.Unmarshal([]byte(f.MustKubectl(ctx, "", "berth", "deps", policy, "-o", "json")), &types)).To(Succeed())
		Expect(types).To(HaveLen(1))
		return types[0].Fields
	}

	It("grows with what policies read, and none of them fails meanwhile", func(ctx SpecContext) {
		start(ctx)
		namespace, first, second, whole := f.NewNamespace(ctx, nil), framework.NewName("first"), framework.NewName("second"), framework.NewName("whole")
		facts(ctx, namespace)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(first, reading(namespace, ".metadata.labels.zone"), "", "configmaps", namespace))
		Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal(`"a"`))

		loading, stop := context.WithCancel(ctx)
		var load sync.WaitGroup
		var asked atomic.Int64
		for range 2 {
			load.Go(func() {
				defer GinkgoRecover()
				for loading.Err() == nil {
					got, err := f.TryZone(ctx, namespace)
					Expect(err).NotTo(HaveOccurred())
					Expect(got).To(Equal(`"a"`))
					asked.Add(1)
				}
			})
		}
		account := func(ctx context.Context) (string, error) {
			return show(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "try"}})
		}
		f.CreateReadyPolicy(ctx, framework.NewPolicy(second, reading(namespace, ".metadata.annotations.pool"), "", "serviceaccounts", namespace))
		Eventually(account).WithContext(ctx).Should(Equal(`"gold"`))
		service := func(ctx context.Context) (string, error) {
			return show(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "try"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
		}
		f.CreateReadyPolicy(ctx, framework.NewPolicy(whole, reading(namespace, ""), "", "services", namespace))
		Eventually(service).WithContext(ctx).Should(ContainSubstring(`"gold"`))
		Expect(account(ctx)).To(Equal(`"gold"`))
		before := asked.Load()
		Eventually(asked.Load).WithContext(ctx).Should(BeNumerically(">", before))
		stop()
		load.Wait()

		Expect(fields(ctx, first)).To(Equal([]string{"metadata.labels.zone"}))
		Expect(fields(ctx, second)).To(Equal([]string{"metadata.annotations.pool"}))
		Expect(fields(ctx, whole)).To(Equal([]string{"**"}))
		By("even of whole Secrets, no payload and no copy of a manifest")
		text, err := service(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(And(ContainSubstring(`"type":"Opaque"`), Not(ContainSubstring("hunter2")), Not(ContainSubstring("aHVudGVyMg")), Not(ContainSubstring("managedFields"))))
	})

	It("grows with what a policy reads, and the version before decides meanwhile", func(ctx SpecContext) {
		start(ctx)
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("growing")
		facts(ctx, namespace)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(name, reading(namespace, ".metadata.labels.zone"), "", "configmaps", namespace))
		Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal(`"a"`))

		loading, stop := context.WithCancel(ctx)
		var load sync.WaitGroup
		for range 4 {
			load.Go(func() {
				defer GinkgoRecover()
				for loading.Err() == nil {
					_, err := f.TryZone(ctx, namespace)
					Expect(err).NotTo(HaveOccurred())
				}
			})
		}
		for _, grown := range []struct{ field, want string }{
			{".metadata.annotations.pool", `"gold"`}, {".type", `"Opaque"`}, {".kind", `"Secret"`}, {".metadata.name", `"facts"`},
		} {
			f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = reading(namespace, grown.field) })
			Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal(grown.want))
		}
		By("another type as well")
		Expect(f.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}})).To(Succeed())
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = readingAccount(namespace) })
		Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal("default"))
		stop()
		load.Wait()
	})

	// decide begins a decision by three policies, one after the other. The first shows that the decision has begun. The second runs into
	// its deadline, so that there is time to change the last one. It sends the error of the request when the decision has ended.
	decide := func(ctx SpecContext, m *framework.Manager, namespace string) <-chan error {
		GinkgoHelper()
		first, endless := framework.NewName("first"), framework.NewName("endless")
		for i, p := range []*placementv1.PlacementPolicy{
			framework.NewPolicy(first, framework.Rego(`annotations["example.com/first"] := input.metadata.name`), "", "configmaps", namespace),
			framework.NewPolicy(endless, framework.Rego(`annotations["n"] := count([1 |
	some a in numbers.range(1, 5000)
	some b in numbers.range(1, 5000)
	some c in numbers.range(1, 5000)
	(a * b) + c < 0
])`), "", "configmaps", namespace),
		} {
			p.Spec.Priority = int32(9 - i)
			p.Spec.FailurePolicy, p.Spec.Remediation.Mode = placementv1.FailurePolicyIgnore, placementv1.RemediationOff
			f.CreateReadyPolicy(ctx, p)
		}
		decided := make(chan error, 1)
		go func() {
			_, err := f.TryZone(ctx, namespace)
			decided <- err
		}()
		Eventually(m.Series).WithArguments("berth_decisions_total", fmt.Sprintf("policy=%q", first)).WithContext(ctx).ShouldNot(BeEmpty())
		return decided
	}

	// decideDuring changes a policy while a decision is under way, and expects that the decision succeeds. It returns false if the decision
	// ended before the change was in force, which then shows nothing.
	decideDuring := func(ctx SpecContext, m *framework.Manager, change func(ctx SpecContext, policy, namespace string), want string) bool {
		GinkgoHelper()
		namespace, other, name := f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil), framework.NewName("read")
		facts(ctx, namespace)
		Expect(f.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}})).To(Succeed())
		f.CreateReadyPolicy(ctx, framework.NewPolicy(name, reading(namespace, ".metadata.labels.zone"), "", "configmaps", namespace, other))
		for _, namespace := range []string{namespace, other} {
			Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal(`"a"`))
		}
		decided := decide(ctx, m, namespace)
		change(ctx, name, namespace)
		Eventually(f.TryZone).WithContext(ctx).WithArguments(other).Should(Equal(want))
		inTime := len(decided) == 0
		var err error
		Eventually(decided).WithContext(ctx).Should(Receive(&err))
		Expect(err).NotTo(HaveOccurred())
		Eventually(m.Series).WithArguments("berth_replicated_objects", `resource="secrets"`).WithContext(ctx).Should(BeEmpty())
		return inTime
	}

	DescribeTable("remains until the last decision ends that began with it", func(ctx SpecContext, change func(ctx SpecContext, policy, namespace string), want string) {
		m := start(ctx)
		const tries = 10
		for range tries {
			if decideDuring(ctx, m, change, want) {
				return
			}
		}
		Fail("each decision ended before the change was in force")
	},
		Entry("of a policy that reads another type meanwhile", func(ctx SpecContext, policy, namespace string) {
			f.ChangePolicy(ctx, policy, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = readingAccount(namespace) })
		}, "default"),
		Entry("of a policy that is deleted meanwhile", func(ctx SpecContext, policy, _ string) { f.DeletePolicy(ctx, policy) }, ""),
	)

	It("decides nothing anew when a field changes that nobody reads", func(ctx SpecContext) {
		m := start(ctx)
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("still")
		secret := facts(ctx, namespace)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(name, reading(namespace, ".metadata.labels.zone"), "", "configmaps", namespace))
		Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal(`"a"`))
		value := func(metric, label string) float64 {
			series, err := m.Series(metric, label)
			Expect(err).NotTo(HaveOccurred())
			Expect(series).To(HaveLen(1))
			for _, v := range series {
				return v
			}
			return 0
		}
		confirmed := func() float64 {
			return value("berth_replicated_confirmed_timestamp_seconds", `resource="secrets"`)
		}
		misses := value("berth_decision_memo_total", `result="miss"`)
		for range 3 {
			before := confirmed()
			secret.Annotations["heartbeat"] += "x"
			Expect(f.Client.Update(ctx, secret)).To(Succeed())
			Eventually(confirmed).WithContext(ctx).Should(BeNumerically(">", before))
			Expect(f.TryZone(ctx, namespace)).To(Equal(`"a"`))
		}
		Expect(value("berth_decision_memo_total", `result="miss"`)).To(Equal(misses))
		Expect(value("berth_replicated_objects", `resource="secrets"`)).To(BeNumerically(">=", 1))
		Expect(value("berth_replicated_bytes", `resource="secrets"`)).To(BeNumerically(">", 0))
		secret.Labels["zone"] = "b"
		Expect(f.Client.Update(ctx, secret)).To(Succeed())
		Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal(`"b"`))
		Expect(value("berth_decision_memo_total", `result="miss"`)).To(BeNumerically(">", misses))

		f.DeletePolicy(ctx, name)
		Eventually(m.Series).WithArguments("berth_replicated_objects", `resource="secrets"`).WithContext(ctx).Should(BeEmpty())
		Expect(m.Series("berth_replicated_bytes", `resource="secrets"`)).To(BeEmpty())
		Expect(m.Series("berth_replicated_confirmed_timestamp_seconds", `resource="secrets"`)).To(BeEmpty())
	})
})
