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
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// value is the identity of the stage and the version, as in status.rollout.approvalID.
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
	// Digest is the digest of the approved plan.
	Digest string `json:"digest"`
	// User is the name of the user who approved it.
	User string `json:"user"`
	// Time is when the plan was approved.
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
	// match selects the objects that the policy decides. Berth copies these rules into the webhook configuration, so
	// the API server does not call Berth for objects that no policy matches.
	// +required
	Match Match `json:"match,omitzero"`

	// rules decide objects without Rego. The first rule that applies to an object decides it. Berth compiles the rules to a Rego
	// module, which `kubectl berth render` shows. At most 32 rules. One of rules, rego and remote is required unless
	// predicates.candidates is set.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Rules []Rule `json:"rules,omitempty"`

	// rego is the Rego module of the policy, at most 65536 characters. Berth evaluates the rules annotations, labels,
	// scheduling, clusters, errors and warnings in the package of the module, with the object as input. Each of these
	// rules is optional.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Rego string `json:"rego,omitempty"`

	// regoVersion is the version of the Rego language that the module is written in: v0 or v1. Defaults to v1.
	// +optional
	// +default="v1"
	RegoVersion RegoVersion `json:"regoVersion,omitempty"`

	// data holds static documents that only this policy can read, under `data`. The names kubernetes, resources,
	// clusters and berth are reserved.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:XPreserveUnknownFields
	Data *apiextensionsv1.JSON `json:"data,omitempty"`

	// strict rejects the policy if it has probable mistakes, in rules as in rego: what the type checker finds, given the schemas that the
	// API server publishes, and what does not fit the types, namespaces, and clusters that there are. If false, they are warnings.
	// Defaults to false.
	// +optional
	Strict bool `json:"strict,omitempty"`

	// replicate lists resource types that the policy reads through references that Berth can't resolve before
	// evaluation, such as `data.kubernetes[input.kind]`. Types that the module names directly need not be listed. At
	// most 32 types.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Replicate []ReplicatedResource `json:"replicate,omitempty"`

	// predicates checks the decision against the existing nodes or clusters, with the filter plugins of the Kubernetes
	// scheduler.
	// +optional
	Predicates *Predicates `json:"predicates,omitempty"`

	// remote is the policy engine that decides in place of rego.
	// +optional
	Remote *Remote `json:"remote,omitempty"`

	// limits bounds the resources that one evaluation uses.
	// +optional
	Limits *Limits `json:"limits,omitempty"`

	// maxStaleness is how long the policy decides by replicated data that the API server has not confirmed. After this
	// time, Berth queries the API server again. If the API server does not answer, the policy can't be evaluated, and
	// failurePolicy applies to requests. Must be from 5s to 24h. Defaults to 1m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]+)?(h|m|s|ms|us|ns))+$') && duration(self) >= duration('5s') && duration(self) <= duration('24h')",message="must be from 5s to 24h, in hours, minutes, and seconds, such as 90s or 1h30m"
	MaxStaleness *metav1.Duration `json:"maxStaleness,omitempty"`

	// mode is the effect of decisions on requests. Enforce changes and denies requests. Warn admits requests unchanged
	// and returns a warning that says what Enforce would do. DryRun admits requests unchanged and only records what
	// Enforce would do. Defaults to Enforce.
	// +optional
	// +default="Enforce"
	Mode Mode `json:"mode,omitempty"`

	// failurePolicy is the handling of a request that the policy can't decide: Fail denies it, and Ignore admits it
	// without this policy. Defaults to Fail.
	// +optional
	// +default="Fail"
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`

	// priority is the precedence of the policy where several policies set the same key to different values. The policy
	// with the higher number wins. If the numbers are equal, the policy whose name sorts first wins. Must be from
	// -1000000 to 1000000. Defaults to 0.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`

	// clusters configures how the result of the rule clusters is combined with the developer's own list.
	// +optional
	Clusters *ClustersRule `json:"clusters,omitempty"`

	// delivery selects the multi-cluster systems that carry matched objects to the clusters that are decided for them. If unset,
	// Berth only writes the decision.
	// +optional
	Delivery *Delivery `json:"delivery,omitempty"`

	// remediation configures what happens to existing objects when the policy, its data or an object changes.
	// +optional
	Remediation Remediation `json:"remediation,omitzero"`

	// rollout brings a new version of the policy into force in one group of namespaces after the other. A version is the spec
	// without remediation and rollout. If unset, a new version is in force everywhere at once.
	// +optional
	Rollout *PolicyRollout `json:"rollout,omitempty"`
}

// PolicyRollout configures how a new version of a policy comes into force.
//
// +kubebuilder:validation:MinProperties=1
type PolicyRollout struct {
	// stages are the groups of namespaces in which a new version comes into force, one after the other. A namespace belongs to
	// the first stage that selects it. In the other namespaces, and for cluster-scoped objects other than Namespaces, the new
	// version comes into force after the last stage. Until then the version before decides there, requests and existing
	// objects alike. If there is no version before, the policy matches nothing there. A rollout starts again from the first
	// stage if the version changes. At most 16 stages.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Stages []RolloutStage `json:"stages,omitempty"`

	// revision is the revision of the policy that is in force everywhere, at once and without stages, whatever the rest of the
	// spec says. Set it to one of status.rollout.revisions to roll back. When it is removed, the version in the spec is rolled
	// out from the first stage.
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

	// namespaceSelector selects the namespaces of the stage by their labels. An empty selector selects all namespaces.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// percent is the percentage of all namespaces that the stage selects. They are chosen by a hash of the names of the policy
	// and of the namespace, so the choice is the same for each version, and a higher percentage includes the namespaces of a
	// lower one. Must be from 1 to 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percent int32 `json:"percent,omitempty"`

	// soak is how long the rollout waits after all objects of the stage have been moved, before the next stage. Must be from
	// 0s to 720h. Defaults to 0s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]+)?(h|m|s|ms|us|ns))+$') && duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="must be from 0s to 720h, in hours, minutes, and seconds, such as 90m or 24h"
	Soak *metav1.Duration `json:"soak,omitempty"`

	// pauseAfterFailures is the number of objects that failed in the stage from which on the rollout does not go on to the next
	// stage: the policy can't decide the object, the API server refused its patch, its rollout failed, or it does not keep
	// what Berth patches. Denied objects count, too, as far as they are more than before the stage was reached. They have to be in three
	// namespaces, or in all namespaces of the stage that have objects if these are fewer, and one namespace counts for a third of the
	// number at most. The rollout goes on when fewer objects fail. 0 means that no failure is tolerated: the first one stops the
	// rollout, in whatever namespace it is. Must be from 0 to 10000, or Never. Defaults to 1.
	// +optional
	// +default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 10000 : self == 'Never'",message="must be a number from 0 to 10000, or Never"
	PauseAfterFailures *intstr.IntOrString `json:"pauseAfterFailures,omitempty"`

	// approval makes the rollout wait before the stage until the annotation placement.berth.dev/approve-stage has the value of
	// status.rollout.approvalID. If the last stage has it, what the policy matches in namespaces of no stage, and in none, waits for
	// another approval after that stage. Defaults to false.
	// +optional
	Approval bool `json:"approval,omitempty"`
}

// ClustersRule configures how the result of the rule clusters is combined with the developer's own list. An object gets
// only the clusters that are allowed by every policy that gives clusters for it.
type ClustersRule struct {
	// developerChoice is the effect of the developer's own list, which is in the annotation
	// placement.berth.dev/clusters. Narrow keeps the clusters of the list that the policies allow. Override replaces
	// the list, if every policy that gives clusters for the object sets Override. Ignore replaces the list, whatever the
	// other policies set. Defaults to Narrow.
	// +optional
	// +default="Narrow"
	DeveloperChoice DeveloperChoice `json:"developerChoice,omitempty"`

	// onEmpty is the handling of an object for which no cluster is left. Deny denies the request; an existing object is
	// not changed and is a violation. Clear writes the empty list, if every policy that gives clusters for the object
	// sets Clear or PolicyClusters. PolicyClusters writes the clusters that the policies allow, if they allow any and every
	// policy that gives clusters for the object sets PolicyClusters. Defaults to Deny.
	// +optional
	// +default="Deny"
	OnEmpty OnEmpty `json:"onEmpty,omitempty"`

	// leaveUnreadyAfter is the time for which existing objects stay in a cluster that its fleet manager marks as not ready, by a taint
	// such as cluster.karmada.io/not-ready. New objects are not placed there meanwhile. If it is 0, such a taint moves objects at once,
	// as any other one. If unset, they stay as long as the taint is there. Only rules that give clusters honor it. Must be from 0s to 720h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]+)?(h|m|s|ms|us|ns))+$') && duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="must be from 0s to 720h, in hours, minutes, and seconds, such as 90m or 24h"
	LeaveUnreadyAfter *metav1.Duration `json:"leaveUnreadyAfter,omitempty"`
}

// Limits bounds the resources that one evaluation of a policy uses.
type Limits struct {
	// inputBytes is the maximum size of the evaluated input, in bytes of JSON. It counts the fields of the object that
	// the policy reads. It counts the whole object if the policy reads all of it or a remote engine decides. A larger
	// object can't be decided, and failurePolicy applies. Must be from 1024 to 8388608. Defaults to 1048576 (1 MiB).
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
	// candidates are the nodes or clusters that the object must fit. The object is denied if no candidate is feasible.
	// Infeasible clusters are removed from the decision. If unset, predicates run only where the policy calls
	// k8s.feasible or k8s.feasible_clusters.
	// +optional
	Candidates PredicateCandidates `json:"candidates,omitempty"`

	// names restricts the predicates to these. Each must be among those that the manager's flag --predicates allows. If
	// unset, all allowed predicates are used. They run in the order that the manager sets, whatever the order of this
	// list. At most 32 names.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Names []string `json:"names,omitempty"`
}

// Match selects objects by the conventions of admissionregistration.k8s.io. An object matches if at least one resource
// rule, both selectors and all match conditions match it.
type Match struct {
	// resourceRules lists the resource types to match. At most 32 rules.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ResourceRules []ResourceRule `json:"resourceRules,omitempty"`

	// namespaceSelector matches objects by the labels of their namespace. An empty selector matches every namespace.
	// Cluster-scoped objects other than Namespaces always match; a Namespace is matched by its own labels. kube-system
	// and Berth's own namespace never match.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// objectSelector matches objects by their labels. An empty selector matches every object.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`

	// matchConditions are CEL expressions over object, oldObject and request, as in admissionregistration.k8s.io. All
	// of them must be true. The variable authorizer is not available. An existing object is evaluated as if Berth
	// updated it. At most 32 conditions.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	MatchConditions []admissionregistrationv1.MatchCondition `json:"matchConditions,omitempty"`
}

// ResourceRule names resource types. "*" matches all and must be the only item of its list.
type ResourceRule struct {
	// apiGroups lists API groups. "" is the core group. At most 32 items.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!('*' in self) || size(self) == 1",message="\"*\" must be the only item"
	APIGroups []string `json:"apiGroups,omitempty"`

	// apiVersions lists versions of these groups. At most 32 items.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!('*' in self) || size(self) == 1",message="\"*\" must be the only item"
	APIVersions []string `json:"apiVersions,omitempty"`

	// resources lists plural names of resources, without subresources. At most 32 items.
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
	// mode is the handling of existing objects that differ from their placement. Automatic patches them. Approved patches
	// them when the annotation placement.berth.dev/approve has the digest of status.plan; until then it is the same as
	// Manual. Manual lists them in status; an update that changes no field that the policy reads or writes keeps the
	// placement. NewOnly
	// neither evaluates nor lists them; an update that changes no field that the policy writes keeps the placement, and
	// is denied if it makes the object one that the policy denies. Off
	// neither evaluates nor lists them, and every update is decided. Defaults to Automatic.
	// +optional
	// +default="Automatic"
	Mode RemediationMode `json:"mode,omitempty"`

	// blastRadius bounds how many existing objects one change may leave denied, without clusters or undecided while
	// mode is Automatic. If unset, remediation pauses when a change affects more than 10 percent of the matched objects
	// and at least 10 objects.
	// +optional
	BlastRadius *BlastRadius `json:"blastRadius,omitempty"`

	// budget bounds how fast Berth patches existing objects while mode is Automatic or Approved, and how many of them may be
	// unavailable at the same time. If unset, its defaults apply: maxUnavailable is 10%, and pauseAfterFailures is 10.
	// +optional
	Budget *RemediationBudget `json:"budget,omitempty"`

	// windows are the periods in which Berth patches existing objects while mode is Automatic or Approved. Outside of them, objects
	// wait. Requests are decided at any time. If empty, Berth patches at any time. At most 16 windows.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Windows []RemediationWindow `json:"windows,omitempty"`

	// evict makes Berth evict running Pods whose scheduling violates the decision while mode is Automatic or Approved. The
	// scheduling of a Pod can't be changed, so its controller has to create another one. Berth evicts through the Eviction API,
	// which respects PodDisruptionBudgets, and only Pods of ReplicaSets, StatefulSets and ReplicationControllers, which create
	// another one that may run elsewhere. An eviction obeys budget and windows. Other Pods stay as they are and are listed as
	// violations. If false, Berth evicts no Pods. Defaults to false.
	// +optional
	Evict bool `json:"evict,omitempty"`
}

// RemediationBudget bounds how fast Berth patches the existing objects of a policy, and how many of them may be unavailable at
// the same time. An object that several policies change waits for the budgets of all of them. An object is being moved from
// its patch until the patch is done, and if the patch changes the pod template of a workload, until the rollout is complete or
// has failed. An evicted Pod is being moved until it is gone.
//
// +kubebuilder:validation:MinProperties=1
type RemediationBudget struct {
	// group is a name that policies have in common that share their bounds. What Berth does for all policies of the group counts, and each of
	// them keeps to maxPerMinute, maxConcurrent, and perNamespace of all of them. If unset, only what Berth does for this policy counts.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be a name of lower-case letters, digits, and hyphens, such as moves"
	Group string `json:"group,omitempty"`

	// maxPerMinute is the number of patches and evictions a minute. They are spread evenly: 30 means one patch every two seconds. Must be
	// from 1 to 6000. If unset, there is no bound.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=6000
	MaxPerMinute int32 `json:"maxPerMinute,omitempty"`

	// maxConcurrent is the number of objects that are being moved at the same time. An object is being moved from its patch until its
	// pods are replaced, or, if a system of spec.delivery reports where it runs, until it runs in its new clusters. Without such a report,
	// a move between clusters ends with the patch. Must be from 1 to 10000. If unset, there is no bound.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxConcurrent int32 `json:"maxConcurrent,omitempty"`

	// perNamespace is the number of objects of one namespace that are being moved at the same time. Must be from 1 to 10000.
	// If unset, there is no bound.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	PerNamespace int32 `json:"perNamespace,omitempty"`

	// maxUnavailable is the number of matched objects, or the percentage of them, that may be unavailable at the same time. An
	// object is unavailable while it is not ready by the conventions of kstatus, for whatever reason, and while Berth moves it
	// by a patch of its pod template. If a system of spec.delivery reports where the object runs, it is unavailable while it does not run in
	// its clusters, unless spec.delivery.surge keeps it in those that it leaves. If remediation.evict is true, the same holds for each Pod: an
	// evicted Pod is unavailable until it is gone, and the one in its place until it is ready. Pods that have finished, or that have
	// scheduling gates, are never unavailable. Before such a patch of an available object, or the eviction of an available Pod, Berth waits
	// until fewer objects are unavailable. It does not wait to patch labels and annotations, or an object that is unavailable anyway. A
	// percentage is rounded down, but to 1 at least, and is one of the matched objects with pods that a patch can roll, and of the matched
	// Pods if remediation.evict is true. Must be from 1 to 1000000, or from 1% to 100%. 100% means no bound. Defaults to 10%.
	// +optional
	// +default="10%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 1000000 : self.matches('^([1-9][0-9]?|100)%$')",message="must be a number from 1 to 1000000 or a percentage from 1% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// pauseAfterFailures is the number of objects that failed after which Berth patches no more objects of the policy: the API
	// server refused the patch of the object, for example because another webhook denied it, or the rollout after the patch
	// failed, or the object did not run in its new clusters within moveTimeout. If they are in one or two namespaces, or nearly so, only the
	// patches in these stop: one namespace counts for a third of the number at most. Failures that other objects may share, such as an
	// unavailable webhook, do not count. Patches go on when the annotation placement.berth.dev/resume-after-failures has the value of
	// status.failures.pause, or with the next generation of the policy. 0 means that no failure is tolerated: the first one stops all patches,
	// in whatever namespace it is. Must be from 0 to 100, or Never. Defaults to 10.
	// +optional
	// +default=10
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 100 : self == 'Never'",message="must be a number from 0 to 100, or Never"
	PauseAfterFailures *intstr.IntOrString `json:"pauseAfterFailures,omitempty"`

	// moveTimeout is how long an object may take to run in its new clusters after its patch, as a system of spec.delivery reports it. Then
	// it has failed, and it goes on to count as being moved for the objects of its namespace until it runs. It has no effect on objects of
	// which no system reports that.
	// Must be from 1s to 24h. Defaults to 10m.
	// +optional
	// +default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,7}([.][0-9]+)?(h|m|s|ms|us|ns))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be from 1s to 24h, in hours, minutes, and seconds, such as 90s or 1h30m"
	MoveTimeout *metav1.Duration `json:"moveTimeout,omitempty"`
}

// RemediationWindow is a recurring period.
type RemediationWindow struct {
	// start is the schedule by which the window opens, in the cron format of CronJobs: minute, hour, day of month, month
	// and day of week, such as "0 22 * * 1-5" for 22:00 from Monday to Friday.
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

	// timeZone is the time zone of start: a name in the IANA time zone database, such as Europe/Berlin. Defaults to UTC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
}

// BlastRadius bounds how many existing objects one change of the policy, or of the data that it reads, may leave
// denied, without clusters or undecided. A change that exceeds both bounds pauses the remediation of the policy. Berth
// then patches none of the objects until the change is reverted or released.
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
	// conditions are the latest observations of the policy. Ready is the summary. Compiled, Replicated,
	// Enforced and Compliant cover its parts. Paused is present only while remediation waits for a user, and Stalled only while the
	// author of the policy has to act.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes. It is -1 until Berth processes the
	// policy for the first time.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// generationInForce is the generation that currently decides: the newest one that compiled. It is absent if no
	// generation compiled.
	// +optional
	GenerationInForce int64 `json:"generationInForce,omitempty"`

	// moduleDigest is the SHA-256 digest of the Rego module to which the rules in force are compiled: sha256: and 64 hexadecimal
	// digits. `kubectl berth render --digest` prints the digest of the rules in a file. In the midst of a rollout, it is that of the
	// version that decides in the stages that are reached. It is absent if the version in force has no rules.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	ModuleDigest string `json:"moduleDigest,omitempty"`

	// matched is the number of existing objects that the policy matches.
	// +optional
	Matched *int32 `json:"matched,omitempty"`

	// violations is the number of existing objects that are not known to match the decision of the policy: the sum of
	// wouldDeny, wouldMove and undecided.
	// +optional
	Violations *int32 `json:"violations,omitempty"`

	// wouldDeny is the number of existing objects that the policy would deny if they were created now.
	// +optional
	WouldDeny *int32 `json:"wouldDeny,omitempty"`

	// wouldMove is the number of existing objects that the policy does not deny and that differ from the placement that
	// it decides. If remediation.mode is Automatic, Berth patches them, unless the field is immutable. It evicts Pods
	// if remediation.evict is true.
	// +optional
	WouldMove *int32 `json:"wouldMove,omitempty"`

	// undecided is the number of existing objects that the policy can't decide, for example because its evaluation
	// fails. While it is not 0, Ready is False.
	// +optional
	Undecided *int32 `json:"undecided,omitempty"`

	// conflicted is the number of existing objects with a key that another policy sets to a different value.
	// +optional
	Conflicted *int32 `json:"conflicted,omitempty"`

	// rules lists how many existing objects each rule of spec.rules decides, in the order of spec.rules. In the midst of a rollout, those that
	// only an earlier version of the policy has follow. The other matched objects are decided by no rule, or can't be decided. At most 64
	// rules.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Rules []RuleStatus `json:"rules,omitempty"`

	// remediated is the number of patches and evictions that remediated existing objects since Berth began to count for this policy. What
	// a leader did that was killed before it wrote the number is taken from its plan: it is what was left of the plan, and what the next
	// leader does not have to move.
	// It never decreases.
	// +optional
	Remediated *int64 `json:"remediated,omitempty"`

	// waiting lists why objects that Berth has to patch are not patched yet.
	// +optional
	// +listType=map
	// +listMapKey=reason
	// +kubebuilder:validation:MaxItems=8
	Waiting []WaitingObjects `json:"waiting,omitempty"`

	// waitsFor is a summary of waiting, and of what the next stage of the rollout waits for, for display.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	WaitsFor string `json:"waitsFor,omitempty"`

	// moving lists the first of the objects that Berth moved to other clusters and that do not run there yet, as far as a system of
	// spec.delivery reports it, ordered by resource, namespace and name. A new leader goes on with these moves. At most 100 items.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Moving []MovingObject `json:"moving,omitempty"`

	// plan is what Berth last had to do to existing objects, as it was known before the first of them was patched. It is
	// absent until an object has to be patched. If Berth patches none because of remediation.mode or mode, it is what
	// Berth would do.
	// +optional
	Plan *RemediationPlan `json:"plan,omitempty"`

	// usedApproval is the digest of the plan that was carried out with the approval in the annotation
	// placement.berth.dev/approve. An approval is for one time: to approve an equal plan, remove the annotation first.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	UsedApproval string `json:"usedApproval,omitempty"`

	// violationSample lists some of the objects in violation, ordered by resource, namespace and name. At most 10
	// items.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	ViolationSample []Violation `json:"violationSample,omitempty"`

	// findings lists the probable mistakes in the policy, and what it leaves open: what kubectl apply warns of and no condition says.
	// Those of the type checker come first, ordered by position, then other mistakes, then what the author may mean. Only the first 10
	// are listed. The condition Compiled has their number.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Findings []Finding `json:"findings,omitempty"`

	// paused describes the change that paused remediation. It is present only while remediation of the policy is
	// paused. The condition Paused has the reason.
	// +optional
	Paused *PausedChange `json:"paused,omitempty"`

	// failures describes the objects whose patch the API server refused, or whose rollout failed after a patch. It is absent
	// if there are none.
	// +optional
	Failures *MoveFailures `json:"failures,omitempty"`

	// rollout is how far the newest version of the policy is rolled out. It is absent if spec.rollout is.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// delivery is how far the systems of spec.delivery follow the decisions. It is absent if spec.delivery is.
	// +optional
	Delivery *DeliveryStatus `json:"delivery,omitempty"`

	// dependencies lists the resource types that the policy reads. At most 64 items.
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
	// reason is why the objects wait. Budget: maxPerMinute, maxConcurrent or perNamespace is used up. Window: no window is
	// open. Approval: the plan is not approved. Availability: as many objects are unavailable as maxUnavailable allows.
	// Failures: as many objects failed as pauseAfterFailures allows. DisruptionBudget: a PodDisruptionBudget does not allow to
	// evict the Pods.
	// +required
	Reason WaitingReason `json:"reason,omitempty"`

	// objects is the number of objects that wait.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Objects int32 `json:"objects,omitempty"`

	// until is when the next window opens. It is present only if the reason is Window.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// policy is the policy for whose window or availability the objects wait, if it is another one that also decides them.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Policy string `json:"policy,omitempty"`

	// message says what the objects wait for, when they go on, and the command that lets them go on if there is one.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// PlanReason is why existing objects have to be patched.
//
// +kubebuilder:validation:Enum=PolicyChanged;DataChanged;ObjectsChanged
type PlanReason string

const (
	// PlanPolicyChanged means that another generation of the policy came into force.
	PlanPolicyChanged PlanReason = "PolicyChanged"
	// PlanDataChanged means that data changed that the policy reads.
	PlanDataChanged PlanReason = "DataChanged"
	// PlanObjectsChanged means that objects or the labels of namespaces changed, or that Berth read the objects for the
	// first time.
	PlanObjectsChanged PlanReason = "ObjectsChanged"
)

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
	// digest identifies the moves of the plan: the objects with their UIDs and the changes of each. Equal plans have equal
	// digests.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Digest string `json:"digest,omitempty"`

	// state is how far the plan is.
	// +required
	State PlanState `json:"state,omitempty"`

	// reason is why the objects have to be patched.
	// +required
	Reason PlanReason `json:"reason,omitempty"`

	// message describes the change that is the reason.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// causes are the changes that made the plan necessary: the generation of the policy that came into force, or which object changed, and
	// which of its fields that the policy reads. Those that cause the most moves come first. The values of fields are only named of clusters.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Causes []string `json:"causes,omitempty"`

	// startTime is when the plan was made.
	// +required
	StartTime metav1.Time `json:"startTime,omitzero"`

	// moves is the number of objects to patch.
	// +required
	// +kubebuilder:validation:Minimum=1
	Moves int32 `json:"moves,omitempty"`

	// done is the number of objects of the plan that no longer have to be patched.
	// +required
	// +kubebuilder:validation:Minimum=0
	Done *int32 `json:"done,omitempty"`

	// rollouts is the number of objects that are patched and whose rollout is not complete, or that do not run in their new clusters yet as
	// far as a system of spec.delivery reports it, and of evicted Pods that are not gone. The plan is completed when there are none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Rollouts int32 `json:"rollouts,omitempty"`

	// approval says who approved the plan. It is absent if remediation.mode is not Approved, or if the plan is not approved.
	// +optional
	Approval *PlanApproval `json:"approval,omitempty"`

	// denied is the number of objects that the plan leaves alone because the policy denies them.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Denied int32 `json:"denied,omitempty"`

	// undecided is the number of objects that the plan leaves alone because the policy can't decide them.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Undecided int32 `json:"undecided,omitempty"`

	// leftAlone is the number of objects that the plan leaves alone because no patch can change them: the fields are
	// immutable and Berth does not evict the object, the object is being deleted, or another policy denies it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	LeftAlone int32 `json:"leftAlone,omitempty"`

	// transitions lists the changes with the number of objects, the most frequent first. At most 10 items.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Transitions []PlanTransition `json:"transitions,omitempty"`

	// sample lists some of the objects to patch, ordered by resource, namespace and name. At most 10 items.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Sample []PlannedMove `json:"sample,omitempty"`
}

// PlanApproval is the approval of a plan.
//
// +kubebuilder:validation:MinProperties=1
type PlanApproval struct {
	// user is the name of the user who approved the plan. It is "unknown" if Berth's webhook was unavailable then.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	User string `json:"user,omitempty"`

	// time is when the plan was approved. It is absent if the user is unknown.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}

// PlanTransition is a change that a plan makes.
type PlanTransition struct {
	// field is what changes, such as "annotation placement.berth.dev/clusters".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Field string `json:"field,omitempty"`

	// from is the present value. It is absent if there is none.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	From *string `json:"from,omitempty"`

	// to is the new value. It is absent if the value is removed.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	To *string `json:"to,omitempty"`

	// objects is the number of objects with this change.
	// +required
	// +kubebuilder:validation:Minimum=1
	Objects int32 `json:"objects,omitempty"`
}

// PlannedMove is an object that a plan patches.
type PlannedMove struct {
	// resource is the resource type of the object, such as "deployments.apps".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Resource string `json:"resource,omitempty"`

	// namespace is the namespace of the object. It is empty for cluster-scoped objects.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// changes describes the changes of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Changes string `json:"changes,omitempty"`
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
	// RolloutPaused means that too many objects failed in a stage, or that remediation of the policy is paused.
	RolloutPaused RolloutState = "Paused"
	// RolloutComplete means that the version is in force everywhere.
	RolloutComplete RolloutState = "Complete"
	// RolloutRolledBack means that the revision in spec.rollout.revision is in force everywhere.
	RolloutRolledBack RolloutState = "RolledBack"
)

// RolloutStatus is how far a version of the policy is rolled out. Each replica decides which version applies to a namespace by
// this status. So no replica is ahead of what the leader has written.
type RolloutStatus struct {
	// state is how far the rollout is.
	// +required
	State RolloutState `json:"state,omitempty"`

	// stage is a summary for display: the name of the stage that was reached last, with its number and that of all stages, or
	// the state.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Stage string `json:"stage,omitempty"`

	// message says what the rollout waits for.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// revision is the revision that is being rolled out or that is in force: the generation in which its version first was in the spec.
	// +required
	// +kubebuilder:validation:Minimum=1
	Revision int64 `json:"revision,omitempty"`

	// digest identifies the version of the revision.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Digest string `json:"digest,omitempty"`

	// previousRevision is the revision that decides in the namespaces of stages that are not reached. It is absent if there is
	// none, so that the policy matches nothing there, and if the revision is in force everywhere.
	// +optional
	// +kubebuilder:validation:Minimum=1
	PreviousRevision int64 `json:"previousRevision,omitempty"`

	// reached is the number of stages in which the revision decides. The stages are those of the list stages.
	// +required
	// +kubebuilder:validation:Minimum=0
	Reached *int32 `json:"reached,omitempty"`

	// stages lists the stages of the rollout in their order. A change of spec.rollout.stages starts the rollout again.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Stages []RolloutStageStatus `json:"stages,omitempty"`

	// approvalID identifies the stage whose approval the rollout waits for, or what no stage has. To approve it, set the annotation
	// placement.berth.dev/approve-stage on the policy to this value. It is absent before the rollout waits for an approval.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ApprovalID string `json:"approvalID,omitempty"`

	// revisions lists the revisions that spec.rollout.revision may have, the newest first. At most 10 items.
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

	// startTime is when the stage was reached. It is absent if it is not reached.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// movedTime is when all objects of the stage were moved for the first time. It is absent before.
	// +optional
	MovedTime *metav1.Time `json:"movedTime,omitempty"`

	// matched is the number of existing objects in namespaces of the stage that the policy matches, in whatever version.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Matched int32 `json:"matched,omitempty"`

	// moved is the number of those objects that are as the revision decides.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Moved int32 `json:"moved,omitempty"`

	// failed is the number of those objects that failed: the revision can't decide the object, the API server refused its
	// patch, its rollout failed, or it does not keep what Berth patches.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failed int32 `json:"failed,omitempty"`

	// denied is the number of those objects that the revision denies.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Denied int32 `json:"denied,omitempty"`

	// deniedBefore is the number of objects of the stage that the version before denied. It is absent before the stage is reached.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DeniedBefore *int32 `json:"deniedBefore,omitempty"`

	// deniedBeforeIn has the numbers of these objects by namespace, for the 32 namespaces with most of them.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MaxItems=32
	DeniedBeforeIn []NamespaceObjects `json:"deniedBeforeIn,omitempty"`
}

// NamespaceObjects is a number of objects in a namespace.
type NamespaceObjects struct {
	// namespace is the name of the namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// objects is the number of objects.
	// +required
	// +kubebuilder:validation:Minimum=1
	Objects int32 `json:"objects,omitempty"`
}

// MoveFailures describes the objects whose patch the API server refused, or whose rollout failed after a patch.
//
// +kubebuilder:validation:MinProperties=1
type MoveFailures struct {
	// objects is the number of objects that failed.
	// +required
	// +kubebuilder:validation:Minimum=0
	Objects *int32 `json:"objects,omitempty"`

	// pause identifies the pause because of the failures. It is absent unless remediation is paused because of them. To let
	// patches go on, set the annotation placement.berth.dev/resume-after-failures on the policy to this value.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Pause string `json:"pause,omitempty"`

	// pausedNamespaces lists the namespaces in which Berth patches no objects because of the pause. The empty name stands for
	// cluster-scoped objects. If it is absent and there is a pause, Berth patches none in all namespaces. At most 8 items.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	PausedNamespaces []string `json:"pausedNamespaces,omitempty"`

	// sample lists the first objects, ordered by resource, namespace and name. At most 100 items.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Sample []FailedMove `json:"sample,omitempty"`
}

// FailedMove is an object whose patch the API server refused, or whose rollout failed after a patch.
type FailedMove struct {
	// resource is the resource type of the object, such as "deployments.apps".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Resource string `json:"resource,omitempty"`

	// namespace is the namespace of the object. It is empty for cluster-scoped objects.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// reason is what failed: the patch of the object or its rollout.
	// +required
	Reason MoveFailure `json:"reason,omitempty"`

	// message says why it failed.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// MovingObject is an object that Berth moved to other clusters and that does not run there yet.
type MovingObject struct {
	// resource is the resource type of the object, such as "deployments.apps".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Resource string `json:"resource,omitempty"`

	// namespace is the namespace of the object. It is empty for cluster-scoped objects.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// since is when the object was moved.
	// +required
	Since metav1.Time `json:"since,omitzero"`

	// deadline is when the object fails if it does not run in its new clusters by then: remediation.budget.moveTimeout after since. It is
	// absent if the object has failed for that reason.
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

	// namespaces lists the namespaces in which Berth moves no objects because of the change. The empty name stands for
	// cluster-scoped objects. If it is absent, Berth moves none in all namespaces. At most 8 items.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
}

// Finding is a probable mistake in a policy, such as an expression that can never have the value that its author expects, or something
// that the policy leaves open, such as a kind of workload that it does not match.
type Finding struct {
	// line is the line in rego, starting at 1. It is not set if the finding concerns another field, which the message names.
	// +optional
	Line int32 `json:"line,omitempty"`

	// column is the column in the line, in bytes, starting at 1.
	// +optional
	Column int32 `json:"column,omitempty"`

	// message describes the error and, if Berth can tell, suggests what the author probably meant.
	// +required
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// Violation is an existing object that differs from its placement, or that the policy can't decide.
type Violation struct {
	// resource is the resource type of the object, such as "deployments.apps".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Resource string `json:"resource,omitempty"`

	// namespace is the namespace of the object. It is empty for cluster-scoped objects.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// message describes the violation: the error that the policy returns, the difference from the placement, or why the
	// object can't be decided.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// Dependency is a resource type that a policy reads.
type Dependency struct {
	// resource is the resource type, such as "clusterprofiles.multicluster.x-k8s.io".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Resource string `json:"resource,omitempty"`

	// version is the API version that Berth reads.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version,omitempty"`

	// fields lists the fields that the policy reads of the objects. Each entry includes everything below it. "*" is
	// every member, "**" is the whole object, and "..." as the last entry means that more fields exist than are listed.
	// If the policy reads the objects as data.clusters or data.berth, the paths are relative to those documents. Berth
	// replicates only these fields. At most 64 items.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=256
	Fields []string `json:"fields,omitempty"`

	// objects is the number of replicated objects.
	// +optional
	Objects *int32 `json:"objects,omitempty"`

	// synced reports whether the replica is complete.
	// +required
	Synced *bool `json:"synced,omitempty"`

	// message explains why the replica is not complete.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// PlacementPolicy decides where the objects that it matches may run. Its decision depends only on one object and on the
// replicated data. Berth applies it at admission, and to existing objects for as long as they exist.
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

	// status is the observed state. Berth writes it. The API server initializes observedGeneration to -1, which no
	// generation has, so that clients that follow the kstatus conventions don't treat an object that Berth has not
	// processed as ready.
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
