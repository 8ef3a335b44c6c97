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

package policy_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/analysis"
	"github.com/berth-dev/berth/internal/policy/policytest"
)

// workloadPaths returns the sorted paths of the fields read of a workload below a prefix, together with other paths.
func workloadPaths(prefix string, others ...string) []string {
	out := others
	for _, path := range []string{".apiVersion", ".kind", ".metadata.labels.**", ".metadata.name", ".metadata.namespace", ".spec.**", ".template.**"} {
		out = append(out, prefix+path)
	}
	slices.Sort(out)
	return out
}

// clusterPaths are the fields of clusters that predicates read.
var clusterPaths = []string{
	".allocatable.**", ".allocated.**", ".capacity.**", ".labels.**", ".properties.**", ".ready.**", ".region.**", ".taints.**", ".terminating.**", ".zones.**",
}

func TestPredicatesRead(t *testing.T) {
	clusters := []analysis.Read{{Clusters: true}}
	type want struct {
		nodes, clusters bool
		input, fleet    []string
		reads           []analysis.Read
	}
	ofNodes := want{nodes: true, input: workloadPaths("")}
	ofClusters := want{clusters: true, input: workloadPaths(""), fleet: clusterPaths, reads: clusters}
	tests := map[string]struct {
		text string
		v0   bool
		spec *placementv1.Predicates
		want want
	}{
		"None":     {text: "labels := input.metadata.labels", want: want{input: []string{".metadata.labels.**"}}},
		"Object":   {text: `errors contains "x" if count(k8s.feasible(input, "*")) == 0`, want: ofNodes},
		"V0":       {text: `errors["x"] { count(k8s.feasible(input, "*")) == 0 }`, v0: true, want: ofNodes},
		"Template": {text: `errors contains "x" if count(k8s.feasible(input.spec.template, "*")) == 0`, want: want{nodes: true, input: workloadPaths(".spec.template")}},
		"Local":    {text: `errors contains "x" if { t := input.spec; u := t.template; count(k8s.feasible(u, "*")) == 0 }`, want: want{nodes: true, input: workloadPaths(".spec.template")}},
		"Helper": {text: `fits(x) if { some v in k8s.feasible(x.spec.template, "*"); v.feasible }
errors contains "x" if not fits(input)`, want: want{nodes: true, input: workloadPaths(".spec.template")}},
		"Rule": {text: `all := k8s.feasible(input, "*")
clusters contains n if { some n, v in all; v.feasible }`, want: ofNodes},
		"Comprehension": {text: `annotations := {"a": [n | some n, v in k8s.feasible(input, "*"); v.feasible]}`, want: ofNodes},
		"EachOfSeveral": {text: `errors contains "x" if { some p in input.spec.pods; count(k8s.feasible(p, "*")) == 0 }`, want: want{nodes: true, input: workloadPaths(".spec.pods.*")}},
		"OtherOperand":  {text: `errors contains "x" if count(k8s.feasible(input, input.status.nodes)) == 0`, want: want{nodes: true, input: workloadPaths("", ".status.nodes.**")}},
		"Changed":       {text: `errors contains "x" if count(k8s.feasible(object.union(input, {"a": 1}), "*")) == 0`, want: want{nodes: true, input: []string{".**"}}},
		"MadeUp":        {text: `errors contains "x" if count(k8s.feasible({"spec": input.spec.template.spec}, "*")) == 0`, want: want{nodes: true, input: []string{".spec.template.spec.**"}}},
		"Constant":      {text: `errors contains "x" if count(k8s.feasible({"spec": {}}, "*")) == 0`, want: want{nodes: true}},
		"Clusters":      {text: `errors contains "x" if count(k8s.feasible_clusters(input, 1, "*")) == 0`, want: ofClusters},
		"ClustersV0":    {text: `errors["x"] { count(k8s.feasible_clusters(input, 1, "*")) == 0 }`, v0: true, want: ofClusters},
		"ClustersByRule": {
			text: `eu contains n if { some n, c in data.clusters; c.provider == "eu" }
clusters contains n if { some n, v in k8s.feasible_clusters(input, input.spec.replicas, eu); v.feasible }`,
			want: want{clusters: true, input: workloadPaths(""), fleet: append([]string{".provider.**"}, clusterPaths...), reads: clusters},
		},
		"Both": {
			text: `errors contains "x" if count(k8s.feasible_clusters(input, 1, "*")) < count(k8s.feasible(input, "*"))`,
			want: want{nodes: true, clusters: true, input: workloadPaths(""), fleet: clusterPaths, reads: clusters},
		},
		"Unused": {text: `x := k8s.feasible(input, "*")
y := k8s.feasible_clusters(input, 1, "*")
labels := {}`, want: want{nodes: true, clusters: true, fleet: clusterPaths, reads: clusters}},
		"Mocked": {text: `f(x, y) := {}
labels := {} if k8s.feasible(input, "*") with k8s.feasible as f`, want: want{nodes: true, input: []string{".**"}, fleet: []string{".**"}}},
		"StandsIn": {text: "labels := {} if object.union(input.a, {}) with object.union as k8s.feasible", want: want{nodes: true, input: []string{".**"}, fleet: []string{".**"}}},
		"NotTheFunction": {text: `k8s := {"feasible": 1}
labels := {} if k8s.feasible == 1`},
		"Nodes":      {spec: &placementv1.Predicates{Candidates: placementv1.PredicateCandidatesNodes}, want: ofNodes},
		"ByClusters": {spec: &placementv1.Predicates{Candidates: placementv1.PredicateCandidatesClusters}, want: ofClusters},
		"NamesAlone": {text: "labels := {}", spec: &placementv1.Predicates{Names: []string{"NodePorts"}}},
		"TextAndSpec": {
			text: `labels := {"a": input.status.a, "b": data.clusters.eu.version}`, spec: &placementv1.Predicates{Candidates: placementv1.PredicateCandidatesClusters},
			want: want{clusters: true, input: workloadPaths("", ".status.a.**"), fleet: append(slices.Clone(clusterPaths), ".version.**"), reads: clusters},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spec := placementv1.PlacementPolicySpec{RegoVersion: placementv1.RegoV1, Predicates: tc.spec}
			if tc.text != "" {
				spec.Rego = "package p\n" + tc.text
			}
			if tc.v0 {
				spec.RegoVersion = placementv1.RegoV0
			}
			m, err := policy.Compile("p", spec)
			if err != nil {
				t.Fatal(err)
			}
			var reads []analysis.Read
			for _, r := range m.Reads {
				r.Row, r.Col = 0, 0
				reads = append(reads, r)
			}
			fleet := m.ObjectFields(analysis.Read{Clusters: true}, false).Paths()
			slices.Sort(tc.want.fleet)
			got := want{m.Nodes, m.Clusters, m.Input.Paths(), fleet, reads}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(m.CacheableRules) > 0 && (m.Nodes || m.Clusters) && spec.Rego != "" && tc.spec == nil {
				t.Errorf("values are remembered of %d rules, without what predicates said", len(m.CacheableRules))
			}
			if len(m.Warnings) > 0 && tc.text == "" {
				t.Errorf("warnings %q", m.Warnings)
			}
		})
	}
}

// TestPredicatesOfOneText checks that policies with equal Rego and different spec.predicates do not share results.
func TestPredicatesOfOneText(t *testing.T) {
	text := policytest.SpecOf(placementv1.RegoV1, `package p
labels := input.metadata.labels`)
	plain, err := policy.Compile("p", text)
	if err != nil {
		t.Fatal(err)
	}
	text.Predicates = &placementv1.Predicates{Candidates: placementv1.PredicateCandidatesClusters, Names: []string{"NodeAffinity"}}
	filtering, err := policy.Compile("q", text)
	if err != nil {
		t.Fatal(err)
	}
	if plain.Clusters || plain.Candidates != "" || len(plain.Reads) > 0 || plain.ObjectFields(analysis.Read{Clusters: true}, false).Paths() != nil || plain.Digest != filtering.Digest {
		t.Errorf("a policy has what another one of its text has: %+v", plain)
	}
	if diff := cmp.Diff([]string{"NodeAffinity"}, filtering.Predicates); diff != "" || !filtering.Clusters {
		t.Errorf("clusters %t, predicates (-want +got):\n%s", filtering.Clusters, diff)
	}
	b, err := policy.Bind("q", filtering, nil, served{resource("cluster.open-cluster-management.io", "v1", "managedclusters")})
	if err != nil || len(b.Clusters) == 0 || len(b.Resources) != 1 || b.PredicateReads != nil {
		t.Errorf("binding %+v, %v", b, err)
	}
}

func TestNoText(t *testing.T) {
	spec := placementv1.PlacementPolicySpec{RegoVersion: placementv1.RegoV1}
	if _, err := policy.Compile("p", spec); err == nil {
		t.Error("a policy without text and candidates compiles")
	}
	spec.Predicates = &placementv1.Predicates{Names: []string{"NodePorts"}}
	if _, err := policy.Compile("p", spec); err == nil {
		t.Error("a policy that only names predicates compiles")
	}
	spec.Predicates.Candidates = placementv1.PredicateCandidatesNodes
	if m, err := policy.Compile("p", spec); err != nil || len(m.Rules) > 0 || m.Candidates != spec.Predicates.Candidates {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestPredicatesThatNothingAsks(t *testing.T) {
	fit := []string{"NodeResourcesFit"}
	const ineffective = "spec.predicates.names has no effect"
	tests := map[string]struct {
		predicates placementv1.Predicates
		body       string
		want       []string
	}{
		"Nobody":     {placementv1.Predicates{Names: fit}, "", []string{ineffective}},
		"Candidates": {placementv1.Predicates{Names: fit, Candidates: placementv1.PredicateCandidatesNodes}, "", nil},
		"Clusters":   {placementv1.Predicates{Names: fit, Candidates: placementv1.PredicateCandidatesClusters}, "", nil},
		"Called":     {placementv1.Predicates{Names: fit}, `errors contains "none" if count(k8s.feasible(input, "*")) == 0`, nil},
		"OfClusters": {placementv1.Predicates{Names: fit}, `errors contains "none" if count(k8s.feasible_clusters(input, 1, "*")) == 0`, nil},
		"Empty":      {placementv1.Predicates{}, "", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spec := policytest.SpecOf(placementv1.RegoV1, `package p
labels := {}
`+tc.body+"\n")
			spec.Predicates = &tc.predicates
			policytest.Warned(t, spec, tc.want...)
		})
	}
}
