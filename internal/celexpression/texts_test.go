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

// TestTexts checks that texts are assembled as cel-go does, and that those are not that take more memory than the manager has.
func TestTexts(t *testing.T) {
	long := strings.Repeat("x", 5_000)
	lines := make([]any, 1000)
	for i := range lines {
		lines[i] = "a"
	}
	object := map[string]any{"long": long, "lines": lines, "mixed": []any{"a", int64(1)}, "n": int64(2)}
	for expression, want := range map[string]string{
		"'a-b-c'.replace('-', '_') == 'a_b_c'":              "",
		"'a-b-c'.replace('-', '_', 1) == 'a_b-c'":           "",
		"'a-b-c'.replace('-', '_', 0) == 'a-b-c'":           "",
		"'a-b-c'.replace('-', '_', -1) == 'a_b_c'":          "",
		"'äb'.replace('', '.') == '.ä.b.'":                  "",
		"object.long.replace('x', 'yz').size() == 10000":    "",
		"object.lines.join().size() == 1000":                "",
		"object.lines.join(', ').startsWith('a, a')":        "",
		"[].join('-') == ''":                                "",
		"['a'].join('-') == 'a'":                            "",
		"object.long.replace('x', object.long) != ''":       "replace() returns more than 4194304 bytes",
		"object.long.replace('', object.long) != ''":        "replace() returns more than 4194304 bytes",
		"object.long.replace('x', object.long, 1000) != ''": "replace() returns more than 4194304 bytes",
		"object.lines.join(object.long) != ''":              "join() returns more than 4194304 bytes",
		"object.mixed.join() != ''":                         "no such overload",
		"object.n.replace('a', 'b') != ''":                  "no such overload",
		"'a'.replace('a', object.absent) != ''":             "no such key: absent",
		"object.absent.join() != ''":                        "no such key: absent",
	} {
		got, err := celexpression.Evaluate(t.Context(), expression, object)
		if want == "" && (err != nil || !got) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %t, error %v, want %q", expression, got, err, want)
		}
	}
}
