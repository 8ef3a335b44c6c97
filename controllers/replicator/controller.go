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

// Package replicator provides the controller that replicates cluster objects: those that policies read into the
// engine, and those that predicates read into a separate store. It starts and stops watches as policies come and go. It
// runs on every replica.
package replicator

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/watches"
)

// Controller replicates cluster objects. Create it with New, and add it to a manager as a Runnable.
type Controller struct {
	registry *placement.Registry
	// data replicates what policies read under data, and predicates what predicates read. Both may have the same types, each with other
	// fields and in another form.
	data, predicates *feed
	// wake makes Start set the watches again. It is notified when a policy changed, and when no decision by an earlier version is left.
	wake notify.Signal
	// stale is the result of the last check of the age of data. It is nil before the first check: no data counts as too old then.
	stale atomic.Pointer[staleness]
}

// New returns a controller that watches by hub, and loads into data, what the policies in registry read; objects of inventories in their
// normal form. While a policy evaluates predicates, it also loads into world what those read.
func New(hub *watches.Hub, registry *placement.Registry, data Store, world *predicates.NodeCache,
	inventories *replication.Inventories) *Controller {
	c := &Controller{registry: registry, wake: notify.NewSignal()}
	c.data = newFeed(hub, data, func(b *policy.Binding) map[schema.GroupVersionResource]*projection.FieldSet { return b.Fields })
	c.data.watches.Prepare = inventories.Prepare
	c.predicates = newFeed(hub, predicateData{world}, func(b *policy.Binding) map[schema.GroupVersionResource]*projection.FieldSet {
		return b.PredicateReads
	})
	registry.Subscribe(func(placement.PolicyChange) { c.wake.Notify() })
	registry.SubscribeReleased(c.wake.Notify)
	return c
}

// Subscribe registers f, which is called with a type that policies read (in data) when its objects change, or the state of its replication,
// or when its data becomes too old or is confirmed again. f must return quickly. Subscribe before Start.
func (c *Controller) Subscribe(f func(schema.GroupVersionResource)) {
	c.data.content.Subscribe(f)
	c.data.states.Subscribe(f)
}

// SubscribePredicates registers two functions for the types that predicates read. content is called when objects change, and state when the
// state of the replication changes, or when data becomes too old or is confirmed again. Both must return quickly. Subscribe before Start.
func (c *Controller) SubscribePredicates(content, state func(schema.GroupVersionResource)) {
	c.predicates.content.Subscribe(content)
	c.predicates.states.Subscribe(state)
}

// NeedLeaderElection returns false: every replica replicates, because the engine keeps its data in process memory.
func (*Controller) NeedLeaderElection() bool { return false }

// Start replicates what the policies in the registry read, and checks the age of data, until ctx ends. It returns no error.
func (c *Controller) Start(ctx context.Context) error {
	go c.followAge(ctx)
	for {
		for _, f := range c.feeds() {
			f.set(ctx, c.registry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
	}
}

// feeds returns the feed of data that policies read, and that of what predicates read.
func (c *Controller) feeds() []*feed { return []*feed{c.data, c.predicates} }

// State returns the watch state of some fields of a type that policies read, and the number of its replicated objects.
func (c *Controller) State(resource schema.GroupVersionResource, fields *projection.FieldSet) (watches.State, int) {
	return c.data.state(resource, fields)
}

// PredicateState returns the watch state of some fields of a type that predicates read, and the number of its objects in their store.
func (c *Controller) PredicateState(resource schema.GroupVersionResource, fields *projection.FieldSet) (watches.State, int) {
	return c.predicates.state(resource, fields)
}

// Settled reports whether, for every type that the policies in the registry or their predicates read, all objects are replicated, or the
// type is known to be unavailable. Without policies it returns true.
func (c *Controller) Settled() bool {
	return !slices.ContainsFunc(c.feeds(), func(f *feed) bool { return !f.settled(f.wanted(c.registry)) })
}

// SettledFor reports whether, for every type that one version of a policy or its predicates read, all objects are replicated with the
// fields of b, or the type is known to be unavailable. If the registry had the binding, or one that covers it, before the call, the data
// also remains for as long as the registry has that.
func (c *Controller) SettledFor(b *policy.Binding) bool {
	return !slices.ContainsFunc(c.feeds(), func(f *feed) bool { return !f.settled(f.reads(b)) })
}

// Replicas returns the size of the replica of each resource type, and when its data was last confirmed, for metrics. It adds up all
// versions of a type, and what is kept for policies and for predicates; the oldest confirmation counts. It leaves out types of which not
// all objects are known yet.
func (c *Controller) Replicas() []metrics.Replica {
	types := map[schema.GroupResource]metrics.Replica{}
	for _, f := range c.feeds() {
		for resource := range f.watches.States() {
			objects, bytes, ok := f.store.Size(resource)
			if !ok {
				continue
			}
			r := metrics.Replica{Resource: resource.GroupResource(), Objects: objects, Bytes: bytes, Confirmed: f.watches.LastConfirmed(resource)}
			if other, ok := types[r.Resource]; ok {
				r.Objects += other.Objects
				r.Bytes += other.Bytes
				if other.Confirmed.Before(r.Confirmed) {
					r.Confirmed = other.Confirmed
				}
			}
			types[r.Resource] = r
		}
	}
	return slices.Collect(maps.Values(types))
}
