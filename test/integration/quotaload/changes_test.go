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
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// series returns the names of a replica's metrics that have a label with this value.
func series(m *framework.Manager, value string) ([]string, error) {
	families, err := m.Metrics.Gather()
	var out []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetValue() == value {
					out = append(out, family.GetName())
				}
			}
		}
	}
	return out, err
}

// background creates pods from some workers until it is stopped.
type background struct {
	stop   context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	result outcome
	// exceeded is how often the quota refused a pod, for each worker.
	exceeded []int
	next     atomic.Int64
}

func startBackground(ctx context.Context, clients []worker, namespace string) *background {
	running, stop := context.WithCancel(ctx)
	b := &background{stop: stop, exceeded: make([]int, len(clients))}
	for i, c := range clients {
		b.done.Go(func() {
			for running.Err() == nil {
				err := c.Create(ctx, framework.NewPod(namespace, fmt.Sprintf("load-%06d", b.next.Add(1)), nil))
				b.mu.Lock()
				refusals := b.result.Exceeded
				b.result.add(err)
				b.exceeded[i] += b.result.Exceeded - refusals
				b.mu.Unlock()
			}
		})
	}
	DeferCleanup(stop)
	return b
}

// so returns how many requests ended in which way so far.
func (b *background) so() outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.result
}

// fewestExceeded returns how often the quota refused a pod of the worker of which it refused the fewest.
func (b *background) fewestExceeded() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Min(b.exceeded)
}

func (b *background) end() outcome {
	b.stop()
	b.done.Wait()
	return b.so()
}

func changeQuota(ctx context.Context, q *placementv1.ScopedQuota, hard string) {
	GinkgoHelper()
	before := q.DeepCopy()
	q.Spec.Hard = framework.Hard("pods", hard)
	// Each charge writes the status: an update of the version that was read might conflict for ever. So may a patch within the time that
	// the API server gives a request, while it has much else to do.
	patch := client.MergeFrom(before)
	Eventually(func(ctx context.Context) error { return f.Client.Patch(ctx, q, patch) }).WithContext(ctx).Should(Succeed())
	f.AwaitReadyQuota(ctx, q)
}

// writers is how many clients create pods while a quota changes. With more, each patch of the quota conflicts with a charge.
const writers = 4

var _ = Describe("A quota that changes under load", func() {
	var (
		replicas  *fleet
		namespace string
		clients   []worker
	)
	BeforeEach(func(ctx SpecContext) {
		replicas = startFleet(ctx, 3)
		namespace = f.NewNamespace(ctx, nil)
		clients, _ = newWorkers(writers)
	})
	quotaOf := func(ctx context.Context, name, pods string) *placementv1.ScopedQuota {
		GinkgoHelper()
		q := framework.NewScopedQuota(namespace, name, placementv1.QuotaSpec{Hard: framework.Hard("pods", pods)})
		replicas.createQuota(ctx, q, namespace)
		return q
	}

	It("admits nothing while it is lowered under its use, and again when it is raised", func(ctx SpecContext) {
		q := quotaOf(ctx, "pods", "10000")
		load := startBackground(ctx, clients, namespace)
		Eventually(pods).WithContext(ctx).WithArguments(namespace).Should(BeNumerically(">", 50))
		changeQuota(ctx, q, "20")
		// A worker sends one request after the other: then no request is under way that was decided by the spec before.
		Eventually(load.fewestExceeded).Should(BeNumerically(">", 10))
		real, err := pods(ctx, namespace)
		Expect(err).NotTo(HaveOccurred())
		Expect(real).To(BeNumerically(">", 20))
		awaitSettled(ctx, q, namespace)
		Expect(read(ctx, q)).To(Equal(state{Used: real}))
		Expect(meta.IsStatusConditionTrue(q.Status.Conditions, placementv1.ConditionExceeded)).To(BeTrue())
		Consistently(pods).WithContext(ctx).WithArguments(namespace).Should(Equal(real))

		changeQuota(ctx, q, fmt.Sprint(real+100))
		Eventually(pods).WithContext(ctx).WithArguments(namespace).Should(Equal(real + 100))
		Consistently(pods).WithContext(ctx).WithArguments(namespace).Should(Equal(real + 100))
		result := load.end()
		Expect(result.Other).To(BeEmpty())
		awaitSettled(ctx, q, namespace)
		Expect(meta.IsStatusConditionFalse(q.Status.Conditions, placementv1.ConditionExceeded)).To(BeTrue())
	})

	It("leaves nothing behind when it is deleted", func(ctx SpecContext) {
		const name = "deleted-under-load"
		q := quotaOf(ctx, name, "30")
		load := startBackground(ctx, clients, namespace)
		Eventually(func() int { return load.so().Exceeded }).Should(BeNumerically(">", 20*len(replicas.replicas)))
		Expect(pods(ctx, namespace)).To(Equal(30))
		Expect(series(replicas.leader(ctx).Manager, name)).NotTo(BeEmpty())

		Expect(f.Client.Delete(ctx, q)).To(Succeed())
		Eventually(pods).WithContext(ctx).WithArguments(namespace).Should(BeNumerically(">", 60))
		result := load.end()
		Expect(result.Other).To(BeEmpty())
		Eventually(func(ctx context.Context) bool {
			hook := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "berth-quota"}}
			return apierrors.IsNotFound(f.Client.Get(ctx, client.ObjectKeyFromObject(hook), hook))
		}).WithContext(ctx).Should(BeTrue(), "there is no quota any more")
		for i, r := range replicas.replicas {
			Eventually(series).WithArguments(r.Manager, name).Should(BeEmpty(), "replica %d", i)
			Consistently(series).WithArguments(r.Manager, name).Should(BeEmpty(), "replica %d", i)
		}
		before := replicas.asked()
		Expect(f.Client.Create(ctx, framework.NewPod(namespace, "unasked", nil))).To(Succeed())
		Expect(replicas.asked()).To(Equal(before))
	})

	It("counts the same under another name", func(ctx SpecContext) {
		q := quotaOf(ctx, "before", "10000")
		load := startBackground(ctx, clients, namespace)
		Eventually(pods).WithContext(ctx).WithArguments(namespace).Should(BeNumerically(">", 50))
		renamed := framework.NewScopedQuota(namespace, "after", q.Spec.QuotaSpec)
		Expect(f.Client.Delete(ctx, q)).To(Succeed())
		f.CreateReadyQuota(ctx, renamed)
		since, err := pods(ctx, namespace)
		Expect(err).NotTo(HaveOccurred())
		Eventually(pods).WithContext(ctx).WithArguments(namespace).Should(BeNumerically(">", since+50))
		result := load.end()
		Expect(result.Other).To(BeEmpty())
		awaitSettled(ctx, renamed, namespace)

		changeQuota(ctx, renamed, fmt.Sprint(result.Admitted))
		Expect(f.Client.Create(ctx, framework.NewPod(namespace, "too-many", nil))).To(framework.BeForbidden("exceeded quota: after"))
		for _, r := range replicas.replicas {
			Eventually(series).WithArguments(r.Manager, "before").Should(BeEmpty())
		}
	})

	It("takes the place of one that is deleted and made again by the same name", func(ctx SpecContext) {
		q := quotaOf(ctx, "pods", "10000")
		load := startBackground(ctx, clients, namespace)
		for range 3 {
			before, err := pods(ctx, namespace)
			Expect(err).NotTo(HaveOccurred())
			Eventually(pods).WithContext(ctx).WithArguments(namespace).Should(BeNumerically(">", before+30))
			Expect(f.Client.Delete(ctx, q)).To(Succeed())
			q = framework.NewScopedQuota(namespace, "pods", placementv1.QuotaSpec{Hard: framework.Hard("pods", "10000")})
			f.CreateReadyQuota(ctx, q)
		}
		result := load.end()
		Expect(strings.Join(result.Other, "\n")).To(BeEmpty())
		awaitSettled(ctx, q, namespace)
	})
})
