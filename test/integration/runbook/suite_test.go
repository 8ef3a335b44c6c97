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

// Package runbook_test holds docs/runbook.md against the code and a real control plane: every reason that a condition
// can have has its entry, shows the entry's message, and ends by the entry's commands.
package runbook_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

const root = "../../.."

var f *framework.Framework

func TestRunbook(t *testing.T) {
	suite.Run(t, "Runbook")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx, framework.WithControllerManager)
	DeferCleanup(f.Stop)
	// The operator has the rights that an installation gives it, and those that a person grants by a label.
	f.MustKubectl(ctx, "", "delete", "clusterrolebinding", "berth-test-wide")
	f.MustKubectl(ctx, "", "delete", "clusterrole", "berth-dev-wide")
	f.MustKubectl(ctx, "", "create", "clusterrole", "berth-places-configmaps", "--verb=get,list,watch,patch", "--resource=configmaps")
	f.MustKubectl(ctx, "", "label", "clusterrole", "berth-places-configmaps", "placement.berth.dev/aggregate-to-manager=true")
	f.MustKubectl(ctx, "", "create", "namespace", "shop")
})

func read(path string) string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(root, path))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// entry is what the runbook has about a reason.
type entry struct {
	// message is the condition's, with "..." in place of the variable parts. It is empty if nothing is wrong.
	message string
	// commands are what to do.
	commands []string
}

// pattern is an expression that the message matches.
func (e entry) pattern() string {
	return "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(e.message), `\.\.\.`, ".*") + "$"
}

var (
	heading = regexp.MustCompile(`^([A-Z][A-Za-z]+)\n`)
	anchor  = regexp.MustCompile("<a id=\"([a-z]+)\"></a>`([A-Za-z]+)`")
	message = regexp.MustCompile("(?s)```text\n(.*?)\n```")
	block   = regexp.MustCompile("(?s)```sh\n(.*?)```")
)

// entries returns the runbook's entries by their reasons.
func entries() map[string]entry {
	GinkgoHelper()
	_, text, found := strings.Cut(read("docs/runbook.md"), "\n## Troubleshooting by reason\n")
	Expect(found).To(BeTrue())
	out := map[string]entry{}
	for _, match := range anchor.FindAllStringSubmatch(text, -1) {
		Expect(match[1]).To(Equal(strings.ToLower(match[2])))
		out[match[2]] = entry{}
	}
	for section := range strings.SplitSeq(text, "\n### ") {
		name := heading.FindStringSubmatch(section)
		if name == nil {
			continue
		}
		shown := message.FindStringSubmatch(section)
		Expect(shown).NotTo(BeNil(), "%s shows no message", name[1])
		e := entry{message: shown[1]}
		for _, commands := range block.FindAllStringSubmatch(section, -1) {
			e.commands = append(e.commands, commands[1])
		}
		Expect(out).NotTo(HaveKey(name[1]))
		out[name[1]] = e
	}
	return out
}
