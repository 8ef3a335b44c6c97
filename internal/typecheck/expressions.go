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
	"regexp"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/celexpression"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/suggest"
)

// HasExpressions reports whether any of the rules has a CEL expression, in its field when.expression.
func HasExpressions(rules []placementv1.Rule) bool {
	return slices.ContainsFunc(rules, func(r placementv1.Rule) bool { return r.When != nil && r.When.Expression != "" })
}

// CheckRules returns the findings in the CEL expressions of rules: fields of the object that no object of the kinds has. Their messages
// name the field of the rule that has the expression. It finds nothing if no kind is known.
func CheckRules(rules []placementv1.Rule, kinds []Kind) Result {
	var found []Finding
	for i, rule := range rules {
		if rule.When == nil || rule.When.Expression == "" || len(kinds) == 0 {
			continue
		}
		for _, path := range celexpression.Paths(rule.When.Expression) {
			if message := lackingIn(kinds, path); message != "" {
				found = append(found, Finding{Message: fmt.Sprintf("spec.rules[%d].when.expression: rule %s: %s", i, rule.Name, message)})
			}
		}
	}
	return Result{Findings: found[:min(len(found), MaxFindings)], Total: len(found)}
}

// lackingIn returns a message that no object of the kinds has a field at a path; "" if objects of one kind may have it. It prefers a
// message with a suggestion.
func lackingIn(kinds []Kind, path []string) (message string) {
	for _, kind := range kinds {
		next := lacking(kind.Type, path)
		if next == "" {
			return ""
		}
		if message == "" || strings.Contains(next, didYouMean) && !strings.Contains(message, didYouMean) {
			message = next
		}
	}
	return message
}

// lacking returns a message that no object of a type has a field at a path; "" if it may have one.
func lacking(t types.Type, path []string) string {
	for i, name := range path {
		next := types.Select(t, name)
		if next != nil {
			t = next
			continue
		}
		parent := expressionPath(path[:i])
		fields := fieldsOf(t)
		if fields == nil {
			return fmt.Sprintf("no matched object has %s: %s is %s and has no fields", expressionPath(path[:i+1]), parent, policy.DescribeType(t))
		}
		message := fmt.Sprintf("no matched object has %s: %s has no field %q", expressionPath(path[:i+1]), parent, name)
		if meant := meantBy(t, fields, path, i); meant != nil {
			message += fmt.Sprintf("; "+didYouMean+" %s?", expressionPath(meant))
		}
		return message
	}
	return ""
}

// meantBy returns the path that is probably meant by a path whose i-th name is missing: with an additional name before that one, or with a
// similar name in its place; nil if there is none. t is the type that lacks the name, and fields are the names that it has.
func meantBy(t types.Type, fields, path []string, i int) []string {
	for _, between := range fields {
		if inner := types.Select(t, between); slices.Contains(fieldsOf(inner), path[i]) {
			return slices.Concat(path[:i], []string{between}, path[i:])
		}
	}
	near, ok := transposed(path[i], fields)
	if !ok {
		near, ok = suggest.Nearest(path[i], fields)
	}
	if !ok {
		return nil
	}
	return slices.Concat(path[:i], []string{near}, path[i+1:])
}

// fieldsOf returns the sorted names of the known fields of a type of objects or, of a union, those of all types of objects in it, as for a
// field that may be null. It returns nil for a type that allows no objects, and for one that allows every value.
func fieldsOf(t types.Type) []string {
	var out []string
	switch t := t.(type) {
	case *types.Object:
		out = []string{}
		for _, p := range t.StaticProperties() {
			if name, ok := p.Key.(string); ok {
				out = append(out, name)
			}
		}
	case types.Any:
		// A field that may be null.
		for _, one := range t {
			out = append(out, fieldsOf(one)...)
		}
	}
	slices.Sort(out)
	return out
}

// celName matches the names of fields that an expression can select with a dot.
var celName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expressionPath writes a path below the variable object as a CEL expression.
func expressionPath(path []string) string {
	var out strings.Builder
	out.WriteString("object")
	for _, name := range path {
		if celName.MatchString(name) {
			out.WriteString("." + name)
		} else {
			fmt.Fprintf(&out, "[%q]", name)
		}
	}
	return out.String()
}
