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

// Package division divides the replicas of an object among clusters.
//
// It uses the method of Webster and Sainte-Laguë with minima and maxima: each cluster gets its weight divided by a common
// divisor, rounded to the nearest integer and limited to its bounds. The divisor is the one for which the numbers add up. M. L.
// Balinski and H. P. Young, "Fair Representation" (2nd edition, 2001), describe the method and prove what package division
// promises. Karmada divides by the same method.
//
// The method of the largest remainder (Hamilton) is better known, but has two paradoxes that would move replicas for no reason.
// An additional replica of the object can take a replica from a cluster (the Alabama paradox). A cluster that leaves or joins can
// move replicas between two others. Both are impossible in divisor methods such as Webster's. In exchange, a cluster's number can
// differ from its exact quota by more than one, which is rare.
package division

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// Cluster is a cluster that may run replicas: a fixed number of them, or a number by its weight, which for the weight 0 is the minimum in
// Bounds. Numbers below 0 or above math.MaxInt32 are used as if they were 0 or math.MaxInt32.
type Cluster struct {
	// Name is unique among the clusters.
	Name string
	// Weight is relative to the weights of the other clusters. A cluster with the weight 0 gets at most Bounds.Min replicas, even if some
	// then run nowhere.
	Weight int64
	// Fixed, unless it is nil, is the number of replicas of the cluster, whatever the weights and bounds are. With fewer replicas than all
	// fixed numbers require, the cluster gets fewer.
	Fixed *int64
}

// Bounds limits the number of replicas of each cluster that has no fixed number. Without a maximum, Max is nil; with a maximum of 0, these
// clusters get no replicas.
type Bounds struct {
	// Min is the minimum number. If it is above Max, Max is used instead.
	Min int64
	// Max is the maximum number; nil if there is none.
	Max *int64
}

// Divide returns the number of replicas of each cluster, by name. Clusters with fixed numbers get them first. The others divide the rest by
// weight. If there are fewer replicas than the fixed numbers require, they are divided by using the fixed numbers as weights. If there are
// fewer than the minima require, the clusters with the highest weights get their minimum.
//
// The result has these properties:
//
//   - The numbers add up to replicas, unless no cluster may have more. Then the rest runs nowhere.
//   - It does not depend on the order of the clusters.
//   - With one more replica, no cluster gets fewer.
//   - If a cluster leaves, no other cluster gets fewer. If one joins, no other cluster gets more. So the only replicas that move
//     are those of this cluster.
//
// If clusters have the same claim to a replica, a hash of the seed and the name of the cluster decides. Objects with different seeds
// therefore favor different clusters.
func Divide(replicas int64, clusters []Cluster, bounds Bounds, seed string) map[string]int64 {
	replicas = limit(replicas)
	highest := int64(math.MaxInt32)
	if bounds.Max != nil {
		highest = limit(*bounds.Max)
	}
	lowest := min(limit(bounds.Min), highest)

	var fixed, weighted []*share
	for _, c := range clusters {
		s := &share{name: c.Name, hash: hash(c.Name, seed)}
		if c.Fixed != nil {
			s.weight, s.max = limit(*c.Fixed), limit(*c.Fixed)
			fixed = append(fixed, s)
			continue
		}
		s.weight, s.min, s.max = limit(c.Weight), lowest, highest
		weighted = append(weighted, s)
	}
	rest := apportion(replicas, fixed)
	apportion(rest, weighted)

	result := make(map[string]int64, len(clusters))
	for _, s := range slices.Concat(fixed, weighted) {
		result[s.name] = s.replicas
	}
	return result
}

// share is the part of the replicas that one cluster gets, with what determines it.
type share struct {
	name string // The name of the cluster. It decides between shares with the same claim and hash.
	hash uint64 // Decides between clusters with the same claim to a replica.
	// weight is what replicas is proportional to, within min and max.
	weight, min, max int64
	replicas         int64 // The number of replicas that the cluster gets; 0 before apportion or fill sets it.
}

// limit returns n, raised to 0 or lowered to math.MaxInt32.
func limit(n int64) int64 {
	return min(max(n, 0), math.MaxInt32)
}

// hash returns the first 64 bits of a SHA-256 digest of a seed and the name of a cluster. It has to be uniform even for names that differ
// in one character.
func hash(name, seed string) uint64 {
	sum := sha256.Sum256([]byte(seed + "\x00" + name))
	return binary.BigEndian.Uint64(sum[:])
}

// compareTied orders shares with the same claim to a replica, by their hash.
func compareTied(a, b *share) int {
	return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.name, b.name))
}

// apportion divides total replicas among the shares by setting their replicas, and returns how many are left over.
func apportion(total int64, shares []*share) int64 {
	minima := int64(0)
	for _, s := range shares {
		minima += s.min
	}
	if total < minima {
		return fill(total, shares)
	}

	// A level is the reciprocal of a divisor. The search is for the highest one at which there are enough replicas. At the
	// next one, there are too few, and no share gets more than one additional replica.
	low, high := uint64(0), uint64(math.MaxInt64)
	for low+1 < high {
		middle := low + (high-low)/2
		if sumAt(middle, shares) > total {
			high = middle
		} else {
			low = middle
		}
	}
	var next []*share
	for _, s := range shares {
		s.replicas = s.at(low)
		total -= s.replicas
		if s.at(high) > s.replicas {
			next = append(next, s)
		}
	}
	slices.SortFunc(next, func(a, b *share) int {
		return cmp.Or(comparePriority(b, a), compareTied(a, b))
	})
	for _, s := range next[:min(total, int64(len(next)))] {
		s.replicas++
		total--
	}
	return total
}

// fill gives the shares their minima, the highest weight first, until no replicas are left. It returns how many are left over.
func fill(total int64, shares []*share) int64 {
	ordered := slices.SortedFunc(slices.Values(shares), func(a, b *share) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), compareTied(a, b))
	})
	for _, s := range ordered {
		s.replicas = min(s.min, total)
		total -= s.replicas
	}
	return total
}

// levelBits is the number of fractional bits of a level. A weight has fewer bits, so that no share gets more than one additional
// replica from one level to the next.
const levelBits = 31

// at returns the number of replicas of a share at a level: weight times level, a fixed-point number with levelBits fractional bits, rounded
// to the nearest integer (halves up) and limited to min and max.
func (s *share) at(level uint64) int64 {
	high, low := bits.Mul64(uint64(s.weight), level) //nolint:gosec // limit has made it positive
	doubled := high<<(64-levelBits+1) | low>>(levelBits-1)
	return min(max(int64(doubled/2+doubled%2), s.min), s.max) //nolint:gosec // the product has at most 94 bits
}

// sumAt returns the number of replicas of all shares at a level.
func sumAt(level uint64, shares []*share) int64 {
	sum := int64(0)
	for _, s := range shares {
		sum += s.at(level)
	}
	return sum
}

// comparePriority compares the claims of two shares to one more replica; the higher claim is greater, and the result for equal claims is 0.
// A claim is the weight divided by the number of replicas plus one half.
func comparePriority(a, b *share) int {
	return cmp.Compare(a.weight*(2*b.replicas+1), b.weight*(2*a.replicas+1))
}
