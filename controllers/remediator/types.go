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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/watches"
)

// keyOf returns the key of an object of a type.
func keyOf(resource schema.GroupVersionResource, o *unstructured.Unstructured) remediation.Key {
	return remediation.Key{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// trim removes what no decision needs and field sets can't exclude from an object that has the given fields: managed fields, and, unless a
// policy reads it, kubectl's copy of the object.
func trim(fields *projection.FieldSet, o *unstructured.Unstructured) {
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	if !fields.Covers(withCopy) {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations", lastApplied)
	}
}

// watch updates which types and fields are watched until ctx ends.
func (c *Controller) watch(ctx context.Context) {
	c.rewatch.Notify()
	onSignal(ctx, c.rewatch, func(ctx context.Context) {
		objects, rollouts := c.wanted()
		c.watches.Set(ctx, objects)
		c.rollouts.Set(ctx, rollouts)
	})
}

// wanted returns the types that policies in force match, if they evaluate existing objects, with the fields that decisions on them need. It
// also returns those of these types whose rollouts must be known for a policy (see Controller.rolls), with the fields that show them.
func (c *Controller) wanted() (objects, rollouts map[schema.GroupVersionResource]*projection.FieldSet) {
	objects, rollouts = map[schema.GroupVersionResource]*projection.FieldSet{}, map[schema.GroupVersionResource]*projection.FieldSet{}
	for _, p := range c.Registry.InForce() {
		for _, r := range c.types.matched(p) {
			objects[r] = c.types.fields(r)
			if c.rolls(p, r) {
				rollouts[r] = rolloutFields
			}
		}
	}
	return objects, rollouts
}

// Rewatch requests that the watched types are computed again because the API server serves other types than before.
func (c *Controller) Rewatch() {
	c.types.servedChanged()
	c.Scheduler.Unsettle()
	c.rewatch.Notify()
}

// MatchedState returns the combined state of the watches on the types that versions of a policy match: the first error, and whether all
// watches are synced with the fields that these versions read.
func (c *Controller) MatchedState(versions ...*placement.Policy) watches.State {
	out := watches.State{Synced: true}
	for _, p := range versions {
		for _, r := range c.types.matched(p) {
			state, _ := c.watches.StateOfFields(r, p.FieldsRead())
			out.Synced = out.Synced && state.Synced
			if state.Err != nil && out.Err == nil {
				out.Err = fmt.Errorf("reading %s: %w", r.GroupResource(), state.Err)
			}
		}
	}
	return out
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
	// copied is kubectl's copy, as a field set of a policy. withCopy marks a field set that needs it, by a name that no object has: always
	// covers all annotations.
	copied   = projection.Nest("metadata", projection.Nest("annotations", projection.Nest(lastApplied, projection.Union())))
	withCopy = projection.Nest("\x00"+lastApplied, projection.Union())
)

// typeCache caches which types policies match, and the fields of each type that decisions need. It is safe for concurrent use.
type typeCache struct {
	Deps

	mu sync.Mutex
	// scheduled holds the types of which some object has a record of scheduling fields that policies overwrote. Those fields are needed
	// even when no policy sets scheduling fields any more.
	scheduled sets.Set[schema.GroupVersionResource]
	needed    map[schema.GroupVersionResource]*projection.FieldSet // Caches the fields of each type that decisions need.
	byPolicy  map[*placement.Policy][]schema.GroupVersionResource  // Caches the served types that each version of a policy matches.
}

// matched returns the served types that a version of a policy matches; none if the policy does not evaluate existing objects.
func (t *typeCache) matched(p *placement.Policy) []schema.GroupVersionResource {
	if !p.RemediatesExisting() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	out, known := t.byPolicy[p]
	if !known {
		for _, r := range t.Catalog.Select(p.Matcher.SelectsResource) {
			out = append(out, r.GroupVersionResource)
		}
		t.byPolicy[p] = out
	}
	return out
}

// fields returns the set of those fields of a type that decisions by the policies in force need. The caller must not change it.
func (t *typeCache) fields(resource schema.GroupVersionResource) *projection.FieldSet {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.needed[resource] == nil {
		t.needed[resource] = t.compute(resource)
	}
	return t.needed[resource]
}

// fieldsChanged drops the cached field sets of all types, because policies read other fields than before. Of the given versions, which were
// in force until now, it also drops the cached lists of types that they match.
func (t *typeCache) fieldsChanged(before ...*placement.Policy) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.needed)
	for _, p := range before {
		delete(t.byPolicy, p)
	}
}

// servedChanged drops the cached lists of the types that policies match, because the API server serves other types than before. It keeps
// the cached field sets of types.
func (t *typeCache) servedChanged() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.byPolicy)
}

// addScheduled records that an object of a type has a record of scheduling fields that policies overwrote. It reports whether this is new.
func (t *typeCache) addScheduled(resource schema.GroupVersionResource) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.scheduled.Has(resource) {
		return false
	}
	t.scheduled.Insert(resource)
	delete(t.needed, resource)
	return true
}

// compute returns the set of those fields of a type that decisions need: the fields that the policies in force that match the type read,
// and those that Berth needs to compare, patch, or evict objects. The caller holds mu.
func (t *typeCache) compute(resource schema.GroupVersionResource) *projection.FieldSet {
	policies := t.Registry.Selecting(resource)
	read := t.Decider.FieldsRead(resource.GroupResource(), policies, t.scheduled.Has(resource))
	sets := []*projection.FieldSet{always, read}
	if read.Covers(copied) {
		sets = append(sets, withCopy)
	}
	if slices.ContainsFunc(policies, func(p *placement.Policy) bool { return remediation.EvictsFrom(p, resource.GroupResource()) }) {
		sets = append(sets, evictionFields)
	}
	return projection.Union(sets...)
}

var _ watches.Packer = rollouts{}

// rollouts passes the progress of rollouts to the scheduler, except for objects of which a multi-cluster system reports where they run. It
// keeps no objects: the scheduler remembers those that are not ready.
type rollouts struct{ *Controller }

// Replace passes the progress of all objects of a type to the scheduler. It implements watches.Sink, as the other methods do.
func (r rollouts) Replace(resource schema.GroupVersionResource, fields *projection.FieldSet, objects []*unstructured.Unstructured) {
	watches.ReplaceByPacking(r, resource, fields, objects)
}

// listedRollout is an object's key with the progress of its rollout, kept from a list of a type until all of the list go to the scheduler.
type listedRollout struct {
	key     remediation.Key
	rollout remediation.Rollout
}

// Pack implements watches.Packer: it returns a listedRollout.
func (rollouts) Pack(resource schema.GroupVersionResource, _ *projection.FieldSet, o *unstructured.Unstructured) any {
	return listedRollout{keyOf(resource, o), remediation.RolloutOf(o)}
}

// ReplacePacked implements watches.Packer: it does what Replace does, with objects that Pack returned.
func (r rollouts) ReplacePacked(resource schema.GroupVersionResource, _ *projection.FieldSet, objects []any) {
	all := make(map[remediation.Key]remediation.Rollout, len(objects))
	for _, o := range objects {
		if o := o.(listedRollout); !r.carrierOf(o.key).Reports {
			all[o.key] = o.rollout
		}
	}
	r.Scheduler.ObserveAll(r.Clock.Now(), resource, all)
}

// Put passes the progress of one object to the scheduler, unless a multi-cluster system reports where it runs.
func (r rollouts) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	if key := keyOf(resource, o); !r.carrierOf(key).Reports {
		r.Scheduler.Observe(r.Clock.Now(), key, remediation.RolloutOf(o))
	}
}

// Delete tells the scheduler that an object was deleted.
func (r rollouts) Delete(resource schema.GroupVersionResource, namespace, name string) {
	r.Scheduler.Unobserve(remediation.Key{Resource: resource, Namespace: namespace, Name: name}, false)
}

// Drop tells the scheduler that a type's objects are no longer watched, so that it is not known which are ready.
func (r rollouts) Drop(resource schema.GroupVersionResource) {
	r.Scheduler.Unsettle()
	r.Scheduler.ObserveAll(r.Clock.Now(), resource, nil)
}

// carrierOf returns what is known of the multi-cluster systems that carry an object to clusters: whether they report where it runs, and
// whether it stays in its old clusters until it runs in the new ones. The result is zero if none carries it. If they report where the
// object runs, its own status does not count: it may lack what kstatus reads, or show what controllers beside its clusters make of the
// object.
func (c *Controller) carrierOf(key remediation.Key) remediation.Carrier {
	result := c.Deliveries.Result(key.Resource, key.Namespace, key.Name)
	return remediation.Carrier{Reports: result.Reports, Surges: result.Surges}
}

// ObjectDelivered passes to the scheduler what multi-cluster systems report of an object: that it runs in its clusters or does not, or that
// none of them reports on it any more. It passes nothing if the systems do not say yet whether it runs.
func (c *Controller) ObjectDelivered(d delivery.Reconciled) {
	key := keyOf(d.Resource, d.Object)
	switch {
	case !d.Reports:
		c.Scheduler.Unobserve(key, true)
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
