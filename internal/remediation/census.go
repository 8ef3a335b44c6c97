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
	lists   map[string]*censusList
}

// entry is an object of a Census.
type entry struct {
	list       *censusList
	compliance Compliance
}

// censusList counts the objects with one text of their list of clusters, by compliance.
type censusList struct {
	text   string
	counts ComplianceCounts
}

// NewCensus returns an empty census.
func NewCensus() *Census {
	return &Census{objects: map[Key]entry{}, lists: map[string]*censusList{}}
}

// Record replaces what is known of an object with a list of clusters by what qualified verdicts on it say. list is a text of package
// clusterlist. An object without one does not count, and neither does one that follows a controller, with which it counts.
func (c *Census) Record(key Key, list *string, verdicts []*placement.Verdict) {
	compliance, counts := ComplianceOf(verdicts)
	counts = counts && list != nil && !slices.ContainsFunc(verdicts, func(v *placement.Verdict) bool { return v.Follows != "" })
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, known := c.objects[key]; known {
		if e.list.counts[e.compliance]--; e.list.counts == (ComplianceCounts{}) {
			delete(c.lists, e.list.text)
		}
	}
	if !counts {
		delete(c.objects, key)
		return
	}
	if c.lists[*list] == nil {
		c.lists[*list] = &censusList{text: *list}
	}
	c.objects[key] = entry{c.lists[*list], compliance}
	c.lists[*list].counts[compliance]++
}

// Forget removes an object.
func (c *Census) Forget(key Key) { c.Record(key, nil, nil) }

// ComplianceCounts are numbers of objects by compliance.
type ComplianceCounts [Violates + 1]int

func (c ComplianceCounts) plus(other ComplianceCounts) ComplianceCounts {
	for compliance, n := range other {
		c[compliance] += n
	}
	return c
}

// ClusterCount is the number of objects in a cluster.
type ClusterCount struct {
	// Cluster is empty for all clusters that are not counted by themselves. An object in several of them counts once for each.
	Cluster string
	Objects ComplianceCounts
}

// Counts returns the numbers of objects by cluster: at most limit clusters with the most objects by themselves, sorted by name, and then
// the others together, if there are any.
func (c *Census) Counts(limit int) (out []ClusterCount) {
	byCluster := map[string]ComplianceCounts{}
	c.mu.Lock()
	for text, list := range c.lists {
		listed, _ := clusterlist.Parse(text)
		names, _ := listed.All()
		for _, name := range names {
			byCluster[name] = byCluster[name].plus(list.counts)
		}
	}
	c.mu.Unlock()
	for name, objects := range byCluster {
		out = append(out, ClusterCount{name, objects})
	}
	total := func(of ClusterCount) int { return of.Objects[Placed] + of.Objects[AwaitsPatch] + of.Objects[Violates] }
	slices.SortFunc(out, func(a, b ClusterCount) int {
		return cmp.Or(cmp.Compare(total(b), total(a)), strings.Compare(a.Cluster, b.Cluster))
	})
	named := out[:min(limit, len(out))]
	var others ClusterCount
	for _, count := range out[len(named):] {
		others.Objects = others.Objects.plus(count.Objects)
	}
	slices.SortFunc(named, func(a, b ClusterCount) int { return strings.Compare(a.Cluster, b.Cluster) })
	if len(out) > limit {
		named = append(named, others)
	}
	return named
}
