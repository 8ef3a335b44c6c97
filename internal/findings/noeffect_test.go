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
	"strings"
	"testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// TestVolatile checks which preferences move existing objects whenever pods start or end somewhere.
func TestVolatile(t *testing.T) {
	free := placementv1.Preference{Weight: 100, Requirement: placementv1.Requirement{Subject: placementv1.Subject{Free: "cpu"}, Operator: placementv1.OperatorMost}}
	property := placementv1.Preference{Weight: 100, Requirement: placementv1.Requirement{Subject: placementv1.Subject{Property: "cost"}, Operator: placementv1.OperatorLeast}}
	room := placementv1.Preference{Weight: 100, Requirement: placementv1.Requirement{Subject: placementv1.Subject{Free: "cpu"}, Operator: placementv1.OperatorGte, Values: []string{"8"}}}
	for name, test := range map[string]struct {
		rule placementv1.Rule
		mode placementv1.RemediationMode
		want bool
	}{
		"Free":       {placementv1.Rule{Limit: 1, Prefer: []placementv1.Preference{property, free}}, "", true},
		"Approved":   {placementv1.Rule{Limit: 1, Prefer: []placementv1.Preference{property, free}}, placementv1.RemediationApproved, true},
		"MinGain":    {placementv1.Rule{Limit: 1, MinGain: 20, Prefer: []placementv1.Preference{free}}, "", false},
		"MinGainOf1": {placementv1.Rule{Limit: 1, MinGain: 1, Prefer: []placementv1.Preference{property, free}}, "", true},
		"NewOnly":    {placementv1.Rule{Limit: 1, Prefer: []placementv1.Preference{free}}, placementv1.RemediationNewOnly, false},
		"Off":        {placementv1.Rule{Limit: 1, Prefer: []placementv1.Preference{free}}, placementv1.RemediationOff, false},
		"All":        {placementv1.Rule{Weights: placementv1.RuleWeightsScore, Prefer: []placementv1.Preference{free}}, "", true},
		"Property":   {placementv1.Rule{Limit: 1, Prefer: []placementv1.Preference{property}}, "", false},
		"Room":       {placementv1.Rule{Limit: 1, Prefer: []placementv1.Preference{room, property}}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			spec := placementv1.PlacementPolicySpec{Rules: []placementv1.Rule{test.rule}, Remediation: placementv1.Remediation{Mode: test.mode}}
			found := findingsOfVolatile(spec)
			if got := len(found) == 1 && strings.HasPrefix(found[0].Message, "spec.rules[0].prefer[") && found[0].Level == Advice; got != test.want || len(found) > 1 {
				t.Errorf("findings %v", found)
			}
		})
	}
}

// TestGroup checks which groups have no bound that their policies share.
func TestGroup(t *testing.T) {
	budgetOf := func(name string, b *placementv1.RemediationBudget) placementv1.PlacementPolicy {
		p := policyOf(t, name, "limit: 1", "prod")
		p.Spec.Remediation.Budget = b
		return p
	}
	alone := &placementv1.RemediationBudget{Group: "moves"}
	const want = `spec.remediation.budget.group has no effect: no policy of the group "moves" sets maxPerMinute, maxConcurrent, or perNamespace, which the ` +
		"policies of a group share. Set one of these, or remove group"
	for name, test := range map[string]struct {
		budget *placementv1.RemediationBudget
		other  placementv1.PlacementPolicy
		want   string
	}{
		"Alone":      {alone, budgetOf("p", alone), want},
		"NoBounds":   {alone, budgetOf("q", alone), want},
		"OtherGroup": {alone, budgetOf("q", &placementv1.RemediationBudget{Group: "others", MaxPerMinute: 1}), want},
		"NoBudget":   {alone, budgetOf("q", nil), want},
		"OfOther":    {alone, budgetOf("q", &placementv1.RemediationBudget{Group: "moves", MaxConcurrent: 1}), ""},
		"Own":        {&placementv1.RemediationBudget{Group: "moves", PerNamespace: 1}, budgetOf("q", nil), ""},
		"NoGroup":    {&placementv1.RemediationBudget{MaxPerMinute: 1}, budgetOf("q", nil), ""},
		"None":       {nil, budgetOf("q", nil), ""},
	} {
		f := &Finder{Policies: only(test.other)}
		if got := f.findingsOfGroup(t.Context(), "p", budgetOf("p", test.budget).Spec); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
	if got := (&Finder{}).findingsOfGroup(t.Context(), "p", budgetOf("p", alone).Spec); len(got) > 0 {
		t.Errorf("without policies: got %+v", got)
	}
}

// TestStageFailures checks in which modes pauseAfterFailures of a stage has no effect.
func TestStageFailures(t *testing.T) {
	for mode, want := range map[placementv1.RemediationMode]string{
		placementv1.RemediationNewOnly: "spec.rollout.stages[1].pauseAfterFailures has no effect with remediation.mode: NewOnly: no object fails",
		placementv1.RemediationOff:     "spec.rollout.stages[1].pauseAfterFailures has no effect with remediation.mode: Off",
		placementv1.RemediationManual:  "", "": "",
	} {
		spec := placementv1.PlacementPolicySpec{Rollout: decoded[*placementv1.PolicyRollout](t, "stages: [{name: a, pauseAfterFailures: 1}, {name: b, pauseAfterFailures: 5}, {name: c}]")}
		spec.Remediation.Mode = mode
		if got := findingsOfStageFailures(spec); !finds(got, want) {
			t.Errorf("%s: got %+v, want %q", mode, got, want)
		}
	}
}
