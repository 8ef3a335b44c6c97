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

// Package embedded evaluates policies with OPA in this process. Data holds the replica data as immutable snapshots, and
// an Engine prepares policies that read it. New connects the two. Evaluations are limited in time, number, and size of
// input. Decisions and rule values are cached.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/weakcache"
	"github.com/berth-dev/berth/internal/workload"
)

var _ placement.Evaluator = (*evaluator)(nil)

// Options configure an Engine: the time limit and the number of its evaluations, the observer of its caches, and the predicates with what
// they are evaluated on. Timeout and Concurrency have no defaults: with 0, every evaluation fails. The others may be nil. The sizes of the
// caches are fixed.
type Options struct {
	// Timeout limits the duration of one evaluation and, separately, that of the wait for an evaluation slot. It has no default: with 0, every
	// evaluation fails, and the engine can only compile and check policies.
	Timeout time.Duration
	// Concurrency is the number of evaluation slots. An evaluation that was abandoned at its deadline keeps its slot until
	// it ends. One policy gets at most half of the slots.
	Concurrency int
	// Observer is notified about the use of the caches; nil for no notifications.
	Observer Observer
	// Predicates are the predicates that policies may call; nil makes each call an error.
	Predicates *predicates.Set
	// Templates find the pod template of an object, on which predicates are evaluated. Nil knows only the kinds built into Kubernetes.
	Templates *workload.Templates
	// World holds the nodes and pods that predicates are evaluated on; nil makes each call on nodes an error.
	World *predicates.NodeCache
}

// Engine prepares policies that read its Data, and evaluates them. All of its policies share the evaluation slots, the predicates, and the
// prepared queries of equal texts. Each evaluator has caches of its own.
type Engine struct {
	Options
	data *Data
	// slots grants the evaluation slots.
	slots *queue
	// queries are the prepared queries by the digest of the policy's text. Policies with the same text share one.
	queries weakcache.Cache[rego.PreparedEvalQuery]
}

// New returns an engine whose policies read data. Without an Observer, it notifies none. Other options have no defaults: in particular,
// every evaluation fails if Timeout is 0. It starts no goroutines.
func New(data *Data, o Options) *Engine {
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	return &Engine{Options: o, data: data, slots: newQueue(o.Concurrency)}
}

// resultVariable is the variable of the query that holds the values of the decision contract's rules.
const resultVariable = "result"

// Check verifies that the engine has the predicates that spec.predicates of the policy names. It accepts all names if the engine has no
// predicates. The error is a *policy.CompileError.
func (e *Engine) Check(m *policy.Module) error {
	if e.Predicates == nil {
		return nil
	}
	return m.CheckPredicates(e.Predicates.Names())
}

// Prepare returns the evaluator of the policy with a name. It returns an error if spec.predicates names predicates that the engine does not
// have, or the query can't be prepared. The caller drops the evaluator when it no longer needs it: it holds no resources that need to be
// released.
func (e *Engine) Prepare(ctx context.Context, name string, m *policy.Module, b *policy.Binding) (placement.Evaluator, error) {
	out := &evaluator{
		engine: e, name: name, module: m, binding: b, fieldSets: e.data.fieldSetsOf(b), ruleCache: newRuleCache(m),
		inventories: e.data.inventoriesOf(b.Clusters),
	}
	var err error
	if out.predicates, err = e.allowed(m); err != nil {
		return nil, err
	}
	if !m.Input.IsAll() {
		// No two whole objects are the same. A policy that reads all of its input would never find a decision in the cache.
		out.decisionCache = &decisionCache{limit: decisionCacheBytes}
		if m.Nodes {
			out.decisionCache.limit = reportsCacheBytes
		}
		out.openDecisions = newOpenDecisions(m)
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

// allowed returns the predicates that a policy may call: those that spec.predicates names or, if it names none, all of the engine; nil if
// the engine has none. The error is a *policy.CompileError if the engine lacks one of the names.
func (e *Engine) allowed(m *policy.Module) (*predicates.Set, error) {
	if e.Predicates == nil || m.Predicates == nil {
		return e.Predicates, nil
	}
	if err := e.Check(m); err != nil {
		return nil, err
	}
	return e.Predicates.Narrow(m.Predicates)
}

// sharedQuery returns the query of the contract's rules, which all policies with the module's text share.
func (e *Engine) sharedQuery(ctx context.Context, m *policy.Module) (*rego.PreparedEvalQuery, error) {
	// Other callers may wait for the same query. It must not fail because this caller's context is canceled.
	ctx = context.WithoutCancel(ctx)
	prepare := func() (*rego.PreparedEvalQuery, error) { return prepareQuery(ctx, m, rego.Store(emptyStore)) }
	if m.Digest == "" {
		return prepare()
	}
	// The same Rego in spec.rego and of spec.rules has different queries.
	return e.queries.Get(strings.Join(append([]string{m.Digest}, askedRules(m)...), " "), prepare)
}

// PrepareGenerated returns the rules of a module that Berth itself generated for a quota. Such a module terminates by construction and
// reads no data. Its evaluations do not wait for a slot, so no policy can delay them.
func (*Engine) PrepareGenerated(ctx context.Context, name string, m *policy.Module) (policy.Rules, error) {
	prepared, err := prepareQuery(ctx, m, rego.StrictBuiltinErrors(true))
	if err != nil {
		return nil, fmt.Errorf("preparing %s: %w", name, err)
	}
	return generated{prepared}, nil
}

// prepareQuery prepares the query of a compiled module, with Berth's builtin functions and the options more, such as the store. All
// evaluations of the package use such queries, so the builtin functions are guarded before any evaluation.
func prepareQuery(ctx context.Context, m *policy.Module, more ...func(*rego.Rego)) (*rego.PreparedEvalQuery, error) {
	query, err := ast.ParseBodyWithOpts(queryText(m), ast.ParserOptions{RegoVersion: ast.RegoV1})
	if err != nil {
		return nil, err
	}
	guardBuiltins()
	options := append([]func(*rego.Rego){rego.ParsedQuery(query), rego.Compiler(m.Compiler)}, builtins...)
	prepared, err := rego.New(append(options, more...)...).PrepareForEval(ctx)
	return &prepared, err
}

// generated is the prepared query of a module that Berth generated for a quota.
type generated struct {
	query *rego.PreparedEvalQuery // the query of the module's rules
}

// Evaluate implements policy.Rules. It returns the values of the rules that are defined for the input, by the name of the rule.
func (g generated) Evaluate(ctx context.Context, input map[string]any) (map[string]any, error) {
	value, err := projection.AllFields().Value(input)
	if err != nil {
		return nil, fmt.Errorf("converting input: %w", err)
	}
	return evaluateQuery(ctx, g.query, rego.EvalParsedInput(value))
}

// queryText returns a query for those rules of the decision contract that the module defines, for the name of the rule of spec.rules
// that decides, and for nothing else of the package. Each rule is wrapped in a comprehension, so that an undefined rule does not make
// the whole query undefined.
func queryText(m *policy.Module) string {
	asked := askedRules(m)
	parts := make([]string, len(asked))
	for i, rule := range asked {
		parts[i] = fmt.Sprintf("%q: [x | x := %s.%s]", rule, m.Package, rule)
	}
	return resultVariable + " := {" + strings.Join(parts, ", ") + "}"
}

// evaluator is the prepared form of one policy.
type evaluator struct {
	engine *Engine
	name   string
	module *policy.Module
	// binding has the resource types, and the fields of their objects, that the module's references to data stand for.
	binding *policy.Binding
	// query is the query of the decision contract's rules; nil if the policy has none of them.
	query *rego.PreparedEvalQuery
	view  *view // what the policy's Rego sees as `data`; nil if query is nil
	// fieldSets are the field sets of the resource types that the policy reads.
	fieldSets []*fieldSet
	// missing are the resource types that the policy reads and the API server does not serve, as the Rego names them. While there are any,
	// the policy can't decide.
	missing []string
	// decisionCache is the decision cache; nil if the policy reads all of the input.
	decisionCache *decisionCache
	// openDecisions caches decisions without the choice of clusters; nil for a policy of which no rule chooses by limit or spread, for one
	// that reads all of the input or whose decisions predicates check, and if more than the clusters depends on which are chosen.
	openDecisions *openDecisions
	// ruleCache is the rule cache; nil if every rule reads as much as the policy.
	ruleCache *ruleCache
	// predicates are the predicates that the policy may call, even if it calls none: those that spec.predicates names, or else all of the
	// engine; nil if the engine has none (Options.Predicates).
	predicates  *predicates.Set
	inventories *inventories // the resource types whose objects are the clusters in data.clusters; never nil, without types if there are none
}

// evaluationState is the state that one evaluation reads: a snapshot of the replica data and one of the nodes.
type evaluationState struct {
	*snapshot
	// nodes is the snapshot that predicates are evaluated on; nil for a policy that does not call predicates on nodes.
	nodes *predicates.Snapshot
	// tolerated are the names of the clusters of which data.clusters leaves out the taints that mark them as not ready, sorted.
	tolerated []any
}

// currentState returns the current state, without tolerated. The error is an *engine.NotReplicatedError if replica data that the policy
// reads, or nodes that its predicates need, are missing.
func (p *evaluator) currentState() (evaluationState, error) {
	state := evaluationState{snapshot: p.engine.data.current.Load()}
	if err := p.checkReplicated(state.snapshot); err != nil || !p.module.Nodes || p.engine.World == nil {
		return state, err
	}
	var err error
	if state.nodes, err = p.engine.World.Snapshot(); err != nil {
		missing := err.Error()
		if incomplete, ok := errors.AsType[*predicates.IncompleteError](err); ok {
			missing = strings.Join(incomplete.Missing, ", ")
		}
		return state, &engine.NotReplicatedError{Data: missing}
	}
	return state, nil
}

// Revision implements placement.Evaluator. It is the newest revision of the data that the policy reads. If the policy
// calls predicates on nodes, the revision of the nodes is added. Revision returns 0, which is no valid revision, while
// some of that data is missing.
func (p *evaluator) Revision() uint64 {
	snap := p.engine.data.current.Load()
	if p.checkReplicated(snap) != nil {
		return 0
	}
	if !p.module.Nodes || p.engine.World == nil {
		return p.revision(snap)
	}
	world := p.engine.World.Revision()
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
	for _, l := range p.fieldSets {
		newest = max(newest, snap.revision(l))
	}
	return newest
}

// Input implements placement.Evaluator. It returns the fields of the input that decisions depend on.
func (p *evaluator) Input() *projection.FieldSet { return p.module.Input }

// keyBuffers is a pool of buffers for the keys of inputs.
var keyBuffers = sync.Pool{New: func() any { return new([]byte) }}

// Evaluate implements placement.Evaluator. It returns the decision on the object that the input is, which is empty if the policy has
// neither contract rules nor spec.predicates. The error is an *engine.NotReplicatedError if data is not complete, and wraps
// engine.ErrDeadline if the evaluation, or the wait for its slot, exceeded its deadline. Callers share decisions and must not change them.
func (p *evaluator) Evaluate(ctx context.Context, input map[string]any) (placement.Decision, error) {
	state, err := p.currentState()
	if err != nil || p.query == nil && p.module.Candidates == "" {
		return placement.Decision{}, err
	}
	state.tolerated = toleratedIn(input)
	if p.decisionCache == nil {
		a, err := p.evaluate(ctx, state, projection.AllFields(), input, nil)
		return a.decision, err
	}
	buffer := keyBuffers.Get().(*[]byte)
	defer keyBuffers.Put(buffer)
	key, ok := p.module.Input.AppendKey((*buffer)[:0], input)
	*buffer = key
	if !ok {
		a, err := p.evaluate(ctx, state, projection.AllFields(), input, nil)
		return a.decision, err
	}
	revision := p.revision(state.snapshot)
	before := p.decisionCache.get(revision, key)
	if before != nil && before.validAt(state) {
		p.engine.Observer.DecisionCacheHit()
		return before.decision, nil
	}
	if decision, ok := p.openDecisions.decide(revision, state, input); ok {
		p.decisionCache.put(revision, key, &cachedDecision{decision: decision})
		p.engine.Observer.DecisionCacheHit()
		return decision, nil
	}
	a, err := p.evaluate(ctx, state, p.module.Input, input, before)
	switch {
	case a.fromCache:
		before.markValid(state)
		p.engine.Observer.DecisionCacheHit()
		return before.decision, nil
	case err == nil:
		p.decisionCache.put(revision, key, newCachedDecision(state, a))
		p.openDecisions.put(revision, state, input, a)
	}
	p.engine.Observer.DecisionCacheMiss()
	return a.decision, err
}

// evaluation is the result of an evaluation: the decision, and the node reports and choices of clusters that it depends on.
type evaluation struct {
	decision placement.Decision
	// reports are the predicates' reports on nodes that the decision depends on; nil if fromCache is set.
	reports []*predicates.Report
	// choices are the choices of at least one cluster that the rules made by language.ChooseClusters or language.SpreadClusters; nil if
	// fromCache is set.
	choices []choice
	// fromCache reports whether decision is a cached one whose node reports still hold, so that the policy was not evaluated.
	fromCache bool
}

// evaluate evaluates the policy on some fields of the input. It waits for an evaluation slot. before is a cached decision for the same
// input and data; nil for none. If, on the current nodes, the predicates give the same reports as before, evaluate returns before's
// decision and evaluates no rules.
func (p *evaluator) evaluate(ctx context.Context, state evaluationState, fields *projection.FieldSet, input map[string]any,
	before *cachedDecision) (evaluation, error) {
	if err := engine.CheckInput(fields, input, p.module.InputBytes); err != nil {
		return evaluation{}, err
	}
	value, err := fields.Value(input)
	if err != nil {
		return evaluation{}, fmt.Errorf("converting input: %w", err)
	}
	var rules *ruleView
	if len(state.tolerated) == 0 {
		// The values of rules are remembered for data.clusters as it is.
		rules = p.ruleCache.view(p.revision(state.snapshot), input)
	}
	a, err := p.run(ctx, state, value, rules, before)
	// An evaluation that was abandoned at its deadline may still be using rules.
	if rules == nil || errors.Is(err, engine.ErrDeadline) {
		return a, err
	}
	p.engine.Observer.RuleCacheUsed(rules.hits, rules.misses)
	return a, err
}

// run waits for a slot for the object's namespace, which ctx carries (placement.NamespaceOf), and returns what decide returns in it. The
// wait has a deadline of its own, so that the time that other policies take does not count against this one. The error wraps
// engine.ErrDeadline if either of them takes longer than Options.Timeout. The slot is in use until decide ends, also after that error.
func (p *evaluator) run(ctx context.Context, state evaluationState, input ast.Value, rules *ruleView,
	before *cachedDecision) (evaluation, error) {
	namespace := placement.NamespaceOf(ctx)
	wait, cancel := context.WithTimeout(ctx, p.engine.Timeout)
	defer cancel()
	if !p.engine.slots.acquire(wait, p.name, namespace) {
		return evaluation{}, fmt.Errorf("%w of %s while waiting for other evaluations", engine.ErrDeadline, p.engine.Timeout)
	}
	ctx, cancel = context.WithTimeout(ctx, p.engine.Timeout)
	defer cancel()
	type result struct {
		evaluation
		err error
	}
	// A few builtin functions don't check the deadline before they are done. The caller does not wait for them. The
	// evaluation keeps its slot until it ends, so that such evaluations can't pile up.
	results := make(chan result, 1)
	go func() {
		growStack()
		var r result
		defer func() {
			if panicked := recover(); panicked != nil {
				r = result{err: fmt.Errorf("evaluation panicked: %v\n%s", panicked, debug.Stack())}
			}
			p.engine.slots.release(p.name, namespace)
			results <- r
		}()
		r.evaluation, r.err = p.decide(ctx, state, input, rules, before)
	}()
	select {
	case r := <-results:
		return r.evaluation, r.err
	case <-ctx.Done():
		return evaluation{}, fmt.Errorf("%w of %s", engine.ErrDeadline, p.engine.Timeout)
	}
}

// checkReplicated returns an *engine.NotReplicatedError unless the snapshot has all of the data that the policy reads. The error names the
// types that the API server does not serve or, if it serves all, one type of which fields are missing.
func (p *evaluator) checkReplicated(snap *snapshot) error {
	if len(p.missing) > 0 {
		return &engine.NotReplicatedError{Data: strings.Join(p.missing, ", ")}
	}
	for _, l := range p.fieldSets {
		if snap.revision(l) == 0 {
			return &engine.NotReplicatedError{Data: l.resource.GroupResource().String()}
		}
	}
	return nil
}

// decide returns the cached decision before, which may be nil, if its reports on nodes still hold. Otherwise it evaluates the policy, with
// the rule cache known, nil for none, and then the predicates on the decision, if spec.predicates has candidates. The caller has a slot.
func (p *evaluator) decide(ctx context.Context, state evaluationState, input ast.Value, known *ruleView,
	before *cachedDecision) (evaluation, error) {
	if before != nil && before.revalidate(ctx, p.predicates, state) {
		return evaluation{decision: before.decision, fromCache: true}, nil
	}
	caller := p.newCaller(state)
	chosen := &choices{rules: known}
	decision, err := p.evaluateRules(ctx, caller, input, chosen)
	if err == nil && p.module.Candidates != "" {
		decision, err = caller.checkDecision(ctx, p.module.Candidates, input, decision)
	}
	if err != nil && (ctx.Err() != nil || errors.Is(err, &topdown.Error{Code: topdown.CancelErr})) {
		err = fmt.Errorf("%w of %s", engine.ErrDeadline, p.engine.Timeout)
	}
	// A change of the nodes may outdate reports on them. Reports on clusters derive from the data of the evaluation.
	onNodes := slices.DeleteFunc(caller.reports, func(r *predicates.Report) bool { return r.Kind != predicates.Nodes })
	return evaluation{decision: decision, reports: onNodes, choices: chosen.made}, err
}

// newCaller returns the caller of predicates for one evaluation in a state. It is never nil: if the engine has no predicates, each call is
// an error.
func (p *evaluator) newCaller(state evaluationState) *predicateCaller {
	return &predicateCaller{set: p.predicates, templates: p.engine.Templates, evaluationState: state, inventories: p.inventories}
}

// evaluateRules returns the decision of the decision contract's rules on the caller's snapshot, evaluated with the rule cache of chosen. It
// adds the choices of clusters that the rules make to chosen.
func (p *evaluator) evaluateRules(ctx context.Context, caller *predicateCaller, input ast.Value, chosen *choices,
	more ...rego.EvalOption) (placement.Decision, error) {
	if p.query == nil {
		return placement.Decision{}, nil
	}
	options := []rego.EvalOption{
		rego.EvalParsedInput(input), rego.EvalTransaction(p.view.transaction(caller.snapshot, caller.tolerated)),
		rego.EvalMetrics(metrics.NoOp()), rego.EvalGenerateJSON(boundedJSON),
	}
	options = append(options, more...)
	ctx = context.WithValue(context.WithValue(ctx, predicateCallerKey{}, caller), choicesKey{}, chosen)
	known := chosen.rules
	if known != nil {
		options = append(options, rego.EvalVirtualCache(known))
	}
	values, err := evaluateQuery(ctx, p.query, options...)
	if err != nil {
		text := err.Error()
		if caller.failed != nil {
			// OPA's error has only the text of this one.
			err = caller.failed
		}
		return placement.Decision{}, &evaluationError{policy: p.name, module: p.module, err: err, text: text}
	}
	if known != nil {
		known.storeComputed()
	}
	decision, err := placement.ParseDecision(values)
	decision.Rule = decidingRule(p.module, values)
	return decision, err
}

// evaluationError is an error from the evaluation of a text that policies share. Its message names the file of the
// policy that was evaluated, or the field of its rules.
type evaluationError struct {
	// policy is the policy's name, and text the message of err, in which a placeholder stands for the name of the file.
	policy, text string
	module       *policy.Module
	err          error
}

func (e *evaluationError) Error() string {
	return e.module.WithFields(e.policy, policy.WithFileName(e.policy, e.text))
}

func (e *evaluationError) Unwrap() error { return e.err }

// evaluateQuery evaluates a query from queryText and returns the values of the rules that are defined, by the name of the rule. A query
// that does not have just one result is an error.
func evaluateQuery(ctx context.Context, query *rego.PreparedEvalQuery, options ...rego.EvalOption) (map[string]any, error) {
	results, err := query.Eval(ctx, options...)
	if err != nil {
		return nil, err
	}
	if len(results) != 1 {
		return nil, fmt.Errorf("OPA returned %d results for the policy instead of one: this is a bug of Berth", len(results))
	}
	wrapped, _ := results[0].Bindings[resultVariable].(map[string]any)
	rules := make(map[string]any, len(wrapped))
	for rule, values := range wrapped {
		if list, ok := values.([]any); ok && len(list) == 1 {
			rules[rule] = list[0]
		}
	}
	return rules, nil
}
