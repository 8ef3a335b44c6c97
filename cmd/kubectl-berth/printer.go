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
	"strings"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/berth-dev/berth/internal/printable"
)

// printer writes text to out, and keeps the first error in err, after which it writes nothing more. Commands print only through it: names,
// annotations, and messages come from users that the reader need not trust, so arguments can't begin a line or style text, unlike formats
// and documents.
type printer struct {
	out io.Writer
	err error
	// styled reports whether the output shows styles: it is a terminal, and the environment variable NO_COLOR is not set.
	styled bool
}

// newPrinter returns a printer with styles if the output is a terminal, unless the environment variable NO_COLOR is set
// (https://no-color.org).
func newPrinter(out io.Writer) *printer {
	file, isFile := out.(*os.File)
	return &printer{out: out, styled: isFile && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == ""}
}

// Styles of text on terminals, as parameters of the control sequence Select Graphic Rendition of ECMA-48.
const (
	bold  = "1"
	red   = "31"
	green = "32"
)

// styled is text with the control sequences of a style, if the output shows styles. line writes it as it is.
type styled string

// shown escapes a text for a line of output, as printable.Text does. It also escapes what a CI system that reads the output would take for
// a command: :: at the start of a line, and ## anywhere.
func shown(text string) string {
	text = strings.ReplaceAll(printable.Text(text), "##", `#\u0023`)
	if start := strings.TrimLeft(text, " "); strings.HasPrefix(start, "::") {
		text = strings.Replace(text, "::", `\u003a:`, 1)
	}
	return text
}

// style returns the text, escaped as by shown, in a style, such as bold, if the output shows styles.
func (p *printer) style(style, text string) styled {
	text = shown(text)
	if p.styled {
		text = "\x1b[" + style + "m" + text + "\x1b[0m"
	}
	return styled(text)
}

// paragraph is a message of one or more lines, such as that of a compiler. printer.line writes each of its lines on a line of the output,
// all but the first after a mark. A paragraph must be the last argument of printer.line.
type paragraph string

// line writes one line. It escapes arguments as shown does, so that their line breaks begin no line, except for a text of the type styled.
// An argument of the type paragraph keeps its line breaks: each further line of it is printed on a line below, after a mark.
func (p *printer) line(format string, args ...any) {
	printed, below := make([]any, len(args)), ""
	for i, arg := range args {
		switch value := arg.(type) {
		case styled, int, int32, int64, float64:
			printed[i] = value
		case paragraph:
			first, rest, _ := strings.Cut(string(value), "\n")
			printed[i], below = shown(first), rest
		default:
			printed[i] = shown(fmt.Sprint(value))
		}
	}
	p.write(strings.TrimRight(fmt.Sprintf(format, printed...), " ") + "\n")
	indent := format[:len(format)-len(strings.TrimLeft(format, " "))]
	for text := range strings.Lines(below) {
		text = strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\t", "    ")
		p.write(strings.TrimRight(indent+"  | "+shown(text), " ") + "\n")
	}
}

// table writes rows in aligned columns below a header. It escapes cells as shown does.
func (p *printer) table(header []string, rows [][]string) {
	var aligned strings.Builder
	w := printers.GetNewTabWriter(&aligned)
	for _, row := range append([][]string{header}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = shown(cell)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if p.err == nil {
		p.err = w.Flush()
	}
	p.write(aligned.String())
}

// document writes a text of several lines that programs read, such as YAML.
func (p *printer) document(text string) { p.write(printable.Lines(text)) }

func (p *printer) write(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.out, text)
	}
}

// printError writes the error with which a command fails, after "Error: ".
func printError(out io.Writer, err error) {
	// There is no other place to report an error of this message.
	newPrinter(out).line("Error: %s", paragraph(err.Error()))
}
