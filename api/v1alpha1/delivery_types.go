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

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DeliveredClustersAnnotation is the annotation of a delivered object that contains the clusters which Berth delivered to, if the
// policy has spec.delivery.surge and they are not too many. It is a JSON object: the name of a cluster to the time (RFC 3339) since when
// the cluster is no longer decided, or to an empty text if it is decided.
const DeliveredClustersAnnotation = "placement.berth.dev/delivered-clusters"

// DeliveredLabel is the label of the objects that Berth keeps for spec.delivery of policies. Its value is "true". Berth restores it on
// the objects that it created, and deletes only objects with this label.
const DeliveredLabel = "placement.berth.dev/delivered"

// Delivery selects the multi-cluster systems that carry matched objects to their clusters. The objects that Berth keeps
// for a system have the matched object as their owner.
//
// +kubebuilder:validation:XValidation:rule="has(self.karmada) || has(self.kubeFleet) || has(self.placementDecision) || has(self.openClusterManagement)",message="at least one of karmada, kubeFleet, placementDecision and openClusterManagement is required"
// +kubebuilder:validation:XValidation:rule="!has(self.surge) || has(self.karmada) || has(self.kubeFleet)",message="only Karmada and KubeFleet report where objects run",fieldPath=".surge"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || has(self.karmada) || has(self.placementDecision) || has(self.openClusterManagement)",message="KubeFleet does not divide replicas: every cluster gets all of them",fieldPath=".replicas"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || self.replicas.divideBy != 'FreeCapacity' || (has(self.karmada) && !has(self.placementDecision) && !has(self.openClusterManagement))",message="Karmada alone divides replicas by free capacity",fieldPath=".replicas"
type Delivery struct {
	// karmada keeps a PropagationPolicy for each placed object, or a ClusterPropagationPolicy if the object is
	// cluster-scoped.
	// +optional
	Karmada *KarmadaDelivery `json:"karmada,omitempty"`

	// kubeFleet keeps a ResourcePlacement for each placed object, or a ClusterResourcePlacement if the object is
	// cluster-scoped. It selects the clusters by name, at most 100.
	// +optional
	KubeFleet *KubeFleetDelivery `json:"kubeFleet,omitempty"`

	// placementDecision keeps PlacementDecisions of SIG Multicluster for each placed object. They list the decided
	// ClusterProfiles.
	// +optional
	PlacementDecision *PlacementDecisionDelivery `json:"placementDecision,omitempty"`

	// openClusterManagement keeps a Placement for each placed object, which the scheduler of Open Cluster Management
	// leaves alone, with its PlacementDecisions.
	// +optional
	OpenClusterManagement *OpenClusterManagementDelivery `json:"openClusterManagement,omitempty"`

	// surge brings an object to its new clusters before it leaves the others, in Karmada and KubeFleet. If unset, both
	// happen at once.
	// +optional
	Surge *Surge `json:"surge,omitempty"`

	// replicas divides the replicas of an object among its clusters. If unset, each cluster runs all of them.
	// +optional
	Replicas *ReplicaDivision `json:"replicas,omitempty"`
}

// Surge configures how long objects keep the clusters that they leave.
type Surge struct {
	// timeout is how long an object keeps a cluster that is no longer decided if it does not run in all decided clusters.
	// Must be from 1s to 24h. Defaults to 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]+)?(h|m|s|ms|us|ns))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be from 1s to 24h, in hours, minutes, and seconds, such as 90s or 1h30m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// KarmadaDelivery configures the PropagationPolicies of Karmada.
type KarmadaDelivery struct {
	// propagateDependencies also propagates what the object refers to, such as ConfigMaps. Defaults to false.
	// +optional
	PropagateDependencies bool `json:"propagateDependencies,omitempty"`
}

// KubeFleetDelivery configures the placements of KubeFleet. It has no fields yet.
type KubeFleetDelivery struct{}

// PlacementDecisionDelivery configures the PlacementDecisions of SIG Multicluster. It has no fields yet.
type PlacementDecisionDelivery struct{}

// OpenClusterManagementDelivery configures the Placements of Open Cluster Management. It has no fields yet.
type OpenClusterManagementDelivery struct{}

// DivisionBasis is what the replicas of an object are divided by.
//
// +kubebuilder:validation:Enum=Weight;Even;FreeCapacity
type DivisionBasis string

const (
	// DivideByWeight divides by the weights that the policy gives its clusters. A cluster without a weight has the weight 1.
	DivideByWeight DivisionBasis = "Weight"
	// DivideEvenly gives each cluster the same number of replicas, up to one more.
	DivideEvenly DivisionBasis = "Even"
	// DivideByFreeCapacity leaves the division to the system, which knows the free capacity of each cluster. Karmada alone
	// does.
	DivideByFreeCapacity DivisionBasis = "FreeCapacity"
)

// ReplicaDivision configures how replicas are divided.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minPerCluster) || !has(self.maxPerCluster) || self.minPerCluster <= self.maxPerCluster",message="must not be greater than maxPerCluster",fieldPath=".minPerCluster"
// +kubebuilder:validation:XValidation:rule="self.divideBy != 'FreeCapacity' || (!has(self.minPerCluster) && !has(self.maxPerCluster))",message="minPerCluster and maxPerCluster have no effect where the system divides by free capacity",fieldPath=".divideBy"
type ReplicaDivision struct {
	// divideBy is how replicas are divided. Weight: by the weights that the policy gives its clusters, or 1. Even: each
	// cluster gets the same number, up to one more. In both, the numbers of replicas that the policy gives come first.
	// FreeCapacity: by the free capacity that the system knows, which only Karmada does.
	// +required
	DivideBy DivisionBasis `json:"divideBy,omitempty"`

	// minPerCluster is the minimum of replicas in each cluster for which the policy gives no number. If there are too few,
	// the clusters with the highest weights get their minimum first. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	MinPerCluster *int32 `json:"minPerCluster,omitempty"`

	// maxPerCluster is the maximum of replicas in each cluster for which the policy gives no number. Replicas beyond that
	// run nowhere. If unset, there is none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MaxPerCluster *int32 `json:"maxPerCluster,omitempty"`
}

// DeliveryStatus is how far the objects of multi-cluster systems follow the decisions of a policy.
type DeliveryStatus struct {
	// systems lists the systems of spec.delivery, such as "karmada,kubeFleet", and those whose Placements or Workloads the
	// policy decides.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Systems string `json:"systems,omitempty"`

	// placed is the number of matched objects with decided clusters, except those whose controller is delivered.
	// +required
	// +kubebuilder:validation:Minimum=0
	Placed *int32 `json:"placed,omitempty"`

	// delivered is the number of those objects that are, as far as is known, in all decided clusters and in no others.
	// +required
	// +kubebuilder:validation:Minimum=0
	Delivered *int32 `json:"delivered,omitempty"`

	// running is the number of placed objects that run in all of their clusters and, as far as the system reports, in no
	// other one. It is present only if a system reports that, and Berth can read the reports.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Running *int32 `json:"running,omitempty"`
}
