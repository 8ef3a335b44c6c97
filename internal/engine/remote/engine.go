package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/weakcache"
)

var _ placement.Remote = (*evaluator)(nil)

// Name is what the status of a policy shows that another engine decides.
const Name = "Remote"

// Secrets reads Secrets of the operator's own namespace.
type Secrets interface {
	// Secret returns the data of a Secret as it is now; who calls does not change it.
	Secret(ctx context.Context, name string) (map[string][]byte, error)
}

// Observer is told how asking engines fares. Its methods are safe for concurrent use, and quick.
type Observer interface {
	// Requested is called after each request that an engine was sent, and each that the circuit breaker kept from it, with
	// the fault; empty for none.
	Requested(endpoint string, fault engine.Fault, took time.Duration)
	// HealthChanged is called when the health of an engine that decides a policy changed, with both.
	HealthChanged(policy string, before, after placement.RemoteHealth)
	// Revised is called when a policy is to be asked anew about existing objects.
	Revised(policy string)
}

// Options configure an Engine.
type Options struct {
	Secrets Secrets
	// Observer is told how asking fares; nil for nobody.
	Observer Observer
	// Clock is the real one if it is nil.
	Clock clock.WithTickerAndDelayedExecution
	// UserAgent is the name by which engines are asked.
	UserAgent string
}

// Engine asks other engines. It is safe for concurrent use.
type Engine struct {
	options Options
	// dial connects to engines; nil for the network.
	dial dialer
	// accesses are shared by the policies that use them.
	accesses weakcache.Cache[access]
}

// maxInFlight bounds the requests that an engine is working on at a time.
const maxInFlight = 64

// New returns an engine.
func New(o Options) *Engine { return &Engine{options: o} }

// Prepare returns the evaluator of a policy that another engine decides.
func (e *Engine) Prepare(_ context.Context, name string, m *policy.Module, b *policy.Binding) (placement.Evaluator, error) {
	if m.Remote == nil {
		return nil, fmt.Errorf("policy %s is not decided elsewhere", name)
	}
	a, err := e.accessTo(m.Remote)
	if err != nil {
		return nil, err
	}
	out := &evaluator{engine: e, name: name, remote: m.Remote, binding: b, access: a}
	out.revision.Store(1)
	return out, nil
}

// Settled says whether an engine has the data and the modules that a policy wants there, as far as this replica knows.
func (e *Engine) Settled(*policy.Binding) bool { return true }

// Start keeps connections and refreshes policies until ctx ends.
func (e *Engine) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// NeedLeaderElection says that every replica asks.
func (*Engine) NeedLeaderElection() bool { return false }

// evaluator is one policy.
type evaluator struct {
	engine  *Engine
	name    string
	remote  *policy.Remote
	binding *policy.Binding
	access  *access
	// revision grows when existing objects are to be decided anew.
	revision atomic.Uint64
}

// Evaluate implements placement.Evaluator. The error is an *engine.RemoteError or a *placement.ContractError.
func (p *evaluator) Evaluate(ctx context.Context, input map[string]any) (placement.Decision, error) {
	body, err := json.Marshal(map[string]any{"input": input})
	if err != nil {
		return placement.Decision{}, p.access.fault(engine.FaultSerialization, err)
	}
	got, err := p.access.exchange(ctx, query{method: http.MethodPost, at: p.remote.Document, body: body})
	if err != nil {
		return placement.Decision{}, err
	}
	var answer struct {
		Result map[string]any `json:"result"`
	}
	if err := json.Unmarshal(got, &answer); err != nil {
		return placement.Decision{}, p.access.fault(engine.FaultMalformed, err)
	}
	if answer.Result == nil {
		if p.remote.Spec.Undefined == "Error" {
			return placement.Decision{}, p.access.fault(engine.FaultUndefined, errors.New("it has no result"))
		}
		return placement.Decision{}, nil
	}
	return placement.ParseDecision(answer.Result)
}

// Revision implements placement.Evaluator.
func (p *evaluator) Revision() uint64 { return p.revision.Load() }

// Input implements placement.Evaluator: what the engine reads is not known.
func (*evaluator) Input() *projection.Fields { return projection.Everything() }

// Health implements placement.Remote.
func (p *evaluator) Health() placement.RemoteHealth {
	return placement.RemoteHealth{Endpoint: p.access.endpoint}
}
