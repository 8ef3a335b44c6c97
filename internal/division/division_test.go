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

package division_test

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/division"
	"github.com/berth-dev/berth/test/budget"
)

func weights(weights ...int64) []division.Cluster {
	var clusters []division.Cluster
	for i, w := range weights {
		clusters = append(clusters, division.Cluster{Name: string(rune('a' + i)), Weight: w})
	}
	return clusters
}

func TestDivide(t *testing.T) {
	for name, tc := range map[string]struct {
		replicas int64
		clusters []division.Cluster
		bounds   division.Bounds
		want     map[string]int64
	}{
		"no clusters":                {replicas: 5, want: map[string]int64{}},
		"no replicas":                {clusters: weights(1, 1), want: map[string]int64{"a": 0, "b": 0}},
		"exact quotas":               {replicas: 9, clusters: weights(1, 2), want: map[string]int64{"a": 3, "b": 6}},
		"rounded":                    {replicas: 10, clusters: weights(6, 5), want: map[string]int64{"a": 5, "b": 5}},
		"no weight":                  {replicas: 4, clusters: weights(0, 1), want: map[string]int64{"a": 0, "b": 4}},
		"no weights":                 {replicas: 4, clusters: weights(0, 0), want: map[string]int64{"a": 0, "b": 0}},
		"negative numbers are zero":  {replicas: 4, clusters: weights(-1, 1), bounds: division.Bounds{Min: -3}, want: map[string]int64{"a": 0, "b": 4}},
		"minimum":                    {replicas: 10, clusters: weights(0, 1, 9), bounds: division.Bounds{Min: 2}, want: map[string]int64{"a": 2, "b": 2, "c": 6}},
		"minima beyond the replicas": {replicas: 5, clusters: weights(1, 2, 3), bounds: division.Bounds{Min: 3}, want: map[string]int64{"a": 0, "b": 2, "c": 3}},
		"maximum":                    {replicas: 10, clusters: weights(1, 9), bounds: division.Bounds{Max: new(int64(6))}, want: map[string]int64{"a": 4, "b": 6}},
		"maxima below the replicas":  {replicas: 10, clusters: weights(1, 9), bounds: division.Bounds{Max: new(int64(4))}, want: map[string]int64{"a": 4, "b": 4}},
		"minimum above the maximum":  {replicas: 10, clusters: weights(1, 1), bounds: division.Bounds{Min: 5, Max: new(int64(2))}, want: map[string]int64{"a": 2, "b": 2}},
		"few replicas, minimum above the maximum": {
			replicas: 3,
			clusters: weights(2, 1),
			bounds:   division.Bounds{Min: 5, Max: new(int64(2))},
			want:     map[string]int64{"a": 2, "b": 1},
		},
		"negative replicas": {replicas: -1, clusters: weights(1, 1), want: map[string]int64{"a": 0, "b": 0}},
		"fixed": {
			replicas: 10,
			clusters: append(weights(1, 1), division.Cluster{Name: "f", Fixed: new(int64(4))}),
			bounds:   division.Bounds{Max: new(int64(3))},
			want:     map[string]int64{"a": 3, "b": 3, "f": 4},
		},
		"fixed beyond the replicas": {
			replicas: 3,
			clusters: append(weights(1), division.Cluster{Name: "f", Fixed: new(int64(4))}, division.Cluster{Name: "g", Fixed: new(int64(8))}),
			bounds:   division.Bounds{Min: 1},
			want:     map[string]int64{"a": 0, "f": 1, "g": 2},
		},
		"fixed below the replicas": {
			replicas: 9,
			clusters: []division.Cluster{{Name: "f", Fixed: new(int64(4))}},
			want:     map[string]int64{"f": 4},
		},
		"numbers beyond the range": {
			replicas: math.MaxInt64,
			clusters: weights(math.MaxInt64),
			want:     map[string]int64{"a": math.MaxInt32},
		},
		"a large and a small weight": {
			replicas: math.MaxInt32,
			clusters: weights(math.MaxInt32, 1),
			want:     map[string]int64{"a": math.MaxInt32 - 1, "b": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, division.Divide(tc.replicas, tc.clusters, tc.bounds, "seed")); diff != "" {
				t.Errorf("Divide (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDivideAlabama has the seats of the Alabama paradox: with the largest remainder, the third cluster has two of 10 replicas, and
// one of 11.
func TestDivideAlabama(t *testing.T) {
	clusters := weights(6, 6, 2)
	before, after := division.Divide(10, clusters, division.Bounds{}, ""), division.Divide(11, clusters, division.Bounds{}, "")
	for name, replicas := range before {
		if after[name] < replicas {
			t.Errorf("cluster %s has %d of 10 replicas, and %d of 11", name, replicas, after[name])
		}
	}
}

func TestDivideFavorsNoCluster(t *testing.T) {
	const objects = 4000
	got := map[string]int64{}
	for i := range objects {
		for name, replicas := range division.Divide(1, weights(1, 1, 1, 1), division.Bounds{}, fmt.Sprint(i)) {
			got[name] += replicas
		}
	}
	for name, replicas := range got {
		if replicas < objects/4*9/10 || replicas > objects/4*11/10 {
			t.Errorf("cluster %s has %d of the single replicas of %d objects, want about a quarter", name, replicas, objects)
		}
	}
}

// input is an input of Divide.
type input struct {
	replicas int64
	clusters []division.Cluster
	bounds   division.Bounds
}

func newInput(r *rand.Rand) input {
	ranges := []int64{1, 3, 10, 100, 1_000_000, math.MaxInt32}
	number := func() int64 { return r.Int64N(ranges[r.IntN(len(ranges))] + 1) }
	in := input{replicas: min(number(), math.MaxInt32-1)}
	for i := range 1 + r.IntN(8) {
		c := division.Cluster{Name: fmt.Sprintf("cluster-%d", i), Weight: number()}
		if r.IntN(5) == 0 {
			c.Fixed = new(number())
		}
		in.clusters = append(in.clusters, c)
	}
	if r.IntN(2) == 0 {
		in.bounds.Min = number()
	}
	if r.IntN(2) == 0 {
		in.bounds.Max = new(in.bounds.Min + number())
	}
	return in
}

func (in input) divide() map[string]int64 {
	return division.Divide(in.replicas, in.clusters, in.bounds, "seed")
}

// check returns what Divide does wrong.
func (in input) check(r *rand.Rand) []string {
	got := in.divide()
	problems := in.checkBounds(got)
	problems = append(problems, in.checkPriorities(got)...)

	shuffled := in
	shuffled.clusters = slices.Clone(in.clusters)
	r.Shuffle(len(shuffled.clusters), func(i, j int) {
		shuffled.clusters[i], shuffled.clusters[j] = shuffled.clusters[j], shuffled.clusters[i]
	})
	if diff := cmp.Diff(got, shuffled.divide()); diff != "" {
		problems = append(problems, "depends on the order of the clusters:\n"+diff)
	}

	more := in
	more.replicas++
	for name, replicas := range more.divide() {
		if replicas < got[name] {
			problems = append(problems, fmt.Sprintf("with one more replica, %s has %d instead of %d", name, replicas, got[name]))
		}
	}

	fewer := in
	i := r.IntN(len(in.clusters))
	fewer.clusters = slices.Delete(slices.Clone(in.clusters), i, i+1)
	for name, replicas := range fewer.divide() {
		if replicas < got[name] {
			problems = append(problems, fmt.Sprintf("without %s, %s has %d instead of %d", in.clusters[i].Name, name, replicas, got[name]))
		}
	}
	return problems
}

// checkBounds checks that the numbers add up, and that they are within their bounds.
func (in input) checkBounds(got map[string]int64) (problems []string) {
	sum, full := int64(0), true
	for _, replicas := range got {
		sum += replicas
	}
	if len(got) != len(in.clusters) {
		problems = append(problems, fmt.Sprintf("has %d clusters, want %d", len(got), len(in.clusters)))
	}
	for _, c := range in.clusters {
		n := got[c.Name]
		lowest, highest := in.bounds.Min, int64(math.MaxInt32)
		if in.bounds.Max != nil {
			highest = min(*in.bounds.Max, highest)
		}
		lowest = min(lowest, highest)
		if c.Fixed != nil {
			lowest, highest = *c.Fixed, *c.Fixed
		}
		if n > highest {
			problems = append(problems, fmt.Sprintf("%s has %d, more than its maximum %d", c.Name, n, highest))
		}
		// Fewer than the minimum are right only if the replicas of clusters beyond their minimum can't be taken.
		if n < lowest && c.Fixed == nil {
			for _, other := range in.clusters {
				if other.Fixed == nil && got[other.Name] > lowest {
					problems = append(problems, fmt.Sprintf("%s has %d, less than its minimum, and %s has %d", c.Name, n, other.Name, got[other.Name]))
				}
			}
		}
		full = full && (n == highest || c.Fixed == nil && c.Weight == 0 && n == lowest)
	}
	if sum > in.replicas || sum < in.replicas && !full {
		problems = append(problems, fmt.Sprintf("adds up to %d", sum))
	}
	return problems
}

// checkPriorities checks the definition of Webster's method for clusters beyond their minimum: no cluster has a better claim to a
// replica than the cluster that has it.
func (in input) checkPriorities(got map[string]int64) (problems []string) {
	claim := func(c division.Cluster, replicas int64) *big.Rat {
		return big.NewRat(c.Weight, 2*replicas+1)
	}
	for _, giver := range in.clusters {
		for _, taker := range in.clusters {
			if giver.Fixed != nil || taker.Fixed != nil || got[giver.Name] <= in.bounds.Min ||
				in.bounds.Max != nil && got[taker.Name] >= *in.bounds.Max {
				continue
			}
			if claim(taker, got[taker.Name]).Cmp(claim(giver, got[giver.Name]-1)) > 0 {
				problems = append(problems, fmt.Sprintf("%s has a better claim than %s to a replica", taker.Name, giver.Name))
			}
		}
	}
	return problems
}

func TestDivideProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range budget.Rounds(10_000) {
		in := newInput(r)
		if problems := in.check(r); len(problems) > 0 {
			t.Fatalf("division of %d among %s within %+v: %v\n%q", in.replicas, describe(in.clusters), in.bounds, in.divide(), problems)
		}
	}
}

func FuzzDivide(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		r := rand.New(rand.NewPCG(a, b))
		in := newInput(r)
		if problems := in.check(r); len(problems) > 0 {
			t.Fatalf("division of %d among %s within %+v: %v\n%q", in.replicas, describe(in.clusters), in.bounds, in.divide(), problems)
		}
	})
}

func describe(clusters []division.Cluster) string {
	var texts []string
	for _, c := range clusters {
		text := fmt.Sprintf("%s weight %d", c.Name, c.Weight)
		if c.Fixed != nil {
			text = fmt.Sprintf("%s fixed %d", c.Name, *c.Fixed)
		}
		texts = append(texts, text)
	}
	return fmt.Sprint(texts)
}

// TestDivideMovesOnlyTheReplicasOfOneCluster adds and removes clusters one after the other.
func TestDivideMovesOnlyTheReplicasOfOneCluster(t *testing.T) {
	all := weights(3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5)
	before := division.Divide(100, all[:3], division.Bounds{Min: 1}, "seed")
	for n := 4; n <= len(all); n++ {
		after := division.Divide(100, all[:n], division.Bounds{Min: 1}, "seed")
		moved := int64(0)
		for name := range maps.Keys(before) {
			moved += max(after[name]-before[name], before[name]-after[name])
		}
		if joined := all[n-1].Name; moved != after[joined] {
			t.Errorf("%d replicas move when cluster %s joins, which gets %d", moved, joined, after[joined])
		}
		before = after
	}
}
