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
	"github.com/berth-dev/berth/internal/rules"
)

// negations are values with which objects say that something does not apply to them.
var negations = []string{"false", "no", "off"}

// findingsOfExemptions finds rules without an effect, which keep objects from the rules after them, whose only condition is that a label or
// annotation does not say no. They also keep all objects without it, which an author may not mean.
func findingsOfExemptions(spec placementv1.PlacementPolicySpec, m *match.Matcher) []Finding {
	var out []Finding
	for i, rule := range spec.Rules {
		at := specPath.Child("rules").Index(i).Child("when")
		document, only, path := onlyRequirement(rule.When)
		hasEffect := rules.GivesClusters(rule) || rule.Candidates != "" && rule.Candidates != placementv1.RuleCandidatesClusters ||
			rule.Set != nil || rule.Warn != "" || rule.Deny != ""
		if hasEffect || i == len(spec.Rules)-1 || only.Operator != metav1.LabelSelectorOpNotIn || document == fieldLabels &&
			m.RequiresLabel(only.Key) ||
			slices.ContainsFunc(only.Values, func(value string) bool { return !slices.Contains(negations, strings.ToLower(value)) }) ||
			slices.ContainsFunc(spec.Rules[:i], func(earlier placementv1.Rule) bool { return readsKey(earlier.When, only.Key) }) {
			continue
		}
		out = append(out, advice("%s.%s: objects without the %s %s match, too, so that rule %s keeps all of them from the rules after it. To "+
			"keep only objects that have it, use operator: In with the value that they have, such as \"true\"", at, path,
			documents[document], only.Key, rule.Name))
	}
	return out
}

// onlyRequirement returns the only requirement of a condition that has nothing but one of matchExpressions or annotations, with its path in
// the condition. document is "labels" or "annotations". The operator is empty if the condition has another number of requirements, or
// another part, such as matchLabels.
func onlyRequirement(when *placementv1.RuleCondition) (document string, only metav1.LabelSelectorRequirement, path string) {
	if when == nil || when.NamespaceSelector != nil || when.Expression != "" {
		return "", only, ""
	}
	selector := when.ObjectSelector
	switch {
	case selector == nil && len(when.Annotations) == 1:
		return fieldAnnotations, annotationSelector(when.Annotations).MatchExpressions[0], "annotations[0]"
	case selector != nil && len(when.Annotations)+len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 1:
		return fieldLabels, selector.MatchExpressions[0], "objectSelector.matchExpressions[0]"
	}
	return "", only, ""
}
