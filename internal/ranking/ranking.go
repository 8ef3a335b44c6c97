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

// Package ranking chooses the best of several candidates for an object by rendezvous hashing.
//
// Candidates have levels, of which the lowest is best. Candidates of the same level are ordered by their ranks, which differ from object
// to object: the rank of a candidate is the SHA-256 digest of the object and the candidate's name. So objects are distributed evenly, and a
// candidate that leaves or joins changes only the objects that have it. docs/rules.md describes the order. D. G. Thaler and C. V.
// Ravishankar, "Using name-based mappings to increase hit rates" (1998), describe the method.
//
// Lists and Domains are prepared once for many objects. A choice computes the rank of a candidate only if candidates of better levels leave
// it a chance.
package ranking

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"hash"
	"math"
	"slices"
	"strings"
	"sync"
)

// List is a list of candidates, sorted by level, the lowest first, and then by name. It is immutable.
type List []candidate

// candidate is a candidate, or a domain, with its level. Lower levels are better, and are chosen first.
type candidate struct {
	name  string
	level int64 // 0 for the best.
}

// NewList returns the list of the candidates whose scores are given, by name. Higher scores are better. The level of a candidate is the
// distance of its score from the highest one, divided by minGain and rounded down: candidates whose scores hardly differ have one level.
// minGain is at least 1, and no two scores may differ by more than an int64 can hold.
func NewList(scores map[string]int64, minGain int64) List {
	highest := int64(math.MinInt64)
	for _, score := range scores {
		highest = max(highest, score)
	}
	out := make(List, 0, len(scores))
	for name, score := range scores {
		out = append(out, candidate{name, (highest - score) / minGain})
	}
	out.sort()
	return out
}

// sort sorts the list by level, and then by name.
func (l List) sort() {
	slices.SortFunc(l, func(a, b candidate) int {
		if a.level != b.level {
			return cmp.Compare(a.level, b.level)
		}
		return strings.Compare(a.name, b.name)
	})
}

// names returns the names of the candidates, in the order of the list.
func (l List) names() []string {
	out := make([]string, len(l))
	for i, c := range l {
		out[i] = c.name
	}
	return out
}

// Best returns the names of the n best candidates for an object, or of all candidates if there are fewer, in no particular order.
func (l List) Best(object string, n int) []string {
	r := newRanker(object)
	defer r.release()
	return r.best(l, n).names()
}

// Domains are candidates that belong to domains. They are immutable.
type Domains struct {
	// usable has the domains with at least minClusters candidates. The level of a domain is the level of its best candidate.
	usable      List
	members     map[string]List // The candidates of each domain, by its name.
	minClusters int             // The minimum number of candidates of a usable domain.
}

// NewDomains returns the domains of candidates. scores and minGain are as for NewList. domains maps the name of a candidate to that of its
// domain; a candidate that is not in it can't be chosen. The level of a domain is that of its best candidate. A domain with fewer than
// minClusters candidates is not used.
func NewDomains(scores map[string]int64, minGain int64, domains map[string]string, minClusters int) *Domains {
	out := &Domains{members: map[string]List{}, minClusters: minClusters}
	for _, c := range NewList(scores, minGain) {
		if domain, ok := domains[c.name]; ok {
			out.members[domain] = append(out.members[domain], c)
		}
	}
	for domain, members := range out.members {
		if len(members) >= minClusters {
			out.usable = append(out.usable, candidate{domain, members[0].level})
		}
	}
	out.usable.sort()
	return out
}

// Bounds limits the choice of candidates in domains. 0 means that MaxDomains, MaxClusters, or Limit does not limit it.
type Bounds struct {
	// MinDomains is the minimum number of domains that are used. If fewer are usable, or the other bounds allow fewer, no candidate is
	// chosen.
	MinDomains int
	// MaxDomains is the maximum number of domains that are used, and MaxClusters the maximum number of candidates of each domain.
	// MaxClusters is not less than the minClusters of the domains.
	MaxDomains, MaxClusters int
	// Limit is the maximum number of all candidates together. They are taken from the domains in turns: first the minClusters best of each
	// domain, then the next best of each domain, and so on. Within a turn, better candidates come first.
	Limit int
}

// Choose returns the names of the candidates that are chosen for an object, and of the domains that are used for it: the best ones, as many
// as the bounds allow, in no particular order. If the bounds allow fewer than MinDomains domains, or fewer are usable, candidates is nil,
// and domains still has those fewer ones.
func (d *Domains) Choose(object string, b Bounds) (candidates, domains []string) {
	r := newRanker(object)
	defer r.release()
	used := r.best(d.usable, d.maxDomains(b))
	if len(used) < b.MinDomains {
		return nil, used.names()
	}
	full, rest := math.MaxInt, 0
	if b.Limit > 0 {
		full, rest = d.turns(used, b)
	}
	// last are the candidates of the turn that the limit does not cover completely.
	var last []ranked
	for _, domain := range used {
		members, size := d.members[domain.name], d.size(domain, b)
		if rest == 0 || size <= full {
			candidates = append(candidates, r.best(members, min(size, full)).names()...)
			continue
		}
		first := r.first(members, full+1)
		last = append(last, first[full])
		for _, one := range first[:full] {
			candidates = append(candidates, one.name)
		}
	}
	for _, one := range truncated(last, rest) {
		candidates = append(candidates, one.name)
	}
	return candidates, used.names()
}

// maxDomains returns the maximum number of domains that are used by the bounds and by how many are usable.
func (d *Domains) maxDomains(b Bounds) int {
	return min(len(d.usable), d.mostDomains(b))
}

// mostDomains returns how many domains the bounds allow, whatever domains there are: the smaller of MaxDomains and of Limit divided by
// minClusters. It is math.MaxInt if neither is set.
func (d *Domains) mostDomains(b Bounds) int {
	out := math.MaxInt
	if b.MaxDomains > 0 {
		out = b.MaxDomains
	}
	if b.Limit > 0 {
		out = min(out, b.Limit/d.minClusters)
	}
	return out
}

// size returns the maximum number of candidates that can be chosen from one domain: all that it has, or MaxClusters if that is set and
// less. Limit does not count.
func (d *Domains) size(domain candidate, b Bounds) int {
	out := len(d.members[domain.name])
	if b.MaxClusters > 0 {
		out = min(out, b.MaxClusters)
	}
	return out
}

// turns returns how Bounds.Limit, which must be set, is divided: full is how many candidates are chosen from each used domain, unless it
// has fewer or MaxClusters is less, and rest is how many further candidates are chosen, at most one from each domain.
func (d *Domains) turns(used List, b Bounds) (full, rest int) {
	rest = b.Limit
	// open are the sizes of the domains from which more can be taken.
	var open []int
	for _, domain := range used {
		open = append(open, d.size(domain, b))
	}
	for next := d.minClusters; len(open) > 0; next++ {
		turn := 0
		for _, size := range open {
			turn += min(size, next) - full
		}
		if turn > rest {
			break
		}
		full, rest = next, rest-turn
		open = slices.DeleteFunc(open, func(size int) bool { return size <= next })
	}
	return full, rest
}

// ranked is a candidate with its rank for an object.
type ranked struct {
	candidate
	rank [sha256.Size]byte // The SHA-256 digest of the object and the name of the candidate.
}

// compare orders candidates from the best to the worst: by level, then by rank, the smaller digest first, then by name. It is negative if a
// is better.
func compare(a, b ranked) int {
	if a.level != b.level {
		return cmp.Compare(a.level, b.level)
	}
	if order := bytes.Compare(a.rank[:], b.rank[:]); order != 0 {
		return order
	}
	return strings.Compare(a.name, b.name)
}

// truncated sorts candidates from the best to the worst, and returns the first n, or all if there are fewer. It changes the slice.
func truncated(all []ranked, n int) []ranked {
	slices.SortFunc(all, compare)
	return all[:min(n, len(all))]
}

// ranker computes the ranks of candidates for one object. It is not safe for concurrent use.
type ranker struct {
	// text is the text that is hashed. It begins with the name of the object and a slash, up to prefix, as the text of every candidate does.
	// Then come the name of a candidate, up to length, and the padding of SHA-256.
	text []byte
	// prefix is the length of what belongs to the object. length is that of text without the padding; -1 before the first candidate.
	prefix, length int
	// common is the number of bytes in the whole blocks at the start of text that belong to the object alone. They are hashed once.
	common int
	// initial is the encoded state of hash after these blocks; unused if there are none.
	initial []byte
	hash    digest // A SHA-256 hash.
	// state is the encoded state of hash after the last candidate. It contains the digest.
	state [stateBytes]byte
}

// digest is a hash whose state can be read and restored, as that of sha256.New can.
type digest interface {
	hash.Hash
	encoding.BinaryAppender
	encoding.BinaryUnmarshaler
}

// rankers pools rankers, because one takes several allocations.
var rankers = sync.Pool{New: func() any { return &ranker{hash: sha256.New().(digest)} }}

// newRanker returns a ranker for an object. Call release when it is no longer used.
func newRanker(object string) *ranker {
	r := rankers.Get().(*ranker)
	r.text = append(append(r.text[:0], object...), '/')
	r.prefix, r.length = len(r.text), -1
	r.common = r.prefix / sha256.BlockSize * sha256.BlockSize
	if r.common > 0 {
		// Neither call can fail.
		r.hash.Reset()
		_, _ = r.hash.Write(r.text[:r.common])
		r.initial, _ = r.hash.AppendBinary(r.initial[:0])
	}
	return r
}

// release lets the next newRanker use the ranker again.
func (r *ranker) release() { rankers.Put(r) }

// digestStart and digestEnd are the offsets, in the encoded state of crypto/sha256, of the digest of the whole blocks so far. A mark comes
// before it; after it come a block that is not whole, and the length of the text.
const digestStart, digestEnd, stateBytes = 4, 4 + sha256.Size, 4 + sha256.Size + sha256.BlockSize + 8

// padding is the minimum number of bytes that SHA-256 adds to a text: a mark, and the length of the text.
const padding = 1 + 8

// rank returns the rank of the candidate with a name, as a slice that the next call overwrites.
//
// It pads the text as FIPS 180-4 says, and takes the digest from the state of the hash. That takes a third less time than sha256.Sum256,
// which copies text and state. Choices among many equal candidates do nearly nothing else.
func (r *ranker) rank(name string) []byte {
	if length := r.prefix + len(name); length != r.length {
		r.pad(length)
	}
	copy(r.text[r.prefix:], name)
	// None of these calls can fail.
	if r.common == 0 {
		r.hash.Reset()
	} else {
		_ = r.hash.UnmarshalBinary(r.initial)
	}
	_, _ = r.hash.Write(r.text[r.common:])
	state, _ := r.hash.AppendBinary(r.state[:0])
	return state[digestStart:digestEnd]
}

// pad makes text have a length without the padding, and writes the padding.
func (r *ranker) pad(length int) {
	padded := (length + padding + sha256.BlockSize - 1) / sha256.BlockSize * sha256.BlockSize
	r.text = slices.Grow(r.text[:r.prefix], padded-r.prefix)[:padded]
	clear(r.text[length:])
	r.text[length] = 0x80
	binary.BigEndian.PutUint64(r.text[padded-8:], 8*uint64(length))
	r.length = length
}

// best returns the n best candidates of a list, or all candidates if there are fewer, in no particular order.
func (r *ranker) best(list List, n int) List {
	if n >= len(list) {
		return list
	}
	if n <= 0 {
		return nil
	}
	// Candidates of better levels than that of the last place are among the best whatever their ranks are.
	level := list[n-1].level
	if list[n].level > level {
		return list[:n]
	}
	certain, _ := slices.BinarySearchFunc(list, level, func(c candidate, level int64) int { return cmp.Compare(c.level, level) })
	out := append(make(List, 0, n), list[:certain]...)
	for _, one := range r.first(list[certain:], n-certain) {
		out = append(out, one.candidate)
	}
	return out
}

// first returns the n best candidates of a list, from the best to the worst. n must be at least 1, and the list must have at least n.
func (r *ranker) first(list List, n int) []ranked {
	level := list[n-1].level
	out := make([]ranked, 0, min(2*n, len(list)))
	// worst is the worst of the n best so far, if full, and start is how its rank starts. Nearly all other ranks differ from it there.
	var worst ranked
	var start uint64
	full := false
	for _, c := range list {
		if c.level > level {
			break
		}
		rank := r.rank(c.name)
		if full && c.level >= worst.level && (binary.BigEndian.Uint64(rank) > start || bytes.Compare(rank, worst.rank[:]) > 0) {
			continue
		}
		if out = append(out, ranked{c, [sha256.Size]byte(rank)}); len(out) == 2*n {
			out = truncated(out, n)
			worst, full = out[n-1], true
			start = binary.BigEndian.Uint64(worst.rank[:])
		}
	}
	return truncated(out, n)
}
