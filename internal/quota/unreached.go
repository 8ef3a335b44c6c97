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

package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// Unreached returns messages about amounts of an enforced quota that its usage never reaches, because another enforced quota counts
// everything that this one counts, and admits less. others may have the quota itself. of are the labels of the quota's namespace, if it is
// in one.
func Unreached(q placementv1.Quota, others []placementv1.Quota, of map[string]string) []string {
	if !enforces(q.QuotaSpec()) {
		return nil
	}
	others = slices.DeleteFunc(slices.Clone(others), func(other placementv1.Quota) bool {
		return !enforces(other.QuotaSpec()) || !countsAllOf(other, q, of)
	})
	var out []string
	for _, name := range slices.Sorted(maps.Keys(q.QuotaSpec().Hard)) {
		amount := q.QuotaSpec().Hard[name]
		var least placementv1.Quota
		for _, other := range others {
			bound, bounded := other.QuotaSpec().Hard[name]
			if bounded && bound.Cmp(amount) < 0 && (least == nil || precedes(other, least, name)) {
				least = other
			}
		}
		if least == nil {
			continue
		}
		key, _ := KeyOf(least)
		bound := least.QuotaSpec().Hard[name]
		out = append(out, fmt.Sprintf("spec.hard[%s]: %s is never reached: %s %s counts the same objects, too, and admits only %s. What a quota "+
			"denies is denied, whatever another one has left: change the amount there, or remove the name here", name, amount.String(), key.Kind,
			key.Name, bound.String()))
	}
	return out
}

// precedes reports whether the quota a has a smaller amount than b under a resource name in hard, or the same amount and a kind and name
// that sort first.
func precedes(a, b placementv1.Quota, name corev1.ResourceName) bool {
	x, y := a.QuotaSpec().Hard[name], b.QuotaSpec().Hard[name]
	keyOfA, _ := KeyOf(a)
	keyOfB, _ := KeyOf(b)
	return x.Cmp(y) < 0 || x.Cmp(y) == 0 && keyOfA.Kind+keyOfA.Name < keyOfB.Kind+keyOfB.Name
}

// countsAllOf reports whether the quota wide is certain to count each object that another one, narrow, counts, if both have the name that
// it counts under. It is false if both are the same quota. of are the labels of narrow's namespace, if it is in one.
func countsAllOf(wide, narrow placementv1.Quota, of map[string]string) bool {
	wideKey, _ := KeyOf(wide)
	narrowKey, _ := KeyOf(narrow)
	scopes := requirements(narrow.QuotaSpec())
	if wideKey == narrowKey || slices.ContainsFunc(requirements(wide.QuotaSpec()), func(r placementv1.ScopeRequirement) bool {
		return !slices.ContainsFunc(scopes, func(own placementv1.ScopeRequirement) bool { return equality.Semantic.DeepEqual(own, r) })
	}) {
		return false
	}
	cluster, isCluster := wide.(*placementv1.ClusterScopedQuota)
	if !isCluster {
		return wideKey.Kind == narrowKey.Kind && wideKey.Namespace == narrowKey.Namespace
	}
	if other, both := narrow.(*placementv1.ClusterScopedQuota); both {
		return match.SelectorImplies(orMatchAll(other.Spec.NamespaceSelector.Upstream()), orMatchAll(cluster.Spec.NamespaceSelector.Upstream()))
	}
	selector, err := NamespaceSelector(cluster.Spec.NamespaceSelector)
	return err == nil && narrowKey.Namespace != match.NamespaceSystem && selector.Matches(labels.Set(of))
}

// manyCPUsOfNamespaces and muchMemoryOfNamespaces are more than the workloads of nearly all namespaces request.
var manyCPUsOfNamespaces, muchMemoryOfNamespaces = resource.MustParse("1000"), resource.MustParse("1Ti")

// LargeRequests returns the names in a quota's hard that limit the CPU or memory that pods request (cpu, memory, requests.cpu, and
// requests.memory) to more than nearly all namespaces use: to at least 1000 CPUs or 1Ti. They are sorted.
func LargeRequests(spec *placementv1.QuotaSpec) (out []corev1.ResourceName) {
	for _, name := range slices.Sorted(maps.Keys(spec.Hard)) {
		amount, bare := spec.Hard[name], bareName(name)
		isRequest := name == bare || strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
		if isRequest && (bare == corev1.ResourceCPU && amount.Cmp(manyCPUsOfNamespaces) >= 0 ||
			bare == corev1.ResourceMemory && amount.Cmp(muchMemoryOfNamespaces) >= 0) {
			out = append(out, name)
		}
	}
	return out
}

// beyondCapacity is how many times the capacity of all clusters and nodes an amount must exceed to be told to the author of a quota. Fleets
// that grow with their load have only a part of their nodes at times.
const beyondCapacity = 4

// BeyondCapacity returns messages about amounts in a quota's hard of the CPU or memory that pods request, if they are at least 1000 CPUs or
// 1Ti, and more than four times those in capacity: what all clusters and nodes have together, as cpu and memory. The messages are sorted
// by resource name, and each starts with the field's path. There is none for an amount about which ImplausibleAmounts returns a message,
// and none for a resource that capacity does not have or that is 0 there.
func (e *Evaluators) BeyondCapacity(spec *placementv1.QuotaSpec, capacity corev1.ResourceList) []string {
	implausible := e.ImplausibleAmounts(spec)
	var out []string
	for _, name := range LargeRequests(spec) {
		amount, bare := spec.Hard[name], bareName(name)
		all, known := capacity[bare]
		at := fmt.Sprintf("spec.hard[%s]:", name)
		if !known || all.IsZero() || amount.AsApproximateFloat64() <= beyondCapacity*all.AsApproximateFloat64() ||
			slices.ContainsFunc(implausible, func(text string) bool { return strings.HasPrefix(text, at) }) {
			continue
		}
		// The text is the same while the capacity changes with each node.
		is, meant := amount.String(), "a smaller unit is probably meant"
		if bare == corev1.ResourceCPU {
			is, meant = fmt.Sprintf("%s is %s CPUs", amount.String(), decimal(amount)),
				fmt.Sprintf("a smaller number, or %sm, is probably meant", decimal(amount))
		} else {
			is += " is much memory"
		}
		out = append(out, fmt.Sprintf("%s %s, more than four times what all clusters and nodes have together, so that it is never reached: %s",
			at, is, meant))
	}
	return out
}
