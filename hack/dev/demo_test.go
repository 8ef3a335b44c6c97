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

package main

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/controlplane/process"
	"github.com/berth-dev/berth/test/suite"
)

// TestMain runs the tests. The tests also start this binary as the supervisor, or as a process that is never ready in
// place of the operator.
func TestMain(m *testing.M) {
	switch first := append(os.Args, "")[1]; {
	case first == superviseCommand:
		main()
	case strings.HasPrefix(first, "--kubeconfig="):
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM)
		<-ended
	default:
		os.Exit(m.Run())
	}
}

func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts control planes")
	}
	suite.Run(t, "Demo")
}

var (
	root    string
	manager string
)

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	root, err = controlplane.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	manager, err = controlplane.Program(ctx, "./cmd/manager")
	Expect(err).NotTo(HaveOccurred())
})

// export sets KUBECONFIG to an API server that counts its connections.
func export() *atomic.Int64 {
	GinkgoHelper()
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	DeferCleanup(server.Close)
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(file, []byte(`apiVersion: v1
kind: Config
current-context: exported
contexts: [{name: exported, context: {cluster: exported, user: exported}}]
clusters: [{name: exported, cluster: {insecure-skip-tls-verify: true, server: "`+server.URL+`"}}]
users: [{name: exported, user: {token: exported}}]
`), 0o600)).To(Succeed())
	GinkgoT().Setenv("KUBECONFIG", file)
	return &connections
}

// play runs the demo and returns its output.
func play(ctx context.Context, interactive bool, input string) (string, error) {
	GinkgoHelper()
	var out strings.Builder
	err := demo(ctx, demoOptions{
		root: root, dir: GinkgoT().TempDir(), manager: manager, oneshot: !interactive,
		terminal: terminal{in: bufio.NewReader(strings.NewReader(input)), out: &out, interactive: interactive},
	})
	return out.String(), err
}

var _ = Describe("The demo with an exported KUBECONFIG", func() {
	It("does not connect to its cluster", func(ctx SpecContext) {
		connections := export()
		GinkgoT().Setenv(kubeconfigVariable, "")
		out, err := play(ctx, false, "")
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(out).To(And(ContainSubstring("is not used"), ContainSubstring("The story is told")))
		Expect(connections.Load()).To(BeZero())
	})
})

var _ = Describe("The demo on the cluster of DEMO_KUBECONFIG", Ordered, func() {
	var (
		k           kubectl
		connections *atomic.Int64
		before      map[string]bool
	)
	BeforeAll(func(ctx SpecContext) {
		// kube-controller-manager aggregates roles and deletes namespaces.
		plane, err := controlplane.Start(ctx, controlplane.Options{ControllerManager: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(plane.Stop)
		text, err := plane.Kubeconfig(controlplane.AdminUser, "system:masters")
		Expect(err).NotTo(HaveOccurred())
		k = kubectl{path: plane.KubectlPath(), kubeconfig: filepath.Join(GinkgoT().TempDir(), "kubeconfig"), dir: root}
		Expect(os.WriteFile(k.kubeconfig, text, 0o600)).To(Succeed())
		// Wait for the objects that kube-controller-manager creates in each namespace.
		Eventually(func() (string, error) {
			return k.get(ctx, "get", "configmaps,serviceaccounts", "-A", "-o", "name")
		}).WithTimeout(patience).Should(And(
			WithTransform(func(s string) int { return strings.Count(s, "configmap/kube-root-ca.crt") }, Equal(4)),
			WithTransform(func(s string) int { return strings.Count(s, "serviceaccount/default") }, Equal(4))))
		before = objects(ctx, Default, k)
	})
	BeforeEach(func() {
		connections = export()
		GinkgoT().Setenv(kubeconfigVariable, k.kubeconfig)
		GinkgoT().Setenv(consentVariable, "")
	})
	AfterEach(func(ctx SpecContext) {
		Expect(connections.Load()).To(BeZero(), "connections to the cluster of KUBECONFIG")
		// The garbage collector deletes the last objects.
		Eventually(func(g Gomega) {
			g.Expect(objects(ctx, g, k)).To(Equal(before))
		}).WithTimeout(patience).WithPolling(time.Second).Should(Succeed())
	})

	It("changes nothing if nobody can be asked", func(ctx SpecContext) {
		_, err := play(ctx, false, "")
		Expect(err).To(MatchError(ContainSubstring("set DEMO_YES=1")))
	})
	It("changes nothing if the user does not agree", func(ctx SpecContext) {
		out, err := play(ctx, true, "\n")
		Expect(err).To(MatchError(ContainSubstring("is not used, as you answered")))
		Expect(out).To(ContainSubstring("[y/N]"))
	})
	It("installs nothing if the API server does not reach the webhook", func(ctx SpecContext) {
		GinkgoT().Setenv(hostVariable, "berth-demo.invalid")
		_, err := play(ctx, true, "y\n")
		Expect(err).To(MatchError(And(ContainSubstring("does not reach this machine"), ContainSubstring("set BERTH_WEBHOOK_HOST"))))
	})
	It("changes nothing if something of Berth is there", func(ctx SpecContext) {
		GinkgoT().Setenv(consentVariable, "1")
		_, err := k.get(ctx, "create", "clusterrole", "berth-dev-wide", "--verb=get", "--resource=pods")
		Expect(err).NotTo(HaveOccurred())
		_, err = play(ctx, false, "")
		Expect(err).To(MatchError(ContainSubstring("clusterrole.rbac.authorization.k8s.io/berth-dev-wide already")))
		_, err = k.get(ctx, "delete", "clusterrole", "berth-dev-wide")
		Expect(err).NotTo(HaveOccurred(), "the demo removed an object that it had not made")
	})
	It("says how to remove what a killed demo left", func(ctx SpecContext) {
		GinkgoT().Setenv(consentVariable, "1")
		webhook := filepath.Join(GinkgoT().TempDir(), "webhook.yaml")
		Expect(os.WriteFile(webhook, []byte(`apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: berth-placement, labels: {app.kubernetes.io/name: berth, app.kubernetes.io/managed-by: berth}}
webhooks:
- name: placement.berth.dev
  clientConfig: {url: "https://localhost:1/"}
  rules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE, UPDATE]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`), 0o600)).To(Succeed())
		for _, args := range [][]string{
			{"apply", "--server-side", "-k", "config/dev"},
			{"wait", "--for=" + controlplane.DefinitionStates[0], "--timeout=60s", "crd/" + policies, "crd/limitedresources.placement.berth.dev", "crd/scopedquotas.placement.berth.dev"},
			{"wait", "--for=condition=Established", "--timeout=60s", "crd/" + policies, "crd/limitedresources.placement.berth.dev", "crd/scopedquotas.placement.berth.dev"},
			{"create", "namespace", storyNamespace},
			{"apply", "-f", crdFile, "-f", karmadaFile},
			{"wait", "--for=" + controlplane.DefinitionStates[0], "--timeout=60s", "-f", crdFile, "-f", karmadaFile},
			{"wait", "--for=condition=Established", "--timeout=60s", "-f", crdFile, "-f", karmadaFile},
			{"apply", "-f", clustersFile, "-f", policyFile, "-f", limitFile, "-f", rightsFile},
			{"apply", "-n", storyNamespace, "-f", quotaFile, "-f", plainFile},
			{"apply", "-f", webhook},
		} {
			_, err := k.get(ctx, args...)
			Expect(err).NotTo(HaveOccurred())
		}
		_, err := play(ctx, false, "")
		Expect(err).To(MatchError(And(ContainSubstring("namespace/"+storyNamespace), ContainSubstring("remove them, in the directory "+root))))
		_, commands, _ := strings.Cut(err.Error(), root+":\n")
		shell := exec.CommandContext(ctx, "sh", "-e", "-c", commands)
		shell.Dir, shell.Env = root, append(os.Environ(), "PATH="+filepath.Dir(k.path)+":"+os.Getenv("PATH"))
		out, err := shell.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s\n%s", commands, out)
	})
	It("is cleaned by dev-down after a dev-up that was killed before it was ready", func(ctx SpecContext) {
		GinkgoT().Setenv(consentVariable, "1")
		self, err := os.Executable()
		Expect(err).NotTo(HaveOccurred())
		dev := supervisor{root: root, dir: GinkgoT().TempDir(), manager: self}
		up := make(chan error, 1)
		go func() { up <- dev.up(ctx) }()
		Eventually(func() (string, error) {
			return k.get(ctx, "get", "--ignore-not-found", "-o", "name", "clusterrole/berth-dev-wide")
		}).WithTimeout(patience).ShouldNot(BeEmpty())
		text, err := os.ReadFile(dev.path("lock"))
		Expect(err).NotTo(HaveOccurred())
		pid, err := strconv.Atoi(string(text))
		Expect(err).NotTo(HaveOccurred())
		Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
		Eventually(up).WithTimeout(patience).Should(Receive(HaveOccurred()))
		Expect(dev.up(ctx)).To(MatchError(ContainSubstring("run make dev-down first")))
		Expect(dev.down(ctx)).To(Succeed())
		Expect(dev.path("kubeconfig")).NotTo(BeAnExistingFile())
	})
	It("plays the story, and removes everything that it made", func(ctx SpecContext) {
		GinkgoT().Setenv(consentVariable, "1")
		out, err := play(ctx, false, "")
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(out).To(ContainSubstring("The story is told"))
	})
})

var _ = Describe("make dev-up and make dev-down", func() {
	It("start a control plane with Berth, start an operator again that ended, and stop both", func(ctx SpecContext) {
		connections := export()
		GinkgoT().Setenv(kubeconfigVariable, "")
		dev := supervisor{root: root, dir: GinkgoT().TempDir(), manager: manager}
		DeferCleanup(func(ctx SpecContext) { Expect(dev.down(ctx)).To(Succeed()) })
		Expect(dev.up(ctx)).To(Succeed())
		Expect(dev.up(ctx)).To(Succeed(), "again")
		Expect(dev.status(ctx, io.Discard)).To(Succeed())
		st, err := dev.readReadyState()
		Expect(err).NotTo(HaveOccurred())
		killOperator(ctx, dev, st.OperatorHealth)
		// The new process serves the webhook that judges policies, at the address of the one before.
		k := kubectl{path: st.Kubectl, kubeconfig: st.Kubeconfig, dir: root}
		_, err = k.get(ctx, "apply", "-f", policyFile)
		Expect(err).NotTo(HaveOccurred())
		Expect(dev.down(ctx)).To(Succeed())
		Expect(dev.status(ctx, io.Discard)).To(MatchError(ContainSubstring("nothing is up")))
		Expect(st.Kubeconfig).NotTo(BeAnExistingFile())
		Expect(ready(ctx, st.OperatorHealth)).NotTo(Succeed())
		Expect(connections.Load()).To(BeZero())
	})
})

// killOperator kills the operator that a supervisor runs, and waits until another process is ready in its place.
func killOperator(ctx context.Context, dev supervisor, healthURL string) {
	GinkgoHelper()
	running := func() int { return process.Recorded(operatorDir(dev.dir))[operatorName] }
	killed := running()
	Expect(killed).NotTo(BeZero())
	Expect(syscall.Kill(killed, syscall.SIGKILL)).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(running()).NotTo(Or(BeZero(), Equal(killed)), "the operator is not started again")
		g.Expect(ready(ctx, healthURL)).To(Succeed())
	}).WithTimeout(patience).Should(Succeed())
}

// objects returns all objects of a cluster, except Events and objects that other components renew continuously.
func objects(ctx context.Context, g Gomega, k kubectl) map[string]bool {
	GinkgoHelper()
	types, err := k.get(ctx, "api-resources", "--verbs=list", "-o", "name")
	g.Expect(err).NotTo(HaveOccurred())
	listed := slices.DeleteFunc(strings.Fields(types), func(name string) bool {
		return strings.HasPrefix(name, "events") || strings.HasPrefix(name, "leases.") || strings.HasPrefix(name, "componentstatuses")
	})
	text, err := k.get(ctx, "get", strings.Join(listed, ","), "--all-namespaces", "-o",
		`jsonpath={range .items[*]}{.apiVersion} {.kind} {.metadata.namespace}/{.metadata.name}{"\n"}{end}`)
	g.Expect(err).NotTo(HaveOccurred())
	return maps.Collect(func(yield func(string, bool) bool) {
		for line := range strings.Lines(text) {
			if !yield(strings.TrimSpace(line), true) {
				return
			}
		}
	})
}
