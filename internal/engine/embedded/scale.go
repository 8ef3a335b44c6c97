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
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
)

// maxScaled limits the values that one call of language.Scale scales. Its arithmetic is exact, which takes about a microsecond for each.
const maxScaled = 100_000

// scale implements language.Scale: it maps the numbers and quantities of an object in proportion to integers from lowest to highest. An
// error ends the evaluation: if the call were undefined instead, all scores of a policy could silently be missing.
func scale(_ rego.BuiltinContext, values, lowest, highest *ast.Term) (*ast.Term, error) {
	out, err := scaled(values.Value, lowest, highest)
	if err != nil {
		return nil, rego.NewHaltError(err)
	}
	return ast.NewTerm(out), nil
}

// scaled maps numbers and quantities, by name, to integers: the least one to lowest, the greatest one to highest, and the others in
// proportion. If all are equal, they become the greater one of lowest and highest.
func scaled(values ast.Value, lowest, highest *ast.Term) (ast.Object, error) {
	amounts, err := amountsOf(values)
	if err != nil {
		return nil, fmt.Errorf("operand 1 (values): %w", err)
	}
	low, isLow := boundedInteger(lowest)
	high, isHigh := boundedInteger(highest)
	if !isLow || !isHigh {
		return nil, fmt.Errorf("operands 2 and 3 (lowest, highest): must be integers from %d to %d", -maxScore, maxScore)
	}
	out := ast.NewObjectWithCapacity(len(amounts))
	if len(amounts) == 0 {
		return out, nil
	}
	byAmount := func(a, b namedAmount) int { return a.amount.Cmp(b.amount) }
	s := newScaling(slices.MinFunc(amounts, byAmount).amount, slices.MaxFunc(amounts, byAmount).amount, low, high)
	for _, a := range amounts {
		out.Insert(a.name, ast.NumberTerm(json.Number(s.of(a.amount).String())))
	}
	return out, nil
}

// namedAmount is a member of an object whose values are numbers or quantities: its key, and the exact value.
type namedAmount struct {
	name   *ast.Term
	amount *big.Rat
}

// amountsOf returns the members of an object. A member whose value is neither a number nor a quantity is an error.
func amountsOf(v ast.Value) ([]namedAmount, error) {
	values, ok := v.(ast.Object)
	if !ok {
		return nil, errors.New("must be an object")
	}
	if err := overAll(values.Len(), maxScaled, "members"); err != nil {
		return nil, err
	}
	// This limits the digits of each number, too.
	if err := checkTree(v, 0); err != nil {
		return nil, err
	}
	out := make([]namedAmount, 0, values.Len())
	err := values.Iter(func(name, value *ast.Term) error {
		amount, err := exactAmount(value)
		out = append(out, namedAmount{name, amount})
		return err
	})
	return out, err
}

// exactAmount returns the exact value of a number, or of a string that is a quantity. Any other term is an error.
func exactAmount(t *ast.Term) (*big.Rat, error) {
	text := ""
	if number, ok := t.Value.(ast.Number); ok {
		text = string(number)
	} else {
		amount, err := quantity(t)
		if err != nil {
			return nil, err
		}
		text = amount.AsDec().String()
	}
	out, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, fmt.Errorf("%s is not a number", t)
	}
	return out, nil
}

// boundedInteger returns the integer of a term. ok is false if the term is not an integer from -maxScore to maxScore.
func boundedInteger(t *ast.Term) (n int64, ok bool) {
	number, _ := t.Value.(ast.Number)
	n, ok = number.Int64()
	return n, ok && -maxScore <= n && n <= maxScore
}

// scaling converts amounts to integers in proportion: the integer is base, plus the distance of the amount from origin times factor,
// rounded down.
type scaling struct {
	// base is the lesser one of the two integers; the greater one if all amounts are equal.
	base   *big.Int
	origin *big.Rat // the amount that becomes base; nil if all do
	// factor is how much the integer grows for each unit of distance between an amount and origin; nil if all amounts become base.
	factor *big.Rat
}

// newScaling returns the scaling by which the amount least becomes low, and greatest becomes high, which may be less than low. If the
// amounts are equal, they become the greater one of low and high.
func newScaling(least, greatest *big.Rat, low, high int64) scaling {
	if least.Cmp(greatest) == 0 {
		return scaling{base: big.NewInt(max(low, high))}
	}
	if high < low {
		low, high, least, greatest = high, low, greatest, least
	}
	factor := new(big.Rat).SetInt64(high - low)
	return scaling{base: big.NewInt(low), origin: least, factor: factor.Quo(factor, new(big.Rat).Sub(greatest, least))}
}

// of returns the integer for an amount, rounded down.
func (s scaling) of(amount *big.Rat) *big.Int {
	if s.factor == nil {
		return s.base
	}
	distance := new(big.Rat).Sub(amount, s.origin)
	// The product is not negative, so that Quo rounds it down. A product of fractions would be reduced, which takes longer.
	n := new(big.Int).Mul(distance.Num(), s.factor.Num())
	n.Quo(n, new(big.Int).Mul(distance.Denom(), s.factor.Denom()))
	return n.Add(n, s.base)
}
