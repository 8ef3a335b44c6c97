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
	"time"

	"github.com/berth-dev/berth/internal/engine"
)

// probeInterval is the time without attempts for a failing policy after which a probe is sent. It is long enough for an
// open circuit breaker to let a request through.
const probeInterval = openFor + tickInterval

// probe is the last request for a policy if it failed, and when the last attempt ended. The request is sent again if no other request is
// sent. Otherwise conditions and metrics would report the failure until the next request, even if the engine has recovered.
type probe struct {
	// body is the body of the last request if it failed; else nil.
	body []byte
	// last is when the last attempt to query the engine for the policy ended, whether it succeeded or not.
	last    time.Time
	running bool // whether a probe is being sent
}

// recordAttempt records for the next probe that an attempt with a body ended with err. If that is a fault, the probe will send the body;
// otherwise there is nothing to send.
func (p *evaluator) recordAttempt(body []byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probe.last = time.Now()
	if p.probe.body = body; engine.FaultOf(err) == "" {
		p.probe.body = nil
	}
}

// probeDue returns the body of the request to send as a probe, if the last one failed, the policy or its engine does not count as healthy,
// and no attempt ended within probeInterval; nil otherwise, and while the engine wants no requests, as it said with Retry-After. If it
// returns one, the caller must call sendProbe.
func (p *evaluator) probeDue(now time.Time) []byte {
	if h := p.Health(); h.Err == nil && !h.BreakerOpen || p.endpoint.quiet(now) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.probe.running || now.Sub(p.probe.last) < probeInterval {
		return nil
	}
	p.probe.running = p.probe.body != nil
	return p.probe.body
}

// sendProbe sends one probe. Its success counts as recovery. Its failure counts against the health of the policy if it concerns the policy
// alone, but never against the endpoint, because the cause may be this one request, which no caller waits for. A Retry-After in the
// response still counts for the endpoint.
func (p *evaluator) sendProbe(ctx context.Context, body []byte) {
	ctx, cancel := context.WithTimeout(ctx, timeoutOf(p.remote))
	defer cancel()
	leave, err := p.endpoint.enter(ctx)
	if err == nil {
		defer func() {
			outcome := err
			if breakerOutcome(err) != nil {
				p.endpoint.setQuietUntil(err)
				outcome = errInconclusive
			}
			changed := leave(outcome)
			if p.recordOutcome(err) || changed {
				p.engine.notifyHealth(p.endpoint)
			}
		}()
		_, err = p.request(ctx, body)
	}
	p.recordAttempt(body, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probe.running = false
}
