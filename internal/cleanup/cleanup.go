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

// Package cleanup removes what Berth wrote into objects. Administrators use it, through kubectl berth cleanup, to end
// the placement of objects by Berth.
package cleanup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/retry"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/workload"
)

// FieldManager is the field manager of the patches. It owns no fields of an object after the cleanup.
const FieldManager = "kubectl-berth"

// pageSize is the number of objects per list request.
const pageSize = 500

// Cleaner finds the objects that have a record of Berth, and undoes Berth's changes to them. Objects whose record the keyring does not
// trust are left alone, or lose only the record. It is not safe for concurrent use.
type Cleaner struct {
	Discovery discovery.ServerResourcesInterface
	Metadata  metadata.Interface
	Objects   dynamic.Interface
	// Keyring verifies the records.
	Keyring *placement.Keyring
	// Templates finds the pod template of each kind. If it is nil, only the kinds built into Kubernetes are known.
	Templates *workload.Templates
	// ClusterLists finds the list of clusters of each placement kind. If it is nil, only the built-in kinds are known.
	ClusterLists *clusterlist.Kinds
	// DropUntrusted makes Clean remove records that the keyring does not trust and keep all values. Otherwise Clean
	// returns ErrUntrusted for them.
	DropUntrusted bool
	// DryRun sends each change as a server-side dry run, so that the API server validates but does not store it.
	DryRun bool

	// kinds maps the kinds that Find discovered to their resources, so that the controllers of objects can be read; nil before Find.
	kinds map[schema.GroupKind]schema.GroupVersionResource
	// copies are the ReplicaSets and ControllerRevisions without a record, which may have copies of their controller's annotations, by the UID
	// of the controller. Find sets it.
	copies map[types.UID][]Target
}

// Target is an object to clean up: one that has a record, or that gets one from Clean because it has copies of annotations.
type Target struct {
	remediation.Key
	UID types.UID // the UID that the object had when Find listed it; Clean leaves an object with another one alone
	// controlled reports whether the object has a controller. Find returns it after the objects without one, so that Clean is called for the
	// controller first.
	controlled bool
}

// Find returns the objects with a record in a namespace, or in the whole cluster if namespace is empty. Objects with a
// controller come last. The error lists the types that Find could not read. The targets of all other types are returned
// all the same.
func (c *Cleaner) Find(ctx context.Context, namespace string) ([]Target, error) {
	lists, err := c.Discovery.ServerPreferredResources()
	if len(lists) == 0 && err != nil {
		return nil, fmt.Errorf("discovering the types of the API server: %w", err)
	}
	var errs []error
	if err != nil {
		errs = append(errs, fmt.Errorf("objects of some types were not looked at, because the API server can't list these types: %w", err))
	}
	c.kinds, c.copies = map[schema.GroupKind]schema.GroupVersionResource{}, map[types.UID][]Target{}
	var out []Target
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, r := range list.APIResources {
			if !sets.New(r.Verbs...).HasAll("get", "list", "patch") {
				continue
			}
			resource := gv.WithResource(r.Name)
			c.kinds[schema.GroupKind{Group: gv.Group, Kind: r.Kind}] = resource
			if namespace != "" && !r.Namespaced {
				continue
			}
			found, err := c.list(ctx, resource, namespace)
			if err != nil {
				errs = append(errs, fmt.Errorf("listing %s: %w", resource.GroupResource(), err))
			}
			out = append(out, found...)
		}
	}
	slices.SortFunc(out, compareTargets)
	seen := sets.New[types.UID]()
	out = slices.DeleteFunc(out, func(t Target) bool {
		// Some types are served in two groups.
		again := seen.Has(t.UID)
		seen.Insert(t.UID)
		return again
	})
	return out, errors.Join(errs...)
}

// compareTargets orders objects with a controller last, and others by type, namespace, and name. The controller copies its own record to
// them until the controller is cleaned up.
func compareTargets(a, b Target) int {
	if a.controlled != b.controlled {
		if b.controlled {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Resource.Group, b.Resource.Group), cmp.Compare(a.Resource.Resource, b.Resource.Resource),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// list returns the objects of a type that have a record. It adds to copies those without one whose controller, if they have one, copies its
// annotations to them: only ReplicaSets and ControllerRevisions.
func (c *Cleaner) list(ctx context.Context, resource schema.GroupVersionResource, namespace string) ([]Target, error) {
	var out []Target
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := c.Metadata.Resource(resource).Namespace(namespace).List(ctx, options)
		if next := nextOfExpired(err); next != "" && next != options.Continue {
			options.Continue = next
			continue
		}
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			// The type was removed meanwhile.
			return out, nil
		}
		if err != nil {
			return out, err
		}
		for i := range page.Items {
			item := &page.Items[i]
			controller := metav1.GetControllerOfNoCopy(item)
			t := Target{remediation.Key{Resource: resource, Namespace: item.Namespace, Name: item.Name}, item.UID, controller != nil}
			if _, ok := item.Annotations[placementv1.RequestedAnnotation]; ok {
				out = append(out, t)
			} else if controller != nil && placement.HoldsRecordCopies(resource.GroupResource()) {
				c.copies[controller.UID] = append(c.copies[controller.UID], t)
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return out, nil
		}
	}
}

// nextOfExpired returns the token to continue a list after its token expired; "" for other errors. The rest of the list
// may lack objects that were created or deleted meanwhile, which does not matter here.
func nextOfExpired(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

// ErrPlacedAgain reports that Berth placed an object again while it was being cleaned up.
var ErrPlacedAgain = errors.New("the object was placed again: delete the policy that matches the object, and run the command again")

// ErrUntrusted reports that the keyring does not trust an object's record. The record was forged, copied from another
// object, or signed with another key.
var ErrUntrusted = errors.New("the object's record is not signed by Berth's key, so the object is left alone: pass --unverified to trust " +
	"the record, if Berth was installed again with another key, or --drop-untrusted to remove the record and leave all values")

// Clean undoes Berth's changes to an object, and returns what it undid; nil if there was nothing to undo, or the object does not exist any
// more. It repeats attempts that fail with a conflict.
//
// Clean removes the record last. Before that, it adds the record to objects that have copies of the object's annotations but no record. So
// after an interruption, every object that is not clean has a record, and the next run finds it. It cleans up these objects last.
func (c *Cleaner) Clean(ctx context.Context, t Target) (*placement.UndoResult, error) {
	var out *placement.UndoResult
	var marked []Target
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		undone, copies, err := c.try(ctx, t)
		marked = copies
		// An earlier attempt may have restored values before its last patch failed with a conflict.
		if out == nil || undone != nil && len(undone.Changes) > len(out.Changes) {
			out = undone
		}
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	for _, other := range marked {
		if _, err := c.Clean(ctx, other); err != nil {
			return out, fmt.Errorf("the object is cleaned up, but not the copies of its annotations on %s: %w", other, err)
		}
	}
	return out, nil
}

// try makes one attempt of Clean. It fails with a conflict if the object changes meanwhile. marked are the objects with copies of the
// annotations to which try added the record. Clean them up after this object, whose controller copies annotations to them until then.
func (c *Cleaner) try(ctx context.Context, t Target) (out *placement.UndoResult, marked []Target, err error) {
	obj, err := c.Objects.Resource(t.Resource).Namespace(t.Namespace).Get(ctx, t.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	record, ok := obj.GetAnnotations()[placementv1.RequestedAnnotation]
	if !ok || obj.GetUID() != t.UID {
		return nil, nil, nil
	}
	if out, err = c.undo(ctx, t, obj); err != nil {
		return nil, nil, fmt.Errorf("nothing of the object is undone: %w; remove the cause, or remove the object's annotation %s to keep it "+
			"as it is, and run the command again", err, placementv1.RequestedAnnotation)
	}
	if !out.Trusted && !c.DropUntrusted {
		return nil, nil, ErrUntrusted
	}
	clean := out.Object
	if !c.DryRun {
		if marked, err = c.mark(ctx, t.UID, record); err != nil {
			return nil, marked, err
		}
		if ops := placement.Patch(obj, withRecord(clean, record), out.Paths); takesFields(ops) {
			if obj, err = c.restore(ctx, t, obj, out, ops); err != nil {
				return out, marked, err
			}
			clean = withRecord(obj, "")
		}
	}
	ops := placement.Patch(obj, clean, out.Paths)
	managers, changed, err := returned(ownersIn(obj), obj.GetManagedFields())
	if err != nil {
		return out, marked, err
	}
	if changed {
		ops = append(ops, jsonpatch.NewOperation("replace", "/metadata/managedFields", managers))
	}
	after, err := c.patch(ctx, t, obj, ops)
	if err == nil && after.GetAnnotations()[placementv1.RequestedAnnotation] != "" {
		err = ErrPlacedAgain
	}
	return out, marked, err
}

// undo returns an object without Berth's changes, and these changes, of which there may be none. Without an error, the result is not nil. A
// record that the keyring does not trust is no error: then Trusted is false, and there are no changes. undo sends nothing to the API server
// but reads of owners.
func (c *Cleaner) undo(ctx context.Context, t Target, obj *unstructured.Unstructured) (*placement.UndoResult, error) {
	d := &placement.Decider{Keyring: c.Keyring, Templates: c.Templates, ClusterLists: c.ClusterLists, Owners: owners{c}}
	return d.Undo(ctx, t.Resource, obj)
}

// restore sends one patch, with all changes except the removal of the record. The patch also stores in the record which field managers
// owned the fields that changes names. restore returns the patched object, or ErrPlacedAgain if that has values of policies again.
func (c *Cleaner) restore(ctx context.Context, t Target, obj *unstructured.Unstructured, undone *placement.UndoResult,
	changes []jsonpatch.Operation) (*unstructured.Unstructured, error) {
	record, err := recordWithOwners(obj, changes)
	if err != nil {
		return nil, err
	}
	after, err := c.patch(ctx, t, obj, placement.Patch(obj, withRecord(undone.Object, record), undone.Paths))
	if err != nil {
		return nil, err
	}
	again, err := c.undo(ctx, t, after)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(again.Changes, func(change placement.Change) bool { return change.Immutable == "" }) {
		return nil, ErrPlacedAgain
	}
	return after, nil
}

// mark adds the record of an owner to those objects in copies that the owner controls and that still have a policy's value by this record.
// It returns these objects, and those in copies that have got a record meanwhile. If a policy matched such an object, Berth dropped the
// record from the object's copy of the annotations, because it is the owner's record.
func (c *Cleaner) mark(ctx context.Context, owner types.UID, record string) ([]Target, error) {
	var marked []Target
	for _, t := range c.copies[owner] {
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			obj, err := c.Objects.Resource(t.Resource).Namespace(t.Namespace).Get(ctx, t.Name, metav1.GetOptions{})
			if err != nil || obj.GetUID() != t.UID {
				return err
			}
			if _, ok := obj.GetAnnotations()[placementv1.RequestedAnnotation]; !ok {
				with := withRecord(obj, record)
				undone, err := c.undo(ctx, t, with)
				if err != nil || len(undone.Changes) == 0 {
					return err
				}
				if _, err := c.patch(ctx, t, obj, placement.Patch(obj, with, placement.Paths{})); err != nil {
					return err
				}
			}
			marked = append(marked, t)
			return nil
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return marked, fmt.Errorf("the object is not cleaned up, because its record can't be added to %s, which has copies of its "+
				"annotations: %w", t, err)
		}
	}
	return marked, nil
}

// withRecord returns the object with the record, or without any if record is empty. It shares everything except the
// metadata with obj.
func withRecord(obj *unstructured.Unstructured, record string) *unstructured.Unstructured {
	annotations := obj.GetAnnotations()
	delete(annotations, placementv1.RequestedAnnotation)
	if record != "" {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[placementv1.RequestedAnnotation] = record
	}
	out := &unstructured.Unstructured{Object: maps.Clone(obj.Object)}
	if metadata, ok := obj.Object["metadata"].(map[string]any); ok {
		out.Object["metadata"] = maps.Clone(metadata)
	}
	out.SetAnnotations(annotations)
	return out
}

// patch sends a JSON patch with operations, even without any, and returns the patched object. It fails with a Conflict if the object's
// resource version is not that of before. In a dry run, the API server stores nothing.
func (c *Cleaner) patch(ctx context.Context, t Target, before *unstructured.Unstructured,
	ops []jsonpatch.Operation) (*unstructured.Unstructured, error) {
	ops = append(ops, jsonpatch.NewOperation("replace", "/metadata/resourceVersion", before.GetResourceVersion()))
	text, err := json.Marshal(ops)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	options := metav1.PatchOptions{FieldManager: FieldManager}
	if c.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return c.Objects.Resource(t.Resource).Namespace(t.Namespace).Patch(ctx, t.Name, types.JSONPatchType, text, options)
}

// owners looks up the objects that control others, by reading from the API server. It implements placement.Owners.
type owners struct{ *Cleaner }

// Owner returns the object of a namespace that has the reference's kind and name, as the API server stores it. It returns nil if there is
// none, or if Find did not discover the kind. It implements placement.Owners.
func (o owners) Owner(ctx context.Context, namespace string, reference metav1.OwnerReference) (*unstructured.Unstructured, error) {
	resource, ok := o.kinds[schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind).GroupKind()]
	if !ok {
		return nil, nil
	}
	owner, err := o.Objects.Resource(resource).Namespace(namespace).Get(ctx, reference.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return owner, err
}
