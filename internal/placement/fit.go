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
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// The API server limits the size of an object's annotations, and the record is one of them. An object that was created before a policy may
// have no room for it. Such an object keeps its values and is a violation, so that its owner can still update it. Everything else is
// denied: a developer must not be able to keep a policy's values out of an object by filling its annotations.

const (
	maxAnnotations = apivalidation.TotalAnnotationSizeLimitB
	// maxEscaped is the length to which JSON can extend a byte.
	maxEscaped = 6
	// entryOverhead and recordOverhead bound what an entry and a record have beside their texts.
	entryOverhead, recordOverhead = 160, 512 + 2*maxEarlier*earlierLength
	// signatureLength is the length of a signature.
	signatureLength = 43
)

// fit makes the annotations with the record small enough for the API server. First it drops the earlier values from the record. Then keys
// that policies would set for the first time in an existing object keep their values, those with the largest entry first, and their changes
// get Immutable. If that does not suffice, fit adds a reason to deny the object (Decision.Errors) to the decision of a policy, except for
// an existing object that is not being updated. It returns the scheduling values with the complete affinity; whole are those before.
func (m *merger) fit(values map[string]map[string]string, whole map[string]string) (map[string]string, error) {
	own := m.annotationBytes(m.intent.wanted[fieldAnnotations])
	if m.surelyFits(values[fieldAnnotations]) || own > maxAnnotations {
		// The API server refuses the developer's own annotations by itself.
		return whole, nil
	}
	size, err := m.size(values[fieldAnnotations])
	if err != nil || size <= maxAnnotations {
		return whole, err
	}
	// The earlier values are the first to go.
	m.forgets = true
	if whole, err = m.complete(values); err != nil {
		return nil, err
	}
	if size, err = m.size(values[fieldAnnotations]); err != nil || size <= maxAnnotations {
		return whole, err
	}
	why := fmt.Sprintf("there is no room to record the value that the developer requested, because the annotations would have %d bytes, and "+
		"the API server stores at most %d; shorten the largest annotation", size, maxAnnotations)
	for _, e := range m.largest() {
		if left, err := m.keepForLackOfRoom(e, values[e.field]); err != nil {
			return nil, err
		} else if !left {
			continue
		}
		for _, v := range m.verdicts {
			for i := range v.Changes {
				if c := &v.Changes[i]; c.Field == e.field && c.Key == e.key {
					c.Immutable = why
				}
			}
		}
		if whole, err = m.complete(values); err != nil {
			return nil, err
		}
		if size, err = m.size(values[fieldAnnotations]); err != nil || size <= maxAnnotations {
			return whole, err
		}
	}
	if m.request.Old != m.request.Object {
		m.denyLarge(size, values)
	}
	return whole, nil
}

// annotationBytes returns the size of annotations, without the record, as the API server counts it: the bytes of all keys and values.
func (m *merger) annotationBytes(annotations map[string]string) int {
	out := 0
	for key, value := range m.intent.clusters.inMetadata(fieldAnnotations, annotations) {
		if key != placementv1.RequestedAnnotation {
			out += len(key) + len(value)
		}
	}
	return out
}

// surelyFits reports whether the annotations with the record are certainly small enough for the API server, however the record is encoded.
// It is a cheap check: if it returns false, they may still be small enough.
func (m *merger) surelyFits(annotations map[string]string) bool {
	size := m.annotationBytes(annotations) + recordOverhead + maxEscaped*len(m.next.Form)
	for _, field := range fields {
		for key, entry := range m.next.of(field) {
			size += entryOverhead + maxEscaped*(len(key)+len(entry.By)+len(ptr.Deref(entry.Requested, ""))+len(ptr.Deref(entry.Value, "")))
		}
	}
	if m.next.Affinity != nil {
		size += entryOverhead + maxEscaped*len(ptr.Deref(m.next.Affinity.Requested, ""))
	}
	for policy, names := range m.next.Clusters {
		size += entryOverhead + maxEscaped*len(policy)
		for _, name := range names {
			size += len(name) + len(`"",`)
		}
	}
	return size <= maxAnnotations
}

// size returns the size of the annotations, with the record, as the API server counts it: the bytes of all keys and values.
func (m *merger) size(annotations map[string]string) (int, error) {
	sign := func(record) (string, error) { return strings.Repeat("A", signatureLength), nil }
	text, err := m.next.text(sign, sign)
	if err != nil || text == "" {
		return m.annotationBytes(annotations), err
	}
	return m.annotationBytes(annotations) + len(placementv1.RequestedAnnotation) + len(text), nil
}

// sizedEntry is an entry of a record with its approximate size in bytes.
type sizedEntry struct {
	// field and key say which value of the object the entry is for.
	field, key string
	entry      overwritten
	size       int // The bytes of the key and of the values in the entry, without digests, names of policies, and JSON syntax.
}

// largest returns the entries of the next record, the largest first.
func (m *merger) largest() []sizedEntry {
	var out []sizedEntry
	for _, field := range fields {
		for _, key := range slices.Sorted(maps.Keys(m.next.of(field))) {
			entry := m.next.of(field)[key]
			out = append(out, sizedEntry{field, key, entry, len(key) + len(ptr.Deref(entry.Requested, "")) + len(ptr.Deref(entry.Value, ""))})
		}
	}
	slices.SortStableFunc(out, func(a, b sizedEntry) int { return cmp.Compare(b.size, a.size) })
	return out
}

// keepForLackOfRoom keeps a key as it is, without the policy's value, because the record has no room for the requested value. It never does
// so in a new object. In an update, it does so only if the policy's value could not be set before, either, and the update does not change
// the key: otherwise, an update could evade the policy. It reports whether it keeps the key, and leaves it to the caller to say so in the
// changes (Change.Immutable).
func (m *merger) keepForLackOfRoom(e sizedEntry, values map[string]string) (bool, error) {
	current := optional(m.intent.current[e.field], e.key)
	if _, applied := m.intent.applied.of(e.field)[e.key]; m.request.Old == nil || applied && current != nil &&
		digest(*current) == e.entry.Set {
		return false, nil
	}
	if m.request.Old != m.request.Object {
		left, err := m.leftBefore()
		if err != nil || !left[e.field+"/"+e.key] || !ptr.Equal(optional(m.intent.before().current[e.field], e.key), current) {
			return false, err
		}
	}
	delete(*m.next.entries(e.field), e.key)
	copyKey(values, m.intent.current[e.field], e.key)
	m.leave(e.field, e.key, values)
	if e.field == fieldAnnotations && e.key == placementv1.ClustersAnnotation {
		m.next.Clusters = m.intent.applied.Clusters
	}
	return true, nil
}

// leftIn returns the keys that the verdicts on an object leave as they are, because a change of them can't be made (Change.Immutable). A
// key of the map is the field, a slash, and the key. The list of a placement object counts as the clusters annotation.
func leftIn(verdicts []*Verdict) map[string]bool {
	out := map[string]bool{}
	for _, v := range verdicts {
		for _, c := range v.Changes {
			if c.ChangesClusters() {
				c.Field, c.Key = fieldAnnotations, placementv1.ClustersAnnotation
			}
			if c.Immutable != "" {
				out[c.Field+"/"+c.Key] = true
			}
		}
	}
	return out
}

// denyLarge adds a reason to deny the object (Decision.Errors) to the decision of the policy with the largest entry in the record. size is
// the size of the annotations, in bytes.
func (m *merger) denyLarge(size int, values map[string]map[string]string) {
	for _, e := range m.largest() {
		for _, v := range m.verdicts {
			if v.Policy.Name != e.entry.By || v.Err != nil {
				continue
			}
			message := fmt.Sprintf("%s: with the policy's value, of %d bytes, and the requested value, of %d bytes, which Berth keeps in "+
				"annotation %s, the annotations would have %d bytes. The API server stores at most %d: shorten the value, or other annotations",
				Change{Field: e.field, Key: e.key}.Subject(), len(values[e.field][e.key]), len(ptr.Deref(e.entry.Requested, "")),
				placementv1.RequestedAnnotation, size, maxAnnotations)
			// Append to a copy, because the decision may be shared with other objects.
			v.Decision.Errors = append(slices.Clone(v.Decision.Errors), message)
			return
		}
	}
}
