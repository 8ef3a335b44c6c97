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

package policystatus_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/policystatus"
	"github.com/berth-dev/berth/internal/findings"
	"github.com/berth-dev/berth/internal/policy/lint"
	"github.com/berth-dev/berth/internal/status"
	"github.com/berth-dev/berth/internal/typecheck"
)

func TestTypeChecked(t *testing.T) {
	found := typecheck.Result{
		Findings: []typecheck.Finding{{Position: lint.Position{Row: 3, Col: 7}, Message: "input.spek is undefined"}}, Total: 12,
	}
	fatal := found
	fatal.Impossible = []string{"annotations"}
	tests := map[string]struct {
		types       *status.TypeState
		want, ready string
		findings    int32
		others      []string
		// says has parts of the message of Compiled.
		says  []string
		rules map[string]int
	}{
		"NotCheckedYet": {want: placementv1.ReasonCompiled, ready: placementv1.ReasonInForce},
		"Sound":         {types: &status.TypeState{}, want: placementv1.ReasonTypeChecked, ready: placementv1.ReasonInForce},
		"Findings":      {types: &status.TypeState{Result: found}, want: placementv1.ReasonTypeErrors, ready: placementv1.ReasonInForce, findings: 12, says: []string{"12 probable mistakes (status.findings, such as rego:3:7: input.spek is undefined)"}},
		"Impossible":    {types: &status.TypeState{Result: fatal}, want: placementv1.ReasonTypeErrors, ready: placementv1.ReasonTypeErrors, findings: 12, says: []string{"the policy's rules for annotations can never have a value", "12 probable mistakes (status.findings, such as rego:3:7: input.spek is undefined)"}},
		"NoSchemas":     {types: &status.TypeState{Err: errors.New("down")}, want: placementv1.ReasonSchemasUnavailable, ready: placementv1.ReasonInForce},
		"TooMuchWorkAndMistake": {
			types: &status.TypeState{Result: typecheck.Result{Unchecked: "too large"}, Others: []findings.Finding{{Message: "wrong"}}},
			want:  placementv1.ReasonNotChecked, ready: placementv1.ReasonInForce, others: []string{"wrong"},
		},
		"Mistake": {types: &status.TypeState{Others: []findings.Finding{{Message: "wrong"}}}, want: placementv1.ReasonTypeErrors, ready: placementv1.ReasonInForce, others: []string{"wrong"}, says: []string{"1 probable mistake ("}},
		"UndecidableTypes": {
			types: &status.TypeState{Others: []findings.Finding{{Message: "advice", Level: findings.Advice}, {Message: "no pods", Impossible: "scheduling"}}},
			want:  placementv1.ReasonTypeErrors, ready: placementv1.ReasonTypeErrors, others: []string{"no pods", "advice"},
		},
		"Advice": {types: &status.TypeState{Others: []findings.Finding{{Message: "advice", Level: findings.Advice}}}, want: placementv1.ReasonTypeChecked, ready: placementv1.ReasonInForce, others: []string{"advice"}, says: []string{"1 remark ("}},
		"IdleRule": {
			types: &status.TypeState{Others: []findings.Finding{{Message: "idle", Rule: "a"}, {Message: "decides objects", Rule: "b"}, {Message: "gone", Rule: "c"}}},
			want:  placementv1.ReasonTypeErrors, ready: placementv1.ReasonInForce, others: []string{"idle"}, rules: map[string]int{"b": 5},
		},
		"ObjectsOfOthers": {
			types: &status.TypeState{Others: []findings.Finding{{Message: "idle", Rule: "a", Instead: "c,b"}}},
			want:  placementv1.ReasonTypeChecked, ready: placementv1.ReasonInForce, others: []string{}, rules: map[string]int{"b": 5},
		},
		"OthersAreIdle": {
			types: &status.TypeState{Others: []findings.Finding{{Message: "idle", Rule: "b", Instead: "a"}}},
			want:  placementv1.ReasonTypeErrors, ready: placementv1.ReasonInForce, others: []string{"idle"}, rules: map[string]int{},
		},
		"TooMuchWork": {types: &status.TypeState{Result: typecheck.Result{Unchecked: "too large"}}, want: placementv1.ReasonNotChecked, ready: placementv1.ReasonInForce},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := sound()
			f.Types, f.Report.Rules, f.State.Policy.Rules = tc.types, tc.rules, []string{"a", "b"}
			f.State.Warnings, f.Report.Matched = []string{"be careful"}, 5
			got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, f)
			compiled := meta.FindStatusCondition(got.Conditions, placementv1.ConditionCompiled)
			summary := meta.FindStatusCondition(got.Conditions, placementv1.ConditionReady)
			ready := summary.Reason
			if told := strings.Contains(summary.Message, "; see the Compiled condition: the policy has probable mistakes"); told != (tc.want == placementv1.ReasonTypeErrors && ready == placementv1.ReasonInForce) {
				t.Errorf("Ready says %q", summary.Message)
			}
			for _, part := range append(tc.says, "the policy's text compiles; be careful") {
				if !strings.Contains(compiled.Message, part) {
					t.Errorf("the message of Compiled is %q, want %q", compiled.Message, part)
				}
			}
			if tc.others != nil {
				if diff := cmp.Diff(tc.others, got.Findings, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("findings (-want +got):\n%s", diff)
				}
				tc.findings = int32(len(tc.others))
			}
			if compiled.Status != metav1.ConditionTrue || compiled.Reason != tc.want || ready != tc.ready || tc.others == nil && len(got.Findings) != min(int(tc.findings), 1) {
				t.Errorf("Compiled %+v, Ready %q, findings %+v", compiled, ready, got.Findings)
			}

			// A leader that has not checked the policy yet keeps the previous leader's result for the same generation.
			f.Types = nil
			if diff := cmp.Diff(got, policystatus.Compute(got, f)); diff != "" {
				t.Errorf("a new leader changes the status (-before +after):\n%s", diff)
			}
			f.Generation, f.State.Generation = 5, 5
			if next := policystatus.Compute(got, f); len(next.Findings) != 0 || meta.FindStatusCondition(next.Conditions, placementv1.ConditionCompiled).Reason != placementv1.ReasonCompiled {
				t.Errorf("a new generation has the findings of the old one: %+v", next)
			}
		})
	}
}

// TestCompileErrorsComeFirst checks that the condition Compiled says why a policy does not compile, whatever the type checker finds.
func TestCompileErrorsComeFirst(t *testing.T) {
	f := sound()
	f.State.Err, f.Types = errors.New("bad"), &status.TypeState{Others: []findings.Finding{{Message: "wrong"}}}
	got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, f)
	if c := meta.FindStatusCondition(got.Conditions, placementv1.ConditionCompiled); c.Status != metav1.ConditionFalse || c.Reason != placementv1.ReasonLastGoodInForce || len(got.Findings) != 1 {
		t.Errorf("%+v, findings %+v", c, got.Findings)
	}
}
