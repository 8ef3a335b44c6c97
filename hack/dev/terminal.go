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
