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

// Command language fails if files of the repository contain phrases or names that rules.go bans, comments that name
// identifiers that do not exist, Go files without the license header, CEL expressions that are too long, code that waits
// without package notify, methods that are named as questions and change their receiver, or tests with escaped Rego. It reads
// the files that git lists, and prints one line for each finding.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	found, err := run(".", os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
	if found > 0 {
		fmt.Fprintf(os.Stderr, "Error: %d findings; the rules are in hack/language/rules.go\n", found)
		os.Exit(1)
	}
}

// run writes the findings in the repository's files below dir to out, and returns how many there are.
func run(dir string, out io.Writer) (int, error) {
	header, err := os.ReadFile(filepath.Join(dir, "hack", "boilerplate.go.txt"))
	if err != nil {
		return 0, err
	}
	files, err := list(dir)
	if err != nil {
		return 0, err
	}
	texts, known := map[string][]byte{}, newVocabulary(foreignNames)
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
		if errors.Is(err, fs.ErrNotExist) {
			// The file is deleted, and the deletion is not committed.
			continue
		}
		if err != nil {
			return 0, err
		}
		known.add(file, text)
		if !skipped.MatchString(file) {
			texts[file] = text
		}
	}
	c, found := newChecker(rules, exceptions, bannedNames), 0
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		text := texts[file]
		if path.Ext(file) == ".go" && !licensed(text, header) {
			found++
			if _, err := fmt.Fprintf(out, "%s:1: no license header: insert hack/boilerplate.go.txt\n", file); err != nil {
				return 0, err
			}
		}
		for _, f := range append(c.check(file, text), known.check(file, text)...) {
			found++
			if _, err := fmt.Fprintln(out, f); err != nil {
				return 0, err
			}
		}
	}
	return found, nil
}

// licensed reports whether a Go file begins with the license header, after its build constraint if it has one. The linter
// goheader does not report files with a build constraint.
func licensed(text, header []byte) bool {
	if bytes.HasPrefix(text, []byte("//go:build ")) {
		_, text, _ = bytes.Cut(text, []byte("\n\n"))
	}
	return bytes.HasPrefix(text, append(bytes.Clone(header), '\n'))
}

// list returns the names of the files below dir that git tracks, or would add.
func list(dir string) ([]string, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list files with git: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	var out []string
	for file := range strings.SplitSeq(string(stdout), "\x00") {
		if file != "" {
			out = append(out, file)
		}
	}
	return out, nil
}
