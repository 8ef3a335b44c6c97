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

// Package documents reads the commands of README.md and of the pages in docs, for the tests that run them.
package documents

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The words after the fence of a block, which say what runs it.
const (
	// Console is the first word of a block whose commands are run: lines that begin with "$ ", each followed by the output
	// that is expected of it.
	Console = "console"
	// EndToEnd is the second word of one that needs a real cluster.
	EndToEnd = "e2e"
)

// Block is a fenced part of a document.
type Block struct {
	// File is relative to the repository.
	File string
	// Heading is the text of the nearest heading above.
	Heading string
	// Line is that of the opening fence.
	Line int
	// Info is what follows the opening fence, word by word.
	Info []string
	Text string
}

// Command is one command of a console block and what follows it there.
type Command struct {
	Line string
	// Refused says that the document expects the command to fail.
	Refused bool
	// want is the output that the document shows; empty if it shows none. "..." stands for anything.
	want string
}

// Pages returns the paths of the pages in docs: docs/*.md, and the pages in docs/NAME, which docs/NAME.md links to.
func Pages(root string) ([]string, error) {
	var out []string
	for _, pattern := range []string{"docs/*.md", "docs/delivery/*.md", "docs/coming-from/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, fmt.Errorf("looking for documents: %w", err)
		}
		out = append(out, files...)
	}
	return out, nil
}

// Read returns the blocks of all documents of a repository, in order.
func Read(root string) ([]Block, error) {
	files, err := Pages(root)
	if err != nil {
		return nil, err
	}
	var out []Block
	for _, file := range append(files, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading a document: %w", err)
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return nil, fmt.Errorf("naming a document: %w", err)
		}
		blocks, err := parse(name, string(text))
		if err != nil {
			return nil, err
		}
		out = append(out, blocks...)
	}
	return out, nil
}

func parse(file, text string) ([]Block, error) {
	var out []Block
	heading, number := "", 0
	var open *Block
	for line := range strings.Lines(text) {
		number++
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &Block{File: file, Heading: heading, Line: number, Info: strings.Fields(info)}
		case fence:
			out = append(out, *open)
			open = nil
		case open != nil:
			open.Text += line
		case strings.HasPrefix(line, "#"):
			heading = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s: the block that opens here is never closed", open)
	}
	return out, nil
}

// String says where the block is.
func (b Block) String() string { return fmt.Sprintf("%s:%d", b.File, b.Line) }

// Is reports whether the words after the fence are these.
func (b Block) Is(info ...string) bool { return slices.Equal(b.Info, info) }

// Commands returns the commands of a console block.
func (b Block) Commands() ([]Command, error) {
	var out []Command
	for line := range strings.Lines(b.Text) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			command, refused := strings.CutSuffix(strings.TrimSpace(command), "# refused")
			out = append(out, Command{Line: strings.TrimSpace(command), Refused: refused})
		} else if len(out) == 0 {
			return nil, fmt.Errorf("%s: begins with output, not with a command", b)
		} else {
			out[len(out)-1].want += line
		}
	}
	return out, nil
}

// Check returns an error unless the command did what the document says: out is what it printed to both outputs, and err
// how it ended.
func (c Command) Check(out string, err error) error {
	switch {
	case err != nil && !c.Refused:
		return fmt.Errorf("%s: %w; it printed: %s", c.Line, err, out)
	case err == nil && c.Refused:
		return fmt.Errorf("%s: the document says that it is refused, and it printed: %s", c.Line, out)
	}
	if c.want == "" {
		return nil
	}
	want := strings.ReplaceAll(regexp.QuoteMeta(oneLine(c.want)), `\.\.\.`, ".*")
	if !regexp.MustCompile("^" + want + "$").MatchString(oneLine(out)) {
		return fmt.Errorf("%s: printed %q, and the document says %q", c.Line, out, c.want)
	}
	return nil
}

// wait matches the beginning of a command that waits, also with flags before the word wait.
const wait = `^kubectl (\S+ )*wait .*`

// waitByIndex, waitForMatching, and waitForDefinition are the waits that end with an error before there is anything to wait for.
// waitForNumber is a wait for a number of objects, waitForNames one for the names of a CustomResourceDefinition, and definition is a
// CustomResourceDefinition in such a command.
var (
	waitByIndex       = regexp.MustCompile(wait + `jsonpath=\S*\[-?\d`)
	waitForMatching   = regexp.MustCompile(wait + `(--all|--selector|-l)\b`)
	waitForDefinition = regexp.MustCompile(`(?i)` + wait + `condition=established\b`)
	waitForNumber     = regexp.MustCompile(wait + `--for=jsonpath='\{\.status\.\w*[rR]eplicas\}'=[1-9]`)
	waitForNames      = regexp.MustCompile(wait + `--for=jsonpath='\{\.status\.acceptedNames\.singular\}'=[a-z]`)
	definition        = regexp.MustCompile(`\b(?:crds?|customresourcedefinitions?)(?:\.\S*)?/(\S+)`)
)

// CheckWait returns an error if a command of a document waits in a form that fails while the thing does not exist yet, as on a
// machine that is slower than the author's. kubectl fails at once
//   - if an index of a JSONPath is out of bounds;
//   - if no object matches a selector: an earlier command of the page has to wait for a number of them in a status;
//   - if the conditions of a new CustomResourceDefinition are null (https://github.com/kubernetes/kubectl/issues/1236): the API server
//     sets them together with the accepted names, for which an earlier command has to wait.
func CheckWait(earlier []string, line string) error {
	switch {
	case waitByIndex.MatchString(line):
		return fmt.Errorf(`%s: fails until the list is long enough: select the element by a field, as in [?(@.name=="x")]`, line)
	case waitForMatching.MatchString(line) && !slices.ContainsFunc(earlier, waitForNumber.MatchString):
		return fmt.Errorf("%s: fails while no object matches: wait for their number first, as in --for=jsonpath='{.status.replicas}'=1", line)
	}
	if !waitForDefinition.MatchString(line) {
		return nil
	}
	named := definition.FindAllStringSubmatch(line, -1)
	for _, one := range named {
		if !slices.ContainsFunc(earlier, func(line string) bool {
			return waitForNames.MatchString(line) && slices.ContainsFunc(definition.FindAllStringSubmatch(line, -1), func(other []string) bool {
				return other[1] == one[1]
			})
		}) {
			return fmt.Errorf("%s: fails while the definition has no conditions: wait for its names first, as in "+
				"--for=jsonpath='{.status.acceptedNames.singular}'=pod crd/%s", line, one[1])
		}
	}
	if len(named) == 0 {
		return fmt.Errorf("%s: name the definitions, as in crd/pods.example.com, so that this check finds the wait for their names before it",
			line)
	}
	return nil
}

// oneLine is a text in which all blanks are alike.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
