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
	"strings"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/rules"
)

// findingsOfOthers finds conflicts of the named policy with each other policy on objects that both decide: no cluster is left to the
// objects, or a value that one of the policies sets has no effect.
func (f *Finder) findingsOfOthers(ctx context.Context, name string, spec placementv1.PlacementPolicySpec) []Finding {
	spec = spec.WithDefaults()
	if f.Policies == nil || isRolledBack(spec) {
		return nil
	}
	ours, requiring := setter{name, spec.Priority, f.sourcesOf(ctx, name, spec)}, requiringRules(spec)
	if len(requiring) == 0 && len(ours.sources) == 0 {
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
		if other.Name == name || other.DeletionTimestamp != nil || isRolledBack(theirs) {
			continue
		}
		out = append(out, findingsOfRequirements(spec, requiring, other.Name, theirs)...)
		if spec.Priority <= theirs.Priority && ours.mayMeet(theirs) {
			out = append(out, findingsOfSettings(ours, setter{other.Name, theirs.Priority, f.sourcesOf(ctx, other.Name, theirs)})...)
		}
	}
	return out
}

// isRolledBack reports whether spec.rollout.revision names an earlier version of the policy, which decides in place of the spec.
func isRolledBack(spec placementv1.PlacementPolicySpec) bool {
	return spec.Rollout != nil && spec.Rollout.Revision > 0
}

// findingsOfRequirements returns a finding for each rule in requiring whose requirements contradict those of rules of another policy, so
// that objects which both policies decide are denied. One finding names all of these rules. Rules count only if it is certain that objects
// can exist that both decide. requiring are the rules of spec that have requirements. other is the name of the other policy, and theirs its
// spec.
func findingsOfRequirements(spec placementv1.PlacementPolicySpec, requiring []source, other string,
	theirs placementv1.PlacementPolicySpec) []Finding {
	here, there := selectedBy(spec.Match, nil), selectedBy(theirs.Match, nil)
	if len(requiring) == 0 || !resourcesShared(spec.Match.ResourceRules, theirs.Match.ResourceRules) || !rules.MayOverlap(&here, &there) {
		return nil
	}
	others := requiringRules(theirs)
	var out []Finding
	for _, one := range requiring {
		var names []string
		always := one.always
		for _, their := range others {
			if one.meets(their, false) && !rules.CanBeMet(slices.Concat(spec.Rules[one.index].Require, theirs.Rules[their.index].Require)) {
				names, always = append(names, their.rule), always && their.always
			}
		}
		who, which := "policy "+other, "objects that both policies match"
		switch {
		case len(names) == 0:
			continue
		case always:
		case len(names) == 1:
			who, which = fmt.Sprintf("rule %s of policy %s", names[0], other), "objects to which both rules apply"
		default:
			who, which = fmt.Sprintf("any of the rules %s of policy %s", strings.Join(names, ", "), other),
				"objects to which this rule and one of those apply"
		}
		out = append(out, advice("%s: no cluster can ever meet these requirements and those of %s: %s are denied, because an object gets the "+
			"clusters that all policies allow. Change one of the policies, or what it matches",
			specPath.Child("rules").Index(one.index).Child("require"), who, which))
	}
	return out
}

// findingsOfSettings finds fields that two policies set to different values on objects that both decide. The priority of ours is lower or
// equal. If it is equal, the objects get the value of the policy whose name sorts first. If it is lower, a value of ours is found only if
// it has no effect on any object: an author may mean a value for those objects that the other policy does not decide.
func findingsOfSettings(ours, theirs setter) []Finding {
	isLower := ours.priority < theirs.priority
	why := fmt.Sprintf("spec.priority of both is %d, and the policy whose name sorts first wins. Change one of these priorities",
		ours.priority)
	winner := "the value of policy " + theirs.name
	switch {
	case isLower:
		why = fmt.Sprintf("spec.priority is %d in this policy, and %d in the other one. Change one of these priorities",
			ours.priority, theirs.priority)
	case ours.name < theirs.name:
		winner = "the value of this policy"
	}
	var out []Finding
	for _, our := range ours.sources {
		for _, field := range slices.SortedFunc(maps.Keys(our.values), setField.compare) {
			i := slices.IndexFunc(theirs.sources, func(their source) bool {
				value, both := their.values[field]
				return both && value.text != our.values[field].text && our.meets(their, isLower)
			})
			if i < 0 {
				continue
			}
			their := theirs.sources[i]
			who, where := "policy "+theirs.name, "objects that both policies match"
			if !our.always || !their.always {
				where = "objects that both apply to"
				if their.rule != "" {
					who = fmt.Sprintf("rule %s of policy %s", their.rule, theirs.name)
				}
			}
			text := fmt.Sprintf("%s sets this field to %q on %s, and these objects get %s: %s, or set the field in only one policy",
				who, their.values[field].text, where, winner, why)
			if our.rule == "" {
				text = field.String() + ": " + text
			}
			out = append(out, our.values[field].at.finding(Advice, text))
		}
	}
	return out
}

// matchesWithin reports whether each object that matches narrow is certain to match wide, too. It returns false if wide has match
// conditions, even if they are those of narrow.
func matchesWithin(narrow, wide placementv1.Match) bool {
	return len(wide.MatchConditions) == 0 && match.SelectorImplies(narrow.NamespaceSelector, wide.NamespaceSelector) &&
		match.SelectorImplies(narrow.ObjectSelector, wide.ObjectSelector) && resourcesWithin(narrow.ResourceRules, wide.ResourceRules)
}

// matchTogether reports whether it is certain that objects can exist that match both a and b: there are no match conditions, they have a
// resource in common, and of two selectors, one implies the other.
func matchTogether(a, b placementv1.Match) bool {
	return len(a.MatchConditions)+len(b.MatchConditions) == 0 && resourcesShared(a.ResourceRules, b.ResourceRules) &&
		(match.SelectorImplies(a.NamespaceSelector, b.NamespaceSelector) || match.SelectorImplies(b.NamespaceSelector, a.NamespaceSelector)) &&
		(match.SelectorImplies(a.ObjectSelector, b.ObjectSelector) || match.SelectorImplies(b.ObjectSelector, a.ObjectSelector))
}

// resourcesWithin reports whether wide has each resource that narrow has.
func resourcesWithin(narrow, wide []placementv1.ResourceRule) bool {
	within := func(few, many []string) bool {
		return slices.Contains(many, "*") || !slices.ContainsFunc(few, func(s string) bool { return !slices.Contains(many, s) })
	}
	return !slices.ContainsFunc(narrow, func(x placementv1.ResourceRule) bool {
		return !slices.ContainsFunc(wide, func(y placementv1.ResourceRule) bool {
			return within(x.APIGroups, y.APIGroups) && within(x.APIVersions, y.APIVersions) && within(x.Resources, y.Resources)
		})
	})
}

// resourcesShared reports whether rules in a and in b have a group, version, and resource in common, where "*" stands for all. It returns
// false if one of the lists is empty.
func resourcesShared(a, b []placementv1.ResourceRule) bool {
	share := func(x, y []string) bool {
		return slices.ContainsFunc(x, func(s string) bool { return s == "*" || slices.Contains(y, s) || slices.Contains(y, "*") })
	}
	return slices.ContainsFunc(a, func(x placementv1.ResourceRule) bool {
		return slices.ContainsFunc(b, func(y placementv1.ResourceRule) bool {
			return share(x.APIGroups, y.APIGroups) && share(x.APIVersions, y.APIVersions) && share(x.Resources, y.Resources)
		})
	})
}
