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

package console

import (
	"net/http"
	"slices"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/whatif"
)

// planView is the response of /api/plan: the plan of a policy as it is computed now, the flows of its objects, and, from the policy's
// status, the recorded plan, the waiting objects, and the approvals that are missing.
type planView struct {
	// Plan has at most maxObjects of the moves.
	*whatif.Plan
	Total int    `json:"total"` // the number of all moves of the plan
	Flows []Flow `json:"flows"` // the flows of objects between clusters by all moves; Pending if the plan waits for an approval
	// Status is the plan in the status of the policy, of which a part may be done; nil if there is none. The moves of Plan are computed,
	// and not read from it.
	Status    *placementv1.RemediationPlan `json:"status"`
	Waiting   []placementv1.WaitingObjects `json:"waiting"`   // the numbers of objects that wait, by reason, in the status of the policy
	Approvals []Approval                   `json:"approvals"` // the plan and the stage of the policy that wait for an approval
	// Command is the command for a shell that prints the whole plan.
	Command string `json:"command"`
}

// plan returns the plan of the policy that the parameter name names, as whatif.PlanOf computes it from the latest reading, whatever plan
// the policy's status has. If there is no such policy, the error has status 404.
func (c *Console) plan(r *http.Request) (*planView, error) {
	s, err := c.current(r)
	if err != nil {
		return nil, err
	}
	p, err := s.policy(r)
	if err != nil {
		return nil, err
	}
	simulated, err := s.simulation(r.Context())
	if err != nil {
		return nil, err
	}
	plan, err := whatif.PlanOf(r.Context(), simulated, p.Name)
	if err != nil {
		return nil, err
	}
	out := &planView{
		Plan: plan, Total: len(plan.Moves), Status: p.Status.Plan, Waiting: append([]placementv1.WaitingObjects{}, p.Status.Waiting...),
		Approvals: c.approvals(p), Command: shell("kubectl", "berth", "plan", p.Name),
	}
	waitsForApproval := slices.ContainsFunc(out.Approvals, func(a Approval) bool { return a.Plan })
	values := make([][]whatif.Value, len(plan.Moves))
	for i, m := range plan.Moves {
		values[i] = m.Changes
	}
	out.Flows = flowsOf(values)
	for i := range out.Flows {
		out.Flows[i].Pending = waitsForApproval
	}
	plan.Moves = plan.Moves[:min(len(plan.Moves), maxObjects)]
	return out, nil
}
