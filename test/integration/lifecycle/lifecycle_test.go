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
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("A policy whose newest version does not compile", func() {
	It("keeps its last good version in force, also across a restart, and says so", func(ctx SpecContext) {
		stopFirst := startFirst(ctx)
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("good")
		f.CreateReadyPolicy(ctx, framework.NewPolicy(name, zone("a"), "", "configmaps", namespace))
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "c", nil))).To(Succeed())
		breakPolicy(ctx, name)
		Eventually(condition).WithContext(ctx).WithArguments(name, "Compiled").Should(Equal("False/LastGoodInForce"))
		Expect(condition(ctx, name, "Stalled")).To(Equal("True/InvalidPolicy"))
		Expect(f.TryZone(ctx, namespace)).To(Equal("a"))

		stopFirst()
		start(ctx)
		Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal("a"))
		Eventually(condition).WithContext(ctx).WithArguments(name, "Compiled").Should(Equal("False/LastGoodInForce"))
		p := &placementv1.PlacementPolicy{}
		Eventually(func(ctx context.Context) (*bool, error) {
			err := f.Client.Get(ctx, client.ObjectKey{Name: name}, p)
			return new(p.Status.Matched != nil && *p.Status.Matched == 1), err
		}).WithContext(ctx).Should(HaveValue(BeTrue()))
		Expect(p.Status.GenerationInForce).To(BeEquivalentTo(1))
		Expect(p.Status.ObservedGeneration).To(BeEquivalentTo(2))
		// Until the new leader has looked at all, its status and the one that it found differ now and then.
		version := func(ctx context.Context) (string, error) {
			err := f.Client.Get(ctx, client.ObjectKey{Name: name}, p)
			return p.ResourceVersion, err
		}
		Eventually(func(g Gomega, ctx context.Context) {
			last, err := version(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Consistently(version).WithContext(ctx).Should(Equal(last))
		}).WithContext(ctx).Should(Succeed())
	})

	It("denies what it matches, and names itself, if none ever compiled", func(ctx SpecContext) {
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("never")
		p := framework.NewPolicy(name, `package placement

this is not rego`, "", "configmaps", namespace)
		Expect(f.Client.Create(ctx, p)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { f.DeletePolicy(ctx, name) })
		start(ctx)
		Eventually(condition).WithContext(ctx).WithArguments(name, "Compiled").Should(Equal("False/CompileFailed"))
		Eventually(func(ctx context.Context) string {
			_, err := f.TryZone(ctx, namespace)
			return fmt.Sprint(err)
		}).WithContext(ctx).Should(And(ContainSubstring(name), ContainSubstring("does not compile")))
	})
})

var _ = Describe("A restart under load", func() {
	It("lets no object through undecided", func(ctx SpecContext) {
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("load")
		m := f.StartReadyManager(ctx)
		f.AwaitValidation(ctx)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(name, zone("a"), "", "configmaps", namespace))
		Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal("a"))

		loading, stop := context.WithCancel(ctx)
		var load sync.WaitGroup
		for worker := range 4 {
			load.Go(func() {
				for i := 0; loading.Err() == nil; i++ {
					// Whether it is let in is not the question here.
					_ = f.Client.Create(loading, framework.NewObject(framework.ConfigMap, namespace, fmt.Sprintf("c-%d-%d", worker, i), nil))
				}
			})
		}
		count := func(ctx context.Context) (int, error) {
			list := &corev1.ConfigMapList{}
			err := f.Client.List(ctx, list, client.InNamespace(namespace))
			return len(list.Items), err
		}
		for range 2 {
			m.Stop()
			m = f.StartReadyManager(ctx)
			before, err := count(ctx)
			Expect(err).NotTo(HaveOccurred())
			Eventually(count).WithContext(ctx).Should(BeNumerically(">", before))
		}
		stop()
		load.Wait()
		list := &corev1.ConfigMapList{}
		Expect(f.Client.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		for _, o := range list.Items {
			Expect(o.Annotations).To(HaveKeyWithValue("example.com/zone", "a"), o.Name)
		}
		f.DeletePolicy(ctx, name)
		m.Stop()
	})
})

// ask sends an admission request to one replica, as the API server would.
func ask(ctx context.Context, m *framework.Manager, obj client.Object) (*admissionv1.AdmissionResponse, error) {
	hook := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := f.Client.Get(ctx, client.ObjectKey{Name: "berth-placement"}, hook); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Operation: admissionv1.Create, Namespace: obj.GetNamespace(), Name: obj.GetName(),
			Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "configmaps"},
			Object:   runtime.RawExtension{Raw: raw}, DryRun: new(true),
		},
	})
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(hook.Webhooks[0].ClientConfig.CABundle)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL+framework.WebhookPath(hook.Webhooks[0].ClientConfig), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(text, review); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", response.Status, text, err)
	}
	return review.Response, nil
}

var _ = Describe("Of two replicas", func() {
	It("the follower answers as the leader does, and takes over", func(ctx SpecContext) {
		elect := func(o *setup.Options) { o.LeaderElection = true }
		leader := f.StartReadyManager(ctx, elect)
		stopLeader := sync.OnceFunc(leader.Stop)
		DeferCleanup(stopLeader)
		f.AwaitValidation(ctx)
		follower := f.StartReadyManager(ctx, elect)
		DeferCleanup(follower.Stop)

		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("both")
		text := framework.Rego(fmt.Sprintf(`annotations["example.com/clusters"] := sort([n | data.clusters[n].namespace == %q])`, namespace))
		f.CreateReadyPolicy(ctx, framework.NewPolicy(name, text, "", "configmaps", namespace))
		obj := framework.NewObject(framework.ConfigMap, namespace, "c", nil)
		for _, cluster := range []string{"eu1", "eu2"} {
			f.MustKubectl(ctx, fmt.Sprintf(`{"apiVersion":"multicluster.x-k8s.io/v1alpha1","kind":"ClusterProfile","metadata":{"namespace":%q,"name":%q},"spec":{"clusterManager":{"name":"x"}}}`, namespace, cluster), "apply", "-f", "-")
			var answers [2]string
			for i, m := range []*framework.Manager{leader, follower} {
				Eventually(func(g Gomega, ctx context.Context) {
					answer, err := ask(ctx, m, obj)
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(answer.Allowed).To(BeTrue())
					g.Expect(string(answer.Patch)).To(ContainSubstring(cluster))
					answers[i] = string(answer.Patch)
				}).WithContext(ctx).Should(Succeed())
			}
			Expect(answers[1]).To(Equal(answers[0]))
		}

		stopLeader()
		// The new leader has the API server ask it, and writes status.
		Eventually(func(ctx context.Context) (string, error) {
			hook := &admissionregistrationv1.MutatingWebhookConfiguration{}
			if err := f.Client.Get(ctx, client.ObjectKey{Name: "berth-placement"}, hook); err != nil {
				return "", err
			}
			return *hook.Webhooks[0].ClientConfig.URL, nil
		}).WithContext(ctx).Should(HavePrefix(follower.URL))
		Eventually(func(ctx context.Context) error { return f.Client.Create(ctx, obj.DeepCopy()) }).WithContext(ctx).Should(Succeed())
		Eventually(func(ctx context.Context) (int32, error) {
			p := &placementv1.PlacementPolicy{}
			err := f.Client.Get(ctx, client.ObjectKey{Name: name}, p)
			if err != nil || p.Status.Matched == nil {
				return 0, err
			}
			return *p.Status.Matched, nil
		}).WithContext(ctx).Should(BeNumerically(">=", 1))
	})
})

// series returns the names of a replica's metrics that mention a text in a label.
func series(m *framework.Manager, text string) ([]string, error) {
	families, err := m.Metrics.Gather()
	var out []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if strings.Contains(label.GetValue(), text) {
					out = append(out, family.GetName())
				}
			}
		}
	}
	return out, err
}

var _ = Describe("Deleting a policy", func() {
	It("removes its webhook, its series and its data", func(ctx SpecContext) {
		m := start(ctx)
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("gone")
		text := framework.Rego(`annotations["example.com/n"] := count(data.kubernetes.clusterprofiles)`)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(name, text, "", "configmaps", namespace))
		Eventually(func(ctx context.Context) error {
			return f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "c", nil))
		}).WithContext(ctx).Should(Succeed())
		Eventually(series).WithArguments(m, name).ShouldNot(BeEmpty())
		Eventually(series).WithArguments(m, "clusterprofiles").ShouldNot(BeEmpty())

		f.DeletePolicy(ctx, name)
		Eventually(func(ctx context.Context) error {
			return f.Client.Get(ctx, client.ObjectKey{Name: "berth-placement"}, &admissionregistrationv1.MutatingWebhookConfiguration{})
		}).WithContext(ctx).Should(MatchError(ContainSubstring("not found")))
		Eventually(series).WithArguments(m, name).Should(BeEmpty())
		Eventually(series).WithArguments(m, "clusterprofiles").Should(BeEmpty())
	})
})

var _ = Describe("The webhook configuration for workloads", Label("versions"), func() {
	It("is restored when somebody deletes or empties it", func(ctx SpecContext) {
		start(ctx)
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("hook")
		f.CreateReadyPolicy(ctx, framework.NewPolicy(name, zone("a"), "", "configmaps", namespace))
		hook := &admissionregistrationv1.MutatingWebhookConfiguration{}
		hook.Name = "berth-placement"
		webhooks := func(ctx context.Context) (int, error) {
			err := f.Client.Get(ctx, client.ObjectKeyFromObject(hook), hook)
			return len(hook.Webhooks), err
		}
		Expect(f.Client.Delete(ctx, hook)).To(Succeed())
		Eventually(webhooks).WithContext(ctx).Should(Equal(1))
		hook.Webhooks = nil
		Expect(f.Client.Update(ctx, hook)).To(Succeed())
		Eventually(webhooks).WithContext(ctx).Should(Equal(1))
	})
})

var _ = Describe("Data that Berth may not read", func() {
	It("shows with the rule to grant, denies meanwhile, and heals by the grant", func(ctx SpecContext) {
		wide := &rbacv1.ClusterRoleBinding{}
		Expect(f.Client.Get(ctx, client.ObjectKey{Name: "berth-test-wide"}, wide)).To(Succeed())
		Expect(f.Client.Delete(ctx, wide.DeepCopy())).To(Succeed())
		restore := sync.OnceFunc(func() {
			wide.ResourceVersion, wide.UID = "", ""
			Expect(f.Client.Create(context.WithoutCancel(ctx), wide)).To(Succeed())
		})
		DeferCleanup(restore)
		start(ctx)
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("forbidden")
		text := framework.Rego(`annotations["example.com/n"] := count(data.kubernetes.clusterprofiles)`)
		p := framework.NewPolicy(name, text, "", "configmaps", namespace)
		Expect(f.Client.Create(ctx, p)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { f.DeletePolicy(ctx, name) })
		Eventually(condition).WithContext(ctx).WithArguments(name, "Replicated").Should(Equal("False/Forbidden"))
		Expect(condition(ctx, name, "Ready")).To(Equal("False/Forbidden"))
		Expect(f.Client.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		Expect(fmt.Sprint(p.Status.Conditions)).To(ContainSubstring("resources: [\"clusterprofiles\"], verbs: [get, list, watch]"))
		Eventually(func(ctx context.Context) string {
			_, err := f.TryZone(ctx, namespace)
			return fmt.Sprint(err)
		}).WithContext(ctx).Should(ContainSubstring("Berth has no complete copy of clusterprofiles.multicluster.x-k8s.io"))

		restore()
		Eventually(condition).WithContext(ctx).WithArguments(name, "Ready").Should(Equal("True/InForce"))
		Eventually(func(ctx context.Context) error { _, err := f.TryZone(ctx, namespace); return err }).WithContext(ctx).Should(Succeed())
	})
})

var _ = Describe("A type whose CRD goes", Label("versions"), func() {
	It("is missed, and taken up again when it returns", func(ctx SpecContext) {
		start(ctx)
		install := func() {
			f.InstallCRD(ctx, framework.NewCRD("lifecycle.example.com", "v1", "berths", "Berth", apiextensionsv1.ClusterScoped))
		}
		install()
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("crd")
		text := framework.Rego(`annotations["example.com/zone"] := concat("", [n | data.kubernetes.berths[n]])`)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(name, text, "", "configmaps", namespace))

		f.MustKubectl(ctx, "", "delete", "crd", "berths.lifecycle.example.com")
		Eventually(condition).WithContext(ctx).WithArguments(name, "Replicated").Should(Equal("False/NotServed"))
		_, err := f.TryZone(ctx, namespace)
		Expect(err).To(MatchError(ContainSubstring("berths")))

		install()
		Eventually(condition).WithContext(ctx).WithArguments(name, "Ready").Should(Equal("True/InForce"))
		f.MustKubectl(ctx, `{"apiVersion":"lifecycle.example.com/v1","kind":"Berth","metadata":{"name":"b7"}}`, "create", "-f", "-")
		Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal("b7"))
	})
})
