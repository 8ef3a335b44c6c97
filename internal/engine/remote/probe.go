package remote

import (
	"context"
	"time"
)

// probePace is how long nobody has to have asked for a policy whose engine fails before it is asked again what it failed at:
// by then a circuit that opened lets a request through.
const probePace = openFor + tick

// probe is what an engine failed at, for it to be asked again while nobody else does: else it would count as failing, in
// conditions and metrics, until somebody next needs it.
type probe struct {
	// body is the last request that failed; nil if the last one did not.
	body []byte
	// last is when the last attempt ended, and running says that one is made for no other purpose.
	last    time.Time
	running bool
}

// attempted notes the outcome of an attempt.
func (p *evaluator) attempted(body []byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probe.last = time.Now()
	if p.probe.body = body; faultOf(err) == "" {
		p.probe.body = nil
	}
}

// probeDue returns what the engine is to be asked again by now; nil for nothing. Who gets it calls probed.
func (p *evaluator) probeDue(now time.Time) []byte {
	if h := p.Health(); h.Err == nil && !h.Open || p.endpoint.quiet(now) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.probe.running || now.Sub(p.probe.last) < probePace {
		return nil
	}
	p.probe.running = p.probe.body != nil
	return p.probe.body
}

// probed asks the engine once what it failed at. That may end trouble, and neither makes it nor is counted: what fails may
// be about this one request, for which nobody waits any more.
func (p *evaluator) probed(ctx context.Context, body []byte) {
	ctx, cancel := context.WithTimeout(ctx, timeoutOf(p.remote))
	defer cancel()
	leave, err := p.endpoint.enter(ctx)
	if err == nil {
		defer func() {
			outcome := err
			if fault := standing(err); fault != nil {
				p.endpoint.hush(err)
				outcome = errNotAsked
			}
			changed := leave(outcome)
			if p.note(err) || changed {
				p.engine.tellHealth(p.endpoint)
			}
		}()
		_, err = p.ask(ctx, body)
	}
	p.attempted(body, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probe.running = false
}
