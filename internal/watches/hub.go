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
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
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

// Hub runs one list-watch for each resource type that at least one of its consumers wants. It decodes an object once, and gives each
// consumer the fields that the consumer wants. It keeps no objects. It is safe for concurrent use.
type Hub struct {
	client dynamic.Interface

	mu sync.Mutex
	// types has the newest list-watch of each type, until it has ended.
	types map[schema.GroupVersionResource]*typeWatch
}

// NewHub returns a hub that reads by client.
func NewHub(client dynamic.Interface) *Hub {
	return &Hub{client: client, types: map[schema.GroupVersionResource]*typeWatch{}}
}

// typeWatch is a list-watch of one type for all consumers that want the type. If another consumer wants it, or one wants more fields, a new
// list-watch replaces this one.
type typeWatch struct {
	hub      *Hub
	resource schema.GroupVersionResource
	cancel   context.CancelFunc // ends the list-watch
	done     chan struct{}      // closed when the list-watch has ended
	// subscriptions has one subscription for each consumer. It never changes. Those of whole objects come last.
	subscriptions []*subscription
	// consistent reports whether each list must be at least as recent as its request: a consumer wants that, or the list-watch replaced
	// another one, so that no sink gets older objects than it has.
	consistent bool
	// unwatchable reports whether the last watch request was refused. Lists are not passed to the sinks then, because they would soon be out
	// of date.
	unwatchable atomic.Bool
	// relist reports whether the last list was not passed to the sinks because of unwatchable. The next list then requests no resource
	// version: an API server's watch cache may not reach the version of the last list until something changes, and clients would retry for
	// most of a minute.
	relist atomic.Bool

	mu sync.Mutex
	// streaming is how long the last watch that began with all objects could last; 0 once all objects of one have come. Each one that ends
	// before may be followed by one of twice that time.
	streaming time.Duration
	// watch is the last watch that was opened, so that reopen can stop it; nil if there was none, or reopen has stopped it.
	watch watch.Interface

	// cutting is acquired while the objects of a list are cut. The reflector lists in a goroutine that may outlive it.
	cutting *semaphore.Weighted
}

// subscribe starts a new list-watch of a view's type. It sends the given fields to the view, and to all other views of the type what they
// already receive. It does nothing if ctx has ended.
func (h *Hub) subscribe(ctx context.Context, v *view, fields *projection.FieldSet) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	previous := h.types[v.resource]
	// The content of the other sinks must not be replaced by an older one.
	t := &typeWatch{hub: h, resource: v.resource, done: make(chan struct{}), cutting: semaphore.NewWeighted(1), consistent: previous != nil}
	if previous != nil {
		previous.cancel()
		for _, s := range previous.subscriptions {
			if s.active() && s.view != v {
				t.subscriptions = append(t.subscriptions, &subscription{s.view, s.fields, s.kept})
			}
		}
	}
	t.subscriptions = append(t.subscriptions, newSubscription(v, fields))
	slices.SortStableFunc(t.subscriptions, func(a, b *subscription) int { return a.rank() - b.rank() })
	for _, s := range t.subscriptions {
		s.current.Store(s)
		t.consistent = t.consistent || s.consumer.Consistent
	}
	h.types[v.resource] = t
	// The list-watch may outlive the consumer that started it.
	ctx, t.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go t.run(ctx, previous)
}

// unsubscribe ends a view's subscription, and the list-watch if no other subscription is active. It does not wait for a call of the sink to
// return.
func (h *Hub) unsubscribe(v *view) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v.current.Store(nil)
	if t := h.types[v.resource]; t != nil && !slices.ContainsFunc(t.subscriptions, (*subscription).active) {
		t.cancel()
	}
}

// reopen ends the watch on a type. The reflector then watches again from its last resource version. If the API server accepts that, the
// content of the sinks is confirmed. A watch that has not received all objects yet goes on: it would have to begin again.
func (h *Hub) reopen(resource schema.GroupVersionResource) {
	h.mu.Lock()
	t := h.types[resource]
	h.mu.Unlock()
	if t == nil {
		return
	}
	t.mu.Lock()
	var w watch.Interface
	if t.streaming == 0 {
		w, t.watch = t.watch, nil
	}
	t.mu.Unlock()
	if w != nil {
		w.Stop()
	}
}

// The delay between two attempts to read a type grows from minBackoff to maxBackoff.
const (
	minBackoff = 200 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// maxStreaming is how long a watch that begins with all objects may last at most.
const maxStreaming = time.Hour

// run lists and watches the type until ctx ends. It begins when the previous list-watch of the type, if any, has ended and cuts no more
// objects, so that sinks receive changes in their order.
func (t *typeWatch) run(ctx context.Context, previous *typeWatch) {
	defer close(t.done)
	if previous != nil {
		<-previous.done
	}
	log := ctrllog.FromContext(ctx).WithName("watches").WithValues("resource", t.resource.String())
	log.V(2).Info("Starting watch")
	lw := &cache.ListWatch{ListWithContextFunc: t.list, WatchFuncWithContext: t.open}
	reflector := cache.NewReflectorWithOptions(lw, &unstructured.Unstructured{}, sinkStore{t}, cache.ReflectorOptions{
		Name:            "berth",
		TypeDescription: t.resource.String(),
		Backoff:         &wait.Backoff{Duration: minBackoff, Factor: 2, Jitter: 0.2, Steps: 10, Cap: maxBackoff},
	})
	reflector.RunWithContext(ctx)
	// A list that is cut after this finds that ctx has ended. Acquire fails only if its context ends.
	_ = t.cutting.Acquire(context.WithoutCancel(ctx), 1)
	defer t.cutting.Release(1)
	log.V(2).Info("Stopped watch")
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	if t.hub.types[t.resource] == t {
		delete(t.hub.types, t.resource)
	}
}

// list lists the type, and returns a list of cutObjects, one for each object.
func (t *typeWatch) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if t.relist.Swap(false) || t.consistent && o.ResourceVersion == "0" {
		o.ResourceVersion = ""
	}
	list, err := t.hub.client.Resource(t.resource).List(ctx, o)
	if err != nil {
		t.failed(ctx, err)
		return nil, err
	}
	out := &internalversion.List{Items: make([]runtime.Object, len(list.Items))}
	out.ResourceVersion, out.Continue = list.GetResourceVersion(), list.GetContinue()
	if err := t.cutting.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer t.cutting.Release(1)
	for i := range list.Items {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// A copy, so that one item does not keep the others in memory.
		object := list.Items[i]
		out.Items[i] = t.cut(&object, (*subscription).pack)
	}
	return out, nil
}

// open requests a watch. If the API server accepts it but refused the one before, open ends it and returns an error, so that the reflector
// lists the type again, unless the watch itself begins with all objects.
func (t *typeWatch) open(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	initial := ptr.Deref(o.SendInitialEvents, false)
	if initial {
		// The reflector asks for 5 to 10 minutes. If the API server has not sent all objects by then, as happens with a million, the reflector
		// begins again, each time.
		asked := time.Duration(ptr.Deref(o.TimeoutSeconds, 0)) * time.Second
		t.mu.Lock()
		t.streaming = min(max(2*t.streaming, asked), maxStreaming)
		o.TimeoutSeconds = new(int64(t.streaming.Seconds()))
		t.mu.Unlock()
	}
	w, err := t.hub.client.Resource(t.resource).Watch(ctx, o)
	if err != nil {
		t.failed(ctx, err)
		t.unwatchable.Store(t.unwatchable.Load() || unavailable(err))
		return nil, err
	}
	if t.unwatchable.Swap(false) && !initial {
		w.Stop()
		t.relist.Store(true)
		return nil, errors.New("no failure: the type, which could not be watched before, is listed again and then watched")
	}
	t.mu.Lock()
	t.watch = w
	t.mu.Unlock()
	if !initial {
		// The watch continues from the current content, so it confirms that the API server will send all changes since.
		t.deliver(func(*subscription, int) {})
	}
	return w, nil
}

// failed tells the subscriptions the error of a request, unless the list-watch was ended or the error is normal for a watch.
func (t *typeWatch) failed(ctx context.Context, err error) {
	if ctx.Err() != nil || needsRelist(err) {
		return
	}
	ctrllog.FromContext(ctx).WithName("watches").V(2).Info("Watch failed", "resource", t.resource.String(), "error", err.Error())
	for _, s := range t.subscriptions {
		s.failed(err)
	}
}

// deliver calls f with each active subscription and its index, and records that the API server confirmed the content of its sink.
func (t *typeWatch) deliver(f func(s *subscription, i int)) {
	for i, s := range t.subscriptions {
		s.call(func() {
			s.confirm()
			f(s, i)
		})
	}
}

// needsRelist reports whether an error of the API server has the reason Expired, Gone, or Invalid, for example because the resource version
// of a watch is too old. These are normal: the reflector then lists again and continues. It returns false for other errors, also for a bad
// request.
func needsRelist(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err)
}

// cutObject has, for each subscription of a list-watch in their order, what its sink gets: the projection of the object or, in a list, what
// pack returned for the projection. It is nil for a subscription that had ended.
type cutObject struct{ projections []any }

// GetObjectKind implements runtime.Object, so that a list can contain it. Nothing reads the kind.
func (cutObject) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. Projections are never modified.
func (c cutObject) DeepCopyObject() runtime.Object { return c }

// cut cuts an object for each active subscription, and keeps what keep returns for the projection. The projections for all
// subscriptions but the last are copies. So the only consumer of a type causes no copy.
func (t *typeWatch) cut(o *unstructured.Unstructured, keep func(*subscription, *unstructured.Unstructured) any) cutObject {
	out := cutObject{make([]any, len(t.subscriptions))}
	last := len(t.subscriptions) - 1
	for last > 0 && !t.subscriptions[last].active() {
		last--
	}
	for i, s := range t.subscriptions[:last] {
		if s.active() {
			out.projections[i] = keep(s, s.copy(o))
		}
	}
	t.subscriptions[last].take(o)
	out.projections[last] = keep(t.subscriptions[last], o)
	return out
}

// sinkStore is the store of a reflector. It passes what the reflector reads to the sinks. Every object is cut before anything stores it,
// also the pages of a list and the temporary store for a streamed list.
type sinkStore struct{ *typeWatch }

var (
	_ cache.TransformingStore      = sinkStore{}
	_ cache.ReflectorBookmarkStore = sinkStore{}
)

// Transformer implements cache.TransformingStore. It cuts the objects of a streamed list.
func (s sinkStore) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		o, err := as[*unstructured.Unstructured](obj)
		if err != nil {
			return nil, err
		}
		return s.cut(o, (*subscription).pack), nil
	}
}

// Add implements cache.ReflectorStore. It passes a new object to the sinks.
func (s sinkStore) Add(obj any) error { return s.put(obj) }

// Update implements cache.ReflectorStore. It passes a changed object to the sinks.
func (s sinkStore) Update(obj any) error { return s.put(obj) }

// put cuts an object that was added or changed, and passes it to the sinks.
func (s sinkStore) put(obj any) error {
	o, err := as[*unstructured.Unstructured](obj)
	if err != nil {
		return err
	}
	projections := s.cut(o, func(_ *subscription, projection *unstructured.Unstructured) any { return projection }).projections
	s.deliver(func(s *subscription, i int) {
		s.consumer.sink.Put(s.resource, projections[i].(*unstructured.Unstructured))
	})
	return nil
}

// Delete implements cache.ReflectorStore. It tells the sinks the namespace and name of an object that was deleted. The object must be an
// *unstructured.Unstructured; any other type is an error.
func (s sinkStore) Delete(obj any) error {
	o, err := as[*unstructured.Unstructured](obj)
	if err != nil {
		return err
	}
	s.deliver(func(s *subscription, _ int) { s.consumer.sink.Delete(s.resource, o.GetNamespace(), o.GetName()) })
	return nil
}

// Bookmark implements cache.ReflectorBookmarkStore. A bookmark confirms that nothing has changed.
func (s sinkStore) Bookmark(string) error {
	s.deliver(func(*subscription, int) {})
	return nil
}

// Replace implements cache.ReflectorStore. It passes the cutObjects of a list to the sinks. If the last watch request was refused, it
// passes nothing and returns nil. Its only error is an object that is no cutObject.
func (s sinkStore) Replace(list []any, _ string) error {
	objects := make([]cutObject, len(list))
	for i, obj := range list {
		var err error
		if objects[i], err = as[cutObject](obj); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.streaming = 0
	s.mu.Unlock()
	if s.unwatchable.Load() {
		return nil
	}
	for i, to := range s.subscriptions {
		to.replace(func() []any {
			out := make([]any, len(objects))
			for j, o := range objects {
				out[j] = o.projections[i]
			}
			return out
		})
	}
	return nil
}

// Resync implements cache.ReflectorStore. It does nothing because sinks keep their objects.
func (sinkStore) Resync() error { return nil }

// as returns an object as the type T, or an error if it has another type.
func as[T any](obj any) (T, error) {
	o, ok := obj.(T)
	if !ok {
		return o, fmt.Errorf("object of an unexpected type %T", obj)
	}
	return o, nil
}
