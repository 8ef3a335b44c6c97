// Package embedded evaluates policies with OPA in this process.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/weakcache"
	"github.com/berth-dev/berth/internal/workload"
)

var (
	_ engine.Engine       = (*Engine)(nil)
	_ placement.Evaluator = (*evaluator)(nil)

	_ placement.Quarantinable = (*evaluator)(nil)
)

// Options configure an Engine.
type Options struct {
	// Timeout bounds one evaluation.
	Timeout time.Duration
	// Concurrency bounds how many evaluations run at once, those included that were given up at their deadline and
	// have not noticed yet. Of one policy no more than half of them run.
	Concurrency int
	// Observer is told what becomes of remembered decisions and of policies that run too long; nil for nobody.
	Observer Observer
	// Clock says how long a quarantine lasts; nil for the real one.
	Clock clock.PassiveClock
	// Predicates are those that policies may ask, Templates say what of an object they are asked about, and World is what
	// they are asked of. Without one of the former, and of nodes without the latter, to ask is an error.
	Predicates *predicates.Set
	Templates  *workload.Templates
	World      *predicates.World
}

// Engine evaluates policies over its Data.
type Engine struct {
	data       *Data
	timeout    time.Duration
	slots      *queue
	observer   Observer
	clock      clock.PassiveClock
	predicates *predicates.Set
	templates  *workload.Templates
	world      *predicates.World
	// queries are those of the texts of which some policy is prepared.
	queries weakcache.Cache[rego.PreparedEvalQuery]
}

// New returns an engine that reads data.
func New(data *Data, o Options) *Engine {
	e := &Engine{
		data: data, timeout: o.Timeout, slots: newQueue(o.Concurrency), observer: o.Observer, clock: o.Clock,
		predicates: o.Predicates, templates: o.Templates, world: o.World,
	}
	if e.observer == nil {
		e.observer = nobody{}
	}
	if e.clock == nil {
		e.clock = clock.RealClock{}
	}
	return e
}

// Name implements engine.Engine.
func (*Engine) Name() string { return "Embedded" }

// result is the variable of the query that holds the contract's rules.
const result = "result"

// Check implements engine.Engine.
func (e *Engine) Check(m *policy.Module) error {
	if e.predicates == nil {
		return nil
	}
	return m.CheckPredicates(e.predicates.Names())
}

// Prepare implements engine.Engine.
func (e *Engine) Prepare(ctx context.Context, name string, m *policy.Module, b *policy.Binding) (placement.Evaluator, error) {
	out := &evaluator{engine: e, name: name, lenses: e.data.lensesOf(b), fields: m.Input, rules: newRuleMemo(m)}
	out.quarantine.clock = e.clock
	if !m.Input.Whole() {
		// Of objects no two are the same: where all of the object counts, nothing is asked twice.
		out.memo = &memo{}
	}
	for _, missing := range b.Missing {
		out.missing = append(out.missing, missing.String())
	}
	if len(m.Rules) == 0 {
		return out, nil
	}
	var err error
	if out.query, err = e.sharedQuery(ctx, m); err != nil {
		return nil, fmt.Errorf("preparing policy %s: %w", name, err)
	}
	out.view = newView(e.data, m, b)
	return out, nil
}

// sharedQuery returns the query of all policies that have the module's text.
func (e *Engine) sharedQuery(ctx context.Context, m *policy.Module) (*rego.PreparedEvalQuery, error) {
	// Others may wait for it, who have contexts of their own.
	ctx = context.WithoutCancel(ctx)
	prepare := func() (*rego.PreparedEvalQuery, error) { return prepareQuery(ctx, m, rego.Store(nowhere)) }
	if m.Digest == "" {
		return prepare()
	}
	return e.queries.Get(m.Digest, prepare)
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
	value, err := allFields.Value(input)
	if err != nil {
		return nil, fmt.Errorf("converting input: %w", err)
	}
	return ask(ctx, g.query, rego.EvalParsedInput(value))
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
	engine *Engine
	name   string
	query  *rego.PreparedEvalQuery
	view   *view
	// lenses are how it sees the resource types that it reads.
	lenses  []*lens
	missing []string
	// fields are those of the input that the policy reads.
	fields *projection.Fields
	// memo is nil if the policy reads all of the input.
	memo *memo
	// quarantine is the policy's: a new text starts without.
	quarantine quarantine
	// rules is nil if no rule reads less than the policy.
	rules *ruleMemo
}

// allFields are all fields of an input.
var allFields = func() *projection.Fields {
	f := &projection.Fields{}
	f.All()
	return f.Seal()
}()

// Revision implements placement.Evaluator: the newest revision among what the policy reads of the tables. It is 0, which
// nothing has, while some of that is missing.
func (p *evaluator) Revision() uint64 {
	snap := p.engine.data.current.Load()
	if p.replicated(snap) != nil {
		return 0
	}
	return p.revision(snap)
}

// revision is that of a snapshot which has all of the data. It grows with every change of what the policy reads.
func (p *evaluator) revision(snap *snapshot) uint64 {
	newest := noData
	for _, l := range p.lenses {
		newest = max(newest, snap.revision(l))
	}
	return newest
}

// Input implements placement.Evaluator. Once the policy turned out to read more than was found, that is everything.
func (p *evaluator) Input() *projection.Fields {
	if p.memo == nil || p.memo.off.Load() {
		return allFields
	}
	return p.fields
}

// keys lends buffers for the keys of inputs.
var keys = sync.Pool{New: func() any { return new([]byte) }}

// Evaluate implements placement.Evaluator. Data that is not complete is an *engine.NotReplicatedError, the deadline
// is engine.ErrDeadline. The decision may be one that others have got as well, and is not to be changed.
func (p *evaluator) Evaluate(ctx context.Context, input map[string]any) (placement.Decision, error) {
	snap := p.engine.data.current.Load()
	if err := p.replicated(snap); err != nil || p.query == nil {
		return placement.Decision{}, err
	}
	if p.memo == nil || p.memo.off.Load() {
		return p.evaluate(ctx, snap, allFields, input)
	}
	buffer := keys.Get().(*[]byte)
	defer keys.Put(buffer)
	key, ok := p.fields.AppendKey((*buffer)[:0], input)
	*buffer = key
	if !ok {
		return p.evaluate(ctx, snap, allFields, input)
	}
	revision := p.revision(snap)
	if decision, check, ok := p.memo.get(revision, key); ok {
		p.engine.observer.MemoHit()
		if check {
			return p.check(ctx, snap, input, decision, nil)
		}
		return decision, nil
	}
	p.engine.observer.MemoMiss()
	decision, err := p.evaluate(ctx, snap, p.fields, input)
	if err == nil {
		p.memo.put(revision, key, decision)
	}
	return decision, err
}

// check compares what came of remembering, a decision or an error, with the decision on the whole input with nothing
// remembered. What is under way elsewhere comes first: without a free slot, or in time, there is no check.
func (p *evaluator) check(ctx context.Context, snap *snapshot, input map[string]any, remembered placement.Decision, failed error) (placement.Decision, error) {
	value, err := allFields.Value(input)
	if err != nil {
		return remembered, failed
	}
	if p.quarantine.stands() != nil || !p.engine.slots.tryTake(p.name) {
		return remembered, failed
	}
	ctx, cancel := context.WithTimeout(ctx, p.engine.timeout)
	defer cancel()
	decision, err := p.run(ctx, snap, value, nil)
	switch {
	case errors.Is(err, engine.ErrDeadline), err != nil && failed != nil,
		err == nil && failed == nil && equalDecisions(decision, remembered):
		return remembered, failed
	}
	if p.forget() {
		p.engine.observer.MemoMismatch(p.name)
	}
	return decision, err
}

// forget stops remembering, and says whether that is news.
func (p *evaluator) forget() bool {
	news := false
	if p.memo != nil {
		news = !p.memo.off.Swap(true)
	}
	if p.rules != nil {
		news = !p.rules.off.Swap(true) || news
	}
	return news
}

// evaluate evaluates the policy on some fields of the input, if it is not in quarantine, and once it gets a slot.
func (p *evaluator) evaluate(ctx context.Context, snap *snapshot, fields *projection.Fields, input map[string]any) (placement.Decision, error) {
	value, err := fields.Value(input)
	if err != nil {
		return placement.Decision{}, fmt.Errorf("converting input: %w", err)
	}
	trial, err := p.quarantine.admit()
	if err != nil {
		return placement.Decision{}, err
	}
	rules := p.rules.view(p.revision(snap), input)
	decision, how, err := p.inSlot(ctx, snap, value, rules, trial)
	switch began, left := p.quarantine.settle(trial, how); {
	case began:
		p.engine.observer.Quarantined(p.name)
	case left:
		p.engine.observer.Released(p.name)
	}
	// Who was not waited for may still be at it.
	if rules == nil || errors.Is(err, engine.ErrDeadline) {
		return decision, err
	}
	p.engine.observer.MemoRules(rules.hits, rules.misses)
	if rules.hits > 0 && p.rules.sample() {
		return p.check(ctx, snap, input, decision, err)
	}
	return decision, err
}

// inSlot waits for a slot and evaluates the policy in it. The wait has a deadline of its own: a policy is not blamed
// for the time that others take.
func (p *evaluator) inSlot(ctx context.Context, snap *snapshot, input ast.Value, rules *ruleView, trial bool) (placement.Decision, outcome, error) {
	wait, cancel := context.WithTimeout(ctx, p.engine.timeout)
	defer cancel()
	if !p.engine.slots.take(wait, p.name) {
		return placement.Decision{}, untold, fmt.Errorf("%w while waiting for other evaluations", engine.ErrDeadline)
	}
	if err := p.quarantine.stands(); err != nil && !trial {
		p.engine.slots.give(p.name)
		return placement.Decision{}, untold, err
	}
	own, cancel := context.WithTimeout(ctx, p.engine.timeout)
	defer cancel()
	decision, err := p.run(own, snap, input, rules)
	switch {
	case !errors.Is(err, engine.ErrDeadline):
		return decision, ended, err
	case ctx.Err() != nil:
		return decision, untold, err
	default:
		return decision, overdue, err
	}
}

// Quarantined implements placement.Quarantinable.
func (p *evaluator) Quarantined() (since time.Time, ok bool) { return p.quarantine.quarantined() }

// run evaluates the policy in the slot that the caller has taken.
func (p *evaluator) run(ctx context.Context, snap *snapshot, input ast.Value, rules *ruleView) (placement.Decision, error) {
	type answer struct {
		decision placement.Decision
		err      error
	}
	// A few calls don't look at the deadline before they are done. The caller does not wait for them; the evaluation
	// keeps its slot until it ends, so that they can't pile up.
	answers := make(chan answer)
	given := make(chan struct{})
	go func() {
		growStack()
		var a answer
		defer func() {
			if r := recover(); r != nil {
				a = answer{err: fmt.Errorf("evaluation panicked: %v\n%s", r, debug.Stack())}
			}
			p.engine.slots.give(p.name)
			select {
			case answers <- a:
			case <-given:
				p.quarantine.back()
			}
		}()
		a.decision, a.err = p.decide(ctx, snap, input, rules)
	}()
	select {
	case a := <-answers:
		return a.decision, a.err
	case <-ctx.Done():
		p.quarantine.abandon()
		close(given)
		return placement.Decision{}, fmt.Errorf("%w of %s", engine.ErrDeadline, p.engine.timeout)
	}
}

// replicated is nil if the snapshot has all of the data that the policy reads.
func (p *evaluator) replicated(snap *snapshot) error {
	if len(p.missing) > 0 {
		return &engine.NotReplicatedError{Data: strings.Join(p.missing, ", ")}
	}
	for _, l := range p.lenses {
		if snap.revision(l) == 0 {
			return &engine.NotReplicatedError{Data: resourceText(l.resource)}
		}
	}
	return nil
}

func (p *evaluator) decide(ctx context.Context, snap *snapshot, input ast.Value, known *ruleView) (placement.Decision, error) {
	options := []rego.EvalOption{
		rego.EvalParsedInput(input), rego.EvalTransaction(p.view.at(snap)), rego.EvalMetrics(metrics.NoOp()), rego.EvalGenerateJSON(bounded),
	}
	if known != nil {
		options = append(options, rego.EvalVirtualCache(known))
	}
	rules, err := ask(ctx, p.query, options...)
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, &topdown.Error{Code: topdown.CancelErr}) {
			return placement.Decision{}, fmt.Errorf("%w of %s", engine.ErrDeadline, p.engine.timeout)
		}
		return placement.Decision{}, &evaluationError{policy: p.name, err: err}
	}
	if known != nil {
		known.keep()
	}
	return placement.ParseDecision(rules)
}

// evaluationError is an error of a text that policies share, and names the policy's own file.
type evaluationError struct {
	policy string
	err    error
}

func (e *evaluationError) Error() string { return policy.InFile(e.policy, e.err.Error()) }

func (e *evaluationError) Unwrap() error { return e.err }

// ask evaluates a query of queryText's form and returns the values of the rules that are defined.
func ask(ctx context.Context, query *rego.PreparedEvalQuery, options ...rego.EvalOption) (map[string]any, error) {
	results, err := query.Eval(ctx, options...)
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
