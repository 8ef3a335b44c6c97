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
	"iter"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// labelled are the labels of namespaces by name.
type labelled map[string]map[string]string

func (l labelled) All(context.Context) (iter.Seq2[string, map[string]string], error) {
	return maps.All(l), nil
}

// TestIdleRules checks which labels that only a namespace has a rule may have meant.
func TestIdleRules(t *testing.T) {
	namespaces := labelled{"shop": {"team": "why", "env": "prod"}, "bank": {"team": "bank"}, "berth": {"own": "x"}}
	for name, test := range map[string]struct {
		when *placementv1.RuleCondition
		want string
	}{
		"Everything": {nil, ""},
		"Label": {
			&placementv1.RuleCondition{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", "team": "why"}}},
			`spec.rules[0].when.objectSelector: rule a decides none of the objects that the policy matches, and it selects objects with label team, which namespace shop has ("why"): ` +
				`to select by the labels of the namespace, move the label to spec.rules[0].when.namespaceSelector`,
		},
		"Name": {
			&placementv1.RuleCondition{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"namespace": "bank"}}},
			"it selects objects with label namespace=bank, which objects of namespace bank do not have by themselves: to select by the name of the namespace, " +
				"use spec.rules[0].when.namespaceSelector with the label kubernetes.io/metadata.name",
		},
		"OtherName":  {&placementv1.RuleCondition{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"namespace": "other"}}}, ""},
		"OtherValue": {&placementv1.RuleCondition{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "other"}}}, ""},
		"Exists": {
			&placementv1.RuleCondition{ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpExists}}}},
			"label env, which namespace shop has",
		},
		"NotIn": {
			&placementv1.RuleCondition{ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"dev"}}}}}, "",
		},
		"OwnNamespace": {&placementv1.RuleCondition{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"own": "x"}}}, ""},
	} {
		m, errs := match.New(placementv1.Match{ResourceRules: []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}}}, matchPath)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		f := &Finder{Namespaces: namespaces, OwnNamespace: "berth"}
		got := f.findingsOfIdleRules(t.Context(), placementv1.PlacementPolicySpec{Rules: []placementv1.Rule{{Name: "a", When: test.when}}}, m)
		switch {
		case test.want == "" && len(got) == 0:
		case test.want == "" || len(got) != 1 || got[0].Rule != "a" || !strings.Contains(got[0].Message, test.want):
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
}

func TestRulesInsteadOfIdleOnes(t *testing.T) {
	selects := func(name, value string) placementv1.Rule {
		return placementv1.Rule{Name: name, When: &placementv1.RuleCondition{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": value}}}}
	}
	first, next := selects("first", "why"), selects("next", "why")
	first.Otherwise = placementv1.RuleOtherwiseNextRule
	list := []placementv1.Rule{{Name: "all", Otherwise: placementv1.RuleOtherwiseNextRule}, selects("other", "bank"), first, next, {Name: "rest"}}
	for i, want := range map[int]string{1: "all", 2: "all next", 3: "all first"} {
		if got := strings.Join(insteadOf(i, list), " "); got != want {
			t.Errorf("in place of rule %s, %q may decide, want %q", list[i].Name, got, want)
		}
	}
}
