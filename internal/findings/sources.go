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
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/policy/lint"
	"github.com/berth-dev/berth/internal/rules"
)

// setter is a policy that sets fields of objects.
type setter struct {
	name     string // The name of the policy.
	priority int32
	sources  []source
}

// source is a part of an enforced policy that sets fields of each object that it decides, or gives it clusters: a rule of spec.rules, or
// Rego without conditions.
type source struct {
	// rule is the name of the rule; "" for Rego. index is its index in spec.rules.
	rule  string
	index int
	match placementv1.Match
	// selects is the condition of the rule together with the selectors of match.
	selects placementv1.RuleCondition
	before  []placementv1.RuleCondition // The conditions of the rules before the rule.
	// always reports whether the source decides each object that the policy matches.
	always bool
	// values are the values that the source sets, by field.
	values map[setField]fieldValue
}

// setField is a field of objects that policies set, such as the label with a key. key is empty for a field without keys.
type setField struct{ field, key string }

// String names the field, as in labels[tier].
func (t setField) String() string {
	if t.key == "" {
		return t.field
	}
	return t.field + "[" + t.key + "]"
}

// compare compares fields by their names and keys.
func (t setField) compare(other setField) int {
	return cmp.Or(cmp.Compare(t.field, other.field), cmp.Compare(t.key, other.key))
}

// isSetBy reports whether a rule with these settings sets the field: for labels, annotations, and node selectors, the entry with its key.
// It returns false for nil.
func (t setField) isSetBy(set *placementv1.RuleSettings) bool {
	found := false
	switch {
	case set == nil:
	case t.field == fieldLabels:
		_, found = set.Labels[t.key]
	case t.field == fieldAnnotations:
		_, found = set.Annotations[t.key]
	case t.field == podscheduling.NodeSelector:
		_, found = set.NodeSelector[t.key]
	case t.field == podscheduling.PriorityClassName:
		found = set.PriorityClassName != ""
	case t.field == fieldSchedulerName:
		found = set.SchedulerName != ""
	}
	return found
}

// Fields that rules set, beside those that podscheduling names.
const (
	fieldLabels        = language.RuleLabels
	fieldAnnotations   = language.RuleAnnotations
	fieldSchedulerName = "schedulerName"
)

// fieldValue is a text that a policy sets, as it is written in the policy, also with placeholders. Two texts are the same value only if
// they are written alike.
type fieldValue struct {
	at   place  // Where the policy sets the text.
	text string // The text; placeholders in it, such as {name}, stand for values of the object.
}

// sourcesOf returns the rules of a policy that set fields of each object that they decide, or one source with all constants that its Rego
// sets without conditions. It leaves out rules that only give clusters, and takes the spec as it is, even if spec.rollout.revision rolls it
// back. It returns none if the policy is not enforced, is decided by a remote engine, or does not compile.
func (f *Finder) sourcesOf(ctx context.Context, name string, spec placementv1.PlacementPolicySpec) []source {
	switch {
	case spec.Mode != placementv1.ModeEnforce || spec.Remote != nil:
		return nil
	case len(spec.Rules) > 0:
		return sourcesInRules(spec)
	}
	module, err := f.Compiler.Compile(ctx, name, spec)
	if err != nil {
		return nil
	}
	out := source{match: spec.Match, selects: selectedBy(spec.Match, nil), always: true, values: map[setField]fieldValue{}}
	for _, c := range lint.OutputConstants(module.Compiler) {
		path := c.Path
		if path[0] == language.RuleScheduling {
			path = path[1:]
		}
		if c.Always && len(path) <= 2 {
			out.values[setField{path[0], strings.Join(path[1:], "")}] = fieldValue{place{Position: c.Position}, c.Value}
		}
	}
	if len(out.values) == 0 {
		return nil
	}
	return []source{out}
}

// sourcesInRules returns those of spec.rules that set fields of each object that they decide: not those that may leave objects to the next
// rule, and not those that are certain to decide none.
func sourcesInRules(spec placementv1.PlacementPolicySpec) []source {
	return slices.DeleteFunc(decidingRules(spec), func(s source) bool {
		// A rule that may leave objects to the next one may set nothing.
		return len(s.values) == 0 || spec.Rules[s.index].Otherwise == placementv1.RuleOtherwiseNextRule
	})
}

// requiringRules returns the rules of a policy that give clusters by requirements that do not contradict each other, without those that are
// certain to decide no object; none if the policy is not enforced.
func requiringRules(spec placementv1.PlacementPolicySpec) []source {
	if spec.Mode != placementv1.ModeEnforce {
		return nil
	}
	return slices.DeleteFunc(decidingRules(spec), func(s source) bool {
		return len(rules.Required(spec.Rules, s.index)) == 0 || !rules.CanBeMet(spec.Rules[s.index].Require)
	})
}

// decidingRules returns the rules of a policy, without those of which no object is known that they may decide: each that they select also
// meets the condition of an earlier rule, even one with otherwise NextRule, or their own condition contradicts itself.
func decidingRules(spec placementv1.PlacementPolicySpec) []source {
	var out []source
	var before []placementv1.RuleCondition
	for i, rule := range spec.Rules {
		next := source{rule: rule.Name, index: i, match: spec.Match, selects: selectedBy(spec.Match, rule.When), before: slices.Clip(before),
			always: i == 0 && rule.When == nil, values: valuesSetBy(rule, i)}
		decidesNone := slices.ContainsFunc(before, func(c placementv1.RuleCondition) bool { return rules.AppliesWithin(&next.selects, &c) }) ||
			!rules.MayOverlap(&next.selects, &next.selects)
		if !decidesNone {
			out = append(out, next)
		}
		before = append(before, selectedBy(placementv1.Match{}, rule.When))
	}
	return out
}

// valuesSetBy returns the values that a rule sets, by field. i is the index of the rule in spec.rules.
func valuesSetBy(rule placementv1.Rule, i int) map[setField]fieldValue {
	set, at, out := rule.Set, specPath.Child("rules").Index(i).Child("set"), map[setField]fieldValue{}
	if set == nil {
		return nil
	}
	for key, text := range set.Labels {
		out[setField{fieldLabels, key}] = fieldValue{placeOf(at.Child(fieldLabels).Key(key)), string(text)}
	}
	for key, text := range set.Annotations {
		out[setField{fieldAnnotations, key}] = fieldValue{placeOf(at.Child(fieldAnnotations).Key(key)), string(text)}
	}
	for key, text := range set.NodeSelector {
		out[setField{podscheduling.NodeSelector, key}] = fieldValue{placeOf(at.Child(podscheduling.NodeSelector).Key(key)), string(text)}
	}
	if set.PriorityClassName != "" {
		out[setField{field: podscheduling.PriorityClassName}] = fieldValue{placeOf(at.Child(podscheduling.PriorityClassName)),
			set.PriorityClassName}
	}
	if set.SchedulerName != "" {
		out[setField{field: fieldSchedulerName}] = fieldValue{placeOf(at.Child(fieldSchedulerName)), set.SchedulerName}
	}
	return out
}

// selectedBy returns the condition of a rule together with the selectors of a match. when may be nil for a rule without condition.
func selectedBy(m placementv1.Match, when *placementv1.RuleCondition) placementv1.RuleCondition {
	if when == nil {
		when = &placementv1.RuleCondition{}
	}
	out := *when
	out.ObjectSelector, out.NamespaceSelector = bothSelectors(m.ObjectSelector, when.ObjectSelector),
		bothSelectors(m.NamespaceSelector, when.NamespaceSelector)
	return out
}

// bothSelectors returns a selector that selects what both a and b select.
func bothSelectors(a, b *metav1.LabelSelector) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	for _, s := range []*metav1.LabelSelector{a, b} {
		if s == nil {
			continue
		}
		for key, text := range s.MatchLabels {
			out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn,
				Values: []string{text}})
		}
		out.MatchExpressions = append(out.MatchExpressions, s.MatchExpressions...)
	}
	return out
}

// mayMeet reports whether a policy may set a field that s sets, too. It only looks for the name in Rego, so that few policies are compiled.
func (s setter) mayMeet(spec placementv1.PlacementPolicySpec) bool {
	for _, one := range s.sources {
		for t := range one.values {
			isSet := func(r placementv1.Rule) bool { return t.isSetBy(r.Set) }
			if slices.ContainsFunc(spec.Rules, isSet) || strings.Contains(spec.Rego, cmp.Or(t.key, t.field)) {
				return true
			}
		}
	}
	return false
}

// meets reports whether it is certain that objects can exist that both s and another source decide. If narrow is true, it reports whether
// the other one is certain to decide all objects that s decides.
func (s source) meets(other source, narrow bool) bool {
	if narrow {
		return resourcesWithin(s.match.ResourceRules, other.match.ResourceRules) && other.decidesAll(s)
	}
	return other.decidesAll(s) || s.decidesAll(other) || s.always && other.always && matchTogether(s.match, other.match)
}

// decidesAll reports whether s is certain to decide each object that the source narrow decides, if s matches the resource of the object. It
// returns false if the two may have no resource in common.
func (s source) decidesAll(narrow source) bool {
	resources := resourcesShared
	if narrow.selects.Expression != "" || len(narrow.match.MatchConditions) > 0 {
		// They may select other resources.
		resources = resourcesWithin
	}
	return resources(narrow.match.ResourceRules, s.match.ResourceRules) &&
		!slices.ContainsFunc(s.match.MatchConditions, func(wide admissionregistrationv1.MatchCondition) bool {
			return !slices.ContainsFunc(narrow.match.MatchConditions, func(c admissionregistrationv1.MatchCondition) bool {
				return c.Expression == wide.Expression
			})
		}) &&
		rules.AppliesWithin(&narrow.selects, &s.selects) &&
		!slices.ContainsFunc(s.before, func(c placementv1.RuleCondition) bool { return rules.MayOverlap(&c, &narrow.selects) })
}
