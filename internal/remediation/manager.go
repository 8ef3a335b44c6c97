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

package remediation

import (
	"bytes"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/berth-dev/berth/internal/placement"
)

// ManagerOf returns the field manager other than Berth that last wrote a field which a patch changes. If none of the fields has an
// owner, for example because its value was removed, it is the one that last wrote any field of the object. It is empty if
// there is none.
func ManagerOf(entries []metav1.ManagedFieldsEntry, due Due) string {
	var owner, writer metav1.ManagedFieldsEntry
	for _, entry := range entries {
		if IsFieldManager(entry.Manager) || entry.Subresource != "" {
			continue
		}
		if later(entry, writer) {
			writer = entry
		}
		if later(entry, owner) && owns(entry, due.changes()) {
			owner = entry
		}
	}
	if owner.Manager != "" {
		return owner.Manager
	}
	return writer.Manager
}

// later reports whether a field manager wrote not earlier than another.
func later(a, b metav1.ManagedFieldsEntry) bool {
	at := func(e metav1.ManagedFieldsEntry) time.Time {
		if e.Time == nil {
			return time.Time{}
		}
		return e.Time.Time
	}
	return !at(a).Before(at(b))
}

// owns reports whether a field manager owns a field that one of the changes sets.
func owns(entry metav1.ManagedFieldsEntry, changes []placement.Change) bool {
	var fields fieldpath.Set
	if entry.FieldsV1 == nil || fields.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) != nil {
		return false
	}
	found := false
	fields.Iterate(func(path fieldpath.Path) {
		for _, c := range changes {
			found = found || within(path, c)
		}
	})
	return found
}

// within reports whether a path is that of a field which a change sets, or part of it.
func within(path fieldpath.Path, c placement.Change) bool {
	prefix := []string{"metadata", c.Field, c.Key}
	switch {
	case c.ChangesPods():
		member, _, _ := strings.Cut(c.Key, "/")
		prefix = append(slices.Clone(c.PodSpec), member)
	case c.ChangesClusters():
		prefix = strings.Split(c.Key, ".")
	}
	if len(path) < len(prefix) {
		return false
	}
	for i, name := range prefix {
		if path[i].FieldName == nil || *path[i].FieldName != name {
			return false
		}
	}
	return true
}
