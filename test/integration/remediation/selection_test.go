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

package remediation_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/framework"
)

func labelled(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

var _ = Describe("What a policy matches", Label("versions"), func() {
	It("follows the labels of namespaces", func(ctx SpecContext) {
		group := framework.NewName("group")
		namespace, other := f.NewNamespace(ctx, nil), f.NewNamespace(ctx, map[string]string{"group": group})
		create(ctx, framework.ConfigMap, namespace, "web", map[string]string{tierKey: "lead"})
		create(ctx, framework.ConfigMap, other, "web", nil)
		policy := onConfigMaps(ctx, "namespaces", always(tierKey, "gold"), "", func(p *placementv1.PlacementPolicy) {
			p.Spec.Match.NamespaceSelector = labelled("group", group)
		})
		expectAnnotations(ctx, framework.ConfigMap, other, "web", map[string]string{tierKey: "gold"})
		expectCounts(ctx, policy, counts{Matched: 1, Violations: 0, Remediated: 1})
		Expect(stored(ctx, framework.ConfigMap, namespace, "web")).To(HaveKeyWithValue(tierKey, "lead"))

		namespaceKind := corev1.SchemeGroupVersion.WithKind("Namespace")
		merge(ctx, namespaceKind, "", namespace, map[string]any{"metadata": map[string]any{"labels": map[string]any{"group": group}}})
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{tierKey: "gold"})
		expectCounts(ctx, policy, counts{Matched: 2, Violations: 0, Remediated: 2})

		By("leaving what it no longer matches as it stands")
		merge(ctx, namespaceKind, "", other, map[string]any{"metadata": map[string]any{"labels": map[string]any{"group": nil}}})
		expectCounts(ctx, policy, counts{Matched: 1, Violations: 0, Remediated: 2})
		f.ChangePolicy(ctx, policy, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = always(tierKey, "silver") })
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{tierKey: "silver"})
		Consistently(stored).WithContext(ctx).WithArguments(framework.ConfigMap, other, "web").Should(Equal(map[string]string{tierKey: "gold"}))
	})

	It("follows the labels of objects", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		create(ctx, framework.ConfigMap, namespace, "web", map[string]string{tierKey: "lead"})
		policy := onConfigMaps(ctx, "objects", always(tierKey, "gold"), namespace, func(p *placementv1.PlacementPolicy) {
			p.Spec.Match.ObjectSelector = labelled("placed", "yes")
		})
		Eventually(f.Condition).WithContext(ctx).WithArguments(policy, placementv1.ConditionCompliant).
			Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonCompliant))
		expectCounts(ctx, policy, counts{})
		Expect(stored(ctx, framework.ConfigMap, namespace, "web")).To(HaveKeyWithValue(tierKey, "lead"))

		placed := func(value any) map[string]any {
			return map[string]any{"metadata": map[string]any{"labels": map[string]any{"placed": value}}}
		}
		merge(ctx, framework.ConfigMap, namespace, "web", placed("yes"))
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{tierKey: "gold"})
		expectCounts(ctx, policy, counts{Matched: 1})
		merge(ctx, framework.ConfigMap, namespace, "web", placed(nil))
		expectCounts(ctx, policy, counts{})
		f.ChangePolicy(ctx, policy, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = always(tierKey, "silver") })
		Consistently(stored).WithContext(ctx).WithArguments(framework.ConfigMap, namespace, "web").Should(Equal(map[string]string{tierKey: "gold"}))
		merge(ctx, framework.ConfigMap, namespace, "web", placed("yes"))
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{tierKey: "silver"})
	})

	DescribeTable("follows conditions", func(ctx SpecContext, expression string, existing map[string]string, later string) {
		namespace := f.NewNamespace(ctx, nil)
		for _, name := range []string{"web", "db"} {
			create(ctx, framework.ConfigMap, namespace, name, nil)
		}
		policy := onConfigMaps(ctx, "conditions", always(tierKey, "gold"), namespace, func(p *placementv1.PlacementPolicy) {
			p.Spec.Match.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "c", Expression: expression}}
		})
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", existing)
		expectCounts(ctx, policy, counts{Matched: len(existing), Remediated: len(existing)})
		Consistently(stored).WithContext(ctx).WithArguments(framework.ConfigMap, namespace, "db").Should(BeEmpty())
		// What is created meets the webhook alone.
		Eventually(func(ctx context.Context) (string, error) {
			obj := framework.NewObject(framework.ConfigMap, namespace, "later", nil)
			err := f.Client.Create(ctx, obj, client.DryRunAll)
			return obj.GetAnnotations()[tierKey], err
		}).WithContext(ctx).Should(Equal(later))
	},
		// What exists is judged as if it were updated.
		Entry("on the operation CREATE", `request.operation == 'CREATE'`, nil, "gold"),
		Entry("on the operation UPDATE of some objects", `request.operation == 'UPDATE' && object.metadata.name == 'web'`, map[string]string{tierKey: "gold"}, ""),
		Entry("on fields of the object", `object.metadata.name != 'db'`, map[string]string{tierKey: "gold"}, "gold"),
	)

	It("is counted right when objects come and go quickly", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		policy := onConfigMaps(ctx, "churn", always(tierKey, "gold"), namespace)
		var workers sync.WaitGroup
		for w := range 4 {
			workers.Go(func() {
				defer GinkgoRecover()
				for i := range 40 {
					name := fmt.Sprintf("c%d-%d", w, i%3)
					obj := framework.NewObject(framework.ConfigMap, namespace, name, nil)
					Expect(f.Client.Create(ctx, obj)).To(Succeed())
					Expect(f.Client.Delete(ctx, obj)).To(Succeed())
				}
				Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, fmt.Sprintf("stays%d", w), nil))).To(Succeed())
			})
		}
		workers.Wait()
		// Four objects also matched while others came and went.
		Eventually(func(g Gomega, ctx context.Context) {
			g.Consistently(countsOf).WithContext(ctx).WithArguments(policy).WithTimeout(time.Second).Should(Equal(counts{Matched: 4}))
		}).WithContext(ctx).Should(Succeed())
		expectCompliant(ctx, policy)
	})

	It("reports terminating objects, and leaves them as they are", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		obj := framework.NewObject(framework.ConfigMap, namespace, "web", nil)
		obj.SetFinalizers([]string{"example.com/held"})
		Expect(f.Client.Create(ctx, obj)).To(Succeed())
		create(ctx, framework.ConfigMap, namespace, "stays", nil)
		Expect(f.Client.Delete(ctx, obj)).To(Succeed())
		policy := onConfigMaps(ctx, "deleting", always(tierKey, "gold"), namespace)
		expectAnnotations(ctx, framework.ConfigMap, namespace, "stays", map[string]string{tierKey: "gold"})
		expectCounts(ctx, policy, counts{Matched: 2, Violations: 1, Remediated: 1})
		Consistently(stored).WithContext(ctx).WithArguments(framework.ConfigMap, namespace, "web").Should(BeEmpty())
		By("letting go of them")
		merge(ctx, framework.ConfigMap, namespace, "web", map[string]any{"metadata": map[string]any{"finalizers": nil}})
		Eventually(func(ctx context.Context) bool {
			_, err := f.Get(ctx, framework.ConfigMap, namespace, "web")
			return apierrors.IsNotFound(err)
		}).WithContext(ctx).Should(BeTrue())
	})
})

var _ = Describe("An object that is served in several versions", Label("versions"), func() {
	hpaV1 := schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "HorizontalPodAutoscaler"}
	hpaV2 := schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}
	newHPA := func(gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
		obj := framework.NewObject(gvk, namespace, name, nil)
		obj.Object["spec"] = map[string]any{
			"maxReplicas":    int64(3),
			"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
		}
		return obj
	}
	policy := func(ctx context.Context, namespace, text string, versions ...string) string {
		GinkgoHelper()
		p := framework.NewPolicy(framework.NewName("hpa"), text, "autoscaling", "horizontalpodautoscalers", namespace)
		p.Spec.Match.ResourceRules[0].APIVersions = versions
		f.CreateReadyPolicy(ctx, p)
		return p.Name
	}
	level := func(fleet, key string) string {
		return framework.Rego(fmt.Sprintf("annotations[%q] := data.kubernetes.clusterprofiles[%q].eu1.metadata.labels.pci", key, fleet))
	}
	// expectOnePatch has a cluster change, and checks that one patch brought the object to its annotations.
	expectOnePatch := func(ctx context.Context, fleet, namespace string, want map[string]string, policies ...string) {
		GinkgoHelper()
		earlier := remediationsBelow(namespace)["web"]
		before, err := versions(ctx, hpaV2, namespace)
		Expect(err).NotTo(HaveOccurred())
		certify(ctx, fleet, "eu1", "no")
		expectAnnotations(ctx, hpaV2, namespace, "web", want)
		once, err := versions(ctx, hpaV2, namespace)
		Expect(err).NotTo(HaveOccurred())
		Expect(moved(before, once)).To(Equal([]string{"web"}))
		Consistently(versions).WithContext(ctx).WithArguments(hpaV2, namespace).Should(Equal(once))
		Expect(remediationsBelow(namespace)["web"] - earlier).To(BeNumerically(">=", 1))
		for _, p := range policies {
			expectCompliant(ctx, p)
			Expect(total("berth_remediations_total", fmt.Sprintf("policy=%q", p), fmt.Sprintf("outcome=%q", metrics.RemediationFailed))).To(BeZero(), p)
		}
	}

	It("is seen and patched once by a policy on all of them", func(ctx SpecContext) {
		fleet, namespace := newFleet(ctx, "eu1"), f.NewNamespace(ctx, nil)
		name := policy(ctx, namespace, level(fleet, tierKey), "*")
		Expect(f.Client.Create(ctx, newHPA(hpaV1, namespace, "web"))).To(Succeed())
		expectAnnotations(ctx, hpaV2, namespace, "web", map[string]string{tierKey: "yes"})
		Eventually(countsOf).WithContext(ctx).WithArguments(name).Should(HaveField("Matched", 1))
		expectOnePatch(ctx, fleet, namespace, map[string]string{tierKey: "no"}, name)
	})

	It("is patched once where two policies see different versions", func(ctx SpecContext) {
		fleet, namespace := newFleet(ctx, "eu1"), f.NewNamespace(ctx, nil)
		one := policy(ctx, namespace, level(fleet, "example.com/one"), "v1")
		two := policy(ctx, namespace, level(fleet, "example.com/two"), "v2")
		Expect(f.Client.Create(ctx, newHPA(hpaV2, namespace, "web"))).To(Succeed())
		expectAnnotations(ctx, hpaV2, namespace, "web", map[string]string{"example.com/one": "yes", "example.com/two": "yes"})
		for _, name := range []string{one, two} {
			Eventually(countsOf).WithContext(ctx).WithArguments(name).Should(HaveField("Matched", 1))
		}
		expectOnePatch(ctx, fleet, namespace, map[string]string{"example.com/one": "no", "example.com/two": "no"}, one, two)
	})

	// A policy that matches several versions of one type is asked with either, depending on which other policies match
	// the object; one whose decision depends on the version is not placed reliably yet.
	PIt("shows each policy its own version", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		Expect(f.Client.Create(ctx, newHPA(hpaV2, namespace, "web"))).To(Succeed())
		seen := func(key string) string {
			return framework.Rego(fmt.Sprintf("annotations[%q] := input.apiVersion", key))
		}
		policy(ctx, namespace, seen("example.com/one"), "v1")
		policy(ctx, namespace, seen("example.com/two"), "v2")
		policy(ctx, namespace, seen("example.com/both"), "v1", "v2")
		expectAnnotations(ctx, hpaV2, namespace, "web", map[string]string{
			"example.com/one": "autoscaling/v1", "example.com/two": "autoscaling/v2", "example.com/both": "autoscaling/v2",
		})
	})

	It("is patched once by a policy on everything", func(ctx SpecContext) {
		fleet, namespace := newFleet(ctx, "eu1"), f.NewNamespace(ctx, nil)
		create(ctx, framework.ConfigMap, namespace, "web", nil)
		Expect(f.Client.Create(ctx, newHPA(hpaV2, namespace, "web"))).To(Succeed())
		p := framework.NewPolicy(framework.NewName("everything"), level(fleet, tierKey), "*", "*", namespace)
		p.Spec.Match.ResourceRules[0].APIVersions = []string{"*"}
		p.Spec.Match.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "named", Expression: "has(object.metadata.name) && object.metadata.name == 'web'"}}
		f.CreateReadyPolicy(ctx, p)
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{tierKey: "yes"})
		expectAnnotations(ctx, hpaV2, namespace, "web", map[string]string{tierKey: "yes"})
		expectOnePatch(ctx, fleet, namespace, map[string]string{tierKey: "no"})
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{tierKey: "no"})
	})
})

var _ = Describe("Other writers", func() {
	It("lose no write while clusters come and go", func(ctx SpecContext) {
		const writers, objects = 4, 6
		rounds := budget.Size(10, 30)
		fleet, namespace := newFleet(ctx, "eu1", "us1"), f.NewNamespace(ctx, nil)
		p := framework.NewPolicy(framework.NewName("concurrent"), certified("annotations", clustersKey, fleet), "apps", "deployments", namespace)
		f.CreateReadyPolicy(ctx, p)
		for i := range objects {
			create(ctx, framework.Deployment, namespace, fmt.Sprintf("w%d", i), map[string]string{clustersKey: "eu1_us1"})
		}
		var done sync.WaitGroup
		for w := range writers {
			done.Go(func() {
				defer GinkgoRecover()
				for round := range rounds {
					for i := range objects {
						// Without a precondition and without knowledge of the object: it must come through as it is.
						Expect(f.Client.Patch(ctx, framework.NewObject(framework.Deployment, namespace, fmt.Sprintf("w%d", i), nil),
							client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
								`{"metadata":{"annotations":{"example.com/writer-%d":"%d"}},"spec":{"template":{"metadata":{"annotations":{"example.com/writer-%d":"%d"}}}}}`,
								w, round, w, round)))).To(Succeed())
					}
				}
			})
		}
		stop := make(chan struct{})
		var flipping sync.WaitGroup
		flipping.Go(func() {
			defer GinkgoRecover()
			for i := 0; ; i++ {
				certify(ctx, fleet, "eu1", []string{"no", "yes"}[i%2])
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		done.Wait()
		close(stop)
		flipping.Wait()
		// The hold-down of changing data may have grown to the time for which the data changed.
		SetDefaultEventuallyTimeout(2 * framework.Timeout)
		DeferCleanup(SetDefaultEventuallyTimeout, framework.Timeout)
		certify(ctx, fleet, "eu1", "no")

		for i := range objects {
			want := map[string]string{clustersKey: "us1"}
			for w := range writers {
				want[fmt.Sprintf("example.com/writer-%d", w)] = fmt.Sprint(rounds - 1)
			}
			name := fmt.Sprintf("w%d", i)
			expectAnnotations(ctx, framework.Deployment, namespace, name, want)
			obj, err := f.Get(ctx, framework.Deployment, namespace, name)
			Expect(err).NotTo(HaveOccurred())
			delete(want, clustersKey)
			template, _, err := unstructured.NestedStringMap(obj.Object, "spec", "template", "metadata", "annotations")
			Expect(err).NotTo(HaveOccurred())
			Expect(template).To(Equal(want))
		}
		expectCompliant(ctx, p.Name)
		By("having met, in fact")
		Expect(total("berth_remediations_total", fmt.Sprintf("policy=%q", p.Name), fmt.Sprintf("outcome=%q", metrics.RemediationPatched))).To(BeNumerically(">", 0))
		certify(ctx, fleet, "eu1", "yes")
		Eventually(func(ctx context.Context) (map[string]int, error) {
			all, err := list(ctx, framework.Deployment, namespace)
			return tally(all, clustersKey), err
		}).WithContext(ctx).Should(Equal(map[string]int{"eu1_us1": objects}))
	})
})
