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

// terminal is where a command talks to its user.
type terminal struct {
	in  *bufio.Reader
	out io.Writer
	// interactive reports whether a person is there to answer.
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

// ask prints the question and returns the line that the user enters. It returns an error if ctx or the input ends before.
func (t terminal) ask(ctx context.Context, question string) (string, error) {
	fmt.Fprint(t.out, question)
	type answer struct {
		line string
		err  error
	}
	// A read of a terminal can't be canceled. The goroutine of one that is given up ends with the process.
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
