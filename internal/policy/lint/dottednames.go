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
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/policy/language"
)

// keyedFields are fields of objects and of clusters whose keys often have dots and slashes: those with labels, annotations, node selectors,
// and amounts of resources.
var keyedFields = []string{
	"labels", "annotations", "matchLabels", "nodeSelector", "limits", "requests", "capacity", "allocatable", "allocated", "hard", "used",
}

// NameInBrackets returns the reference that the author probably meant at a position, with its last name in brackets, such as labels["a/b"]
// for labels.a/b. It returns nil if the variable, which is a part of the text there, is not a part of such a name.
func NameInBrackets(parsed *ast.Module, row, col int, variable ast.Var) (meant ast.Ref) {
	// The parts of a-b-c include the call a-b. The longest call has the whole name.
	longest := map[int]unbracketed{}
	eachCall(parsed, func(c funcCall) {
		if name, ok := unbracketedCall(c.operator, c.operands); ok && len(name.rest) > len(longest[name.offset].rest) {
			longest[name.offset] = name
		}
	})
	look := func(node any, at *ast.Location) {
		if at == nil || at.Row != row || at.Col != col {
			return
		}
		eachCall(node, func(c funcCall) {
			if name, ok := unbracketedCall(c.operator, c.operands); ok && meant == nil && slices.Contains(name.variables, variable) {
				meant = longest[name.offset].bracketed()
			}
		})
	}
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.Expr:
			look(x, x.Location)
		case *ast.Term:
			look(x, x.Location)
		}
		return meant != nil
	}).Walk(parsed)
	return meant
}

// unbracketed is a reference whose last name lacks the brackets that it needs, so that Rego parses it as a division or a subtraction: in
// labels.a/b, the reference labels.a is divided by the variable b.
type unbracketed struct {
	// ref is the reference before the first operator.
	ref ast.Ref
	// rest is the text from the first operator on.
	rest string
	// variables are the parts of rest that Rego parses as variables.
	variables []ast.Var
	// offset is the byte offset of the reference in the text.
	offset int
}

// unbracketedCall returns the reference that a call of the operator / or - was probably meant to be. ok is false for other calls, and for
// an operator with a space after it.
func unbracketedCall(operator string, operands []*ast.Term) (u unbracketed, ok bool) {
	sign := map[string]string{ast.Divide.Name: "/", ast.Minus.Name: "-"}[operator]
	if sign == "" || len(operands) != 2 {
		return u, false
	}
	left, right := operands[0], operands[1]
	switch value := left.Value.(type) {
	case ast.Ref:
		u = unbracketed{ref: value, offset: left.Location.Offset}
	case ast.Call:
		if u, ok = unbracketedCall(value[0].String(), value[1:]); !ok {
			return u, false
		}
	default:
		return u, false
	}
	// A real subtraction has spaces around the operator.
	if right.Location.Offset != u.offset+len(u.ref.String())+len(u.rest)+len(sign) {
		return u, false
	}
	ast.WalkVars(right, func(v ast.Var) bool {
		u.variables = append(u.variables, v)
		return false
	})
	u.rest += sign + right.String()
	return u, true
}

// bracketed returns the reference with brackets around its last name, such as labels["a.b/c"] for labels.a.b/c. The name begins after the
// first of the keyedFields in the reference. If there is none, it is the last name before the operator, as in spec["a-b"] for spec.a-b; nil
// if it has a slash, or if nothing follows the field, or a part of the name is not constant.
func (u unbracketed) bracketed() ast.Ref {
	at := slices.IndexFunc(u.ref, func(t *ast.Term) bool {
		name, ok := t.Value.(ast.String)
		return ok && slices.Contains(keyedFields, string(name))
	}) + 1
	if at == len(u.ref) || at == 0 && strings.Contains(u.rest, "/") {
		return nil
	}
	if at == 0 {
		at = len(u.ref) - 1
	}
	var names []string
	for i := range u.ref[at:] {
		name, ok := language.Part(u.ref, at+i)
		if !ok {
			return nil
		}
		names = append(names, name)
	}
	return append(slices.Clone(u.ref[:at]), ast.StringTerm(strings.Join(names, ".")+u.rest))
}
