package predicates

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/internal/workload"
)

// Set is a white-list of predicates, in order. It is immutable and safe for concurrent use.
type Set struct{}

// Names are those of the predicates, in their order.
func (s *Set) Names() []string { return nil }

// Narrow returns the set of those predicates of s that are named, in the order of s. A name that s does not have is an
// error that lists those that it has: nothing widens a white-list. Sets of equal names are the same.
func (s *Set) Narrow(_ []string) (*Set, error) { return s, nil }

// Query says on what a workload is judged.
type Query struct {
	// Names are those of the candidates; nil stands for all.
	Names []string
	// Selector selects among all candidates by their labels; nil selects all.
	Selector labels.Selector
	// Kind is that of the candidates.
	Kind Candidates
}

// Verdict is what the predicates say of one candidate.
type Verdict struct {
	// Name is the candidate's.
	Name string
	// Feasible says that every predicate lets the pod run there.
	Feasible bool
	// Predicate is the first one that does not, and Reasons are its reasons in kube-scheduler's words.
	Predicate string
	Reasons   []string
	// Preemption says that it could help to preempt pods there.
	Preemption bool
	// Replicas is how many of the workload's replicas fit there at once, no more than there are to be.
	Replicas int
}

// Report are the verdicts on all candidates of a query. It is immutable.
type Report struct {
	// Verdicts are sorted by the candidates' names. A name that was asked for and that there is not is infeasible, with
	// a reason that says so, and without a predicate.
	Verdicts []Verdict
}

// Summary says how many candidates there are, how many fit, and why the others do not, by reason in kube-scheduler's
// order, as in "0/3 clusters fit: 2 Insufficient cpu, 1 node(s) had untolerated taint(s)".
func (r *Report) Summary() string { return "" }

// PluginError says that a predicate failed: no verdict follows from it.
type PluginError struct {
	Predicate string
	Err       error
}

func (e *PluginError) Error() string { return "predicate " + e.Predicate + ": " + e.Err.Error() }

func (e *PluginError) Unwrap() error { return e.Err }

// Judge asks the predicates about each candidate: what they prepare is prepared once, then candidates are filtered in
// parallel, by each predicate until one objects. The error is a *PluginError, or the context's.
func (s *Set) Judge(_ context.Context, _ *Snapshot, _ workload.Workload, _ Query) (*Report, error) {
	return nil, errors.New("not there yet")
}

// Again returns what Judge returns for the workload and the query of a report, on another snapshot. It judges only
// those candidates anew that are others than in the report's snapshot, if nothing else makes a difference. If all
// verdicts are the same, it returns the very same report.
func (s *Set) Again(_ context.Context, _ *Snapshot, _ *Report) (*Report, error) {
	return nil, errors.New("not there yet")
}
