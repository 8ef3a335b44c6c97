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
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/internal/projection"
)

// Sink receives the objects of the watched types. Calls for one type come from one goroutine at a time, in the order of
// the changes. The sink owns the objects that it receives.
type Sink interface {
	// Replace receives the complete content of a type: at first, and whenever a watch restarts. The objects, and those
	// of each Put until the next Replace, contain at least the given fields. nil means whole objects.
	Replace(resource schema.GroupVersionResource, fields *projection.FieldSet, objects []*unstructured.Unstructured)
	// Put receives an object that was added or changed.
	Put(resource schema.GroupVersionResource, object *unstructured.Unstructured)
	// Delete receives the name of an object that was deleted.
	Delete(resource schema.GroupVersionResource, namespace, name string)
	// Drop is called when a type is no longer watched, or no longer available.
	Drop(resource schema.GroupVersionResource)
}

// State is the state of a watched type.
type State struct {
	// Synced is set if the sink has the complete content.
	Synced bool
	// Err is the reason why the type can't be read, or nil.
	Err error
	// Failures is the number of consecutive failures.
	Failures int
}

// maxTransientFailures is the number of consecutive failures after which a type counts as unavailable. They take about
// five seconds.
const maxTransientFailures = 5

// Settled reports whether there is nothing more to wait for: the type is complete or known to be unavailable. A single
// temporary error does not settle a type. A lasting one does, such as that of an extension API server that is down,
// because it must not block everything that does not need the type.
func (s State) Settled() bool {
	return s.Synced || unavailable(s.Err) || s.Failures >= maxTransientFailures
}

// Manager runs one list-watch for each wanted type. It is safe for concurrent use.
type Manager struct {
	// Consistent makes every list at least as recent as its request. Without it, a list may be as old as the API
	// server's cache. Set it before the first call of Set.
	Consistent bool
	// Prepare, if it is not nil, is called with each object from the API server before the object is cut to the wanted
	// fields. It may remove or add fields. Set it before the first call of Set.
	Prepare func(schema.GroupVersionResource, *unstructured.Unstructured)
	// RestoreDetector makes every type be listed again when the API server's store was set back to an earlier state. It
	// may be nil. Set it before the first call of Set.
	RestoreDetector *RestoreDetector

	client  dynamic.Interface
	sink    Sink
	changed func(schema.GroupVersionResource)

	mu      sync.Mutex
	running map[schema.GroupVersionResource]*typeWatch
}

// typeWatch is the list-watch of one type.
type typeWatch struct {
	cancel context.CancelFunc
	done   chan struct{}
	// fields is the field set to which objects are cut. nil means whole objects.
	fields *projection.FieldSet

	mu    sync.Mutex
	state State
	// syncedFields is the field set of the objects in the sink, while the state is synced.
	syncedFields *projection.FieldSet
	// confirmed is when the API server last confirmed or changed the content.
	confirmed time.Time
	// watch is the current watch, or nil.
	watch watch.Interface
	// unavailableSince is when the API server began to report the type as unavailable, or zero if it does not.
	unavailableSince time.Time
}

// covers reports whether the field set have contains the field set wanted. nil means whole objects.
func covers(have, wanted *projection.FieldSet) bool {
	return have == nil || wanted != nil && have.Covers(wanted)
}

// identifyingFields is the field set that is never removed from an object.
var identifyingFields = func() *projection.FieldSet {
	f := &projection.FieldSet{}
	f.AddName("apiVersion")
	f.AddName("kind")
	for _, name := range []string{"name", "namespace", "uid", "resourceVersion", "deletionTimestamp"} {
		f.AddName("metadata").AddName(name)
	}
	return f.Seal()
}()

// NewManager returns a manager that passes objects to sink, and calls changed whenever the State of a type changes.
// Neither may call the manager.
func NewManager(client dynamic.Interface, sink Sink, changed func(schema.GroupVersionResource)) *Manager {
	return &Manager{client: client, sink: sink, changed: changed, running: map[schema.GroupVersionResource]*typeWatch{}}
}

// Set starts and stops list-watches so that exactly the types in wanted are watched. Objects are cut to the wanted
// field set, which must be sealed, before they are stored anywhere. nil means whole objects. The fields that identify
// an object always remain.
//
// If more fields are wanted than before, the type is listed again. The content of the sink remains until it is
// replaced. If fewer fields are wanted, the running watch keeps the larger field set until more are wanted.
//
// The watches end with ctx, which must be the same in every call.
func (m *Manager) Set(ctx context.Context, wanted map[schema.GroupVersionResource]*projection.FieldSet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for resource, r := range m.running {
		if _, ok := wanted[resource]; ok {
			continue
		}
		r.cancel()
		<-r.done
		delete(m.running, resource)
		m.sink.Drop(resource)
	}
	for resource, fields := range wanted {
		if ctx.Err() != nil {
			return
		}
		existing, ok := m.running[resource]
		if ok && covers(existing.fields, fields) {
			continue
		}
		watchCtx, cancel := context.WithCancel(ctx)
		r := &typeWatch{cancel: cancel, done: make(chan struct{}), fields: fields}
		if ok {
			existing.cancel()
			<-existing.done
			r.state, r.syncedFields, r.confirmed = existing.state, existing.syncedFields, existing.confirmed
		}
		m.running[resource] = r
		go func() {
			defer close(r.done)
			m.run(watchCtx, resource, r)
		}()
	}
}

// State returns the state of a type. ok is false if the type is not watched.
func (m *Manager) State(resource schema.GroupVersionResource) (state State, ok bool) {
	return m.StateOfFields(resource, projection.Union())
}

// StateOfFields returns the state of some fields of a type. fields must be sealed; nil means whole objects. The state
// is not synced before the sink has these fields.
func (m *Manager) StateOfFields(resource schema.GroupVersionResource, fields *projection.FieldSet) (state State, ok bool) {
	m.mu.Lock()
	r, ok := m.running[resource]
	m.mu.Unlock()
	if !ok {
		return State{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	state = r.state
	state.Synced = state.Synced && covers(r.syncedFields, fields)
	return state, true
}

// LastConfirmed returns when the API server last sent a change of a type's content or confirmed that there is none. It
// returns zero if it never did.
func (m *Manager) LastConfirmed(resource schema.GroupVersionResource) time.Time {
	m.mu.Lock()
	r, ok := m.running[resource]
	m.mu.Unlock()
	if !ok {
		return time.Time{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.confirmed
}

// States returns the state of every watched type.
func (m *Manager) States() map[schema.GroupVersionResource]State {
	m.mu.Lock()
	all := maps.Clone(m.running)
	m.mu.Unlock()
	out := make(map[schema.GroupVersionResource]State, len(all))
	for resource, r := range all {
		r.mu.Lock()
		out[resource] = r.state
		r.mu.Unlock()
	}
	return out
}

// The delay between two attempts to read a type grows from minBackoff to maxBackoff.
const (
	minBackoff = 200 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// unavailablePeriod is how long the API server must report a type as unavailable before its content is dropped. A
// restarted API server reports that until it has read its own roles and CustomResourceDefinitions.
const unavailablePeriod = time.Second

func (m *Manager) run(ctx context.Context, resource schema.GroupVersionResource, r *typeWatch) {
	log := ctrllog.FromContext(ctx).WithName("watches").WithValues("resource", resource.String())
	log.V(2).Info("Starting watch")
	client := m.client.Resource(resource)
	failed := func(err error) {
		if err == nil || ctx.Err() != nil || needsRelist(err) {
			return
		}
		log.V(2).Info("Watch failed", "error", err.Error())
		lost := false
		m.setState(resource, r, func(s *State) {
			s.Err = err
			s.Failures++
			if lost = r.unavailableForLong(err); lost {
				s.Synced = false
			}
		})
		if lost {
			// Data that can't be read any more must not take part in decisions.
			m.sink.Drop(resource)
		}
	}
	project := m.projector(resource, r.fields)
	// unwatchable is set if the last watch request was refused. A list without a watch would soon be out of date, so it
	// is withheld until a watch succeeds.
	var unwatchable atomic.Bool
	// relist is set if the last list was withheld. The next list then requests no resource version: an API server's watch
	// cache may not reach the version of the last list until something changes, and clients would retry for most of a
	// minute.
	var relist atomic.Bool
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if relist.Swap(false) || m.Consistent && o.ResourceVersion == "0" {
				o.ResourceVersion = ""
			}
			list, err := client.List(ctx, o)
			failed(err)
			if err != nil {
				return nil, err
			}
			for i := range list.Items {
				project(&list.Items[i])
			}
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := client.Watch(ctx, o)
			failed(err)
			if err != nil {
				unwatchable.Store(unwatchable.Load() || unavailable(err))
				return nil, err
			}
			initial := ptr.Deref(o.SendInitialEvents, false)
			if unwatchable.Swap(false) && !initial {
				w.Stop()
				relist.Store(true)
				return nil, errors.New("listing anew: the list before was withheld")
			}
			r.watchOpened(w, !initial)
			return w, nil
		},
	}
	store := &sinkStore{
		resource: resource, fields: r.fields, sink: m.sink, project: project, withheld: unwatchable.Load, confirmed: r.markConfirmed,
		synced: func() {
			m.setState(resource, r, func(s *State) { *s, r.syncedFields, r.unavailableSince = State{Synced: true}, r.fields, time.Time{} })
		},
	}
	var source cache.ListerWatcher = lw
	if m.RestoreDetector != nil {
		source = m.RestoreDetector.Wrap(lw)
	}
	reflector := cache.NewReflectorWithOptions(source, &unstructured.Unstructured{}, store, cache.ReflectorOptions{
		Name:            "berth",
		TypeDescription: resource.String(),
		Backoff:         &wait.Backoff{Duration: minBackoff, Factor: 2, Jitter: 0.2, Steps: 10, Cap: maxBackoff},
	})
	reflector.RunWithContext(ctx)
	log.V(2).Info("Stopped watch")
}

// projector returns a function that cuts an object of a type to the fields, in place.
func (m *Manager) projector(resource schema.GroupVersionResource, fields *projection.FieldSet) func(*unstructured.Unstructured) {
	if fields != nil {
		fields = projection.Union(fields, identifyingFields)
	}
	return func(o *unstructured.Unstructured) {
		if m.Prepare != nil {
			m.Prepare(resource, o)
		}
		if fields != nil {
			o.Object = fields.Project(o.Object)
		}
	}
}

// markConfirmed records that the API server sent a change or a confirmation of the content.
func (r *typeWatch) markConfirmed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confirmed = time.Now()
}

// watchOpened records a watch that the API server accepted. If continues is true, the watch continues from the current
// content, so it confirms that the API server will send all changes since.
func (r *typeWatch) watchOpened(w watch.Interface, continues bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watch = w
	if continues {
		r.confirmed = time.Now()
	}
}

// Reopen ends the watch on a type. The reflector watches again from its last resource version. If the API server
// accepts that, the content is confirmed.
func (m *Manager) Reopen(resource schema.GroupVersionResource) {
	m.mu.Lock()
	r, ok := m.running[resource]
	m.mu.Unlock()
	if !ok {
		return
	}
	r.mu.Lock()
	w := r.watch
	r.watch = nil
	r.mu.Unlock()
	if w != nil {
		w.Stop()
	}
}

// unavailableForLong reports whether an error means that the content is no longer available. The caller holds the lock.
func (r *typeWatch) unavailableForLong(err error) bool {
	switch {
	case !unavailable(err):
		r.unavailableSince = time.Time{}
		return false
	case !r.state.Synced:
		return true
	case r.unavailableSince.IsZero():
		r.unavailableSince = time.Now()
	}
	return time.Since(r.unavailableSince) >= unavailablePeriod
}

// setState changes the state of a type, and calls changed if the state differs.
func (m *Manager) setState(resource schema.GroupVersionResource, r *typeWatch, change func(*State)) {
	r.mu.Lock()
	before, had := r.state, r.syncedFields
	change(&r.state)
	differs := !covers(had, r.syncedFields) || before.Synced != r.state.Synced || errorText(before.Err) != errorText(r.state.Err)
	r.mu.Unlock()
	if differs {
		m.changed(resource)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// needsRelist reports whether an error is normal for a watch. The reflector then lists again and continues.
func needsRelist(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err)
}

// unavailable reports whether an error means that the type is unavailable until permissions are granted or the type is
// installed.
func unavailable(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// sinkStore passes what a reflector reads to the sink. Every object is cut before anything stores it. This includes the
// pages of a list, and the temporary store of a reflector for a streamed list.
type sinkStore struct {
	resource  schema.GroupVersionResource
	fields    *projection.FieldSet
	sink      Sink
	project   func(*unstructured.Unstructured)
	withheld  func() bool
	synced    func()
	confirmed func()
}

var (
	_ cache.TransformingStore      = (*sinkStore)(nil)
	_ cache.ReflectorBookmarkStore = (*sinkStore)(nil)
)

// Transformer implements cache.TransformingStore. It cuts the objects of a streamed list.
func (s *sinkStore) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		o, err := asObject(obj)
		if err != nil {
			return nil, err
		}
		s.project(o)
		return o, nil
	}
}

// Add implements cache.ReflectorStore.
func (s *sinkStore) Add(obj any) error { return s.put(obj) }

// Update implements cache.ReflectorStore.
func (s *sinkStore) Update(obj any) error { return s.put(obj) }

func (s *sinkStore) put(obj any) error {
	o, err := asObject(obj)
	if err != nil {
		return err
	}
	s.project(o)
	s.sink.Put(s.resource, o)
	s.confirmed()
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *sinkStore) Delete(obj any) error {
	o, err := asObject(obj)
	if err != nil {
		return err
	}
	s.sink.Delete(s.resource, o.GetNamespace(), o.GetName())
	s.confirmed()
	return nil
}

// Bookmark implements cache.ReflectorBookmarkStore. A bookmark confirms that nothing has changed.
func (s *sinkStore) Bookmark(string) error {
	s.confirmed()
	return nil
}

// Replace implements cache.ReflectorStore. The objects were cut before.
func (s *sinkStore) Replace(list []any, _ string) error {
	objects := make([]*unstructured.Unstructured, 0, len(list))
	for _, obj := range list {
		o, err := asObject(obj)
		if err != nil {
			return err
		}
		objects = append(objects, o)
	}
	if s.withheld() {
		return nil
	}
	s.confirmed()
	s.sink.Replace(s.resource, s.fields, objects)
	s.synced()
	return nil
}

// Resync implements cache.ReflectorStore. It does nothing because sinks keep their objects.
func (*sinkStore) Resync() error { return nil }

func asObject(obj any) (*unstructured.Unstructured, error) {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("object of type %T", obj)
	}
	return o, nil
}
