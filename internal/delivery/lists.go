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

package delivery

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
)

// maxListed is the maximum number of clusters in one PlacementDecision, of SIG Multicluster and of Open Cluster Management.
const maxListed = 100

// lists describes the delivered objects of a system that list the clusters of a decision, such as PlacementDecisions. Each of them lists a
// part. Their names consist of a base, the infix, and a number.
type lists struct {
	Kind
	infix   string   // the part of the name between the base and the number
	first   int      // the number in the name of the first list: 0 or 1
	entries []string // the path of the entries in a list
	cluster []string // the path of the cluster's name in an entry
}

// name returns the name of the list with an index, which counts from 0, for a base. The number at its end is larger than the index if the
// first list has the number 1.
func (l *lists) name(base string, index int) string {
	return base + l.infix + strconv.Itoa(l.first+index)
}

// read returns the index and the clusters of an object if it is a list whose name has the base; otherwise ok is false.
func (l *lists) read(base string, o *unstructured.Unstructured) (index int, clusters []string, ok bool) {
	number, found := strings.CutPrefix(o.GetName(), base+l.infix)
	index, err := strconv.Atoi(number)
	if index -= l.first; o.GetKind() != l.Kind.Kind || !found || err != nil || index < 0 || l.name(base, index) != o.GetName() {
		return 0, nil, false
	}
	entries, _, _ := unstructured.NestedSlice(o.Object, l.entries...)
	for _, entry := range entries {
		members, _ := entry.(map[string]any)
		if name, found, err := unstructured.NestedString(members, l.cluster...); found && err == nil {
			clusters = append(clusters, name)
		}
	}
	return index, clusters, true
}

// ListsOf returns the clusters in the lists that exist for a placed object, by index of the list, for Decision.Lists. Of the existing
// objects, it ignores those that are no lists, and lists whose index is not below the number of lists: other clients may have deleted some,
// or added others. It returns nil if the system has no lists.
func (s System) ListsOf(placed Object, existing []*unstructured.Unstructured) [][]string {
	if s.lists == nil {
		return nil
	}
	base, _ := listBase(placed)
	found := map[int][]string{}
	for _, o := range existing {
		if index, clusters, ok := s.lists.read(base, o); ok {
			found[index] = clusters
		}
	}
	out := make([][]string, len(found))
	for index := range out {
		out[index] = found[index]
	}
	return out
}

// divideIntoLists divides sorted clusters into lists of at most maxListed clusters, each of them sorted. A cluster stays in the list of
// existing that has it, so that a cluster that is added or removed changes only one list, and the order in which lists are written does not
// matter to the others. A new cluster is added to the first list with room. There is at least one list, and the last one of several is not
// empty.
func divideIntoLists(clusters []string, existing [][]string) [][]string {
	remaining := sets.New(clusters...)
	out := make([][]string, len(existing), max(len(existing), 1))
	for i, list := range existing {
		for _, name := range list {
			if remaining.Has(name) && len(out[i]) < maxListed {
				remaining.Delete(name)
				out[i] = append(out[i], name)
			}
		}
	}
	next := 0
	for _, name := range clusters {
		if !remaining.Has(name) {
			continue
		}
		for next < len(out) && len(out[next]) == maxListed {
			next++
		}
		if next == len(out) {
			out = append(out, nil)
		}
		out[next] = append(out[next], name)
	}
	for len(out) > 1 && len(out[len(out)-1]) == 0 {
		out = out[:len(out)-1]
	}
	for _, list := range out {
		slices.Sort(list)
	}
	if len(out) == 0 {
		out = append(out, nil)
	}
	return out
}
