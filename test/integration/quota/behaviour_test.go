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

package quota_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// soon is how long a change may take to be in the status: a second, and more on a machine that does much else. All quotas are counted
// again each five minutes.
const soon = time.Minute

func expectUsed(ctx context.Context, q placementv1.Quota, pairs ...string) {
	GinkgoHelper()
	want := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		want[pairs[i]] = pairs[i+1]
	}
	Eventually(func(ctx context.Context) (map[string]string, error) { return used(ctx, q) }).
		WithContext(ctx).WithTimeout(soon).WithPolling(20 * time.Millisecond).Should(Equal(want))
}

func remove(ctx context.Context, o client.Object) {
	GinkgoHelper()
	Expect(f.Client.Delete(ctx, o, client.GracePeriodSeconds(0))).To(Succeed())
}

var _ = Describe("A ScopedQuota", Label("versions"), func() {
	It("admits and denies, and says at once what is used", func(ctx SpecContext) {
		namespace := newNamespace(ctx, nil)
		q := newQuota(namespace, "q", placementv1.QuotaSpec{Hard: hard("pods", "2", "requests.cpu", "1")})
		createReady(ctx, q)
		expectUsed(ctx, q, "pods", "0", "requests.cpu", "0")

		first := newPod(namespace, "first", withCPU("600m"))
		Expect(f.Client.Create(ctx, first)).To(Succeed())
		Expect(used(ctx, q)).To(Equal(map[string]string{"pods": "1", "requests.cpu": "600m"}))
		Expect(f.Client.Create(ctx, newPod(namespace, "greedy", withCPU("500m")))).To(
			forbidden("exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1"))
		Expect(f.Client.Create(ctx, newPod(namespace, "silent", nil))).To(forbidden("failed quota: q: must specify requests.cpu for: c"))
		Expect(used(ctx, q)).To(Equal(map[string]string{"pods": "1", "requests.cpu": "600m"}))

		By("never charging a dry run")
		Expect(f.Client.Create(ctx, newPod(namespace, "dry", withCPU("100m")), client.DryRunAll)).To(Succeed())
		Expect(f.Client.Create(ctx, newPod(namespace, "dry", withCPU("500m")), client.DryRunAll)).To(forbidden("exceeded quota"))
		Expect(used(ctx, q)).To(Equal(map[string]string{"pods": "1", "requests.cpu": "600m"}))

		By("giving back what is deleted or finished")
		second := newPod(namespace, "second", withCPU("400m"))
		Expect(f.Client.Create(ctx, second)).To(Succeed())
		second.Status.Phase = corev1.PodSucceeded
		Expect(f.Client.Status().Update(ctx, second)).To(Succeed())
		expectUsed(ctx, q, "pods", "1", "requests.cpu", "600m")
		remove(ctx, first)
		expectUsed(ctx, q, "pods", "0", "requests.cpu", "0")

		By("settling the reservations")
		Eventually(func(ctx context.Context) ([]placementv1.Reservation, error) {
			err := f.Client.Get(ctx, client.ObjectKeyFromObject(q), q)
			return q.Status.Reservations, err
		}).WithContext(ctx).Should(BeEmpty())
	})

	It("counts what exists when it comes, and anew when its spec changes", func(ctx SpecContext) {
		namespace := newNamespace(ctx, nil)
		createPriorityClass(ctx, "gold")
		for i := range 3 {
			Expect(f.Client.Create(ctx, newPod(namespace, fmt.Sprint("plain-", i), nil))).To(Succeed())
		}
		Expect(f.Client.Create(ctx, newPod(namespace, "gold", withPriority("gold")))).To(Succeed())
		q := newQuota(namespace, "q", placementv1.QuotaSpec{Hard: hard("pods", "2")})
		createReady(ctx, q)
		expectUsed(ctx, q, "pods", "4")
		Expect(meta.FindStatusCondition(q.Status.Conditions, placementv1.ConditionExceeded)).To(HaveValue(SatisfyAll(
			HaveField("Status", metav1.ConditionTrue), HaveField("Message", ContainSubstring("pods: 4 of 2")))))
		Expect(f.Client.Create(ctx, newPod(namespace, "more", nil))).To(forbidden("exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=2"))

		base := q.DeepCopy()
		q.Spec.ScopeSelector = scope(corev1.ResourceQuotaScopePriorityClass, corev1.ScopeSelectorOpIn, "gold")
		Expect(f.Client.Patch(ctx, q, client.MergeFrom(base))).To(Succeed())
		expectUsed(ctx, q, "pods", "1")
		awaitReady(ctx, q)
		Expect(meta.IsStatusConditionFalse(q.Status.Conditions, placementv1.ConditionExceeded)).To(BeTrue())
		Expect(f.Client.Create(ctx, newPod(namespace, "more", nil))).To(Succeed())
		Expect(f.Client.Create(ctx, newPod(namespace, "gold-2", withPriority("gold")))).To(Succeed())
		Expect(f.Client.Create(ctx, newPod(namespace, "gold-3", withPriority("gold")))).To(forbidden("exceeded quota: q"))
	})

	It("switches the scope of a pod that is given a deadline", func(ctx SpecContext) {
		namespace := newNamespace(ctx, nil)
		terminating := newQuota(namespace, "terminating", placementv1.QuotaSpec{Hard: hard("pods", "1"), Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}})
		createReady(ctx, terminating)
		a, b := newPod(namespace, "a", nil), newPod(namespace, "b", nil)
		Expect(f.Client.Create(ctx, a)).To(Succeed())
		Expect(f.Client.Create(ctx, b)).To(Succeed())
		deadline := func(pod *corev1.Pod) error {
			base := pod.DeepCopy()
			pod.Spec.ActiveDeadlineSeconds = new(int64(3600))
			return f.Client.Patch(ctx, pod, client.MergeFrom(base))
		}
		Expect(deadline(a)).To(Succeed())
		Expect(used(ctx, terminating)).To(Equal(map[string]string{"pods": "1"}))
		Expect(deadline(b)).To(forbidden("exceeded quota: terminating"))
	})

	It("follows a resize", func(ctx SpecContext) {
		f.SkipUnlessServed("v1", "pods/resize", "Kubernetes serves it from 1.33 on, see docs/install.md")
		namespace := newNamespace(ctx, nil)
		cpu := newQuota(namespace, "cpu", placementv1.QuotaSpec{Hard: hard("requests.cpu", "2")})
		createReady(ctx, cpu)
		a := newPod(namespace, "a", withCPU("500m"))
		Expect(f.Client.Create(ctx, a)).To(Succeed())
		Expect(f.Client.Create(ctx, newPod(namespace, "b", withCPU("500m")))).To(Succeed())
		resize := func(to string) error {
			return f.Client.SubResource("resize").Patch(ctx, a, client.RawPatch("application/strategic-merge-patch+json",
				[]byte(`{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"`+to+`"}}}]}}`)))
		}
		Expect(resize("1500m")).To(Succeed())
		Expect(used(ctx, cpu)).To(Equal(map[string]string{"requests.cpu": "2"}))
		Expect(resize("1600m")).To(forbidden("exceeded quota: cpu, requested: requests.cpu=100m, used: requests.cpu=2, limited: requests.cpu=2"))
		Expect(resize("1")).To(Succeed())
		expectUsed(ctx, cpu, "requests.cpu", "1500m")
	})

	It("must be satisfied together with every other", func(ctx SpecContext) {
		namespace := newNamespace(ctx, nil)
		wide := newQuota(namespace, "wide", placementv1.QuotaSpec{Hard: hard("pods", "5")})
		narrow := newQuota(namespace, "narrow", placementv1.QuotaSpec{Hard: hard("count/pods", "1")})
		createReady(ctx, wide)
		createReady(ctx, narrow)
		Expect(f.Client.Create(ctx, newPod(namespace, "a", nil))).To(Succeed())
		Expect(f.Client.Create(ctx, newPod(namespace, "b", nil))).To(forbidden("exceeded quota: narrow"))
		Expect(used(ctx, wide)).To(Equal(map[string]string{"pods": "1"}))
	})

	It("names a PriorityClass that does not exist", func(ctx SpecContext) {
		namespace := newNamespace(ctx, nil)
		q := newQuota(namespace, "q", placementv1.QuotaSpec{
			Hard: hard("pods", "0"), ScopeSelector: scope(corev1.ResourceQuotaScopePriorityClass, corev1.ScopeSelectorOpIn, "no-such-class"),
		})
		createReady(ctx, q)
		Expect(f.Client.Create(ctx, newPod(namespace, "a", nil))).To(Succeed())
	})

	It("warns or only counts in the other modes", func(ctx SpecContext) {
		namespace := newNamespace(ctx, nil)
		warn := newQuota(namespace, "soft", placementv1.QuotaSpec{Hard: hard("configmaps", "0"), Mode: placementv1.ModeWarn})
		quiet := newQuota(namespace, "quiet", placementv1.QuotaSpec{Hard: hard("configmaps", "0"), Mode: placementv1.ModeDryRun})
		createReady(ctx, warn)
		createReady(ctx, quiet)
		out := f.MustKubectl(ctx, "", "create", "configmap", "a", "-n", namespace)
		Expect(out).To(ContainSubstring("Warning: quota soft (mode Warn) would deny: exceeded quota: soft, requested: configmaps=1, used: configmaps=0, limited: configmaps=0"))
		Expect(out).NotTo(ContainSubstring("quiet"))
		expectUsed(ctx, warn, "configmaps", "1")
		expectUsed(ctx, quiet, "configmaps", "1")
	})

	It("shows itself to kubectl", func(ctx SpecContext) {
		namespace := newNamespace(ctx, nil)
		q := newQuota(namespace, "q", placementv1.QuotaSpec{Hard: hard("pods", "3", "requests.cpu", "2", "services", "1", "secrets", "4")})
		createReady(ctx, q)
		Expect(f.Client.Create(ctx, newPod(namespace, "a", withCPU("100m")))).To(Succeed())
		expectUsed(ctx, q, "pods", "1", "requests.cpu", "100m", "services", "0", "secrets", "0")
		Eventually(func(g Gomega, ctx context.Context) {
			lines := strings.Split(strings.TrimSpace(f.MustKubectl(ctx, "", "get", "squota", "-n", namespace)), "\n")
			g.Expect(strings.Fields(lines[0])).To(Equal([]string{"NAME", "USED/HARD", "READY", "AGE"}))
			g.Expect(lines[1]).To(MatchRegexp(`^q +pods: 1/3, requests.cpu: 100m/2, secrets: 0/4, \+1 more +True +\d+s`))
		}).WithContext(ctx).Should(Succeed())
		Expect(f.MustKubectl(ctx, "", "get", "squota", "q", "-n", namespace, "-o", "jsonpath={.status.module.digest}")).To(HavePrefix("sha256:"))
		Expect(f.MustKubectl(ctx, "", "get", "squota", "q", "-n", namespace, "-o", "jsonpath={.status.module.rego}")).To(SatisfyAll(
			HavePrefix("# Generated by Berth from ScopedQuota "+namespace+"/q. Changes are lost.\npackage berth.quota\n"),
			ContainSubstring(`"requests.cpu": "2",`)))
	})

	It("tells of denials in Events and metrics", func(ctx SpecContext) {
		namespace := newNamespace(ctx, nil)
		q := newQuota(namespace, "q", placementv1.QuotaSpec{Hard: hard("configmaps", "0")})
		createReady(ctx, q)
		Expect(f.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}})).To(forbidden("exceeded quota: q"))
		Eventually(func(ctx context.Context) ([]eventsv1.Event, error) {
			list := &eventsv1.EventList{}
			err := f.Client.List(ctx, list, client.InNamespace(namespace))
			return list.Items, err
		}).WithContext(ctx).Should(ContainElement(SatisfyAll(
			HaveField("Reason", "QuotaDenied"), HaveField("Type", corev1.EventTypeWarning),
			HaveField("Regarding.Kind", "ScopedQuota"), HaveField("Regarding.Name", "q"),
			HaveField("Note", "in namespace "+namespace+": exceeded quota: q, requested: configmaps=1, used: configmaps=0, limited: configmaps=0"),
		)))
		Expect(operator.Series("berth_quota_denials_total", `kind="ScopedQuota"`, `namespace="`+namespace+`"`, `name="q"`)).To(HaveLen(1))
		Expect(operator.Series("berth_quota_hard", `namespace="`+namespace+`"`, `resource="configmaps"`)).To(HaveLen(1))
		Expect(operator.Series("berth_quota_used", `namespace="`+namespace+`"`, `resource="configmaps"`)).To(HaveLen(1))
		remove(ctx, q)
		Eventually(func() (map[string]float64, error) {
			return operator.Series("berth_quota_denials_total", `namespace="`+namespace+`"`)
		}).Should(BeEmpty())
		Expect(operator.Series("berth_quota_used", `namespace="`+namespace+`"`)).To(BeEmpty())
	})

	It("corrects what a stranger writes into its status, and counts that as drift", func(ctx SpecContext) {
		namespace := newNamespace(ctx, nil)
		q := newQuota(namespace, "q", placementv1.QuotaSpec{Hard: hard("configmaps", "10")})
		createReady(ctx, q)
		expectUsed(ctx, q, "configmaps", "0")
		q.Status.Used = hard("configmaps", "7")
		Expect(f.Client.Status().Update(ctx, q)).To(Succeed())
		expectUsed(ctx, q, "configmaps", "0")
		Eventually(func() (map[string]float64, error) {
			return operator.Series("berth_quota_drift_total", `namespace="`+namespace+`"`, `name="q"`)
		}).Should(HaveLen(1))
	})

	It("says what it can't count", func(ctx SpecContext) {
		namespace := newNamespace(ctx, nil)
		q := newQuota(namespace, "q", placementv1.QuotaSpec{Hard: hard("nvidia.com/gpu", "1", "configmaps", "1")})
		Expect(f.Client.Create(ctx, q)).To(Succeed())
		Eventually(func(ctx context.Context) (*metav1.Condition, error) {
			err := f.Client.Get(ctx, client.ObjectKeyFromObject(q), q)
			return meta.FindStatusCondition(q.Status.Conditions, placementv1.ConditionReady), err
		}).WithContext(ctx).Should(HaveValue(SatisfyAll(
			HaveField("Status", metav1.ConditionFalse), HaveField("Reason", placementv1.ReasonNotTracked), HaveField("Message", ContainSubstring("nvidia.com/gpu")))))
		Expect(used(ctx, q)).To(Equal(map[string]string{"configmaps": "0"}))
	})

	It("is not ready as long as one of its names counts nothing", func(ctx SpecContext) {
		for _, test := range []struct{ name, reason, message string }{
			{"count/services.loadbalancers", placementv1.ReasonPartlyServed, "did you mean services.loadbalancers, without count/?"},
			{"count/gadget.quota.example.net", placementv1.ReasonPartlyServed, "gadget.quota.example.net"},
			{"count/deployments", placementv1.ReasonPartlyServed, "did you mean deployments.apps?"},
			{"nvidia.com/gpu", placementv1.ReasonNotTracked, "did you mean requests.nvidia.com/gpu?"},
			{"limits.nvidia.com/gpu", placementv1.ReasonNotTracked, "did you mean requests.nvidia.com/gpu?"},
		} {
			By(test.name)
			namespace := newNamespace(ctx, nil)
			q := newQuota(namespace, "q", placementv1.QuotaSpec{Hard: hard(test.name, "0", "configmaps", "1")})
			Expect(f.Client.Create(ctx, q)).To(Succeed())
			Eventually(func(ctx context.Context) (*metav1.Condition, error) {
				err := f.Client.Get(ctx, client.ObjectKeyFromObject(q), q)
				return meta.FindStatusCondition(q.Status.Conditions, placementv1.ConditionReady), err
			}).WithContext(ctx).Should(HaveValue(SatisfyAll(
				HaveField("Status", metav1.ConditionFalse), HaveField("Reason", test.reason), HaveField("Message", ContainSubstring(test.message)))))
			Expect(used(ctx, q)).To(HaveKeyWithValue("configmaps", "0"))
			Expect(f.Client.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})).To(Succeed())
		}
	})

	It("reports a denied request once, whatever other quotas the namespace has", func(ctx SpecContext) {
		namespace := newNamespace(ctx, map[string]string{"reports": "once"})
		selector := &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"reports": "once"}}
		denies := newQuota(namespace, "denies", placementv1.QuotaSpec{Hard: hard("secrets", "0")})
		createReady(ctx, denies)
		for _, mode := range []placementv1.Mode{placementv1.ModeDryRun, placementv1.ModeWarn} {
			createReady(ctx, newQuota(namespace, strings.ToLower(string(mode)), placementv1.QuotaSpec{Hard: hard("secrets", "0"), Mode: mode}))
		}
		for _, mode := range []placementv1.Mode{placementv1.ModeDryRun, placementv1.ModeEnforce} {
			createReady(ctx, &placementv1.ClusterScopedQuota{
				ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(string(mode)) + "-" + namespace},
				Spec:       placementv1.ClusterScopedQuotaSpec{NamespaceSelector: selector, QuotaSpec: placementv1.QuotaSpec{Hard: hard("secrets", "0"), Mode: mode}},
			})
		}
		for i := range 2 {
			Expect(f.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("s-", i)}})).To(forbidden("exceeded quota: denies"))
			Expect(operator.Series("berth_quota_denials_total", `kind="ScopedQuota"`, `namespace="`+namespace+`"`)).To(HaveEach(float64(i + 1)))
			Expect(operator.Series("berth_quota_denials_total", `kind="ClusterScopedQuota"`, `name="enforce-`+namespace+`"`)).To(HaveEach(float64(i + 1)))
		}
		Eventually(func(ctx context.Context) ([]eventsv1.Event, error) {
			list := &eventsv1.EventList{}
			err := f.Client.List(ctx, list, client.InNamespace(namespace))
			return list.Items, err
		}).WithContext(ctx).Should(ContainElement(SatisfyAll(
			HaveField("Reason", "QuotaDenied"), HaveField("Regarding.Name", "denies"), HaveField("Series", HaveField("Count", int32(2))))))
	})

	It("ends the reservations of a type that goes away", func(ctx SpecContext) {
		namespace := newNamespace(ctx, map[string]string{"gizmos": "yes"})
		const name, other = "count/gizmos.quota.example.com", "count/gismos.quota.example.com"
		q := newQuota(namespace, "q", placementv1.QuotaSpec{Hard: hard(name, "1", other, "2")})
		cluster := &placementv1.ClusterScopedQuota{ObjectMeta: metav1.ObjectMeta{Name: "q-" + namespace}}
		cluster.Spec.NamespaceSelector = &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"gizmos": "yes"}}
		cluster.Spec.Hard = hard(name, "1")
		install := func() {
			GinkgoHelper()
			f.InstallCRD(ctx, framework.NewCRD("quota.example.com", "v1", "gizmos", "Gizmo", apiextensionsv1.NamespaceScoped))
		}
		install()
		f.InstallCRD(ctx, framework.NewCRD("quota.example.com", "v1", "gismos", "Gismo", apiextensionsv1.NamespaceScoped))
		DeferCleanup(func(ctx SpecContext) {
			f.UninstallCRD(ctx, "gizmos.quota.example.com")
			f.UninstallCRD(ctx, "gismos.quota.example.com")
		})
		createReady(ctx, q)
		createReady(ctx, cluster)
		create := func(kind, name string, options ...client.CreateOption) error {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(schema.GroupVersionKind{Group: "quota.example.com", Version: "v1", Kind: kind})
			o.SetNamespace(namespace)
			o.SetName(name)
			return f.Client.Create(ctx, o, options...)
		}
		reserved := func(ctx context.Context, q placementv1.Quota) ([]string, error) {
			o, _ := q.(client.Object)
			err := f.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
			var names []string
			for _, r := range q.QuotaStatus().Reservations {
				names = append(names, r.Resource)
			}
			slices.Sort(names)
			return slices.Compact(names), err
		}

		// The API server evaluates a ResourceQuota after the webhooks, so that charges remain for objects that never come.
		refuses := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "refuses"}, Spec: corev1.ResourceQuotaSpec{Hard: hard(name, "0", other, "0")}}
		Expect(f.Client.Create(ctx, refuses)).To(Succeed())
		refuses.Status = corev1.ResourceQuotaStatus{Hard: refuses.Spec.Hard, Used: refuses.Spec.Hard}
		Expect(f.Client.Status().Update(ctx, refuses)).To(Succeed())
		for _, kind := range []string{"Gizmo", "Gismo"} {
			// The API server does not know the ResourceQuota at once. Berth does not charge dry runs.
			Eventually(create).WithArguments(kind, "one", client.DryRunAll).Should(forbidden("exceeded quota: refuses"))
		}
		Expect(create("Gizmo", "one")).To(forbidden("exceeded quota: refuses"))
		Expect(create("Gismo", "one")).To(forbidden("exceeded quota: refuses"))
		Expect(reserved(ctx, q)).To(ConsistOf("gizmos.quota.example.com", "gismos.quota.example.com"))
		Expect(reserved(ctx, cluster)).To(ConsistOf("gizmos.quota.example.com"))
		remove(ctx, refuses)

		f.UninstallCRD(ctx, "gizmos.quota.example.com")
		Eventually(reserved).WithContext(ctx).WithArguments(cluster).Should(BeEmpty())
		Eventually(reserved).WithContext(ctx).WithArguments(q).Should(ConsistOf("gismos.quota.example.com"))
		install()
		Eventually(used).WithContext(ctx).WithArguments(q).Should(Equal(map[string]string{name: "0", other: "1"}))
		Eventually(used).WithContext(ctx).WithArguments(cluster).Should(Equal(map[string]string{name: "0"}))
		awaitReady(ctx, q)
		Eventually(func() error { return create("Gizmo", "one") }).Should(Succeed())
		Expect(create("Gizmo", "two")).To(forbidden("exceeded quota: q"))
	})

	It("counts objects of a type that is installed later", func(ctx SpecContext) {
		namespace := newNamespace(ctx, nil)
		q := newQuota(namespace, "q", placementv1.QuotaSpec{Hard: hard("count/gadgets.quota.example.com", "1")})
		Expect(f.Client.Create(ctx, q)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(f.Client.Delete(ctx, q))).To(Succeed()) })
		Eventually(func(ctx context.Context) (*metav1.Condition, error) {
			err := f.Client.Get(ctx, client.ObjectKeyFromObject(q), q)
			return meta.FindStatusCondition(q.Status.Conditions, placementv1.ConditionReady), err
		}).WithContext(ctx).Should(HaveValue(SatisfyAll(
			HaveField("Status", metav1.ConditionFalse), HaveField("Reason", placementv1.ReasonNotServed), HaveField("Message", ContainSubstring("gadgets.quota.example.com")))))
		f.InstallCRD(ctx, framework.NewCRD("quota.example.com", "v1", "gadgets", "Gadget", apiextensionsv1.NamespaceScoped))
		DeferCleanup(func(ctx SpecContext) { f.UninstallCRD(ctx, "gadgets.quota.example.com") })
		create := func(name string) error {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(schema.GroupVersionKind{Group: "quota.example.com", Version: "v1", Kind: "Gadget"})
			o.SetNamespace(namespace)
			o.SetName(name)
			return f.Client.Create(ctx, o)
		}
		Eventually(func() error { return create("a") }).Should(Succeed())
		Expect(create("b")).To(forbidden("exceeded quota: q"))
		f.AwaitReadyQuota(ctx, q)
		Eventually(func(ctx context.Context) ([]placementv1.Reservation, error) {
			err := f.Client.Get(ctx, client.ObjectKeyFromObject(q), q)
			return q.Status.Reservations, err
		}).WithContext(ctx).Should(BeEmpty())
		Expect(used(ctx, q)).To(Equal(map[string]string{"count/gadgets.quota.example.com": "1"}))
	})

	It("can be read by a policy", func(ctx SpecContext) {
		namespace := newNamespace(ctx, nil)
		full := newQuota(namespace, "full", placementv1.QuotaSpec{Hard: hard("configmaps", "0")})
		room := newQuota(namespace, "room", placementv1.QuotaSpec{Hard: hard("secrets", "5")})
		createReady(ctx, full)
		createReady(ctx, room)
		policy := framework.NewPolicy("read-quotas-"+namespace, fmt.Sprintf(`
package kubernetes.placement

labels := {"queue": min(free)}

free := {name |
	some name, q in data.berth.quotas[%q]
	every resource, limit in q.hard {
		k8s.quantity.compare(q.used[resource], limit) < 0
	}
}
`, namespace), "apps", "deployments", namespace)
		f.CreateReadyPolicy(ctx, policy)
		DeferCleanup(func(ctx SpecContext) { f.DeletePolicy(ctx, policy.Name) })
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "d"}}
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "d"}}
		d.Spec.Template.Labels = map[string]string{"app": "d"}
		d.Spec.Template.Spec = newPod(namespace, "d", nil).Spec
		Expect(f.Client.Create(ctx, d)).To(Succeed())
		Expect(d.Labels).To(HaveKeyWithValue("queue", "room"))
	})
})

var _ = Describe("A ClusterScopedQuota", Label("versions"), func() {
	It("is shared by the namespaces that its selector selects, as they join and leave", func(ctx SpecContext) {
		a := newNamespace(ctx, map[string]string{"team": "payments"})
		b := newNamespace(ctx, map[string]string{"team": "payments"})
		outside := newNamespace(ctx, map[string]string{"team": "search"})
		create := func(namespace, name string) error {
			return f.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
		}
		Expect(create(outside, "before")).To(Succeed())
		q := &placementv1.ClusterScopedQuota{ObjectMeta: metav1.ObjectMeta{Name: "payments-" + a}}
		q.Spec.Hard = hard("configmaps", "3")
		q.Spec.NamespaceSelector = &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"team": "payments"}}
		createReady(ctx, q)
		Expect(create(a, "1")).To(Succeed())
		Expect(create(b, "1")).To(Succeed())
		Expect(used(ctx, q)).To(Equal(map[string]string{"configmaps": "2"}))
		Expect(create(outside, "free")).To(Succeed())
		Expect(create(b, "2")).To(Succeed())
		Expect(create(a, "2")).To(forbidden("exceeded quota: payments-" + a))
		Eventually(func(ctx context.Context) ([]string, error) {
			err := f.Client.Get(ctx, client.ObjectKeyFromObject(q), q)
			var out []string
			for _, n := range q.Status.Namespaces {
				amount := n.Used["configmaps"]
				out = append(out, n.Namespace+"="+amount.String())
			}
			return out, err
		}).WithContext(ctx).Should(ConsistOf(a+"=1", b+"=2"))
		Expect(q.Status.SelectedNamespaces).To(HaveValue(Equal(int32(2))))

		By("counting a namespace that joins")
		label := func(namespace, team string) {
			GinkgoHelper()
			f.MustKubectl(ctx, "", "label", "--overwrite", "namespace", namespace, "team="+team)
		}
		label(outside, "payments")
		expectUsed(ctx, q, "configmaps", "5")
		Expect(create(outside, "more")).To(forbidden("exceeded quota"))
		By("no longer counting one that leaves")
		label(b, "search")
		expectUsed(ctx, q, "configmaps", "3")
		Expect(create(b, "free")).To(Succeed())

		By("limiting a namespace that is new")
		fresh := newNamespace(ctx, map[string]string{"team": "payments"})
		Expect(create(fresh, "1")).To(forbidden("exceeded quota"))
		Eventually(func() string { return f.MustKubectl(ctx, "", "get", "csquota", q.Name) }).Should(MatchRegexp(`configmaps: 3/3 +3 +True`))
	})

	It("goes together with a ScopedQuota and charges once", func(ctx SpecContext) {
		namespace := newNamespace(ctx, map[string]string{"both": "yes"})
		own := newQuota(namespace, "own", placementv1.QuotaSpec{Hard: hard("configmaps", "10")})
		shared := &placementv1.ClusterScopedQuota{ObjectMeta: metav1.ObjectMeta{Name: "both-" + namespace}}
		shared.Spec.Hard = hard("configmaps", "2")
		shared.Spec.NamespaceSelector = &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"both": "yes"}}
		createReady(ctx, own)
		createReady(ctx, shared)
		for i := range 2 {
			Expect(f.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(i)}})).To(Succeed())
			want := map[string]string{"configmaps": fmt.Sprint(i + 1)}
			Expect(used(ctx, own)).To(Equal(want))
			Expect(used(ctx, shared)).To(Equal(want))
		}
		Expect(f.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"}})).To(forbidden("exceeded quota: both-" + namespace))
		Expect(used(ctx, own)).To(Equal(map[string]string{"configmaps": "2"}))
	})
})

var _ = Describe("A LimitedResource", Label("versions"), func() {
	It("denies what it matches where no quota covers it, but in exempt namespaces", func(ctx SpecContext) {
		limited := newNamespace(ctx, map[string]string{"limits": "yes"})
		exempt := newNamespace(ctx, nil)
		rule := &placementv1.LimitedResource{ObjectMeta: metav1.ObjectMeta{Name: "gold-storage-" + limited}}
		rule.Spec = placementv1.LimitedResourceSpec{
			Resource: "persistentvolumeclaims", MatchContains: []string{"gold.storageclass.storage.k8s.io/requests.storage"},
			NamespaceSelector: &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"limits": "yes"}},
		}
		createReady(ctx, rule)
		claim := func(namespace, name, class string) error {
			c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
			c.Spec.StorageClassName = &class
			c.Spec.Resources.Requests = hard("storage", "1Gi")
			return f.Client.Create(ctx, c)
		}
		Expect(claim(exempt, "a", "gold")).To(Succeed())
		Expect(claim(limited, "a", "bronze")).To(Succeed())
		Expect(claim(limited, "b", "gold")).To(forbidden("insufficient quota to consume: gold.storageclass.storage.k8s.io/requests.storage"))

		q := newQuota(limited, "gold", placementv1.QuotaSpec{Hard: hard("gold.storageclass.storage.k8s.io/requests.storage", "1Gi")})
		createReady(ctx, q)
		Expect(claim(limited, "b", "gold")).To(Succeed())
		Expect(claim(limited, "c", "gold")).To(forbidden("exceeded quota: gold"))

		By("not taking a quota that denies nothing for a cover")
		base := q.DeepCopy()
		q.Spec.Mode = placementv1.ModeWarn
		Expect(f.Client.Patch(ctx, q, client.MergeFrom(base))).To(Succeed())
		awaitReady(ctx, q)
		Expect(claim(limited, "d", "gold")).To(forbidden("insufficient quota to consume"))
	})

	It("denies updates by which a pod comes to match its scopes", func(ctx SpecContext) {
		namespace := newNamespace(ctx, map[string]string{"deadlines": "yes"})
		rule := &placementv1.LimitedResource{ObjectMeta: metav1.ObjectMeta{Name: "deadlines-" + namespace}}
		rule.Spec = placementv1.LimitedResourceSpec{
			Resource: "pods", MatchScopes: []placementv1.ScopeRequirement{{ScopeName: corev1.ResourceQuotaScopeTerminating, Operator: corev1.ScopeSelectorOpExists}},
			NamespaceSelector: &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"deadlines": "yes"}},
		}
		createReady(ctx, rule)
		pod := newPod(namespace, "pod", nil)
		Expect(f.Client.Create(ctx, pod)).To(Succeed())
		setDeadline := func(seconds int64) error {
			changed := pod.DeepCopy()
			changed.Spec.ActiveDeadlineSeconds = &seconds
			return f.Client.Patch(ctx, changed, client.MergeFrom(pod))
		}
		Expect(setDeadline(600)).To(forbidden(`insufficient quota to match these scopes: [{Terminating Exists []}] (LimitedResource "deadlines-` + namespace + `"`))

		By("not taking a quota of other scopes, or one that denies nothing, for a cover")
		createReady(ctx, newQuota(namespace, "other", placementv1.QuotaSpec{Hard: hard("pods", "5")}))
		tried := newQuota(namespace, "tried", placementv1.QuotaSpec{Hard: hard("pods", "5"), Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}, Mode: placementv1.ModeWarn})
		createReady(ctx, tried)
		Expect(setDeadline(600)).To(forbidden("insufficient quota to match these scopes"))
		createReady(ctx, newQuota(namespace, "covers", placementv1.QuotaSpec{Hard: hard("pods", "1"), Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}}))
		Expect(setDeadline(600)).To(Succeed())
	})

	It("denies updates by which a claim comes to match its scopes", func(ctx SpecContext) {
		if !f.Serves("storage.k8s.io/v1", "volumeattributesclasses") {
			Skip("no claim has a VolumeAttributesClass here")
		}
		namespace := newNamespace(ctx, map[string]string{"tiers": "yes"})
		limit := func(name string, r placementv1.ScopeRequirement) *placementv1.LimitedResource {
			rule := &placementv1.LimitedResource{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + namespace}}
			r.ScopeName = corev1.ResourceQuotaScopeVolumeAttributesClass
			rule.Spec = placementv1.LimitedResourceSpec{
				Resource: "persistentvolumeclaims", MatchScopes: []placementv1.ScopeRequirement{r},
				NamespaceSelector: &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"tiers": "yes"}},
			}
			return rule
		}
		claim := func(name, class string) *corev1.PersistentVolumeClaim {
			c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
			c.Spec.StorageClassName, c.Spec.VolumeName = new("csi"), name
			c.Spec.Resources.Requests = hard("storage", "1Gi")
			if class != "" {
				c.Spec.VolumeAttributesClassName = &class
			}
			Expect(f.Client.Create(ctx, c)).To(Succeed())
			// No controller binds claims here, and only a bound one can change its class.
			c.Status.Phase = corev1.ClaimBound
			Expect(f.Client.Status().Update(ctx, c)).To(Succeed())
			return c
		}
		change := func(c *corev1.PersistentVolumeClaim, class string) error {
			changed := c.DeepCopy()
			changed.Spec.VolumeAttributesClassName = &class
			return f.Client.Patch(ctx, changed, client.MergeFrom(c))
		}
		silver, plain := claim("silver", "silver"), claim("plain", "")
		createReady(ctx, limit("gold", placementv1.ScopeRequirement{Operator: corev1.ScopeSelectorOpIn, Values: []string{"gold"}}))
		Expect(change(silver, "gold")).To(forbidden("insufficient quota to match these scopes: [{VolumeAttributesClass In [gold]}]"))
		Expect(change(silver, "bronze")).To(Succeed())
		createReady(ctx, limit("any", placementv1.ScopeRequirement{Operator: corev1.ScopeSelectorOpExists}))
		Expect(change(plain, "bronze")).To(forbidden("insufficient quota to match these scopes: [{VolumeAttributesClass Exists []}]"))

		By("admitting changes of an object that matched before")
		other := silver.DeepCopy()
		Expect(f.Client.Get(ctx, client.ObjectKeyFromObject(other), other)).To(Succeed())
		Expect(change(other, "silver")).To(Succeed())

		createReady(ctx, newQuota(namespace, "covers", placementv1.QuotaSpec{Hard: hard("persistentvolumeclaims", "2"), ScopeSelector: scope(corev1.ResourceQuotaScopeVolumeAttributesClass, corev1.ScopeSelectorOpExists)}))
		Expect(change(plain, "bronze")).To(Succeed())
	})

	It("is not ready while its parts of names can't limit anything", func(ctx SpecContext) {
		namespace := newNamespace(ctx, map[string]string{"parts": "yes"})
		rule := &placementv1.LimitedResource{ObjectMeta: metav1.ObjectMeta{Name: "parts-" + namespace}}
		rule.Spec = placementv1.LimitedResourceSpec{
			Resource: "configmaps", MatchContains: []string{"requests.cpu", "count/*"},
			NamespaceSelector: &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"parts": "yes"}},
		}
		Expect(f.Client.Create(ctx, rule)).To(Succeed())
		DeferCleanup(f.Client.Delete, rule)
		reason := func(conditionType string) string {
			_ = f.Client.Get(ctx, client.ObjectKeyFromObject(rule), rule)
			if c := meta.FindStatusCondition(rule.Status.Conditions, conditionType); c != nil {
				return string(c.Status) + "/" + c.Reason
			}
			return ""
		}
		Eventually(reason).WithContext(ctx).WithArguments(placementv1.ConditionStalled).Should(Equal("True/NothingMatched"))
		Expect(reason(placementv1.ConditionMatched)).To(Equal("False/NothingMatched"))
		Expect(reason(placementv1.ConditionReady)).To(Equal("False/NothingMatched"))

		base := rule.DeepCopy()
		rule.Spec.MatchContains = []string{"configmaps"}
		Expect(f.Client.Patch(ctx, rule, client.MergeFrom(base))).To(Succeed())
		awaitReady(ctx, rule)
		Expect(reason(placementv1.ConditionMatched)).To(Equal("True/Matched"))
		Expect(reason(placementv1.ConditionStalled)).To(BeEmpty())

		By("limiting all names of what it limits, as the warning of a quota with one of them says")
		createReady(ctx, newQuota(namespace, "one", placementv1.QuotaSpec{Hard: hard("configmaps", "5")}))
		create := func(name string) error {
			return f.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
		}
		Expect(create("a")).To(forbidden("insufficient quota to consume: count/configmaps"))
		createReady(ctx, newQuota(namespace, "other", placementv1.QuotaSpec{Hard: hard("count/configmaps", "5")}))
		Expect(create("a")).To(Succeed())
	})

	It("stays closed while the operator is away, and open where there is none", func(ctx SpecContext) {
		namespace := newNamespace(ctx, map[string]string{"closed": "yes"})
		rule := &placementv1.LimitedResource{ObjectMeta: metav1.ObjectMeta{Name: "closed"}}
		rule.Spec = placementv1.LimitedResourceSpec{
			Resource: "configmaps", MatchContains: []string{"count/configmaps"},
			NamespaceSelector: &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"closed": "yes"}},
		}
		createReady(ctx, rule)
		stopOperator()
		Expect(f.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}})).To(
			WithTransform(apierrors.IsInternalError, BeTrue()))
		elsewhere := newNamespace(ctx, nil)
		Expect(f.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: elsewhere, Name: "a"}})).To(Succeed())
	})
})
