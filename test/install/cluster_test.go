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

package install_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/documents"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

// emergencyExit returns the commands that the documents give, as one line.
func emergencyExit() string {
	GinkgoHelper()
	blocks, err := documents.Read(root)
	Expect(err).NotTo(HaveOccurred())
	i := slices.IndexFunc(blocks, func(b documents.Block) bool { return b.File == "docs/install.md" && b.Heading == "The emergency exit" })
	Expect(i).NotTo(Equal(-1))
	commands, err := blocks[i].Commands()
	Expect(err).NotTo(HaveOccurred())
	Expect(commands).NotTo(BeEmpty())
	var lines []string
	for _, c := range commands {
		lines = append(lines, c.Line)
	}
	return strings.Join(lines, " && ")
}

func TestOnACluster(t *testing.T) {
	suite.Run(t, "Install")
}

// The webhook configurations that the operator makes.
const (
	placementHook = "mutatingwebhookconfiguration/berth-placement"
	policiesHook  = "validatingwebhookconfiguration/berth-policies"
	quotaHook     = "validatingwebhookconfiguration/berth-quota"
)

// One installation after the other, on one cluster. It has the controllers, the garbage collector among them, but no
// nodes: the operator runs as a process with the rights of the ServiceAccount that is installed.
var _ = Describe("Berth", Ordered, func() {
	var (
		f         *framework.Framework
		install   string
		namespace string
	)

	BeforeAll(func(ctx SpecContext) {
		f = framework.Start(ctx, func(o *controlplane.Options) { o.ControllerManager = true })
		DeferCleanup(f.Stop)
		var err error
		install, err = installer(GinkgoT().TempDir())
		Expect(err).NotTo(HaveOccurred())
	})

	shell := func(ctx context.Context, line string) string {
		GinkgoHelper()
		out, err := f.Shell(ctx, line)
		Expect(err).NotTo(HaveOccurred(), "%s: %s", line, out)
		return out
	}
	helm := func(ctx context.Context, args string) string {
		GinkgoHelper()
		path, err := toolPath("helm")
		Expect(err).NotTo(HaveOccurred())
		return shell(ctx, path+" "+args)
	}
	// run starts the operator as the installation has it, apart from where its webhooks are.
	run := func(ctx context.Context, d *appsv1.Deployment) *framework.Manager {
		GinkgoHelper()
		var installed setup.Options
		Expect(parse(&installed, d.Spec.Template.Spec.Containers[0].Args)).To(Succeed())
		Expect(installed.OwnerClusterRole).NotTo(BeEmpty())
		m := f.StartReadyManager(ctx, func(o *setup.Options) { o.OwnerClusterRole = installed.OwnerClusterRole })
		DeferCleanup(m.Stop)
		return m
	}
	deployment := func(ctx context.Context) *appsv1.Deployment {
		GinkgoHelper()
		d := &appsv1.Deployment{}
		Expect(f.Client.Get(ctx, client.ObjectKey{Namespace: framework.OperatorNamespace, Name: "berth-controller-manager"}, d)).To(Succeed())
		return d
	}
	// use makes a policy and a quota, and waits for their webhooks.
	use := func(ctx context.Context) {
		GinkgoHelper()
		namespace = f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy("zone", framework.Rego(`annotations["example.com/zone"] := "a"`), "", "pods", namespace))
		f.CreateReadyQuota(ctx, framework.NewScopedQuota(namespace, "few", placementv1.QuotaSpec{Hard: framework.Hard("pods", "5")}))
	}
	hooks := func(ctx context.Context) ([]string, error) {
		out, err := f.Kubectl(ctx, "", "get", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "-o",
			`jsonpath={range .items[*]}{.kind}/{.metadata.name} {end}`)
		return strings.Fields(strings.ToLower(out)), err
	}
	owner := func(ctx context.Context, hook client.Object) ([]metav1.OwnerReference, error) {
		err := f.Client.Get(ctx, client.ObjectKeyFromObject(hook), hook)
		return hook.GetOwnerReferences(), err
	}
	// create creates a pod that the policy matches and the quota counts.
	create := func(ctx context.Context) error {
		return f.Client.Create(ctx, framework.NewPod(namespace, "", nil), client.DryRunAll)
	}
	// expectOpen waits until no webhook configuration of Berth's is left, and expects that none comes back and a pod is created.
	expectOpen := func(ctx context.Context) {
		GinkgoHelper()
		Eventually(hooks).WithContext(ctx).Should(BeEmpty())
		Consistently(hooks).WithContext(ctx).WithTimeout(time.Second).Should(BeEmpty())
		Eventually(create).WithContext(ctx).Should(Succeed())
	}

	It("is installed from the manifests, and its pods are admitted", func(ctx SpecContext) {
		// The framework has installed what pods need no more than a process does.
		shell(ctx, "kubectl apply --server-side --dry-run=server --validate=strict --force-conflicts -f "+install)
		shell(ctx, "kubectl apply --server-side --validate=strict --force-conflicts -f "+install)
		Eventually(func(ctx context.Context) (int, error) {
			pods := &corev1.PodList{}
			err := f.Client.List(ctx, pods, client.InNamespace(framework.OperatorNamespace))
			return len(pods.Items), err
		}).WithContext(ctx).Should(Equal(2))
	})

	It("is taken by the API server as the chart renders it, with each value", func(ctx SpecContext) {
		values := filepath.Join(GinkgoT().TempDir(), "values.yaml")
		Expect(os.WriteFile(values, []byte(everything), 0o600)).To(Succeed())
		for _, args := range [][]string{
			{"--name-template", "berth"},
			// The Prometheus operator is not installed.
			{"--name-template", "other", "--values", values, "--set", "metrics.serviceMonitor.enabled=false,metrics.prometheusRule.enabled=false"},
		} {
			text, err := helmTemplate(append(args, "--include-crds")...)
			Expect(err).NotTo(HaveOccurred())
			f.MustKubectl(ctx, text, "apply", "--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts", "-f", "-")
		}
	})

	It("has its webhook configurations owned by its ClusterRole", func(ctx SpecContext) {
		run(ctx, deployment(ctx))
		use(ctx)
		Expect(hooks(ctx)).To(ConsistOf(placementHook, policiesHook, quotaHook))
		role := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}}
		Expect(f.Client.Get(ctx, client.ObjectKey{Name: "berth-manager-role"}, role)).To(Succeed())
		want := []metav1.OwnerReference{{APIVersion: role.APIVersion, Kind: role.Kind, Name: role.Name, UID: role.UID}}
		for _, hook := range []client.Object{
			&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "berth-placement"}},
			&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "berth-policies"}},
			&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "berth-quota"}},
		} {
			Expect(owner(ctx, hook)).To(Equal(want), hook.GetName())
			By("putting back an owner that somebody took from " + hook.GetName())
			hook.SetOwnerReferences(nil)
			Expect(f.Client.Update(ctx, hook)).To(Succeed())
			Eventually(owner).WithContext(ctx).WithArguments(hook).Should(Equal(want))
		}
	})

	It("stays closed when nothing of it runs, until the documented exit is taken", func(ctx SpecContext) {
		m := run(ctx, deployment(ctx))
		use(ctx)
		Eventually(create).WithContext(ctx).Should(Succeed())
		m.Stop()
		Eventually(create).WithContext(ctx).ShouldNot(Succeed())
		Expect(hooks(ctx)).To(ConsistOf(placementHook, policiesHook, quotaHook))
		Consistently(create).WithContext(ctx).ShouldNot(Succeed())

		// It opens also while the operator runs.
		run(ctx, deployment(ctx))
		Eventually(create).WithContext(ctx).Should(Succeed())
		shell(ctx, emergencyExit())
		Expect(hooks(ctx)).To(BeEmpty())
		Consistently(hooks).WithContext(ctx).Should(BeEmpty())
		Eventually(create).WithContext(ctx).Should(Succeed())

		By("closing the door again")
		shell(ctx, "kubectl apply --server-side --force-conflicts -f "+install)
		run(ctx, deployment(ctx))
		Eventually(hooks).WithContext(ctx).Should(ConsistOf(placementHook, policiesHook, quotaHook))
	})

	It("takes its webhook configurations with it, even while it runs", func(ctx SpecContext) {
		run(ctx, deployment(ctx))
		use(ctx)
		Expect(hooks(ctx)).To(ConsistOf(placementHook, policiesHook, quotaHook))
		shell(ctx, "kubectl delete clusterrole/berth-manager-role")
		Eventually(hooks).WithContext(ctx).Should(BeEmpty())
		Consistently(hooks).WithContext(ctx).Should(BeEmpty())

		By("owning them anew by the ClusterRole that follows")
		shell(ctx, "kubectl apply --server-side --force-conflicts -f "+install)
		run(ctx, deployment(ctx))
		Eventually(hooks).WithContext(ctx).Should(ConsistOf(placementHook, policiesHook, quotaHook))
		Consistently(hooks).WithContext(ctx).Should(ConsistOf(placementHook, policiesHook, quotaHook))
	})

	// left is what an installation consists of, as far as it is still there.
	left := func(ctx context.Context) (string, error) {
		out, err := f.Kubectl(ctx, "", "get", "customresourcedefinition,clusterrole,clusterrolebinding,namespace,mutatingwebhookconfiguration,validatingwebhookconfiguration", "-o", "name")
		var names []string
		for line := range strings.Lines(out) {
			// These two are the framework's own.
			if strings.Contains(line, "berth") && !strings.Contains(line, "/berth-dev-wide") && !strings.Contains(line, "/berth-test-wide") {
				names = append(names, strings.TrimSpace(line))
			}
		}
		return strings.Join(names, " "), err
	}

	It("leaves nothing behind when it is removed", func(ctx SpecContext) {
		run(ctx, deployment(ctx))
		use(ctx)
		Expect(hooks(ctx)).To(ConsistOf(placementHook, policiesHook, quotaHook))
		shell(ctx, "make undeploy")
		expectOpen(ctx)
		Eventually(left).WithContext(ctx).Should(BeEmpty())
		Consistently(left).WithContext(ctx).Should(BeEmpty())
		By("removing what is no more there")
		shell(ctx, "make undeploy ignore-not-found=true")
	})

	// Each case deletes some objects first, in the order of the list, and all others in a random order. A rendering of the
	// manifests has them by kind and name.
	DescribeTable("has no webhook left when its objects are deleted in any order", func(ctx SpecContext, stop bool, first ...string) {
		shell(ctx, "kubectl apply --server-side --force-conflicts -f "+install)
		text, err := os.ReadFile(install)
		Expect(err).NotTo(HaveOccurred())
		all, err := decode(string(text))
		Expect(err).NotTo(HaveOccurred())
		m := run(ctx, deployment(ctx))
		use(ctx)
		Expect(hooks(ctx)).To(ConsistOf(placementHook, policiesHook, quotaHook))
		By("granting it other rights, which it keeps")
		f.MustKubectl(ctx, "", "create", "clusterrolebinding", "other-rights", "--clusterrole=cluster-admin", "--serviceaccount="+framework.OperatorNamespace+":berth-controller-manager")
		DeferCleanup(func(ctx SpecContext) { f.MustKubectl(ctx, "", "delete", "clusterrolebinding", "other-rights") })
		all["the policy"] = &placementv1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "zone"}}
		all["the quota"] = &placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "few"}}
		rest := slices.Sorted(maps.Keys(all))
		random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 0))
		random.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
		early := func(name string) bool {
			return slices.ContainsFunc(first, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		}
		position := func(name string) int {
			return slices.IndexFunc(first, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		}
		order := slices.SortedStableFunc(slices.Values(rest), func(a, b string) int {
			switch {
			case early(a) && early(b):
				return position(a) - position(b)
			case early(a):
				return -1
			case early(b):
				return 1
			}
			return 0
		})
		GinkgoWriter.Println("the order:", strings.Join(order, ", "))
		for i, name := range order {
			if stop && (i == len(order)-1 || !early(name)) {
				m.Stop()
				stop = false
			}
			Expect(client.IgnoreNotFound(f.Client.Delete(ctx, all[name], client.PropagationPolicy(metav1.DeletePropagationBackground)))).To(Succeed(), name)
		}
		expectOpen(ctx)
		Eventually(left).WithContext(ctx).Should(BeEmpty())
	},
		Entry("the definitions first, while it runs on", false, "CustomResourceDefinition/"),
		Entry("its ClusterRoles first, while it runs on", false, "ClusterRole/"),
		Entry("its Deployment and its namespace first, and the policies and quotas when it is gone", true, "Deployment/", "Namespace/"),
	)

	It("has no webhook left when everything is deleted at once", func(ctx SpecContext) {
		shell(ctx, "kubectl apply --server-side --force-conflicts -f "+install)
		run(ctx, deployment(ctx))
		use(ctx)
		Expect(hooks(ctx)).To(ConsistOf(placementHook, policiesHook, quotaHook))
		// kubectl may find that the namespace controller has deleted some of the namespace's objects already.
		shell(ctx, "kubectl delete --ignore-not-found -f "+install)
		expectOpen(ctx)
		Eventually(left).WithContext(ctx).Should(BeEmpty())
	})

	It("is installed by Helm, and leaves nothing behind but what Helm keeps", func(ctx SpecContext) {
		helm(ctx, "install berth charts/berth --namespace berth-system --create-namespace --dry-run=server --set replicas=3")
		helm(ctx, "install berth charts/berth --namespace berth-system --create-namespace")
		shell(ctx, "kubectl label namespace berth-system pod-security.kubernetes.io/enforce=restricted")
		Eventually(func(ctx context.Context) error {
			return f.Client.Get(ctx, client.ObjectKey{Namespace: "berth-system", Name: "berth-controller-manager"}, &corev1.ServiceAccount{})
		}).WithContext(ctx).Should(Succeed())
		run(ctx, deployment(ctx))
		use(ctx)
		Expect(hooks(ctx)).To(ConsistOf(placementHook, policiesHook, quotaHook))

		By("upgrading it with other values")
		helm(ctx, "upgrade berth charts/berth --namespace berth-system --set replicas=3,networkPolicy.enabled=false --set-json '"+
			`rbac.extraRules=[{"apiGroups":[""],"resources":["persistentvolumes"],"verbs":["get","list","watch"]}]'`)
		Eventually(func(ctx context.Context) (string, error) {
			return f.Kubectl(ctx, "", "get", "clusterrole/berth-workloads", "-o", "yaml")
		}).WithContext(ctx).Should(ContainSubstring("persistentvolumes"))
		Eventually(func(ctx context.Context) (int, error) {
			pods := &corev1.PodList{}
			err := f.Client.List(ctx, pods, client.InNamespace("berth-system"))
			return len(pods.Items), err
		}).WithContext(ctx).Should(Equal(3))

		placed := framework.NewPod(namespace, "placed", func(p *corev1.Pod) { p.Annotations = map[string]string{"example.com/zone": "mine"} })
		Eventually(func(ctx context.Context) error { return f.Client.Create(ctx, placed) }).WithContext(ctx).Should(Succeed())
		Expect(placed.Annotations).To(HaveKeyWithValue("example.com/zone", "a"))
		helm(ctx, "uninstall berth --namespace berth-system")
		expectOpen(ctx)
		By("removing what it wrote, with the key that Helm leaves")
		f.InstallPlugin(ctx)
		f.MustKubectl(ctx, "", "berth", "cleanup", "--all-namespaces", "--yes")
		Expect(f.Client.Get(ctx, client.ObjectKeyFromObject(placed), placed)).To(Succeed())
		Expect(placed.Annotations).To(Equal(map[string]string{"example.com/zone": "mine"}))
		Expect(f.Client.Get(ctx, client.ObjectKey{Name: "zone"}, &placementv1.PlacementPolicy{})).To(Succeed())
		shell(ctx, "kubectl delete namespace berth-system")
		shell(ctx, "kubectl delete -f charts/berth/crds")
		Eventually(left).WithContext(ctx).Should(BeEmpty())
		err := f.Client.Get(ctx, client.ObjectKey{Namespace: "berth-system", Name: "berth-controller-manager"}, &appsv1.Deployment{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	})
})
