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
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/budget"
)

// decider returns the clusters that an object gets of the given ones.
type decider func(t *testing.T, object map[string]any, clusters map[string]map[string]any) []string

// forEachDecider calls test with the oracle, and with the module that the rules are compiled to.
func forEachDecider(t *testing.T, rules []placementv1.Rule, test func(t *testing.T, decide decider)) {
	t.Helper()
	t.Run("oracle", func(t *testing.T) {
		test(t, func(_ *testing.T, object map[string]any, clusters map[string]map[string]any) []string {
			return Decide(rules, object, nil, clusters).Clusters
		})
	})
	t.Run("module", func(t *testing.T) {
		m, err := newModule(t, newServed(t), rules)
		if err != nil {
			t.Fatal(err)
		}
		test(t, func(t *testing.T, object map[string]any, clusters map[string]map[string]any) []string {
			t.Helper()
			m.load(t, nil, clusters, slices.Sorted(maps.Keys(clusters)))
			decision, err := m.evaluator.Evaluate(t.Context(), object)
			if err != nil {
				t.Fatal(err)
			}
			return decision.Clusters
		})
	})
}

// TestClusterLeavesOrJoins checks that a cluster that leaves or joins changes only the objects that have it. docs/rules.md names the
// exceptions: minGain, spread, and preferences for the most or the least of a value, whose parts of the weights depend on all clusters.
func TestClusterLeavesOrJoins(t *testing.T) {
	changed, kept, seeds := 0, 0, budget.Rounds(20)
	for seed := range uint64(seeds) {
		g := NewGenerator(seed)
		rule := placementv1.Rule{Name: "r", Limit: int32(1 + g.random.IntN(3))}
		if g.chance(50) {
			rule.Require = append(rule.Require, g.requirement(g.subject()))
		}
		if g.chance(50) {
			rule.Tolerate = g.tolerations()
		}
		if g.chance(30) {
			for rule.Prefer == nil || slices.ContainsFunc(rule.Prefer, func(p placementv1.Preference) bool { return slices.Contains(proportional, p.Operator) }) {
				rule.Prefer = nil
				g.prefer(&rule)
			}
			rule.MinGain = 0
		}
		objects := []map[string]any{g.Object(), g.Object(), g.Object()}
		clusters := g.Clusters()
		forEachDecider(t, []placementv1.Rule{rule}, func(t *testing.T, decide decider) {
			for _, object := range objects {
				with := decide(t, object, clusters)
				for name := range clusters {
					others := maps.Clone(clusters)
					delete(others, name)
					without := decide(t, object, others)
					had := slices.Index(with, name)
					if had < 0 {
						kept++
						if !slices.Equal(with, without) {
							t.Errorf("seed %d: %s has %v, and %v without %s", seed, metadataText(object, "name"), with, without, name)
						}
						continue
					}
					changed++
					for _, stays := range slices.Delete(slices.Clone(with), had, had+1) {
						if !slices.Contains(without, stays) {
							t.Errorf("seed %d: %s has %v, and leaves %s when %s leaves", seed, metadataText(object, "name"), with, stays, name)
						}
					}
					if len(without) > len(with) {
						t.Errorf("seed %d: %s has %v, and %v without %s", seed, metadataText(object, "name"), with, without, name)
					}
				}
			}
		})
	}
	if changed < 5*seeds/3 || kept < 5*seeds/3 {
		t.Errorf("only %d changed, and %d did not", changed, kept)
	}
}

// TestOrderOfClusters checks that the order of clusters, of their zones, and of their taints changes nothing.
func TestOrderOfClusters(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	s := newServed(t)
	for seed := range uint64(budget.Rounds(25)) {
		e := newExample(seed)
		m, err := newModule(t, s, e.rules)
		if err != nil {
			t.Fatal(err)
		}
		clusters := e.clusters[0]
		names := slices.Sorted(maps.Keys(clusters))
		permuted := map[string]map[string]any{}
		for name, document := range clusters {
			permuted[name] = runtime.DeepCopyJSON(document)
			for _, list := range []string{"zones", "taints"} {
				items, _ := permuted[name][list].([]any)
				random.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
			}
		}
		for _, object := range e.objects {
			want := e.decide(object, clusters)
			if diff := cmp.Diff(want, e.decide(object, permuted)); diff != "" {
				t.Errorf("seed %d: %s", seed, diff)
			}
			random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			m.load(t, e.namespaces, permuted, names)
			got, err := m.evaluator.Evaluate(t.Context(), object)
			if diff := e.differs(t, object, want, got, err); diff != "" {
				t.Errorf("seed %d: %s", seed, diff)
			}
		}
	}
}

// TestRanksAreEven checks that each of eight equal clusters gets an eighth of the objects, and the objects of a cluster that leaves go
// to all others.
func TestRanksAreEven(t *testing.T) {
	rules := []placementv1.Rule{{Name: "r", Limit: 1}}
	clusters := map[string]map[string]any{}
	for _, name := range names {
		clusters[name] = map[string]any{"name": name}
	}
	without := maps.Clone(clusters)
	delete(without, names[0])
	counts, moved := map[string]int{}, map[string]int{}
	const objects = 8000
	for i := range objects {
		object := map[string]any{"kind": "Deployment", "metadata": map[string]any{"name": "web-" + strconv.Itoa(i), "namespace": "shop"}}
		home := Decide(rules, object, nil, clusters).Clusters[0]
		counts[home]++
		if home == names[0] {
			moved[Decide(rules, object, nil, without).Clusters[0]]++
		}
	}
	// The bounds are six standard deviations.
	for _, name := range names {
		if n := counts[name]; n < 820 || n > 1180 {
			t.Errorf("%s has %d of %d objects", name, n, objects)
		}
		if n := moved[name]; name != names[0] && (n < 75 || n > 215) {
			t.Errorf("%s gets %d of the %d objects of %s", name, n, counts[names[0]], names[0])
		}
	}
}
