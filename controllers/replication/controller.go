// Package replication keeps the cluster data that policies read in the engine: it starts and stops watches as policies
// come and go. It runs on every replica.
package replication

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/watches"
)

// Controller replicates. Create it with New, add it to a manager as a Runnable.
type Controller struct {
	registry *placement.Registry
	sink     *sink
	watches  *watches.Manager
	// wake says that the set of policies changed.
	wake chan struct{}

	mu          sync.Mutex
	subscribers []func(schema.GroupVersionResource)
}

// New returns a controller that feeds data with what the policies in registry read.
func New(client dynamic.Interface, registry *placement.Registry, data engine.Data, m *metrics.Metrics) *Controller {
	c := &Controller{registry: registry, wake: make(chan struct{}, 1)}
	c.sink = &sink{data: data, metrics: m, changed: c.notify}
	c.watches = watches.NewManager(client, c.sink, c.notify)
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
	out := map[schema.GroupVersionResource]*projection.Fields{}
	for _, standing := range c.registry.All() {
		if standing.Binding == nil {
			continue
		}
		for _, r := range standing.Binding.Resources {
			out[r.GroupVersionResource] = nil
		}
	}
	return out
}

// State returns how the replication of a type fares.
func (c *Controller) State(resource schema.GroupVersionResource) watches.State {
	state, _ := c.watches.State(resource)
	return state
}

// Settled says whether every type that some policy reads is complete, or known not to be to be had.
func (c *Controller) Settled() bool {
	states := c.watches.States()
	for resource := range c.wanted() {
		if !states[resource].Settled() {
			return false
		}
	}
	return true
}

// sink puts what is watched into the engine, without what never becomes policy data.
type sink struct {
	data    engine.Data
	metrics *metrics.Metrics
	changed func(schema.GroupVersionResource)
}

var _ watches.Sink = (*sink)(nil)

// Replace implements watches.Sink.
func (s *sink) Replace(resource schema.GroupVersionResource, _ *projection.Fields, objects []*unstructured.Unstructured) {
	for _, o := range objects {
		replication.Strip(resource.GroupResource(), o)
	}
	s.tell(resource, s.data.Replace(resource, objects))
}

// Put implements watches.Sink.
func (s *sink) Put(resource schema.GroupVersionResource, object *unstructured.Unstructured) {
	replication.Strip(resource.GroupResource(), object)
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
	if !changed {
		return
	}
	if n, ok := s.data.Objects(resource); ok {
		s.metrics.Replicated(resource.GroupResource(), n)
	} else {
		s.metrics.ForgetResource(resource.GroupResource())
	}
	s.changed(resource)
}
