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
	"go/scanner"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

const regoName = `[A-Za-z_%][\w%#]*`

var (
	// regoStatement matches the beginning of a line that is a rule or an import in Rego, of either version. Names may have the
	// placeholders of a format, and the # of those that tests number.
	regoStatement = regexp.MustCompile(`(?m)^[ \t]*(?:import (?:data|input)\b|(?:default )?` +
		regoName + `(?:\.` + regoName + `|\[[^\]\n]*\]|\([^)\n]*\))*(?: :=| contains \S| if\b| = [{\[]|(?: = \S+)? \{ )).*`)
	// notRaw matches what a raw string can't hold, or does not show.
	notRaw = regexp.MustCompile("`|[^\\PC\\n\\t]|[\\p{Zl}\\p{Zp}]|[ \\t]\\n")
)

// checkRego returns the findings of interpreted strings in tests that hold Rego with an escaped quote, or with several lines: as a raw
// string, the text is as an author writes it.
func checkRego(file string, text []byte) []finding {
	if !isTest(file) {
		return nil
	}
	positions := token.NewFileSet().AddFile(file, -1, len(text))
	var s scanner.Scanner
	// The compiler reports the errors.
	s.Init(positions, text, func(token.Position, string) {}, 0)
	var out []finding
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return out
		}
		if tok != token.STRING || !strings.HasPrefix(lit, `"`) {
			continue
		}
		value, err := strconv.Unquote(lit)
		if err != nil || !strings.Contains(value, `"`) && !strings.Contains(strings.Trim(value, "\n"), "\n") {
			continue
		}
		if statement := regoStatement.FindString(value); statement != "" && utf8.ValidString(value) && !notRaw.MatchString(value) {
			out = append(out, finding{file: file, line: positions.Line(pos), phrase: strings.TrimSpace(statement), instead: "a raw string"})
		}
	}
}
