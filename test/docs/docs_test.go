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

// Package docs_test runs the commands of the documents against a real control plane, and holds what they say against
// what the code has.
package docs_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/documents"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

const root = "../.."

var f *framework.Framework

func TestDocs(t *testing.T) {
	suite.Run(t, "Docs")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx, framework.WithControllerManager, func(o *controlplane.Options) { o.Scheduler = true })
	DeferCleanup(f.Stop)
	// The operator has the rights that an installation gives it, and those that the documents grant.
	f.MustKubectl(ctx, "", "delete", "clusterrolebinding", "berth-test-wide")
	f.MustKubectl(ctx, "", "delete", "clusterrole", "berth-dev-wide")
	f.InstallPlugin(ctx)
	m := f.StartReadyManager(ctx)
	DeferCleanup(m.Stop)
	// kubectl finds a category once discovery has the definitions, which are new.
	Eventually(f.Shell).WithContext(ctx).WithArguments("kubectl get berth --all-namespaces").Should(ContainSubstring("No resources found"))
})

// suites run the blocks of a document that begin with ```sh, with what they have set up for it.
var suites = map[string]string{
	"docs/remote-control-plane.md": "test/integration/remote",
	"docs/remote-engines.md":       "test/integration/remoteengine",
	"docs/runbook.md":              "test/integration/runbook and test/integration/restore",
}

// elsewhere are the blocks of commands that no test runs, by file and heading, and why.
var elsewhere = map[string]string{
	"README.md#Berth": "CI runs it",
	"docs/delivery/kubefleet.md#Take Berth out":               "needs KubeFleet; docs/delivery/karmada.md has the same command",
	"docs/delivery/open-cluster-management.md#Take Berth out": "needs Open Cluster Management; docs/delivery/karmada.md has the same command",
	"docs/delivery/sig-multicluster.md#Take Berth out":        "needs the CRD of SIG Multicluster; docs/delivery/karmada.md has the same command",
	"docs/install.md#The image":                               "needs a registry, or the nodes of the reader's own cluster",
	"docs/install.md#With OLM":                                "pushes to a registry of the reader's own",
	"docs/install.md#OLM v0":                                  "needs OLM v0",
	"docs/install.md#OLM v1":                                  "needs OLM v1",
	"docs/install.md#Uninstalling with OLM":                   "needs OLM",
	"docs/install.md#A failed upgrade with OLM v0":            "needs OLM v0",
	"docs/install.md#The emergency exit with OLM":             "needs OLM v0",
	"docs/install.md#The emergency exit if OLM does not run":  "the suite of the bundle runs the same commands",
	"docs/migration.md#Switch over":                           "names what the reader's own cluster has",
	"docs/operating.md#Policy reports":                        "the suite of policy reports runs the same commands",
	"docs/existing-objects.md#Approval":                       "the suite of the runbook runs the same commands, of the entry WaitingForApproval",
	"docs/rollout.md#Approval":                                "the suite of the runbook runs the same command, of the entry WaitingForApproval",
	"docs/rollout.md#Roll back":                               "the section Try it has the same command, with another revision",
	"docs/plugin.md#See the Rego of rules":                    "the suite of rules runs the same commands",
	"docs/releasing.md#Try it":                                "CI runs it",
	"docs/releasing.md#Verify a release":                      "needs a published release",
	"docs/remote-control-plane.md#Step by step, with Karmada": "paths of the reader's own; the suite has others",
	"docs/remote-control-plane.md#Install":                    "waits for pods, and the suite's host cluster has no nodes",
	"docs/remote-control-plane.md#As a plain process":         "runs until it is stopped; the suite runs it with ports of its own",
	"docs/remote-engines.md#A first policy":                   "runs until it is stopped; the suite runs it with a port of its own",
}

// ofFiles are the documents whose YAML is the end of a file in docs/examples, which commands or tests apply.
var ofFiles = []string{"README.md", "docs/quickstart.md", "docs/delivery.md", "docs/rules.md", "docs/stories.md"}

// texts returns the contents of the repository's files that match a pattern.
func texts(pattern string) []string {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
	Expect(err).NotTo(HaveOccurred())
	var out []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		out = append(out, string(text))
	}
	return out
}

var _ = Describe("The commands of the documents", func() {
	blocks, err := documents.Read(root)
	if err != nil {
		panic(err)
	}
	run := map[string][]documents.Command{}
	for _, b := range blocks {
		if !b.Is(documents.Console) {
			continue
		}
		commands, err := b.Commands()
		if err != nil {
			panic(err)
		}
		run[b.File] = append(run[b.File], commands...)
	}
	for _, file := range slices.Sorted(maps.Keys(run)) {
		It("of "+file+" do what they say", func(ctx SpecContext) {
			for _, c := range run[file] {
				By(c.Line)
				out, err := f.Shell(ctx, c.Line)
				Expect(c.Check(out, err)).To(Succeed())
				if strings.Contains(c.Line, "condition=Ready") {
					// A reader takes longer for the next command than the API server for the new webhooks.
					f.AwaitWebhooks(ctx)
				}
			}
		})
	}
	It("wait in forms that can't fail before the thing exists", func() {
		earlier := map[string][]string{}
		for _, b := range blocks {
			for line := range strings.Lines(b.Text) {
				line = strings.TrimSpace(strings.TrimPrefix(line, "$ "))
				Expect(documents.CheckWait(earlier[b.File], line)).To(Succeed(), "%s", b)
				earlier[b.File] = append(earlier[b.File], line)
			}
		}
	})
	It("are found at all", func() {
		Expect(len(slices.Concat(slices.Collect(maps.Values(run))...))).To(BeNumerically(">", 10))
	})
	It("are all run: here, by the end-to-end tests, or for a reason elsewhere", func() {
		left := maps.Clone(elsewhere)
		programs := texts("docs/examples/*/main.go")
		manifests := append(texts("docs/examples/*.yaml"), texts("docs/examples/stories/*/*.yaml")...)
		for _, b := range blocks {
			place := b.File + "#" + b.Heading
			switch _, known := left[place]; {
			case b.Is(documents.Console), b.Is(documents.Console, documents.EndToEnd):
				commands, err := b.Commands()
				Expect(err).NotTo(HaveOccurred())
				Expect(commands).NotTo(BeEmpty(), "%s", b)
			case b.Is("sh") && suites[b.File] != "":
			case b.Is("go"):
				// An example that is built and tested.
				Expect(programs).To(ContainElement(ContainSubstring(b.Text)), "%s", b)
			case slices.Contains(ofFiles, b.File) && b.Is("yaml"):
				Expect(manifests).To(ContainElement(HaveSuffix(b.Text)), "%s is not the end of an example", b)
			case b.Is("yaml"), b.Is("rego"), b.Is("text"):
			case known:
				delete(left, place)
			default:
				Fail(fmt.Sprintf("%s: nobody runs this block: write ```console, or ```console e2e where it needs a real cluster", b))
			}
		}
		Expect(left).To(BeEmpty(), "exceptions for blocks that are gone")
	})
})

var _ = Describe("The make targets that the documents name", func() {
	It("exist", func() {
		makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
		Expect(err).NotTo(HaveOccurred())
		files, err := documents.Pages(root)
		Expect(err).NotTo(HaveOccurred())
		top, err := filepath.Glob(filepath.Join(root, "*.md"))
		Expect(err).NotTo(HaveOccurred())
		for _, file := range append(files, top...) {
			text, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			for _, named := range regexp.MustCompile("(?m)(?:^|`|\\$ )make ([a-z][a-z -]*[a-z])").FindAllStringSubmatch(string(text), -1) {
				for target := range strings.FieldsSeq(named[1]) {
					Expect(string(makefile)).To(MatchRegexp(fmt.Sprintf(`(?m)^%s:`, regexp.QuoteMeta(target))), "%s names make %s", file, target)
				}
			}
		}
	})
})
