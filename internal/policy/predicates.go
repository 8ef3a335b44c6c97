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
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/workload"
)

// nothing is the Rego used for a policy that has only spec.predicates.
const nothing = "package " + rootKubernetes + ".placement"

// checksCandidates reports whether decisions are checked against candidates. Then a policy has an effect without Rego.
func checksCandidates(spec placementv1.PlacementPolicySpec) bool {
	return spec.Predicates != nil && spec.Predicates.Candidates != ""
}

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

// findPredicates sets Nodes and Clusters if the module calls the predicates' functions. A reference in a `with`, or in
// an unused rule, counts as a call.
func (m *Module) findPredicates(module *ast.Module) {
	ast.WalkRefs(module, func(ref ast.Ref) bool {
		m.Nodes = m.Nodes || ref.Equal(Feasible.Ref())
		m.Clusters = m.Clusters || ref.Equal(FeasibleClusters.Ref())
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

// usePredicates applies spec.predicates to the module.
func (m *Module) usePredicates(p *placementv1.Predicates) {
	if p == nil {
		return
	}
	m.Predicates, m.Candidates = slices.Clone(p.Names), p.Candidates
	if len(p.Names) > 0 && p.Candidates == "" && !m.Nodes && !m.Clusters {
		m.Warnings = append(m.Warnings, "spec.predicates.names has no effect: nothing asks the predicates. Set spec.predicates.candidates to Nodes or Clusters, "+
			"or call k8s.feasible or k8s.feasible_clusters in the text")
	}
	switch p.Candidates {
	case placementv1.PredicateCandidatesNodes:
		m.Nodes = true
	case placementv1.PredicateCandidatesClusters:
		m.Clusters = true
		clusters := Read{Clusters: true}
		if !slices.ContainsFunc(m.Reads, func(r Read) bool { return r.Clusters }) {
			m.Reads = append(slices.Clone(m.Reads), clusters)
			slices.SortFunc(m.Reads, compareReads)
		}
		each := &projection.FieldSet{}
		for _, name := range clusterFields {
			each.AddName(rootClusters).AddEach().AddName(name).AddAll()
		}
		m.Data = projection.Union(m.Data, each.Seal())
	default:
		return
	}
	m.Input = projection.Union(m.Input, workload.Fields())
	if len(m.Rules) == 0 {
		// With candidates, a policy without rules has an effect, so the warning does not apply.
		m.Warnings = slices.DeleteFunc(m.Warnings, func(w string) bool { return strings.HasSuffix(w, decidesNothing) })
	}
}

// CheckPredicates returns an error if the policy uses predicates that are not allowed. The error is a *CompileError.
func (m *Module) CheckPredicates(allowed []string) error {
	out := &CompileError{}
	for i, name := range m.Predicates {
		if slices.Contains(allowed, name) {
			continue
		}
		out.Diagnostics = append(out.Diagnostics, Diagnostic{
			Field: fmt.Sprintf("spec.predicates.names[%d]", i), Code: codePredicate,
			Message: fmt.Sprintf("%q is none of the predicates that the manager allows, which are %s", name, strings.Join(allowed, ", ")),
		})
	}
	if len(out.Diagnostics) > 0 {
		return out
	}
	return nil
}
