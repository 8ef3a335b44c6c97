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

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/projection"
)

// Inspectable is an evaluator that returns, for an input and the current data, an Inspection. With that, callers evaluate parts of the
// policy, such as single expressions, to explain its decision. The evaluators of an Engine are inspectable.
type Inspectable interface {
	// Inspect returns an Inspection of the policy on the current data and an input, an object as decoded JSON. The error
	// is the one of Evaluate if data is missing.
	Inspect(input map[string]any) (*Inspection, error)
}

// Inspection evaluates parts of a policy, on one input and one state of the data. It uses neither caches nor evaluation
// slots, and never decides anything. It is not safe for concurrent use.
type Inspection struct {
	evaluator *evaluator
	input     ast.Value        // the input that is inspected, an object
	caller    *predicateCaller // evaluates predicates, and holds the snapshots of the data on which everything is evaluated
}

var _ Inspectable = (*evaluator)(nil)

// Inspect implements Inspectable. It returns an inspection of the policy on the current data and the input. The error is an
// *engine.NotReplicatedError if data is missing.
func (p *evaluator) Inspect(input map[string]any) (*Inspection, error) {
	state, err := p.currentState()
	if err != nil {
		return nil, err
	}
	state.tolerated = toleratedIn(input)
	value, err := projection.AllFields().Value(input)
	if err != nil {
		return nil, fmt.Errorf("converting input: %w", err)
	}
	return &Inspection{evaluator: p, input: value, caller: p.newCaller(state)}, nil
}

// Reports evaluates the policy on the input and returns the reports of all predicates that the evaluation calls, in order. With an error,
// these are the ones before the evaluation failed.
func (i *Inspection) Reports(ctx context.Context) ([]*predicates.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, i.evaluator.engine.Timeout)
	defer cancel()
	decision, err := i.evaluator.evaluateRules(ctx, i.caller, i.input, &choices{})
	if err == nil && i.evaluator.module.Candidates != "" {
		_, err = i.caller.checkDecision(ctx, i.evaluator.module.Candidates, i.input, decision)
	}
	return i.caller.reports, err
}

// Trace evaluates the rules of the policy and passes all steps to the tracer. It evaluates all clauses of each rule, also those that the
// index of a rule leaves out. It drops the result and an error of the evaluation.
func (i *Inspection) Trace(ctx context.Context, tracer topdown.QueryTracer) {
	ctx, cancel := context.WithTimeout(ctx, i.evaluator.engine.Timeout)
	defer cancel()
	// An error is that of the decision.
	_, _ = i.evaluator.evaluateRules(ctx, i.caller, i.input, &choices{}, rego.EvalQueryTracer(tracer), rego.EvalRuleIndexing(false),
		rego.EvalEarlyExit(false))
}

// Solve returns the values of the variables for which all expressions of a body are true, the first ones found. The body may have what the
// body of a rule of the policy may have, and imports are those of the policy's text. ok is false if there is no solution. The error is an
// ast.Errors if the expressions do not compile, for example because a variable is unsafe.
func (i *Inspection) Solve(ctx context.Context, body ast.Body, imports []*ast.Import) (solution map[string]any, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, i.evaluator.engine.Timeout)
	defer cancel()
	guardBuiltins()
	body = withUnification(body)
	options := append([]func(*rego.Rego){
		rego.ParsedQuery(body), rego.Compiler(i.evaluator.module.Compiler), rego.ParsedImports(imports), rego.Store(emptyStore),
		rego.ParsedPackage(&ast.Package{Path: i.evaluator.module.Package}),
	}, builtins...)
	query, err := rego.New(options...).PrepareForEval(ctx)
	if err != nil {
		return nil, false, err
	}
	results, err := query.Eval(context.WithValue(ctx, predicateCallerKey{}, i.caller), rego.EvalParsedInput(i.input),
		rego.EvalTransaction(i.evaluator.view.transaction(i.caller.snapshot, i.caller.tolerated)), rego.EvalMetrics(metrics.NoOp()),
		rego.EvalGenerateJSON(boundedJSON))
	if err != nil || len(results) == 0 {
		return nil, false, err
	}
	return results[0].Bindings, true, nil
}

// withUnification returns a copy of a body with "=" in place of "==", which OPA's compiler replaces in modules and not in queries. Queries
// evaluate the operands of "==" outside of a negation, so an undefined operand would make the negation undefined.
func withUnification(body ast.Body) ast.Body {
	body = body.Copy()
	ast.WalkExprs(body, func(e *ast.Expr) bool {
		if e.IsCall() && e.Operator().Equal(ast.Equal.Ref()) && len(e.Operands()) == 2 {
			e.SetOperator(ast.NewTerm(ast.Equality.Ref()))
		}
		return false
	})
	return body
}

// Lookup returns the value at a path below data as the policy sees it, as decoded JSON; nil if there is none, or if it can't be read.
func (i *Inspection) Lookup(ctx context.Context, path []string) any {
	found, err := i.evaluator.view.Read(ctx, i.evaluator.view.transaction(i.caller.snapshot, i.caller.tolerated), path)
	if err != nil {
		return nil
	}
	value, err := ast.JSON(found.(ast.Value))
	if err != nil {
		return nil
	}
	return value
}
