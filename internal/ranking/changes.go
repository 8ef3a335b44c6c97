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
	"crypto/sha256"
	"slices"
)

// Changes are the differences between two sets of candidates from which the same number is chosen for each object. They tell for which
// objects the choices can differ, by the ranks of the candidates that differ and of those that were chosen. They are immutable.
//
// If a candidate was not chosen and is worse now, or has left, the choice is the same. If it is better now, or has joined, the choice
// differs only if it is better than the worst of those that were chosen.
type Changes struct {
	// changed are the candidates or domains that have another level than before, or are in only one of the two sets. Candidates within domains
	// may differ although it is empty.
	changed map[string]bool
	// entered are those in changed that are in the later set.
	entered List
	// levels are the levels of the candidates or domains in the later set, by name.
	levels map[string]int64
	// limit is the maximum number of candidates or domains that are chosen from each set; math.MaxInt for no maximum. For the changes within
	// one domain it is 0, and not used.
	limit int
	// domains are the changes within the domains; nil if the candidates are not in domains.
	domains *domainChanges
}

// domainChanges are the differences between two sets of candidates within the domains that have the same level in both.
type domainChanges struct {
	bounds Bounds // The bounds of both choices.
	// of has the domain of each candidate in the earlier set whose domain was usable.
	of map[string]string
	// members are the changes of the candidates of each domain whose own level is the same as before, and whose candidates are not.
	members map[string]*Changes
	// sizes are the numbers of candidates of the domains in members: the smaller one of before and after.
	sizes map[string]int
}

// newChanges returns the changes from one list of candidates or domains to a later one: which of them left, joined, or have another level,
// whether better or worse. It compares all of them. limit is the maximum number that are chosen from each list; it is only kept in the
// result.
func newChanges(before, after List, limit int) *Changes {
	out := &Changes{changed: map[string]bool{}, levels: make(map[string]int64, len(after)), limit: limit}
	for _, c := range after {
		out.levels[c.name] = c.level
	}
	known := make(map[string]bool, len(before))
	for _, c := range before {
		known[c.name] = true
		if level, ok := out.levels[c.name]; !ok || level != c.level {
			out.changed[c.name] = true
		}
	}
	for _, c := range after {
		if !known[c.name] {
			out.changed[c.name] = true
		}
		if out.changed[c.name] {
			out.entered = append(out.entered, c)
		}
	}
	return out
}

// ChangesTo returns the changes from a list to a later one. The n best candidates are chosen from each.
func (l List) ChangesTo(after List, n int) *Changes { return newChanges(l, after, n) }

// ChangesTo returns the changes to later domains. b are the bounds of both choices. It returns nil if the two have different minClusters.
func (d *Domains) ChangesTo(after *Domains, b Bounds) *Changes {
	if d.minClusters != after.minClusters {
		return nil
	}
	// A domain that can't be used may have other candidates now, and no object has them.
	out := newChanges(d.usable, after.usable, after.mostDomains(b))
	out.domains = &domainChanges{bounds: b, of: map[string]string{}, members: map[string]*Changes{}, sizes: map[string]int{}}
	for _, domain := range d.usable {
		was, is := d.members[domain.name], after.members[domain.name]
		for _, c := range was {
			out.domains.of[c.name] = domain.name
		}
		if !out.changed[domain.name] && !slices.Equal(was, is) {
			out.domains.members[domain.name], out.domains.sizes[domain.name] = newChanges(was, is, 0), min(len(was), len(is))
		}
	}
	return out
}

// Concern reports whether the changes may lead to another choice for an object. chosen are the candidates that were chosen for it before.
func (c *Changes) Concern(object string, chosen []string) bool {
	if c.domains == nil {
		return c.concern(object, chosen, c.limit)
	}
	used := c.domains.used(chosen)
	return c.concern(object, used, c.limit) ||
		slices.ContainsFunc(used, func(domain string) bool { return c.domains.concern(domain, object, chosen, len(used)) })
}

// concern reports whether the changes may lead to another choice, for an object, of candidates or of domains, of which at most limit are
// chosen. chosen are those that were chosen before. It is true if there are none, if one of them left or has another level, and if one that
// joined or has another level is better than the worst of them, or is there at all while fewer than limit were chosen. Changes within
// domains do not count.
func (c *Changes) concern(object string, chosen []string, limit int) bool {
	switch {
	case len(chosen) == 0 || slices.ContainsFunc(chosen, func(name string) bool { return c.changed[name] }):
		return true
	case len(c.entered) == 0:
		return false
	case len(chosen) < limit:
		// All were chosen that there were.
		return true
	}
	level := c.levels[chosen[0]]
	for _, name := range chosen[1:] {
		level = max(level, c.levels[name])
	}
	if c.entered[0].level != level {
		// The first one has the lowest level of all.
		return c.entered[0].level < level
	}
	r := newRanker(object)
	defer r.release()
	worst, found := ranked{}, false
	for _, name := range chosen {
		if c.levels[name] != level {
			continue
		}
		if one := r.ranked(candidate{name, level}); !found || compare(one, worst) > 0 {
			worst, found = one, true
		}
	}
	return slices.ContainsFunc(c.entered, func(e candidate) bool { return e.level == level && compare(r.ranked(e), worst) < 0 })
}

// used returns the domains to which candidates belonged before, each once. It skips candidates that belonged to no usable domain.
func (d *domainChanges) used(candidates []string) []string {
	out := make([]string, 0, len(candidates))
	for _, name := range candidates {
		if domain, ok := d.of[name]; ok && !slices.Contains(out, domain) {
			out = append(out, domain)
		}
	}
	return out
}

// concern reports whether another choice is possible for an object because candidates of a domain left, joined, or have another level,
// given that the same domains are used as before. If there are such candidates, it is true whenever more or fewer candidates of the domain
// may be chosen than before. chosen are the candidates of all domains that were chosen before, and used is the number of these domains.
func (d *domainChanges) concern(domain, object string, chosen []string, used int) bool {
	changes := d.members[domain]
	if changes == nil {
		return false
	}
	own := make([]string, 0, len(chosen))
	for _, name := range chosen {
		if d.of[name] == domain {
			own = append(own, name)
		}
	}
	// If all domains have the same number of candidates, and each could have so many, no turn of a domain depends on another one.
	fixed := d.bounds.Limit == 0 && len(own) == d.bounds.MaxClusters || d.bounds.Limit > 0 &&
		len(own)*used == d.bounds.Limit && d.even(chosen, used)
	return !fixed || d.sizes[domain] < len(own) || changes.concern(object, own, len(own))
}

// even reports whether each domain that was used has the same number of the chosen candidates, at least one. used is the number of these
// domains.
func (d *domainChanges) even(chosen []string, used int) bool {
	counts := make(map[string]int, used)
	for _, name := range chosen {
		counts[d.of[name]]++
	}
	for _, n := range counts {
		if n*used != len(chosen) {
			return false
		}
	}
	return true
}

// ranked returns a candidate with its rank.
func (r *ranker) ranked(c candidate) ranked { return ranked{c, [sha256.Size]byte(r.rank(c.name))} }
