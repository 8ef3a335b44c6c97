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

package celexpression

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/berth-dev/berth/internal/numeral"
)

// boundedQuantity is a call of a function that parses a quantity.
type boundedQuantity struct{ interpreter.InterpretableCall }

// boundQuantities bounds what is parsed as a quantity. It is a decorator of programs.
func boundQuantities(i interpreter.Interpretable) (interpreter.Interpretable, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || len(call.Args()) != 1 || call.Function() != "quantity" && call.Function() != "isQuantity" {
		return i, nil
	}
	return boundedQuantity{call}, nil
}

// Eval implements interpreter.Interpretable.
func (q boundedQuantity) Eval(vars interpreter.Activation) ref.Val {
	if text, ok := q.Args()[0].Eval(vars).(types.String); ok && !numeral.IsCheap(string(text)) {
		if q.Function() == "isQuantity" {
			return types.False
		}
		return types.NewErr("a quantity has more than %d digits, with those that its exponent stands for", numeral.MaxDigits)
	}
	return q.InterpretableCall.Eval(vars)
}
