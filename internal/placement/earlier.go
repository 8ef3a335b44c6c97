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

// earlierValues are the digests of values that policies set and no longer set, concatenated, the newest last. Each has 12 characters: 4 by
// which most keys differ, and 8 of a hash of the field, the key, and the value.
type earlierValues string

const (
	earlierKeyLength = 4
	earlierLength    = 12
	// maxEarlier and maxEarlierOfKey bound the number of values in a text, and of those of one key in it. The oldest fall out.
	maxEarlier      = 64
	maxEarlierOfKey = 32
)

// earlierKey returns the first 4 characters of the digests of a key's values.
func earlierKey(field, key string) string {
	sum := fnv.New32a()
	// Writing to a hash does not fail.
	_, _ = sum.Write([]byte(field + "/" + key))
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum.Sum32())[:3])
}

// earlierValue returns the digest of a key's value. set is what the function digest returns for the value.
func earlierValue(field, key, set string) string {
	sum := sha256.Sum256([]byte(field + "\x00" + key + "\x00" + set))
	return earlierKey(field, key) + base64.RawURLEncoding.EncodeToString(sum[:6])
}

// earlierItem returns the digest of an item that policies added to the affinity (podscheduling.Items).
func earlierItem(item string) string {
	return earlierValue(fieldScheduling, podscheduling.Affinity, digest(item))
}

// earlierWhole returns the digest of a complete affinity that policies made. set is what the function digest returns for it, and requested
// is the developer's affinity that they added to; nil for none.
func earlierWhole(set string, requested *string) string {
	if requested != nil {
		set += digest(*requested)
	}
	return earlierValue(fieldScheduling, podscheduling.Affinity, set)
}

// all returns the digests as a list.
func (e earlierValues) all() []string {
	var out []string
	for ; len(e) >= earlierLength; e = e[earlierLength:] {
		out = append(out, string(e[:earlierLength]))
	}
	return out
}

// begins reports whether one of the digests begins with a text.
func (e earlierValues) begins(text string) bool {
	for ; len(e) >= earlierLength; e = e[earlierLength:] {
		if strings.HasPrefix(string(e), text) {
			return true
		}
	}
	return false
}

// has reports whether a policy set a key to a value earlier.
func (e earlierValues) has(field, key, value string) bool {
	return e != "" && e.begins(earlierKey(field, key)) && e.begins(earlierValue(field, key, digest(value)))
}

// hasItem reports whether a policy added an item to the affinity earlier.
func (e earlierValues) hasItem(item string) bool { return e.begins(earlierItem(item)) }

// and returns the digests with those in replaced added at the end, and without those in without. If there are too many, the oldest are
// dropped.
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

// earlier returns a pointer to the values that policies set earlier: for scheduling those of that field, and else those of labels and
// annotations together.
func (x *extension) earlier(field string) *earlierValues {
	if field == fieldScheduling {
		return &x.EarlierScheduling
	}
	return &x.Earlier
}

// sets reports whether, according to the record, a policy sets a key to a value, or set it earlier. A value that the developer requests
// does not count. For a nil value it returns false. r must not be nil.
func (r *record) sets(field, key string, value *string) bool {
	if value == nil {
		return false
	}
	entry, there := r.of(field)[key]
	return there && entry.Set == digest(*value) && !ptr.Equal(entry.Requested, value) || r.earlier(field).has(field, key, *value)
}

// earlierAffinity tells which complete affinities policies made earlier, and which items they added, both by their digests, and which
// affinity the developer requested last.
type earlierAffinity struct {
	values earlierValues // The digests of affinities and of their items.
	// requested returns the affinity that the developer requested last; nil for none.
	requested func() *string
}

// earlierAffinity returns what the intent's record tells about earlier affinities; the zero value, which knows none, if there is no record.
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

// request returns the requested value of an entry; nil for none, and for a nil entry.
func (o *overwritten) request() *string {
	if o == nil {
		return nil
	}
	return o.Requested
}

// composed reports whether policies made an affinity by adding to the one that the developer requested last, and returns the latter. If
// they added to another one, ok is false, and the caller splits the affinity instead.
func (e earlierAffinity) composed(text string) (requested *string, ok bool) {
	if !e.values.begins(earlierKey(fieldScheduling, podscheduling.Affinity)) {
		return nil, false
	}
	requested = e.requested()
	return requested, e.values.begins(earlierWhole(digest(text), requested))
}

// asWritten reports whether placementv1.AsWrittenAnnotation is "true": the developer requests all values as they are written, even those
// that a policy set earlier.
func asWritten(obj *unstructured.Unstructured) bool {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", fieldAnnotations, placementv1.AsWrittenAnnotation)
	return value == "true"
}

// replaced returns the digests of those values of a field that policies set by the record, and no longer set by the next record.
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

// recordEarlier stores in the next record which values policies no longer set, without those that the developer requests now.
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

// requestedAmong returns the digests of the requested values of several fields. It may leave out those that are not in known.
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

// returned handles the values of a field that policies set earlier, which the developer cannot have requested: it treats the update as if
// it left these keys alone. Without an object before the update, the requested values come from the record.
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
		if _, applied := i.applied.of(field)[key]; applied || field == fieldScheduling &&
			(key == podscheduling.Affinity || podscheduling.IsContribution(key)) {
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

// notTaken returns the values that an update requests and the object does not get, because a policy set them earlier: as changes from the
// value before the update to the one that it requests. It leaves out keys that a policy sets now. values and next are the merged values and
// their record.
func (i *intent) notTaken(values map[string]map[string]string, next *record) []Change {
	return slices.DeleteFunc(slices.Clone(i.refused), func(c Change) bool {
		_, set := next.of(c.Field)[c.Key]
		return set || ptr.Equal(optional(values[c.Field], c.Key), c.To)
	})
}

// returnKey resets a key to its state in before, the intent of the object before the update.
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

// copyKey sets a key of the map to to its value in from, or deletes it if from does not have it.
func copyKey(to, from map[string]string, key string) {
	if value, there := from[key]; there {
		to[key] = value
	} else {
		delete(to, key)
	}
}
