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

// Package language defines the language of policies: the version of Rego, the builtin functions that policies may call, the
// rules that Berth evaluates, and the documents that Berth keeps below `data`.
package language

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Roots are the names below `data` that Berth fills. A policy's own data can't use them.
var Roots = []string{RootKubernetes, RootResources, RootClusters, RootBerth}

// Names of the documents below `data` that Berth fills.
const (
	RootKubernetes = "kubernetes"
	RootResources  = "resources"
	RootClusters   = "clusters"
	RootBerth      = "berth"
)

// Names below data.berth.
const (
	Quotas        = "quotas"
	ClusterQuotas = "clusterquotas"
	// AmbiguousClusters has the objects of each cluster whose name several objects have.
	AmbiguousClusters = "ambiguousclusters"
)

// InputTolerated is a member of the input that no object has: the names of the clusters of an existing object whose taints for
// readiness do not count. Only policies with rules read it.
const InputTolerated = "\x00tolerated"

// quotaResources has the resource types of quotas, such as ScopedQuotas, by the name below data.berth at which policies read these quotas.
var quotaResources = map[string]schema.GroupVersionResource{
	Quotas:        placementv1.GroupVersion.WithResource("scopedquotas"),
	ClusterQuotas: placementv1.GroupVersion.WithResource("clusterscopedquotas"),
}

// QuotaResource returns the resource type whose objects policies read at a name below data.berth. The result ok is false
// for other names.
func QuotaResource(name string) (resource schema.GroupVersionResource, ok bool) {
	resource, ok = quotaResources[name]
	return resource, ok
}

// QuotasOf returns the name below data.berth at which policies read the quotas of a resource type. The result ok is
// false for other types.
func QuotasOf(resource schema.GroupVersionResource) (name string, ok bool) {
	for name, r := range quotaResources {
		if r == resource {
			return name, true
		}
	}
	return "", false
}

// Part returns the string at index i of a reference. It returns "" and false if the reference is shorter, or has no constant string there.
func Part(ref ast.Ref, i int) (string, bool) {
	if i >= len(ref) {
		return "", false
	}
	name, ok := ref[i].Value.(ast.String)
	return string(name), ok
}

// ContractRules are the rules of a policy's own package that Berth evaluates.
var ContractRules = []string{RuleAnnotations, RuleLabels, RuleScheduling, RuleClusters, RuleErrors, RuleWarnings}

// RuleScheduling is the contract rule whose value, such as a nodeSelector, Berth merges into pods and pod templates.
const RuleScheduling = "scheduling"

// RuleClusters is the contract rule that names the clusters that a policy allows.
const RuleClusters = "clusters"

// Names of the other rules of the decision contract.
const (
	RuleAnnotations = "annotations"
	RuleLabels      = "labels"
	RuleErrors      = "errors"
	RuleWarnings    = "warnings"
)

// RuleObjectPath is the rule with the text that the ranks of clusters for an object are computed from, in the Rego that structured rules
// are compiled to.
const RuleObjectPath = "object_path"

// RuleNames returns the set of the names that RuleName returns for a module's rules.
func RuleNames(module *ast.Module) map[string]bool {
	names := map[string]bool{}
	for _, rule := range module.Rules {
		names[RuleName(rule)] = true
	}
	return names
}

// RuleName returns the first part of a rule's name below its package, such as labels for labels.team.
func RuleName(rule *ast.Rule) string {
	switch head := rule.Head.Ref()[0].Value.(type) {
	case ast.Var:
		return string(head)
	case ast.String:
		return string(head)
	}
	return ""
}
