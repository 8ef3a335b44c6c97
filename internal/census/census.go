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

// Package census counts placed objects by cluster.
package census

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/berth-dev/berth/internal/clusterlist"
)

// Compliance is how an existing object compares to the decisions of those policies that evaluate existing objects: it has the decided
// values, waits for a patch, or violates the decisions.
type Compliance uint8

const (
	// Placed means that the object has the values that policies decide, whether or not a record of them is missing.
	Placed Compliance = iota
	// AwaitsPatch means that the object differs, and that remediation is going to patch or evict it.
	AwaitsPatch
	// Violates means that a policy denies the object or can't decide it, or that it differs and remediation does not change that.
	Violates
)

// Compliances returns all values of the type Compliance.
func Compliances() []Compliance { return []Compliance{Placed, AwaitsPatch, Violates} }

// String returns the name of the compliance in metrics: placed, waiting, or violating.
func (c Compliance) String() string { return [...]string{"placed", "waiting", "violating"}[c] }

// Counts are numbers of objects, indexed by their Compliance.
type Counts [Violates + 1]int

// plus returns the sum of two counts.
func (c Counts) plus(other Counts) Counts {
	for compliance, n := range other {
		c[compliance] += n
	}
	return c
}

// ClusterCount is the number of objects in a cluster, by compliance.
type ClusterCount struct {
	// Cluster is the name of the cluster; "" for all clusters that are not counted individually: an object counts once for each of these.
	Cluster string
	Objects Counts
}

// Census has the numbers of objects by their lists of clusters. It is safe for concurrent use.
type Census struct {
	mu    sync.Mutex
	lists map[string]*list // By list.text.
}

// list has the list of clusters that some objects share, as text, and the numbers of these objects by compliance. The text is not parsed
// when an object is counted, so that this takes the same time for long lists.
type list struct {
	text   string // The list as JSON: ["eu-1","eu-2"] or, of an object that lists clusters by term, [["eu-1"],null].
	counts Counts
}

// Entry is what Census.Count returned for one object: the list of clusters and the compliance by which the object counts. The next call of
// Count for the object needs it. The zero value counts in no cluster.
type Entry struct {
	list       *list
	compliance Compliance
}

// New returns a census without objects.
func New() *Census { return &Census{lists: map[string]*list{}} }

// Count counts an object in the clusters of a list, a text of package clusterlist such as ["eu-1","eu-2"], and no longer as before, the
// result of the last call for the object, or the zero Entry for an object that is not counted yet. With a nil text, the object counts in no
// cluster.
func (c *Census) Count(before Entry, text *string, compliance Compliance) (after Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := before.list; of != nil {
		if of.counts[before.compliance]--; of.counts == (Counts{}) {
			delete(c.lists, of.text)
		}
	}
	if text == nil {
		return Entry{}
	}
	if c.lists[*text] == nil {
		// A copy, because the text may be a part of a packed object.
		text := strings.Clone(*text)
		c.lists[text] = &list{text: text}
	}
	after = Entry{c.lists[*text], compliance}
	after.list.counts[compliance]++
	return after
}

// Clusters returns the numbers of objects by cluster: individually for the limit clusters with the most objects, sorted by name, and then,
// with the Cluster "", one sum for all others, if there are any.
func (c *Census) Clusters(limit int) (out []ClusterCount) {
	var lists []list
	c.mu.Lock()
	for _, of := range c.lists {
		lists = append(lists, *of)
	}
	c.mu.Unlock()
	byCluster := map[string]Counts{}
	for _, of := range lists {
		listed, _ := clusterlist.Parse(of.text)
		names, _ := listed.All()
		for _, name := range names {
			byCluster[name] = byCluster[name].plus(of.counts)
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
