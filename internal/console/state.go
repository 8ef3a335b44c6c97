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
	at     time.Time          // when the cluster was read
	cached *simulation.Cached // the cluster, with what was read of it
	// changes is the number of changes that the cluster had at the time of this reading, if the console follows it; otherwise 0.
	changes int
	// computing limits how many computations run at once: Config.computing.
	computing slots

	simulated once[*simulation.Simulation] // the simulation of the cluster, which the method simulation computes
	decided   once[*fleet.Fleet]           // the decided objects of the cluster, which the method fleet computes
	tried     once[*whatif.Session]        // the session that tries changes, which the method session begins
	named     once[*valuesView]            // what policies can name of the cluster, which the method values computes
	// asking is held while a request uses the session, which can answer only one request at a time. It guards last.
	asking sync.Mutex
	last   *answered // the last answer of the session; nil before the first one
}

func newState(r *Reading, computing slots) *state {
	s := &state{Reading: r, at: time.Now(), cached: simulation.NewCached(r.Cluster), computing: computing}
	if cluster, ok := r.Cluster.(follower); ok {
		s.changes, _ = cluster.Changes()
	}
	return s
}

// once is a value that is computed once. After an error, it is computed again by the next request, except that a Forbidden error stays. The
// zero value is not computed yet.
type once[T any] struct {
	mu       sync.Mutex
	computed bool
	value    T
	err      error
}

// get returns the value, or the error, and computes it if it is not known. Other callers wait meanwhile. The computation goes on even if
// the client of the request gives up, because later requests use the value.
func (o *once[T]) get(ctx context.Context, compute func(context.Context) (T, error)) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.computed {
		o.value, o.err = compute(context.WithoutCancel(ctx))
		o.computed = o.err == nil || apierrors.IsForbidden(o.err)
	}
	return o.value, o.err
}

// simulation returns the simulation of the cluster, which it makes once. A Forbidden error says what the user may not read.
func (s *state) simulation(ctx context.Context) (*simulation.Simulation, error) {
	return s.simulated.get(ctx, func(ctx context.Context) (*simulation.Simulation, error) {
		return limited(ctx, s.computing, func() (*simulation.Simulation, error) { return simulation.New(ctx, s.cached, s.Options) })
	})
}

// fleet returns the decided objects of the cluster, which it decides once.
func (s *state) fleet(ctx context.Context) (*fleet.Fleet, error) {
	return s.decided.get(ctx, func(ctx context.Context) (*fleet.Fleet, error) {
		simulated, err := s.simulation(ctx)
		if err != nil {
			return nil, err
		}
		return limited(ctx, s.computing, func() (*fleet.Fleet, error) { return fleet.New(ctx, simulated) })
	})
}

// session returns the session that answers what changes to the cluster would do, which it begins once. Without the right to list types that
// policies match, it lacks these.
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
