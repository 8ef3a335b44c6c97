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
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// maxExponent bounds the exponent of a quantity. With one of more digits, Kubernetes' parser computes powers of ten for minutes or
// forever, and nothing interrupts it.
const maxExponent = 4096

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
	if text, ok := q.Args()[0].Eval(vars).(types.String); ok && hasLargeExponent(string(text)) {
		if q.Function() == "isQuantity" {
			return types.False
		}
		return types.NewErr("the exponent of a quantity is larger than %d", maxExponent)
	}
	return q.InterpretableCall.Eval(vars)
}

// hasLargeExponent reports whether the absolute value of the exponent in a text is larger than maxExponent.
func hasLargeExponent(text string) bool {
	at := strings.LastIndexAny(text, "eE")
	if at < 0 {
		return false
	}
	exponent, err := strconv.ParseInt(text[at+1:], 10, 64)
	// Kubernetes' parser uses the lower 32 bits of a larger number, and takes what is no number for no quantity.
	return exponent > maxExponent || exponent < -maxExponent || err != nil && strings.ContainsAny(text[at+1:], "0123456789")
}
