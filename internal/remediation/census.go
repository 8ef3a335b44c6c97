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

package remediation

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/placement"
)

// Compliance says how an existing object compares to what policies decide that look at existing objects.
type Compliance string

const (
	// Placed means that the object has the values that policies decide, whether or not a record of them is missing.
	Placed Compliance = "placed"
	// AwaitsPatch means that the object differs, and that remediation is going to patch or evict it.
	AwaitsPatch Compliance = "waiting"
	// Violates means that a policy denies the object or can't decide it, or that it differs and remediation does not change that.
	Violates Compliance = "violating"
)

// ComplianceOf returns the compliance of an object for qualified verdicts on it. ok is false if no policy looks at it.
func ComplianceOf(verdicts []*placement.Verdict) (_ Compliance, ok bool) {
	out, blocked := Placed, Blocks(verdicts)
	for _, v := range verdicts {
		if !v.Policy.RemediatesExisting() {
			continue
		}
		ok = true
		if v.Err != nil || len(v.Decision.Errors) > 0 {
			return Violates, true
		}
		if v.Policy.NeedsApproval() {
			v = cmp.Or(v.Released, v)
		}
		for _, c := range v.Changes {
			switch {
			case c.RecordsOnly():
			case possible(c) && !blocked && (v.Policy.Automatic() || v.Policy.NeedsApproval()):
				out = AwaitsPatch
			default:
				return Violates, true
			}
		}
	}
	return out, ok
}

// Census counts the existing objects that policies match by the clusters that they name, and by compliance. To record an object takes the
// same time for any number of clusters, because objects with equal lists of clusters count together. It is safe for concurrent use.
type Census struct {
	mu      sync.Mutex
	objects map[Key]entry
	// groups count the objects with equal lists of clusters, by the text of the list.
	groups map[string]*censusGroup
}

// entry is an object of a Census.
type entry struct {
	list       string
	compliance Compliance
	policies   []string
}

// censusGroup counts the objects with one list of clusters.
type censusGroup struct {
	objects     int
	compliances map[Compliance]int
}

// NewCensus returns an empty census.
func NewCensus() *Census {
	return &Census{objects: map[Key]entry{}, groups: map[string]*censusGroup{}}
}

// Record replaces what is known of an object with a list of clusters by what qualified verdicts on it say. list is a text of package
// clusterlist. An object without one does not count, and neither does one that follows a controller, with which it counts.
func (c *Census) Record(key Key, list *string, verdicts []*placement.Verdict) {
	compliance, ok := ComplianceOf(verdicts)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
	if !ok || list == nil || slices.ContainsFunc(verdicts, func(v *placement.Verdict) bool { return v.Follows != "" }) {
		return
	}
	c.objects[key] = entry{*list, compliance, Names(verdicts)}
	group := c.groups[*list]
	if group == nil {
		group = &censusGroup{compliances: map[Compliance]int{}}
		c.groups[*list] = group
	}
	group.objects++
	group.compliances[compliance]++
}

// Forget removes an object.
func (c *Census) Forget(key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
}

// ForgetPolicy removes the objects that no other policy matches. The compliance of those that others match stays until they are decided again.
func (c *Census) ForgetPolicy(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.objects {
		if !slices.Contains(e.policies, name) {
			continue
		}
		e.policies = slices.DeleteFunc(slices.Clone(e.policies), func(policy string) bool { return policy == name })
		if len(e.policies) == 0 {
			c.remove(key)
		} else {
			c.objects[key] = e
		}
	}
}

func (c *Census) remove(key Key) {
	e, known := c.objects[key]
	if !known {
		return
	}
	delete(c.objects, key)
	group := c.groups[e.list]
	group.objects--
	group.compliances[e.compliance]--
	if group.objects == 0 {
		delete(c.groups, e.list)
	}
}

// ClusterCount is the number of objects in a cluster, by compliance.
type ClusterCount struct {
	// Cluster is empty for all clusters that are not counted by themselves. An object in several of them counts once for each.
	Cluster string
	Objects map[Compliance]int
}

// Counts returns the numbers of objects by cluster: at most limit clusters with the most objects by themselves, sorted by name, and then the
// others together, if there are any.
func (c *Census) Counts(limit int) []ClusterCount {
	byCluster := map[string]map[Compliance]int{}
	c.mu.Lock()
	for list, group := range c.groups {
		listed, _ := clusterlist.Parse(list)
		names, _ := listed.All()
		for _, name := range names {
			if byCluster[name] == nil {
				byCluster[name] = map[Compliance]int{}
			}
			for compliance, n := range group.compliances {
				byCluster[name][compliance] += n
			}
		}
	}
	c.mu.Unlock()
	out := make([]ClusterCount, 0, len(byCluster))
	for name, objects := range byCluster {
		out = append(out, ClusterCount{name, objects})
	}
	slices.SortFunc(out, func(a, b ClusterCount) int {
		return cmp.Or(cmp.Compare(b.total(), a.total()), strings.Compare(a.Cluster, b.Cluster))
	})
	if len(out) > limit {
		others := ClusterCount{Objects: map[Compliance]int{}}
		for _, count := range out[limit:] {
			for compliance, n := range count.Objects {
				others.Objects[compliance] += n
			}
		}
		out = append(out[:limit:limit], others)
	}
	// The others have no name.
	named := out[:min(limit, len(out))]
	slices.SortFunc(named, func(a, b ClusterCount) int { return strings.Compare(a.Cluster, b.Cluster) })
	return out
}

// total returns the number of objects.
func (c ClusterCount) total() (n int) {
	for _, objects := range c.Objects {
		n += objects
	}
	return n
}

// Compliances returns all compliances.
func Compliances() []Compliance { return []Compliance{Placed, AwaitsPatch, Violates} }
