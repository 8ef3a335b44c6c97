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

package placementmutator

import (
	"errors"
	"net/http"
	"slices"

	"github.com/open-policy-agent/opa/v1/topdown"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/workload"
)

// failureStatus returns the code and reason of the response to a request that policies can't decide: 500 InternalError if at least one of
// the failures that deny it may pass, and 422 Invalid if all of them last until a policy, its data, or the object changes, as for a
// ValidatingAdmissionPolicy whose expression fails.
func failureStatus(verdicts []*placement.Verdict) (code int32, reason metav1.StatusReason) {
	passing := slices.ContainsFunc(verdicts, func(v *placement.Verdict) bool {
		return v.Err != nil && v.Policy.Mode == placementv1.ModeEnforce && v.Policy.FailurePolicy != placementv1.FailurePolicyIgnore &&
			!permanent(v.Err)
	})
	if passing {
		return http.StatusInternalServerError, metav1.StatusReasonInternalError
	}
	return http.StatusUnprocessableEntity, metav1.StatusReasonInvalid
}

// evaluationCodes are the codes of errors of OPA that the policy's text and its input cause.
var evaluationCodes = []string{topdown.BuiltinErr, topdown.ConflictErr, topdown.TypeErr, topdown.WithMergeErr}

// permanent reports whether an evaluation that failed with err is known to fail again with the same policy, object, and data. That is so if
// a function or rules of the Rego fail, a value breaks the decision contract, the input or the evaluation exceeds a size limit, the policy
// does not compile (unless it only took too long), or it is unknown where the kind has its pod template. After all other errors, a retry
// may succeed.
func permanent(err error) bool {
	if list, ok := errors.AsType[*policy.CompileError](err); ok {
		return !policy.IsUnfinished(list)
	}
	if evaluation, ok := errors.AsType[*topdown.Error](err); ok {
		return slices.Contains(evaluationCodes, evaluation.Code)
	}
	_, contract := errors.AsType[*placement.ContractError](err)
	_, limit := errors.AsType[*engine.LimitError](err)
	_, input := errors.AsType[*engine.InputError](err)
	_, podless := errors.AsType[*workload.UnknownKindError](err)
	return contract || limit || input || podless
}
