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

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Owners looks up the objects that control others, by kind and name but not by UID. An object that does not exist is no error.
// Implementations are safe for concurrent use.
type Owners interface {
	// Owner returns the object in the namespace that has the reference's kind and name, as currently stored in the API
	// server. It returns nil if there is none. The object's UID may differ from the reference's.
	Owner(ctx context.Context, namespace string, reference metav1.OwnerReference) (*unstructured.Unstructured, error)
}

// ownedReplicaSet reports whether the object is a ReplicaSet with a reference to a controller. Any user may write such a reference, so
// callers must verify it.
func ownedReplicaSet(r *Request) bool {
	return r.Resource.GroupResource() == replicaSets && metav1.GetControllerOfNoCopy(r.Object) != nil
}

// madeByOwner reports whether a ReplicaSet was created from the template of the object that controls it. Such a ReplicaSet must keep its
// template. With another template its owner would not recognize it, and would create ReplicaSets without end.
//
// The owner must exist with the UID of the reference, and be of a kind that creates ReplicaSets. A new template must equal the owner's. A
// template that the update does not change may come from an older revision of the owner.
func (d *Decider) madeByOwner(ctx context.Context, r *Request) (bool, error) {
	if d.Owners == nil || !ownedReplicaSet(r) {
		return false, nil
	}
	controller := metav1.GetControllerOfNoCopy(r.Object)
	if gk := schema.FromAPIVersionAndKind(controller.APIVersion, controller.Kind).GroupKind(); !d.Templates.MakesReplicaSets(gk) {
		return false, nil
	}
	owner, err := d.Owners.Owner(ctx, r.Namespace, *controller)
	if err != nil {
		return false, fmt.Errorf("rule %s: looking up %s %s, which controls the ReplicaSet: %w", fieldScheduling,
			controller.Kind, controller.Name, err)
	}
	if owner == nil || owner.GetUID() != controller.UID {
		return false, nil
	}
	return d.madeFrom(r, owner), nil
}

// madeFrom reports whether the request's ReplicaSet was created from the template of its stored controller. A template that the update does
// not change may come from an older revision of the controller.
func (d *Decider) madeFrom(r *Request, controller *unstructured.Unstructured) bool {
	return keepsTemplate(r, metav1.GetControllerOfNoCopy(r.Object)) || d.makes(controller, r)
}

// makes reports whether a stored controller creates ReplicaSets like the request's: it has the same pod template now, apart from defaults
// and hash labels, and is not being deleted. It does not check the controller's kind.
func (d *Decider) makes(controller *unstructured.Unstructured, r *Request) bool {
	return controller.GetDeletionTimestamp() == nil && d.Templates.MadeBy(r.Object.Object, controller.Object)
}

// keepsTemplate reports whether the request's ReplicaSet exists already, and keeps its controller and its template, as it does if it is not
// being updated.
func keepsTemplate(r *Request, controller *metav1.OwnerReference) bool {
	switch r.Old {
	case nil:
		return false
	case r.Object:
		return true
	}
	before := metav1.GetControllerOfNoCopy(r.Old)
	if before == nil || before.UID != controller.UID {
		return false
	}
	template, _, _ := unstructured.NestedFieldNoCopy(r.Object.Object, "spec", "template")
	old, _, _ := unstructured.NestedFieldNoCopy(r.Old.Object, "spec", "template")
	return equality.Semantic.DeepEqual(template, old)
}
