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
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/policy/language"
)

// checkLegacyRego warns about parts of a Rego v0 policy that had another meaning in the OPA version that the policy may
// have been written for. The module must be parsed, not compiled.
func (r *Report) checkLegacyRego(parsed *ast.Module) {
	ast.WalkBodies(parsed, func(body ast.Body) bool {
		r.checkNegation(body)
		return false
	})
	ast.WalkRefs(parsed, func(ref ast.Ref) bool {
		if isLegacyInput(ref) && ref[0].Location != nil {
			r.warnAt(ref[0].Location, "input.resource: the object is input itself, and an object has no member resource: write input in place of "+
				"input.resource")
			return true
		}
		return false
	})
}

// isLegacyInput reports whether a reference reads input.resource, where the admission controller of Kubernetes federation
// put the object.
func isLegacyInput(ref ast.Ref) bool {
	name, ok := language.Part(ref, 1)
	return ok && name == "resource" && ref.HasPrefix(ast.InputRootRef)
}

// checkNegation warns about expressions under `not` that use a field of the input or of data as a key, except a field in alwaysDefined. If
// the key is undefined, the expression is now true, while OPA before 0.5 failed. If an expression before it in the body requires the key,
// there is no warning.
func (r *Report) checkNegation(body ast.Body) {
	var needed []ast.Ref
	for _, expr := range body {
		keys := dynamicKeys(expr)
		if !expr.Negated {
			ast.WalkRefs(expr, func(ref ast.Ref) bool {
				needed = append(needed, ref)
				return false
			})
			continue
		}
		for _, key := range keys {
			if slices.ContainsFunc(needed, func(ref ast.Ref) bool { return ref.HasPrefix(key) }) {
				continue
			}
			r.warnAt(expr.Location, fmt.Sprintf("%s: where %s is undefined this is true, while OPA before 0.5 failed and so denied the object: "+
				"write %s on a line before it, and deny objects without that value in a clause of their own", expr, key, key))
		}
	}
}

// alwaysDefined are the fields of the input that practically all decided objects have, so that checkNegation does not warn about them.
// Exceptions are the namespace of cluster-scoped objects, and the name of objects that the API server is to name.
var alwaysDefined = []ast.Ref{
	ast.MustParseRef("input.apiVersion"), ast.MustParseRef("input.kind"),
	ast.MustParseRef("input.metadata.name"), ast.MustParseRef("input.metadata.namespace"),
}

// dynamicKeys returns the references to the input and to data that an expression uses as keys, except those that are
// always defined.
func dynamicKeys(expr *ast.Expr) []ast.Ref {
	var out []ast.Ref
	ast.WalkRefs(expr, func(ref ast.Ref) bool {
		for _, term := range ref[1:] {
			key, ok := term.Value.(ast.Ref)
			if ok && (key.HasPrefix(ast.InputRootRef) || key.HasPrefix(ast.DefaultRootRef)) && len(key) > 1 && !slices.ContainsFunc(alwaysDefined,
				func(ref ast.Ref) bool { return ref.Equal(key) }) {
				out = append(out, key)
			}
		}
		return false
	})
	return out
}
