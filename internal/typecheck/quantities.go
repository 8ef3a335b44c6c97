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
	"github.com/berth-dev/berth/internal/policy/language"
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

// ordering has the operators that order their operands, <, <=, >, and >=, by name.
var ordering = map[string]*ast.Builtin{
	ast.LessThan.Name: ast.LessThan, ast.LessThanEq.Name: ast.LessThanEq,
	ast.GreaterThan.Name: ast.GreaterThan, ast.GreaterThanEq.Name: ast.GreaterThanEq,
}

// choosing has the names of the functions that order the members of a collection: max, min, and sort.
var choosing = []string{ast.Max.Name, ast.Min.Name, ast.Sort.Name}

// operands is a function whose arguments are always invalid if their types are known. The type checker's error then
// contains these types. It works because no real value is a set of sets of nulls.
var operands = func() *ast.Builtin {
	never := types.NewSet(types.NewSet(types.Nl))
	return &ast.Builtin{Name: "berth.typecheck.operands", Decl: types.NewFunction([]types.Type{never, never}, types.B)}
}()

// quantities returns findings about comparisons by order in which an operand is a quantity, which is text, or a text that is compared with
// that of a number, for at least one of the matched kinds. It also finds the maximum and minimum of quantities, and members of them that
// are taken by their position in order. If byKind is true, the policy tests the kind of its input, so that a comparison may be made for
// some kinds only: the operand must then be a quantity for all of them.
func quantities(in Input, source *ast.Module, byKind bool) []Finding {
	if !orders(source) {
		return nil
	}
	var out []Finding
	chosen := takenFromSorted(source)
	for i, kind := range in.Kinds {
		operators, calls := comparisons{}, comparisons{}
		replace := func(c *ast.Compiler) *ast.Error { return operators.replaceOperators(c, calls, chosen) }
		compiler, err := compile(in, kind.Type, []*ast.Builtin{operands}, replace)
		if err != nil {
			return nil
		}
		found := orderFindings(compiler.Errors, operators, calls, in)
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

// orders reports whether a policy compares or chooses values by order, and never tests the type of a value.
func orders(source *ast.Module) bool {
	ordered, asked := false, false
	eachOperator(source, func(operator string) {
		ordered = ordered || ordering[operator] != nil || slices.Contains(choosing, operator)
		asked = asked || slices.Contains([]string{ast.IsNumber.Name, ast.IsString.Name, ast.TypeNameBuiltin.Name}, operator)
	})
	return ordered && !asked
}

// replaceOperators is a compiler stage that records each operator of order in o, and each call of a function that orders the members of a
// collection in calls, and replaces it by the function operands. The type checker then reports an error that contains the types of the
// operands. Calls of sort are replaced only at the positions in chosen.
func (o comparisons) replaceOperators(c *ast.Compiler, calls comparisons, chosen map[lint.Position]bool) *ast.Error {
	ast.WalkExprs(c.Modules[textFile], func(e *ast.Expr) bool {
		if !e.IsCall() || e.Location == nil {
			return false
		}
		at, operator := lint.PositionOf(e.Location), e.Operator().String()
		switch {
		case ordering[operator] != nil:
			o[at] = operator
		case slices.Contains(choosing, operator) && len(e.Operands()) == 2 && (operator != ast.Sort.Name || chosen[at]):
			// A comparison of the result may have the same position.
			calls[at] = operator
		default:
			return false
		}
		e.SetOperator(ast.NewTerm(operands.Ref()).SetLocation(e.Location))
		return false
	})
	return nil
}

// takenFromSorted returns the positions of the calls of sort of whose result the policy takes a member by its position, as in sort(x)[0].
// Other calls may only list the members in a certain order.
func takenFromSorted(source *ast.Module) map[lint.Position]bool {
	out, assigned := map[lint.Position]bool{}, map[ast.Var]*ast.Term{}
	isSort := func(t *ast.Term) bool {
		call, ok := t.Value.(ast.Call)
		return ok && call[0].String() == ast.Sort.Name && t.Location != nil
	}
	for _, rule := range source.Rules {
		if name := language.RuleName(rule); rule.Head.Value != nil && isSort(rule.Head.Value) {
			assigned[ast.Var(name)] = rule.Head.Value
		}
	}
	ast.WalkExprs(source, func(e *ast.Expr) bool {
		if operands := e.Operands(); len(operands) == 2 && (e.IsAssignment() || e.IsEquality()) && isSort(operands[1]) {
			if name, ok := operands[0].Value.(ast.Var); ok {
				assigned[name] = operands[1]
			}
		}
		return false
	})
	ast.WalkRefs(source, func(ref ast.Ref) bool {
		if len(ref) < 2 {
			return false
		}
		list := ref[0]
		if name, ok := list.Value.(ast.Var); ok && assigned[name] != nil {
			list = assigned[name]
		}
		switch ref[1].Value.(type) {
		case ast.Number, ast.Call:
			if isSort(list) {
				out[lint.PositionOf(list.Location)] = true
			}
		}
		return false
	})
	return out
}

// ordersQuantities reports whether the order of the members of a collection is that of quantities: its members are quantities, or arrays
// that begin with one.
func ordersQuantities(collection types.Type) bool {
	if collection == nil {
		return false
	}
	member := types.Values(collection)
	if array, ok := member.(*types.Array); ok && array.Len() > 0 {
		member = array.Select(0)
	}
	return isQuantity(member)
}

// orderFindings converts those errors of the type checker to findings that are at comparisons with an operand that is a quantity, or of
// texts that are numbers.
func orderFindings(errs ast.Errors, operators, calls comparisons, in Input) []Finding {
	var out []Finding
	for _, err := range errs {
		d, ok := err.Details.(*ast.ArgErrDetail)
		if !ok || err.Location == nil || err.Location.File != textFile {
			continue
		}
		at := lint.PositionOf(err.Location)
		if calls[at] != "" && len(d.Have) == 2 && ordersQuantities(d.Have[0]) {
			out = append(out, Finding{Position: at, holds: true, Message: fmt.Sprintf("%s compares quantities as text, in which "+
				`"9" is greater than "10"; convert each to a number by units.parse(x)`, sourceOf(err.Location))})
			continue
		}
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
