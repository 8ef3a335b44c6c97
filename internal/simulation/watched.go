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

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/watches"
)

// Watched is a live cluster that keeps the lists that were read, and follows their changes when its caller wants that, so that the next
// simulation does not list everything again. It keeps the fields of objects that were asked for, and no history. It finds types that are
// installed later only if it is made again.
type Watched struct {
	*Live

	// listing is held while a type is listed.
	listing sync.Mutex

	mu sync.Mutex
	// following is the context of the last call of Follow.
	following context.Context
	lists     map[schema.GroupVersionResource]*watchedList
	changes   int
	next      chan struct{}
}

var _ Cluster = (*Watched)(nil)

// watchedList are the objects of a type. The mutex of the Watched guards it.
type watchedList struct {
	fields *projection.FieldSet
	// version is the resource version up to which the objects are known.
	version string
	objects map[types.NamespacedName]*unstructured.Unstructured
	// sorted are the objects in a stable order; nil if they have changed.
	sorted []*unstructured.Unstructured
	// outdated reports whether the API server no longer has the changes after the version.
	outdated bool
}

// NewWatched returns the cluster. It follows nothing before Follow.
func NewWatched(l *Live) *Watched {
	return &Watched{Live: l, lists: map[schema.GroupVersionResource]*watchedList{}, next: make(chan struct{})}
}

// Changes returns the number of changes so far, and a channel that is closed at the next one.
func (w *Watched) Changes() (n int, next <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changes, w.next
}

// changed counts a change. The caller holds mu.
func (w *Watched) changed() {
	w.changes++
	close(w.next)
	w.next = make(chan struct{})
}

// Follow follows the changes of all types that were listed, or will be, until the context ends.
func (w *Watched) Follow(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.following = ctx
	for resource, list := range w.lists {
		go w.watch(ctx, resource, list)
	}
}

// Policies implements Cluster.
func (w *Watched) Policies(ctx context.Context) ([]placementv1.PlacementPolicy, error) {
	return policiesOf(w.List(ctx, placementPolicies, nil))
}

// List implements Cluster. It lists a type again if more fields are needed than before, or if its changes were lost.
func (w *Watched) List(ctx context.Context, resource schema.GroupVersionResource, fields *projection.FieldSet) ([]*unstructured.Unstructured, error) {
	w.listing.Lock()
	defer w.listing.Unlock()
	w.mu.Lock()
	known := w.lists[resource]
	if known != nil && !known.outdated && (known.fields == nil || fields != nil && known.fields.Covers(fields)) {
		defer w.mu.Unlock()
		return valid(resource, known.list()), nil
	}
	w.mu.Unlock()
	if known != nil && fields != nil {
		if fields = projection.Union(known.fields, fields); known.fields == nil {
			fields = nil
		}
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
	w.lists[resource] = added
	if w.following != nil && w.following.Err() == nil {
		go w.watch(w.following, resource, added)
	}
	return valid(resource, added.list()), nil
}

func nameOf(obj *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// list returns the objects in a stable order.
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

// The pauses after a watch that failed: the first one, and the longest.
const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// watch follows a list until the context ends, another list of the type replaces it, or its changes are lost.
func (w *Watched) watch(ctx context.Context, resource schema.GroupVersionResource, list *watchedList) {
	keep := keptFields(watches.WithValidity(resource, list.fields))
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		w.mu.Lock()
		version, current := list.version, w.lists[resource] == list && !list.outdated
		w.mu.Unlock()
		if !current || ctx.Err() != nil {
			return
		}
		events, err := w.client.Resource(resource).Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
		if err == nil {
			var received bool
			received, err = w.apply(ctx, resource, list, keep, events)
			events.Stop()
			if received {
				pause = firstPause
			}
		}
		switch {
		case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			w.lose(list)
			return
		case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
			// The list stays as it was read.
			return
		}
		if !notify.Sleep(ctx, pause) {
			return
		}
	}
}

// lose marks a list whose changes are lost, so that it is read again.
func (w *Watched) lose(list *watchedList) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list.outdated = true
	w.changed()
}

// apply applies the events of a watch to a list until the watch ends. received reports whether there was one.
func (w *Watched) apply(
	ctx context.Context, resource schema.GroupVersionResource, list *watchedList, keep *projection.FieldSet, events watch.Interface,
) (received bool, err error) {
	for event := range events.ResultChan() {
		if event.Type == watch.Error {
			return received, apierrors.FromObject(event.Object)
		}
		obj, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return received, errors.New("a watch sent an object of an unexpected type")
		}
		received = true
		if event.Type != watch.Bookmark && keep != nil {
			obj = &unstructured.Unstructured{Object: keep.Project(obj.Object)}
		}
		if !w.applyOne(ctx, resource, list, event.Type, obj) {
			return received, nil
		}
	}
	return received, nil
}

// applyOne applies an event. It reports false if the context has ended, or if another list has replaced this one.
func (w *Watched) applyOne(
	ctx context.Context, resource schema.GroupVersionResource, list *watchedList, kind watch.EventType, obj *unstructured.Unstructured,
) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil || w.lists[resource] != list {
		return false
	}
	list.version = obj.GetResourceVersion()
	name := nameOf(obj)
	switch kind {
	case watch.Added, watch.Modified:
		if known := list.objects[name]; known != nil && same(known, obj) {
			return true
		}
		list.objects[name] = obj
	case watch.Deleted:
		if list.objects[name] == nil {
			return true
		}
		delete(list.objects, name)
	default:
		// A bookmark has only a version.
		return true
	}
	list.sorted = nil
	w.changed()
	return true
}

// same reports whether two versions of an object differ in nothing that a simulation reads.
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
