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

package placement

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/podscheduling"
)

// A value that a policy set once can return: by an undo of a rollout, or with an older manifest that was read from the cluster. The
// developer never requested it. So the record keeps digests of the values that policies set earlier. They also have to be known
// when no policy overwrites the key any more, so a record may have nothing else.

// earlierValues are the digests of values that policies set and no longer set, as one text. The value that was replaced last is the last.
// Each has 12 characters: 4 that tell most keys apart, and 8 of a digest of the field, the key, and the value.
type earlierValues string

const (
	earlierKeyLength = 4
	earlierLength    = 12
	// maxEarlier and maxEarlierOfKey bound the number of values in a text, and of those of one key in it. The oldest fall out.
	maxEarlier      = 64
	maxEarlierOfKey = 32
)

// earlierKey returns the first characters of the digests of a key's values.
func earlierKey(field, key string) string {
	sum := fnv.New32a()
	// Writing to a hash does not fail.
	_, _ = sum.Write([]byte(field + "/" + key))
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum.Sum32())[:3])
}

// earlierValue returns the digest of a key's value. set is the digest of the value that an entry of a record has.
func earlierValue(field, key, set string) string {
	sum := sha256.Sum256([]byte(field + "\x00" + key + "\x00" + set))
	return earlierKey(field, key) + base64.RawURLEncoding.EncodeToString(sum[:6])
}

// earlierItem returns the digest of an item of the affinity (podscheduling.Items).
func earlierItem(item string) string {
	return earlierValue(fieldScheduling, podscheduling.Affinity, digest(item))
}

// earlierWhole returns the digest of an affinity, by its own digest, that policies made from what the developer requested, or nil.
func earlierWhole(set string, requested *string) string {
	if requested != nil {
		set += digest(*requested)
	}
	return earlierValue(fieldScheduling, podscheduling.Affinity, set)
}

// all returns the digests.
func (e earlierValues) all() []string {
	var out []string
	for ; len(e) >= earlierLength; e = e[earlierLength:] {
		out = append(out, string(e[:earlierLength]))
	}
	return out
}

// begins reports whether a digest begins with the text.
func (e earlierValues) begins(text string) bool {
	for ; len(e) >= earlierLength; e = e[earlierLength:] {
		if strings.HasPrefix(string(e), text) {
			return true
		}
	}
	return false
}

// has reports whether a policy set the key's value earlier.
func (e earlierValues) has(field, key, value string) bool {
	return e != "" && e.begins(earlierKey(field, key)) && e.begins(earlierValue(field, key, digest(value)))
}

// hasItem reports whether a policy added the item to the affinity earlier.
func (e earlierValues) hasItem(item string) bool { return e.begins(earlierItem(item)) }

// and returns the digests with those that were replaced now, and without some. It drops the oldest if there are too many.
func (e earlierValues) and(replaced []string, without sets.Set[string]) earlierValues {
	known := sets.New(replaced...).Union(without)
	list := slices.DeleteFunc(e.all(), known.Has)
	for _, value := range replaced {
		if !without.Has(value) {
			list = append(list, value)
		}
	}
	ofKey := map[string]int{}
	var kept []string
	for _, value := range slices.Backward(list) {
		key := value[:earlierKeyLength]
		if ofKey[key]++; len(kept) < maxEarlier && ofKey[key] <= maxEarlierOfKey {
			kept = append(kept, value)
		}
	}
	slices.Reverse(kept)
	return earlierValues(strings.Join(kept, ""))
}

// earlier returns the values of a field that policies set earlier.
func (x *extension) earlier(field string) *earlierValues {
	if field == fieldScheduling {
		return &x.EarlierScheduling
	}
	return &x.Earlier
}

// sets reports whether a policy sets the key's value, according to the record, or set it earlier. A value that the developer requests
// does not count. value may be nil.
func (r *record) sets(field, key string, value *string) bool {
	if value == nil {
		return false
	}
	entry, there := r.of(field)[key]
	return there && entry.Set == digest(*value) && !ptr.Equal(entry.Requested, value) || r.earlier(field).has(field, key, *value)
}

// earlierAffinity is what is known of affinities that policies added to earlier.
type earlierAffinity struct {
	values earlierValues
	// requested returns the affinity that the developer requested last, or nil.
	requested func() *string
}

func (i *intent) earlierAffinity(from sources) earlierAffinity {
	if i.recorded == nil {
		return earlierAffinity{}
	}
	requested := func() *string {
		if i.recorded.Affinity != nil || from.before == nil {
			return i.recorded.Affinity.request()
		}
		i.usesOld = true
		return optional(from.before().wanted[fieldScheduling], podscheduling.Affinity)
	}
	return earlierAffinity{i.recorded.EarlierScheduling, requested}
}

// request returns the requested value of an entry, which may be nil.
func (o *overwritten) request() *string {
	if o == nil {
		return nil
	}
	return o.Requested
}

// composed reports whether policies made the affinity from the one that the developer requested last, which it returns. An affinity that
// they made from another one is split: its developer's part was requested then, and is requested again.
func (e earlierAffinity) composed(text string) (requested *string, ok bool) {
	if !e.values.begins(earlierKey(fieldScheduling, podscheduling.Affinity)) {
		return nil, false
	}
	requested = e.requested()
	return requested, e.values.begins(earlierWhole(digest(text), requested))
}

// asWritten reports whether the developer requests all values as they are written, even those that a policy set earlier.
func asWritten(obj *unstructured.Unstructured) bool {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", fieldAnnotations, placementv1.AsWrittenAnnotation)
	return value == "true"
}

// replaced returns the digests of the values of a field that the record has, and that the next record does not have.
func (r *record) replaced(field string, next *record) []string {
	var out []string
	items := sets.New[string]()
	for _, key := range slices.Sorted(maps.Keys(r.of(field))) {
		entry := r.of(field)[key]
		switch now, stays := next.of(field)[key]; {
		case stays && now.Set == entry.Set, entry.Requested != nil && digest(*entry.Requested) == entry.Set:
		case field == fieldScheduling && podscheduling.IsContribution(key):
			if entry.Value != nil {
				items.Insert(podscheduling.Items(*entry.Value)...)
			}
		default:
			out = append(out, earlierValue(field, key, entry.Set))
		}
	}
	if field == fieldScheduling && r.Affinity != nil && (next.Affinity == nil || next.Affinity.Set != r.Affinity.Set) {
		out = append(out, earlierWhole(r.Affinity.Set, r.Affinity.Requested))
	}
	if len(items) > 0 {
		for _, addition := range next.additions() {
			items.Delete(podscheduling.Items(addition)...)
		}
		for _, item := range sets.List(items) {
			out = append(out, earlierItem(item))
		}
	}
	return out
}

// recordEarlier records which values the policies no longer set. A value that the developer requests is not one of them.
func (m *merger) recordEarlier() {
	before := m.intent.recorded
	m.next.Earlier, m.next.EarlierScheduling = "", ""
	if m.forgets || before == nil || asWritten(m.request.Object) {
		return
	}
	for _, group := range [][]string{{fieldAnnotations, fieldLabels}, {fieldScheduling}} {
		earlier := *before.earlier(group[0])
		var replaced []string
		for _, field := range group {
			replaced = append(replaced, before.replaced(field, &m.next)...)
		}
		if earlier != "" || len(replaced) > 0 {
			known := earlier + earlierValues(strings.Join(replaced, ""))
			*m.next.earlier(group[0]) = earlier.and(replaced, m.requestedAmong(group, known))
		}
	}
}

// requestedAmong returns the digests of the requested values of fields. It may omit those that are not known.
func (m *merger) requestedAmong(group []string, known earlierValues) sets.Set[string] {
	out := sets.New[string]()
	for _, field := range group {
		for key, value := range m.intent.wanted[field] {
			switch {
			case field == fieldScheduling && podscheduling.IsContribution(key):
			case field == fieldScheduling && key == podscheduling.Affinity:
				for _, item := range podscheduling.Items(value) {
					out.Insert(earlierItem(item))
				}
			case known.begins(earlierKey(field, key)):
				out.Insert(earlierValue(field, key, digest(value)))
			}
		}
	}
	return out
}

// returned treats the values of a field that the developer cannot have requested as if the client had left the keys alone: those that a
// policy set earlier. Without an object before the update, the record has what the developer requests.
func (i *intent) returned(field string, actual map[string]string, from sources) {
	if i.recorded == nil {
		return
	}
	earlier := *i.recorded.earlier(field)
	if earlier == "" && from.foreign == nil {
		return
	}
	i.current[field] = maps.Clone(actual)
	for key, value := range actual {
		if _, applied := i.applied.of(field)[key]; applied || field == fieldScheduling && (key == podscheduling.Affinity || podscheduling.IsContribution(key)) {
			continue
		}
		if !earlier.has(field, key, value) && !from.copied(field, key, value) {
			continue
		}
		if field == fieldAnnotations && key == placementv1.ClustersAnnotation && i.clusters != nil && i.clusters.list.Repeats {
			// References of a developer may only look like those of a policy.
			continue
		}
		if from.before != nil {
			before := from.before()
			if was := optional(before.current[field], key); !ptr.Equal(was, &value) && earlier.has(field, key, value) {
				i.refused = append(i.refused, Change{Field: field, Key: key, From: was, To: &value})
			}
			i.returnKey(field, key, before)
			continue
		}
		entry := i.recorded.of(field)[key]
		entry.Set = digest(value)
		i.apply(field, key, entry, i.recorded)
	}
}

// notTaken returns the values that an update requests and that the object does not get, because a policy set them earlier. Keys that a
// policy sets have its value anyway. values and next are the merged values and their record.
func (i *intent) notTaken(values map[string]map[string]string, next *record) []Change {
	return slices.DeleteFunc(slices.Clone(i.refused), func(c Change) bool {
		_, set := next.of(c.Field)[c.Key]
		return set || ptr.Equal(optional(values[c.Field], c.Key), c.To)
	})
}

// returnKey resets a key to its state before the update.
func (i *intent) returnKey(field, key string, before *intent) {
	clusters := i.clusters != nil && field == fieldAnnotations && key == placementv1.ClustersAnnotation
	if clusters && before.clusters.err != nil {
		return
	}
	i.usesOld = true
	copyKey(i.current[field], before.current[field], key)
	copyKey(i.wanted[field], before.wanted[field], key)
	if entry, applied := before.applied.of(field)[key]; applied {
		i.applied.put(field, key, entry)
	}
	if field == fieldAnnotations && key == placementv1.ClustersAnnotation {
		i.applied.Clusters = before.applied.Clusters
	}
	if clusters {
		i.clusters.form = before.clusters.form
	}
}

// copyKey sets a key to its value in another map, or deletes it if it has none there.
func copyKey(to, from map[string]string, key string) {
	if value, there := from[key]; there {
		to[key] = value
	} else {
		delete(to, key)
	}
}
