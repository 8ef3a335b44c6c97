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
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/feasibility"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/simulation"
)

// Fleet has the objects that policies place, with their states, and the clusters and nodes. Its methods may be called concurrently.
type Fleet struct {
	// Clusters are the clusters of all inventories that the user may list, sorted by name; [] in JSON if there are none.
	Clusters []Site `json:"clusters"`
	// Nodes are the nodes, sorted by name. There are none if no policy matches Pods, because the nodes of Pods are not read then.
	Nodes []Site `json:"nodes,omitempty"`
	// Objects are the existing objects that policies match, sorted by type, namespace, and name. An object that names no clusters, and for
	// which no policy chooses any, is left out unless it is a Pod, or a policy denies or can't decide it.
	Objects []Object `json:"objects"`
	// Notes say what is missing because the user may not read it.
	Notes []string `json:"notes,omitempty"`
}

// Object is an existing object that policies match, with its state, the clusters that it has, and those that policies decide for it.
type Object struct {
	Kind      string `json:"kind"`
	Resource  string `json:"resource"` // such as deployments.apps
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	// Reason says why the object is in its state; empty for Running.
	Reason string `json:"reason,omitempty"`
	// Policies are the policies that match the object, in order of precedence.
	Policies []string `json:"policies"`
	// Clusters are the names of the clusters that the object has today, sorted; nil if it names none, so that it may be in any.
	Clusters []string `json:"clusters"`
	// Decided are the names of the clusters that the object gets by what policies decide, sorted: equal to Clusters if policies let it keep
	// those, also because they restrict nothing; nil if it then names none, so that it may be in any; empty if it may be in no cluster.
	Decided []string `json:"decided"`
	// Follows is the controller whose clusters the object has, such as "Deployment web"; usually empty. Tables by cluster, zone, or region
	// count the controller in place of the object. Tables by node count each Pod.
	Follows string `json:"follows,omitempty"`
	// Node is the name of a Pod's node; empty for other objects, and for a Pod that is not scheduled.
	Node string `json:"node,omitempty"`
	// Replicas is the number of replicas in each one of the clusters. It is nil if the object has no such number, if Division is set, or if
	// the system that delivers the object divides the replicas in a way that Berth does not know.
	Replicas *int64 `json:"replicas,omitempty"`
	// Division has the number of replicas by the name of the cluster, if a policy divides them, and the object has a recorded decision; nil
	// otherwise, or if that gives no division.
	Division map[string]int64 `json:"division,omitempty"`

	// clusters, decided, and policies have Clusters, Decided, and Policies. Objects with equal lists have the same pointer.
	clusters, decided, policies *list
}

// list is a list of names. A builder has one pointer for all equal lists, so that they can be compared by it.
type list struct{ names []string }

// New returns the Fleet of the cluster of a simulation: it decides the existing objects that policies match, and reads the inventories. An
// error means that the cluster could not be read. What the user may not list is missing, and the notes say so.
func New(ctx context.Context, s *simulation.Simulation) (*Fleet, error) {
	b := newBuilder(s)
	var objects []simulation.Object
	for o, err := range s.MatchedWith(ctx, fieldsOf) {
		switch {
		case apierrors.IsForbidden(err):
			b.notes = append(b.notes, fmt.Sprintf("you may not list %s, so they are missing: ask for the right to list them",
				o.Resource.GroupResource()))
		case err != nil:
			return nil, err
		default:
			objects = append(objects, o)
		}
	}
	out := &Fleet{Objects: []Object{}}
	decided := make([]*Object, len(objects))
	err := simulation.Parallel(len(objects), func(i int) (err error) {
		decided[i], err = b.object(ctx, objects[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, o := range decided {
		if o != nil {
			out.Objects = append(out.Objects, *o)
		}
	}
	slices.SortStableFunc(out.Objects, func(a, b Object) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	if out.Clusters, err = b.clusters(ctx); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(s.Policies(), func(p *simulation.Policy) bool { return p.SelectsResource(pods) }) {
		if out.Nodes, err = b.nodes(ctx, objects); err != nil {
			return nil, err
		}
	}
	out.Notes = b.notes
	return out, nil
}

// Locate returns one existing object with its state and clusters. It returns nil if no policy matches the object as it is.
func Locate(ctx context.Context, s *simulation.Simulation, o simulation.Object) (*Object, error) {
	b := newBuilder(s)
	b.all = true
	return b.object(ctx, o)
}

// fieldsOf returns the fields of existing objects of a type from which a Fleet has their replicas, nodes, and states, in addition to those
// that policies read: of Pods, the node, the resources, and the phase; of Workloads of Kueue, the status; of other types, spec.replicas.
func fieldsOf(resource schema.GroupResource) *projection.FieldSet {
	switch {
	case resource == pods.GroupResource():
		return podFields
	case delivery.StartsByStatus(resource):
		return statusFields
	}
	return replicaFields
}

var (
	replicaFields = projection.Fields("spec.replicas")
	// statusFields are the fields of objects whose own status says where they run.
	statusFields = projection.Fields("status.**")
)

// builder computes the parts of a Fleet. Its method object is safe for concurrent use.
type builder struct {
	simulation *simulation.Simulation
	memo       *memo
	// reports has, by the name of a policy and by object, what the status of the policy says of the last move or patch of the object: Moving
	// while the object may still come to run in time, and Violating after a failure. An object without an entry has neither.
	reports map[string]map[placementv1.ObjectReference]finding
	// all makes the method object return each object that a policy matches, also one that names no clusters, and for which no policy chooses
	// any, even if it is no Pod, and no policy denies it or can't decide it.
	all   bool
	notes []string // Fleet.Notes

	mu sync.Mutex
	// lists has all lists by their quoted names, and texts the lists of clusters by their texts in objects.
	lists, texts map[string]*list
}

func newBuilder(s *simulation.Simulation) *builder {
	return &builder{simulation: s, memo: newMemo(), reports: reportsOf(s.Policies()), lists: map[string]*list{}, texts: map[string]*list{}}
}

// object decides an object, and returns it with its state and clusters. It returns nil if no policy matches the object. Unless all is set,
// it also returns nil for an object that is no Pod, has no list of clusters, and gets none, if no policy denies it or can't decide it.
func (b *builder) object(ctx context.Context, o simulation.Object) (*Object, error) {
	verdicts, err := b.simulation.VerdictsBy(ctx, o, b.memo.evaluate)
	if err != nil {
		return nil, fmt.Errorf("deciding %s: %w", simulation.Describe(o.Content), err)
	}
	verdicts = slices.DeleteFunc(verdicts, func(v *placement.Verdict) bool { return v.Leaves })
	if len(verdicts) == 0 {
		return nil, nil
	}
	feasibility.Qualify(o.Content, verdicts)
	current := b.simulation.ClusterList(o)
	decided := decidedList(current, verdicts)
	found := b.assess(o, verdicts)
	isPod := o.Resource == pods
	if !b.all && !isPod && current == nil && decided == nil && !found.deniedOrUndecided {
		return nil, nil
	}
	out := &Object{
		Kind: o.Content.GetKind(), Resource: o.Resource.GroupResource().String(), Namespace: o.Namespace, Name: o.Content.GetName(),
		State: found.state, Reason: found.reason,
		clusters: b.clustersIn(current), decided: b.clustersIn(decided), policies: b.intern(remediation.Names(verdicts)),
	}
	out.Clusters, out.Decided, out.Policies = out.clusters.names, out.decided.names, out.policies.names
	for _, v := range verdicts {
		out.Follows = cmp.Or(out.Follows, v.Follows)
	}
	if isPod {
		out.Node = nodeOf(o.Content)
	}
	out.Replicas, out.Division = replicasOf(o, verdicts)
	return out, nil
}

// clustersIn returns the list of the clusters that text names. The names in the result are nil only if text is nil, for an object without a
// list; they are empty for a list that names none, or that can't be read.
func (b *builder) clustersIn(text *string) *list {
	if text == nil {
		return b.intern(nil)
	}
	b.mu.Lock()
	known := b.texts[*text]
	b.mu.Unlock()
	if known == nil {
		listed, _ := clusterlist.Parse(*text)
		// A list that can't be read names none.
		names, _ := listed.All()
		known = b.intern(names)
		b.mu.Lock()
		b.texts[*text] = known
		b.mu.Unlock()
	}
	return known
}

// intern returns the builder's only list with these names.
func (b *builder) intern(names []string) *list {
	key := "nil"
	if names != nil {
		key = clusterlist.ArrayText(names)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lists[key] == nil {
		b.lists[key] = &list{names}
	}
	return b.lists[key]
}

// replicasOf returns the number of replicas of an object in each of its clusters. If a policy divides them, and the object has a recorded
// decision, it returns the numbers by cluster instead, and nil for each. Both are nil for an object without a number of replicas, and if
// the division can't be computed.
func replicasOf(o simulation.Object, verdicts []*placement.Verdict) (each *int64, division map[string]int64) {
	object := delivery.ObjectOf(o.Content)
	if object.Replicas == nil {
		return nil, nil
	}
	policies := make([]*placement.Policy, len(verdicts))
	for i, v := range verdicts {
		policies[i] = v.Policy
	}
	var by *placementv1.ReplicaDivision
	routes, _ := delivery.RoutesOf(policies, object.GroupKind())
	for _, route := range routes {
		if route.Spec != nil {
			by = cmp.Or(by, route.Spec.Replicas)
		}
	}
	if by == nil {
		return object.Replicas, nil
	}
	decision, ok, err := delivery.DecisionOf(o.Content)
	if !ok || err != nil {
		return object.Replicas, nil
	}
	object.Namespace = o.Namespace
	// Without a known division, both are nil.
	division, _ = delivery.Divide(object, decision, by)
	return nil, division
}
