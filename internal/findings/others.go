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
	"context"
	"slices"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/rules"
)

// findingsOfOthers finds other policies with which the policy leaves no cluster to objects that both match. It compares policies with a
// single rule that applies to all objects.
func (f *Finder) findingsOfOthers(ctx context.Context, name string, spec placementv1.PlacementPolicySpec) []Finding {
	if f.Policies == nil || !requiresAlways(spec.WithDefaults()) {
		return nil
	}
	others, err := f.Policies(ctx)
	if err != nil {
		return []Finding{notice("cannot check that other policies leave clusters to what this one matches: %v", err)}
	}
	var out []Finding
	for _, other := range others {
		theirs := other.Spec.WithDefaults()
		if other.Name == name || other.DeletionTimestamp != nil || !requiresAlways(theirs) || !matchTogether(spec.Match, theirs.Match) {
			continue
		}
		if both := slices.Concat(spec.Rules[0].Require, theirs.Rules[0].Require); !rules.CanBeMet(both) {
			out = append(out, advice("spec.rules[0].require: no cluster meets these and the requirements of policy %s, which matches the same objects: "+
				"they are denied, because an object gets the clusters that all policies allow. Change one of the policies, or what it matches", other.Name))
		}
	}
	return out
}

// requiresAlways reports whether a policy gives each object that it matches clusters by the same requirements, which can be met.
func requiresAlways(spec placementv1.PlacementPolicySpec) bool {
	return spec.Mode == placementv1.ModeEnforce && len(spec.Rules) == 1 && spec.Rules[0].When == nil && len(rules.Required(spec.Rules, 0)) > 0 &&
		rules.CanBeMet(spec.Rules[0].Require)
}

// matchTogether reports whether some objects are certain to match both a and b. It returns false if match conditions decide that.
func matchTogether(a, b placementv1.Match) bool {
	if len(a.MatchConditions)+len(b.MatchConditions) > 0 {
		return false
	}
	share := func(x, y []string) bool {
		return slices.ContainsFunc(x, func(s string) bool { return s == "*" || slices.Contains(y, s) || slices.Contains(y, "*") })
	}
	if !slices.ContainsFunc(a.ResourceRules, func(x placementv1.ResourceRule) bool {
		return slices.ContainsFunc(b.ResourceRules, func(y placementv1.ResourceRule) bool {
			return share(x.APIGroups, y.APIGroups) && share(x.APIVersions, y.APIVersions) && share(x.Resources, y.Resources)
		})
	}) {
		return false
	}
	return (match.SelectorImplies(a.NamespaceSelector, b.NamespaceSelector) || match.SelectorImplies(b.NamespaceSelector, a.NamespaceSelector)) &&
		(match.SelectorImplies(a.ObjectSelector, b.ObjectSelector) || match.SelectorImplies(b.ObjectSelector, a.ObjectSelector))
}
