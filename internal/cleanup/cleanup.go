// Package cleanup removes what Berth wrote into objects, for an administrator who does not want Berth to place them any more.
package cleanup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/workload"
)

// FieldManager is the field manager of the patches. It owns no field once an object is cleaned up.
const FieldManager = "kubectl-berth"

// pageSize is how many objects are listed at a time.
const pageSize = 500

// Cleaner finds the objects that have a record of Berth's, and undoes what Berth did to them. It is not safe for concurrent
// use.
type Cleaner struct {
	Discovery discovery.ServerResourcesInterface
	Metadata  metadata.Interface
	Objects   dynamic.Interface
	// Keyring tells which records are genuine.
	Keyring *placement.Keyring
	// Templates knows where objects have their pods; nil for those of Kubernetes' own kinds.
	Templates *workload.Templates
	// DropUntrusted removes records that the keyring does not trust, and leaves all values as they are. Otherwise Clean fails
	// with ErrUntrusted.
	DropUntrusted bool
	// DryRun has the API server check each change, and store none.
	DryRun bool

	// kinds are the resources of kinds, as Find discovered them.
	kinds map[schema.GroupKind]schema.GroupVersionResource
	// copies are the objects without a record that may have copies of the annotations of the object that controls them, by
	// the uid of that one, as Find found them.
	copies map[types.UID][]Target
}

// Target is an object that has a record.
type Target struct {
	Resource        schema.GroupVersionResource
	Namespace, Name string
	UID             types.UID
	// controlled reports whether another object controls it.
	controlled bool
}

// String names the object, as in deployments.apps shop/web.
func (t Target) String() string {
	name := t.Name
	if t.Namespace != "" {
		name = t.Namespace + "/" + name
	}
	return t.Resource.GroupResource().String() + " " + name
}

// Find returns the objects of a namespace that have a record, or of the cluster if the namespace is empty; objects that
// others control come last. The error says which types it could not look at: the targets are those of the others.
func (c *Cleaner) Find(ctx context.Context, namespace string) ([]Target, error) {
	lists, err := c.Discovery.ServerPreferredResources()
	if len(lists) == 0 && err != nil {
		return nil, fmt.Errorf("discovering the types of the API server: %w", err)
	}
	var errs []error
	if err != nil {
		errs = append(errs, fmt.Errorf("discovering the types of the API server: %w", err))
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
		// Some types are served by two groups.
		again := seen.Has(t.UID)
		seen.Insert(t.UID)
		return again
	})
	return out, errors.Join(errs...)
}

// compareTargets orders what others control last: its controller copies the record to it again while it has one itself.
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

// list returns the objects of a type that have a record.
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
			// The type is gone meanwhile.
			return out, nil
		}
		if err != nil {
			return out, err
		}
		for i := range page.Items {
			item := &page.Items[i]
			controller := metav1.GetControllerOfNoCopy(item)
			t := Target{Resource: resource, Namespace: item.Namespace, Name: item.Name, UID: item.UID, controlled: controller != nil}
			if _, ok := item.Annotations[placementv1.RequestedAnnotation]; ok {
				out = append(out, t)
			} else if controller != nil && placement.KeepsCopies(resource.GroupResource()) {
				c.copies[controller.UID] = append(c.copies[controller.UID], t)
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return out, nil
		}
	}
}

// nextOfExpired returns what to continue a list by that took too long; empty if that is not the error. What was created or
// deleted meanwhile may be missing, which does not matter here.
func nextOfExpired(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

// ErrPlacedAgain says that Berth placed an object again while it was cleaned up.
var ErrPlacedAgain = errors.New("it was placed again: delete the policy that matches it, and run the command again")

// ErrUntrusted says that the keyring does not trust the record of an object: somebody forged it, it was copied from another
// object, or another key signed it.
var ErrUntrusted = errors.New("its record is not signed by Berth's key, so it is left alone: pass --unverified to trust it, if Berth " +
	"was installed again with another key, or --drop-untrusted to remove the record and leave all values")

// Clean undoes what Berth did to an object. It returns nil if there is nothing to undo any more.
func (c *Cleaner) Clean(ctx context.Context, t Target) (*placement.Undoing, error) {
	var out *placement.Undoing
	var before, after *unstructured.Unstructured
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var err error
		out, before, after, err = c.try(ctx, t)
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case out == nil:
		return nil, nil
	case after.GetAnnotations()[placementv1.RequestedAnnotation] != "":
		return nil, ErrPlacedAgain
	case c.DryRun:
		return out, nil
	}
	if err := c.cleanCopies(ctx, t.UID, out.Changes); err != nil {
		return out, err
	}
	if err := c.returnFields(ctx, t, before, after); err != nil {
		return out, fmt.Errorf("cleaned up, but the fields that were restored have %s as their field manager: %w", FieldManager, err)
	}
	return out, nil
}

// try is one attempt. It fails with a conflict if somebody changed the object meanwhile.
func (c *Cleaner) try(ctx context.Context, t Target) (out *placement.Undoing, before, after *unstructured.Unstructured, err error) {
	objects := c.Objects.Resource(t.Resource).Namespace(t.Namespace)
	before, err = objects.Get(ctx, t.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, nil, err
	}
	if _, ok := before.GetAnnotations()[placementv1.RequestedAnnotation]; !ok || before.GetUID() != t.UID {
		return nil, nil, nil, nil
	}
	d := &placement.Decider{Keyring: c.Keyring, Templates: c.Templates, Owners: owners{c}}
	if out, err = d.Undo(ctx, t.Resource, before); err != nil {
		return nil, nil, nil, err
	}
	if !out.Trusted && !c.DropUntrusted {
		return nil, nil, nil, ErrUntrusted
	}
	after, err = c.patch(ctx, t, before, placement.Patch(before, out.Object, out.PodSpec...))
	return out, before, after, err
}

// cleanCopies undoes the changes in the copies of the annotations of an object. Policies that match the copies have dropped
// the record there, which is not theirs.
func (c *Cleaner) cleanCopies(ctx context.Context, owner types.UID, changes []placement.Change) error {
	for _, t := range c.copies[owner] {
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			obj, err := c.Objects.Resource(t.Resource).Namespace(t.Namespace).Get(ctx, t.Name, metav1.GetOptions{})
			if err != nil || obj.GetUID() != t.UID {
				return err
			}
			ops := placement.Patch(obj, placement.UndoCopy(obj, changes))
			if len(ops) == 0 {
				return nil
			}
			_, err = c.patch(ctx, t, obj, ops)
			return err
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("cleaned up, but not the copies of its annotations on %s: %w", t, err)
		}
	}
	return nil
}

// patch sends a patch that fails with a conflict if the object is not the one before any more.
func (c *Cleaner) patch(ctx context.Context, t Target, before *unstructured.Unstructured, ops []jsonpatch.Operation) (*unstructured.Unstructured, error) {
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

// owners looks up the objects that control others.
type owners struct{ *Cleaner }

// Owner implements placement.Owners.
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
