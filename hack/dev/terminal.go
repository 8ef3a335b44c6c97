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
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// terminal is the terminal through which a command interacts with its user.
type terminal struct {
	in  *bufio.Reader
	out io.Writer
	// interactive reports whether a user can answer questions.
	interactive bool
	// bold reports whether headlines may be bold.
	bold bool
}

// standardTerminal returns the terminal of this process.
func standardTerminal() terminal {
	screen := term.IsTerminal(int(os.Stdout.Fd()))
	return terminal{
		in: bufio.NewReader(os.Stdin), out: os.Stdout,
		interactive: screen && term.IsTerminal(int(os.Stdin.Fd())),
		bold:        screen && os.Getenv("NO_COLOR") == "",
	}
}

// ask prints the question and returns the line that the user enters. It returns an error if ctx or the input ends
// first.
func (t terminal) ask(ctx context.Context, question string) (string, error) {
	fmt.Fprint(t.out, question)
	type answer struct {
		line string
		err  error
	}
	// Reading from a terminal cannot be canceled. If ctx ends first, the goroutine ends with the process.
	answers := make(chan answer, 1)
	go func() {
		line, err := t.in.ReadString('\n')
		answers <- answer{line, err}
	}()
	select {
	case a := <-answers:
		if a.err != nil && (a.line == "" || !errors.Is(a.err, io.EOF)) {
			return "", fmt.Errorf("reading the answer: %w", a.err)
		}
		return strings.TrimSpace(a.line), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
