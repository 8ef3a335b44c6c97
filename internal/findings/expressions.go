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
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/celexpression"
	"github.com/berth-dev/berth/internal/match"
)

// findingsOfExpressions finds CEL expressions of rules whose evaluation fails for each object without a label or annotation, although the
// policy matches such objects, and no earlier rule reads the label or annotation.
func findingsOfExpressions(ctx context.Context, spec placementv1.PlacementPolicySpec, m *match.Matcher) []Finding {
	if m.Conditional() {
		return nil
	}
	labels := requiredLabels(spec.Match.ObjectSelector)
	var out []Finding
	for i, rule := range spec.Rules {
		if rule.When == nil || rule.When.Expression == "" {
			continue
		}
		has := map[string][]string{"labels": slices.Concat(labels, requiredLabels(rule.When.ObjectSelector))}
		for _, a := range rule.When.Annotations {
			if a.Operator != metav1.LabelSelectorOpNotIn && a.Operator != metav1.LabelSelectorOpDoesNotExist {
				has["annotations"] = append(has["annotations"], a.Key)
			}
		}
		document, key, ok := celexpression.NeedsKey(ctx, rule.When.Expression, has)
		if !ok || slices.ContainsFunc(spec.Rules[:i], func(earlier placementv1.Rule) bool { return readsKey(earlier.When, key) }) {
			continue
		}
		out = append(out, findingOfNeededKey(specPath.Child("rules").Index(i).Child("when", "expression"), document, key))
	}
	return out
}

// findingOfNeededKey returns the finding in an expression at a path whose evaluation fails for each object without a label or annotation.
// document says which of both.
func findingOfNeededKey(at *field.Path, document, key string) Finding {
	return advice("%s: fails for an object without %s, which then can't be decided: test the key first, as in %q in "+
		"object.metadata.?%s.orValue({}) && ...", at, documents[document]+" "+key, key, document)
}

// requiredLabels returns the keys of the labels that an object must have to be selected.
func requiredLabels(s *metav1.LabelSelector) []string {
	if s == nil {
		return nil
	}
	out := slices.Collect(maps.Keys(s.MatchLabels))
	for _, r := range s.MatchExpressions {
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpExists {
			out = append(out, r.Key)
		}
	}
	return out
}

// readsKey reports whether a condition reads the label or annotation with a key, so that it may exempt the objects without one.
func readsKey(w *placementv1.RuleCondition, key string) bool {
	if w == nil {
		return false
	}
	if strings.Contains(w.Expression, key) || slices.ContainsFunc(w.Annotations,
		func(a placementv1.AnnotationRequirement) bool { return a.Key == key }) {
		return true
	}
	if w.ObjectSelector == nil {
		return false
	}
	_, inLabels := w.ObjectSelector.MatchLabels[key]
	return inLabels || slices.ContainsFunc(w.ObjectSelector.MatchExpressions,
		func(r metav1.LabelSelectorRequirement) bool { return r.Key == key })
}
