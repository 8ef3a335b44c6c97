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
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/workload"
)

// copies are the resources whose objects get copies of the annotations of the object that controls them, including its
// record. The controllers of Deployments, DaemonSets, and StatefulSets store the revisions for rollbacks in them.
var copies = []schema.GroupResource{replicaSets, appsv1.Resource("controllerrevisions")}

// HoldsRecordCopies reports whether objects of a resource get copies of the annotations, including the record, of the objects that control
// them: ReplicaSets and ControllerRevisions do.
func HoldsRecordCopies(resource schema.GroupResource) bool { return slices.Contains(copies, resource) }

// UndoResult is an existing object without the changes that policies made, the changes that take it there, and whether its record could be
// trusted. It has no verdicts.
type UndoResult struct {
	// Object is the object with the requested values instead of the policies' values, and without the record. It shares everything that was
	// not merged with the original object.
	Object *unstructured.Unstructured
	// Paths are the paths at which Object may have other values than the original object, beside labels and annotations.
	Paths
	// Changes are the changes that undo the policies' values, one for each key. A key that the API server does not allow to change has
	// Immutable set, and keeps the policy's value in Object.
	Changes []Change
	// Trusted reports whether the object had a record that the keyring trusts, its own or a copy of its controller's. Without such a record
	// there are no Changes.
	Trusted bool
	// Template reports whether the object is a ReplicaSet or a ControllerRevision with a copy of its controller's record, and that record says
	// that policies set scheduling values in the pod template. Undo keeps the template, because the controller identifies the revision by it,
	// and restores annotations alone.
	Template bool
}

// Undo returns an existing object as if every policy in its record had just decided to set nothing. It keeps values that another client
// changed after a policy set them, unless a policy set them earlier. It evaluates no policy.
func (d *Decider) Undo(ctx context.Context, resource schema.GroupVersionResource, obj *unstructured.Unstructured) (*UndoResult, error) {
	r := &Request{Resource: resource, Namespace: obj.GetNamespace(), Object: obj, Old: obj}
	id := identityOf(obj, r.Namespace)
	out := &UndoResult{}
	recorded := d.Keyring.readStored(obj, id)
	if of, ok := d.copiedFrom(r, recorded); ok {
		var err error
		if recorded, err = d.readCopy(ctx, r, of); err != nil {
			return nil, err
		}
		if recorded != nil {
			out.Template = len(recorded.Scheduling) > 0
			recorded = &record{Annotations: recorded.Annotations}
		}
	}
	out.Trusted = recorded != nil
	at := locations{clusters: d.ClusterLists.Of(resource.GroupResource())}
	if recorded != nil && recorded.Form != "" && at.clusters == nil {
		return nil, &clusterlist.UnknownKindError{GroupKind: obj.GroupVersionKind().GroupKind()}
	}
	if recorded.schedules() {
		var known bool
		if at.podSpec, known = d.Templates.Path(resource.GroupResource()); !known {
			return nil, &workload.UnknownKindError{GroupKind: obj.GroupVersionKind().GroupKind()}
		}
	}
	current := intentOf(obj, at, sources{records: []*record{recorded}})
	if current.pods.err != nil {
		return nil, current.pods.err
	}
	if current.clusters != nil && current.clusters.err != nil {
		return nil, current.clusters.err
	}
	owned := false
	if len(current.applied.Scheduling) > 0 {
		var err error
		if owned, err = d.madeByOwner(ctx, r); err != nil {
			return nil, err
		}
	}
	m := &merger{intent: current, verdicts: withdrawnVerdicts(&current.applied), request: r, owned: owned}
	values, _, err := m.merge()
	if err != nil {
		return nil, err
	}
	outcome, err := d.outcome(&current, values, record{}, id, m.verdicts)
	if err != nil {
		return nil, err
	}
	out.Object, out.Paths = outcome.Object, outcome.Paths
	for _, v := range m.verdicts {
		for _, c := range v.Changes {
			same := func(other Change) bool { return other.Field == c.Field && other.Key == c.Key }
			if !slices.ContainsFunc(out.Changes, same) {
				out.Changes = append(out.Changes, c)
			}
		}
	}
	return out, nil
}

// copiedFrom returns the identity of the controller of the request's object if that is a ReplicaSet or a ControllerRevision, whose record
// is usually a copy of the controller's. ok is false for other objects, and without a controller. It is also false if own, the record that
// is valid for the object itself, is not nil, unless the keyring does not verify records, and so can't tell whose record it is.
func (d *Decider) copiedFrom(r *Request, own *record) (of identity, ok bool) {
	controller := metav1.GetControllerOfNoCopy(r.Object)
	if own != nil && !d.Keyring.unverified || controller == nil || !HoldsRecordCopies(r.Resource.GroupResource()) {
		return identity{}, false
	}
	gk := schema.FromAPIVersionAndKind(controller.APIVersion, controller.Kind).GroupKind()
	return identity{Group: gk.Group, Kind: gk.Kind, Namespace: r.Namespace, Name: controller.Name}, true
}

// readCopy returns the record in the request's object if it is valid for the object's controller, whose identity is of; nil otherwise. It
// looks up the controller only to learn its generateName, by which the record may be signed, and returns the error of that.
func (d *Decider) readCopy(ctx context.Context, r *Request, of identity) (*record, error) {
	out := d.Keyring.read(r.Object, of)
	if out != nil || d.Owners == nil {
		return out, nil
	}
	// The record may have been signed before the controller had a name.
	reference := metav1.GetControllerOfNoCopy(r.Object)
	controller, err := d.Owners.Owner(ctx, r.Namespace, *reference)
	if err != nil {
		return nil, fmt.Errorf("looking up %s %s, which controls the object: %w", reference.Kind, reference.Name, err)
	}
	if controller == nil || controller.GetUID() != reference.UID || controller.GetGenerateName() == "" {
		return nil, nil
	}
	of.Name, of.GenerateName = "", controller.GetGenerateName()
	return d.Keyring.read(r.Object, of), nil
}

// withdrawnVerdicts returns a verdict that sets nothing for each policy with an entry in the record, sorted by name.
func withdrawnVerdicts(applied *record) []*Verdict {
	names := sets.New[string]()
	for _, field := range fields {
		for _, entry := range applied.of(field) {
			names.Insert(entry.By)
		}
	}
	var out []*Verdict
	for _, name := range sets.List(names) {
		out = append(out, &Verdict{Policy: &Policy{Name: name, Mode: placementv1.ModeEnforce}})
	}
	return out
}
