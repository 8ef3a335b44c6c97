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
	"fmt"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// policyOf returns a policy with one rule for the Deployments of the namespaces with a label.
func policyOf(t *testing.T, name, rule, namespace string) placementv1.PlacementPolicy {
	t.Helper()
	out := placementv1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	out.Spec.Match.ResourceRules = []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}}
	out.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": namespace}}
	out.Spec.Rules = []placementv1.Rule{ruleFrom(t, rule)}
	return out
}

// only returns what lists one policy.
func only(p placementv1.PlacementPolicy) func(context.Context) ([]placementv1.PlacementPolicy, error) {
	return func(context.Context) ([]placementv1.PlacementPolicy, error) {
		return []placementv1.PlacementPolicy{p}, nil
	}
}

// TestPoliciesThatLeaveNoCluster checks with which other policies no cluster is left.
func TestPoliciesThatLeaveNoCluster(t *testing.T) {
	const (
		eu, us = "require: [{field: region, operator: In, values: [eu]}]", "require: [{field: region, operator: In, values: [us]}]"
		ofWeb  = "when: {objectSelector: {matchLabels: {app: web}}}, "
		ofDB   = "when: {objectSelector: {matchLabels: {app: db}}}, "
		with   = "spec.rules[0].require: no cluster can ever meet these requirements and those of "
	)
	// of returns a policy with rules named a, b, and so on.
	of := func(name, namespace string, list ...string) placementv1.PlacementPolicy {
		out := policyOf(t, name, list[0], namespace)
		for i, text := range list[1:] {
			rule := ruleFrom(t, text)
			rule.Name = string(rune('b' + i))
			out.Spec.Rules = append(out.Spec.Rules, rule)
		}
		return out
	}
	dry := of("b", "prod", us)
	dry.Spec.Mode = placementv1.ModeDryRun
	rolledBack := of("b", "prod", us)
	rolledBack.Spec.Rollout = &placementv1.PolicyRollout{Revision: 1}
	jobs := of("b", "prod", us)
	jobs.Spec.Match.ResourceRules = []placementv1.ResourceRule{{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs"}}}
	for name, test := range map[string]struct {
		other placementv1.PlacementPolicy
		rules []string // Those of the policy.
		want  string
	}{
		"Contradiction": {of("b", "prod", us), []string{eu}, with + "policy b: objects that both policies match are denied, because an object gets the " +
			"clusters that all policies allow. Change one of the policies, or what it matches"},
		"OtherObjects":   {of("b", "test", us), []string{eu}, ""},
		"OtherKind":      {jobs, []string{eu}, ""},
		"Overlap":        {of("b", "prod", "require: [{field: region, operator: In, values: [us, eu]}]"), []string{eu}, ""},
		"OwnLastVersion": {of("a", "prod", us), []string{eu}, ""},
		"DryRun":         {dry, []string{eu}, ""},
		"RolledBack":     {rolledBack, []string{eu}, ""},

		// Rules with conditions.
		"Conditional": {of("b", "prod", "when: {expression: has(object.spec.replicas)}, "+us), []string{eu},
			with + "rule a of policy b: objects to which both rules apply are denied, because"},
		"OursIsConditional": {of("b", "prod", us), []string{ofWeb + eu}, with + "rule a of policy b: objects to which both rules apply"},
		"SameCondition":     {of("b", "prod", ofWeb+us), []string{ofWeb + eu}, with + "rule a of policy b"},
		"OtherCondition":    {of("b", "prod", ofDB+us), []string{ofWeb + eu}, ""},
		"PerhapsBoth":       {of("b", "prod", "when: {objectSelector: {matchLabels: {team: shop}}}, "+us), []string{ofWeb + eu}, ""},
		"SecondRule":        {of("b", "prod", ofDB+eu, ofWeb+us), []string{eu}, with + "rule b of policy b"},
		"SeveralRules": {of("b", "prod", ofDB+us, ofWeb+us, eu), []string{eu},
			with + "any of the rules a, b of policy b: objects to which this rule and one of those apply are denied"},
		"TheRest":     {of("b", "prod", ofWeb+eu, us), []string{ofWeb + eu, "deny: no"}, ""},
		"OnlyTheRest": {of("b", "prod", ofWeb+eu, us), []string{eu}, with + "rule b of policy b"},
		// It finds clusters, and so it decides.
		"NextRule":     {of("b", "prod", us+", limit: 1, otherwise: NextRule", ofWeb+eu), []string{eu}, with + "policy b"},
		"NeverReached": {of("b", "prod", ofWeb+eu, ofWeb+us), []string{eu}, ""},
		"Nodes":        {of("b", "prod", "candidates: Nodes, "+us), []string{eu}, ""},
		"Impossible":   {of("b", "prod", "require: [{field: region, operator: In, values: [us]}, {field: region, operator: In, values: [ap]}]"), []string{eu}, ""},
	} {
		f := &Finder{Policies: only(test.other)}
		if got := f.findingsOfOthers(t.Context(), "a", of("a", "prod", test.rules...).Spec); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
}

// TestOrderOfOthers checks that the order in which policies are listed, which a cache changes, does not change the findings, so that the
// status is not written again.
func TestOrderOfOthers(t *testing.T) {
	list := []placementv1.PlacementPolicy{policyOf(t, "a", "set: {labels: {tier: a}}", "prod"), policyOf(t, "c", "set: {labels: {tier: c}}", "prod")}
	of := func() []Finding {
		f := &Finder{Policies: func(context.Context) ([]placementv1.PlacementPolicy, error) { return slices.Clone(list), nil }}
		return f.findingsOfOthers(t.Context(), "b", policyOf(t, "b", "set: {labels: {tier: b}}", "prod").Spec)
	}
	before := of()
	if slices.Reverse(list); len(before) != 2 || !slices.Equal(before, of()) {
		t.Errorf("%v, and in another order %v", before, of())
	}
}

// TestPoliciesThatSetAField checks which of two policies that set a field to different values is said to win, and when nothing is said.
func TestPoliciesThatSetAField(t *testing.T) {
	const gold, silver = "set: {labels: {tier: gold}, priorityClassName: gold}", "set: {labels: {tier: silver}}"
	change := func(p placementv1.PlacementPolicy, change func(*placementv1.PlacementPolicySpec)) placementv1.PlacementPolicy {
		change(&p.Spec)
		return p
	}
	wide := func(s *placementv1.PlacementPolicySpec) { s.Match.NamespaceSelector = nil }
	priority := func(n int32) func(*placementv1.PlacementPolicySpec) {
		return func(s *placementv1.PlacementPolicySpec) { s.Priority = n }
	}
	rollBack := func(s *placementv1.PlacementPolicySpec) { s.Rollout = &placementv1.PolicyRollout{Revision: 1} }
	ours := policyOf(t, "b", silver, "prod")
	// rules gives a policy other rules, and rego Rego in their place.
	rules := func(p placementv1.PlacementPolicy, texts ...string) placementv1.PlacementPolicy {
		p.Spec.Rules = nil
		for i, text := range texts {
			rule := ruleFrom(t, text)
			rule.Name = fmt.Sprintf("r%d", i)
			p.Spec.Rules = append(p.Spec.Rules, rule)
		}
		return p
	}
	rego := func(p placementv1.PlacementPolicy, text string) placementv1.PlacementPolicy {
		p.Spec.Rules, p.Spec.RegoVersion, p.Spec.Rego = nil, placementv1.RegoV1, "package p\n\n"+text
		return p
	}
	const (
		ofWeb  = "when: {objectSelector: {matchLabels: {app: web}}}, "
		ofSome = "when: {objectSelector: {matchExpressions: [{key: app, operator: In, values: [web, db]}]}}, "
		scaled = "when: {expression: has(object.spec.replicas)}, "
		both   = "on objects that both apply to"
	)
	conditional := func(s *placementv1.PlacementPolicySpec) {
		s.Match.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "c", Expression: "has(object.spec)"}}
	}
	jobs := func(s *placementv1.PlacementPolicySpec) {
		s.Match.ResourceRules = append(slices.Clone(s.Match.ResourceRules), placementv1.ResourceRule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs"}})
	}
	for name, test := range map[string]struct {
		other, policy placementv1.PlacementPolicy
		want          string
	}{
		"FirstName": {policyOf(t, "a", gold, "prod"), ours, `spec.rules[0].set.labels[tier]: policy a sets this field to "gold" on objects that both policies match, ` +
			"and these objects get the value of policy a: spec.priority of both is 0, and the policy whose name sorts first wins. Change one of these priorities, or set the field in only one policy"},
		"LastName": {policyOf(t, "c", gold, "prod"), ours, "and these objects get the value of this policy: spec.priority of both is 0"},
		// The author of the other policy is told.
		"Higher":        {change(policyOf(t, "a", gold, "prod"), priority(-1)), ours, ""},
		"Lower":         {change(policyOf(t, "c", gold, "prod"), priority(1)), ours, "and these objects get the value of policy c: spec.priority is 0 in this policy, and 1 in the other one"},
		"Template":      {policyOf(t, "a", "set: {labels: {tier: '{namespace}'}}", "prod"), ours, `sets this field to "{namespace}"`},
		"Wider":         {change(policyOf(t, "a", gold, "prod"), wide), ours, "labels[tier]"},
		"HigherIsWider": {change(change(policyOf(t, "a", gold, "prod"), wide), priority(1)), ours, "these objects get the value of policy a"},
		"Class": {policyOf(t, "a", gold, "prod"), policyOf(t, "b", "set: {labels: {tier: gold}, priorityClassName: silver}", "prod"),
			"spec.rules[0].set.priorityClassName"},
		// A policy of higher priority makes an exception from another one.
		"Exception":    {change(policyOf(t, "a", gold, "prod"), wide), change(ours, priority(1)), ""},
		"Excepted":     {change(policyOf(t, "c", gold, "prod"), priority(1)), change(ours, wide), ""},
		"Same":         {policyOf(t, "a", silver, "prod"), ours, ""},
		"OtherObjects": {policyOf(t, "a", gold, "test"), ours, ""},
		"OtherKey":     {policyOf(t, "a", "set: {labels: {level: gold}}", "prod"), ours, ""},

		// Rules with conditions.
		"Conditional":     {policyOf(t, "a", scaled+gold, "prod"), ours, `spec.rules[0].set.labels[tier]: rule a of policy a sets this field to "gold" ` + both},
		"OursToo":         {policyOf(t, "a", scaled+gold, "prod"), policyOf(t, "b", scaled+silver, "prod"), both},
		"OtherExpression": {policyOf(t, "a", "when: {expression: has(object.spec.paused)}, "+gold, "prod"), policyOf(t, "b", scaled+silver, "prod"), ""},
		"Narrower":        {policyOf(t, "a", ofWeb+gold, "prod"), policyOf(t, "b", ofSome+silver, "prod"), both},
		"SelectedByMatch": {policyOf(t, "a", "when: {namespaceSelector: {matchLabels: {env: prod}}}, "+gold, "prod"), change(ours, wide), both},
		"Disjoint":        {policyOf(t, "a", ofWeb+gold, "prod"), policyOf(t, "b", "when: {objectSelector: {matchLabels: {app: db}}}, "+silver, "prod"), ""},
		"PerhapsBoth":     {policyOf(t, "a", ofWeb+gold, "prod"), policyOf(t, "b", "when: {objectSelector: {matchLabels: {team: shop}}}, "+silver, "prod"), ""},
		"SecondRule": {rules(policyOf(t, "a", gold, "prod"), ofWeb+"set: {labels: {other: x}}", "when: {objectSelector: {matchLabels: {app: db}}}, "+gold),
			policyOf(t, "b", "when: {objectSelector: {matchLabels: {app: db}}}, "+silver, "prod"), "rule r1 of policy a"},
		// An earlier rule of the other policy may decide the same objects.
		"FirstRuleDecides": {rules(policyOf(t, "a", gold, "prod"), scaled+"set: {labels: {other: x}}", ofSome+gold), policyOf(t, "b", ofWeb+silver, "prod"), ""},
		"TheRest":          {rules(policyOf(t, "a", gold, "prod"), ofWeb+"set: {labels: {tier: silver}}", gold), policyOf(t, "b", ofWeb+silver, "prod"), ""},
		"NeverReached":     {rules(policyOf(t, "a", gold, "prod"), ofSome+"set: {labels: {tier: silver}}", ofWeb+gold), ours, ""},
		"LeavesToTheNext":  {policyOf(t, "a", ofWeb+gold+", limit: 1, otherwise: NextRule", "prod"), ours, ""},
		"ConditionalLower": {change(policyOf(t, "a", ofSome+gold, "prod"), priority(1)), policyOf(t, "b", ofWeb+silver, "prod"), "these objects get the value of policy a: spec.priority is 0"},
		// The value of the lower priority is for the other objects.
		"ConditionalException": {change(policyOf(t, "a", ofWeb+gold, "prod"), priority(1)), policyOf(t, "b", ofSome+silver, "prod"), ""},
		"MatchCondition":       {policyOf(t, "a", gold, "prod"), change(ours, conditional), "labels[tier]"},
		"OtherMatchCondition":  {change(policyOf(t, "a", scaled+gold, "prod"), conditional), policyOf(t, "b", scaled+silver, "prod"), both},
		// The expression may select the Jobs alone.
		"OtherKind": {change(policyOf(t, "a", scaled+gold, "prod"), jobs), ours, ""},

		// Rego.
		"RegoDiffers": {policyOf(t, "a", gold, "prod"), rego(ours, `labels.tier := "silver"`),
			`labels[tier]: policy a sets this field to "gold" on objects that both policies match, and these objects get the value of policy a`},
		"OtherIsRego":  {rego(policyOf(t, "a", gold, "prod"), `labels["tier"] := "gold"`), ours, `spec.rules[0].set.labels[tier]: policy a sets this field to "gold"`},
		"BothRego":     {rego(policyOf(t, "a", gold, "prod"), `scheduling.priorityClassName := "gold"`), rego(ours, `scheduling := {"priorityClassName": "silver"}`), `priorityClassName: policy a sets this field to "gold"`},
		"RegoOfSome":   {rego(policyOf(t, "a", gold, "prod"), `labels.tier := "gold" if input.spec.replicas > 1`), ours, ""},
		"RegoOfObject": {rego(policyOf(t, "a", gold, "prod"), `labels.tier := input.kind`), ours, ""},
		"RegoAndRule":  {rego(policyOf(t, "a", gold, "prod"), `labels.tier := "gold"`), policyOf(t, "b", ofWeb+silver, "prod"), `policy a sets this field to "gold" ` + both},
		"NoRego":       {rego(policyOf(t, "a", gold, "prod"), `labels.tier := `), ours, ""},
		"Itself":       {policyOf(t, "b", gold, "prod"), ours, ""},
		"RolledBack":   {change(policyOf(t, "a", gold, "prod"), rollBack), ours, ""},
		"ItselfBack":   {policyOf(t, "a", gold, "prod"), change(ours, rollBack), ""},
		"Warns":        {change(policyOf(t, "a", gold, "prod"), func(s *placementv1.PlacementPolicySpec) { s.Mode = placementv1.ModeWarn }), ours, ""},
	} {
		f := &Finder{Policies: only(test.other)}
		if got := f.findingsOfOthers(t.Context(), "b", test.policy.Spec); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
}
