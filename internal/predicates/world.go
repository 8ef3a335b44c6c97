package predicates

import (
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
)

// Reads are the resource types that a World is made of, and the fields that predicates look at, sealed: nodes, the pods
// on them, and the labels of namespaces.
func Reads() map[schema.GroupVersionResource]*projection.Fields { return nil }

// World keeps nodes and the pods on them, cut to what predicates look at. Methods are safe for concurrent use; changes of
// one resource type must come from one goroutine at a time, in their order. Objects are not kept after the call. Methods
// say whether anything changed that a predicate can see.
type World struct{}

// NewWorld returns a world of which nothing is known.
func NewWorld() *World { return &World{} }

// Load makes the objects the complete content of one of the types of Reads.
func (w *World) Load(_ schema.GroupVersionResource, _ []*unstructured.Unstructured) bool {
	return false
}

// Put adds or replaces an object of a type that is complete.
func (w *World) Put(_ schema.GroupVersionResource, _ *unstructured.Unstructured) bool { return false }

// Delete removes an object.
func (w *World) Delete(_ schema.GroupVersionResource, _, _ string) bool { return false }

// Drop forgets a type: the world is not complete from then on.
func (w *World) Drop(_ schema.GroupVersionResource) bool { return false }

// Size returns the number of objects of a type; ok is false while it is not complete.
func (w *World) Size(_ schema.GroupVersionResource) (objects int, ok bool) { return 0, false }

// Revision is that of the newest snapshot; 0 while the world is not complete.
func (w *World) Revision() uint64 { return 0 }

// Snapshot returns the world as it is; an error names what is not complete.
func (w *World) Snapshot() (*Snapshot, error) { return nil, errors.New("not there yet") }
