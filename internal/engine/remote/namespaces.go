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
	// namespacesToOpen is how many namespaces have to meet faults in a row for them to tell of the engine: the objects of
	// one may be the reason.
	namespacesToOpen = 3
	// maxInFlightOfOne bounds the requests for objects of one namespace that an engine is working on at a time.
	maxInFlightOfOne = maxInFlight / 4
	// maxNamespaces bounds the namespaces that are remembered for one engine.
	maxNamespaces = 256
)

// namespaces keep what the objects of one namespace cause at an engine from the others. They are safe for concurrent use.
type namespaces struct {
	mu    sync.Mutex
	known map[string]*namespaceState
	uses  uint64
}

// namespaceState is the outcome of recent requests about the objects of a namespace.
type namespaceState struct {
	inFlight *semaphore.Weighted
	// waiting are requests that have the state: it is not forgotten before they end.
	waiting int
	// faults in a row; with faultsToOpen of them the circuit is open for this namespace until a time, after a pause.
	faults int
	until  time.Time
	pause  time.Duration
	used   uint64
}

// enter waits for the turn of a request. Who got it calls leave, once, with whether there was a fault that the object may
// have caused; nil for neither success nor such a fault.
func (n *namespaces) enter(ctx context.Context, endpoint, namespace string) (leave func(fault *bool), err error) {
	if namespace == "" {
		return func(*bool) {}, nil
	}
	n.mu.Lock()
	s := n.state(namespace)
	now := time.Now()
	if s.faults >= faultsToOpen && now.Before(s.until) {
		until := s.until
		n.mu.Unlock()
		return nil, &engine.RemoteError{Endpoint: endpoint, Fault: engine.FaultCircuitOpen, Err: fmt.Errorf(
			"it is not asked about objects in namespace %s, as it kept failing at them, and is tried again from %s on", namespace, until.UTC().Format(time.RFC3339))}
	}
	if s.faults >= faultsToOpen {
		// One request tries; the others wait for the next time.
		s.until = now.Add(s.pause)
	}
	s.waiting++
	n.mu.Unlock()
	if s.inFlight.Acquire(ctx, 1) != nil {
		n.done(s, nil)
		return nil, &engine.RemoteError{Endpoint: endpoint, Fault: engine.FaultTimeout, Err: errBusyHere}
	}
	return func(fault *bool) {
		s.inFlight.Release(1)
		n.done(s, fault)
	}, nil
}

// errBusyHere says that a request could not be sent for all those of its namespace that are under way.
var errBusyHere = errors.New("many requests about objects of this namespace are under way, and none ended in time")

func (n *namespaces) done(s *namespaceState, fault *bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s.waiting--
	switch {
	case fault == nil:
		return
	case !*fault:
		s.faults, s.pause = 0, 0
		return
	}
	if s.faults++; s.faults < faultsToOpen {
		return
	}
	s.pause = min(max(firstOpen, 2*s.pause), openFor)
	s.until = time.Now().Add(s.pause)
}

// state returns a namespace's state, and forgets the one that was used longest ago if there are too many. The caller holds
// the lock.
func (n *namespaces) state(namespace string) *namespaceState {
	n.uses++
	s := n.known[namespace]
	if s == nil {
		if n.known == nil {
			n.known = map[string]*namespaceState{}
		}
		if len(n.known) >= maxNamespaces {
			n.forget()
		}
		s = &namespaceState{inFlight: semaphore.NewWeighted(maxInFlightOfOne)}
		n.known[namespace] = s
	}
	s.used = n.uses
	return s
}

// forget forgets a namespace that nobody asks for: one without faults, if there is one.
func (n *namespaces) forget() {
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

// ofNamespace reports whether a fault may be due to the object that was asked about.
func ofNamespace(fault *engine.RemoteError) bool {
	switch fault.Fault {
	case engine.FaultTimeout, engine.FaultServer, engine.FaultMalformed:
		return true
	}
	return false
}
