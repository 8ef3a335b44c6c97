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

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var workload = schema.GroupVersionKind{Group: "kueue.x-k8s.io", Version: "v1beta2", Kind: "Workload"}

// native returns a policy that places the placement objects of a kind on the clusters of the fleet in the region eu. It has no
// spec.delivery.
func (fl fleet) native(kind schema.GroupVersionKind, plural, namespace string) *placementv1.PlacementPolicy {
	p := fl.policy(toKarmada, namespace)
	p.Spec.Delivery = nil
	p.Spec.Match.ResourceRules = []placementv1.ResourceRule{{APIGroups: []string{kind.Group}, APIVersions: []string{kind.Version}, Resources: []string{plural}}}
	return p
}

// decidedIn returns the clusters in the only PlacementDecision of a Placement.
func decidedIn(ctx context.Context, namespace, placement string) ([]string, error) {
	o, err := only(ctx, ocmDecision, namespace, placement)
	if err != nil {
		return nil, err
	}
	decisions, _, err := unstructured.NestedSlice(o.Object, "status", "decisions")
	var out []string
	for _, d := range decisions {
		out = append(out, fmt.Sprint(d.(map[string]any)["clusterName"]))
	}
	return out, err
}

var _ = Describe("Placement objects with a status", func() {
	It("of Open Cluster Management are scheduled by Berth where their annotation says so", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		p := fl.native(ocmPlacement, "placements", namespace)
		f.CreateReadyPolicy(ctx, p)
		left := framework.NewObject(ocmPlacement, namespace, "left", nil)
		left.Object["spec"] = map[string]any{}
		Expect(f.Client.Create(ctx, left)).To(Succeed())
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDeliveryFailed, "experimental-scheduling-disable"))
		Expect(all(ctx, ocmDecision, namespace, "left")).To(BeEmpty())
		Expect(f.Client.Delete(ctx, left)).To(Succeed())

		o := framework.NewObject(ocmPlacement, namespace, "web", map[string]string{"cluster.open-cluster-management.io/experimental-scheduling-disable": "true"})
		o.Object["spec"] = map[string]any{}
		Expect(f.Client.Create(ctx, o)).To(Succeed())
		Eventually(decidedIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a", "b")))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		Eventually(f.Get).WithContext(ctx).WithArguments(ocmPlacement, namespace, "web").
			Should(HaveField("Object", HaveKeyWithValue("status", HaveKeyWithValue("numberOfSelectedClusters", BeEquivalentTo(2)))))
		fl.move(ctx, "b", "us")
		Eventually(decidedIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
	})

	It("of Kueue get nominated clusters while MultiKueue waits for them", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		p := fl.native(workload, "workloads", namespace)
		f.CreateReadyPolicy(ctx, p)
		o := framework.NewObject(workload, namespace, "train", nil)
		o.Object["spec"] = map[string]any{"podSets": []any{map[string]any{
			"name": "main", "count": int64(1),
			"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "example.com/train"}}}},
		}}}
		Expect(f.Client.Create(ctx, o)).To(Succeed())
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		nominated := func(ctx context.Context) ([]string, error) {
			o, err := f.Get(ctx, workload, namespace, "train")
			if err != nil {
				return nil, err
			}
			names, _, err := unstructured.NestedStringSlice(o.Object, "status", "nominatedClusterNames")
			return names, err
		}
		Expect(nominated(ctx)).To(BeEmpty())

		By("reserving quota, as Kueue does")
		at := metav1.Now().UTC().Format("2006-01-02T15:04:05Z")
		stored, err := f.Get(ctx, workload, namespace, "train")
		Expect(err).NotTo(HaveOccurred())
		stored.Object["status"] = map[string]any{
			"conditions":      []any{map[string]any{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "", "lastTransitionTime": at}},
			"admissionChecks": []any{map[string]any{"name": "multikueue", "state": "Pending", "message": "", "lastTransitionTime": at}},
			"admission":       map[string]any{"clusterQueue": "queue", "podSetAssignments": []any{map[string]any{"name": "main"}}},
		}
		Expect(f.Client.Status().Update(ctx, stored)).To(Succeed())
		Eventually(nominated).WithContext(ctx).Should(Equal(fl.clusters("a", "b")))
		fl.move(ctx, "b", "us")
		Eventually(nominated).WithContext(ctx).Should(Equal(fl.clusters("a")))
	})

	It("of Kueue get at most 20 clusters, and the status says so", func(ctx SpecContext) {
		var names []string
		for i := range 21 {
			names = append(names, fmt.Sprintf("c%d", i))
		}
		fl, namespace := newFleet(ctx, names...), f.NewNamespace(ctx, nil)
		p := fl.native(workload, "workloads", namespace)
		f.CreateReadyPolicy(ctx, p)
		o := framework.NewObject(workload, namespace, "train", nil)
		o.Object["spec"] = map[string]any{"podSets": []any{map[string]any{
			"name": "main", "count": int64(1),
			"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "example.com/train"}}}},
		}}}
		Expect(f.Client.Create(ctx, o)).To(Succeed())
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonDelivered,
			"1 of 1 placed objects are delivered", "workloads.kueue.x-k8s.io "+namespace+"/train: MultiKueue considers at most 20 clusters; the first 20 of 21 by name"))
		fl.move(ctx, "c20", "us")
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(HaveField("Message", "1 of 1 placed objects are delivered"))
	})
})
