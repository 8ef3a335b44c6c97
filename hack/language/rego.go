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
	"go/ast"
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
func checkRego(code source) []finding {
	if !isTest(code.file) {
		return nil
	}
	var out []finding
	ast.Inspect(code.tree, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING || !strings.HasPrefix(literal.Value, `"`) {
			return true
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil || !strings.Contains(value, `"`) && !strings.Contains(strings.Trim(value, "\n"), "\n") {
			return true
		}
		if statement := regoStatement.FindString(value); statement != "" && utf8.ValidString(value) && !notRaw.MatchString(value) {
			out = append(out, code.found(literal.Pos(), strings.TrimSpace(statement), "a raw string"))
		}
		return true
	})
	return out
}
