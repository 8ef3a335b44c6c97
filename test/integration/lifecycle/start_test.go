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

package lifecycle_test

import (
	"context"
	"fmt"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
)

// createBuoys installs an inventory of its own with some objects and returns its plural name and the rule that reads it.
func createBuoys(ctx context.Context, objects ...string) (plural, rego string) {
	GinkgoHelper()
	group := framework.NewName("sea") + ".example.com"
	plural = framework.NewName("buoys")
	crd := framework.NewCRD(group, "v1", plural, "Buoy", apiextensionsv1.ClusterScoped)
	f.InstallCRD(ctx, crd)
	DeferCleanup(f.UninstallCRD, crd.Name)
	for _, name := range objects {
		Expect(f.Client.Create(ctx, framework.NewObject(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Buoy"}, "", name, nil))).To(Succeed())
	}
	return plural, framework.Rego(fmt.Sprintf(`annotations["example.com/zone"] := concat(",", sort([n | some n, _ in data.kubernetes[%q]]))`, plural))
}

// withhold takes a permission of the operator's away, until the function that it returns is called or the spec ends.
func withhold(ctx context.Context, group, resource string) (restore func()) {
	GinkgoHelper()
	admin := context.WithoutCancel(ctx)
	role := &rbacv1.ClusterRole{}
	Expect(f.Client.Get(ctx, client.ObjectKey{Name: "berth-manager-role"}, role)).To(Succeed())
	less := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: framework.NewName("less")}}
	for _, rule := range role.Rules {
		if !slices.Contains(rule.APIGroups, group) || !slices.Contains(rule.Resources, resource) {
			less.Rules = append(less.Rules, rule)
		}
	}
	Expect(less.Rules).NotTo(HaveLen(len(role.Rules)))
	Expect(f.Client.Create(ctx, less)).To(Succeed())
	var taken []*rbacv1.ClusterRoleBinding
	for _, name := range []string{"berth-manager-rolebinding", "berth-test-wide"} {
		binding := &rbacv1.ClusterRoleBinding{}
		Expect(f.Client.Get(ctx, client.ObjectKey{Name: name}, binding)).To(Succeed())
		Expect(f.Client.Delete(ctx, binding.DeepCopy())).To(Succeed())
		binding.ResourceVersion, binding.UID = "", ""
		taken = append(taken, binding)
	}
	reduced := taken[0].DeepCopy()
	reduced.Name, reduced.RoleRef.Name = less.Name, less.Name
	Expect(f.Client.Create(ctx, reduced)).To(Succeed())
	restore = sync.OnceFunc(func() {
		for _, binding := range taken {
			Expect(f.Client.Create(admin, binding)).To(Succeed())
		}
		Expect(f.Client.Delete(admin, reduced)).To(Succeed())
		Expect(f.Client.Delete(admin, less)).To(Succeed())
	})
	DeferCleanup(restore)
	return restore
}

var _ = Describe("A replica that has just started", func() {
	It("decides nothing before it is ready, and everything after", func(ctx SpecContext) {
		_, rego := createBuoys(ctx, "b1", "b2")
		namespace := f.NewNamespace(ctx, nil)
		leads := func(o *setup.Options) { o.LeaderElection = true }
		first := f.StartReadyManager(ctx, leads)
		DeferCleanup(first.Stop)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("started"), rego, "", "configmaps", namespace))
		for range 5 {
			m := f.StartManager(ctx, leads)
			DeferCleanup(m.Stop)
			obj := framework.NewObject(framework.ConfigMap, namespace, "c", nil)
			// Every answer is the decision; whatever else comes before is an error to the API server.
			Eventually(func(g Gomega, ctx context.Context) {
				answer, err := ask(ctx, m, obj)
				g.Expect(err).NotTo(HaveOccurred())
				Expect(string(answer.Patch)).To(ContainSubstring("b1,b2"))
			}).WithContext(ctx).WithPolling(framework.Interval / 20).Should(Succeed())
			Eventually(m.Ready).WithContext(ctx).Should(Succeed())
		}
	})

	It("gives no answer and is not ready while it can't read the policies", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		leads := func(o *setup.Options) { o.LeaderElection = true }
		first := f.StartReadyManager(ctx, leads)
		stopFirst := sync.OnceFunc(first.Stop)
		DeferCleanup(stopFirst)
		name := framework.NewName("unread")
		f.CreateReadyPolicy(ctx, framework.NewPolicy(name, zone("a"), "", "configmaps", namespace))
		stopFirst()
		restore := withhold(ctx, placementv1.GroupVersion.Group, "placementpolicies")
		m := f.StartManager(ctx, leads)
		DeferCleanup(m.Stop)
		obj := framework.NewObject(framework.ConfigMap, namespace, "c", nil)
		Consistently(func(g Gomega, ctx context.Context) {
			_, err := ask(ctx, m, obj)
			g.Expect(err).To(HaveOccurred())
			g.Expect(m.Ready(ctx)).NotTo(Succeed())
		}).WithContext(ctx).Should(Succeed())
		Expect(f.Client.Create(ctx, obj.DeepCopy())).NotTo(Succeed())

		restore()
		Eventually(m.Ready).WithContext(ctx).Should(Succeed())
		Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal("a"))
	})

	It("takes away the rules of a policy that was deleted while nobody ran", func(ctx SpecContext) {
		first := f.StartReadyManager(ctx)
		stopFirst := sync.OnceFunc(first.Stop)
		DeferCleanup(stopFirst)
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("orphan")
		f.CreateReadyPolicy(ctx, framework.NewPolicy(name, zone("a"), "", "configmaps", namespace))
		Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal("a"))
		stopFirst()
		f.DeletePolicy(ctx, name)
		_, err := f.TryZone(ctx, namespace)
		Expect(err).To(HaveOccurred())
		start(ctx)
		Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(BeEmpty())
	})
})
