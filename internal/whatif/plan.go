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

package whatif

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/feasibility"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/simulation"
)

// Plan is the result of PlanOf for one policy: the patches and evictions that its remediation has to make, their digest, and the numbers of
// objects that the policy denies, can't decide, or can't change.
type Plan struct {
	Policy string `json:"policy"`
	// Digest identifies the moves, as in the status of the policy; "" if there are no moves.
	Digest string `json:"digest,omitempty"`
	Moves  []Move `json:"moves"`
	// Waits says what the objects wait for before they are patched, in the words of the policy's status; "" if they do not wait, or the
	// policy is not in the mode Enforce and they are not patched.
	Waits string `json:"waits,omitempty"`
	// Causes are the changes that made the plan necessary, from the status of the policy, if the plan there has the same digest.
	Causes    []string `json:"causes,omitempty"`
	Denied    int      `json:"denied"`    // the number of objects that the policy denies
	Undecided int      `json:"undecided"` // the number of objects that the policy can't decide
	LeftAlone int      `json:"leftAlone"` // the number of other objects that differ, all in values that remediation can't change
	// Errors say why versions of the policy can't decide any object.
	Errors []string `json:"errors,omitempty"`
}

// Move is an object that remediation patches or, if Evict is set, a Pod that it evicts.
type Move struct {
	Resource  string    `json:"resource"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	Evict     bool      `json:"evict,omitempty"` // whether a Pod is evicted, instead of patched
	Changes   []Value   `json:"changes"`         // the values that the patch sets, or for which the Pod is evicted
}

// PlanOf returns the plan of the policy of a name, with its moves by type, namespace, and name. It is an error if there is no such policy.
// A remediation.Ledger computes the plan, as in the leader, so for equal objects and data the digest equals that in the status of the
// policy, unless a part of that plan is done already.
func PlanOf(ctx context.Context, s *simulation.Simulation, policy string) (*Plan, error) {
	p := s.Policy(policy)
	if p == nil {
		return nil, fmt.Errorf("there is no PlacementPolicy %q", policy)
	}
	ledger, uids := remediation.NewLedger(), map[remediation.Key]types.UID{}
	assessment := ledger.Assess(time.Time{}, remediation.Cause{}, policy)
	for o, err := range s.Matched(ctx) {
		if err != nil {
			return nil, err
		}
		verdicts, err := s.Verdicts(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("deciding %s: %w", simulation.Describe(o.Content), err)
		}
		feasibility.Qualify(o.Content, verdicts)
		key := remediation.Key{Resource: o.Resource, Namespace: o.Namespace, Name: o.Content.GetName()}
		ledger.Record(key, o.Content.GetUID(), o.Content.GetResourceVersion(), verdicts, false)
		uids[key] = o.Content.GetUID()
	}
	assessment.Complete()
	ledger.ConcludeAssessments(time.Time{})
	report := ledger.Report(policy)
	out := &Plan{Policy: policy, Moves: []Move{}, Denied: report.Denied, Undecided: report.Failed,
		LeftAlone: report.Moved - report.Outstanding}
	for _, v := range p.Versions() {
		if v.Err != nil {
			out.Errors = append(out.Errors, v.Err.Error())
		}
	}
	if report.Plan == nil {
		return out, nil
	}
	out.Digest = report.Plan.Digest
	if begun := p.Object.Status.Plan; begun != nil && begun.Digest == out.Digest {
		out.Causes = begun.Causes
	}
	if p.Mode == placementv1.ModeEnforce {
		out.Waits = s.Waits(p.Policy, "").String()
	}
	for _, m := range ledger.Moves(policy) {
		move := Move{Resource: m.Resource.GroupResource().String(), Namespace: m.Namespace, Name: m.Name, UID: uids[m.Key], Evict: m.Evicts()}
		for _, c := range m.Changes {
			move.Changes = append(move.Changes, Value{Field: c.Field, Key: c.Key, From: c.From, To: c.To, Policy: policy})
		}
		out.Moves = append(out.Moves, move)
	}
	return out, nil
}
