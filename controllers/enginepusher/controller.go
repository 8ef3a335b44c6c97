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

// Package enginepusher provides the controller that pushes to remote engines the objects and modules that policies need
// there. It runs on the leader, because a remote engine must have a single writer.
package enginepusher

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/engine/push"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/watches"
)

// Deps holds the dependencies of a Controller: what it reads policies and objects from, the clients of remote engines, and functions that
// it calls.
type Deps struct {
	Watches  *watches.Hub
	Registry *placement.Registry
	// Clients has a client for each remote engine.
	Clients     *opaclient.Pool
	Inventories *replication.Inventories
	// ContentChanged is called with policies whose data or modules in their remote engine changed.
	ContentChanged func(policies ...string)
	// Observer is notified of the requests that write to remote engines, of whether they fail, of full loads, and of how many changes of
	// objects wait, for example for metrics.
	Observer push.Observer
	// Loaded reports whether all existing policies have been processed. Until then the controller pushes nothing, so
	// that it does not remove data that a policy needs which is not loaded yet.
	Loaded func(context.Context) bool
}

// Controller pushes data and modules to remote engines. Create it with New, and add it to a manager as a Runnable.
type Controller struct {
	Deps
	// wake makes Start compute again what policies need. It is notified of each change in the registry, and of the end of the decisions that
	// began before one.
	wake notify.Signal
	// changes publishes the policies for which the result of State or Failure may have changed.
	changes notify.Topic[string]

	// leading is nil unless this replica is the leader and all policies are loaded.
	leading atomic.Pointer[leading]
}

// leading has what the leader pushes with: the pusher, and the watches whose objects it pushes. A replica has none while it is not the
// leader.
type leading struct {
	pusher  *push.Pusher
	watches *watches.Consumer // Watches the types that are pushed.
}

// New returns a controller that pushes nothing before Start. It subscribes to changes of policies at once.
func New(d Deps) *Controller {
	c := &Controller{Deps: d, wake: notify.NewSignal()}
	d.Registry.Subscribe(func(placement.PolicyChange) { c.wake.Notify() })
	d.Registry.SubscribeReleased(c.wake.Notify)
	return c
}

// NeedLeaderElection returns true: only the leader pushes.
func (*Controller) NeedLeaderElection() bool { return true }

// Subscribe registers f, which is called when the result of State or Failure for a policy may have changed. f must
// return quickly. Subscribe before Start.
func (c *Controller) Subscribe(f func(policy string)) { c.changes.Subscribe(f) }

// loadedPollInterval is the interval at which Start checks whether all policies are loaded. Each check may list them and
// fail, so there is no single event to wait for. A new leader checks for a moment only.
const loadedPollInterval = 100 * time.Millisecond

// Start pushes to remote engines what the policies need there until ctx ends. Then it leaves the content of the engines as it is.
func (c *Controller) Start(ctx context.Context) error {
	pusher := push.New(push.Options{
		Clients: c.Clients, Inventories: c.Inventories, Observer: c.Observer,
		ContentChanged: c.ContentChanged, StateChanged: c.notify,
	})
	consumer := c.Watches.NewConsumer(watches.Valid(pusher, clock.RealClock{}),
		func(r schema.GroupVersionResource) { c.notify(c.policiesNeeding(r)...) })
	consumer.Prepare = c.Inventories.Prepare
	// The poll returns an error only if ctx ends.
	if wait.PollUntilContextCancel(ctx, loadedPollInterval, true, func(ctx context.Context) (bool, error) {
		return c.Loaded(ctx), nil
	}) != nil {
		return nil
	}
	c.leading.Store(&leading{pusher, consumer})
	defer c.leading.Store(nil)
	var before []push.PolicyNeeds
	for {
		// What decisions need that began with earlier versions, and have not ended on this replica, stays in the engines.
		needs := needsOf(c.Registry.InUse())
		types := map[schema.GroupVersionResource]*projection.FieldSet{}
		for _, w := range needs {
			for _, r := range w.Types {
				types[r.GroupVersionResource] = projection.AllFields()
			}
		}
		consumer.Set(ctx, types)
		pusher.Set(ctx, needs)
		// State and Failure also change when a policy no longer needs something.
		if !slices.EqualFunc(before, needs, equal) {
			c.notify(policiesOf(slices.Concat(before, needs))...)
		}
		before = needs
		select {
		case <-ctx.Done():
			pusher.Wait()
			return nil
		case <-c.wake:
		}
	}
}

// notify calls the subscribers with each of the policies.
func (c *Controller) notify(policies ...string) {
	for _, p := range policies {
		c.changes.Publish(p)
	}
}

// State returns the state of the push of a type to a policy's engine, and the number of objects there. The state is
// synced once the engine has all objects. Both are zero on a replica that is not the leader.
func (c *Controller) State(policy string, resource schema.GroupVersionResource) (watches.State, int) {
	now := c.leading.Load()
	if now == nil {
		return watches.State{}, 0
	}
	state, _ := now.watches.State(resource)
	complete, objects := now.pusher.Complete(policy, resource)
	state.Synced = state.Synced && complete
	return state, objects
}

// Failure returns the reason why data or modules of a policy can't be pushed to its engine, or nil if no failure is
// known, as on a replica that is not the leader.
func (c *Controller) Failure(policy string) error {
	now := c.leading.Load()
	if now == nil {
		return nil
	}
	return now.pusher.Failure(policy)
}

// Ambiguous returns the names of clusters that more than one object has, in the inventories among the types, sorted; none on a replica that
// is not the leader.
func (c *Controller) Ambiguous(types []policy.Resource) []replication.Ambiguity {
	now := c.leading.Load()
	if now == nil {
		return nil
	}
	return now.pusher.Ambiguous(types)
}

// policiesNeeding returns the names of the policies that need objects of a type in their engines.
func (c *Controller) policiesNeeding(resource schema.GroupVersionResource) []string {
	return policiesOf(slices.DeleteFunc(needsOf(c.Registry.All()), func(w push.PolicyNeeds) bool {
		return !slices.ContainsFunc(w.Types, func(r policy.Resource) bool { return r.GroupVersionResource == resource })
	}))
}

// policiesOf returns the names of the policies that have needs, sorted.
func policiesOf(needs []push.PolicyNeeds) []string {
	names := sets.New[string]()
	for _, w := range needs {
		names.Insert(w.Policy)
	}
	return sets.List(names)
}

// equal reports whether the needs are those of the same version of a policy: the policy's name, the pointer Remote, and the types are
// equal. It does not compare what Remote points to.
func equal(a, b push.PolicyNeeds) bool {
	return a.Policy == b.Policy && a.Remote == b.Remote && slices.Equal(a.Types, b.Types)
}

// needsOf returns what policies in certain states, by name, need in remote engines: the versions that decide, and those that wait for their
// data. The states of a policy must come in their order. Its versions then follow each other, one that waits after the one that decides.
func needsOf(states iter.Seq2[string, *placement.PolicyState]) []push.PolicyNeeds {
	var out []push.PolicyNeeds
	for name, state := range states {
		for _, b := range state.Bindings() {
			if b.Remote != nil && b.Remote.NeedsPush() {
				out = append(out, push.PolicyNeeds{Policy: name, Remote: b.Remote, Types: b.PushedTypes})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b push.PolicyNeeds) int { return strings.Compare(a.Policy, b.Policy) })
	return out
}
