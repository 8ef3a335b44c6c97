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

// maxListed is the maximum number of clusters in one PlacementDecision, of both kinds.
const maxListed = 100

// lists are the objects of a system that list the clusters of a decision, each of them a part.
type lists struct {
	Kind
	// infix is between the name that the lists of an object have in common and the number of a list, and first is the number of the
	// first list.
	infix string
	first int
	// entries is the path of the entries, and cluster that of the cluster's name in an entry.
	entries, cluster []string
}

// name returns the name of the list with an index.
func (l *lists) name(base string, index int) string {
	return base + l.infix + strconv.Itoa(l.first+index)
}

// read returns the clusters of a list, and its index. ok is false if the object is no list of that base.
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

// ListsOf returns the clusters in the lists of a placed object, by the index of the list, as Decision.Lists has them. Other objects
// among those that exist are left out, and so are lists whose index is not below the number of lists: other clients may have deleted
// some, or added others. It returns nil if the system has no lists.
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

// divideIntoLists divides clusters into lists. A cluster keeps the list in which it is, so that the order in which lists are written
// does not matter to the clusters that stay, and a cluster that joins or leaves changes one list. Others come into the first list with
// room. There is at least one list, and the last one of several is not empty. The clusters are sorted, and so are those of each list.
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
