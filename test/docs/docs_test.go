// Package docs_test runs the commands of the documents against a real control plane, and holds what they say against
// what the code has.
package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/framework"
)

const root = "../.."

var f *framework.Framework

func TestDocs(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Docs")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx)
	DeferCleanup(f.Stop)
	f.InstallPlugin(ctx)
	m := f.StartReadyManager(ctx)
	DeferCleanup(m.Stop)
})

// step is one command of a document and what follows it there.
type step struct {
	command string
	// refused says that the document expects the command to fail.
	refused bool
	// want is the output that the document shows; empty if it shows none. "..." stands for anything.
	want string
}

// steps returns the commands of a document's console blocks, in order.
func steps(text string) []step {
	var out []step
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				command, refused := strings.CutSuffix(strings.TrimSpace(command), "# refused")
				out = append(out, step{command: command, refused: refused})
			} else {
				out[len(out)-1].want += line
			}
		}
	}
	return out
}

// pattern makes an expression of output as a document shows it.
func pattern(want string) string {
	quoted := regexp.QuoteMeta(strings.Join(strings.Fields(want), " "))
	return "^" + strings.ReplaceAll(quoted, `\.\.\.`, ".*") + "$"
}

var _ = Describe("The commands of the documents", func() {
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		panic(err)
	}
	run := 0
	for _, file := range append(files, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		commands := steps(string(text))
		run += len(commands)
		if len(commands) == 0 {
			continue
		}
		It("of "+filepath.Base(file)+" do what they say", func(ctx SpecContext) {
			for _, s := range commands {
				By(s.command)
				out, err := f.Shell(ctx, s.command)
				if s.refused {
					Expect(err).To(HaveOccurred(), "%s: %s", s.command, out)
				} else {
					Expect(err).NotTo(HaveOccurred(), "%s: %s", s.command, out)
				}
				if s.want != "" {
					Expect(strings.Join(strings.Fields(out), " ")).To(MatchRegexp(pattern(s.want)), s.command)
				}
			}
		})
	}
	It("are found at all", func() {
		Expect(run).To(BeNumerically(">", 10))
	})
})

var _ = Describe("The make targets that the documents name", func() {
	It("exist", func() {
		makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
		Expect(err).NotTo(HaveOccurred())
		files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
		Expect(err).NotTo(HaveOccurred())
		for _, file := range append(files, filepath.Join(root, "README.md")) {
			text, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			for _, named := range regexp.MustCompile("(?m)(?:^|`)make ([a-z][a-z -]*[a-z])").FindAllStringSubmatch(string(text), -1) {
				for target := range strings.FieldsSeq(named[1]) {
					Expect(string(makefile)).To(MatchRegexp(fmt.Sprintf(`(?m)^%s:`, regexp.QuoteMeta(target))), "%s names make %s", file, target)
				}
			}
		}
	})
})
