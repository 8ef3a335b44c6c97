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

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("The developer's intent", func() {
	var fleet, namespace string

	BeforeEach(func(ctx SpecContext) {
		fleet, namespace = newFleet(ctx, "eu1", "eu2", "us1"), f.NewNamespace(ctx, nil)
	})

	// certifiedPolicy has only certified clusters in the namespace's ConfigMaps.
	certifiedPolicy := func(ctx context.Context, tune ...func(*placementv1.PlacementPolicy)) string {
		GinkgoHelper()
		return onConfigMaps(ctx, "certified", certified("annotations", clustersKey, fleet), namespace, tune...)
	}
	// narrowed is a ConfigMap that asked for eu1 and us1 and has only us1.
	narrowed := func(ctx context.Context) {
		GinkgoHelper()
		create(ctx, framework.ConfigMap, namespace, "web", map[string]string{clustersKey: "eu1_us1"})
		certify(ctx, fleet, "eu1", "no")
		expectClusters(ctx, namespace, "web", "us1")
	}
	widened := func(ctx context.Context, want string) {
		GinkgoHelper()
		certify(ctx, fleet, "eu1", "yes")
		expectClusters(ctx, namespace, "web", want)
	}

	It("is narrowed when a cluster falls out of the policy, and returns with it", func(ctx SpecContext) {
		certifiedPolicy(ctx)
		create(ctx, framework.ConfigMap, namespace, "web", map[string]string{clustersKey: "eu1_us1"})
		certify(ctx, fleet, "eu1", "no")
		expectClusters(ctx, namespace, "web", "us1")
		certify(ctx, fleet, "us1", "no")
		expectClusters(ctx, namespace, "web", "")
		certify(ctx, fleet, "eu1", "yes")
		expectClusters(ctx, namespace, "web", "eu1")
		certify(ctx, fleet, "us1", "yes")
		expectClusters(ctx, namespace, "web", "eu1_us1")
	})

	It("survives restarts of the operator, also where the world changes while it is down", func(ctx SpecContext) {
		certifiedPolicy(ctx)
		create(ctx, framework.ConfigMap, namespace, "web", map[string]string{clustersKey: "eu1_us1"})
		stopOperator()
		certify(ctx, fleet, "eu1", "no")
		startOperator(ctx)
		expectClusters(ctx, namespace, "web", "us1")
		stopOperator()
		certify(ctx, fleet, "eu1", "yes")
		startOperator(ctx)
		expectClusters(ctx, namespace, "web", "eu1_us1")
		certify(ctx, fleet, "us1", "no")
		expectClusters(ctx, namespace, "web", "eu1")
		stopOperator()
		startOperator(ctx)
		certify(ctx, fleet, "us1", "yes")
		expectClusters(ctx, namespace, "web", "eu1_us1")
	})

	It("is what the developer changes the value to", func(ctx SpecContext) {
		certifiedPolicy(ctx)
		narrowed(ctx)
		annotate(ctx, framework.ConfigMap, namespace, "web", map[string]any{clustersKey: "eu1_eu2"})
		expectClusters(ctx, namespace, "web", "eu2")
		widened(ctx, "eu1_eu2")
	})

	It("is gone when the developer removes the key", func(ctx SpecContext) {
		certifiedPolicy(ctx)
		narrowed(ctx)
		annotate(ctx, framework.ConfigMap, namespace, "web", map[string]any{clustersKey: nil})
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", nil)
		certify(ctx, fleet, "eu1", "yes")
		Consistently(stored).WithContext(ctx).WithArguments(framework.ConfigMap, namespace, "web").Should(BeEmpty())
	})

	It("is the policy's value if the developer writes that one and more beside it", func(ctx SpecContext) {
		certifiedPolicy(ctx)
		narrowed(ctx)
		annotate(ctx, framework.ConfigMap, namespace, "web", map[string]any{"example.com/team": "shop"})
		certify(ctx, fleet, "eu1", "yes")
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{clustersKey: "eu1_us1", "example.com/team": "shop"})
	})

	DescribeTable("is the old one when the old manifest is applied again", func(ctx SpecContext, apply func(context.Context, string)) {
		certifiedPolicy(ctx)
		text := framework.Manifest(framework.NewObject(framework.ConfigMap, namespace, "web", map[string]string{clustersKey: "eu1_us1"}).Object)
		apply(ctx, text)
		expectClusters(ctx, namespace, "web", "eu1_us1")
		for range 2 {
			certify(ctx, fleet, "eu1", "no")
			expectClusters(ctx, namespace, "web", "us1")
			apply(ctx, text)
			Expect(stored(ctx, framework.ConfigMap, namespace, "web")).To(HaveKeyWithValue(clustersKey, "us1"))
			widened(ctx, "eu1_us1")
			apply(ctx, text)
			Expect(stored(ctx, framework.ConfigMap, namespace, "web")).To(HaveKeyWithValue(clustersKey, "eu1_us1"))
		}
	},
		Entry("by kubectl apply", func(ctx context.Context, text string) {
			f.MustKubectl(ctx, text, "apply", "-f", "-")
		}),
		// Not forced: Berth must not have become an owner of what the developer owns.
		Entry("by kubectl apply --server-side", func(ctx context.Context, text string) {
			f.MustKubectl(ctx, text, "apply", "--server-side", "--field-manager=developer", "-f", "-")
		}),
		// A PUT without the record.
		Entry("by kubectl replace", func(ctx context.Context, text string) {
			if out, err := f.Kubectl(ctx, text, "replace", "-f", "-"); err != nil {
				Expect(out).To(ContainSubstring("not found"))
				f.MustKubectl(ctx, text, "create", "-f", "-")
			}
		}),
	)

	It("is new when a changed manifest is applied on the server's side", func(ctx SpecContext) {
		certifiedPolicy(ctx)
		apply := func(clusters string) {
			GinkgoHelper()
			text := framework.Manifest(framework.NewObject(framework.ConfigMap, namespace, "web", map[string]string{clustersKey: clusters}).Object)
			f.MustKubectl(ctx, text, "apply", "--server-side", "--field-manager=developer", "-f", "-")
		}
		apply("eu1_us1")
		certify(ctx, fleet, "eu1", "no")
		expectClusters(ctx, namespace, "web", "us1")
		apply("eu1_eu2")
		expectClusters(ctx, namespace, "web", "eu2")
		widened(ctx, "eu1_eu2")
	})

	It("is the current value if the developer changed it while nobody looked", func(ctx SpecContext) {
		certifiedPolicy(ctx, func(p *placementv1.PlacementPolicy) { p.Spec.FailurePolicy = placementv1.FailurePolicyIgnore })
		narrowed(ctx)
		stopOperator()
		annotate(ctx, framework.ConfigMap, namespace, "web", map[string]any{clustersKey: "eu1_eu2"})
		Expect(stored(ctx, framework.ConfigMap, namespace, "web")).To(HaveKeyWithValue(clustersKey, "eu1_eu2"))
		startOperator(ctx)
		expectClusters(ctx, namespace, "web", "eu2")
		widened(ctx, "eu1_eu2")
	})

	It("is kept if nobody looked while the developer changed something else", func(ctx SpecContext) {
		certifiedPolicy(ctx, func(p *placementv1.PlacementPolicy) { p.Spec.FailurePolicy = placementv1.FailurePolicyIgnore })
		narrowed(ctx)
		stopOperator()
		merge(ctx, framework.ConfigMap, namespace, "web", map[string]any{"data": map[string]any{"k": "v"}})
		startOperator(ctx)
		widened(ctx, "eu1_us1")
	})

	It("stays as the policy left it when the policy is deleted, and is found again by its successor", func(ctx SpecContext) {
		policy := certifiedPolicy(ctx)
		narrowed(ctx)
		before, err := versions(ctx, framework.ConfigMap, namespace)
		Expect(err).NotTo(HaveOccurred())
		f.DeletePolicy(ctx, policy)
		Consistently(versions).WithContext(ctx).WithArguments(framework.ConfigMap, namespace).Should(Equal(before))
		Expect(stored(ctx, framework.ConfigMap, namespace, "web")).To(HaveKeyWithValue(clustersKey, "us1"))

		certify(ctx, fleet, "eu1", "yes")
		certifiedPolicy(ctx)
		expectClusters(ctx, namespace, "web", "eu1_us1")
	})

	// The API server's copy of a new webhook configuration lags behind, and with failurePolicy Ignore it may go without
	// an answer: then a remediating patch arrives without what the webhook would have made of it.
	DescribeTable("survives a remediating patch that the webhook is not asked about", func(ctx SpecContext, meanwhile func(context.Context), left string) {
		policy := certifiedPolicy(ctx, func(p *placementv1.PlacementPolicy) { p.Spec.FailurePolicy = placementv1.FailurePolicyIgnore })
		create(ctx, framework.ConfigMap, namespace, "web", map[string]string{clustersKey: "eu1_eu2_us1"})
		certify(ctx, fleet, "eu1", "no")
		expectClusters(ctx, namespace, "web", "eu2_us1")
		before, err := f.Get(ctx, framework.ConfigMap, namespace, "web")
		Expect(err).NotTo(HaveOccurred())
		stopOperator()
		meanwhile(ctx)
		// Whatever becomes of this spec, the next one needs an operator that is asked.
		DeferCleanup(stopOperator)
		operator = f.StartReadyManager(ctx, func(o *setup.Options) {
			// No process listens at the discard port.
			o.WebhookURL = "https://localhost:9"
		})
		Eventually(func() int {
			return total("berth_remediations_total", fmt.Sprintf("policy=%q", policy), fmt.Sprintf("outcome=%q", metrics.RemediationFailed))
		}).WithContext(ctx).Should(BeNumerically(">", 0))
		Eventually(f.Condition).WithContext(ctx).WithArguments(policy, placementv1.ConditionCompliant).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonViolations, "Berth could not change configmaps "+namespace+"/web: the patch did not give the object its placement"))
		expectRecord(ctx, before)
		stopOperator()
		startOperator(ctx)
		expectClusters(ctx, namespace, "web", left)
		for _, cluster := range []string{"eu1", "eu2"} {
			certify(ctx, fleet, cluster, "yes")
		}
		expectClusters(ctx, namespace, "web", "eu1_eu2_us1")
	},
		Entry("and that would have widened", func(ctx context.Context) { certify(ctx, fleet, "eu1", "yes") }, "eu1_eu2_us1"),
		Entry("and that would have narrowed further", func(ctx context.Context) { certify(ctx, fleet, "eu2", "no") }, "us1"),
	)

	It("is the current value if the developer changed it while there was no policy", func(ctx SpecContext) {
		policy := certifiedPolicy(ctx)
		narrowed(ctx)
		f.DeletePolicy(ctx, policy)
		Eventually(func(ctx context.Context) (string, error) {
			return f.Kubectl(ctx, "", "get", "mutatingwebhookconfigurations", "-o", "name")
		}).WithContext(ctx).Should(BeEmpty())
		annotate(ctx, framework.ConfigMap, namespace, "web", map[string]any{clustersKey: "eu1_eu2"})
		Expect(stored(ctx, framework.ConfigMap, namespace, "web")).To(HaveKeyWithValue(clustersKey, "eu1_eu2"))
		certifiedPolicy(ctx)
		expectClusters(ctx, namespace, "web", "eu2")
		widened(ctx, "eu1_eu2")
	})

	It("covers labels as it covers annotations", func(ctx SpecContext) {
		onConfigMaps(ctx, "labels", certified("labels", clustersKey, fleet), namespace)
		obj := framework.NewObject(framework.ConfigMap, namespace, "web", nil)
		obj.SetLabels(map[string]string{clustersKey: "eu1_us1", "app": "web"})
		Expect(f.Client.Create(ctx, obj)).To(Succeed())
		expect := func(want string) {
			GinkgoHelper()
			Eventually(func(ctx context.Context) (map[string]string, error) {
				got, err := f.Get(ctx, framework.ConfigMap, namespace, "web")
				return got.GetLabels(), err
			}).WithContext(ctx).Should(Equal(map[string]string{clustersKey: want, "app": "web"}))
		}
		certify(ctx, fleet, "eu1", "no")
		expect("us1")
		merge(ctx, framework.ConfigMap, namespace, "web", map[string]any{"data": map[string]any{"k": "v"}})
		expect("us1")
		certify(ctx, fleet, "eu1", "yes")
		expect("eu1_us1")
		certify(ctx, fleet, "eu1", "no")
		expect("us1")
		merge(ctx, framework.ConfigMap, namespace, "web", map[string]any{"metadata": map[string]any{"labels": map[string]any{clustersKey: "eu1_eu2"}}})
		expect("eu2")
		certify(ctx, fleet, "eu1", "yes")
		expect("eu1_eu2")
	})

	It("returns when the policy stops setting the key", func(ctx SpecContext) {
		policy := onConfigMaps(ctx, "stops", always(clustersKey, "us1", tierKey, "gold"), namespace)
		create(ctx, framework.ConfigMap, namespace, "asked", map[string]string{clustersKey: "eu1", "example.com/team": "shop"})
		create(ctx, framework.ConfigMap, namespace, "silent", nil)
		expectAnnotations(ctx, framework.ConfigMap, namespace, "asked", map[string]string{clustersKey: "us1", tierKey: "gold", "example.com/team": "shop"})
		expectAnnotations(ctx, framework.ConfigMap, namespace, "silent", map[string]string{clustersKey: "us1", tierKey: "gold"})
		f.ChangePolicy(ctx, policy, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = always(tierKey, "gold") })
		expectAnnotations(ctx, framework.ConfigMap, namespace, "asked", map[string]string{clustersKey: "eu1", tierKey: "gold", "example.com/team": "shop"})
		expectAnnotations(ctx, framework.ConfigMap, namespace, "silent", map[string]string{tierKey: "gold"})
		f.ChangePolicy(ctx, policy, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = framework.Rego("annotations := {}") })
		expectAnnotations(ctx, framework.ConfigMap, namespace, "asked", map[string]string{clustersKey: "eu1", "example.com/team": "shop"})
		expectAnnotations(ctx, framework.ConfigMap, namespace, "silent", nil)
		By("leaving nothing in the record but earlier values")
		for _, name := range []string{"asked", "silent"} {
			obj, err := f.Get(ctx, framework.ConfigMap, namespace, name)
			Expect(err).NotTo(HaveOccurred())
			Expect(obj.GetAnnotations()).To(HaveKeyWithValue(placementv1.RequestedAnnotation, HavePrefix(`{"signature":`)))
		}
	})

	DescribeTable("can't be forged", func(ctx SpecContext, forge func(context.Context, *unstructured.Unstructured)) {
		certifiedPolicy(ctx)
		narrowed(ctx)
		obj, err := f.Get(ctx, framework.ConfigMap, namespace, "web")
		Expect(err).NotTo(HaveOccurred())
		Expect(obj.GetAnnotations()).To(HaveKey(placementv1.RequestedAnnotation))
		forge(ctx, obj)
		widened(ctx, "eu1_us1")
	},
		Entry("by removing the record", func(ctx context.Context, obj *unstructured.Unstructured) {
			annotate(ctx, framework.ConfigMap, obj.GetNamespace(), "web", map[string]any{placementv1.RequestedAnnotation: nil})
			expectRecord(ctx, obj)
		}),
		Entry("by another text", func(ctx context.Context, obj *unstructured.Unstructured) {
			annotate(ctx, framework.ConfigMap, obj.GetNamespace(), "web", map[string]any{placementv1.RequestedAnnotation: "nonsense"})
			expectRecord(ctx, obj)
		}),
		Entry("by editing the record", func(ctx context.Context, obj *unstructured.Unstructured) {
			record := obj.GetAnnotations()[placementv1.RequestedAnnotation]
			Expect(record).To(ContainSubstring("eu1_us1"))
			annotate(ctx, framework.ConfigMap, obj.GetNamespace(), "web", map[string]any{
				placementv1.RequestedAnnotation: `{"annotations":{"` + clustersKey + `":{"requested":"eu1_eu2_us1"` + record[len(`{"annotations":{"`+clustersKey+`":{"requested":"eu1_us1"`):],
			})
			expectRecord(ctx, obj)
		}),
		Entry("by the record of another object", func(ctx context.Context, obj *unstructured.Unstructured) {
			create(ctx, framework.ConfigMap, obj.GetNamespace(), "other", map[string]string{clustersKey: "eu1_eu2_us1"})
			other, err := f.Get(ctx, framework.ConfigMap, obj.GetNamespace(), "other")
			Expect(err).NotTo(HaveOccurred())
			Expect(other.GetAnnotations()[clustersKey]).To(Equal("eu2_us1"))
			annotate(ctx, framework.ConfigMap, obj.GetNamespace(), "web", map[string]any{
				placementv1.RequestedAnnotation: other.GetAnnotations()[placementv1.RequestedAnnotation],
			})
			expectRecord(ctx, obj)
		}),
	)

	It("is not taken from a record that a new object comes with", func(ctx SpecContext) {
		certifiedPolicy(ctx)
		narrowed(ctx)
		obj, err := f.Get(ctx, framework.ConfigMap, namespace, "web")
		Expect(err).NotTo(HaveOccurred())
		create(ctx, framework.ConfigMap, namespace, "copy", obj.GetAnnotations())
		create(ctx, framework.ConfigMap, namespace, "forged", map[string]string{
			clustersKey:                     "us1",
			placementv1.RequestedAnnotation: fmt.Sprintf(`{"annotations":{%q:{"requested":"eu1_us1","by":"x","set":"y"}}}`, clustersKey),
		})
		certify(ctx, fleet, "eu1", "yes")
		expectClusters(ctx, namespace, "web", "eu1_us1")
		for _, name := range []string{"copy", "forged"} {
			Consistently(stored).WithContext(ctx).WithArguments(framework.ConfigMap, namespace, name).Should(Equal(map[string]string{clustersKey: "us1"}))
			got, err := f.Get(ctx, framework.ConfigMap, namespace, name)
			Expect(err).NotTo(HaveOccurred())
			Expect(got.GetAnnotations()).NotTo(HaveKey(placementv1.RequestedAnnotation))
		}
	})

	It("of an object that takes a deleted one's name is its own", func(ctx SpecContext) {
		policy := certifiedPolicy(ctx)
		narrowed(ctx)
		Expect(f.Client.Delete(ctx, framework.NewObject(framework.ConfigMap, namespace, "web", nil))).To(Succeed())
		create(ctx, framework.ConfigMap, namespace, "web", map[string]string{clustersKey: "eu1_eu2"})
		expectClusters(ctx, namespace, "web", "eu2")
		widened(ctx, "eu1_eu2")
		expectCounts(ctx, policy, counts{Matched: 1, Violations: 0, Remediated: 2})
	})
})

// expectRecord checks that an object has the very record, and everything else, that it had.
func expectRecord(ctx context.Context, before *unstructured.Unstructured) {
	GinkgoHelper()
	after, err := f.Get(ctx, before.GroupVersionKind(), before.GetNamespace(), before.GetName())
	Expect(err).NotTo(HaveOccurred())
	Expect(after.GetAnnotations()).To(Equal(before.GetAnnotations()))
}
