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

// Command reference prints the part of the API reference that does not describe fields: the conditions and their
// reasons. It reads the constants in api/v1alpha1/conditions.go. Run it in the root of the repository.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"strconv"
	"strings"
)

const (
	source = "api/v1alpha1/conditions.go"

	conditionPrefix = "Condition"
	reasonPrefix    = "Reason"

	preface = `
## Conditions

The status of a condition is True, False or Unknown, its reason one of the words below, and its message what a person needs to know.
Each reason links to what to do about it, in the [runbook](runbook.md#troubleshooting-by-reason).
`
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	file, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	text := &strings.Builder{}
	text.WriteString(preface)
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		if err := write(text, group); err != nil {
			return err
		}
	}
	_, err = io.WriteString(out, text.String())
	return err
}

// write writes one group of constants. The first sentence of the group's comment becomes the heading.
func write(out io.Writer, group *ast.GenDecl) error {
	heading, rest, _ := strings.Cut(prose(group.Doc), ".")
	fmt.Fprintf(out, "\n### %s\n\n", heading)
	if rest = strings.TrimSpace(rest); rest != "" {
		fmt.Fprintf(out, "%s\n\n", rest)
	}
	for _, spec := range group.Specs {
		constant := spec.(*ast.ValueSpec)
		name := constant.Names[0].Name
		value, err := strconv.Unquote(constant.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		meaning, ok := strings.CutPrefix(prose(constant.Doc), name)
		if !ok {
			return fmt.Errorf("%s: %s needs a comment that begins with its name", source, name)
		}
		term := "`" + value + "`"
		if strings.HasPrefix(name, reasonPrefix) {
			term = fmt.Sprintf("[%s](runbook.md#%s)", term, strings.ToLower(value))
		} else if !strings.HasPrefix(name, conditionPrefix) {
			return fmt.Errorf("%s: %s is neither a condition nor a reason", source, name)
		}
		fmt.Fprintf(out, "- %s: %s\n", term, strings.TrimLeft(meaning, ": "))
	}
	return nil
}

// prose returns a comment as one line.
func prose(comment *ast.CommentGroup) string {
	return strings.Join(strings.Fields(comment.Text()), " ")
}
