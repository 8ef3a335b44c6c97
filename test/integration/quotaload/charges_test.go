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
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
)

const (
	// shortTTL is short for a test, and long for a create that goes well.
	shortTTL = 4 * time.Second
	// longTTL is long enough for a create, the end of a replica, and another create.
	longTTL = 8 * time.Second
)

func withTTL(ttl time.Duration) func(*setup.Options) {
	return func(o *setup.Options) { o.ReservationTTL = ttl }
}

var _ = Describe("A charge whose object does not come", func() {
	var (
		replicas  *fleet
		namespace string
	)
	BeforeEach(func(ctx SpecContext) { namespace = f.NewNamespace(ctx, nil) })
	create := func(ctx context.Context, name string) error {
		return f.Client.Create(ctx, framework.NewPod(namespace, name, nil))
	}
	quotaOf := func(ctx context.Context, pods string) *placementv1.ScopedQuota {
		GinkgoHelper()
		q := framework.NewScopedQuota(namespace, "pods", placementv1.QuotaSpec{Hard: framework.Hard("pods", pods)})
		replicas.createQuota(ctx, q, namespace)
		return q
	}

	DescribeTable("since its replica was killed between charge and answer does not last", func(ctx SpecContext, killLeader bool) {
		replicas = startFleet(ctx, 3, withTTL(longTTL))
		q := quotaOf(ctx, "2")
		victim := replicas.leader(ctx)
		if !killLeader {
			victim = replicas.replicas[(indexOf(replicas.replicas, victim)+1)%3]
		}
		replicas.proxy.Direct(victim.backend)
		// At first the API server may not know yet that its connections were cut.
		Eventually(create).WithContext(ctx).WithArguments("before").Should(Succeed())
		awaitSettled(ctx, q, namespace)
		Expect(replicas.proxy.Mute(victim.backend)).To(BeNumerically(">", 0), "the API server keeps its connection")

		answer := make(chan error, 1)
		go func() { answer <- create(ctx, "lost") }()
		Eventually(read).WithContext(ctx).WithArguments(q).Should(Equal(state{Used: 2, Reservations: 1}), "it is charged")
		replicas.proxy.Direct(nil)
		replicas.kill(victim)
		Eventually(answer).WithContext(ctx).Should(Receive(HaveOccurred()), "who charged gave no answer")
		Expect(pods(ctx, namespace)).To(Equal(1))
		Eventually(create).WithContext(ctx).WithArguments("meanwhile").Should(framework.BeForbidden("exceeded quota: pods, requested: pods=1, used: pods=2, limited: pods=2"))

		awaitSettled(ctx, q, namespace)
		Expect(create(ctx, "after")).To(Succeed())
		awaitSettled(ctx, q, namespace)
		Expect(create(ctx, "too-many")).To(framework.BeForbidden("exceeded quota"))
	},
		Entry("of a follower", false),
		Entry("of the leader", true),
	)

	It("since replicas are killed under load does not last, and nothing is admitted in excess", func(ctx SpecContext) {
		const creates, allowed = 400, 250
		replicas = startFleet(ctx, 3, withTTL(longTTL))
		q := quotaOf(ctx, fmt.Sprint(allowed))
		versions := follow(ctx, q, &placementv1.ScopedQuotaList{})
		clients, _ := newWorkers(workers)
		// Some are cut off while they are served, and try again as a controller would.
		tried := func(ctx context.Context, c worker, i int) error {
			for try := 0; ; try++ {
				err := c.Create(ctx, framework.NewPod(namespace, fmt.Sprintf("pod-%04d", i), nil))
				if !apierrors.IsInternalError(err) || try == 20 {
					return err
				}
			}
		}
		done := make(chan struct{})
		go func() {
			defer GinkgoRecover()
			defer close(done)
			for _, r := range []*replica{replicas.leader(ctx), replicas.replicas[2]} {
				before, err := pods(ctx, namespace)
				Expect(err).NotTo(HaveOccurred())
				Eventually(pods).WithContext(ctx).WithArguments(namespace).WithPolling(5 * time.Millisecond).Should(BeNumerically(">", before+20))
				replicas.kill(r)
			}
		}()
		result := load(ctx, clients, creates, tried)
		Eventually(done).WithContext(ctx).Should(BeClosed())
		report("kills under load", "%v", result)
		Expect(result.Other).To(BeEmpty())
		Expect(result.Admitted).To(BeNumerically("<=", allowed))
		Expect(pods(ctx, namespace)).To(Equal(result.Admitted))
		awaitSettled(ctx, q, namespace)

		// What was lost with the replicas is there again.
		rest := load(ctx, clients, creates, func(ctx context.Context, c worker, i int) error {
			return c.Create(ctx, framework.NewPod(namespace, fmt.Sprintf("more-%04d", i), nil))
		})
		Expect(rest.Other).To(BeEmpty())
		Expect(pods(ctx, namespace)).To(Equal(allowed))
		awaitSettled(ctx, q, namespace)
		versions.expectNeverAbove()
	})

	It("since its name is taken holds nothing, and is given back", func(ctx SpecContext) {
		replicas = startFleet(ctx, 3, withTTL(shortTTL))
		q := quotaOf(ctx, "3")
		versions := follow(ctx, q, &placementv1.ScopedQuotaList{})
		Expect(create(ctx, "taken")).To(Succeed())
		for range 2 {
			Expect(apierrors.IsAlreadyExists(create(ctx, "taken"))).To(BeTrue())
		}
		// Only one object can have the name, so they reserve no more than it uses, and no request waits for them.
		Eventually(read).WithContext(ctx).WithArguments(q).Should(HaveField("Used", 1))
		Expect(create(ctx, "other")).To(Succeed())
		awaitSettled(ctx, q, namespace)
		Expect(read(ctx, q)).To(Equal(state{Used: 2}))

		clients, _ := newWorkers(workers)
		Expect(createPods(ctx, clients, namespace, 50)).To(SatisfyAll(HaveField("Admitted", 1), HaveField("Exceeded", 49)))
		awaitSettled(ctx, q, namespace)
		versions.expectNeverAbove()
	})

	It("since a later step refused it is given back", func(ctx SpecContext) {
		const cores, ours = 2, 20
		replicas = startFleet(ctx, 3, withTTL(shortTTL))
		q := quotaOf(ctx, fmt.Sprint(ours))
		versions := follow(ctx, q, &placementv1.ScopedQuotaList{})
		createCoreQuota(ctx, namespace, "pods", cores)
		clients, _ := newWorkers(workers)
		// The API server asks webhooks first, and its own quotas last.
		Expect(createPods(ctx, clients, namespace, 100)).To(SatisfyAll(HaveField("Admitted", cores), HaveField("Exceeded", 100-cores)))
		Expect(pods(ctx, namespace)).To(Equal(cores))
		// The first charges may have ended before the last request.
		Eventually(versions.peakUsed).Should(Equal(ours), "until nothing can come any more, it counts")
		awaitSettled(ctx, q, namespace)
		Expect(read(ctx, q)).To(Equal(state{Used: cores}))
		versions.expectNeverAbove()
	})
})

func indexOf(list []*replica, r *replica) int {
	for i := range list {
		if list[i] == r {
			return i
		}
	}
	return -1
}

// createCoreQuota makes a ResourceQuota of Kubernetes' own, with the first count that its controller would make, and
// waits until the API server goes by it.
func createCoreQuota(ctx context.Context, namespace, resource string, hard int) *corev1.ResourceQuota {
	GinkgoHelper()
	limit := framework.Hard(resource, fmt.Sprint(hard))
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "core"}, Spec: corev1.ResourceQuotaSpec{Hard: limit}}
	Expect(f.Client.Create(ctx, q)).To(Succeed())
	q.Status = corev1.ResourceQuotaStatus{Hard: limit, Used: framework.Hard(resource, "0")}
	Expect(f.Client.Status().Update(ctx, q)).To(Succeed())
	Eventually(func(ctx context.Context) error {
		return f.Client.Create(ctx, framework.NewPod(namespace, "", nil), client.DryRunAll)
	}).WithContext(ctx).Should(Succeed())
	return q
}
