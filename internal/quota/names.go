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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper"
	"k8s.io/kubernetes/pkg/apis/core/validation"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/suggest"
)

// CheckSpec returns the mistakes for which the API server would refuse a ResourceQuota and that the schema of quotas does not find: names
// in hard that are not for quotas, and scopes that do not apply to them. before is the spec before an update, nil for a new quota: names
// that it has may stay, and scopes are not checked if neither a name nor a scope has changed. served are used for suggestions.
func CheckSpec(spec, before *placementv1.QuotaSpec, served *match.ServedTypes) field.ErrorList {
	path := field.NewPath("spec")
	var out field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(spec.Hard)) {
		at := path.Child("hard").Key(string(name))
		errs := checkName(name, at)
		switch _, had := hardOf(before)[name]; {
		case had || len(errs) == 0:
		case strings.Contains(string(name), "/") || name == "":
			out = append(out, errs[:1]...)
		default:
			out = append(out, field.Invalid(at, name, "is not a resource name for quotas, as pods and requests.cpu are: "+
				meantResource(string(name), served)))
		}
	}
	if before != nil && sameScoping(spec, before) {
		return out
	}
	for _, scope := range spec.Scopes {
		out = append(out, checkScope(spec, scope, path.Child("scopes"))...)
	}
	if spec.ScopeSelector != nil {
		for _, e := range spec.ScopeSelector.MatchExpressions {
			out = append(out, checkScope(spec, e.ScopeName, path.Child("scopeSelector"))...)
		}
	}
	return out
}

// checkName returns the errors for which the API server would refuse a name in the hard amounts of a ResourceQuota.
func checkName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	return validation.ValidateResourceQuotaResourceName(core.ResourceName(name), path)
}

// hardOf returns the hard amounts of a spec, which may be nil.
func hardOf(spec *placementv1.QuotaSpec) corev1.ResourceList {
	if spec == nil {
		return nil
	}
	return spec.Hard
}

// sameScoping reports whether two specs have the same names in hard, and the same names of scopes in the same order. The amounts, and the
// operators and values of the scopes, may differ.
func sameScoping(a, b *placementv1.QuotaSpec) bool {
	scopesOf := func(spec *placementv1.QuotaSpec) []corev1.ResourceQuotaScope {
		var out []corev1.ResourceQuotaScope
		for _, r := range requirements(spec) {
			out = append(out, r.ScopeName)
		}
		return out
	}
	return slices.Equal(slices.Sorted(maps.Keys(a.Hard)), slices.Sorted(maps.Keys(b.Hard))) && slices.Equal(scopesOf(a), scopesOf(b))
}

// meantResource returns the end of a message: what to write in place of a resource name without a slash that is not for quotas. It is never
// empty: if no similar name and no served type is meant, it is the general form, count/<resource>.<group>.
func meantResource(name string, served *match.ServedTypes) string {
	if meant, ok := suggest.Nearest(name, slices.Concat(standardNames, countedNames)); ok {
		return "did you mean " + meant + "?"
	}
	t := schema.ParseGroupResource(name)
	if meant, ok := served.Meant(t); ok && served.HasName(meant) {
		return fmt.Sprintf("write %s%s, which limits how many of these objects there are", countPrefix, meant)
	}
	return "write " + countPrefix + "<resource>.<group> to limit how many objects of a type there are"
}

// countedNames are Kubernetes' names, without the prefix count/, for the number of all objects of a type. They are suggested in place of
// names that are not for quotas.
var countedNames = []string{
	"pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps", "persistentvolumeclaims",
}

// appliesTo returns a list, for messages, of the resource names to which a scope applies.
func appliesTo(scope corev1.ResourceQuotaScope) string {
	switch scope {
	case corev1.ResourceQuotaScopeBestEffort:
		return "pods alone"
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
		return "persistentvolumeclaims and requests.storage"
	default:
		return "pods, cpu, memory, and requests and limits of cpu and memory"
	}
}

// checkScope returns an error if hard has a standard name to which a scope does not apply. It does not check names with a slash.
func checkScope(spec *placementv1.QuotaSpec, scope corev1.ResourceQuotaScope, path *field.Path) field.ErrorList {
	for _, name := range slices.Sorted(maps.Keys(spec.Hard)) {
		standard := helper.IsStandardQuotaResourceName(core.ResourceName(name)) && !strings.Contains(string(name), "/")
		if standard && !helper.IsResourceQuotaScopeValidForResource(core.ResourceQuotaScope(scope), core.ResourceName(name)) {
			return field.ErrorList{field.Invalid(path, scope, fmt.Sprintf("hard has a resource that this scope does not apply to (%s): the scope "+
				"applies to %s", name,
				appliesTo(scope)))}
		}
	}
	return nil
}

// CheckLimit returns an error if a LimitedResource has a scope that its resource does not have. before is the spec before an update, whose
// mistakes may stay; nil for a new one.
func CheckLimit(spec, before *placementv1.LimitedResourceSpec) field.ErrorList {
	for i, r := range spec.MatchScopes {
		of := corev1.ResourcePods
		if r.ScopeName == corev1.ResourceQuotaScopeVolumeAttributesClass {
			of = corev1.ResourcePersistentVolumeClaims
		}
		if spec.APIGroup == "" && spec.Resource == string(of) || before != nil && i < len(before.MatchScopes) &&
			before.APIGroup == spec.APIGroup && before.Resource == spec.Resource && before.MatchScopes[i].ScopeName == r.ScopeName {
			continue
		}
		return field.ErrorList{field.Invalid(field.NewPath("spec", "matchScopes"), r.ScopeName,
			"objects of spec.resource do not have this scope: persistentvolumeclaims have VolumeAttributesClass, pods have all other scopes, and "+
				"no other resource has a scope")}
	}
	return nil
}
