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
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/simulation"
)

// Fleet has the objects that policies place, and the clusters and nodes. Its methods change nothing, so they may be called concurrently.
type Fleet struct {
	// Clusters are the clusters of all inventories, by name.
	Clusters []Site `json:"clusters"`
	// Nodes are the nodes, by name. There are none if no policy matches Pods: Berth then does not read on which nodes these are.
	Nodes []Site `json:"nodes,omitempty"`
	// Objects are the existing objects that policies match, by type, namespace, and name. Those for which no policy chooses clusters, and
	// which name none, are among them only if they are Pods, or if a policy denies or can't decide them.
	Objects []Object `json:"objects"`
	// Notes say what is missing because the user may not read it.
	Notes []string `json:"notes,omitempty"`
}

// Object is an existing object that policies match.
type Object struct {
	Kind      string `json:"kind"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	// Reason says why the object is in its state; empty for Running.
	Reason string `json:"reason,omitempty"`
	// Policies are the policies that match the object, in order of precedence.
	Policies []string `json:"policies"`
	// Clusters are the names of the clusters that the object has today, and Decided those that policies decide, sorted; nil if it names
	// none, so that its clusters are not restricted. They are equal if the object keeps its clusters.
	Clusters []string `json:"clusters"`
	Decided  []string `json:"decided"`
	// Follows is the controller whose clusters the object has, such as "Deployment web", which counts in its place; usually empty.
	Follows string `json:"follows,omitempty"`
	// Node is the node of a Pod; empty for other objects, and for a Pod that is not scheduled.
	Node string `json:"node,omitempty"`
	// Replicas is the number of replicas in each of the clusters. It is nil if the object says none, if Division is set, and if the system
	// that delivers the object divides them in a way that Berth does not know.
	Replicas *int64 `json:"replicas,omitempty"`
	// Division is the number of replicas by cluster, if a policy divides them.
	Division map[string]int64 `json:"division,omitempty"`

	// clusters and decided are equal for objects with equal lists, and so are policies.
	clusters, decided, policies *list
}

// list is a list of names. Equal lists of a builder are the same.
type list struct{ names []string }

// New decides the existing objects that policies match. It reads the inventories, too. An error means that the cluster could not be read;
// what the user may not list is in the notes.
func New(ctx context.Context, s *simulation.Simulation) (*Fleet, error) {
	b := newBuilder(s)
	var objects []simulation.Object
	for o, err := range s.MatchedWith(ctx, fieldsOf) {
		switch {
		case apierrors.IsForbidden(err):
			b.notes = append(b.notes, fmt.Sprintf("you may not list %s, so they are missing: ask for the right to list them", o.Resource.GroupResource()))
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

// Locate decides one existing object. It returns nil if no policy matches the object.
func Locate(ctx context.Context, s *simulation.Simulation, o simulation.Object) (*Object, error) {
	b := newBuilder(s)
	b.all = true
	return b.object(ctx, o)
}

// fieldsOf returns the fields of a type that a Fleet has beside those that policies read.
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
	// statusFields are the fields of an object that says itself where it runs.
	statusFields = projection.Fields("status.**")
)

// builder makes the objects of a Fleet. Its method object is safe for concurrent use.
type builder struct {
	simulation *simulation.Simulation
	memo       *memo
	// reports are the reports on moves of objects in the status of each policy.
	reports map[string]map[placementv1.ObjectReference]finding
	// all reports whether objects count for which no policy chooses clusters.
	all   bool
	notes []string

	mu sync.Mutex
	// lists are all lists by their names, and texts those of clusters by their text.
	lists, texts map[string]*list
}

func newBuilder(s *simulation.Simulation) *builder {
	return &builder{simulation: s, memo: newMemo(), reports: reportsOf(s.Policies()), lists: map[string]*list{}, texts: map[string]*list{}}
}

// object decides an object. It returns nil if the object is none of a Fleet.
func (b *builder) object(ctx context.Context, o simulation.Object) (*Object, error) {
	verdicts, err := b.simulation.VerdictsBy(ctx, o, b.memo.evaluate)
	if err != nil {
		return nil, fmt.Errorf("deciding %s: %w", simulation.Describe(o.Content), err)
	}
	verdicts = slices.DeleteFunc(verdicts, func(v *placement.Verdict) bool { return v.Leaves })
	if len(verdicts) == 0 {
		return nil, nil
	}
	remediation.Qualify(o.Content, verdicts)
	current := b.simulation.ClusterList(o)
	decided := decidedList(current, verdicts)
	found := b.assess(o, verdicts)
	isPod := o.Resource == pods
	if !b.all && !isPod && current == nil && decided == nil && !found.undecided {
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

// clustersIn returns the clusters in the text of a list.
func (b *builder) clustersIn(text *string) *list {
	if text == nil {
		return b.intern(nil)
	}
	b.mu.Lock()
	known := b.texts[*text]
	b.mu.Unlock()
	if known == nil {
		listed, _ := clusterlist.Parse(*text)
		// A list that has no names, or none that can be read, restricts nothing.
		names, _ := listed.All()
		known = b.intern(names)
		b.mu.Lock()
		b.texts[*text] = known
		b.mu.Unlock()
	}
	return known
}

// intern returns the list of some names.
func (b *builder) intern(names []string) *list {
	key := "nil"
	if names != nil {
		key = fmt.Sprintf("%q", names)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lists[key] == nil {
		b.lists[key] = &list{names}
	}
	return b.lists[key]
}

// replicasOf returns the number of replicas of an object in each of its clusters, or by cluster if a policy divides them. Both are nil if
// Berth does not know them.
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
