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
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/policy/lint"
	"github.com/berth-dev/berth/internal/rules"
)

// setter is a policy that sets fields of objects.
type setter struct {
	name     string
	priority int32
	sources  []source
}

// source is a part of an enforced policy that sets fields of each object that it decides: a rule of spec.rules, or Rego without conditions.
type source struct {
	// rule is the name of the rule; "" for Rego.
	rule  string
	match placementv1.Match
	// selects has the condition of the rule, and the selectors of match. before are the conditions of the rules before it.
	selects placementv1.RuleCondition
	before  []placementv1.RuleCondition
	// always reports whether it decides each object that the policy matches.
	always bool
	// values has what it sets, by the field, such as labels[tier].
	values map[string]fieldValue
}

// fieldValue is a text that a policy sets, which may have placeholders.
type fieldValue struct {
	at   place
	text string
}

// sourcesOf returns the parts of an enforced policy that set fields; none of a policy that does not compile.
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
	out := source{match: spec.Match, selects: selectedBy(spec.Match, nil), always: true, values: map[string]fieldValue{}}
	for _, c := range lint.OutputConstants(module.Compiler) {
		path := c.Path
		if path[0] == language.RuleScheduling {
			path = path[1:]
		}
		if c.Always && len(path) <= 2 {
			out.values[fieldAt(path...)] = fieldValue{place{Position: c.Position}, c.Value}
		}
	}
	if len(out.values) == 0 {
		return nil
	}
	return []source{out}
}

// fieldAt names a field, such as labels[tier].
func fieldAt(path ...string) string {
	if len(path) == 1 {
		return path[0]
	}
	return path[0] + "[" + path[1] + "]"
}

// sourcesInRules returns the rules that set fields of each object that they decide, without those that are certain to decide none.
func sourcesInRules(spec placementv1.PlacementPolicySpec) []source {
	var out []source
	var before []placementv1.RuleCondition
	for i, rule := range spec.Rules {
		next := source{rule: rule.Name, match: spec.Match, selects: selectedBy(spec.Match, rule.When), before: slices.Clip(before),
			always: i == 0 && rule.When == nil, values: valuesSetBy(rule, i)}
		decidesNone := slices.ContainsFunc(before, func(c placementv1.RuleCondition) bool { return rules.AppliesWithin(&next.selects, &c) }) ||
			!rules.MayOverlap(&next.selects, &next.selects)
		// A rule that may leave objects to the next one may set nothing.
		if len(next.values) > 0 && rule.Otherwise != placementv1.RuleOtherwiseNextRule && !decidesNone {
			out = append(out, next)
		}
		before = append(before, selectedBy(placementv1.Match{}, rule.When))
	}
	return out
}

// valuesSetBy returns what a rule sets.
func valuesSetBy(rule placementv1.Rule, i int) map[string]fieldValue {
	set, at, out := rule.Set, specPath.Child("rules").Index(i).Child("set"), map[string]fieldValue{}
	if set == nil {
		return nil
	}
	for key, text := range set.Labels {
		out[fieldAt("labels", key)] = fieldValue{placeOf(at.Child("labels").Key(key)), string(text)}
	}
	for key, text := range set.Annotations {
		out[fieldAt("annotations", key)] = fieldValue{placeOf(at.Child("annotations").Key(key)), string(text)}
	}
	for key, text := range set.NodeSelector {
		out[fieldAt("nodeSelector", key)] = fieldValue{placeOf(at.Child("nodeSelector").Key(key)), string(text)}
	}
	if set.PriorityClassName != "" {
		out["priorityClassName"] = fieldValue{placeOf(at.Child("priorityClassName")), set.PriorityClassName}
	}
	if set.SchedulerName != "" {
		out["schedulerName"] = fieldValue{placeOf(at.Child("schedulerName")), set.SchedulerName}
	}
	return out
}

// selectedBy returns a condition that demands what a match selects by labels, and what the condition of a rule demands.
func selectedBy(m placementv1.Match, when *placementv1.RuleCondition) placementv1.RuleCondition {
	if when == nil {
		when = &placementv1.RuleCondition{}
	}
	out := *when
	out.ObjectSelector, out.NamespaceSelector = bothSelectors(m.ObjectSelector, when.ObjectSelector), bothSelectors(m.NamespaceSelector, when.NamespaceSelector)
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
			out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{text}})
		}
		out.MatchExpressions = append(out.MatchExpressions, s.MatchExpressions...)
	}
	return out
}

// mayMeet reports whether a policy may set a field that s sets, too. It only looks for rules, or for the names in Rego, so that it compiles
// nothing.
func (s setter) mayMeet(spec placementv1.PlacementPolicySpec) bool {
	named := func(field string) bool {
		_, key, _ := strings.Cut(strings.TrimSuffix(field, "]"), "[")
		if key == "" {
			key = field
		}
		return strings.Contains(spec.Rego, key)
	}
	return len(spec.Rules) > 0 || slices.ContainsFunc(s.sources, func(one source) bool {
		for field := range one.values {
			if named(field) {
				return true
			}
		}
		return false
	})
}

// meets reports whether some objects are certain to be decided by both s and another source. narrow demands that these are all that s
// decides.
func (s source) meets(other source, narrow bool) bool {
	if narrow {
		return resourcesWithin(s.match.ResourceRules, other.match.ResourceRules) && other.decidesAll(s)
	}
	return other.decidesAll(s) || s.decidesAll(other) || s.always && other.always && matchTogether(s.match, other.match)
}

// decidesAll reports whether s decides all that another source decides, of the resources that both match. It returns false if they may have
// none in common.
func (s source) decidesAll(narrow source) bool {
	resources := resourcesShared
	if narrow.selects.Expression != "" || len(narrow.match.MatchConditions) > 0 {
		// They may select other resources.
		resources = resourcesWithin
	}
	return resources(narrow.match.ResourceRules, s.match.ResourceRules) &&
		!slices.ContainsFunc(s.match.MatchConditions, func(wide admissionregistrationv1.MatchCondition) bool {
			return !slices.ContainsFunc(narrow.match.MatchConditions, func(c admissionregistrationv1.MatchCondition) bool { return c.Expression == wide.Expression })
		}) &&
		rules.AppliesWithin(&narrow.selects, &s.selects) &&
		!slices.ContainsFunc(s.before, func(c placementv1.RuleCondition) bool { return rules.MayOverlap(&c, &narrow.selects) })
}
