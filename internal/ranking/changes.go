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
	// domainOf has the domains of the candidates before; nil if the candidates are not in domains.
	domainOf map[string]string
	// changed are the candidates that differ, or the domains with candidates that differ. entered are those of them that can be chosen now.
	changed map[string]bool
	entered List
	// levels are the present levels of the candidates or domains.
	levels map[string]int64
	// limit is the maximum number of candidates or domains that are chosen.
	limit int
}

// newChanges returns the changes from one list of candidates or domains to another. differs reports whether one in both differs otherwise
// than by its level.
func newChanges(before, after List, limit int, differs func(name string) bool) *Changes {
	out := &Changes{changed: map[string]bool{}, levels: make(map[string]int64, len(after)), limit: limit}
	for _, c := range after {
		out.levels[c.name] = c.level
	}
	known := make(map[string]bool, len(before))
	for _, c := range before {
		known[c.name] = true
		if level, ok := out.levels[c.name]; !ok || level != c.level || differs(c.name) {
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
func (l List) ChangesTo(after List, n int) *Changes {
	return newChanges(l, after, n, func(string) bool { return false })
}

// ChangesTo returns the changes to later candidates in domains. The bounds are those of both choices. It returns nil if the two have other
// minClusters.
func (d *Domains) ChangesTo(after *Domains, b Bounds) *Changes {
	if d.minClusters != after.minClusters {
		return nil
	}
	// A domain that can't be used may have other candidates now, and nobody has them.
	out := newChanges(d.usable, after.usable, after.mostDomains(b), func(domain string) bool {
		return !slices.Equal(d.members[domain], after.members[domain])
	})
	out.domainOf = map[string]string{}
	for domain, members := range d.members {
		for _, c := range members {
			out.domainOf[c.name] = domain
		}
	}
	return out
}

// Concern reports whether another choice may be made for an object for which these candidates were chosen before.
func (c *Changes) Concern(object string, chosen []string) bool {
	if c.domainOf != nil {
		chosen = c.domainsOf(chosen)
	}
	switch {
	case len(chosen) == 0 || slices.ContainsFunc(chosen, func(name string) bool { return c.changed[name] }):
		return true
	case len(c.entered) == 0:
		return false
	case len(chosen) < c.limit:
		// All were chosen that there were.
		return true
	}
	level := c.levels[chosen[0]]
	for _, name := range chosen {
		level = max(level, c.levels[name])
	}
	if c.entered[0].level != level {
		// The first one has the lowest level of all.
		return c.entered[0].level < level
	}
	r := newRanker(object)
	var last []ranked
	for _, name := range chosen {
		if c.levels[name] == level {
			last = append(last, r.ranked(candidate{name, level}))
		}
	}
	worst := slices.MaxFunc(last, compare)
	return slices.ContainsFunc(c.entered, func(e candidate) bool { return e.level == level && compare(r.ranked(e), worst) < 0 })
}

// domainsOf returns the domains of candidates, each once.
func (c *Changes) domainsOf(candidates []string) (out []string) {
	for _, name := range candidates {
		if domain, ok := c.domainOf[name]; ok && !slices.Contains(out, domain) {
			out = append(out, domain)
		}
	}
	return out
}

// ranked returns a candidate with its rank.
func (r *ranker) ranked(c candidate) ranked { return ranked{c, [sha256.Size]byte(r.rank(c.name))} }
