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
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/fleet"
	"github.com/berth-dev/berth/internal/simulation"
)

// fleetView is the response of /api/fleet: the clusters with their resources, the number of objects by state, and what is missing. It does
// not list the objects.
type fleetView struct {
	// Source is the name of the cluster, or of the files.
	Source string    `json:"source"`
	ReadAt time.Time `json:"readAt"`
	// Live reports whether the console follows the changes of the cluster.
	Live bool `json:"live"`
	// Objects is the sum of the numbers in States, which do not count all matched objects.
	Objects int `json:"objects"`
	// States has the number of objects in each state. It counts existing objects that policies of any mode match, if they have a list of
	// clusters or get one by what policies decide, or if they are no Pods and a policy denies them or can't decide them. It counts neither
	// the other matched objects nor objects that follow a controller.
	States map[fleet.State]int `json:"states"`
	// Places are the clusters, sorted by name. If there are objects in no cluster, their place, which has an empty name, comes last.
	Places []place `json:"places"`
	// Notes say what is missing or old, and why.
	Notes []string `json:"notes"`
}

// place is a cluster, with its CPU and memory as numbers; or, with an empty name, the place of objects in no cluster.
type place struct {
	fleet.Place
	CPU    *amount `json:"cpu,omitempty"`    // the CPU, in cores; nil if it is unknown
	Memory *amount `json:"memory,omitempty"` // the memory, in bytes; nil if it is unknown
}

// amount is how much of a resource a cluster has for pods (allocatable), and how much the pods there request (used), in cores or bytes.
// Used is nil if it is unknown.
type amount struct {
	Allocatable float64  `json:"allocatable"`
	Used        *float64 `json:"used,omitempty"`
}

func (c *Console) fleet(r *http.Request) (*fleetView, error) {
	s, err := c.current(r)
	if err != nil {
		return nil, err
	}
	f, err := s.fleet(r.Context())
	if err != nil {
		return nil, err
	}
	table := f.Table(fleet.ByCluster)
	out := &fleetView{Source: s.Source, ReadAt: s.at, States: f.States(fleet.ByCluster), Places: []place{},
		Notes: append([]string{}, f.Notes...)}
	var followed follower
	if followed, out.Live = s.Cluster.(follower); out.Live {
		for _, polled := range followed.Polled() {
			out.Notes = append(out.Notes, fmt.Sprintf("You may list %s, but not watch them, so that what is shown of them may be %s old: "+
				"ask for the right to watch them.", polled, simulation.PollInterval))
		}
	}
	for _, n := range out.States {
		out.Objects += n
	}
	for _, p := range table.Places {
		out.Places = append(out.Places, place{p, amountOf(p.Capacity, corev1.ResourceCPU), amountOf(p.Capacity, corev1.ResourceMemory)})
	}
	return out, nil
}

// amountOf returns the amounts of a resource in a capacity; nil if the allocatable one is unknown.
func amountOf(c fleet.Capacity, name corev1.ResourceName) *amount {
	allocatable, ok := c.Allocatable[name]
	if !ok {
		return nil
	}
	out := &amount{Allocatable: allocatable.AsApproximateFloat64()}
	if used, ok := c.Used[name]; ok {
		out.Used = new(used.AsApproximateFloat64())
	}
	return out
}

// objectsView is the response of /api/objects: some of the objects that meet the parameters of the request, and the number of all that do.
type objectsView struct {
	Total   int            `json:"total"`   // how many objects meet the parameters
	Objects []fleet.Member `json:"objects"` // the objects that meet the parameters, from offset, at most limit
}

// Limits of the number of objects in one response.
const (
	defaultObjects = 100
	maxObjects     = 1000
)

// objects returns objects of the fleet, the gravest states first. The parameters are cluster, with the empty value for objects in no
// cluster, state, policy, q, which is a part of the namespace and name, offset, and limit. A parameter that is missing selects all, and so
// does an empty one other than cluster.
func (c *Console) objects(r *http.Request) (*objectsView, error) {
	s, err := c.current(r)
	if err != nil {
		return nil, err
	}
	f, err := s.fleet(r.Context())
	if err != nil {
		return nil, err
	}
	offset, err := number(r, "offset", 0, len(f.Objects))
	if err != nil {
		return nil, err
	}
	limit, err := number(r, "limit", defaultObjects, maxObjects)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	var members []fleet.Member
	if query.Has("cluster") {
		members = f.In(fleet.ByCluster, query.Get("cluster"))
	} else {
		members = make([]fleet.Member, len(f.Objects))
		for i := range f.Objects {
			members[i] = fleet.Member{Object: &f.Objects[i]}
		}
	}
	state, policy, part := fleet.State(query.Get("state")), query.Get("policy"), strings.ToLower(query.Get("q"))
	members = slices.DeleteFunc(members, func(m fleet.Member) bool {
		return state != "" && m.State != state || policy != "" && !slices.Contains(m.Policies, policy) ||
			part != "" && !strings.Contains(strings.ToLower(m.Namespace+"/"+m.Name), part)
	})
	states := fleet.States()
	slices.SortStableFunc(members, func(a, b fleet.Member) int {
		return cmp.Compare(slices.Index(states, a.State), slices.Index(states, b.State))
	})
	out := &objectsView{Total: len(members), Objects: []fleet.Member{}}
	if offset < len(members) {
		out.Objects = members[offset:min(offset+limit, len(members))]
	}
	return out, nil
}

// clusterView is the response of /api/cluster: the objects of the inventories that represent a cluster, or the Node that the request names.
type clusterView struct {
	Inventory []inventoryObject `json:"inventory"`
}

// inventoryObject is an object that represents a cluster, in an inventory, or a Node: its labels, annotations, and fields, and which
// policies read these. It does not have the manifest.
type inventoryObject struct {
	// Resource is the type, such as "clusterprofiles.multicluster.x-k8s.io".
	Resource  string            `json:"resource"`
	Namespace string            `json:"namespace,omitempty"`
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels"`
	// ReadBy has the names of the policies that read a label of such objects, by the key of the label; by "*", those that may read any
	// label.
	ReadBy map[string][]string `json:"readBy"`
	// Fields are those of the cluster's region, zones, and provider that the user can change in the object; none for a Node.
	Fields []clusterField `json:"fields"`
	// Annotations are the annotations that policies read, also those that the object lacks; if a policy may read any, also the other short
	// ones of the object.
	Annotations []clusterField `json:"annotations"`
	// Unschedulable reports whether a Node is cordoned; nil for other objects.
	Unschedulable *bool `json:"unschedulable,omitempty"`
}

// clusterField is a field of a cluster in its normal form, as policies read it, or an annotation, and where the object of the inventory has
// it. Value is "" if the object lacks it.
type clusterField struct {
	Name string `json:"name"` // the name of the field, such as region, or the key of the annotation
	// Path is where the object has the field, in the form of the flag --set of `kubectl berth whatif`, such as spec.region or
	// metadata.annotations['example.com/tier'].
	Path   string   `json:"path"`
	Value  string   `json:"value"`  // the value, of a field in YAML; empty if the cluster lacks it
	ReadBy []string `json:"readBy"` // the names of the policies that read it, sorted
}

// cluster returns the objects that represent the cluster with the name in the parameter name, none if there is no such cluster; or, if the
// parameter node is set, that Node, and an error with status 404 if there is none.
func (c *Console) cluster(r *http.Request) (*clusterView, error) {
	s, err := c.current(r)
	if err != nil {
		return nil, err
	}
	if node := r.URL.Query().Get("node"); node != "" {
		return s.node(r.Context(), node)
	}
	out, name := &clusterView{Inventory: []inventoryObject{}}, r.URL.Query().Get("name")
	inventories := s.cached.Catalog().Inventories()
	for _, inventory := range s.servedInventories() {
		objects, err := s.cached.List(r.Context(), inventory, nil)
		if apierrors.IsForbidden(err) {
			// The notes of the fleet say so.
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, obj := range objects {
			if document, ok := inventories.Cluster(inventory, obj.Object); ok && document["name"] == name {
				reads := s.readsOf(r.Context(), inventory, true)
				out.Inventory = append(out.Inventory, inventoryObject{
					Resource: inventory.GroupResource().String(), Namespace: obj.GetNamespace(), Name: obj.GetName(), Labels: obj.GetLabels(),
					ReadBy: reads.labels("labels"), Fields: reads.fields(inventories, inventory, obj), Annotations: reads.annotations(obj, "annotations"),
				})
			}
		}
	}
	return out, nil
}

// node returns the Node with a name in the form of an object of an inventory. If there is none, the error has status 404.
func (s *state) node(ctx context.Context, name string) (*clusterView, error) {
	obj, err := s.cached.Get(ctx, nodeResource, "", name)
	if err != nil {
		return nil, err
	}
	if obj == nil {
		return nil, problem{http.StatusNotFound, "there is no node " + name}
	}
	reads := s.readsOf(ctx, nodeResource, false)
	unschedulable, _, _ := unstructured.NestedBool(obj.Object, "spec", "unschedulable")
	return &clusterView{[]inventoryObject{{
		Resource: nodeResource.GroupResource().String(), Name: name, Labels: obj.GetLabels(), Unschedulable: &unschedulable,
		ReadBy: reads.labels("metadata", "labels"), Fields: []clusterField{}, Annotations: reads.annotations(obj, "metadata", "annotations"),
	}}}, nil
}

// labeledView is the response of /api/labeled: the names of the clusters that have a label.
type labeledView struct {
	Clusters []string `json:"clusters"` // the names of the clusters that have the label, sorted
}

// labeled returns the clusters of all inventories that have the label in the parameter label: KEY=VALUE, or KEY= or KEY for any value. A
// missing parameter gives no clusters, and is no error.
func (c *Console) labeled(r *http.Request) (*labeledView, error) {
	s, err := c.current(r)
	if err != nil {
		return nil, err
	}
	key, value, _ := strings.Cut(r.URL.Query().Get("label"), "=")
	out := &labeledView{Clusters: []string{}}
	for _, document := range s.clusterDocuments(r.Context()) {
		labels, _ := document["labels"].(map[string]any)
		if has, ok := labels[key].(string); ok && (value == "" || has == value) {
			out.Clusters = append(out.Clusters, fmt.Sprint(document["name"]))
		}
	}
	slices.Sort(out.Clusters)
	out.Clusters = slices.Compact(out.Clusters)
	return out, nil
}
