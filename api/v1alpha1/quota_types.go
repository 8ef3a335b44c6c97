package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// QuotaSpec is what both kinds of quota have in common: field for field that of core/v1 ResourceQuota, and a mode.
//
// The rules are those of core/v1 ResourceQuota's own validation.
//
// +kubebuilder:validation:XValidation:rule="!has(self.scopes) || size(self.scopes) == 0 ? !has(oldSelf.scopes) || size(oldSelf.scopes) == 0 : has(oldSelf.scopes) && self.scopes.all(s, s in oldSelf.scopes) && oldSelf.scopes.all(s, s in self.scopes)",message="field is immutable: make another quota",fieldPath=".scopes"
// +kubebuilder:validation:XValidation:rule="!has(self.scopes) || !has(self.hard) || self.scopes.all(s, !(s in ['Terminating', 'NotTerminating', 'NotBestEffort', 'PriorityClass', 'CrossNamespacePodAffinity']) || self.hard.all(k, k.contains('/') || k in ['pods', 'cpu', 'memory', 'requests.cpu', 'requests.memory', 'limits.cpu', 'limits.memory']))",message="hard has a resource that this scope does not apply to: the scopes of pods go with pods, cpu, memory, and requests and limits of these",fieldPath=".scopes"
// +kubebuilder:validation:XValidation:rule="!has(self.scopes) || !has(self.hard) || !('BestEffort' in self.scopes) || self.hard.all(k, k.contains('/') || k == 'pods')",message="hard has a resource that scope BestEffort does not apply to: it goes with pods alone",fieldPath=".scopes"
// +kubebuilder:validation:XValidation:rule="!has(self.scopes) || !has(self.hard) || !('VolumeAttributesClass' in self.scopes) || self.hard.all(k, k.contains('/') || k in ['persistentvolumeclaims', 'requests.storage'])",message="hard has a resource that scope VolumeAttributesClass does not apply to: it goes with persistentvolumeclaims and requests.storage",fieldPath=".scopes"
// +kubebuilder:validation:XValidation:rule="!has(self.scopeSelector) || !has(self.scopeSelector.matchExpressions) || !has(self.hard) || self.scopeSelector.matchExpressions.all(e, !(e.scopeName in ['Terminating', 'NotTerminating', 'NotBestEffort', 'PriorityClass', 'CrossNamespacePodAffinity']) || self.hard.all(k, k.contains('/') || k in ['pods', 'cpu', 'memory', 'requests.cpu', 'requests.memory', 'limits.cpu', 'limits.memory']))",message="hard has a resource that this scope does not apply to: the scopes of pods go with pods, cpu, memory, and requests and limits of these",fieldPath=".scopeSelector"
// +kubebuilder:validation:XValidation:rule="!has(self.scopeSelector) || !has(self.scopeSelector.matchExpressions) || !has(self.hard) || !self.scopeSelector.matchExpressions.exists(e, e.scopeName == 'BestEffort') || self.hard.all(k, k.contains('/') || k == 'pods')",message="hard has a resource that scope BestEffort does not apply to: it goes with pods alone",fieldPath=".scopeSelector"
// +kubebuilder:validation:XValidation:rule="!has(self.scopeSelector) || !has(self.scopeSelector.matchExpressions) || !has(self.hard) || !self.scopeSelector.matchExpressions.exists(e, e.scopeName == 'VolumeAttributesClass') || self.hard.all(k, k.contains('/') || k in ['persistentvolumeclaims', 'requests.storage'])",message="hard has a resource that scope VolumeAttributesClass does not apply to: it goes with persistentvolumeclaims and requests.storage",fieldPath=".scopeSelector"
type QuotaSpec struct {
	// hard is the limit of each named resource: pods, requests.cpu, services, requests.storage, count/widgets.example.com
	// and all others that core/v1 ResourceQuota knows but those of device classes.
	// +optional
	// +kubebuilder:validation:MaxProperties=30
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.contains('/') ? k.indexOf('/') <= 253 && k.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$') : (k in ['cpu', 'memory', 'ephemeral-storage', 'requests.cpu', 'requests.memory', 'requests.storage', 'requests.ephemeral-storage', 'limits.cpu', 'limits.memory', 'limits.ephemeral-storage', 'pods', 'resourcequotas', 'services', 'replicationcontrollers', 'secrets', 'persistentvolumeclaims', 'configmaps', 'services.nodeports', 'services.loadbalancers'] || (size(k) <= 63 && k.matches('^(requests[.])?hugepages-[-A-Za-z0-9_.]*[A-Za-z0-9]$'))))",messageExpression="('deployments.apps' in self ? 'deployments.apps: write count/deployments.apps; ' : '') + ('deployments' in self ? 'deployments: write count/deployments.apps; ' : '') + ('statefulsets.apps' in self ? 'statefulsets.apps: write count/statefulsets.apps; ' : '') + ('statefulsets' in self ? 'statefulsets: write count/statefulsets.apps; ' : '') + ('daemonsets.apps' in self ? 'daemonsets.apps: write count/daemonsets.apps; ' : '') + ('daemonsets' in self ? 'daemonsets: write count/daemonsets.apps; ' : '') + ('replicasets.apps' in self ? 'replicasets.apps: write count/replicasets.apps; ' : '') + ('replicasets' in self ? 'replicasets: write count/replicasets.apps; ' : '') + ('jobs.batch' in self ? 'jobs.batch: write count/jobs.batch; ' : '') + ('jobs' in self ? 'jobs: write count/jobs.batch; ' : '') + ('cronjobs.batch' in self ? 'cronjobs.batch: write count/cronjobs.batch; ' : '') + ('cronjobs' in self ? 'cronjobs: write count/cronjobs.batch; ' : '') + ('ingresses.networking.k8s.io' in self ? 'ingresses.networking.k8s.io: write count/ingresses.networking.k8s.io; ' : '') + ('ingresses' in self ? 'ingresses: write count/ingresses.networking.k8s.io; ' : '') + 'every name must be a standard resource for quota, such as pods or requests.cpu, or qualified, such as count/deployments.apps; count/<resource>.<group> limits how many objects of a type there are'",message="every name must be a standard resource for quota, such as pods or requests.cpu, or qualified, such as count/deployments.apps"
	// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int ? self[k] >= 0 : [quantity(self[k])].all(q, sign(q) >= 0 && q.asApproximateFloat() < 1e30))",message="every amount must be a quantity, not negative and less than 1e30"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['pods', 'resourcequotas', 'services', 'replicationcontrollers', 'secrets', 'configmaps', 'persistentvolumeclaims', 'services.nodeports', 'services.loadbalancers']) || type(self[k]) == int || [quantity(self[k])].all(q, q.isInteger() || q.asApproximateFloat() > 4e15 || sign(q.sub(int(q.asApproximateFloat() + 0.5))) == 0))",message="what is counted must be a whole number"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('/') || k.contains('kubernetes.io/') || k.startsWith('requests.') || type(self[k]) == int || [quantity(self[k])].all(q, q.isInteger() || q.asApproximateFloat() > 4e15 || sign(q.sub(int(q.asApproximateFloat() + 0.5))) == 0))",message="what is counted must be a whole number"
	Hard map[corev1.ResourceName]resource.Quantity `json:"hard,omitempty"`

	// scopes are filters that must all match what the quota tracks; none matches everything.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=7
	// +kubebuilder:validation:items:Enum=Terminating;NotTerminating;BestEffort;NotBestEffort;PriorityClass;CrossNamespacePodAffinity;VolumeAttributesClass
	// +kubebuilder:validation:XValidation:rule="!('BestEffort' in self && 'NotBestEffort' in self) && !('Terminating' in self && 'NotTerminating' in self)",message="conflicting scopes"
	Scopes []corev1.ResourceQuotaScope `json:"scopes,omitempty"`

	// scopeSelector are filters like scopes, with an operator and values.
	// +optional
	ScopeSelector *ScopeSelector `json:"scopeSelector,omitempty"`

	// mode says what the quota does to a request that exceeds it: deny it (Enforce), admit it with a warning (Warn) or
	// admit it and only count (DryRun). Usage is counted in every mode; only a quota that is enforced covers what a
	// LimitedResource limits. Defaults to Enforce.
	// +optional
	// +default="Enforce"
	Mode Mode `json:"mode,omitempty"`
}

// ScopeSelector is that of core/v1: all of its expressions must match.
type ScopeSelector struct {
	// matchExpressions are filters by scope.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="!(self.exists(e, e.scopeName == 'BestEffort') && self.exists(e, e.scopeName == 'NotBestEffort')) && !(self.exists(e, e.scopeName == 'Terminating') && self.exists(e, e.scopeName == 'NotTerminating'))",message="conflicting scopes"
	MatchExpressions []ScopeRequirement `json:"matchExpressions,omitempty"`
}

// ScopeRequirement is core/v1's ScopedResourceSelectorRequirement.
//
// +kubebuilder:validation:XValidation:rule="self.operator == 'Exists' || self.scopeName in ['PriorityClass', 'VolumeAttributesClass']",message="must be Exists for every scope but PriorityClass and VolumeAttributesClass",fieldPath=".operator"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",message="must be at least one value where operator is In or NotIn",fieldPath=".values"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0",message="must be no value where operator is Exists or DoesNotExist",fieldPath=".values"
type ScopeRequirement struct {
	// scopeName is the scope.
	// +required
	// +kubebuilder:validation:Enum=Terminating;NotTerminating;BestEffort;NotBestEffort;PriorityClass;CrossNamespacePodAffinity;VolumeAttributesClass
	ScopeName corev1.ResourceQuotaScope `json:"scopeName,omitempty"`

	// operator relates the scope to the values.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator corev1.ScopeSelectorOperator `json:"operator,omitempty"`

	// values are names of classes, which need not exist. They are for In and NotIn.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
	Values []string `json:"values,omitempty"`
}

// Upstream returns the selector as core/v1 has it; nil for nil.
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

// Upstream returns the requirement as core/v1 has it.
func (r ScopeRequirement) Upstream() corev1.ScopedResourceSelectorRequirement {
	return corev1.ScopedResourceSelectorRequirement{ScopeName: r.ScopeName, Operator: r.Operator, Values: r.Values}
}

// QuotaStatus is what Berth reports of both kinds of quota. Webhooks charge to it and the leader's recount corrects it;
// both compare and swap.
type QuotaStatus struct {
	// conditions: Ready sums up; UsageCurrent says whether used is counted for the newest spec, Exceeded whether it is
	// above hard.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that used is counted for; -1 while nobody has looked at it. Until
	// it is the newest, what the quota tracks is denied with the request to try again.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// hard is the limit of each named resource that is in force.
	// +optional
	// +kubebuilder:validation:MaxProperties=30
	Hard map[corev1.ResourceName]resource.Quantity `json:"hard,omitempty"`

	// used is what existing objects take, and what requests were admitted to take whose objects are not there yet.
	// +optional
	// +kubebuilder:validation:MaxProperties=30
	Used map[corev1.ResourceName]resource.Quantity `json:"used,omitempty"`

	// summary shows used and hard of the first resources, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Summary string `json:"summary,omitempty"`

	// reservations are the part of used whose objects are not there yet. One is dropped when its object shows up, or
	// when it can't any more.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Reservations []Reservation `json:"reservations,omitempty"`

	// module is the policy module that decides what the quota matches and when it is exceeded.
	// +optional
	Module *QuotaModule `json:"module,omitempty"`
}

// Bounds of a quota's reservations. MaxNamespaceReservations is for one namespace in a quota that several share, so that
// requests of one namespace which fail do not use up the reservations of all.
const (
	MaxReservations          = 1024
	MaxNamespaceReservations = 256
)

// Reservation is a charge for an object that was admitted and is not there yet.
type Reservation struct {
	// uid identifies the charge. It is random and no request has it: nothing can be asked for by it.
	// +required
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`

	// resource is the object's type, as in "pods" or "widgets.example.com".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Resource string `json:"resource,omitempty"`

	// namespace is the object's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name is the object's.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// objectUID is the object's uid, which it has before it is stored; absent where several creates of one name share the
	// reservation.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ObjectUID string `json:"objectUID,omitempty"`

	// objectVersion is the resourceVersion that an update started from; absent for an object that is created.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ObjectVersion string `json:"objectVersion,omitempty"`

	// delta is what was charged.
	// +optional
	// +kubebuilder:validation:MaxProperties=30
	Delta map[corev1.ResourceName]resource.Quantity `json:"delta,omitempty"`

	// expires is when no request can be under way any more.
	// +required
	Expires metav1.Time `json:"expires,omitzero"`
}

// QuotaModule is a generated policy module.
type QuotaModule struct {
	// digest identifies the text, as in "sha256:...". Equal specs have equal digests.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest,omitempty"`

	// rego is the text. It is generated from the spec: changes are lost.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Rego string `json:"rego,omitempty"`
}

// Quota is what both kinds of quota have in common.
//
// +kubebuilder:object:generate=false
type Quota interface {
	metav1.Object
	runtime.Object
	// QuotaSpec returns the quota's own spec, to read.
	QuotaSpec() *QuotaSpec
	// QuotaStatus returns the quota's own status, to read or change.
	QuotaStatus() *QuotaStatus
}
