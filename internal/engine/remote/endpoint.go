package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/semaphore"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
)

const (
	// maxInFlight bounds the requests that an engine is working on at a time.
	maxInFlight = 64
	// faultsToOpen in a row open the circuit.
	faultsToOpen = 5
	// firstOpen is how long the circuit is open at first, which is about what a server takes to start, and openFor how long
	// it is at most: it is twice as long after each trial that fails. maxOpenFor bounds what the engine asks for.
	firstOpen  = time.Second
	openFor    = 10 * time.Second
	maxOpenFor = time.Minute
)

// endpoint is an engine as all policies share it that ask it, whatever their credentials. It is safe for concurrent use.
type endpoint struct {
	name     string
	inFlight *semaphore.Weighted
	breaker  *gobreaker.TwoStepCircuitBreaker[struct{}]

	// namespaces keep what the objects of one namespace cause from the others.
	namespaces namespaces

	mu sync.Mutex
	// failing are the namespaces whose objects met faults since the last success, and broken says that there was a fault
	// since that no object can cause, or one about an object in no namespace.
	failing map[string]bool
	broken  bool
	// health is of what concerns all policies.
	health health
	// openSince is when the circuit opened; zero while it is closed. It is not closed before a request succeeded.
	openSince time.Time
	// pause is how long the circuit is open until the next trial, which is at trial.
	pause time.Duration
	trial time.Time
	// quietUntil is until when the engine wants to be left alone.
	quietUntil time.Time
}

func newEndpoint(name string) *endpoint {
	e := &endpoint{name: name, inFlight: semaphore.NewWeighted(maxInFlight)}
	e.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:          name,
		MaxRequests:   1,
		Timeout:       firstOpen,
		ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= faultsToOpen && e.widespread() },
		IsExcluded:    func(err error) bool { return errors.Is(err, errNotAsked) },
		OnStateChange: func(_ string, from, to gobreaker.State) { e.turned(from, to) },
	})
	return e
}

// turned notes that the circuit opened or closed.
func (e *endpoint) turned(from, to gobreaker.State) {
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
		e.health.recovered()
	}
}

// saw notes whose objects met a fault, before the circuit breaker counts it.
func (e *endpoint) saw(namespace string, outcome error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var fault *engine.RemoteError
	switch {
	case outcome == nil:
		e.failing, e.broken = nil, false
	case !errors.As(outcome, &fault):
	case namespace == "" || !ofNamespace(fault):
		e.broken = true
	case len(e.failing) < namespacesToOpen:
		if e.failing == nil {
			e.failing = map[string]bool{}
		}
		e.failing[namespace] = true
	}
}

// widespread reports whether the faults since the last success tell of the engine, and not of one namespace's objects.
func (e *endpoint) widespread() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.broken || len(e.failing) >= namespacesToOpen
}

// errNotAsked stands for an attempt that tells nothing of the engine, for the circuit breaker.
var errNotAsked = errors.New("the engine was not asked")

// standing is what an attempt's outcome says of the endpoint, for the circuit breaker: nil for one that answers.
func standing(err error) error {
	var fault *engine.RemoteError
	if errors.Is(err, errNotAsked) {
		return errNotAsked
	}
	if !errors.As(err, &fault) {
		return nil
	}
	switch fault.Fault {
	case engine.FaultUnauthorized, engine.FaultRefused, engine.FaultUndefined, engine.FaultIncomplete:
		// It does answer, and other policies may have no such trouble. So it is with answers that are whole, below.
		return nil
	case engine.FaultCredentials, engine.FaultSerialization:
		return errNotAsked
	}
	var said *rejection
	var unreadable unreadable
	if errors.As(err, &said) && said.ofObject() || errors.As(err, &unreadable) {
		return nil
	}
	if errors.Is(err, context.Canceled) || untrusted(err) {
		// Nobody waited for it, or it is about the certificates of one policy.
		return errNotAsked
	}
	return fault
}

// errBusy says that a request could not be sent for all those that are under way.
var errBusy = fmt.Errorf("%d requests to the engine are under way, and none ended in time", maxInFlight)

// enter waits for its turn to send a request. Who got it calls leave, once, with the outcome; leave says whether the
// endpoint's health changed by it. The error is an *engine.RemoteError.
func (e *endpoint) enter(ctx context.Context) (leave func(error) (changed bool), err error) {
	if e.breaker.State() == gobreaker.StateOpen {
		return nil, e.closedOff()
	}
	namespace := placement.NamespaceOf(ctx)
	leaveNamespace, err := e.namespaces.enter(ctx, e.name, namespace)
	if err != nil {
		return nil, err
	}
	if e.inFlight.Acquire(ctx, 1) != nil {
		leaveNamespace(nil)
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
		leaveNamespace(nil)
		return nil, e.closedOff()
	}
	return func(err error) bool {
		defer e.inFlight.Release(1)
		outcome := standing(err)
		leaveNamespace(caused(outcome))
		e.saw(namespace, outcome)
		before := e.state()
		done(outcome)
		e.note(outcome)
		return e.state() != before
	}, nil
}

// caused reports whether an outcome is a fault that the object may have caused; nil for one that tells nothing of that.
func caused(outcome error) *bool {
	var fault *engine.RemoteError
	switch {
	case outcome == nil:
		return new(false)
	case errors.As(outcome, &fault) && ofNamespace(fault):
		return new(true)
	}
	return nil
}

// hush leaves the engine alone for as long as it asks for by a fault.
func (e *endpoint) hush(err error) {
	if fault, ok := errors.AsType[*engine.RemoteError](err); ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.quietUntil = quietAfter(fault, time.Now())
	}
}

func quietAfter(fault *engine.RemoteError, now time.Time) time.Time {
	return now.Add(min(fault.RetryAfter, maxOpenFor))
}

// next is when a circuit that is open lets the next request through. The caller holds the lock.
func (e *endpoint) next() time.Time {
	if e.quietUntil.After(e.trial) {
		return e.quietUntil
	}
	return e.trial
}

// quiet says whether the engine wants to be left alone.
func (e *endpoint) quiet(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return now.Before(e.quietUntil)
}

// closedOff says that the circuit is open.
func (e *endpoint) closedOff() *engine.RemoteError {
	e.mu.Lock()
	defer e.mu.Unlock()
	message := fmt.Sprintf("it is not asked since %s, as it kept failing, and is tried again from %s on",
		e.openSince.UTC().Format(time.RFC3339), e.next().UTC().Format(time.RFC3339))
	out := &engine.RemoteError{Endpoint: e.name, Fault: engine.FaultCircuitOpen, Err: errors.New(message)}
	if last := e.health.fault; last != nil {
		out.Status = last.Status
		out.Err = fmt.Errorf("%s; the last fault (%s): %w", message, last.Fault, last.Err)
	}
	return out
}

// note notes the outcome of a request, after the circuit breaker did.
func (e *endpoint) note(outcome error) {
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

// endpointState is an endpoint's health in what transitions are told by.
type endpointState struct {
	fault engine.Fault
	open  bool
}

func (e *endpoint) state() endpointState {
	e.mu.Lock()
	defer e.mu.Unlock()
	return endpointState{fault: e.health.kind(), open: !e.openSince.IsZero()}
}

// healthNow returns the endpoint's health, and since when the circuit is open; zero if it is not.
func (e *endpoint) healthNow() (h health, openSince time.Time) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.openSince.IsZero() {
		e.health.settle(now)
	}
	return e.health, e.openSince
}
