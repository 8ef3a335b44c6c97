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

// Package printable shows text that comes from others, such as the values of objects, in messages. Such a text must not start a
// line, style text, or hide or reorder what is printed around it.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Text escapes a text so that it can be printed on one line. It escapes control characters, line feeds and tabs among them, format
// characters, such as those that change the direction of text or have no width, and bytes that are not UTF-8. All else is unchanged,
// including backslashes. So escaped text is not escaped again.
func Text(text string) string { return escape(text, "") }

// Lines is like Text, but keeps line feeds and tabs. It is for documents, such as the module of a policy. The escapes of valid UTF-8 are
// those of strings in YAML and, up to U+FFFF, of strings in JSON.
func Lines(text string) string { return escape(text, "\n\t") }

// Truncate returns a text of at most limit bytes. A longer text is cut between characters, and ends with "...". limit is at least 3.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-3], "") + "..."
}

// escape replaces characters without a glyph, such as control and format characters, except for those in kept, and bytes that are not UTF-8
// by escapes, such as \n, \u202e, and \xff.
func escape(text, kept string) string {
	hidden := func(r rune) bool { return !strconv.IsGraphic(r) && !strings.ContainsRune(kept, r) }
	if utf8.ValidString(text) && !strings.ContainsFunc(text, hidden) {
		return text
	}
	var out strings.Builder
	for at, r := range text {
		_, size := utf8.DecodeRuneInString(text[at:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[at])
		case !hidden(r):
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r <= 0xffff:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\U%08x`, r)
		}
	}
	return out.String()
}
