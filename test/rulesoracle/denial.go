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

package rulesoracle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// denial returns the message for an object for which a rule finds too few clusters. docs/rules.md has the form, and leaves the words
// to the compiler.
func denial(rule *placementv1.Rule, object map[string]any, c choice) string {
	text := beginOfDenial(rule, object) + fmt.Sprintf("%d/%d clusters are eligible", c.eligible, c.total)
	if s := rule.Spread; s != nil && max(s.MinDomains, s.MinClusters) > 1 {
		text += fmt.Sprintf(" in %d of at least %d required domains by %s", c.domains, max(s.MinDomains, 1), noun(spreadSubject(s)))
	}
	if c.total == 0 && len(c.ambiguous) == 0 {
		text += ": no inventory has a cluster"
	}
	counts := map[string]int{}
	for _, l := range withoutVariedValues(c.lacks) {
		counts[reason(rule, object, l)]++
	}
	reasons := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var groups []string
	others := 0
	for i, reason := range reasons {
		if i < 5 {
			groups = append(groups, fmt.Sprintf("%d %s", counts[reason], reason))
		} else {
			others += counts[reason]
		}
	}
	if others > 0 {
		groups = append(groups, fmt.Sprintf("%d for other reasons", others))
	}
	if len(groups) > 0 {
		text += ": " + strings.Join(groups, ", ")
	}
	sentences := append([]string{text}, c.ambiguous[:min(len(c.ambiguous), 3)]...)
	if more := len(c.ambiguous) - 3; more > 0 {
		sentences = append(sentences, fmt.Sprintf("%d more are ambiguous", more))
	}
	return strings.Join(sentences, "; ")
}

// withoutVariedValues returns what clusters lack, with taints without their value where several clusters have a taint with the same key and
// effect, and not all of these have the same value.
func withoutVariedValues(lacks []lack) []lack {
	out := slices.Clone(lacks)
	for i, l := range lacks {
		varies := l.taint != nil && slices.ContainsFunc(lacks, func(other lack) bool {
			return other.taint != nil && other.taint.key == l.taint.key && other.taint.effect == l.taint.effect && other.taint.value != l.taint.value
		})
		if varies {
			out[i].taint = &taint{key: l.taint.key, effect: l.taint.effect}
		}
	}
	return out
}

// ambiguity returns the sentence about a name that two clusters have.
func ambiguity(name string, one, other map[string]any) string {
	var objects []string
	for _, cluster := range []map[string]any{one, other} {
		object := fmt.Sprint(cluster["source"], " ")
		if cluster["namespace"] != "" {
			object += fmt.Sprint(cluster["namespace"], "/")
		}
		objects = append(objects, object+name)
	}
	slices.Sort(objects)
	return fmt.Sprintf("cluster %s is ambiguous: %s have this name", name, strings.Join(objects, " and "))
}

// beginOfDenial returns what precedes the reasons for which a rule denies an object.
func beginOfDenial(rule *placementv1.Rule, object map[string]any) string {
	text := "rule " + rule.Name + ": "
	if rule.Message != "" {
		text += expand(rule.Message, object, nil) + ": "
	}
	return text
}

// forms are what values of an object must be.
var forms = map[placementv1.ValueType]string{
	placementv1.ValueTypeNumber:   "must be a number, such as 2 or 0.5",
	placementv1.ValueTypeQuantity: "must be a quantity, such as 500m or 4Gi",
	placementv1.ValueTypeVersion:  "must be a version, such as 1.30",
}

// invalidValue words an error about a value of an object.
func invalidValue(from *placementv1.ObjectValue, value, form string) string {
	path := "metadata.annotations[" + from.Annotation + "]"
	if from.Label != "" {
		path = "metadata.labels[" + from.Label + "]"
	}
	return fmt.Sprintf("%s: Invalid value: %.64q: %s", path, value, form)
}

// reason says what a cluster lacks, after the number of such clusters.
func reason(rule *placementv1.Rule, object map[string]any, l lack) string {
	switch {
	case l.terminating:
		return "being deleted"
	case l.taint != nil:
		return "with untolerated taint " + l.taint.String()
	case l.requirement == len(rule.Require):
		return "without " + noun(spreadSubject(rule.Spread))
	}
	r := &rule.Require[l.requirement]
	values, ok := operands(r, object)
	if !ok {
		return "not comparable: the object has no " + noun(placementv1.Subject{Label: r.ValueFrom.Label, Annotation: r.ValueFrom.Annotation})
	}
	if r.Reason != "" {
		return r.Reason
	}
	return wording(r, values)
}

func wording(r *placementv1.Requirement, values []string) string {
	subject, list := noun(r.Subject), strings.Join(values, ", ")
	switch {
	case r.Operator == placementv1.OperatorExists:
		return "without " + subject
	case r.Operator == placementv1.OperatorDoesNotExist:
		return "with " + subject
	case r.Operator == placementv1.OperatorIn && len(values) > 1:
		return "with " + subject + " none of " + list
	case r.Operator == placementv1.OperatorIn:
		return "with " + subject + " not " + list
	case r.Operator == placementv1.OperatorNotIn && len(values) > 1:
		return "with " + subject + " one of " + list
	case r.Operator == placementv1.OperatorNotIn:
		return "with " + subject + " " + list
	}
	relation := map[placementv1.RequirementOperator]string{
		placementv1.OperatorGt: "above", placementv1.OperatorGte: "at least", placementv1.OperatorLt: "below", placementv1.OperatorLte: "at most",
	}[r.Operator]
	return fmt.Sprintf("with %s not %s %s", subject, relation, list)
}

// noun names a value of a cluster.
func noun(s placementv1.Subject) string {
	for _, one := range []struct{ name, key string }{
		{"label", s.Label}, {"annotation", s.Annotation}, {"property", s.Property}, {"allocatable", s.Allocatable},
		{"free", s.Free}, {"score", s.Score},
	} {
		if one.key != "" {
			return one.name + " " + one.key
		}
	}
	return string(s.Field)
}

func spreadSubject(s *placementv1.RuleSpread) placementv1.Subject {
	return placementv1.Subject{Field: s.Field, Label: s.Label, Property: s.Property}
}
