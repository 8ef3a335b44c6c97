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

package quotavalidator

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

// auditAnnotations returns the audit annotations for a request that quotas count: its outcome, a label in metrics, the quotas that are
// charged, those that deny it, and the messages of quotas in mode DryRun. verdict is nil if the request was not decided.
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

// names returns quotas and LimitedResources as texts such as "ScopedQuota/shop/gpus", each once, sorted, because a cache returns them in
// any order.
func names(keys []quota.Key) []string {
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = key.String()
	}
	slices.Sort(out)
	return slices.Compact(out)
}
