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

package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
)

// By is a kind of places by which objects are counted.
type By string

const (
	// ByCluster counts objects by the clusters that they name.
	ByCluster By = "cluster"
	// ByNode counts Pods by node.
	ByNode By = "node"
	// ByZone counts objects by the zones of their clusters, and of their nodes.
	ByZone By = "zone"
	// ByRegion counts objects by the regions of their clusters, and of their nodes.
	ByRegion By = "region"
)

// Kinds returns all kinds of places.
func Kinds() []By { return []By{ByCluster, ByNode, ByZone, ByRegion} }

// ParseBy returns the kind of places that a user names, in singular or plural, in lower or upper case.
func ParseBy(name string) (By, error) {
	if by := By(strings.TrimSuffix(strings.ToLower(name), "s")); slices.Contains(Kinds(), by) {
		return by, nil
	}
	return "", fmt.Errorf("%q is none of cluster, node, zone, and region", name)
}

// Unknown is the name of the zone or region for clusters and nodes of which none is known.
const Unknown = "(unknown)"

// Table has the places of one kind, sorted by name. The place with an empty name, for objects that are nowhere, comes last.
type Table struct {
	By     By      `json:"by"`
	Places []Place `json:"places"`
	// Total counts each object once, even if it is in several places.
	Total Total `json:"total"`
	// Notes say what is missing because the user may not read it.
	Notes []string `json:"notes,omitempty"`
}

// Total is a number of objects, in all and in each state.
type Total struct {
	Objects int           `json:"objects"`
	States  map[State]int `json:"states"`
}

// add adds a number of objects, of which states has the number in each state. t.States must not be nil.
func (t *Total) add(objects int, states map[State]int) {
	t.Objects += objects
	for state, n := range states {
		t.States[state] += n
	}
}

// Place is a cluster, a node, a zone, or a region, with counts of the objects there.
type Place struct {
	// Name is empty for objects that are nowhere, such as those that a policy denies before they have clusters.
	Name string `json:"name"`
	// Region and Zones are those of a cluster or node; empty for a zone or region, and if they are not known.
	Region string   `json:"region,omitempty"`
	Zones  []string `json:"zones,omitempty"`
	// Ready reports whether the cluster or node is ready; nil for a zone or region, and if the cluster is in no inventory, or the node
	// unknown.
	Ready *bool `json:"ready,omitempty"`
	// Sites is the number of clusters and nodes in a zone or region; 0 for a cluster or node.
	Sites int `json:"sites,omitempty"`
	// Capacity is the sum of the capacities of the clusters and nodes. A cluster in several zones adds to none of them, since no inventory
	// divides its capacity.
	Capacity
	// Total counts the objects in the place. An object that is in several places counts in each.
	Total
	Arriving int `json:"arriving"` // how many objects are not in the place yet, although policies decide it for them
	Leaving  int `json:"leaving"`  // how many of the counted objects have to leave the place, because policies decide others for them
	// Replicas is the number of replicas that the objects in the place have there, as far as it is known; objects that are not there yet have
	// none.
	Replicas int64 `json:"replicas"`
	// Policies are the policies that match the objects in the place, sorted, whether or not they chose the place.
	Policies []string `json:"policies"`

	policies map[string]bool // the names of the policies seen so far; Policies is made of them at the end
}

// Table counts the objects by place.
func (f *Fleet) Table(by By) *Table {
	t := f.places(by)
	groups := map[groupKey]*group{}
	for i := range f.Objects {
		o := &f.Objects[i]
		if !o.counts(by) {
			continue
		}
		key := groupKey{o.clusters, o.decided, o.nodeBy(by)}
		if groups[key] == nil {
			groups[key] = &group{Total: Total{States: map[State]int{}}, policies: map[*list]bool{}}
		}
		groups[key].add(o)
		for cluster, replicas := range o.Division {
			for _, place := range t.of(cluster) {
				t.place(place).Replicas += replicas
			}
		}
	}
	out := &Table{By: by, Places: make([]Place, 0, len(t.known)), Total: Total{States: map[State]int{}}, Notes: f.Notes}
	for key, g := range groups {
		t.add(key, g)
		out.Total.add(g.Objects, g.States)
	}
	for _, p := range slices.SortedFunc(maps.Values(t.known), comparePlaces) {
		p.Policies = slices.AppendSeq([]string{}, maps.Keys(p.policies))
		slices.Sort(p.Policies)
		out.Places = append(out.Places, *p)
	}
	return out
}

// States returns the number of objects in each state. It counts the objects that Table counts, each once.
func (f *Fleet) States(by By) map[State]int {
	out := map[State]int{}
	for i := range f.Objects {
		if o := &f.Objects[i]; o.counts(by) {
			out[o.State]++
		}
	}
	return out
}

// comparePlaces orders places by name. The one of objects that are nowhere is the last.
func comparePlaces(a, b *Place) int {
	if a.Name == "" || b.Name == "" {
		return strings.Compare(b.Name, a.Name)
	}
	return strings.Compare(a.Name, b.Name)
}

// Member is an object that is in a place, or that policies decide to be there.
type Member struct {
	*Object
	// Here is the number of the object's replicas in the cluster, or in all clusters of the zone or region; nil if it is not known, for a
	// node, or if the object is not there yet.
	Here *int64 `json:"here,omitempty"`
	// Change is set if the object is about to leave the place, or is not there yet; it is empty if the object stays.
	Change Change `json:"change,omitempty"`
}

// Change says that an object is about to come to a place, or to leave it.
type Change string

const (
	// Arriving means that the object is not in the place, and that policies decide it to be there.
	Arriving Change = "Arriving"
	// Leaving means that the object is in the place, and that policies decide it not to be there.
	Leaving Change = "Leaving"
)

// changeOf returns the change of an object in a place. here reports whether the object is in the place, and there whether policies decide
// it to be. At least one is true.
func changeOf(here, there bool) Change {
	switch {
	case !here:
		return Arriving
	case !there:
		return Leaving
	}
	return ""
}

// In returns the objects that are in a place, or that policies decide to be there, in the order of Objects. The result is empty, and not
// nil, if there are none.
func (f *Fleet) In(by By, place string) []Member {
	t := f.places(by)
	out := []Member{}
	// Lists are few, and objects are many.
	type presence struct{ here, there bool }
	known := map[groupKey]presence{}
	for i := range f.Objects {
		o := &f.Objects[i]
		if !o.counts(by) {
			continue
		}
		key := groupKey{o.clusters, o.decided, o.nodeBy(by)}
		is, ok := known[key]
		if !ok {
			here, there := t.presence(key)
			is = presence{here[place] > 0, there[place] > 0}
			known[key] = is
		}
		switch {
		case place == "":
			// Objects that are nowhere have no place to leave, and what leaves all places does not come to one.
			if is.here {
				out = append(out, Member{Object: o})
			}
		case is.here || is.there:
			out = append(out, Member{o, t.replicasIn(o, place), changeOf(is.here, is.there)})
		}
	}
	return out
}

// replicasIn returns the number of replicas of an object in a place: the sum over the object's clusters there, without those of which the
// number is not known; nil if it is known of none of them, or if the object is not there.
func (t *places) replicasIn(o *Object, place string) *int64 {
	var sum *int64
	for _, cluster := range o.Clusters {
		if n := o.ReplicasIn(cluster); n != nil && slices.Contains(t.of(cluster), place) {
			sum = new(*n + ptr.Deref(sum, 0))
		}
	}
	return sum
}

// ReplicasIn returns the number of replicas of the object in a cluster; nil if it is not known, or if the object is not there.
func (o *Object) ReplicasIn(cluster string) *int64 {
	if !slices.Contains(o.Clusters, cluster) {
		return nil
	}
	if n, divided := o.Division[cluster]; divided {
		return &n
	}
	return o.Replicas
}

// counts reports whether tables by a kind of places count an object: by node, each Pod and nothing else; otherwise, an object that follows
// no controller, if it has a list of clusters or gets one, if it has a node and the places are zones or regions, or if it violates a policy
// and is no Pod.
func (o *Object) counts(by By) bool {
	if by == ByNode {
		return o.isPod()
	}
	placed := o.Clusters != nil || o.Decided != nil || by != ByCluster && o.Node != ""
	return o.Follows == "" && (placed || o.State == Violating && !o.isPod())
}

func (o *Object) isPod() bool { return o.Resource == pods.GroupResource().String() }

// nodeBy returns the node whose place counts a Pod in tables by a kind of places; "" if the Pod is counted by its clusters, and for other
// objects.
func (o *Object) nodeBy(by By) string {
	if by == ByNode || by != ByCluster && o.Clusters == nil && o.Decided == nil {
		return o.Node
	}
	return ""
}

// groupKey identifies a group of objects that are in the same places, because they have these lists and this node in common.
type groupKey struct {
	clusters, decided *list
	node              string
}

// group counts the objects with one groupKey.
type group struct {
	Total
	policies map[*list]bool // the lists of policies that match the objects
	// replicas is the sum of Object.Replicas: the replicas in each one of the clusters, of objects whose replicas no policy divides.
	replicas int64
}

// add counts an object.
func (g *group) add(o *Object) {
	g.Objects++
	g.States[o.State]++
	g.policies[o.policies] = true
	if o.Replicas != nil {
		g.replicas += *o.Replicas
	}
}

// places are the places of one kind.
type places struct {
	by By
	// clusters and nodes have the names of the places that count a cluster or node, by its name: itself, its zones, or its region, which is
	// Unknown if none is known.
	clusters, nodes map[string][]string
	// known has the places so far, by name: those of the clusters and nodes that are known, and others once objects are in them, such as a
	// cluster that no inventory has, or "" for objects that are nowhere.
	known map[string]*Place
}

// places returns the places of one kind without objects: those of the clusters in the Fleet, unless the kind is nodes, and those of the
// nodes, unless the kind is clusters.
func (f *Fleet) places(by By) *places {
	t := &places{by: by, clusters: map[string][]string{}, nodes: map[string][]string{}, known: map[string]*Place{}}
	if by != ByNode {
		t.addSites(f.Clusters, t.clusters)
	}
	if by != ByCluster {
		t.addSites(f.Nodes, t.nodes)
	}
	t.dropUnknown(f.Clusters, t.clusters)
	t.dropUnknown(f.Nodes, t.nodes)
	return t
}

// dropUnknown removes the used amounts of places to which a site adds its allocatable amount of the resource, and whose used amount is not
// known. of has the names of the places of each site, by its name.
func (t *places) dropUnknown(sites []Site, of map[string][]string) {
	for i := range sites {
		site := &sites[i]
		if names := of[site.Name]; len(names) == 1 {
			for name := range site.Allocatable {
				if _, known := site.Used[name]; !known {
					delete(t.place(names[0]).Used, name)
				}
			}
		}
	}
}

// addSites adds the places of sites, with what is known of the sites, and keeps the names of these places in of, by the name of the site.
// The capacity of a site that has several places is added to none of them.
func (t *places) addSites(sites []Site, of map[string][]string) {
	for i := range sites {
		site := &sites[i]
		names := t.namesOf(site)
		of[site.Name] = names
		for _, name := range names {
			p := t.place(name)
			if t.by == ByCluster || t.by == ByNode {
				p.Region, p.Zones, p.Ready = site.Region, site.Zones, &site.Ready
			} else {
				p.Sites++
			}
			if len(names) == 1 {
				p.Capacity.add(site.Capacity)
			}
		}
	}
}

// namesOf returns the names of the places of a site: its own, its region, or its zones; Unknown for a region or zone that is not known.
func (t *places) namesOf(site *Site) []string {
	switch {
	case t.by == ByRegion && site.Region != "":
		return []string{site.Region}
	case t.by == ByZone && len(site.Zones) > 0:
		return site.Zones
	case t.by == ByRegion || t.by == ByZone:
		return []string{Unknown}
	}
	return []string{site.Name}
}

// of returns the names of the places of a cluster. Those of one that no inventory has are its own name or, of zones and regions, Unknown.
func (t *places) of(cluster string) []string {
	if names, known := t.clusters[cluster]; known {
		return names
	}
	if t.by == ByCluster {
		return []string{cluster}
	}
	return []string{Unknown}
}

// place returns the place with a name, and adds it if there is none.
func (t *places) place(name string) *Place {
	if t.known[name] == nil {
		t.known[name] = &Place{Name: name, Total: Total{States: map[State]int{}}, policies: map[string]bool{}}
	}
	return t.known[name]
}

// presence returns the places of a group, here, and the places that policies decide for it, there, with the number of its clusters in each.
// If policies decide no list, there is here.
func (t *places) presence(key groupKey) (here, there map[string]int) {
	here = t.members(key.clusters, key.node)
	if key.decided == key.clusters || key.decided.names == nil {
		// Policies that decide no list let an object stay where it is.
		return here, here
	}
	return here, t.members(key.decided, key.node)
}

// members returns the names of the places of objects, with the number of the objects' clusters in each. For a node, it returns the places
// of the node, each with the number 1. For objects that are nowhere, it returns the place "" with the number 1.
func (t *places) members(clusters *list, node string) map[string]int {
	out := map[string]int{}
	switch {
	case t.by == ByNode:
		out[node] = 1
	case node != "" && t.nodes[node] == nil:
		out[Unknown] = 1
	case node != "":
		for _, name := range t.nodes[node] {
			out[name] = 1
		}
	default:
		for _, cluster := range clusters.names {
			for _, name := range t.of(cluster) {
				out[name]++
			}
		}
		if len(clusters.names) == 0 {
			out[""] = 1
		}
	}
	return out
}

// add adds the objects of a group to their places.
func (t *places) add(key groupKey, g *group) {
	here, there := t.presence(key)
	for name, clusters := range here {
		p := t.place(name)
		p.Total.add(g.Objects, g.States)
		for policies := range g.policies {
			for _, policy := range policies.names {
				p.policies[policy] = true
			}
		}
		if name == "" {
			continue
		}
		p.Replicas += g.replicas * int64(clusters)
		if there[name] == 0 {
			p.Leaving += g.Objects
		}
	}
	for name := range there {
		if name != "" && here[name] == 0 {
			t.place(name).Arriving += g.Objects
		}
	}
}
