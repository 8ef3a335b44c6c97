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

// System is a multi-cluster system to which Berth can deliver. Berth writes delivered objects, by which the system brings placed objects to
// clusters.
type System struct {
	// Name is the name in status and messages, such as "kubeFleet". A system of spec.delivery has the name of its field there.
	Name string
	// Title is the name in sentences, such as "Karmada".
	Title string
	// ClusterRole is the name of the ClusterRole with the permissions that delivery to the system needs.
	ClusterRole string
	// Kinds are the kinds of the delivered objects.
	Kinds []Kind

	// Members is the inventory whose objects are the members of the system. A cluster has joined the system if its object is ready. Members
	// is empty if it does not matter whether clusters have joined.
	Members schema.GroupResource
	// References reports whether delivered objects refer to objects of inventories, which Decision.Objects has.
	References bool
	// Leaving is the inventory of the system's own clusters, if delivered objects must leave out clusters that are being deleted or that no
	// inventory has: the system removes the workload from such a cluster, and consumers of its decisions would bring it back each time. It is
	// empty otherwise.
	Leaving schema.GroupResource

	heldBy  func(Object) string               // see HeldBy; may be nil
	takenBy func(before, after Object) string // see TakenBy; may be nil
	isFree  func(Object) bool                 // see IsFree; may be nil
	// lists describes those delivered objects that list clusters; nil if there are none.
	lists  *lists
	render func(Object, Decision, *placementv1.Delivery) ([]Delivered, error) // see Render
	// reporter reads where placed objects run from delivered objects, or from objects that the system writes for them; nil if these do not say
	// it. Objects of workKinds, or the placed object's own status (runsNative), may say it then.
	reporter *reporter
	// runsNative returns the Run of a placed object in its clusters, read from the object's own status. The function is nil for a system whose
	// placed objects have no such status.
	runsNative func(object map[string]any, clusters []string) Run
	// workKinds are the kinds of the objects by which the system, or a consumer of its decisions, brings placed objects to single clusters.
	// There may be none.
	workKinds []Kind
	carries   func(*unstructured.Unstructured) (Carried, bool) // see CarriedBy; nil if there are no workKinds
	carriedAs func(Object) string                              // see CarriedAs; nil if the name is that of listBase
}

// Kind is a kind of delivered objects: its type, and how Berth may write objects of it.
type Kind struct {
	schema.GroupVersionResource
	Kind string
	// Namespaced reports whether objects of the kind have a namespace. A system delivers namespaced placed objects by kinds that have one, and
	// cluster-scoped ones, if it can deliver these, by a kind that has none.
	Namespaced bool
	// Status reports whether Berth writes the status of the objects, by the subresource.
	Status bool
	// Existing reports whether the delivered object is the placed object itself. Berth applies only its status, and does not create, delete,
	// or label it.
	Existing bool
	// Whole is the path of a field, such as "spec.placement", from which Berth removes what other clients set, because that would change
	// where the placed object runs; "" for none.
	Whole string
	// Others is the name of a member of the field Whole that Berth leaves as other clients, such as the system itself, set it; "" for none.
	Others string
	// Recreatable reports whether the placed object keeps running where it does while a delivered object of the kind is deleted and created
	// again.
	Recreatable bool
}

// KindsFor returns those of Kinds by which the system delivers namespaced objects, or cluster-scoped ones. There is none if it can't
// deliver these.
func (s System) KindsFor(namespaced bool) []Kind {
	var out []Kind
	for _, kind := range s.Kinds {
		if kind.Namespaced == namespaced {
			out = append(out, kind)
		}
	}
	return out
}

// Object has what delivery needs to know of a placed object: its identity, annotations, labels, and requested replicas. It has nothing of
// the status, and no generation.
type Object struct {
	schema.GroupVersionKind
	Namespace, Name string
	UID             types.UID
	// Annotations and Labels are those of the object. Only Karmada and the systems of NativeSystem read them.
	Annotations, Labels map[string]string
	// Replicas is spec.replicas of the object; nil if it has none.
	Replicas *int64
}

// Decision is the placement of an object.
type Decision struct {
	// Clusters are the names of the clusters that were decided. An empty list means that policies left no cluster.
	Clusters []string
	// Shares has the parts of the replicas that policies give to single clusters, by the name of the cluster. It may have clusters that are
	// not in Clusters.
	Shares map[string]Share
	// Objects are the objects of the inventories, by the name of their cluster. Only a system with References reads them.
	Objects replication.Claims
	// Unjoined are those of Clusters for which System.Members has no ready object; none if the system has no Members. The object is not
	// brought to them, unless it is there already, or no other cluster would be left.
	Unjoined []string
	// Contained are the clusters to which the system brings objects that the object contains (see Contains), or in which it has some.
	Contained []string
	// Lists has the clusters in the lists that exist, by index of the list (see System.ListsOf). Only a system with lists reads it.
	Lists [][]string
}

// Share is the part of the replicas that a policy gives to a cluster: a weight, or a number of replicas. At most one of them is set. If
// none is, the cluster has the weight 1.
type Share struct {
	// Weight is the cluster's weight, relative to those of the other clusters, for a division by weight. A cluster without a share has 1. One
	// with 0 gets only spec.delivery.replicas.minPerCluster replicas, none without a minimum.
	Weight *int64 `json:"weight,omitempty"`
	// Replicas is the number of replicas that the cluster gets. The other clusters divide the rest of those that the object requests.
	Replicas *int64 `json:"replicas,omitempty"`
}

// Delivered is a delivered object as Berth applies it, and which part of the decision it does not have.
type Delivered struct {
	Kind
	// Object is complete: apiVersion, kind, name, namespace, label placementv1.DeliveredLabel, owner reference, and the fields that Berth
	// manages. If Kind.Status is set, it has the status, which is written to the subresource. If Kind.Existing is set, it has only the name,
	// the namespace, and the status. The controller has to add the resourceVersion of the object that was decided, so that the API server
	// refuses the status if the object has changed, or another object has the name now. The API server does not compare UIDs when a status is
	// written.
	Object *unstructured.Unstructured
	// Note says which part of the decision the object does not have, and why; "" for none.
	Note string
	// Dangling says which cluster of the decision the object leaves out because no object of an inventory can be referred to; "" for none. Of
	// several clusters, it names the first.
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

// NativeSystem returns the system of a kind of objects that have fields for their own placement. Berth delivers the decision on such an
// object to the object itself, whatever spec.delivery says. ok is false for any other kind.
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

// Render returns the objects by which the system brings a placed object to the clusters of a decision, in the order in which they have to
// be applied. The result depends on the arguments alone, and not on the order of clusters. spec is spec.delivery; it may be nil for a
// system of NativeSystem. An error says what the system can't express, and what to do.
func (s System) Render(object Object, decision Decision, spec *placementv1.Delivery) ([]Delivered, error) {
	decision.Clusters = slices.Compact(slices.Sorted(slices.Values(decision.Clusters)))
	if spec == nil {
		spec = &placementv1.Delivery{}
	}
	return s.render(object, decision, spec)
}

// HeldBy returns the kind and name of another client's object that the system follows for a placed object, instead of Berth's delivered
// object, or what else keeps the system from following that; "" if there is none, or none is known.
func (s System) HeldBy(object Object) string {
	if s.heldBy == nil {
		return ""
	}
	return s.heldBy(object)
}

// TakenBy returns the kind and name of another client's object that the system would follow for a placed object after an update, instead of
// Berth's delivered object; only the kind if the update does not tell the name, and "" if it does not cause that. before is the zero value
// if the placed object is new.
func (s System) TakenBy(before, after Object) string {
	if s.takenBy == nil {
		return ""
	}
	return s.takenBy(before, after)
}

// IsFree reports whether the system says, in the metadata of a placed object, that it does not follow any object for it yet. It is false
// for a system that does not say so there: only Karmada does.
func (s System) IsFree(object Object) bool { return s.isFree != nil && s.isFree(object) }

// managedBy is the value of the label app.kubernetes.io/managed-by.
const managedBy = "berth"

// newObject returns a delivered object with only its identity, the labels of Berth, and the placed object as its owner. It has the
// namespace of the placed object if objects of the kind have one.
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

// existingObject returns the delivered object of a Kind that is Existing: the placed object with only its type, name, namespace, and a
// status. It has no UID, labels, or owner.
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

// addLabels adds labels to a delivered object.
func addLabels(object *unstructured.Unstructured, added map[string]string) {
	labels := object.GetLabels()
	maps.Copy(labels, added)
	object.SetLabels(labels)
}

// requireNamespaced returns an error if the placed object has no namespace, which the system needs. title is that of the system, and field
// its field in spec.delivery.
func requireNamespaced(object Object, title, field string) error {
	if object.Namespace != "" {
		return nil
	}
	return fmt.Errorf("%s %s is cluster-scoped, and the objects of %s are namespaced; "+
		"match only namespaced types, or remove spec.delivery.%s", object.Kind, object.Name, title, field)
}

// asList returns strings as a list in an unstructured object.
func asList(values []string) []any {
	list := make([]any, 0, len(values))
	for _, v := range values {
		list = append(list, v)
	}
	return list
}
