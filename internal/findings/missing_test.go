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
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// values is a test of the rules that take values from labels or annotations.
type values struct {
	rules []string
	match placementv1.Match
	want  string
}

// find returns the findings in the rules of an enforced policy, which has the change.
func (v values) find(t *testing.T, f *Finder, change func(*placementv1.PlacementPolicySpec)) []Finding {
	t.Helper()
	m, errs := match.New(v.match, matchPath)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	spec := placementv1.PlacementPolicySpec{Match: v.match}
	for _, text := range v.rules {
		spec.Rules = append(spec.Rules, ruleFrom(t, text))
	}
	change(&spec)
	return f.findingsOfMissingValues(t.Context(), "p", spec, m)
}

// ofLevels matches the objects with the label level, and conditional those that meet a condition.
var (
	ofLevels    = placementv1.Match{ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "level", Operator: metav1.LabelSelectorOpExists}}}}
	conditional = placementv1.Match{MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "a", Expression: "has(object.metadata.annotations)"}}}
)

// ofLabel and ofAnnotation are rules that take a value from the object.
const (
	ofLabel      = "require: [{label: level, operator: Gte, valueFrom: {label: level}}]"
	ofAnnotation = "require: [{field: name, operator: In, valueFrom: {annotation: a/b}}]"
)

// TestMissingValues checks which rules deny objects without a label or annotation whose value they take.
func TestMissingValues(t *testing.T) {
	for name, test := range map[string]values{
		"Label":       {[]string{ofLabel}, placementv1.Match{}, "spec.rules[0].require[0].valueFrom: an object without label level is denied, because no cluster meets the requirement"},
		"Nodes":       {[]string{ofLabel + ", candidates: Nodes"}, placementv1.Match{}, "spec.rules[0].require[0].valueFrom: an object without label level is denied. Set default"},
		"Annotation":  {[]string{ofAnnotation}, ofLevels, "an object without annotation a/b is denied"},
		"Default":     {[]string{"require: [{label: level, operator: Gte, valueFrom: {label: level, default: '0'}}]"}, placementv1.Match{}, ""},
		"Reason":      {[]string{"require: [{label: level, operator: Gte, valueFrom: {label: level}, reason: no level}]"}, placementv1.Match{}, ""},
		"Message":     {[]string{ofAnnotation + ", message: '{name} must name its cluster in a/b'"}, placementv1.Match{}, ""},
		"Matched":     {[]string{ofLabel}, ofLevels, ""},
		"Conditional": {[]string{ofAnnotation}, conditional, ""},
		"Selected":    {[]string{ofAnnotation + ", when: {annotations: [{key: a/b, operator: Exists}]}"}, placementv1.Match{}, ""},
		"Exempt":      {[]string{"when: {annotations: [{key: a/b, operator: DoesNotExist}]}, warn: add a/b", ofAnnotation}, placementv1.Match{}, ""},
		"NextRule":    {[]string{ofAnnotation + ", otherwise: NextRule", "limit: 1"}, placementv1.Match{}, ""},
		"Values":      {[]string{"require: [{label: level, operator: Gte, values: ['1']}]"}, placementv1.Match{}, ""},
	} {
		if got := test.find(t, &Finder{}, func(*placementv1.PlacementPolicySpec) {}); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
	for _, mode := range []placementv1.Mode{placementv1.ModeWarn, placementv1.ModeDryRun} {
		if got := (values{rules: []string{ofLabel}}).find(t, &Finder{}, func(s *placementv1.PlacementPolicySpec) { s.Mode = mode }); len(got) > 0 {
			t.Errorf("%s denies nothing: got %+v", mode, got)
		}
	}
}

// TestDemandedValues checks which other policies see to it that objects have a label or annotation whose value a rule takes.
func TestDemandedValues(t *testing.T) {
	change := func(p placementv1.PlacementPolicy, change func(*placementv1.PlacementPolicySpec)) placementv1.PlacementPolicy {
		change(&p.Spec)
		return p
	}
	const demands = "when: {annotations: [{key: a/b, operator: DoesNotExist}]}, deny: a/b is missing"
	inRego := policyOf(t, "q", "limit: 1", "prod")
	inRego.Spec.Rules, inRego.Spec.Rego = nil, `errors contains "no a/b" if not input.metadata.annotations["a/b"]`
	test := values{[]string{ofAnnotation}, policyOf(t, "p", "limit: 1", "prod").Spec.Match, ""}
	for name, tc := range map[string]struct {
		other  placementv1.PlacementPolicy
		silent bool
	}{
		"Denies":       {policyOf(t, "q", demands, "prod"), true},
		"InRego":       {inRego, true},
		"Wider":        {change(policyOf(t, "q", demands, "prod"), func(s *placementv1.PlacementPolicySpec) { s.Match.NamespaceSelector = nil }), true},
		"Itself":       {policyOf(t, "p", demands, "prod"), false},
		"OtherObjects": {policyOf(t, "q", demands, "test"), false},
		"Warns":        {change(policyOf(t, "q", demands, "prod"), func(s *placementv1.PlacementPolicySpec) { s.Mode = placementv1.ModeWarn }), false},
		"RolledBack": {change(policyOf(t, "q", demands, "prod"), func(s *placementv1.PlacementPolicySpec) {
			s.Rollout = &placementv1.PolicyRollout{Revision: 1}
		}), false},
		"OtherKey": {policyOf(t, "q", "when: {annotations: [{key: a, operator: DoesNotExist}]}, deny: a is missing", "prod"), false},
		"Sets":     {policyOf(t, "q", "set: {annotations: {a/b: eu-1}}", "prod"), false},
	} {
		got := test.find(t, &Finder{Policies: only(tc.other)}, func(*placementv1.PlacementPolicySpec) {})
		if (len(got) == 0) != tc.silent {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// TestEmptyTexts checks which labels and annotations a rule sets to an empty or invalid text on objects without a value.
func TestEmptyTexts(t *testing.T) {
	for name, test := range map[string]values{
		"Label":        {[]string{"set: {labels: {tier: '{label:level}'}}"}, placementv1.Match{}, "spec.rules[0].set.labels[tier]: an object without label level gets an empty text. Let the rule's when select only objects that have it"},
		"Annotation":   {[]string{"set: {annotations: {tier: '{annotation:a/b}{label:level}'}}"}, ofLevels, ""},
		"Both":         {[]string{"set: {annotations: {tier: '{annotation:a/b}{label:c}'}}"}, ofLevels, "spec.rules[0].set.annotations[tier]: an object without annotation a/b gets an empty text"},
		"InvalidLabel": {[]string{"set: {labels: {tier: 'level-{label:level}'}}"}, placementv1.Match{}, "an object without label level can't be decided, because the rest of the text is not a valid value of a label"},
		"Part":         {[]string{"set: {annotations: {tier: 'level-{label:level}'}}"}, placementv1.Match{}, ""},
		"ValidLabel":   {[]string{"set: {labels: {tier: 'level{label:level}'}}"}, placementv1.Match{}, ""},
		"Matched":      {[]string{"set: {labels: {tier: '{label:level}'}}"}, ofLevels, ""},
		"Selected":     {[]string{"set: {labels: {tier: '{label:level}'}}, when: {objectSelector: {matchLabels: {level: high}}}"}, placementv1.Match{}, ""},
		"Conditional":  {[]string{"set: {labels: {tier: '{annotation:a/b}'}}"}, conditional, ""},
		"NextRule":     {[]string{"set: {labels: {tier: '{label:level}'}}, limit: 1, otherwise: NextRule", "limit: 1"}, placementv1.Match{}, "set.labels[tier]"},
		"Name":         {[]string{"set: {labels: {tier: '{name}-a'}, annotations: {tier: '', b: '{{label:c}}'}}"}, placementv1.Match{}, ""},
	} {
		if got := test.find(t, &Finder{}, func(*placementv1.PlacementPolicySpec) {}); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
	warn := func(s *placementv1.PlacementPolicySpec) { s.Mode = placementv1.ModeWarn }
	if got := (values{rules: []string{"set: {labels: {tier: '{label:level}'}}"}}).find(t, &Finder{}, warn); len(got) > 0 {
		t.Errorf("a policy that warns sets nothing: got %+v", got)
	}
}
