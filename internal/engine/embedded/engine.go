// Package embedded evaluates policies with OPA in this process.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
)

var (
	_ engine.Engine       = (*Engine)(nil)
	_ placement.Evaluator = (*evaluator)(nil)
)

// Options configure an Engine.
type Options struct {
	// Timeout bounds one evaluation.
	Timeout time.Duration
	// Concurrency bounds how many evaluations run at once, those included that were given up at their deadline and
	// have not noticed yet.
	Concurrency int
}

// Engine evaluates policies over its Data.
type Engine struct {
	data    *Data
	timeout time.Duration
	slots   chan struct{}
}

// New returns an engine that reads data.
func New(data *Data, o Options) *Engine {
	return &Engine{data: data, timeout: o.Timeout, slots: make(chan struct{}, o.Concurrency)}
}

// Name implements engine.Engine.
func (*Engine) Name() string { return "Embedded" }

// result is the variable of the query that holds the contract's rules.
const result = "result"

// Prepare implements engine.Engine.
func (e *Engine) Prepare(ctx context.Context, name string, m *policy.Module, b *policy.Binding) (placement.Evaluator, error) {
	out := &evaluator{engine: e, name: name, revised: b.Resources}
	for _, missing := range b.Missing {
		out.missing = append(out.missing, missing.String())
	}
	if len(m.Rules) == 0 {
		return out, nil
	}
	prepared, err := prepareQuery(ctx, m, rego.Store(newView(e.data, m, b)))
	if err != nil {
		return nil, fmt.Errorf("preparing policy %s: %w", name, err)
	}
	out.query = prepared
	return out, nil
}

// PrepareGenerated implements engine.Engine.
func (*Engine) PrepareGenerated(ctx context.Context, name string, m *policy.Module) (policy.Rules, error) {
	prepared, err := prepareQuery(ctx, m, rego.StrictBuiltinErrors(true))
	if err != nil {
		return nil, fmt.Errorf("preparing %s: %w", name, err)
	}
	return generated{prepared}, nil
}

func prepareQuery(ctx context.Context, m *policy.Module, more ...func(*rego.Rego)) (*rego.PreparedEvalQuery, error) {
	query, err := ast.ParseBodyWithOpts(queryText(m), ast.ParserOptions{RegoVersion: ast.RegoV1})
	if err != nil {
		return nil, err
	}
	options := append([]func(*rego.Rego){rego.ParsedQuery(query), rego.Compiler(m.Compiler)}, builtins...)
	prepared, err := rego.New(append(options, more...)...).PrepareForEval(ctx)
	return &prepared, err
}

// generated are the rules of a generated module.
type generated struct {
	query *rego.PreparedEvalQuery
}

// Evaluate implements policy.Rules.
func (g generated) Evaluate(ctx context.Context, input map[string]any) (map[string]any, error) {
	return ask(ctx, g.query, input)
}

// queryText asks for the contract's rules that exist, and for nothing else of the package. Each is wrapped in a
// comprehension, so that one that is undefined does not make the whole query undefined.
func queryText(m *policy.Module) string {
	parts := make([]string, len(m.Rules))
	for i, rule := range m.Rules {
		parts[i] = fmt.Sprintf("%q: [x | x := %s.%s]", rule, m.Package, rule)
	}
	return result + " := {" + strings.Join(parts, ", ") + "}"
}

// evaluator is one policy, prepared.
type evaluator struct {
	engine  *Engine
	name    string
	query   *rego.PreparedEvalQuery
	revised []policy.Resource
	missing []string
}

// Revision implements placement.Evaluator: the newest revision among the tables that the policy reads. It is 0, which
// no table has, while one of them is missing.
func (p *evaluator) Revision() uint64 {
	if len(p.missing) > 0 {
		return 0
	}
	snap := p.engine.data.current.Load()
	newest := noData
	for _, r := range p.revised {
		t, ok := snap.tables[r.GroupVersionResource]
		if !ok {
			return 0
		}
		newest = max(newest, t.revision)
	}
	return newest
}

// Evaluate implements placement.Evaluator. Data that is not complete is an *engine.NotReplicatedError, the deadline
// is engine.ErrDeadline.
func (p *evaluator) Evaluate(ctx context.Context, input map[string]any) (placement.Decision, error) {
	if err := p.replicated(); err != nil || p.query == nil {
		return placement.Decision{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.engine.timeout)
	defer cancel()
	select {
	case p.engine.slots <- struct{}{}:
	case <-ctx.Done():
		return placement.Decision{}, fmt.Errorf("%w while waiting for other evaluations", engine.ErrDeadline)
	}
	type answer struct {
		decision placement.Decision
		err      error
	}
	// A few builtin functions don't look at the deadline before they are done. The caller does not wait for them; the
	// evaluation keeps its slot until it ends, so that they can't pile up.
	answers := make(chan answer, 1)
	go func() {
		defer func() { <-p.engine.slots }()
		defer func() {
			if r := recover(); r != nil {
				answers <- answer{err: fmt.Errorf("evaluation panicked: %v\n%s", r, debug.Stack())}
			}
		}()
		decision, err := p.evaluate(ctx, input)
		answers <- answer{decision, err}
	}()
	select {
	case a := <-answers:
		return a.decision, a.err
	case <-ctx.Done():
		return placement.Decision{}, fmt.Errorf("%w of %s", engine.ErrDeadline, p.engine.timeout)
	}
}

func (p *evaluator) replicated() error {
	if len(p.missing) > 0 {
		return &engine.NotReplicatedError{Data: strings.Join(p.missing, ", ")}
	}
	snap := p.engine.data.current.Load()
	for _, r := range p.revised {
		if _, ok := snap.tables[r.GroupVersionResource]; !ok {
			return &engine.NotReplicatedError{Data: resourceText(r.GroupVersionResource)}
		}
	}
	return nil
}

func (p *evaluator) evaluate(ctx context.Context, input map[string]any) (placement.Decision, error) {
	rules, err := ask(ctx, p.query, input)
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, &topdown.Error{Code: topdown.CancelErr}) {
			return placement.Decision{}, fmt.Errorf("%w of %s", engine.ErrDeadline, p.engine.timeout)
		}
		return placement.Decision{}, err
	}
	return placement.ParseDecision(rules)
}

// ask evaluates a query of queryText's form and returns the values of the rules that are defined.
func ask(ctx context.Context, query *rego.PreparedEvalQuery, input map[string]any) (map[string]any, error) {
	value, err := ast.InterfaceToValue(input)
	if err != nil {
		return nil, fmt.Errorf("converting input: %w", err)
	}
	results, err := query.Eval(ctx, rego.EvalParsedInput(value))
	if err != nil {
		return nil, err
	}
	if len(results) != 1 {
		return nil, fmt.Errorf("evaluation gave %d results, want 1", len(results))
	}
	wrapped, _ := results[0].Bindings[result].(map[string]any)
	rules := make(map[string]any, len(wrapped))
	for rule, values := range wrapped {
		if list, ok := values.([]any); ok && len(list) == 1 {
			rules[rule] = list[0]
		}
	}
	return rules, nil
}
