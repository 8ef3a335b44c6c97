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
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/weakcache"
)

// Observer is notified of each request to an engine, of each change in the health of a policy in force, and of policies whose existing
// objects must be decided again. Its methods are safe for concurrent use and return quickly.
type Observer interface {
	// Requested is called after each request to an engine, and for each request that the circuit breaker or a limit on
	// requests prevented. fault is empty for a success.
	Requested(endpoint string, fault engine.Fault, took time.Duration)
	// HealthChanged is called when the health of a policy in force changed in more than the text of an error. The calls
	// for a policy come in order.
	HealthChanged(policy string, before, after placement.RemoteHealth)
	// Revised is called when the existing objects of a policy must be decided again.
	Revised(policy string)
}

// Options configure an Engine: the clients, the policies in force, the observer, and whether policies may send Secrets.
type Options struct {
	// Clients are the clients of the engines; nil for clients that have no Secrets.
	Clients *opaclient.Pool
	// Policies returns the policies in force, of any engine; nil for none.
	Policies func() []*placement.Policy
	// Observer is notified about requests; nil for no notifications.
	Observer Observer
	// AllowSecrets permits policies that name the type secrets in spec.match or spec.remote.replicate. Without it, Check and Prepare return an
	// error for them. Engines get Secrets without their data in any case.
	AllowSecrets bool
}

// Engine evaluates policies with remote engines, which are servers with OPA's API. It is safe for concurrent use.
//
// The evaluators of one server share its state, such as the circuit breaker, and its connections. Both are freed soon after the
// last evaluator that uses them. Evaluators need not be closed.
type Engine struct {
	Options
	// evaluators are kept while policies that are bound again do not change.
	evaluators      weakcache.Cache[evaluator]
	endpoints       weakcache.Cache[endpoint]       // by address
	manifestReaders weakcache.Cache[manifestReader] // by client and base URL
	// decisions has the cached decisions of all policies by requestKey. Each policy sets the time for which its decisions
	// are kept (spec.remote.cacheSeconds); with 0, none are.
	decisions *cache.LRUExpireCache
}

// New returns an engine without evaluators.
func New(o Options) *Engine {
	if o.Clients == nil {
		o.Clients = opaclient.NewPool(opaclient.Options{})
	}
	return &Engine{Options: o, decisions: cache.NewLRUExpireCache(maxCachedDecisions)}
}

// DataReady reports whether a policy's engine has the data and the modules that the policy needs there, as far as this
// replica knows; true if it needs none. It does not wait: it may start a request for the manifest, whose result the next
// call uses.
func (e *Engine) DataReady(b *policy.Binding) bool {
	if b.Remote == nil || !b.Remote.NeedsPush() {
		return true
	}
	c, err := e.Clients.Client(b.Remote)
	if err != nil {
		return false
	}
	w, err := e.manifestReaderOf(b.Remote, c)
	if err != nil {
		return false
	}
	w.poll(timeoutOf(b.Remote))
	current := w.latest()
	missing, _ := current.Missing(b)
	return current != nil && missing == ""
}

// PushedDataChanged must be called when data that was pushed for these policies changed. It has their existing objects decided again.
func (e *Engine) PushedDataChanged(policies ...string) {
	for _, p := range e.inForce() {
		if slices.Contains(policies, p.name) {
			e.revise(p)
		}
	}
}

// tickInterval is the interval between checks for due work.
const tickInterval = time.Second

// Start runs the periodic work until ctx ends. It has existing objects decided again at the policies' refresh interval,
// sends probes to engines that fail, and notifies the observer of policies that became healthy. Then it closes idle
// connections.
func (e *Engine) Start(ctx context.Context) error {
	var probes sync.WaitGroup
	defer probes.Wait()
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			for _, p := range e.inForce() {
				p.client.CloseIdleConnections()
			}
			return nil
		case now := <-ticker.C:
			e.runDue(now)
			for _, p := range e.inForce() {
				if body := p.probeDue(now); body != nil {
					probes.Go(func() { p.sendProbe(ctx, body) })
				}
			}
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable. Every replica sends requests.
func (*Engine) NeedLeaderElection() bool { return false }

// runDue has the existing objects decided again of policies in force whose refresh interval has passed, and notifies the observer of each
// policy in force whose health has changed.
func (e *Engine) runDue(now time.Time) {
	for _, p := range e.inForce() {
		if p.advanceRefresh(now) {
			e.revise(p)
		}
		if e.Observer != nil {
			p.notifyHealth(e.Observer)
		}
	}
}

// revise gives a policy a new data revision, and notifies the observer, which has the existing objects decided again.
func (e *Engine) revise(p *evaluator) {
	p.newRevision()
	if e.Observer != nil {
		e.Observer.Revised(p.name)
	}
}

// inForce returns the evaluators of the policy versions in force that remote engines decide. One that two versions of a policy share occurs
// twice.
func (e *Engine) inForce() []*evaluator {
	if e.Policies == nil {
		return nil
	}
	var out []*evaluator
	for _, p := range e.Policies() {
		if r, ok := p.Evaluator.(*evaluator); ok {
			out = append(out, r)
		}
	}
	return out
}

// requested notifies the observer, if there is one, of a request to an endpoint, which ended with err (nil for a success) after the time
// took.
func (e *Engine) requested(endpoint string, err error, took time.Duration) {
	if e.Observer != nil {
		e.Observer.Requested(endpoint, engine.FaultOf(err), took)
	}
}

// notifyHealth notifies the observer of the health of each policy in force that uses the endpoint.
func (e *Engine) notifyHealth(at *endpoint) {
	if e.Observer == nil {
		return
	}
	for _, p := range e.inForce() {
		if p.endpoint == at {
			p.notifyHealth(e.Observer)
		}
	}
}
