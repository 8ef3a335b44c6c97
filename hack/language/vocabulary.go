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

package main

import (
	"bytes"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	word = regexp.MustCompile(`[A-Za-z_]\w*`)
	// reference matches a word of a comment, with all that the word is a part of: a selector, a path, or a flag.
	reference = regexp.MustCompile(`[\w./-]*\w`)
	// camelCase matches a word that can only be an identifier, or a name such as GitHub.
	camelCase = regexp.MustCompile(`^([a-z][a-z0-9]*|[A-Z]\w*[a-z])[A-Z]`)
)

// vocabulary is what comments in Go files may name.
type vocabulary struct {
	words    map[string]bool            // the words of the repository outside of comments in Go files
	packages map[string]map[string]bool // the identifiers in the files of each package of the product, by the name of the package
}

// newVocabulary returns a vocabulary of the names of other projects.
func newVocabulary(foreign []string) vocabulary {
	out := vocabulary{map[string]bool{}, map[string]map[string]bool{}}
	for _, name := range foreign {
		out.words[name] = true
	}
	return out
}

// add adds the words of a file. A binary file has none.
func (v vocabulary) add(file string, text []byte) {
	if bytes.IndexByte(text, 0) >= 0 {
		return
	}
	if path.Ext(file) != ".go" {
		v.addWords(text)
		return
	}
	views, names := splitGo(file, text)
	for in, view := range views {
		if in != comments {
			v.addWords(view)
		}
	}
	for _, n := range names {
		v.words[n.text] = true
	}
	if len(names) == 0 || strings.HasPrefix(file, "hack/") || strings.HasPrefix(file, "test/") {
		return
	}
	// The first identifier follows the keyword package.
	in := strings.TrimSuffix(names[0].text, "_test")
	if v.packages[in] == nil {
		v.packages[in] = map[string]bool{}
	}
	for _, n := range names {
		v.packages[in][n.text] = true
	}
}

func (v vocabulary) addWords(text []byte) {
	for _, w := range word.FindAll(text, -1) {
		v.words[string(w)] = true
	}
}

// check returns the findings of identifiers in the comments of a Go file that no file has, such as those that were renamed.
func (v vocabulary) check(file string, text []byte) []finding {
	if path.Ext(file) != ".go" {
		return nil
	}
	views, _ := splitGo(file, text)
	var out []finding
	line := 0
	for code := range strings.SplitSeq(string(views[comments]), "\n") {
		line++
		comment := strings.Trim(code, "\x00 \t")
		// Markers, directives, and examples of code.
		if strings.HasPrefix(comment, "// +") || !strings.HasPrefix(comment, "// ") && strings.HasPrefix(comment, "//") {
			continue
		}
		for _, name := range reference.FindAllString(comment, -1) {
			if !v.knows(name) {
				out = append(out, finding{file: file, line: line, phrase: name, instead: "a name that exists (rules.go lists those of other projects)"})
			}
		}
	}
	return out
}

// knows reports whether a word of a comment is no identifier, or one that exists.
func (v vocabulary) knows(name string) bool {
	if strings.ContainsAny(name, "/-") {
		return true
	}
	parts := strings.Split(name, ".")
	if len(parts) > 1 && !token.IsExported(parts[0]) {
		// A selector of a package. Others are of packages of other modules, or the path of a field.
		identifiers, found := v.packages[parts[0]]
		return !found || !token.IsExported(parts[1]) || identifiers[parts[1]]
	}
	return !slices.ContainsFunc(parts, func(part string) bool { return camelCase.MatchString(part) && !v.hasWord(part) })
}

// hasWord reports whether the vocabulary has a word, or the word of which it is the plural.
func (v vocabulary) hasWord(w string) bool {
	return v.words[w] || v.words[strings.TrimSuffix(w, "s")] || v.words[strings.TrimSuffix(w, "es")] ||
		v.words[strings.TrimSuffix(w, "ies")+"y"]
}
