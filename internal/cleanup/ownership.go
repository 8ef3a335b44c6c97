package cleanup

import (
	"context"
	"fmt"
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// The API server makes whoever changes the value of a field its owner. A developer who applies a changed manifest
// server-side would get a conflict with the cleanup. So once a requested value is restored, the field goes back to the field
// managers that owned it while it had the policy's value. That takes a second patch: managed fields in a patch that changes
// fields as well count for what they were before.

// returnFields gives the fields that the first patch took back to those that owned them before.
func (c *Cleaner) returnFields(ctx context.Context, t Target, before, after *unstructured.Unstructured) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		entries, changed, err := returned(before.GetManagedFields(), after.GetManagedFields())
		if err != nil || !changed {
			return err
		}
		_, err = c.patch(ctx, t, after, []jsonpatch.Operation{jsonpatch.NewOperation("replace", "/metadata/managedFields", entries)})
		if err == nil {
			return nil
		}
		latest, getErr := c.Objects.Resource(t.Resource).Namespace(t.Namespace).Get(ctx, t.Name, metav1.GetOptions{})
		if getErr != nil {
			return getErr
		}
		after = latest
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// returned returns the managed fields without those of FieldManager, each of which its owners before own again; changed is
// false if FieldManager has none.
func returned(before, after []metav1.ManagedFieldsEntry) (out []metav1.ManagedFieldsEntry, changed bool, err error) {
	taken := fieldpath.NewSet()
	for _, entry := range after {
		if entry.Manager != FieldManager {
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
		if entry.Manager == FieldManager || lost.Empty() {
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
	// The API server takes an empty list for a wish to forget who owns what.
	return out, len(out) > 0, nil
}

func sameManager(a, b metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.APIVersion == b.APIVersion && a.Subresource == b.Subresource
}

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

// withFields returns an entry that has more fields.
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
