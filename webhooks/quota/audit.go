package quota

import (
	"slices"

	"github.com/berth-dev/berth/internal/audit"
	"github.com/berth-dev/berth/internal/quota"
)

// Keys of the audit annotations that only this webhook sets.
const (
	auditCharged = "charged"
	auditDenied  = "denied"
)

// auditAnnotations returns the audit annotations for a request that quotas count. verdict is nil if the request was not
// decided.
func auditAnnotations(verdict *quota.Verdict, outcome string) map[string]string {
	out := map[string]string{audit.Outcome: outcome}
	if verdict == nil {
		return out
	}
	var denying []quota.Key
	for _, denial := range verdict.Denied {
		if key, ok := quota.KeyOf(denial.By); ok {
			denying = append(denying, key)
		}
	}
	for key, texts := range map[string][]string{auditCharged: names(verdict.Charged), auditDenied: names(denying)} {
		if len(texts) > 0 {
			out[key] = audit.Value(texts, ",")
		}
	}
	if len(verdict.Audited) > 0 {
		out[audit.DryRunResult] = audit.Value(verdict.Audited, "; ")
	}
	return out
}

// names returns sorted names, because a cache returns quotas in any order.
func names(keys []quota.Key) []string {
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = key.String()
	}
	slices.Sort(out)
	return slices.Compact(out)
}
