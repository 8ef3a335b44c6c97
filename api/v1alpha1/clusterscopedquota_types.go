package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterScopedQuotaSpec is what an administrator writes.
type ClusterScopedQuotaSpec struct {
	QuotaSpec `json:",inline"`

	// namespaceSelector selects by label the namespaces that share the quota. Empty selects every namespace;
	// kube-system and Berth's own namespace are never selected.
	// +optional
	NamespaceSelector *NamespaceSelector `json:"namespaceSelector,omitempty"`
}

// ClusterScopedQuotaStatus is what Berth reports.
type ClusterScopedQuotaStatus struct {
	QuotaStatus `json:",inline"`

	// namespaces shows what each selected namespace takes, ordered by name; those beyond the first hundred that take
	// something are left out.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MaxItems=100
	Namespaces []NamespaceUsage `json:"namespaces,omitempty"`

	// selectedNamespaces is the number of namespaces that share the quota.
	// +optional
	SelectedNamespaces *int32 `json:"selectedNamespaces,omitempty"`
}

// MaxNamespaces bounds the breakdown of a ClusterScopedQuota by namespace.
const MaxNamespaces = 100

// NamespaceUsage is what the objects of one namespace take.
type NamespaceUsage struct {
	// namespace is the namespace's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// used is what its existing objects take.
	// +optional
	// +kubebuilder:validation:MaxProperties=30
	Used map[corev1.ResourceName]resource.Quantity `json:"used,omitempty"`
}

// ClusterScopedQuota limits what the objects of all selected namespaces take together.
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

	// spec is what the administrator wants.
	// +required
	Spec ClusterScopedQuotaSpec `json:"spec,omitzero"`

	// status is what Berth reports. It begins with an observedGeneration that no generation has, so that whoever waits
	// by the conventions of kstatus does not take an object that nobody has looked at yet for one that is done.
	// +optional
	// +default={"observedGeneration": -1}
	Status ClusterScopedQuotaStatus `json:"status,omitzero"`
}

// ClusterScopedQuotaList is a list of quotas.
//
// +kubebuilder:object:root=true
type ClusterScopedQuotaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []ClusterScopedQuota `json:"items"`
}

// QuotaSpec implements Quota.
func (q *ClusterScopedQuota) QuotaSpec() *QuotaSpec { return &q.Spec.QuotaSpec }

// QuotaStatus implements Quota.
func (q *ClusterScopedQuota) QuotaStatus() *QuotaStatus { return &q.Status.QuotaStatus }
