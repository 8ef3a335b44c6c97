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

package cleanup

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/remediation"
)

// The API server makes the client that changes a field's value the owner of the field. If the cleanup owned restored
// fields, a developer who applies a changed manifest server-side would get a conflict. So the cleanup returns a
// restored field to the managers that owned it while it had the policy's value. This takes a second patch: managed
// fields in a patch that also changes fields are applied to the state before that patch. Between the two patches, the
// record stores the owners.

// ownersMember is the member of a record that stores field owners. Berth ignores it, and the record's signatures do not
// cover it.
const ownersMember = "owners"

// fieldOwners are the field managers, other than Berth, that owned an object's restored fields before the cleanup. They are stored as JSON
// in the object's record.
type fieldOwners struct {
	// UID is the UID of the object. If an object with another UID has the record, because controllers copy records, Entries do not count.
	UID     types.UID                   `json:"uid"`
	Entries []metav1.ManagedFieldsEntry `json:"entries"` // one for each owner, with the restored fields that it owned
}

// takesFields reports whether operations of placement.Patch may make the sender the owner of a field. Removing members of a map does not.
// Removing an item of a list does if the list is owned as a whole.
func takesFields(ops []jsonpatch.Operation) bool {
	return slices.ContainsFunc(ops, func(op jsonpatch.Operation) bool {
		return op.Operation != "remove" || isIndex(op.Path[strings.LastIndex(op.Path, "/")+1:])
	})
}

// isIndex reports whether a token of a JSON pointer may be a list index. Such a token may also be the name of a member.
func isIndex(token string) bool {
	_, err := strconv.Atoi(token)
	return err == nil || token == "-"
}

// ownersIn returns the field owners in the object's record; nil if the record has none for this object.
func ownersIn(obj *unstructured.Unstructured) []metav1.ManagedFieldsEntry {
	var record map[string]json.RawMessage
	if json.Unmarshal([]byte(obj.GetAnnotations()[placementv1.RequestedAnnotation]), &record) != nil {
		return nil
	}
	var out fieldOwners
	if json.Unmarshal(record[ownersMember], &out) != nil || out.UID != obj.GetUID() {
		return nil
	}
	return out.Entries
}

// recordWithOwners returns the object's record extended by the owners of the fields that operations of placement.Patch
// change.
func recordWithOwners(obj *unstructured.Unstructured, ops []jsonpatch.Operation) (string, error) {
	var record map[string]json.RawMessage
	if err := json.Unmarshal([]byte(obj.GetAnnotations()[placementv1.RequestedAnnotation]), &record); err != nil {
		return "", fmt.Errorf("reading the record: %w", err)
	}
	// An interrupted run may have stored owners already.
	owners := fieldOwners{UID: obj.GetUID(), Entries: ownersIn(obj)}
	for _, entry := range obj.GetManagedFields() {
		if isBerths(entry) {
			continue
		}
		fields, err := fieldsOf(entry)
		if err != nil {
			return "", err
		}
		entry.FieldsV1 = metav1.NewFieldsV1("{}")
		if fields = changedBy(fields, ops); !fields.Empty() {
			if entry, err = withFields(entry, fields); err != nil {
				return "", err
			}
			owners.Entries = append(owners.Entries, entry)
		}
	}
	var err error
	if record[ownersMember], err = json.Marshal(owners); err != nil {
		return "", fmt.Errorf("writing the owners of fields: %w", err)
	}
	// The signature of the extension covers its text, so the text must stay as it is.
	return podscheduling.EncodeJSON(record)
}

// changedBy returns those of the fields that operations of placement.Patch may change: the fields that the operations name, and those below
// and above them. It treats a list as one field.
func changedBy(fields *fieldpath.Set, ops []jsonpatch.Operation) *fieldpath.Set {
	var paths []fieldpath.Path
	for _, op := range ops {
		var path fieldpath.Path
		for token := range strings.SplitSeq(strings.TrimPrefix(op.Path, "/"), "/") {
			if isIndex(token) {
				break
			}
			path = append(path, fieldpath.MakePathOrDie(pointerUnescaper.Replace(token))...)
		}
		paths = append(paths, path)
	}
	out := fieldpath.NewSet()
	fields.Iterate(func(field fieldpath.Path) {
		for _, path := range paths {
			n := min(len(field), len(path))
			if field[:n].Equals(path[:n]) {
				out.Insert(field.Copy())
				return
			}
		}
	})
	return out
}

var pointerUnescaper = strings.NewReplacer("~1", "/", "~0", "~")

// isBerths reports whether the field manager of an entry is Berth: this package or remediation.
func isBerths(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == FieldManager || remediation.IsFieldManager(entry.Manager)
}

// returned returns the managed fields in after, without Berth's entries. The fields of Berth's entries go back to the managers that own
// them in before. changed is false if after has no entries of Berth, or if no entry would be left.
func returned(before, after []metav1.ManagedFieldsEntry) (out []metav1.ManagedFieldsEntry, changed bool, err error) {
	taken := fieldpath.NewSet()
	for _, entry := range after {
		if !isBerths(entry) {
			out = append(out, entry)
			continue
		}
		fields, err := fieldsOf(entry)
		if err != nil {
			return nil, false, err
		}
		taken = taken.Union(fields)
	}
	if len(out) == len(after) {
		return nil, false, nil
	}
	for _, entry := range before {
		fields, err := fieldsOf(entry)
		if err != nil {
			return nil, false, err
		}
		lost := fields.Intersection(taken)
		if isBerths(entry) || lost.Empty() {
			continue
		}
		i := slices.IndexFunc(out, func(other metav1.ManagedFieldsEntry) bool { return sameManager(entry, other) })
		if i < 0 {
			i = len(out)
			entry.FieldsV1 = metav1.NewFieldsV1("{}")
			out = append(out, entry)
		}
		if out[i], err = withFields(out[i], lost); err != nil {
			return nil, false, err
		}
	}
	// The API server interprets an empty list as a request to reset all managed fields.
	return out, len(out) > 0, nil
}

// sameManager reports whether two entries are of one manager, operation, version, and subresource.
func sameManager(a, b metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.APIVersion == b.APIVersion && a.Subresource == b.Subresource
}

// fieldsOf returns the fields of an entry of managed fields.
func fieldsOf(entry metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	out := fieldpath.NewSet()
	if entry.FieldsV1 == nil {
		return out, nil
	}
	if err := out.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return nil, fmt.Errorf("reading the managed fields of %s: %w", entry.Manager, err)
	}
	return out, nil
}

// withFields returns an entry with additional fields.
func withFields(entry metav1.ManagedFieldsEntry, more *fieldpath.Set) (metav1.ManagedFieldsEntry, error) {
	fields, err := fieldsOf(entry)
	if err != nil {
		return entry, err
	}
	text, err := fields.Union(more).ToJSON()
	if err != nil {
		return entry, fmt.Errorf("writing the managed fields of %s: %w", entry.Manager, err)
	}
	entry.FieldsV1 = metav1.NewFieldsV1(string(text))
	return entry, nil
}
