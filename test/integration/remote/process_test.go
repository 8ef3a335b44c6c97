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
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
)

// startCommand starts the manager itself with arguments that are meant for a pod, or for another machine, and waits until
// it is Ready. Where it listens, and where the API server reaches it, is this machine's to say. The spec's end stops it.
func startCommand(ctx context.Context, url string, args []string) *framework.Command {
	GinkgoHelper()
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		return name == "kubeconfig" || name == "health-probe-bind-address" || strings.HasPrefix(name, "webhook-") || strings.HasPrefix(name, "metrics-")
	})
	c := commands.StartReady(ctx, url, append(args, "--kubeconfig="+filepath.Join(mounted, "kubeconfig"))...)
	DeferCleanup(func() { Expect(c.Stop(time.Minute)).To(Succeed()) })
	return c
}

var _ = Describe("The manager as a process", func() {
	It("does with the arguments of the pods what the document shows", func(ctx SpecContext) {
		c := startCommand(ctx, "", podArgs(ctx))
		out := document(ctx, "Try")
		Expect(out).To(ContainSubstring("https://localhost:"))
		for _, kept := range []string{"secret/berth-webhook-cert", "secret/berth-webhook-token", "secret/berth-intent-key", "lease.coordination.k8s.io/berth.placement.berth.dev", "controllerrevision.apps/placementpolicy-"} {
			Expect(out).To(ContainSubstring(kept))
		}
		Expect(state(ctx, served)).To(BeEmpty())
		served.DeletePolicy(ctx, "eu-only")
		Expect(c.Stop(time.Minute)).To(Succeed())
		said, err := c.Log()
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Err()).To(Succeed(), said)
		Expect(said).To(ContainSubstring("Serving a new certificate"))
		Expect(strings.ToLower(said)).NotTo(ContainSubstring("forbidden"), "it lacks a right")
	})

	It("serves outside of any cluster", func(ctx SpecContext) {
		allowState(ctx)
		command := strings.Fields(section("As a plain process", "")[0])
		Expect(command[0]).To(Equal("bin/manager"))
		startCommand(ctx, "", command[1:])
		namespace := served.NewNamespace(ctx, nil)
		served.CreateReadyPolicy(ctx, framework.NewPolicy("process-"+namespace, zone("a"), "", "configmaps", namespace))
		Eventually(served.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal("a"))
	})

	It("ends as a leader that can't reach the host cluster, and leaves the webhooks to the others", func(ctx SpecContext) {
		webhooks := framework.FreePort()
		url := "https://localhost:" + strconv.Itoa(webhooks)
		leader := startCommand(ctx, url, podArgs(ctx))
		Eventually(holder).WithContext(ctx).ShouldNot(BeEmpty())
		other := start(ctx, fromHost(ctx), func(o *setup.Options) {
			o.WebhookPort, o.WebhookURL = webhooks, url
		})
		namespace := served.NewNamespace(ctx, nil)
		served.CreateReadyPolicy(ctx, framework.NewPolicy("before-"+namespace, zone("a"), "", "configmaps", namespace))
		Eventually(served.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal("a"))

		kill(ctx, host)
		Eventually(leader.Done()).WithTimeout(2 * framework.Timeout).Should(BeClosed())
		Expect(leader.Err()).NotTo(Succeed())
		Expect(leader.Log()).To(ContainSubstring("leader election lost"))
		Expect(other.Ready(ctx)).To(Succeed())
		Expect(served.TryZone(ctx, namespace)).To(Equal("a"))

		revive(host)
		served.CreateReadyPolicy(ctx, framework.NewPolicy("after-"+namespace, zone("b"), "", "secrets", namespace))
	})
})
