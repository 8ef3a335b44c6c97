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

package plugin_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// tenantOf returns the path of a kubeconfig of a user with the ClusterRoles edit and view in a namespace. As no controller aggregates
// ClusterRoles here, the user has those of which they consist.
func tenantOf(ctx context.Context, namespace string) string {
	GinkgoHelper()
	user := "tenant-of-" + namespace
	for _, role := range []string{"system:aggregate-to-edit", "system:aggregate-to-view", "berth-scopedquota-viewer-role"} {
		f.MustKubectl(ctx, "", "create", "rolebinding", strings.ReplaceAll(role, ":", "-"), "-n", namespace, "--clusterrole="+role, "--user="+user)
	}
	kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	text, err := f.Plane.Kubeconfig(user)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(kubeconfig, text, 0o600)).To(Succeed())
	return kubeconfig
}

// These specs see what a user with the ClusterRole edit in a namespace can know, as docs/tenants.md says it.
var _ = Describe("A tenant", func() {
	var namespace, kubeconfig string
	tenant := func(ctx context.Context, args ...string) (string, error) {
		return f.Kubectl(ctx, "", append(args, "-n", namespace, "--kubeconfig", kubeconfig)...)
	}
	BeforeEach(func(ctx SpecContext) {
		namespace = f.NewNamespace(ctx, map[string]string{"team": framework.NewName("team")})
		kubeconfig = tenantOf(ctx, namespace)
	})

	It("sees what is recorded at an object, and what policies decide for a manifest, without rights on policies", func(ctx SpecContext) {
		p := framework.NewPolicy(framework.NewName("tiers"), `package p

labels.tier := "gold"

errors contains "no bronze here" if input.metadata.labels.tier == "bronze"
`, "apps", "deployments", namespace)
		p.Spec.Remediation.Mode = placementv1.RemediationAutomatic
		web := framework.NewObject(framework.Deployment, namespace, "web", nil)
		Expect(f.Client.Create(ctx, web)).To(Succeed())
		f.CreateReadyPolicy(ctx, p)
		Eventually(tenant).WithContext(ctx).WithArguments("berth", "explain", "deployment/web").Should(And(
			ContainSubstring("This is what Berth recorded at the object."), ContainSubstring("label tier: gold\n    decided by "+p.Name+"; requested: (none)"),
			ContainSubstring("PlacementRemediated"), ContainSubstring("bind the ClusterRole whose name ends with placementpolicy-viewer-role to you")))
		out, err := tenant(ctx, "berth", "explain", "deployment/web", "-o", "json")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(And(ContainSubstring(`"recorded": true`), ContainSubstring(`"policy": "`+p.Name+`"`)))
		out, err = tenant(ctx, "berth", "explain", "deployment/wbe")
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring(`"wbe" not found`))

		By("naming the way to know more, where nothing is recorded")
		text, err := json.Marshal(framework.NewObject(framework.Deployment, namespace, "api", nil))
		Expect(err).NotTo(HaveOccurred())
		manifest := filepath.Join(GinkgoT().TempDir(), "api.json")
		Expect(os.WriteFile(manifest, text, 0o600)).To(Succeed())
		for _, args := range [][]string{{"violations"}, {"plan", p.Name}, {"whatif", "-f", manifest}, {"explain", "-f", manifest}} {
			out, err := tenant(ctx, append([]string{"berth"}, args...)...)
			Expect(err).To(HaveOccurred())
			Expect(out).To(ContainSubstring("kubectl apply --dry-run=server -o yaml -f FILE"), "%v", args)
		}
		out, err = tenant(ctx, "apply", "--dry-run=server", "-o", "yaml", "-f", manifest)
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(ContainSubstring("tier: gold"))
		out, err = tenant(ctx, "label", "deployment/web", "tier=bronze", "--overwrite", "--dry-run=server")
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring("no bronze here"))
	})

	It("sees the own quotas, and those that the namespace shares if an administrator permits it", func(ctx SpecContext) {
		f.CreateReadyQuota(ctx, framework.NewScopedQuota(namespace, "own", placementv1.QuotaSpec{Hard: framework.Hard("count/deployments.apps", "5")}))
		team := f.MustKubectl(ctx, "", "get", "namespace", namespace, "-o", "jsonpath={.metadata.labels.team}")
		shared := &placementv1.ClusterScopedQuota{ObjectMeta: metav1.ObjectMeta{Name: team}, Spec: placementv1.ClusterScopedQuotaSpec{
			QuotaSpec:         placementv1.QuotaSpec{Hard: framework.Hard("count/deployments.apps", "3")},
			NamespaceSelector: &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"team": placementv1.LabelValue(team)}},
		}}
		f.CreateReadyQuota(ctx, shared)
		Expect(f.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, "web", nil))).To(Succeed())
		Eventually(tenant).WithContext(ctx).WithArguments("berth", "quotas").Should(And(
			MatchRegexp(`ScopedQuota own +Enforce +count/deployments.apps +1 +1 +5 +4`), Not(ContainSubstring(shared.Name)),
			ContainSubstring("bind the ClusterRole whose name ends with clusterscopedquota-viewer-role to you")))

		By("reading the only one that it shares")
		user := "tenant-of-" + namespace
		f.MustKubectl(ctx, "", "create", "clusterrole", user, "--verb=get", "--resource=clusterscopedquotas.placement.berth.dev", "--resource-name="+shared.Name)
		DeferCleanup(func(ctx SpecContext) { f.MustKubectl(ctx, "", "delete", "clusterrole", user) })
		f.MustKubectl(ctx, "", "create", "clusterrolebinding", user, "--clusterrole="+user, "--user="+user)
		DeferCleanup(func(ctx SpecContext) { f.MustKubectl(ctx, "", "delete", "clusterrolebinding", user) })
		Eventually(tenant).WithContext(ctx).WithArguments("get", "csquota", shared.Name).Should(ContainSubstring("1/3"))

		By("reading all of them")
		f.MustKubectl(ctx, "", "create", "clusterrolebinding", user+"-all", "--clusterrole=berth-clusterscopedquota-viewer-role", "--user="+user)
		DeferCleanup(func(ctx SpecContext) { f.MustKubectl(ctx, "", "delete", "clusterrolebinding", user+"-all") })
		Eventually(tenant).WithContext(ctx).WithArguments("berth", "quotas").Should(And(
			MatchRegexp(`ClusterScopedQuota %s +Enforce +count/deployments.apps +1 +1 +3 +2`, shared.Name), Not(ContainSubstring("may not"))))
	})

	It("sees policies, and what is recorded at objects, with the right to read policies alone", func(ctx SpecContext) {
		p := framework.NewPolicy(framework.NewName("tiers"), `package p

labels.tier := "gold"
`, "apps", "deployments", namespace)
		f.CreateReadyPolicy(ctx, p)
		Expect(f.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, "web", nil))).To(Succeed())
		user := "tenant-of-" + namespace
		f.MustKubectl(ctx, "", "create", "clusterrolebinding", user, "--clusterrole=berth-placementpolicy-viewer-role", "--user="+user)
		DeferCleanup(func(ctx SpecContext) { f.MustKubectl(ctx, "", "delete", "clusterrolebinding", user) })
		Eventually(tenant).WithContext(ctx).WithArguments("get", "plpol", p.Name).Should(ContainSubstring(p.Name))
		Expect(tenant(ctx, "berth", "explain", "deployment/web")).To(And(
			ContainSubstring("This is what Berth recorded at the object."), ContainSubstring("label tier: gold\n    decided by "+p.Name+"; requested: (none)\n"),
			ContainSubstring("you may not list namespaces")))
	})
})
