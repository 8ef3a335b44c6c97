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

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"

	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/lint"
)

// quantity is the type of a quantity, such as "500m" or "2Gi". Identity matters: other fields, such as ports, may also
// be a string or a number, so only this very value denotes a quantity.
var quantity = types.NewAny(types.S, types.N)

// isQuantity reports whether a type is the type quantity.
func isQuantity(t types.Type) bool {
	either, ok := t.(types.Any)
	return ok && len(either) > 0 && &either[0] == &quantity[0]
}

// ordering has the operators that order their operands.
var ordering = map[string]*ast.Builtin{
	ast.LessThan.Name: ast.LessThan, ast.LessThanEq.Name: ast.LessThanEq,
	ast.GreaterThan.Name: ast.GreaterThan, ast.GreaterThanEq.Name: ast.GreaterThanEq,
}

// operands is a function whose arguments are always invalid if their types are known. The type checker's error then
// contains these types. It works because no real value is a set of sets of nulls.
var operands = func() *ast.Builtin {
	never := types.NewSet(types.NewSet(types.Nl))
	return &ast.Builtin{Name: "berth.typecheck.operands", Decl: types.NewFunction([]types.Type{never, never}, types.B)}
}()

// quantities returns findings about comparisons by order in which an operand is a quantity, which is text, or a text that is compared with
// that of a number, for at least one of the matched kinds. If byKind is true, the policy tests the kind of its input, so that a comparison
// may be made for some kinds only: the operand must then be a quantity for all of them.
func quantities(in Input, source *ast.Module, byKind bool) []Finding {
	if !orders(source) {
		return nil
	}
	var out []Finding
	for i, kind := range in.Kinds {
		operators := comparisons{}
		compiler, err := compile(in, kind.Type, []*ast.Builtin{operands}, operators.replaceOperators)
		if err != nil {
			return nil
		}
		found := orderFindings(compiler.Errors, operators, in)
		switch {
		case !byKind:
			out = append(out, found...)
		case i == 0:
			out = found
		default:
			out = common(out, found)
		}
	}
	return out
}

// orders reports whether a policy compares values by order, and never tests the type of a value.
func orders(source *ast.Module) bool {
	ordered, asked := false, false
	eachOperator(source, func(operator string) {
		ordered = ordered || ordering[operator] != nil
		asked = asked || slices.Contains([]string{ast.IsNumber.Name, ast.IsString.Name, ast.TypeNameBuiltin.Name}, operator)
	})
	return ordered && !asked
}

// replaceOperators is a compiler stage that records each operator of order in o, and replaces it by the function operands. The type checker
// then reports an error that contains the types of the operands.
func (o comparisons) replaceOperators(c *ast.Compiler) *ast.Error {
	ast.WalkExprs(c.Modules[textFile], func(e *ast.Expr) bool {
		if !e.IsCall() {
			return false
		}
		if operator := e.Operator().String(); ordering[operator] != nil && e.Location != nil {
			o[lint.PositionOf(e.Location)] = operator
			e.SetOperator(ast.NewTerm(operands.Ref()).SetLocation(e.Location))
		}
		return false
	})
	return nil
}

// orderFindings converts those errors of the type checker to findings that are at comparisons with an operand that is a quantity, or of
// texts that are numbers.
func orderFindings(errs ast.Errors, operators comparisons, in Input) []Finding {
	var out []Finding
	for _, err := range errs {
		d, ok := err.Details.(*ast.ArgErrDetail)
		if !ok || err.Location == nil || err.Location.File != textFile {
			continue
		}
		at := lint.PositionOf(err.Location)
		operator, ok := ordering[operators[at]]
		if !ok {
			continue
		}
		if !slices.ContainsFunc(d.Have, isQuantity) {
			if compares := in.comparisons[at].asTexts(d.Have); compares != "" {
				out = append(out, Finding{Position: at, holds: true, Message: fmt.Sprintf("%s compares %s", sourceOf(err.Location), compares)})
			}
			continue
		}
		compares := `quantities as text, in which "9" is greater than "10"`
		if slices.ContainsFunc(d.Have, func(t types.Type) bool { return t != nil && policy.DescribeType(t) == policy.DescribeType(types.N) }) {
			compares = "a quantity with a number: the result is the same for every amount, since quantities are text"
		}
		out = append(out, Finding{Position: at, holds: true, Message: fmt.Sprintf(
			"%s compares %s; use k8s.quantity.compare(x, y) %s 0", sourceOf(err.Location), compares, operator.Infix)})
	}
	return out
}
