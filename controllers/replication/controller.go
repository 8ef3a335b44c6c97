// Package replication keeps the cluster data that policies read in the engine, and what predicates look at beside it: it
// starts and stops watches as policies come and go. It runs on every replica.
package replication

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/watches"
)

// Controller replicates. Create it with New, add it to a manager as a Runnable.
type Controller struct {
	registry *placement.Registry
	// data is what policies see under data, and world what predicates look at. They may keep the same types, each other
	// fields of them in a form of its own.
	data, world *feed
	// wake says that the set of policies changed.
	wake chan struct{}
	// stale are the policies whose data is too old; nil before anything was looked at.
	stale atomic.Pointer[map[string]*engine.StaleError]
}

// New returns a controller that feeds data with what the policies in registry read, objects of inventories with their
// normal form, and world, while one of them asks predicates, with what those look at.
func New(client dynamic.Interface, registry *placement.Registry, data engine.Data, world *predicates.World, inventories *replication.Inventories) *Controller {
	c := &Controller{registry: registry, wake: make(chan struct{}, 1)}
	c.data = newFeed(client, data, func(b *policy.Binding) map[schema.GroupVersionResource]*projection.Fields { return b.Fields })
	c.data.watches.Prepare = inventories.Prepare
	c.world = newFeed(client, worldData{world}, func(b *policy.Binding) map[schema.GroupVersionResource]*projection.Fields { return b.World })
	registry.Subscribe(func(string, *placement.Policy, *placement.Policy) {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	})
	return c
}

// Follow starts a new list of every type when the API server's store has gone back to an earlier state. Call it before Start.
func (c *Controller) Follow(h *watches.History) {
	for _, f := range c.feeds() {
		f.watches.History = h
	}
}

// Subscribe has f called whenever the objects of a type that policies read, or how its replication fares, changed. f must
// be quick. Subscribe before Start.
func (c *Controller) Subscribe(f func(schema.GroupVersionResource)) {
	c.data.subscribe(f, f)
}

// SubscribeWorld has content called whenever something changed that predicates look at, and state whenever how the
// replication of such a type fares did. They must be quick. Subscribe before Start.
func (c *Controller) SubscribeWorld(content, state func(schema.GroupVersionResource)) {
	c.world.subscribe(content, state)
}

// NeedLeaderElection says that every replica replicates: the engine is process memory.
func (*Controller) NeedLeaderElection() bool { return false }

// Start follows the policies until ctx ends.
func (c *Controller) Start(ctx context.Context) error {
	go c.followAge(ctx)
	for {
		for _, f := range c.feeds() {
			f.watches.Set(ctx, f.wanted(c.registry))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
	}
}

func (c *Controller) feeds() []*feed { return []*feed{c.data, c.world} }

// State returns how the replication of some fields of a type fares that policies read, and how many objects it has.
func (c *Controller) State(resource schema.GroupVersionResource, fields *projection.Fields) (watches.State, int) {
	return c.data.state(resource, fields)
}

// WorldState returns the same of a type that predicates look at.
func (c *Controller) WorldState(resource schema.GroupVersionResource, fields *projection.Fields) (watches.State, int) {
	return c.world.state(resource, fields)
}

// Settled says whether what policies and their predicates read of every type is complete, or known not to be to be had.
func (c *Controller) Settled() bool {
	return !slices.ContainsFunc(c.feeds(), func(f *feed) bool { return !f.settled(f.wanted(c.registry)) })
}

// SettledFor says the same of what one policy reads.
func (c *Controller) SettledFor(b *policy.Binding) bool {
	return !slices.ContainsFunc(c.feeds(), func(f *feed) bool { return !f.settled(f.reads(b)) })
}

// Replicas returns what is held of each resource type, of all its versions, and for policies and predicates, together.
func (c *Controller) Replicas() []metrics.Replica {
	types := map[schema.GroupResource]metrics.Replica{}
	for _, f := range c.feeds() {
		for resource := range f.watches.States() {
			objects, bytes, ok := f.store.Size(resource)
			if !ok {
				continue
			}
			r := metrics.Replica{Resource: resource.GroupResource(), Objects: objects, Bytes: bytes, Confirmed: f.watches.Confirmed(resource)}
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
