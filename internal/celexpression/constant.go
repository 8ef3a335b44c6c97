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
	"context"

	"github.com/google/cel-go/cel"
)

// Constant reports whether an expression has the same value for every object, such as `1 == 1` or `false && object.spec.paused`, and
// returns that value. It finds this by evaluating the expression on an unknown object, so that it knows nothing of expressions such
// as `object == object`. An expression that does not compile, or fails, is not constant.
func Constant(ctx context.Context, expression string) (value, constant bool) {
	p, err := newProgram(expression, cel.EvalOptions(cel.OptPartialEval))
	if err != nil {
		return false, false
	}
	unknown, err := cel.PartialVars(map[string]any{}, cel.AttributePattern(objectVariable))
	if err != nil {
		return false, false
	}
	result, _, err := p.program.ContextEval(ctx, unknown)
	if err != nil {
		return false, false
	}
	value, constant = result.Value().(bool)
	return value, constant
}
