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
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/test/budget"
)

// many returns a rule with more types than an item can be indexed by.
func (g generator) many() placementv1.ResourceRule {
	rule := g.rule()
	for i := range 30 {
		rule.APIGroups = append(rule.APIGroups, fmt.Sprintf("g%d.example.com", i))
		rule.Resources = append(rule.Resources, fmt.Sprintf("r%d", i))
	}
	return rule
}

// TestIndexFindsWhatMatches checks that the index finds the same items as a search of all items, after any changes.
func TestIndexFindsWhatMatches(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(7, 8))}
	of := func(m *match.Matcher) *match.Matcher { return m }
	matched, found, asked, rounds := 0, 0, 0, budget.Rounds(15)
	for range rounds {
		index := match.NewIndex(of)
		all := map[*match.Matcher]bool{}
		for range 40 {
			for range g.IntN(4) {
				spec := g.match()
				if g.IntN(10) == 0 {
					spec.ResourceRules = append(spec.ResourceRules, g.many())
				}
				m, _ := match.New(spec, field.NewPath("match"))
				before := index
				all[m], index = true, index.With(m)
				if slices.Contains(before.CandidatesFor(g.resource()).Matching(g.request().object), m) {
					t.Fatal("a change shows in the index that it was made from")
				}
			}
			for m := range all {
				if g.IntN(8) == 0 {
					delete(all, m)
					index = index.Without(m)
				}
			}
			r := g.request().object
			if g.IntN(4) == 0 {
				r.Namespace = ""
			}
			candidates := index.CandidatesFor(r.Resource)
			selecting := slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(m *match.Matcher) bool { return m.SelectsResource(r.Resource) })
			if candidates.Empty() == selecting {
				t.Fatalf("some select %s: %t; the index has none: %t", r.Resource, selecting, candidates.Empty())
			}
			about := candidates.Matching(r)
			for m := range all {
				asked++
				matches, err := m.Matches(t.Context(), r)
				if matches || err != nil {
					matched++
					if !slices.Contains(about, m) {
						t.Fatalf("%+v\nmatches (%t, %v)\n%+v\nand is not found", m, matches, err, r)
					}
				}
			}
			for _, m := range about {
				found++
				if !all[m] || !m.SelectsResource(r.Resource) {
					t.Fatalf("finds what is gone (%t) or does not select %s", !all[m], r.Resource)
				}
			}
		}
		for m := range all {
			index = index.Without(m)
		}
		for range 10 {
			if !index.CandidatesFor(g.resource()).Empty() {
				t.Fatal("something is left of an index without items")
			}
		}
	}
	t.Logf("%d asked, %d found, %d match", asked, found, matched)
	if matched < 50*rounds/3 || found > asked/2 {
		t.Errorf("of %d, %d match and %d are found: the test is too weak", asked, matched, found)
	}
}

func requirement(key string, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values}
}

// TestIndexTellsItemsApart checks that few of 500 items that differ in one label are found for an object, whichever
// label it is and whatever other labels they all require.
func TestIndexTellsItemsApart(t *testing.T) {
	rules := []placementv1.ResourceRule{rule("apps", "v1", "deployments")}
	tests := map[string]func(i int) placementv1.Match{
		"Namespace": func(i int) placementv1.Match {
			return placementv1.Match{ResourceRules: rules, NamespaceSelector: selector("team", fmt.Sprint(i))}
		},
		"Object": func(i int) placementv1.Match {
			return placementv1.Match{ResourceRules: rules, ObjectSelector: selector("app", fmt.Sprint(i))}
		},
		"OneOfSeveral": func(i int) placementv1.Match {
			return placementv1.Match{ResourceRules: rules, NamespaceSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{requirement("team", fmt.Sprint(i), fmt.Sprint(i+1000))},
			}}
		},
		"BesidesOneForAll": func(i int) placementv1.Match {
			return placementv1.Match{ResourceRules: rules, NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{"env": "prod", "team": fmt.Sprint(i)},
			}, ObjectSelector: selector("tier", "front")}
		},
		"Type": func(i int) placementv1.Match {
			if i == 7 {
				return placementv1.Match{ResourceRules: rules}
			}
			return placementv1.Match{ResourceRules: []placementv1.ResourceRule{rule("apps", "v1", fmt.Sprintf("things%d", i))}}
		},
	}
	for name, spec := range tests {
		t.Run(name, func(t *testing.T) {
			index := match.NewIndex(func(m *match.Matcher) *match.Matcher { return m })
			for i := range 500 {
				index = index.With(compile(t, spec(i)))
			}
			o := match.Object{Resource: deployments, Namespace: "shop", NamespaceLabels: map[string]string{"env": "prod", "team": "7"}, Content: newObject(map[string]string{"app": "7", "tier": "front"})}
			about := index.CandidatesFor(o.Resource).Matching(o)
			// The first item may be found as well: the index had no other items when it chose the item's label.
			if len(about) > 2 {
				t.Errorf("finds %d of 500, of which one matches", len(about))
			}
			o.Old, o.Content = o.Content, newObject(nil)
			if again := index.CandidatesFor(o.Resource).Matching(o); len(again) == 0 {
				t.Error("finds nothing for an object that had the label before")
			}
		})
	}
}
