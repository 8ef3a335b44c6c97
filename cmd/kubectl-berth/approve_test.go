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

package main

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// TestWhatWaitsForApproval checks what the approve command approves, and what it says if nothing waits.
func TestWhatWaitsForApproval(t *testing.T) {
	waiting := placementv1.PlacementPolicyStatus{Plan: &placementv1.RemediationPlan{Digest: "d1", State: placementv1.PlanWaitingForApproval, Moves: 2, Message: "clusterprofiles changed", Causes: []string{"ClusterProfile fleet/eu-1 changed"}}}
	stage := placementv1.PlacementPolicyStatus{Rollout: &placementv1.RolloutStatus{State: placementv1.RolloutWaitingForApproval, Revision: 3, ApprovalID: "3-rest-1", Message: "stage rest waits"}}
	for name, tc := range map[string]struct {
		status placementv1.PlacementPolicyStatus
		id     string
		// want is the annotation with its value, or a part of the error.
		want string
	}{
		"plan":        {waiting, "", placementv1.ApproveAnnotation + "=d1"},
		"that plan":   {waiting, "d1", placementv1.ApproveAnnotation + "=d1"},
		"another one": {waiting, "d2", "does not wait for an approval of d2, but of d1"},
		"stage":       {stage, "", placementv1.ApproveStageAnnotation + "=3-rest-1"},
		"nothing":     {placementv1.PlacementPolicyStatus{}, "", "spec.remediation.mode is Automatic"},
		"approved": {placementv1.PlacementPolicyStatus{Plan: &placementv1.RemediationPlan{
			Digest: "d1", State: placementv1.PlanInProgress, Approval: &placementv1.PlanApproval{},
		}}, "", "plan d1 is approved, and is being carried out"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &placementv1.PlacementPolicy{Status: tc.status}
			p.Name = "p"
			found, err := (&approveOptions{id: tc.id}).choose(p)
			got := found.annotation + "=" + found.id
			if tc.status.Plan != nil && err == nil && !slices.Contains(found.lines, "  Cause: ClusterProfile fleet/eu-1 changed") {
				t.Errorf("the plan has no cause: %q", found.lines)
			}
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// TestNothingToApprove checks why a policy in remediation mode Approved waits for nothing, if only its mode keeps its plan from being
// carried out, and if it has no plan.
func TestNothingToApprove(t *testing.T) {
	proposed := &placementv1.RemediationPlan{Digest: "d1", State: placementv1.PlanProposed, Moves: 2}
	for mode, tc := range map[placementv1.Mode]struct {
		plan *placementv1.RemediationPlan
		want string
	}{
		placementv1.ModeDryRun:  {proposed, "spec.mode is DryRun, and Berth patches existing objects only in mode Enforce"},
		placementv1.ModeEnforce: {nil, "the policy's status.plan has no object left to patch"},
	} {
		p := &placementv1.PlacementPolicy{}
		p.Spec.Mode, p.Spec.Remediation.Mode, p.Status.Plan = mode, placementv1.RemediationApproved, tc.plan
		if got := notWaiting(p); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

// TestApproveEmptyID checks that an empty ID, as of a script's variable that is not set, approves nothing.
func TestApproveEmptyID(t *testing.T) {
	if _, _, err := command(t, "approve", "data-residency", "--id=", "--yes"); err == nil || !strings.Contains(err.Error(), "--id is empty") {
		t.Errorf("%v", err)
	}
}

// TestConfirmApproval checks that only a yes approves.
func TestConfirmApproval(t *testing.T) {
	for answer, ok := range map[string]bool{"y\n": true, "YES\n": true, "n\n": false, "": false} {
		streams, in, _, _ := genericiooptions.NewTestIOStreams()
		in.WriteString(answer)
		if err := (&approveOptions{IOStreams: streams}).confirm("p"); (err == nil) != ok {
			t.Errorf("%q: %v", answer, err)
		}
	}
}
