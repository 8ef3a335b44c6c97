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

	"k8s.io/apimachinery/pkg/util/intstr"

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

// TestUnavailable checks which numbers of unavailable objects may be percentages, and for how many objects they are.
func TestUnavailable(t *testing.T) {
	for name, test := range map[string]struct {
		of    *intstr.IntOrString
		want  string
		below int32
	}{
		"Percentage": {new(intstr.FromString("25%")), "", 0},
		"Number": {new(intstr.FromInt32(25)), `spec.remediation.budget.maxUnavailable: 25 bounds nothing while the policy matches no more than 25 objects: ` +
			`all of them may be unavailable at the same time. For a percentage, write "25%"`, 13},
		"One":     {new(intstr.FromInt32(1)), "", 0},
		"Uneven":  {new(intstr.FromInt32(24)), "", 0},
		"Default": {nil, "", 0},
	} {
		spec := placementv1.PlacementPolicySpec{Remediation: placementv1.Remediation{Budget: &placementv1.RemediationBudget{MaxUnavailable: test.of}}}
		got := findingsOfUnavailable(spec)
		if !finds(got, test.want) || len(got) == 1 && (got[0].Below != test.below || got[0].Until != 26 || got[0].Level != Advice) {
			t.Errorf("%s: got %+v, want %q below %d", name, got, test.want, test.below)
		}
	}
	if got := findingsOfUnavailable(placementv1.PlacementPolicySpec{}); len(got) > 0 {
		t.Errorf("without a budget: got %+v", got)
	}
}
