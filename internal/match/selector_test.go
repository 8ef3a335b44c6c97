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

package match_test

import (
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/test/budget"
)

func TestSelectorImplies(t *testing.T) {
	const in, notIn, exists, absent = metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist
	type requirements = []metav1.LabelSelectorRequirement
	require := func(operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: "env", Operator: operator, Values: values}
	}
	other := metav1.LabelSelectorRequirement{Key: "tier", Operator: exists}
	for name, tc := range map[string]struct {
		narrow, wide requirements
		want         bool
	}{
		"everything":                   {nil, nil, true},
		"everything is wider":          {requirements{require(in, "prod")}, nil, true},
		"everything is not narrower":   {nil, requirements{require(in, "prod")}, false},
		"equal":                        {requirements{require(in, "a", "b")}, requirements{require(in, "b", "a", "a")}, true},
		"one of the values":            {requirements{require(in, "a")}, requirements{require(in, "a", "b")}, true},
		"more values":                  {requirements{require(in, "a", "b")}, requirements{require(in, "a")}, false},
		"another label":                {requirements{require(in, "a"), other}, requirements{require(in, "a")}, true},
		"without the other label":      {requirements{require(in, "a")}, requirements{require(in, "a"), other}, false},
		"intersection":                 {requirements{require(in, "a", "b"), require(in, "b", "c")}, requirements{require(in, "b")}, true},
		"a value is another":           {requirements{require(in, "a")}, requirements{require(notIn, "b")}, true},
		"a value is excluded":          {requirements{require(in, "a", "b")}, requirements{require(notIn, "b")}, false},
		"absent is another":            {requirements{require(absent)}, requirements{require(notIn, "b")}, true},
		"excluded":                     {requirements{require(notIn, "a", "b")}, requirements{require(notIn, "b")}, true},
		"excluded by two":              {requirements{require(notIn, "a"), require(notIn, "b")}, requirements{require(notIn, "a", "b")}, true},
		"excluded in part":             {requirements{require(notIn, "a")}, requirements{require(notIn, "a", "b")}, false},
		"a value exists":               {requirements{require(in, "a")}, requirements{require(exists)}, true},
		"exists":                       {requirements{require(exists)}, requirements{require(exists)}, true},
		"another value need not exist": {requirements{require(notIn, "a")}, requirements{require(exists)}, false},
		"absent":                       {requirements{require(absent)}, requirements{require(absent)}, true},
		"a value is not absent":        {requirements{require(in, "a")}, requirements{require(absent)}, false},
		"contradiction":                {requirements{require(in, "a"), require(in, "b")}, requirements{require(in, "c")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := match.SelectorImplies(&metav1.LabelSelector{MatchExpressions: tc.narrow}, &metav1.LabelSelector{MatchExpressions: tc.wide})
			if got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
	labelsOnly := &metav1.LabelSelector{MatchLabels: map[string]string{"env": "a"}}
	if expression := (&metav1.LabelSelector{MatchExpressions: requirements{require(in, "a")}}); !match.SelectorImplies(labelsOnly, expression) || !match.SelectorImplies(expression, labelsOnly) {
		t.Error("a match label is not the same as the expression that it is short for")
	}
	if !match.SelectorImplies(labelsOnly, nil) || match.SelectorImplies(nil, labelsOnly) {
		t.Error("a nil selector does not select everything")
	}
}

// TestSelectorImpliesIsSound compares random selectors on all labels of a small domain.
func TestSelectorImpliesIsSound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	keys, values := []string{"env", "tier"}, []string{"a", "b", "c"}
	selector := func() *metav1.LabelSelector {
		out := &metav1.LabelSelector{}
		for range random.IntN(4) {
			r := metav1.LabelSelectorRequirement{Key: keys[random.IntN(len(keys))]}
			switch random.IntN(4) {
			case 0:
				r.Operator = metav1.LabelSelectorOpExists
			case 1:
				r.Operator = metav1.LabelSelectorOpDoesNotExist
			default:
				r.Operator = []metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn}[random.IntN(2)]
				for range 1 + random.IntN(2) {
					r.Values = append(r.Values, values[random.IntN(len(values))])
				}
			}
			out.MatchExpressions = append(out.MatchExpressions, r)
		}
		return out
	}
	var domain []labels.Set
	for _, env := range append(values, "") {
		for _, tier := range append(values, "") {
			set := labels.Set{"env": env, "tier": tier}
			for key, value := range set {
				if value == "" {
					delete(set, key)
				}
			}
			domain = append(domain, set)
		}
	}
	implied := 0
	for range budget.Rounds(20_000) {
		narrow, wide := selector(), selector()
		if !match.SelectorImplies(narrow, wide) {
			continue
		}
		implied++
		selectsNarrow, err := metav1.LabelSelectorAsSelector(narrow)
		if err != nil {
			t.Fatal(err)
		}
		selectsWide, err := metav1.LabelSelectorAsSelector(wide)
		if err != nil {
			t.Fatal(err)
		}
		for _, set := range domain {
			if selectsNarrow.Matches(set) && !selectsWide.Matches(set) {
				t.Fatalf("%v meets %s, and does not meet %s", set, selectsNarrow, selectsWide)
			}
		}
	}
	if implied < 1000 {
		t.Errorf("only %d pairs are compared", implied)
	}
}
