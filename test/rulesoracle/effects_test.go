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
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// least is how many of the first sets of rules have to depend on each construct.
const (
	least     = 2
	firstSets = 4000
)

// TestEveryConstructHasAnEffect checks that decisions of the sets of rules that TestModules compares depend on every construct: they
// are others without it. So a construct that the generator does not generate, or that the compiler ignores, fails a test.
func TestEveryConstructHasAnEffect(t *testing.T) {
	missing := constructs()
	counts := map[string]int{}
	for n := uint64(0); n < firstSets && len(missing) > 0; n++ {
		e := newExample(1 + n)
		before, other := e.fingerprints(), e.copy()
		for name, without := range missing {
			if !without(&other) {
				continue
			}
			if !slices.Equal(before, other.fingerprints()) {
				counts[name]++
			}
			if other = e.copy(); counts[name] == least {
				delete(missing, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("%d sets of rules depend on %s, must be %d", counts[name], name, least)
	}
}

// construct changes an example to one without a construct. It reports whether the example has the construct, and changes no other one.
type construct func(e *example) bool

// fingerprints returns the fingerprints of all decisions.
func (e example) fingerprints() (out []string) {
	for _, clusters := range e.clusters {
		for _, object := range e.objects {
			out = append(out, e.fingerprint(object, clusters))
		}
	}
	return out
}

// fingerprint returns a text that is the same for equal decisions.
func (e example) fingerprint(object map[string]any, clusters map[string]map[string]any) string {
	d := e.decide(object, clusters)
	text, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	for i := range e.rules {
		if rule := &e.rules[i]; rule.Name == d.Rule && rule.Candidates == placementv1.RuleCandidatesNodes {
			for _, node := range e.nodes {
				text = fmt.Appendf(text, "%t %d,", Fits(rule, object, node), Score(rule, object, node))
			}
		}
	}
	return string(text)
}

func (e example) copy() example {
	out := example{namespaces: maps.Clone(e.namespaces), nodes: e.nodes}
	for _, rule := range e.rules {
		out.rules = append(out.rules, *rule.DeepCopy())
	}
	for _, object := range e.objects {
		out.objects = append(out.objects, runtime.DeepCopyJSON(object))
	}
	for _, clusters := range e.clusters {
		copied := map[string]map[string]any{}
		for name, document := range clusters {
			copied[name] = runtime.DeepCopyJSON(document)
		}
		out.clusters = append(out.clusters, copied)
	}
	return out
}

// constructs returns all constructs, by name.
func constructs() map[string]construct {
	out := map[string]construct{}
	maps.Copy(out, conditions())
	maps.Copy(out, requirements())
	maps.Copy(out, choices())
	maps.Copy(out, outcomes())
	maps.Copy(out, documents())
	return out
}

// inRules returns a construct of rules.
func inRules(change func(r *placementv1.Rule) bool) construct {
	return func(e *example) bool {
		found := false
		for i := range e.rules {
			found = change(&e.rules[i]) || found
		}
		return found
	}
}

// without removes the items of a list that match, and reports whether there were any.
func without[T any](list *[]T, matches func(T) bool) bool {
	before := len(*list)
	*list = slices.DeleteFunc(*list, matches)
	return len(*list) < before
}

// zero sets a value to its zero value, and reports whether it had another one.
func zero[T comparable](value *T) bool {
	var none T
	had := *value != none
	*value = none
	return had
}

func conditions() map[string]construct {
	out := map[string]construct{
		"when.objectSelector.matchLabels": inRules(func(r *placementv1.Rule) bool {
			found := r.When != nil && r.When.ObjectSelector != nil && len(r.When.ObjectSelector.MatchLabels) > 0
			if found {
				r.When.ObjectSelector.MatchLabels = nil
			}
			return found
		}),
		"when.namespaceSelector": inRules(func(r *placementv1.Rule) bool { return r.When != nil && zero(&r.When.NamespaceSelector) }),
		"an expression that fails": inRules(func(r *placementv1.Rule) bool {
			return r.When != nil && r.When.Expression == failingExpression && zero(&r.When.Expression)
		}),
		"a rule that exempts": func(e *example) bool {
			return without(&e.rules, func(r placementv1.Rule) bool {
				return r.Deny == "" && r.Set == nil && r.Warn == "" && r.Candidates == "" && !choose(&r, nil, nil).given
			})
		},
	}
	for _, operator := range selectorOperators {
		out["when.objectSelector "+string(operator)] = inRules(func(r *placementv1.Rule) bool {
			return r.When != nil && r.When.ObjectSelector != nil &&
				without(&r.When.ObjectSelector.MatchExpressions, func(q metav1.LabelSelectorRequirement) bool { return q.Operator == operator })
		})
		out["when.annotations "+string(operator)] = inRules(func(r *placementv1.Rule) bool {
			return r.When != nil && without(&r.When.Annotations, func(q placementv1.AnnotationRequirement) bool { return q.Operator == operator })
		})
	}
	for expression := range expressions {
		out["when.expression "+expression] = inRules(func(r *placementv1.Rule) bool {
			return r.When != nil && r.When.Expression == expression && zero(&r.When.Expression)
		})
	}
	return out
}

// requirementConstruct is a construct of requirements. It changes a requirement to one without the construct, and reports whether the
// requirement has it, and whether it is to be removed.
type requirementConstruct func(r *placementv1.Requirement) (has, remove bool)

// inRequirements returns the construct in the requirements of clusters or nodes, or in the preferences.
func inRequirements(nodes, prefer bool, change requirementConstruct) construct {
	return inRules(func(r *placementv1.Rule) bool {
		if nodes != (r.Candidates == placementv1.RuleCandidatesNodes) {
			return false
		}
		found := false
		keep := func(q *placementv1.Requirement) bool {
			has, remove := change(q)
			found = found || has
			return !has || !remove
		}
		if prefer {
			var out []placementv1.Preference
			for _, p := range r.Prefer {
				if keep(&p.Requirement) {
					out = append(out, p)
				}
			}
			r.Prefer = out
			return found
		}
		var out []placementv1.Requirement
		for _, q := range r.Require {
			if keep(&q) {
				out = append(out, q)
			}
		}
		r.Require = out
		return found
	})
}

// matching returns the construct that is requirements that match.
func matching(matches func(r *placementv1.Requirement) bool) requirementConstruct {
	return func(r *placementv1.Requirement) (has, remove bool) { return matches(r), true }
}

func requirements() map[string]construct {
	ofAll, ofClusters := map[string]requirementConstruct{}, map[string]requirementConstruct{
		"annotation":  matching(func(r *placementv1.Requirement) bool { return r.Annotation != "" }),
		"property":    matching(func(r *placementv1.Requirement) bool { return r.Property != "" }),
		"allocatable": matching(func(r *placementv1.Requirement) bool { return r.Allocatable != "" }),
		"free":        matching(func(r *placementv1.Requirement) bool { return r.Free != "" }),
		"score":       matching(func(r *placementv1.Requirement) bool { return r.Score != "" }),
		"the default of as": func(r *placementv1.Requirement) (has, remove bool) {
			has = slices.Contains(orders, r.Operator) && r.As == "" && r.Field == placementv1.ClusterFieldVersion
			if has {
				r.As = placementv1.ValueTypeNumber
			}
			return has, false
		},
	}
	ofAll["label"] = matching(func(r *placementv1.Requirement) bool { return r.Label != "" })
	for _, operator := range allOperators {
		ofAll[string(operator)] = matching(func(r *placementv1.Requirement) bool { return r.Operator == operator })
	}
	// Equal values tell Gt from Gte, and Lt from Lte.
	for operator, other := range map[placementv1.RequirementOperator]placementv1.RequirementOperator{
		placementv1.OperatorGt: placementv1.OperatorGte, placementv1.OperatorLt: placementv1.OperatorLte,
	} {
		ofAll[fmt.Sprintf("%s in place of %s", operator, other)] = func(r *placementv1.Requirement) (has, remove bool) {
			if has = r.Operator == operator; has {
				r.Operator = other
			}
			return has, false
		}
	}
	for field := range fieldPools {
		construct := matching(func(r *placementv1.Requirement) bool { return r.Field == field })
		if nodeLabel(placementv1.Subject{Field: field}) != "" || field == placementv1.ClusterFieldName {
			ofAll["field "+string(field)] = construct
		} else {
			ofClusters["field "+string(field)] = construct
		}
	}
	for _, as := range []placementv1.ValueType{placementv1.ValueTypeNumber, placementv1.ValueTypeQuantity, placementv1.ValueTypeVersion} {
		ofClusters["as "+string(as)] = func(r *placementv1.Requirement) (has, remove bool) { return r.As == as && zero(&r.As), false }
	}
	for name, change := range map[string]func(from *placementv1.ObjectValue) bool{
		"valueFrom.label":      func(from *placementv1.ObjectValue) bool { return zero(&from.Label) },
		"valueFrom.annotation": func(from *placementv1.ObjectValue) bool { return zero(&from.Annotation) },
		"valueFrom.default":    func(from *placementv1.ObjectValue) bool { return zero(&from.Default) },
	} {
		ofAll[name] = func(r *placementv1.Requirement) (has, remove bool) {
			return r.ValueFrom != nil && change(r.ValueFrom), false
		}
	}
	isProportional := func(r *placementv1.Requirement) bool { return slices.Contains(proportional, r.Operator) }
	out := map[string]construct{
		"prefer the least in place of the most": inRequirements(false, true, func(r *placementv1.Requirement) (has, remove bool) {
			if has = r.Operator == placementv1.OperatorMost; has {
				r.Operator = placementv1.OperatorLeast
			}
			return has, false
		}),
		"prefer in proportion to quantities": inRequirements(false, true, func(r *placementv1.Requirement) (has, remove bool) {
			return isProportional(r) && r.As == placementv1.ValueTypeQuantity && zero(&r.As), false
		}),
		"prefer the most or the least of a score":      inRequirements(false, true, matching(func(r *placementv1.Requirement) bool { return isProportional(r) && r.Score != "" })),
		"prefer the most or the least of what is free": inRequirements(false, true, matching(func(r *placementv1.Requirement) bool { return isProportional(r) && r.Free != "" })),
		"require.reason": inRequirements(false, false, func(r *placementv1.Requirement) (has, remove bool) { return zero(&r.Reason), false }),
	}
	for _, operator := range proportional {
		out["prefer "+string(operator)] = inRequirements(false, true, matching(func(r *placementv1.Requirement) bool { return r.Operator == operator }))
	}
	for name, change := range ofAll {
		out["require "+name], out["prefer "+name] = inRequirements(false, false, change), inRequirements(false, true, change)
		out["require of nodes "+name], out["prefer of nodes "+name] = inRequirements(true, false, change), inRequirements(true, true, change)
	}
	for name, change := range ofClusters {
		out["require "+name], out["prefer "+name] = inRequirements(false, false, change), inRequirements(false, true, change)
	}
	return out
}

var allOperators = append([]placementv1.RequirementOperator{
	placementv1.OperatorIn, placementv1.OperatorNotIn, placementv1.OperatorExists, placementv1.OperatorDoesNotExist,
}, orders...)

// choices returns the constructs of rules that choose among clusters, and of tolerations.
func choices() map[string]construct {
	spread := func(change func(s *placementv1.RuleSpread) bool) construct {
		return inRules(func(r *placementv1.Rule) bool {
			return r.Spread != nil && r.Candidates != placementv1.RuleCandidatesNodes && change(r.Spread)
		})
	}
	spreadBy := func(matches func(s *placementv1.RuleSpread) bool) construct {
		return inRules(func(r *placementv1.Rule) bool { return r.Spread != nil && matches(r.Spread) && zero(&r.Spread) })
	}
	tolerate := func(matches func(t placementv1.RuleToleration) bool) construct {
		return inRules(func(r *placementv1.Rule) bool {
			return r.Candidates != placementv1.RuleCandidatesNodes && without(&r.Tolerate, matches)
		})
	}
	out := map[string]construct{
		"prefer": inRules(func(r *placementv1.Rule) bool {
			return len(r.Prefer) > 0 && without(&r.Prefer, func(placementv1.Preference) bool { return true })
		}),
		"minGain":            inRules(func(r *placementv1.Rule) bool { return zero(&r.MinGain) }),
		"weights":            inRules(func(r *placementv1.Rule) bool { return zero(&r.Weights) }),
		"limit":              inRules(func(r *placementv1.Rule) bool { return zero(&r.Limit) }),
		"spread.minDomains":  spread(func(s *placementv1.RuleSpread) bool { return zero(&s.MinDomains) }),
		"spread.maxDomains":  spread(func(s *placementv1.RuleSpread) bool { return zero(&s.MaxDomains) }),
		"spread.minClusters": spread(func(s *placementv1.RuleSpread) bool { return zero(&s.MinClusters) }),
		"spread.maxClusters": spread(func(s *placementv1.RuleSpread) bool { return zero(&s.MaxClusters) }),
		"spread.label":       spreadBy(func(s *placementv1.RuleSpread) bool { return s.Label != "" }),
		"spread.property":    spreadBy(func(s *placementv1.RuleSpread) bool { return s.Property != "" }),
		"limit with spread":  inRules(func(r *placementv1.Rule) bool { return r.Spread != nil && zero(&r.Limit) }),
		"limit with prefer": inRules(func(r *placementv1.Rule) bool {
			return r.Limit > 0 && without(&r.Prefer, func(placementv1.Preference) bool { return true })
		}),
		"tolerate key":        tolerate(func(t placementv1.RuleToleration) bool { return t.Key != "" }),
		"tolerate every key":  tolerate(func(t placementv1.RuleToleration) bool { return t.Key == "" }),
		"tolerate Exists":     tolerate(func(t placementv1.RuleToleration) bool { return t.Operator == corev1.TolerationOpExists }),
		"tolerate Equal":      tolerate(func(t placementv1.RuleToleration) bool { return t.Operator == corev1.TolerationOpEqual }),
		"tolerate by default": tolerate(func(t placementv1.RuleToleration) bool { return t.Operator == "" }),
		"tolerate a value":    tolerate(func(t placementv1.RuleToleration) bool { return t.Value != "" }),
		"tolerate without value": tolerate(func(t placementv1.RuleToleration) bool {
			return t.Value == "" && t.Operator != corev1.TolerationOpExists
		}),
		"tolerate effect": inRules(func(r *placementv1.Rule) bool {
			found := false
			for i := range r.Tolerate {
				found = r.Candidates != placementv1.RuleCandidatesNodes && zero(&r.Tolerate[i].Effect) || found
			}
			return found
		}),
	}
	for _, field := range []placementv1.ClusterField{placementv1.ClusterFieldRegion, placementv1.ClusterFieldZone, placementv1.ClusterFieldProvider} {
		out["spread.field "+string(field)] = spreadBy(func(s *placementv1.RuleSpread) bool { return s.Field == field })
	}
	return out
}

// outcomes returns the constructs of what objects get.
func outcomes() map[string]construct {
	set := func(change func(s *placementv1.RuleSettings) bool) construct {
		return inRules(func(r *placementv1.Rule) bool { return r.Set != nil && change(r.Set) })
	}
	nodes := func(change func(r *placementv1.Rule) bool) construct {
		return inRules(func(r *placementv1.Rule) bool { return r.Candidates == placementv1.RuleCandidatesNodes && change(r) })
	}
	out := map[string]construct{
		"set.annotations":       set(func(s *placementv1.RuleSettings) bool { return len(s.Annotations) > 0 && unset(&s.Annotations) }),
		"set.labels":            set(func(s *placementv1.RuleSettings) bool { return len(s.Labels) > 0 && unset(&s.Labels) }),
		"set.nodeSelector":      set(func(s *placementv1.RuleSettings) bool { return len(s.NodeSelector) > 0 && unset(&s.NodeSelector) }),
		"set.priorityClassName": set(func(s *placementv1.RuleSettings) bool { return zero(&s.PriorityClassName) }),
		"set.schedulerName":     set(func(s *placementv1.RuleSettings) bool { return zero(&s.SchedulerName) }),
		"warn":                  inRules(func(r *placementv1.Rule) bool { return zero(&r.Warn) }),
		"deny":                  inRules(func(r *placementv1.Rule) bool { return zero(&r.Deny) }),
		"message":               inRules(func(r *placementv1.Rule) bool { return zero(&r.Message) }),
		"otherwise: NextRule": inRules(func(r *placementv1.Rule) bool {
			return r.Otherwise == placementv1.RuleOtherwiseNextRule && zero(&r.Otherwise)
		}),
		"candidates: Nodes": nodes(func(r *placementv1.Rule) bool { return zero(&r.Candidates) }),
		"tolerate of nodes": nodes(func(r *placementv1.Rule) bool {
			return without(&r.Tolerate, func(placementv1.RuleToleration) bool { return true })
		}),
		"spread of nodes":     nodes(func(r *placementv1.Rule) bool { return zero(&r.Spread) }),
		"minDomains of nodes": nodes(func(r *placementv1.Rule) bool { return r.Spread != nil && zero(&r.Spread.MinDomains) }),
	}
	for _, placeholder := range []string{"{kind}", "{namespace}", "{name}", "{label:tier}", "{annotation:example.com/level}", "{clusters}", "{clusters:json}", "{{", "}}"} {
		out["the placeholder "+placeholder] = inRules(func(r *placementv1.Rule) bool {
			found := false
			cut := func(text string) string {
				found = found || strings.Contains(text, placeholder)
				return strings.ReplaceAll(text, placeholder, "")
			}
			r.Warn, r.Deny, r.Message = cut(r.Warn), cut(r.Deny), cut(r.Message)
			if r.Set != nil {
				for _, texts := range []map[string]placementv1.RuleText{r.Set.Annotations, r.Set.Labels} {
					for key, text := range texts {
						texts[key] = placementv1.RuleText(cut(string(text)))
					}
				}
			}
			return found
		})
	}
	return out
}

func unset[M ~map[string]V, V any](m *M) bool {
	*m = nil
	return true
}

// documents returns what clusters, objects, and namespaces may have.
func documents() map[string]construct {
	inClusters := func(change func(c map[string]any) bool) construct {
		return func(e *example) bool {
			found := false
			for _, clusters := range e.clusters {
				for _, c := range clusters {
					found = change(c) || found
				}
			}
			return found
		}
	}
	inObjects := func(change func(o, meta map[string]any) bool) construct {
		return func(e *example) bool {
			found := false
			for _, o := range e.objects {
				found = change(o, o["metadata"].(map[string]any)) || found
			}
			return found
		}
	}
	// replaced replaces the values of labels, annotations, or properties that match.
	replaced := func(document, key string, with any, matches func(value any) bool) construct {
		return inClusters(func(c map[string]any) bool {
			values, _ := c[document].(map[string]any)
			value, ok := values[key]
			if !ok || !matches(value) {
				return false
			}
			values[key] = with
			return true
		})
	}
	unreadable := func(as placementv1.ValueType) func(value any) bool {
		return func(value any) bool {
			text, ok := value.(string)
			_, readable := compare(as, text, text)
			return ok && !readable
		}
	}
	// readable replaces the values of an object that can't be read.
	readable := func(key, with string, as placementv1.ValueType) construct {
		return inObjects(func(_, meta map[string]any) bool {
			found := false
			for _, document := range []string{"labels", "annotations"} {
				values, _ := meta[document].(map[string]any)
				if value, ok := values[key]; ok && unreadable(as)(value) {
					values[key], found = with, true
				}
			}
			return found
		})
	}
	out := map[string]construct{
		"an ambiguous name": inClusters(func(c map[string]any) bool {
			_, found := c[Twin]
			delete(c, Twin)
			return found
		}),
		"a cluster that is being deleted": inClusters(func(c map[string]any) bool {
			found := c["terminating"] == true
			c["terminating"] = false
			return found
		}),
		"an unreadable number of an object":   readable(keyNumber, "2", placementv1.ValueTypeNumber),
		"an unreadable quantity of an object": readable(keyQuantity, "2", placementv1.ValueTypeQuantity),
		"an unreadable version of an object":  readable(keyVersion, "1.30", placementv1.ValueTypeVersion),
		"several zones": inClusters(func(c map[string]any) bool {
			zones, _ := c["zones"].([]any)
			if len(zones) < 2 {
				return false
			}
			c["zones"] = zones[:1]
			return true
		}),
		"an integer as a property": replaced("properties", keyNumber, "x", func(value any) bool { _, ok := value.(int64); return ok }),
		"a fraction as a property": replaced("properties", keyNumber, "x", func(value any) bool { _, ok := value.(float64); return ok }),
		"a boolean as a property":  replaced("properties", keyFlag, "x", func(value any) bool { _, ok := value.(bool); return ok }),
		"a list as a property":     replaced("properties", keyOdd, "gold", func(value any) bool { _, ok := value.([]any); return ok }),
		"an object as a property":  replaced("properties", keyOdd, "gold", func(value any) bool { _, ok := value.(map[string]any); return ok }),
		"null as a property":       replaced("properties", keyOdd, "gold", func(value any) bool { return value == nil }),
		"an unreadable number":     replaced("labels", keyNumber, "2", unreadable(placementv1.ValueTypeNumber)),
		"an unreadable quantity":   replaced("labels", keyQuantity, "2", unreadable(placementv1.ValueTypeQuantity)),
		"an unreadable version":    replaced("labels", keyVersion, "1.30", unreadable(placementv1.ValueTypeVersion)),
		"a number as an amount":    replaced("allocatable", string(corev1.ResourceCPU), "x", func(value any) bool { _, ok := value.(int64); return ok }),
		"an unreadable amount":     replaced("allocatable", string(corev1.ResourceCPU), "2", unreadable(placementv1.ValueTypeQuantity)),
		"an unknown amount that is allocated": inClusters(func(c map[string]any) bool {
			allocated, ok := c["allocated"].(map[string]any)
			if _, known := allocated[string(corev1.ResourceCPU)]; !ok || known {
				return false
			}
			allocated[string(corev1.ResourceCPU)] = "1k"
			return true
		}),
		"no report of what is allocated": inClusters(func(c map[string]any) bool {
			_, ok := c["allocated"]
			if !ok {
				c["allocated"] = map[string]any{"memory": "1"}
			}
			return !ok
		}),
		"a taint without an effect": inTaints(inClusters, func(taint map[string]any) bool {
			_, ok := taint["effect"]
			taint["effect"] = "PreferNoSchedule"
			return !ok
		}),
		"a Namespace": inObjects(func(o, _ map[string]any) bool {
			found := o["kind"] == "Namespace" && o["apiVersion"] == "v1"
			if found {
				o["apiVersion"] = "example.com/v1"
			}
			return found
		}),
		"another kind of this name": inObjects(func(o, _ map[string]any) bool {
			found := o["kind"] == "Namespace" && o["apiVersion"] != "v1"
			if found {
				o["apiVersion"] = "v1"
			}
			return found
		}),
		"a cluster-scoped object": inObjects(func(o, meta map[string]any) bool {
			if o["kind"] != "Widget" {
				return false
			}
			meta["namespace"] = namespaces[0]
			return true
		}),
		"generateName": inObjects(func(_, meta map[string]any) bool {
			_, ok := meta["generateName"]
			delete(meta, "generateName")
			return ok
		}),
		"a namespace that does not exist": func(e *example) bool {
			e.namespaces[namespaces[2]] = map[string]string{keyTier: "gold"}
			return true
		},
	}
	for _, effect := range effects {
		harmless := effect == "PreferNoSchedule" || effect == "PreferNoSelect"
		out["the effect "+effect] = inTaints(inClusters, func(taint map[string]any) bool {
			if taint["effect"] != effect {
				return false
			}
			taint["effect"] = "PreferNoSchedule"
			if harmless {
				taint["effect"] = "NoSchedule"
			}
			return true
		})
	}
	return out
}

// inTaints returns a construct of the taints of clusters.
func inTaints(inClusters func(func(map[string]any) bool) construct, change func(taint map[string]any) bool) construct {
	return inClusters(func(c map[string]any) bool {
		found := false
		taints, _ := c["taints"].([]any)
		for _, taint := range taints {
			found = change(taint.(map[string]any)) || found
		}
		return found
	})
}
