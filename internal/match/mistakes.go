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
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/environment"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/suggest"
)

// namespacesResource is the resource of Namespaces.
var namespacesResource = corev1.Resource("namespaces")

// warnOfNamespaceName returns a warning if the object selector has the label kubernetes.io/metadata.name, which only Namespaces have,
// unless the rules match Namespaces. path is the path of the selector.
func warnOfNamespaceName(m placementv1.Match, path *field.Path) []string {
	ofNamespaces := slices.ContainsFunc(m.ResourceRules, func(r placementv1.ResourceRule) bool { return covers(r, namespacesResource) })
	list := normalizeSelector(m.ObjectSelector)
	i := slices.IndexFunc(list, func(r metav1.LabelSelectorRequirement) bool { return r.Key == corev1.LabelMetadataName })
	if i < 0 || ofNamespaces {
		return nil
	}
	effect := "no object is matched"
	if list[i].Operator == metav1.LabelSelectorOpNotIn || list[i].Operator == metav1.LabelSelectorOpDoesNotExist {
		effect = "no object is excluded"
	}
	return []string{fmt.Sprintf("%s: only Namespaces have the label %s, so that %s: use namespaceSelector", path,
		corev1.LabelMetadataName, effect)}
}

// RequiresLabel reports whether the object selector only selects objects with the label. The API server also sends
// updates that remove the label from an object.
func (m *Matcher) RequiresLabel(key string) bool {
	return slices.ContainsFunc(normalizeSelector(m.match.ObjectSelector), func(r metav1.LabelSelectorRequirement) bool {
		return r.Key == key && (r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpExists)
	})
}

// decided are the request operations that the API server sends to Berth, and operations are all that exist.
var (
	decided    = []string{string(admissionregistrationv1.Create), string(admissionregistrationv1.Update)}
	operations = append(slices.Clone(decided), string(admissionregistrationv1.Delete), string(admissionregistrationv1.Connect))
)

// conditionParser only parses CEL, with the syntax and macros of the environment that conditionCompiler uses. It declares no variables, so
// it can't check or compile a match condition.
var conditionParser = sync.OnceValue(func() *cel.Env {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).NewExpressionsEnv()
})

// warnOfOperations returns warnings if a match condition compares request.operation with a value that no operation has, or is true only for
// operations that the API server does not send to Berth, such as DELETE.
func warnOfOperations(expression string, path *field.Path) []string {
	if !strings.Contains(expression, "operation") {
		return nil
	}
	parsed, issues := conditionParser().Parse(expression)
	if issues.Err() != nil {
		// Ignore the error: compiling the condition reports it.
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
				warning += ": the API server sends Berth only " + strings.Join(decided, " and ")
			}
			if !slices.Contains(out, warning) {
				out = append(out, warning)
			}
		}
	}))
	if constants := requiredOperations(root); len(out) == 0 && len(constants) > 0 {
		out = append(out, fmt.Sprintf("%s: the API server does not send %s to Berth, so the condition is never true: it sends %s",
			path, quoted(constants, " and "), strings.Join(decided, " and ")))
	}
	return out
}

// requiredOperations returns the operations of which request.operation must be one for an expression to be true, if Berth receives requests
// of none of them; nil otherwise. It ignores comparisons in one of several alternatives (||). Those may be there to guard another
// alternative, for example against a null object.
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

// operationConstants returns the constants that an expression compares request.operation with: by ==, by !=, or by `in` with a list. It
// returns nil if an element of the list is not constant, and for any other expression.
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

// stringLiteral returns the value of an expression that is a constant string; false if it is not.
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
