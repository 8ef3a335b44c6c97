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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// CoverageGap returns why a LimitedResource denies objects in a namespace although the author of a quota there seems to
// have covered them. It returns "" if there is no such gap. There are two cases. The quota is not enforced. Or it
// covers only one of two resource names that the same objects always take together, and no quota covers the other.
// others are the other quotas that apply to the namespace.
func (e *Evaluators) CoverageGap(limit *placementv1.LimitedResource, q placementv1.Quota, others []placementv1.Quota,
	namespace string) string {
	t := schema.GroupResource{Group: limit.Spec.APIGroup, Resource: limit.Spec.Resource}
	var enforced []*placementv1.QuotaSpec
	for _, other := range others {
		if enforces(other.QuotaSpec()) {
			enforced = append(enforced, other.QuotaSpec())
		}
	}
	key, _ := KeyOf(q)
	names := e.limitedNames(limit, t, q.QuotaSpec())
	if !enforces(q.QuotaSpec()) {
		missed := append(uncoveredNames(names, enforced), uncoveredScopes(limit.Spec.MatchScopes, requirements(q.QuotaSpec()), enforced)...)
		if len(missed) == 0 {
			return ""
		}
		return fmt.Sprintf("LimitedResource %s denies in namespace %s what %s %s would cover (%s): a quota in mode %s covers nothing; enforce "+
			"the quota, or exclude the namespace by spec.namespaceSelector of the LimitedResource",
			limit.Name, namespace, key.Kind, key.Name, strings.Join(missed, ", "), q.QuotaSpec().Mode)
	}
	for _, name := range names {
		other := equivalentName(t, name)
		if other == "" || !slices.ContainsFunc(limit.Spec.MatchContains, func(part string) bool {
			return strings.Contains(string(other), part)
		}) {
			continue
		}
		if len(uncoveredNames([]corev1.ResourceName{other}, append(enforced, q.QuotaSpec()))) > 0 {
			return fmt.Sprintf("LimitedResource %s denies in namespace %s whatever takes %s, which %s %s covers: the LimitedResource limits %s "+
				"too, which the same objects take, and no quota covers that; add %s to spec.hard of the quota",
				limit.Name, namespace, name, key.Kind, key.Name, other, other)
		}
	}
	return ""
}

// LimitsClass reports whether a LimitedResource denies pods of a priority class unless a quota covers the class.
func LimitsClass(spec *placementv1.LimitedResourceSpec, class string) bool {
	return spec.APIGroup == "" && spec.Resource == pods.Resource && slices.ContainsFunc(spec.MatchScopes,
		func(r placementv1.ScopeRequirement) bool {
			return r.ScopeName == corev1.ResourceQuotaScopePriorityClass && matchesClass(r, class)
		})
}

// CoversClass reports whether a quota is enforced in a namespace that has the labels namespaceLabels, and has a scope that matches a
// priority class.
func CoversClass(q placementv1.Quota, class, namespace string, namespaceLabels map[string]string) bool {
	return enforces(q.QuotaSpec()) && appliesIn(q, namespace, namespaceLabels) &&
		slices.ContainsFunc(requirements(q.QuotaSpec()), func(r placementv1.ScopeRequirement) bool {
			return r.ScopeName == corev1.ResourceQuotaScopePriorityClass && matchesClass(r, class)
		})
}

// takenByEachPod are the names under which quotas count each pod.
var takenByEachPod = []corev1.ResourceName{corev1.ResourcePods, "count/pods"}

// LimitsEachPod returns the names under which a LimitedResource denies each pod unless a quota has them in hard; none if it limits only
// what some pods take.
func LimitsEachPod(spec *placementv1.LimitedResourceSpec) []corev1.ResourceName {
	if spec.APIGroup != "" || spec.Resource != pods.Resource {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(takenByEachPod), func(name corev1.ResourceName) bool {
		return !slices.ContainsFunc(spec.MatchContains, func(part string) bool { return strings.Contains(string(name), part) })
	})
}

// HasName reports whether a quota is enforced in a namespace that has the labels namespaceLabels, and has a resource name in hard. It
// ignores the scopes of the quota, so that the quota may cover the name for some pods only.
func HasName(q placementv1.Quota, name corev1.ResourceName, namespace string, namespaceLabels map[string]string) bool {
	_, has := q.QuotaSpec().Hard[name]
	return has && enforces(q.QuotaSpec()) && appliesIn(q, namespace, namespaceLabels)
}

// MayCoverName reports whether HasName is true, and no scope of the quota excludes a priority class, so that the quota covers the name for
// at least some pods of the class.
func MayCoverName(q placementv1.Quota, name corev1.ResourceName, class, namespace string, namespaceLabels map[string]string) bool {
	return HasName(q, name, namespace, namespaceLabels) &&
		!slices.ContainsFunc(requirements(q.QuotaSpec()), func(r placementv1.ScopeRequirement) bool {
			return r.ScopeName == corev1.ResourceQuotaScopePriorityClass && !matchesClass(r, class)
		})
}

// appliesIn reports whether a quota is for a namespace that has the labels namespaceLabels: a ScopedQuota for its own namespace, a
// ClusterScopedQuota for those that its selector selects; for none if the selector is invalid. It ignores that a ClusterScopedQuota counts
// nothing in kube-system and in Berth's own namespace.
func appliesIn(q placementv1.Quota, namespace string, namespaceLabels map[string]string) bool {
	cluster, ok := q.(*placementv1.ClusterScopedQuota)
	if !ok {
		return q.GetNamespace() == namespace
	}
	selector, err := NamespaceSelector(cluster.Spec.NamespaceSelector)
	return err == nil && selector.Matches(labels.Set(namespaceLabels))
}

// enforces reports whether a quota is in mode Enforce, which is the default.
func enforces(spec *placementv1.QuotaSpec) bool {
	return spec.Mode == "" || spec.Mode == placementv1.ModeEnforce
}

// limitedNames returns the resource names in the hard amounts of spec that the LimitedResource limits for its type t, sorted.
func (e *Evaluators) limitedNames(limit *placementv1.LimitedResource, t schema.GroupResource,
	spec *placementv1.QuotaSpec) []corev1.ResourceName {
	var out []corev1.ResourceName
	tracked := e.evaluatorFor(t).MatchingResources(slices.Sorted(maps.Keys(spec.Hard)))
	for _, name := range tracked {
		if slices.ContainsFunc(limit.Spec.MatchContains, func(part string) bool { return strings.Contains(string(name), part) }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// uncoveredNames returns those of the names that no enforced quota has in hard.
func uncoveredNames(names []corev1.ResourceName, enforced []*placementv1.QuotaSpec) []string {
	var out []string
	for _, name := range names {
		if !slices.ContainsFunc(enforced, func(spec *placementv1.QuotaSpec) bool { _, found := spec.Hard[name]; return found }) {
			out = append(out, string(name))
		}
	}
	return out
}

// uncoveredScopes returns, as texts, the scopes of a LimitedResource that a quota with the wanted scopes would cover for some object, but
// that no enforced quota covers for that object. limited are all scopes of the LimitedResource.
func uncoveredScopes(limited, wanted []placementv1.ScopeRequirement, enforced []*placementv1.QuotaSpec) []string {
	var out []string
	for _, r := range limited {
		all := []placementv1.ScopeRequirement{r}
		same := func(s placementv1.ScopeRequirement) bool { return s.ScopeName == r.ScopeName }
		would := slices.DeleteFunc(slices.Clone(wanted), func(s placementv1.ScopeRequirement) bool { return !same(s) })
		var do []placementv1.ScopeRequirement
		for _, spec := range enforced {
			do = append(do, slices.DeleteFunc(requirements(spec), func(s placementv1.ScopeRequirement) bool { return !same(s) })...)
		}
		all = slices.Concat(all, would, do)
		if slices.ContainsFunc(classesOf(all), func(class string) bool {
			return covers([]placementv1.ScopeRequirement{r}, class) && covers(would, class) && !covers(do, class)
		}) {
			out = append(out, fmt.Sprint(r.Upstream()))
		}
	}
	return out
}

// covers reports whether any of the requirements matches an object with the class. All requirements must be for one
// scope. Requirements for scopes without classes always match.
func covers(requirements []placementv1.ScopeRequirement, class string) bool {
	return slices.ContainsFunc(requirements, func(r placementv1.ScopeRequirement) bool {
		byClass := r.ScopeName == corev1.ResourceQuotaScopePriorityClass || r.ScopeName == corev1.ResourceQuotaScopeVolumeAttributesClass
		return !byClass || matchesClass(r, class)
	})
}

// equivalentName returns the other name under which objects of the type are charged the same amount, such as requests.cpu for cpu, or
// secrets for count/secrets; "" if there is none. It returns pods for count/pods, too, although pods that have finished count under
// count/pods alone.
func equivalentName(t schema.GroupResource, name corev1.ResourceName) corev1.ResourceName {
	counted := corev1.ResourceName(countPrefix + t.String())
	_, aliased := countAliases[t]
	if aliased || t == pods || t == services || t == claims {
		switch name {
		case counted:
			return corev1.ResourceName(t.Resource)
		case corev1.ResourceName(t.Resource):
			return counted
		}
	}
	if t == deviceClaims {
		return equivalentDeviceName(name)
	}
	bare := bareName(name)
	native := bare == corev1.ResourceCPU || bare == corev1.ResourceMemory || bare == corev1.ResourceEphemeralStorage ||
		strings.HasPrefix(string(bare), corev1.ResourceHugePagesPrefix)
	switch {
	case t != pods || !native || strings.HasPrefix(string(name), "limits."):
		return ""
	case bare == name:
		return corev1.DefaultResourceRequestsPrefix + name
	default:
		return bare
	}
}

// equivalentDeviceName returns the other name under which every ResourceClaim is charged for devices of a class; "" if
// the name is for no class.
func equivalentDeviceName(name corev1.ResourceName) corev1.ResourceName {
	if class, ok := strings.CutSuffix(string(name), corev1.ResourceClaimsPerClass); ok {
		return corev1.ResourceName(corev1.ResourceImplicitExtendedClaimsPerClass + class)
	}
	if class, ok := strings.CutPrefix(string(name), corev1.ResourceImplicitExtendedClaimsPerClass); ok {
		return corev1.ResourceName(class + corev1.ResourceClaimsPerClass)
	}
	return ""
}
