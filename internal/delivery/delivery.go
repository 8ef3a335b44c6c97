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
package delivery

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// System is a multi-cluster system that Berth can deliver to.
type System struct {
	// Name is the name in status and messages, such as "karmada".
	Name string
	// Title is the name in texts, such as "Karmada".
	Title string
	// ClusterRole is the ClusterRole that has the permissions that delivery to the system needs.
	ClusterRole string
	// Kinds are the kinds of the objects that Berth keeps in the system.
	Kinds []Kind
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
}

// Object is the placed object.
type Object struct {
	schema.GroupVersionKind
	Namespace, Name string
	UID             types.UID
	// Replicas is the number of replicas that the object requests; nil if the kind has none.
	Replicas *int64
}

// Decision is the placement of an object.
type Decision struct {
	// Clusters are the names of the clusters, sorted. An empty list means that no cluster is left.
	Clusters []string
	// Shares has what the policies say of single clusters, by name. It may have clusters that are not in Clusters.
	Shares map[string]Share
}

// Share is the part of the replicas that a policy gives to a cluster. At most one field is set.
type Share struct {
	// Weight is relative to the weights of the other clusters.
	Weight *int64 `json:"weight,omitempty"`
	// Replicas is the number of replicas, whatever the object requests.
	Replicas *int64 `json:"replicas,omitempty"`
}

// Delivered is an object that a system needs, as Berth applies it.
type Delivered struct {
	Kind
	// Object is complete: apiVersion, kind, name, namespace, label placementv1.DeliveredLabel, ownerReference, and the fields
	// that Berth manages. If Kind.Status is set, it has the status, which is written to the subresource.
	Object *unstructured.Unstructured
}

// Systems returns the systems of spec.delivery, in the order of its fields.
func Systems(spec *placementv1.Delivery) []System {
	panic("not implemented")
}

// Render returns the objects by which a system delivers an object to the clusters of a decision, in the order in which they have
// to be applied. The result depends on the arguments alone. An error says what the system can't express, and what to do.
func (s System) Render(object Object, decision Decision, spec *placementv1.Delivery) ([]Delivered, error) {
	panic("not implemented")
}
