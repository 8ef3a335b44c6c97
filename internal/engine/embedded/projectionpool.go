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

package embedded

import (
	"crypto/sha256"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
)

// projectedObject is the projection of an object in its own form and, for an object that represents a cluster or a quota, also in its
// normal form. Objects with the same projection share one value. It is immutable except for uses, which belongs to the writer.
type projectedObject struct {
	// terms are the projections of the two forms; nil for a form that the object does not have.
	terms [forms]*ast.Term

	// key identifies the projection.
	key  digest
	uses int // how many objects share the projection
}

// digest is the first half of the SHA-256 of a projection's key. It replaces the key, because the key of a whole object
// would be as large as the object. Collisions are not expected.
type digest [sha256.Size / 2]byte

// projectionPool keeps one copy of each distinct projection of a type's objects. Only the type's writer uses it.
type projectionPool struct {
	// fields are the fields that are kept of each form, by form; an empty set, and not nil, for a form without any.
	fields [forms]*projection.FieldSet
	known  map[digest]*projectedObject // by their keys
	key    []byte                      // a buffer for the key of a projection
	bytes  int64                       // an estimate of the memory of all projections
}

func newProjectionPool(fields *projection.FieldSet) *projectionPool {
	out := &projectionPool{known: map[digest]*projectedObject{}}
	out.fields[ownForm], out.fields[normalForm] = fields, replication.FieldsOfNormal(fields)
	return out
}

// acquire returns the projection of a prepared object and adds one use of it.
func (s *projectionPool) acquire(object map[string]any) *projectedObject {
	var parts [forms]map[string]any
	parts[ownForm], parts[normalForm] = replication.Parts(object)
	s.key = s.key[:0]
	for side, part := range parts {
		if part == nil {
			continue
		}
		// AppendKey fails only for values that JSON can't represent. Objects come from JSON, so mustTerm can't fail for them
		// either.
		s.key, _ = s.fields[side].AppendKey(append(s.key, byte(side)), part)
	}
	sum := sha256.Sum256(s.key)
	key := digest(sum[:])
	out, ok := s.known[key]
	if !ok {
		out = &projectedObject{key: key}
		for side, part := range parts {
			if part != nil {
				out.terms[side] = mustTerm(s.fields[side], part)
			}
		}
		s.known[key] = out
		s.bytes += out.size()
	}
	out.uses++
	return out
}

// release removes one use of a projection. With the last use, the projection is removed from the pool.
func (s *projectionPool) release(v *projectedObject) {
	if v.uses--; v.uses == 0 {
		delete(s.known, v.key)
		s.bytes -= v.size()
	}
}

// size estimates the projection's memory in bytes.
func (v *projectedObject) size() int64 {
	sum := int64(projectedObjectBytes)
	for _, term := range v.terms {
		if term != nil {
			sum += estimateSize(term.Value)
		}
	}
	return sum
}

// mustTerm returns the projection of a document to the fields. It panics if the document is not JSON.
func mustTerm(fields *projection.FieldSet, document map[string]any) *ast.Term {
	value, err := fields.Value(document)
	if err != nil {
		panic(err)
	}
	return ast.NewTerm(value)
}

// Memory of the parts of replica data, in bytes. A test checks the sum against measurements.
const (
	// recordBytes is the size of a record and its name, including the free space in tree nodes.
	recordBytes          = 95
	projectedObjectBytes = 110
	scalarBytes          = 24
	objectBytes          = 260
	memberBytes          = 48
)

// estimateSize estimates a value's memory in bytes. As a side effect it sorts the members of objects, after which
// goroutines can share them.
func estimateSize(value ast.Value) int64 {
	switch v := value.(type) {
	case ast.Object:
		sum := int64(objectBytes)
		v.Foreach(func(_, member *ast.Term) { sum += memberBytes + scalarBytes + estimateSize(member.Value) })
		return sum
	case *ast.Array:
		sum := int64(objectBytes)
		v.Foreach(func(member *ast.Term) { sum += scalarBytes + estimateSize(member.Value) })
		return sum
	case ast.String:
		return int64(scalarBytes + len(v))
	default:
		return scalarBytes
	}
}
