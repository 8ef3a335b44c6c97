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

package console

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/internal/fleet"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/whatif"
)

// state is one reading of a cluster, with what is computed from it when it is first needed. It is safe for concurrent use.
type state struct {
	*Reading
	at     time.Time
	cached *simulation.Cached
	// changes is the number of changes of a cluster that the console follows, before this reading.
	changes int
	// computing limits the computations.
	computing slots

	simulated once[*simulation.Simulation]
	decided   once[*fleet.Fleet]
	tried     once[*whatif.Session]
	named     once[*valuesView]
	// asking is held while the session is in use, which answers one question after the other. It guards last, its last answer; nil before
	// the first one.
	asking sync.Mutex
	last   *answered
}

func newState(r *Reading, computing slots) *state {
	s := &state{Reading: r, at: time.Now(), cached: simulation.NewCached(r.Cluster), computing: computing}
	if cluster, ok := r.Cluster.(follower); ok {
		s.changes, _ = cluster.Changes()
	}
	return s
}

// once is a value that is computed once, and again after an error that may pass.
type once[T any] struct {
	mu       sync.Mutex
	computed bool
	value    T
	err      error
}

// get returns the value. Requests that come later use what a request computes that its client has given up.
func (o *once[T]) get(ctx context.Context, compute func(context.Context) (T, error)) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.computed {
		o.value, o.err = compute(context.WithoutCancel(ctx))
		o.computed = o.err == nil || apierrors.IsForbidden(o.err)
	}
	return o.value, o.err
}

// simulation returns the simulation of the cluster. An error says what the user may not read.
func (s *state) simulation(ctx context.Context) (*simulation.Simulation, error) {
	return s.simulated.get(ctx, func(ctx context.Context) (*simulation.Simulation, error) {
		return limited(ctx, s.computing, func() (*simulation.Simulation, error) { return simulation.New(ctx, s.cached, s.Options) })
	})
}

// fleet returns the decided objects.
func (s *state) fleet(ctx context.Context) (*fleet.Fleet, error) {
	return s.decided.get(ctx, func(ctx context.Context) (*fleet.Fleet, error) {
		simulated, err := s.simulation(ctx)
		if err != nil {
			return nil, err
		}
		return limited(ctx, s.computing, func() (*fleet.Fleet, error) { return fleet.New(ctx, simulated) })
	})
}

// session returns the session that answers what changes would do.
func (s *state) session(ctx context.Context) (*whatif.Session, error) {
	return s.tried.get(ctx, func(ctx context.Context) (*whatif.Session, error) {
		session, err := limited(ctx, s.computing, func() (*whatif.Session, error) { return whatif.NewPartialSession(ctx, s.cached, s.Options) })
		if err != nil {
			return nil, err
		}
		session.Types, session.Recount = s.Types, s.Recount
		return session, nil
	})
}
