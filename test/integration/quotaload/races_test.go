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

package quotaload_test

import (
	"context"
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("Three replicas", func() {
	It("admit exactly what a quota allows", func(ctx SpecContext) {
		creates, allowed := budget.Size(400, 1000), budget.Size(200, 500)
		replicas := startFleet(ctx, 3)
		namespace := f.NewNamespace(ctx, nil)
		q := framework.NewScopedQuota(namespace, "pods", placementv1.QuotaSpec{Hard: framework.Hard("pods", fmt.Sprint(allowed))})
		replicas.createQuota(ctx, q, namespace)
		versions := follow(ctx, q, &placementv1.ScopedQuotaList{})
		clients, seen := newWorkers(workers)
		conflicts := replicas.counted("berth_quota_charge_conflicts_total")

		result := createPods(ctx, clients, namespace, creates)
		now, err := read(ctx, q)
		Expect(err).NotTo(HaveOccurred())

		count, peak := versions.expectNeverAbove()
		report("races", "%v; the API server answered 429 %d times and 500 %d times; %d versions of the quota, %d conflicts; at the end used %d with %d reservations, at most %d",
			result, seen.of(http.StatusTooManyRequests), seen.of(http.StatusInternalServerError), count, replicas.counted("berth_quota_charge_conflicts_total")-conflicts,
			now.Used, now.Reservations, peak)
		Expect(result.Other).To(BeEmpty())
		Expect(result.Admitted).To(Equal(allowed))
		Expect(result.Exceeded).To(Equal(creates - allowed))
		Expect(now.Used).To(Equal(allowed))
		for _, r := range replicas.replicas {
			answers, err := r.Series("berth_quota_admission_duration_seconds")
			Expect(err).NotTo(HaveOccurred())
			Expect(answers).NotTo(BeEmpty(), "every replica has its share")
		}
		Expect(pods(ctx, namespace)).To(Equal(allowed))
		awaitSettled(ctx, q, namespace)
		Consistently(read).WithContext(ctx).WithArguments(q).Should(Equal(state{Used: allowed}))
		versions.expectNeverAbove()
	})

	It("admit exactly what a quota of several namespaces allows", func(ctx SpecContext) {
		creates, allowed := budget.Size(300, 600), budget.Size(150, 300)
		replicas := startFleet(ctx, 3)
		const key, value = "load", "several"
		var namespaces []string
		for range 4 {
			namespaces = append(namespaces, f.NewNamespace(ctx, map[string]string{key: value}))
		}
		q := &placementv1.ClusterScopedQuota{ObjectMeta: metav1.ObjectMeta{Name: "several"}}
		q.Spec.Hard = framework.Hard("pods", fmt.Sprint(allowed))
		q.Spec.NamespaceSelector = &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{key: value}}
		replicas.createQuota(ctx, q, namespaces[0])
		versions := follow(ctx, q, &placementv1.ClusterScopedQuotaList{})
		clients, seen := newWorkers(workers)

		result := load(ctx, clients, creates, func(ctx context.Context, c worker, i int) error {
			return c.Create(ctx, framework.NewPod(namespaces[i%len(namespaces)], fmt.Sprintf("pod-%04d", i), nil))
		})
		now, err := read(ctx, q)
		Expect(err).NotTo(HaveOccurred())
		versions.expectNeverAbove()
		report("several namespaces", "%v; the API server answered 429 %d times", result, seen.of(http.StatusTooManyRequests))
		Expect(result.Other).To(BeEmpty())
		Expect(result.Admitted).To(Equal(allowed))
		Expect(now.Used).To(Equal(allowed))
		Expect(pods(ctx, namespaces...)).To(Equal(allowed))
		awaitSettled(ctx, q, namespaces...)
		versions.expectNeverAbove()
		sum := 0
		for _, n := range q.Status.Namespaces {
			amount := n.Used[corev1.ResourcePods]
			Expect(pods(ctx, n.Namespace)).To(BeEquivalentTo(amount.Value()))
			sum += int(amount.Value())
		}
		Expect(sum).To(Equal(allowed))
	})

	// kubernetes#141904: upstream's evaluator decides requests of one namespace in one batch; after a conflict on one
	// quota it asks that quota alone and forgets what the other one had refused.
	It("keep to one quota while another one is contended", func(ctx SpecContext) {
		const each, allowed = 150, 10
		replicas := startFleet(ctx, 3)
		clients, seen := newWorkers(workers)
		for round := range budget.Size(1, 3) {
			namespace := f.NewNamespace(ctx, nil)
			replicas.createQuota(ctx, framework.NewScopedQuota(namespace, "a", placementv1.QuotaSpec{Hard: framework.Hard("pods", "0")}), namespace)
			b := framework.NewScopedQuota(namespace, "b", placementv1.QuotaSpec{Hard: framework.Hard("count/configmaps", fmt.Sprint(allowed))})
			f.CreateReadyQuota(ctx, b)
			replicas.awaitAsked(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "try"}})
			result := load(ctx, clients, 2*each, func(ctx context.Context, c worker, i int) error {
				if i%2 == 0 {
					return c.Create(ctx, framework.NewPod(namespace, fmt.Sprintf("pod-%04d", i), nil))
				}
				return c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("c-%04d", i)}})
			})
			report("kubernetes#141904", "round %d: %v; the API server answered 429 %d times", round, result, seen.of(http.StatusTooManyRequests))
			Expect(result.Other).To(BeEmpty())
			Expect(pods(ctx, namespace)).To(Equal(0))
			Expect(result.Admitted).To(Equal(allowed))
			Expect(f.Used(ctx, b)).To(HaveKeyWithValue("count/configmaps", fmt.Sprint(allowed)))
		}
	})
})
