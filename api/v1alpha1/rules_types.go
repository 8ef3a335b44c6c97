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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RequirementOperator compares the value of a cluster or node with the values of a requirement.
//
// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Gte;Lt;Lte;Most;Least
type RequirementOperator string

const (
	// OperatorIn is true if the value is one of the values.
	OperatorIn RequirementOperator = "In"
	// OperatorNotIn is true if the value is none of the values, or missing.
	OperatorNotIn RequirementOperator = "NotIn"
	// OperatorExists is true if there is a value.
	OperatorExists RequirementOperator = "Exists"
	// OperatorDoesNotExist is true if there is no value.
	OperatorDoesNotExist RequirementOperator = "DoesNotExist"
	// OperatorGt is true if the value is greater than the only one of the values.
	OperatorGt RequirementOperator = "Gt"
	// OperatorGte is true if the value is greater than the only one of the values, or equal to it.
	OperatorGte RequirementOperator = "Gte"
	// OperatorLt is true if the value is less than the only one of the values.
	OperatorLt RequirementOperator = "Lt"
	// OperatorLte is true if the value is less than the only one of the values, or equal to it.
	OperatorLte RequirementOperator = "Lte"
	// OperatorMost prefers clusters with greater values, in proportion. Only preferences of clusters have it.
	OperatorMost RequirementOperator = "Most"
	// OperatorLeast prefers clusters with lesser values, in proportion. Only preferences of clusters have it.
	OperatorLeast RequirementOperator = "Least"
)

// ValueType is how the operators Gt, Gte, Lt, Lte, Most and Least read the values that they compare.
//
// +kubebuilder:validation:Enum=Number;Quantity;Version
type ValueType string

const (
	// ValueTypeNumber reads decimal numbers, such as 2 or -1.5.
	ValueTypeNumber ValueType = "Number"
	// ValueTypeQuantity reads Kubernetes quantities, such as 500m or 4Gi.
	ValueTypeQuantity ValueType = "Quantity"
	// ValueTypeVersion reads versions, such as v1.30 or 1.30.2, and compares their numbers. What follows the numbers does not
	// count.
	ValueTypeVersion ValueType = "Version"
)

// ClusterField is a field of a cluster in data.clusters.
type ClusterField string

const (
	// ClusterFieldName is the name of the cluster, or of the node.
	ClusterFieldName ClusterField = "name"
	// ClusterFieldNamespace is the namespace of the inventory's object.
	ClusterFieldNamespace ClusterField = "namespace"
	// ClusterFieldSource is the resource type of the inventory.
	ClusterFieldSource ClusterField = "source"
	// ClusterFieldRegion is the region of the cluster, or of the node.
	ClusterFieldRegion ClusterField = "region"
	// ClusterFieldZone is each zone of the cluster, or the zone of the node.
	ClusterFieldZone ClusterField = "zone"
	// ClusterFieldProvider is the cloud provider of the cluster.
	ClusterFieldProvider ClusterField = "provider"
	// ClusterFieldVersion is the version of Kubernetes in the cluster.
	ClusterFieldVersion ClusterField = "version"
	// ClusterFieldReady is "true" or "false".
	ClusterFieldReady ClusterField = "ready"
)

// RuleOtherwise is the handling of an object for which a rule finds too few clusters.
//
// +kubebuilder:validation:Enum=Deny;NextRule
type RuleOtherwise string

const (
	// RuleOtherwiseDeny denies the object.
	RuleOtherwiseDeny RuleOtherwise = "Deny"
	// RuleOtherwiseNextRule leaves the object to the next rule that applies to it.
	RuleOtherwiseNextRule RuleOtherwise = "NextRule"
)

// RuleCandidates is what a rule chooses from.
//
// +kubebuilder:validation:Enum=Clusters;Nodes
type RuleCandidates string

const (
	// RuleCandidatesClusters are the clusters of all inventories. The rule decides on which of them an object may run.
	RuleCandidatesClusters RuleCandidates = "Clusters"
	// RuleCandidatesNodes are the nodes of the served cluster. The rule decides how the scheduler chooses nodes for the pods.
	RuleCandidatesNodes RuleCandidates = "Nodes"
)

// RuleWeights is what the shares of clusters come from.
//
// +kubebuilder:validation:Enum=Score
type RuleWeights string

// RuleWeightsScore gives each cluster its score as its weight, and at least 1.
const RuleWeightsScore RuleWeights = "Score"

// Rule decides the objects to which it applies. The first rule of a policy that applies to an object decides it, unless that rule finds too
// few clusters and has otherwise: NextRule.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minGain) || has(self.prefer)",message="minGain compares scores, which only prefer gives",reason=FieldValueForbidden,fieldPath=".minGain"
// +kubebuilder:validation:XValidation:rule="!has(self.weights) || has(self.prefer)",message="weights are scores, which only prefer gives",reason=FieldValueForbidden,fieldPath=".weights"
// +kubebuilder:validation:XValidation:rule="!has(self.candidates) || self.candidates != 'Nodes' || !(has(self.limit) || has(self.minGain) || has(self.weights) || has(self.message) || has(self.otherwise))",message="the scheduler chooses nodes: limit, minGain, weights, message and otherwise are for clusters",reason=FieldValueForbidden,fieldPath=".candidates"
type Rule struct {
	// name is the name of the rule, in its messages and in the comments of the module.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// when selects the objects to which the rule applies: all of its fields that are set must match. If unset, the rule
	// applies to all objects that the policy matches.
	// +optional
	When *RuleCondition `json:"when,omitempty"`

	// candidates is what the rule chooses from: Clusters, those of all inventories, or Nodes, those of the served cluster,
	// for the scheduler. Defaults to Clusters.
	// +optional
	Candidates RuleCandidates `json:"candidates,omitempty"`

	// require lists what a cluster must meet to be eligible: all of it. Example: {label: pci-level, operator: Gte, values:
	// ["2"]}. At most 16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:XValidation:rule="!(self.operator in ['Most', 'Least'])",message="only prefer has Most and Least, which compare clusters with each other: move this to prefer, with a weight",reason=FieldValueForbidden,fieldPath=".operator"
	Require []Requirement `json:"require,omitempty"`

	// tolerate lists the taints that an eligible cluster may have, besides those with the effects PreferNoSchedule and
	// PreferNoSelect. With candidates: Nodes, the pods get these tolerations. At most 16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Tolerate []RuleToleration `json:"tolerate,omitempty"`

	// prefer lists requirements with weights. The score of a cluster is the sum of the weights of those that it meets.
	// Clusters with higher scores are chosen first, so limit, spread, or weights is needed, too. Example: {property: cost,
	// operator: Least, weight: 100}. At most 16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Prefer []Preference `json:"prefer,omitempty"`

	// minGain is the difference between two scores that counts. Clusters less than minGain below the highest score are as
	// good as the best, and so on in steps of minGain. The rule has no memory: a score that crosses the border of a step
	// counts. Must be from 1 to 1600. Defaults to 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1600
	MinGain int32 `json:"minGain,omitempty"`

	// weights gives each chosen cluster a share of the object's replicas: Score, in proportion to its score.
	// If unset, the rule gives no shares.
	// +optional
	Weights RuleWeights `json:"weights,omitempty"`

	// spread distributes the object over domains, such as regions or zones, named by one of field, label and property.
	// Example: {field: zone, minDomains: 2, maxClusters: 1}.
	// +optional
	Spread *RuleSpread `json:"spread,omitempty"`

	// limit is the maximum number of eligible clusters that are chosen. If unset, all are. Must be from 1 to 1000.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Limit int32 `json:"limit,omitempty"`

	// set lists annotations, labels, and scheduling fields that the object gets.
	// +optional
	Set *RuleSettings `json:"set,omitempty"`

	// warn is a warning for the client that creates or changes the object. It may have the placeholders of set.annotations
	// for values of the object. At most 1024 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Warn string `json:"warn,omitempty"`

	// deny denies the object with this message. It may have the placeholders of set.annotations for values of the object.
	// At most 1024 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Deny string `json:"deny,omitempty"`

	// message precedes the reasons in a denial because the rule finds too few clusters. It may have the placeholders of
	// set.annotations for values of the object. At most 1024 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// otherwise is what happens if the rule finds too few clusters: Deny denies the object, NextRule leaves it to the next
	// rule that applies, or denies it if none does. Defaults to Deny.
	// +optional
	Otherwise RuleOtherwise `json:"otherwise,omitempty"`
}

// RuleCondition selects objects. All of its fields must match.
//
// +kubebuilder:validation:MinProperties=1
type RuleCondition struct {
	// objectSelector matches the labels of the object.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`

	// annotations match the annotations of the object: all must. At most 16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Annotations []AnnotationRequirement `json:"annotations,omitempty"`

	// namespaceSelector matches the labels of the object's namespace, and of a Namespace itself. Other cluster-scoped
	// objects match only an empty selector.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// expression is a CEL expression over object, as its developer requested it, that must be true. Objects for which it
	// fails can't be decided: use has() for fields that may be missing. At most 4096 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression,omitempty"`
}

// AnnotationRequirement compares an annotation of the object.
//
// +kubebuilder:validation:XValidation:rule="self.operator in ['In', 'NotIn'] ? has(self.values) : !has(self.values)",message="In and NotIn need values; Exists and DoesNotExist have none",fieldPath=".values"
type AnnotationRequirement struct {
	// key is the key of the annotation.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key,omitempty"`

	// operator is how the values select annotations, as in a label selector.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator metav1.LabelSelectorOperator `json:"operator,omitempty"`

	// values are the values of In and NotIn. At most 64.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	Values []string `json:"values,omitempty"`
}

// Subject is the value of a cluster that is compared. Exactly one of its fields is set.
type Subject struct {
	// field is a field of the cluster: name, region, zone (a cluster may have several), provider, version (of Kubernetes),
	// ready ("true" or "false"), and the namespace and source (the resource type) of the inventory's object. Nodes have
	// name, region and zone.
	// +optional
	// +kubebuilder:validation:Enum=name;namespace;source;region;zone;provider;version;ready
	Field ClusterField `json:"field,omitempty"`

	// label is the key of a label of the cluster or node, such as pci-level.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Label string `json:"label,omitempty"`

	// annotation is the key of an annotation of the inventory's object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Annotation string `json:"annotation,omitempty"`

	// property is the name of a property or claim in the inventory.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Property string `json:"property,omitempty"`

	// allocatable is a resource, such as cpu or nvidia.com/gpu, whose allocatable quantity is compared.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Allocatable string `json:"allocatable,omitempty"`

	// free is a resource, such as cpu, whose allocatable quantity less what is allocated is compared. It is missing if the
	// inventory does not report what is allocated.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Free string `json:"free,omitempty"`

	// score is a score of the cluster in an AddOnPlacementScore of Open Cluster Management, in the namespace with the name of
	// the cluster: the names of that object and of the score, such as resource-usage/cpuAvailable.
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/.+$`
	Score string `json:"score,omitempty"`
}

// Requirement compares a value of a cluster or node.
//
// +kubebuilder:validation:XValidation:rule="[has(self.field), has(self.label), has(self.annotation), has(self.property), has(self.allocatable), has(self.free), has(self.score)].filter(x, x).size() == 1",message="exactly one of field, label, annotation, property, allocatable, free and score is required"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Exists', 'DoesNotExist', 'Most', 'Least']) || !(has(self.values) || has(self.valueFrom))",message="Exists, DoesNotExist, Most and Least have no values: remove values and valueFrom",fieldPath=".operator"
// +kubebuilder:validation:XValidation:rule="self.operator in ['Exists', 'DoesNotExist', 'Most', 'Least'] || has(self.values) != has(self.valueFrom)",message="exactly one of values and valueFrom is required",fieldPath=".values"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Gt', 'Gte', 'Lt', 'Lte']) || !has(self.values) || self.values.size() == 1",message="Gt, Gte, Lt and Lte need exactly one value",fieldPath=".values"
type Requirement struct {
	Subject `json:",inline"`

	// operator is how the value of the cluster is compared. In: it is one of values. NotIn: it is none of them, or is
	// missing. Exists and DoesNotExist: it is there, or is missing. Gt, Gte, Lt and Lte: it is greater, greater or equal,
	// less, or less or equal; a value that is missing or unreadable meets none of these. Most and Least, in prefer alone:
	// the eligible cluster with the greatest, or least, value gets the weight, the one at the other end gets 0, and those
	// between get a part in proportion; a missing or unreadable value gets 0.
	// +required
	Operator RequirementOperator `json:"operator,omitempty"`

	// values are what the value of the cluster is compared with. They are texts, so numbers and true need quotes. Gt, Gte,
	// Lt and Lte have one. At most 64.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	Values []string `json:"values,omitempty"`

	// valueFrom takes the value from a label or an annotation of the object, in place of values. If Gt, Gte, Lt or Lte in
	// require can't read it, the object is denied, whatever otherwise says.
	// +optional
	ValueFrom *ObjectValue `json:"valueFrom,omitempty"`

	// as is how Gt, Gte, Lt, Lte, Most and Least read values: Number, such as 1.5, Quantity, such as 4Gi, or Version, such
	// as v1.30.2, of which only the numbers count. Defaults to Version for the field version, to Quantity for allocatable
	// and free, and to Number for everything else.
	// +optional
	As ValueType `json:"as,omitempty"`

	// reason says in a denial what is wrong with clusters that do not meet the requirement, after their number, as in "2
	// PCI level too low". If unset, Berth words it. At most 128 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
}

// ObjectValue is a value of the object that is decided.
//
// +kubebuilder:validation:XValidation:rule="has(self.label) != has(self.annotation)",message="exactly one of label and annotation is required"
type ObjectValue struct {
	// label is the key of a label of the object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Label string `json:"label,omitempty"`

	// annotation is the key of an annotation of the object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Annotation string `json:"annotation,omitempty"`

	// default is the value for objects without the label or annotation. If unset, no cluster meets the requirement for them.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Default *string `json:"default,omitempty"`
}

// Preference is a requirement that a cluster or node need not meet. Those that meet it get its weight as a part of their score.
type Preference struct {
	Requirement `json:",inline"`

	// weight is what a cluster that meets the requirement gets, and with Most and Least the best one. Must be from 1 to
	// 100.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight,omitempty"`
}

// RuleToleration matches taints as the tolerations of pods do.
//
// +kubebuilder:validation:XValidation:rule="has(self.key) || (has(self.operator) && self.operator == 'Exists')",message="a toleration without a key needs the operator Exists",fieldPath=".key"
// +kubebuilder:validation:XValidation:rule="!has(self.value) || !has(self.operator) || self.operator == 'Equal'",message="the operator Exists has no value",fieldPath=".value"
type RuleToleration struct {
	// key is the key of the taint. If unset, all match.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key,omitempty"`

	// operator is Equal, for taints with the key and the value, or Exists, for taints with the key. Defaults to Equal.
	// +optional
	// +kubebuilder:validation:Enum=Equal;Exists
	Operator corev1.TolerationOperator `json:"operator,omitempty"`

	// value is the value of the taint.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Value string `json:"value,omitempty"`

	// effect is the effect of the taint, as the inventory has it. If unset, all match.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Effect string `json:"effect,omitempty"`
}

// RuleSpread distributes an object over domains: groups of clusters with the same value. Clusters without the value are not
// eligible.
//
// +kubebuilder:validation:XValidation:rule="[has(self.field), has(self.label), has(self.property)].filter(x, x).size() == 1",message="exactly one of field, label and property is required"
// +kubebuilder:validation:XValidation:rule="has(self.minDomains) || has(self.maxDomains) || has(self.minClusters) || has(self.maxClusters)",message="one of minDomains, maxDomains, minClusters and maxClusters is required"
// +kubebuilder:validation:XValidation:rule="!has(self.minDomains) || !has(self.maxDomains) || self.minDomains <= self.maxDomains",message="must not be greater than maxDomains",fieldPath=".minDomains"
// +kubebuilder:validation:XValidation:rule="!has(self.minClusters) || !has(self.maxClusters) || self.minClusters <= self.maxClusters",message="must not be greater than maxClusters",fieldPath=".minClusters"
type RuleSpread struct {
	// field is the field whose values are the domains. A cluster in several zones is in the domain of the zone that sorts
	// first.
	// +optional
	// +kubebuilder:validation:Enum=region;zone;provider
	Field ClusterField `json:"field,omitempty"`

	// label is the key of the label whose values are the domains.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Label string `json:"label,omitempty"`

	// property is the name of the property whose values are the domains.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Property string `json:"property,omitempty"`

	// minDomains is how many domains must have a chosen cluster; with fewer, the rule finds too few clusters. Must be from
	// 1 to 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MinDomains int32 `json:"minDomains,omitempty"`

	// maxDomains is the maximum number of domains that are used. If unset, all are. Must be from 1 to 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxDomains int32 `json:"maxDomains,omitempty"`

	// minClusters is the minimum of clusters in each domain that is used. A domain with fewer eligible ones is not used.
	// Must be from 1 to 100. Defaults to 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MinClusters int32 `json:"minClusters,omitempty"`

	// maxClusters is the maximum of clusters in each domain. If unset, all eligible ones are chosen. Must be from 1 to
	// 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxClusters int32 `json:"maxClusters,omitempty"`
}

// RuleText is a text of a rule, which may have placeholders.
//
// +kubebuilder:validation:MaxLength=4096
type RuleText string

// RuleSettings are values that an object gets.
//
// +kubebuilder:validation:MinProperties=1
type RuleSettings struct {
	// annotations are annotations of the object. A value may have the placeholders {kind}, {namespace}, {name},
	// {label:KEY} and {annotation:KEY} for values of the object, {clusters} for the names of the chosen clusters, joined
	// by commas, and {clusters:json} for their JSON array, if the rule gives clusters. A doubled brace stands for a single
	// one. At most 32.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	Annotations map[string]RuleText `json:"annotations,omitempty"`

	// labels are labels of the object, with the same placeholders apart from {clusters:json}. At most 32.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	Labels map[string]RuleText `json:"labels,omitempty"`

	// nodeSelector lists labels of the nodes on which the pods of the object may run. At most 32.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]LabelValue `json:"nodeSelector,omitempty"`

	// priorityClassName is the priority class of the pods of the object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// schedulerName is the scheduler of the pods of the object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SchedulerName string `json:"schedulerName,omitempty"`
}
