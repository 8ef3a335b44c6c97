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

package embedded

import (
	"context"
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/workload"
)

// checkDecision evaluates the predicates of a policy with spec.predicates.candidates on a decision's object, and returns a changed copy of
// the decision. The copy has one more error, which denies the object, if no node or no cluster, as candidates says, is feasible. Otherwise,
// if the candidates are clusters, it has no infeasible ones, and if the decision names no clusters, it has the feasible ones. The error is
// one of the evaluation: the object has no pod template, or a predicate fails.
func (c *predicateCaller) checkDecision(ctx context.Context, candidates placementv1.PredicateCandidates, input ast.Value,
	d placement.Decision) (placement.Decision, error) {
	w, err := c.scheduledWorkload(input, d)
	if err != nil {
		return d, fmt.Errorf("spec.predicates: the object can't be checked: %w", err)
	}
	f := decisionCheck{predicateCaller: c, workload: w, decision: d}
	if candidates == placementv1.PredicateCandidatesNodes {
		_, err = f.requireFeasible(ctx, predicates.Query{Kind: predicates.Nodes})
	} else {
		err = f.clusters(ctx)
	}
	if err != nil {
		return d, fmt.Errorf("spec.predicates: %w", err)
	}
	return f.decision, nil
}

// decisionCheck is the state of one call of checkDecision: what evaluates the predicates, the workload with the decision's scheduling
// fields, and the decision as changed so far.
type decisionCheck struct {
	*predicateCaller
	workload workload.Workload
	decision placement.Decision // the decision with the changes made so far
}

// requireFeasible evaluates the predicates for the candidates of a query. If no candidate is feasible, it adds an error to the decision.
func (f *decisionCheck) requireFeasible(ctx context.Context, q predicates.Query) (*predicates.Report, error) {
	report, err := f.evaluate(ctx, f.workload, q)
	if err != nil {
		return nil, err
	}
	if len(namesOf(report, true)) == 0 {
		f.decision.Errors = distinct(append(slices.Clone(f.decision.Errors), report.Summary()))
	}
	return report, nil
}

// clusters limits the decision to feasible clusters: to those among the clusters that it names. If it names none, it gets the feasible ones
// among those that it prefers, or among all clusters if it prefers none or may use others, too. It also removes preferred clusters that are
// not feasible. If no cluster is feasible, it only adds an error to the decision.
func (f *decisionCheck) clusters(ctx context.Context) error {
	preferred, others, prefers := f.decision.Preferred()
	q := predicates.Query{Kind: predicates.Clusters, Names: f.decision.Clusters}
	if q.Names == nil && prefers && !others {
		q.Names = preferred
	}
	report, err := f.requireFeasible(ctx, q)
	if err != nil {
		return err
	}
	feasible := namesOf(report, true)
	if len(feasible) == 0 {
		// The decision denies the object, so its clusters don't matter.
		return nil
	}
	f.decision.Clusters = feasible
	if !prefers {
		return nil
	}
	switch {
	case others && q.Names != nil:
		// Any cluster may get replicas, so all of them are checked.
		report, err = f.evaluate(ctx, f.workload, predicates.Query{Kind: predicates.Clusters})
	case !others && !slices.Equal(preferred, q.Names):
		report, err = f.requireFeasible(ctx, predicates.Query{Kind: predicates.Clusters, Names: preferred})
	}
	if err != nil {
		return err
	}
	f.decision = f.decision.WithoutPreferred(namesOf(report, false))
	return nil
}

// namesOf returns the names of the candidates that are feasible, if feasible is true, or else of those that are not. It never returns nil.
func namesOf(r *predicates.Report, feasible bool) []string {
	out := []string{}
	for _, v := range r.Verdicts {
		if v.Feasible == feasible {
			out = append(out, v.Name)
		}
	}
	return out
}
