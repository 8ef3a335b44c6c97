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

package remote_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/webhookconfiguration"
	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
)

// addCluster adds a cluster to the inventory in a namespace.
func addCluster(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	profile := framework.NewObject(framework.ClusterProfile, namespace, name, nil)
	Expect(served.Client.Create(ctx, profile)).To(Succeed())
}

// inventory is a policy that places Deployments of a namespace on all clusters of its inventory.
func inventory(name, namespace string) *placementv1.PlacementPolicy {
	return framework.NewPolicy(name, framework.Rego(fmt.Sprintf(`annotations["example.com/clusters"] := concat(",", sort([n | some n, _ in data.kubernetes.clusterprofiles[%q]]))`, namespace)), "apps", "deployments", namespace)
}

func clusters(ctx context.Context, namespace string) (string, error) {
	d, err := served.Get(ctx, framework.Deployment, namespace, "web")
	return d.GetAnnotations()["example.com/clusters"], err
}

// holder is who leads.
func holder(ctx context.Context) (string, error) {
	lease := &coordinationv1.Lease{}
	err := host.Client.Get(ctx, client.ObjectKey{Namespace: framework.OperatorNamespace, Name: "berth.placement.berth.dev"}, lease)
	if err != nil || lease.Spec.HolderIdentity == nil {
		return "", err
	}
	return *lease.Spec.HolderIdentity, nil
}

var _ = Describe("With its state in the host cluster, Berth", func() {
	It("enforces and remediates on the served API server, and keeps nothing there", func(ctx SpecContext) {
		start(ctx, fromHost(ctx))
		start(ctx, fromHost(ctx))
		namespace := served.NewNamespace(ctx, nil)
		addCluster(ctx, namespace, "eu-1")
		name := "kept-" + namespace
		served.CreateReadyPolicy(ctx, inventory(name, namespace))
		Eventually(func(ctx context.Context) (map[string]string, error) {
			obj := framework.NewObject(framework.Deployment, namespace, "try", nil)
			err := served.Client.Create(ctx, obj, client.DryRunAll)
			return obj.GetAnnotations(), err
		}).WithContext(ctx).Should(HaveKeyWithValue("example.com/clusters", "eu-1"))
		Expect(served.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, "web", nil))).To(Succeed())
		Expect(clusters(ctx, namespace)).To(Equal("eu-1"))

		addCluster(ctx, namespace, "eu-2")
		Eventually(clusters).WithContext(ctx).WithArguments(namespace).Should(Equal("eu-1,eu-2"))
		Eventually(func(ctx context.Context) ([]eventsv1.Event, error) {
			list := &eventsv1.EventList{}
			err := served.Client.List(ctx, list, client.InNamespace(namespace))
			return list.Items, err
		}).WithContext(ctx).Should(ContainElement(HaveField("Reason", "PlacementRemediated")))

		Eventually(state).WithContext(ctx).WithArguments(host).Should(ConsistOf(
			"Secret/berth-webhook-cert", "Secret/berth-webhook-token", "Secret/berth-intent-key", "Lease/berth.placement.berth.dev", "ControllerRevision of "+name+", owned by 0",
		))
		Expect(state(ctx, served)).To(BeEmpty())
		Expect(served.MustKubectl(ctx, "", "get", "secrets,controllerrevisions", "--all-namespaces")).To(ContainSubstring("No resources found"))

		By("deleting the policy, of which nothing in the host cluster is told")
		served.DeletePolicy(ctx, name)
		Eventually(state).WithContext(ctx).WithArguments(host).ShouldNot(ContainElement(ContainSubstring("ControllerRevision")))
	})

	It("takes a namespace of the served API server that has its own's name for any other", func(ctx SpecContext) {
		start(ctx, fromHost(ctx))
		served.CreateReadyPolicy(ctx, framework.NewPolicy("own-name", zone("a"), "", "configmaps"))
		Eventually(served.TryZone).WithContext(ctx).WithArguments(framework.OperatorNamespace).Should(Equal("a"))
		Expect(served.TryZone(ctx, metav1.NamespaceSystem)).To(BeEmpty())

		By("counting there")
		spec := placementv1.QuotaSpec{Hard: framework.Hard("pods", "1")}
		scoped := framework.NewScopedQuota(framework.OperatorNamespace, "one-pod", spec)
		served.CreateReadyQuota(ctx, scoped)
		shared := &placementv1.ClusterScopedQuota{ObjectMeta: metav1.ObjectMeta{Name: "own-name"}}
		shared.Spec.Hard = framework.Hard("pods", "5")
		served.CreateReadyQuota(ctx, shared)
		pod := framework.NewPod(framework.OperatorNamespace, "first", nil)
		Expect(served.Client.Create(ctx, pod)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(served.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		})
		for _, q := range []placementv1.Quota{scoped, shared} {
			Eventually(served.Used).WithContext(ctx).WithArguments(q).Should(HaveKeyWithValue("pods", "1"))
		}
		Eventually(func(ctx context.Context) error {
			return served.Client.Create(ctx, framework.NewPod(framework.OperatorNamespace, "", nil), client.DryRunAll)
		}).WithContext(ctx).Should(framework.BeForbidden("exceeded quota"))
	})

	It("makes its certificate anew there, and has it trusted here", func(ctx SpecContext) {
		m := start(ctx, fromHost(ctx))
		namespace := served.NewNamespace(ctx, nil)
		served.CreateReadyPolicy(ctx, framework.NewPolicy("cert-"+namespace, zone("a"), "", "configmaps", namespace))
		Eventually(served.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal("a"))
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: framework.OperatorNamespace, Name: "berth-webhook-cert"}
		Expect(host.Client.Get(ctx, key, secret)).To(Succeed())
		before := string(secret.Data["ca.crt"])
		Expect(host.Client.Delete(ctx, secret)).To(Succeed())
		Eventually(func(g Gomega, ctx context.Context) {
			g.Expect(host.Client.Get(ctx, key, secret)).To(Succeed())
			after := string(secret.Data["ca.crt"])
			g.Expect(after).NotTo(Equal(before))
			bundles, err := webhookconfiguration.Bundles(ctx, served.Client)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(bundles).To(And(HaveLen(3), HaveEach(WithTransform(func(b []byte) string { return string(b) }, ContainSubstring(after)))))
			g.Expect(handshake(ctx, m, after)).To(Succeed(), "the new certificate is not served")
		}).WithContext(ctx).WithTimeout(2 * framework.Timeout).Should(Succeed())
		Expect(served.TryZone(ctx, namespace)).To(Equal("a"))
	})

	It("elects its leader there", func(ctx SpecContext) {
		first := start(ctx, fromHost(ctx))
		var leads string
		Eventually(func(ctx context.Context) (string, error) {
			var err error
			leads, err = holder(ctx)
			return leads, err
		}).WithContext(ctx).ShouldNot(BeEmpty())
		start(ctx, fromHost(ctx))
		Consistently(holder).WithContext(ctx).Should(Equal(leads))
		first.Stop()
		Eventually(holder).WithContext(ctx).ShouldNot(Or(BeEmpty(), Equal(leads)))
		namespace := served.NewNamespace(ctx, nil)
		// Conditions are the leader's words.
		served.CreateReadyPolicy(ctx, framework.NewPolicy("elected-"+namespace, zone("a"), "", "configmaps", namespace))
	})

	It("goes on by the last good version that it kept there, and forgets those of policies that went meanwhile", func(ctx SpecContext) {
		first := start(ctx, fromHost(ctx))
		namespace := served.NewNamespace(ctx, nil)
		broken, gone := "broken-"+namespace, "gone-"+namespace
		served.CreateReadyPolicy(ctx, framework.NewPolicy(broken, zone("a"), "", "configmaps", namespace))
		served.CreateReadyPolicy(ctx, framework.NewPolicy(gone, zone("b"), "", "secrets", namespace))
		revision := func(policy string) string { return "ControllerRevision of " + policy + ", owned by 0" }
		Eventually(state).WithContext(ctx).WithArguments(host).Should(ContainElements(revision(broken), revision(gone)))
		first.Stop()
		served.ChangePolicy(ctx, broken, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego = `package placement

no rego`
		})
		served.DeletePolicy(ctx, gone)
		Expect(state(ctx, host)).To(ContainElements(revision(broken), revision(gone)))

		start(ctx, fromHost(ctx))
		Eventually(served.Condition).WithContext(ctx).WithArguments(broken, placementv1.ConditionCompiled).Should(HaveField("Status", metav1.ConditionFalse))
		Eventually(served.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal("a"))
		Eventually(state).WithContext(ctx).WithArguments(host).Should(And(ContainElement(revision(broken)), Not(ContainElement(revision(gone)))))
	})

	It("stays up while the served API server is away, and goes on where it was", func(ctx SpecContext) {
		// By default, a replica is not ready 20 seconds after the API server last confirmed its policies. The API server is away for nearly that.
		patient := func(o *setup.Options) { o.PolicyMaxStaleness = 10 * time.Minute }
		first, second := start(ctx, fromHost(ctx), patient), start(ctx, fromHost(ctx), patient)
		namespace := served.NewNamespace(ctx, nil)
		addCluster(ctx, namespace, "eu-1")
		served.CreateReadyPolicy(ctx, inventory("outage-"+namespace, namespace))
		Eventually(func(ctx context.Context) error {
			obj := framework.NewObject(framework.Deployment, namespace, "try", nil)
			if err := served.Client.Create(ctx, obj, client.DryRunAll); err != nil || obj.GetAnnotations()["example.com/clusters"] == "eu-1" {
				return err
			}
			return fmt.Errorf("undecided")
		}).WithContext(ctx).Should(Succeed())
		Expect(served.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, "web", nil))).To(Succeed())
		leads, err := holder(ctx)
		Expect(err).NotTo(HaveOccurred())

		kill(ctx, served)
		// Longer than a leader may go without renewing its lease.
		Consistently(func(g Gomega, ctx context.Context) {
			g.Expect(first.Ready(ctx)).To(Succeed())
			g.Expect(second.Ready(ctx)).To(Succeed())
			g.Expect(holder(ctx)).To(Equal(leads))
		}).WithContext(ctx).WithTimeout(12 * time.Second).WithPolling(time.Second).Should(Succeed())
		again := setup.Options{WebhookURL: "https://localhost:1", MetricsAddress: "0", EvaluationTimeout: time.Second, EvaluationConcurrency: 1}
		fromHost(ctx)(&again)
		_, err = setup.New(ctx, served.Operator, again)
		Expect(err).To(MatchError(And(ContainSubstring("asking the API server for Berth's own identity"), ContainSubstring("connection refused"))))
		revive(served)

		By("asking it at once")
		obj := framework.NewObject(framework.Deployment, namespace, "after", nil)
		Expect(served.Client.Create(ctx, obj)).To(Succeed())
		Expect(obj.GetAnnotations()).To(HaveKeyWithValue("example.com/clusters", "eu-1"))
		By("changing what the policy reads")
		addCluster(ctx, namespace, "eu-2")
		Eventually(clusters).WithContext(ctx).WithTimeout(2 * framework.Timeout).WithArguments(namespace).Should(Equal("eu-1,eu-2"))
		Expect(holder(ctx)).To(Equal(leads))
	})

	It("goes on by a renewed token when the old one is refused", func(ctx SpecContext) {
		start(ctx, fromHost(ctx))
		namespace := served.NewNamespace(ctx, nil)
		served.CreateReadyPolicy(ctx, framework.NewPolicy("held-"+namespace, zone("a"), "", "configmaps", namespace))
		Eventually(served.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal("a"))
		By("making the ServiceAccount anew, which ends all its tokens")
		served.MustKubectl(ctx, "", "delete", "serviceaccount", "berth-controller-manager", "--namespace", framework.OperatorNamespace)
		served.MustKubectl(ctx, "", "create", "serviceaccount", "berth-controller-manager", "--namespace", framework.OperatorNamespace)
		old, err := os.ReadFile(filepath.Join(mounted, "token"))
		Expect(err).NotTo(HaveOccurred())
		anybody := rest.AnonymousClientConfig(served.Config)
		anybody.BearerToken = string(old)
		holding, err := client.New(anybody, client.Options{Scheme: setup.NewScheme()})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(ctx context.Context) bool {
			return apierrors.IsUnauthorized(holding.Create(ctx, &authenticationv1.SelfSubjectReview{}))
		}).WithContext(ctx).Should(BeTrue())
		name := "renewed-" + namespace
		served.CreatePolicy(ctx, framework.NewPolicy(name, zone("b"), "", "secrets", namespace))
		Expect(served.TryZone(ctx, namespace)).To(Equal("a"))
		Consistently(served.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionReady).
			ShouldNot(HaveField("Status", metav1.ConditionTrue), "something was written without a token")
		document(ctx, "Renewing the kubeconfig")
		mount(ctx)
		Eventually(served.Condition).WithContext(ctx).WithTimeout(3*framework.Timeout).WithArguments(name, placementv1.ConditionReady).
			Should(HaveField("Status", metav1.ConditionTrue))
	})

	It("goes on by a renewed certificate", func(ctx SpecContext) {
		// Two groups tell two certificates of one user apart.
		bind := func(group string) {
			for _, role := range []string{"berth-manager-role", "berth-workloads-default"} {
				served.MustKubectl(ctx, "", "create", "clusterrolebinding", "renewed-"+group+"-"+role, "--clusterrole="+role, "--group="+group)
			}
		}
		unbind := func(ctx context.Context, group string) {
			for _, role := range []string{"berth-manager-role", "berth-workloads-default"} {
				served.MustKubectl(ctx, "", "delete", "clusterrolebinding", "--ignore-not-found", "renewed-"+group+"-"+role)
			}
		}
		// Client-go goes on reading them when the spec has ended.
		files := filepath.Join(tree, "certificate")
		Expect(os.Mkdir(files, 0o700)).To(Succeed())
		issue := func(group string) {
			user, err := served.Plane.User("berth-by-certificate", group)
			Expect(err).NotTo(HaveOccurred())
			for name, text := range map[string][]byte{"tls.crt": user.CertData, "tls.key": user.KeyData, "ca.crt": user.CAData} {
				Expect(os.WriteFile(filepath.Join(files, name), text, 0o600)).To(Succeed())
			}
		}
		token := served.Operator
		served.Operator = rest.AnonymousClientConfig(served.Config)
		served.Operator.TLSClientConfig = rest.TLSClientConfig{
			CertFile: filepath.Join(files, "tls.crt"), KeyFile: filepath.Join(files, "tls.key"), CAFile: filepath.Join(files, "ca.crt"),
		}
		DeferCleanup(func(refresh time.Duration) { served.Operator, transport.CertCallbackRefreshDuration = token, refresh }, transport.CertCallbackRefreshDuration)
		transport.CertCallbackRefreshDuration = time.Second
		issue("first")
		bind("first")
		DeferCleanup(func(ctx SpecContext) { unbind(ctx, "second") })
		start(ctx, fromHost(ctx))
		namespace := served.NewNamespace(ctx, nil)
		unbind(ctx, "first")
		bind("second")
		name := "renewed-" + namespace
		served.CreatePolicy(ctx, framework.NewPolicy(name, zone("a"), "", "configmaps", namespace))
		Consistently(served.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionReady).
			ShouldNot(HaveField("Status", metav1.ConditionTrue), "something was written without a right")
		issue("second")
		served.AwaitReady(ctx, name)
	})

	It("asks the host cluster who may scrape its metrics", func(ctx SpecContext) {
		port := strconv.Itoa(framework.FreePort())
		start(ctx, fromHost(ctx), func(o *setup.Options) { o.MetricsAddress, o.MetricsSecure = "127.0.0.1:"+port, true })
		token := func(f *framework.Framework) string {
			_, _ = f.Kubectl(ctx, "", "create", "serviceaccount", "scraper", "--namespace", framework.OperatorNamespace)
			return strings.TrimSpace(f.MustKubectl(ctx, "", "create", "token", "scraper", "--namespace", framework.OperatorNamespace))
		}
		served.MustKubectl(ctx, "", "create", "clusterrole", "scraper", "--verb=get", "--non-resource-url=/metrics")
		served.MustKubectl(ctx, "", "create", "clusterrolebinding", "scraper", "--clusterrole=scraper", "--serviceaccount="+framework.OperatorNamespace+":scraper")
		host.MustKubectl(ctx, "", "create", "clusterrolebinding", "scraper", "--clusterrole=berth-metrics-reader", "--serviceaccount="+framework.OperatorNamespace+":scraper")
		scrape := func(ctx context.Context, token string) (int, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1:"+port+"/metrics", nil)
			if err != nil {
				return 0, err
			}
			request.Header.Set("Authorization", "Bearer "+token)
			//nolint:gosec // The certificate is the metrics server's own, made at its start.
			connections := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			defer connections.CloseIdleConnections()
			response, err := (&http.Client{Transport: connections}).Do(request)
			if err != nil {
				return 0, err
			}
			return response.StatusCode, response.Body.Close()
		}
		Eventually(scrape).WithContext(ctx).WithArguments(token(host)).Should(Equal(http.StatusOK))
		Expect(scrape(ctx, token(served))).NotTo(Equal(http.StatusOK), "a token of the served API server")
	})

	It("refuses what can't be meant", func(ctx SpecContext) {
		good := setup.Options{
			Namespace: framework.OperatorNamespace, WebhookURL: "https://localhost:1", MetricsAddress: "0", EvaluationTimeout: time.Second, EvaluationConcurrency: 1,
		}
		fromHost(ctx)(&good)
		for reason, change := range map[string]func(*setup.Options){
			"--state-cluster \"guest\"":                     func(o *setup.Options) { o.StateCluster = "guest" },
			"needs --webhook-url":                           func(o *setup.Options) { o.WebhookURL = "" },
			"no use without":                                func(o *setup.Options) { o.StateCluster = setup.StateClusterServed },
			"set --host-kubeconfig to":                      func(o *setup.Options) { o.HostKubeconfig = "" },
			"the host cluster is the served cluster itself": func(o *setup.Options) { o.HostKubeconfig = served.Kubeconfig },
			"reading Berth's own namespace nowhere":         func(o *setup.Options) { o.Namespace = "nowhere" },
			"no such file":                                  func(o *setup.Options) { o.HostKubeconfig = "/nowhere" },
		} {
			bad := good
			change(&bad)
			_, err := setup.New(ctx, served.Operator, bad)
			Expect(err).To(MatchError(ContainSubstring(reason)))
		}
	})
})

var _ = Describe("With its state on the served API server, Berth", func() {
	It("keeps it in its own namespace there, which is never hooked, and needs no other cluster", func(ctx SpecContext) {
		allowState(ctx)
		start(ctx, func(o *setup.Options) { o.LeaderElection = true })
		name := "state-on-served"
		served.CreateReadyPolicy(ctx, framework.NewPolicy(name, zone("a"), "", "configmaps"))
		namespace := served.NewNamespace(ctx, nil)
		Eventually(served.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal("a"))
		Expect(served.TryZone(ctx, framework.OperatorNamespace)).To(BeEmpty())
		Eventually(state).WithContext(ctx).WithArguments(served).Should(ConsistOf(
			"Secret/berth-webhook-cert", "Secret/berth-webhook-token", "Secret/berth-intent-key", "Lease/berth.placement.berth.dev", "ControllerRevision of "+name+", owned by 1",
		))
		Expect(state(ctx, host)).To(BeEmpty())
		// No garbage collector runs here.
		served.DeletePolicy(ctx, name)
		Eventually(state).WithContext(ctx).WithArguments(served).ShouldNot(ContainElement(ContainSubstring("ControllerRevision")))
	})
})

var _ = Describe("On the served API server", func() {
	It("an administrator lets policies read more, and another user be the operator", func(ctx SpecContext) {
		document(ctx, "Rights on the served API server")
		user, err := served.Plane.User("berth")
		Expect(err).NotTo(HaveOccurred())
		token := served.Operator
		served.Operator = user
		DeferCleanup(func() { served.Operator = token })
		start(ctx, fromHost(ctx))
		namespace := served.NewNamespace(ctx, nil)
		addCluster(ctx, namespace, "eu-1")
		served.CreateReadyPolicy(ctx, inventory("user-"+namespace, namespace))
		Expect(served.MustKubectl(ctx, "", "auth", "can-i", "list", "configmaps", "--as="+account)).To(HavePrefix("yes"))
		Expect(served.MustKubectl(ctx, "", "auth", "can-i", "patch", "deployments.apps", "--as=berth")).To(HavePrefix("yes"))
	})
})

// kill kills the API server of a cluster; the spec's end revives it, if revive has not.
func kill(ctx context.Context, f *framework.Framework) {
	GinkgoHelper()
	Expect(f.Plane.KillAPIServer(ctx)).To(Succeed())
	away[f] = true
	DeferCleanup(func() { revive(f) })
}

func revive(f *framework.Framework) {
	GinkgoHelper()
	if away[f] {
		Expect(f.Plane.StartAPIServer()).To(Succeed())
		delete(away, f)
	}
}

// away are the clusters whose API servers are killed.
var away = map[*framework.Framework]bool{}

// handshake succeeds if a replica serves what this authority signed.
func handshake(ctx context.Context, m *framework.Manager, authority string) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(authority))
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(m.URL, "https://"))
	if err != nil {
		return err
	}
	return connection.Close()
}
