package remote

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/weakcache"
)

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
	// HealthChanged is called when the health of an engine that decides a policy in force changed in more than words, with
	// both, in their order.
	HealthChanged(policy string, before, after placement.RemoteHealth)
	// Revised is called when a policy is to be asked anew about existing objects.
	Revised(policy string)
}

// Options configure an Engine.
type Options struct {
	Secrets Secrets
	// Policies returns the policies in force, of whatever engine; nil for none.
	Policies func() []*placement.Policy
	// Observer is told how asking fares; nil for nobody.
	Observer Observer
	// AllowSecrets lets policies name Secrets. Engines get them without their data in any case.
	AllowSecrets bool
	// UserAgent is the name by which engines are asked.
	UserAgent string
}

// Engine asks other engines. It is safe for concurrent use.
//
// What it knows of an engine, and its connections, are shared by the evaluators that need them, and are gone soon after the
// last one that does: nobody has to say that an evaluator is no longer wanted.
type Engine struct {
	options Options
	// dial connects to engines; nil for the network.
	dial       dialer
	evaluators weakcache.Cache[evaluator]
	accesses   weakcache.Cache[access]
	endpoints  weakcache.Cache[endpoint]
	witnesses  weakcache.Cache[witness]
	answers    answers
}

// New returns an engine.
func New(o Options) *Engine { return &Engine{options: o, answers: newAnswers()} }

// Settled says whether an engine has the data and the modules that a policy wants there, as far as this replica knows. It
// does not wait: it looks for the next time that it is called.
func (e *Engine) Settled(b *policy.Binding) bool {
	if b.Remote == nil || !b.Remote.Supplied() {
		return true
	}
	a, err := e.accessTo(b.Remote)
	if err != nil {
		return false
	}
	w, err := e.witnessOf(b.Remote, a)
	if err != nil {
		return false
	}
	w.poll(timeoutOf(b.Remote))
	held := w.seen()
	missing, _ := held.has(b.Remote.Policy, b.Remote, b)
	return held != nil && missing == ""
}

// Supplied says that data changed which policies have in their engines: existing objects are to be decided anew.
func (e *Engine) Supplied(policies ...string) {
	for _, p := range e.inForce() {
		if slices.Contains(policies, p.name) {
			e.revise(p)
		}
	}
}

// tick is how often the engine looks what is due.
const tick = time.Second

// Start has policies asked anew at their time, asks engines that fail whether they still do, and tells of those that are
// healthy by now, until ctx ends. Then it closes connections.
func (e *Engine) Start(ctx context.Context) error {
	var probes sync.WaitGroup
	defer probes.Wait()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			for _, p := range e.inForce() {
				p.access.close()
			}
			return nil
		case now := <-ticker.C:
			e.due(now)
			for _, p := range e.inForce() {
				if body := p.probeDue(now); body != nil {
					probes.Go(func() { p.probed(ctx, body) })
				}
			}
		}
	}
}

// NeedLeaderElection says that every replica asks.
func (*Engine) NeedLeaderElection() bool { return false }

func (e *Engine) due(now time.Time) {
	for _, p := range e.inForce() {
		if p.refreshed(now) {
			e.revise(p)
		}
		if e.options.Observer != nil {
			p.tell(e.options.Observer)
		}
	}
}

func (e *Engine) revise(p *evaluator) {
	p.revise()
	if e.options.Observer != nil {
		e.options.Observer.Revised(p.name)
	}
}

// inForce returns the evaluators of the policies in force that are decided elsewhere.
func (e *Engine) inForce() []*evaluator {
	if e.options.Policies == nil {
		return nil
	}
	var out []*evaluator
	for _, p := range e.options.Policies() {
		if r, ok := p.Evaluator.(*evaluator); ok {
			out = append(out, r)
		}
	}
	return out
}

func (e *Engine) requested(endpoint string, err error, took time.Duration) {
	if e.options.Observer != nil {
		e.options.Observer.Requested(endpoint, faultOf(err), took)
	}
}

// tellHealth tells of an endpoint's health for each policy in force that it decides.
func (e *Engine) tellHealth(at *endpoint) {
	if e.options.Observer == nil {
		return
	}
	for _, p := range e.inForce() {
		if p.endpoint == at {
			p.tell(e.options.Observer)
		}
	}
}
