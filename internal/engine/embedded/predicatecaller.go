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
	"errors"
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/workload"
)

const (
	// maxPredicateCalls is the maximum number of predicate calls in one evaluation. OPA evaluates a call with the same
	// arguments only once.
	maxPredicateCalls = 1000
	// maxReplicas is the maximum number, such as one of replicas, that a policy may pass, the same as for an object of the API.
	maxReplicas = 1<<31 - 1
)

var (
	errNoPredicates = errors.New("predicates are not available here: only a manager with --predicates evaluates them")
	errNoNodes      = errors.New("predicates on nodes can't be evaluated: the engine was created without nodes")
)

// predicateCaller evaluates predicates for one evaluation of a policy, all on the same snapshots. It is not safe for
// concurrent use.
type predicateCaller struct {
	set       *predicates.Set     // the predicates that spec.predicates names, all of the engine if it names none; nil if the engine has none
	templates *workload.Templates // find the pod template of an object
	evaluationState
	inventories *inventories // the resource types whose objects are the clusters in data.clusters; never nil, without types if there are none
	calls       int          // how often predicates were evaluated; maxPredicateCalls limits it
	// converted is the workload of the value that was converted last, because many calls of an evaluation pass the same value.
	converted struct {
		of ast.Object // the value that was converted
		workload.Workload
	}
	// reports are the results of the calls that succeeded, in their order.
	reports []*predicates.Report
	// failed is the error of the call that ended the evaluation. OPA returns only its text.
	failed error
}

// predicateCallerKey is the key of the predicateCaller in an evaluation's context.
type predicateCallerKey struct{}

// evaluate evaluates the predicates for a workload on the candidates of a query, and adds the report to reports. It is an error if the
// engine has no predicates, if the candidates are nodes and there is no snapshot of nodes, or after maxPredicateCalls calls.
func (c *predicateCaller) evaluate(ctx context.Context, w workload.Workload, q predicates.Query) (*predicates.Report, error) {
	if c.set == nil {
		return nil, errNoPredicates
	}
	if c.calls++; c.calls > maxPredicateCalls {
		return nil, &engine.LimitError{Operand: "the evaluation", Size: c.calls, Limit: maxPredicateCalls, Unit: "predicate calls"}
	}
	snapshot := c.nodes
	if q.Kind == predicates.Clusters {
		snapshot = c.clusters(c.inventories).predicateSnapshot()
	}
	if snapshot == nil {
		return nil, errNoNodes
	}
	report, err := c.set.Evaluate(ctx, snapshot, w, q)
	if err == nil {
		c.reports = append(c.reports, report)
	}
	return report, err
}

// workload converts a value of the policy language, such as input, to a workload. It reads only the fields that the analysis of policies
// knows (workload.Fields). The error says that the value is no object, or why no pod template is found in it.
func (c *predicateCaller) workload(v ast.Value) (workload.Workload, error) {
	of, _ := v.(ast.Object)
	if of != nil && of == c.converted.of {
		return c.converted.Workload, nil
	}
	object, err := toMap(v)
	if err != nil {
		return workload.Workload{}, err
	}
	w, err := c.templates.Of(workload.Fields().Project(object))
	if err == nil {
		c.converted.of, c.converted.Workload = of, w
	}
	return w, err
}

// scheduledWorkload converts a value to a workload, with the scheduling fields of a decision applied.
func (c *predicateCaller) scheduledWorkload(v ast.Value, d placement.Decision) (workload.Workload, error) {
	if len(d.Scheduling) == 0 {
		return c.workload(v)
	}
	object, err := toMap(v)
	if err != nil {
		return workload.Workload{}, err
	}
	object = workload.Fields().Project(object)
	path, err := c.templates.PathOf(object)
	if err != nil {
		return workload.Workload{}, err
	}
	if object, err = podscheduling.Merge(object, path, d.Scheduling); err != nil {
		return workload.Workload{}, err
	}
	return c.templates.Of(object)
}

// toMap converts an object of the policy language to a Go map, with numbers as json.Number. Any other value is an error.
func toMap(v ast.Value) (map[string]any, error) {
	if _, ok := v.(ast.Object); !ok {
		return nil, errors.New("must be an object")
	}
	plain, err := ast.JSON(v)
	if err != nil {
		return nil, err
	}
	return plain.(map[string]any), nil
}

// predicateFunction implements the builtin function b, which evaluates predicates on candidates of a kind. OPA keeps its results for the
// duration of the evaluation. An error ends the evaluation: if the call were undefined instead, the policy could admit an object that is
// not known to fit.
func predicateFunction(b *ast.Builtin, kind predicates.Candidates) func(*rego.Rego) {
	function := &rego.Function{Name: b.Name, Decl: b.Decl, Memoize: true}
	return rego.FunctionDyn(function, func(c rego.BuiltinContext, operands []*ast.Term) (*ast.Term, error) {
		caller, ok := c.Context.Value(predicateCallerKey{}).(*predicateCaller)
		if !ok {
			return nil, rego.NewHaltError(errNoPredicates)
		}
		report, err := caller.call(c.Context, b.Decl.NamedFuncArgs().Args, operands, kind)
		if err != nil {
			caller.failed = err
			return nil, rego.NewHaltError(err)
		}
		return ast.NewTerm(reportValue(report)), nil
	})
}

// call evaluates the predicates for the operands of a builtin function. The first operand is the workload and the last one the candidates.
// An operand between them, if there is one, is the number of replicas, in place of the workload's own. names are the names of the operands,
// for errors.
func (c *predicateCaller) call(ctx context.Context, names []types.Type, operands []*ast.Term,
	kind predicates.Candidates) (*predicates.Report, error) {
	last := len(names) - 1
	bad := func(i int, err error) error {
		return fmt.Errorf("operand %d (%s): %w", i+1, names[i].(*types.NamedType).Name, err)
	}
	for i := range names {
		if err := checkTree(operands[i].Value, i); err != nil {
			return nil, err
		}
	}
	w, err := c.workload(operands[0].Value)
	if err != nil {
		return nil, bad(0, err)
	}
	if last > 1 {
		if w.Replicas, err = positiveNumber(operands[1]); err != nil {
			return nil, bad(1, err)
		}
	}
	q, err := query(operands[last].Value)
	if err != nil {
		return nil, bad(last, err)
	}
	q.Kind = kind
	return c.evaluate(ctx, w, q)
}

// positiveNumber returns a whole number from 1 to maxReplicas. Its error says that the value must be one, and what it is instead.
func positiveNumber(t *ast.Term) (int, error) {
	number, ok := t.Value.(ast.Number)
	if !ok {
		return 0, fmt.Errorf("must be a whole number from 1 to %d, and is no number", maxReplicas)
	}
	if n, whole := number.Int(); whole && n >= 1 && n <= maxReplicas {
		return n, nil
	}
	return 0, fmt.Errorf("must be a whole number from 1 to %d, and is %s", maxReplicas, number)
}

var errCandidates = errors.New(`must be "*", an array or a set of names, or a label selector`)

// query converts the operand that selects the candidates: "*" for all, a collection of names, of which an empty one selects none, or a
// label selector. Any other value is an error.
func query(v ast.Value) (predicates.Query, error) {
	// An empty list of names selects no candidate, while a nil list selects all.
	names := []string{}
	add := func(t *ast.Term) bool {
		name, ok := t.Value.(ast.String)
		names = append(names, string(name))
		return !ok
	}
	switch v := v.(type) {
	case ast.String:
		if v == "*" {
			return predicates.Query{}, nil
		}
	case collection:
		if !v.Until(add) {
			return predicates.Query{Names: distinct(names)}, nil
		}
	case ast.Object:
		selector, err := selector(v)
		return predicates.Query{Selector: selector}, err
	}
	return predicates.Query{}, errCandidates
}

// distinct sorts names and removes duplicates. It changes its argument.
func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// selector converts a label selector, with matchLabels and matchExpressions; an empty one selects all. An unknown field is an error,
// because ignoring it would select more candidates.
func selector(v ast.Object) (labels.Selector, error) {
	document, err := toMap(v)
	if err != nil {
		return nil, err
	}
	var read metav1.LabelSelector
	if err := numeral.FromUnstructuredStrictly(document, &read); err != nil {
		return nil, fmt.Errorf("%w: %w", errCandidates, err)
	}
	return metav1.LabelSelectorAsSelector(&read)
}

// Names of the fields of a report as policies read them.
var (
	feasibleTerm   = ast.InternedTerm("feasible")
	reasonsTerm    = ast.InternedTerm("reasons")
	predicateTerm  = ast.InternedTerm("predicate")
	preemptionTerm = ast.InternedTerm("preemption")
	replicasTerm   = ast.InternedTerm("replicas")
)

// reportValue converts a report to the value that policies read: an object that has, by the name of each candidate, its verdict: whether it
// is feasible, the reasons if not, and the other fields of a verdict.
func reportValue(r *predicates.Report) ast.Value {
	members := make([][2]*ast.Term, len(r.Verdicts))
	for i, v := range r.Verdicts {
		reasons := make([]*ast.Term, len(v.Reasons))
		for i, reason := range v.Reasons {
			reasons[i] = ast.StringTerm(reason)
		}
		members[i] = ast.Item(ast.StringTerm(v.Name), ast.ObjectTerm(
			ast.Item(feasibleTerm, ast.InternedTerm(v.Feasible)),
			ast.Item(reasonsTerm, ast.ArrayTerm(reasons...)),
			ast.Item(predicateTerm, ast.StringTerm(v.Predicate)),
			ast.Item(preemptionTerm, ast.InternedTerm(v.Preemption)),
			ast.Item(replicasTerm, ast.InternedTerm(v.Replicas)),
		))
	}
	return ast.NewObject(members...)
}
