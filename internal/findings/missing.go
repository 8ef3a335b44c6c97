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
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/rules"
)

// findingsOfMissingValues finds labels and annotations of the object that the rules of an enforced policy need, although the policy matches
// objects without them: in valueFrom without default, unless the requirement has a reason or the rule's message names the key, and in
// placeholders of a label or annotation that a rule sets, if that is otherwise empty or invalid. It finds none that the rule's condition or
// that of an earlier rule reads, or without which another policy may deny objects, and none in a policy with match conditions.
func (f *Finder) findingsOfMissingValues(ctx context.Context, name string, spec placementv1.PlacementPolicySpec,
	m *match.Matcher) []Finding {
	takes := func(rule placementv1.Rule) bool {
		return rule.Set != nil || slices.ContainsFunc(rule.Require, func(q placementv1.Requirement) bool { return q.ValueFrom != nil })
	}
	if m.Conditional() || spec.WithDefaults().Mode != placementv1.ModeEnforce || !slices.ContainsFunc(spec.Rules, takes) {
		return nil
	}
	others := f.enforcedOn(ctx, name, spec)
	var out []Finding
	for i, rule := range spec.Rules {
		at := specPath.Child("rules").Index(i)
		has := func(v placementv1.ObjectValue) bool { return hasValue(v, i, spec.Rules, m, others) }
		out = append(out, findingsOfDenials(rule, at.Child("require"), has)...)
		if s := rule.Set; s != nil {
			anyText := func(string) []string { return nil }
			out = append(out, findingsOfEmptyTexts(s.Annotations, at.Child("set", "annotations"), anyText, has)...)
			out = append(out, findingsOfEmptyTexts(s.Labels, at.Child("set", "labels"), validation.IsValidLabelValue, has)...)
		}
	}
	return out
}

// findingsOfDenials finds requirements of a rule that deny each object without the label or annotation that valueFrom names, and no reason
// or message says so. at is the path of the requirements. has reports whether all decided objects probably have such a value.
func findingsOfDenials(rule placementv1.Rule, at *field.Path, has func(placementv1.ObjectValue) bool) []Finding {
	if rule.Otherwise == placementv1.RuleOtherwiseNextRule {
		return nil
	}
	why := ", because no cluster meets the requirement"
	if rule.Candidates == placementv1.RuleCandidatesNodes {
		why = ""
	}
	var out []Finding
	for i, q := range rule.Require {
		if q.ValueFrom == nil || q.ValueFrom.Default != nil || q.Reason != "" || has(*q.ValueFrom) ||
			strings.Contains(rule.Message, keyOf(*q.ValueFrom)) {
			continue
		}
		out = append(out, advice("%s: an object without %s is denied%s. Set default, let when select only objects that have it, or say in "+
			"reason or message what the others lack", at.Index(i).Child("valueFrom"), nounOf(*q.ValueFrom), why))
	}
	return out
}

// findingsOfEmptyTexts finds labels or annotations that a rule sets to an empty or invalid text on each object that lacks the label or
// annotation in a placeholder. set has the texts by key, and at is their path. invalid returns why a text is invalid. has reports whether
// all decided objects probably have a label or annotation.
func findingsOfEmptyTexts(
	set map[string]placementv1.RuleText, at *field.Path, invalid func(text string) []string, has func(placementv1.ObjectValue) bool,
) []Finding {
	var out []Finding
	for _, key := range slices.Sorted(maps.Keys(set)) {
		text, lacks := rules.Without(string(set[key]), has)
		const mend = "Let the rule's when select only objects that have it"
		switch {
		case len(lacks) == 0:
		case text == "":
			out = append(out, advice("%s: an object without %s gets an empty text. %s", at.Key(key), nounOf(lacks[0]), mend))
		case len(invalid(text)) > 0:
			out = append(out, advice("%s: an object without %s can't be decided, because the rest of the text is not a valid value of a label. %s",
				at.Key(key),
				nounOf(lacks[0]), mend))
		}
	}
	return out
}

// keyOf returns the key of the label or annotation that v names.
func keyOf(v placementv1.ObjectValue) string { return cmp.Or(v.Label, v.Annotation) }

// nounOf returns the name of the label or annotation that v names, as in "label env".
func nounOf(v placementv1.ObjectValue) string {
	if v.Label != "" {
		return documents["labels"] + " " + v.Label
	}
	return documents["annotations"] + " " + v.Annotation
}

// hasValue reports whether all objects that a rule decides probably have a label or annotation: the policy matches no others, the condition
// of the rule or of one before it reads it, or one of the other policies may deny objects without it. rule is the index of the rule in the
// list.
func hasValue(v placementv1.ObjectValue, rule int, list []placementv1.Rule, m *match.Matcher,
	others []placementv1.PlacementPolicySpec) bool {
	key := keyOf(v)
	return v.Label != "" && m.RequiresLabel(key) ||
		slices.ContainsFunc(list[:rule+1], func(r placementv1.Rule) bool { return readsKey(r.When, key) }) ||
		slices.ContainsFunc(others, func(other placementv1.PlacementPolicySpec) bool { return mayDemand(other, key) })
}

// mayDemand reports whether a policy may deny the objects without the label or annotation with a key: a rule that denies reads the key, or
// the Rego names it.
func mayDemand(spec placementv1.PlacementPolicySpec, key string) bool {
	return strings.Contains(spec.Rego, strconv.Quote(key)) || strings.Contains(spec.Rego, "."+key) ||
		slices.ContainsFunc(spec.Rules, func(r placementv1.Rule) bool { return r.Deny != "" && readsKey(r.When, key) })
}

// enforcedOn returns the specs of the other enforced policies that match all objects that the named policy matches; none if the policies
// are not known.
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
