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

// Package delivery maps the placement of an object to the objects of multi-cluster systems that carry it to its clusters. It
// knows these systems; it has no client and no clock.
//
// Each placed object has delivered objects of its own, even if several placed objects have the same clusters. Shared objects would
// be fewer, but a placed object would have to change from one to another when its clusters change, and no system does this in one
// step. Karmada unbinds it from one policy before it binds it to another, and KubeFleet removes it from the clusters of one placement
// when it adds it to those of another. Meanwhile the object can be gone from clusters that it never left.
package delivery

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/replication"
)

// System is a multi-cluster system that Berth can deliver to.
type System struct {
	// Name is the name in status and messages, such as "karmada". It is that of the field in spec.delivery, if there is one.
	Name string
	// Title is the name in texts, such as "Karmada".
	Title string
	// ClusterRole is the ClusterRole that has the permissions that delivery to the system needs.
	ClusterRole string
	// Kinds are the kinds of the objects that Berth keeps in the system.
	Kinds []Kind

	// Members is the inventory whose objects are the members of the system. A member that has joined is ready. It is empty if Berth need
	// not know them.
	Members schema.GroupResource
	// References reports whether the objects refer to objects of inventories, which Decision.Objects has.
	References bool
	// Leaving is the inventory of the system's own clusters, if the objects must leave out clusters that are being deleted: the system
	// removes the workload from such a cluster, and consumers of its decisions would bring it back each time. It is empty otherwise.
	Leaving schema.GroupResource

	// heldBy returns the object of another client that the system follows for a placed object instead of Berth's; "" if there is none,
	// or none is known. takenBy returns the one that gets a placed object by an update, or "". isFree reports whether the system follows
	// neither Berth's nor another one. They may be nil.
	heldBy  func(Object) string
	takenBy func(before, after Object) string
	isFree  func(Object) bool
	// lists are the lists among the objects; nil if there are none.
	lists  *lists
	render func(Object, Decision, *placementv1.Delivery) ([]Delivered, error)
	// reporter is nil if the system does not say where objects run by its delivered objects, or by objects that report placed ones. If it says
	// so in the placed object itself, runsNative reports whether that runs in the clusters; it is nil otherwise.
	reporter   *reporter
	runsNative func(object map[string]any, clusters []string) Run
	// workKinds are the kinds of the objects by which the system, or a consumer of its decisions, carries delivered objects to single
	// clusters, and carries reads one. There may be none. carriedAs returns the name by which they refer to a placed object; it
	// is nil if that is what the names of its lists begin with.
	workKinds []Kind
	carries   func(*unstructured.Unstructured) (Carried, bool)
	carriedAs func(Object) string
}

// Kind is a kind of objects that Berth keeps.
type Kind struct {
	schema.GroupVersionResource
	Kind string
	// Namespaced reports whether objects of the kind have a namespace. A system has one kind for namespaced objects and one
	// for cluster-scoped objects, or it can deliver only namespaced ones.
	Namespaced bool
	// Status reports whether Berth writes the status of the objects, which is a subresource.
	Status bool
	// Existing reports whether the only object of the kind is the placed object itself. Berth applies its status, and neither
	// creates nor deletes it, nor does it label it.
	Existing bool
	// Whole is the path of a field, such as "spec.placement", in which other clients may set nothing, because it would change where
	// the placed object runs. Others is the name of a member of it that they may set, such as the system itself. Both may be empty.
	Whole, Others string
	// Recreatable reports whether the placed object keeps running where it does while an object of the kind is gone for a moment.
	Recreatable bool
}

// KindsFor returns the kinds as which the system delivers namespaced objects, or cluster-scoped ones. There is none if it can't deliver
// these.
func (s System) KindsFor(namespaced bool) []Kind {
	var out []Kind
	for _, kind := range s.Kinds {
		if kind.Namespaced == namespaced {
			out = append(out, kind)
		}
	}
	return out
}

// Object is the placed object.
type Object struct {
	schema.GroupVersionKind
	Namespace, Name string
	UID             types.UID
	// Annotations and Labels are those of the object. Only Karmada and the systems of NativeSystem read them.
	Annotations, Labels map[string]string
	// Replicas is the number of replicas that the object requests; nil if the kind has none.
	Replicas *int64
}

// Decision is the placement of an object.
type Decision struct {
	// Clusters are the names of the clusters. An empty list means that no cluster is left.
	Clusters []string
	// Shares has what the policies say of single clusters, by name. It may have clusters that are not in Clusters.
	Shares map[string]Share
	// Objects are the objects of the inventories, by the name of their cluster. Only a system with References reads them.
	Objects replication.Claims
	// Unjoined are those of the clusters that have not joined the system.
	Unjoined []string
	// Contained are the clusters in which the system has, or brings, delivered objects that the object contains, as Contains reports them.
	Contained []string
	// Lists are the clusters of the lists that exist, by index, as System.ListsOf returns them. Only a system with lists reads them.
	Lists [][]string
}

// Share is the part of the replicas that a policy gives to a cluster. At most one field is set.
type Share struct {
	// Weight is relative to the weights of the other clusters.
	Weight *int64 `json:"weight,omitempty"`
	// Replicas is the number of replicas, of those that the object requests. The other clusters divide the rest.
	Replicas *int64 `json:"replicas,omitempty"`
}

// Delivered is an object that a system needs, as Berth applies it.
type Delivered struct {
	Kind
	// Object is complete: apiVersion, kind, name, namespace, label placementv1.DeliveredLabel, owner reference, and the fields
	// that Berth manages. If Kind.Status is set, it has the status, which is written to the subresource. If Kind.Existing is
	// set, it has the name, the namespace, and the status alone. The controller has to add the resourceVersion of the object
	// that was decided. The API server then refuses the status if the object has changed, or is another one of that name. It
	// does not compare UIDs when a status is written.
	Object *unstructured.Unstructured
	// Note says which part of the decision the object leaves out, and why. It is usually empty.
	Note string
	// Dangling says which clusters of the decision the object leaves out because no object of an inventory can be referred to. It is
	// usually empty.
	Dangling string
}

// Systems returns the systems of spec.delivery, in the order of its fields.
func Systems(spec *placementv1.Delivery) []System {
	var systems []System
	if spec == nil {
		return nil
	}
	if spec.Karmada != nil {
		systems = append(systems, karmada)
	}
	if spec.KubeFleet != nil {
		systems = append(systems, kubeFleet)
	}
	if spec.PlacementDecision != nil {
		systems = append(systems, placementDecision)
	}
	if spec.OpenClusterManagement != nil {
		systems = append(systems, openClusterManagement)
	}
	return systems
}

// NativeSystem returns the system of a kind whose objects are placed by fields of their own, so that Berth delivers the decision
// to the placed object itself, whatever spec.delivery says. ok is false if the kind is no such kind.
//
// The kinds are:
//
//   - Placement of Open Cluster Management. Render fails if the Placement does not have the annotation SchedulingDisabledAnnotation
//     with the value "true". Such a Placement is left to the scheduler of Open Cluster Management, and the controller must skip it.
//   - Workload of Kueue, for MultiKueue. See workloadKind for when the controller may apply the status.
func NativeSystem(kind schema.GroupKind) (system System, ok bool) {
	system, ok = native[kind]
	return system, ok
}

var native = map[schema.GroupKind]System{
	{Group: ocmGroup, Kind: "Placement"}:  nativePlacement,
	{Group: kueueGroup, Kind: "Workload"}: multiKueue,
}

// Render returns the objects by which a system delivers an object to the clusters of a decision, in the order in which they have
// to be applied. The result depends on the arguments alone, and not on the order of clusters. spec may be nil for a system of
// NativeSystem. An error says what the system can't express, and what to do.
func (s System) Render(object Object, decision Decision, spec *placementv1.Delivery) ([]Delivered, error) {
	decision.Clusters = slices.Compact(slices.Sorted(slices.Values(decision.Clusters)))
	if spec == nil {
		spec = &placementv1.Delivery{}
	}
	return s.render(object, decision, spec)
}

// HeldBy returns the object of another client that the system follows for a placed object instead of Berth's; "" if there is none, or
// none is known.
func (s System) HeldBy(object Object) string {
	if s.heldBy == nil {
		return ""
	}
	return s.heldBy(object)
}

// TakenBy returns the object of another client to which an update gives a placed object, so that the system would follow that one instead
// of Berth's; "" if there is none. before is the zero value if the placed object is new.
func (s System) TakenBy(before, after Object) string {
	if s.takenBy == nil {
		return ""
	}
	return s.takenBy(before, after)
}

// IsFree reports whether the system says that it follows no object for a placed object yet.
func (s System) IsFree(object Object) bool { return s.isFree != nil && s.isFree(object) }

// managedBy is the value of the label app.kubernetes.io/managed-by.
const managedBy = "berth"

// newObject returns an object of a kind without fields of its own. Its namespace is that of the placed object.
func newObject(kind Kind, name string, placed Object) *unstructured.Unstructured {
	metadata := map[string]any{
		"name": name,
		"labels": map[string]any{
			placementv1.DeliveredLabel:     "true",
			"app.kubernetes.io/managed-by": managedBy,
		},
		"ownerReferences": []any{map[string]any{
			"apiVersion": placed.GroupVersion().String(),
			"kind":       placed.Kind,
			"name":       placed.Name,
			"uid":        string(placed.UID),
		}},
	}
	if kind.Namespaced {
		metadata["namespace"] = placed.Namespace
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kind.GroupVersion().String(),
		"kind":       kind.Kind,
		"metadata":   metadata,
	}}
}

// existingObject returns the placed object with its status alone.
func existingObject(kind Kind, placed Object, status map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kind.GroupVersion().String(),
		"kind":       kind.Kind,
		"metadata": map[string]any{
			"name":      placed.Name,
			"namespace": placed.Namespace,
		},
		"status": status,
	}}
}

// addLabels adds labels to an object of newObject.
func addLabels(object *unstructured.Unstructured, added map[string]string) {
	labels := object.GetLabels()
	maps.Copy(labels, added)
	object.SetLabels(labels)
}

// requireNamespaced returns an error if the object has no namespace, which the system needs.
func requireNamespaced(object Object, title, field string) error {
	if object.Namespace != "" {
		return nil
	}
	return fmt.Errorf("%s %s is cluster-scoped, and the objects of %s are namespaced; "+
		"match only namespaced types, or remove spec.delivery.%s", object.Kind, object.Name, title, field)
}

// asList returns strings as a list of an unstructured object.
func asList(values []string) []any {
	list := make([]any, 0, len(values))
	for _, v := range values {
		list = append(list, v)
	}
	return list
}
