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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// exclusive are pairs of scopes. Every pod matches exactly one scope of each pair. Objects of other types have none of them.
var exclusive = [][2]corev1.ResourceQuotaScope{
	{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
}

// ScopeProblems describes what a quota does not count because of its scopes.
type ScopeProblems struct {
	// Uncounted are messages about names in hard that count objects of types without one of the scopes. Each starts with the name's path.
	Uncounted []string
	// CountsNothing says why no object that hard counts can match the scopes; "" if one can.
	CountsNothing string
}

// CheckScopes returns messages about the names in a quota's hard that its scopes prevent it from counting, whatever objects exist. The
// result is zero if there are none.
func (e *Evaluators) CheckScopes(spec *placementv1.QuotaSpec) ScopeProblems {
	scopes := requirements(spec)
	if len(scopes) == 0 {
		return ScopeProblems{}
	}
	out := ScopeProblems{CountsNothing: contradiction(scopes)}
	types, _ := e.Types(spec)
	for _, t := range slices.SortedFunc(maps.Keys(types), compareTypes) {
		scope, missing := missingScope(t, scopes)
		if !missing {
			continue
		}
		for _, name := range types[t] {
			out.Uncounted = append(out.Uncounted, fmt.Sprintf("spec.hard[%s]: %s do not have the scope %s, so that nothing of them is counted: "+
				"move the name to a quota without the scope", name, t, scope))
		}
		delete(types, t)
	}
	if out.CountsNothing == "" && len(types) == 0 && len(out.Uncounted) > 0 {
		out.CountsNothing = out.Uncounted[0]
	}
	return out
}

// requirements returns all scopes of a quota: those of spec.scopes, with the operator Exists, and those of spec.scopeSelector.
func requirements(spec *placementv1.QuotaSpec) []placementv1.ScopeRequirement {
	var out []placementv1.ScopeRequirement
	for _, scope := range spec.Scopes {
		out = append(out, placementv1.ScopeRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	if spec.ScopeSelector != nil {
		out = append(out, spec.ScopeSelector.MatchExpressions...)
	}
	return out
}

// missingScope returns the first scope among the requirements that no object of a type has. It returns false if the type has all of them.
func missingScope(t schema.GroupResource, requirements []placementv1.ScopeRequirement) (corev1.ResourceQuotaScope, bool) {
	has := Scopes{resource: t}.moduleInput()
	for _, r := range requirements {
		if _, found := has[string(r.ScopeName)]; !found {
			return r.ScopeName, true
		}
	}
	return "", false
}

// contradiction returns why no object matches all requirements; "" if one may.
func contradiction(requirements []placementv1.ScopeRequirement) string {
	of := func(scope corev1.ResourceQuotaScope) []placementv1.ScopeRequirement {
		return slices.DeleteFunc(slices.Clone(requirements), func(r placementv1.ScopeRequirement) bool { return r.ScopeName != scope })
	}
	for _, pair := range exclusive {
		if len(of(pair[0])) > 0 && len(of(pair[1])) > 0 {
			return fmt.Sprintf("spec.scopes and spec.scopeSelector: no object matches both %s and %s", pair[0], pair[1])
		}
	}
	if !satisfiable(of(corev1.ResourceQuotaScopePriorityClass)) {
		return "spec.scopeSelector: no object has a class that all expressions of scope PriorityClass match: list the classes in one " +
			"expression, or remove one"
	}
	// A claim may have several classes while its class is being changed. So only having a class excludes having none.
	volumes := of(corev1.ResourceQuotaScopeVolumeAttributesClass)
	none := func(r placementv1.ScopeRequirement) bool { return r.Operator == corev1.ScopeSelectorOpDoesNotExist }
	some := func(r placementv1.ScopeRequirement) bool {
		return r.Operator == corev1.ScopeSelectorOpIn || r.Operator == corev1.ScopeSelectorOpExists
	}
	if slices.ContainsFunc(volumes, none) && slices.ContainsFunc(volumes, some) {
		return "spec.scopeSelector: no object has a class and no class at once, as the expressions of scope VolumeAttributesClass want"
	}
	return ""
}

// satisfiable reports whether an object with at most one class can match all requirements. All must be for one scope.
func satisfiable(requirements []placementv1.ScopeRequirement) bool {
	return slices.ContainsFunc(classesOf(requirements), func(class string) bool {
		return !slices.ContainsFunc(requirements, func(r placementv1.ScopeRequirement) bool { return !matchesClass(r, class) })
	})
}

// unnamedClass stands for any class that the requirements do not name. No class can have this name.
const unnamedClass = "/"

// classesOf returns the classes that the requirements distinguish: "" for no class, those that they name, and unnamedClass for any other.
func classesOf(requirements []placementv1.ScopeRequirement) []string {
	out := []string{"", unnamedClass}
	for _, r := range requirements {
		out = append(out, r.Values...)
	}
	return out
}

// matchesClass reports whether an object with the class matches the requirement. "" stands for an object without a
// class.
func matchesClass(r placementv1.ScopeRequirement, class string) bool {
	named := class != "" && slices.Contains(r.Values, class)
	switch r.Operator {
	case corev1.ScopeSelectorOpIn:
		return named
	case corev1.ScopeSelectorOpNotIn:
		return !named
	case corev1.ScopeSelectorOpExists:
		return class != ""
	default:
		return class == ""
	}
}
