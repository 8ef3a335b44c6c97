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

package findings

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/language"
)

// findingsOfTypes finds matched types without a known pod template in a policy that sets fields of pods. It also finds each rule with a
// namespace selector if any matched type is cluster-scoped, because the rule applies to none of its objects, even if it applies to those of
// other types. It returns nil if no matched type is known.
func (f *Finder) findingsOfTypes(spec placementv1.PlacementPolicySpec, m *match.Matcher, module *policy.Module) []Finding {
	// With wildcards, or while a type is not served, the match may also have other types.
	types, all := m.Types(f.Catalog.Served())
	if !all {
		types = m.Served(f.Catalog.Served())
	}
	var out []Finding
	podless := slices.DeleteFunc(slices.Clone(types), func(t match.ServedType) bool {
		_, known := f.Templates.Path(t.GroupResource())
		return known
	})
	// Rego may set scheduling for some of the types alone, and a remote engine may never set it.
	if module.Remote == nil && module.Schedules() && len(podless) > 0 && (all && module.FromRules() || len(podless) == len(types)) {
		found := mistake("the policy sets fields of pods, and %s have no pod template that is known: an object of these types for which "+
			"the policy sets such a field can't be decided. Match other types, or declare where the template is, in podTemplates of the manager's "+
			"configuration file", plurals(podless))
		if len(podless) == len(types) {
			found.Impossible = language.RuleScheduling
		}
		out = append(out, found)
	}
	unnamespaced := slices.DeleteFunc(slices.Clone(types), func(t match.ServedType) bool {
		return t.Namespaced || t.Group == "" && t.Resource == "namespaces"
	})
	if len(unnamespaced) == 0 || !all {
		return out
	}
	for i, rule := range spec.Rules {
		if rule.When == nil || rule.When.NamespaceSelector == nil {
			continue
		}
		if selector, err := metav1.LabelSelectorAsSelector(rule.When.NamespaceSelector); err == nil && !selector.Empty() {
			at := specPath.Child("rules").Index(i)
			found := mistake("%s: %s have no namespace, so that rule %s applies to none of them", at.Child("when", "namespaceSelector"),
				plurals(unnamespaced), rule.Name)
			if len(unnamespaced) == len(types) {
				found.Impossible = at.String()
			}
			out = append(out, found)
		}
	}
	return out
}

// plurals returns the plural names of types with their groups, joined by commas. A type of several versions is in it once.
func plurals(types []match.ServedType) string {
	var names []string
	for _, t := range types {
		if name := t.GroupResource().String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
