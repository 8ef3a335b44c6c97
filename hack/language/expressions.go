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
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxExpression is the maximum number of characters of a CEL expression in a marker of the API types. What takes more belongs into the Go
// code of a webhook, which can accept a mistake that an object had before, and says more about it.
const maxExpression = 200

// longExpressions are the beginnings of the expressions that may be longer, with the reason: what must hold while Berth is down, because a
// program that reads the object relies on it.
var longExpressions = map[string]string{
	"self.all(k, type(self[k]) == int ? self[k] >= 0": "a quantity without these bounds takes forever to read, in each program that " +
		"reads a quota",
	"self.all(k, (!(k in ['pods', 'resourcequotas', ": "a quota of half an object would be rounded differently by those who read it",
}

// celExpression matches the expressions of a marker.
var celExpression = regexp.MustCompile(`\b(?:rule|messageExpression)="((?:[^"\\]|\\.)*)"`)

// checkExpressions returns the findings of markers whose CEL expressions are too long.
func checkExpressions(file string, text []byte) []finding {
	if !strings.HasPrefix(file, "api/") {
		return nil
	}
	var out []finding
	line := 0
	for marker := range bytes.Lines(text) {
		line++
		if !bytes.Contains(marker, []byte("validation:XValidation:")) {
			continue
		}
		for _, found := range celExpression.FindAllStringSubmatch(string(marker), -1) {
			if n := utf8.RuneCountInString(found[1]); n > maxExpression && !isLong(found[1]) {
				out = append(out, finding{
					file: file, line: line, phrase: fmt.Sprintf("an expression of %d characters", n),
					instead: fmt.Sprintf("at most %d, or the check in Go code of the webhook,", maxExpression),
				})
			}
		}
	}
	return out
}

// isLong reports whether an expression may be longer than others.
func isLong(expression string) bool {
	for beginning := range longExpressions {
		if strings.HasPrefix(expression, beginning) {
			return true
		}
	}
	return false
}
