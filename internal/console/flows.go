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

package console

import (
	"cmp"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/whatif"
)

// Flow is a number of objects that leave one cluster and come to another one.
type Flow struct {
	// From is empty for objects that come to a cluster without leaving another, and To for objects that leave a cluster without coming to
	// another.
	From string `json:"from"`
	To   string `json:"to"`
	// Pending reports whether the objects move only with an approval, or at their next update, and not at once.
	Pending bool `json:"pending"`
	Objects int  `json:"objects"` // the number of objects
}

// ends are what a Flow has in common: the cluster that its objects leave, the one that they come to, and Flow.Pending.
type ends struct {
	from, to string
	pending  bool
}

// transition is a change of the value of a key, from one text to another, which many objects have in common. A missing value is an empty
// text, since no list of clusters is empty.
type transition struct {
	field, key, from, to string
	pending              bool
}

// flowsOf returns the flows of objects between clusters, the largest first, given the values of each object that change. An object that
// leaves several clusters and comes to several others flows from the first to the first, from the second to the second, and so on, by name.
func flowsOf(objects [][]whatif.Value) []Flow {
	transitions := map[transition]int{}
	for _, values := range objects {
		for _, v := range values {
			transitions[transition{v.Field, v.Key, ptr.Deref(v.From, ""), ptr.Deref(v.To, ""), v.Pending}]++
		}
	}
	counts := map[ends]int{}
	for t, n := range transitions {
		for _, e := range t.flows() {
			counts[e] += n
		}
	}
	out := make([]Flow, 0, len(counts))
	for e, n := range counts {
		out = append(out, Flow{e.from, e.to, e.pending, n})
	}
	slices.SortFunc(out, func(a, b Flow) int {
		return cmp.Or(cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), compareBools(a.Pending, b.Pending))
	})
	return out
}

// flows returns the ends of the flows of an object with the transition; none if the value is no list of clusters.
func (t transition) flows() []ends {
	text := func(value string) *string {
		if value == "" {
			return nil
		}
		return &value
	}
	change := placement.Change{Field: t.field, Key: t.key, From: text(t.from), To: text(t.to)}
	if !change.MovesClusters() {
		return nil
	}
	before, after := clustersIn(change.From), clustersIn(change.To)
	left := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return slices.Contains(after, name) })
	came := slices.DeleteFunc(after, func(name string) bool { return slices.Contains(before, name) })
	out := make([]ends, max(len(left), len(came)))
	for i := range out {
		out[i].pending = t.pending
		if i < len(left) {
			out[i].from = left[i]
		}
		if i < len(came) {
			out[i].to = came[i]
		}
	}
	return out
}

// compareBools orders false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// clustersIn returns the names in the text of a list of clusters, sorted, each once.
func clustersIn(text *string) []string {
	if text == nil {
		return nil
	}
	listed, _ := clusterlist.Parse(*text)
	names, _ := listed.All()
	return names
}
