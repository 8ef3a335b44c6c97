package v1alpha1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RequestedAnnotation is the annotation under which Berth keeps what the developer asked for under the keys that a
// policy overwrote. Its value is a signed JSON record; what anyone else writes there is discarded.
const RequestedAnnotation = "placement.berth.dev/requested"

// ReleaseBlastRadiusAnnotation is the annotation of a PlacementPolicy that releases the change whose identity, as in
// status.paused.change, it has as its value.
const ReleaseBlastRadiusAnnotation = "placement.berth.dev/release-blast-radius"

// ClustersAnnotation is the annotation under which an object has the names of the clusters that it may run on, as a JSON
// array, where a policy decides them. A developer's own value counts as what the developer asked for.
const ClustersAnnotation = "placement.berth.dev/clusters"

// RegoVersion names the version of the Rego language a policy is written in.
//
// +kubebuilder:validation:Enum=v0;v1
type RegoVersion string

const (
	// RegoV0 is the language of OPA before 1.0.
	RegoV0 RegoVersion = "v0"
	// RegoV1 is the language of OPA 1.0 and later.
	RegoV1 RegoVersion = "v1"
)

// Mode says what a policy's decisions do.
//
// +kubebuilder:validation:Enum=Enforce;Warn;DryRun
type Mode string

const (
	// ModeEnforce changes and denies requests as the policy decides.
	ModeEnforce Mode = "Enforce"
	// ModeWarn changes and denies nothing; the client is warned of what Enforce would have done.
	ModeWarn Mode = "Warn"
	// ModeDryRun changes and denies nothing and the client sees nothing; status and metrics count what Enforce would have done.
	ModeDryRun Mode = "DryRun"
)

// FailurePolicy says what becomes of a request that a policy matches and that can't be decided.
//
// +kubebuilder:validation:Enum=Fail;Ignore
type FailurePolicy string

const (
	// FailurePolicyFail denies the request.
	FailurePolicyFail FailurePolicy = "Fail"
	// FailurePolicyIgnore admits the request without this policy.
	FailurePolicyIgnore FailurePolicy = "Ignore"
)

// RemediationMode says what becomes of an existing object that differs from its decision.
//
// +kubebuilder:validation:Enum=Automatic;Manual;NewOnly;Off
type RemediationMode string

const (
	// RemediationAutomatic patches the object.
	RemediationAutomatic RemediationMode = "Automatic"
	// RemediationManual lists the object in the policy's status and leaves it, also where others update it without a change
	// of what the policy reads or writes.
	RemediationManual RemediationMode = "Manual"
	// RemediationNewOnly decides objects when they are created: it neither looks at existing objects nor lists them, and
	// an update keeps the placement unless it changes what the policy writes.
	RemediationNewOnly RemediationMode = "NewOnly"
	// RemediationOff neither looks at existing objects nor lists them. Every update is decided.
	RemediationOff RemediationMode = "Off"
)

// DeveloperChoice says what a developer's own list of clusters counts for.
//
// +kubebuilder:validation:Enum=Narrow;Override
type DeveloperChoice string

const (
	// DeveloperChoiceNarrow keeps those clusters of the developer's list that policies allow.
	DeveloperChoiceNarrow DeveloperChoice = "Narrow"
	// DeveloperChoiceOverride replaces the developer's list.
	DeveloperChoiceOverride DeveloperChoice = "Override"
)

// OnEmpty says what becomes of an object for which no cluster is left.
//
// +kubebuilder:validation:Enum=Deny;Clear
type OnEmpty string

const (
	// OnEmptyDeny denies the request, and leaves an existing object as it is, as a violation.
	OnEmptyDeny OnEmpty = "Deny"
	// OnEmptyClear writes the empty list.
	OnEmptyClear OnEmpty = "Clear"
)

// PlacementPolicySpec is what an administrator writes.
//
// +kubebuilder:validation:XValidation:rule="has(self.rego) || has(self.remote) || (has(self.predicates) && has(self.predicates.candidates))",message="rego or remote is required where predicates.candidates is not set",reason=FieldValueRequired,fieldPath=".rego"
// +kubebuilder:validation:XValidation:rule="!has(self.remote) || !has(self.rego)",message="rego and remote exclude each other: what the engine is to have belongs into remote.modules",reason=FieldValueForbidden,fieldPath=".rego"
// +kubebuilder:validation:XValidation:rule="!has(self.remote) || !has(self.data)",message="a policy that is decided elsewhere has its data there",reason=FieldValueForbidden,fieldPath=".data"
// +kubebuilder:validation:XValidation:rule="!has(self.remote) || !has(self.replicate)",message="what the engine is to have belongs into remote.replicate",reason=FieldValueForbidden,fieldPath=".replicate"
// +kubebuilder:validation:XValidation:rule="!has(self.remote) || !has(self.predicates)",message="predicates are not asked of what is decided elsewhere: another policy, with predicates alone, can match the same objects",reason=FieldValueForbidden,fieldPath=".predicates"
type PlacementPolicySpec struct {
	// match says which objects the policy decides. It is pushed down into the webhook configuration, so that the API
	// server never calls Berth for anything else.
	// +required
	Match Match `json:"match,omitzero"`

	// rego is the policy's module. Berth evaluates the rules annotations, labels, scheduling, clusters, errors and warnings of
	// the module's own package with the object as input; any of them may be absent. Either it or remote is required where
	// predicates.candidates is not set.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Rego string `json:"rego,omitempty"`

	// regoVersion is the version of the language the module is written in. Defaults to v1.
	// +optional
	// +default="v1"
	RegoVersion RegoVersion `json:"regoVersion,omitempty"`

	// data holds static documents, visible under `data` to this policy alone. The names kubernetes, resources,
	// clusters and berth are taken.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:XPreserveUnknownFields
	Data *apiextensionsv1.JSON `json:"data,omitempty"`

	// strict refuses the policy where the type checker finds something wrong in rego, given the schemas that the API server
	// publishes. Otherwise it warns. Defaults to false.
	// +optional
	Strict bool `json:"strict,omitempty"`

	// replicate lists resource types that the policy reads in a way that Berth can't see from its text, such as
	// `data.kubernetes[input.kind]`. What the text shows need not be listed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Replicate []ReplicatedResource `json:"replicate,omitempty"`

	// predicates has what the policy decides checked against the nodes or clusters that there are, by the filters of
	// Kubernetes' scheduler.
	// +optional
	Predicates *Predicates `json:"predicates,omitempty"`

	// remote has the policy decided by another engine, in place of rego.
	// +optional
	Remote *Remote `json:"remote,omitempty"`

	// limits bound what one evaluation takes.
	// +optional
	Limits *Limits `json:"limits,omitempty"`

	// maxStaleness is for how long the policy decides by cluster data of which Berth has heard nothing from the API server.
	// After this time, Berth asks the API server again; without an answer, the policy can't be evaluated, and
	// failurePolicy says what becomes of requests. From 5s to 24h. Defaults to 1m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('5s') && duration(self) <= duration('24h')",message="must be from 5s to 24h"
	MaxStaleness *metav1.Duration `json:"maxStaleness,omitempty"`

	// mode says what decisions do: Enforce them, Warn of them, or only count them (DryRun). Defaults to Enforce.
	// +optional
	// +default="Enforce"
	Mode Mode `json:"mode,omitempty"`

	// failurePolicy says what becomes of a request that can't be decided: it is denied (Fail) or admitted without
	// this policy (Ignore). Defaults to Fail.
	// +optional
	// +default="Fail"
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`

	// priority decides which policy wins where two set one key to different values: the higher number, and among
	// equals the name that sorts first. Defaults to 0.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`

	// clusters says how the names that the rule clusters gives are joined with the developer's own list.
	// +optional
	Clusters *ClustersRule `json:"clusters,omitempty"`

	// remediation says what becomes of existing objects when the policy, its data or the object changes.
	// +optional
	Remediation Remediation `json:"remediation,omitzero"`
}

// ClustersRule says how the names that the rule clusters gives are joined with the developer's own list. The clusters
// of an object are those that every policy allows which gives any.
type ClustersRule struct {
	// developerChoice says what the developer's own list, in the annotation placement.berth.dev/clusters, counts for:
	// the clusters in it that policies allow are kept (Narrow), or it is replaced (Override). It is replaced only if
	// every policy that gives clusters says so. Defaults to Narrow.
	// +optional
	// +default="Narrow"
	DeveloperChoice DeveloperChoice `json:"developerChoice,omitempty"`

	// onEmpty says what becomes of an object for which no cluster is left: it is denied, and an existing object is a
	// violation and stays as it is (Deny), or the empty list is written (Clear). One policy that says Deny is enough.
	// Defaults to Deny.
	// +optional
	// +default="Deny"
	OnEmpty OnEmpty `json:"onEmpty,omitempty"`
}

// Limits bound what one evaluation of a policy takes.
type Limits struct {
	// inputBytes is the largest input that is evaluated, in bytes of JSON: of what the policy reads of the object, or of the
	// whole object for a policy that reads all of it or that a remote engine decides. A larger object can't be decided, and
	// failurePolicy says what becomes of it. Defaults to 1048576, which is 1 MiB.
	// +optional
	// +default=1048576
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=8388608
	InputBytes int64 `json:"inputBytes,omitempty"`
}

// PredicateCandidates are what predicates judge.
//
// +kubebuilder:validation:Enum=Nodes;Clusters
type PredicateCandidates string

const (
	// PredicateCandidatesNodes are the nodes of the cluster that Berth serves.
	PredicateCandidatesNodes PredicateCandidates = "Nodes"
	// PredicateCandidatesClusters are the clusters of all inventories.
	PredicateCandidatesClusters PredicateCandidates = "Clusters"
)

// Predicates says what predicates a policy uses, and on what.
type Predicates struct {
	// candidates are what the object has to fit: it is denied where none of them is feasible, and clusters that are not
	// are left out of what the policy decides. Absent, only the policy's own calls of k8s.feasible and
	// k8s.feasible_clusters ask predicates.
	// +optional
	Candidates PredicateCandidates `json:"candidates,omitempty"`

	// names narrows the predicates to these, out of those that the manager's --predicates allows; absent, all of those
	// are used. Their order is the manager's.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Names []string `json:"names,omitempty"`
}

// Match selects objects by the conventions of admissionregistration.k8s.io: an object is matched if one of the
// resource rules, both selectors and all conditions match it.
type Match struct {
	// resourceRules lists the resource types to match.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ResourceRules []ResourceRule `json:"resourceRules,omitempty"`

	// namespaceSelector matches by the labels of the object's namespace. Empty matches every namespace, and
	// cluster-scoped objects are always matched. kube-system and Berth's own namespace are never matched.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// objectSelector matches by the labels of the object. Empty matches every object.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`

	// matchConditions are CEL expressions over object, oldObject and request that must all be true, as in
	// admissionregistration.k8s.io; authorizer is not to be had. An existing object is judged as if Berth updated it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	MatchConditions []admissionregistrationv1.MatchCondition `json:"matchConditions,omitempty"`
}

// ResourceRule names resource types. "*" stands for all and must then be the only item.
type ResourceRule struct {
	// apiGroups lists API groups; "" is the core group.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!('*' in self) || size(self) == 1",message="\"*\" must be the only item"
	APIGroups []string `json:"apiGroups,omitempty"`

	// apiVersions lists versions of these groups.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!('*' in self) || size(self) == 1",message="\"*\" must be the only item"
	APIVersions []string `json:"apiVersions,omitempty"`

	// resources lists plural names of resources, without subresources.
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
	// apiGroup is the API group; "" is the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup,omitempty"`

	// resource is the plural name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Resource string `json:"resource,omitempty"`
}

// Remediation configures the enforcement after admission.
type Remediation struct {
	// mode says whether existing objects that differ from their decision are patched (Automatic), listed in status
	// (Manual), or left alone (NewOnly, Off). With Manual, an update that changes nothing of what the policy reads or
	// writes keeps the placement; with NewOnly, every update that changes nothing of what the policy writes does.
	// Defaults to Automatic.
	// +optional
	// +default="Automatic"
	Mode RemediationMode `json:"mode,omitempty"`

	// blastRadius bounds how many existing objects one change may leave without a placement while mode is Automatic.
	// Defaults to 10 percent of the objects that the policy matches, and at least 10 of them.
	// +optional
	BlastRadius *BlastRadius `json:"blastRadius,omitempty"`
}

// BlastRadius bounds how many existing objects one change of the policy or of the data that it reads may leave denied,
// without clusters, or undecided. A change beyond both bounds pauses the policy's remediation: Berth moves none of the
// objects until the change is taken back or somebody releases it.
type BlastRadius struct {
	// percent is the share of the matched objects beyond which remediation pauses. 100 switches the guard off. Defaults to 10.
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percent int32 `json:"percent,omitempty"`

	// minObjects is the number of objects below which remediation never pauses. Defaults to 10.
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=1
	MinObjects int32 `json:"minObjects,omitempty"`
}

// PlacementPolicyStatus is what Berth reports. The leader writes it; what a replica has loaded is its readiness and metrics.
//
// +kubebuilder:validation:MinProperties=1
type PlacementPolicyStatus struct {
	// conditions: Ready sums up; Compiled, TypeChecked, Replicated, Enforced, Compliant and Conflicted say the parts; Stalled is
	// present only while the policy waits for its author.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status speaks of; -1 while nobody has looked at it.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// generationInForce is the generation that decides: the newest one that compiled. Absent if there is none.
	// +optional
	GenerationInForce int64 `json:"generationInForce,omitempty"`

	// engine is where the policy is evaluated.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Engine string `json:"engine,omitempty"`

	// matched is the number of existing objects that the policy matches.
	// +optional
	Matched *int32 `json:"matched,omitempty"`

	// violations is the number of existing objects that are not known to be as the policy decides: the sum of wouldDeny,
	// wouldMove, and undecided.
	// +optional
	Violations *int32 `json:"violations,omitempty"`

	// wouldDeny is the number of existing objects that the policy would deny if they were created today.
	// +optional
	WouldDeny *int32 `json:"wouldDeny,omitempty"`

	// wouldMove is the number of existing objects that differ from the placement that the policy decides, and that it does
	// not deny. With remediation.mode Automatic they are patched, except where a field can't be changed.
	// +optional
	WouldMove *int32 `json:"wouldMove,omitempty"`

	// undecided is the number of existing objects that the policy can't decide, such as where its text fails. While it is
	// not 0, Ready is False.
	// +optional
	Undecided *int32 `json:"undecided,omitempty"`

	// conflicted is the number of existing objects with a key that another policy sets to another value.
	// +optional
	Conflicted *int32 `json:"conflicted,omitempty"`

	// remediated is the number of patches by which existing objects were brought into line, since this policy's
	// counting began; it only grows.
	// +optional
	Remediated *int64 `json:"remediated,omitempty"`

	// violationSample names some of the objects in violation, ordered by resource, namespace and name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	ViolationSample []Violation `json:"violationSample,omitempty"`

	// findings are places in rego where an expression can never have the value that it seems to, given the schemas that the
	// API server publishes, ordered by place. The first ones are listed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Findings []Finding `json:"findings,omitempty"`

	// findingCount is the number of such places.
	// +optional
	FindingCount int32 `json:"findingCount,omitempty"`

	// paused is present while remediation of the policy is paused; the condition Paused has the reason.
	// +optional
	Paused *PausedChange `json:"paused,omitempty"`

	// data sums up dependencies: the resource types that the policy reads, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Data string `json:"data,omitempty"`

	// dependencies are the resource types that the policy reads.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Dependencies []Dependency `json:"dependencies,omitempty"`
}

// PausedChange is a change that remediation does not carry out.
type PausedChange struct {
	// change identifies the change. The annotation placement.berth.dev/release-blast-radius with this value on the policy
	// releases it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Change string `json:"change,omitempty"`

	// objects is the number of objects that the change would leave denied, without clusters, or undecided.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Objects int32 `json:"objects,omitempty"`

	// before is the number of matched objects that were denied, without clusters, or undecided before the change.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Before int32 `json:"before,omitempty"`
}

// Finding is an expression in a policy's text that can never have the value that it seems to.
type Finding struct {
	// line is the line in rego, from 1.
	// +required
	Line int32 `json:"line,omitempty"`

	// column is the column in the line, from 1, in bytes.
	// +required
	Column int32 `json:"column,omitempty"`

	// message says what is wrong and, where it can be told, what is probably meant.
	// +required
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// Violation is an existing object that differs from its decision, or that can't be decided.
type Violation struct {
	// resource is the object's type, as in "deployments.apps".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Resource string `json:"resource,omitempty"`

	// namespace is the object's namespace; empty for cluster-scoped objects.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name is the object's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// message says what differs, in the policy's own words where it gives an error, or why the object can't be decided.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// Dependency is a resource type that a policy reads.
type Dependency struct {
	// resource is the type, as in "clusterprofiles.multicluster.x-k8s.io".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Resource string `json:"resource,omitempty"`

	// version is the API version that is read.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version,omitempty"`

	// fields are the fields that the policy reads of the objects, each with all that is below it: "*" stands for every
	// member, "**" for the whole object, and a last "..." for more than are listed. Where the policy reads the objects
	// as data.clusters or data.berth, they are fields of what is there. Only these fields are replicated.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=256
	Fields []string `json:"fields,omitempty"`

	// objects is the number of replicated objects.
	// +optional
	Objects *int32 `json:"objects,omitempty"`

	// synced says whether the replica is complete.
	// +required
	Synced *bool `json:"synced,omitempty"`

	// message says why the replica is not complete.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// PlacementPolicy decides where the objects that it matches may run, as a pure function of one object and the
// replicated world, at admission and for as long as the object exists.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=placementpolicies,scope=Cluster,shortName=plpol,categories=berth
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the policy is compiled, has its data, is in force, and can decide each object"
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,description="What decisions do"
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`,description="Existing objects that the policy matches"
// +kubebuilder:printcolumn:name="Violations",type=integer,JSONPath=`.status.violations`,description="Existing objects that differ from their decision or can't be decided"
// +kubebuilder:printcolumn:name="Remediated",type=integer,JSONPath=`.status.remediated`,description="Patches that brought objects into line"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why the policy is ready or not"
// +kubebuilder:printcolumn:name="Would-Deny",type=integer,JSONPath=`.status.wouldDeny`,priority=1,description="Existing objects that the policy would deny today"
// +kubebuilder:printcolumn:name="Would-Move",type=integer,JSONPath=`.status.wouldMove`,priority=1,description="Existing objects that differ from their placement"
// +kubebuilder:printcolumn:name="Undecided",type=integer,JSONPath=`.status.undecided`,priority=1,description="Existing objects that the policy can't decide"
// +kubebuilder:printcolumn:name="Conflicted",type=integer,JSONPath=`.status.conflicted`,priority=1,description="Existing objects with a key that another policy sets to another value"
// +kubebuilder:printcolumn:name="Data",type=string,JSONPath=`.status.data`,priority=1,description="Resource types that the policy reads"
// +kubebuilder:printcolumn:name="Engine",type=string,JSONPath=`.status.engine`,priority=1,description="Where the policy is evaluated"
type PlacementPolicy struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the administrator wants.
	// +required
	Spec PlacementPolicySpec `json:"spec,omitzero"`

	// status is what Berth reports. It begins with an observedGeneration that no generation has, so that whoever waits
	// by the conventions of kstatus does not take an object that nobody has looked at yet for one that is done.
	// +optional
	// +default={"observedGeneration": -1}
	Status PlacementPolicyStatus `json:"status,omitzero"`
}

// PlacementPolicyList is a list of placement policies.
//
// +kubebuilder:object:root=true
type PlacementPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []PlacementPolicy `json:"items"`
}
