package remote

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
)

var _ placement.Remote = (*evaluator)(nil)

// evaluator is one policy that a remote engine decides. A policy that is bound again without a change keeps its
// evaluator.
type evaluator struct {
	engine   *Engine
	name     string
	remote   *policy.Remote
	binding  *policy.Binding
	access   *access
	endpoint *endpoint
	// inputBytes is the maximum size of an object that is sent, as JSON.
	inputBytes int
	// witness reads the engine's manifest; nil if the policy needs nothing in the engine.
	witness *witness
	// revision changes when existing objects must be decided again. No other evaluator has the same one.
	revision atomic.Uint64

	// complete reports whether the engine was once seen to have everything that the policy needs.
	complete atomic.Bool

	// telling is held while the observer is notified, so that notifications come in order. told is the health of the last
	// notification.
	telling sync.Mutex
	told    placement.RemoteHealth

	mu sync.Mutex
	// own is the health that concerns only this policy.
	own   health
	probe probe
	// refresh is when existing objects are decided again; zero for never.
	refresh time.Time
}

// revisions is the last revision that was assigned. All evaluators share it.
var revisions atomic.Uint64

// Prepare returns the evaluator of a policy that a remote engine decides.
func (e *Engine) Prepare(_ context.Context, name string, m *policy.Module, b *policy.Binding) (placement.Evaluator, error) {
	if m.Remote == nil {
		return nil, fmt.Errorf("policy %s is not decided elsewhere", name)
	}
	if err := e.Check(m); err != nil {
		return nil, err
	}
	key, err := keyFor(name, m.Remote.Spec, b.Supplies, b.Missing, m.InputBytes)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", name, err)
	}
	return e.evaluators.Get(key, func() (*evaluator, error) { return e.newEvaluator(name, m, b) })
}

func (e *Engine) newEvaluator(name string, m *policy.Module, b *policy.Binding) (*evaluator, error) {
	r := m.Remote
	p := &evaluator{engine: e, name: name, remote: r, binding: b, inputBytes: m.InputBytes}
	var err error
	if p.access, err = e.accessTo(r); err != nil {
		return nil, err
	}
	if p.endpoint, err = e.endpoints.Get(p.access.endpoint, func() (*endpoint, error) { return newEndpoint(p.access.endpoint), nil }); err != nil {
		return nil, err
	}
	if r.Supplied() {
		if p.witness, err = e.witnessOf(r, p.access); err != nil {
			return nil, err
		}
	}
	p.told = placement.RemoteHealth{Endpoint: p.access.endpoint}
	p.schedule(time.Now())
	p.revise()
	return p, nil
}

// Check returns a *policy.CompileError if the policy refers to data that the engine must not get.
func (e *Engine) Check(m *policy.Module) error {
	if e.options.AllowSecrets {
		return nil
	}
	return m.CheckSecrets()
}

// Evaluate implements placement.Evaluator. The error is an *engine.RemoteError, an *engine.InputError, or a
// *placement.ContractError.
func (p *evaluator) Evaluate(ctx context.Context, input map[string]any) (placement.Decision, error) {
	if err := engine.CheckInput(projection.Everything(), input, p.inputBytes); err != nil {
		return placement.Decision{}, err
	}
	if isSecret(input) {
		input = withoutData(input)
	}
	body, err := encodeRequest(input, p.remote.V0)
	if err != nil {
		return placement.Decision{}, p.access.fault(engine.FaultSerialization, err)
	}
	ttl := time.Duration(p.remote.Spec.CacheSeconds) * time.Second
	var key answerKey
	if ttl > 0 {
		// The revision is read before the request, so the decision is of this revision or a newer one.
		key = keyOf(p.revision.Load(), body)
		if decision, ok := p.engine.answers.get(key); ok {
			return decision, nil
		}
	}
	out, err := retry(ctx, p.remote.Spec, func(ctx context.Context) (answered, error) { return p.attempt(ctx, body) })
	if err == nil && ttl > 0 {
		p.engine.answers.put(key, out.decision, out.size, ttl)
	}
	return out.decision, err
}

// answered is a decision and the size in bytes of the response that it was read from.
type answered struct {
	decision placement.Decision
	size     int
}

// attempt sends one request if the endpoint admits it.
func (p *evaluator) attempt(ctx context.Context, body []byte) (out answered, err error) {
	leave, err := p.endpoint.enter(ctx)
	if err != nil {
		p.attempted(body, err)
		p.engine.requested(p.endpoint.name, err, 0)
		return answered{}, err
	}
	began := time.Now()
	// This is deferred so that it runs also after a panic. Otherwise the circuit breaker would wait forever for the
	// outcome.
	defer func() {
		changed := leave(err)
		changed = p.note(err) || changed
		p.attempted(body, err)
		p.engine.requested(p.endpoint.name, err, time.Since(began))
		if changed {
			p.engine.tellHealth(p.endpoint)
		}
	}()
	return p.ask(ctx, body)
}

// ask sends one request. It verifies before and after that the engine has what the policy needs.
func (p *evaluator) ask(ctx context.Context, body []byte) (answered, error) {
	var before *holdings
	if p.witness != nil {
		var err error
		if before, err = p.witness.before(ctx, p.name, p.remote, p.binding); err != nil {
			return answered{}, err
		}
		p.complete.Store(true)
	}
	answer, found, err := p.query(ctx, body)
	if err != nil {
		return answered{}, err
	}
	superseded := false
	if p.witness != nil {
		if superseded, err = p.witness.after(ctx, before, p.name, p.remote, p.binding); err != nil {
			return answered{}, err
		}
	}
	var rules map[string]any
	if found {
		rules, found, err = decodeAnswer(answer, p.remote.V0)
	}
	var contract *placement.ContractError
	switch {
	case errors.As(err, &contract):
		return answered{}, err
	case err != nil:
		return answered{}, p.access.fault(engine.FaultMalformed, unreadable{err})
	case !found && p.remote.OwnPackage:
		// The server that answered lacks the modules, whatever the manifest said. For a moment, two servers may share one
		// address.
		return answered{}, p.access.fault(engine.FaultIncomplete, errors.New("it does not have the package of the policy's modules"))
	case !found && superseded:
		return answered{}, p.access.fault(engine.FaultIncomplete,
			errors.New("it has newer modules of the policy, which have no result for this version"))
	case !found && p.remote.Spec.Undefined == placementv1.UndefinedError:
		return answered{}, p.access.fault(engine.FaultUndefined,
			fmt.Errorf("it has no result for %s: look at the path of spec.remote.url, and whether it has the policy", p.remote.Document))
	case !found:
		return answered{size: len(answer)}, nil
	}
	decision, err := placement.ParseDecision(rules)
	return answered{decision, len(answer)}, err
}

// query sends the request. found is false if the engine answers that it has no such document, as OPA's v0 data API
// does.
func (p *evaluator) query(ctx context.Context, body []byte) (answer []byte, found bool, err error) {
	answer, err = p.access.exchange(ctx, query{method: http.MethodPost, at: p.remote.Document, body: body})
	var said *rejection
	if p.remote.V0 && errors.As(err, &said) && said.Status == http.StatusNotFound && said.Code == codeUndefined {
		return nil, false, nil
	}
	return answer, err == nil, err
}

// codeUndefined is the error code of OPA's v0 data API for a document that does not exist.
const codeUndefined = "undefined_document"

// note records what an attempt's outcome says about this policy alone. It reports whether the policy's own health
// changed.
func (p *evaluator) note(err error) (changed bool) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, before := p.own.asked, p.own.kind()
	var fault *engine.RemoteError
	switch {
	case !errors.As(err, &fault):
		p.own.answered(now)
	case fault.Fault == engine.FaultIncomplete && !p.complete.Load():
		// The engine is still being loaded for the first time, or rejects what is pushed to it. The condition Replicated
		// reports that. No decision was requested.
	case standing(err) == nil, fault.Fault == engine.FaultCredentials, untrusted(err):
		p.own.failed(fault, now)
	default:
		p.own.asked = true
	}
	return asked != p.own.asked || before != p.own.kind()
}

// Health implements placement.Remote. A fault of the endpoint takes precedence over one of the policy itself.
func (p *evaluator) Health() placement.RemoteHealth {
	shared, openSince := p.endpoint.healthNow()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own.settle(time.Now())
	// A failed request of another policy to the same endpoint counts for this policy too.
	p.own.asked = p.own.asked || shared.fault != nil
	out := placement.RemoteHealth{Endpoint: p.endpoint.name, Asked: p.own.asked, Open: !openSince.IsZero()}
	switch {
	case shared.fault != nil:
		out.Err, out.Since = shared.fault, shared.since
	case p.own.fault != nil:
		out.Err, out.Since = p.own.fault, p.own.since
	}
	return out
}

// tell notifies the observer of the policy's health if it changed since the last notification.
func (p *evaluator) tell(o Observer) {
	p.telling.Lock()
	defer p.telling.Unlock()
	now := p.Health()
	if before := p.told; differs(before, now) {
		p.told = now
		o.HealthChanged(p.name, before, now)
	}
}

// Revision implements placement.Evaluator.
func (p *evaluator) Revision() uint64 { return p.revision.Load() }

// revise assigns a new revision, so that existing objects are decided again.
func (p *evaluator) revise() { p.revision.Store(revisions.Add(1)) }

// refreshed reports whether the refresh time has come. If so, it schedules the next one.
func (p *evaluator) refreshed(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refresh.IsZero() || now.Before(p.refresh) {
		return false
	}
	p.schedule(now)
	return true
}

// schedule sets the time of the next refresh. The jitter spreads the refreshes of many policies.
func (p *evaluator) schedule(now time.Time) {
	if every := time.Duration(p.remote.Spec.RefreshSeconds) * time.Second; every > 0 {
		p.refresh = now.Add(every - time.Duration(rand.Float64()*refreshJitter*float64(every)))
	}
}

// refreshJitter is the maximum fraction of refreshSeconds by which a refresh comes early.
const refreshJitter = 0.1

// Input implements placement.Evaluator. It returns all fields, because the fields that the engine reads are not known.
func (*evaluator) Input() *projection.Fields { return projection.Everything() }
