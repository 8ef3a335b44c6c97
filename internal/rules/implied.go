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

package rules

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// opposites has for each operator the one that a value meets if and only if it does not meet the operator. For an order, that is true
// only of a value that can be read.
var opposites = map[placementv1.RequirementOperator]placementv1.RequirementOperator{
	placementv1.OperatorIn: placementv1.OperatorNotIn, placementv1.OperatorNotIn: placementv1.OperatorIn,
	placementv1.OperatorExists: placementv1.OperatorDoesNotExist, placementv1.OperatorDoesNotExist: placementv1.OperatorExists,
	placementv1.OperatorGt: placementv1.OperatorLte, placementv1.OperatorLte: placementv1.OperatorGt,
	placementv1.OperatorLt: placementv1.OperatorGte, placementv1.OperatorGte: placementv1.OperatorLt,
}

// impliedBy reports whether each value that meets all conditions in all on c's subject meets c, too. It returns false if that depends on
// the object.
func (c condition) impliedBy(all []condition) bool {
	isOrdered := requirementIsOrdered(c.operator)
	about := slices.DeleteFunc(slices.Clone(all), func(a condition) bool { return a.subject != c.subject || !a.valid() })
	reads := func(a condition) bool { return requirementIsOrdered(a.operator) && a.as == c.as && a.values != nil }
	needsValues := c.operator != placementv1.OperatorExists && c.operator != placementv1.OperatorDoesNotExist
	if len(about) == 0 || !c.valid() || needsValues && c.values == nil || isOrdered && !slices.ContainsFunc(about, reads) {
		return false
	}
	c.operator = opposites[c.operator]
	return canBeMet(about) && !canBeMet(append(about, c))
}

// AppliesWithin reports whether a rule with the narrow condition applies only to objects to which one with the wide condition applies. It
// returns false if that does not follow from the conditions on each single label and annotation, or if the narrow condition contradicts
// itself, which is a mistake of its own.
func AppliesWithin(narrow, wide *placementv1.RuleCondition) bool {
	if appliesToAll(wide) {
		return true
	}
	if narrow == nil || wide.Expression != "" && wide.Expression != narrow.Expression || !MayOverlap(narrow, narrow) {
		return false
	}
	return match.SelectorImplies(narrow.ObjectSelector, wide.ObjectSelector) &&
		match.SelectorImplies(narrow.NamespaceSelector, wide.NamespaceSelector) &&
		match.SelectorImplies(annotationSelector(narrow.Annotations), annotationSelector(wide.Annotations))
}

// annotationSelector returns requirements on annotations as a label selector, to compare them as such.
func annotationSelector(annotations []placementv1.AnnotationRequirement) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	for _, a := range annotations {
		out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{Key: a.Key, Operator: a.Operator, Values: a.Values})
	}
	return out
}

// fallbacks warns of a rule that gets only objects for which an earlier rule found no cluster, and that requires at least as much of
// clusters, so that it finds none either.
func (v *validator) fallbacks(rules []placementv1.Rule, path *field.Path) {
	for i, rule := range rules {
		if !GivesClusters(rule) {
			continue
		}
		for j, earlier := range rules[:i] {
			if earlier.Otherwise == placementv1.RuleOtherwiseNextRule && earlier.Spread == nil &&
				AppliesWithin(rule.When, earlier.When) && eligibleWithin(rule, earlier) {
				v.warn(path.Index(i), "rule %s finds no cluster: it gets only objects for which rule %s (%s) finds none, and requires at least "+
					"as much. Put the rule that requires more first", rule.Name, earlier.Name, path.Index(j))
				break
			}
		}
	}
}

// eligibleWithin reports whether the clusters that are eligible by the narrow rule are eligible by the wide one, too. It returns false if
// that does not follow from the requirements and tolerations alone.
func eligibleWithin(narrow, wide placementv1.Rule) bool {
	required := requirementConditions(narrow.Require, nil, false)
	for i, c := range requirementConditions(wide.Require, nil, false) {
		same := func(q placementv1.Requirement) bool {
			q.Reason = wide.Require[i].Reason
			return equality.Semantic.DeepEqual(q, wide.Require[i])
		}
		if !c.impliedBy(required) && !slices.ContainsFunc(narrow.Require, same) {
			return false
		}
	}
	return !slices.ContainsFunc(narrow.Tolerate, func(t placementv1.RuleToleration) bool { return !slices.Contains(wide.Tolerate, t) })
}

// preferences warns of preferences that have no effect, because no eligible cluster or node meets them, or because all do and the rule
// gives no weights. nodes reports whether the rule is for nodes.
func (v *validator) preferences(rule placementv1.Rule, path *field.Path, nodes bool) {
	if !nodes && !choosesBest(rule) && rule.Weights == "" {
		return
	}
	what := "cluster"
	if nodes {
		what = "node"
	}
	required := requirementConditions(rule.Require, path.Child("require"), nodes)
	for i, p := range rule.Prefer {
		c := requirementConditions([]placementv1.Requirement{p.Requirement}, path.Child("prefer"), nodes)[0]
		about := slices.DeleteFunc(slices.Clone(required), func(q condition) bool { return q.subject != c.subject || !q.valid() })
		at := path.Child("prefer").Index(i)
		switch {
		case len(about) == 0 || !c.valid() || !canBeMet(about):
		case rule.Weights == "" && c.impliedBy(about):
			v.warn(at, "has no effect: each eligible %s meets this preference, because of %s. Remove one of them", what, about[0].at)
		case !canBeMet(append(about, c)):
			v.warn(at, "has no effect: no eligible %s meets this preference, because of %s. Remove one of them", what, about[0].at)
		}
	}
}
