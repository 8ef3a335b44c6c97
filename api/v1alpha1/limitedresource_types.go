package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LimitedResourceSpec is an entry of limitedResources in the API server's configuration of its ResourceQuota plugin,
// and a selector of namespaces.
//
// +kubebuilder:validation:XValidation:rule="(has(self.matchContains) && size(self.matchContains) > 0) || (has(self.matchScopes) && size(self.matchScopes) > 0)",message="one of matchContains and matchScopes is needed: without them nothing is limited",fieldPath=".matchContains"
// +kubebuilder:validation:XValidation:rule="!has(self.matchScopes) || self.matchScopes.all(s, s.scopeName == 'VolumeAttributesClass' ? self.resource == 'persistentvolumeclaims' && (!has(self.apiGroup) || size(self.apiGroup) == 0) : self.resource == 'pods' && (!has(self.apiGroup) || size(self.apiGroup) == 0))",message="only pods have the scopes of pods, only persistentvolumeclaims have VolumeAttributesClass, and nothing else has scopes",fieldPath=".matchScopes"
type LimitedResourceSpec struct {
	// apiGroup is the group of the resource; empty is the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup,omitempty"`

	// resource is the plural name of the resource whose objects are looked at, such as pods.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!self.contains('/') && !self.contains('*')",message="must be the plural name of one resource, without subresource"
	Resource string `json:"resource,omitempty"`

	// matchContains are parts of names of what an object takes, such as ".storageclass.storage.k8s.io/requests.storage":
	// whatever contains one of them may only be taken where a quota limits it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	MatchContains []string `json:"matchContains,omitempty"`

	// matchScopes are scopes: an object that matches one of them is only admitted where a quota of that scope matches
	// the object too.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	MatchScopes []ScopeRequirement `json:"matchScopes,omitempty"`

	// namespaceSelector selects by label the namespaces where the rule holds; the others are exempt. Empty selects
	// every namespace. kube-system and Berth's own namespace are always exempt.
	// +optional
	NamespaceSelector *NamespaceSelector `json:"namespaceSelector,omitempty"`
}

// LimitedResourceStatus is what Berth reports.
//
// +kubebuilder:validation:MinProperties=1
type LimitedResourceStatus struct {
	// conditions: Ready says whether the API server asks Berth about what the rule limits.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status speaks of; -1 while nobody has looked at it.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// module is the policy module that decides what is limited and not covered.
	// +optional
	Module *QuotaModule `json:"module,omitempty"`
}

// LimitedResource denies what it limits unless a quota covers it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=limitedresources,scope=Cluster,shortName=limres,categories=berth
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.apiGroup`,description="API group of the limited resource"
// +kubebuilder:printcolumn:name="Resource",type=string,JSONPath=`.spec.resource`,description="Resource that is limited"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the rule is in force"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why the rule is ready or not"
type LimitedResource struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the administrator wants.
	// +required
	Spec LimitedResourceSpec `json:"spec,omitzero"`

	// status is what Berth reports. It begins with an observedGeneration that no generation has, so that whoever waits
	// by the conventions of kstatus does not take an object that nobody has looked at yet for one that is done.
	// +optional
	// +default={"observedGeneration": -1}
	Status LimitedResourceStatus `json:"status,omitzero"`
}

// LimitedResourceList is a list of limited resources.
//
// +kubebuilder:object:root=true
type LimitedResourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []LimitedResource `json:"items"`
}
