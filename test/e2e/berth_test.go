//go:build e2e

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

package e2e_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// harbour is the namespace with the workloads that the policy and the quota match.
var harbour string

// One installation after the other on one cluster, and all that happens to them: each spec goes on from the one before.
var _ = Describe("Berth", Ordered, func() {
	var bare map[string]bool

	BeforeAll(func(ctx SpecContext) {
		harbour = f.NewNamespace(ctx, nil)
		Eventually(defaultAccount).WithContext(ctx).Should(Succeed())
		// What Berth may read and change beyond what the installation grants is an administrator's to say.
		must(ctx, "kubectl create clusterrole harbour --verb=get,list,watch,patch --resource=configmaps,pods")
		must(ctx, "kubectl label clusterrole harbour placement.berth.dev/aggregate-to-manager=true")
		bare = existing(ctx)
	})

	Describe("installed with kubectl", func() {
		It("is installed in the version before, and places what is created", func(ctx SpecContext) {
			Expect(kube.LoadImage(ctx, archive("previous"))).To(Succeed())
			must(ctx, "kubectl apply --server-side -f "+previousManifests())
			expectReady(ctx)
			governHarbour(ctx)
			// What is deployed from here on is still there at the end.
			deploy(ctx, "fleet", 3)
			expectPods(ctx, "fleet", 3, "north")
		})
		It("is upgraded without a refused request", func(ctx SpecContext) {
			must(ctx, "make build-installer IMG="+image)
			l := startLoad(ctx, harbour, berthAnnotation)
			l.await(ctx, 20)
			follow(ctx, "docs/install.md#Upgrading")
			must(ctx, rollout)
			Expect(operators(ctx)).To(HaveEach(HaveField("Spec.Containers", HaveEach(HaveField("Image", image)))))
			expectReady(ctx)
			l.await(ctx, 40)
			l.expectAllAdmitted()
			follow(ctx, "docs/plugin.md#Check the installation")
		})
		Describe("at work", atWork)
		Describe("on decks", onDecks)
		Describe("disturbed", disturbed)
		Describe("closed and opened", closedAndOpened)
		Describe("down while the cluster starts", downAtStart)
		It("writes nothing when nothing happens", func(ctx SpecContext) {
			// A status that counts requests is still written for a while after the responses.
			var last map[string]string
			var since time.Time
			var changed []string
			Eventually(func(ctx context.Context) (time.Duration, error) {
				now, err := versions(ctx)
				if err != nil {
					return 0, err
				}
				if different := changes(last, now); len(different) > 0 {
					last, since, changed = now, time.Now(), different
				}
				return time.Since(since), nil
			}).WithContext(ctx).WithPolling(5*time.Second).Should(BeNumerically(">=", quiet), func() string { return strings.Join(changed, "\n") })
			Expect(len(last)).To(BeNumerically(">", 10))
		})
		It("is uninstalled, and leaves the door open and nothing behind", func(ctx SpecContext) {
			// First, as the document says. The fleet was placed by the version before as well.
			must(ctx, "kubectl delete placementpolicies --all")
			must(ctx, "kubectl wait --for=delete mutatingwebhookconfiguration/berth-placement --timeout=60s")
			must(ctx, "kubectl berth cleanup --all-namespaces --dry-run")
			Expect(f.Get(ctx, framework.Deployment, harbour, "fleet")).To(HaveField("GetAnnotations()", HaveKey(placementv1.RequestedAnnotation)))
			must(ctx, "kubectl berth cleanup --all-namespaces --yes")
			expectNoTrace(ctx)
			follow(ctx, "docs/install.md#Uninstalling")
			expectNothingLeft(ctx, bare)
		})
		It("is installed anew, and uninstalled in one step", func(ctx SpecContext) {
			follow(ctx, "docs/install.md#With kubectl")
			// It is there already; what the quick start says is the same again.
			follow(ctx, "README.md#Install")
			follow(ctx, "docs/quickstart.md#Install")
			expectReady(ctx)
			governHarbour(ctx)
			Expect(create(ctx, "anew")).To(Succeed())
			Eventually(pod).WithContext(ctx).WithArguments("anew").Should(And(BeReady(), BePlaced("north")))
			must(ctx, "kubectl delete --ignore-not-found -f dist/install.yaml")
			must(ctx, "kubectl wait --for=delete mutatingwebhookconfiguration/berth-placement --timeout=60s")
			must(ctx, "kubectl berth cleanup --all-namespaces --unverified --yes")
			expectNoTrace(ctx)
			expectNothingLeft(ctx, bare)
		})
	})

	Describe("installed with Helm", func() {
		It("is up, and places what is created", func(ctx SpecContext) {
			Expect(kube.LoadImage(ctx, archive("berth"), releaseImage)).To(Succeed())
			follow(ctx, "docs/install.md#With Helm")
			expectReady(ctx)
			governHarbour(ctx)
			Expect(create(ctx, "helm")).To(Succeed())
			Eventually(pod).WithContext(ctx).WithArguments("helm").Should(And(BeReady(), BePlaced("north")))
		})
		It("is upgraded without a refused request", func(ctx SpecContext) {
			l := startLoad(ctx, harbour, berthAnnotation)
			l.await(ctx, 20)
			follow(ctx, "docs/install.md#Upgrading")
			// That was the version that runs. These pods are new ones.
			must(ctx, "helm upgrade berth charts/berth --namespace berth-system --set podAnnotations.upgraded=again")
			must(ctx, rollout)
			expectReady(ctx)
			l.await(ctx, 40)
			l.expectAllAdmitted()
		})
		It("is uninstalled, and leaves the door open and nothing behind", func(ctx SpecContext) {
			follow(ctx, "docs/install.md#Uninstalling")
			expectNothingLeft(ctx, bare)
		})
	})

	It("runs from a clone, as the documents say", func(ctx SpecContext) {
		for _, place := range []string{"README.md#Develop", "docs/getting-started.md#Getting started", "docs/getting-started.md#Leave", "docs/migration.md#The plugin"} {
			// With a KUBECONFIG they would use this cluster.
			follow(ctx, place, "unset KUBECONFIG")
		}
	})
	It("has done all that the documents say of a cluster", func() {
		expectAllFollowed()
	})
})

// rollout waits until all pods of the operator are of the newest version.
const rollout = "kubectl --namespace berth-system rollout status deployment/berth-controller-manager --timeout=3m"

// quiet is how long nothing must be written for it to count as nothing.
const quiet = 30 * time.Second

// atWork is what Berth does for workloads whose pods run.
func atWork() {
	It("denies what the policy denies, with the policy's words", func(ctx SpecContext) {
		d := newDeployment(harbour, "wreck", 1)
		d.Labels = map[string]string{"unseaworthy": "true"}
		Expect(f.Client.Create(ctx, d)).To(framework.BeForbidden("no berth for the unseaworthy"))
	})

	It("remediates a Deployment in the midst of a rollout, and its pods", func(ctx SpecContext) {
		must(ctx, "kubectl --namespace "+harbour+" set env deployment/fleet VOYAGE=second")
		relocate(ctx, "south")
		must(ctx, "kubectl --namespace "+harbour+" rollout status deployment/fleet --timeout=2m")
		expectPods(ctx, "fleet", 3, "south")
		Eventually(f.Condition).WithContext(ctx).WithArguments("berths", placementv1.ConditionCompliant).
			Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonCompliant))
	})

	It("holds a Deployment's pods within a quota, until that is raised", func(ctx SpecContext) {
		q := framework.NewScopedQuota(harbour, "crew", placementv1.QuotaSpec{
			Hard: framework.Hard("pods", "1"), Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort},
		})
		Expect(f.Client.Create(ctx, q)).To(Succeed())
		f.AwaitReadyQuota(ctx, q)
		// There are three such pods already, so the namespace is over the quota as it is.
		Eventually(f.Used).WithContext(ctx).WithArguments(q).Should(HaveKeyWithValue("pods", "3"))
		deploy(ctx, "boats", 2)
		Eventually(func(ctx context.Context) (string, error) {
			return f.Kubectl(ctx, "", "get", "events", "--namespace", harbour, "--field-selector=reason=FailedCreate", "--output=jsonpath={.items[*].message}")
		}).WithContext(ctx).Should(ContainSubstring("crew"))
		Expect(pods(ctx, harbour, client.MatchingLabels{"app": "boats"})).To(BeEmpty())
		must(ctx, "kubectl --namespace "+harbour+` patch squota/crew --type=merge --patch='{"spec":{"hard":{"pods":"5"}}}'`)
		expectPods(ctx, "boats", 2, "south")
		Expect(f.Client.Delete(ctx, newDeployment(harbour, "boats", 2))).To(Succeed())
		expectPods(ctx, "boats", 0, "")
		must(ctx, "kubectl --namespace "+harbour+" delete squota/crew")
	})

	It("serves its metrics to whom the documents let read them", func(ctx SpecContext) {
		for kind, plural := range map[string]string{"ServiceMonitor": "servicemonitors", "PrometheusRule": "prometheusrules"} {
			crd := framework.NewCRD("monitoring.coreos.com", "v1", plural, kind, "Namespaced")
			f.InstallCRD(ctx, crd)
			DeferCleanup(f.UninstallCRD, crd.Name)
		}
		follow(ctx, "docs/install.md#Metrics, alerts, dashboard")
		DeferCleanup(func(ctx SpecContext) {
			must(ctx, "kubectl delete clusterrolebinding/prometheus-reads-berth namespace/monitoring")
		})
		must(ctx, "kubectl create namespace monitoring && kubectl --namespace monitoring create serviceaccount prometheus-k8s")
		address := must(ctx, "kubectl --namespace berth-system get service berth-controller-manager-metrics-service --output=jsonpath={.spec.clusterIP}")
		token := strings.TrimSpace(must(ctx, "kubectl --namespace monitoring create token prometheus-k8s"))
		Eventually(scrape).WithContext(ctx).WithArguments(address, token).Should(ContainSubstring(`berth_policies{state="in_force"} 1`))
		Expect(scrape(ctx, address, "")).NotTo(ContainSubstring("berth_policies"))
	})

	It("is found where the documents look", func(ctx SpecContext) {
		follow(ctx, "docs/install.md#Networks")
		follow(ctx, "docs/runbook.md#Check the state")
		// Argo CD itself is of no matter for its settings.
		must(ctx, "kubectl create namespace argocd && kubectl --namespace argocd create configmap argocd-cm")
		follow(ctx, "docs/gitops.md#Health")
		must(ctx, "kubectl delete namespace argocd")
	})
}

// scrape returns the response of the metrics' Service to the user that the token identifies.
func scrape(ctx context.Context, address, token string) (string, error) {
	// No document says whose certificate it is.
	c := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}, Timeout: 10 * time.Second}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+net.JoinHostPort(address, "8443")+"/metrics", nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := c.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// defaultAccount returns an error until pods can be made in the harbour.
func defaultAccount(ctx context.Context) error {
	return f.Client.Get(ctx, client.ObjectKey{Namespace: harbour, Name: "default"}, &corev1.ServiceAccount{})
}

// governHarbour creates a policy and a quota that match all workloads in the harbour.
func governHarbour(ctx context.Context) {
	GinkgoHelper()
	Expect(f.Client.Create(ctx, newPolicy("north", harbour))).To(Succeed())
	f.AwaitReady(ctx, "berths")
	q := framework.NewScopedQuota(harbour, "cargo", placementv1.QuotaSpec{Hard: framework.Hard("count/configmaps", "100000")})
	Expect(f.Client.Create(ctx, q)).To(Succeed())
	f.AwaitReadyQuota(ctx, q)
	// Of pods that have just become Ready, kube-proxy learns a moment later than the API server.
	Eventually(create).WithContext(ctx).WithArguments("first").Should(Succeed())
	must(ctx, "kubectl --namespace "+harbour+" delete pod first --wait=false")
}

// deploy creates a Deployment in the harbour.
func deploy(ctx context.Context, name string, replicas int32) {
	GinkgoHelper()
	Expect(f.Client.Create(ctx, newDeployment(harbour, name, replicas))).To(Succeed())
}

// relocate has the policy give another berth from now on.
func relocate(ctx context.Context, where string) {
	GinkgoHelper()
	f.ChangePolicy(ctx, "berths", func(p *placementv1.PlacementPolicy) { p.Spec.Rego = rego(where) })
}

// expectPods waits until a Deployment of the harbour has so many pods, all Ready and, as itself, at this berth.
func expectPods(ctx context.Context, deployment string, count int, where string) {
	GinkgoHelper()
	if count == 0 {
		Eventually(pods).WithContext(ctx).WithArguments(harbour, client.MatchingLabels{"app": deployment}).Should(BeEmpty())
		return
	}
	Eventually(f.Get).WithContext(ctx).WithArguments(framework.Deployment, harbour, deployment).Should(BePlaced(where))
	Eventually(pods).WithContext(ctx).WithArguments(harbour, client.MatchingLabels{"app": deployment}).
		Should(And(HaveLen(count), HaveEach(And(BeReady(), BePlaced(where)))))
}
