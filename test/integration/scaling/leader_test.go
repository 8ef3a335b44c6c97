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

package scaling_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/test/framework"
)

const (
	replicas = 3
	zone     = "example.com/zone"
)

// holder returns the holder of the lease. It is empty if the lease was released.
func holder(ctx context.Context) (string, error) {
	lease := &coordinationv1.Lease{}
	err := f.Client.Get(ctx, client.ObjectKey{Namespace: framework.OperatorNamespace, Name: "berth.placement.berth.dev"}, lease)
	return ptr.Deref(lease.Spec.HolderIdentity, ""), err
}

// member is one replica of a fleet.
type member struct {
	*framework.Command

	backend *framework.Backend
}

// leading returns the members that say that they lead.
func leading(ctx context.Context, members []*member) (out []*member, err error) {
	for _, m := range members {
		leads, err := m.Value(ctx, "leader_election_master_status")
		if err != nil {
			return nil, err
		}
		if leads == 1 {
			out = append(out, m)
		}
	}
	return out, nil
}

// zoneOf returns what a ConfigMap says where the policy put it.
func zoneOf(ctx context.Context, namespace, name string) (string, error) {
	obj, err := f.Get(ctx, framework.ConfigMap, namespace, name)
	return obj.GetAnnotations()[zone], err
}

var _ = Describe("Of three replicas", func() {
	var (
		proxy     *framework.Proxy
		members   []*member
		namespace string
	)
	BeforeEach(func(ctx SpecContext) {
		proxy, members = framework.StartProxy(), nil
		for _, c := range commands.StartAllReady(ctx, replicas, proxy.URL(), "--leader-elect") {
			DeferCleanup(c.Kill)
			members = append(members, &member{Command: c, backend: proxy.Add(c.URL)})
		}
		namespace = f.NewNamespace(ctx, map[string]string{"zone": "one"})
		text := framework.Rego(fmt.Sprintf("annotations[%q] := data.kubernetes.namespaces[%q].metadata.labels.zone", zone, namespace))
		f.CreateReadyPolicy(ctx, framework.NewPolicy("zone-of-"+namespace, text, "", "configmaps", namespace))
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "first", nil))).To(Succeed())
		Eventually(zoneOf).WithContext(ctx).WithArguments(namespace, "first").Should(Equal("one"))
	})

	// handOver ends the leader, changes the world at once, and waits until another replica has moved what has to move.
	handOver := func(ctx context.Context, end func(*member) error, ended func(before, after string)) {
		GinkgoHelper()
		before, err := holder(ctx)
		Expect(err).NotTo(HaveOccurred())
		leaders, err := leading(ctx, members)
		Expect(err).NotTo(HaveOccurred())
		Expect(leaders).To(HaveLen(1), "exactly one leads")
		start := time.Now()
		Expect(end(leaders[0])).To(Succeed())
		after, err := holder(ctx)
		Expect(err).NotTo(HaveOccurred())
		ended(before, after)
		f.MustKubectl(ctx, "", "label", "--overwrite", "namespace", namespace, "zone=two")
		Eventually(zoneOf).WithContext(ctx).WithArguments(namespace, "first").Should(Equal("two"))
		AddReportEntry("remediated again", ReportEntryVisibilityAlways, fmt.Sprintf("%v after the end of the leader", time.Since(start).Round(100*time.Millisecond)))

		var rest []*member
		for _, m := range members {
			if m != leaders[0] {
				rest = append(rest, m)
			}
		}
		Expect(leading(ctx, rest)).To(HaveLen(1), "exactly one leads")
	}

	It("another one remediates when the leader is stopped, and waits for no lease to end", func(ctx SpecContext) {
		handOver(ctx, func(m *member) error { return m.Stop(30 * time.Second) }, func(before, after string) {
			Expect(after).NotTo(Equal(before), "the lease was not given back")
		})
	})

	It("another one remediates when the leader is killed and its lease has ended", func(ctx SpecContext) {
		handOver(ctx, func(m *member) error { return m.Kill() }, func(before, after string) {
			Expect(after).To(Equal(before), "the lease was given back")
		})
	})

	It("each one answers", func(ctx SpecContext) {
		for i, m := range members {
			proxy.Direct(m.backend)
			name := fmt.Sprintf("c-%d", i)
			// At first the API server may not know yet that its connections were cut.
			Eventually(func(ctx context.Context) error {
				return f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, name, nil))
			}).WithContext(ctx).Should(Succeed())
			Expect(zoneOf(ctx, namespace, name)).To(Equal("one"))
			Expect(m.backend.Connections()).To(BeNumerically(">", 0), "the API server asked another one")
		}
	})
})
