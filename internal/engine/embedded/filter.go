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

// filter checks a decision against candidates: without a feasible one it becomes a denial, and clusters that are not
// feasible are left out of it. The decision is the caller's own.
func (j *judge) filter(ctx context.Context, candidates placementv1.PredicateCandidates, input ast.Value, d placement.Decision) (placement.Decision, error) {
	w, err := j.scheduled(input, d)
	if err != nil {
		return d, fmt.Errorf("spec.predicates: the object is not to be placed: %w", err)
	}
	f := filter{judge: j, workload: w, decision: d}
	if candidates == placementv1.PredicateCandidatesNodes {
		_, err = f.need(ctx, predicates.Query{Kind: predicates.Nodes})
	} else {
		err = f.clusters(ctx)
	}
	if err != nil {
		return d, fmt.Errorf("spec.predicates: %w", err)
	}
	return f.decision, nil
}

// filter is a decision while it is checked.
type filter struct {
	*judge
	workload workload.Workload
	decision placement.Decision
}

// need asks about candidates of which one has to be feasible.
func (f *filter) need(ctx context.Context, q predicates.Query) (*predicates.Report, error) {
	report, err := f.ask(ctx, f.workload, q)
	if err != nil {
		return nil, err
	}
	if len(namesOf(report, true)) == 0 {
		f.decision.Errors = distinct(append(slices.Clone(f.decision.Errors), report.Summary()))
	}
	return report, nil
}

// clusters narrows the clusters of the decision: those that it names, or else those that it prefers, or else all.
func (f *filter) clusters(ctx context.Context) error {
	preferred, others, prefers := f.decision.Preferred()
	q := predicates.Query{Kind: predicates.Clusters, Names: f.decision.Clusters}
	if q.Names == nil && prefers && !others {
		q.Names = preferred
	}
	report, err := f.need(ctx, q)
	if err != nil {
		return err
	}
	feasible := namesOf(report, true)
	if len(feasible) == 0 {
		// What is denied goes nowhere.
		return nil
	}
	f.decision.Clusters = feasible
	if !prefers {
		return nil
	}
	switch {
	case others && q.Names != nil:
		// Any cluster may get replicas.
		report, err = f.ask(ctx, f.workload, predicates.Query{Kind: predicates.Clusters})
	case !others && !slices.Equal(preferred, q.Names):
		report, err = f.need(ctx, predicates.Query{Kind: predicates.Clusters, Names: preferred})
	}
	if err != nil {
		return err
	}
	f.decision = f.decision.WithoutPreferred(namesOf(report, false))
	return nil
}

// namesOf are the candidates that are feasible, or those that are not.
func namesOf(r *predicates.Report, feasible bool) []string {
	out := []string{}
	for _, v := range r.Verdicts {
		if v.Feasible == feasible {
			out = append(out, v.Name)
		}
	}
	return out
}
