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
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/berth-dev/berth/internal/numeral"
)

// quantity is the CEL function quantity(text) of Kubernetes, but limits the digits of the number.
func quantity(operands []ref.Val) ref.Val {
	text, ok := operands[0].(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(operands[0])
	}
	out, err := numeral.Quantity(string(text))
	if err != nil {
		return types.WrapErr(err)
	}
	return apiservercel.Quantity{Quantity: &out}
}

// isQuantity is the CEL function isQuantity(text) of Kubernetes. It is false for a number with too many digits.
func isQuantity(operands []ref.Val) ref.Val {
	text, ok := operands[0].(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(operands[0])
	}
	_, err := numeral.Quantity(string(text))
	return types.Bool(err == nil)
}
