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

package setup

import (
	"context"
	"fmt"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/engine/remote"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
)

var _ remote.Observer = (*remoteObserver)(nil)

// remoteObserver counts requests to remote engines, and publishes changes of their data and health to topics, Events, and logs.
type remoteObserver struct {
	remoteMetrics
	reader client.Reader // reads policies from the cache
	events *events.Recorder
	topics *topics
}

// Revised publishes that the remote engine of a policy has other data. It implements remote.Observer.
func (o *remoteObserver) Revised(policy string) { o.topics.remoteRevised.Publish(policy) }

// HealthChanged publishes that the health of a policy's remote engine changed. It emits an Event when the engine starts to fail, when its
// circuit breaker opens, and when it recovers, and none for other changes, because each request may fail with another error. It implements
// remote.Observer.
func (o *remoteObserver) HealthChanged(policy string, before, after placement.RemoteHealth) {
	o.topics.policyFacts.Publish(policy)
	severityBefore, severityAfter := severityOf(before), severityOf(after)
	log := ctrl.Log.WithName("remote").WithValues("policy", policy, "endpoint", after.Endpoint)
	switch {
	case severityAfter > severityBefore && severityAfter == severityCircuitOpen:
		o.emit(policy, events.RemoteFailing, fmt.Sprintf("the circuit breaker of the engine is open, because requests kept failing: %v",
			after.Err))
		log.Error(after.Err, "The circuit breaker of an engine is open, because requests kept failing")
	case severityAfter > severityBefore:
		o.emit(policy, events.RemoteFailing, fmt.Sprint(after.Err))
		log.Error(after.Err, "Requests to an engine fail")
	case severityAfter == severityHealthy && severityBefore != severityHealthy:
		o.emit(policy, events.RemoteRecovered, fmt.Sprintf("engine %s answers again; requests to it had failed since %s", after.Endpoint,
			before.Since.UTC().Format(time.RFC3339)))
		log.Info("An engine answers again", "since", before.Since)
		o.topics.remoteRecovered.Publish(policy)
	}
}

// severity says how bad the problem of a remote engine is: none, failing requests, or an open circuit breaker.
type severity int

const (
	severityHealthy severity = iota
	severityFailing
	severityCircuitOpen
)

// severityOf returns the severity of the problem that a remote engine's health describes.
func severityOf(h placement.RemoteHealth) severity {
	switch {
	case h.BreakerOpen:
		return severityCircuitOpen
	case h.Err != nil:
		return severityFailing
	default:
		return severityHealthy
	}
}

// emit emits an Event of a kind on the policy of a name, which it reads from the cache; none if the policy is not there, as after its
// deletion.
func (o *remoteObserver) emit(policy string, kind events.Kind, message string) {
	o.events.OnPolicy(context.Background(), o.reader, policy, kind, message)
}

// endpointMetrics allows metrics of the endpoint of each remote engine that decides a policy in force.
type endpointMetrics struct {
	metrics *metrics.Remote

	mu   sync.Mutex
	used map[string]int // the number of policies in force by endpoint
}

// changed updates the endpoints in use after other versions of a policy came into force.
func (e *endpointMetrics) changed(change placement.PolicyChange) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range change.After {
		if at, ok := endpointOf(p); ok {
			if e.used[at]++; e.used[at] == 1 {
				e.metrics.Add(at)
			}
		}
	}
	for _, p := range change.Before {
		if at, ok := endpointOf(p); ok {
			if e.used[at]--; e.used[at] == 0 {
				delete(e.used, at)
				e.metrics.Forget(at)
			}
		}
	}
}

// endpointOf returns the endpoint of a policy's remote engine; false if it has none.
func endpointOf(p *placement.Policy) (string, bool) {
	r, ok := p.Remote()
	if !ok {
		return "", false
	}
	return r.Health().Endpoint, true
}
