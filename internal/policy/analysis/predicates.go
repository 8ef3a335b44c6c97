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

package analysis

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/workload"
)

// clusterFields are the fields of a cluster's normal form that predicates read.
var clusterFields = []string{"labels", "properties", "taints", "ready", "region", "zones", "capacity", "allocatable", "allocated"}

var sealedClusterFields = func() *projection.FieldSet {
	out := &projection.FieldSet{}
	for _, name := range clusterFields {
		out.AddName(name).AddAll()
	}
	return out.Seal()
}()

// ClusterFields returns the fields of a cluster's normal form that predicates read, sealed.
func ClusterFields() *projection.FieldSet { return sealedClusterFields }

// WithCandidates returns the dependencies of a policy whose decisions are checked against candidates, too.
func (d Dependencies) WithCandidates(candidates placementv1.PredicateCandidates) Dependencies {
	switch candidates {
	case placementv1.PredicateCandidatesNodes:
		d.Nodes = true
	case placementv1.PredicateCandidatesClusters:
		d.Clusters = true
		if !slices.ContainsFunc(d.Reads, func(r Read) bool { return r.Clusters }) {
			d.Reads = append(slices.Clone(d.Reads), Read{Clusters: true})
			slices.SortFunc(d.Reads, compareReads)
		}
		each := &projection.FieldSet{}
		for _, name := range clusterFields {
			each.AddName(language.RootClusters).AddEach().AddName(name).AddAll()
		}
		d.Data = projection.Union(d.Data, each.Seal())
	default:
		return d
	}
	d.Input = projection.Union(d.Input, workload.Fields())
	return d
}

// analysePredicates sets Nodes and Clusters if the module calls the predicates' functions. A reference in a `with`, or in
// an unused rule, counts as a call.
func (d *Dependencies) analysePredicates(module *ast.Module) {
	ast.WalkRefs(module, func(ref ast.Ref) bool {
		d.Nodes = d.Nodes || ref.Equal(language.Feasible.Ref())
		d.Clusters = d.Clusters || ref.Equal(language.FeasibleClusters.Ref())
		return false
	})
}

// readClusters records the fields of clusters that predicates read.
func (a *fieldAnalyser) readClusters() {
	cluster := a.follow(places{fields: []place{{at: a.data}}}, []operand{{texts: []string{language.RootClusters}}, {many: true}})
	a.deepen(a.follow(cluster, []operand{{texts: clusterFields}}))
}

// readWorkload records the fields that predicates read of a value from which a workload is built.
func (a *fieldAnalyser) readWorkload(p places) { a.readFields(p, workload.Fields()) }

// readFields marks a sealed field set below a value as read.
func (a *fieldAnalyser) readFields(p places, fields *projection.FieldSet) {
	if !a.step() {
		return
	}
	if fields.IsAll() {
		a.deepen(p)
		return
	}
	if each := fields.EveryMember(); each != nil {
		a.readFields(a.follow(p, []operand{{many: true}}), each)
	}
	for name, below := range fields.NamedMembers() {
		a.readFields(a.follow(p, []operand{{texts: []string{name}}}), below)
	}
}
