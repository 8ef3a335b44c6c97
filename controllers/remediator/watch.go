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
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/watches"
)

// readyInterval is the interval at which a new leader checks whether it is ready. Readiness has many parts, among them
// caches and files, and no signal for their sum: probes and webhooks also compute it when they need it.
const readyInterval = 200 * time.Millisecond

// start is a source of the controller. It watches the types that policies match, and follows changes of policies and
// data.
//
// No object may be decided before all policies and data are loaded. So start begins no watch before that: policies that
// are loaded later would need other fields, and the types would be listed again.
func (c *Controller) start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[remediation.Key]) error {
	c.Scheduler.Begin(c.Clock.Now())
	c.objects.start(queue)
	c.remoteQueue.start(ctx)
	go func() {
		// The poll returns an error only if ctx ends.
		if wait.PollUntilContextCancel(ctx, readyInterval, true, func(ctx context.Context) (bool, error) { return c.Ready(ctx), nil }) != nil {
			return
		}
		if !c.resume(ctx) {
			return
		}
		go c.follow(ctx)
		go c.schedule(ctx)
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

// watch updates the watches until ctx ends.
func (c *Controller) watch(ctx context.Context) {
	for {
		c.watches.Set(ctx, c.wanted())
		c.rollouts.Set(ctx, c.wantedRollouts())
		c.progress.Notify()
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

// fieldsOf returns the fields of the matched objects that a policy reads. Match conditions may read any.
func fieldsOf(p *placement.Policy) *projection.FieldSet {
	if p.Matcher.Conditional() {
		return projection.AllFields()
	}
	return p.Evaluator.Input()
}

// MatchedState returns the combined state of the watches on the types that versions of a policy match: the first error, and
// whether all watches are synced with the fields that the version reads.
func (c *Controller) MatchedState(versions ...*placement.Policy) watches.State {
	out := watches.State{Synced: true}
	for _, p := range versions {
		reads := fieldsOf(p)
		for _, r := range c.matched.ofPolicy(p) {
			state, _ := c.watches.StateOfFields(r, reads)
			out.Synced = out.Synced && state.Synced
			if state.Err != nil && out.Err == nil {
				out.Err = fmt.Errorf("reading %s: %w", r.GroupResource(), state.Err)
			}
		}
	}
	return out
}

// HasUndecided reports whether existing objects of the types that versions of a policy match wait for their decision.
func (c *Controller) HasUndecided(versions ...*placement.Policy) bool {
	return slices.ContainsFunc(versions, func(p *placement.Policy) bool { return c.objects.deciding(c.matched.ofPolicy(p)) })
}

// Assessed reports whether all existing objects that versions of a policy match have been decided since the versions came into
// force.
func (c *Controller) Assessed(versions ...*placement.Policy) bool {
	return !slices.ContainsFunc(versions, c.backlog.unassessed) && !c.HasUndecided(versions...) && c.Ledger.Assessed(versions[0].Name)
}

// matchedTypes caches the served types whose objects a policy remediates. It is safe for concurrent use.
type matchedTypes struct {
	catalog Catalog

	mu       sync.Mutex
	byPolicy map[*placement.Policy][]schema.GroupVersionResource
}

func (m *matchedTypes) ofPolicy(p *placement.Policy) []schema.GroupVersionResource {
	if !p.RemediatesExisting() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out, known := m.byPolicy[p]
	if !known {
		for _, r := range m.catalog.Select(p.Matcher.SelectsResource) {
			out = append(out, r.GroupVersionResource)
		}
		if m.byPolicy == nil {
			m.byPolicy = map[*placement.Policy][]schema.GroupVersionResource{}
		}
		m.byPolicy[p] = out
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

// watchChanged reports the policies that match a type because the state of its watch changed.
func (c *Controller) watchChanged(resource schema.GroupVersionResource) {
	for _, p := range c.Registry.InForce() {
		if p.Matcher.SelectsResource(resource) {
			c.Changed(p.Name)
		}
	}
	c.progress.Notify()
}

// Rewatch requests that the watched types are computed again because the API server serves other types than before.
func (c *Controller) Rewatch() {
	c.matched.forget(nil)
	c.Scheduler.Unsettle()
	c.rewatch.Notify()
}
