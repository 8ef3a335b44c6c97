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
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// part is a set of parts of files.
type part uint8

// rule bans a phrase in some parts of files.
type rule struct {
	phrase  string
	unless  string // a regular expression: a phrase is allowed where this matches
	in      part
	instead string
}

// exception allows a phrase in some files.
type exception struct {
	files, phrase string // regular expressions that match the whole name, and the whole phrase
	reason        string
}

// pattern is a rule whose expressions are compiled.
type pattern struct {
	phrase, unless *regexp.Regexp
	in             part
	instead        string
}

// finding is a match of a banned phrase or name.
type finding struct {
	file    string
	line    int
	phrase  string
	instead string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %q: write %s instead", f.file, f.line, f.phrase, f.instead)
}

// checker finds banned phrases and names in files.
type checker struct {
	patterns   []pattern
	any        *regexp.Regexp   // matches what a pattern matches
	exceptions []*regexp.Regexp // match the name of a file, a line feed, and a phrase
	names      map[string]string
}

// gap matches what separates two words of a phrase: white space, and the mark of a comment's next line.
const gap = `\s+(?:(?://|#|\*|>)\s+)?`

var gaps = regexp.MustCompile(gap)

// newChecker compiles rules and exceptions. names maps the banned words of names to what to write instead. newChecker
// panics if an expression is invalid, because expressions are part of the program.
func newChecker(rules []rule, exceptions []exception, names map[string]string) checker {
	out := checker{names: names}
	var phrases []string
	for _, r := range rules {
		phrases = append(phrases, r.phrase)
		p := pattern{phrase: compile("", r.phrase), in: r.in, instead: r.instead}
		if r.unless != "" {
			p.unless = compile(`\A`, r.unless)
		}
		out.patterns = append(out.patterns, p)
	}
	out.any = compile("", strings.Join(phrases, "|"))
	for _, e := range exceptions {
		out.exceptions = append(out.exceptions, regexp.MustCompile(`(?i)\A(?:`+e.files+`)\n(?:`+e.phrase+`)\z`))
	}
	return out
}

func compile(anchor, expression string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)` + anchor + `\b(?:` + strings.ReplaceAll(expression, " ", gap) + `)\b`)
}

// check returns the findings in a file, in the order of their lines. file is its name, with slashes.
func (c checker) check(file string, text []byte) []finding {
	views, names := split(file, text)
	out := c.checkNames(file, names)
	known := map[string]bool{}
	for _, n := range names {
		known[n.text] = true
	}
	for in, view := range views {
		// One search for all phrases is faster, and most files contain none.
		if !c.any.Match(view) {
			continue
		}
		for _, p := range c.patterns {
			if p.in&in == 0 {
				continue
			}
			for _, at := range p.phrase.FindAllIndex(view, -1) {
				// A comment may name an identifier, which checkNames finds if it is banned.
				if in == comments && known[string(view[at[0]:at[1]])] {
					continue
				}
				if p.unless != nil && p.unless.Match(view[at[0]:]) {
					continue
				}
				phrase := gaps.ReplaceAllString(string(view[at[0]:at[1]]), " ")
				if !c.excepts(file, phrase) {
					out = append(out, finding{file: file, line: 1 + bytes.Count(view[:at[0]], []byte("\n")), phrase: phrase, instead: p.instead})
				}
			}
		}
	}
	if path.Ext(file) == ".go" {
		code := parse(file, text)
		out = slices.Concat(out, checkColumns(file, views[comments]), checkExpressions(file, text), checkWaits(code), checkQuestions(code),
			checkRego(code))
	}
	slices.SortFunc(out, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.phrase, b.phrase))
	})
	return out
}

// excepts reports whether a file may contain a banned phrase.
func (c checker) excepts(file, phrase string) bool {
	return slices.ContainsFunc(c.exceptions, func(e *regexp.Regexp) bool { return e.MatchString(file + "\n" + phrase) })
}

// checkNames returns the findings in the name of a file and in its identifiers, with the first line of each.
func (c checker) checkNames(file string, names []name) []finding {
	var out []finding
	seen := map[string]bool{}
	for _, n := range append([]name{{text: path.Base(file), line: 1}}, names...) {
		if seen[n.text] {
			continue
		}
		seen[n.text] = true
		for _, word := range wordsOf(n.text) {
			if instead, banned := c.names[word]; banned {
				out = append(out, finding{file: file, line: n.line, phrase: n.text, instead: instead})
				break
			}
		}
	}
	return out
}

// maxColumns is the maximum number of columns of a line that has a comment alone. A tab is one column. The linter lll limits
// the lines of code.
const maxColumns = 140

// checkColumns returns the findings of lines that are too long. comments are the comments of a Go file. Markers of code
// generators can't be wrapped.
func checkColumns(file string, comments []byte) []finding {
	var out []finding
	line := 0
	for text := range bytes.Lines(comments) {
		line++
		columns := utf8.RuneCount(bytes.TrimRight(text, "\n"))
		comment := bytes.TrimLeft(text, "\t ")
		if columns > maxColumns && bytes.HasPrefix(comment, []byte("//")) && !bytes.HasPrefix(comment, []byte("// +")) {
			out = append(out, finding{file: file, line: line, phrase: fmt.Sprintf("%d columns", columns),
				instead: fmt.Sprintf("at most %d columns", maxColumns)})
		}
	}
	return out
}

// name is an identifier, or the name of a file.
type name struct {
	text string
	line int
}

// wordsOf returns the words of a name in camel case or with separators, in lower case.
func wordsOf(name string) []string {
	runes := []rune(name)
	var separated []rune
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			separated = append(separated, ' ')
		}
		separated = append(separated, unicode.ToLower(r))
	}
	return strings.FieldsFunc(string(separated), func(r rune) bool { return !unicode.IsLetter(r) })
}

// split returns the parts of a file that rules apply to, and its identifiers. All parts have the length and the lines of
// the file.
func split(file string, text []byte) (map[part][]byte, []name) {
	switch base := path.Base(file); {
	case path.Ext(base) == ".go":
		return splitGo(file, text)
	case path.Ext(base) == ".md":
		return map[part][]byte{pages: text}, nil
	case slices.Contains([]string{".yaml", ".yml", ".rego", ".sh"}, path.Ext(base)), base == "Makefile", file == ".ci/run":
		return map[part][]byte{sources: text}, nil
	case slices.Contains([]string{".ts", ".tsx", ".js", ".html", ".css"}, path.Ext(base)):
		// Texts for users are in strings, templates, and elements alike, so code counts as text. It rarely has the words of a phrase in a row.
		strs := literals
		if !strings.HasSuffix(base, ".test.ts") {
			strs |= messages
		}
		return map[part][]byte{comments | strs: text}, nil
	}
	return nil, nil
}

// splitGo separates the comments and the string literals of a Go file. In each of the two, a byte of other code is a zero
// byte unless it is white space: a phrase may continue on the next line of a comment, but not after code. The literals are
// messages, too, if the file is no test.
func splitGo(file string, text []byte) (map[part][]byte, []name) {
	code := bytes.Clone(text)
	for i, b := range code {
		if !unicode.IsSpace(rune(b)) {
			code[i] = 0
		}
	}
	strs := literals
	if !isTest(file) {
		strs |= messages
	}
	out := map[part][]byte{comments: code, strs: bytes.Clone(code)}
	var found []name
	positions := token.NewFileSet().AddFile(file, -1, len(text))
	var s scanner.Scanner
	// The compiler reports the errors.
	s.Init(positions, text, func(token.Position, string) {}, scanner.ScanComments)
	for {
		pos, tok, lit := s.Scan()
		offset := positions.Offset(pos)
		switch tok {
		case token.EOF:
			return out, found
		case token.COMMENT:
			copy(out[comments][offset:], text[offset:offset+len(lit)])
		case token.STRING:
			copy(out[strs][offset:], text[offset:offset+len(lit)])
		case token.IDENT:
			found = append(found, name{text: lit, line: positions.Line(pos)})
		}
	}
}

// source is a parsed Go file. Its tree has what could be parsed.
type source struct {
	file      string
	positions *token.FileSet
	tree      *ast.File
}

// parse parses a Go file. It ignores errors, which the compiler reports.
func parse(file string, text []byte) source {
	positions := token.NewFileSet()
	tree, _ := parser.ParseFile(positions, file, text, parser.SkipObjectResolution)
	return source{file, positions, tree}
}

// found returns a finding at a place in the file.
func (s source) found(at token.Pos, phrase, instead string) finding {
	return finding{file: s.file, line: s.positions.Position(at).Line, phrase: phrase, instead: instead}
}

// isTest reports whether a Go file is a test, or a part of the framework of the tests.
func isTest(file string) bool {
	return strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "test/")
}
