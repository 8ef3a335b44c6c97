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
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Rules returns the rules of a policy. The API server's validation and the compiler accept them.
func (g *Generator) Rules() []placementv1.Rule {
	out := make([]placementv1.Rule, 1+g.random.IntN(3))
	for i := range out {
		out[i] = g.rule(fmt.Sprintf("r%d", i+1), i == len(out)-1)
		for i < len(out)-1 && hidesAll(out[i]) || hides(out[:i], out[i]) {
			out[i].When = g.when()
		}
	}
	return out
}

// hidesAll reports whether no rule after a rule can ever decide.
func hidesAll(r placementv1.Rule) bool {
	all := r.When == nil || isEmpty(r.When.ObjectSelector) && isEmpty(r.When.NamespaceSelector) && r.When.Annotations == nil &&
		r.When.Expression == ""
	return all && r.Otherwise != placementv1.RuleOtherwiseNextRule
}

// hides reports whether one of the rules has the condition of another.
func hides(rules []placementv1.Rule, by placementv1.Rule) bool {
	return slices.ContainsFunc(rules, func(r placementv1.Rule) bool { return equality.Semantic.DeepEqual(r.When, by.When) })
}

func isEmpty(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

func (g *Generator) rule(name string, last bool) placementv1.Rule {
	r := placementv1.Rule{Name: name}
	if g.chance(60) {
		r.When = g.when()
	}
	switch kind := g.random.IntN(100); {
	case kind < 8 && !last:
		// It exempts objects.
		return r
	case kind < 16:
		r.Deny = g.text()
		return r
	case kind < 24:
		r.Set = g.settings(false)
	case kind < 40:
		g.chooseNodes(&r)
	default:
		g.chooseClusters(&r, last)
	}
	if g.chance(20) {
		r.Warn = g.text()
	}
	return r
}

// text returns a text with placeholders that does not name clusters.
func (g *Generator) text() string {
	return pick(g, []string{
		"no", "{kind} {namespace}/{name}", "{{{name}}} }}{{", "tier {label:tier} or {annotation:example.com/level}", "{label:none}",
		`"quoted" \ %s {name}` + "\n`x`",
	})
}

func (g *Generator) settings(clusters bool) *placementv1.RuleSettings {
	out := &placementv1.RuleSettings{}
	for out.Annotations == nil && out.Labels == nil && out.NodeSelector == nil && out.PriorityClassName == "" && out.SchedulerName == "" {
		if g.chance(50) {
			out.Annotations = map[string]placementv1.RuleText{"example.com/note": placementv1.RuleText(g.text())}
			if clusters && g.chance(60) {
				out.Annotations["example.com/on"] = "on {clusters}"
			}
			if clusters && g.chance(60) {
				out.Annotations["example.com/list"] = "{clusters:json}"
			}
		}
		if g.chance(40) {
			out.Labels = map[string]placementv1.RuleText{"example.com/tier": pick(g,
				[]placementv1.RuleText{"{label:tier}", "x-{namespace}-x", "gold"})}
			if clusters && g.chance(25) {
				// It is no value of a label if there are several clusters.
				out.Labels["example.com/cluster"] = "{clusters}"
			}
		}
		if g.chance(30) {
			out.NodeSelector = map[string]placementv1.LabelValue{"disk": pick(g, []placementv1.LabelValue{"ssd", "hdd"})}
		}
		if g.chance(25) {
			out.PriorityClassName = "high"
		}
		if g.chance(25) {
			out.SchedulerName = "packing"
		}
	}
	return out
}

func (g *Generator) when() *placementv1.RuleCondition {
	out := &placementv1.RuleCondition{}
	parts := some(g, []string{"objectSelector", "annotations", "namespaceSelector", "expression"}, 2)
	if slices.Contains(parts, "objectSelector") {
		out.ObjectSelector = g.selector()
	}
	if slices.Contains(parts, "annotations") {
		for range 1 + g.random.IntN(2) {
			out.Annotations = append(out.Annotations, g.annotation())
		}
	}
	if slices.Contains(parts, "namespaceSelector") {
		out.NamespaceSelector = g.selector()
	}
	if slices.Contains(parts, "expression") {
		all := slices.DeleteFunc(slices.Sorted(maps.Keys(expressions)), func(e string) bool { return e == failingExpression })
		if out.Expression = pick(g, all); g.chance(10) {
			out.Expression = failingExpression
		}
	}
	return out
}

var selectorOperators = []metav1.LabelSelectorOperator{
	metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
}

func (g *Generator) selector() *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	if g.chance(40) {
		out.MatchLabels = map[string]string{keyTier: pick(g, tiers)}
	}
	for range g.random.IntN(2) {
		r := metav1.LabelSelectorRequirement{Key: keyTier, Operator: pick(g, selectorOperators)}
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
			r.Values = some(g, tiers, 2)
		}
		out.MatchExpressions = append(out.MatchExpressions, r)
	}
	return out
}

func (g *Generator) annotation() placementv1.AnnotationRequirement {
	out := placementv1.AnnotationRequirement{Key: pick(g, []string{keyTier, keyRegion}), Operator: pick(g, selectorOperators)}
	if out.Operator == metav1.LabelSelectorOpIn || out.Operator == metav1.LabelSelectorOpNotIn {
		pool := tiers
		if out.Key == keyRegion {
			pool = regions
		}
		out.Values = some(g, pool, 2)
	}
	return out
}

// chooseClusters sets the fields of a rule that gives clusters.
func (g *Generator) chooseClusters(r *placementv1.Rule, last bool) {
	if g.chance(20) {
		r.Candidates = placementv1.RuleCandidatesClusters
	}
	if g.chance(10) {
		// Many clusters are eligible, so that there are several turns.
		r.Tolerate = []placementv1.RuleToleration{{Operator: corev1.TolerationOpExists}}
		r.Spread = g.spread()
		r.Limit = int32(3 + g.random.IntN(4))
		if g.chance(30) {
			g.prefer(r)
		}
	}
	for len(r.Require) == 0 && len(r.Tolerate) == 0 && len(r.Prefer) == 0 && r.Spread == nil && r.Limit == 0 {
		g.chooseSome(r)
	}
	// The compiler refuses a limit that is less than what spread requires.
	if r.Spread != nil && r.Limit > 0 {
		r.Limit = max(r.Limit, max(r.Spread.MinDomains, 1)*max(r.Spread.MinClusters, 1))
	}
	if g.chance(25) {
		r.Set = g.settings(true)
	}
	if g.chance(30) {
		r.Message = g.text()
	}
	if !last && g.chance(50) {
		r.Otherwise = placementv1.RuleOtherwiseNextRule
	} else if g.chance(10) {
		r.Otherwise = placementv1.RuleOtherwiseDeny
	}
}

// chooseSome sets some of the fields of a rule by which it chooses clusters, or none.
func (g *Generator) chooseSome(r *placementv1.Rule) {
	if g.chance(60) {
		for range 1 + g.random.IntN(2) {
			r.Require = append(r.Require, g.requirement(g.subject()))
		}
	}
	if g.chance(50) {
		r.Tolerate = g.tolerations()
	}
	if g.chance(60) {
		g.prefer(r)
	}
	if g.chance(40) {
		r.Spread = g.spread()
	}
	if g.chance(45) {
		r.Limit = int32(1 + g.random.IntN(6))
	}
}

func (g *Generator) prefer(r *placementv1.Rule) {
	for range 1 + g.random.IntN(3) {
		r.Prefer = append(r.Prefer, placementv1.Preference{Requirement: g.preferred(), Weight: pick(g, []int32{1, 2, 5, 10, 100})})
		r.Prefer[len(r.Prefer)-1].Reason = ""
	}
	if g.chance(50) {
		r.MinGain = pick(g, []int32{1, 2, 3, 5, 10, 100})
	}
	if g.chance(40) {
		r.Weights = placementv1.RuleWeightsScore
	}
}

// preferred returns what a preference compares.
func (g *Generator) preferred() placementv1.Requirement {
	s, pool := g.subject()
	if s.Field != "" || g.chance(60) {
		return g.requirement(s, pool)
	}
	out := placementv1.Requirement{Subject: s, Operator: pick(g, proportional)}
	if s.Allocatable == "" && s.Free == "" && g.chance(50) {
		out.As = pick(g, []placementv1.ValueType{placementv1.ValueTypeNumber, placementv1.ValueTypeQuantity})
	}
	return out
}

func (g *Generator) spread() *placementv1.RuleSpread {
	s := pick(g, []placementv1.Subject{
		{Field: placementv1.ClusterFieldRegion}, {Field: placementv1.ClusterFieldZone}, {Field: placementv1.ClusterFieldProvider},
		{Label: keyTier}, {Property: keyTier}, {Property: keyFlag}, {Property: keyNumber}, {Property: keyOdd},
	})
	out := &placementv1.RuleSpread{Field: s.Field, Label: s.Label, Property: s.Property}
	for out.MinDomains == 0 && out.MaxDomains == 0 && out.MinClusters == 0 && out.MaxClusters == 0 {
		out.MinDomains, out.MaxDomains = g.bounds()
		out.MinClusters, out.MaxClusters = g.bounds()
	}
	return out
}

// bounds returns a lower and an upper bound, each of which may be unset.
func (g *Generator) bounds() (lower, upper int32) {
	if g.chance(40) {
		lower = int32(1 + g.random.IntN(2))
	}
	if g.chance(40) {
		upper = max(lower, 1) + int32(g.random.IntN(2))
	}
	return lower, upper
}

func (g *Generator) tolerations() []placementv1.RuleToleration {
	var out []placementv1.RuleToleration
	for range 1 + g.random.IntN(2) {
		t := placementv1.RuleToleration{Key: pick(g, taintKeys), Operator: pick(g, []corev1.TolerationOperator{"", "Equal", "Exists"})}
		switch {
		case t.Operator != "Exists":
			t.Value = pick(g, taintValues)
		case g.chance(40):
			t.Key = ""
		}
		if g.chance(40) {
			t.Effect = pick(g, effects)
		}
		out = append(out, t)
	}
	return out
}

// subject returns a subject of clusters, and the pool of values that it is compared with by In and NotIn.
func (g *Generator) subject() (placementv1.Subject, []string) {
	key := pick(g, keys)
	switch g.random.IntN(6) {
	case 0, 1:
		// Only versions are read as something else than numbers by default.
		field := pick(g, append(slices.Sorted(maps.Keys(fieldPools)), placementv1.ClusterFieldVersion, placementv1.ClusterFieldVersion,
			placementv1.ClusterFieldVersion))
		return placementv1.Subject{Field: field}, fieldPools[field]
	case 2:
		return placementv1.Subject{Label: key}, keyPools[key]
	case 3:
		return placementv1.Subject{Annotation: key}, keyPools[key]
	case 4:
		key = pick(g, append([]string{keyFlag, keyOdd, keyNumber, keyNumber}, keys...))
		return placementv1.Subject{Property: key}, keyPools[key]
	}
	if g.chance(30) {
		return placementv1.Subject{Score: pick(g, scoreNames)}, []string{"-100", "0", "1", "2", "100"}
	}
	if g.chance(50) {
		return placementv1.Subject{Allocatable: pick(g, resources)}, quantities
	}
	return placementv1.Subject{Free: pick(g, resources)}, quantities
}

var fieldPools = map[placementv1.ClusterField][]string{
	placementv1.ClusterFieldName: names, placementv1.ClusterFieldNamespace: {"", "fleet"}, placementv1.ClusterFieldSource: sources,
	placementv1.ClusterFieldRegion: regions, placementv1.ClusterFieldZone: zones, placementv1.ClusterFieldProvider: providers,
	placementv1.ClusterFieldVersion: versions, placementv1.ClusterFieldReady: {"true", "false"},
}

var keyPools = map[string][]string{
	keyTier: tiers, keyNumber: append([]string{"true", "1000000", "1000000000000000000000"}, numbers...),
	keyQuantity: quantities, keyVersion: versions,
	keyRegion: regions, keyZone: zones, keyFlag: {"true", "false"}, keyOdd: {"gold", special},
}

// proportional are the operators by which preferences compare clusters with each other.
var proportional = []placementv1.RequirementOperator{placementv1.OperatorMost, placementv1.OperatorLeast}

var orders = []placementv1.RequirementOperator{placementv1.OperatorGt, placementv1.OperatorGte, placementv1.OperatorLt,
	placementv1.OperatorLte}

// requirement returns a requirement of a subject. pool has the values of In and NotIn.
func (g *Generator) requirement(s placementv1.Subject, pool []string) placementv1.Requirement {
	operators := []placementv1.RequirementOperator{placementv1.OperatorExists, placementv1.OperatorDoesNotExist}
	// Quantities are not compared as texts.
	if s.Allocatable == "" && s.Free == "" {
		operators = append(operators, placementv1.OperatorIn, placementv1.OperatorNotIn)
	}
	if s.Field != placementv1.ClusterFieldZone && s.Field != placementv1.ClusterFieldReady {
		operators = append(operators, orders...)
	}
	r := placementv1.Requirement{Subject: s, Operator: pick(g, operators)}
	if g.chance(20) {
		r.Reason = pick(g, []string{"wrong tier", `too "low" \ {x}`})
	}
	ordered := slices.Contains(orders, r.Operator)
	switch {
	case r.Operator == placementv1.OperatorExists && s.Field == placementv1.ClusterFieldReady:
		// Exists is refused: clusters that are not ready meet it, too.
		r.Operator, r.Values = placementv1.OperatorIn, []string{"true"}
		return r
	case r.Operator == placementv1.OperatorExists || r.Operator == placementv1.OperatorDoesNotExist:
		return r
	case ordered:
		if g.chance(50) {
			r.As = pick(g, []placementv1.ValueType{placementv1.ValueTypeNumber, placementv1.ValueTypeQuantity, placementv1.ValueTypeVersion})
		}
		if r.As != "" && (s.Allocatable != "" || s.Free != "") {
			r.As = placementv1.ValueTypeQuantity
		}
		pool = map[placementv1.ValueType][]string{
			placementv1.ValueTypeNumber: numbers, placementv1.ValueTypeQuantity: quantities, placementv1.ValueTypeVersion: versions,
		}[valueType(&r)]
	}
	if g.chance(35) {
		r.ValueFrom = g.valueFrom(pool, keyWith(pool))
		return r
	}
	if r.Values = some(g, pool, 3); ordered {
		r.Values = r.Values[:1]
	}
	return r
}

// keyWith returns the key of objects whose values are those of a pool; keyTier if there is none.
func keyWith(pool []string) string {
	for _, key := range keys {
		if slices.Equal(keyPools[key], pool) {
			return key
		}
	}
	if slices.Equal(pool, numbers) || slices.Equal(pool, integers) {
		return keyNumber
	}
	return keyTier
}

func (g *Generator) valueFrom(pool []string, key string) *placementv1.ObjectValue {
	out := &placementv1.ObjectValue{}
	if g.chance(50) {
		out.Label = key
	} else {
		out.Annotation = key
	}
	if g.chance(50) {
		value := pick(g, pool)
		out.Default = &value
	}
	return out
}

// chooseNodes sets the fields of a rule with candidates: Nodes.
func (g *Generator) chooseNodes(r *placementv1.Rule) {
	r.Candidates = placementv1.RuleCandidatesNodes
	for len(r.Require) == 0 && len(r.Tolerate) == 0 && len(r.Prefer) == 0 && r.Spread == nil {
		if g.chance(60) {
			for range 1 + g.random.IntN(2) {
				r.Require = append(r.Require, g.nodeRequirement())
			}
		}
		if g.chance(40) {
			r.Tolerate = g.nodeTolerations()
		}
		if g.chance(50) {
			for range 1 + g.random.IntN(2) {
				r.Prefer = append(r.Prefer, placementv1.Preference{Requirement: g.nodeRequirement(), Weight: pick(g, []int32{1, 10, 100})})
			}
		}
		if g.chance(30) {
			s := pick(g, []placementv1.Subject{{Field: placementv1.ClusterFieldRegion}, {Field: placementv1.ClusterFieldZone}, {Label: keyTier}})
			r.Spread = &placementv1.RuleSpread{Field: s.Field, Label: s.Label, MinDomains: int32(1 + g.random.IntN(2))}
		}
	}
	if g.chance(30) {
		r.Set = g.settings(false)
	}
}

// nodeTolerations returns tolerations that are valid for pods.
func (g *Generator) nodeTolerations() []placementv1.RuleToleration {
	out := g.tolerations()
	for i := range out {
		if out[i].Effect != "" {
			out[i].Effect = pick(g, []string{"NoSchedule", "NoExecute", "PreferNoSchedule"})
		}
	}
	return out
}

func (g *Generator) nodeRequirement() placementv1.Requirement {
	var s placementv1.Subject
	pool, operators := tiers, []placementv1.RequirementOperator{placementv1.OperatorIn, placementv1.OperatorNotIn, placementv1.OperatorExists,
		placementv1.OperatorDoesNotExist}
	switch g.random.IntN(5) {
	case 0:
		s.Field, pool = placementv1.ClusterFieldName, names
		operators = operators[:2]
	case 1:
		s.Field, pool = placementv1.ClusterFieldRegion, regions
	case 2:
		s.Field, pool = placementv1.ClusterFieldZone, zones
	case 3:
		s.Label = keyTier
	case 4:
		s.Label, pool = keyNumber, integers
		operators = append(operators, orders...)
	}
	r := placementv1.Requirement{Subject: s, Operator: pick(g, operators)}
	switch {
	case r.Operator == placementv1.OperatorExists || r.Operator == placementv1.OperatorDoesNotExist:
	case g.chance(30):
		r.ValueFrom = g.valueFrom(pool, keyWith(pool))
	default:
		// The name is compared with one name.
		if r.Values = some(g, pool, 3); slices.Contains(orders, r.Operator) || s.Field == placementv1.ClusterFieldName {
			r.Values = r.Values[:1]
		}
	}
	return r
}
