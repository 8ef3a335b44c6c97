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

package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/test/documents"
)

var (
	fences   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	code     = regexp.MustCompile("`[^`\n]*`")
	link     = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	title    = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	explicit = regexp.MustCompile(`<a id="([^"]+)">`)
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the fragments by which a document's parts can be linked to, as GitHub makes them.
func anchors(text string) []string {
	text = fences.ReplaceAllString(text, "")
	var out []string
	for _, match := range explicit.FindAllStringSubmatch(text, -1) {
		out = append(out, match[1])
	}
	for _, match := range title.FindAllStringSubmatch(text, -1) {
		base := strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")
		name := base
		for n := 1; slices.Contains(out, name); n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		out = append(out, name)
	}
	return out
}

// broken returns the links of a document to other files of the repository, and to parts of documents, that lead nowhere.
func broken(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(fences.ReplaceAllString(string(text), ""), ""), -1) {
		if strings.Contains(match[1], "://") {
			continue
		}
		path, fragment, _ := strings.Cut(match[1], "#")
		target := file
		if path != "" {
			target = filepath.Join(filepath.Dir(file), path)
		}
		if _, err := os.Stat(target); err != nil {
			out = append(out, match[1])
			continue
		}
		if fragment == "" {
			continue
		}
		linked, err := os.ReadFile(target)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(anchors(string(linked)), fragment) {
			out = append(out, match[1])
		}
	}
	return out, nil
}

func TestLinksLeadSomewhere(t *testing.T) {
	files, err := documents.Pages(root)
	if err != nil {
		t.Fatal(err)
	}
	readme := filepath.Join(root, "README.md")
	top, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, top...) {
		lost, err := broken(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lost {
			t.Errorf("%s: %s leads nowhere", file, l)
		}
		if file == readme {
			continue
		}
		// A page in docs/NAME is named by docs/NAME.md, every other page by README.md.
		index := readme
		if directory := filepath.Dir(file); filepath.Dir(directory) == filepath.Join(root, "docs") {
			index = directory + ".md"
		}
		linked, err := os.ReadFile(index)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(filepath.Dir(index), file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(linked), "("+filepath.ToSlash(name)+")") {
			t.Errorf("%s does not name %s", index, name)
		}
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("there.md", "# A title, with `code`\n## Twice\n## Twice\n<a id=\"by-hand\"></a>\n```\n# no title\n```\n")
	got, err := broken(write("from.md", "# Own\n[1](there.md) [2](there.md#a-title-with-code) [3](#own) [4](there.md#twice-1) [5](there.md#by-hand) [6](https://example.com/#x)\n"+
		"```\n[7](code.md)\n```\n[8](gone.md) `[x](code.md)` [9](there.md#gone) [10](#gone) [11](there.md#no-title) [12](there.md#twice-2)\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"gone.md", "there.md#gone", "#gone", "there.md#no-title", "there.md#twice-2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
