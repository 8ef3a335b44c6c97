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
	"github.com/berth-dev/berth/internal/policy/lint"
)

// usesIn reports whether a policy's Rego has `in` with one operand on its left: as the operator that tests whether a value is a member, or
// in `some x in y`.
func usesIn(source *ast.Module) bool {
	asks := false
	eachOperator(source, func(operator string) { asks = asks || operator == ast.Member.Name })
	return asks
}

// eachOperator calls f with the name of each function and operator that a policy calls.
func eachOperator(source *ast.Module, f func(operator string)) {
	ast.WalkExprs(source, func(e *ast.Expr) bool {
		if e.IsCall() {
			f(e.Operator().String())
		}
		return false
	})
	ast.WalkTerms(source, func(t *ast.Term) bool {
		if call, ok := t.Value.(ast.Call); ok {
			f(call[0].String())
		}
		return false
	})
}

// memberships has the uses of the operator `in` in a policy.
type memberships struct {
	at map[lint.Position]membership // The uses by position.
	// assigned maps variables to the references that are assigned to them.
	assigned map[ast.Var]ast.Ref
	// rewritten maps the compiler's variables to their names in the policy.
	rewritten map[ast.Var]ast.Var
	pkg       ast.Ref // The path of the policy's package. References that begin with it are to the policy's own rules.
}

// membership is an expression `element in collection` after compilation, which may have replaced its operands by variables.
type membership struct {
	element, collection *ast.Term
}

// replaceOperators is a compiler stage that records each use of the operator `in` in m, and replaces the operator by the function operands.
// The type checker then reports an error that contains the types of the operands.
func (m *memberships) replaceOperators(c *ast.Compiler) *ast.Error {
	module := c.Modules[textFile]
	m.pkg, m.rewritten = module.Package.Path, c.RewrittenVars
	ast.WalkExprs(module, func(e *ast.Expr) bool {
		switch {
		case e.IsCall() && e.Operator().Equal(ast.Member.Ref()) && len(e.Operands()) == 2 && e.Location != nil:
			m.at[lint.PositionOf(e.Location)] = membership{element: e.Operand(0), collection: e.Operand(1)}
			e.SetOperator(ast.NewTerm(operands.Ref()).SetLocation(e.Location))
		case e.IsEquality():
			name, isVar := e.Operand(0).Value.(ast.Var)
			if ref, isRef := e.Operand(1).Value.(ast.Ref); isVar && isRef {
				m.assigned[name] = ref
			}
		}
		return false
	})
	return nil
}

// withMembers returns the findings of a kind, together with those about the operator `in`, which tests the values of a
// collection. A new finding replaces the one in found at the same position.
func withMembers(in Input, input types.Type, found []Finding) ([]Finding, error) {
	m := &memberships{at: map[lint.Position]membership{}, assigned: map[ast.Var]ast.Ref{}}
	compiler, err := compile(in, input, []*ast.Builtin{operands}, m.replaceOperators)
	if err != nil {
		return nil, err
	}
	for _, err := range compiler.Errors {
		d, ok := err.Details.(*ast.ArgErrDetail)
		if !ok || err.Location == nil || err.Location.File != textFile || len(d.Have) < 2 {
			continue
		}
		f := Finding{Position: lint.PositionOf(err.Location)}
		asked, ok := m.at[f.Position]
		if !ok {
			continue
		}
		f.Message, f.holds = m.explain(asked, d.Have[0], d.Have[1], err.Location)
		if f.Message == "" {
			continue
		}
		f.suggests = strings.Contains(f.Message, didYouMean)
		found = append(slices.DeleteFunc(found, f.samePosition), f)
	}
	return sorted(found), nil
}

// explain returns a message that a use of `in` probably does not test what its author intended; "" for others. element and collection are
// the types of its operands. The result holds is true if the expression may be true nevertheless.
func (m *memberships) explain(asked membership, element, collection types.Type, at *ast.Location) (message string, holds bool) {
	if collection == nil {
		return "", false
	}
	expression := strings.TrimPrefix(sourceOf(at), "not ")
	if text := m.ofScalar(asked, collection, expression); text != "" {
		return text, false
	}
	if text := amongConstants(asked, element, collection, expression); text != "" {
		return text, false
	}
	object, ok := policy.PlainType(collection).(*types.Object)
	if !ok || element == nil || !possible(element, types.S) || isAny(element) {
		return "", false
	}
	dynamic := object.DynamicProperties()
	if dynamic == nil || len(object.StaticProperties()) > 0 || !possible(dynamic.Key, types.S) || isAny(dynamic.Value) {
		return "", false
	}
	holds = possible(element, dynamic.Value)
	name, isConstant := asked.element.Value.(ast.String)
	ref := m.source(asked.collection)
	if holds && (!isConstant || ref == nil || ref.HasPrefix(m.pkg)) {
		return "", false
	}
	message = fmt.Sprintf("%s looks for a value of the object, not for a key", expression)
	if ref = m.asWritten(ref); ref == nil {
		return message + "; use object.keys for its keys", holds
	}
	if !isConstant {
		return fmt.Sprintf("%s; "+didYouMean+" in object.keys(%s)?", message, ref), holds
	}
	return fmt.Sprintf("%s; "+didYouMean+" %s, or %s in object.keys(%s)?", message, append(slices.Clone(ref), ast.StringTerm(string(name))),
		name, ref), holds
}

// ofScalar returns a message about a use of `in` whose right side is a string, a number, or another value without members; "" for others.
func (m *memberships) ofScalar(asked membership, collection types.Type, expression string) string {
	each, isUnion := policy.PlainType(collection).(types.Any)
	if !isUnion {
		each = types.Any{collection}
	}
	if len(each) == 0 || slices.ContainsFunc(each, func(t types.Type) bool {
		return !slices.Contains(order[:4], policy.DescribeType(t))
	}) {
		return ""
	}
	text, name := fmt.Sprintf("%s is never true: the operator in looks at the members of an array, a set, or an object", expression),
		"the right side"
	if ref := m.asWritten(m.source(asked.collection)); ref != nil {
		name = ref.String()
	}
	text += fmt.Sprintf(", and %s is %s", name, policy.DescribeType(collection))
	if policy.DescribeType(policy.PlainType(collection)) == policy.DescribeType(types.S) {
		text += fmt.Sprintf(`; use contains(text, part), or split the text first, as in split(%s, ",")`, name)
	}
	return text
}

// amongConstants returns a message about a use of `in` whose left side has another type than all the constants on its right side; "" for
// others.
func amongConstants(asked membership, element, collection types.Type, expression string) string {
	members := types.Values(collection)
	if !ast.IsConstant(asked.collection.Value) || element == nil || members == nil || possible(element, members) {
		return ""
	}
	return fmt.Sprintf("%s compares %s with %s: values of different types are never equal", expression, policy.DescribeType(element),
		policy.DescribeType(members))
}

// isAny reports whether a type is unknown or allows every value.
func isAny(t types.Type) bool {
	either, ok := policy.PlainType(t).(types.Any)
	return t == nil || ok && len(either) == 0
}

// source returns the reference that a term is, or that is assigned to its variable; nil if there is none.
func (m *memberships) source(t *ast.Term) ast.Ref {
	switch v := t.Value.(type) {
	case ast.Ref:
		return v
	case ast.Var:
		return m.assigned[v]
	}
	return nil
}

// asWritten returns a reference as it is written in the policy; nil if it has variables that the policy does not have.
func (m *memberships) asWritten(ref ast.Ref) ast.Ref {
	if ref == nil {
		return nil
	}
	out, _ := original(ref, 0)
	for i, term := range out {
		v, isVar := term.Value.(ast.Var)
		if !isVar || !v.IsGenerated() {
			continue
		}
		name, ok := m.rewritten[v]
		if !ok || name.IsGenerated() {
			return nil
		}
		out[i] = ast.NewTerm(name)
	}
	return out
}
