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

package match

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// requirementList is the normal form of a label selector, which most selectors of equal meaning share. Requirements and their
// values are sorted and unique. A match label becomes an In requirement with one value.
type requirementList []metav1.LabelSelectorRequirement

// normalizeSelector returns a selector's normal form. It is empty for a nil or empty selector.
func normalizeSelector(s *metav1.LabelSelector) requirementList {
	if s == nil {
		return nil
	}
	var out requirementList
	for key, value := range s.MatchLabels {
		out = append(out, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
	}
	for _, r := range s.MatchExpressions {
		r.Values = slices.Compact(slices.Sorted(slices.Values(r.Values)))
		out = append(out, r)
	}
	slices.SortFunc(out, compareRequirements)
	return slices.CompactFunc(out, func(a, b metav1.LabelSelectorRequirement) bool { return compareRequirements(a, b) == 0 })
}

// compareRequirements orders requirements by key, operator, and values.
func compareRequirements(a, b metav1.LabelSelectorRequirement) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator), slices.Compare(a.Values, b.Values))
}

// selector converts the normal form, with additional requirements, to a label selector. Without any requirement, it selects everything.
func (n requirementList) selector(more ...metav1.LabelSelectorRequirement) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: slices.Concat(n, more)}
}

// except returns the normal form without its i-th requirement.
func (n requirementList) except(i int) requirementList { return slices.Concat(n[:i], n[i+1:]) }

// SelectorImplies reports whether the selector narrow selects only objects that wide selects, too. It returns false if that does
// not follow from the requirements on each single label. A nil selector selects all objects.
func SelectorImplies(narrow, wide *metav1.LabelSelector) bool {
	list := normalizeSelector(narrow)
	return !slices.ContainsFunc(normalizeSelector(wide), func(r metav1.LabelSelectorRequirement) bool { return !list.implies(r) })
}

// implies reports whether each set of labels that meets all requirements of the list meets another requirement, too. It returns false if
// that does not follow from the requirements on the same label.
func (n requirementList) implies(wide metav1.LabelSelectorRequirement) bool {
	values, bounded := valuesOf(n, wide.Key)
	has := func(operator metav1.LabelSelectorOperator) bool {
		return slices.ContainsFunc(n, func(r metav1.LabelSelectorRequirement) bool { return r.Key == wide.Key && r.Operator == operator })
	}
	switch wide.Operator {
	case metav1.LabelSelectorOpIn:
		return bounded && !slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(wide.Values, v) })
	case metav1.LabelSelectorOpNotIn:
		if bounded {
			return !slices.ContainsFunc(values, func(v string) bool { return slices.Contains(wide.Values, v) })
		}
		return has(metav1.LabelSelectorOpDoesNotExist) || !slices.ContainsFunc(wide.Values,
			func(v string) bool { return !n.excludes(wide.Key, v) })
	case metav1.LabelSelectorOpExists:
		return bounded || has(metav1.LabelSelectorOpExists)
	case metav1.LabelSelectorOpDoesNotExist:
		return has(metav1.LabelSelectorOpDoesNotExist)
	}
	return false
}

// excludes reports whether a NotIn requirement lists a value of the label with a key.
func (n requirementList) excludes(key, value string) bool {
	return slices.ContainsFunc(n, func(r metav1.LabelSelectorRequirement) bool {
		return r.Key == key && r.Operator == metav1.LabelSelectorOpNotIn && slices.Contains(r.Values, value)
	})
}
