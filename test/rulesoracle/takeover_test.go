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
	"testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/test/budget"
)

// cacheUses counts the decisions that were found in a decision cache and those that were evaluated.
type cacheUses struct {
	embedded.Observer
	found, evaluated int
}

func (c *cacheUses) DecisionCacheHit()    { c.found++ }
func (c *cacheUses) DecisionCacheMiss()   { c.evaluated++ }
func (*cacheUses) RuleCacheUsed(int, int) {}

// comparison is what requirements have in common that differ only in their values.
type comparison struct {
	placementv1.Subject
	placementv1.RequirementOperator
	placementv1.ValueType
}

func comparisonOf(r *placementv1.Requirement) comparison {
	return comparison{r.Subject, r.Operator, r.As}
}

// comparedWith are lists of values that clusters are compared with.
type comparedWith map[comparison][][]string

// constants calls visit with each requirement and preference of clusters that has values.
func constants(list []placementv1.Rule, visit func(*placementv1.Requirement)) {
	for i := range list {
		if list[i].Candidates == placementv1.RuleCandidatesNodes {
			continue
		}
		for j := range list[i].Require {
			if r := &list[i].Require[j]; len(r.Values) > 0 {
				visit(r)
			}
		}
		for j := range list[i].Prefer {
			if r := &list[i].Prefer[j].Requirement; len(r.Values) > 0 {
				visit(r)
			}
		}
	}
}

// changed returns a copy of rules in which one requirement or preference has other values. ok is false if none can.
func (c comparedWith) changed(list []placementv1.Rule, random *rand.Rand) (out []placementv1.Rule, ok bool) {
	for _, r := range list {
		out = append(out, *r.DeepCopy())
	}
	var changeable []*placementv1.Requirement
	constants(out, func(r *placementv1.Requirement) { changeable = append(changeable, r) })
	if len(changeable) == 0 {
		return nil, false
	}
	r := changeable[random.IntN(len(changeable))]
	others := c[comparisonOf(r)]
	next := others[random.IntN(len(others))]
	if slices.Equal(next, r.Values) {
		return nil, false
	}
	r.Values = next
	return out, true
}

// TestDecisionsThatAreTakenOver verifies that rules with another value decide as the oracle does, after they took over the decisions
// of the rules before on the same clusters. Some of these are taken over, and some are not.
func TestDecisionsThatAreTakenOver(t *testing.T) {
	// Not every set of rules has a value that can be another one.
	examples, least := budget.Rounds(200), budget.Rounds(120)
	values := comparedWith{}
	for n := range uint64(400) {
		constants(newExample(*seed+n).rules, func(r *placementv1.Requirement) {
			values[comparisonOf(r)] = append(values[comparisonOf(r)], r.Values)
		})
	}
	s := newServed(t)
	found, evaluated := 0, 0
	for n := range uint64(examples) {
		e, random := newExample(*seed+n), rand.New(rand.NewPCG(*seed, n))
		next, ok := values.changed(e.rules, random)
		if !ok {
			continue
		}
		m, err := newModule(t, s, e.rules)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", *seed+n, err, e.print(nil, nil))
		}
		for _, clusters := range e.clusters {
			m.load(t, e.namespaces, clusters, slices.Sorted(maps.Keys(clusters)))
			for _, object := range e.objects {
				// An error is not remembered.
				_, _ = m.evaluator.Evaluate(t.Context(), object)
			}
			later, _, err := m.prepare(t, next)
			if err != nil {
				// The value can make a later rule unreachable.
				break
			}
			later.(placement.Successor).TakeOver(t.Context(), m.evaluator)
			before := *m.uses
			changed := example{rules: next, namespaces: e.namespaces, nodes: e.nodes}
			for _, object := range e.objects {
				got, err := later.Evaluate(t.Context(), object)
				if diff := changed.differs(t, object, changed.decide(object, clusters), got, err); diff != "" {
					t.Fatalf("seed %d: %s\nbefore:\n%s\nafter:\n%s", *seed+n, diff, e.print(nil, nil), changed.print(object, clusters))
				}
			}
			found, evaluated = found+m.uses.found-before.found, evaluated+m.uses.evaluated-before.evaluated
		}
	}
	t.Logf("%d decisions were taken over, %d were made", found, evaluated)
	if found < least || evaluated < least {
		t.Errorf("%d decisions were taken over and %d were made, want at least %d of each", found, evaluated, least)
	}
}
