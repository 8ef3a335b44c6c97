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
	"k8s.io/apimachinery/pkg/runtime"
)

// QuotaSpec is the part of the spec that both kinds of quota share: the fields of core/v1 ResourceQuota, and a mode.
//
// The validation rules are those of core/v1 ResourceQuota. Berth's webhook refuses names in hard that are not for quotas, and
// scopes that do not apply to them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.scopes) || self.scopes == [] ? !has(oldSelf.scopes) || oldSelf.scopes == [] : has(oldSelf.scopes) && self.scopes.all(s, s in oldSelf.scopes) && oldSelf.scopes.all(s, s in self.scopes)",message="field is immutable: make another quota",fieldPath=".scopes"
type QuotaSpec struct {
	// hard is the limit of each named resource, such as pods, requests.cpu or count/widgets.example.com. All names of
	// core/v1 ResourceQuota are supported. At most 30.
	// +optional
	// +kubebuilder:validation:MaxProperties=30
	// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int ? self[k] >= 0 : size(self[k]) <= 32 && [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27].all(i, i + 4 >= size(self[k]) || !(self[k].charAt(i) in ['e', 'E'])) && [quantity(self[k])].all(q, sign(q) >= 0 && q.asApproximateFloat() < 1e30))",message="every amount must be a quantity of at most 32 characters, with an exponent of at most two digits, not negative and less than 1e30"
	// +kubebuilder:validation:XValidation:rule="self.all(k, (!(k in ['pods', 'resourcequotas', 'services', 'replicationcontrollers', 'secrets', 'configmaps', 'persistentvolumeclaims', 'services.nodeports', 'services.loadbalancers']) && (!k.contains('/') || k.contains('kubernetes.io/') || k.startsWith('requests.'))) || type(self[k]) == int || !(size(self[k]) <= 32 && [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27].all(i, i + 4 >= size(self[k]) || !(self[k].charAt(i) in ['e', 'E']))) || [quantity(self[k])].all(q, q.isInteger() || q.asApproximateFloat() > 4e15 || sign(q.sub(int(q.asApproximateFloat() + 0.5))) == 0))",message="what is counted must be a whole number"
	Hard map[corev1.ResourceName]resource.Quantity `json:"hard,omitempty"`

	// scopes are filters that an object must all match to be counted. If empty, every object is. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=7
	// +kubebuilder:validation:items:Enum=Terminating;NotTerminating;BestEffort;NotBestEffort;PriorityClass;CrossNamespacePodAffinity;VolumeAttributesClass
	// +kubebuilder:validation:XValidation:rule="!('BestEffort' in self && 'NotBestEffort' in self) && !('Terminating' in self && 'NotTerminating' in self)",message="conflicting scopes"
	Scopes []corev1.ResourceQuotaScope `json:"scopes,omitempty"`

	// scopeSelector is a list of filters like scopes, with an operator and values.
	// +optional
	ScopeSelector *ScopeSelector `json:"scopeSelector,omitempty"`

	// mode is what happens to a request that exceeds the quota: Enforce denies it, Warn admits it with a warning, DryRun
	// admits it and records it in the audit log. Usage is counted in every mode. Only Enforce covers what a
	// LimitedResource limits. Defaults to Enforce.
	// +optional
	// +default="Enforce"
	Mode Mode `json:"mode,omitempty"`
}

// ScopeSelector selects objects by scope, with the fields of core/v1 ScopeSelector. All expressions must match.
type ScopeSelector struct {
	// matchExpressions lists the filters by scope. At most 16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="!(self.exists(e, e.scopeName == 'BestEffort') && self.exists(e, e.scopeName == 'NotBestEffort')) && !(self.exists(e, e.scopeName == 'Terminating') && self.exists(e, e.scopeName == 'NotTerminating'))",message="conflicting scopes"
	MatchExpressions []ScopeRequirement `json:"matchExpressions,omitempty"`
}

// ScopeRequirement is one filter by scope, with the fields of core/v1 ScopedResourceSelectorRequirement.
//
// +kubebuilder:validation:XValidation:rule="self.operator == 'Exists' || self.scopeName in ['PriorityClass', 'VolumeAttributesClass']",message="must be Exists for every scope but PriorityClass and VolumeAttributesClass",fieldPath=".operator"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",message="must be at least one value where operator is In or NotIn",fieldPath=".values"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0",message="must be no value where operator is Exists or DoesNotExist",fieldPath=".values"
type ScopeRequirement struct {
	// scopeName is the name of the scope.
	// +required
	// +kubebuilder:validation:Enum=Terminating;NotTerminating;BestEffort;NotBestEffort;PriorityClass;CrossNamespacePodAffinity;VolumeAttributesClass
	ScopeName corev1.ResourceQuotaScope `json:"scopeName,omitempty"`

	// operator is how the values select classes. It must be Exists for every scope other than PriorityClass and
	// VolumeAttributesClass.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator corev1.ScopeSelectorOperator `json:"operator,omitempty"`

	// values lists names of classes, which need not exist. In and NotIn require at least one. Exists and DoesNotExist
	// allow none. At most 64.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
	Values []string `json:"values,omitempty"`
}

// Upstream returns the selector as a core/v1 ScopeSelector. It returns nil for nil.
func (s *ScopeSelector) Upstream() *corev1.ScopeSelector {
	if s == nil {
		return nil
	}
	out := &corev1.ScopeSelector{}
	for _, e := range s.MatchExpressions {
		out.MatchExpressions = append(out.MatchExpressions, e.Upstream())
	}
	return out
}

// Upstream returns the requirement as a core/v1 ScopedResourceSelectorRequirement, which shares its values.
func (r ScopeRequirement) Upstream() corev1.ScopedResourceSelectorRequirement {
	return corev1.ScopedResourceSelectorRequirement{ScopeName: r.ScopeName, Operator: r.Operator, Values: r.Values}
}

// QuotaStatus is the observed state of both kinds of quota. Webhooks add charges to it, and the leader's recount
// replaces it. Both use compare-and-swap updates.
type QuotaStatus struct {
	// conditions are the latest observations of the quota. Ready is the summary.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that used is counted for; -1 until Berth processes the quota. Until it is the
	// newest generation, Berth rejects requests that the quota counts in mode Enforce, so that clients retry.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// hard is spec.hard of the generation observedGeneration.
	// +optional
	// +kubebuilder:validation:MaxProperties=30
	Hard map[corev1.ResourceName]resource.Quantity `json:"hard,omitempty"`

	// used is the usage of each named resource by existing objects and, in mode Enforce, by admitted requests whose
	// objects Berth has not seen yet.
	// +optional
	// +kubebuilder:validation:MaxProperties=30
	Used map[corev1.ResourceName]resource.Quantity `json:"used,omitempty"`

	// summary shows used and hard of up to three resources, such as "pods: 3/10, requests.cpu: 1500m/4".
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Summary string `json:"summary,omitempty"`

	// reservations lists the part of used whose objects Berth has not seen yet. Berth removes one when it sees the object,
	// or when the object can no longer appear. At most 1024.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Reservations []Reservation `json:"reservations,omitempty"`

	// module is the module that Berth generates from spec to decide what the quota matches and what exceeds it.
	// +optional
	Module *QuotaModule `json:"module,omitempty"`
}

// MaxReservations and MaxNamespaceReservations are the maximum numbers of reservations in one quota.
// MaxNamespaceReservations applies to each namespace of a quota that several namespaces share, so that failing requests
// in one namespace can't use up the reservations of all.
const (
	MaxReservations          = 1024
	MaxNamespaceReservations = 256
)

// Reservation is a charge for an admitted object that Berth has not seen yet.
type Reservation struct {
	// uid identifies the charge. It is random, so no client can refer to it.
	// +required
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`

	// resource is the resource type of the object, such as "pods" or "widgets.example.com".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Resource string `json:"resource,omitempty"`

	// namespace is the namespace of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object, unless the API server generates it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// objectUID is the UID of the object. It is absent if several create requests of one name share the reservation.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ObjectUID string `json:"objectUID,omitempty"`

	// objectVersion is the resourceVersion that an update started from. It is absent for a create request.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ObjectVersion string `json:"objectVersion,omitempty"`

	// delta is the charged amount of each named resource, without what another request for the same change has charged.
	// +optional
	// +kubebuilder:validation:MaxProperties=30
	Delta map[corev1.ResourceName]resource.Quantity `json:"delta,omitempty"`

	// expires is the time after which the request can no longer be in progress.
	// +required
	Expires metav1.Time `json:"expires,omitzero"`
}

// QuotaModule is the policy module that Berth generates from the spec of a quota or LimitedResource.
type QuotaModule struct {
	// digest identifies the module without its first comment, such as "sha256:...". Equal specs have equal digests.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest,omitempty"`

	// rego is the text of the module, unless it has more than 65536 bytes. Berth overwrites changes.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Rego string `json:"rego,omitempty"`
}

// Quota is the interface of both kinds of quota.
//
// +kubebuilder:object:generate=false
type Quota interface {
	metav1.Object
	runtime.Object
	// QuotaSpec returns the spec of the quota. Callers must not modify it.
	QuotaSpec() *QuotaSpec
	// QuotaStatus returns the status of the quota. Callers may modify it.
	QuotaStatus() *QuotaStatus
}
