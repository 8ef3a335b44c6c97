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

package typecheck

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"

	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/suggest"
)

// explain returns the message for an error of the type checker. The parameter operator is the comparison operator other than == at the
// error's position; empty if there is none. w is the comparison at the position as it is written. The result ok is false if the error is
// not a mistake of the author. The result holds is true if the expression may be true nevertheless.
//
// OPA assumes that all fields of an object exist, so that two objects with different fields are never equal. In a
// schema, most fields are optional. Therefore objects, and arrays of objects, may be equal whatever their fields are.
func explain(err *ast.Error, operator string, w written) (message string, holds, ok bool) {
	switch d := err.Details.(type) {
	case *ast.RefErrInvalidDetail:
		return explainMissing(d), false, true
	case *ast.RefErrUnsupportedDetail:
		if _, function := d.Have.(*types.Function); function {
			return "", false, false
		}
		ref, pos := original(d.Ref, d.Pos)
		return fmt.Sprintf("%s is undefined: %s is %s and has no fields", ref, ref[:pos+1], policy.DescribeType(d.Have)), false, true
	case *ast.UnificationErrDetail:
		if possible(d.Left, d.Right) {
			return "", false, false
		}
		consequence, holds := outcome(d.Left, operator, d.Right)
		message = fmt.Sprintf("%s compares %s with %s: %s", sourceOf(err.Location), policy.DescribeType(d.Left),
			policy.DescribeType(d.Right), consequence)
		if meant := w.meant(d.Left, d.Right); meant != "" {
			message += fmt.Sprintf("; "+didYouMean+" %s?", meant)
		}
		return message, holds, true
	case *ast.ArgErrDetail:
		for i, have := range d.Have {
			if want := d.Want.Arg(i); have != nil && want != nil && !possible(have, want) {
				return fmt.Sprintf("%s: argument %d is %s, and the function takes %s",
					strings.TrimSuffix(err.Message, ": invalid argument(s)"), i+1, policy.DescribeType(have), policy.DescribeType(want)), false, true
			}
		}
	}
	return "", false, false
}

// order has the types in the order in which Rego sorts values of different types. The first four are those of scalars.
var order = []string{"null", "a boolean", "a number", "a string", "an array", "an object", "a set"}

// outcome returns a text about the result of a comparison of values of different types. operator is "" for ==. holds reports whether the
// result may be true.
func outcome(left types.Type, operator string, right types.Type) (text string, holds bool) {
	l, r := slices.Index(order, policy.DescribeType(left)), slices.Index(order, policy.DescribeType(right))
	switch {
	case operator == "":
		return "values of different types are never equal", false
	case operator == ast.NotEqual.Name:
		return "the comparison is always true", true
	case l < 0 || r < 0:
		return "the result depends on the types alone, and not on the values", true
	case (l < r) == (operator == ast.LessThan.Name || operator == ast.LessThanEq.Name):
		return "the comparison is always true", true
	}
	return "the comparison is always false", false
}

// original returns a compiled reference as it is written in the policy, and the index in that which corresponds to the index pos in ref.
// Variables that the compiler generated, as for `some x in collection`, become `_` or are removed at the end.
func original(ref ast.Ref, pos int) (ast.Ref, int) {
	out := make(ast.Ref, len(ref))
	for i, term := range ref {
		out[i] = term
		switch value := term.Value.(type) {
		case ast.Ref:
			inner, _ := original(value, 0)
			out[i] = ast.NewTerm(inner)
		case ast.Var:
			if i > 0 && value.IsGenerated() {
				out[i] = ast.VarTerm("_")
			}
		}
	}
	if last := len(out) - 1; last > pos && out[last].Equal(ast.VarTerm("_")) {
		out = out[:last]
	}
	prefix := typed(inputName, nil)
	if !out.HasPrefix(prefix) {
		return out, pos
	}
	return append(ast.Ref{ast.InputRootDocument}, out[len(prefix):]...), max(0, pos-len(prefix)+1)
}

// explainMissing returns the message about a reference to a field that does not exist.
func explainMissing(d *ast.RefErrInvalidDetail) string {
	ref, pos := original(d.Ref, d.Pos)
	parent := ref[:pos]
	if d.Have != nil && d.Want != nil {
		return fmt.Sprintf("%s is undefined: %s is %s, and a key of %s is %s", ref, ref[pos], policy.DescribeType(d.Have), parent,
			policy.DescribeType(d.Want))
	}
	name, isName := ref[pos].Value.(ast.String)
	if !isName {
		return fmt.Sprintf("%s is undefined: %s has no %s", ref, parent, ref[pos])
	}
	message := fmt.Sprintf("%s is undefined: %s has no field %q", ref, parent, string(name))
	if hint := hint(ref, pos, names(d.OneOf)); hint != "" {
		message += "; " + hint
	}
	return message
}

// didYouMean is the start of a suggestion.
const didYouMean = "did you mean"

// hint returns the end of the message about a reference to a missing field, whose name is ref[pos]: why it is missing, a suggestion of
// another reference, or, without these, the list of the fields that there are. It returns "" instead of a list of no fields, or of more
// than maxListed.
func hint(ref ast.Ref, pos int, fields []string) string {
	name := string(ref[pos].Value.(ast.String))
	if ref[:pos].Equal(ast.InputRootRef) {
		switch name {
		case "request", "review", "object", "oldObject", "parameters", "resource":
			return "input is the object itself, with apiVersion, kind, metadata, and spec"
		}
	}
	if ref.HasPrefix(ast.MustParseRef("data.kubernetes.secrets")) && slices.Contains(secretPayload, name) {
		return "the payload of Secrets is never replicated"
	}
	// The reference has an extra level, as in cluster.metadata.labels.
	if next, ok := language.Part(ref, pos+1); ok && slices.Contains(fields, next) {
		return fmt.Sprintf(didYouMean+" %s?", append(ref[:pos:pos], ref[pos+1:]...))
	}
	near, ok := transposed(name, fields)
	if !ok {
		near, ok = suggest.Nearest(name, fields)
	}
	if ok {
		meant := append(ref[:pos:pos], ast.StringTerm(near))
		return fmt.Sprintf(didYouMean+" %s?", append(meant, ref[pos+1:]...))
	}
	if len(fields) > 0 && len(fields) <= maxListed {
		return "it has " + strings.Join(fields, ", ")
	}
	return ""
}

// transposed returns a field that equals the name after two adjacent characters are swapped; false if there is none.
func transposed(name string, fields []string) (string, bool) {
	for i := range len(name) - 1 {
		swapped := name[:i] + name[i+1:i+2] + name[i:i+1] + name[i+2:]
		if slices.Contains(fields, swapped) {
			return swapped, true
		}
	}
	return "", false
}

// maxListed is the maximum number of fields that a message lists. If an object has more, the message lists none.
const maxListed = 8

// names returns those of the values that are strings.
func names(values []ast.Value) []string {
	var out []string
	for _, v := range values {
		if s, ok := v.(ast.String); ok {
			out = append(out, string(s))
		}
	}
	return out
}

// sourceOf returns the first line of an expression as its author wrote it, shortened to 80 characters; "the expression" if it is not known.
func sourceOf(at *ast.Location) string {
	if at == nil {
		return "the expression"
	}
	line, _, more := strings.Cut(strings.TrimSpace(string(at.Text)), "\n")
	const most = 80
	if runes := []rune(line); len(runes) > most {
		line, more = string(runes[:most]), true
	}
	if line == "" {
		return "the expression"
	}
	if more {
		line += "..."
	}
	return line
}

// possible reports whether one value can have both types, as also if one of them is unknown. All types of objects count as one type, and so
// do all types of arrays.
func possible(a, b types.Type) bool {
	a, b = policy.PlainType(a), policy.PlainType(b)
	if x, ok := a.(types.Any); ok {
		for _, one := range x {
			if possible(one, b) {
				return true
			}
		}
		return len(x) == 0
	}
	if _, ok := b.(types.Any); ok {
		return possible(b, a)
	}
	return a == nil || b == nil || policy.DescribeType(a) == policy.DescribeType(b)
}
