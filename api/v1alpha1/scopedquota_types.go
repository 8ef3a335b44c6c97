package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ScopedQuotaSpec is what an administrator writes.
type ScopedQuotaSpec struct {
	QuotaSpec `json:",inline"`
}

// ScopedQuotaStatus is what Berth reports.
type ScopedQuotaStatus struct {
	QuotaStatus `json:",inline"`
}

// ScopedQuota limits what the objects of its namespace take together, as core/v1 ResourceQuota does.
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

	// spec is what the administrator wants.
	// +required
	Spec ScopedQuotaSpec `json:"spec,omitzero"`

	// status is what Berth reports. It begins with an observedGeneration that no generation has, so that whoever waits
	// by the conventions of kstatus does not take an object that nobody has looked at yet for one that is done.
	// +optional
	// +default={"observedGeneration": -1}
	Status ScopedQuotaStatus `json:"status,omitzero"`
}

// ScopedQuotaList is a list of quotas.
//
// +kubebuilder:object:root=true
type ScopedQuotaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []ScopedQuota `json:"items"`
}

// QuotaSpec implements Quota.
func (q *ScopedQuota) QuotaSpec() *QuotaSpec { return &q.Spec.QuotaSpec }

// QuotaStatus implements Quota.
func (q *ScopedQuota) QuotaStatus() *QuotaStatus { return &q.Status.QuotaStatus }
