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

package simulation

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/klog/v2"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/watches"
)

// Watched is a live cluster that keeps the lists that were read and, after Follow, applies their changes, so that the next simulation need
// not list everything again. It keeps only the fields that were requested, and no history. It does not find types that are installed later.
type Watched struct {
	*Live

	// listing is held during List, so that no type is read twice at the same time.
	listing sync.Mutex

	mu sync.Mutex
	// following is the context of the last call of Follow; nil before.
	following context.Context
	lists     map[schema.GroupVersionResource]*watchedList // the lists that were read
	changes   int                                          // how often a list changed, lost changes, or began to be polled
	next      chan struct{}                                // closed at the next change

	pollInterval time.Duration // PollInterval, or shorter in tests
}

var _ Cluster = (*Watched)(nil)

// watchedList has the objects of one type. The field mu of the Watched guards it.
type watchedList struct {
	fields *projection.FieldSet // the fields that the objects have; nil for all
	// version is the resource version of the last change that the objects have.
	version string
	objects map[types.NamespacedName]*unstructured.Unstructured
	// sorted has the objects sorted by namespace and name; nil if they have changed since.
	sorted []*unstructured.Unstructured
	// outdated reports whether the API server no longer has the changes after the version.
	outdated bool
	// polled reports whether the type is listed again at intervals, because the user may not watch it, or the API server can't.
	polled bool
	// stop ends the goroutine that follows changes; nil if there was none.
	stop context.CancelFunc
}

// NewWatched returns a cluster that keeps each list as it was first read from l, and follows no changes before Follow.
func NewWatched(l *Live) *Watched {
	return &Watched{Live: l, lists: map[schema.GroupVersionResource]*watchedList{}, next: make(chan struct{}), pollInterval: PollInterval}
}

// Changes returns the number of changes of the kept lists so far, and a channel that is closed at the next one.
func (w *Watched) Changes() (n int, next <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changes, w.next
}

// changed counts a change, and closes the channel that Changes returned. The caller holds mu.
func (w *Watched) changed() {
	w.changes++
	close(w.next)
	w.next = make(chan struct{})
}

// Follow makes the cluster follow the changes of all types that were or will be listed, until the context ends.
func (w *Watched) Follow(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.following = ctx
	for resource, list := range w.lists {
		w.start(ctx, resource, list)
	}
}

// start starts the goroutine that follows changes of a list, until the context ends or another list replaces it. The caller holds mu.
func (w *Watched) start(ctx context.Context, resource schema.GroupVersionResource, list *watchedList) {
	list.end()
	ctx, list.stop = context.WithCancel(ctx)
	go w.follow(ctx, resource, list)
}

// end ends the goroutine that follows changes of the list. The caller holds the mutex of the Watched.
func (l *watchedList) end() {
	if l.stop != nil {
		l.stop()
	}
}

// Policies returns all PlacementPolicies, with the changes so far if the cluster follows them.
func (w *Watched) Policies(ctx context.Context) ([]placementv1.PlacementPolicy, error) {
	return policiesOf(w.List(ctx, placementPolicies, nil))
}

// List returns the kept objects of a type, sorted by namespace and name. It reads them from the API server if they were not read before, if
// fields are needed that the kept objects lack, or if changes were lost.
func (w *Watched) List(ctx context.Context, resource schema.GroupVersionResource,
	fields *projection.FieldSet) ([]*unstructured.Unstructured, error) {
	w.listing.Lock()
	defer w.listing.Unlock()
	w.mu.Lock()
	known := w.lists[resource]
	if known != nil && !known.outdated && (known.fields == nil || fields != nil && known.fields.Covers(fields)) {
		defer w.mu.Unlock()
		return valid(resource, known.list()), nil
	}
	w.mu.Unlock()
	switch {
	case known == nil || fields == nil:
	case known.fields == nil:
		fields = nil
	default:
		fields = projection.Union(known.fields, fields)
	}
	objects, version, err := w.list(ctx, resource, fields)
	if err != nil {
		return nil, err
	}
	added := &watchedList{fields: fields, version: version, objects: map[types.NamespacedName]*unstructured.Unstructured{}}
	for _, obj := range objects {
		added.objects[nameOf(obj)] = obj
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if known != nil {
		known.end()
	}
	w.lists[resource] = added
	if w.following != nil && w.following.Err() == nil {
		w.start(w.following, resource, added)
	}
	return valid(resource, added.list()), nil
}

// Get returns an object, or nil if there is none: the kept one if the type was listed with all fields; otherwise, it reads from the API
// server.
func (w *Watched) Get(ctx context.Context, resource schema.GroupVersionResource, namespace,
	name string) (*unstructured.Unstructured, error) {
	w.mu.Lock()
	if list := w.lists[resource]; list != nil && list.fields == nil && !list.outdated {
		defer w.mu.Unlock()
		return list.objects[types.NamespacedName{Namespace: namespace, Name: name}], nil
	}
	w.mu.Unlock()
	return w.Live.Get(ctx, resource, namespace, name)
}

// nameOf returns the namespace and name of an object.
func nameOf(obj *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// list returns the objects, sorted by namespace and name.
func (l *watchedList) list() []*unstructured.Unstructured {
	if l.sorted == nil {
		l.sorted = slices.AppendSeq(make([]*unstructured.Unstructured, 0, len(l.objects)), maps.Values(l.objects))
		slices.SortFunc(l.sorted, func(a, b *unstructured.Unstructured) int {
			if order := strings.Compare(a.GetNamespace(), b.GetNamespace()); order != 0 {
				return order
			}
			return strings.Compare(a.GetName(), b.GetName())
		})
	}
	return l.sorted
}

// retryPause is the pause after a watch that ended with an error that may pass, such as an expired token.
const retryPause = 10 * time.Second

// follow watches or polls the type of a list, and applies the changes, until the context ends or changes are lost. A type that can't be
// watched is polled. After another error, it watches again after retryPause.
func (w *Watched) follow(ctx context.Context, resource schema.GroupVersionResource, list *watchedList) {
	for {
		err := w.watch(ctx, resource, list)
		switch {
		case ctx.Err() != nil:
			return
		case isLost(err):
			w.lose(list)
			return
		case isUnwatchable(err):
			w.poll(ctx, resource, list)
			return
		}
		if !notify.Sleep(ctx, retryPause) {
			return
		}
	}
}

// isLost reports whether an error means that the API server no longer has the changes after a resource version.
func isLost(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// errNoVersion means that the API server did not say which version a list has.
var errNoVersion = errors.New("the list has no version")

// isUnwatchable reports whether an error means that a type can be listed but not watched: the user may not watch it, the API server does
// not find it or can't watch it, or the list had no resource version to begin at.
func isUnwatchable(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err) || errors.Is(err, errNoVersion)
}

// watch watches a type, and applies the changes to a list, until an error ends the watch that opening it again does not correct. It returns
// that error, or that of ctx if ctx has ended.
func (w *Watched) watch(ctx context.Context, resource schema.GroupVersionResource, list *watchedList) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	w.mu.Lock()
	version := list.version
	w.mu.Unlock()
	open := func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		events, err := w.client.Resource(resource).Watch(ctx, o)
		if isLost(err) || isUnwatchable(err) || apierrors.IsUnauthorized(err) {
			// The RetryWatcher repeats most of these requests without end.
			end(err)
		}
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		list.polled = false
		w.mu.Unlock()
		return withBookmarks(events), nil
	}
	// The pages show that there are no updates: a log would disturb the terminal of the user.
	quiet := klog.NewContext(ctx, logr.Discard())
	events, err := watchtools.NewRetryWatcherWithContext(quiet, version, &cache.ListWatch{WatchFuncWithContext: open})
	if err != nil {
		return errNoVersion
	}
	defer func() {
		events.Stop()
		<-events.Done()
	}()
	keep := keptFields(watches.WithValidity(resource, list.fields))
	for event := range events.ResultChan() {
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		obj, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return errors.New("a watch sent an object of an unexpected type")
		}
		if keep != nil {
			obj = &unstructured.Unstructured{Object: keep.Project(obj.Object)}
		}
		w.apply(ctx, list, event.Type, obj)
	}
	return context.Cause(ctx)
}

// withBookmarks returns a watch in which each bookmark is a change of an object without a name, so that the RetryWatcher passes it on. By
// its resource version, the watch can continue later.
func withBookmarks(events watch.Interface) watch.Interface {
	passed := make(chan watch.Event)
	out := watch.NewProxyWatcher(passed)
	go func() {
		defer close(passed)
		defer events.Stop()
		for {
			var event watch.Event
			select {
			case <-out.StopChan():
				return
			case received, ok := <-events.ResultChan():
				if !ok {
					return
				}
				event = received
			}
			if event.Type == watch.Bookmark {
				event.Type = watch.Modified
			}
			select {
			case <-out.StopChan():
				return
			case passed <- event:
			}
		}
	}()
	return out
}

// apply applies an event to a list, unless the context has ended, because another goroutine may follow the type then.
func (w *Watched) apply(ctx context.Context, list *watchedList, kind watch.EventType, obj *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	list.version = obj.GetResourceVersion()
	name := nameOf(obj)
	known := list.objects[name]
	switch {
	case name.Name == "":
		// A bookmark has only a version.
		return
	case kind == watch.Deleted && known == nil, kind != watch.Deleted && known != nil && same(known, obj):
		return
	case kind == watch.Deleted:
		delete(list.objects, name)
	default:
		list.objects[name] = obj
	}
	list.sorted = nil
	w.changed()
}

// lose marks a list as outdated, so that the next List lists the type again, and counts a change. The caller must not hold mu.
func (w *Watched) lose(list *watchedList) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list.outdated = true
	w.changed()
}

// PollInterval is how often a type is listed again that can't be watched.
const PollInterval = time.Minute

// Polled returns, sorted, the types that are listed again at intervals, because the user may not watch them, or the API server can't.
func (w *Watched) Polled() []schema.GroupResource {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []schema.GroupResource
	for resource, list := range w.lists {
		if list.polled {
			out = append(out, resource.GroupResource())
		}
	}
	slices.SortFunc(out, func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// poll lists the type of a list again every pollInterval until the context ends. After an error, the list stays as it was read.
func (w *Watched) poll(ctx context.Context, resource schema.GroupVersionResource, list *watchedList) {
	w.mu.Lock()
	if !list.polled {
		// The next reading says so.
		list.polled = true
		w.changed()
	}
	w.mu.Unlock()
	tick := time.NewTicker(w.pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if objects, version, err := w.list(ctx, resource, list.fields); err == nil {
			w.replace(ctx, list, objects, version)
		}
		// Otherwise, the list stays as it was read.
	}
}

// replace replaces the objects of a list by those of a new list, unless the context has ended.
func (w *Watched) replace(ctx context.Context, list *watchedList, objects []*unstructured.Unstructured, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	list.version = version
	changed := len(objects) != len(list.objects)
	next := make(map[types.NamespacedName]*unstructured.Unstructured, len(objects))
	for _, obj := range objects {
		name := nameOf(obj)
		if known := list.objects[name]; known != nil && same(known, obj) {
			obj = known
		} else {
			changed = true
		}
		next[name] = obj
	}
	if changed {
		list.objects, list.sorted = next, nil
		w.changed()
	}
}

// same reports whether two versions of an object differ at most in fields that no simulation reads: resourceVersion and managedFields.
func same(a, b *unstructured.Unstructured) bool {
	version := a.GetResourceVersion()
	content := func(obj *unstructured.Unstructured) map[string]any {
		out := maps.Clone(obj.Object)
		if metadata, ok := out["metadata"].(map[string]any); ok {
			metadata = maps.Clone(metadata)
			delete(metadata, "managedFields")
			delete(metadata, "resourceVersion")
			out["metadata"] = metadata
		}
		return out
	}
	return version == b.GetResourceVersion() || equality.Semantic.DeepEqual(content(a), content(b))
}
