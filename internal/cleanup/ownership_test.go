package cleanup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
