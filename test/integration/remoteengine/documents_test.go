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

package remoteengine_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/documents"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/framework/opaserver"
	"github.com/berth-dev/berth/test/framework/pki"
)

const root = "../../.."

// forTheSuite lets the suite's own helper ask a server that has an authorization of its own.
const forTheSuite = `package system.authz

allow if input.identity == "opaserver-admin"
`

var _ = Describe("The commands of docs/remote-engines.md", func() {
	It("do what it says", func(ctx SpecContext) {
		blocks, err := documents.Read(root)
		Expect(err).NotTo(HaveOccurred())
		var commands []string
		for _, b := range blocks {
			if b.File == "docs/remote-engines.md" && b.Is("sh") {
				commands = append(commands, b.Text)
			}
		}
		Expect(len(commands)).To(BeNumerically(">", 4))

		// As a reader has it, with what kube-controller-manager puts into namespaces.
		f := framework.Start(ctx, framework.WithControllerManager)
		DeferCleanup(f.Stop)
		m := f.StartReadyManager(ctx)
		DeferCleanup(m.Stop)

		// The reader is in the repository, and has what belongs to the server beside it.
		dir := GinkgoT().TempDir()
		Expect(os.CopyFS(filepath.Join(dir, "hack", "demo"), os.DirFS(filepath.Join(root, "hack", "demo")))).To(Succeed())
		ca := pki.NewAuthority(GinkgoTB())
		Expect(os.WriteFile(filepath.Join(dir, "ca.crt"), ca.PEM, 0o600)).To(Succeed())
		kubectl, err := filepath.Abs(f.Plane.KubectlPath())
		Expect(err).NotTo(HaveOccurred())
		environment := append(os.Environ(), "KUBECONFIG="+f.Kubeconfig, "TOKEN=from-the-document",
			"PATH="+filepath.Dir(kubectl)+string(os.PathListSeparator)+os.Getenv("PATH"))
		run := func(lines string) string {
			GinkgoHelper()
			By(lines)
			cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", lines)
			cmd.Dir, cmd.Env = dir, environment
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			Expect(cmd.Run()).To(Succeed(), "%s: %s", lines, &out)
			return out.String()
		}
		run(commands[0])
		certificate, key := ca.Server(time.Hour)
		options := opaserver.Options{
			Files: map[string]string{"suite.rego": forTheSuite}, Certificate: certificate, Key: key,
			Flags: []string{"--authentication=token", "--authorization=basic"},
		}
		for _, name := range []string{"placement.rego", "authz.rego"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			Expect(err).NotTo(HaveOccurred())
			options.Files[name] = string(text)
		}
		environment = append(environment, "OPA="+opaserver.Start(GinkgoTB(), options).URL())
		var printed strings.Builder
		for _, c := range commands[1:] {
			printed.WriteString(run(c))
		}
		Expect(printed.String()).To(ContainSubstring("\neu-1"))

		us := framework.NewObject(framework.Deployment, "shop", "us", map[string]string{"fleet.example.com/clusters": "us-1"})
		Expect(f.Client.Create(ctx, us)).To(MatchError(ContainSubstring(`PlacementPolicy "fleet": us-1: not one of the clusters in the EU`)))
		profile := framework.NewObject(framework.ClusterProfile, f.NewNamespace(ctx, nil), "documented", nil)
		Expect(f.Client.Create(ctx, profile)).To(Succeed())
		Eventually(func(g Gomega, ctx SpecContext) {
			obj := framework.NewObject(framework.ConfigMap, "shop", framework.NewName("c"), nil)
			g.Expect(f.Client.Create(ctx, obj)).To(Succeed())
			g.Expect(obj.GetAnnotations()).To(HaveKeyWithValue("fleet.example.com/clusters", ContainSubstring("documented")))
		}).WithContext(ctx).Should(Succeed())
		Eventually(f.Condition).WithContext(ctx).WithArguments("fleet", placementv1.ConditionReplicated).Should(beAnswering())
	})
})
