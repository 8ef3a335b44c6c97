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

// Package restore_test saves a cluster by the runbook's commands, loses it, and restores it on another one.
package restore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

func TestRestore(t *testing.T) {
	suite.Run(t, "Restore")
}

const (
	clustersKey = "example.com/clusters"
	asked       = `["eu-1","us-1"]`
	narrowed    = `["eu-1"]`
	// granted is the ClusterRole that an administrator added.
	granted = "berth-reads-volumes"

	// What the examples of docs/gitops.md have as inventory is part of the policy here.
	wide   = `{"spec": {"data": {"allowed": ["eu-1", "us-1"]}}}`
	narrow = `{"spec": {"data": {"allowed": ["eu-1", "eu-2"]}}}`
)

// commands are the runbook's below a heading, one text for each block.
func commands(heading string) []string {
	GinkgoHelper()
	text, err := os.ReadFile("../../../docs/runbook.md")
	Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(text), "\n### "+heading+"\n")
	Expect(found).To(BeTrue(), heading)
	section, _, _ = strings.Cut(section, "\n## ")
	section, _, _ = strings.Cut(section, "\n### ")
	var out []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		out = append(out, block[1])
	}
	Expect(out).NotTo(BeEmpty(), heading)
	return out
}

var _ = Describe("A cluster that was lost", Ordered, func() {
	var dir string

	run := func(ctx context.Context, f *framework.Framework, line string) string {
		GinkgoHelper()
		out, err := f.Shell(ctx, fmt.Sprintf("set -e; cd %q\n%s", dir, line))
		Expect(err).NotTo(HaveOccurred(), "%s: %s", line, out)
		return out
	}
	clusters := func(ctx context.Context, f *framework.Framework) (string, error) {
		shop, err := f.Get(ctx, framework.Deployment, "gitops", "shop")
		return shop.GetAnnotations()[clustersKey], err
	}
	used := func(ctx context.Context, f *framework.Framework, name string) (map[string]string, error) {
		return f.Used(ctx, framework.NewScopedQuota("gitops", name, placementv1.QuotaSpec{}))
	}

	BeforeAll(func(ctx SpecContext) {
		dir = GinkgoT().TempDir()
		f := framework.Start(ctx, framework.WithControllerManager)
		defer f.Stop()
		m := f.StartReadyManager(ctx)
		defer m.Stop()
		f.MustKubectl(ctx, "", "create", "namespace", "gitops")
		f.MustKubectl(ctx, "", "apply", "-f", "docs/examples/gitops/narrow.yaml")
		f.AwaitReady(ctx, "narrow")
		f.MustKubectl(ctx, "", "apply", "-f", "docs/examples/gitops/shop.yaml")
		Expect(clusters(ctx, f)).To(Equal(narrowed))
		q := framework.NewScopedQuota("gitops", "deployments", placementv1.QuotaSpec{Hard: framework.Hard("count/deployments.apps", "1")})
		Expect(f.Client.Create(ctx, q)).To(Succeed())
		shared := &placementv1.ClusterScopedQuota{}
		shared.Name, shared.Spec.Hard = "shared", framework.Hard("count/deployments.apps", "5")
		Expect(f.Client.Create(ctx, shared)).To(Succeed())
		limit := &placementv1.LimitedResource{}
		limit.Name, limit.Spec.Resource, limit.Spec.MatchContains = "pods", "pods", []string{"pods"}
		Expect(f.Client.Create(ctx, limit)).To(Succeed())
		f.AwaitReadyQuota(ctx, q)
		f.AwaitReadyQuota(ctx, shared)
		f.AwaitReadyQuota(ctx, limit)
		Eventually(used).WithContext(ctx).WithArguments(f, "deployments").Should(HaveKeyWithValue("count/deployments.apps", "1"))

		f.MustKubectl(ctx, "", "create", "clusterrole", granted, "--verb=get,list,watch", "--resource=persistentvolumes")
		f.MustKubectl(ctx, "", "label", "clusterrole", granted, "placement.berth.dev/aggregate-to-manager=true")

		for _, block := range commands("Save") {
			run(ctx, f, block)
		}
		run(ctx, f, "kubectl get namespace gitops -o yaml > namespaces.yaml; kubectl get deployments --all-namespaces -o yaml > workloads.yaml")
		saved, err := filepath.Glob(filepath.Join(dir, "backup", "*"))
		Expect(err).NotTo(HaveOccurred())
		Expect(saved).To(HaveLen(4))
	})

	// restore starts a fresh control plane and restores it as the runbook says, but for the key if that is lost.
	restore := func(ctx context.Context, withKey bool) (*framework.Framework, *framework.Manager) {
		GinkgoHelper()
		steps := commands("Restore")
		Expect(steps).To(HaveLen(2), "the key, and then policies and quotas")
		f := framework.Start(ctx, framework.WithControllerManager)
		DeferCleanup(f.Stop)
		if withKey {
			run(ctx, f, steps[0])
		}
		// In place of an installation.
		m := f.StartReadyManager(ctx)
		DeferCleanup(m.Stop)
		run(ctx, f, "kubectl create -f namespaces.yaml -f workloads.yaml")
		run(ctx, f, steps[1])
		Expect(clusters(ctx, f)).To(Equal(narrowed))
		f.MustKubectl(ctx, "", "get", "clusterrole", granted)
		return f, m
	}

	It("is back: policies are Ready, quotas count, and what was narrowed is widened again", func(ctx SpecContext) {
		f, _ := restore(ctx, true)
		Eventually(used).WithContext(ctx).WithArguments(f, "deployments").Should(HaveKeyWithValue("count/deployments.apps", "1"))
		_, err := f.Kubectl(ctx, "", "create", "deployment", "other", "--image=nginx", "--namespace=gitops")
		Expect(err).To(HaveOccurred())
		f.MustKubectl(ctx, "", "patch", "plpol", "narrow", "--type=merge", "--patch="+wide)
		Eventually(clusters).WithContext(ctx).WithArguments(f).Should(Equal(asked))
		f.MustKubectl(ctx, "", "patch", "plpol", "narrow", "--type=merge", "--patch="+narrow)
		Eventually(clusters).WithContext(ctx).WithArguments(f).Should(Equal(narrowed))
	})

	It("has forgotten what developers asked for where the key is lost", func(ctx SpecContext) {
		f, m := restore(ctx, false)
		f.MustKubectl(ctx, "", "patch", "plpol", "narrow", "--type=merge", "--patch="+wide)
		f.AwaitReady(ctx, "narrow")
		Consistently(clusters).WithContext(ctx).WithArguments(f).Should(Equal(narrowed))

		By("restoring the key late, and the workloads after that")
		run(ctx, f, commands("Restore")[0])
		m.Stop()
		m = f.StartReadyManager(ctx)
		DeferCleanup(m.Stop)
		// For a moment the API server still asks the first replica.
		Eventually(func(ctx context.Context) error {
			return f.Client.Create(ctx, framework.NewObject(framework.Deployment, "gitops", "probe", nil), client.DryRunAll)
		}).WithContext(ctx).Should(MatchError(ContainSubstring("exceeded quota")), "the quota is asked last")
		run(ctx, f, "kubectl delete deployment shop --namespace gitops; kubectl create -f workloads.yaml")
		Eventually(clusters).WithContext(ctx).WithArguments(f).Should(Equal(asked))
	})
})
