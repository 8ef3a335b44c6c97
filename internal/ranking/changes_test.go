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

package ranking

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// fleetOf has candidates with their scores and domains.
type fleetOf struct {
	scores  map[string]int64
	domains map[string]string
}

func (f fleetOf) clone() fleetOf { return fleetOf{maps.Clone(f.scores), maps.Clone(f.domains)} }

// change changes some candidates: their scores, their domains, or whether there are any.
func (f fleetOf) change(random *rand.Rand, kinds int64) {
	for range 1 + random.IntN(3) {
		name := fmt.Sprintf("cluster-%d", random.IntN(25))
		switch random.IntN(3) {
		case 0:
			delete(f.scores, name)
		case 1:
			f.domains[name] = fmt.Sprintf("domain-%d", random.IntN(6))
		}
		if random.IntN(3) > 0 {
			f.scores[name] = 10 * random.Int64N(kinds)
		}
	}
}

// randomFleet returns a fleet, what it became, and minGain.
func randomFleet(random *rand.Rand) (before, after fleetOf, minGain int64) {
	before = fleetOf{map[string]int64{}, map[string]string{}}
	kinds := 1 + random.Int64N(4)
	for i := range random.IntN(25) {
		name := fmt.Sprintf("cluster-%d", i)
		before.scores[name] = 10 * random.Int64N(kinds)
		if random.IntN(10) > 0 {
			before.domains[name] = fmt.Sprintf("domain-%d", random.IntN(6))
		}
	}
	after = before.clone()
	after.change(random, kinds)
	return before, after, 1 + random.Int64N(25)
}

// concerns counts the objects for which something else is chosen, and those for which that was possible.
type concerns struct{ objects, concerned, differ int }

// add adds an object. It fails if the choices differ and the object was not concerned.
func (c *concerns) add(t *testing.T, seed uint64, object string, concerned bool, before, after []string) {
	t.Helper()
	slices.Sort(before)
	slices.Sort(after)
	c.objects++
	if concerned {
		c.concerned++
	}
	if slices.Equal(before, after) {
		return
	}
	if c.differ++; !concerned {
		t.Fatalf("seed %d: %v are chosen for %s, and not %v any more, and it was not concerned", seed, after, object, before)
	}
}

// expect fails if the changes concern many more objects than those for which something else is chosen.
func (c *concerns) expect(t *testing.T, most float64) {
	t.Helper()
	t.Logf("%d objects, %d concerned, %d with another choice", c.objects, c.concerned, c.differ)
	if c.differ < c.objects/20 || float64(c.concerned) > most*float64(c.differ) || c.concerned == c.objects {
		t.Errorf("too few or too many objects are concerned: want up to %g times those with another choice", most)
	}
}

// TestChangesOfLists chooses candidates before and after changes, and compares which choices differ with those that Concern names.
func TestChangesOfLists(t *testing.T) {
	var counts concerns
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 2))
		before, after, minGain := randomFleet(random)
		old, next, n := NewList(before.scores, minGain), NewList(after.scores, minGain), 1+random.IntN(8)
		changes := old.ChangesTo(next, n)
		for i := range 10 {
			object := fmt.Sprintf("Deployment/shop/web-%d", i)
			chosen := old.Best(object, n)
			counts.add(t, seed, object, changes.Concern(object, chosen), chosen, next.Best(object, n))
		}
	}
	counts.expect(t, 1.5)
}

// TestChangesOfDomains does the same for candidates in domains.
func TestChangesOfDomains(t *testing.T) {
	var counts concerns
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 3))
		before, after, minGain := randomFleet(random)
		minClusters := 1 + random.IntN(3)
		b := Bounds{MinDomains: random.IntN(3), MaxDomains: random.IntN(5), Limit: random.IntN(9)}
		if random.IntN(2) == 0 {
			b.MaxClusters = minClusters + random.IntN(3)
		}
		old, next := NewDomains(before.scores, minGain, before.domains, minClusters), NewDomains(after.scores, minGain, after.domains, minClusters)
		changes := old.ChangesTo(next, b)
		for i := range 10 {
			object := fmt.Sprintf("Deployment/shop/web-%d", i)
			chosen, _ := old.Choose(object, b)
			then, _ := next.Choose(object, b)
			counts.add(t, seed, object, changes.Concern(object, chosen), chosen, then)
		}
	}
	counts.expect(t, 4)
	one := map[string]int64{"a": 1}
	if NewDomains(one, 1, nil, 1).ChangesTo(NewDomains(one, 1, nil, 2), Bounds{}) != nil {
		t.Error("domains of different sizes are compared")
	}
}

// TestFewAreConcerned verifies that one changed candidate of many concerns the objects that have it, or that it gets, and no others.
func TestFewAreConcerned(t *testing.T) {
	scores := map[string]int64{}
	for i := range 200 {
		scores[fmt.Sprintf("cluster-%d", i)] = int64(i % 4)
	}
	without := maps.Clone(scores)
	delete(without, "cluster-3")
	worse := maps.Clone(scores)
	worse["cluster-3"] = 2
	old := NewList(scores, 1)
	for name, other := range map[string]List{"without": NewList(without, 1), "worse": NewList(worse, 1)} {
		for _, way := range [][2]List{{old, other}, {other, old}} {
			changes, differ := way[0].ChangesTo(way[1], 1), 0
			for i := range 2000 {
				object := fmt.Sprint("Deployment/shop/web-", i)
				before := way[0].Best(object, 1)
				moves := !slices.Equal(before, way[1].Best(object, 1))
				if moves {
					differ++
				}
				if changes.Concern(object, before) != moves {
					t.Fatalf("%s: %s moves: %t", name, object, moves)
				}
			}
			if differ < 20 || differ > 80 {
				t.Errorf("%s: %d of 2000 objects move, want about 40", name, differ)
			}
		}
	}
}
