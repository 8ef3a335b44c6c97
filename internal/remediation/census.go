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

// ComplianceOf returns the compliance of an object for qualified verdicts on it.
func ComplianceOf(verdicts []*placement.Verdict) Compliance {
	out, blocked := Placed, Blocks(verdicts)
	for _, v := range verdicts {
		if !v.Policy.RemediatesExisting() {
			continue
		}
		decided := v.OnceApproved()
		if v.Err != nil || len(v.Decision.Errors) > 0 || len(decided.Decision.Errors) > 0 {
			return Violates
		}
		for _, c := range decided.Changes {
			switch {
			case c.RecordsOnly():
			case possible(c) && !blocked && v.Policy.PatchesExisting():
				out = AwaitsPatch
			default:
				return Violates
			}
		}
	}
	return out
}

// listCount counts the objects with one text of their list of clusters, so that to record an object takes the same time for any number of
// clusters.
type listCount struct {
	text   string
	counts ComplianceCounts
}

// Place replaces the list of clusters of a recorded object, and its compliance, by that of qualified verdicts on it. list is a text of
// package clusterlist. An object without one does not count, and neither does one that follows a controller, with which it counts.
func (l *Ledger) Place(key Key, list *string, verdicts []*placement.Verdict) {
	counts := list != nil && !slices.ContainsFunc(verdicts, func(v *placement.Verdict) bool { return v.Follows != "" })
	defer l.lock()()
	o, known := l.matched[key]
	if !known {
		return
	}
	l.uncount(o)
	if o.list = nil; counts {
		if l.lists[*list] == nil {
			l.lists[*list] = &listCount{text: *list}
		}
		o.list, o.compliance = l.lists[*list], ComplianceOf(verdicts)
		o.list.counts[o.compliance]++
	}
	l.matched[key] = o
}

// uncount takes an object out of the numbers of objects by cluster.
func (l *Ledger) uncount(o matchedObject) {
	if o.list == nil {
		return
	}
	if o.list.counts[o.compliance]--; o.list.counts == (ComplianceCounts{}) {
		delete(l.lists, o.list.text)
	}
}

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

// ClusterCounts returns the numbers of recorded objects by cluster: at most limit clusters with the most objects by themselves, sorted by
// name, and then the others together, if there are any.
func (l *Ledger) ClusterCounts(limit int) (out []ClusterCount) {
	var lists []listCount
	l.mu.Lock()
	for _, list := range l.lists {
		lists = append(lists, *list)
	}
	l.mu.Unlock()
	byCluster := map[string]ComplianceCounts{}
	for _, list := range lists {
		listed, _ := clusterlist.Parse(list.text)
		names, _ := listed.All()
		for _, name := range names {
			byCluster[name] = byCluster[name].plus(list.counts)
		}
	}
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
