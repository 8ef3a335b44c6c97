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
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/watches"
)

// watch updates the watches until ctx ends.
func (c *Controller) watch(ctx context.Context) {
	c.rewatch.Notify()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-c.rewatch:
			c.watches.Set(ctx, c.wanted())
			c.rollouts.Set(ctx, c.wantedRollouts())
		}
	}, settle)
}

// wanted returns the types that policies with remediation match, with the fields that decisions on them need.
func (c *Controller) wanted() map[schema.GroupVersionResource]*projection.FieldSet {
	out := map[schema.GroupVersionResource]*projection.FieldSet{}
	for _, p := range c.Registry.InForce() {
		for _, r := range c.types.matched(p) {
			if _, known := out[r]; !known {
				out[r] = c.types.fields(r)
			}
		}
	}
	return out
}

// wantedRollouts returns the types whose rollouts policies watch, with the fields that show them.
func (c *Controller) wantedRollouts() map[schema.GroupVersionResource]*projection.FieldSet {
	out := map[schema.GroupVersionResource]*projection.FieldSet{}
	for _, p := range c.Registry.InForce() {
		for _, resource := range c.types.matched(p) {
			if c.rolls(p, resource) {
				out[resource] = rolloutFields
			}
		}
	}
	return out
}

// watchChanged reports the policies that match a type because the state of its watch changed.
func (c *Controller) watchChanged(resource schema.GroupVersionResource) {
	for _, p := range c.selecting(resource) {
		c.Changed(p.Name)
	}
}

// Rewatch requests that the watched types are computed again because the API server serves other types than before.
func (c *Controller) Rewatch() {
	c.types.servedChanged()
	c.Scheduler.Unsettle()
	c.rewatch.Notify()
}

// MatchedState returns the combined state of the watches on the types that versions of a policy match: the first error, and whether all
// watches are synced with the fields that the version reads.
func (c *Controller) MatchedState(versions ...*placement.Policy) watches.State {
	out := watches.State{Synced: true}
	for _, p := range versions {
		reads := fieldsOf(p)
		for _, r := range c.types.matched(p) {
			state, _ := c.watches.StateOfFields(r, reads)
			out.Synced = out.Synced && state.Synced
			if state.Err != nil && out.Err == nil {
				out.Err = fmt.Errorf("reading %s: %w", r.GroupResource(), state.Err)
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

// lastApplied is kubectl's copy of an object. It doubles the size of an object, and policies hardly ever read it.
const lastApplied = corev1.LastAppliedConfigAnnotation

var (
	rolloutFields  = remediation.RolloutFields()
	evictionFields = remediation.EvictionFields()
	// always is the field set that every decision needs, besides the fields that identify an object. Selectors read labels. A decision is
	// compared with labels and annotations. One annotation is the record of the developer's requested values, whose signature may cover
	// generateName.
	always = projection.Fields("metadata.generateName", "metadata.labels.**", "metadata.annotations.**")
	// copied is kubectl's copy, as a field set of a policy.
	copied = func() *projection.FieldSet {
		f := &projection.FieldSet{}
		f.AddName("metadata").AddName("annotations").AddName(lastApplied)
		return f.Seal()
	}()
	// withCopy marks a field set that needs kubectl's copy, by a name that no object has: always covers all annotations.
	withCopy = func() *projection.FieldSet {
		f := &projection.FieldSet{}
		f.AddName("\x00" + lastApplied)
		return f.Seal()
	}()
)

// typeCache caches which types policies match, and the fields of each type that decisions need. It is safe for concurrent use.
type typeCache struct {
	registry *placement.Registry
	decider  *placement.Decider
	catalog  Catalog

	mu sync.Mutex
	// scheduled holds the types with objects whose record contains scheduling fields that policies overwrote. Those fields are needed even
	// when no policy sets scheduling fields any more.
	scheduled map[schema.GroupVersionResource]bool
	needed    map[schema.GroupVersionResource]*projection.FieldSet
	byPolicy  map[*placement.Policy][]schema.GroupVersionResource
}

func newTypeCache(d Deps) *typeCache {
	return &typeCache{
		registry: d.Registry, decider: d.Decider, catalog: d.Catalog, scheduled: map[schema.GroupVersionResource]bool{},
		needed: map[schema.GroupVersionResource]*projection.FieldSet{}, byPolicy: map[*placement.Policy][]schema.GroupVersionResource{},
	}
}

// matched returns the served types whose objects a policy remediates.
func (t *typeCache) matched(p *placement.Policy) []schema.GroupVersionResource {
	if !p.RemediatesExisting() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	out, known := t.byPolicy[p]
	if !known {
		for _, r := range t.catalog.Select(p.Matcher.SelectsResource) {
			out = append(out, r.GroupVersionResource)
		}
		t.byPolicy[p] = out
	}
	return out
}

// fields returns the sealed field set that the policies in force need of a type.
func (t *typeCache) fields(resource schema.GroupVersionResource) *projection.FieldSet {
	t.mu.Lock()
	defer t.mu.Unlock()
	out, known := t.needed[resource]
	if !known {
		out = t.compute(resource)
		t.needed[resource] = out
	}
	return out
}

// fieldsChanged drops the field sets because policies read other fields. The versions before are no longer in force.
func (t *typeCache) fieldsChanged(before ...*placement.Policy) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.needed)
	for _, p := range before {
		delete(t.byPolicy, p)
	}
}

// servedChanged drops the matched types.
func (t *typeCache) servedChanged() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.byPolicy)
}

// schedule records that an object of a type has a record of scheduling fields that policies overwrote. It reports whether that was not
// known before.
func (t *typeCache) schedule(resource schema.GroupVersionResource) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.scheduled[resource] {
		return false
	}
	t.scheduled[resource] = true
	delete(t.needed, resource)
	return true
}

// compute returns the field set of a type. The caller holds mu.
func (t *typeCache) compute(resource schema.GroupVersionResource) *projection.FieldSet {
	sets, known := []*projection.FieldSet{always}, map[*projection.FieldSet]bool{}
	schedules := t.scheduled[resource]
	for _, p := range t.registry.InForce() {
		if !p.Matcher.SelectsResource(resource) {
			continue
		}
		reads := fieldsOf(p)
		if reads.IsAll() {
			return projection.AllFields()
		}
		schedules = schedules || p.Schedules
		if remediation.EvictsFrom(p, resource.GroupResource()) {
			sets = append(sets, evictionFields)
		}
		if known[reads] {
			continue
		}
		known[reads] = true
		sets = append(sets, reads)
		if reads.Covers(copied) {
			sets = append(sets, withCopy)
		}
	}
	sets = append(sets, placement.FollowFields(resource.GroupResource()))
	if path, ok := t.decider.Templates.Path(resource.GroupResource()); ok && schedules {
		sets = append(sets, placement.SchedulingFields(path))
	}
	if kind := t.decider.ClusterLists.Of(resource.GroupResource()); kind != nil {
		sets = append(sets, kind.Fields())
	}
	return projection.Union(sets...)
}

var _ watches.Sink = rollouts{}

// rollouts passes the progress of rollouts to the scheduler. It keeps no objects: the scheduler remembers those that are not ready.
type rollouts struct{ *Controller }

// Replace implements watches.Sink.
func (r rollouts) Replace(resource schema.GroupVersionResource, _ *projection.FieldSet, objects []*unstructured.Unstructured) {
	all := make(map[remediation.Key]remediation.Rollout, len(objects))
	for _, o := range objects {
		if key := keyOf(resource, o); !r.carrierOf(key).Reports {
			all[key] = remediation.RolloutOf(o)
		}
	}
	r.Scheduler.ObserveAll(r.Clock.Now(), resource, all)
}

// Put implements watches.Sink.
func (r rollouts) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	if key := keyOf(resource, o); !r.carrierOf(key).Reports {
		r.Scheduler.Observe(r.Clock.Now(), key, remediation.RolloutOf(o))
	}
}

// Delete implements watches.Sink.
func (r rollouts) Delete(resource schema.GroupVersionResource, namespace, name string) {
	r.Scheduler.Unobserve(remediation.Key{Resource: resource, Namespace: namespace, Name: name})
}

// Drop implements watches.Sink.
func (r rollouts) Drop(resource schema.GroupVersionResource) {
	r.Scheduler.Unwatch(resource)
}

// carrierOf returns what is known of the systems that carry an object to clusters. If they report where it runs, its own status does not
// count: it may lack what kstatus reads, or show what controllers beside its clusters make of the object.
func (c *Controller) carrierOf(key remediation.Key) remediation.Carrier {
	result := c.Deliveries.Result(key.Resource, key.Namespace, key.Name)
	return remediation.Carrier{Reports: result.Reports, Surges: result.Surges}
}

// ObjectDelivered passes what multi-cluster systems report of an object to the scheduler.
func (c *Controller) ObjectDelivered(d delivery.Reconciled) {
	key := keyOf(d.Resource, d.Object)
	switch {
	case !d.Reports:
		c.Scheduler.EndReports(key)
		return
	case d.Run.State == delivery.RunUnknown:
		return
	}
	r := remediation.Rollout{
		UID: d.Object.GetUID(), Generation: d.Object.GetGeneration(), Version: d.Object.GetResourceVersion(),
		Ready: d.Arrived(), Serves: d.Kept != "", Missing: d.Run.Message,
	}
	c.Scheduler.Observe(c.Clock.Now(), key, r)
}

