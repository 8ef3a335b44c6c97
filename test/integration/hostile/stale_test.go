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
	"maps"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
)

// denies is a module that denies ConfigMaps with a key in their data.
func denies(key string) string {
	return framework.Rego(`errors contains "` + key + ` is denied" if input.data.` + key)
}

// pair is a leader, and a follower whose connection to the API server can be stopped.
type pair struct {
	leader, follower *framework.Backend
	cut              *framework.Manager
	proxy            *framework.Proxy
	link             *framework.Link
}

func startPair(ctx SpecContext, bound time.Duration) *pair {
	GinkgoHelper()
	stopOperator()
	p := &pair{proxy: framework.StartProxy()}
	tune := func(o *setup.Options) {
		o.LeaderElection, o.WebhookURL, o.PolicyMaxStaleness = true, p.proxy.URL(), bound
		o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = 60*time.Second, 50*time.Second, time.Second
	}
	leader := f.StartReadyManager(ctx, tune)
	DeferCleanup(leader.Stop)
	p.leader = p.proxy.Add(leader.URL)
	f.AwaitValidation(ctx)
	linked := *f
	p.link, linked.Operator = framework.StartLink(f.Operator)
	p.cut = linked.StartReadyManager(ctx, tune)
	DeferCleanup(p.cut.Stop)
	DeferCleanup(p.link.Resume)
	p.follower = p.proxy.Add(p.cut.URL)
	p.proxy.Direct(p.leader)
	return p
}

// create creates a ConfigMap with a key in its data.
func create(ctx context.Context, namespace, key string) error {
	object := framework.NewObject(framework.ConfigMap, namespace, framework.NewName("c"), nil)
	object.Object["data"] = map[string]any{key: "yes"}
	return f.Client.Create(ctx, object)
}

// beUndecided matches the API server's denial of a request that its webhook gave no answer to.
func beUndecided() OmegaMatcher { return Satisfy(apierrors.IsInternalError) }

var _ = Describe("A replica whose connection to the API server stands still", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = f.NewNamespace(ctx, nil) })

	It("admits nothing by policies that it does not know", func(ctx SpecContext) {
		p := startPair(ctx, 10*time.Minute)
		p.link.Pause()
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("unseen"), denies("bad"), "", "configmaps", namespace))
		lenient := f.NewNamespace(ctx, nil)
		ignoring := framework.NewPolicy(framework.NewName("ignored"), denies("bad"), "", "configmaps", lenient)
		ignoring.Spec.FailurePolicy = placementv1.FailurePolicyIgnore
		f.CreateReadyPolicy(ctx, ignoring)

		p.proxy.Direct(p.follower)
		Expect(create(ctx, namespace, "bad")).To(beUndecided())
		Expect(p.cut.Ready(ctx)).To(Succeed(), "it is within its bound")
		Expect(create(ctx, lenient, "bad")).To(Succeed(), "as the failurePolicy says")

		p.link.Resume()
		Eventually(warningEvents).WithContext(ctx).WithArguments(lenient).ShouldNot(BeEmpty())
		Eventually(create).WithContext(ctx).WithArguments(namespace, "bad").Should(MatchError(ContainSubstring("bad is denied")))
		Expect(create(ctx, namespace, "good")).To(Succeed())
	})

	It("stops deciding by old policies within its bound, and heals", func(ctx SpecContext) {
		name := framework.NewName("changed")
		p := startPair(ctx, 2*time.Second)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(name, denies("old"), "", "configmaps", namespace))
		p.proxy.Direct(p.follower)
		// A busy machine may exceed so short a bound also while the connection works.
		Eventually(create).WithContext(ctx).WithArguments(namespace, "old").Should(MatchError(ContainSubstring("old is denied")))
		Eventually(create).WithContext(ctx).WithArguments(namespace, "new").Should(Succeed())
		p.proxy.Direct(p.leader)

		p.link.Pause()
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = denies("new") })
		f.AwaitReady(ctx, name)
		Eventually(p.cut.Ready).WithContext(ctx).Should(MatchError(ContainSubstring("not ready")))
		p.proxy.Direct(p.follower)
		for range 2 {
			Expect(create(ctx, namespace, "new")).To(beUndecided())
		}

		p.link.Resume()
		Eventually(p.cut.Ready).WithContext(ctx).Should(Succeed())
		Eventually(create).WithContext(ctx).WithArguments(namespace, "new").Should(MatchError(ContainSubstring("new is denied")))
		Eventually(create).WithContext(ctx).WithArguments(namespace, "old").Should(Succeed())
	})
})

var _ = Describe("Data whose watch stands still", func() {
	It("decides nothing beyond the policy's maxStaleness, and heals", func(ctx SpecContext) {
		p := startPair(ctx, 10*time.Minute)
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("reads")
		policy := framework.NewPolicy(name, framework.Rego(`errors contains "seen" if data.kubernetes.services["`+namespace+`"].seen`), "", "configmaps", namespace)
		// A watch that is silent for so long is opened again. A quarter of the time is left for that before nothing is decided.
		const maxStaleness = 10 * time.Second
		policy.Spec.MaxStaleness = &metav1.Duration{Duration: maxStaleness}
		f.CreateReadyPolicy(ctx, policy)
		p.proxy.Direct(p.follower)
		Eventually(create).WithContext(ctx).WithArguments(namespace, "any").Should(Succeed())
		expectAlive(ctx, p.cut, namespace, maxStaleness)

		p.link.Pause()
		seen := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "seen"}}
		seen.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		Expect(f.Client.Create(ctx, seen)).To(Succeed())
		Eventually(create).WithContext(ctx).WithArguments(namespace, "any").Should(And(beUndecided(), MatchError(ContainSubstring("services"))))

		p.link.Resume()
		Eventually(create).WithContext(ctx).WithArguments(namespace, "any").Should(MatchError(ContainSubstring("seen")))
	})
})

// expectAlive creates objects, which a policy decides that reads Services, until the Services of a replica were confirmed a bound later
// than when it is called. All of them must be decided, although nothing happens to Services.
func expectAlive(ctx context.Context, m *framework.Manager, namespace string, bound time.Duration) {
	GinkgoHelper()
	confirmed := func() float64 {
		series, err := m.Series("berth_replicated_confirmed_timestamp_seconds", `resource="services"`)
		Expect(err).NotTo(HaveOccurred())
		Expect(series).To(HaveLen(1))
		return slices.Max(slices.Collect(maps.Values(series)))
	}
	begin := confirmed()
	Eventually(func(ctx context.Context) (float64, error) {
		if err := create(ctx, namespace, "any"); err != nil {
			return 0, StopTrying("a watch on which nothing happens counts as stale").Wrap(err)
		}
		return confirmed() - begin, nil
	}).WithContext(ctx).WithPolling(time.Second).Should(BeNumerically(">", bound.Seconds()))
}

// warningEvents returns the Events of a namespace.
func warningEvents(ctx context.Context, namespace string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("events.k8s.io/v1")
	list.SetKind("EventList")
	err := f.Client.List(ctx, list, client.InNamespace(namespace))
	return list.Items, err
}
