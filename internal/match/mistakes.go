package match

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/environment"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/suggest"
)

// namespacesResource is the type of Namespaces.
var namespacesResource = schema.GroupResource{Resource: "namespaces"}

// warnOfNamespaceName warns of an object selector for the label that only Namespaces have, unless the rules have those.
func warnOfNamespaceName(m placementv1.Match, path *field.Path) []string {
	ofNamespaces := slices.ContainsFunc(m.ResourceRules, func(r placementv1.ResourceRule) bool { return covers(r, namespacesResource) })
	list := normalise(m.ObjectSelector)
	i := slices.IndexFunc(list, func(r metav1.LabelSelectorRequirement) bool { return r.Key == corev1.LabelMetadataName })
	if i < 0 || ofNamespaces {
		return nil
	}
	effect := "no object is matched"
	if list[i].Operator == metav1.LabelSelectorOpNotIn || list[i].Operator == metav1.LabelSelectorOpDoesNotExist {
		effect = "no object is excluded"
	}
	return []string{fmt.Sprintf("%s: only Namespaces have the label %s, so that %s: use namespaceSelector", path, corev1.LabelMetadataName, effect)}
}

// RequiresLabel reports whether the object selector selects objects with a label only. The API server asks about an update
// of an object that had the label, too.
func (m *Matcher) RequiresLabel(key string) bool {
	return slices.ContainsFunc(normalise(m.match.ObjectSelector), func(r metav1.LabelSelectorRequirement) bool {
		return r.Key == key && (r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpExists)
	})
}

// Operations of requests; Berth is asked about those of decided alone.
var (
	decided    = []string{string(admissionregistrationv1.Create), string(admissionregistrationv1.Update)}
	operations = append(slices.Clone(decided), string(admissionregistrationv1.Delete), string(admissionregistrationv1.Connect))
)

// conditionParser parses CEL as conditionCompiler compiles it.
var conditionParser = sync.OnceValue(func() *cel.Env {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).NewExpressionsEnv()
})

// warnOfOperations warns of a match condition that compares the request's operation with what it never is.
func warnOfOperations(expression string, path *field.Path) []string {
	if !strings.Contains(expression, "operation") {
		return nil
	}
	parsed, issues := conditionParser().Parse(expression)
	if issues.Err() != nil {
		// Whoever compiles the condition refuses it.
		return nil
	}
	root := parsed.NativeRep().Expr()
	var out []string
	celast.PreOrderVisit(root, celast.NewExprVisitor(func(e celast.Expr) {
		for _, constant := range operationConstants(e) {
			if slices.Contains(operations, constant) {
				continue
			}
			warning := fmt.Sprintf("%s: request.operation is never %q", path, constant)
			if meant, ok := suggest.Nearest(constant, operations); ok {
				warning += fmt.Sprintf("; did you mean %q?", meant)
			} else {
				warning += ": Berth is asked about " + strings.Join(decided, " and ")
			}
			if !slices.Contains(out, warning) {
				out = append(out, warning)
			}
		}
	}))
	if constants := requiredOperations(root); len(out) == 0 && len(constants) > 0 {
		out = append(out, fmt.Sprintf("%s: Berth is not asked about %s, so that the condition is never true: it is asked about %s",
			path, quoted(constants), strings.Join(decided, " and ")))
	}
	return out
}

func quoted(list []string) string {
	texts := make([]string, len(list))
	for i, text := range list {
		texts[i] = fmt.Sprintf("%q", text)
	}
	return strings.Join(texts, " and ")
}

// requiredOperations returns the operations one of which an expression needs to be true, where Berth is asked about none of
// them. A comparison that is one of several alternatives may be there for the rest of them, as where an object is null.
func requiredOperations(e celast.Expr) []string {
	if e.Kind() != celast.CallKind {
		return nil
	}
	call := e.AsCall()
	switch call.FunctionName() {
	case operators.LogicalAnd:
		for _, arg := range call.Args() {
			if out := requiredOperations(arg); len(out) > 0 {
				return out
			}
		}
	case operators.Equals, operators.In:
		constants := operationConstants(e)
		if !slices.ContainsFunc(constants, func(c string) bool { return slices.Contains(decided, c) }) {
			return constants
		}
	}
	return nil
}

// operationConstants returns the constants with which an expression compares the request's operation: by ==, by !=, or by
// `in` with a list of constants.
func operationConstants(e celast.Expr) []string {
	if e.Kind() != celast.CallKind {
		return nil
	}
	call := e.AsCall()
	args := call.Args()
	switch call.FunctionName() {
	case operators.Equals, operators.NotEquals:
		for i, arg := range args {
			if text, ok := stringLiteral(args[1-i]); ok && isOperation(arg) {
				return []string{text}
			}
		}
	case operators.In:
		if !isOperation(args[0]) || args[1].Kind() != celast.ListKind {
			return nil
		}
		var out []string
		for _, element := range args[1].AsList().Elements() {
			text, ok := stringLiteral(element)
			if !ok {
				return nil
			}
			out = append(out, text)
		}
		return out
	}
	return nil
}

func stringLiteral(e celast.Expr) (string, bool) {
	if e.Kind() != celast.LiteralKind {
		return "", false
	}
	text, ok := e.AsLiteral().(types.String)
	return string(text), ok
}

// isOperation reports whether an expression is request.operation.
func isOperation(e celast.Expr) bool {
	if e.Kind() != celast.SelectKind || e.AsSelect().IsTestOnly() || e.AsSelect().FieldName() != "operation" {
		return false
	}
	operand := e.AsSelect().Operand()
	return operand.Kind() == celast.IdentKind && operand.AsIdent() == "request"
}
