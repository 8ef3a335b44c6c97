package v1alpha1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RequestedAnnotation is the annotation under which Berth keeps what the developer asked for under the keys that a
// policy overwrote. Its value is a signed JSON record; what anyone else writes there is discarded.
const RequestedAnnotation = "placement.berth.dev/requested"

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
// +kubebuilder:validation:Enum=Automatic;Manual;Off
type RemediationMode string

const (
	// RemediationAutomatic patches the object.
	RemediationAutomatic RemediationMode = "Automatic"
	// RemediationManual lists the object in the policy's status and leaves it.
	RemediationManual RemediationMode = "Manual"
	// RemediationOff neither looks at existing objects nor lists them.
	RemediationOff RemediationMode = "Off"
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

	// remediation says what becomes of existing objects when the policy, its data or the object changes.
	// +optional
	Remediation Remediation `json:"remediation,omitzero"`
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
	// (Manual) or left alone (Off). Defaults to Automatic.
	// +optional
	// +default="Automatic"
	Mode RemediationMode `json:"mode,omitempty"`
}

// PlacementPolicyStatus is what Berth reports. The leader writes it; what a replica has loaded is its readiness and metrics.
//
// +kubebuilder:validation:MinProperties=1
type PlacementPolicyStatus struct {
	// conditions: Ready sums up; Compiled, Replicated, Enforced, Compliant and Conflicted say the parts; Stalled is
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

	// violations is the number of existing objects that differ from what the policy decides.
	// +optional
	Violations *int32 `json:"violations,omitempty"`

	// remediated is the number of patches by which existing objects were brought into line, since this policy's
	// counting began; it only grows.
	// +optional
	Remediated *int64 `json:"remediated,omitempty"`

	// violationSample names some of the objects in violation, ordered by resource, namespace and name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	ViolationSample []Violation `json:"violationSample,omitempty"`

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

// Violation is an existing object that differs from its decision.
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

	// message says what differs, in the policy's own words where it gives an error.
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
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the policy is compiled, has its data and is in force"
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,description="What decisions do"
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`,description="Existing objects that the policy matches"
// +kubebuilder:printcolumn:name="Violations",type=integer,JSONPath=`.status.violations`,description="Existing objects that differ from their decision"
// +kubebuilder:printcolumn:name="Remediated",type=integer,JSONPath=`.status.remediated`,description="Patches that brought objects into line"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why the policy is ready or not"
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
