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
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/berth-dev/berth/internal/engine"
)

const (
	// maxInFlightOfNamespace is the maximum number of concurrent requests to an engine for the objects of one namespace.
	maxInFlightOfNamespace = maxInFlight / 4
	// maxNamespaces is the maximum number of namespaces that are tracked for one engine.
	maxNamespaces = 256
)

// namespaces are circuit breakers and limits of an engine for each namespace: faults that the objects of one namespace cause do not affect
// the others. If there are more than maxNamespaces, the one whose last use is longest ago is removed, among those without requests under
// way and, if there are any, without faults. They are safe for concurrent use.
type namespaces struct {
	mu sync.Mutex
	// known are the states by namespace.
	known map[string]*namespaceState
	uses  uint64 // how often any state was used, which orders the states by their last use
}

// namespaceState is the circuit breaker of a namespace, and its limit of concurrent requests.
type namespaceState struct {
	inFlight *semaphore.Weighted // limits the concurrent requests for objects of the namespace
	// waiting is the number of requests that wait or are under way. The state is not removed while there are any.
	waiting int
	// faults is the number of consecutive faults. From faultsToOpen on, the circuit breaker of the namespace is open.
	faults int
	until  time.Time     // when the circuit breaker, if it is open, lets the next request through
	pause  time.Duration // how long the circuit breaker stays open this time
	used   uint64        // the value of namespaces.uses at the last use
}

// enter waits until a request for an object in a namespace may be sent. It returns an *engine.RemoteError with FaultCircuitOpen if the
// namespace's circuit breaker is open, or with FaultTimeout if the wait takes too long. Otherwise the caller must call leave exactly once,
// with the outcome of the request as breakerOutcome returns it, or with errInconclusive if no request was sent. Objects in no namespace
// have no limit.
func (n *namespaces) enter(ctx context.Context, endpoint, namespace string) (leave func(outcome error), err error) {
	if namespace == "" {
		return func(error) {}, nil
	}
	n.mu.Lock()
	s := n.state(namespace)
	now := time.Now()
	if s.faults >= faultsToOpen && now.Before(s.until) {
		until := s.until
		n.mu.Unlock()
		return nil, &engine.RemoteError{Endpoint: endpoint, Fault: engine.FaultCircuitOpen, Err: fmt.Errorf(
			"requests for objects in namespace %s kept failing, so the next one is sent after %s", namespace, until.UTC().Format(time.RFC3339))}
	}
	if s.faults >= faultsToOpen {
		// One request is a trial. The others wait for another pause.
		s.until = now.Add(s.pause)
	}
	s.waiting++
	n.mu.Unlock()
	if s.inFlight.Acquire(ctx, 1) != nil {
		n.done(s, errInconclusive)
		return nil, &engine.RemoteError{Endpoint: endpoint, Fault: engine.FaultTimeout, Err: errNamespaceBusy}
	}
	return func(outcome error) {
		s.inFlight.Release(1)
		n.done(s, outcome)
	}, nil
}

// errNamespaceBusy is the error of a request that could not be sent because too many others of its namespace are
// running.
var errNamespaceBusy = errors.New("this request was not sent: many others for objects of its namespace are under way, and none of them " +
	"ended in time")

// done records for the circuit breaker of a namespace how a request ended, and that the request no longer waits or runs. A success closes
// the circuit breaker. A fault that the object may have caused counts against it. Other outcomes change nothing. done does not release the
// request's slot in inFlight.
func (n *namespaces) done(s *namespaceState, outcome error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s.waiting--
	switch {
	case outcome == nil:
		s.faults, s.pause = 0, 0
		return
	case !ofNamespace(outcome):
		return
	}
	if s.faults++; s.faults < faultsToOpen {
		return
	}
	s.pause = min(max(firstOpen, 2*s.pause), openFor)
	s.until = time.Now().Add(s.pause)
}

// state returns a namespace's state and creates it if needed. If there are too many, it removes the least recently used
// one. The caller holds the lock.
func (n *namespaces) state(namespace string) *namespaceState {
	n.uses++
	s := n.known[namespace]
	if s == nil {
		if n.known == nil {
			n.known = map[string]*namespaceState{}
		}
		if len(n.known) >= maxNamespaces {
			n.evict()
		}
		s = &namespaceState{inFlight: semaphore.NewWeighted(maxInFlightOfNamespace)}
		n.known[namespace] = s
	}
	s.used = n.uses
	return s
}

// evict removes the least recently used namespace without waiting requests, preferably one without faults.
func (n *namespaces) evict() {
	oldest, sound := "", false
	for name, s := range n.known {
		if s.waiting > 0 {
			continue
		}
		first := oldest == "" || s.faults == 0 && !sound
		if first || (s.faults == 0) == sound && s.used < n.known[oldest].used {
			oldest, sound = name, s.faults == 0
		}
	}
	delete(n.known, oldest)
}

// ofNamespace reports whether an outcome is a fault that the object of the request may have caused: a timeout, an error of the server other
// than 503, or an unreadable response.
func ofNamespace(outcome error) bool {
	switch engine.FaultOf(outcome) {
	case engine.FaultTimeout, engine.FaultServer, engine.FaultMalformed:
		return true
	}
	return false
}
