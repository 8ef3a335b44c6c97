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
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/policystatus"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/analysis"
)

func TestMatched(t *testing.T) {
	for name, tc := range map[string]struct {
		coverage     match.Coverage
		noNamespaces bool
		// enforced and ready are "status/reason" of the two conditions. The messages of both must contain message.
		enforced, ready, message string
		stalled                  bool
	}{
		"all":                           {match.Coverage{Covered: true}, false, "True/Enforced", "True/InForce", "", false},
		"nothing is served":             {match.Coverage{Unserved: []string{"x: y"}}, false, "False/NotServed", "False/NotServed", "x: y", false},
		"some is served":                {match.Coverage{Covered: true, Unserved: []string{"x: y"}}, false, "True/PartlyServed", "True/InForce", "x: y", false},
		"nothing can match":             {match.Coverage{Covered: true, Impossible: "z"}, false, "False/NothingMatched", "False/NothingMatched", "z", true},
		"no namespaces":                 {match.Coverage{Covered: true, Namespaced: true}, true, "True/NoNamespaces", "True/InForce", "namespaceSelector", false},
		"no namespaces, cluster-scoped": {match.Coverage{Covered: true}, true, "True/Enforced", "True/InForce", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := sound()
			f.Coverage, f.NoNamespaces = &tc.coverage, tc.noNamespaces
			got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, f)
			of := func(conditionType string) string {
				c := meta.FindStatusCondition(got.Conditions, conditionType)
				if c == nil {
					return ""
				}
				return string(c.Status) + "/" + c.Reason
			}
			if of(placementv1.ConditionEnforced) != tc.enforced || of(placementv1.ConditionReady) != tc.ready {
				t.Errorf("Enforced is %s, Ready is %s", of(placementv1.ConditionEnforced), of(placementv1.ConditionReady))
			}
			for _, conditionType := range []string{placementv1.ConditionEnforced, placementv1.ConditionReady} {
				if message := meta.FindStatusCondition(got.Conditions, conditionType).Message; !strings.Contains(message, tc.message) {
					t.Errorf("%s says %q", conditionType, message)
				}
			}
			stalled := meta.FindStatusCondition(got.Conditions, placementv1.ConditionStalled)
			if (stalled != nil) != tc.stalled || stalled != nil && !strings.Contains(stalled.Message, tc.message) {
				t.Errorf("stalled: %+v", stalled)
			}
		})
	}
}

// TestReadyNamesTheMatchFirst checks that Ready says that a policy can match nothing, also while its data is not replicated.
func TestReadyNamesTheMatchFirst(t *testing.T) {
	f := sound()
	f.Coverage = &match.Coverage{Covered: true, Impossible: "z"}
	f.State.Binding.Missing = []analysis.Read{{Plural: "carts"}}
	got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, f)
	if c := meta.FindStatusCondition(got.Conditions, placementv1.ConditionReady); c.Status != metav1.ConditionFalse || c.Reason != placementv1.ReasonNothingMatched {
		t.Errorf("Ready is %+v", c)
	}
}

// TestWaitingForATypeIsNotStalled checks that a version that reads a type which is not served waits and is not Stalled,
// because the type may be installed later.
func TestWaitingForATypeIsNotStalled(t *testing.T) {
	f := sound()
	f.Generation, f.State.Generation = 5, 5
	f.State.Err = &policy.NotServedError{Missing: []analysis.Read{{Plural: "configmap"}}}
	f.Meant = map[string]string{"configmap": " (did you mean configmaps?)"}
	got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, f)
	ready := meta.FindStatusCondition(got.Conditions, placementv1.ConditionReady)
	if ready.Reason != placementv1.ReasonNotServed || got.GenerationInForce != 4 || got.ObservedGeneration != 5 ||
		!strings.Contains(ready.Message, "data.kubernetes.configmap (did you mean configmaps?); generation 4 stays in force") {
		t.Errorf("Ready is %+v, in force is %d, observed %d", ready, got.GenerationInForce, got.ObservedGeneration)
	}
	if meta.IsStatusConditionTrue(got.Conditions, placementv1.ConditionStalled) || !meta.IsStatusConditionTrue(got.Conditions, placementv1.ConditionCompiled) {
		t.Errorf("conditions are %+v", got.Conditions)
	}
}

// TestFirstVersionWaitsForAType checks the conditions of a policy whose first version comes into force in stages, and reads a type that is
// not served: it compiles, and is not ready because of the type.
func TestFirstVersionWaitsForAType(t *testing.T) {
	f := sound()
	f.State.Err, f.State.Broken, f.State.Binding = &policy.NotServedError{Missing: []analysis.Read{{Plural: "carts"}}}, true, nil
	for message, reached := range map[string]int{
		"data.kubernetes.carts; no version decides in any stage, so the policy changes and denies nothing until the type is installed or the policy corrected": 0,
		"data.kubernetes.carts; a request for what the policy matches is denied until the type is installed or the policy corrected":                           1,
	} {
		f.State.Staged = &placement.StagedVersions{}
		f.State.Staged.InForce.Reached = reached
		got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, f)
		for condition, want := range map[string]string{
			placementv1.ConditionReady: "False NotServed", placementv1.ConditionReplicated: "False NotServed", placementv1.ConditionCompiled: "True Compiled",
		} {
			c := meta.FindStatusCondition(got.Conditions, condition)
			if text := fmt.Sprint(c.Status, " ", c.Reason); text != want || condition != placementv1.ConditionCompiled && !strings.Contains(c.Message, message) {
				t.Errorf("%s is %s: %s, want %s: %s", condition, text, c.Message, want, message)
			}
		}
		if meta.IsStatusConditionTrue(got.Conditions, placementv1.ConditionStalled) {
			t.Error("the policy is stalled")
		}
	}
}
