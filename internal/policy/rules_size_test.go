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

package policy

import (
	"fmt"
	"strings"
	"testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// largestRules are as many rules as a policy may have, with as much as a rule may have, and keys with a prefix of the given length. No
// two of them read the same label or annotation.
func largestRules(prefix int) []placementv1.Rule {
	out := make([]placementv1.Rule, 32)
	for i := range out {
		key := func(what string, j int) string {
			return fmt.Sprintf("%s.example.com/%s-%d-%d", strings.Repeat("a", prefix), what, i, j)
		}
		rule := placementv1.Rule{
			Name:  fmt.Sprintf("rule-%d", i),
			When:  &placementv1.RuleCondition{},
			Limit: 10, MinGain: 5, Weights: placementv1.RuleWeightsScore, Otherwise: placementv1.RuleOtherwiseNextRule,
			Spread: &placementv1.RuleSpread{Label: key("spread", 0), MinDomains: 2, MaxDomains: 4, MinClusters: 2, MaxClusters: 3},
			Set: &placementv1.RuleSettings{
				Annotations: map[string]placementv1.RuleText{}, Labels: map[string]placementv1.RuleText{}, NodeSelector: map[string]placementv1.LabelValue{},
				PriorityClassName: "high", SchedulerName: "batch",
			},
			Warn: "{name} of {label:team}", Message: "{name} of {annotation:team}",
		}
		if i == len(out)-1 {
			rule.Otherwise = ""
		}
		for j := range 16 {
			rule.When.Annotations = append(rule.When.Annotations, placementv1.AnnotationRequirement{Key: key("when", j), Operator: "Exists"})
			q := placementv1.Requirement{
				Subject: placementv1.Subject{Label: key("label", j)}, Operator: placementv1.OperatorGte,
				ValueFrom: &placementv1.ObjectValue{Annotation: key("require", j), Default: new("1")},
			}
			switch j % 4 {
			case 1:
				q.Subject = placementv1.Subject{Free: key("free", j)}
			case 2:
				q.Subject = placementv1.Subject{Field: placementv1.ClusterFieldVersion}
			case 3:
				q.Subject, q.Operator = placementv1.Subject{Property: key("property", j)}, placementv1.OperatorNotIn
			}
			rule.Require = append(rule.Require, q)
			q.ValueFrom = &placementv1.ObjectValue{Annotation: key("prefer", j), Default: new("1")}
			rule.Prefer = append(rule.Prefer, placementv1.Preference{Requirement: q, Weight: 3})
			rule.Tolerate = append(rule.Tolerate, placementv1.RuleToleration{Key: key("taint", j), Value: "v", Effect: "NoSchedule"})
		}
		for j := range 32 {
			rule.Set.Annotations[key("set", j)] = "{clusters} for {name}"
			rule.Set.Labels[key("set", j)] = "{namespace}"
			rule.Set.NodeSelector[key("set", j)] = "v"
		}
		out[i] = rule
	}
	return out
}

// The largest rules compile, and what they read is known in full. Of each of the 32 rules, 6 parts are cacheable: those that do not read
// the path of the object.
func TestLargestRules(t *testing.T) {
	spec := placementv1.PlacementPolicySpec{Rules: largestRules(40)}
	m, err := Compile("largest", spec)
	if err != nil {
		t.Fatalf("%.1000v", err)
	}
	if m.Input.IsAll() || m.Data.IsAll() || len(m.CacheableRules) != 194 {
		t.Errorf("reads all of the input: %t, all data: %t; %d rules are cacheable", m.Input.IsAll(), m.Data.IsAll(), len(m.CacheableRules))
	}
}

// Rules with still longer texts are refused.
func TestLongRulesAreRefused(t *testing.T) {
	rules := largestRules(40)
	for i := range rules {
		for key := range rules[i].Set.Annotations {
			rules[i].Set.Annotations[key] = placementv1.RuleText(strings.Repeat("x", 1024))
		}
	}
	rules[7].Warn = strings.Repeat("y", 1024)
	_, err := Compile("long", placementv1.PlacementPolicySpec{Rules: rules})
	for _, want := range []string{"spec.rules: ", "KiB of Rego, and at most 1536 KiB are compiled", "The longest one is rule-7, with "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %.500v, want it to contain %q", err, want)
		}
	}
}
