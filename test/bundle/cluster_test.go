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

package bundle_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

// installNamespace is another than the manifests' own: an administrator of OLM chooses it.
const installNamespace = "operators"

var (
	plane      *controlplane.ControlPlane
	admin      client.Client
	kubeconfig string
	installed  *bundle
)

func TestOnACluster(t *testing.T) {
	suite.Run(t, "Bundle")
}

// The bundle is installed as OLM does it: definitions and extra objects as they are, the latter into the namespace of the
// installation, a ServiceAccount, and roles from the CSV.
var _ = BeforeSuite(func(ctx SpecContext) {
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	SetDefaultEventuallyTimeout(framework.Timeout)
	SetDefaultEventuallyPollingInterval(framework.Interval)
	EnforceDefaultTimeoutsWhenUsingContexts()
	var err error
	installed, err = load()
	Expect(err).NotTo(HaveOccurred())
	// With its controllers: one of them fills the roles that aggregate.
	plane, err = controlplane.Start(ctx, controlplane.Options{ControllerManager: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	admin, err = client.New(plane.Config(), client.Options{Scheme: setup.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	text, err := plane.Kubeconfig(controlplane.AdminUser, "system:masters")
	Expect(err).NotTo(HaveOccurred())
	kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(kubeconfig, text, 0o600)).To(Succeed())

	newNamespace(ctx, installNamespace, nil)
	for _, files := range []map[string]*unstructured.Unstructured{installed.crds, installed.extra} {
		for file := range files {
			kubectl(ctx, "", "create", "--validate=strict", "--namespace", installNamespace, "--filename", filepath.Join("bundle", "manifests", file))
		}
	}
	for _, state := range controlplane.DefinitionStates {
		kubectl(ctx, "", "wait", "--for="+state, "--timeout=60s", "crd", "--all")
	}
	aggregateKinds(ctx)
	account := installed.csv.Spec.Install.Spec.Deployments[0].Spec.Template.Spec.ServiceAccountName
	Expect(admin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: installNamespace, Name: account}})).To(Succeed())
	grant(ctx, account, installed.csv.Metadata.Name)
})

// labelsOf are those by which OLM v0 finds what it made for a ClusterServiceVersion.
func labelsOf(version string) map[string]string {
	return map[string]string{"olm.owner": version, "olm.owner.namespace": installNamespace, "olm.owner.kind": "ClusterServiceVersion"}
}

// grant makes roles from the CSV, under the name of a version of it. For an operator of all namespaces, OLM makes ClusterRoles
// of the rights in its own namespace too.
func grant(ctx context.Context, account, version string) {
	GinkgoHelper()
	create := func(o client.Object) { Expect(admin.Create(ctx, o)).To(Succeed()) }
	subjects := func(p permission) []rbacv1.Subject {
		Expect(p.ServiceAccountName).To(Equal(account))
		return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: installNamespace, Name: p.ServiceAccountName}}
	}
	spec := installed.csv.Spec.Install.Spec
	for i, p := range slices.Concat(spec.ClusterPermissions, spec.Permissions) {
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", version, i), Labels: labelsOf(version)}
		create(&rbacv1.ClusterRole{ObjectMeta: meta, Rules: p.Rules})
		create(&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects(p),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}})
	}
}

// aggregateKinds makes the roles on the kinds of the CSV that OLM v0 aggregates to admin, edit and view.
func aggregateKinds(ctx context.Context) {
	GinkgoHelper()
	for _, owned := range installed.csv.Spec.Definitions.Owned {
		plural, group, _ := strings.Cut(owned.Name, ".")
		for to, verbs := range map[string][]string{
			"admin": {"*"}, "edit": {"create", "update", "patch", "delete"}, "view": {"get", "list", "watch"},
		} {
			Expect(admin.Create(ctx, &rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{
					Name:   owned.Name + "-" + owned.Version + "-" + to,
					Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-" + to: "true"},
				},
				Rules: []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{plural}, Verbs: verbs}},
			})).To(Succeed())
		}
	}
}

func kubectl(ctx context.Context, stdin string, args ...string) string {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, plane.KubectlPath(), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	cmd.Dir = root
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "kubectl %s: %s", strings.Join(args, " "), out)
	return string(out)
}

// newNamespace creates a namespace and waits until pods can be created in it.
func newNamespace(ctx context.Context, name string, labels map[string]string) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})).To(Succeed())
	Eventually(func(ctx context.Context) error {
		return admin.Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
	}).WithContext(ctx).Should(Succeed())
}

// as returns the configuration of a client that is a ServiceAccount by its token.
func as(ctx context.Context, account string) *rest.Config {
	GinkgoHelper()
	token := &authenticationv1.TokenRequest{}
	Expect(admin.SubResource("token").Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: installNamespace, Name: account},
	}, token)).To(Succeed())
	out := rest.AnonymousClientConfig(plane.Config())
	out.BearerToken = token.Status.Token
	return out
}

// refusals are the requests that the API server refused to a client.
type refusals struct {
	mu   sync.Mutex
	list []string
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// watch notes what is refused to a transport.
func (r *refusals) watch(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil && (response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusUnauthorized) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.list = append(r.list, fmt.Sprintf("%s %s: %s", request.Method, request.URL.RequestURI(), response.Status))
		}
		return response, err
	})
}

func (r *refusals) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(r.list)))
}

func (r *refusals) String() string { return "refused: " + strings.Join(r.all(), "\n") }

// replica is the manager as the CSV's Deployment starts it, but for what a pod and a Service would be.
type replica struct {
	refused refusals
	metrics string
	// end stops it, waits for its end, and returns how it ended. It may be called twice.
	end func() error
	// stop is end, and expects no error.
	stop func()
}

// start starts a replica and waits until it is Ready. The caller stops it, after the spec or after all. OLM v0
// tells it the version that it is of; OLM v1 tells none.
func start(ctx context.Context, version string) *replica {
	GinkgoHelper()
	out := &replica{}
	d := installed.csv.Spec.Install.Spec.Deployments[0]
	cfg := as(ctx, d.Spec.Template.Spec.ServiceAccountName)
	cfg.Wrap(out.refused.watch)
	options, err := installed.options()
	Expect(err).NotTo(HaveOccurred())
	options.Namespace, options.OwnerClusterServiceVersion = installNamespace, version
	// The one that the metrics show takes a name once.
	if version != "" {
		options.Metrics = prometheus.NewRegistry()
	}
	options.WebhookHost, options.WebhookPort = "127.0.0.1", framework.FreePort()
	options.WebhookURL = "https://localhost:" + strconv.Itoa(options.WebhookPort)
	options.MetricsAddress = net.JoinHostPort("127.0.0.1", strconv.Itoa(framework.FreePort()))
	options.ProbeAddress = net.JoinHostPort("127.0.0.1", strconv.Itoa(framework.FreePort()))
	out.metrics = "https://" + options.MetricsAddress + "/metrics"
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	mgr, err := setup.New(run, cfg, options)
	Expect(err).NotTo(HaveOccurred())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(run) }()
	out.end = sync.OnceValue(func() (err error) {
		cancel()
		Eventually(done).Should(Receive(&err))
		return err
	})
	out.stop = func() {
		GinkgoHelper()
		Expect(out.end()).To(Succeed())
	}
	Eventually(func(ctx context.Context) (int, error) {
		code, _, err := get(ctx, "http://"+options.ProbeAddress+"/readyz", "")
		return code, err
	}).WithContext(ctx).Should(Equal(http.StatusOK), out.refused.String)
	return out
}

// get asks for a page, with a token unless that is empty.
func get(ctx context.Context, url, token string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// The certificate of the metrics is not verified, because each start makes a new one.
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := insecure.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}
