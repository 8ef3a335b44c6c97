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

// Hub runs one list-watch for each resource type that at least one of its consumers wants. It decodes an object once,
// and gives each consumer its own projection. It keeps no objects. It is safe for concurrent use.
type Hub struct {
	client dynamic.Interface

	mu sync.Mutex
	// types holds the newest list-watch of each type, until it has ended.
	types map[schema.GroupVersionResource]*typeWatch
}

// NewHub returns a hub that reads from client.
func NewHub(client dynamic.Interface) *Hub {
	return &Hub{client: client, types: map[schema.GroupVersionResource]*typeWatch{}}
}

// typeWatch is a list-watch of one type. If a consumer joins the type or wants more fields, another list-watch replaces
// it.
type typeWatch struct {
	hub      *Hub
	resource schema.GroupVersionResource
	cancel   context.CancelFunc
	done     chan struct{}
	// subscriptions never changes. Those that are for whole objects come last.
	subscriptions []*subscription
	// consistent makes each list at least as recent as its request.
	consistent bool
	// unwatchable is set if the last watch request was refused. A list without a watch would soon be out of date, so it
	// is withheld until a watch succeeds.
	unwatchable atomic.Bool
	// relist is set if the last list was withheld. The next list then requests no resource version: an API server's watch
	// cache may not reach the version of the last list until something changes, and clients would retry for most of a
	// minute.
	relist atomic.Bool

	mu sync.Mutex
	// watch is the current watch, or nil.
	watch watch.Interface
}

// subscribe starts a list-watch that sends a type to a view with the given fields, and to all other views that have the
// type as before. It does nothing if ctx ended.
func (h *Hub) subscribe(ctx context.Context, v *view, fields *projection.FieldSet) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	previous := h.types[v.resource]
	// The content of the other sinks must not be replaced by an older one.
	t := &typeWatch{hub: h, resource: v.resource, done: make(chan struct{}), consistent: previous != nil}
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

// unsubscribe ends a view's subscription, and the list-watch if the view was the last. It does not wait for a call of
// the sink to return.
func (h *Hub) unsubscribe(v *view) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v.current.Store(nil)
	if t := h.types[v.resource]; t != nil && !slices.ContainsFunc(t.subscriptions, (*subscription).active) {
		t.cancel()
	}
}

// reopen ends the watch on a type. The reflector watches again from its last resource version. If the API server
// accepts that, the content is confirmed.
func (h *Hub) reopen(resource schema.GroupVersionResource) {
	h.mu.Lock()
	t := h.types[resource]
	h.mu.Unlock()
	if t == nil {
		return
	}
	t.mu.Lock()
	w := t.watch
	t.watch = nil
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

// run lists and watches the type until ctx ends. It begins when the previous list-watch has ended, so that sinks receive
// changes in their order.
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
	log.V(2).Info("Stopped watch")
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	if t.hub.types[t.resource] == t {
		delete(t.hub.types, t.resource)
	}
}

// list lists the type, and cuts the objects for each consumer.
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
	for i := range list.Items {
		// A copy, so that one item does not keep the others in memory.
		object := list.Items[i]
		out.Items[i] = t.cut(&object)
	}
	return out, nil
}

// open opens a watch.
func (t *typeWatch) open(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := t.hub.client.Resource(t.resource).Watch(ctx, o)
	if err != nil {
		t.failed(ctx, err)
		t.unwatchable.Store(t.unwatchable.Load() || unavailable(err))
		return nil, err
	}
	initial := ptr.Deref(o.SendInitialEvents, false)
	if t.unwatchable.Swap(false) && !initial {
		w.Stop()
		t.relist.Store(true)
		return nil, errors.New("listing again: the type can be watched now, and could not be before")
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

// failed records the error of a request, unless the list-watch ended or continues after that error.
func (t *typeWatch) failed(ctx context.Context, err error) {
	if ctx.Err() != nil || needsRelist(err) {
		return
	}
	ctrllog.FromContext(ctx).WithName("watches").V(2).Info("Watch failed", "resource", t.resource.String(), "error", err.Error())
	for _, s := range t.subscriptions {
		s.failed(err)
	}
}

// deliver confirms the content of each active subscription and calls f with the subscription and its index.
func (t *typeWatch) deliver(f func(s *subscription, i int)) {
	for i, s := range t.subscriptions {
		s.call(func() {
			s.confirm()
			f(s, i)
		})
	}
}

// needsRelist reports whether an error is normal for a watch. The reflector then lists again and continues.
func needsRelist(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err)
}

// cutObject is an object with its projections for the subscriptions of a list-watch, in their order. The projection for
// a subscription that ended may be nil.
type cutObject struct {
	*unstructured.Unstructured
	projections []*unstructured.Unstructured
}

// cut cuts an object for each active subscription, which then owns its projection. The projections for all subscriptions
// but the last are copies. So the only consumer of a type causes no copy.
func (t *typeWatch) cut(o *unstructured.Unstructured) cutObject {
	out := cutObject{o, make([]*unstructured.Unstructured, len(t.subscriptions))}
	last := len(t.subscriptions) - 1
	for last > 0 && !t.subscriptions[last].active() {
		last--
	}
	for i, s := range t.subscriptions[:last] {
		if s.active() {
			out.projections[i] = s.copy(o)
		}
	}
	t.subscriptions[last].take(o)
	out.projections[last] = o
	return out
}

// sinkStore passes what a reflector reads to the sinks. Every object is cut before anything stores it. This includes the
// pages of a list, and the temporary store of a reflector for a streamed list.
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
		return s.cut(o), nil
	}
}

// Add implements cache.ReflectorStore.
func (s sinkStore) Add(obj any) error { return s.put(obj) }

// Update implements cache.ReflectorStore.
func (s sinkStore) Update(obj any) error { return s.put(obj) }

func (s sinkStore) put(obj any) error {
	o, err := as[*unstructured.Unstructured](obj)
	if err != nil {
		return err
	}
	projections := s.cut(o).projections
	s.deliver(func(s *subscription, i int) { s.consumer.sink.Put(s.resource, projections[i]) })
	return nil
}

// Delete implements cache.ReflectorStore.
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

// Replace implements cache.ReflectorStore. The objects were cut before.
func (s sinkStore) Replace(list []any, _ string) error {
	objects := make([]cutObject, len(list))
	for i, obj := range list {
		var err error
		if objects[i], err = as[cutObject](obj); err != nil {
			return err
		}
	}
	if s.unwatchable.Load() {
		return nil
	}
	for i, to := range s.subscriptions {
		to.replace(func() []*unstructured.Unstructured {
			out := make([]*unstructured.Unstructured, len(objects))
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

func as[T any](obj any) (T, error) {
	o, ok := obj.(T)
	if !ok {
		return o, fmt.Errorf("object of type %T", obj)
	}
	return o, nil
}
