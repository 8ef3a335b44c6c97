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
	"fmt"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/audit"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
)

// Keys of the audit annotations that only this webhook sets.
const (
	auditPolicies = "policies"
	auditDecision = "decision"
)

// audited returns the audit annotations for a decided request, or nil if no policy matches: the outcome, the policies with their
// generations, a digest of the decision, and what policies in the mode DryRun would do. answer is a label of metrics.Admission. A patched
// request is recorded as allowed, without the patch: when the API server calls again for the patched object, there is no patch.
func audited(outcome *placement.Outcome, answer string) map[string]string {
	if len(outcome.Verdicts) == 0 {
		return nil
	}
	if answer == metrics.AnswerPatched {
		answer = metrics.AnswerAllowed
	}
	policies := make([]string, len(outcome.Verdicts))
	var hypothetical []string
	for i, v := range outcome.Verdicts {
		policies[i] = fmt.Sprintf("%s@%d", v.Policy.Name, v.Policy.Generation)
		if v.Policy.Mode == placementv1.ModeDryRun {
			hypothetical = append(hypothetical, dryRunMessages(v)...)
		}
	}
	out := map[string]string{
		audit.Outcome: answer,
		auditPolicies: audit.Value(policies, ","),
		auditDecision: outcome.Digest(),
	}
	if len(hypothetical) > 0 {
		out[audit.DryRunResult] = audit.Value(hypothetical, "; ")
	}
	return out
}
