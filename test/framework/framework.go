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

// Package framework runs Berth against a real control plane for the integration suites.
package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/controlplane/process"
)

// Names of the suites' waits.
const (
	// Timeout is for what follows from a change by itself. That comes long before, also on a slow machine that does much else.
	Timeout = 2 * time.Minute
	// Interval is how often is looked.
	Interval = 100 * time.Millisecond
	// Quiet is how long nothing must happen for it to count as not happening.
	Quiet = 2 * time.Second
	// EvaluationTimeout is the deadline of the replicas for the evaluation of a policy. It is twice the default, because all processes of a
	// busy machine may stand still for a second, and half of the deadline of a request.
	EvaluationTimeout = 2 * time.Second
)

const (
	// OperatorNamespace is Berth's own namespace.
	OperatorNamespace = "berth-system"
	operatorUser      = "system:serviceaccount:" + OperatorNamespace + ":berth-controller-manager"
)

// Framework is a control plane, with Berth's CRDs and RBAC where Start made it.
type Framework struct {
	// Client acts as an administrator.
	Client client.WithWatch
	// Config is the administrator's.
	Config *rest.Config

	// Plane is the control plane itself, and Operator the identity that replicas have; absent where the framework is
	// attached to a cluster.
	Plane    *controlplane.ControlPlane
	Operator *rest.Config
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string

	root    string
	kubectl string
	// plugins is a directory on the PATH of Kubectl and Shell; empty if it has none.
	plugins string
}

// Start starts a control plane, with options that tune may change, and installs config/dev into it. Stop it in the
// suite's end.
func Start(ctx context.Context, tune ...func(*controlplane.Options)) *Framework {
	ginkgo.GinkgoHelper()
	f := StartEmpty(ctx, tune...)
	var err error
	f.Operator, err = f.Plane.User(operatorUser, "system:serviceaccounts", "system:serviceaccounts:"+OperatorNamespace)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	f.MustKubectl(ctx, "", "apply", "--server-side", "-k", filepath.Join(f.root, "config", "dev"))
	for _, plural := range []string{"placementpolicies", "scopedquotas", "clusterscopedquotas", "limitedresources"} {
		f.awaitListable(ctx, placementv1.GroupVersion.WithResource(plural))
	}
	// Without a controller manager, ClusterRoles are not aggregated, so what config/dev adds is bound directly.
	f.MustKubectl(ctx, "", "create", "clusterrolebinding", "berth-test-wide", "--clusterrole=berth-dev-wide", "--user="+operatorUser)
	return f
}

// WithControllerManager tunes Start to run kube-controller-manager, as clusters of users do. It gives each namespace objects of
// its own, such as the ConfigMap kube-root-ca.crt, makes pods of workloads, and aggregates ClusterRoles.
func WithControllerManager(o *controlplane.Options) { o.ControllerManager = true }

// StartEmpty is Start, and installs nothing: there is no Operator.
func StartEmpty(ctx context.Context, tune ...func(*controlplane.Options)) *Framework {
	ginkgo.GinkgoHelper()
	return StartEmptyPlanes(ctx, 1, tune...)[0]
}

// StartEmptyPlanes is StartEmpty for several control planes, which start at the same time.
func StartEmptyPlanes(ctx context.Context, count int, tune ...func(*controlplane.Options)) []*Framework {
	ginkgo.GinkgoHelper()
	ctrl.SetLogger(zap.New(zap.WriteTo(ginkgo.GinkgoWriter), zap.UseDevMode(true)))
	gomega.SetDefaultEventuallyTimeout(Timeout)
	gomega.SetDefaultEventuallyPollingInterval(Interval)
	gomega.SetDefaultConsistentlyDuration(Quiet)
	// Else a wait that has the spec's context lasts until the whole run's deadline.
	gomega.EnforceDefaultTimeoutsWhenUsingContexts()
	gomega.SetDefaultConsistentlyPollingInterval(Interval)

	options := controlplane.Options{}
	for _, t := range tune {
		t(&options)
	}
	planes := make([]*controlplane.ControlPlane, count)
	var group errgroup.Group
	for i := range planes {
		group.Go(func() (err error) {
			planes[i], err = controlplane.Start(ctx, options)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		for _, plane := range planes {
			if plane != nil {
				err = errors.Join(err, plane.Stop())
			}
		}
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
	}
	out := make([]*Framework, count)
	for i, plane := range planes {
		text, err := plane.Kubeconfig(controlplane.AdminUser, "system:masters")
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		kubeconfig := filepath.Join(ginkgo.GinkgoT().TempDir(), "kubeconfig")
		gomega.Expect(os.WriteFile(kubeconfig, text, 0o600)).To(gomega.Succeed())
		out[i] = Attach(plane.Config(), kubeconfig, plane.KubectlPath())
		out[i].Plane = plane
	}
	return out
}

// Attach returns a framework for a cluster that runs already and that the caller stops, by an administrator's
// configuration, the path of an administrator's kubeconfig and that of a kubectl. Nothing is installed, and no managers
// can be started.
func Attach(config *rest.Config, kubeconfig, kubectl string) *Framework {
	ginkgo.GinkgoHelper()
	f := &Framework{Config: rest.CopyConfig(config), Kubeconfig: kubeconfig, kubectl: kubectl, root: moduleRoot()}
	f.Config.QPS = -1
	scheme := setup.NewScheme()
	gomega.Expect(apiextensionsv1.AddToScheme(scheme)).To(gomega.Succeed())
	var err error
	f.Client, err = client.NewWithWatch(f.Config, client.Options{Scheme: scheme})
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return f
}

// Stop stops the control plane.
func (f *Framework) Stop() {
	ginkgo.GinkgoHelper()
	gomega.Expect(f.Plane.Stop()).To(gomega.Succeed())
}

func moduleRoot() string {
	dir, err := os.Getwd()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	for {
		if _, err := os.Stat(filepath.Join(dir, "PROJECT")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		gomega.Expect(parent).NotTo(gomega.Equal(dir), "not in the module")
		dir = parent
	}
}

// InstallPlugin compiles Berth's kubectl plugin and puts it on the PATH of Kubectl and Shell.
func (f *Framework) InstallPlugin(ctx context.Context) {
	ginkgo.GinkgoHelper()
	path, err := controlplane.Program(ctx, "./cmd/kubectl-berth")
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	f.plugins = filepath.Dir(path)
}

// Serves reports whether the API server serves a resource or subresource in an API version, as in "v1" and "pods/resize".
func (f *Framework) Serves(version, resource string) bool {
	ginkgo.GinkgoHelper()
	finder, err := discovery.NewDiscoveryClientForConfig(f.Config)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	served, err := finder.ServerResourcesForGroupVersion(version)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == resource })
}

// SkipUnlessServed skips the spec, for a reason, where the API server does not serve a resource or subresource.
func (f *Framework) SkipUnlessServed(version, resource, reason string) {
	ginkgo.GinkgoHelper()
	if !f.Serves(version, resource) {
		ginkgo.Skip("the API server does not serve " + resource + ": " + reason)
	}
}

// Kubectl runs kubectl as an administrator with stdin, and returns what it prints to both outputs.
func (f *Framework) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	return f.run(exec.CommandContext(ctx, f.kubectl, args...), stdin)
}

// Shell runs a command line as an administrator would in the repository, with kubectl on the PATH, and returns what it
// prints to both outputs.
func (f *Framework) Shell(ctx context.Context, line string) (string, error) {
	return f.run(exec.CommandContext(ctx, "bash", "-c", line), "")
}

func (f *Framework) run(cmd *exec.Cmd, stdin string) (string, error) {
	path := []string{f.plugins, filepath.Dir(f.kubectl), os.Getenv("PATH")}
	if f.plugins == "" {
		// An empty element would stand for the working directory.
		path = path[1:]
	}
	cmd.Env = append(os.Environ(), "KUBECONFIG="+f.Kubeconfig, "PATH="+strings.Join(path, string(os.PathListSeparator)))
	cmd.Dir = f.root
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// MustKubectl is Kubectl for what must succeed.
func (f *Framework) MustKubectl(ctx context.Context, stdin string, args ...string) string {
	ginkgo.GinkgoHelper()
	out, err := f.Kubectl(ctx, stdin, args...)
	gomega.Expect(err).NotTo(gomega.HaveOccurred(), "kubectl %s: %s", strings.Join(args, " "), out)
	return out
}

// Manager is one running replica of the operator.
type Manager struct {
	// Metrics is the replica's own registry.
	Metrics *prometheus.Registry
	// URL is the base of its webhooks.
	URL string

	probes string
	cancel context.CancelFunc
	// done is closed when the replica has ended, by err.
	done chan struct{}
	err  error
	// awaited is set if the replica was to end by itself.
	awaited bool
}

// StartManager starts a replica as the command does, with options that tune may change. It is not Ready yet. If it
// could not start because another process took one of its ports meanwhile, Ready returns the error.
func (f *Framework) StartManager(ctx context.Context, tune ...func(*setup.Options)) *Manager {
	ginkgo.GinkgoHelper()
	m := &Manager{Metrics: prometheus.NewRegistry(), done: make(chan struct{})}
	webhookPort, probePort := FreePort(), FreePort()
	m.URL = "https://localhost:" + strconv.Itoa(webhookPort)
	m.probes = net.JoinHostPort("127.0.0.1", strconv.Itoa(probePort))
	options := setup.Options{
		Namespace: OperatorNamespace, WebhookURL: m.URL, WebhookHost: "127.0.0.1", WebhookPort: webhookPort,
		MetricsAddress: "0", ProbeAddress: m.probes, EvaluationTimeout: EvaluationTimeout, EvaluationConcurrency: 8, Metrics: m.Metrics,
		ReservationTTL: 65 * time.Second,
	}
	for _, t := range tune {
		t(&options)
	}
	// The replica outlives the node that starts it; Stop ends it.
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m.cancel = cancel
	mgr, err := setup.New(run, f.Operator, options)
	if err != nil {
		cancel()
		m.err = err
		close(m.done)
		gomega.Expect(m.lostPort()).To(gomega.BeTrue(), "%v", err)
		return m
	}
	go func() {
		defer ginkgo.GinkgoRecover()
		defer close(m.done)
		defer cancel()
		m.err = mgr.Start(run)
	}()
	return m
}

// StartReadyManager is StartManager and waits until the replica is Ready.
func (f *Framework) StartReadyManager(ctx context.Context, tune ...func(*setup.Options)) *Manager {
	ginkgo.GinkgoHelper()
	return startReady(ctx, func() *Manager { return f.StartManager(ctx, tune...) })
}

// startReady starts replicas until one does not lose a port, and waits until it is Ready.
func startReady(ctx context.Context, start func() *Manager) *Manager {
	ginkgo.GinkgoHelper()
	const tries = 3
	for try := 1; ; try++ {
		m := start()
		again := false
		gomega.Eventually(func(ctx context.Context) error {
			if again = try < tries && m.lostPort(); again {
				return nil
			}
			return m.Ready(ctx)
		}).WithContext(ctx).Should(gomega.Succeed())
		if !again {
			return m
		}
	}
}

// ended reports whether the replica has ended; only then is there an err.
func (m *Manager) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// lostPort reports whether the replica ended because another process took one of its ports first.
func (m *Manager) lostPort() bool {
	return m.ended() && errors.Is(m.err, syscall.EADDRINUSE)
}

// Ready asks the replica's /readyz. For a replica that has ended no Eventually waits any longer.
func (m *Manager) Ready(ctx context.Context) error {
	if m.ended() {
		return gomega.StopTrying("the replica has ended").Wrap(m.err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.probes+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", response.Status)
	}
	return nil
}

// hangs is after which time a replica that does not end shows what it waits for. Replicas give themselves 30 seconds.
const hangs = 20 * time.Second

// AwaitEnd waits until the replica has ended by itself, and returns its error.
func (m *Manager) AwaitEnd(ctx context.Context) error {
	ginkgo.GinkgoHelper()
	gomega.Eventually(m.done).WithContext(ctx).Should(gomega.BeClosed(), "the replica goes on")
	m.awaited = true
	return m.err
}

// Stop stops the replica and waits for its end. It may be called twice, and after AwaitEnd.
func (m *Manager) Stop() {
	ginkgo.GinkgoHelper()
	m.cancel()
	select {
	case <-m.done:
	case <-time.After(hangs):
		gomega.Expect(pprof.Lookup("goroutine").WriteTo(ginkgo.GinkgoWriter, 1)).To(gomega.Succeed())
	}
	gomega.Eventually(m.done).Should(gomega.BeClosed())
	gomega.Expect(m.awaited || m.err == nil || errors.Is(m.err, context.Canceled)).To(gomega.BeTrue(), "%v", m.err)
}

// FreePort returns a port that was free a moment ago; see process.FreePorts.
func FreePort() int {
	ginkgo.GinkgoHelper()
	ports, err := process.FreePorts(1)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return ports[0]
}
