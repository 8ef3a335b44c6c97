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

// Package e2e_test runs Berth as its users do: installed from its own manifests on a real cluster, whose nodes run pods.
package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/e2e/cluster"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

const (
	// nodes are two: a drain of one leaves another.
	nodes = 2

	// image is the operator's, by the name that the documents use.
	image = "registry.example.com/berth:v0.1.0"
	// releaseImage is the same, by the name that the chart has.
	releaseImage = "ghcr.io/berth-dev/berth:v0.1.0"
	// previousImage is that of the commit before.
	previousImage = "registry.example.com/berth:previous"
	// pauseImage is what workloads run.
	pauseImage = "registry.example.com/pause:v1"

	timeout  = 5 * time.Minute
	interval = 200 * time.Millisecond
)

var (
	root    string
	sandbox cluster.Sandbox
	kube    *cluster.Cluster
	f       *framework.Framework
)

func TestMain(m *testing.M) {
	var err error
	if root, err = controlplane.RepositoryRoot(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
	os.Exit(cluster.Isolate(prepare, func(s cluster.Sandbox) int {
		sandbox = s
		return m.Run()
	}))
}

func TestEndToEnd(t *testing.T) {
	suite.Run(t, "End to end")
}

// prepare builds what needs the machine's network, since modules may have to be downloaded: images, and the tools that
// the documents' commands use.
func prepare(ctx context.Context, s cluster.Sandbox) error {
	for _, line := range []string{
		"make image IMG=" + image + " PLATFORMS=linux/" + runtime.GOARCH + " IMAGE_DIR=" + filepath.Join(s.Dir, "berth"),
		buildImage(s, "pause", root, "./test/e2e/pause", pauseImage, "v1", "2026-01-01T00:00:00Z"),
		"go tool -modfile=go.tools.mod kustomize version",
		"go tool -modfile=hack/helm/go.mod helm version",
	} {
		if err := sh(ctx, line); err != nil {
			return err
		}
	}
	if err := buildPrevious(ctx, s); err != nil {
		return err
	}
	tools := filepath.Join(s.Dir, "tools")
	if err := os.Mkdir(tools, 0o755); err != nil {
		return fmt.Errorf("making a directory for tools: %w", err)
	}
	if err := sh(ctx, "go build -ldflags=-s -o "+filepath.Join(tools, "kubectl-berth")+" ./cmd/kubectl-berth"); err != nil {
		return err
	}
	helm := fmt.Sprintf("#!/bin/sh\nexec go tool -modfile='%s/hack/helm/go.mod' helm \"$@\"\n", root)
	if err := os.WriteFile(filepath.Join(tools, "helm"), []byte(helm), 0o755); err != nil {
		return fmt.Errorf("writing helm: %w", err)
	}
	return nil
}

// buildPrevious builds the image and the manifests of the commit before. Where that can't be had, as in a clone without
// history, they are this commit's, and the output says so.
func buildPrevious(ctx context.Context, s cluster.Sandbox) error {
	commit, err := output(ctx, "git rev-parse --verify --quiet HEAD^")
	if err != nil {
		fmt.Fprintln(os.Stdout, "NOTE: the commit before is not in this clone, so the upgrade is one to the same commit under another name."+
			" For a real one: git fetch --deepen=1")
		if commit, err = output(ctx, "git rev-parse --verify HEAD"); err != nil {
			return err
		}
	}
	date, err := output(ctx, "git log -1 --format=%cI "+commit)
	if err != nil {
		return err
	}
	source := previousSource(s)
	for _, line := range []string{
		"mkdir " + source + " && git archive " + commit + " | tar --extract --directory=" + source,
		buildImage(s, "previous", source, "./cmd/manager", previousImage, "previous", date),
		"make --directory=" + source + " build-installer IMG=" + previousImage,
	} {
		if err := sh(ctx, line); err != nil {
			return err
		}
	}
	return nil
}

func previousSource(s cluster.Sandbox) string { return filepath.Join(s.Dir, "previous-source") }

// previousManifests is the path of the installation of the commit before.
func previousManifests() string {
	return filepath.Join(previousSource(sandbox), "dist", "install.yaml")
}

// buildImage is a command line that writes an image's archive into the sandbox.
func buildImage(s cluster.Sandbox, name, source, program, image, version, date string) string {
	return fmt.Sprintf("go -C hack/image run . -source %s -package %s -out %s -archive %s.tar -name %s -version %s -date %s -platforms linux/%s",
		source, program, filepath.Join(s.Dir, name), name, image, version, date, runtime.GOARCH)
}

func archive(name string) string { return filepath.Join(sandbox.Dir, name, name+".tar") }

// sh runs a command line outside of the sandbox, in the repository.
func sh(ctx context.Context, line string) error {
	started := time.Now()
	_, err := output(ctx, line)
	fmt.Fprintf(os.Stdout, "%s (%s)\n", line, time.Since(started).Round(100*time.Millisecond))
	return err
}

// output is sh, and returns what the command line prints.
func output(ctx context.Context, line string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", line)
	cmd.Dir = root
	// Its children have to end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", line, err, out, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

var _ = BeforeSuite(func(ctx SpecContext) {
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	SetDefaultEventuallyTimeout(timeout)
	SetDefaultEventuallyPollingInterval(interval)
	SetDefaultConsistentlyPollingInterval(interval)
	EnforceDefaultTimeoutsWhenUsingContexts()
	Expect(os.Setenv("PATH", filepath.Join(sandbox.Dir, "tools")+string(os.PathListSeparator)+os.Getenv("PATH"))).To(Succeed())

	readDocuments()

	// What make writes for the documents' commands is this run's own.
	for _, dir := range []string{"dist", ".dev"} {
		Expect(sandbox.Hide(filepath.Join(root, dir))).To(Succeed())
	}
	var err error
	started := time.Now()
	kube, err = cluster.Start(ctx, sandbox, cluster.Options{Nodes: nodes, PauseImage: pauseImage, Images: []string{archive("pause")}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(kube.Stop()).To(Succeed()) })
	report("the cluster is up after %s", time.Since(started).Round(100*time.Millisecond))
	Expect(kube.LoadImage(ctx, archive("berth"))).To(Succeed())
	f = framework.Attach(kube.Config(), kube.Kubeconfig(), kube.KubectlPath())
})

// What helps to see why a spec failed, while the cluster is still there.
var _ = ReportAfterEach(func(ctx SpecContext, r SpecReport) {
	if !r.Failed() || f == nil {
		return
	}
	for _, line := range []string{
		"kubectl get nodes,pods --all-namespaces --output=wide",
		"kubectl get placementpolicies.placement.berth.dev --output=yaml",
		"kubectl get events --all-namespaces --sort-by=.lastTimestamp | tail -n 60",
		"kubectl logs --namespace berth-system --selector control-plane=controller-manager --prefix --tail=60",
	} {
		out, err := f.Shell(ctx, line)
		if len(out) > 16<<10 {
			out = "..." + out[len(out)-16<<10:]
		}
		GinkgoWriter.Printf("$ %s (%v)\n%s\n", line, err, out)
	}
	GinkgoWriter.Println(kube.Tails())
	if err := kube.KeepLogs(); err != nil {
		GinkgoWriter.Println(err)
	}
})

// must runs a command line as an administrator would in the repository, and expects it to succeed.
func must(ctx context.Context, line string) string {
	GinkgoHelper()
	By(strings.TrimSpace(line))
	out, err := f.Shell(ctx, line)
	Expect(err).NotTo(HaveOccurred(), "%s: %s", line, out)
	return out
}
