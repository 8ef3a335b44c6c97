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

package policy

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
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

// WithCandidates returns the analysis of a policy whose decisions are checked against candidates, too.
func (a Analysis) WithCandidates(candidates placementv1.PredicateCandidates) Analysis {
	switch candidates {
	case placementv1.PredicateCandidatesNodes:
		a.Nodes = true
	case placementv1.PredicateCandidatesClusters:
		a.Clusters = true
		if !slices.ContainsFunc(a.Reads, func(r Read) bool { return r.Clusters }) {
			a.Reads = append(slices.Clone(a.Reads), Read{Clusters: true})
			slices.SortFunc(a.Reads, compareReads)
		}
		each := &projection.FieldSet{}
		for _, name := range clusterFields {
			each.AddName(rootClusters).AddEach().AddName(name).AddAll()
		}
		a.Data = projection.Union(a.Data, each.Seal())
	default:
		return a
	}
	a.Input = projection.Union(a.Input, workload.Fields())
	return a
}

// analysePredicates sets Nodes and Clusters if the module calls the predicates' functions. A reference in a `with`, or in
// an unused rule, counts as a call.
func (a *Analysis) analysePredicates(module *ast.Module) {
	ast.WalkRefs(module, func(ref ast.Ref) bool {
		a.Nodes = a.Nodes || ref.Equal(Feasible.Ref())
		a.Clusters = a.Clusters || ref.Equal(FeasibleClusters.Ref())
		return false
	})
}

// readClusters records the fields of clusters that predicates read.
func (a *fieldAnalyser) readClusters() {
	cluster := a.follow(places{fields: []place{{at: a.data}}}, []operand{{texts: []string{rootClusters}}, {many: true}})
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
