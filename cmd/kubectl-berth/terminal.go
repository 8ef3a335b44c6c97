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
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// terminal writes to a terminal. Annotations, names and messages come from users that the reader need not trust, so it escapes
// what would control the terminal, except for the styles of printer.
type terminal struct{ io.Writer }

// onTerminal returns a terminal if a file is one, and otherwise the file.
func onTerminal(file *os.File) io.Writer {
	if term.IsTerminal(int(file.Fd())) {
		return terminal{file}
	}
	return file
}

// Write implements io.Writer.
func (t terminal) Write(text []byte) (int, error) {
	if _, err := io.WriteString(t.Writer, escaped(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// styles are the control sequences of printer.
var styles = regexp.MustCompile(`\x1b\[(?:0|` + strings.Join([]string{bold, red, green}, "|") + `)m`)

// escaped returns a text with escapes in place of characters that have no glyph, except for tabs, line feeds, and styles.
func escaped(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if strings.IndexFunc(text, controls) < 0 {
		return text
	}
	var out strings.Builder
	at := 0
	for _, style := range append(styles.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		for _, r := range text[at:style[0]] {
			if controls(r) {
				fmt.Fprintf(&out, `\u%04x`, r)
			} else {
				out.WriteRune(r)
			}
		}
		out.WriteString(text[style[0]:style[1]])
		at = style[1]
	}
	return out.String()
}

// controls reports whether a character may control a terminal.
func controls(r rune) bool { return r != '\t' && r != '\n' && !unicode.IsGraphic(r) }
