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
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/celexpression"
	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/suggest"
)

// constants warns of CEL expressions that have the same value for every object, or whose comparisons do not test what they seem to test.
func (v *validator) constants(rules []placementv1.Rule, path *field.Path) {
	for i, rule := range rules {
		if rule.When == nil || rule.When.Expression == "" {
			continue
		}
		at := path.Index(i).Child("when", "expression")
		for _, text := range celexpression.Mistakes(rule.When.Expression) {
			v.warn(at, "%s", text)
		}
		value, constant := celexpression.Constant(context.Background(), rule.When.Expression)
		if !constant {
			continue
		}
		others := *rule.When
		others.Expression = ""
		switch {
		case !value:
			v.warn(at, "is false for every object: rule %s never applies. Compare a field of object, as in object.metadata.name == 'shop'",
				rule.Name)
		case appliesToAll(&others) && rule.Otherwise != placementv1.RuleOtherwiseNextRule && i < len(rules)-1:
			v.warn(at, "is true for every object: rule %s applies to all objects, and the rules after it are never reached. Compare a field of "+
				"object, as in object.metadata.name == 'shop'", rule.Name)
		default:
			v.warn(at, "is true for every object, so that it has no effect: remove it, or compare a field of object, as in object.metadata.name "+
				"== 'shop'")
		}
	}
}

// order warns of fields of a rule for clusters without an effect: of prefer without weights and of minGain if the rule has neither limit
// nor maxDomains or maxClusters of spread, of weights with limit: 1, and of a minGain above 1 that is not greater than the least difference
// between two scores. It also warns of a minGain above the sum of all weights, which makes all clusters equal.
func (v *validator) order(rule placementv1.Rule, path *field.Path) {
	const limits = "Set limit, or maxDomains or maxClusters of spread"
	if !choosesBest(rule) {
		if len(rule.Prefer) > 0 && rule.Weights == "" {
			v.warn(path.Child("prefer"), "has no effect: the rule chooses all eligible clusters, and not the best of them. %s, or weights", limits)
		}
		if rule.MinGain > 0 {
			v.warn(path.Child("minGain"), "has no effect: the rule chooses all eligible clusters, and not the best of them. %s", limits)
		}
		return
	}
	if rule.Limit == 1 && rule.Weights != "" {
		v.warn(path.Child("weights"), "has no effect: limit is 1, and a single cluster has all replicas. Raise limit, or remove weights")
	}
	sum, step := scores(rule.Prefer)
	switch {
	case rule.MinGain > sum:
		v.warn(path.Child("minGain"), "is more than the sum of all weights, which is %d: all eligible clusters are equally good, and prefer "+
			"chooses none of them first. Lower or remove it", sum)
	case rule.MinGain > 1 && rule.MinGain <= step:
		v.warn(path.Child("minGain"), "has no effect: two different scores differ by at least %d. Raise it above that to ignore smaller "+
			"differences, or remove it", step)
	}
}

// choosesBest reports whether a rule can leave out eligible clusters because others are better: it has limit, or maxDomains or maxClusters
// of spread.
func choosesBest(rule placementv1.Rule) bool {
	return rule.Limit > 0 || rule.Spread != nil && (rule.Spread.MaxDomains > 0 || rule.Spread.MaxClusters > 0)
}

// scores returns the highest score that preferences can give a cluster, which is the sum of their weights, and the least difference between
// two scores. Scores are the sums of any of the weights, so that for the weights 3 and 5 it is 2. With Most or Least, it is at most 1. Both
// are 0 without preferences.
func scores(prefer []placementv1.Preference) (sum, step int32) {
	possible := sets.New[int32](0)
	for _, p := range prefer {
		sum += p.Weight
		if isProportional(p.Operator) {
			// It gives any part of the weight.
			possible.Insert(1)
		}
		for score := range possible.Clone() {
			possible.Insert(score + p.Weight)
		}
	}
	step = sum
	sorted := sets.List(possible)
	for i := 1; i < len(sorted); i++ {
		step = min(step, sorted[i]-sorted[i-1])
	}
	return sum, step
}

// Volatile returns the preferences for the most or the least of a free resource or of a score, in rules for clusters that give weights, or
// choose only the best clusters without a minGain above 1. Free resources change with each pod, and scores with each report. So such a rule
// chooses another cluster for an object whenever that is a little better, or gives other weights.
func Volatile(rules []placementv1.Rule) []Compared {
	var out []Compared
	for i, rule := range rules {
		if !GivesClusters(rule) || rule.Weights == "" && (!choosesBest(rule) || rule.MinGain > 1) {
			continue
		}
		for j, p := range rule.Prefer {
			if (p.Free != "" || p.Score != "") && isProportional(p.Operator) {
				at := field.NewPath("spec", "rules").Index(i).Child("prefer").Index(j)
				out = append(out, Compared{Requirement: p.Requirement, Field: at, Preferred: true})
			}
		}
	}
	return out
}

// impossible warns of parts of a rule that contradict each other, so that no object, namespace, cluster, or node meets them.
func (v *validator) impossible(rule placementv1.Rule, path *field.Path) {
	if w := rule.When; w != nil {
		at, never := path.Child("when"), fmt.Sprintf("rule %s never applies", rule.Name)
		v.contradictions(selectorConditions(w.ObjectSelector, at.Child("objectSelector")), "object", never)
		v.contradictions(annotationConditions(w.Annotations, at.Child("annotations")), "object", never)
		v.contradictions(selectorConditions(w.NamespaceSelector, at.Child("namespaceSelector")), "namespace", never)
	}
	nodes, whose, consequence := false, "cluster", fmt.Sprintf("rule %s denies each object that it decides", rule.Name)
	switch {
	case rule.Candidates == placementv1.RuleCandidatesNodes:
		nodes, whose, consequence = true, "node", fmt.Sprintf("the pods of each object that rule %s decides stay pending", rule.Name)
	case rule.Otherwise == placementv1.RuleOtherwiseNextRule:
		consequence = fmt.Sprintf("rule %s leaves each object to the next rule", rule.Name)
	}
	v.contradictions(requirementConditions(rule.Require, path.Child("require"), nodes), whose, consequence)
}

// unlikely warns of values in a rule for clusters that no cluster is expected to have, and of tolerations of an effect that repels nothing,
// such as PreferNoSchedule, or that looks like a misspelled one.
func (v *validator) unlikely(rule placementv1.Rule, path *field.Path) {
	if rule.Candidates == placementv1.RuleCandidatesNodes {
		return
	}
	for i, q := range rule.Require {
		v.unlikelyValues(q, path.Child("require").Index(i).Child("values"))
		v.listed(q, path.Child("require").Index(i))
	}
	for i, p := range rule.Prefer {
		v.unlikelyValues(p.Requirement, path.Child("prefer").Index(i).Child("values"))
		v.listed(p.Requirement, path.Child("prefer").Index(i))
	}
	effects := slices.Concat(repelling, preferring)
	for i, t := range rule.Tolerate {
		at := path.Child("tolerate").Index(i).Child("effect")
		near, _ := suggest.Nearest(t.Effect, effects)
		switch {
		case slices.Contains(preferring, t.Effect):
			v.warn(at, "has no effect: taints with the effect %s repel nothing", t.Effect)
		case near != "":
			v.warn(at, "the effect %q is unknown; did you mean %q?", t.Effect, near)
		}
	}
}

// listed warns of a valueFrom with one of those annotations of Berth whose value is JSON, such as the list of clusters: no value of a
// cluster equals it.
func (v *validator) listed(q placementv1.Requirement, path *field.Path) {
	lists := []string{placementv1.ClustersAnnotation, placementv1.ClusterSharesAnnotation, placementv1.RequestedAnnotation}
	if q.ValueFrom != nil && slices.Contains(lists, q.ValueFrom.Annotation) {
		v.warn(path.Child("valueFrom", "annotation"), "no value of a cluster equals annotation %s, whose value is JSON. The clusters that a "+
			"developer lists in annotation %s narrow what policies allow, and need no requirement for that",
			q.ValueFrom.Annotation, placementv1.ClustersAnnotation)
	}
}

// bytesOf are the resources of clusters that are measured in bytes, beside huge pages.
var bytesOf = []string{string(corev1.ResourceMemory), string(corev1.ResourceStorage), string(corev1.ResourceEphemeralStorage)}

// fewBytes is an amount of memory or storage that every cluster exceeds.
var fewBytes = resource.MustParse("1Mi")

// fewerBytes warns of an amount of memory, storage, or huge pages above 0 and below 1Mi, which is so small that its unit is probably
// missing.
func (v *validator) fewerBytes(q placementv1.Requirement, path *field.Path) {
	name := q.Allocatable + q.Free
	if !slices.Contains(bytesOf, name) && !strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) {
		return
	}
	for i, value := range q.Values {
		if amount, err := numeral.Quantity(value); err == nil && amount.Sign() > 0 && amount.Cmp(fewBytes) < 0 {
			v.warn(path.Index(i), "%s is %s bytes, less than any cluster has: write a unit, as in %sGi", value, amount.AsDec().String(),
				strings.TrimRight(value, "mk"))
		}
	}
}

// manyCPUs is a number of CPUs, 10 million, that no cluster has.
var manyCPUs = resource.MustParse("10M")

// kibi is the least number that a unit of bytes, such as Ki, stands for. From this number on, a number of CPUs that is written with such a
// unit counts as a mistake.
const kibi = 1024

// ExceedsClusters reports whether a value is a number of allocatable or free CPUs that is more than any cluster has, so that its unit is
// probably a mistake: 10 million or more, or 1024 or more written with a unit such as Ki or Gi. It is false for other resources, and for a
// value that is no quantity.
func ExceedsClusters(q placementv1.Requirement, value string) bool {
	if q.Allocatable+q.Free != string(corev1.ResourceCPU) {
		return false
	}
	amount, err := numeral.Quantity(value)
	return err == nil && (amount.Cmp(manyCPUs) >= 0 || amount.Format == resource.BinarySI && amount.CmpInt64(kibi) >= 0)
}

// unitsOfBytes warns of each value that is a number of CPUs more than any cluster has: 10 million or more, or 1024 or more with a unit of
// bytes such as Gi. The warning says to write the number without the unit or, if it has none, a number of CPUs.
func (v *validator) unitsOfBytes(q placementv1.Requirement, path *field.Path) {
	for i, value := range q.Values {
		if !ExceedsClusters(q, value) {
			continue
		}
		// ExceedsClusters can read it.
		amount, _ := numeral.Quantity(value)
		meant := "write a number of CPUs, or of thousandths as in 500m"
		if number := strings.TrimRight(value, "KMGTPEki"); number != value {
			meant = "write the number without a unit, as in " + number
		}
		v.warn(path.Index(i), "%s is %s CPUs, more than any cluster has: %s", value, amount.AsDec().String(), meant)
	}
}

// unlikelyValues warns of values that clusters never have: amounts whose unit is probably missing or wrong and, for In and NotIn with
// fields and labels, patterns, placeholders, and parts of versions.
func (v *validator) unlikelyValues(q placementv1.Requirement, path *field.Path) {
	v.fewerBytes(q, path)
	v.unitsOfBytes(q, path)
	if q.Operator != placementv1.OperatorIn && q.Operator != placementv1.OperatorNotIn || q.Field == "" && q.Label == "" {
		return
	}
	for i, value := range q.Values {
		at := path.Index(i)
		switch {
		case strings.ContainsAny(value, "{}"):
			v.warn(at, "no cluster has %q: values have no placeholders. To take the value from the object, set valueFrom in place of values", value)
		case strings.Contains(value, "*"):
			v.warn(at, "no cluster has %q: In and NotIn compare whole texts, and * stands for itself. List the values, or compare a label that "+
				"these clusters share", value)
		case q.Field == placementv1.ClusterFieldVersion && versions.FindString(value) == value && strings.Count(value, ".") < 2:
			v.warn(at, "no cluster has the version %q: In and NotIn compare texts, and versions of clusters are such as v1.33.5. Compare with "+
				"Gte and Lt", value)
		}
	}
}
