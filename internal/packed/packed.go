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

// Package packed keeps objects in a tenth of the memory that they take as maps.
package packed

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Object is an object as a Packer encodes it. A leader keeps each matched object for as long as it exists, and needs it only when the
// object is decided again.
//
// Each value is a header, and what follows from its tag. The lower four bits of the first byte are the tag, and the upper ones a number. If
// they are all set, the rest of the number follows as a varint.
type Object string

// The tags. The number of the header is the length of a text in bytes, the number of members, or as the comment says.
const (
	tagNull      = iota
	tagBool      // 1 for true.
	tagInt       // The number itself, in zigzag encoding.
	tagFloat     // 0; eight bytes follow.
	tagNumber    // A json.Number; its text follows.
	tagText      // The text follows.
	tagShared    // The index of a text in Packer.texts.
	tagName      // 0; the name of the object.
	tagNamespace // 0; the namespace of the object.
	tagUUID      // 0; its bytes follow.
	tagQuoted    // The number of texts that follow. Between each two of them is a quotation mark.
	tagList
	tagMap // A text and a value follow for each member.
)

const (
	tagBits = 4
	// maxInline is the number in the first byte of a header that has more.
	maxInline = 1<<(8-tagBits) - 1
)

// Texts are shared if several objects have them, and they have at least minShared and at most maxShared bytes.
const (
	minShared = 3
	maxShared = 2048
	// minQuoted is the length of texts from which on those that are JSON are split, because the parts may be shared.
	minQuoted = 64
	// seenTexts is the number of texts that a packer remembers. It is a power of two.
	seenTexts = 1 << 13
)

// Packer packs and unpacks the objects of one type. It keeps texts once that several objects have: names of fields, labels, lists of
// clusters. Concurrent calls of Unpack and Labels are safe, others are not.
type Packer struct {
	// ids are the indexes of the shared texts, and free the indexes that are not used.
	ids   map[string]int
	texts []sharedText
	free  []int
	// seen has texts that were packed lately and were not shared then, at the index of their hash, each with the object that had it. A newer
	// text replaces one at the same index. A text becomes shared when another object than that one has it.
	seen   []sighting
	seed   maphash.Seed
	buffer []byte
}

// sharedText is a text that several objects have.
type sharedText struct {
	// text is the text, a string; nil while its index is free. It is an interface value, so that Unpack puts it into maps without allocating.
	text any
	// uses is how often packed objects that are not released have the text. At 0, the text is no longer shared.
	uses int
}

// sighting records that an object had a text, by parts of the hashes of both.
type sighting struct{ text, object uint32 }

// NewPacker returns a packer that shares no texts yet.
func NewPacker() *Packer {
	return &Packer{ids: map[string]int{}, seen: make([]sighting, seenTexts), seed: maphash.MakeSeed()}
}

// packing is the state while an object is packed.
type packing struct {
	*Packer
	out             []byte
	name, namespace string
	object          uint32
}

// Pack encodes an object. It must have only values that a JSON decoder of the API machinery returns. The caller must call Release once the
// packed object is of no use.
func (p *Packer) Pack(o *unstructured.Unstructured) Object {
	w := packing{Packer: p, out: p.buffer[:0], name: o.GetName(), namespace: o.GetNamespace()}
	w.object = uint32(maphash.Comparable(p.seed, [2]string{w.namespace, w.name}))
	w.value(o.Object)
	p.buffer = w.out
	return Object(w.out)
}

func (w *packing) header(tag byte, n uint64) {
	if n < maxInline {
		w.out = append(w.out, tag|byte(n)<<tagBits)
		return
	}
	w.out = binary.AppendUvarint(append(w.out, tag|maxInline<<tagBits), n-maxInline)
}

func (w *packing) value(value any) {
	switch v := value.(type) {
	case nil:
		w.header(tagNull, 0)
	case bool:
		n := uint64(0)
		if v {
			n = 1
		}
		w.header(tagBool, n)
	case int64:
		w.header(tagInt, uint64(v)<<1^uint64(v>>63))
	case float64:
		w.header(tagFloat, 0)
		w.out = binary.BigEndian.AppendUint64(w.out, math.Float64bits(v))
	case json.Number:
		w.literal(tagNumber, string(v))
	case string:
		w.text(v)
	case []any:
		w.header(tagList, uint64(len(v)))
		for _, member := range v {
			w.value(member)
		}
	case map[string]any:
		w.header(tagMap, uint64(len(v)))
		for name, member := range v {
			w.text(name)
			w.value(member)
		}
	default:
		panic(fmt.Sprintf("a value of type %T in an object", value))
	}
}

func (w *packing) literal(tag byte, text string) {
	w.header(tag, uint64(len(text)))
	w.out = append(w.out, text...)
}

func (w *packing) text(text string) {
	id, shared := w.ids[text]
	switch {
	case text == "":
		w.literal(tagText, text)
	case text == w.name:
		w.header(tagName, 0)
	case text == w.namespace:
		w.header(tagNamespace, 0)
	case shared:
		w.share(id)
	case isUUID(text):
		w.header(tagUUID, 0)
		w.out, _ = hex.AppendDecode(w.out, []byte(strings.ReplaceAll(text, "-", "")))
	case len(text) >= minShared && len(text) <= maxShared && w.recordSighting(text):
		w.share(w.add(text))
	case len(text) >= minQuoted && strings.Contains(text, `"`):
		w.header(tagQuoted, uint64(strings.Count(text, `"`)+1))
		for part := range strings.SplitSeq(text, `"`) {
			w.text(part)
		}
	default:
		w.literal(tagText, text)
	}
}

// recordSighting records that the object has a text, and reports whether another object had it lately. An object that changes often must
// not make its own texts shared ones.
func (w *packing) recordSighting(text string) bool {
	hash := maphash.String(w.seed, text)
	at, now := &w.seen[hash%seenTexts], sighting{uint32(hash >> 32), w.object}
	before := *at
	*at = now
	return before.text == now.text && before.object != now.object
}

// add adds a shared text, and returns its index. It counts no use of the text.
func (p *Packer) add(text string) int {
	// A copy, because the text may be a part of a longer one.
	text = strings.Clone(text)
	id := len(p.texts)
	if last := len(p.free) - 1; last >= 0 {
		id, p.free = p.free[last], p.free[:last]
		p.texts[id].text = text
	} else {
		p.texts = append(p.texts, sharedText{text: text})
	}
	p.ids[text] = id
	return id
}

func (w *packing) share(id int) {
	w.texts[id].uses++
	w.header(tagShared, uint64(id))
}

// isUUID reports whether a text is a UUID as the API server writes it.
func isUUID(text string) bool {
	if len(text) != 36 {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}

// uuidBytes is the number of bytes of a UUID.
const uuidBytes = 16

// uuidOf returns the text of a UUID with some bytes.
func uuidOf(bytes string) string {
	digits := hex.AppendEncode(make([]byte, 0, 2*uuidBytes), []byte(bytes))
	return string(digits[:8]) + "-" + string(digits[8:12]) + "-" + string(digits[12:16]) + "-" + string(digits[16:20]) +
		"-" + string(digits[20:])
}

// unpacking is the state while an object is unpacked, or what it shares is released.
type unpacking struct {
	*Packer
	rest            Object
	name, namespace string
	releases        bool
}

// Unpack returns the object that was packed. namespace and name are its own, which are not in the encoding. The caller owns the result, and
// the packed object remains valid.
func (p *Packer) Unpack(from Object, namespace, name string) *unstructured.Unstructured {
	r := unpacking{Packer: p, rest: from, name: name, namespace: namespace}
	object, _ := r.value().(map[string]any)
	return &unstructured.Unstructured{Object: object}
}

// Labels returns the labels of a packed object, and does not unpack the rest; nil if it has none. namespace and name are those of the
// object, which are not in the encoding.
func (p *Packer) Labels(from Object, namespace, name string) map[string]string {
	r := unpacking{Packer: p, rest: from, name: name, namespace: namespace}
	if !r.enter("metadata") || !r.enter("labels") {
		return nil
	}
	members, _ := r.value().(map[string]any)
	out := make(map[string]string, len(members))
	for name, value := range members {
		out[name], _ = value.(string)
	}
	return out
}

// Release declares that a packed object is of no use any more, so that the packer drops shared texts that no other packed object has.
func (p *Packer) Release(of Object) {
	r := unpacking{Packer: p, rest: of, releases: true}
	r.skip()
}

func (r *unpacking) header() (tag byte, n uint64) {
	first := r.rest[0]
	r.rest = r.rest[1:]
	tag, n = first&(1<<tagBits-1), uint64(first>>tagBits)
	if n < maxInline {
		return tag, n
	}
	for shift := 0; ; shift += 7 {
		b := r.rest[0]
		r.rest = r.rest[1:]
		n += uint64(b&0x7f) << shift
		if b < 0x80 {
			return tag, n
		}
	}
}

// take returns the next n bytes.
func (r *unpacking) take(n uint64) string {
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return string(out)
}

func (r *unpacking) value() any {
	tag, n := r.header()
	switch tag {
	case tagNull:
		return nil
	case tagBool:
		return n == 1
	case tagInt:
		return int64(n>>1) ^ -int64(n&1)
	case tagFloat:
		return math.Float64frombits(binary.BigEndian.Uint64([]byte(r.take(8))))
	case tagNumber:
		return json.Number(r.take(n))
	case tagText:
		return r.take(n)
	case tagShared:
		return r.texts[n].text
	case tagName:
		return r.name
	case tagNamespace:
		return r.namespace
	case tagUUID:
		return uuidOf(r.take(uuidBytes))
	case tagQuoted:
		parts := make([]string, n)
		for i := range parts {
			parts[i] = r.text()
		}
		return strings.Join(parts, `"`)
	case tagList:
		out := make([]any, n)
		for i := range out {
			out[i] = r.value()
		}
		return out
	default:
		out := make(map[string]any, n)
		for range n {
			name := r.text()
			out[name] = r.value()
		}
		return out
	}
}

func (r *unpacking) text() string {
	text, _ := r.value().(string)
	return text
}

// enter goes from a map to the value of one of its members. It returns false if there is no map, or no such member.
func (r *unpacking) enter(name string) bool {
	tag, n := r.header()
	if tag != tagMap {
		return false
	}
	for range n {
		if r.text() == name {
			return true
		}
		r.skip()
	}
	return false
}

// skip goes to the end of a value. If releases is set, it unshares the texts in it.
func (r *unpacking) skip() {
	tag, n := r.header()
	switch tag {
	case tagFloat:
		r.take(8)
	case tagUUID:
		r.take(uuidBytes)
	case tagNumber, tagText:
		r.take(n)
	case tagShared:
		if r.releases {
			r.unshare(int(n))
		}
	case tagMap, tagList, tagQuoted:
		if tag == tagMap {
			n *= 2
		}
		for range n {
			r.skip()
		}
	}
}

// unshare declares that a shared text, by its index, has one use less. It drops the text after the last one.
func (p *Packer) unshare(id int) {
	t := &p.texts[id]
	if t.uses--; t.uses > 0 {
		return
	}
	text, _ := t.text.(string)
	delete(p.ids, text)
	t.text = nil
	p.free = append(p.free, id)
}
