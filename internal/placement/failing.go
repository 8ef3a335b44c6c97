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

package placement

import (
	"context"

	"github.com/berth-dev/berth/internal/projection"
)

// failing is the evaluator of a policy that can't decide. Each evaluation returns err.
type failing struct{ err error }

var _ Evaluator = failing{}

// NewFailing returns the evaluator of a policy that can't decide, for example because it does not compile. Each evaluation returns err.
func NewFailing(err error) Evaluator { return failing{err} }

// Evaluate implements Evaluator. It always returns err.
func (f failing) Evaluate(context.Context, map[string]any) (Decision, error) {
	return Decision{}, f.err
}

// Revision implements Evaluator. It always returns 0, which stands for missing data: callers must not conclude from it that another
// evaluation would have the same result.
func (failing) Revision() uint64 { return 0 }

// Input implements Evaluator. It returns all fields.
func (failing) Input() *projection.FieldSet { return projection.AllFields() }
