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
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/webhookconfiguration"
	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/internal/webhookauth"
	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/framework/pki"
)

// paths are those of all webhooks, without a token.
var paths = []string{
	webhookconfiguration.PathFail, webhookconfiguration.PathIgnore, webhookconfiguration.PathQuotaFail, webhookconfiguration.PathQuotaIgnore, webhookconfiguration.PathPolicies,
}

// presented is the client certificate that the API server presents to webhooks, in files, and its authority.
var presented struct {
	authority       *pki.Authority
	certificate, ca string
}

// presentClientCertificate has the API server present a client certificate to every webhook, as docs/operating.md shows.
// A webhook server that does not ask for one does not get it.
func presentClientCertificate(o *controlplane.Options) {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	file := func(name string, text []byte) string {
		at := filepath.Join(dir, name)
		Expect(os.WriteFile(at, text, 0o600)).To(Succeed())
		return at
	}
	presented.authority = pki.NewAuthority(GinkgoTB())
	certificate, key := presented.authority.Client("kube-apiserver")
	presented.ca = file("ca.crt", presented.authority.PEM)
	presented.certificate = file("client.crt", certificate)
	kubeconfig := file("kubeconfig", fmt.Appendf(nil, `apiVersion: v1
kind: Config
users:
- name: "*"
  user:
    client-certificate: %s
    client-key: %s
`, presented.certificate, file("client.key", key)))
	plugin := func(name string) string {
		return fmt.Sprintf(`- name: %s
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %s
`, name, kubeconfig)
	}
	o.APIServerFlags = map[string]string{"admission-control-config-file": file("admission.yaml", []byte(
		"apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"+plugin("MutatingAdmissionWebhook")+plugin("ValidatingAdmissionWebhook")))}
}

// attacker calls a replica's webhooks as any client can that reaches the port.
type attacker struct {
	client *http.Client
	url    string
}

func newAttacker(m *framework.Manager, certificates ...tls.Certificate) *attacker {
	transport := &http.Transport{
		//nolint:gosec // An attacker verifies no certificates.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}, MaxIdleConnsPerHost: 32,
	}
	DeferCleanup(transport.CloseIdleConnections)
	return &attacker{client: &http.Client{Transport: transport}, url: m.URL}
}

// post sends a review, and returns the HTTP status and the response, if there is one.
func (a *attacker) post(ctx context.Context, path string, request *admissionv1.AdmissionRequest) (int, *admissionv1.AdmissionResponse, error) {
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	})
	if err != nil {
		return 0, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := a.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, err
	}
	review := &admissionv1.AdmissionReview{}
	if response.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, review)
	}
	return response.StatusCode, review.Response, err
}

// forgedPod is a review of a pod that does not exist.
func forgedPod(namespace, name string, uid types.UID, dryRun bool) *admissionv1.AdmissionRequest {
	GinkgoHelper()
	pod := framework.NewPod(namespace, name, nil)
	pod.UID = uuid.NewUUID()
	raw, err := json.Marshal(pod)
	Expect(err).NotTo(HaveOccurred())
	return &admissionv1.AdmissionRequest{
		UID: uid, Operation: admissionv1.Create, Namespace: namespace, Name: name, DryRun: &dryRun,
		Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Object: runtime.RawExtension{Raw: raw},
	}
}

// tokens are those in the webhook configurations.
func tokens(ctx context.Context) ([]string, error) {
	return webhookconfiguration.UsedTokens(ctx, f.Client)
}

// quotaPath returns the path of the webhook to which the API server sends the objects that quotas count.
func quotaPath(ctx context.Context) string {
	GinkgoHelper()
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	Eventually(func(g Gomega, ctx context.Context) {
		g.Expect(f.Client.Get(ctx, client.ObjectKey{Name: webhookconfiguration.QuotasName}, hook)).To(Succeed())
	}).WithContext(ctx).Should(Succeed())
	return framework.WebhookPath(hook.Webhooks[0].ClientConfig)
}

func refused(m *framework.Manager) float64 {
	GinkgoHelper()
	series, err := m.Series("berth_webhook_unauthenticated_requests_total")
	Expect(err).NotTo(HaveOccurred())
	return series[""]
}

func newSharedQuota(ctx context.Context, label string, spec placementv1.QuotaSpec) *placementv1.ClusterScopedQuota {
	GinkgoHelper()
	q := &placementv1.ClusterScopedQuota{ObjectMeta: metav1.ObjectMeta{Name: framework.NewName("shared")}}
	q.Spec.QuotaSpec = spec
	q.Spec.NamespaceSelector = &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"hostile.example.com/shares": placementv1.LabelValue(label)}}
	f.CreateReadyQuota(ctx, q)
	return q
}

var _ = Describe("Whoever reaches the port of the webhooks", func() {
	It("is refused without the token in the path, by every webhook", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		quota := framework.NewScopedQuota(namespace, "pods", placementv1.QuotaSpec{Hard: framework.Hard("pods", "2")})
		f.CreateReadyQuota(ctx, quota)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("deny"), framework.Rego(`errors contains "no"`), "", "pods", namespace))
		a, before, attempts := newAttacker(operator), refused(operator), 0
		used, err := tokens(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, path := range paths {
			for _, guess := range []string{"", "/", "/guess", "/" + used[0] + "x", "/" + used[0][1:]} {
				status, _, err := a.post(ctx, path+guess, forgedPod(namespace, "forged", uuid.NewUUID(), false))
				Expect(err).NotTo(HaveOccurred())
				Expect(status).To(Equal(http.StatusNotFound), path+guess)
				attempts++
			}
		}
		Expect(refused(operator) - before).To(BeNumerically("==", attempts))
		Consistently(func(g Gomega, ctx context.Context) {
			g.Expect(f.Used(ctx, quota)).To(HaveKeyWithValue("pods", "0"))
			events := &eventsv1.EventList{}
			g.Expect(f.Client.List(ctx, events, client.InNamespace(namespace))).To(Succeed())
			g.Expect(events.Items).To(BeEmpty())
		}).WithContext(ctx).Should(Succeed())
	})

	It("finds the token nowhere but in the webhook configurations and the Secret", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyQuota(ctx, framework.NewScopedQuota(namespace, "pods", placementv1.QuotaSpec{Hard: framework.Hard("pods", "0")}))
		Expect(f.Client.Create(ctx, framework.NewPod(namespace, "pod", nil))).To(framework.BeForbidden("exceeded quota"))
		used, err := tokens(ctx)
		Expect(err).NotTo(HaveOccurred())
		families, err := operator.Metrics.Gather()
		Expect(err).NotTo(HaveOccurred())
		shown := fmt.Sprint(families)
		for _, kind := range []string{"scopedquotas", "clusterscopedquotas", "limitedresources", "placementpolicies", "events", "events.events.k8s.io", "configmaps", "leases"} {
			shown += f.MustKubectl(ctx, "", "get", kind, "--all-namespaces", "--output=yaml")
		}
		for _, token := range used {
			Expect(len(token)).To(BeNumerically(">=", 26))
			Expect(strings.Contains(shown, token)).To(BeFalse(), "the token is shown")
		}
	})

	It("gives no charge back by the uid of a review, even with the token", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		quota := framework.NewScopedQuota(namespace, "pods", placementv1.QuotaSpec{Hard: framework.Hard("pods", "2")})
		f.CreateReadyQuota(ctx, quota)
		a, path := newAttacker(operator), quotaPath(ctx)
		charged := uuid.NewUUID()
		status, response, err := a.post(ctx, path, forgedPod(namespace, "slow", charged, false))
		Expect(err).NotTo(HaveOccurred())
		Expect(status).To(Equal(http.StatusOK))
		Expect(response.Allowed).To(BeTrue())
		Expect(f.Used(ctx, quota)).To(HaveKeyWithValue("pods", "1"))
		Expect(quota.Status.Reservations).To(HaveLen(1))
		for _, uid := range []types.UID{charged, types.UID(quota.Status.Reservations[0].UID), types.UID(quota.Status.Reservations[0].ObjectUID)} {
			_, _, err := a.post(ctx, path, forgedPod(namespace, "forged", uid, true))
			Expect(err).NotTo(HaveOccurred())
		}
		Consistently(f.Used).WithContext(ctx).WithArguments(quota).Should(HaveKeyWithValue("pods", "1"))
	})

	It("is refused without the API server's client certificate, even with the token", func(ctx SpecContext) {
		stopOperator()
		secured := f.StartReadyManager(ctx, func(o *setup.Options) {
			o.WebhookClientCAFile, o.WebhookClientNames = presented.ca, []string{"kube-apiserver"}
		})
		DeferCleanup(secured.Stop)
		f.AwaitValidation(ctx)
		namespace := f.NewNamespace(ctx, nil)
		quota := framework.NewScopedQuota(namespace, "pods", placementv1.QuotaSpec{Hard: framework.Hard("pods", "1")})
		f.CreateReadyQuota(ctx, quota)
		path := quotaPath(ctx)
		pair := func(a *pki.Authority, name string) tls.Certificate {
			out, err := tls.X509KeyPair(a.Client(name))
			Expect(err).NotTo(HaveOccurred())
			return out
		}
		for what, a := range map[string]*attacker{
			"no certificate":                   newAttacker(secured),
			"another authority's":              newAttacker(secured, pair(pki.NewAuthority(GinkgoTB()), "kube-apiserver")),
			"another client of that authority": newAttacker(secured, pair(presented.authority, "somebody")),
		} {
			_, _, err := a.post(ctx, path, forgedPod(namespace, "forged", uuid.NewUUID(), false))
			Expect(err).To(MatchError(ContainSubstring("tls: ")), what)
		}
		By("deciding what the API server asks")
		Eventually(func(ctx context.Context) error {
			return f.Client.Create(ctx, framework.NewPod(namespace, "first", nil))
		}).WithContext(ctx).Should(Or(Succeed(), WithTransform(apierrors.IsAlreadyExists, BeTrue())))
		Expect(f.Client.Create(ctx, framework.NewPod(namespace, "second", nil))).To(framework.BeForbidden("exceeded quota"))
	})
})

var _ = Describe("The token in the webhooks' paths", func() {
	It("changes under load without a request that is refused or undecided, and the old one ends", func(ctx SpecContext) {
		stopOperator()
		proxy := framework.StartProxy()
		for range 2 {
			m := f.StartReadyManager(ctx, func(o *setup.Options) {
				o.LeaderElection, o.WebhookURL = true, proxy.URL()
				// A replica reads a new token, and the API server the webhook configurations, within milliseconds, and on a busy machine within
				// a second.
				o.WebhookTokenLifetime, o.WebhookTokenSettle, o.WebhookTokenOverlap = 4*time.Second, 2*time.Second, 4*time.Second
			})
			DeferCleanup(m.Stop)
			proxy.Add(m.URL)
		}
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("zone"), framework.Rego(`annotations["example.com/zone"] := "a"`), "", "configmaps", namespace))
		first, err := tokens(ctx)
		Expect(err).NotTo(HaveOccurred())

		running, stop := context.WithCancel(ctx)
		defer stop()
		var load sync.WaitGroup
		var created atomic.Int64
		for i := range 4 {
			load.Go(func() {
				defer GinkgoRecover()
				for n := 0; running.Err() == nil; n++ {
					o := framework.NewObject(framework.ConfigMap, namespace, fmt.Sprintf("c-%d-%d", i, n), nil)
					Expect(f.Client.Create(ctx, o)).To(Succeed())
					Expect(o.GetAnnotations()).To(HaveKeyWithValue("example.com/zone", "a"))
					created.Add(1)
				}
			})
		}
		seen := map[string]bool{}
		Eventually(func(ctx context.Context) (int, error) {
			used, err := tokens(ctx)
			for _, token := range used {
				seen[token] = true
			}
			return len(seen), err
		}).WithContext(ctx).Should(BeNumerically(">=", 4))
		Eventually(func(ctx context.Context) (string, error) {
			secret := &corev1.Secret{}
			err := f.Client.Get(ctx, client.ObjectKey{Namespace: framework.OperatorNamespace, Name: webhookauth.SecretName}, secret)
			return string(secret.Data["tokens"]), err
		}).WithContext(ctx).ShouldNot(ContainSubstring(first[0]))
		stop()
		load.Wait()
		AddReportEntry("creates", created.Load())
		Expect(created.Load()).To(BeNumerically(">", 20))
		a := &attacker{client: newAttacker(&framework.Manager{}).client, url: proxy.URL()}
		Eventually(func(ctx context.Context) (int, error) {
			status, _, err := a.post(ctx, webhookauth.Path(webhookconfiguration.PathFail, first[0]), forgedPod(namespace, "forged", uuid.NewUUID(), true))
			return status, err
		}).WithContext(ctx).Should(Equal(http.StatusNotFound))
	})

	It("is replaced when an API server gave up a request", func(ctx SpecContext) {
		stopOperator()
		started := time.Now()
		m := f.StartReadyManager(ctx, func(o *setup.Options) {
			o.WebhookTokenSettle, o.WebhookTokenOverlap = time.Second, 2*time.Second
		})
		DeferCleanup(m.Stop)
		f.AwaitValidation(ctx)
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("slow"), framework.Rego(
			`errors contains "slow" if count([1 | some i in numbers.range(1, 100000); some j in numbers.range(1, 100000); i == j + input.data.n]) == 1`), "", "configmaps", namespace))
		By("waiting until the new leader's own token is the only one")
		var before []string
		Eventually(func(g Gomega, ctx context.Context) {
			secret := &corev1.Secret{}
			g.Expect(f.Client.Get(ctx, client.ObjectKey{Namespace: framework.OperatorNamespace, Name: webhookauth.SecretName}, secret)).To(Succeed())
			introduced, err := time.Parse(time.RFC3339Nano, string(secret.Data["introduced"]))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(introduced).To(BeTemporally(">", started))
			before, err = tokens(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(secret.Data["tokens"])).To(Equal(fmt.Sprintf("[%q]", before[0])))
		}).WithContext(ctx).Should(Succeed())
		Consistently(tokens).WithContext(ctx).WithTimeout(4 * time.Second).Should(ContainElement(before[0]))
		Eventually(func(g Gomega, ctx context.Context) {
			short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			g.Expect(f.Client.Create(short, framework.NewObject(framework.ConfigMap, namespace, "slow", nil), client.DryRunAll)).To(MatchError(context.DeadlineExceeded))
			used, err := tokens(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(used).NotTo(ContainElement(before[0]))
		}).WithContext(ctx).Should(Succeed())
		a := newAttacker(m)
		Eventually(func(ctx context.Context) (int, error) {
			status, _, err := a.post(ctx, webhookauth.Path(webhookconfiguration.PathFail, before[0]), forgedPod(namespace, "forged", uuid.NewUUID(), true))
			return status, err
		}).WithContext(ctx).Should(Equal(http.StatusNotFound))
	})
})

var _ = Describe("A quota that namespaces share", func() {
	It("is not held by creates that fail because the name is taken", func(ctx SpecContext) {
		label := framework.NewName("taken")
		namespace := f.NewNamespace(ctx, map[string]string{"hostile.example.com/shares": label})
		quota := newSharedQuota(ctx, label, placementv1.QuotaSpec{Hard: framework.Hard("pods", "3", "requests.cpu", "3")})
		takes := func(cpu string) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
			}
		}
		Expect(f.Client.Create(ctx, framework.NewPod(namespace, "taken", takes("1")))).To(Succeed())
		Eventually(func(g Gomega, ctx context.Context) {
			g.Expect(f.Used(ctx, quota)).To(HaveKeyWithValue("pods", "1"))
			g.Expect(quota.Status.Reservations).To(BeEmpty())
		}).WithContext(ctx).Should(Succeed())
		for range 3 {
			err := f.Client.Create(ctx, framework.NewPod(namespace, "taken", takes("1")))
			Expect(apierrors.IsAlreadyExists(err)).To(BeTrue(), "%v", err)
		}
		// Reservations last longer than this waits.
		Eventually(f.Used).WithContext(ctx).WithArguments(quota).Should(And(HaveKeyWithValue("pods", "1"), HaveKeyWithValue("requests.cpu", "1")))
		Expect(len(quota.Status.Reservations)).To(BeNumerically("<=", 1))
	})

	It("has room for others while one namespace has as many creates under way as it may", func(ctx SpecContext) {
		label := framework.NewName("crowded")
		shares := map[string]string{"hostile.example.com/shares": label}
		mine, yours := f.NewNamespace(ctx, shares), f.NewNamespace(ctx, shares)
		quota := newSharedQuota(ctx, label, placementv1.QuotaSpec{Hard: framework.Hard("pods", "5000")})
		a, path := newAttacker(operator), quotaPath(ctx)
		var next, pushedBack atomic.Int64
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				defer GinkgoRecover()
				for i := next.Add(1); i <= placementv1.MaxNamespaceReservations+40; i = next.Add(1) {
					_, response, err := a.post(ctx, path, forgedPod(mine, fmt.Sprintf("failing-%d", i), uuid.NewUUID(), false))
					Expect(err).NotTo(HaveOccurred())
					if !response.Allowed {
						Expect(response.Result.Code).To(BeEquivalentTo(http.StatusTooManyRequests))
						pushedBack.Add(1)
					}
				}
			})
		}
		all.Wait()
		Expect(pushedBack.Load()).To(BeNumerically(">=", 40))
		Expect(f.Used(ctx, quota)).To(HaveKeyWithValue("pods", fmt.Sprint(placementv1.MaxNamespaceReservations)))
		Expect(f.Client.Create(ctx, framework.NewPod(yours, "neighbor", nil))).To(Succeed())
	})
})
