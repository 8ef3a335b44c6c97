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
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/packed"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/watches"
)

var _ watches.Packer = (*objectCache)(nil)

// objectCache holds the existing objects of every type that some policy matches, as the API server last sent them, cut to the fields that
// decisions need, and packed. It enqueues objects that change, and knows which are queued. It is safe for concurrent use.
type objectCache struct {
	// listed is called with the objects that were added, changed or deleted when the content of a type was replaced or dropped. It must
	// enqueue them.
	listed func(schema.GroupVersionResource, []remediation.Key)

	mu     sync.RWMutex
	tables map[schema.GroupVersionResource]*typeTable
	// packers has, for each type that is being listed, the packer of the objects read so far. A complete list takes it for its table; a list
	// that fails leaves it to the next one.
	packers map[schema.GroupVersionResource]*packed.Packer
	// workqueue is nil until the controller is started because this replica is the leader.
	workqueue workqueue.TypedRateLimitingInterface[remediation.Key]
}

// typeTable holds the objects of one type.
type typeTable struct {
	fields  *projection.FieldSet // The field set to which the objects are cut.
	packer  *packed.Packer
	objects map[types.NamespacedName]*cachedObject
	// queued is the number of objects in the workqueue, and unrecorded the number of objects on which no decision was recorded yet.
	queued, unrecorded int
}

// cachedObject is an object in the cache, with its state in the workqueue.
type cachedObject struct {
	packed packed.Object
	// queued is set while the object is in the workqueue and no worker has taken it. recorded is set once a decision on it was recorded.
	queued, recorded bool
}

func newTypeTable(fields *projection.FieldSet, packer *packed.Packer, size int) *typeTable {
	return &typeTable{fields: fields, packer: packer, objects: make(map[types.NamespacedName]*cachedObject, size)}
}

// unpack returns an object. The caller owns it.
func (t *typeTable) unpack(name types.NamespacedName, o *cachedObject) *unstructured.Unstructured {
	return t.packer.Unpack(o.packed, name.Namespace, name.Name)
}

// add adds n to those of the counters queued and unrecorded that count the object. n is 1 or -1.
func (t *typeTable) add(o *cachedObject, n int) {
	if o.queued {
		t.queued += n
	}
	if !o.recorded {
		t.unrecorded += n
	}
}

// newObjectCache returns an empty cache that enqueues nothing before start.
func newObjectCache(listed func(schema.GroupVersionResource, []remediation.Key)) *objectCache {
	return &objectCache{
		listed: listed, tables: map[schema.GroupVersionResource]*typeTable{}, packers: map[schema.GroupVersionResource]*packed.Packer{},
	}
}

// start makes the cache enqueue objects.
func (t *objectCache) start(queue workqueue.TypedRateLimitingInterface[remediation.Key]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.workqueue = queue
}

// started reports whether the controller runs, so that objects can be enqueued.
func (t *objectCache) started() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.workqueue != nil
}

// keyOf returns the key of an object of a type.
func keyOf(resource schema.GroupVersionResource, o *unstructured.Unstructured) remediation.Key {
	return remediation.Key{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// nameOf returns the name of an object. Names share their namespace.
func nameOf(o *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: unique.Make(o.GetNamespace()).Value(), Name: o.GetName()}
}

// named returns the key of an object of a type.
func named(resource schema.GroupVersionResource, name types.NamespacedName) remediation.Key {
	return remediation.Key{Resource: resource, Namespace: name.Namespace, Name: name.Name}
}

// Replace replaces the objects of a type, and passes those that differ to listed. It implements watches.Sink.
func (t *objectCache) Replace(resource schema.GroupVersionResource, fields *projection.FieldSet, objects []*unstructured.Unstructured) {
	watches.ReplaceByPacking(t, resource, fields, objects)
}

// listedObject is an object of a list that is not complete, and the packer that packed it.
type listedObject struct {
	name   types.NamespacedName
	packed packed.Object
	packer *packed.Packer
}

// Pack implements watches.Packer.
func (t *objectCache) Pack(resource schema.GroupVersionResource, fields *projection.FieldSet, o *unstructured.Unstructured) any {
	t.mu.Lock()
	p := t.packers[resource]
	if p == nil {
		p = packed.NewPacker()
		t.packers[resource] = p
	}
	t.mu.Unlock()
	trim(fields, o)
	return listedObject{nameOf(o), p.Pack(o), p}
}

// ReplacePacked is Replace for the results of Pack. It implements watches.Packer.
func (t *objectCache) ReplacePacked(resource schema.GroupVersionResource, fields *projection.FieldSet, objects []any) {
	t.mu.Lock()
	p := t.packers[resource]
	delete(t.packers, resource)
	t.mu.Unlock()
	if p == nil {
		p = packed.NewPacker()
	}
	next := newTypeTable(fields, p, len(objects))
	for _, o := range objects {
		o := o.(listedObject)
		if o.packer != p {
			// The type was dropped since.
			o.packed = p.Pack(o.packer.Unpack(o.packed, o.name.Namespace, o.name.Name))
		}
		next.objects[o.name] = &cachedObject{packed: o.packed}
	}
	t.mu.RLock()
	old := t.tables[resource]
	t.mu.RUnlock()
	if old == nil {
		old = newTypeTable(fields, nil, 0)
	}
	// No other call changes the objects of the type meanwhile, so they are compared without the lock, which workers need.
	grown := !old.fields.Covers(fields)
	var changed []remediation.Key
	for name := range old.objects {
		if _, still := next.objects[name]; !still {
			changed = append(changed, named(resource, name))
		}
	}
	for name, now := range next.objects {
		if before := old.objects[name]; before == nil || grown || !same(old.unpack(name, before), next.unpack(name, now)) {
			changed = append(changed, named(resource, name))
		}
	}
	t.mu.Lock()
	for name, now := range next.objects {
		if before := old.objects[name]; before != nil {
			now.queued, now.recorded = before.queued, before.recorded
		}
		next.add(now, 1)
	}
	t.tables[resource] = next
	t.mu.Unlock()
	t.listed(resource, changed)
}

// same reports whether two objects are the same version. It compares contents, too: after a restore of the API server's store from a
// backup, two versions of an object can have the same resource version.
func same(a, b *unstructured.Unstructured) bool {
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion() && equality.Semantic.DeepEqual(a.Object, b.Object)
}

// Put stores an object that was added or changed, and enqueues it. It implements watches.Sink.
func (t *objectCache) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	name := nameOf(o)
	t.mu.Lock()
	at := t.tables[resource]
	if at == nil {
		at = newTypeTable(projection.AllFields(), packed.NewPacker(), 0)
		t.tables[resource] = at
	}
	trim(at.fields, o)
	before, next := at.objects[name], at.packer.Pack(o)
	if before == nil {
		at.objects[name] = &cachedObject{packed: next}
		at.add(at.objects[name], 1)
	} else {
		at.packer.Release(before.packed)
		before.packed = next
	}
	t.mu.Unlock()
	t.enqueue(named(resource, name))
}

// Delete removes an object, and enqueues it. It implements watches.Sink.
func (t *objectCache) Delete(resource schema.GroupVersionResource, namespace, name string) {
	key := remediation.Key{Resource: resource, Namespace: namespace, Name: name}
	t.mu.Lock()
	if o, at := t.find(key); o != nil {
		at.add(o, -1)
		at.packer.Release(o.packed)
		delete(at.objects, nameIn(key))
	}
	t.mu.Unlock()
	t.enqueue(key)
}

// Drop removes all objects of a type that is no longer watched, and passes them to listed. It implements watches.Sink.
func (t *objectCache) Drop(resource schema.GroupVersionResource) {
	t.mu.Lock()
	old := t.tables[resource]
	delete(t.tables, resource)
	delete(t.packers, resource)
	t.mu.Unlock()
	if old == nil {
		return
	}
	var dropped []remediation.Key
	for name := range old.objects {
		dropped = append(dropped, named(resource, name))
	}
	t.listed(resource, dropped)
}

// nameIn returns the name of an object in the table of its type.
func nameIn(key remediation.Key) types.NamespacedName {
	return types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
}

// find returns a cached object and the table that contains it; nil if there is none. The caller holds mu.
func (t *objectCache) find(key remediation.Key) (*cachedObject, *typeTable) {
	at := t.tables[key.Resource]
	if at == nil {
		return nil, nil
	}
	if o := at.objects[nameIn(key)]; o != nil {
		return o, at
	}
	return nil, nil
}

// get returns an object, which the caller owns, and its field set; nil if the object does not exist.
func (t *objectCache) get(key remediation.Key) (*unstructured.Unstructured, *projection.FieldSet) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if o, at := t.find(key); o != nil {
		return at.unpack(nameIn(key), o), at.fields
	}
	return nil, nil
}

// take returns the same as get, for a worker that begins to process the object. From now on, a change enqueues the key again.
func (t *objectCache) take(key remediation.Key) (*unstructured.Unstructured, *projection.FieldSet) {
	t.mark(key, func(o *cachedObject) { o.queued = false })
	return t.get(key)
}

// recorded declares that a decision on an object was recorded, or that it can't be decided for now.
func (t *objectCache) recorded(key remediation.Key) {
	t.mark(key, func(o *cachedObject) { o.recorded = true })
}

// mark changes whether an object counts as queued and as recorded, if it exists.
func (t *objectCache) mark(key remediation.Key, change func(*cachedObject)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o, at := t.find(key); o != nil {
		at.add(o, -1)
		change(o)
		at.add(o, 1)
	}
}

// pending returns how many objects of some types are in the workqueue, and on how many no decision was recorded yet.
func (t *objectCache) pending(resources []schema.GroupVersionResource) (queued, unrecorded int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, r := range resources {
		if at := t.tables[r]; at != nil {
			queued, unrecorded = queued+at.queued, unrecorded+at.unrecorded
		}
	}
	return queued, unrecorded
}

// enqueue adds objects to the workqueue, except for those that are queued already. It does nothing before start: the watches, which start
// later, will enqueue every object.
func (t *objectCache) enqueue(keys ...remediation.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.workqueue == nil {
		return
	}
	for _, key := range keys {
		if o, at := t.find(key); o != nil {
			if o.queued {
				continue
			}
			o.queued = true
			at.queued++
		}
		t.workqueue.Add(key)
	}
}

// enqueueAfter adds an object to the workqueue after a delay. It does nothing before start.
func (t *objectCache) enqueueAfter(key remediation.Key, d time.Duration) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.workqueue != nil {
		t.workqueue.AddAfter(key, d)
	}
}

// labels returns the labels of an object; nil if the object does not exist.
func (t *objectCache) labels(key remediation.Key) map[string]string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if o, at := t.find(key); o != nil {
		return at.packer.Labels(o.packed, key.Namespace, key.Name)
	}
	return nil
}

// idle returns the objects that are not queued, of the types that selects selects, by type and namespace.
func (t *objectCache) idle(selects func(schema.GroupVersionResource) bool) map[schema.GroupVersionResource]map[string][]remediation.Key {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := map[schema.GroupVersionResource]map[string][]remediation.Key{}
	for resource, at := range t.tables {
		if !selects(resource) {
			continue
		}
		in := map[string][]remediation.Key{}
		for name, o := range at.objects {
			if !o.queued {
				in[name.Namespace] = append(in[name.Namespace], named(resource, name))
			}
		}
		out[resource] = in
	}
	return out
}

// within returns the keys of the cached objects of a namespace.
func (t *objectCache) within(namespace string) (out []remediation.Key) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for resource, at := range t.tables {
		for name := range at.objects {
			if name.Namespace == namespace {
				out = append(out, named(resource, name))
			}
		}
	}
	return out
}

// trim removes what no decision needs and field sets can't exclude from an object that has the given fields: managed fields, and kubectl's
// copy of the object.
func trim(fields *projection.FieldSet, o *unstructured.Unstructured) {
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	if !fields.IsAll() && !fields.Covers(withCopy) {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations", lastApplied)
	}
}

// watch updates which types and fields are watched until ctx ends.
func (c *Controller) watch(ctx context.Context) {
	c.rewatch.Notify()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-c.rewatch:
			objects, rollouts := c.wanted()
			c.watches.Set(ctx, objects)
			c.rollouts.Set(ctx, rollouts)
		}
	}, settle)
}

// wanted returns the types that policies with remediation match, with the fields that decisions on them need, and the types whose rollouts
// policies watch, with the fields that show them.
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

// fieldsOf returns the fields of the matched objects that a policy reads: all if it has match conditions, which may read any.
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
	// copied is kubectl's copy, as a field set of a policy. withCopy marks a field set that needs it, by a name that no object has: always
	// covers all annotations.
	copied, withCopy = fieldAt("metadata", "annotations", lastApplied), fieldAt("\x00" + lastApplied)
)

// fieldAt returns the sealed field set of the one field at a path. The names in the path may contain dots.
func fieldAt(path ...string) *projection.FieldSet {
	f := &projection.FieldSet{}
	at := f
	for _, name := range path {
		at = at.AddName(name)
	}
	return f.Seal()
}

// typeCache caches which types policies match, and the fields of each type that decisions need. It is safe for concurrent use.
type typeCache struct {
	Deps

	mu sync.Mutex
	// scheduled holds the types of which some object has a record of scheduling fields that policies overwrote. Those fields are needed
	// even when no policy sets scheduling fields any more.
	scheduled sets.Set[schema.GroupVersionResource]
	needed    map[schema.GroupVersionResource]*projection.FieldSet // Caches the fields of each type that decisions need.
	byPolicy  map[*placement.Policy][]schema.GroupVersionResource  // Caches what the method matched returns.
}

// matched returns the types whose objects a policy remediates and that the API server serves.
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

// fields returns the sealed set of those fields of a type that the policies in force need.
func (t *typeCache) fields(resource schema.GroupVersionResource) *projection.FieldSet {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.needed[resource] == nil {
		t.needed[resource] = t.compute(resource)
	}
	return t.needed[resource]
}

// fieldsChanged drops the cached field sets because policies read other fields than before. The given versions are no longer in force.
func (t *typeCache) fieldsChanged(before ...*placement.Policy) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.needed)
	for _, p := range before {
		delete(t.byPolicy, p)
	}
}

// servedChanged drops the cached types because the API server serves other types than before.
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

// compute returns the set of those fields of a type that decisions need. The caller holds mu.
func (t *typeCache) compute(resource schema.GroupVersionResource) *projection.FieldSet {
	sets, schedules := []*projection.FieldSet{always}, t.scheduled.Has(resource)
	for _, p := range t.Registry.InForce() {
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
		if slices.Contains(sets, reads) {
			continue
		}
		if sets = append(sets, reads); reads.Covers(copied) {
			sets = append(sets, withCopy)
		}
	}
	sets = append(sets, placement.FollowFields(resource.GroupResource()))
	if path, ok := t.Decider.Templates.Path(resource.GroupResource()); ok && schedules {
		sets = append(sets, placement.SchedulingFields(path))
	}
	if kind := t.Decider.ClusterLists.Of(resource.GroupResource()); kind != nil {
		sets = append(sets, kind.Fields())
	}
	return projection.Union(sets...)
}

var _ watches.Packer = rollouts{}

// rollouts passes the progress of rollouts to the scheduler. It keeps no objects: the scheduler remembers those that are not ready.
type rollouts struct{ *Controller }

// Replace passes the progress of all objects of a type to the scheduler. It implements watches.Sink, as the other methods do.
func (r rollouts) Replace(resource schema.GroupVersionResource, fields *projection.FieldSet, objects []*unstructured.Unstructured) {
	watches.ReplaceByPacking(r, resource, fields, objects)
}

// listedRollout is the rollout of an object of a list.
type listedRollout struct {
	key     remediation.Key
	rollout remediation.Rollout
}

// Pack implements watches.Packer.
func (rollouts) Pack(resource schema.GroupVersionResource, _ *projection.FieldSet, o *unstructured.Unstructured) any {
	return listedRollout{keyOf(resource, o), remediation.RolloutOf(o)}
}

// ReplacePacked implements watches.Packer.
func (r rollouts) ReplacePacked(resource schema.GroupVersionResource, _ *projection.FieldSet, objects []any) {
	all := make(map[remediation.Key]remediation.Rollout, len(objects))
	for _, o := range objects {
		if o := o.(listedRollout); !r.carrierOf(o.key).Reports {
			all[o.key] = o.rollout
		}
	}
	r.Scheduler.ObserveAll(r.Clock.Now(), resource, all)
}

// Put passes the progress of one object to the scheduler.
func (r rollouts) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	if key := keyOf(resource, o); !r.carrierOf(key).Reports {
		r.Scheduler.Observe(r.Clock.Now(), key, remediation.RolloutOf(o))
	}
}

// Delete tells the scheduler that an object was deleted.
func (r rollouts) Delete(resource schema.GroupVersionResource, namespace, name string) {
	r.Scheduler.Unobserve(remediation.Key{Resource: resource, Namespace: namespace, Name: name}, false)
}

// Drop tells the scheduler that a type's objects are no longer watched.
func (r rollouts) Drop(resource schema.GroupVersionResource) {
	r.Scheduler.Unsettle()
	r.Scheduler.ObserveAll(r.Clock.Now(), resource, nil)
}

// carrierOf returns what is known of the multi-cluster systems that carry an object to clusters. If they report where the object runs, its
// own status does not count: it may lack what kstatus reads, or show what controllers beside its clusters make of the object.
func (c *Controller) carrierOf(key remediation.Key) remediation.Carrier {
	result := c.Deliveries.Result(key.Resource, key.Namespace, key.Name)
	return remediation.Carrier{Reports: result.Reports, Surges: result.Surges}
}

// ObjectDelivered passes to the scheduler what multi-cluster systems report of an object.
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
