package typecheck

import (
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"

	"github.com/berth-dev/berth/internal/policy"
)

// quantity is the type of an amount, such as "500m" or "2Gi". A type is one of a quantity if it is this very value: other
// fields may be a string or a number, too, such as a port.
var quantity = types.NewAny(types.S, types.N)

func isQuantity(t types.Type) bool {
	either, ok := t.(types.Any)
	return ok && len(either) > 0 && &either[0] == &quantity[0]
}

// ordering has the operators for which the order of the operands matters.
var ordering = map[string]*ast.Builtin{
	ast.LessThan.Name: ast.LessThan, ast.LessThanEq.Name: ast.LessThanEq,
	ast.GreaterThan.Name: ast.GreaterThan, ast.GreaterThanEq.Name: ast.GreaterThanEq,
}

// operands is a function whose arguments are always wrong where their types are known, so that the type checker's error has
// these types. Nothing else is a set of sets of nulls.
var operands = func() *ast.Builtin {
	never := types.NewSet(types.NewSet(types.Nl))
	return &ast.Builtin{Name: "berth.typecheck.operands", Decl: types.NewFunction([]types.Type{never, never}, types.B)}
}()

// quantities returns comparisons by which a text orders quantities as the texts that they are. One kind for which an operand
// is a quantity is enough, unless the text tells kinds apart.
func quantities(in Input, source *ast.Module, byKind bool) []Finding {
	if !orders(source) {
		return nil
	}
	var out []Finding
	for i, kind := range in.Kinds {
		operators := comparisons{}
		compiler, err := compile(in, kind.Type, []*ast.Builtin{operands}, operators.ask)
		if err != nil {
			return nil
		}
		found := quantityFindings(compiler.Errors, operators)
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

// orders reports whether a text orders values without asking for their types.
func orders(source *ast.Module) bool {
	ordered, asked := false, false
	look := func(operator string) {
		_, isOrdering := ordering[operator]
		ordered = ordered || isOrdering
		asked = asked || slices.Contains([]string{ast.IsNumber.Name, ast.IsString.Name, ast.TypeNameBuiltin.Name}, operator)
	}
	ast.WalkExprs(source, func(e *ast.Expr) bool {
		if e.IsCall() {
			look(e.Operator().String())
		}
		return false
	})
	ast.WalkTerms(source, func(t *ast.Term) bool {
		if call, ok := t.Value.(ast.Call); ok {
			look(call[0].String())
		}
		return false
	})
	return ordered && !asked
}

// ask is a stage of the compiler after which the type checker has an error for each comparison that orders its operands.
func (o comparisons) ask(c *ast.Compiler) *ast.Error {
	ast.WalkExprs(c.Modules[textFile], func(e *ast.Expr) bool {
		if !e.IsCall() {
			return false
		}
		if operator := e.Operator().String(); ordering[operator] != nil && e.Location != nil {
			o[place{e.Location.Row, e.Location.Col}] = operator
			e.SetOperator(ast.NewTerm(operands.Ref()).SetLocation(e.Location))
		}
		return false
	})
	return nil
}

// quantityFindings makes findings of the errors at comparisons that have a quantity as an operand.
func quantityFindings(errs ast.Errors, operators comparisons) []Finding {
	var out []Finding
	for _, err := range errs {
		d, ok := err.Details.(*ast.ArgErrDetail)
		if !ok || err.Location == nil || err.Location.File != textFile || !slices.ContainsFunc(d.Have, isQuantity) {
			continue
		}
		at := place{err.Location.Row, err.Location.Col}
		operator, ok := ordering[operators[at]]
		if !ok {
			continue
		}
		compares := `quantities as text, in which "9" is greater than "10"`
		if slices.ContainsFunc(d.Have, func(t types.Type) bool { return t != nil && policy.DescribeType(t) == policy.DescribeType(types.N) }) {
			compares = "a quantity with a number: the result is the same for every amount, since quantities are text"
		}
		out = append(out, Finding{Line: at.line, Column: at.column, holds: true, Message: fmt.Sprintf(
			"%s compares %s; use k8s.quantity.compare(x, y) %s 0", sourceOf(err.Location), compares, operator.Infix)})
	}
	return out
}
