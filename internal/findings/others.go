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
	"fmt"
	"maps"
	"slices"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/rules"
)

// findingsOfOthers finds what a policy and another one do together to objects that both match: no cluster is left to them, or a value that
// one of the policies sets has no effect. It compares rules that apply to all objects.
func (f *Finder) findingsOfOthers(ctx context.Context, name string, spec placementv1.PlacementPolicySpec) []Finding {
	spec = spec.WithDefaults()
	if f.Policies == nil || isRolledBack(spec) || !requiresAlways(spec) && len(setAlways(spec)) == 0 {
		return nil
	}
	others, err := f.Policies(ctx)
	if err != nil {
		return []Finding{notice("cannot compare the policy with other policies: %v", err)}
	}
	// The findings are the same each time.
	others = slices.SortedFunc(slices.Values(others), func(a, b placementv1.PlacementPolicy) int { return cmp.Compare(a.Name, b.Name) })
	var out []Finding
	for _, other := range others {
		theirs := other.Spec.WithDefaults()
		if other.Name == name || other.DeletionTimestamp != nil || isRolledBack(theirs) || !matchTogether(spec.Match, theirs.Match) {
			continue
		}
		if requiresAlways(spec) && requiresAlways(theirs) && !rules.CanBeMet(slices.Concat(spec.Rules[0].Require, theirs.Rules[0].Require)) {
			out = append(out, advice("spec.rules[0].require: no cluster meets these and the requirements of policy %s, which matches the same objects: "+
				"they are denied, because an object gets the clusters that all policies allow. Change one of the policies, or what it matches", other.Name))
		}
		out = append(out, findingsOfSettings(name, spec, other.Name, theirs)...)
	}
	return out
}

// isRolledBack reports whether an earlier version of a policy decides, of which the spec has nothing.
func isRolledBack(spec placementv1.PlacementPolicySpec) bool {
	return spec.Rollout != nil && spec.Rollout.Revision > 0
}

// setAlways returns the values that the first rule of an enforced policy sets on each object that the policy matches, by their fields.
func setAlways(spec placementv1.PlacementPolicySpec) map[string]string {
	if spec.Mode != placementv1.ModeEnforce || len(spec.Rules) == 0 || spec.Rules[0].When != nil || spec.Rules[0].Set == nil ||
		spec.Rules[0].Otherwise == placementv1.RuleOtherwiseNextRule {
		return nil
	}
	set, out := spec.Rules[0].Set, map[string]string{}
	for key, value := range set.Labels {
		out["labels["+key+"]"] = string(value)
	}
	for key, value := range set.Annotations {
		out["annotations["+key+"]"] = string(value)
	}
	for key, value := range set.NodeSelector {
		out["nodeSelector["+key+"]"] = string(value)
	}
	if set.PriorityClassName != "" {
		out["priorityClassName"] = set.PriorityClassName
	}
	if set.SchedulerName != "" {
		out["schedulerName"] = set.SchedulerName
	}
	return out
}

// findingsOfSettings finds fields that two policies set to different values on objects that both match. If their priorities differ, it
// finds those whose value here has no effect, on any object: an author may mean the value of the lower priority for other objects, and that
// of the higher one is as its author wrote it.
func findingsOfSettings(name string, spec placementv1.PlacementPolicySpec, otherName string, other placementv1.PlacementPolicySpec) []Finding {
	ours, theirs := setAlways(spec), setAlways(other)
	if spec.Priority > other.Priority || spec.Priority < other.Priority && !matchesWithin(spec.Match, other.Match) {
		return nil
	}
	why := fmt.Sprintf("spec.priority of both is %d, and the name that sorts first wins. Set one of them", spec.Priority)
	winner := "the value of policy " + otherName
	switch {
	case spec.Priority != other.Priority:
		why = fmt.Sprintf("spec.priority is %d here, and %d there. Change one of them", spec.Priority, other.Priority)
	case name < otherName:
		winner = "the value here"
	}
	var out []Finding
	for _, field := range slices.Sorted(maps.Keys(ours)) {
		if value, both := theirs[field]; both && value != ours[field] {
			out = append(out, advice("spec.rules[0].set.%s: policy %s sets it to %q on objects that both policies match, and they get %s: %s, or set the field "+
				"in one of the policies", field, otherName, value, winner, why))
		}
	}
	return out
}

// matchesWithin reports whether each object that matches narrow is certain to match wide, too.
func matchesWithin(narrow, wide placementv1.Match) bool {
	within := func(few, many []string) bool {
		return slices.Contains(many, "*") || !slices.ContainsFunc(few, func(s string) bool { return !slices.Contains(many, s) })
	}
	return len(wide.MatchConditions) == 0 && match.SelectorImplies(narrow.NamespaceSelector, wide.NamespaceSelector) &&
		match.SelectorImplies(narrow.ObjectSelector, wide.ObjectSelector) &&
		!slices.ContainsFunc(narrow.ResourceRules, func(x placementv1.ResourceRule) bool {
			return !slices.ContainsFunc(wide.ResourceRules, func(y placementv1.ResourceRule) bool {
				return within(x.APIGroups, y.APIGroups) && within(x.APIVersions, y.APIVersions) && within(x.Resources, y.Resources)
			})
		})
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
