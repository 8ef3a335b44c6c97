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
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

// benchmark is what the specs with this label report to.
var benchmark *testing.B

// BenchmarkAdmission measures how many pods per second 16 clients bring into one namespace: without any quota, with one
// of Kubernetes' own, and with a ScopedQuota that one or three replicas charge.
func BenchmarkAdmission(b *testing.B) {
	benchmark = b
	suite.RunBenchmarks(b, "Benchmarks of quotas under load")
}

var _ = Describe("Creating pods", Label(suite.Benchmarks), func() {
	const enough = "1000000"

	// measure runs a benchmark of creates in namespaces that prepare prepares, each of which has enough for all.
	measure := func(ctx context.Context, name string, prepare func(namespace string)) {
		clients, _ := newWorkers(workers)
		// benchstat reads lines from their beginning, and Ginkgo may have left a dot there.
		fmt.Fprintln(os.Stdout)
		benchmark.Run(name, func(b *testing.B) {
			// A failure here is the spec's.
			defer GinkgoRecover()
			namespace := f.NewNamespace(ctx, nil)
			prepare(namespace)
			b.ResetTimer()
			result := createPods(ctx, clients, namespace, b.N)
			b.StopTimer()
			Expect(result.Other).To(BeEmpty())
			Expect(result.Admitted).To(Equal(b.N))
			b.ReportMetric(float64(b.N)/result.took.Seconds(), "admissions/s")
		})
	}

	It("is measured without webhooks", func(ctx SpecContext) {
		measure(ctx, "quota=none", func(string) {})
		measure(ctx, "quota=core", func(namespace string) { createCoreQuota(ctx, namespace, "pods", 1000000) })
	})

	for _, n := range []int{1, 3} {
		It(fmt.Sprintf("is measured with replicas: %d", n), func(ctx SpecContext) {
			replicas := startFleet(ctx, n)
			measure(ctx, fmt.Sprintf("quota=scoped/replicas=%d", n), func(namespace string) {
				q := framework.NewScopedQuota(namespace, "pods", placementv1.QuotaSpec{Hard: framework.Hard("pods", enough)})
				Expect(f.Client.Create(ctx, q)).To(Succeed())
				DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(f.Client.Delete(ctx, q))).To(Succeed()) })
				f.AwaitReadyQuota(ctx, q)
				replicas.awaitAsked(ctx, framework.NewPod(namespace, "", nil))
			})
		})
	}
})
