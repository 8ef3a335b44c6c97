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

	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/semaphore"

	"github.com/berth-dev/berth/internal/containment"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/placement"
)

const (
	// maxInFlight is the maximum number of concurrent requests to an engine.
	maxInFlight = opaclient.MaxConnections
	// faultsToOpen is the number of consecutive faults that open the circuit breaker.
	faultsToOpen = 5
	// firstOpen is how long the circuit breaker stays open at first, which is roughly the time that a server takes to
	// start. That time doubles with each trial that fails, up to openFor. maxOpenFor is the maximum delay that an engine
	// may request with Retry-After.
	firstOpen  = time.Second
	openFor    = 10 * time.Second
	maxOpenFor = time.Minute
)

// endpoint is the state of an engine that all policies which use it share, whatever their credentials: its circuit breakers, the limit of
// requests, and its health. It is safe for concurrent use.
type endpoint struct {
	// name is the address of the engine, as in https://opa.example:8181.
	name     string
	inFlight *semaphore.Weighted                        // limits the concurrent requests to the engine
	breaker  *gobreaker.TwoStepCircuitBreaker[struct{}] // the circuit breaker for all namespaces

	// namespaces are circuit breakers for each namespace: faults that the objects of one namespace cause do not affect the others.
	namespaces namespaces

	mu sync.Mutex
	// failing are the namespaces whose objects met faults since the last success.
	failing map[string]bool
	// broken reports whether there was a fault since the last success that no object can cause, such as of the network, or one for an object
	// in no namespace.
	broken bool
	// health is the part of the health that all policies of the endpoint share.
	health health
	// openSince is the time when the circuit breaker opened; zero while it is closed. The breaker closes only after a
	// request succeeded.
	openSince time.Time
	// pause is how long the circuit breaker stays open this time.
	pause time.Duration
	// trial is when the pause of an open circuit breaker ends: then, or at quietUntil if that is later, it lets the next request through.
	trial time.Time
	// quietUntil is the time before which the engine wants no requests, as it said with Retry-After; the time of the last fault if that had no
	// Retry-After. Until then, no probe is sent, and the circuit breaker, if it is open, lets no request through. A closed one ignores it.
	quietUntil time.Time
}

// newEndpoint returns the state of an engine at an address, to which no request was sent yet.
func newEndpoint(name string) *endpoint {
	e := &endpoint{name: name, inFlight: semaphore.NewWeighted(maxInFlight)}
	e.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:          name,
		MaxRequests:   1,
		Timeout:       firstOpen,
		ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= faultsToOpen && e.widespread() },
		IsExcluded:    func(err error) bool { return errors.Is(err, errInconclusive) },
		OnStateChange: func(_ string, from, to gobreaker.State) { e.breakerChanged(from, to) },
	})
	return e
}

// breakerChanged records since when the circuit breaker has been open, and when it lets the next request through. If a trial fails, it
// stays open longer, since the same time as before. Once it is closed, the engine counts as healthy.
func (e *endpoint) breakerChanged(from, to gobreaker.State) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch to {
	case gobreaker.StateOpen:
		now := time.Now()
		if from == gobreaker.StateClosed {
			e.openSince, e.pause = now, firstOpen
		} else {
			e.pause = min(2*e.pause, openFor)
		}
		e.trial = now.Add(e.pause)
	case gobreaker.StateClosed:
		e.openSince = time.Time{}
		e.health.fault = nil
	}
}

// recordNamespace records how a request for an object in a namespace ended, before the circuit breaker counts the outcome. A success clears
// failing and broken. A fault that the object may have caused adds the namespace to failing. Any other fault, and each fault for an object
// in no namespace, sets broken. errInconclusive changes nothing.
func (e *endpoint) recordNamespace(namespace string, outcome error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case outcome == nil:
		e.failing, e.broken = nil, false
	case errors.Is(outcome, errInconclusive):
	case namespace == "" || !ofNamespace(outcome):
		e.broken = true
	case len(e.failing) < containment.Namespaces:
		if e.failing == nil {
			e.failing = map[string]bool{}
		}
		e.failing[namespace] = true
	}
}

// widespread reports whether the faults since the last success point to the engine, and not only to the objects of a few namespaces: there
// was one that no object can cause, such as of the network, or one for an object in no namespace, or there were some in at least
// containment.Namespaces namespaces.
func (e *endpoint) widespread() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.broken || len(e.failing) >= containment.Namespaces
}

// errInconclusive is the outcome of an attempt that says nothing about the engine. The circuit breaker ignores it.
var errInconclusive = errors.New("no request was sent to the engine")

// breakerOutcome converts the error of an attempt to an outcome for the circuit breaker. It returns nil if the engine answered, even if it
// refused the request or the credentials, lacks what Berth pushes there, or sent a response that can't be used. It returns errInconclusive
// if the error says nothing about the engine: no request was sent, the caller gave up, or its certificate is not trusted. Otherwise it
// returns the fault, such as a timeout.
func breakerOutcome(err error) error {
	var fault *engine.RemoteError
	if errors.Is(err, errInconclusive) {
		return errInconclusive
	}
	if !errors.As(err, &fault) {
		return nil
	}
	switch fault.Fault {
	case engine.FaultUnauthorized, engine.FaultRefused, engine.FaultUndefined, engine.FaultIncomplete:
		// The engine does answer, and other policies may not be affected. The same holds for complete but unreadable answers,
		// below.
		return nil
	case engine.FaultCredentials, engine.FaultSerialization:
		return errInconclusive
	}
	var said *opaclient.Rejection
	var unreadable opaclient.UnreadableError
	if errors.As(err, &said) && said.OfObject() || errors.As(err, &unreadable) {
		return nil
	}
	if errors.Is(err, context.Canceled) || opaclient.Untrusted(err) {
		// The caller gave up, or the certificates of one policy are the cause.
		return errInconclusive
	}
	return fault
}

// errBusy is the error of a request that could not be sent because too many others are running.
var errBusy = fmt.Errorf("this request was not sent: %d others to the engine are under way, and none of them ended in time", maxInFlight)

// enter waits until a request may be sent. It returns an *engine.RemoteError if the circuit breaker is open, or if the wait takes too long.
// The caller must call leave exactly once, with the error of the request. leave reports whether the endpoint's health changed.
func (e *endpoint) enter(ctx context.Context) (leave func(error) (changed bool), err error) {
	if e.breaker.State() == gobreaker.StateOpen {
		return nil, e.circuitOpenError()
	}
	namespace := placement.NamespaceOf(ctx)
	leaveNamespace, err := e.namespaces.enter(ctx, e.name, namespace)
	if err != nil {
		return nil, err
	}
	if e.inFlight.Acquire(ctx, 1) != nil {
		leaveNamespace(errInconclusive)
		return nil, &engine.RemoteError{Endpoint: e.name, Fault: engine.FaultTimeout, Err: errBusy}
	}
	e.mu.Lock()
	quiet := !e.openSince.IsZero() && time.Now().Before(e.next())
	e.mu.Unlock()
	var done func(error)
	if !quiet {
		done, err = e.breaker.Allow()
	}
	if quiet || err != nil {
		e.inFlight.Release(1)
		leaveNamespace(errInconclusive)
		return nil, e.circuitOpenError()
	}
	return func(err error) bool {
		defer e.inFlight.Release(1)
		outcome := breakerOutcome(err)
		leaveNamespace(outcome)
		e.recordNamespace(namespace, outcome)
		before := e.state()
		done(outcome)
		e.recordOutcome(outcome)
		return e.state() != before
	}, nil
}

// setQuietUntil sets quietUntil to the time that a fault in the error requests with Retry-After, at most maxOpenFor from now; to now if the
// fault has none. An error without a fault, or nil, changes nothing.
func (e *endpoint) setQuietUntil(err error) {
	if fault, ok := errors.AsType[*engine.RemoteError](err); ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.quietUntil = quietAfter(fault, time.Now())
	}
}

// quietAfter returns the time before which the engine wants no requests after a fault (Retry-After), at most maxOpenFor after now; now if
// the fault has no Retry-After.
func quietAfter(fault *engine.RemoteError, now time.Time) time.Time {
	return now.Add(min(fault.RetryAfter, maxOpenFor))
}

// next returns the time when an open circuit breaker lets the next request through: at the end of its pause or, if that is later, at the
// time that the engine requested with Retry-After. The caller holds the lock.
func (e *endpoint) next() time.Time {
	if e.quietUntil.After(e.trial) {
		return e.quietUntil
	}
	return e.trial
}

// quiet reports whether the engine wants no requests at this time, as it said with Retry-After.
func (e *endpoint) quiet(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return now.Before(e.quietUntil)
}

// circuitOpenError returns the error that says since when the circuit breaker has been open, when the next request is sent, and what the
// last fault was.
func (e *endpoint) circuitOpenError() *engine.RemoteError {
	e.mu.Lock()
	defer e.mu.Unlock()
	message := fmt.Sprintf("its circuit breaker has been open since %s, because requests kept failing; the next request is sent after %s",
		e.openSince.UTC().Format(time.RFC3339), e.next().UTC().Format(time.RFC3339))
	out := &engine.RemoteError{Endpoint: e.name, Fault: engine.FaultCircuitOpen, Err: errors.New(message)}
	if last := e.health.fault; last != nil {
		out.Status = last.Status
		out.Err = fmt.Errorf("%s; the last fault (%s): %w", message, last.Fault, last.Err)
	}
	return out
}

// recordOutcome records the outcome of a request, as breakerOutcome returns it, in the endpoint's health, and until when a fault wants no
// requests (Retry-After). errInconclusive changes nothing. It is called after the circuit breaker counted the outcome.
func (e *endpoint) recordOutcome(outcome error) {
	now := time.Now()
	var fault *engine.RemoteError
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case outcome == nil:
		e.health.answered(now)
	case errors.As(outcome, &fault):
		e.health.failed(fault, now)
		e.quietUntil = quietAfter(fault, now)
	}
}

// endpointState is what the observer is notified of when it changes: the last fault, and whether the circuit breaker is open.
type endpointState struct {
	fault engine.Fault // the last fault; empty for none
	open  bool         // whether the circuit breaker is open
}

func (e *endpoint) state() endpointState {
	e.mu.Lock()
	defer e.mu.Unlock()
	return endpointState{fault: e.health.kind(), open: !e.openSince.IsZero()}
}

// healthNow returns the endpoint's health and the time when the circuit breaker opened; zero if it is closed. While it is closed, a fault
// of long ago no longer counts if the engine has answered since.
func (e *endpoint) healthNow() (h health, openSince time.Time) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.openSince.IsZero() {
		e.health.expire(now)
	}
	return e.health, e.openSince
}
