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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ScopedQuotaSpec defines the limits of a ScopedQuota.
type ScopedQuotaSpec struct {
	QuotaSpec `json:",inline"`
}

// ScopedQuotaStatus is the observed state of a ScopedQuota.
type ScopedQuotaStatus struct {
	QuotaStatus `json:",inline"`
}

// ScopedQuota limits the total resource usage of the objects in its namespace, as core/v1 ResourceQuota does.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=scopedquotas,scope=Namespaced,shortName=squota,categories=berth
// +kubebuilder:printcolumn:name="Used/Hard",type=string,JSONPath=`.status.summary`,description="Used and hard of the first resources"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the quota is in force and counted"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,priority=1,description="What exceeding does"
// +kubebuilder:printcolumn:name="Exceeded",type=string,JSONPath=`.status.conditions[?(@.type=="Exceeded")].status`,priority=1,description="Whether more is used than hard"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why the quota is ready or not"
type ScopedQuota struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired limits.
	// +required
	Spec ScopedQuotaSpec `json:"spec,omitzero"`

	// status is the observed state.
	// +optional
	// +default={"observedGeneration": -1}
	Status ScopedQuotaStatus `json:"status,omitzero"`
}

// ScopedQuotaList is a list of ScopedQuotas.
//
// +kubebuilder:object:root=true
type ScopedQuotaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []ScopedQuota `json:"items"`
}

// QuotaSpec returns the part of the spec that both kinds of quota have. Callers must not modify it. It implements Quota.
func (q *ScopedQuota) QuotaSpec() *QuotaSpec { return &q.Spec.QuotaSpec }

// QuotaStatus returns the part of the status that both kinds of quota have, which callers may modify. It implements Quota.
func (q *ScopedQuota) QuotaStatus() *QuotaStatus { return &q.Status.QuotaStatus }
