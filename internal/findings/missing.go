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
	"strconv"
	"strings"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// findingsOfMissingValues finds requirements of enforced rules that take their value from a label or annotation of the object, and deny each
// object without it, although the policy matches such objects, and no text of the rule speaks of it.
func (f *Finder) findingsOfMissingValues(ctx context.Context, name string, spec placementv1.PlacementPolicySpec, m *match.Matcher) []Finding {
	takes := func(rule placementv1.Rule) bool {
		return slices.ContainsFunc(rule.Require, func(q placementv1.Requirement) bool { return q.ValueFrom != nil })
	}
	if m.Conditional() || spec.WithDefaults().Mode != placementv1.ModeEnforce || !slices.ContainsFunc(spec.Rules, takes) {
		return nil
	}
	others := f.enforcedOn(ctx, name, spec)
	var out []Finding
	for i, rule := range spec.Rules {
		if rule.Otherwise == placementv1.RuleOtherwiseNextRule {
			continue
		}
		why := ", because no cluster meets the requirement"
		if rule.Candidates == placementv1.RuleCandidatesNodes {
			why = ""
		}
		for j, q := range rule.Require {
			if q.ValueFrom == nil || q.ValueFrom.Default != nil || q.Reason != "" || hasValue(*q.ValueFrom, i, spec.Rules, m, others) ||
				strings.Contains(rule.Message, keyOf(*q.ValueFrom)) {
				continue
			}
			out = append(out, advice("%s: an object without %s is denied%s. Set default, select the objects that have it in when, or say in "+
				"reason or message what they lack", specPath.Child("rules").Index(i).Child("require").Index(j).Child("valueFrom"), nounOf(*q.ValueFrom), why))
		}
	}
	return out
}

// keyOf returns the key of the label or annotation that a value of an object is taken from.
func keyOf(v placementv1.ObjectValue) string { return cmp.Or(v.Label, v.Annotation) }

// nounOf names the label or annotation that a value of an object is taken from.
func nounOf(v placementv1.ObjectValue) string {
	if v.Label != "" {
		return documents["labels"] + " " + v.Label
	}
	return documents["annotations"] + " " + v.Annotation
}

// hasValue reports whether the objects that a rule decides probably have a label or annotation: the policy matches no others, the rule or one
// before it selects by it, or another policy does.
func hasValue(v placementv1.ObjectValue, rule int, list []placementv1.Rule, m *match.Matcher, others []placementv1.PlacementPolicySpec) bool {
	key := keyOf(v)
	return v.Label != "" && m.RequiresLabel(key) ||
		slices.ContainsFunc(list[:rule+1], func(r placementv1.Rule) bool { return readsKey(r.When, key) }) ||
		slices.ContainsFunc(others, func(other placementv1.PlacementPolicySpec) bool { return mayDemand(other, key) })
}

// mayDemand reports whether a policy may deny the objects without a label or annotation: a rule that denies selects by it, or its Rego names
// it.
func mayDemand(spec placementv1.PlacementPolicySpec, key string) bool {
	return strings.Contains(spec.Rego, strconv.Quote(key)) || strings.Contains(spec.Rego, "."+key) ||
		slices.ContainsFunc(spec.Rules, func(r placementv1.Rule) bool { return r.Deny != "" && readsKey(r.When, key) })
}

// enforcedOn returns the other enforced policies that match all objects that a policy matches; none if they are not known.
func (f *Finder) enforcedOn(ctx context.Context, name string, spec placementv1.PlacementPolicySpec) []placementv1.PlacementPolicySpec {
	if f.Policies == nil {
		return nil
	}
	policies, err := f.Policies(ctx)
	if err != nil {
		// The comparison with other policies reports the error.
		return nil
	}
	var out []placementv1.PlacementPolicySpec
	for _, other := range policies {
		theirs := other.Spec.WithDefaults()
		if other.Name != name && other.DeletionTimestamp == nil && theirs.Mode == placementv1.ModeEnforce && !isRolledBack(theirs) &&
			matchesWithin(spec.Match, theirs.Match) {
			out = append(out, theirs)
		}
	}
	return out
}
