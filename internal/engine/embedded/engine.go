// Package embedded evaluates policies with OPA in this process. Data holds the replica data as immutable snapshots, and
// an Engine prepares policies that read it. New connects the two. Evaluations are limited in time, number, and size of
// input. Decisions and rule values are cached.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"
	"k8s.io/utils/clock"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
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
	// Timeout limits the duration of one evaluation.
	Timeout time.Duration
	// Concurrency is the number of evaluation slots. An evaluation that was abandoned at its deadline keeps its slot until
	// it ends. One policy gets at most half of the slots.
	Concurrency int
	// Observer is notified about the use of the caches and about quarantines; nil for no notifications.
	Observer Observer
	// Clock measures the duration of quarantines; nil for the real clock.
	Clock clock.PassiveClock
	// Predicates are the predicates that policies may call. Templates find the pod template of an object. World holds the
	// nodes and pods that predicates are evaluated on. A call is an error if Predicates is nil, and so is a call on nodes
	// if World is nil.
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
	// queries are the prepared queries by the digest of the policy's text. Policies with the same text share one.
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

// result is the variable of the query that holds the values of the decision contract's rules.
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
	out := &evaluator{
		engine: e, name: name, lenses: e.data.lensesOf(b), fields: m.Input, inputBytes: m.InputBytes, rules: newRuleMemo(m),
		asksNodes: m.Nodes, candidates: m.Candidates, inventories: e.data.inventoriesOf(b.Clusters),
	}
	out.quarantine.clock, out.quarantine.all.clock = e.clock, e.clock
	var err error
	if out.predicates, err = e.allowed(m); err != nil {
		return nil, err
	}
	if !m.Input.Whole() {
		// No two whole objects are the same. A policy that reads all of its input would never find a decision in the cache.
		out.memo = &memo{limit: memoBytes}
		if m.Nodes {
			out.memo.limit = reportsBytes
		}
	}
	for _, missing := range b.Missing {
		out.missing = append(out.missing, missing.String())
	}
	if len(m.Rules) == 0 {
		return out, nil
	}
	if out.query, err = e.sharedQuery(ctx, m); err != nil {
		return nil, fmt.Errorf("preparing policy %s: %w", name, err)
	}
	out.view = newView(e.data, m, b)
	return out, nil
}

// allowed returns the predicates that a policy may call; nil if the engine has none.
func (e *Engine) allowed(m *policy.Module) (*predicates.Set, error) {
	if e.predicates == nil || m.Predicates == nil {
		return e.predicates, nil
	}
	if err := e.Check(m); err != nil {
		return nil, err
	}
	return e.predicates.Narrow(m.Predicates)
}

// sharedQuery returns the query that all policies with the module's text share.
func (e *Engine) sharedQuery(ctx context.Context, m *policy.Module) (*rego.PreparedEvalQuery, error) {
	// Other callers may wait for the same query. It must not fail because this caller's context is canceled.
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

// generated is the prepared query of a generated module.
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

// queryText returns a query for those rules of the decision contract that the module defines, and for nothing else of
// the package. Each rule is wrapped in a comprehension, so that an undefined rule does not make the whole query
// undefined.
func queryText(m *policy.Module) string {
	parts := make([]string, len(m.Rules))
	for i, rule := range m.Rules {
		parts[i] = fmt.Sprintf("%q: [x | x := %s.%s]", rule, m.Package, rule)
	}
	return result + " := {" + strings.Join(parts, ", ") + "}"
}

// evaluator is the prepared form of one policy.
type evaluator struct {
	engine *Engine
	name   string
	query  *rego.PreparedEvalQuery
	view   *view
	// lenses are the field sets of the resource types that the policy reads.
	lenses  []*lens
	missing []string
	// fields is the field set of the input that the policy reads. inputBytes is the maximum size of these fields.
	fields     *projection.Fields
	inputBytes int
	// memo is the decision cache; nil if the policy reads all of the input.
	memo *memo
	// quarantine belongs to this version of the policy: a new version starts without a quarantine.
	quarantine quarantines
	// rules is the rule cache; nil if every rule reads as much as the policy.
	rules *ruleMemo
	// predicates are the predicates that the policy may call; nil for none. asksNodes reports whether it calls predicates
	// on nodes. candidates are the candidates that spec.predicates checks the decisions against. inventories are the
	// sources of data.clusters.
	predicates  *predicates.Set
	asksNodes   bool
	candidates  placementv1.PredicateCandidates
	inventories *inventories
}

// moment is the state that one evaluation reads: a snapshot of the replica data and one of the nodes.
type moment struct {
	*snapshot
	// nodes is the snapshot that predicates are evaluated on; nil for a policy that does not call predicates on nodes.
	nodes *predicates.Snapshot
}

// now returns the current state. The error is an *engine.NotReplicatedError if some of it is missing.
func (p *evaluator) now() (moment, error) {
	at := moment{snapshot: p.engine.data.current.Load()}
	if err := p.replicated(at.snapshot); err != nil || !p.asksNodes || p.engine.world == nil {
		return at, err
	}
	var err error
	if at.nodes, err = p.engine.world.Snapshot(); err != nil {
		missing := err.Error()
		if incomplete, ok := errors.AsType[*predicates.IncompleteError](err); ok {
			missing = strings.Join(incomplete.Missing, ", ")
		}
		return at, &engine.NotReplicatedError{Data: missing}
	}
	return at, nil
}

// allFields is the field set that contains all fields of an object.
var allFields = func() *projection.Fields {
	f := &projection.Fields{}
	f.All()
	return f.Seal()
}()

// Revision implements placement.Evaluator. It is the newest revision of the data that the policy reads. If the policy
// calls predicates on nodes, the revision of the nodes is added. Revision returns 0, which is no valid revision, while
// some of that data is missing.
func (p *evaluator) Revision() uint64 {
	snap := p.engine.data.current.Load()
	if p.replicated(snap) != nil {
		return 0
	}
	if !p.asksNodes || p.engine.world == nil {
		return p.revision(snap)
	}
	world := p.engine.world.Revision()
	if world == 0 {
		return 0
	}
	// Both revisions only grow, so no two states have the same sum.
	return p.revision(snap) + world
}

// revision returns the newest revision of the data that the policy reads. The snapshot must have all of that data. The
// revision grows with every change of it.
func (p *evaluator) revision(snap *snapshot) uint64 {
	newest := noData
	for _, l := range p.lenses {
		newest = max(newest, snap.revision(l))
	}
	return newest
}

// Input implements placement.Evaluator. It returns all fields if the policy turned out to read more than the analysis
// found.
func (p *evaluator) Input() *projection.Fields {
	if p.memo == nil || p.memo.off.Load() {
		return allFields
	}
	return p.fields
}

// keys is a pool of buffers for the keys of inputs.
var keys = sync.Pool{New: func() any { return new([]byte) }}

// Evaluate implements placement.Evaluator. The error is an *engine.NotReplicatedError if data is not complete, and
// wraps engine.ErrDeadline if the evaluation exceeded its deadline. Callers share decisions and must not change them.
func (p *evaluator) Evaluate(ctx context.Context, input map[string]any) (placement.Decision, error) {
	at, err := p.now()
	if err != nil || p.query == nil && p.candidates == "" {
		return placement.Decision{}, err
	}
	if p.memo == nil || p.memo.off.Load() {
		a, err := p.evaluate(ctx, at, allFields, input, nil)
		return a.decision, err
	}
	buffer := keys.Get().(*[]byte)
	defer keys.Put(buffer)
	key, ok := p.fields.AppendKey((*buffer)[:0], input)
	*buffer = key
	if !ok {
		a, err := p.evaluate(ctx, at, allFields, input, nil)
		return a.decision, err
	}
	revision := p.revision(at.snapshot)
	before := p.memo.get(revision, key)
	if before != nil && before.holds(at) {
		return p.known(ctx, at, input, before)
	}
	a, err := p.evaluate(ctx, at, p.fields, input, before)
	switch {
	case a.known:
		before.found(at)
		return p.known(ctx, at, input, before)
	case err == nil:
		p.memo.put(revision, key, newRemembered(at, a))
	}
	p.engine.observer.MemoMiss()
	return a.decision, err
}

// known returns a cached decision. One of many calls checks the decision by an evaluation, and then returns what that
// evaluation decides.
func (p *evaluator) known(ctx context.Context, at moment, input map[string]any, r *remembered) (placement.Decision, error) {
	p.engine.observer.MemoHit()
	if p.memo.sample() {
		return p.check(ctx, at, input, r.decision, nil)
	}
	return r.decision, nil
}

// check compares the result of an evaluation that used the caches, which is a decision or an error, with an evaluation
// of the whole input without caches. If they differ, check turns the caches off and returns the new result. Regular
// evaluations have priority: check returns its arguments unchanged if no slot is free, if the policy is in quarantine,
// or if the check exceeds its deadline.
func (p *evaluator) check(ctx context.Context, at moment, input map[string]any, remembered placement.Decision, failed error) (placement.Decision, error) {
	value, err := allFields.Value(input)
	if err != nil {
		return remembered, failed
	}
	asked := admission{namespace: placement.NamespaceOf(ctx)}
	asked.own = p.quarantine.of(asked.namespace)
	if ctx.Err() != nil || p.quarantine.stands(asked) != nil || !p.engine.slots.tryTake(p.name, asked.namespace) {
		return remembered, failed
	}
	ctx, cancel := context.WithTimeout(ctx, p.engine.timeout)
	defer cancel()
	a, err := p.run(ctx, asked, at, value, nil, nil)
	switch {
	case errors.Is(err, engine.ErrDeadline), err != nil && failed != nil,
		err == nil && failed == nil && a.decision.Equal(remembered):
		return remembered, failed
	}
	if p.forget() {
		p.engine.observer.MemoMismatch(p.name)
	}
	return a.decision, err
}

// forget turns the caches of the policy off. It reports whether one of them was still on.
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

// answer is the result of an evaluation.
type answer struct {
	decision placement.Decision
	// reports are the predicates' reports on nodes that the decision depends on.
	reports []*predicates.Report
	// known reports whether the cached decision still holds, so that nothing was evaluated.
	known bool
}

// evaluate evaluates the policy on some fields of the input. It fails if the policy is in quarantine, and waits for an
// evaluation slot. before is a cached decision for the same input and data, whose node reports may be outdated; nil for
// none.
func (p *evaluator) evaluate(ctx context.Context, at moment, fields *projection.Fields, input map[string]any, before *remembered) (answer, error) {
	if err := engine.CheckInput(fields, input, p.inputBytes); err != nil {
		return answer{}, err
	}
	asked, err := p.quarantine.admit(placement.NamespaceOf(ctx))
	if err != nil {
		return answer{}, err
	}
	value, err := fields.Value(input)
	if err != nil {
		p.quarantine.settle(asked, untold)
		return answer{}, fmt.Errorf("converting input: %w", err)
	}
	rules := p.rules.view(p.revision(at.snapshot), input)
	a, how, err := p.inSlot(ctx, asked, func(ctx context.Context) (answer, error) { return p.run(ctx, asked, at, value, rules, before) })
	began, left, beganHere, leftHere := p.quarantine.settle(asked, how)
	switch {
	case began:
		p.engine.observer.Quarantined(p.name)
	case left:
		p.engine.observer.Released(p.name)
	}
	if beganHere || leftHere {
		p.engine.observer.NamespaceQuarantined(p.name, asked.namespace, beganHere)
	}
	// An evaluation that was abandoned at its deadline may still be using rules.
	if rules == nil || errors.Is(err, engine.ErrDeadline) {
		return a, err
	}
	p.engine.observer.MemoRules(rules.hits, rules.misses)
	if rules.hits > 0 && p.rules.sample() {
		a.decision, err = p.check(ctx, at, input, a.decision, err)
	}
	return a, err
}

// inSlot waits for a slot and evaluates the policy in it. The wait has a deadline of its own, so that the time that
// other policies take does not count against this one.
func (p *evaluator) inSlot(ctx context.Context, asked admission, run func(context.Context) (answer, error)) (answer, outcome, error) {
	wait, cancel := context.WithTimeout(ctx, p.engine.timeout)
	defer cancel()
	if !p.engine.slots.take(wait, p.name, asked.namespace) {
		return answer{}, untold, fmt.Errorf("%w of %s while waiting for other evaluations", engine.ErrDeadline, p.engine.timeout)
	}
	if err := p.quarantine.stands(asked); err != nil {
		p.engine.slots.give(p.name, asked.namespace)
		return answer{}, untold, err
	}
	own, cancel := context.WithTimeout(ctx, p.engine.timeout)
	defer cancel()
	a, err := run(own)
	switch {
	case !errors.Is(err, engine.ErrDeadline):
		return a, ended, err
	case ctx.Err() != nil:
		return a, untold, err
	default:
		return a, overdue, err
	}
}

// Quarantined implements placement.Quarantinable.
func (p *evaluator) Quarantined() (since time.Time, ok bool) { return p.quarantine.quarantined() }

// QuarantinedNamespaces implements placement.Quarantinable.
func (p *evaluator) QuarantinedNamespaces() int { return p.quarantine.Namespaces() }

// run evaluates the policy in the slot that the caller has taken, and frees the slot.
func (p *evaluator) run(ctx context.Context, asked admission, at moment, input ast.Value, rules *ruleView, before *remembered) (answer, error) {
	type result struct {
		answer
		err error
	}
	// A few builtin functions don't check the deadline before they are done. The caller does not wait for them. The
	// evaluation keeps its slot until it ends, so that such evaluations can't pile up.
	results := make(chan result, 1)
	// over is set by whichever comes first: the evaluation when it ends, or the caller when it abandons the evaluation.
	var over atomic.Bool
	var abandoned admission
	go func() {
		growStack()
		var r result
		defer func() {
			if panicked := recover(); panicked != nil {
				r = result{err: fmt.Errorf("evaluation panicked: %v\n%s", panicked, debug.Stack())}
			}
			inTime := over.CompareAndSwap(false, true)
			if !inTime {
				// This comes before the slot is freed: the next evaluation in that slot may be the trial that waits for this one to
				// end.
				p.quarantine.back(abandoned)
			}
			p.engine.slots.give(p.name, asked.namespace)
			if inTime {
				results <- r
			}
		}()
		r.answer, r.err = p.decide(ctx, at, input, rules, before)
	}()
	select {
	case r := <-results:
		return r.answer, r.err
	case <-ctx.Done():
		abandoned = p.quarantine.abandon(asked)
		if over.CompareAndSwap(false, true) {
			return answer{}, fmt.Errorf("%w of %s", engine.ErrDeadline, p.engine.timeout)
		}
		p.quarantine.back(abandoned)
		r := <-results
		return r.answer, r.err
	}
}

// replicated returns an *engine.NotReplicatedError unless the snapshot has all of the data that the policy reads.
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

func (p *evaluator) decide(ctx context.Context, at moment, input ast.Value, known *ruleView, before *remembered) (answer, error) {
	if before != nil && before.again(ctx, p.predicates, at) {
		return answer{decision: before.decision, known: true}, nil
	}
	j := &judge{set: p.predicates, templates: p.engine.templates, moment: at, inventories: p.inventories}
	decision, err := p.rulesOf(ctx, j, input, known)
	if err == nil && p.candidates != "" {
		decision, err = j.filter(ctx, p.candidates, input, decision)
	}
	if err != nil && (ctx.Err() != nil || errors.Is(err, &topdown.Error{Code: topdown.CancelErr})) {
		err = fmt.Errorf("%w of %s", engine.ErrDeadline, p.engine.timeout)
	}
	return answer{decision: decision, reports: j.reports}, err
}

// rulesOf evaluates the decision contract's rules on the judge's snapshot.
func (p *evaluator) rulesOf(ctx context.Context, j *judge, input ast.Value, known *ruleView) (placement.Decision, error) {
	if p.query == nil {
		return placement.Decision{}, nil
	}
	options := []rego.EvalOption{
		rego.EvalParsedInput(input), rego.EvalTransaction(p.view.at(j.snapshot)), rego.EvalMetrics(metrics.NoOp()), rego.EvalGenerateJSON(bounded),
	}
	if known != nil {
		options = append(options, rego.EvalVirtualCache(known))
	}
	rules, err := ask(context.WithValue(ctx, judgeKey{}, j), p.query, options...)
	if err != nil {
		return placement.Decision{}, &evaluationError{policy: p.name, err: errors.Join(err, j.failed), text: err.Error()}
	}
	if known != nil {
		known.keep()
	}
	return placement.ParseDecision(rules)
}

// evaluationError is an error from the evaluation of a text that policies share. Its message names the file of the
// policy that was evaluated.
type evaluationError struct {
	policy, text string
	err          error
}

func (e *evaluationError) Error() string { return policy.InFile(e.policy, e.text) }

func (e *evaluationError) Unwrap() error { return e.err }

// ask evaluates a query from queryText and returns the values of the rules that are defined.
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
