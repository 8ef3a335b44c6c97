// Package replication keeps the cluster data that policies read in the engine: it starts and stops watches as policies
// come and go. It runs on every replica.
package replication

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/watches"
)

// Controller replicates. Create it with New, add it to a manager as a Runnable.
type Controller struct {
	registry *placement.Registry
	data     engine.Data
	watches  *watches.Manager
	// wake says that the set of policies changed.
	wake chan struct{}

	mu          sync.Mutex
	subscribers []func(schema.GroupVersionResource)
}

// New returns a controller that feeds data with what the policies in registry read.
func New(client dynamic.Interface, registry *placement.Registry, data engine.Data) *Controller {
	c := &Controller{registry: registry, data: data, wake: make(chan struct{}, 1)}
	c.watches = watches.NewManager(client, &sink{data: data, changed: c.notify}, c.notify)
	c.watches.Prepare = replication.Prepare
	registry.Subscribe(func(string, *placement.Policy, *placement.Policy) {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	})
	return c
}

// Subscribe has f called whenever the objects of a replicated type, or how its replication fares, changed. f must be
// quick. Subscribe before Start.
func (c *Controller) Subscribe(f func(schema.GroupVersionResource)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers = append(c.subscribers, f)
}

func (c *Controller) notify(resource schema.GroupVersionResource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.subscribers {
		f(resource)
	}
}

// NeedLeaderElection says that every replica replicates: the engine is process memory.
func (*Controller) NeedLeaderElection() bool { return false }

// Start follows the policies until ctx ends.
func (c *Controller) Start(ctx context.Context) error {
	for {
		c.watches.Set(ctx, c.wanted())
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
	}
}

// wanted is what the policies in force read.
func (c *Controller) wanted() map[schema.GroupVersionResource]*projection.Fields {
	sets := map[schema.GroupVersionResource][]*projection.Fields{}
	for _, standing := range c.registry.All() {
		for _, binding := range []*policy.Binding{standing.Binding, standing.Next} {
			if binding == nil {
				continue
			}
			for resource, fields := range binding.Fields {
				// Many policies read the same.
				if !slices.ContainsFunc(sets[resource], func(f *projection.Fields) bool { return f.Covers(fields) }) {
					sets[resource] = append(sets[resource], fields)
				}
			}
		}
	}
	out := make(map[schema.GroupVersionResource]*projection.Fields, len(sets))
	for resource, all := range sets {
		out[resource] = projection.Union(all...)
	}
	return out
}

// State returns how the replication of some fields of a type fares.
func (c *Controller) State(resource schema.GroupVersionResource, fields *projection.Fields) watches.State {
	state, _ := c.watches.StateOf(resource, fields)
	return state
}

// Settled says whether what policies read of every type is complete, or known not to be to be had.
func (c *Controller) Settled() bool { return c.settled(c.wanted()) }

// SettledFor says the same of what one policy reads.
func (c *Controller) SettledFor(b *policy.Binding) bool { return c.settled(b.Fields) }

func (c *Controller) settled(wanted map[schema.GroupVersionResource]*projection.Fields) bool {
	for resource, fields := range wanted {
		if !c.State(resource, fields).Settled() {
			return false
		}
	}
	return true
}

// Replicas returns what is held of each resource type, of all its versions together.
func (c *Controller) Replicas() []metrics.Replica {
	types := map[schema.GroupResource]metrics.Replica{}
	for resource := range c.watches.States() {
		objects, bytes, ok := c.data.Size(resource)
		if !ok {
			continue
		}
		r := metrics.Replica{Resource: resource.GroupResource(), Objects: objects, Bytes: bytes, Confirmed: c.watches.Confirmed(resource)}
		if other, ok := types[r.Resource]; ok {
			r.Objects += other.Objects
			r.Bytes += other.Bytes
			if other.Confirmed.Before(r.Confirmed) {
				r.Confirmed = other.Confirmed
			}
		}
		types[r.Resource] = r
	}
	return slices.Collect(maps.Values(types))
}

// sink puts what is watched into the engine.
type sink struct {
	data    engine.Data
	changed func(schema.GroupVersionResource)
}

var _ watches.Sink = (*sink)(nil)

// Replace implements watches.Sink.
func (s *sink) Replace(resource schema.GroupVersionResource, fields *projection.Fields, objects []*unstructured.Unstructured) {
	s.tell(resource, s.data.Load(resource, fields, objects))
}

// Put implements watches.Sink.
func (s *sink) Put(resource schema.GroupVersionResource, object *unstructured.Unstructured) {
	s.tell(resource, s.data.Put(resource, object))
}

// Delete implements watches.Sink.
func (s *sink) Delete(resource schema.GroupVersionResource, namespace, name string) {
	s.tell(resource, s.data.Delete(resource, namespace, name))
}

// Drop implements watches.Sink.
func (s *sink) Drop(resource schema.GroupVersionResource) {
	s.tell(resource, s.data.Drop(resource))
}

func (s *sink) tell(resource schema.GroupVersionResource, changed bool) {
	if changed {
		s.changed(resource)
	}
}
