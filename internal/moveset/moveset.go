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

// Package moveset encodes and identifies moves. A move is an object with the changes that a policy requires of it.
package moveset

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/internal/placement"
)

// ID identifies a move: it is a hash over the object, and the field, the key, and both values of each change. Identify computes it.
type ID [16]byte

// Bytes is the size of an encoded ID.
const Bytes = len(ID{})

// textBytes is a capacity that is sufficient for most encoded changes.
const textBytes = 256

// Identify returns the ID of the move that makes changes, encoded by Encode, to an object. It is the same for all versions of the resource.
func Identify(resource schema.GroupResource, namespace, name string, uid types.UID, changes string) ID {
	var buffer [2 * textBytes]byte
	text := buffer[:0]
	for _, part := range []string{resource.Group, resource.Resource, namespace, name, string(uid), changes} {
		text = appendText(text, &part)
	}
	sum := sha256.Sum256(text)
	return ID(sum[:Bytes])
}

// Set is a set of moves, such as those of a plan. It has only their IDs.
type Set struct {
	// Digest identifies the set: equal sets have the same digest, in any process. It has the first 16 bytes of the SHA-256 hash over the
	// sorted IDs, in hexadecimal digits.
	Digest string
	ids    []ID // Sorted; with duplicates if New got some.
}

// New returns the set of some moves. It sorts ids in place, keeps the slice, and removes no duplicates.
func New(ids []ID) *Set {
	slices.SortFunc(ids, compare)
	hash := sha256.New()
	for _, id := range ids {
		hash.Write(id[:])
	}
	return &Set{hex.EncodeToString(hash.Sum(nil)[:Bytes]), ids}
}

// compare orders IDs.
func compare(a, b ID) int { return bytes.Compare(a[:], b[:]) }

// Len returns the number of moves.
func (s *Set) Len() int { return len(s.ids) }

// Includes reports whether all moves of another set are in this one.
func (s *Set) Includes(other *Set) bool {
	return !slices.ContainsFunc(other.ids, func(id ID) bool {
		_, found := slices.BinarySearchFunc(s.ids, id, compare)
		return !found
	})
}

// Encode returns the moves in the form that DecodeSet reads: Bytes bytes for each.
func (s *Set) Encode() []byte {
	out := make([]byte, 0, len(s.ids)*Bytes)
	for _, id := range s.ids {
		out = append(out, id[:]...)
	}
	return out
}

// DecodeSet returns the set whose moves Set.Encode returned, and an error if they are incomplete, or do not have the digest.
func DecodeSet(digest string, encoded []byte) (*Set, error) {
	if len(encoded)%Bytes != 0 {
		return nil, fmt.Errorf("the stored moves of plan %s are damaged: they have %d bytes, which is not a multiple of %d",
			digest, len(encoded), Bytes)
	}
	ids := make([]ID, 0, len(encoded)/Bytes)
	for id := range slices.Chunk(encoded, Bytes) {
		ids = append(ids, ID(id))
	}
	out := New(ids)
	if out.Digest != digest {
		return nil, fmt.Errorf("the stored moves of plan %s are damaged: their digest is %s", digest, out.Digest)
	}
	return out, nil
}

// Possible reports whether remediation can make a change. A change that it can't make is only reported.
func Possible(c placement.Change) bool { return c.Immutable == "" }

// Encode returns the possible changes, sorted, in a form that is equal for equal changes; "" for none. For each change, it has the field,
// the key, and both values, as appendText encodes them. It is not JSON, because that would cost more than all else that is recorded of an
// object.
func Encode(changes []placement.Change) string {
	order := func(a, b placement.Change) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Key, b.Key))
	}
	if !slices.IsSortedFunc(changes, order) {
		changes = slices.SortedFunc(slices.Values(changes), order)
	}
	var buffer [textBytes]byte
	out := buffer[:0]
	for i := range changes {
		if c := &changes[i]; Possible(*c) {
			out = appendText(appendText(appendText(appendText(out, &c.Field), &c.Key), c.From), c.To)
		}
	}
	return string(out)
}

// appendText appends a text: its length plus 1 as a varint, and its bytes. Nil is encoded as 0.
func appendText(out []byte, text *string) []byte {
	if text == nil {
		return append(out, 0)
	}
	return append(binary.AppendUvarint(out, uint64(len(*text))+1), *text...)
}

// Decode returns the changes that the function Encode encoded, with only their Field, Key, From, and To. encoded must be a result of
// Encode, or Decode may panic.
func Decode(encoded string) (out []placement.Change) {
	for encoded != "" {
		var texts [4]*string
		for i := range texts {
			n, size := binary.Uvarint([]byte(encoded[:min(len(encoded), binary.MaxVarintLen64)]))
			if encoded = encoded[size:]; n > 0 {
				texts[i], encoded = new(encoded[:n-1]), encoded[n-1:]
			}
		}
		out = append(out, placement.Change{Field: *texts[0], Key: *texts[1], From: texts[2], To: texts[3]})
	}
	return out
}

// Common returns those of the changes that set the same value of the same field and key as encoded changes do.
func Common(encoded string, changes []placement.Change) (out []placement.Change) {
	before := Decode(encoded)
	for _, c := range changes {
		if slices.ContainsFunc(before, func(b placement.Change) bool { return b.Field == c.Field && b.Key == c.Key && ptr.Equal(b.To, c.To) }) {
			out = append(out, c)
		}
	}
	return out
}
