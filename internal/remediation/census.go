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
type Compliance uint8

const (
	// Placed means that the object has the values that policies decide, whether or not a record of them is missing.
	Placed Compliance = iota
	// AwaitsPatch means that the object differs, and that remediation is going to patch or evict it.
	AwaitsPatch
	// Violates means that a policy denies the object or can't decide it, or that it differs and remediation does not change that.
	Violates
)

// Compliances returns all compliances.
func Compliances() []Compliance { return []Compliance{Placed, AwaitsPatch, Violates} }

// String returns the name of the compliance in metrics.
func (c Compliance) String() string { return [...]string{"placed", "waiting", "violating"}[c] }

// ComplianceOf returns the compliance of an object for qualified verdicts on it. ok is false if no policy looks at it.
func ComplianceOf(verdicts []*placement.Verdict) (_ Compliance, ok bool) {
	out, blocked := Placed, Blocks(verdicts)
	for _, v := range verdicts {
		if !v.Policy.RemediatesExisting() {
			continue
		}
		ok = true
		decided := v.OnceApproved()
		if v.Err != nil || len(v.Decision.Errors) > 0 || len(decided.Decision.Errors) > 0 {
			return Violates, true
		}
		for _, c := range decided.Changes {
			switch {
			case c.RecordsOnly():
			case possible(c) && !blocked && v.Policy.PatchesExisting():
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
	groups  map[groupKey]*censusGroup
}

// entry is an object of a Census.
type entry struct {
	group      *censusGroup
	compliance Compliance
}

// groupKey is what the objects of a group have in common: the text of their list of clusters, and the names of the policies that match
// them, separated by spaces.
type groupKey struct{ list, policies string }

// censusGroup counts the objects with a groupKey.
type censusGroup struct {
	groupKey
	// counts are the numbers of objects by compliance.
	counts [Violates + 1]int
}

// NewCensus returns an empty census.
func NewCensus() *Census {
	return &Census{objects: map[Key]entry{}, groups: map[groupKey]*censusGroup{}}
}

// Record replaces what is known of an object with a list of clusters by what qualified verdicts on it say. list is a text of package
// clusterlist. An object without one does not count, and neither does one that follows a controller, with which it counts.
func (c *Census) Record(key Key, list *string, verdicts []*placement.Verdict) {
	if list == nil || slices.ContainsFunc(verdicts, func(v *placement.Verdict) bool { return v.Follows != "" }) {
		c.Forget(key)
		return
	}
	compliance, ok := ComplianceOf(verdicts)
	if !ok {
		c.Forget(key)
		return
	}
	of := groupKey{*list, strings.Join(Names(verdicts), " ")}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, known := c.objects[key]; known && e.compliance == compliance && e.group.groupKey == of {
		return
	}
	c.remove(key)
	c.add(key, of, compliance)
}

// Forget removes an object.
func (c *Census) Forget(key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
}

// ForgetPolicy removes the objects that no other policy matches. The compliance of those that others match stays until they are decided
// again.
func (c *Census) ForgetPolicy(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.objects {
		policies := strings.Fields(e.group.policies)
		if !slices.Contains(policies, name) {
			continue
		}
		policies = slices.DeleteFunc(policies, func(policy string) bool { return policy == name })
		c.remove(key)
		if len(policies) > 0 {
			c.add(key, groupKey{e.group.list, strings.Join(policies, " ")}, e.compliance)
		}
	}
}

// add adds an object. The caller holds mu.
func (c *Census) add(key Key, of groupKey, compliance Compliance) {
	group := c.groups[of]
	if group == nil {
		group = &censusGroup{groupKey: of}
		c.groups[of] = group
	}
	group.counts[compliance]++
	c.objects[key] = entry{group, compliance}
}

// remove removes an object. The caller holds mu.
func (c *Census) remove(key Key) {
	e, known := c.objects[key]
	if !known {
		return
	}
	delete(c.objects, key)
	if e.group.counts[e.compliance]--; e.group.counts == [Violates + 1]int{} {
		delete(c.groups, e.group.groupKey)
	}
}

// ClusterCount is the number of objects in a cluster, by compliance.
type ClusterCount struct {
	// Cluster is empty for all clusters that are not counted by themselves. An object in several of them counts once for each.
	Cluster string
	Objects map[Compliance]int
}

// Counts returns the numbers of objects by cluster: at most limit clusters with the most objects by themselves, sorted by name, and then
// the others together, if there are any.
func (c *Census) Counts(limit int) []ClusterCount {
	byCluster := map[string]map[Compliance]int{}
	c.mu.Lock()
	for _, group := range c.groups {
		listed, _ := clusterlist.Parse(group.list)
		names, _ := listed.All()
		for _, name := range names {
			if byCluster[name] == nil {
				byCluster[name] = map[Compliance]int{}
			}
			for compliance, n := range group.counts {
				byCluster[name][Compliance(compliance)] += n
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
