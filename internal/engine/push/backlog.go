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

package push

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/engine/opaclient"
)

const (
	// changeBytes estimates the size of a change apart from the object, with operations for two places.
	changeBytes = 512
	// maxBody is the maximum size in bytes of the objects in a request. A request with a single object may be larger.
	maxBody = 4 << 20
	// maxWindows is the maximum size of a backlog, in requests of size maxBody.
	maxWindows = 4
)

// backlog holds the changes that an engine does not have yet, in order. The changes of a window are pushed as one
// transaction, so only the last state of an object is kept within a window. Every window is pushed. If there are too
// many changes to keep, the backlog drops them and stops following their types. These types must be loaded again.
type backlog struct {
	// window is the maximum size of a window, in bytes. A single change that is larger has a window of its own.
	window int
	// followed are the types whose changes are collected; those of other types are ignored. Their earlier changes are loaded or are being
	// loaded. A type is removed when its changes are dropped, so that it is loaded again.
	followed map[schema.GroupVersionResource]bool
	windows  []*window // the oldest first
	bytes    int       // the total size of the windows; above maxWindows*window, all of them are dropped
}

// window is a set of changes that are pushed together.
type window struct {
	changes map[changeKey]*record // the last states of the changed objects; nil for a deleted one
	bytes   int                   // the total size of the changes
}

// changeKey identifies the object of a change.
type changeKey struct {
	resource schema.GroupVersionResource
	objectKey
}

// newBacklog returns an empty backlog. window is the maximum size in bytes of a window with more than one change.
func newBacklog(window int) backlog {
	return backlog{window: window, followed: map[schema.GroupVersionResource]bool{}}
}

// add adds changes of a type that happened together, by object; nil means that the object was deleted. They stay in one window. It does
// nothing if the type is not followed. It stops following the type if the changes do not fit in a window, and all types with changes if the
// backlog becomes too large.
func (b *backlog) add(resource schema.GroupVersionResource, changes map[objectKey]*record) {
	if !b.followed[resource] || len(changes) == 0 {
		return
	}
	size := 0
	for _, o := range changes {
		size += o.size()
	}
	if size > b.window && len(changes) > 1 {
		b.drop(resource)
		return
	}
	var last *window
	if len(b.windows) > 0 {
		last = b.windows[len(b.windows)-1]
	}
	if last == nil || last.bytes > 0 && last.bytes+size > b.window {
		last = &window{changes: map[changeKey]*record{}}
		b.windows = append(b.windows, last)
	}
	before := last.bytes
	for key, o := range changes {
		at := changeKey{resource, key}
		if existing, ok := last.changes[at]; ok {
			last.bytes -= existing.size()
		}
		last.changes[at] = o
		last.bytes += o.size()
	}
	if b.bytes += last.bytes - before; b.bytes > maxWindows*b.window {
		// Types that are not followed are loaded again.
		for _, w := range b.windows {
			for at := range w.changes {
				delete(b.followed, at.resource)
			}
		}
		b.windows, b.bytes = nil, 0
	}
}

// drop stops following a type and removes its changes.
func (b *backlog) drop(resource schema.GroupVersionResource) {
	delete(b.followed, resource)
	for _, w := range b.windows {
		for at, o := range w.changes {
			if at.resource == resource {
				delete(w.changes, at)
				w.bytes -= o.size()
				b.bytes -= o.size()
			}
		}
	}
}

// pop removes and returns the oldest window; nil if there is none.
func (b *backlog) pop() *window {
	for len(b.windows) > 0 {
		first := b.windows[0]
		b.windows = b.windows[1:]
		b.bytes -= first.bytes
		if len(first.changes) > 0 {
			return first
		}
	}
	return nil
}

// len returns the number of changes.
func (b *backlog) len() int {
	out := 0
	for _, w := range b.windows {
		out += len(w.changes)
	}
	return out
}

// sorted returns the keys of the changes, sorted by type and name.
func (w *window) sorted() []changeKey {
	return slices.SortedFunc(maps.Keys(w.changes), func(a, b changeKey) int {
		return cmp.Or(compareTypes(a.resource, b.resource), compareKeys(a.objectKey, b.objectKey))
	})
}

// compareTypes orders types by their names in the manifest (opaclient.TypeName).
func compareTypes(a, b schema.GroupVersionResource) int {
	return strings.Compare(opaclient.TypeName(a), opaclient.TypeName(b))
}

// types returns the set of the types that the window has changes of.
func (w *window) types() map[schema.GroupVersionResource]bool {
	out := map[schema.GroupVersionResource]bool{}
	for at := range w.changes {
		out[at.resource] = true
	}
	return out
}
