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

package celexpression

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"
	"k8s.io/apiserver/pkg/cel/environment"
)

// NeedsKey returns a label or an annotation without which the evaluation of an expression fails: field is "labels" or "annotations". ok is
// false if there is none, or if that depends on other fields of the object. has are the keys that each object is known to have, by field.
// The expression may be that of a match condition. Nothing is known of parts of it that read other variables than object.
func NeedsKey(ctx context.Context, expression string, has map[string][]string) (field, key string, ok bool) {
	parts := conjuncts(expression)
	for _, part := range parts {
		value, f, k := evaluateWithout(ctx, part, has)
		if value == false {
			// Whatever fails, the expression is false.
			return "", "", false
		}
		if k != "" && !ok {
			field, key, ok = f, k, true
		}
	}
	if ok && slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(part, key) && Check(part) != nil }) {
		// Another variable, such as request.object, may be tested for the key.
		return "", "", false
	}
	return field, key, ok
}

// maxConjuncts limits the parts of an expression that are examined: each is compiled.
const maxConjuncts = 16

// conjuncts returns the expressions that && joins in an expression, or the expression itself without any &&; none if it can't be parsed, if
// one of them can't be written as CEL, such as one with a macro, or if there are more than maxConjuncts.
func conjuncts(expression string) []string {
	_, parsed, err := parse(expression, environment.StoredExpressions)
	if err != nil {
		return nil
	}
	var out []string
	complete := true
	var split func(ast.Expr)
	split = func(e ast.Expr) {
		if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd {
			for _, part := range e.AsCall().Args() {
				split(part)
			}
			return
		}
		text, err := parser.Unparse(e, parsed.NativeRep().SourceInfo())
		out, complete = append(out, text), complete && err == nil
	}
	split(parsed.NativeRep().Expr())
	if !complete || len(out) > maxConjuncts {
		return nil
	}
	return out
}

// evaluateWithout evaluates an expression on an object that has no labels and annotations but those in has, and of which nothing else is
// known. value is a boolean if it is known. field and key are those of the label or annotation that the evaluation lacks; "" for none.
func evaluateWithout(ctx context.Context, expression string, has map[string][]string) (value any, field, key string) {
	p, err := newProgram(expression, cel.EvalOptions(cel.OptPartialEval))
	if err != nil {
		return nil, "", ""
	}
	metadata, reads := map[string]any{}, map[string][]string{}
	var unknown []*cel.AttributePatternType
	for _, path := range Paths(expression) {
		pattern := cel.AttributePattern(objectVariable).QualString(path[0])
		switch isMap := len(path) > 1 && slices.ContainsFunc(mapFields, func(m []string) bool { return slices.Equal(m, path[:2]) }); {
		case !isMap && path[0] != "metadata":
			unknown = append(unknown, pattern)
		case !isMap && len(path) > 1:
			unknown = append(unknown, pattern.QualString(path[1]))
		case len(path) > 2 && slices.Contains(has[path[1]], path[2]):
			unknown = append(unknown, pattern.QualString(path[1]).QualString(path[2]))
		case isMap:
			metadata[path[1]], reads[path[1]] = map[string]any{}, append(reads[path[1]], path[2:]...)
		}
	}
	object, err := cel.PartialVars(map[string]any{objectVariable: map[string]any{"metadata": metadata}}, unknown...)
	if err != nil {
		return nil, "", ""
	}
	result, _, err := p.program.ContextEval(ctx, object)
	if err == nil {
		return result.Value(), "", ""
	}
	_, key, _ = strings.Cut(err.Error(), "no such key: ")
	for _, m := range mapFields {
		if slices.Contains(reads[m[1]], key) {
			return nil, m[1], key
		}
	}
	return nil, "", ""
}

// FailsWithout reports whether the evaluation of an expression fails on an object without a field, such as [spec template spec
// hostNetwork], whose parents it has. known has the fields of the object that are known, such as kind. It returns false if that depends on
// other fields.
func FailsWithout(ctx context.Context, expression string, missing []string, known map[string]any) bool {
	parts := conjuncts(expression)
	if parts == nil {
		parts = []string{expression}
	}
	fails := false
	for _, part := range parts {
		value, failed := evaluateWithoutField(ctx, part, missing, known)
		if value == false {
			// Whatever fails, the expression is false.
			return false
		}
		fails = fails || failed
	}
	return fails
}

// evaluateWithoutField evaluates an expression on an object without the field missing, whose parents it has, and of which only the fields
// in known are known. value is a boolean if it is known. fails reports whether the evaluation fails because the field is missing.
func evaluateWithoutField(ctx context.Context, expression string, missing []string, known map[string]any) (value any, fails bool) {
	p, err := newProgram(expression, cel.EvalOptions(cel.OptPartialEval))
	if err != nil {
		return nil, false
	}
	last := len(missing) - 1
	content := maps.Clone(known)
	for parent, i := content, 0; i < last; i++ {
		next := map[string]any{}
		parent[missing[i]], parent = next, next
	}
	var unknown []*cel.AttributePatternType
	for _, path := range Paths(expression) {
		_, isKnown := known[path[0]]
		shared := min(len(path), len(missing))
		if isKnown || slices.Equal(path[:shared], missing[:shared]) {
			// It is, or leads to, or is below the missing field.
			continue
		}
		pattern := cel.AttributePattern(objectVariable)
		for _, name := range path {
			pattern = pattern.QualString(name)
		}
		unknown = append(unknown, pattern)
	}
	object, err := cel.PartialVars(map[string]any{objectVariable: content}, unknown...)
	if err != nil {
		return nil, false
	}
	result, _, err := p.program.ContextEval(ctx, object)
	if err == nil {
		return result.Value(), false
	}
	_, key, _ := strings.Cut(err.Error(), "no such key: ")
	return nil, key == missing[last]
}
