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

package watches

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
)

// Sink receives the objects of the watched types. Calls for one type come from one goroutine at a time, in the order of the changes. The
// sink owns the objects that it receives, and may change them.
type Sink interface {
	// Replace receives the complete content of a type: at first, and whenever a watch restarts. The objects, and those
	// of each Put until the next Replace, contain at least the given fields.
	Replace(resource schema.GroupVersionResource, fields *projection.FieldSet, objects []*unstructured.Unstructured)
	// Put receives an object that was added or changed.
	Put(resource schema.GroupVersionResource, object *unstructured.Unstructured)
	// Delete receives the name of an object that was deleted.
	Delete(resource schema.GroupVersionResource, namespace, name string)
	// Drop is called when a type is no longer watched, or no longer available.
	Drop(resource schema.GroupVersionResource)
}

// Packer is a Sink that stores objects in a form that takes less memory. It receives each object of a list as soon as that is read, so that
// they are not all in memory as maps.
type Packer interface {
	Sink
	// Pack receives an object of a list, and returns what ReplacePacked receives for it. Calls for one type do not overlap. The list may
	// never be complete, and an object may be packed more than once.
	Pack(resource schema.GroupVersionResource, fields *projection.FieldSet, object *unstructured.Unstructured) any
	// ReplacePacked is called instead of Replace.
	ReplacePacked(resource schema.GroupVersionResource, fields *projection.FieldSet, objects []any)
}

// ReplaceByPacking implements Replace of a Packer by its methods Pack and ReplacePacked.
func ReplaceByPacking(p Packer, resource schema.GroupVersionResource, fields *projection.FieldSet, objects []*unstructured.Unstructured) {
	listed := make([]any, len(objects))
	for i, o := range objects {
		listed[i] = p.Pack(resource, fields, o)
	}
	p.ReplacePacked(resource, fields, listed)
}

// State tells of a type that a consumer watches whether the sink has all objects, and which error came last and how many requests failed
// since the sink last got a list. Whether the type is unavailable follows from the error. The zero value is the state before the first
// answer.
type State struct {
	// Synced reports whether the sink has all objects of the type, with the fields that were asked for. A failed request leaves it true,
	// until the sink drops the objects because the type is unavailable.
	Synced bool
	// Err is the error of the last request, to list or watch, that failed since the sink last got a list of the type; nil if none did.
	Err error
	// Failures is the number of requests that failed since the sink last got a list of the type.
	Failures int
}

// maxTransientFailures is the number of consecutive failures after which a type counts as unavailable. They take about
// five seconds.
const maxTransientFailures = 5

// Settled reports whether there is nothing more to wait for: the sink has the objects of the type, or the type is known to be unavailable.
// That is known after one error such as "forbidden" or "not found", or after maxTransientFailures other errors in a row.
func (s State) Settled() bool {
	return s.Synced || unavailable(s.Err) || s.Failures >= maxTransientFailures
}

// Consumer passes the objects of the types that it wants from a Hub to a Sink. It is safe for concurrent use. Create it with
// Hub.NewConsumer.
type Consumer struct {
	// Consistent reports whether every list of the consumer's types must be at least as recent as its request. Otherwise a list may be as
	// old as the API server's cache. Set it before the first call of Set.
	Consistent bool
	// Prepare, if it is not nil, is called with each object from the API server before the object is cut to the wanted fields. It may add,
	// replace, and remove members of the object itself and of its metadata, annotations, and status. It must not change anything else in
	// place, because other consumers may have the same values. Set it before the first call of Set.
	Prepare func(schema.GroupVersionResource, *unstructured.Unstructured)

	hub     *Hub
	sink    Sink
	changed func(schema.GroupVersionResource) // called when the State of a type changes in more than Failures, or becomes settled
	setting sync.Mutex                        // held during Set
	ending  sync.Once                         // for the first Set, which makes the end of its context call end

	mu    sync.Mutex
	views map[schema.GroupVersionResource]*view // the types that the consumer wants
}

// NewConsumer returns a consumer that passes objects to sink, and calls changed whenever the State of a type changes in more than Failures,
// or becomes settled. Neither sink nor changed may call Set. The hub holds no lock that another consumer needs while it calls them.
func (h *Hub) NewConsumer(sink Sink, changed func(schema.GroupVersionResource)) *Consumer {
	return &Consumer{hub: h, sink: sink, changed: changed, views: map[schema.GroupVersionResource]*view{}}
}

// Set makes the consumer receive exactly the types in wanted, each with the given field set, which must be sealed. Objects are cut to that
// set, and to the fields that identify them, before they are stored anywhere. When Set returns, the sink has dropped (Sink.Drop) the
// content of each type that is no longer wanted, and is not called any more for that type.
//
// If the consumer wants a type or fields that it did not want before, the type is listed again for all consumers of the hub. Their sinks
// keep their content until the new list replaces it. If a consumer wants fewer fields than before, its sink receives the former field set
// until it wants others.
//
// The consumer receives nothing after the end of ctx, which must be the same in every call.
func (c *Consumer) Set(ctx context.Context, wanted map[schema.GroupVersionResource]*projection.FieldSet) {
	c.setting.Lock()
	defer c.setting.Unlock()
	c.ending.Do(func() { context.AfterFunc(ctx, c.end) })
	for resource, v := range c.all() {
		if _, ok := wanted[resource]; !ok {
			c.hub.unsubscribe(v)
			c.mu.Lock()
			delete(c.views, resource)
			c.mu.Unlock()
			v.drop()
		}
	}
	for resource, fields := range wanted {
		if ctx.Err() != nil {
			return
		}
		v := c.view(resource)
		if v != nil && v.fields.Covers(fields) {
			continue
		}
		if v == nil {
			v = &view{consumer: c, resource: resource, syncedFields: projection.Union()}
			c.mu.Lock()
			c.views[resource] = v
			c.mu.Unlock()
		}
		v.fields = fields
		c.hub.subscribe(ctx, v, fields)
	}
}

// end makes the consumer receive nothing any more. The sink keeps its content, and the consumer keeps its types with their last states.
func (c *Consumer) end() {
	for _, v := range c.all() {
		c.hub.unsubscribe(v)
	}
}

// view returns the view of a type; nil if the consumer does not want the type.
func (c *Consumer) view(resource schema.GroupVersionResource) *view {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.views[resource]
}

// all returns the views of all types that the consumer wants.
func (c *Consumer) all() map[schema.GroupVersionResource]*view {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.views)
}

// State returns the state of a type. ok is false if the consumer does not want the type.
func (c *Consumer) State(resource schema.GroupVersionResource) (state State, ok bool) {
	return c.StateOfFields(resource, projection.Union())
}

// StateOfFields is State for some fields of a type: the result is synced only if the sink has these fields. fields must be sealed.
func (c *Consumer) StateOfFields(resource schema.GroupVersionResource, fields *projection.FieldSet) (state State, ok bool) {
	v := c.view(resource)
	if v == nil {
		return State{}, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	state = v.state
	state.Synced = state.Synced && v.syncedFields.Covers(fields)
	return state, true
}

// LastConfirmed returns when the API server last sent a change of a type's objects or confirmed that there is none; zero if it never did,
// or the consumer does not want the type.
func (c *Consumer) LastConfirmed(resource schema.GroupVersionResource) time.Time {
	v := c.view(resource)
	if v == nil {
		return time.Time{}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.confirmed
}

// States returns the state of every type that the consumer wants.
func (c *Consumer) States() map[schema.GroupVersionResource]State {
	out := map[schema.GroupVersionResource]State{}
	for resource := range c.all() {
		if state, ok := c.State(resource); ok {
			out[resource] = state
		}
	}
	return out
}

// Reopen ends the watch on a type and opens another one, by which the API server confirms the objects that the sink has.
func (c *Consumer) Reopen(resource schema.GroupVersionResource) { c.hub.reopen(resource) }

// view is one type that one consumer wants.
type view struct {
	consumer *Consumer
	resource schema.GroupVersionResource
	// fields is the field set that was last requested from the hub. Only Set uses it.
	fields *projection.FieldSet
	// current is the subscription that may call the sink; nil if none may. It changes only under the lock of the hub.
	current atomic.Pointer[subscription]
	// calls is held during each call of the sink for the type, so that these do not overlap.
	calls sync.Mutex

	mu    sync.Mutex
	state State
	// syncedFields is the field set that the objects in the sink have, if the state is synced.
	syncedFields *projection.FieldSet
	// confirmed is when the API server last sent a change of the objects or confirmed that there is none; zero before the first list.
	confirmed time.Time
	// unavailableSince is since when requests have failed because the type can't be read (forbidden or not found, for example); zero if the
	// last failure had another reason, or a list came since.
	unavailableSince time.Time
}

// drop makes the sink drop its content of the type. It waits until another call of the sink for the type returns. It does not
// change the state.
func (v *view) drop() {
	v.calls.Lock()
	defer v.calls.Unlock()
	v.consumer.sink.Drop(v.resource)
}

// confirm records that the API server just sent a change or confirmed that there is none.
func (v *view) confirm() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.confirmed = time.Now()
}

// setState changes the state by the function, which may also set syncedFields. differs reports whether the state differs from before in
// more than Failures, or is settled now and was not before, or syncedFields has new fields.
func (v *view) setState(change func(*State)) (differs bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before, had := v.state, v.syncedFields
	change(&v.state)
	return !had.Covers(v.syncedFields) || before.Synced != v.state.Synced || before.Settled() != v.state.Settled() ||
		errorText(before.Err) != errorText(v.state.Err)
}

// errorText returns the text of an error; "" for nil.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// unavailablePeriod is how long the API server must report a type as unavailable before its content is dropped. A
// restarted API server reports that until it has read its own roles and CustomResourceDefinitions.
const unavailablePeriod = time.Second

// setUnavailable sets unavailableSince by the error of the newest request. The caller holds mu.
func (v *view) setUnavailable(err error) {
	switch {
	case !unavailable(err):
		v.unavailableSince = time.Time{}
	case v.unavailableSince.IsZero():
		v.unavailableSince = time.Now()
	}
}

// mustDrop reports whether the sink must drop its content: the type is unavailable, and has been for unavailablePeriod if the content was
// complete. The caller holds mu.
func (v *view) mustDrop() bool {
	return !v.unavailableSince.IsZero() && (!v.state.Synced || time.Since(v.unavailableSince) >= unavailablePeriod)
}

// unavailable reports whether an error is forbidden, unauthorized, not found, or method not supported: the type can't be read until
// permissions are granted or the type is installed.
func unavailable(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// subscription connects a view to one list-watch of its type. A new list-watch has new subscriptions.
type subscription struct {
	*view
	fields *projection.FieldSet // what the view wants of objects
	kept   *projection.FieldSet // what objects are cut to: fields, and identifyingFields
}

// newSubscription returns a subscription of a view that wants some fields, which must not be nil; projection.AllFields stands for whole
// objects. The subscription is not active until it is stored in the view's current.
func newSubscription(v *view, fields *projection.FieldSet) *subscription {
	return &subscription{view: v, fields: fields, kept: projection.Union(fields, identifyingFields)}
}

// identifyingFields is the sealed field set that is never removed from an object: apiVersion, kind, and the name, namespace, uid,
// resourceVersion, and deletionTimestamp of the metadata.
var identifyingFields = func() *projection.FieldSet {
	f := &projection.FieldSet{}
	f.AddName("apiVersion")
	f.AddName("kind")
	for _, name := range []string{"name", "namespace", "uid", "resourceVersion", "deletionTimestamp"} {
		f.AddName("metadata").AddName(name)
	}
	return f.Seal()
}()

// active reports whether this is the subscription that may call the sink.
func (s *subscription) active() bool { return s.current.Load() == s }

// rank returns 1 if objects are cut to the set of all fields (IsAll), so that they are whole, and 0 otherwise. Copies of whole objects cost
// most, so those subscriptions come last.
func (s *subscription) rank() int {
	if s.kept.IsAll() {
		return 1
	}
	return 0
}

// call calls f, which calls the sink, if the subscription is active. Meanwhile no other call of the sink for the type begins.
func (s *subscription) call(f func()) {
	s.calls.Lock()
	defer s.calls.Unlock()
	if s.active() {
		f()
	}
}

// failed records the error of a request. If the type has been unavailable for long, the sink drops its content, so that no decision uses
// it.
func (s *subscription) failed(err error) {
	differs, lost := false, false
	s.call(func() {
		differs = s.setState(func(state *State) {
			state.Err = err
			state.Failures++
			s.setUnavailable(err)
			lost = s.mustDrop()
			state.Synced = state.Synced && !lost
		})
		if lost {
			s.consumer.sink.Drop(s.resource)
		}
	})
	if differs {
		s.consumer.changed(s.resource)
	}
}

// pack returns what replace needs of an object of a list, which the subscription owns.
func (s *subscription) pack(o *unstructured.Unstructured) any {
	if packer, ok := s.consumer.sink.(Packer); ok {
		return packer.Pack(s.resource, s.fields, o)
	}
	return o
}

// replace replaces the content of the sink by the results of pack. The sink is then synced.
func (s *subscription) replace(objects func() []any) {
	differs := false
	s.call(func() {
		s.confirm()
		if packer, ok := s.consumer.sink.(Packer); ok {
			packer.ReplacePacked(s.resource, s.fields, objects())
		} else {
			packed := objects()
			list := make([]*unstructured.Unstructured, len(packed))
			for i, o := range packed {
				list[i] = o.(*unstructured.Unstructured)
			}
			s.consumer.sink.Replace(s.resource, s.fields, list)
		}
		differs = s.setState(func(state *State) {
			*state, s.syncedFields, s.unavailableSince = State{Synced: true}, s.fields, time.Time{}
		})
	})
	if differs {
		s.consumer.changed(s.resource)
	}
}

// take passes an object to Prepare of the consumer, if that is set, and then removes from it all fields except the kept ones. It changes
// the object that it is given. If all fields are kept, it removes nothing, not even managedFields.
func (s *subscription) take(o *unstructured.Unstructured) {
	if s.consumer.Prepare != nil {
		s.consumer.Prepare(s.resource, o)
	}
	o.Object = s.kept.Project(o.Object)
}

// copy returns what take makes of an object. The result shares nothing with the object, which is not changed.
func (s *subscription) copy(o *unstructured.Unstructured) *unstructured.Unstructured {
	if s.consumer.Prepare != nil {
		o = &unstructured.Unstructured{Object: maps.Clone(o.Object)}
		cloneMembers(o.Object, "metadata", "status")
		metadata, _ := o.Object["metadata"].(map[string]any)
		cloneMembers(metadata, "annotations")
		s.consumer.Prepare(s.resource, o)
	}
	return &unstructured.Unstructured{Object: s.kept.Copy(o.Object)}
}

// cloneMembers replaces the members of an object with the names, if they are objects, by shallow copies.
func cloneMembers(object map[string]any, names ...string) {
	for _, name := range names {
		if member, ok := object[name].(map[string]any); ok {
			object[name] = maps.Clone(member)
		}
	}
}
