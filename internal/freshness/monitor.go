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

// Package freshness determines whether this replica has loaded the policies that the API server has. A stalled watch
// looks like a watch without events, so every replica polls the API server.
//
// Create a Monitor with New, add it to a manager, and call Current or Confirm before a decision.
package freshness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/placement"
)

// DefaultBound is the value of Options.Bound in a manager without the flag --policy-max-staleness. New does not set it.
const DefaultBound = 20 * time.Second

// maxCatchUp is the maximum time for which a comparison waits for this replica to load the policies that the API server has listed.
const maxCatchUp = time.Second

var (
	_ manager.Runnable               = (*Monitor)(nil)
	_ manager.LeaderElectionRunnable = (*Monitor)(nil)
)

// Options configure a Monitor: where it reads the policies of the API server and those of this replica, and how long a comparison counts.
type Options struct {
	// Live reads from the API server, over the same connection as the watches.
	Live client.Reader
	// Registry has the policies that this replica has loaded.
	Registry *placement.Registry
	// Bound is how long Current is true after the beginning of a comparison that found that this replica has all policies; it must be set. The
	// timeout of a request to the API server is a third of it. The interval between requests is at most a quarter of it.
	Bound time.Duration
	// Compare is called with the resource versions of two successive lists of policies. It returns an error if the second one is from an
	// earlier state of the API server's store, which was then restored. The policies of this replica are not confirmed then.
	Compare func(first, second string) error
}

// Monitor confirms that this replica has loaded the policies that the API server has. It is safe for concurrent use.
type Monitor struct {
	options Options
	// confirmed is when the last comparison began that found that this replica has all policies; nil before the first one.
	confirmed atomic.Pointer[time.Time]

	mu sync.Mutex
	// next is the comparison that begins after the current one; nil if no caller of Confirm waits for one.
	next *round
	busy bool // whether a goroutine runs serve

	// loads is notified when this replica has loaded a policy. Only the current comparison receives from it, and only it uses version.
	loads   notify.Signal
	version string // the resource version of the last list, which Options.Compare gets with that of the next one; empty before the first
}

// round is one comparison of this replica's policies with those of the API server.
type round struct {
	done chan struct{} // closed when the comparison has ended
	err  error         // the result, set before done is closed; nil if this replica has all policies
}

// New returns a monitor. Add it to a manager, which starts it.
func New(o Options) *Monitor {
	m := &Monitor{options: o, loads: notify.NewSignal()}
	o.Registry.Subscribe(func(placement.PolicyChange) { m.loads.Notify() })
	return m
}

// NeedLeaderElection returns false, because every replica answers admission requests.
func (*Monitor) NeedLeaderElection() bool { return false }

// Start calls Confirm at intervals until ctx ends, more often while it fails, and then returns nil. It logs the first failure, and the
// first success after one.
func (m *Monitor) Start(ctx context.Context) error {
	log := ctrllog.FromContext(ctx).WithName("freshness")
	failing := false
	for ctx.Err() == nil {
		begin := time.Now()
		err := m.Confirm(ctx)
		interval := m.options.Bound / 4
		if err != nil {
			interval = min(interval, time.Second)
		}
		if failing != (err != nil) && ctx.Err() == nil {
			failing = err != nil
			if failing {
				log.Info("The API server did not confirm that this replica has the newest policies. Once its last confirmation is older than "+
					"the bound (--policy-max-staleness), this replica is not Ready, and its webhooks return an error", "error", err.Error(),
					"bound", m.options.Bound)
			} else {
				log.Info("The API server confirmed again that this replica has the newest policies")
			}
		}
		// The jitter spreads the requests of replicas that started together.
		notify.Sleep(ctx, time.Duration((0.8+0.2*rand.Float64())*float64(interval-time.Since(begin))))
	}
	return nil
}

// Current reports whether a comparison that began at most Bound ago has found that this replica has all policies. It does not wait.
func (m *Monitor) Current() bool {
	at := m.confirmed.Load()
	return at != nil && time.Since(*at) <= m.options.Bound
}

// Confirmed returns when the last comparison began that found that this replica has all policies; zero if there was none.
func (m *Monitor) Confirmed() time.Time {
	if at := m.confirmed.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Confirm checks now that this replica has loaded the policies that the API server has. The request to the API server begins after the
// call. Concurrent calls share a request. An error means that the replica is behind, or that the API server did not answer.
func (m *Monitor) Confirm(ctx context.Context) error {
	m.mu.Lock()
	r := m.next
	if r == nil {
		r = &round{done: make(chan struct{})}
		m.next = r
		if !m.busy {
			m.busy = true
			go m.serve(context.WithoutCancel(ctx))
		}
	}
	m.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("the API server did not confirm the policies of this replica in time: %w", ctx.Err())
	}
}

// serve makes the comparisons that callers of Confirm wait for, one after another, until none waits.
func (m *Monitor) serve(ctx context.Context) {
	for {
		m.mu.Lock()
		r := m.next
		m.next = nil
		m.busy = r != nil
		m.mu.Unlock()
		if r == nil {
			return
		}
		r.err = m.compare(ctx)
		close(r.done)
	}
}

// compare makes one comparison: it lists the policies of the API server, and waits for at most maxCatchUp until this replica has loaded
// them. It returns nil if the replica has.
func (m *Monitor) compare(ctx context.Context) error {
	begin := time.Now()
	before := m.loaded()
	live, err := m.list(ctx)
	if err != nil {
		return fmt.Errorf("asking the API server for its policies: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, min(maxCatchUp, m.options.Bound/3))
	defer cancel()
	for {
		lacking := behind(live, before, m.loaded())
		if lacking == nil {
			m.confirmed.Store(&begin)
			return nil
		}
		select {
		case <-m.loads:
		case <-ctx.Done():
			return lacking
		}
	}
}

// list returns the metadata of the policies that the API server has; none if it does not serve the type. It returns an error if the request
// fails, or if Options.Compare says that the API server's store went back to an earlier state.
func (m *Monitor) list(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	ctx, cancel := context.WithTimeout(ctx, m.options.Bound/3)
	defer cancel()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(placementv1.GroupVersion.WithKind("PlacementPolicyList"))
	if err := m.options.Live.List(ctx, list); err != nil {
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			// The CRD is not installed, so no policies exist.
			return nil, nil
		}
		return nil, err
	}
	// The requests are sequential, and the API server answers each from its newest state.
	err := m.options.Compare(m.version, list.ResourceVersion)
	m.version = list.ResourceVersion
	return list.Items, err
}

// loaded returns the newest version of each policy that this replica has loaded, by name, also while the version waits for its data.
func (m *Monitor) loaded() map[string]placement.LoadedVersion {
	out := map[string]placement.LoadedVersion{}
	for name, state := range m.options.Registry.All() {
		out[name] = state.Loaded
	}
	return out
}

// behind returns an error that names a policy of which this replica has not loaded the version in the list live; nil if there is none. That
// version may be newer than the loaded one, or older, as after a restore from a backup, or the list may not have the policy. before are the
// versions that were loaded when the list request began, and now those that are loaded now. A policy that was loaded in between may be
// newer than the list; it counts only if its generation is still below that in the list.
func behind(live []metav1.PartialObjectMetadata, before, now map[string]placement.LoadedVersion) error {
	there := make(map[string]bool, len(live))
	for _, p := range live {
		there[p.Name] = true
		was, has := before[p.Name], now[p.Name]
		switch {
		case has.UID != p.UID && has == was, has.UID == p.UID && has.Generation < p.Generation:
			return fmt.Errorf("this replica has not loaded generation %d of PlacementPolicy %s yet", p.Generation, p.Name)
		case has.UID == p.UID && has == was && has.Generation > p.Generation:
			return fmt.Errorf("this replica has loaded generation %d of PlacementPolicy %s, but the API server has the older generation %d, as "+
				"after a restore from a backup: try again, and restart this replica if the error remains", has.Generation, p.Name, p.Generation)
		}
	}
	for name, was := range before {
		if !there[name] && now[name] == was {
			return fmt.Errorf("this replica still decides by PlacementPolicy %s, which is deleted", name)
		}
	}
	return nil
}
