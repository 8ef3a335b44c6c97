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
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/numeral"
)

// condition is what a part of a rule demands of a value of an object, a cluster, or a node. Conditions with equal subjects are about the
// same value.
type condition struct {
	at      *field.Path // The path of the part of the rule.
	subject string      // The name of the value: "label env" of a cluster, or the key of a label or annotation of the object.
	// entry is the beginning of a manifest entry that tests the value, such as "field: region" or "key: env". list is the name of the field
	// that has such entries: require, matchExpressions, or annotations.
	entry, list string
	operator    placementv1.RequirementOperator
	// values are what the value is compared with; nil if that depends on the object, and for Exists and DoesNotExist.
	values []string
	as     placementv1.ValueType // The type as which Gt, Gte, Lt, and Lte read values, set for all operators; "" for values of the object.
	// many reports whether a cluster can have several such values, so that In needs only one of them to be listed.
	many bool
	// integers reports whether only integers can be within bounds, as for nodes, so that no value is between two successive integers.
	integers bool
}

// requirementConditions returns the conditions of the requirements of a rule, which are at the path. nodes reports whether the rule is for
// nodes.
func requirementConditions(require []placementv1.Requirement, path *field.Path, nodes bool) []condition {
	out := make([]condition, len(require))
	for i, q := range require {
		kind, name := subjectOf(q.Subject)
		out[i] = condition{
			at: path.Index(i), subject: kind + " " + name, entry: kind + ": " + name, list: "require", operator: q.Operator,
			values: q.Values, as: valueType(q),
			many: q.Field == placementv1.ClusterFieldZone && !nodes, integers: nodes,
		}
		if label := nodeLabel(q.Subject); nodes && label != "" {
			out[i].subject = "label " + label
		}
	}
	return out
}

// subjectOf returns the name of the member of a subject that is set, such as "label" or "annotation", and its value. Without another
// member, the name is "field", and the value may be "".
func subjectOf(s placementv1.Subject) (kind, name string) {
	for _, one := range []struct{ kind, name string }{
		{"label", s.Label}, {"annotation", s.Annotation}, {"property", s.Property}, {"allocatable", s.Allocatable},
		{"free", s.Free}, {"score", s.Score},
	} {
		if one.name != "" {
			return one.kind, one.name
		}
	}
	return "field", string(s.Field)
}

// selectorConditions returns the conditions of a label selector.
func selectorConditions(s *metav1.LabelSelector, path *field.Path) []condition {
	if s == nil {
		return nil
	}
	var out []condition
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		out = append(out, condition{at: path.Child("matchLabels").Key(key), subject: key, entry: "key: " + key, list: "matchExpressions",
			operator: placementv1.OperatorIn, values: []string{s.MatchLabels[key]}})
	}
	for i, e := range s.MatchExpressions {
		out = append(out, condition{at: path.Child("matchExpressions").Index(i), subject: e.Key, entry: "key: " + e.Key, list: "matchExpressions",
			operator: placementv1.RequirementOperator(e.Operator), values: e.Values})
	}
	return out
}

// annotationConditions returns the conditions on annotations of objects.
func annotationConditions(annotations []placementv1.AnnotationRequirement, path *field.Path) []condition {
	out := make([]condition, len(annotations))
	for i, a := range annotations {
		out[i] = condition{at: path.Index(i), subject: a.Key, entry: "key: " + a.Key, list: "annotations",
			operator: placementv1.RequirementOperator(a.Operator), values: a.Values}
	}
	return out
}

// contradictions warns, once for each subject, of the first condition that no value meets together with those before it. whose is the noun
// for what has the value, such as "cluster", and consequence what follows for the rule.
func (v *validator) contradictions(conditions []condition, whose, consequence string) {
	together := map[string][]condition{}
	for _, c := range conditions {
		if c.valid() {
			together[c.subject] = append(together[c.subject], c)
		}
	}
	for _, subject := range slices.Sorted(maps.Keys(together)) {
		all := together[subject]
		if canBeMet(all) {
			continue
		}
		n := 1
		for n < len(all) && canBeMet(all[:n]) {
			n++
		}
		c, before := all[n-1], all[:n-1]
		if i := slices.IndexFunc(before, func(b condition) bool { return !canBeMet([]condition{b, c}) }); i >= 0 {
			before = before[i : i+1]
		}
		others := make([]string, len(before))
		for i, b := range before {
			others[i] = b.at.String()
		}
		v.warn(c.at, "no %s can meet this together with %s: %s. %s", whose, strings.Join(others, " and "), consequence, c.alternative(before))
	}
}

// Unmatched returns a warning for each part of a rule's condition that contradicts the match of the policy, so that no matched object meets
// it. A policy also matches an update if only the labels before the update are selected. So a rule with deny or warn can be for updates
// that change such a label, and its objectSelector causes no warning.
func Unmatched(rules []placementv1.Rule, match placementv1.Match) []string {
	v, path, matchPath := &validator{}, field.NewPath("spec", "rules"), field.NewPath("spec", "match")
	for i, rule := range rules {
		if rule.When == nil {
			continue
		}
		for _, one := range []struct {
			name          string
			when, matched *metav1.LabelSelector
		}{
			{"objectSelector", rule.When.ObjectSelector, match.ObjectSelector},
			{"namespaceSelector", rule.When.NamespaceSelector, match.NamespaceSelector},
		} {
			if one.name == "objectSelector" && (rule.Deny != "" || rule.Warn != "") {
				continue
			}
			matched := selectorConditions(one.matched, matchPath.Child(one.name))
			for _, c := range selectorConditions(one.when, path.Index(i).Child("when", one.name)) {
				for _, m := range matched {
					if m.subject == c.subject && !canBeMet([]condition{m, c}) {
						v.warn(c.at, "contradicts %s: rule %s applies to no object that the policy matches. Change one of them", m.at, rule.Name)
					}
				}
			}
		}
	}
	return v.warnings
}

// MayOverlap reports whether one object may meet the conditions of two rules. It ignores their CEL expressions.
func MayOverlap(a, b *placementv1.RuleCondition) bool {
	if a == nil || b == nil {
		return true
	}
	for _, pair := range [][2][]condition{
		{selectorConditions(a.ObjectSelector, nil), selectorConditions(b.ObjectSelector, nil)},
		{selectorConditions(a.NamespaceSelector, nil), selectorConditions(b.NamespaceSelector, nil)},
		{annotationConditions(a.Annotations, nil), annotationConditions(b.Annotations, nil)},
	} {
		for _, c := range pair[0] {
			for _, d := range pair[1] {
				if c.subject == d.subject && !canBeMet([]condition{c, d}) {
					return false
				}
			}
		}
	}
	return true
}

// alternative returns the last sentence of a message about a condition that contradicts others: that all of them have to be met, and what
// to do. If there is one other condition, and both have a list of values by In, that is to list the values of both in one entry, which it
// writes out for at most maxSuggested values. Otherwise, it is to change or remove one of the conditions.
func (c condition) alternative(others []condition) string {
	isList := func(c condition) bool { return c.operator == placementv1.OperatorIn && c.values != nil }
	if len(others) != 1 || !isList(c) || !isList(others[0]) {
		return "All of them have to be met: change or remove one"
	}
	values := slices.Concat(others[0].values, c.values)
	if len(values) > maxSuggested {
		return fmt.Sprintf("All of them have to be met: to allow any of the values, list them in one entry of %s", c.list)
	}
	return fmt.Sprintf("All of them have to be met: to allow any of the values, list them in one entry of %s, {%s, operator: In, "+
		"values: [%s]}", c.list, c.entry, strings.Join(quoted(values), ", "))
}

// maxSuggested is the maximum number of values that a message suggests to write; with more, it lists none.
const maxSuggested = 8

// canBeMet reports whether some value, or a missing one, can meet all of the conditions, which have the same subject. It returns true if
// that is not certain.
func canBeMet(conditions []condition) bool {
	isAbsent := func(c condition) bool { return c.operator == placementv1.OperatorDoesNotExist }
	needsValue := func(c condition) bool { return !isAbsent(c) && c.operator != placementv1.OperatorNotIn }
	if !slices.ContainsFunc(conditions, needsValue) {
		return true
	}
	if slices.ContainsFunc(conditions, isAbsent) || outOfRange(conditions) {
		return false
	}
	accepted := func(value string) bool {
		return !slices.ContainsFunc(conditions, func(c condition) bool { return c.rejects(value) })
	}
	for _, c := range conditions {
		if c.operator != placementv1.OperatorIn || c.values == nil {
			continue
		}
		if !slices.ContainsFunc(c.values, accepted) {
			return false
		}
		if !c.many {
			// The accepted value is in the other lists, too.
			return true
		}
	}
	return true
}

// rejects reports whether a value is certain not to meet the condition. For Gt, Gte, Lt, and Lte, that is so for a value that they can't
// read, too. It is false for Exists and DoesNotExist, for values that depend on the object, and for In if a cluster may have several
// values.
func (c condition) rejects(value string) bool {
	switch {
	case c.values == nil:
		return false
	case c.operator == placementv1.OperatorIn:
		return !c.many && !slices.Contains(c.values, value)
	case c.operator == placementv1.OperatorNotIn:
		return slices.Contains(c.values, value)
	case requirementIsOrdered(c.operator):
		if !readable(c.as, value) {
			return true
		}
		order := compareAs(c.as, value, c.values[0])
		return c.isLower() && order < 0 || c.isUpper() && order > 0 || c.isStrict() && order == 0
	}
	return false
}

// valid reports whether the operator can read the values of the condition. It is true if the values depend on the object. Validation
// refuses a rule with a condition that is not valid.
func (c condition) valid() bool {
	return !requirementIsOrdered(c.operator) || c.values == nil || len(c.values) == 1 && readable(c.as, c.values[0])
}

// isLower reports whether the condition is a lower bound.
func (c condition) isLower() bool {
	return c.operator == placementv1.OperatorGt || c.operator == placementv1.OperatorGte
}

// isUpper reports whether the condition is an upper bound.
func (c condition) isUpper() bool {
	return c.operator == placementv1.OperatorLt || c.operator == placementv1.OperatorLte
}

// isStrict reports whether the condition is a bound that a value must not equal.
func (c condition) isStrict() bool {
	return c.operator == placementv1.OperatorGt || c.operator == placementv1.OperatorLt
}

// outOfRange reports whether the conditions have a lower and an upper bound that no value meets together.
func outOfRange(conditions []condition) bool {
	for _, lower := range conditions {
		for _, upper := range conditions {
			if lower.isLower() && upper.isUpper() && lower.values != nil && upper.values != nil && lower.as == upper.as &&
				lower.valid() && upper.valid() &&
				lower.excludes(upper) {
				return true
			}
		}
	}
	return false
}

// excludes reports whether no value meets both the condition, which is a lower bound, and an upper bound. If only integers count, as for
// nodes, that is so for Gt 1 and Lt 2, too.
func (c condition) excludes(upper condition) bool {
	order := compareAs(c.as, c.values[0], upper.values[0])
	if order > 0 || order == 0 && (c.isStrict() || upper.isStrict()) {
		return true
	}
	if !c.integers || !c.isStrict() || !upper.isStrict() {
		return false
	}
	low, lowErr := strconv.ParseInt(c.values[0], 10, 64)
	high, highErr := strconv.ParseInt(upper.values[0], 10, 64)
	return lowErr == nil && highErr == nil && high-low == 1
}

// readable reports whether Gt, Gte, Lt, and Lte can read a text as a value of a type; as a number for the type "".
func readable(as placementv1.ValueType, value string) bool {
	switch as {
	case placementv1.ValueTypeVersion:
		return isVersion(value)
	case placementv1.ValueTypeQuantity:
		return quantities.MatchString(value)
	default:
		return numbers.MatchString(value)
	}
}

// compareAs compares two readable values of a type. The result is that of cmp.Compare.
func compareAs(as placementv1.ValueType, a, b string) int {
	switch as {
	case placementv1.ValueTypeVersion:
		return slices.CompareFunc(versionNumbers(a), versionNumbers(b), func(a, b string) int {
			return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
		})
	case placementv1.ValueTypeQuantity:
		x, errX := numeral.Quantity(a)
		y, errY := numeral.Quantity(b)
		if errX != nil || errY != nil {
			return 0
		}
		return x.Cmp(y)
	default:
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		return x.Cmp(y)
	}
}
