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

package celexpression_test

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/celexpression"
)

// TestPatterns matches regular expressions of objects and constant ones.
func TestPatterns(t *testing.T) {
	repeat := strings.Repeat
	tests := map[string]struct {
		expression string
		pattern    string
		text       string
		want       bool
		err        string
	}{
		"Matches":         {expression: "object.text.matches(object.pattern)", pattern: "^b", text: "berth", want: true},
		"MatchesNot":      {expression: "object.text.matches(object.pattern)", pattern: "^e", text: "berth"},
		"Function":        {expression: "matches(object.text, object.pattern)", pattern: "r.h$", text: "berth", want: true},
		"Constant":        {expression: "object.text.matches('^b.*h$')", text: "berth", want: true},
		"Find":            {expression: "object.text.find(object.pattern) == 'er'", pattern: "e.", text: "berth", want: true},
		"FindConstant":    {expression: "object.text.find('e.') == 'er'", text: "berth", want: true},
		"FindAll":         {expression: "object.text.findAll(object.pattern) == ['be', 'rt']", pattern: "..", text: "berth", want: true},
		"FindAllConstant": {expression: "object.text.findAll('..') == ['be', 'rt']", text: "berth", want: true},
		"FindSome":        {expression: "object.text.findAll(object.pattern, 1) == ['be']", pattern: "..", text: "berth", want: true},
		"FindNone":        {expression: "object.text.findAll(object.pattern, 0) == []", pattern: "..", text: "berth", want: true},
		"Invalid":         {expression: "object.text.matches(object.pattern)", pattern: "(secret", err: "not a valid regular expression"},
		"InvalidConstant": {expression: "object.text.matches('(')", err: "invalid matches argument"},
		"NoText":          {expression: "object.matches(object.pattern)", pattern: "q+", err: "no such overload"},
		"NoPattern":       {expression: "object.text.matches(object)", text: "a", err: "no such overload"},
		"NoLimit":         {expression: "object.text.findAll(object.pattern, object.text) == []", text: "a", pattern: "q+", err: "no such overload"},

		"States":         {expression: "object.text.matches(object.pattern)", pattern: repeat("(x{1000})", 450), err: "states"},
		"StatesFunction": {expression: "matches(object.text, object.pattern)", pattern: `^\pL{1000}$`, err: "states"},
		"StatesFind":     {expression: "object.text.find(object.pattern) == ''", pattern: repeat("(x{900}y)", 4), err: "states"},
		"StatesFindAll":  {expression: "object.text.findAll(object.pattern, 1) == []", pattern: repeat(`(a?)`, 500), err: "states"},
		"OfObject":       {expression: "object.text.matches(object.pattern)", pattern: "^x{600}$", err: "states"},
		"OfPolicy":       {expression: "object.text.matches('^x{600}$')"},
		"Length":         {expression: "object.text.matches(object.pattern)", pattern: repeat("()", 3000), err: "bytes"},
		"Computed":       {expression: "object.text.matches(object.pattern + object.pattern + object.pattern)", pattern: "x{999}y", err: "states"},
		"Literal":        {expression: "object.text.matches('(x{1000})(x{1000})(x{1000})')", err: "states"},
		"Folded":         {expression: "object.text.matches(string('(x{1000})(x{1000})(x{1000})'))", err: "states"},
		"InAMacro":       {expression: "[1].exists(x, object.text.matches('(x{1000})(x{1000})(x{1000})'))", err: "states"},
		"Text":           {expression: "object.text.matches(object.pattern)", pattern: "(x[xy]{300})*z", text: repeat("x", 1<<20), err: "steps"},
		"TextOfConstant": {expression: "object.text.matches('(x[xy]{300})*z')", text: repeat("x", 1<<20), err: "steps"},
		"TextOfAll":      {expression: "object.text.findAll(object.pattern).size() == 0", pattern: "x*z|x", text: repeat("x", 1<<16), err: "steps"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			object := map[string]any{"text": tc.text, "pattern": tc.pattern}
			for range 2 {
				got, err := celexpression.Evaluate(t.Context(), tc.expression, object)
				if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%v, %v, want %v, %q", got, err, tc.want, tc.err)
				}
				if err != nil && tc.pattern != "" && strings.Contains(err.Error(), tc.pattern) {
					t.Errorf("the error has a value of the object: %v", err)
				}
			}
		})
	}
}

// TestConstantPatternsAreChecked checks that the author learns of a constant that is too large.
func TestConstantPatternsAreChecked(t *testing.T) {
	for expression, want := range map[string]string{
		"object.text.matches('^[a-z]{1,253}$')":                      "",
		"object.text.matches('(x{1000})(x{1000})(x{1000})')":         "states, at most",
		"object.text.find('w{900}x{900}y{900}z{900}') == ''":         "states, at most",
		"matches(object.text, '" + strings.Repeat("()", 3000) + "')": "bytes, at most",
	} {
		if err := celexpression.Check(expression); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", expression, err, want)
		}
	}
}
