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

package bench_test

import (
	"fmt"
	"testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/test/bench/fixture"
	"github.com/berth-dev/berth/test/budget"
)

// ruledClusters is how many clusters the rules choose from.
const ruledClusters = 1000

// ruled are the policy of 20 rules, and the same in Rego that was written by hand.
func ruled(b testing.TB) (rules, byHand *placementv1.PlacementPolicy) {
	b.Helper()
	rules, err := fixture.Rules()
	if err != nil {
		b.Fatal(err)
	}
	return rules, fixture.RulesByHand()
}

// newRuledWorld is a world in which a policy chooses from the clusters of the rules.
func newRuledWorld(b testing.TB, p *placementv1.PlacementPolicy) (*world, placement.Evaluator) {
	b.Helper()
	w := newWorld(b)
	evaluator := w.put(b, p).Evaluator
	w.replicate(nil)
	w.replicateAs(fixture.KarmadaClusters, fixture.RuledClusters(ruledClusters))
	return w, evaluator
}

// BenchmarkRules is one decision of a policy of 20 rules, by=Rules, and of the same policy in Rego that was written by hand, by=Hand,
// with 1,000 clusters.
//
//   - decision=Distinct is a decision on a Deployment of a new name.
//   - decision=Seen is one on a Deployment that was decided before.
//   - decision=First is the first decision after a cluster changed.
func BenchmarkRules(b *testing.B) {
	rules, byHand := ruled(b)
	policies := []struct {
		by     string
		policy *placementv1.PlacementPolicy
	}{{"Hand", byHand}, {"Rules", rules}}
	each := func(decision string, run func(b *testing.B, w *world, evaluator placement.Evaluator)) {
		for _, p := range policies {
			b.Run(fmt.Sprintf("decision=%s/by=%s", decision, p.by), func(b *testing.B) {
				w, evaluator := newRuledWorld(b, p.policy)
				run(b, w, evaluator)
			})
		}
	}
	each("Distinct", func(b *testing.B, w *world, evaluator placement.Evaluator) {
		inputs := make([]map[string]any, fixture.Requests)
		for i := range inputs {
			inputs[i] = fixture.RuledDeployment(i)
		}
		decide := func(i int) {
			input := inputs[i%len(inputs)]
			metadata, _ := input["metadata"].(map[string]any)
			metadata["name"] = fmt.Sprintf("web-%d", i)
			w.decide(b, evaluator, input)
		}
		for i := range warm {
			decide(i)
		}
		measure(b, func(i int) { decide(warm + i) })
	})
	each("Seen", func(b *testing.B, w *world, evaluator placement.Evaluator) {
		inputs := make([]map[string]any, 2*fixture.Requests)
		for i := range inputs {
			inputs[i] = fixture.RuledDeployment(i)
		}
		for i := range warm {
			w.decide(b, evaluator, inputs[i%len(inputs)])
		}
		measure(b, func(i int) { w.decide(b, evaluator, inputs[i%len(inputs)]) })
	})
	each("First", func(b *testing.B, w *world, evaluator placement.Evaluator) {
		inputs := make([]map[string]any, fixture.Requests)
		for i := range inputs {
			inputs[i] = fixture.RuledDeployment(i)
		}
		measure(b, func(i int) {
			changed := fixture.RuledCluster(i % ruledClusters)
			labels := changed.GetLabels()
			labels["cost"] = fmt.Sprint(6 + i/ruledClusters)
			changed.SetLabels(labels)
			replication.Known().Prepare(fixture.KarmadaClusters, changed)
			if !w.data.Put(fixture.KarmadaClusters, changed) {
				b.Fatal("the change changes nothing")
			}
			w.decide(b, evaluator, inputs[i%len(inputs)])
		})
	})
}

// Both policies decide alike, and something.
func TestRulesDecideAsWrittenByHand(t *testing.T) {
	rules, byHand := ruled(t)
	w, evaluator := newRuledWorld(t, rules)
	other, evaluatorByHand := newRuledWorld(t, byHand)
	for i := range budget.Rounds(2) * fixture.Requests {
		input := fixture.RuledDeployment(i)
		got, want := w.decide(t, evaluator, input), other.decide(t, evaluatorByHand, input)
		// Only one of them has rules.
		got.Rule = ""
		if !got.Equal(want) || len(got.Clusters) == 0 {
			t.Errorf("Deployment %d: %+v by the rules, %+v by hand", i, got, want)
		}
	}
}
