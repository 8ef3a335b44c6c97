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
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RequestedAnnotation is the annotation that keeps the requested values: what the developer set under the keys that a
// policy overwrote. Its value is a signed JSON record. Berth drops a record that another client wrote.
const RequestedAnnotation = "placement.berth.dev/requested"

// AsWrittenAnnotation is the annotation of an object whose developer requests its values as they are written, also those that a
// policy set before and no longer sets. Its only value is "true".
const AsWrittenAnnotation = "placement.berth.dev/as-written"

// ReleaseBlastRadiusAnnotation is the annotation of a PlacementPolicy that releases a paused change. Its value is the
// identity of the change, as in status.paused.change.
const ReleaseBlastRadiusAnnotation = "placement.berth.dev/release-blast-radius"

// ResumeAfterFailuresAnnotation is the annotation of a PlacementPolicy that lets patches go on after too many objects failed.
// Its value is the identity of the pause, as in status.failures.pause.
const ResumeAfterFailuresAnnotation = "placement.berth.dev/resume-after-failures"

// ApproveStageAnnotation is the annotation of a PlacementPolicy that lets a rollout go on to a stage that needs an approval. Its
// value identifies what waits for the approval, as status.rollout.approvalID does: the revision, the stage, and the time.
const ApproveStageAnnotation = "placement.berth.dev/approve-stage"

// ApproveAnnotation is the annotation of a PlacementPolicy that approves a plan. Its value is the digest of the plan, as in
// status.plan.digest.
const ApproveAnnotation = "placement.berth.dev/approve"

// ApprovedByAnnotation is the annotation of a PlacementPolicy in which Berth's webhook records who set ApproveAnnotation. Its
// value is an Approver in JSON. The webhook replaces a value that another client sets.
const ApprovedByAnnotation = "placement.berth.dev/approved-by"

// Approver is the value of ApprovedByAnnotation.
//
// +kubebuilder:object:generate=false
type Approver struct {
	// digest is the digest of the approved plan.
	Digest string `json:"digest"`
	// user is the name of the user who approved it.
	User string `json:"user"`
	// time is when the plan was approved.
	Time metav1.Time `json:"time"`
}

// ClustersAnnotation is the annotation that lists the names of the clusters that an object may run on, as a JSON array.
// Berth sets it on objects for which a policy gives clusters. A value that the developer sets is the requested value.
const ClustersAnnotation = "placement.berth.dev/clusters"

// ClusterSharesAnnotation is the annotation that has the shares of clusters in the replicas of an object, as a JSON object by the
// names of clusters, such as {"eu-1":{"weight":2},"eu-2":{"replicas":3}}. Berth sets it on objects for which a policy gives shares
// with its clusters. The shares of clusters that ClustersAnnotation does not list have no effect.
const ClusterSharesAnnotation = "placement.berth.dev/cluster-shares"

// RegoVersion is a version of the Rego language.
//
// +kubebuilder:validation:Enum=v0;v1
type RegoVersion string

const (
	// RegoV0 is the Rego language of OPA before 1.0.
	RegoV0 RegoVersion = "v0"
	// RegoV1 is the Rego language of OPA 1.0 and later.
	RegoV1 RegoVersion = "v1"
)

// Mode is the effect of the decisions of a policy or a quota on requests.
//
// +kubebuilder:validation:Enum=Enforce;Warn;DryRun
type Mode string

const (
	// ModeEnforce changes and denies requests according to the decision.
	ModeEnforce Mode = "Enforce"
	// ModeWarn neither changes nor denies requests. It returns a warning to the client that says what Enforce would do.
	ModeWarn Mode = "Warn"
	// ModeDryRun neither changes nor denies requests, and the client sees nothing. Status, metrics, and the audit log
	// show what Enforce would do.
	ModeDryRun Mode = "DryRun"
)

// FailurePolicy is the handling of a request that a policy matches and can't decide.
//
// +kubebuilder:validation:Enum=Fail;Ignore
type FailurePolicy string

const (
	// FailurePolicyFail denies the request.
	FailurePolicyFail FailurePolicy = "Fail"
	// FailurePolicyIgnore admits the request without this policy.
	FailurePolicyIgnore FailurePolicy = "Ignore"
)

// RemediationMode is the handling of an existing object that differs from its placement.
//
// +kubebuilder:validation:Enum=Automatic;Approved;Manual;NewOnly;Off
type RemediationMode string

const (
	// RemediationAutomatic patches the object.
	RemediationAutomatic RemediationMode = "Automatic"
	// RemediationApproved patches the object if it is part of a plan that was approved. Until then it behaves like
	// RemediationManual.
	RemediationApproved RemediationMode = "Approved"
	// RemediationManual lists the object in the status of the policy and does not patch it. An update by another client
	// keeps the placement unless it changes a field that the policy reads or writes.
	RemediationManual RemediationMode = "Manual"
	// RemediationNewOnly decides objects when they are created. It neither evaluates nor lists existing objects. An
	// update keeps the placement unless it changes a field that the policy writes. An update is denied if the policy denies
	// the object after it, and would not deny the object before it.
	RemediationNewOnly RemediationMode = "NewOnly"
	// RemediationOff neither evaluates nor lists existing objects. Every update is decided.
	RemediationOff RemediationMode = "Off"
)

// DeveloperChoice is the effect of the developer's own list of clusters.
//
// +kubebuilder:validation:Enum=Narrow;Override;Ignore
type DeveloperChoice string

const (
	// DeveloperChoiceNarrow keeps the clusters of the developer's list that the policies allow.
	DeveloperChoiceNarrow DeveloperChoice = "Narrow"
	// DeveloperChoiceOverride replaces the developer's list if every policy that gives clusters for the object has Override.
	DeveloperChoiceOverride DeveloperChoice = "Override"
	// DeveloperChoiceIgnore replaces the developer's list, whatever the other policies say.
	DeveloperChoiceIgnore DeveloperChoice = "Ignore"
)

// OnEmpty is the handling of an object for which no cluster is left.
//
// +kubebuilder:validation:Enum=Deny;Clear;PolicyClusters
type OnEmpty string

const (
	// OnEmptyDeny denies the request. An existing object is not changed and is a violation.
	OnEmptyDeny OnEmpty = "Deny"
	// OnEmptyClear writes the empty list.
	OnEmptyClear OnEmpty = "Clear"
	// OnEmptyPolicyClusters writes the clusters that the policies allow, as if the developer had no list. If they allow none, it
	// is like OnEmptyDeny.
	OnEmptyPolicyClusters OnEmpty = "PolicyClusters"
)

// PlacementPolicySpec defines the objects that a policy matches and how it decides them.
//
// +kubebuilder:validation:XValidation:rule="has(self.rules) || has(self.rego) || has(self.remote) || (has(self.predicates) && has(self.predicates.candidates))",message="rules, rego or remote is required where predicates.candidates is not set",reason=FieldValueRequired,fieldPath=".rego"
// +kubebuilder:validation:XValidation:rule="!has(self.rules) || !has(self.rego)",message="rules and rego exclude each other: write another policy, which can match the same objects",reason=FieldValueForbidden,fieldPath=".rules"
// +kubebuilder:validation:XValidation:rule="!has(self.rules) || !has(self.remote)",message="rules and remote exclude each other: write another policy, which can match the same objects",reason=FieldValueForbidden,fieldPath=".rules"
// +kubebuilder:validation:XValidation:rule="!has(self.rules) || !has(self.data)",message="rules read no documents of data",reason=FieldValueForbidden,fieldPath=".data"
// +kubebuilder:validation:XValidation:rule="!has(self.rules) || !has(self.replicate)",message="Berth knows what rules read",reason=FieldValueForbidden,fieldPath=".replicate"
// +kubebuilder:validation:XValidation:rule="!has(self.remote) || !has(self.rego)",message="rego and remote exclude each other: modules for the engine belong in remote.modules",reason=FieldValueForbidden,fieldPath=".rego"
// +kubebuilder:validation:XValidation:rule="!has(self.remote) || !has(self.data)",message="a policy that a remote engine decides has its data there",reason=FieldValueForbidden,fieldPath=".data"
// +kubebuilder:validation:XValidation:rule="!has(self.remote) || !has(self.replicate)",message="data for the engine belong in remote.replicate",reason=FieldValueForbidden,fieldPath=".replicate"
// +kubebuilder:validation:XValidation:rule="!has(self.remote) || !has(self.predicates)",message="a remote engine can't evaluate predicates: another policy, with predicates alone, can match the same objects",reason=FieldValueForbidden,fieldPath=".predicates"
// +kubebuilder:validation:XValidation:rule="!has(self.rollout) || !has(self.remote)",message="a policy that a remote engine decides has no stages: the engine has one version of its modules",reason=FieldValueForbidden,fieldPath=".rollout"
type PlacementPolicySpec struct {
	// match selects the objects that the policy decides. The API server does not call Berth for objects that no policy
	// matches.
	// +required
	Match Match `json:"match,omitzero"`

	// rules decide objects without Rego: the first one that applies to an object. `kubectl berth render` shows the module
	// that they compile to. At most 32. One of rules, rego and remote is required unless predicates.candidates is set.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Rules []Rule `json:"rules,omitempty"`

	// rego is the Rego module of the policy. Berth evaluates the rules annotations, labels, scheduling, clusters, errors
	// and warnings of its package, with the object as input. All are optional. At most 65536 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Rego string `json:"rego,omitempty"`

	// regoVersion is the version of the Rego language: v1, or v0 for that of OPA before 1.0. Defaults to v1.
	// +optional
	// +default="v1"
	RegoVersion RegoVersion `json:"regoVersion,omitempty"`

	// data holds documents that only this policy reads, under `data`. The names kubernetes, resources, clusters and berth
	// are reserved.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:XPreserveUnknownFields
	Data *apiextensionsv1.JSON `json:"data,omitempty"`

	// strict rejects the policy if it has probable mistakes: what the type checker finds, and what does not fit the
	// existing types, namespaces, and clusters. If false, they are warnings.
	// +optional
	Strict bool `json:"strict,omitempty"`

	// replicate lists resource types that the policy reads through references that depend on the object, such as
	// `data.kubernetes[input.kind]`. Types that the module names need not be listed. At most 32.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Replicate []ReplicatedResource `json:"replicate,omitempty"`

	// predicates checks the decision against nodes or clusters, with the filter plugins of the Kubernetes scheduler.
	// +optional
	Predicates *Predicates `json:"predicates,omitempty"`

	// remote is the policy engine that decides in place of rego.
	// +optional
	Remote *Remote `json:"remote,omitempty"`

	// limits bounds the resources that one evaluation uses.
	// +optional
	Limits *Limits `json:"limits,omitempty"`

	// maxStaleness is how long the policy decides by replicated data that the API server has not confirmed. Then Berth
	// queries the API server, and if it does not answer, failurePolicy applies. Must be from 5s to 24h. Defaults to 1m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]+)?(h|m|s|ms|us|ns))+$') && duration(self) >= duration('5s') && duration(self) <= duration('24h')",message="must be from 5s to 24h, in hours, minutes, and seconds, such as 90s or 1h30m"
	MaxStaleness *metav1.Duration `json:"maxStaleness,omitempty"`

	// mode is the effect of decisions on requests. Enforce changes and denies requests. Warn only returns a warning that
	// says what Enforce would do. DryRun only records it. Defaults to Enforce.
	// +optional
	// +default="Enforce"
	Mode Mode `json:"mode,omitempty"`

	// failurePolicy is what happens to a request that the policy can't decide: Fail denies it, Ignore admits it without
	// this policy. Defaults to Fail.
	// +optional
	// +default="Fail"
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`

	// priority decides between policies that set the same key to different values. The higher number wins, and of equal
	// numbers the policy whose name sorts first. Must be from -1000000 to 1000000. Defaults to 0.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`

	// clusters configures how the decided clusters are combined with the developer's own list.
	// +optional
	Clusters *ClustersRule `json:"clusters,omitempty"`

	// delivery selects the multi-cluster systems that carry matched objects to their clusters. If unset, Berth only writes
	// the decision.
	// +optional
	Delivery *Delivery `json:"delivery,omitempty"`

	// remediation configures what happens to existing objects when the policy, its data or an object changes.
	// +optional
	Remediation Remediation `json:"remediation,omitzero"`

	// rollout brings a new version of the policy into force in one group of namespaces after the other. A version is the
	// spec without remediation and rollout. If unset, it is in force everywhere at once.
	// +optional
	Rollout *PolicyRollout `json:"rollout,omitempty"`
}

// PolicyRollout configures how a new version of a policy comes into force.
//
// +kubebuilder:validation:MinProperties=1
type PolicyRollout struct {
	// stages are groups of namespaces in which a new version comes into force one after the other. A namespace belongs to
	// the first one that selects it. All other objects follow after the last stage. Until then the version before decides,
	// or the policy matches nothing if there is none. Another version starts from the first stage. At most 16.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Stages []RolloutStage `json:"stages,omitempty"`

	// revision is the revision that is in force everywhere at once, whatever the rest of the spec says: one of
	// status.rollout.revisions, to roll back. When it is removed, the version in the spec is rolled out from the first
	// stage.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Revision int64 `json:"revision,omitempty"`
}

// RolloutStage is a group of namespaces in which a new version comes into force at the same time.
//
// +kubebuilder:validation:XValidation:rule="has(self.namespaceSelector) != has(self.percent)",message="exactly one of namespaceSelector and percent is required"
type RolloutStage struct {
	// name is the name of the stage.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// namespaceSelector selects the namespaces of the stage by their labels. An empty selector selects all. Exactly one of
	// namespaceSelector and percent is required.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// percent is the percentage of all namespaces that the stage selects, by a hash of the names of the policy and of the
	// namespace. A higher percentage includes the namespaces of a lower one. Must be from 1 to 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percent int32 `json:"percent,omitempty"`

	// soak is how long the rollout waits after all objects of the stage were moved, before the next stage. Must be from 0s
	// to 720h. Defaults to 0s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]+)?(h|m|s|ms|us|ns))+$') && duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="must be from 0s to 720h, in hours, minutes, and seconds, such as 90m or 24h"
	Soak *metav1.Duration `json:"soak,omitempty"`

	// pauseAfterFailures is the number of objects that failed in the stage, or are newly denied, from which on the next
	// stage does not begin. They have to be in three namespaces, or in all of the stage that have objects. The rollout
	// goes on when fewer objects fail. 0 stops it at the first failure, in whatever namespace it is. Must be from 0 to
	// 10000, or Never. Defaults to 1.
	// +optional
	// +default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 10000 : self == 'Never'",message="must be a number from 0 to 10000, or Never"
	PauseAfterFailures *intstr.IntOrString `json:"pauseAfterFailures,omitempty"`

	// approval makes the rollout wait before the stage until the annotation placement.berth.dev/approve-stage is
	// status.rollout.approvalID. If the last stage has it, what no stage selects waits for another approval.
	// +optional
	Approval bool `json:"approval,omitempty"`
}

// ClustersRule configures how the decided clusters are combined with the developer's own list. An object gets only
// clusters that are allowed by every policy that gives it clusters.
type ClustersRule struct {
	// developerChoice is the effect of the developer's list, in the annotation placement.berth.dev/clusters. Narrow keeps
	// those of its clusters that the policies allow. Override replaces it, if every policy that gives the object clusters
	// sets Override. Ignore replaces it, whatever the others set. Defaults to Narrow.
	// +optional
	// +default="Narrow"
	DeveloperChoice DeveloperChoice `json:"developerChoice,omitempty"`

	// onEmpty is what happens if no cluster is left. Deny denies the request; an existing object is not changed and is a
	// violation. Clear writes the empty list, if every policy that gives the object clusters sets Clear or PolicyClusters.
	// PolicyClusters writes the clusters that the policies allow, if they allow any and every such policy sets it.
	// Defaults to Deny.
	// +optional
	// +default="Deny"
	OnEmpty OnEmpty `json:"onEmpty,omitempty"`

	// leaveUnreadyAfter is how long existing objects stay in a cluster that its fleet manager taints as not ready, such as
	// by cluster.karmada.io/not-ready. New objects are not placed there. 0s moves them at once. If unset, they stay. Only
	// rules that give clusters honor it. Must be from 0s to 720h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]+)?(h|m|s|ms|us|ns))+$') && duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="must be from 0s to 720h, in hours, minutes, and seconds, such as 90m or 24h"
	LeaveUnreadyAfter *metav1.Duration `json:"leaveUnreadyAfter,omitempty"`
}

// Limits bounds the resources that one evaluation of a policy uses.
type Limits struct {
	// inputBytes is the maximum size of the fields that the policy reads of an object, or of the whole object if a remote
	// engine decides, in bytes of JSON. A larger object can't be decided, and failurePolicy applies. Must be from 1024 to
	// 8388608. Defaults to 1048576 (1 MiB).
	// +optional
	// +default=1048576
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=8388608
	InputBytes int64 `json:"inputBytes,omitempty"`
}

// PredicateCandidates are the candidates that predicates check.
//
// +kubebuilder:validation:Enum=Nodes;Clusters
type PredicateCandidates string

const (
	// PredicateCandidatesNodes are the nodes of the served cluster.
	PredicateCandidatesNodes PredicateCandidates = "Nodes"
	// PredicateCandidatesClusters are the clusters of all inventories.
	PredicateCandidatesClusters PredicateCandidates = "Clusters"
)

// Predicates selects the predicates that a policy uses and the candidates that they check.
type Predicates struct {
	// candidates are what the object must fit: Nodes, those of the served cluster, or Clusters, those of all inventories.
	// The object is denied if none is feasible, and infeasible clusters are removed from the decision. If unset,
	// predicates run only where the policy calls k8s.feasible or k8s.feasible_clusters.
	// +optional
	Candidates PredicateCandidates `json:"candidates,omitempty"`

	// names restricts the predicates to these, of those that the manager's flag --predicates allows. If unset, all of them
	// run, in the order that the manager sets. At most 32.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Names []string `json:"names,omitempty"`
}

// Match selects objects by the conventions of admissionregistration.k8s.io: by a resource rule, both selectors, and all
// match conditions.
type Match struct {
	// resourceRules lists the resource types to match. At most 32.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ResourceRules []ResourceRule `json:"resourceRules,omitempty"`

	// namespaceSelector matches objects by the labels of their namespace, and a Namespace by its own. An empty selector
	// matches all. Other cluster-scoped objects always match. kube-system and Berth's own namespace never match.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// objectSelector matches objects by their labels. An empty selector matches all.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`

	// matchConditions are CEL expressions over object, oldObject and request that must all be true, as in
	// admissionregistration.k8s.io, without the variable authorizer. An existing object is evaluated as if Berth updated
	// it. At most 32.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	MatchConditions []admissionregistrationv1.MatchCondition `json:"matchConditions,omitempty"`
}

// ResourceRule names resource types. In each list, "*" stands for all.
type ResourceRule struct {
	// apiGroups lists API groups. "" is the core group. At most 32.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!('*' in self) || size(self) == 1",message="\"*\" must be the only item"
	APIGroups []string `json:"apiGroups,omitempty"`

	// apiVersions lists versions of these groups. At most 32.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!('*' in self) || size(self) == 1",message="\"*\" must be the only item"
	APIVersions []string `json:"apiVersions,omitempty"`

	// resources lists plural names, without subresources. At most 32.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!('*' in self) || size(self) == 1",message="\"*\" must be the only item"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !r.contains('/'))",message="subresources can't be matched"
	Resources []string `json:"resources,omitempty"`
}

// ReplicatedResource names a resource type by its group and plural name.
type ReplicatedResource struct {
	// apiGroup is the API group. "" is the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup,omitempty"`

	// resource is the plural name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Resource string `json:"resource,omitempty"`
}

// Remediation configures what Berth does with objects that exist already.
type Remediation struct {
	// mode is what happens to existing objects that differ from their placement. Automatic patches them. Approved patches
	// them when the annotation placement.berth.dev/approve is the digest of status.plan; until then it is like Manual.
	// Manual lists them in status; an update keeps the placement unless it changes a field that the policy reads or
	// writes. NewOnly does not evaluate them; an update keeps the placement unless it changes a field that the policy
	// writes, and is denied if the policy newly denies the object. Off does not evaluate them, and every update is
	// decided. Defaults to Automatic.
	// +optional
	// +default="Automatic"
	Mode RemediationMode `json:"mode,omitempty"`

	// blastRadius bounds how many existing objects one change may leave denied, without clusters or undecided in mode
	// Automatic. If unset, remediation pauses if these are more than 10 percent of the matched objects, and at least 10.
	// +optional
	BlastRadius *BlastRadius `json:"blastRadius,omitempty"`

	// budget bounds how fast Berth patches existing objects in the modes Automatic and Approved, and how many may be
	// unavailable. If unset, its defaults apply.
	// +optional
	Budget *RemediationBudget `json:"budget,omitempty"`

	// windows are the periods in which Berth patches existing objects in the modes Automatic and Approved. Requests are
	// decided at any time. If empty, Berth patches at any time. At most 16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Windows []RemediationWindow `json:"windows,omitempty"`

	// evict makes Berth evict running Pods whose scheduling violates the decision, in the modes Automatic and Approved.
	// Berth uses the Eviction API, which respects PodDisruptionBudgets, and evicts only Pods of ReplicaSets, StatefulSets
	// and ReplicationControllers. Other Pods stay, as violations. Budget and windows apply.
	// +optional
	Evict bool `json:"evict,omitempty"`
}

// RemediationBudget bounds how fast Berth patches existing objects. An object that several policies change waits for
// the budgets of all of them. An object is being moved from its patch until the patch is done; if the patch changes the
// pod template, until the rollout is complete or has failed; and if a system of spec.delivery reports where the object
// runs, until it runs in its new clusters. An evicted Pod is being moved until it is gone.
//
// +kubebuilder:validation:MinProperties=1
type RemediationBudget struct {
	// group is a name that policies have in common that share maxPerMinute, maxConcurrent and perNamespace. Each keeps to
	// the bounds of all of them. If unset, only what Berth does for this policy counts.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be a name of lower-case letters, digits, and hyphens, such as moves"
	Group string `json:"group,omitempty"`

	// maxPerMinute is the maximum number of patches and evictions a minute, spread evenly: 30 means one every two seconds.
	// Must be from 1 to 6000. Unbounded if unset.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=6000
	MaxPerMinute int32 `json:"maxPerMinute,omitempty"`

	// maxConcurrent is the maximum number of objects that are being moved at the same time. Must be from 1 to 10000.
	// Unbounded if unset.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxConcurrent int32 `json:"maxConcurrent,omitempty"`

	// perNamespace is the maximum number of objects of one namespace that are being moved at the same time. Must be from 1
	// to 10000. Unbounded if unset.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	PerNamespace int32 `json:"perNamespace,omitempty"`

	// maxUnavailable is the number of matched objects, or the percentage of them, that may be unavailable at the same
	// time. An object is unavailable while it is not ready, while its pods are replaced after a patch, and while it does
	// not run in its clusters, if a system of spec.delivery reports that and surge is not set. With remediation.evict,
	// each Pod counts, too. Berth waits before it changes the pod template or clusters of an available object, or evicts
	// an available Pod; it does not wait to patch labels and annotations. A percentage is rounded down, but to 1 at least.
	// Must be from 1 to 1000000, or from 1% to 100%. 100% means no bound. Defaults to 10%.
	// +optional
	// +default="10%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 1000000 : self.matches('^([1-9][0-9]?|100)%$')",message="must be a number from 1 to 1000000 or a percentage from 1% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// pauseAfterFailures is the number of failed objects after which Berth patches no more objects of their namespaces, or
	// none of the policy if they are in three namespaces. An object fails if the API server refuses its patch, its rollout
	// fails, or moveTimeout passes. Failures that others may share, such as an unavailable webhook, do not count. Patches
	// go on when the annotation placement.berth.dev/resume-after-failures is status.failures.pause, or with the next
	// generation. 0 stops all patches at the first failure, and Never stops none. Must be from 0 to 100, or Never.
	// Defaults to 10.
	// +optional
	// +default=10
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 100 : self == 'Never'",message="must be a number from 0 to 100, or Never"
	PauseAfterFailures *intstr.IntOrString `json:"pauseAfterFailures,omitempty"`

	// moveTimeout is how long an object may take to run in its new clusters, if a system of spec.delivery reports that.
	// Then it has failed, and in its namespace it counts as being moved until it runs. Must be from 1s to 24h. Defaults to
	// 10m.
	// +optional
	// +default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]+)?(h|m|s|ms|us|ns))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be from 1s to 24h, in hours, minutes, and seconds, such as 90s or 1h30m"
	MoveTimeout *metav1.Duration `json:"moveTimeout,omitempty"`
}

// RemediationWindow is a recurring period.
type RemediationWindow struct {
	// start is when the window opens, in the cron format of CronJobs, such as "0 22 * * 1-5" for 22:00 from Monday to
	// Friday.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Start string `json:"start,omitempty"`

	// duration is how long the window stays open, such as 6h or 1h30m. Must be from 1m to 168h.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]+)?(h|m|s|ms|us|ns))+$') && duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="must be from 1m to 168h, in hours, minutes, and seconds, such as 90m or 24h"
	Duration metav1.Duration `json:"duration,omitzero"`

	// timeZone is the time zone of start in the IANA database, such as Europe/Berlin. Defaults to UTC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
}

// BlastRadius bounds how many existing objects one change of the policy, or of data that it reads, may leave denied,
// without clusters or undecided. A change that exceeds both bounds pauses remediation until it is reverted or released.
type BlastRadius struct {
	// percent is the percentage of the matched objects above which remediation pauses. 100 disables the guard. Must be
	// from 1 to 100. Defaults to 10.
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percent int32 `json:"percent,omitempty"`

	// minObjects is the number of affected objects below which remediation never pauses. Must be at least 1. Defaults
	// to 10.
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=1
	MinObjects int32 `json:"minObjects,omitempty"`
}

// PlacementPolicyStatus is the observed state of a PlacementPolicy. The leader writes it. Readiness and metrics show
// what each replica has loaded.
//
// +kubebuilder:validation:MinProperties=1
type PlacementPolicyStatus struct {
	// conditions are the latest observations of the policy. Ready is the summary.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that this status describes; -1 until Berth processes the policy.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// generationInForce is the generation that decides, in a rollout in the reached stages: the newest one that compiled and
	// had its data. It is absent if none did.
	// +optional
	GenerationInForce int64 `json:"generationInForce,omitempty"`

	// moduleDigest is the SHA-256 digest of the module that the rules compile to: sha256: and 64 hexadecimal digits.
	// `kubectl berth render --digest` prints that of the rules in a file. During a rollout, it is that of the stages that
	// are reached. It is absent if the version in force has no rules.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	ModuleDigest string `json:"moduleDigest,omitempty"`

	// matched is the number of existing objects that the policy matches. It is absent if remediation.mode is NewOnly or Off.
	// +optional
	Matched *int32 `json:"matched,omitempty"`

	// violations is the number of existing objects that are not known to match the decision: the sum of wouldDeny,
	// wouldMove and undecided.
	// +optional
	Violations *int32 `json:"violations,omitempty"`

	// wouldDeny is the number of existing objects that the policy would deny if they were created now.
	// +optional
	WouldDeny *int32 `json:"wouldDeny,omitempty"`

	// wouldMove is the number of existing objects that the policy does not deny and that differ from their placement.
	// +optional
	WouldMove *int32 `json:"wouldMove,omitempty"`

	// undecided is the number of existing objects that the policy can't decide. While it is not 0, Ready is False.
	// +optional
	Undecided *int32 `json:"undecided,omitempty"`

	// conflicted is the number of existing objects with a key that another policy sets to a different value.
	// +optional
	Conflicted *int32 `json:"conflicted,omitempty"`

	// rules lists how many existing objects each rule of spec.rules decides, in their order. During a rollout, rules that
	// only an earlier version has follow. At most 64.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Rules []RuleStatus `json:"rules,omitempty"`

	// remediated is the number of patches and evictions that remediated existing objects. It never decreases.
	// +optional
	Remediated *int64 `json:"remediated,omitempty"`

	// waiting lists why objects that Berth has to patch are not patched yet.
	// +optional
	// +listType=map
	// +listMapKey=reason
	// +kubebuilder:validation:MaxItems=8
	Waiting []WaitingObjects `json:"waiting,omitempty"`

	// waitsFor is a summary of waiting, paused, moving, and rollout, such as "Budget (3), Soak".
	// +optional
	// +kubebuilder:validation:MaxLength=256
	WaitsFor string `json:"waitsFor,omitempty"`

	// moving lists objects that Berth moved to other clusters and that a system of spec.delivery does not report to run
	// there yet, ordered by resource, namespace and name. At most 100.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Moving []MovingObject `json:"moving,omitempty"`

	// plan is what Berth last had to do to existing objects, as known before the first patch. If mode or remediation.mode
	// keep Berth from that, it is what Berth would do. It is absent until an object has to be patched.
	// +optional
	Plan *RemediationPlan `json:"plan,omitempty"`

	// usedApproval is the digest of the plan that was carried out with the annotation placement.berth.dev/approve. An
	// approval counts once: to approve an equal plan, remove the annotation first.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	UsedApproval string `json:"usedApproval,omitempty"`

	// violationSample lists some of the objects in violation, ordered by resource, namespace and name. At most 5.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	ViolationSample []Violation `json:"violationSample,omitempty"`

	// findings lists the probable mistakes in the policy, and what it leaves open: what kubectl apply warns of and no
	// condition says. One in rego begins with its line and column, such as "rego:3:21: ". At most 10; the condition
	// Compiled has their number.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	Findings []string `json:"findings,omitempty"`

	// paused describes the change that paused remediation, while it is paused.
	// +optional
	Paused *PausedChange `json:"paused,omitempty"`

	// failures describes the objects that failed. It is absent without such objects and a pause because of them.
	// +optional
	Failures *MoveFailures `json:"failures,omitempty"`

	// rollout is how far the newest version is rolled out. It is absent if spec.rollout is.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// delivery is how far systems follow the decisions. It is absent without spec.delivery, unless the policy decides a
	// system's own Placements or Workloads.
	// +optional
	Delivery *DeliveryStatus `json:"delivery,omitempty"`

	// dependencies lists the resource types that the policy reads; kubectl berth deps lists their fields. At most 64.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Dependencies []Dependency `json:"dependencies,omitempty"`
}

// RuleStatus is what is known of a rule of spec.rules.
type RuleStatus struct {
	// name is the name of the rule.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// objects is the number of existing objects that the rule decides.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Objects *int32 `json:"objects,omitempty"`
}

// WaitingReason is why objects are not patched yet.
//
// +kubebuilder:validation:Enum=Budget;Window;Approval;Availability;Failures;DisruptionBudget
type WaitingReason string

const (
	// WaitingForBudget means that as many objects are being moved, or were patched, as the budget of the policy or that of the
	// manager allows.
	WaitingForBudget WaitingReason = "Budget"
	// WaitingForAvailability means that as many objects are unavailable as maxUnavailable of the policy allows.
	WaitingForAvailability WaitingReason = "Availability"
	// WaitingAfterFailures means that patches stopped because too many objects failed.
	WaitingAfterFailures WaitingReason = "Failures"
	// WaitingForDisruptionBudget means that a PodDisruptionBudget does not allow the eviction of a Pod.
	WaitingForDisruptionBudget WaitingReason = "DisruptionBudget"
	// WaitingForWindow means that no window of the policy is open.
	WaitingForWindow WaitingReason = "Window"
	// WaitingForApproval means that the plan is not approved.
	WaitingForApproval WaitingReason = "Approval"
)

// WaitingObjects are existing objects that Berth has to patch and that wait.
type WaitingObjects struct {
	// reason is why the objects wait. Budget: maxPerMinute, maxConcurrent, perNamespace, or a bound of the manager is used
	// up, or it is not known yet which objects are ready. Window: no window is open. Approval: the plan is not approved.
	// Availability: as many objects are unavailable as maxUnavailable allows. Failures: as many failed as pauseAfterFailures
	// allows. DisruptionBudget: a PodDisruptionBudget does not allow to evict the Pods.
	// +required
	Reason WaitingReason `json:"reason,omitempty"`

	// objects is the number of objects that wait.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Objects int32 `json:"objects,omitempty"`

	// until is when the next window opens, if the reason is Window.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// message says what the objects wait for, when they go on, and the command for that if there is one.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// PlanState is how far a plan is.
//
// +kubebuilder:validation:Enum=Proposed;WaitingForApproval;InProgress;Completed
type PlanState string

const (
	// PlanProposed means that Berth does not carry out the plan, because of remediation.mode or mode.
	PlanProposed PlanState = "Proposed"
	// PlanWaitingForApproval means that remediation.mode is Approved, and that the plan is not approved.
	PlanWaitingForApproval PlanState = "WaitingForApproval"
	// PlanInProgress means that Berth carries out the plan. The status field waiting and the condition Paused say why
	// objects wait.
	PlanInProgress PlanState = "InProgress"
	// PlanCompleted means that no object of the plan has to be patched any more, and that the rollouts are complete.
	PlanCompleted PlanState = "Completed"
)

// RemediationPlan is what Berth has to do to existing objects because of one change.
type RemediationPlan struct {
	// digest identifies the objects with their UIDs and the changes of each. Equal plans have equal digests.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Digest string `json:"digest,omitempty"`

	// state is how far the plan is. Proposed: Berth does not carry it out, because of remediation.mode or mode.
	// WaitingForApproval: it is not approved. InProgress: Berth carries it out. Completed: no object has to be patched,
	// and none is being moved.
	// +required
	State PlanState `json:"state,omitempty"`

	// message describes the change because of which objects have to be patched.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// causes are the changes behind the plan, those of the most moves first: the generation that came into force, or an
	// object and its fields that changed, with their values only for clusters.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Causes []string `json:"causes,omitempty"`

	// startTime is when the plan was made.
	// +required
	StartTime metav1.Time `json:"startTime,omitzero"`

	// moves is the number of objects that the plan patches or evicts.
	// +required
	// +kubebuilder:validation:Minimum=1
	Moves int32 `json:"moves,omitempty"`

	// done is the number of these objects that need no patch or eviction any more.
	// +required
	// +kubebuilder:validation:Minimum=0
	Done *int32 `json:"done,omitempty"`

	// rollouts is the number of patched objects that are still being moved, and of evicted Pods that are not gone.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Rollouts int32 `json:"rollouts,omitempty"`

	// approval says who approved the plan, if it is approved.
	// +optional
	Approval *PlanApproval `json:"approval,omitempty"`

	// transitions describes the changes and their numbers of objects, such as "12 objects: annotation example.com/tier from
	// gold to silver". The most frequent ones come first. At most 5.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1152
	Transitions []string `json:"transitions,omitempty"`
}

// PlanApproval is the approval of a plan.
//
// +kubebuilder:validation:MinProperties=1
type PlanApproval struct {
	// user is who approved the plan. It is "unknown" if Berth's webhook was unavailable then.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	User string `json:"user,omitempty"`

	// time is when the plan was approved, unless the user is unknown.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}

// RolloutState is how far the rollout of a version is.
//
// +kubebuilder:validation:Enum=Progressing;Soaking;WaitingForApproval;Paused;Complete;RolledBack
type RolloutState string

const (
	// RolloutProgressing means that objects of the stages that are reached still have to be decided or moved.
	RolloutProgressing RolloutState = "Progressing"
	// RolloutSoaking means that all objects of the stages that are reached are moved, and that the soak of the last one is not
	// over.
	RolloutSoaking RolloutState = "Soaking"
	// RolloutWaitingForApproval means that the next stage is not approved.
	RolloutWaitingForApproval RolloutState = "WaitingForApproval"
	// RolloutPaused means that too many objects failed in a reached stage, or that remediation of the policy is paused, so that no further
	// stage begins. The first stage begins although remediation is paused.
	RolloutPaused RolloutState = "Paused"
	// RolloutComplete means that the version is in force everywhere.
	RolloutComplete RolloutState = "Complete"
	// RolloutRolledBack means that the revision in spec.rollout.revision is in force everywhere.
	RolloutRolledBack RolloutState = "RolledBack"
)

// RolloutStatus is how far a version of the policy is rolled out. Each replica decides by it, so none is ahead of what
// the leader has written.
type RolloutStatus struct {
	// state is how far the rollout is. Progressing: objects of the reached stages have to be decided or moved. Soaking:
	// they are moved, and the soak of the last one is not over. WaitingForApproval: the next stage is not approved.
	// Paused: too many objects failed in a stage, or remediation is paused. Complete: the version is in force everywhere.
	// RolledBack: the version that spec.rollout.revision selects is in force everywhere.
	// +required
	State RolloutState `json:"state,omitempty"`

	// stage is a summary for display, such as "0/3", "canary 1/3", where canary is the last reached stage, "Complete", or,
	// after a rollback, "Revision 5".
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Stage string `json:"stage,omitempty"`

	// message says what the rollout waits for, if it does.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// revision is the revision that is rolled out or in force: the generation in which its version first was in the spec.
	// +required
	// +kubebuilder:validation:Minimum=1
	Revision int64 `json:"revision,omitempty"`

	// digest identifies the version and its stages; the version alone after a rollback.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Digest string `json:"digest,omitempty"`

	// previousRevision is the revision that decides in all namespaces in which the one in the field revision does not. It is
	// absent if there is none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	PreviousRevision int64 `json:"previousRevision,omitempty"`

	// reached is the number of stages in which the revision decides.
	// +required
	// +kubebuilder:validation:Minimum=0
	Reached *int32 `json:"reached,omitempty"`

	// stages lists the stages of the rollout in their order.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Stages []RolloutStageStatus `json:"stages,omitempty"`

	// approvalID identifies the approval that the rollout waits for. To approve, set the annotation
	// placement.berth.dev/approve-stage on the policy to this value. It is absent unless the rollout waits for one.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ApprovalID string `json:"approvalID,omitempty"`

	// revisions lists the revisions that spec.rollout.revision may have, the newest first. At most 10.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	Revisions []int64 `json:"revisions,omitempty"`
}

// RolloutStageStatus is the state of one stage.
type RolloutStageStatus struct {
	// name is the name of the stage in spec.rollout.stages.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// startTime is when the stage was reached. It is absent before.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// movedTime is when no object of the stage was left to be moved, for the first time. It is absent before.
	// +optional
	MovedTime *metav1.Time `json:"movedTime,omitempty"`

	// matched is the number of existing objects in its namespaces that the policy matches, in whatever version.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Matched int32 `json:"matched,omitempty"`

	// moved is the number of matched objects that are as the revision decides, without failed and denied ones.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Moved int32 `json:"moved,omitempty"`

	// failed is the number of matched objects that the revision can't decide, whose patch the API server refused, whose
	// rollout failed, that do not keep what Berth patches, or that wait in a paused namespace.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failed int32 `json:"failed,omitempty"`

	// denied is the number of matched objects that the revision denies.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Denied int32 `json:"denied,omitempty"`

	// deniedBefore has, by namespace, how many objects of the stage the version before denied: the 32 namespaces with most
	// of them, and the sum of the others as "*". It is absent until this version, or one that it superseded, is in force
	// there.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MaxItems=33
	DeniedBefore []NamespaceObjects `json:"deniedBefore,omitempty"`
}

// NamespaceObjects is a number of objects in a namespace.
type NamespaceObjects struct {
	// namespace is the name of the namespace, or "*" for all that the list does not name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// objects is the number of objects.
	// +required
	// +kubebuilder:validation:Minimum=0
	Objects *int32 `json:"objects,omitempty"`
}

// MoveFailures describes the objects that failed.
//
// +kubebuilder:validation:MinProperties=1
type MoveFailures struct {
	// objects is the number of objects that failed.
	// +required
	// +kubebuilder:validation:Minimum=0
	Objects *int32 `json:"objects,omitempty"`

	// pause identifies the pause because of the failures. To let patches go on, set the annotation
	// placement.berth.dev/resume-after-failures on the policy to this value. It is absent if there is no pause.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Pause string `json:"pause,omitempty"`

	// pausedNamespaces lists the namespaces in which Berth patches no objects. The empty name stands for cluster-scoped
	// objects. If it is absent during a pause, Berth patches none at all. At most 8.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	PausedNamespaces []string `json:"pausedNamespaces,omitempty"`

	// sample lists the first objects, ordered by resource, namespace and name. At most 100.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Sample []FailedMove `json:"sample,omitempty"`
}

// FailedMove is an object whose patch or eviction was refused, whose rollout failed after a patch, or that did not run in its new clusters
// in time.
type FailedMove struct {
	// object is the object, such as "deployments.apps shop/web".
	// +required
	Object ObjectReference `json:"object,omitempty"`

	// reason is what failed. PatchRefused: the API server refused the patch or eviction. RolloutFailed: the rollout failed
	// afterwards, or the object did not run in its new clusters in time.
	// +required
	Reason MoveFailure `json:"reason,omitempty"`

	// message says why it failed.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// MovingObject is an object that Berth moved to other clusters and that does not run there yet.
type MovingObject struct {
	// object is the object, such as "deployments.apps shop/web".
	// +required
	Object ObjectReference `json:"object,omitempty"`

	// since is when the object was moved.
	// +required
	Since metav1.Time `json:"since,omitzero"`

	// deadline is when the object fails if it does not run in its new clusters: remediation.budget.moveTimeout after
	// since. It is absent after that.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
}

// MoveFailure is what failed of a move.
//
// +kubebuilder:validation:Enum=PatchRefused;RolloutFailed
type MoveFailure string

const (
	// PatchRefused means that the API server refused the patch of the object.
	PatchRefused MoveFailure = "PatchRefused"
	// RolloutFailed means that the rollout of the object failed after its patch, or that it did not run in its new clusters in time.
	RolloutFailed MoveFailure = "RolloutFailed"
)

// PausedChange is a change that paused the remediation of a policy.
type PausedChange struct {
	// change identifies the change. To release it, set the annotation placement.berth.dev/release-blast-radius on the
	// policy to this value.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Change string `json:"change,omitempty"`

	// before is the number of matched objects that were denied, without clusters or undecided before the change.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Before int32 `json:"before,omitempty"`

	// namespaces lists the namespaces in which Berth moves no objects. The empty name stands for cluster-scoped objects.
	// If it is absent, Berth moves none at all. At most 8.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
}

// ObjectReference names an object by its resource type, its namespace if it has one, and its name, such as
// "deployments.apps shop/web" or "nodes n-1".
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=635
type ObjectReference string

// ReferenceTo returns the reference to an object, such as "deployments.apps shop/web". namespace is "" for a cluster-scoped object.
func ReferenceTo(resource schema.GroupResource, namespace, name string) ObjectReference {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return ObjectReference(resource.String() + " " + name)
}

// Parse splits the reference. namespace is "" for a cluster-scoped object. What a malformed reference lacks is empty.
func (r ObjectReference) Parse() (resource schema.GroupResource, namespace, name string) {
	kind, name, _ := strings.Cut(string(r), " ")
	if in, rest, namespaced := strings.Cut(name, "/"); namespaced {
		namespace, name = in, rest
	}
	return schema.ParseGroupResource(kind), namespace, name
}

// Violation is an existing object that differs from its placement, or that the policy can't decide.
type Violation struct {
	// object is the object, such as "deployments.apps shop/web".
	// +required
	Object ObjectReference `json:"object,omitempty"`

	// message describes the violation: the error of the policy, the difference from the placement, or why the object can't
	// be decided.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// Dependency is a resource type that a policy reads, or that Berth pushes to its remote engine.
type Dependency struct {
	// resource is the resource type, such as "clusterprofiles.multicluster.x-k8s.io".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Resource string `json:"resource,omitempty"`

	// version is the API version that Berth reads, if the type is served.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version,omitempty"`

	// objects is the number of replicated objects. It is absent while the replica is not complete; the condition Replicated
	// says why.
	// +optional
	Objects *int32 `json:"objects,omitempty"`
}

// PlacementPolicy decides where the objects that it matches may run, by one object and the replicated data alone. Berth
// applies it at admission, and to existing objects for as long as they exist.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=placementpolicies,scope=Cluster,shortName=plpol,categories=berth
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the policy is compiled, has its data, is in force, and can decide each object"
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,description="What decisions do"
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`,description="Existing objects that the policy matches"
// +kubebuilder:printcolumn:name="Violations",type=integer,JSONPath=`.status.violations`,description="Existing objects that differ from their decision or can't be decided"
// +kubebuilder:printcolumn:name="Waiting",type=string,JSONPath=`.status.waitsFor`,description="What existing objects, or the next stage, wait for"
// +kubebuilder:printcolumn:name="Remediated",type=integer,JSONPath=`.status.remediated`,description="Patches that brought objects into line"
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.status.rollout.stage`,description="How far the newest version of the policy is rolled out"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why the policy is ready or not"
// +kubebuilder:printcolumn:name="Would-Deny",type=integer,JSONPath=`.status.wouldDeny`,priority=1,description="Existing objects that the policy would deny today"
// +kubebuilder:printcolumn:name="Would-Move",type=integer,JSONPath=`.status.wouldMove`,priority=1,description="Existing objects that differ from their placement"
// +kubebuilder:printcolumn:name="Undecided",type=integer,JSONPath=`.status.undecided`,priority=1,description="Existing objects that the policy can't decide"
// +kubebuilder:printcolumn:name="Conflicted",type=integer,JSONPath=`.status.conflicted`,priority=1,description="Existing objects with a key that another policy sets to another value"
// +kubebuilder:printcolumn:name="Delivery",type=string,JSONPath=`.status.delivery.systems`,priority=1,description="Systems that carry matched objects to their clusters"
type PlacementPolicy struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired behavior of the policy.
	// +required
	Spec PlacementPolicySpec `json:"spec,omitzero"`

	// status is the observed state.
	// +optional
	// +default={"observedGeneration": -1}
	Status PlacementPolicyStatus `json:"status,omitzero"`
}

// PlacementPolicyList is a list of PlacementPolicies.
//
// +kubebuilder:object:root=true
type PlacementPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []PlacementPolicy `json:"items"`
}
