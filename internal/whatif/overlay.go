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

package whatif

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/rollout"
	"github.com/berth-dev/berth/internal/simulation"
)

// Changes are changes of a cluster whose effect is simulated. They are not made.
type Changes struct {
	// Apply are manifests that are applied as `kubectl apply` does: fields that the last applied manifest had and the new one lacks are
	// removed. If an object of Berth's API, such as a PlacementPolicy or a quota, was not applied before, its spec is replaced as a whole.
	// The status stays, except that of quotas where policies read it.
	Apply []*unstructured.Unstructured
	// Delete names existing objects that are deleted. It is an error if one does not exist.
	Delete []Reference
	// Set are fields of existing objects that get another value or are removed. It is an error if an object does not exist.
	Set []Assignment
}

// Reference identifies an object.
type Reference struct {
	Resource schema.GroupVersionResource
	types.NamespacedName
}

// String returns the type, namespace, and name of the object, such as "deployments.apps shop/web".
func (r Reference) String() string {
	return r.Resource.GroupResource().String() + " " + strings.TrimPrefix(r.NamespacedName.String(), "/")
}

// Assignment gives a field of an object a new value. The value nil removes the field.
type Assignment struct {
	Reference
	Path  []string // names of members, from the object to the field, which may be in no list
	Value any      // nil removes the field
	// Text is the value as the user wrote it. It is used instead of Value if the field has a string now: 1.30 stays a version. If Text is
	// empty, Value is always used.
	Text string
}

// overlay is a cluster as it would be after changes, which are not made in the cluster below it.
type overlay struct {
	simulation.Cluster
	// changed has the objects that the changes create, alter, or delete, by type and name. All others are as in Cluster.
	changed map[schema.GroupVersionResource]map[types.NamespacedName]change
}

// change is an object before and after the changes; nil stands for one that does not exist.
type change struct{ before, after *unstructured.Unstructured }

var _ simulation.Cluster = (*overlay)(nil)

// newOverlay returns the base cluster after the changes: first those in Apply, then Set, then Delete. An error names the object whose
// change is not possible.
func newOverlay(ctx context.Context, base simulation.Cluster, c Changes) (*overlay, error) {
	o := &overlay{Cluster: base, changed: map[schema.GroupVersionResource]map[types.NamespacedName]change{}}
	for _, obj := range c.Apply {
		if err := o.apply(ctx, obj); err != nil {
			return nil, fmt.Errorf("%s: %w", simulation.Describe(obj), err)
		}
	}
	for _, s := range c.Set {
		if err := o.set(ctx, s); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Reference, err)
		}
	}
	for _, r := range c.Delete {
		obj, err := o.Get(ctx, r.Resource, r.Namespace, r.Name)
		if err != nil {
			return nil, err
		}
		if obj == nil {
			return nil, fmt.Errorf("%s does not exist, so it can't be deleted", r)
		}
		o.put(r, obj, nil)
	}
	return o, nil
}

// WithChanges returns a cluster as it would be after the changes. An error names the object whose change is not possible.
func WithChanges(ctx context.Context, cluster simulation.Cluster, c Changes) (simulation.Cluster, error) {
	return newOverlay(ctx, cluster, c)
}

// put records the change of an object. before is the object before this change, and after nil if it is deleted. If the object has changed
// already, the one before its first change stays.
func (o *overlay) put(r Reference, before, after *unstructured.Unstructured) {
	if o.changed[r.Resource] == nil {
		o.changed[r.Resource] = map[types.NamespacedName]change{}
	}
	if earlier, ok := o.changed[r.Resource][r.NamespacedName]; ok {
		before = earlier.before
	}
	o.changed[r.Resource][r.NamespacedName] = change{before, after}
}

// change returns the object with a key before and after the changes. ok is false if no change of it is recorded. It is true for one that
// leaves the object as it was.
func (o *overlay) change(key objectKey) (c change, ok bool) {
	c, ok = o.changed[key.resource][key.name]
	return c, ok
}

// apply records that a manifest is applied: that it creates an object or, if the object exists, what it changes in that. A namespaced
// object without a namespace is in the namespace default.
func (o *overlay) apply(ctx context.Context, obj *unstructured.Unstructured) error {
	resource, err := o.Resource(obj.GroupVersionKind())
	if err != nil {
		return err
	}
	r := Reference{resource.GroupVersionResource, types.NamespacedName{Name: obj.GetName()}}
	if resource.Namespaced {
		r.Namespace = cmp.Or(obj.GetNamespace(), metav1.NamespaceDefault)
	}
	if r.Name == "" {
		return errors.New("metadata.name is missing")
	}
	existing, err := o.Get(ctx, r.Resource, r.Namespace, r.Name)
	if err != nil {
		return err
	}
	next := obj.DeepCopy()
	next.SetNamespace(r.Namespace)
	if existing != nil {
		if next, err = merge(existing, next); err != nil {
			return err
		}
	}
	if resource.GroupVersionResource == namespaces {
		// As the API server does.
		next.SetLabels(labels.Merge(next.GetLabels(), labels.Set{corev1.LabelMetadataName: r.Name}))
	}
	o.put(r, existing, next)
	return nil
}

// merge returns what an existing object is after a manifest was applied as kubectl apply does: with what the manifest sets, without what
// only the manifest that was applied last had, and otherwise as it is. The status stays. The whole spec is that of the manifest if the
// object is of Berth's API and was not applied before. merge changes the manifest.
func merge(existing, manifest *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	// Its controller writes the status.
	delete(manifest.Object, "status")
	current, err := json.Marshal(existing.Object)
	if err != nil {
		return nil, err
	}
	applied, err := json.Marshal(manifest.Object)
	if err != nil {
		return nil, err
	}
	last := existing.GetAnnotations()[corev1.LastAppliedConfigAnnotation]
	merged, err := threeWayMerge(existing.GroupVersionKind(), []byte(last), applied, current)
	if err != nil {
		return nil, fmt.Errorf("applying it to the existing object: %w", err)
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(merged); err != nil {
		return nil, err
	}
	if spec, ok := manifest.Object["spec"]; ok && last == "" && out.GroupVersionKind().Group == placementv1.GroupVersion.Group {
		out.Object["spec"] = spec
	}
	out.SetGeneration(existing.GetGeneration() + 1)
	return out, nil
}

// threeWayMerge returns the JSON of the current object with what a manifest sets, and without what the last applied manifest (last) had and
// this one lacks. Lists of Kubernetes' own kinds are merged by their keys, as kubectl does.
func threeWayMerge(gvk schema.GroupVersionKind, last, manifest, current []byte) ([]byte, error) {
	builtin, err := scheme.Scheme.New(gvk)
	if runtime.IsNotRegisteredError(err) {
		patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(last, manifest, current)
		if err != nil {
			return nil, err
		}
		return jsonpatch.MergePatch(current, patch)
	}
	if err != nil {
		return nil, err
	}
	keys, err := strategicpatch.NewPatchMetaFromStruct(builtin)
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(last, manifest, current, keys, true)
	if err != nil {
		return nil, err
	}
	return strategicpatch.StrategicMergePatchUsingLookupPatchMeta(current, patch, keys)
}

// set records that a field of an existing object gets another value. It is an error if the object does not exist, or if the field is its
// type, namespace, or name.
func (o *overlay) set(ctx context.Context, s Assignment) error {
	existing, err := o.Get(ctx, s.Resource, s.Namespace, s.Name)
	if err != nil {
		return err
	}
	if existing == nil {
		return fmt.Errorf("does not exist, so no field of it can be set")
	}
	next := existing.DeepCopy()
	if _, isText, _ := unstructured.NestedString(next.Object, s.Path...); isText && s.Text != "" {
		s.Value = s.Text
	}
	if s.Value == nil {
		unstructured.RemoveNestedField(next.Object, s.Path...)
	} else if err := unstructured.SetNestedField(next.Object, s.Value, s.Path...); err != nil {
		return err
	}
	if next.GetName() != existing.GetName() || next.GetNamespace() != existing.GetNamespace() ||
		next.GroupVersionKind() != existing.GroupVersionKind() {
		return errors.New("a change can't set the type, namespace, or name of an object")
	}
	o.put(s.Reference, existing, next)
	return nil
}

// Policies implements simulation.Cluster. It returns the policies as they are after the changes, by name. If a change of a policy starts a
// rollout, the policy has no status.rollout, so that the new version is in force in all namespaces, as after the last stage.
func (o *overlay) Policies(ctx context.Context) ([]placementv1.PlacementPolicy, error) {
	before, err := o.Cluster.Policies(ctx)
	if err != nil {
		return nil, err
	}
	changed := o.changed[placementPolicies]
	out := slices.DeleteFunc(slices.Clone(before), func(p placementv1.PlacementPolicy) bool {
		_, ok := changed[types.NamespacedName{Name: p.Name}]
		return ok
	})
	for _, c := range changed {
		obj := c.after
		if obj == nil {
			continue
		}
		var p placementv1.PlacementPolicy
		if err := numeral.FromUnstructuredStrictly(obj.Object, &p); err != nil {
			return nil, fmt.Errorf("%s: %w", simulation.Describe(obj), err)
		}
		if !rollout.PositionOf(p.Status.Rollout).Concerns(rollout.Digest(p.Spec)) {
			// The change starts a rollout. The question is what it leads to in the end.
			p.Status.Rollout = nil
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b placementv1.PlacementPolicy) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// List implements simulation.Cluster. It returns the objects of a type as they are after the changes; an error if a change has another
// version of the type.
func (o *overlay) List(ctx context.Context, resource schema.GroupVersionResource,
	fields *projection.FieldSet) ([]*unstructured.Unstructured, error) {
	for other := range o.changed {
		if other != resource && other.GroupResource() == resource.GroupResource() {
			return nil, fmt.Errorf("policies or quotas read %s in version %s: write the change in this version, not in %s",
				resource.GroupResource(), resource.Version, other.Version)
		}
	}
	before, err := o.Cluster.List(ctx, resource, fields)
	changed := o.changed[resource]
	if err != nil || len(changed) == 0 {
		return before, err
	}
	out := slices.DeleteFunc(slices.Clone(before), func(obj *unstructured.Unstructured) bool {
		_, ok := changed[types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}]
		return ok
	})
	for _, c := range changed {
		if c.after != nil {
			out = append(out, c.after)
		}
	}
	return out, nil
}

// Get implements simulation.Cluster. It returns an object as it is after the changes; nil if it does not exist then.
func (o *overlay) Get(ctx context.Context, resource schema.GroupVersionResource, namespace,
	name string) (*unstructured.Unstructured, error) {
	if c, ok := o.change(objectKey{resource, types.NamespacedName{Namespace: namespace, Name: name}}); ok {
		return c.after, nil
	}
	return o.Cluster.Get(ctx, resource, namespace, name)
}
