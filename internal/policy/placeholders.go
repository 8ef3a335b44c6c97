package policy

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// placeholderRoots are the names at which variables of other policy engines start, and those of Rego's own documents. An
// action of a Go template, as `{{ .Data }}` or `{{ with secret "x" }}`, starts with none of them.
var placeholderRoots = []string{
	"request", "element", "elementIndex", "images", "target", "serviceAccountName", "serviceAccountNamespace",
	"input", "data", "object", "oldObject", "namespaceObject", "review", "parameters", "metadata", "spec",
}

var (
	// bracedName is `{{ name }}`, `{{ name.field }}`, `{{ name[0] }}`, or `{{ name || ... }}`.
	bracedName = regexp.MustCompile(`\{\{-?\s*([A-Za-z_]\w*)\s*(?:[.\[|]|-?\}\})`)
	// bracedCall is a call in braces with a field of the object or the request.
	bracedCall = regexp.MustCompile(`\{\{-?\s*[A-Za-z_]\w*\([^{}]*\b(?:request|input)\.[^{}]*\}\}`)
	// dollarName is `${name.field}` or `$(name.field)`.
	dollarName = regexp.MustCompile(`\$[{(]\s*(?:request|input|object|oldObject|data|metadata)[.\[][^{}()]*[})]`)
)

// warnOfPlaceholders warns of strings with placeholders in what contract rules have for values. The module is as it was
// parsed, and compiled is the same one, compiled.
func (m *Module) warnOfPlaceholders(parsed, compiled *ast.Module) {
	declared := map[string]bool{}
	ast.WalkVars(parsed, func(v ast.Var) bool {
		declared[string(v)] = true
		return false
	})
	used := usedByContract(m.Compiler.Graph, compiled)
	check := func(text *ast.Term, value string) {
		if text.Location != nil && hasPlaceholder(value, declared) {
			m.warnAt(text.Location, fmt.Sprintf("Berth substitutes no variables: %s is used as it is, braces included. "+
				"Write a reference, as in input.metadata.name, or sprintf(\"%%s\", [input.metadata.name])", text))
		}
	}
	for _, rule := range parsed.Rules {
		if !used[ruleName(rule)] {
			continue
		}
		for ; rule != nil; rule = rule.Else {
			walkValues(rule.Head, check)
			walkValues(rule.Body, check)
		}
	}
}

// walkValues calls the function with the strings of a rule's head, and with those that its body gives to variables. What a
// body compares, or calls functions with, is not a value.
func walkValues(node any, check func(text *ast.Term, value string)) {
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
	}).Walk(node)
}

// givesValue reports whether an expression is `x := value` or `x = value`.
func givesValue(expr *ast.Expr) bool {
	if expr.Negated || !expr.IsAssignment() && !expr.IsEquality() {
		return false
	}
	return slices.ContainsFunc(expr.Operands(), func(t *ast.Term) bool {
		_, ok := t.Value.(ast.Var)
		return ok
	})
}

// applicationSetName begins a parameter of an ApplicationSet of Argo CD, for which an annotation may be meant.
var applicationSetName = regexp.MustCompile(`\{\{\s*metadata\.(?:labels|annotations)\.`)

// hasPlaceholder reports whether a text has a placeholder of another policy engine, or one for a name that the policy
// declares.
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

// templateKeywords are actions of Go templates that consist of a name alone.
var templateKeywords = []string{"end", "else", "break", "continue"}
