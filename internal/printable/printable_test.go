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

package printable_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/berth-dev/berth/internal/printable"
)

// TestText writes what a developer could have in an annotation.
func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"plain, é, 東京, 👍🏽":            "plain, é, 東京, 👍🏽",
		`C:\new "x" '\d+'`:            `C:\new "x" '\d+'`,
		"no-break\u00a0space":         "no-break\u00a0space",
		"x\nPolicy y denies":          `x\nPolicy y denies`,
		"a\tb\r\n\v\f\a\b\x00":        `a\tb\r\n\u000b\u000c\u0007\u0008\u0000`,
		"\x1b[1mPolicy a\x1b[0m":      `\u001b[1mPolicy a\u001b[0m`,
		"\x1b]0;title\x07":            `\u001b]0;title\u0007`,
		"\u009b2J \u0085 \x7f":        `\u009b2J \u0085 \u007f`,
		"\u202egnp.exe \u2066\u2069":  `\u202egnp.exe \u2066\u2069`,
		"a\u200bb\u200d\u2060\ufeff":  `a\u200bb\u200d\u2060\ufeff`,
		"\u2028\u2029":                `\u2028\u2029`,
		"\U000e0041":                  `\U000e0041`,
		"\xff\xc3( \xed\xa0\x80":      `\xff\xc3( \xed\xa0\x80`,
		"\ufffd is a character":       "\ufffd is a character",
		"\u00ad soft, \u061c, \ue000": `\u00ad soft, \u061c, \ue000`,
	} {
		got := printable.Text(text)
		if got != want {
			t.Errorf("Text(%q) = %q, want %q", text, got, want)
		}
		if again := printable.Text(got); again != got {
			t.Errorf("Text(%q) = %q", got, again)
		}
	}
}

func TestLines(t *testing.T) {
	const text, want = "allow if {\n\ttrue\n}\n\x1b[2J\r\n", `allow if {
	true
}
\u001b[2J\r
`
	if got := printable.Lines(text); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEveryCharacter checks that what is printed of a character is the character itself, if it has a glyph, and ASCII otherwise.
func TestEveryCharacter(t *testing.T) {
	for r := range unicode.MaxRune + 1 {
		if !utf8.ValidRune(r) {
			continue
		}
		text := string(r)
		got := printable.Text(text)
		visible := unicode.IsGraphic(r)
		if visible && got != text || !visible && (got == text || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' })) {
			t.Fatalf("Text(%q) = %q", text, got)
		}
	}
}

func TestTruncate(t *testing.T) {
	for text, want := range map[string]string{"": "", "12345678": "12345678", "123456789": "12345...", "1234é6789": "1234...", "éééé": "éééé"} {
		if got := printable.Truncate(text, 8); got != want {
			t.Errorf("Truncate(%q) = %q, want %q", text, got, want)
		}
	}
}
