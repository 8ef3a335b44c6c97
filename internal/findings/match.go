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
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/absent"
	"github.com/berth-dev/berth/internal/match"
)

var matchPath = specPath.Child("match")

// Match returns the findings in spec.match: parts that match nothing, such as types that the API server does not serve. It refreshes the
// catalog if it lacks a type, which may have been installed just before the policy. If the refresh fails, a notice with the error takes the
// place of the findings that need the catalog.
func (f *Finder) Match(ctx context.Context, spec placementv1.Match, m *match.Matcher) []Finding {
	if len(m.Coverage(f.Catalog.Served(), matchPath, f.OwnNamespace).Unserved) > 0 {
		if err := f.Catalog.Refresh(ctx); err != nil {
			return append(findingsOfSelectors(spec), notice("%s: can't tell whether the API server serves what the policy matches: %v", matchPath,
				err))
		}
	}
	return f.match(ctx, spec, m)
}

// findingsOfSelectors returns the findings that need nothing but spec.match: object selectors and match conditions that probably do not
// select what they seem to, such as by a label that only Namespaces have, types that wildcards do not match, and types that the rules match
// and that the cluster needs to start.
func findingsOfSelectors(spec placementv1.Match) []Finding {
	var out []Finding
	for _, text := range match.Warnings(spec, matchPath) {
		out = append(out, mistake("%s", text))
	}
	for _, text := range match.Remarks(spec, matchPath) {
		out = append(out, advice("%s", text))
	}
	return out
}

// match returns the findings in spec.match: probable mistakes in selectors and conditions, types that are not in the catalog, which it does
// not refresh, a match that can match nothing, and a namespace selector that has no effect, selects no existing namespace, or names labels
// or values that none has.
func (f *Finder) match(ctx context.Context, spec placementv1.Match, m *match.Matcher) []Finding {
	out, path := findingsOfSelectors(spec), matchPath
	coverage := m.Coverage(f.Catalog.Served(), path, f.OwnNamespace)
	for _, unserved := range coverage.Unserved {
		out = append(out, notice("%s: this entry matches nothing until the API server serves the type", unserved))
	}
	if coverage.Impossible != "" {
		return append(out, mistake("the policy can't match anything: %s", coverage.Impossible))
	}
	if coverage.ClusterScoped && m.SelectsNamespaces() {
		out = append(out, mistake("%s has no effect: the types that the policy matches are cluster-scoped, and all of their objects are "+
			"matched. Use objectSelector or matchConditions", path.Child("namespaceSelector")))
	}
	if f.Namespaces == nil || coverage.ClusterScoped {
		return out
	}
	if !m.SelectsNamespaces() {
		return out
	}
	namespaces, err := f.Namespaces.All(ctx)
	if err != nil {
		return append(out, notice("%s: can't tell whether any namespace is selected: %v", path.Child("namespaceSelector"), err))
	}
	problems := absent.LabelsOf("namespace", namespaces).Selector(spec.NamespaceSelector, path.Child("namespaceSelector"))
	if coverage.Namespaced && m.SelectsNoneOf(namespaces, f.OwnNamespace) {
		var why string
		if len(problems) > 0 {
			why = ": " + problems[0].Text
		}
		return append(out, notice("%s selects none of the namespaces that there are%s", path.Child("namespaceSelector"), why))
	}
	return append(out, advices(problems)...)
}

// namespaceLabel is a label in which an author may expect the name of an object's namespace.
const namespaceLabel = "namespace"

// namedBy returns the values that a selector allows for the label "namespace"; none if it does not list them.
func namedBy(s *metav1.LabelSelector) []string {
	if s == nil {
		return nil
	}
	var out []string
	if value, ok := s.MatchLabels[namespaceLabel]; ok {
		out = append(out, value)
	}
	for _, r := range s.MatchExpressions {
		if r.Key == namespaceLabel && r.Operator == metav1.LabelSelectorOpIn {
			out = append(out, r.Values...)
		}
	}
	return out
}

// findingsOfNamespaceLabel finds an object selector that requires the name of an existing namespace in the label "namespace". Objects have
// this label only if a user has set it, so that the finding holds only while the policy matches no object (Finding.Unmatched).
func (f *Finder) findingsOfNamespaceLabel(ctx context.Context, spec placementv1.Match) []Finding {
	wanted := namedBy(spec.ObjectSelector)
	if f.Namespaces == nil || len(wanted) == 0 {
		return nil
	}
	namespaces, err := f.Namespaces.All(ctx)
	if err != nil {
		// The comparison with namespace selectors reports the error.
		return nil
	}
	known := maps.Collect(namespaces)
	i := slices.IndexFunc(wanted, func(name string) bool { _, exists := known[name]; return exists })
	if i < 0 {
		return nil
	}
	out := advice("%s: the policy matches no object, and objects do not have the name of their namespace, such as %s, in the label %s by "+
		"themselves. To match the objects of a namespace, select it in %s by the label %s", matchPath.Child("objectSelector"),
		wanted[i], namespaceLabel,
		matchPath.Child("namespaceSelector"), corev1.LabelMetadataName)
	out.Unmatched = true
	return []Finding{out}
}

// findingsOfWhen finds labels and values in the namespace selectors of rules that no namespace has among those that the policy matches.
func (f *Finder) findingsOfWhen(ctx context.Context, spec placementv1.PlacementPolicySpec, m *match.Matcher) []Finding {
	selects := func(r placementv1.Rule) bool { return r.When != nil && r.When.NamespaceSelector != nil }
	if f.Namespaces == nil || !slices.ContainsFunc(spec.Rules, selects) {
		return nil
	}
	namespaces, err := f.Namespaces.All(ctx)
	if err != nil {
		return []Finding{notice("spec.rules: can't tell whether the rules apply to any namespace: %v", err)}
	}
	matched := absent.LabelsOf("matched namespace", func(yield func(string, map[string]string) bool) {
		for name, labels := range namespaces {
			if name != f.OwnNamespace && m.SelectsNamespace(name, labels) && !yield(name, labels) {
				return
			}
		}
	})
	if matched.Empty() {
		return nil
	}
	var out []Finding
	for i, rule := range spec.Rules {
		if !selects(rule) {
			continue
		}
		out = append(out, advices(matched.Selector(rule.When.NamespaceSelector,
			specPath.Child("rules").Index(i).Child("when", "namespaceSelector")))...)
	}
	return out
}

// advices returns a finding of level Advice for each problem.
func advices(problems []absent.Problem) (out []Finding) {
	for _, p := range problems {
		out = append(out, advice("%s: %s", p.Field, p.Text))
	}
	return out
}
