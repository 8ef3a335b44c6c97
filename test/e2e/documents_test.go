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

package e2e_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/documents"
)

// unread are the documents' blocks that no spec has run yet, by file and heading, in order.
var unread = map[string][]documents.Block{}

func readDocuments() {
	GinkgoHelper()
	blocks, err := documents.Read(root)
	Expect(err).NotTo(HaveOccurred())
	for _, b := range blocks {
		if b.Is(documents.Console, documents.EndToEnd) {
			place := b.File + "#" + b.Heading
			unread[place] = append(unread[place], b)
		}
	}
}

// follow does what the next block below a heading says, each command after these preparations.
func follow(ctx context.Context, place string, prepare ...string) {
	GinkgoHelper()
	Expect(unread[place]).NotTo(BeEmpty(), "%s has no further block", place)
	b := unread[place][0]
	unread[place] = unread[place][1:]
	commands, err := b.Commands()
	Expect(err).NotTo(HaveOccurred())
	before := strings.Join(append(prepare, ""), "\n")
	for _, c := range commands {
		By(c.Line)
		Expect(c.Check(f.Shell(ctx, before+c.Line))).To(Succeed(), "%s", b)
		if strings.Contains(c.Line, "condition=Ready") {
			// A reader takes longer for the next command than the API server for the new webhooks.
			f.AwaitWebhooks(ctx)
		}
		// Each command has a shell of its own; what one exports is for those that follow.
		if strings.HasPrefix(c.Line, "export ") {
			before += c.Line + "\n"
		}
	}
}

// expectAllFollowed fails where the end-to-end tests forgot a block.
func expectAllFollowed() {
	GinkgoHelper()
	for place, blocks := range unread {
		Expect(blocks).To(BeEmpty(), "%s: the document says that the end-to-end tests run it", place)
	}
}
