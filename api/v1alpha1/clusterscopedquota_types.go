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

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterScopedQuotaSpec defines the limits of a ClusterScopedQuota and the namespaces that share it.
type ClusterScopedQuotaSpec struct {
	QuotaSpec `json:",inline"`

	// namespaceSelector selects the namespaces that share the quota. If it is unset or empty, all do. kube-system and
	// Berth's own namespace are never selected.
	// +optional
	NamespaceSelector *NamespaceSelector `json:"namespaceSelector,omitempty"`
}

// ClusterScopedQuotaStatus is the observed state of a ClusterScopedQuota.
type ClusterScopedQuotaStatus struct {
	QuotaStatus `json:",inline"`

	// namespaces lists the usage of the selected namespaces, ordered by name: the first 100 with usage.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MaxItems=100
	Namespaces []NamespaceUsage `json:"namespaces,omitempty"`

	// selectedNamespaces is the number of namespaces that share the quota.
	// +optional
	SelectedNamespaces *int32 `json:"selectedNamespaces,omitempty"`
}

// MaxNamespaces is the maximum number of namespaces that the status of a ClusterScopedQuota lists.
const MaxNamespaces = 100

// NamespaceUsage is the usage of one namespace.
type NamespaceUsage struct {
	// namespace is the name of the namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// used is the usage of each named resource by existing objects of the namespace.
	// +optional
	// +kubebuilder:validation:MaxProperties=30
	Used map[corev1.ResourceName]resource.Quantity `json:"used,omitempty"`
}

// ClusterScopedQuota limits the total resource usage of the objects in all selected namespaces.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterscopedquotas,scope=Cluster,shortName=csquota,categories=berth
// +kubebuilder:printcolumn:name="Used/Hard",type=string,JSONPath=`.status.summary`,description="Used and hard of the first resources"
// +kubebuilder:printcolumn:name="Namespaces",type=integer,JSONPath=`.status.selectedNamespaces`,description="Namespaces that share the quota"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the quota is in force and counted"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,priority=1,description="What exceeding does"
// +kubebuilder:printcolumn:name="Exceeded",type=string,JSONPath=`.status.conditions[?(@.type=="Exceeded")].status`,priority=1,description="Whether more is used than hard"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why the quota is ready or not"
type ClusterScopedQuota struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired limits.
	// +required
	Spec ClusterScopedQuotaSpec `json:"spec,omitzero"`

	// status is the observed state.
	// +optional
	// +default={"observedGeneration": -1}
	Status ClusterScopedQuotaStatus `json:"status,omitzero"`
}

// ClusterScopedQuotaList is a list of ClusterScopedQuotas.
//
// +kubebuilder:object:root=true
type ClusterScopedQuotaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []ClusterScopedQuota `json:"items"`
}

// QuotaSpec returns the part of the spec that both kinds of quota have. Callers must not modify it. It implements Quota.
func (q *ClusterScopedQuota) QuotaSpec() *QuotaSpec { return &q.Spec.QuotaSpec }

// QuotaStatus returns the part of the status that both kinds of quota have, which callers may modify. It implements Quota.
func (q *ClusterScopedQuota) QuotaStatus() *QuotaStatus { return &q.Status.QuotaStatus }
