package placement

import (
	"fmt"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/audit"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
)

// Keys of the audit annotations besides those of every webhook.
const (
	auditPolicies = "policies"
	auditDecision = "decision"
)

// audited returns what the audit log is to say of a request that was decided; nothing where no policy matches. It says
// nothing of the patch: where the API server asks again about an object that Berth has changed, there is none.
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
			hypothetical = append(hypothetical, would(v)...)
		}
	}
	out := map[string]string{
		audit.Outcome: answer,
		auditPolicies: audit.Value(policies, ","),
		auditDecision: outcome.Digest(),
	}
	if len(hypothetical) > 0 {
		out[audit.Would] = audit.Value(hypothetical, "; ")
	}
	return out
}
