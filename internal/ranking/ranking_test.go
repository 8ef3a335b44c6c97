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
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// order is the place of a candidate among all candidates for an object, in the words of docs/rules.md: texts that sort first are better.
type order struct {
	object  string
	scores  map[string]int64
	minGain int64
}

func (o order) level(name string) int64 {
	highest := int64(0)
	for _, score := range o.scores {
		highest = max(highest, score)
	}
	return (highest - o.scores[name]) / o.minGain
}

func (o order) of(level int64, name string) string {
	digest := sha256.Sum256([]byte(o.object + "/" + name))
	return fmt.Sprintf("%020d/%s", level, hex.EncodeToString(digest[:]))
}

// sorted returns the names from the best to the worst.
func (o order) sorted(names []string) []string {
	out := slices.Clone(names)
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(o.of(o.level(a), a), o.of(o.level(b), b)) })
	return out
}

// fleet returns an order of up to 60 candidates, of which many have the same score, and their names.
func fleet(random *rand.Rand) (o order, names []string) {
	o = order{fmt.Sprintf("Deployment/shop/web-%d", random.Int()), map[string]int64{}, 1 + random.Int64N(25)}
	kinds := 1 + random.Int64N(6)
	for i := range random.IntN(60) {
		name := fmt.Sprintf("cluster-%d", i)
		o.scores[name] = 10 * random.Int64N(kinds)
		names = append(names, name)
	}
	return o, names
}

// TestRank compares the ranks of candidates with the digests of texts of all lengths up to several blocks.
func TestRank(t *testing.T) {
	for length := range 300 {
		object := strings.Repeat("o", length/2)
		r := newRanker(object)
		for _, name := range []string{"", strings.Repeat("n", length), strings.Repeat("o", length), "", strings.Repeat("m", length/3)} {
			want := sha256.Sum256([]byte(object + "/" + name))
			if got := r.rank(name); !bytes.Equal(got, want[:]) {
				t.Fatalf("the rank of %q for %q is %x, want %x", name, object, got, want)
			}
		}
	}
}

// TestBest compares the best candidates with the first ones of all in their order.
func TestBest(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		o, names := fleet(random)
		n := random.IntN(65)
		want := o.sorted(names)
		want = want[:min(n, len(want))]
		differ(t, seed, want, NewList(o.scores, o.minGain).Best(o.object, n))
	}
}

// differ fails if two lists do not have the same names.
func differ(t *testing.T, seed uint64, want, got []string) {
	t.Helper()
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Fatalf("seed %d: %s", seed, cmp.Diff(want, got))
	}
}

// TestDomains compares the choice of candidates in domains with one that orders everything.
func TestDomains(t *testing.T) {
	upTo := func(random *rand.Rand, n int) int {
		if random.IntN(2) == 0 {
			return 0
		}
		return 1 + random.IntN(n)
	}
	chosen := 0
	for seed := range uint64(5000) {
		random := rand.New(rand.NewPCG(seed, 1))
		o, names := fleet(random)
		domains, all := map[string]string{}, 1+random.IntN(8)
		for _, name := range names {
			if random.IntN(20) > 0 {
				domains[name] = fmt.Sprintf("domain-%d", random.IntN(all))
			}
		}
		minClusters := max(upTo(random, 4), 1)
		b := Bounds{MinDomains: upTo(random, 3), MaxDomains: upTo(random, 5), Limit: upTo(random, 20)}
		if random.IntN(2) == 0 {
			b.MaxClusters = minClusters + random.IntN(4)
		}
		wantCandidates, wantDomains := o.spread(names, domains, minClusters, b)
		chosen += len(wantCandidates)
		gotCandidates, gotDomains := NewDomains(o.scores, o.minGain, domains, minClusters).Choose(o.object, b)
		differ(t, seed, wantDomains, gotDomains)
		differ(t, seed, wantCandidates, gotCandidates)
	}
	if chosen < 10000 {
		t.Errorf("only %d candidates were chosen", chosen)
	}
}

// spread chooses candidates in domains.
func (o order) spread(names []string, domains map[string]string, minClusters int, b Bounds) (candidates, used []string) {
	members := map[string][]string{}
	for _, name := range o.sorted(names) {
		if domain, ok := domains[name]; ok && (b.MaxClusters == 0 || len(members[domain]) < b.MaxClusters) {
			members[domain] = append(members[domain], name)
		}
	}
	for domain := range members {
		if len(members[domain]) >= minClusters {
			used = append(used, domain)
		}
	}
	slices.SortFunc(used, func(a, b string) int {
		return strings.Compare(o.of(o.level(members[a][0]), a), o.of(o.level(members[b][0]), b))
	})
	if b.MaxDomains > 0 {
		used = used[:min(b.MaxDomains, len(used))]
	}
	if b.Limit > 0 {
		used = used[:min(b.Limit/minClusters, len(used))]
	}
	if len(used) < b.MinDomains {
		return nil, used
	}
	// The turns of the candidates, and then their order.
	turns := map[string]string{}
	for _, domain := range used {
		for i, name := range members[domain] {
			turns[name] = fmt.Sprintf("%010d/%s", max(0, i+1-minClusters), o.of(o.level(name), name))
			candidates = append(candidates, name)
		}
	}
	slices.SortFunc(candidates, func(a, b string) int { return strings.Compare(turns[a], turns[b]) })
	if b.Limit > 0 {
		candidates = candidates[:min(b.Limit, len(candidates))]
	}
	return candidates, used
}
