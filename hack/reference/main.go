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

// Command reference prints the part of the reference that does not describe fields: the conditions and their reasons, the Events, and the
// flags of the manager. Run it in the root of the repository.
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/cmd/manager/app"
)

// The files whose comments are the meaning of what they declare.
const (
	conditionsFile = "api/v1alpha1/conditions.go"
	eventsFile     = "internal/events/events.go"
)

const (
	conditionsPreface = `
## Conditions

Each reason links to what to do about it, in the [runbook](runbook.md#troubleshooting-by-reason).
`
	eventsPreface = `
## Events

[Operating](operating.md#events) says where they are.
`
	flagsPreface = `
## Flags of the manager

Defaults are in parentheses.

`
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	text := &strings.Builder{}
	text.WriteString(conditionsPreface)
	if err := writeDeclarations(text, conditionsFile, token.CONST, condition); err != nil {
		return err
	}
	text.WriteString(eventsPreface)
	if err := writeDeclarations(text, eventsFile, token.VAR, event); err != nil {
		return err
	}
	text.WriteString(flagsPreface)
	writeFlags(text, app.Flags())
	_, err := io.WriteString(out, linked(text.String()))
	return err
}

// termOf returns what the reference calls a declared constant or variable.
type termOf func(name string, value ast.Expr) (string, error)

// writeDeclarations writes the groups of constants or variables in a file of which each has a term.
func writeDeclarations(out io.Writer, path string, kind token.Token, term termOf) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != kind || !group.Lparen.IsValid() {
			continue
		}
		if err := writeGroup(out, group, term); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// writeGroup writes one group. The first sentence of the group's comment becomes the heading.
func writeGroup(out io.Writer, group *ast.GenDecl, term termOf) error {
	heading, rest, _ := strings.Cut(prose(group.Doc), ".")
	fmt.Fprintf(out, "\n### %s\n\n", heading)
	if rest = strings.TrimSpace(rest); rest != "" {
		fmt.Fprintf(out, "%s\n\n", rest)
	}
	for _, spec := range group.Specs {
		declared := spec.(*ast.ValueSpec)
		name := declared.Names[0].Name
		meaning, ok := strings.CutPrefix(prose(declared.Doc), name)
		if !ok {
			return fmt.Errorf("%s needs a comment that begins with its name", name)
		}
		called, err := term(name, declared.Values[0])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(out, "- %s: %s\n", called, strings.TrimLeft(meaning, ": "))
	}
	return nil
}

// condition returns the term of a constant with the type or a reason of a condition.
func condition(name string, value ast.Expr) (string, error) {
	text, err := unquote(value)
	switch {
	case err != nil:
		return "", err
	case strings.HasPrefix(name, "Condition"):
		return "`" + text + "`", nil
	case strings.HasPrefix(name, "Reason"):
		return fmt.Sprintf("[`%s`](runbook.md#%s)", text, strings.ToLower(text)), nil
	}
	return "", errors.New("is neither a condition nor a reason")
}

// event returns the term of a variable with an events.Kind, which is its reason.
func event(_ string, value ast.Expr) (string, error) {
	kind, ok := value.(*ast.CompositeLit)
	if !ok || len(kind.Elts) != 3 {
		return "", errors.New("is no Kind with a type, a reason, and an action")
	}
	reason, err := unquote(kind.Elts[1])
	return "`" + reason + "`", err
}

// writeFlags writes the flags, ordered by name, with the defaults other than empty and false.
func writeFlags(out io.Writer, flags *flag.FlagSet) {
	flags.VisitAll(func(f *flag.Flag) {
		value := ""
		if f.DefValue != "" && f.DefValue != "false" {
			value = " (`" + f.DefValue + "`)"
		}
		fmt.Fprintf(out, "- `--%s`%s: %s\n", f.Name, value, f.Usage)
	})
}

// document matches the paths of documents.
var document = regexp.MustCompile(`\bdocs/([a-z-]+\.md(?:#[a-z-]+)?)`)

// linked returns a text for a page in docs, in which paths of documents are links.
func linked(text string) string { return document.ReplaceAllString(text, "[$1]($1)") }

// prose returns a comment as one line.
func prose(comment *ast.CommentGroup) string {
	return strings.Join(strings.Fields(comment.Text()), " ")
}

// unquote returns the value of a string literal.
func unquote(value ast.Expr) (string, error) {
	literal, ok := value.(*ast.BasicLit)
	if !ok {
		return "", errors.New("is no string literal")
	}
	return strconv.Unquote(literal.Value)
}
