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
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/rules"
)

// findingsOfIdleRules finds rules that select objects by a label that a matched namespace has, or by the name of one in the label
// "namespace". An author probably means the namespace selector, but only if the rule decides no object: the status tells the findings only
// then (Finding.Rule). findingsOfIdleRules does not read objects.
func (f *Finder) findingsOfIdleRules(ctx context.Context, spec placementv1.PlacementPolicySpec, m *match.Matcher) (out []Finding) {
	selects := func(r placementv1.Rule) bool { return r.When != nil && r.When.ObjectSelector != nil }
	if f.Namespaces == nil || !slices.ContainsFunc(spec.Rules, selects) {
		return nil
	}
	namespaces, err := f.Namespaces.All(ctx)
	if err != nil {
		// The comparison with namespace selectors reports the error.
		return nil
	}
	// Of the labels of several namespaces, the finding names those of the first one, so that it is the same each time.
	matched := map[string]map[string]string{}
	for name, labels := range namespaces {
		if name != f.OwnNamespace && m.SelectsNamespace(name, labels) {
			matched[name] = labels
		}
	}
	names := slices.Sorted(maps.Keys(matched))
	for i, rule := range spec.Rules {
		if !selects(rule) {
			continue
		}
		for _, name := range names {
			path := specPath.Child("rules").Index(i).Child("when")
			var why string
			switch key, value, found := labelOf(rule.When.ObjectSelector, matched[name]); {
			case found:
				why = fmt.Sprintf("label %s, which namespace %s has (%q): to select by the labels of the namespace, move the label to %s", key, name,
					value,
					path.Child("namespaceSelector"))
			case slices.Contains(namedBy(rule.When.ObjectSelector), name):
				why = fmt.Sprintf("label %s=%s, which objects of namespace %s do not have by themselves: to select by the name of the namespace, "+
					"use %s with the label %s", namespaceLabel, name, name, path.Child("namespaceSelector"), corev1.LabelMetadataName)
			default:
				continue
			}
			next := mistake("%s: rule %s decides none of the objects that the policy matches, and it selects objects with %s",
				path.Child("objectSelector"),
				rule.Name, why)
			next.Rule, next.Instead = rule.Name, strings.Join(insteadOf(i, spec.Rules), ",")
			out = append(out, next)
			break
		}
	}
	return out
}

// insteadOf returns the names of the other rules of the list that may decide objects which the i-th rule selects: the earlier ones whose
// conditions the same object may meet, and, if the i-th rule has otherwise: NextRule, the later ones whose object selector certainly
// selects no other objects than that of the i-th. It leaves out later rules without a condition. The i-th rule must have a condition.
func insteadOf(i int, list []placementv1.Rule) (names []string) {
	rule := list[i]
	for j, r := range list {
		follows := j > i && rule.Otherwise == placementv1.RuleOtherwiseNextRule && r.When != nil &&
			match.SelectorImplies(r.When.ObjectSelector, rule.When.ObjectSelector)
		if follows || j < i && rules.MayOverlap(r.When, rule.When) {
			names = append(names, r.Name)
		}
	}
	return names
}

// labelOf returns the first of the labels that meets a requirement of a selector that the label exists or has a value.
func labelOf(s *metav1.LabelSelector, labels map[string]string) (key, value string, found bool) {
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		if value, has := labels[key]; has && value == s.MatchLabels[key] {
			return key, value, true
		}
	}
	for _, e := range s.MatchExpressions {
		value, has := labels[e.Key]
		if has && (e.Operator == metav1.LabelSelectorOpExists || e.Operator == metav1.LabelSelectorOpIn && slices.Contains(e.Values, value)) {
			return e.Key, value, true
		}
	}
	return "", "", false
}
