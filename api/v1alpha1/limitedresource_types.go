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

// LimitedResourceSpec defines what may be used only where a quota covers it. It has the fields of limitedResources in
// the configuration of the ResourceQuota admission plugin, and a namespace selector.
//
// +kubebuilder:validation:XValidation:rule="(has(self.matchContains) && size(self.matchContains) > 0) || (has(self.matchScopes) && size(self.matchScopes) > 0)",message="one of matchContains and matchScopes is needed: without them nothing is limited",fieldPath=".matchContains"
type LimitedResourceSpec struct {
	// apiGroup is the API group of the resource. Empty is the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup,omitempty"`

	// resource is the plural name of the resource, such as pods.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!self.contains('/') && !self.contains('*')",message="must be the plural name of one resource, without subresource"
	Resource string `json:"resource,omitempty"`

	// matchContains lists substrings of resource names, such as ".storageclass.storage.k8s.io/requests.storage". An object
	// may use a resource whose name contains one of them only where a quota covers that. At most 32.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	MatchContains []string `json:"matchContains,omitempty"`

	// matchScopes lists scopes. An object that matches one of them is admitted only where a quota in mode Enforce matches it
	// by that scope, too. At most 16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	MatchScopes []ScopeRequirement `json:"matchScopes,omitempty"`

	// namespaceSelector selects the namespaces where the rule applies. If it is unset or empty, it applies in all.
	// kube-system and Berth's own namespace are always exempt.
	// +optional
	NamespaceSelector *NamespaceSelector `json:"namespaceSelector,omitempty"`
}

// LimitedResourceStatus is the observed state of a LimitedResource.
//
// +kubebuilder:validation:MinProperties=1
type LimitedResourceStatus struct {
	// conditions are the latest observations. Ready reports whether the API server calls Berth for what the rule limits.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that this status describes; -1 until Berth processes the rule.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// module is the module that Berth generates from spec to decide what is limited and not covered.
	// +optional
	Module *QuotaModule `json:"module,omitempty"`
}

// LimitedResource denies objects that use a limited resource unless a quota covers that use.
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

	// spec is the desired rule.
	// +required
	Spec LimitedResourceSpec `json:"spec,omitzero"`

	// status is the observed state.
	// +optional
	// +default={"observedGeneration": -1}
	Status LimitedResourceStatus `json:"status,omitzero"`
}

// LimitedResourceList is a list of LimitedResources.
//
// +kubebuilder:object:root=true
type LimitedResourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []LimitedResource `json:"items"`
}
