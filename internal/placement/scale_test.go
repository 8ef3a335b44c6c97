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

package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/test/budget"
)

// ofTeam returns an enforced policy for Deployments in the namespaces of some teams.
func ofTeam(t testing.TB, name string, priority int32, teams ...string) *placement.Policy {
	t.Helper()
	m, errs := match.New(placementv1.Match{
		ResourceRules: []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}},
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "team", Operator: metav1.LabelSelectorOpIn, Values: teams},
		}},
	}, field.NewPath("match"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return &placement.Policy{
		Name: name, Priority: priority, Matcher: m, Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationAutomatic,
		Evaluator: &fakeEvaluator{clauses: []clause{{field: "annotations", key: "example.com/" + name, value: "x"}}},
	}
}

// registryOf returns a registry with n policies for n teams, and with the given number of policies for team "shop".
func registryOf(t testing.TB, n, matching int) *placement.Registry {
	t.Helper()
	r := placement.NewRegistry()
	for i := range n {
		team := fmt.Sprintf("team-%d", i)
		if i < matching {
			team = "shop"
		}
		name := fmt.Sprintf("policy-%d", i)
		r.Set(name, &placement.PolicyState{Policy: ofTeam(t, name, int32(i%3), team)})
	}
	return r
}

// TestOthersMakeNoDifference checks that exactly the matching policies decide, once each and in order of precedence, as
// if there were no others.
func TestOthersMakeNoDifference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	teams := []string{"shop", "bank", "farm", "mill"}
	registry := placement.NewRegistry()
	all := map[string]*placement.Policy{}
	for i := range budget.Rounds(300) {
		name := fmt.Sprintf("policy-%d", r.IntN(60))
		if r.IntN(3) == 0 {
			registry.Remove(name)
			delete(all, name)
		} else {
			r.Shuffle(len(teams), func(i, j int) { teams[i], teams[j] = teams[j], teams[i] })
			p := ofTeam(t, name, int32(r.IntN(3)), teams[:1+r.IntN(3)]...)
			p.Generation = int64(i)
			registry.Set(name, &placement.PolicyState{Policy: p})
			all[name] = p
		}
		team := teams[r.IntN(len(teams))]
		var want []string
		for _, p := range all {
			matches, _ := p.Matcher.Matches(t.Context(), match.Object{
				Resource: deployments, Namespace: "shop", NamespaceLabels: map[string]string{"team": team}, Content: newObject("web", newMetadata()),
			})
			if matches {
				want = append(want, fmt.Sprintf("%d %s %d", 9-p.Priority, p.Name, p.Generation))
			}
		}
		slices.Sort(want)
		d := &placement.Decider{Policies: registry, Namespaces: namespaceLabels{"team": team}, Keyring: keyring(t, "k")}
		out, err := d.Decide(t.Context(), placement.Request{Resource: deployments, Namespace: "shop", Object: newObject("web", newMetadata())})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range out.Verdicts {
			got = append(got, fmt.Sprintf("%d %s %d", 9-v.Policy.Priority, v.Policy.Name, v.Policy.Generation))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("policies that decide for %s (-want +got):\n%s", team, diff)
		}
	}
}

// TestChangeCostsTheSame checks that the cost of changing a policy does not depend on the number of other policies.
func TestChangeCostsTheSame(t *testing.T) {
	cost := func(n int) float64 {
		r := registryOf(t, n, 1)
		versions := []*placement.PolicyState{{Policy: ofTeam(t, "policy-0", 0, "shop")}, {Policy: ofTeam(t, "policy-0", 0, "bank")}}
		i := 0
		return testing.AllocsPerRun(100, func() {
			r.Set("policy-0", versions[i%2])
			i++
		})
	}
	one, many := cost(1), cost(2000)
	if many > 2*one {
		t.Errorf("%v allocations with one policy, %v with 2000", one, many)
	}
}

// TestOthersCostNothing checks that the cost of a decision depends only on the number of policies that match.
func TestOthersCostNothing(t *testing.T) {
	cost := func(r *placement.Registry) float64 {
		d := &placement.Decider{Policies: r, Namespaces: namespaceLabels{"team": "shop"}, Keyring: keyring(t, "k")}
		return testing.AllocsPerRun(100, func() {
			out, err := d.Decide(t.Context(), placement.Request{Resource: deployments, Namespace: "shop", Object: newObject("web", newMetadata())})
			if err != nil || len(out.Verdicts) != 3 {
				t.Fatalf("%v, %v", out, err)
			}
		})
	}
	alone, among := cost(registryOf(t, 3, 3)), cost(registryOf(t, 2000, 3))
	if among > 1.05*alone {
		t.Errorf("%v allocations with three policies, %v with 1997 others", alone, among)
	}
}

func BenchmarkChange(b *testing.B) {
	for _, n := range []int{1, 2000} {
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			r := registryOf(b, n, 1)
			versions := []*placement.PolicyState{{Policy: ofTeam(b, "policy-0", 0, "shop")}, {Policy: ofTeam(b, "policy-0", 0, "bank")}}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				r.Set("policy-0", versions[i%2])
				i++
			}
		})
	}
}

// BenchmarkMatching measures a decision by policies without evaluation: finding the policies, and merging.
func BenchmarkMatching(b *testing.B) {
	for _, size := range []struct{ policies, matching int }{{1, 1}, {3, 3}, {500, 3}, {2000, 3}} {
		b.Run(fmt.Sprintf("policies=%d/matching=%d", size.policies, size.matching), func(b *testing.B) {
			k, err := placement.NewKeyring([]byte(strings.Repeat("k", placement.KeySize)))
			if err != nil {
				b.Fatal(err)
			}
			d := &placement.Decider{Policies: registryOf(b, size.policies, size.matching), Namespaces: namespaceLabels{"team": "shop"}, Keyring: k}
			obj := newObject("web", newMetadata())
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Decide(b.Context(), placement.Request{Resource: deployments, Namespace: "shop", Object: obj}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
