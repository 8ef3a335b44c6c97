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

package embedded

import (
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/pattern"
)

// Limits of globs. OPA keeps a hundred compiled ones for the whole process.
const (
	// maxGlob limits a glob that users can choose, in bytes. A compiled glob takes up to about 70 times its bytes. maxWrittenGlob limits
	// one that the text of a policy contains.
	maxGlob        = 512
	maxWrittenGlob = 2 << 10
	// maxDelimiters limits the delimiters of a glob. Each wildcard compares each character of the text with all of them.
	maxDelimiters = 64
	// maxTries limits how often a match of globs may start again at another place of the text, times the bytes of the glob. One
	// takes up to 40 nanoseconds.
	maxTries = 1 << 25
)

// regularExpression returns a check that limits the states of a regular expression, and the work of matching it against a text. It allows
// more states if the expression stands in the text of the policy. The parameters expression and text are indexes of operands, and all
// reports whether all matches are searched, which takes more work.
func regularExpression(expression, text int, all bool) check {
	return func(operands []*ast.Term) *engine.LimitError {
		value, ok := operands[expression].Value.(ast.String)
		if !ok {
			return nil
		}
		return excessOf(expression, pattern.Check(string(value), maxStates(operands[expression]), length(operands[text].Value), all))
	}
}

// isWritten reports whether a term stands in the text of a policy. Terms of other values, such as results of functions, have no location.
func isWritten(t *ast.Term) bool { return t.Location != nil }

// maxStates returns how many states a regular expression may have. It may have more if it stands in the text of the policy.
func maxStates(t *ast.Term) int {
	if isWritten(t) {
		return pattern.MaxWritten
	}
	return pattern.MaxStates
}

// excessOf returns the error for the excess that pattern.Check found in a regular expression, the operand with that index, or in matching
// it against a text; nil for nil.
func excessOf(operand int, e *pattern.Excess) *engine.LimitError {
	switch {
	case e == nil:
		return nil
	case e.WithText:
		return overAll(e.Size, e.Limit, e.Unit)
	}
	return over(operand, e.Size, e.Limit, e.Unit)
}

// valid limits the length of a text that is parsed as a regular expression.
func valid(operands []*ast.Term) *engine.LimitError {
	return over(0, length(operands[0].Value), pattern.MaxLength, "bytes")
}

// template limits the regular expressions between the delimiters of a template. OPA compiles each of them, and all of them together.
func template(operands []*ast.Term) *engine.LimitError {
	text, ok := operands[0].Value.(ast.String)
	opening, isText := operands[2].Value.(ast.String)
	closing, areTexts := operands[3].Value.(ast.String)
	if !ok || !isText || !areTexts || len(opening) != 1 || len(closing) != 1 {
		return nil
	}
	if err := over(0, len(text), pattern.MaxLength, "bytes"); err != nil {
		return err
	}
	states, depth, from := len(text), 0, 0
	for i := range len(text) {
		switch text[i] {
		case opening[0]:
			if depth++; depth == 1 {
				from = i + 1
			}
		case closing[0]:
			if depth--; depth == 0 {
				states += pattern.States(string(text[from:i]))
			}
		}
	}
	return excessOf(0, pattern.CheckStates(states, maxStates(operands[0]), length(operands[1].Value), false))
}

// glob limits a glob, its delimiters, and the work of matching it against a text.
func glob(operands []*ast.Term) *engine.LimitError {
	text, most := string(stringOf(operands[0])), maxGlob
	if isWritten(operands[0]) {
		most = maxWrittenGlob
	}
	if err := over(0, len(text), most, "bytes"); err != nil {
		return err
	}
	if err := over(1, length(operands[1].Value), maxDelimiters, "delimiters"); err != nil {
		return err
	}
	// Each alternative of a group is tried with each of the other groups. At most, groups have the same size.
	groups, commas := strings.Count(text, "{"), strings.Count(text, ",")
	tries := ways(length(operands[2].Value), wildcards(text))
	for range groups {
		tries = min(tries*((commas+groups+groups-1)/groups), maxTries+1)
	}
	return overAll(tries*(len(text)+1), maxTries, "steps")
}

// wildcards returns the number of * in a glob, which may match parts of several lengths of a text. Adjacent ones count as one. One at the
// end does not count, because it always takes the rest of the text.
func wildcards(glob string) int {
	out := 0
	for i := range len(glob) {
		if glob[i] == '*' && (i == 0 || glob[i-1] != '*') {
			out++
		}
	}
	if strings.HasSuffix(glob, "*") {
		out--
	}
	return out
}

// globs limits the work of regex.globs_match, which tries each repetition of one operand at each place of the other. It counts the ways to
// end all repetitions of both somewhere in their combined length.
func globs(operands []*ast.Term) *engine.LimitError {
	x, y := stringOf(operands[0]), stringOf(operands[1])
	repetitions := strings.Count(string(x+y), "*") + strings.Count(string(x+y), "+")
	n := len(x) + len(y)
	return overAll(ways(n, repetitions)*(n+1), maxTries, "steps")
}

// ways returns the number of ways to choose the ends of k parts of a text of n bytes, at most maxTries+1. It is the binomial
// coefficient of n+k and k.
func ways(n, k int) int {
	out := 1
	for i := 1; i <= k && out <= maxTries; i++ {
		out = out * (n + i) / i
	}
	return min(out, maxTries+1)
}

// stringOf returns the string of a term; empty if the term is not a string.
func stringOf(t *ast.Term) ast.String {
	s, _ := t.Value.(ast.String)
	return s
}
