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

package clusterlist

import (
	"encoding/json"
	"slices"
)

// NoCluster is a name that no cluster has. It stands for the empty list in the fields in which an empty list means all
// clusters, or is invalid. Karmada's cluster names have no dots, and the name is below a domain of Berth's own.
const NoCluster = "no-cluster.placement.berth.dev"

// NameLabel is the label by which cluster selectors name clusters. Its value is the name of the cluster.
const NameLabel = "clusters.berth.dev/name"

// Names are the clusters that an object names.
type Names struct {
	// Terms are the names in each term. A nil term names no clusters, so that it may select any; an empty one selects none.
	Terms [][]string
	// Several reports whether the text is an array with an item for each term. Otherwise, there is one term, and the text is the array of its
	// names.
	Several bool
}

// Parse parses a List.Text. ok is false if the text is neither an array of names nor an array of terms.
func Parse(text string) (n Names, ok bool) {
	if names, ok := plainArray(text); ok {
		return Names{Terms: [][]string{names}}, true
	}
	if json.Unmarshal([]byte(text), &n.Terms) == nil && len(n.Terms) > 0 {
		n.Several = true
		return n, true
	}
	names, err := ParseArray(text)
	if err != nil || names == nil {
		return Names{}, false
	}
	return Names{Terms: [][]string{names}}, true
}

// Text returns the text that Parse parses; nil if there is one term and it is nil. A term that is empty, and not nil, has the text [].
func (n Names) Text() *string {
	if !n.Several {
		if len(n.Terms) == 0 || n.Terms[0] == nil {
			return nil
		}
		return new(ArrayText(n.Terms[0]))
	}
	// Marshaling does not fail: all values are strings.
	text, _ := json.Marshal(n.Terms)
	return new(string(text))
}

// All returns the names of all terms, sorted, each once. ok is false if a term may select any cluster, or there are no terms; names then
// has those of the other terms.
func (n Names) All() (names []string, ok bool) {
	names = []string{}
	ok = len(n.Terms) > 0
	for _, term := range n.Terms {
		ok = ok && term != nil
		names = append(names, term...)
	}
	slices.Sort(names)
	return slices.Compact(names), ok
}
