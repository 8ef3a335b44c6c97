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
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/berth-dev/berth/internal/numeral"
)

// boundQuantities bounds what is parsed as a quantity. It is a decorator of programs.
func boundQuantities(i interpreter.Interpretable) (interpreter.Interpretable, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || len(call.Args()) != 1 || call.Function() != "quantity" && call.Function() != "isQuantity" {
		return i, nil
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(values ...ref.Val) ref.Val {
		text, ok := values[0].(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(values[0])
		}
		quantity, err := numeral.Quantity(string(text))
		switch {
		case call.Function() == "isQuantity":
			return types.Bool(err == nil)
		case err != nil:
			return types.WrapErr(err)
		}
		return apiservercel.Quantity{Quantity: &quantity}
	}), nil
}
