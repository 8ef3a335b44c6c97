package remote

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/replication"
)

// record is one object as engines get it. It is immutable.
type record struct {
	// own is its text in JSON, and normal that of its normal form; nil if it has none.
	own, normal []byte
	// cluster is the name of the cluster that it stands for; empty for none.
	cluster string
}

func keyOfObject(o *unstructured.Unstructured) objectKey {
	return objectKey{o.GetNamespace(), o.GetName()}
}

// object returns the text of a prepared object.
func (s *Supply) object(resource schema.GroupVersionResource, o *unstructured.Unstructured) *record {
	own, normal := replication.Parts(o.Object)
	out := &record{own: text(own)}
	if normal != nil {
		out.normal = text(normal)
		if _, ok := s.ranks[resource]; ok {
			out.cluster, _ = normal["name"].(string)
		}
	}
	return out
}

// text is a value in JSON.
func text(value any) []byte {
	// What was read of JSON can be written as such.
	out, _ := json.Marshal(value)
	return out
}

func (o *record) equal(other *record) bool {
	return o == other || o != nil && other != nil && bytes.Equal(o.own, other.own) && bytes.Equal(o.normal, other.normal)
}

// size is about how many bytes it takes to send.
func (o *record) size() int {
	if o == nil {
		return changeBytes
	}
	return 2*len(o.own) + len(o.normal) + changeBytes
}

const (
	// changeBytes is about what a change takes beside the object, and two places' operations for it.
	changeBytes = 512
	// maxBody bounds the text of the objects in a request, in bytes, where there are several.
	maxBody = 4 << 20
	// maxWindows bounds a backlog, in requests of that size.
	maxWindows = 4
)

// backlog are the changes that an engine does not have yet, in their order. What is in one window goes out as one
// transaction, so that of an object that changed repeatedly the last state is enough; across windows nothing is left
// out. Types whose changes are too many for all that are noted, to be loaded anew.
type backlog struct {
	limit, window int
	// follows are the types whose changes are gathered: they were loaded, or are being so, with all changes before.
	follows map[schema.GroupVersionResource]bool
	windows []*window
	bytes   int
}

// window are changes that go out together.
type window struct {
	changes map[changeKey]*record
	bytes   int
}

type changeKey struct {
	resource schema.GroupVersionResource
	objectKey
}

// newBacklog returns one without changes. A window is closed when it has so many bytes.
func newBacklog(window int) backlog {
	return backlog{limit: maxWindows * window, window: window, follows: map[schema.GroupVersionResource]bool{}}
}

// add notes what changed at once in a type, by object; nil stands for an object's end. It is not divided.
func (b *backlog) add(resource schema.GroupVersionResource, changes map[objectKey]*record) {
	if !b.follows[resource] || len(changes) == 0 {
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
		if standing, ok := last.changes[at]; ok {
			last.bytes -= standing.size()
		}
		last.changes[at] = o
		last.bytes += o.size()
	}
	if b.bytes += last.bytes - before; b.bytes > b.limit {
		// Types that are no longer followed are loaded anew.
		for _, w := range b.windows {
			for at := range w.changes {
				delete(b.follows, at.resource)
			}
		}
		b.windows, b.bytes = nil, 0
	}
}

// drop stops to follow a type.
func (b *backlog) drop(resource schema.GroupVersionResource) {
	delete(b.follows, resource)
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

// take returns the first window, nil if there is none.
func (b *backlog) take() *window {
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

func (b *backlog) len() int {
	out := 0
	for _, w := range b.windows {
		out += len(w.changes)
	}
	return out
}

// all are the changes by type and name.
func (w *window) all() iter.Seq2[changeKey, *record] {
	return func(yield func(changeKey, *record) bool) {
		for _, at := range slices.SortedFunc(maps.Keys(w.changes), func(a, b changeKey) int {
			return cmp.Or(strings.Compare(typeName(a.resource), typeName(b.resource)), compareKeys(a.objectKey, b.objectKey))
		}) {
			if !yield(at, w.changes[at]) {
				return
			}
		}
	}
}

// types are those of the changes.
func (w *window) types() map[schema.GroupVersionResource]bool {
	out := map[schema.GroupVersionResource]bool{}
	for at := range w.changes {
		out[at.resource] = true
	}
	return out
}

// named is an object and its name.
type named struct {
	objectKey
	*record
}

// portions are the objects in order of their names, in lists of which none has more than a number of bytes if it has more
// than one object. There is at least one list.
func portions(objects map[objectKey]*record, limit int) [][]named {
	out := [][]named{nil}
	bytes := 0
	for _, key := range slices.SortedFunc(maps.Keys(objects), compareKeys) {
		o := objects[key]
		last := &out[len(out)-1]
		if bytes += o.size(); bytes > limit && len(*last) > 0 {
			out = append(out, nil)
			last, bytes = &out[len(out)-1], o.size()
		}
		*last = append(*last, named{key, o})
	}
	return out
}
