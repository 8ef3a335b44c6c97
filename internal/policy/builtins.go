package policy

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
)

// Builtin functions that Berth adds to the language. They are pure; the engine implements them.
//
// Amounts are Kubernetes quantities, as in "1500m", "2Gi" or 3. Rego's own numbers would not do: units.parse rounds
// what has no exact binary form, and a limit that is off by a rounding error is off.
var (
	// QuantityAdd is k8s.quantity.add(x, y), the sum as a quantity in canonical form.
	QuantityAdd = quantityFunction("k8s.quantity.add", types.S)
	// QuantitySub is k8s.quantity.sub(x, y), the difference as a quantity in canonical form.
	QuantitySub = quantityFunction("k8s.quantity.sub", types.S)
	// QuantityCompare is k8s.quantity.compare(x, y): -1, 0 or 1 as x is less than, equal to or greater than y.
	QuantityCompare = quantityFunction("k8s.quantity.compare", types.N)
)

var ownBuiltins = []*ast.Builtin{QuantityAdd, QuantitySub, QuantityCompare}

func quantityFunction(name string, result types.Type) *ast.Builtin {
	quantity := types.NewAny(types.S, types.N)
	return &ast.Builtin{
		Name: name,
		Decl: types.NewFunction(types.Args(types.Named("x", quantity), types.Named("y", quantity)), types.Named("result", result)),
	}
}
