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

// Package remote_test shows Berth serving one API server from another: the installation is that of
// docs/remote-control-plane.md, and the operator has just the rights that it gives.
package remote_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

const (
	root = "../../.."
	// account is the operator's, in the host cluster by its pod and in the served one by its token.
	account = "system:serviceaccount:" + framework.OperatorNamespace + ":berth-controller-manager"
	// kubeconfigSecret is mounted to mountPath in the operator's pods.
	kubeconfigSecret = "berth-served-kubeconfig"
	mountPath        = "/etc/berth/served"
)

var (
	// host has neither nodes nor controllers, as little as served: the operator runs as a process, with a pod's rights.
	host, served *framework.Framework
	// tree is a copy of what the document's commands use of the repository.
	tree string
	// mounted is what the operator's pods have at mountPath.
	mounted string
	// podKubeconfig is the path of a kubeconfig by which a process is what the operator's pods are in the host cluster.
	podKubeconfig string
	// commands runs the manager itself.
	commands *framework.Commands
)

func TestRemote(t *testing.T) {
	suite.Run(t, "Remote control plane")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	planes := framework.StartEmptyPlanes(ctx, 2, framework.WithControllerManager)
	host, served = planes[0], planes[1]
	DeferCleanup(host.Stop)
	DeferCleanup(served.Stop)
	copyTree()
	document(ctx, "Install")
	DeferCleanup(expectRemovable)

	mounted = GinkgoT().TempDir()
	mount(ctx)
	var err error
	served.Operator, err = clientcmd.BuildConfigFromFlags("", filepath.Join(mounted, "kubeconfig"))
	Expect(err).NotTo(HaveOccurred())
	text, err := host.Plane.Kubeconfig(account, "system:serviceaccounts", "system:serviceaccounts:"+framework.OperatorNamespace)
	Expect(err).NotTo(HaveOccurred())
	podKubeconfig = filepath.Join(GinkgoT().TempDir(), "pod")
	Expect(os.WriteFile(podKubeconfig, text, 0o600)).To(Succeed())
	served.InstallClusterProfiles(ctx)
	commands = served.NewCommands(ctx)
})

// What a spec before left would be taken for what a spec itself brings about.
var _ = BeforeEach(func(ctx SpecContext) {
	for _, f := range []*framework.Framework{host, served} {
		for _, kind := range []client.Object{&coordinationv1.Lease{}, &appsv1.ControllerRevision{}} {
			Expect(f.Client.DeleteAllOf(ctx, kind, client.InNamespace(framework.OperatorNamespace))).To(Succeed())
		}
		for _, name := range []string{"berth-webhook-cert", "berth-webhook-token", "berth-intent-key"} {
			f.MustKubectl(ctx, "", "delete", "--ignore-not-found", "--namespace", framework.OperatorNamespace, "secret", name)
		}
	}
	for _, kind := range []client.Object{&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}} {
		Expect(served.Client.DeleteAllOf(ctx, kind)).To(Succeed())
	}
})

// copyTree makes tree: make writes into the folder that it runs in.
func copyTree() {
	GinkgoHelper()
	tree = GinkgoT().TempDir()
	for _, dir := range []string{"config", "docs"} {
		Expect(os.CopyFS(filepath.Join(tree, dir), os.DirFS(filepath.Join(root, dir)))).To(Succeed())
	}
	for _, file := range []string{"Makefile", "go.mod", "go.tools.mod", "go.tools.sum"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(tree, file), text, 0o600)).To(Succeed())
	}
}

// section returns the code blocks of one language in a section of the document.
func section(heading, language string) []string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "remote-control-plane.md"))
	Expect(err).NotTo(HaveOccurred())
	at := regexp.MustCompile(`(?m)^##+ ` + regexp.QuoteMeta(heading) + `$`).FindIndex(text)
	Expect(at).NotTo(BeNil(), "the document has no section %q", heading)
	rest := string(text[at[1]:])
	if next := regexp.MustCompile(`(?m)^##+ `).FindStringIndex(rest); next != nil {
		rest = rest[:next[0]]
	}
	var out []string
	for _, block := range regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$").FindAllStringSubmatch(rest, -1) {
		if block[1] == language {
			out = append(out, block[2])
		}
	}
	Expect(out).NotTo(BeEmpty(), "the section %q has no commands", heading)
	return out
}

// document runs the commands of a section as the document's reader does, and returns what they print.
func document(ctx context.Context, heading string) string {
	GinkgoHelper()
	kubectl, err := filepath.Abs(served.Plane.KubectlPath())
	Expect(err).NotTo(HaveOccurred())
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", strings.Join(section(heading, "sh"), "\n"))
	cmd.Dir = tree
	cmd.Env = append(os.Environ(),
		"HOST="+host.Kubeconfig, "SERVED="+served.Kubeconfig, "SERVER="+served.Config.Host,
		"PATH="+filepath.Dir(kubectl)+string(os.PathListSeparator)+os.Getenv("PATH"),
	)
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s: %s", heading, out)
	return string(out)
}

// mount brings the Secret's data to mounted, as a kubelet does.
func mount(ctx context.Context) {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(host.Client.Get(ctx, client.ObjectKey{Namespace: framework.OperatorNamespace, Name: kubeconfigSecret}, secret)).To(Succeed())
	for name, text := range secret.Data {
		Expect(os.WriteFile(filepath.Join(mounted, name), text, 0o600)).To(Succeed())
	}
}

// expectRemovable holds the document's removal against what is left.
func expectRemovable(ctx SpecContext) {
	document(ctx, "Remove")
	for _, f := range []*framework.Framework{host, served} {
		for _, kind := range []string{
			"customresourcedefinitions", "clusterroles", "clusterrolebindings", "roles", "rolebindings", "deployments",
			"mutatingwebhookconfigurations", "validatingwebhookconfigurations",
		} {
			left := strings.Fields(f.MustKubectl(ctx, "", "get", kind, "--all-namespaces", "--output=name"))
			left = slices.DeleteFunc(left, func(name string) bool {
				// Those of the administrator's own choice are the administrator's to remove.
				return !strings.Contains(name, "berth") || strings.Contains(name, "/berth-user") || strings.Contains(name, "/berth-reads-")
			})
			Expect(left).To(BeEmpty())
		}
	}
}

// podArgs are the arguments of the operator's pods, with what a process has to have otherwise.
func podArgs(ctx context.Context) []string {
	GinkgoHelper()
	d := &appsv1.Deployment{}
	Expect(host.Client.Get(ctx, client.ObjectKey{Namespace: framework.OperatorNamespace, Name: "berth-controller-manager"}, d)).To(Succeed())
	var out []string
	for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
		out = append(out, strings.NewReplacer(mountPath, mounted, "$(POD_NAMESPACE)", d.Namespace).Replace(arg))
	}
	// A pod of the host cluster finds it by itself.
	return append(out, "--host-kubeconfig="+podKubeconfig)
}

// fromHost tunes a replica to be as the operator's pods are.
func fromHost(ctx context.Context) func(*setup.Options) {
	GinkgoHelper()
	var pod setup.Options
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	pod.Bind(flags)
	flags.String("kubeconfig", "", "")
	Expect(flags.Parse(podArgs(ctx))).To(Succeed())
	return func(o *setup.Options) {
		o.Namespace, o.StateCluster, o.HostKubeconfig = pod.Namespace, pod.StateCluster, pod.HostKubeconfig
		o.LeaderElection, o.OwnerClusterRole = pod.LeaderElection, pod.OwnerClusterRole
	}
}

// start starts a replica that the spec's end stops.
func start(ctx context.Context, tune ...func(*setup.Options)) *framework.Manager {
	GinkgoHelper()
	m := served.StartReadyManager(ctx, tune...)
	DeferCleanup(m.Stop)
	return m
}

// state is what a cluster has in the namespace, but for what the installation itself brings: kind and name.
func state(ctx context.Context, f *framework.Framework) ([]string, error) {
	var out []string
	for _, list := range []client.ObjectList{&corev1.SecretList{}, &coordinationv1.LeaseList{}, &appsv1.ControllerRevisionList{}} {
		if err := f.Client.List(ctx, list, client.InNamespace(framework.OperatorNamespace)); err != nil {
			return nil, err
		}
		switch list := list.(type) {
		case *corev1.SecretList:
			for _, o := range list.Items {
				if o.Name != kubeconfigSecret {
					out = append(out, "Secret/"+o.Name)
				}
			}
		case *coordinationv1.LeaseList:
			for _, o := range list.Items {
				out = append(out, "Lease/"+o.Name)
			}
		case *appsv1.ControllerRevisionList:
			for _, o := range list.Items {
				out = append(out, fmt.Sprintf("ControllerRevision of %s, owned by %d", o.Annotations["placement.berth.dev/policy"], len(o.OwnerReferences)))
			}
		}
	}
	return out, nil
}

// allowState lets the operator keep its state on the served API server, until the spec ends.
func allowState(ctx context.Context) {
	GinkgoHelper()
	document(ctx, "As a plain process")
	DeferCleanup(func(ctx SpecContext) {
		served.MustKubectl(ctx, "", "delete", "roles,rolebindings", "--all", "--namespace", framework.OperatorNamespace)
		served.MustKubectl(ctx, "", "delete", "clusterrole", "berth-metrics-auth-role", "berth-metrics-reader")
		served.MustKubectl(ctx, "", "delete", "clusterrolebinding", "berth-metrics-auth-rolebinding")
	})
}

// zone is a policy that places everything into a zone.
func zone(value string) string {
	return framework.Rego(fmt.Sprintf(`annotations["example.com/zone"] := %q`, value))
}
