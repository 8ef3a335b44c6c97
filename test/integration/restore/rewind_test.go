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

package restore_test

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
)

// denying is a module that denies ConfigMaps with a key in their data.
func denying(key string) string {
	return framework.Rego(fmt.Sprintf(`errors contains "%[1]s is denied" if input.data.%[1]s`, key))
}

// configMap returns a ConfigMap with one key in its data.
func configMap(namespace, name, key string) *unstructured.Unstructured {
	out := framework.NewObject(framework.ConfigMap, namespace, name, nil)
	out.Object["data"] = map[string]any{key: "yes"}
	return out
}

// churn writes more revisions than an API server does when it starts.
func churn(ctx context.Context, f *framework.Framework) {
	GinkgoHelper()
	object := configMap("default", "churn", "any")
	Expect(f.Client.Create(ctx, object)).To(Succeed())
	for i := range 500 {
		object.SetAnnotations(map[string]string{"example.com/round": fmt.Sprint(i)})
		Expect(f.Client.Update(ctx, object)).To(Succeed())
	}
}

// revisionLists returns how often an API server has listed ControllerRevisions, by which Berth follows the revision of the host cluster's
// store.
func revisionLists(ctx context.Context, f *framework.Framework) (n int) {
	GinkgoHelper()
	series := regexp.MustCompile(`(?m)^apiserver_request_total\{.*resource="controllerrevisions".*verb="LIST".*\} (\d+)$`)
	for _, line := range series.FindAllStringSubmatch(f.MustKubectl(ctx, "", "get", "--raw", "/metrics"), -1) {
		value, err := strconv.Atoi(line[1])
		Expect(err).NotTo(HaveOccurred())
		n += value
	}
	return n
}

// A backup of etcd is restored under a running Berth, which has seen resource versions, generations and objects of a history that the API
// server no longer has. So it ends, and is started again as Kubernetes starts a container that has ended.
var _ = Describe("A store that goes back to an earlier state", Ordered, func() {
	const counted = "count/configmaps"
	var (
		f            *framework.Framework
		m            *framework.Manager
		quotas, free string
		quota        *placementv1.ScopedQuota
	)

	used := func(ctx context.Context) (map[string]string, error) { return f.Used(ctx, quota) }
	create := func(ctx context.Context, object client.Object) error { return f.Client.Create(ctx, object) }
	// trial creates an object as a dry run.
	trial := func(ctx context.Context, namespace, key string) error {
		return f.Client.Create(ctx, configMap(namespace, "trial", key), client.DryRunAll)
	}
	// afterwards waits for what follows from the restore by itself.
	afterwards := func(ctx context.Context, key string, result OmegaMatcher) {
		GinkgoHelper()
		Eventually(trial).WithContext(ctx).WithArguments(free, key).Should(result)
	}

	BeforeAll(func(ctx SpecContext) {
		backup := filepath.Join(GinkgoT().TempDir(), "etcd")
		f = framework.Start(ctx)
		DeferCleanup(f.Stop)
		m = f.StartReadyManager(ctx)
		DeferCleanup(func() { m.Stop() })
		quotas, free = f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		quota = framework.NewScopedQuota(quotas, "maps", placementv1.QuotaSpec{Hard: framework.Hard(counted, "3")})
		Expect(f.Client.Create(ctx, quota)).To(Succeed())
		f.AwaitReadyQuota(ctx, quota)
		Expect(f.Client.Create(ctx, framework.NewPolicy("kept", denying("first"), "", "configmaps", free))).To(Succeed())
		f.AwaitReady(ctx, "kept")
		Expect(create(ctx, configMap(quotas, "before", "any"))).To(Succeed())
		Eventually(used).WithContext(ctx).Should(HaveKeyWithValue(counted, "1"))

		Expect(f.Plane.SaveStore(ctx, backup)).To(Succeed())
		By("making a history that is lost, of which the replica sees the end")
		churn(ctx, f)
		for _, name := range []string{"lost-a", "lost-b"} {
			Eventually(create).WithContext(ctx).WithArguments(configMap(quotas, name, "any")).Should(Succeed())
		}
		Expect(create(ctx, configMap(quotas, "lost-c", "any"))).To(MatchError(ContainSubstring("exceeded quota")))
		f.ChangePolicy(ctx, "kept", func(p *placementv1.PlacementPolicy) { p.Spec.Rego = denying("lost") })
		f.AwaitReady(ctx, "kept")
		Expect(f.Client.Create(ctx, framework.NewPolicy("gone", denying("second"), "", "configmaps", free))).To(Succeed())
		f.AwaitReady(ctx, "gone")
		Expect(trial(ctx, free, "lost")).NotTo(Succeed())

		Expect(f.Plane.RestoreStore(ctx, backup)).To(Succeed())
		Expect(m.AwaitEnd(ctx)).To(MatchError(ContainSubstring("the API server's store of the served cluster went back from resource version ")))
		m = f.StartReadyManager(ctx)
	})

	It("charges quotas as they are stored", func(ctx SpecContext) {
		for _, name := range []string{"after-a", "after-b"} {
			Eventually(create).WithContext(ctx).WithArguments(configMap(quotas, name, "any")).Should(Succeed())
		}
		Eventually(create).WithContext(ctx).WithArguments(configMap(quotas, "after-c", "any")).
			Should(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("used: count/configmaps=3"))))
		Eventually(used).WithContext(ctx).Should(HaveKeyWithValue(counted, "3"))
		Expect(f.Client.Delete(ctx, configMap(quotas, "before", "any"))).To(Succeed())
		Eventually(used).WithContext(ctx).Should(HaveKeyWithValue(counted, "2"))
		Consistently(used).WithContext(ctx).Should(HaveKeyWithValue(counted, "2"))
	})

	It("decides by the policies that are stored", func(ctx SpecContext) {
		afterwards(ctx, "first", MatchError(ContainSubstring("first is denied")))
		afterwards(ctx, "lost", Succeed())
		afterwards(ctx, "second", Succeed())
		f.AwaitReady(ctx, "kept")
	})

	It("tells a new version from a lost one of the same generation", func(ctx SpecContext) {
		f.ChangePolicy(ctx, "kept", func(p *placementv1.PlacementPolicy) { p.Spec.Rego = denying("new") })
		afterwards(ctx, "new", MatchError(ContainSubstring("new is denied")))
		afterwards(ctx, "first", Succeed())
	})

	It("ends the process in the host cluster, too", func(ctx SpecContext) {
		backup := filepath.Join(GinkgoT().TempDir(), "etcd")
		host := framework.StartEmpty(ctx)
		DeferCleanup(host.Stop)
		// Before that: the API server of the host cluster would wait for the end of the replica's watches.
		DeferCleanup(func() { m.Stop() })
		host.MustKubectl(ctx, "", "create", "namespace", framework.OperatorNamespace)
		fromHost := func(o *setup.Options) {
			o.StateCluster, o.HostKubeconfig = setup.StateClusterHost, host.Kubeconfig
		}
		m.Stop()
		m = f.StartReadyManager(ctx, fromHost)
		Expect(host.Plane.SaveStore(ctx, backup)).To(Succeed())
		churn(ctx, host)
		By("waiting until the replica has listed what is lost")
		before := revisionLists(ctx, host)
		Eventually(revisionLists).WithContext(ctx).WithArguments(host).Should(BeNumerically(">", before))
		Expect(m.Ready(ctx)).To(Succeed())
		Expect(host.Plane.RestoreStore(ctx, backup)).To(Succeed())
		Expect(m.AwaitEnd(ctx)).To(MatchError(ContainSubstring("the API server's store of the host cluster went back from resource version ")))
		m = f.StartReadyManager(ctx, fromHost)
		afterwards(ctx, "new", MatchError(ContainSubstring("new is denied")))
	})
})
