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

package embedded

import (
	"errors"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/celexpression"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/predicates"
)

// builtins are the functions that Berth adds to the policy language, as options with which every query of the package is prepared.
var builtins = []func(*rego.Rego){
	quantityFunction(language.QuantityAdd, func(x, y resource.Quantity) *ast.Term {
		x.Add(y)
		return ast.StringTerm(x.String())
	}),
	quantityFunction(language.QuantitySub, func(x, y resource.Quantity) *ast.Term {
		x.Sub(y)
		return ast.StringTerm(x.String())
	}),
	quantityFunction(language.QuantityCompare, func(x, y resource.Quantity) *ast.Term {
		return ast.IntNumberTerm(x.Cmp(y))
	}),
	predicateFunction(language.Feasible, predicates.Nodes),
	predicateFunction(language.FeasibleClusters, predicates.Clusters),
	rego.Function2(&rego.Function{Name: language.CEL.Name, Decl: language.CEL.Decl}, evaluateCEL),
	rego.Function3(&rego.Function{Name: language.Scale.Name, Decl: language.Scale.Decl}, scale),
	chooseClusters(language.ChooseClusters),
	chooseClusters(language.SpreadClusters),
}

// maxExpression is the maximum length of a CEL expression that a policy passes to the CEL function, in bytes. A longer one is an error that
// ends the evaluation.
const maxExpression = 4096

// evaluateCEL returns the boolean that a CEL expression has for an object. The error ends the evaluation of the policy if the expression
// fails, or if it or the object is too large. With any other error, as for an object that can't be written as JSON, the call is undefined.
func evaluateCEL(bctx rego.BuiltinContext, expression, object *ast.Term) (*ast.Term, error) {
	text, ok := expression.Value.(ast.String)
	if !ok {
		return nil, fmt.Errorf("the expression %s is not a string", expression)
	}
	if n := len(text); n > maxExpression {
		return nil, rego.NewHaltError(&engine.LimitError{Function: language.CEL.Name, Operand: "operand 1", Size: n,
			Limit: maxExpression, Unit: "bytes"})
	}
	// A value with shared parts would be converted to a tree without them.
	if err := checkTree(object.Value, 1); err != nil {
		err.Function = language.CEL.Name
		return nil, rego.NewHaltError(err)
	}
	content, err := celValue(object.Value)
	if err != nil {
		return nil, err
	}
	result, err := celexpression.Evaluate(bctx.Context, string(text), content)
	if err != nil {
		return nil, rego.NewHaltError(err)
	}
	return ast.BooleanTerm(result), nil
}

// celValue converts a value of the policy language to the Go types that the API server gives to CEL: whole numbers to int64, others to
// float64. A set, and an object with a key that is no string, is an error.
func celValue(v ast.Value) (any, error) {
	switch v := v.(type) {
	case ast.Null:
		return nil, nil
	case ast.Boolean:
		return bool(v), nil
	case ast.String:
		return string(v), nil
	case ast.Number:
		if n, ok := v.Int64(); ok {
			return n, nil
		}
		f, ok := v.Float64()
		if !ok {
			return nil, fmt.Errorf("%s is too large a number", v)
		}
		return f, nil
	case ast.Object:
		out := make(map[string]any, v.Len())
		err := v.Iter(func(key, value *ast.Term) error {
			name, ok := key.Value.(ast.String)
			if !ok {
				return fmt.Errorf("the key %s is not a string", key)
			}
			converted, err := celValue(value.Value)
			out[string(name)] = converted
			return err
		})
		return out, err
	case *ast.Array:
		out := make([]any, 0, v.Len())
		err := v.Iter(func(t *ast.Term) error {
			converted, err := celValue(t.Value)
			out = append(out, converted)
			return err
		})
		return out, err
	}
	return nil, fmt.Errorf("%s can't be written as JSON", v)
}

// quantityFunction implements the builtin function b: apply returns its result for its two operands, which are read as quantities. If one
// is no quantity, the call is undefined in a policy, and an error in a generated module.
func quantityFunction(b *ast.Builtin, apply func(x, y resource.Quantity) *ast.Term) func(*rego.Rego) {
	function := &rego.Function{Name: b.Name, Decl: b.Decl}
	return rego.Function2(function, func(_ rego.BuiltinContext, x, y *ast.Term) (*ast.Term, error) {
		left, err := quantity(x)
		if err != nil {
			return nil, err
		}
		right, err := quantity(y)
		if err != nil {
			return nil, err
		}
		return apply(left, right), nil
	})
}

// quantity returns the quantity that a string or a number denotes. The error for a quantity with more than numeral.MaxDigits digits is one
// that ends the evaluation of a policy. That for a value that is no quantity is not, so the caller decides.
func quantity(t *ast.Term) (resource.Quantity, error) {
	var text string
	switch v := t.Value.(type) {
	case ast.String:
		text = string(v)
	case ast.Number:
		text = string(v)
	default:
		return resource.Quantity{}, fmt.Errorf("%s is not a quantity", t)
	}
	q, err := numeral.Quantity(text)
	if errors.Is(err, numeral.ErrTooLong) {
		return resource.Quantity{}, rego.NewHaltError(&engine.LimitError{Operand: "an amount", Size: numeral.Digits(text),
			Limit: numeral.MaxDigits, Unit: "digits"})
	}
	if err != nil {
		return resource.Quantity{}, fmt.Errorf("%s is not a quantity: %w", t, err)
	}
	return q, nil
}
