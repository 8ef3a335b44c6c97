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

package lint

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/policy/language"
)

// placeholderRoots are the first names of variables in other policy engines, and the names of Rego's own documents.
// Actions of Go templates, such as `{{ .Data }}` or `{{ with secret "x" }}`, start with none of them.
var placeholderRoots = []string{
	"request", "element", "elementIndex", "images", "target", "serviceAccountName", "serviceAccountNamespace",
	"input", "data", "object", "oldObject", "namespaceObject", "review", "parameters", "metadata", "spec",
}

var (
	// bracedName matches `{{ name }}`, `{{ name.field }}`, `{{ name[0] }}`, and `{{ name || ... }}`.
	bracedName = regexp.MustCompile(`\{\{-?\s*([A-Za-z_]\w*)\s*(?:[.\[|]|-?\}\})`)
	// bracedCall matches a call in braces with a field of the input or the request.
	bracedCall = regexp.MustCompile(`\{\{-?\s*[A-Za-z_]\w*\([^{}]*\b(?:request|input)\.[^{}]*\}\}`)
	// dollarName matches `${name.field}` and `$(name.field)`.
	dollarName = regexp.MustCompile(`\$[{(]\s*(?:request|input|object|oldObject|data|metadata)[.\[][^{}()]*[})]`)
)

// checkPlaceholders warns about strings with placeholders, such as {{ name }}, in the values of the rules that have a name in used.
func (r *Report) checkPlaceholders(parsed *ast.Module, used map[string]bool) {
	declared := map[string]bool{}
	ast.WalkVars(parsed, func(v ast.Var) bool {
		declared[string(v)] = true
		return false
	})
	check := func(text *ast.Term, value string) {
		if text.Location != nil && hasPlaceholder(value, declared) {
			r.warnAt(text.Location, fmt.Sprintf("Berth substitutes no variables: %s is used as it is, braces included. "+
				"Write a reference, as in input.metadata.name, or sprintf(\"%%s\", [input.metadata.name])", text))
		}
	}
	for _, rule := range parsed.Rules {
		if used[language.RuleName(rule)] {
			walkValues(rule, check)
		}
	}
}

// walkValues calls check with the strings in the heads of a rule and its else clauses, and with the strings that their bodies assign to
// variables. Strings that a body compares, or passes to functions, are not values.
func walkValues(rule *ast.Rule, check func(text *ast.Term, value string)) {
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.Expr:
			return !givesValue(x)
		case ast.Ref:
			return true
		case *ast.Term:
			if value, ok := x.Value.(ast.String); ok {
				check(x, string(value))
			}
		}
		return false
	}).Walk(rule)
}

// givesValue reports whether an expression, without `not`, is an assignment (:=) or a unification (=) with a variable on one of its sides.
func givesValue(expr *ast.Expr) bool {
	if expr.Negated || !expr.IsAssignment() && !expr.IsEquality() {
		return false
	}
	return slices.ContainsFunc(expr.Operands(), func(t *ast.Term) bool {
		_, ok := t.Value.(ast.Var)
		return ok
	})
}

// applicationSetName matches the start of an Argo CD ApplicationSet parameter, which an annotation may legitimately contain. It does not
// count as a placeholder.
var applicationSetName = regexp.MustCompile(`\{\{\s*metadata\.(?:labels|annotations)\.`)

// hasPlaceholder reports whether a text has a placeholder of another policy engine, such as {{ request.object.x }}, {{ f(input.x) }},
// ${input.x}, or $(input.x), or a name from declared in double braces, such as {{ x }}. It ignores names in single braces, actions of Go
// templates such as {{ end }}, and parameters of Argo CD ApplicationSets.
func hasPlaceholder(text string, declared map[string]bool) bool {
	if bracedCall.MatchString(text) || dollarName.MatchString(text) {
		return true
	}
	for _, name := range bracedName.FindAllStringSubmatch(applicationSetName.ReplaceAllLiteralString(text, ""), -1) {
		if slices.Contains(placeholderRoots, name[1]) || declared[name[1]] && !slices.Contains(templateKeywords, name[1]) {
			return true
		}
	}
	return false
}

// templateKeywords are actions of Go templates that consist of one word. In double braces, such as {{ end }}, they are no placeholders,
// even if the policy declares a variable with that name.
var templateKeywords = []string{"end", "else", "break", "continue"}
