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

package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
)

// Classify returns the kind of failure that an error is, and the rule that breaks the contract. The kind is empty where
// it is none of the policy's, as when an engine can't be asked.
func Classify(err error) (kind FailureKind, rule string) {
	var contract *placement.ContractError
	var fault *engine.RemoteError
	var evaluation *topdown.Error
	switch {
	case errors.As(err, &contract):
		return Contract, contract.Rule
	case errors.As(err, &evaluation), errors.As(err, &fault) && fault.Fault == engine.FaultServer &&
		fault.Status == http.StatusInternalServerError:
		return Evaluation, ""
	}
	return "", ""
}

// Same says how what two engines say of one object differs; empty if it does not.
func Same(first placement.Decision, firstErr error, second placement.Decision, secondErr error) string {
	switch {
	case firstErr == nil && secondErr == nil && first.Equal(second):
		return ""
	case firstErr != nil && secondErr != nil:
		kind, rule := Classify(firstErr)
		otherKind, otherRule := Classify(secondErr)
		if kind != "" && kind == otherKind && rule == otherRule && (kind != Contract || firstErr.Error() == secondErr.Error()) {
			return ""
		}
	}
	return fmt.Sprintf("one says\n%+v, %v\nand the other\n%+v, %v", first, firstErr, second, secondErr)
}

// patience bounds an evaluation. Nothing here takes so long.
const patience = 30 * time.Second

// Embedded returns the evaluator of a policy in this process, and what it reads.
func (w *World) Embedded(ctx context.Context, name string, p Policy) (placement.Evaluator, *policy.Module, *policy.Binding, error) {
	spec := p.Spec()
	m, err := policy.Compile(name, spec)
	if err != nil {
		return nil, nil, nil, err
	}
	b, err := policy.Bind(name, m, spec.Replicate, w)
	if err != nil {
		return nil, nil, nil, err
	}
	data := embedded.NewData()
	for _, r := range b.Resources {
		data.Load(r.GroupVersionResource, b.Fields[r.GroupVersionResource], w.Prepared(r.GroupVersionResource))
	}
	e := embedded.New(data, embedded.Options{Timeout: patience, Concurrency: 2})
	evaluator, err := e.Prepare(ctx, name, m, b)
	return evaluator, m, b, err
}
