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

// Package pattern bounds regular expressions that are known only when a policy is evaluated, such as those that a policy takes from
// an object: the memory of their compiled form, and the time to match them. It does not compile them.
package pattern

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"k8s.io/utils/lru"
)

const (
	// MaxLength limits a regular expression in bytes. The time to parse one grows faster than its length.
	MaxLength = 4 << 10
	// MaxStates limits the states of a regular expression that users can choose. One that is compiled takes up to about 100 bytes for
	// each. OPA keeps a hundred of them for the whole process.
	MaxStates = 512
	// MaxWritten limits the states of a regular expression that the text of a policy contains.
	MaxWritten = 3000
	// maxSteps limits the work of a match: the states times the text's bytes. maxStepsAll limits that product times the bytes once
	// more. It is for functions that find all matches, because the search for each may read the rest of the text.
	maxSteps    = 1 << 27
	maxStepsAll = 1 << 28
	// maxText is the length from which a text counts as if it were no longer, so that the steps are representable.
	maxText = 1 << 25
)

// Parts of a state's size. In expressions of less than a thousand states, Go gives each state that reads no character the ranges of
// all characters that may follow. A match of groups keeps the position of each group for each state.
const (
	rangesOfState = 8
	groupsOfState = 64
)

// globs matches regular expressions that end with a repeated character, and have no other operator.
var globs = regexp.MustCompile(`^[A-Za-z0-9./_-]+[A-Za-z0-9/_-]\*$`)

// IsGlob reports whether a regular expression is probably meant as a glob, such as web-*. The repetition at its end has no effect if it
// may match in the middle of a text.
func IsGlob(expression string) bool { return globs.MatchString(expression) }

// Excess is the error of a regular expression that exceeds a limit.
type Excess struct {
	// Size is what the expression has, and Limit the most that is allowed, both in units of Unit.
	Size, Limit int
	Unit        string // A noun in the plural, such as "states".
	// WithText reports whether the limit concerns the expression together with the text.
	WithText bool
}

// Error implements error. The message has no part of the expression or of the text, which may be secret.
func (e *Excess) Error() string {
	if e.WithText {
		return fmt.Sprintf("matching the regular expression on the text takes %d %s or more, at most %d are allowed: shorten the expression "+
			"or the text", e.Size, e.Unit, e.Limit)
	}
	return fmt.Sprintf("the regular expression has %d %s, at most %d are compiled: use fewer and smaller repetitions", e.Size, e.Unit, e.Limit)
}

// Check returns which limit a regular expression exceeds by its length, its number of states, or its work on a text; nil if none. most is
// the limit of its states: MaxStates or MaxWritten. text is the length of the text in bytes. all reports whether all matches in the text
// are searched, and not only the first. An invalid expression counts as many states as it has bytes.
func Check(expression string, most, text int, all bool) *Excess {
	if n := len(expression); n > MaxLength {
		return &Excess{Size: n, Limit: MaxLength, Unit: "bytes"}
	}
	return CheckStates(States(expression), most, text, all)
}

// CheckStates returns which limit regular expressions that together have this number of states exceed, by this number or by their work on a
// text; nil if none. The other parameters are those of Check.
func CheckStates(states, most, text int, all bool) *Excess {
	if states > most {
		return &Excess{Size: states, Limit: most, Unit: "states"}
	}
	n := min(text+1, maxText)
	steps, limit := states*n, maxSteps
	if all {
		steps, limit = steps*n, maxStepsAll
	}
	if steps > limit {
		return &Excess{Size: steps, Limit: limit, Unit: "steps", WithText: true}
	}
	return nil
}

// recent caches the results of States by expression. Parsing an expression takes longer than most matches.
var recent = lru.New(256)

// States returns the number of states of a regular expression of at most MaxLength bytes, with repetitions expanded. It counts more
// for large character classes and for groups, according to their memory. It returns the length of an invalid expression.
func States(expression string) int {
	if known, ok := recent.Get(expression); ok {
		return known.(int)
	}
	out := len(expression)
	if parsed, err := syntax.Parse(expression, syntax.Perl); err == nil {
		c := counter{ranges: map[[2]rune]bool{}}
		states, silent := c.count(parsed)
		out = states + silent*len(c.ranges)/rangesOfState + states*c.groups/groupsOfState
	}
	recent.Add(expression, out)
	return out
}

// counter collects from a syntax tree what States adds for character classes and groups; count returns the states. It counts the whole tree
// without a limit: the parser limits the product of nested repetitions to 1000, and the depth of the tree.
type counter struct {
	// ranges are the distinct ranges of characters that the states read, by first and last character.
	ranges map[[2]rune]bool
	// groups is the number of capturing groups.
	groups int
}

// count returns the states of a part of the tree, and how many of them read no character.
func (c *counter) count(re *syntax.Regexp) (states, silent int) {
	for _, part := range re.Sub {
		s, n := c.count(part)
		states, silent = states+s, silent+n
	}
	own := 1
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			c.ranges[[2]rune{r, r}] = true
		}
		return len(re.Rune), 0
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			c.ranges[[2]rune(re.Rune[i:])] = true
		}
		return 1 + len(re.Rune)/2/rangesOfState, 0
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1, 0
	case syntax.OpConcat:
		own = 0
	case syntax.OpAlternate:
		own = len(re.Sub) - 1
	case syntax.OpStar:
		own = 2
	case syntax.OpCapture:
		own = 2
		c.groups++
	case syntax.OpRepeat:
		// x{2,5} is compiled as xx(x(x(x)?)?)?, and x{2,} as xx+.
		times := max(re.Min, re.Max, 1)
		states, silent, own = states*times, silent*times, max(re.Max-re.Min, 1)
	}
	return states + own, silent + own
}
