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

package findings

import (
	"cmp"
	"context"
	"slices"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/language"
)

// findingsOfUsers finds match conditions that read the user of a request and are false for Berth's service account. Berth evaluates the
// conditions on existing objects as if it updated these itself, so that the policy matches none of them. findingsOfUsers finds nothing with
// remediation.mode NewOnly or Off, and in a policy that only denies or warns.
func (f *Finder) findingsOfUsers(ctx context.Context, spec placementv1.PlacementPolicySpec, module *policy.Module) []Finding {
	mode := spec.WithDefaults().Remediation.Mode
	if mode == placementv1.RemediationNewOnly || mode == placementv1.RemediationOff || onlyDenies(module) {
		return nil
	}
	namespace := cmp.Or(f.OwnNamespace, "berth-system")
	username := "system:serviceaccount:" + namespace + ":berth-controller-manager"
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
	var out []Finding
	for i, condition := range spec.Match.MatchConditions {
		if match.ExcludesUser(ctx, condition.Expression, username, groups) {
			out = append(out, advice("%s: the policy matches no existing object: it is evaluated on each as if Berth updated the object, and this "+
				"condition is false for requests of Berth. Select by what the object has, such as a label, or set remediation.mode: NewOnly",
				matchPath.Child("matchConditions").Index(i).Child("expression")))
		}
	}
	return out
}

// onlyDenies reports whether a policy only denies or warns of requests, so that it may be meant for those of certain users.
func onlyDenies(module *policy.Module) bool {
	return module.Remote == nil && module.Candidates == "" &&
		!slices.ContainsFunc(module.Rules, func(rule string) bool { return rule != language.RuleErrors && rule != language.RuleWarnings })
}
