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

package remediator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/watches"
)

const (
	// readyInterval is the interval at which a new leader checks whether it is ready.
	readyInterval = 200 * time.Millisecond
	// settleInterval is the interval at which a leader checks whether all objects of policies that an earlier leader paused
	// are decided.
	settleInterval = time.Second
	// settle is how long changes of policies and data are collected after a sweep.
	settle = 20 * time.Millisecond
	// sweepers is how many policies are swept concurrently after a change of data, so that a slow policy does not delay
	// all others.
	sweepers = 4
)

// start is a source of the controller. It watches the types that policies match, and follows changes of policies and
// data.
//
// No object may be decided before all policies and data are loaded. So start begins no watch before that: policies that
// are loaded later would need other fields, and the types would be listed again.
func (c *Controller) start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[remediation.Key]) error {
	c.mu.Lock()
	c.queue = queue
	c.mu.Unlock()
	c.remoteQueue.taskQueues.start(ctx)
	go func() {
		for !c.Ready(ctx) {
			if !sleep(ctx, readyInterval) {
				return
			}
		}
		if !c.resume(ctx) {
			return
		}
		go c.follow(ctx)
		c.watch(ctx)
	}()
	return nil
}

// sleep waits for d. It returns false if ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	over, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-over.Done()
	return ctx.Err() == nil
}

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// watch updates the watches until ctx ends.
func (c *Controller) watch(ctx context.Context) {
	for {
		c.watches.Set(ctx, c.wanted())
		// Policies are often created together, and each may need more fields than the one before.
		if !sleep(ctx, settle) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-c.rewatch:
		}
	}
}

// wanted returns the types that policies with remediation match, with the fields that decisions on them need.
func (c *Controller) wanted() map[schema.GroupVersionResource]*projection.FieldSet {
	out := map[schema.GroupVersionResource]*projection.FieldSet{}
	for _, p := range c.Registry.InForce() {
		for _, r := range c.matched.ofPolicy(p) {
			if _, known := out[r]; !known {
				out[r] = c.neededFields.forType(r)
			}
		}
	}
	return out
}

// MatchedState returns the combined state of the watches on the types that a policy matches: the first error, and
// whether all watches are synced with the fields that the policy reads.
func (c *Controller) MatchedState(p *placement.Policy) watches.State {
	reads := p.Evaluator.Input()
	if reads.IsAll() || p.Matcher.Conditional() {
		reads = nil
	}
	out := watches.State{Synced: true}
	for _, r := range c.matched.ofPolicy(p) {
		state, _ := c.watches.StateOfFields(r, reads)
		out.Synced = out.Synced && state.Synced
		if state.Err != nil && out.Err == nil {
			out.Err = fmt.Errorf("reading %s: %w", r.GroupResource(), state.Err)
		}
	}
	return out
}

// HasUndecided reports whether existing objects of the types that a policy matches wait for their decision.
func (c *Controller) HasUndecided(p *placement.Policy) bool {
	return c.objects.deciding(c.matched.ofPolicy(p))
}

// matchedTypes caches the served types whose objects a policy remediates. It is safe for concurrent use.
type matchedTypes struct {
	catalog Catalog

	mu       sync.Mutex
	byPolicy map[*placement.Policy][]schema.GroupVersionResource
}

func newMatchedTypes(catalog Catalog) *matchedTypes {
	return &matchedTypes{catalog: catalog, byPolicy: map[*placement.Policy][]schema.GroupVersionResource{}}
}

func (m *matchedTypes) ofPolicy(p *placement.Policy) []schema.GroupVersionResource {
	if !p.RemediatesExisting() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out, known := m.byPolicy[p]
	if !known {
		out = resourcesOf(m.catalog.Select(p.Matcher.SelectsResource))
		m.byPolicy[p] = out
	}
	return out
}

func resourcesOf(resources []policy.Resource) []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for _, r := range resources {
		out = append(out, r.GroupVersionResource)
	}
	return out
}

// forget removes a policy from the cache. nil removes all policies.
func (m *matchedTypes) forget(p *placement.Policy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p == nil {
		clear(m.byPolicy)
	}
	delete(m.byPolicy, p)
}

// enqueue adds objects to the workqueue to be decided.
func (c *Controller) enqueue(keys ...remediation.Key) {
	c.mu.Lock()
	queue := c.queue
	c.mu.Unlock()
	if queue == nil {
		// The controller is not started because this replica is not the leader. When it starts, the watches enqueue
		// every object.
		return
	}
	for _, key := range c.objects.queue(keys) {
		queue.Add(key)
	}
}

// enqueueAfter adds an object to the workqueue after a delay.
func (c *Controller) enqueueAfter(key remediation.Key, d time.Duration) {
	c.mu.Lock()
	queue := c.queue
	c.mu.Unlock()
	if queue != nil {
		queue.AddAfter(key, d)
	}
}

// Rewatch requests that the watched types are computed again because the API server serves other types than before.
func (c *Controller) Rewatch() {
	c.matched.forget(nil)
	notify(c.rewatch)
}

// policyChanged requests that the objects are decided again that the policy matched before or matches now.
func (c *Controller) policyChanged(name string, before, after *placement.Policy) {
	if after == before {
		return
	}
	if after == nil {
		c.Ledger.ForgetPolicy(name)
	}
	c.matched.forget(before)
	c.enqueue(c.gate.ForgetPolicy(name)...)
	c.mu.Lock()
	for _, p := range []*placement.Policy{before, after} {
		if c.queue != nil && p != nil {
			c.backlog.policies[p] = true
		}
	}
	c.mu.Unlock()
	notify(c.rewatch)
	notify(c.due)
}

// NamespaceChanged enqueues the objects of a namespace because policies' selectors may match it now, or no longer.
func (c *Controller) NamespaceChanged(namespace string) {
	keys := c.objects.within(namespace)
	if len(keys) > 1 {
		assessment := c.Ledger.Assess(c.Clock.Now(), c.automatic(c.Registry.InForce())...)
		assessment.Add(keys...)
		defer c.complete(context.Background(), assessment)
	}
	c.enqueue(keys...)
}

// follow processes changes of policies and data until ctx ends.
func (c *Controller) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.due:
		}
		c.catchUp(ctx)
		if !sleep(ctx, settle) {
			return
		}
	}
}

// catchUp enqueues the objects whose policies or data changed since the last call.
func (c *Controller) catchUp(ctx context.Context) {
	changes := c.take()
	c.policiesChanged(ctx, slices.Collect(maps.Keys(changes.policies)))
	c.sweep(ctx, &changes)
}

// policiesChanged enqueues the objects that the policies match or may have matched.
func (c *Controller) policiesChanged(ctx context.Context, policies []*placement.Policy) {
	if len(policies) == 0 {
		return
	}
	selects := func(r schema.GroupVersionResource) bool {
		return slices.ContainsFunc(policies, func(p *placement.Policy) bool { return p.Matcher.SelectsResource(r) })
	}
	// An object that did not settle under the earlier policy may settle under the new one.
	c.limiter.ForgetAll(func(key remediation.Key) bool { return selects(key.Resource) })
	assessment := c.Ledger.Assess(c.Clock.Now(), c.automatic(policies)...)
	defer c.complete(ctx, assessment)
	for resource, byNamespace := range c.objects.idle(selects) {
		for namespace, objects := range byNamespace {
			matchers := c.selecting(ctx, policies, resource, namespace)
			var keys []remediation.Key
			for _, o := range objects {
				l := o.GetLabels()
				if slices.ContainsFunc(matchers, func(m *match.Matcher) bool { return m.SelectsLabels(l) }) {
					keys = append(keys, keyOf(resource, o))
				}
			}
			assessment.Add(keys...)
			c.enqueue(keys...)
		}
	}
}

// selecting returns the matchers of those policies that select a type in a namespace.
func (c *Controller) selecting(ctx context.Context, policies []*placement.Policy, resource schema.GroupVersionResource, namespace string) []*match.Matcher {
	var labels map[string]string
	var err error
	if namespace != "" {
		labels, err = c.Decider.Namespaces.Labels(ctx, namespace)
	}
	var out []*match.Matcher
	for _, p := range policies {
		// If the namespace's labels are unknown, the decision finds out whether the policy matches.
		if p.Matcher.SelectsResource(resource) && (err != nil || p.Matcher.SelectsNamespace(namespace, labels)) {
			out = append(out, p.Matcher)
		}
	}
	return out
}

// sweep decides again each group of every policy whose data changed.
func (c *Controller) sweep(ctx context.Context, changes *backlog) {
	if c.neededFields.widened() {
		notify(c.rewatch)
	}
	var group errgroup.Group
	group.SetLimit(sweepers)
	for _, p := range c.Registry.InForce() {
		if !c.groups.Stale(p) || !changes.concerns(p, c.Registry.Get(p.Name)) {
			continue
		}
		group.Go(func() error {
			c.sweepPolicy(ctx, p)
			return nil
		})
	}
	_ = group.Wait()
}

// feedsItself reports whether what a policy writes is also data that it reads, directly or through one other policy.
// The hold-down must not delay patches because of the policy's own patches. The patch limiter stops an object that does not
// settle, and reports it.
func (c *Controller) feedsItself(name string) bool {
	p := c.Registry.Get(name)
	if p == nil || p.Policy == nil || p.Binding == nil || len(p.Binding.Resources) == 0 {
		return false
	}
	reads := func(of, by *placement.PolicyState) bool {
		return of.Binding != nil && slices.ContainsFunc(of.Binding.Resources, func(r policy.Resource) bool { return by.Policy.Matcher.SelectsResource(r.GroupVersionResource) })
	}
	for _, other := range c.Registry.All() {
		if reads(p, other) && reads(other, p) {
			return true
		}
	}
	return false
}

func (c *Controller) sweepPolicy(ctx context.Context, p *placement.Policy) {
	ctx, span := c.Tracing.Root(ctx, "remediation sweep")
	defer span.End()
	assessment := c.Ledger.Assess(c.Clock.Now(), c.automatic([]*placement.Policy{p})...)
	defer c.complete(ctx, assessment)
	c.gate.DataChanged(p.Name)
	c.groups.Sweep(p, func(namespace string, input map[string]any) (placement.Decision, error) {
		return c.evaluate(placement.WithNamespace(ctx, namespace), p, input)
	},
		func(keys []remediation.Key) {
			assessment.Add(keys...)
			c.enqueue(keys...)
		})
}
