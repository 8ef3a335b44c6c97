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
	"testing"
)

// TestTerminal writes what a developer could have in an annotation.
func TestTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"plain, é, 東京\n\tnext":                     "plain, é, 東京\n\tnext",
		"\x1b[1mPolicy a\x1b[0m denies":            "\x1b[1mPolicy a\x1b[0m denies",
		"\x1b]0;title\x07":                         `\u001b]0;title\u0007`,
		"\x1b[2J\x1b[31mred\x1b[0m":                `\u001b[2J` + "\x1b[31mred\x1b[0m",
		"\x1b[8mhidden":                            `\u001b[8mhidden`,
		"no violations\rdeployments web: violates": `no violations\u000ddeployments web: violates`,
		"\u009b2J \u202egnp.exe":                   `\u009b2J \u202egnp.exe`,
		"\xff":                                     "\ufffd",
	} {
		var out bytes.Buffer
		n, err := terminal{&out}.Write([]byte(text))
		if n != len(text) || err != nil || out.String() != want {
			t.Errorf("%q: %q, %d, %v, want %q", text, out.String(), n, err, want)
		}
	}
}
