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

package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
)

// Probe queries a policy's document once, with an empty object as input. It returns a warning for the policy's author
// if there is no such document, if it is not a decision, or if the engine does not answer. It returns "" if there is no
// warning, or if the engine only refuses to decide an empty object. It also returns "" for engines to which Berth pushes modules or data,
// because these may be absent before the policy is stored. Nothing is cached, and the circuit breaker ignores the request.
func (e *Engine) Probe(ctx context.Context, r *policy.Remote) string {
	if r == nil || r.NeedsPush() {
		return ""
	}
	client, err := e.Clients.Client(r)
	if err != nil {
		return ""
	}
	body, err := opaclient.EncodeInput(map[string]any{}, r.V0)
	if err != nil {
		return ""
	}
	const hint = "look at the path of spec.remote.url, and at whether the engine has the policy"
	answer, found, err := client.Query(ctx, r.Document, r.V0, body)
	var said *opaclient.Rejection
	switch {
	case errors.As(err, &said) && said.OfObject():
		// The policy exists, but can't decide an empty object.
		return ""
	case errors.As(err, &said) && said.Status == http.StatusNotFound:
		return fmt.Sprintf("the engine has no document %s: %s (%v)", r.Document, hint, err)
	case err != nil:
		return fmt.Sprintf("the engine gives no decision; until it does, spec.failurePolicy applies to requests: %v", err)
	}
	if found {
		_, found, err = opaclient.DecodeResult(answer, r.V0)
	}
	var contract *placement.ContractError
	switch {
	case errors.As(err, &contract):
		return fmt.Sprintf("the document %s is not a decision: %v; spec.remote.url must end with the package of the rules", r.Document, err)
	case err != nil:
		return fmt.Sprintf("the response of the engine can't be read: %v", err)
	case !found && r.Spec.Undefined == placementv1.UndefinedError:
		return fmt.Sprintf("the engine has no result for %s, and spec.failurePolicy applies to requests until it has one: %s", r.Document, hint)
	case !found:
		return fmt.Sprintf("the engine has no result for %s, and the policy admits objects unchanged until it has one "+
			"(spec.remote.undefined): %s", r.Document, hint)
	}
	return ""
}
