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

// Flow is a number of objects that leave one cluster and come to another one, because of the changes that the user tries, or of a plan.
type Flow struct {
	// From is the name of the cluster that the objects leave; empty if they come to a cluster without leaving another. To is the name of
	// the one that they come to; empty if they leave a cluster without coming to another.
	From string `json:"from"`
	To   string `json:"to"`
	// Pending reports whether the objects move only after an approval, or at their next update. Otherwise Berth moves them at once, or
	// when a window, a budget, or a pause allows it.
	Pending bool `json:"pending"`
	// Planned reports whether the objects leave the cluster also without the changes that the user tries, for another cluster or at another
	// time.
	Planned bool `json:"planned,omitempty"`
	Objects int  `json:"objects"` // the number of objects
}

// ends are what the objects of a Flow have in common: the cluster that they leave, the one that they come to, Flow.Pending, and
// Flow.Planned.
type ends struct {
	from, to         string
	pending, planned bool
}

// valueChange is a change of one value of an object, as in whatif.Value, which many objects have in common. from and to are "" for no
// value, since no list of clusters is the empty text.
type valueChange struct {
	field, key, from, to string
	pending              bool
	// planned is the value for which the object waits without the changes that the user tries; "" if it waits for none, or for its
	// removal. isPlanned reports whether the object waits without the changes.
	planned   string
	isPlanned bool
}

// flowsOf returns the flows of objects between clusters, the largest first, given the values of each object that change. An object that
// leaves several clusters and comes to several others flows from the first to the first, from the second to the second, and so on, by name.
// What is planned already for other clusters counts only as far as it differs.
func flowsOf(objects [][]whatif.Value) []Flow {
	numbers := map[valueChange]int{}
	for _, values := range objects {
		for _, v := range values {
			c := valueChange{field: v.Field, key: v.Key, from: ptr.Deref(v.From, ""), to: ptr.Deref(v.To, ""), pending: v.Pending}
			if v.Planned != nil {
				c.planned, c.isPlanned = ptr.Deref(v.Planned.To, ""), true
			}
			numbers[c]++
		}
	}
	counts := map[ends]int{}
	for c, n := range numbers {
		for _, e := range c.flows() {
			counts[e] += n
		}
	}
	out := make([]Flow, 0, len(counts))
	for e, n := range counts {
		out = append(out, Flow{e.from, e.to, e.pending, e.planned, n})
	}
	slices.SortFunc(out, func(a, b Flow) int {
		return cmp.Or(cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), compareBools(a.Pending, b.Pending),
			compareBools(a.Planned, b.Planned))
	})
	return out
}

// flows returns the ends of the flows of one object with the change; none if the value is no list of clusters, or the clusters stay.
func (c valueChange) flows() []ends {
	text := func(value string) *string {
		if value == "" {
			return nil
		}
		return &value
	}
	change := placement.Change{Field: c.field, Key: c.key, From: text(c.from), To: text(c.to)}
	if !change.MovesClusters() {
		return nil
	}
	before := clustersIn(change.From)
	left, came := between(before, clustersIn(change.To))
	var leaves []string
	if c.isPlanned {
		var comes []string
		leaves, comes = between(before, clustersIn(text(c.planned)))
		if c.planned != c.to {
			left, came = without(left, came, leaves, comes)
		}
	}
	out := make([]ends, max(len(left), len(came)))
	for i := range out {
		out[i].pending = c.pending
		if i < len(left) {
			out[i].from, out[i].planned = left[i], slices.Contains(leaves, left[i])
		}
		if i < len(came) {
			out[i].to = came[i]
		}
	}
	return out
}

// between returns the clusters that an object leaves (in before alone), and those that it comes to (in after alone), in their order. It may
// change the slice after.
func between(before, after []string) (left, came []string) {
	left = slices.DeleteFunc(slices.Clone(before), func(name string) bool { return slices.Contains(after, name) })
	came = slices.DeleteFunc(after, func(name string) bool { return slices.Contains(before, name) })
	return left, came
}

// without returns the clusters that an object leaves (left) and comes to (came), less those that it leaves (plannedLeft) and comes to
// (plannedCame) also without the changes that the user tries: as many of left as of came, the first ones of each. It changes the slices
// left and came.
func without(left, came, plannedLeft, plannedCame []string) (_, _ []string) {
	for {
		i := slices.IndexFunc(left, func(name string) bool { return slices.Contains(plannedLeft, name) })
		j := slices.IndexFunc(came, func(name string) bool { return slices.Contains(plannedCame, name) })
		if i < 0 || j < 0 {
			return left, came
		}
		left, came = slices.Delete(left, i, i+1), slices.Delete(came, j, j+1)
	}
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

// clustersIn returns the names in the text of a list of clusters, sorted, each once; nil for no text, and for a text that is no such list.
func clustersIn(text *string) []string {
	if text == nil {
		return nil
	}
	listed, _ := clusterlist.Parse(*text)
	names, _ := listed.All()
	return names
}
