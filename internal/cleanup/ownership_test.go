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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gomodules.xyz/jsonpatch/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/remediation"
)

func managed(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func TestReturned(t *testing.T) {
	const apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	const a, b, both = `{"f:data":{"f:a":{}}}`, `{"f:data":{"f:b":{}}}`, `{"f:data":{"f:a":{},"f:b":{}}}`
	type entries []metav1.ManagedFieldsEntry
	tests := map[string]struct {
		before, after, want entries
		changed             bool
	}{
		"NothingTaken":  {before: entries{managed("dev", apply, both)}, after: entries{managed("dev", apply, both)}},
		"One":           {before: entries{managed("dev", apply, both)}, after: entries{managed("dev", apply, b), managed(FieldManager, update, a)}, want: entries{managed("dev", apply, both)}, changed: true},
		"All":           {before: entries{managed("dev", apply, a)}, after: entries{managed(FieldManager, update, a)}, want: entries{managed("dev", apply, a)}, changed: true},
		"Shared":        {before: entries{managed("dev", apply, both), managed("ops", update, a)}, after: entries{managed("dev", apply, b), managed(FieldManager, update, a)}, want: entries{managed("dev", apply, both), managed("ops", update, a)}, changed: true},
		"Operations":    {before: entries{managed("dev", apply, a), managed("dev", update, b)}, after: entries{managed("dev", update, b), managed(FieldManager, update, a)}, want: entries{managed("dev", update, b), managed("dev", apply, a)}, changed: true},
		"OthersWrite":   {before: entries{managed("dev", apply, a)}, after: entries{managed("dev", apply, a), managed("ops", update, b)}},
		"NobodysBefore": {after: entries{managed(FieldManager, update, a)}},
		"LeftEarlier":   {before: entries{managed("dev", apply, b), managed(FieldManager, update, a)}, after: entries{managed("dev", apply, b), managed(FieldManager, update, a)}, want: entries{managed("dev", apply, b)}, changed: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, changed, err := returned(tc.before, tc.after)
			if err != nil {
				t.Fatal(err)
			}
			if changed != tc.changed || changed && cmp.Diff(tc.want, entries(got)) != "" {
				t.Errorf("changed %t, want %t; managed fields (-want +got):\n%s", changed, tc.changed, cmp.Diff(tc.want, entries(got)))
			}
		})
	}
	if _, _, err := returned(nil, []metav1.ManagedFieldsEntry{managed(FieldManager, update, "nonsense")}); err == nil {
		t.Error("fields that are no fields are read")
	}
}

func TestTakesFields(t *testing.T) {
	for name, tc := range map[string]struct {
		op, path string
		want     bool
	}{
		"member removed":    {op: "remove", path: "/metadata/annotations/example.com~1zone"},
		"list removed":      {op: "remove", path: "/spec/tolerations"},
		"item removed":      {op: "remove", path: "/spec/tolerations/0", want: true},
		"member set":        {op: "add", path: "/metadata/labels/a", want: true},
		"value replaced":    {op: "replace", path: "/spec/schedulerName", want: true},
		"member of a digit": {op: "remove", path: "/metadata/labels/1", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := takesFields([]jsonpatch.Operation{{Operation: tc.op, Path: tc.path}}); got != tc.want {
				t.Errorf("takesFields() = %t, want %t", got, tc.want)
			}
		})
	}
	if takesFields(nil) {
		t.Error("no operation takes a field")
	}
}

func TestRecordWithOwners(t *testing.T) {
	const apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	const fields = `{"f:metadata":{"f:annotations":{"f:a/b":{},"f:c":{}}},"f:spec":{"f:nodeSelector":{},"f:replicas":{},"f:tolerations":{}}}`
	obj := func(uid types.UID, record string, entries ...metav1.ManagedFieldsEntry) *unstructured.Unstructured {
		out := &unstructured.Unstructured{Object: map[string]any{}}
		out.SetUID(uid)
		out.SetAnnotations(map[string]string{placementv1.RequestedAnnotation: record})
		out.SetManagedFields(entries)
		return out
	}
	ops := []jsonpatch.Operation{
		{Operation: "add", Path: "/metadata/annotations/a~1b"},
		{Operation: "add", Path: "/spec/nodeSelector/disk"},
		{Operation: "replace", Path: "/spec/tolerations/0/key"},
	}
	record, err := recordWithOwners(obj("u", `{"annotations":{"a/b":{"set":"x"}},"signature":"s"}`,
		managed("developer", apply, fields), managed("other", update, `{"f:spec":{"f:replicas":{}}}`),
		managed(FieldManager, update, fields), managed(remediation.FieldManager, update, fields)), ops)
	if err != nil {
		t.Fatal(err)
	}
	taken := managed("developer", apply, `{"f:metadata":{"f:annotations":{"f:a/b":{}}},"f:spec":{"f:nodeSelector":{},"f:tolerations":{}}}`)
	if diff := cmp.Diff([]metav1.ManagedFieldsEntry{taken}, ownersIn(obj("u", record))); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	if got := ownersIn(obj("copy", record)); got != nil {
		t.Errorf("the copy of a record names owners of the copy: %v", got)
	}
	if !strings.Contains(record, `"signature":"s"`) || !strings.Contains(record, `"annotations":{"a/b":{"set":"x"}}`) {
		t.Errorf("the record lost something: %s", record)
	}
	again, err := recordWithOwners(obj("u", record, managed("second", update, fields)), ops[:1])
	if err != nil {
		t.Fatal(err)
	}
	want := []metav1.ManagedFieldsEntry{taken, managed("second", update, `{"f:metadata":{"f:annotations":{"f:a/b":{}}}}`)}
	if diff := cmp.Diff(want, ownersIn(obj("u", again))); diff != "" {
		t.Errorf("owners of two runs (-want +got):\n%s", diff)
	}
	if got := ownersIn(obj("u", "nonsense")); got != nil {
		t.Errorf("owners in nonsense: %v", got)
	}
}
