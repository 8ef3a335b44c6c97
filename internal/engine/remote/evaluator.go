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

package remote

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/weakcache"
)

var _ placement.Remote = (*evaluator)(nil)

// evaluator decides the objects of one policy by a remote engine. It implements placement.Remote. A policy that is bound again without a
// change keeps its evaluator.
type evaluator struct {
	engine   *Engine
	name     string
	remote   *policy.Remote
	binding  *policy.Binding // has the types that Berth pushes to the engine for the policy
	client   *opaclient.Client
	endpoint *endpoint
	// inputBytes is the maximum size in bytes of an object, as JSON; 0 for no limit.
	inputBytes int
	// manifestReader reads the engine's manifest; nil if the policy needs nothing in the engine.
	manifestReader *manifestReader
	// revision identifies the state of the data in the engine. It changes when existing objects must be decided again. No other evaluator
	// has the same one.
	revision atomic.Uint64

	// wasComplete reports whether the engine was once seen to have everything that the policy needs.
	wasComplete atomic.Bool

	// notifyMu is held while the observer is notified, so that notifications come in order.
	notifyMu       sync.Mutex
	notifiedHealth placement.RemoteHealth // the health of which the observer was last notified

	mu sync.Mutex
	// ownHealth is the health by faults that concern only this policy, such as an undefined result or refused credentials.
	ownHealth health
	probe     probe // the last request if it failed, to repeat it as a probe
	// nextRefresh is when existing objects are decided again; zero for never.
	nextRefresh time.Time
}

// revisions is the last revision that was assigned. All evaluators share it.
var revisions atomic.Uint64

// Prepare returns the evaluator of a policy that a remote engine decides: the existing one if nothing has changed that it depends on. It
// returns an error for a policy without a remote engine, and one that Check does not allow.
func (e *Engine) Prepare(_ context.Context, name string, m *policy.Module, b *policy.Binding) (placement.Evaluator, error) {
	if m.Remote == nil {
		return nil, fmt.Errorf("policy %s has no remote engine", name)
	}
	if err := e.Check(m); err != nil {
		return nil, err
	}
	key, err := weakcache.Key(name, m.Remote.Spec, b.PushedTypes, b.Missing, m.InputBytes)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", name, err)
	}
	return e.evaluators.Get(key, func() (*evaluator, error) { return e.newEvaluator(name, m, b) })
}

// newEvaluator returns a new evaluator for a policy, with the client and the endpoint that other policies may share. It sends no request,
// and does not read the Secrets with credentials.
func (e *Engine) newEvaluator(name string, m *policy.Module, b *policy.Binding) (*evaluator, error) {
	r := m.Remote
	p := &evaluator{engine: e, name: name, remote: r, binding: b, inputBytes: m.InputBytes}
	var err error
	if p.client, err = e.Clients.Client(r); err != nil {
		return nil, err
	}
	address := opaclient.EndpointOf(r)
	if p.endpoint, err = e.endpoints.Get(address, func() (*endpoint, error) { return newEndpoint(address), nil }); err != nil {
		return nil, err
	}
	if r.NeedsPush() {
		if p.manifestReader, err = e.manifestReaderOf(r, p.client); err != nil {
			return nil, err
		}
	}
	p.notifiedHealth = placement.RemoteHealth{Endpoint: address}
	p.scheduleRefresh(time.Now())
	p.newRevision()
	return p, nil
}

// Check returns a *policy.CompileError if the policy matches or replicates Secrets by the name of their type, and Options.AllowSecrets is
// not set. A match by a wildcard is no error. Engines get Secrets without their data in any case.
func (e *Engine) Check(m *policy.Module) error {
	if e.AllowSecrets {
		return nil
	}
	return m.CheckSecrets()
}

// Evaluate returns the engine's decision on an object, or a cached one, after as many attempts as the policy allows. Without a result of
// the engine, the decision is empty, unless spec.remote.undefined makes that a fault. The error is an *engine.RemoteError, an
// *engine.InputError, or a *placement.ContractError.
func (p *evaluator) Evaluate(ctx context.Context, input map[string]any) (placement.Decision, error) {
	if err := engine.CheckInput(projection.AllFields(), input, p.inputBytes); err != nil {
		return placement.Decision{}, err
	}
	if isSecret(input) {
		input = withoutData(input)
	}
	body, err := opaclient.EncodeInput(input, p.remote.V0)
	if err != nil {
		return placement.Decision{}, p.client.Fault(engine.FaultSerialization, err)
	}
	ttl := time.Duration(p.remote.Spec.CacheSeconds) * time.Second
	var key requestKey
	if ttl > 0 {
		// The revision is read before the request, so the decision is of this revision or a newer one.
		key = requestKeyOf(p.revision.Load(), body)
		if cached, ok := p.engine.decisions.Get(key); ok {
			return cached.(placement.Decision), nil
		}
	}
	out, err := retry(ctx, p.remote.Spec, func(ctx context.Context) (sizedDecision, error) { return p.attempt(ctx, body) })
	if err == nil && ttl > 0 && out.size <= maxCachedResponse {
		p.engine.decisions.Add(key, out.decision, ttl)
	}
	return out.decision, err
}

// sizedDecision is a decision and the size in bytes of the response that it was read from. A decision from a large response is not cached.
type sizedDecision struct {
	decision placement.Decision
	size     int // in bytes
}

// attempt sends one request, and records how it ended. If a circuit breaker is open or too many requests are under way, it sends none, and
// returns an *engine.RemoteError.
func (p *evaluator) attempt(ctx context.Context, body []byte) (out sizedDecision, err error) {
	leave, err := p.endpoint.enter(ctx)
	if err != nil {
		p.recordAttempt(body, err)
		p.engine.requested(p.endpoint.name, err, 0)
		return sizedDecision{}, err
	}
	began := time.Now()
	// This is deferred so that it runs also after a panic. Otherwise the circuit breaker would wait forever for the
	// outcome.
	defer func() {
		changed := leave(err)
		changed = p.recordOutcome(err) || changed
		p.recordAttempt(body, err)
		p.engine.requested(p.endpoint.name, err, time.Since(began))
		if changed {
			p.engine.notifyHealth(p.endpoint)
		}
	}()
	return p.request(ctx, body)
}

// request sends one request. It verifies before and after it that the engine has what Berth pushes there for the policy.
func (p *evaluator) request(ctx context.Context, body []byte) (sizedDecision, error) {
	var before *opaclient.Manifest
	if p.manifestReader != nil {
		var err error
		if before, err = p.manifestReader.verifyBefore(ctx, p.binding); err != nil {
			return sizedDecision{}, err
		}
		p.wasComplete.Store(true)
	}
	answer, found, err := p.client.Query(ctx, p.remote.Document, p.remote.V0, body)
	if err != nil {
		return sizedDecision{}, err
	}
	superseded := false
	if p.manifestReader != nil {
		if superseded, err = p.manifestReader.verifyAfter(ctx, before, p.binding); err != nil {
			return sizedDecision{}, err
		}
	}
	var rules map[string]any
	if found {
		rules, found, err = opaclient.DecodeResult(answer, p.remote.V0)
	}
	var contract *placement.ContractError
	switch {
	case errors.As(err, &contract):
		return sizedDecision{}, err
	case err != nil:
		return sizedDecision{}, p.client.Fault(engine.FaultMalformed, opaclient.UnreadableError{Err: err})
	case !found && p.remote.OwnPackage:
		// The server that answered lacks the modules, whatever the manifest said. For a moment, two servers may share one
		// address.
		return sizedDecision{}, p.client.Fault(engine.FaultIncomplete, errors.New("the engine does not have the package of the policy's "+
			"modules, although its manifest lists them: the leader pushes lost modules again; if that does not help, several engines may share "+
			"the address"))
	case !found && superseded:
		return sizedDecision{}, p.client.Fault(engine.FaultIncomplete,
			errors.New("the engine already has the modules of a newer version of the policy, which give this version no result"))
	case !found && p.remote.Spec.Undefined == placementv1.UndefinedError:
		return sizedDecision{}, p.client.Fault(engine.FaultUndefined,
			fmt.Errorf("the engine has no result for %s: look at the path of spec.remote.url, and whether the engine has the policy",
				p.remote.Document))
	case !found:
		return sizedDecision{size: len(answer)}, nil
	}
	decision, err := placement.ParseDecision(rules)
	return sizedDecision{decision, len(answer)}, err
}

// recordOutcome records what the error of an attempt says about this policy alone, and reports whether the policy's own health changed. nil
// and an error other than a fault, such as of a response that is no valid decision, count as answered. A fault counts if it concerns the
// policy and not the engine, such as an undefined result or refused credentials, but not that pushed data is missing before the engine
// first had all of it.
func (p *evaluator) recordOutcome(err error) (changed bool) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, before := p.ownHealth.attempted, p.ownHealth.kind()
	var fault *engine.RemoteError
	switch {
	case !errors.As(err, &fault):
		p.ownHealth.answered(now)
	case fault.Fault == engine.FaultIncomplete && !p.wasComplete.Load():
		// The engine is still being loaded for the first time, or rejects what is pushed to it. The condition Replicated
		// reports that. No decision was requested.
	case breakerOutcome(err) == nil, fault.Fault == engine.FaultCredentials, opaclient.Untrusted(err):
		p.ownHealth.failed(fault, now)
	default:
		p.ownHealth.attempted = true
	}
	return asked != p.ownHealth.attempted || before != p.ownHealth.kind()
}

// Health returns the address of the policy's engine, whether it was queried, whether its circuit breaker is open, and the present fault
// with the time since when there have been faults. If both the endpoint and the policy itself have a fault, it returns that of the
// endpoint.
func (p *evaluator) Health() placement.RemoteHealth {
	shared, openSince := p.endpoint.healthNow()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ownHealth.expire(time.Now())
	// A failed request of another policy to the same endpoint counts for this policy too.
	p.ownHealth.attempted = p.ownHealth.attempted || shared.fault != nil
	out := placement.RemoteHealth{Endpoint: p.endpoint.name, Queried: p.ownHealth.attempted, BreakerOpen: !openSince.IsZero()}
	switch {
	case shared.fault != nil:
		out.Err, out.Since = shared.fault, shared.since
	case p.ownHealth.fault != nil:
		out.Err, out.Since = p.ownHealth.fault, p.ownHealth.since
	}
	return out
}

// notifyHealth notifies the observer, which must not be nil, of the policy's health if, since the last notification, it has changed whether
// the engine was queried, whether the circuit breaker is open, or the kind of the fault.
func (p *evaluator) notifyHealth(o Observer) {
	p.notifyMu.Lock()
	defer p.notifyMu.Unlock()
	now := p.Health()
	if before := p.notifiedHealth; differs(before, now) {
		p.notifiedHealth = now
		o.HealthChanged(p.name, before, now)
	}
}

// Revision returns a number that changes when existing objects must be decided again.
func (p *evaluator) Revision() uint64 { return p.revision.Load() }

// newRevision assigns a new revision, so that existing objects are decided again.
func (p *evaluator) newRevision() { p.revision.Store(revisions.Add(1)) }

// advanceRefresh schedules the next refresh if the time of the present one has come, and reports whether it has.
func (p *evaluator) advanceRefresh(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.nextRefresh.IsZero() || now.Before(p.nextRefresh) {
		return false
	}
	p.scheduleRefresh(now)
	return true
}

// scheduleRefresh sets the time of the next refresh, if the policy has refreshSeconds. The jitter spreads the refreshes of many policies.
func (p *evaluator) scheduleRefresh(now time.Time) {
	if every := time.Duration(p.remote.Spec.RefreshSeconds) * time.Second; every > 0 {
		p.nextRefresh = now.Add(every - time.Duration(rand.Float64()*refreshJitter*float64(every)))
	}
}

// refreshJitter is the maximum fraction of refreshSeconds by which a refresh comes early.
const refreshJitter = 0.1

// Input returns the fields of objects that decisions depend on: all fields, because those that the engine reads are not known.
func (*evaluator) Input() *projection.FieldSet { return projection.AllFields() }
