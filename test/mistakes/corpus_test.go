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

package mistakes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/test/mistakes"
)

func TestLoad(t *testing.T) {
	const sound = "- {name: a, part: A1, apply: x, says: [no], outcome: refused}\n"
	tests := map[string]struct {
		text string
		want string
	}{
		"Sound":         {text: sound + "- {name: b, part: B7, apply: x, status: {condition: Ready, status: \"False\"}, outcome: status}\n"},
		"Unknown":       {text: "- {name: a, part: A1, apply: x, say: [no], outcome: refused}", want: `unknown field "say"`},
		"Twice":         {text: sound + sound, want: "the name a is taken in a.yaml"},
		"Name":          {text: "- {name: A b, part: A1, apply: x, says: [no], outcome: refused}", want: "lower-case letters"},
		"Part":          {text: "- {name: a, part: C1, apply: x, says: [no], outcome: refused}", want: `the part "C1" is none of`},
		"Outcome":       {text: "- {name: a, part: A1, apply: x, says: [no], outcome: denied}", want: `the outcome "denied"`},
		"SaysNothing":   {text: "- {name: a, part: A1, apply: x, outcome: warned}", want: "says must list"},
		"ShowsNothing":  {text: "- {name: a, part: A1, apply: x, outcome: status}", want: "status must have the condition"},
		"RefusedStatus": {text: "- {name: a, part: A1, apply: x, says: [no], status: {condition: Ready, status: \"False\"}, outcome: refused}", want: "an object that is not refused"},
		"Nothing":       {text: "- {name: a, part: A1, apply: ' ', says: [no], outcome: refused}", want: "apply is required"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			if err := os.WriteFile(filepath.Join(directory, "a.yaml"), []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := mistakes.Load(directory)
			if (err != nil) != (tc.want != "") || (err != nil && !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

const deployment = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n"

func TestIsolation(t *testing.T) {
	const (
		all      = "---\napiVersion: placement.berth.dev/v1alpha1\nkind: PlacementPolicy\nmetadata: {name: p}\nspec: {match: {}}\n"
		selected = "---\napiVersion: placement.berth.dev/v1alpha1\nkind: PlacementPolicy\nmetadata: {name: p}\nspec: {match: {namespaceSelector: {}}}\n"
		profile  = "---\napiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ClusterProfile\nmetadata: {name: eu, namespace: inventory}\n"
	)
	tests := map[string]struct {
		before, apply string
		alone         bool
		want          mistakes.Isolation
	}{
		"PolicyAlone":       {apply: all, want: mistakes.IsolationNone},
		"Alone":             {apply: all, alone: true, want: mistakes.IsolationAlone},
		"NotYAML":           {apply: "{", want: mistakes.IsolationNone},
		"MatchesEverything": {before: deployment, apply: all, want: mistakes.IsolationAlone},
		"KeepsToNamespaces": {before: deployment, apply: selected, want: mistakes.IsolationNamespace},
		"ChangesInventory":  {before: profile, apply: selected, want: mistakes.IsolationAlone},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := mistakes.Entry{Before: tc.before, Apply: tc.apply, Alone: tc.alone}
			if got := e.Isolation(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	condition := func(conditionType, status, reason string) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: metav1.ConditionStatus(status), Reason: reason, Message: "said so"}
	}
	tests := map[string]struct {
		conditions     []metav1.Condition
		green, settled bool
	}{
		"Nothing":    {},
		"Ready":      {conditions: []metav1.Condition{condition("Ready", "True", "InForce"), condition("Enforced", "True", "Enforced")}, green: true, settled: true},
		"Loading":    {conditions: []metav1.Condition{condition("Ready", "Unknown", "NotInForce")}},
		"NotReady":   {conditions: []metav1.Condition{condition("Ready", "False", "NotServed")}, settled: true},
		"Violations": {conditions: []metav1.Condition{condition("Ready", "True", "InForce"), condition("Compliant", "False", "Violations")}, settled: true},
		"Unlooked":   {conditions: []metav1.Condition{condition("Ready", "True", "InForce"), condition("Compliant", "Unknown", "RemediationOff")}, green: true, settled: true},
		"Conflict":   {conditions: []metav1.Condition{condition("Ready", "True", "InForce"), condition("Enforced", "True", "Conflict")}, settled: true},
		"TypeErrors": {conditions: []metav1.Condition{condition("Ready", "True", "InForce"), condition("Compiled", "True", "TypeErrors")}, settled: true},
		"WarnMode":   {conditions: []metav1.Condition{condition("Ready", "True", "InForce"), condition("Enforced", "False", "WarnMode")}, green: true, settled: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := mistakes.Observed{Generation: 2, ObservedGeneration: 2, Conditions: tc.conditions}
			if o.Green() != tc.green || o.Settled() != tc.settled {
				t.Errorf("green %v, settled %v, want %v, %v", o.Green(), o.Settled(), tc.green, tc.settled)
			}
		})
	}
	if o := (mistakes.Observed{Conditions: []metav1.Condition{condition("Ready", "True", "InForce")}, Findings: 1}); o.Green() {
		t.Error("a status with a finding is green")
	}
	o := mistakes.Observed{Conditions: []metav1.Condition{condition("Ready", "False", "NotServed")}}
	if !o.Shows(mistakes.Condition{Condition: "Ready", Status: "False", Reason: "NotServed", Message: "said"}) ||
		o.Shows(mistakes.Condition{Condition: "Ready", Status: "False", Message: "other"}) || o.Shows(mistakes.Condition{Condition: "Ready", Status: "True"}) {
		t.Error("Shows is wrong")
	}
}

func TestOutput(t *testing.T) {
	const output = `Warning: resource deployments/a is missing the kubectl.kubernetes.io/last-applied-configuration annotation which is required
Warning: the policy decides nothing
placementpolicy.placement.berth.dev/p created
`
	if diff := cmp.Diff([]string{"the policy decides nothing"}, mistakes.Warnings(output)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"else"}, mistakes.Missing("a\n  b", []string{"a b", "else"})); diff != "" {
		t.Error(diff)
	}
}
