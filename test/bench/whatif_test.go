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

package bench_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/whatif"
	"github.com/berth-dev/berth/test/bench/fixture"
	"github.com/berth-dev/berth/test/budget"
)

// What the cluster of BenchmarkWhatIf has.
const (
	simulatedClusters = 1_000
	simulatedRegions  = 40
)

// simulatedDeployments is how many Deployments it has, a multiple of the number of regions.
var simulatedDeployments = budget.Size(30_000, 100_000)

const regionPolicy = `package region

clusters contains name if {
  some name, c in data.clusters
  c.labels.region == input.metadata.labels.region
}
`

// BenchmarkWhatIf is a what-if of another label of one cluster, which moves one in twenty of the Deployments.
//
//   - part=First reads and decides all objects, as the first what-if of a session does before it answers.
//   - part=Snapshot is the same from the text of a snapshot, with the answer.
//   - part=Next is each what-if of the session.
//   - part=Policy is a what-if of another text of the policy, which allows one cluster less.
func BenchmarkWhatIf(b *testing.B) {
	cluster := simulatedCluster(b, encodedPolicy(b))
	newSession := func() *whatif.Session {
		s, err := whatif.NewSession(b.Context(), cluster, simulation.Options{})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	b.Run("part=First", func(b *testing.B) { measure(b, func(int) { newSession() }) })
	b.Run("part=Snapshot", func(b *testing.B) {
		text := snapshotText(b, cluster)
		measure(b, func(i int) {
			recorded, err := simulation.DecodeSnapshot(text)
			if err != nil {
				b.Fatal(err)
			}
			cluster, err := recorded.Cluster(replication.Known())
			if err != nil {
				b.Fatal(err)
			}
			s, err := whatif.NewSession(b.Context(), cluster, simulation.Options{})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := s.WhatIf(b.Context(), whatif.Changes{Apply: []*unstructured.Unstructured{regionWithout(b, i%simulatedClusters)}}); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("part=Next", func(b *testing.B) {
		s := newSession()
		measure(b, func(i int) {
			profile := whatif.Reference{
				Resource:       schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"},
				NamespacedName: types.NamespacedName{Namespace: fixture.FleetNamespace, Name: fmt.Sprintf("cluster-%d", i%simulatedClusters)},
			}
			report, err := s.WhatIf(b.Context(), whatif.Changes{Set: []whatif.Assignment{{
				Reference: profile, Path: []string{"metadata", "labels", "region"}, Value: fmt.Sprintf("region-%d", (i+1)%simulatedRegions),
			}}})
			if err != nil {
				b.Fatal(err)
			}
			if want := 2 * simulatedDeployments / simulatedRegions; report.Totals[whatif.Moved] != want || report.Unchanged != simulatedDeployments-want {
				b.Fatalf("%v, %d unchanged, want %d moved", report.Totals, report.Unchanged, want)
			}
		})
	})
	b.Run("part=Policy", func(b *testing.B) {
		s := newSession()
		measure(b, func(i int) {
			report, err := s.WhatIf(b.Context(), whatif.Changes{Apply: []*unstructured.Unstructured{regionWithout(b, i%simulatedClusters)}})
			if err != nil {
				b.Fatal(err)
			}
			if want := simulatedDeployments / simulatedRegions; report.Totals[whatif.Moved] != want {
				b.Fatalf("%v, want %d moved", report.Totals, want)
			}
		})
	})
}

// BenchmarkChoosingWhatIf is part=First of BenchmarkWhatIf by the policies of BenchmarkChoosing, apart from by=Text.
func BenchmarkChoosingWhatIf(b *testing.B) {
	for _, one := range choosing[:4] {
		b.Run("by="+one.by, func(b *testing.B) {
			cluster := simulatedCluster(b, encoded(b, choosingPolicy(b, one.rule)))
			measure(b, func(int) {
				if _, err := whatif.NewSession(b.Context(), cluster, simulation.Options{}); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// BenchmarkChoosingWhatIfNext is part=Next of BenchmarkWhatIf by the same policies: one cluster of a region that is not preferred gets into
// one that is, so that the Deployments move that it is best for.
func BenchmarkChoosingWhatIfNext(b *testing.B) {
	for _, one := range choosing[:4] {
		b.Run("by="+one.by, func(b *testing.B) {
			s, err := whatif.NewSession(b.Context(), simulatedCluster(b, encoded(b, choosingPolicy(b, one.rule))), simulation.Options{})
			if err != nil {
				b.Fatal(err)
			}
			moves := 0
			measure(b, func(i int) {
				// The regions of the clusters with the numbers from 10 to 39 are not preferred.
				cluster := 40*(i%25) + 10 + i%30
				report, err := s.WhatIf(b.Context(), whatif.Changes{Set: []whatif.Assignment{{
					Reference: whatif.Reference{
						Resource:       schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"},
						NamespacedName: types.NamespacedName{Namespace: fixture.FleetNamespace, Name: fmt.Sprintf("cluster-%d", cluster)},
					},
					Path: []string{"metadata", "labels", "region"}, Value: "region-1",
				}}})
				if err != nil {
					b.Fatal(err)
				}
				moves += report.Totals[whatif.Moved]
			})
			moved := float64(moves) / float64(b.N)
			if chooses := strings.Contains(one.rule, "prefer"); chooses == (moved == 0) || moved > float64(simulatedDeployments)/100 {
				b.Fatalf("%g Deployments move", moved)
			}
			b.ReportMetric(moved, "moved/op")
		})
	}
}

// snapshotText returns the snapshot of a cluster.
func snapshotText(b *testing.B, cluster simulation.Cluster) []byte {
	b.Helper()
	s, err := simulation.New(b.Context(), cluster, simulation.Options{})
	if err != nil {
		b.Fatal(err)
	}
	recorded, err := s.Snapshot(b.Context(), simulation.KubernetesDiscovery())
	if err != nil {
		b.Fatal(err)
	}
	text, err := json.Marshal(recorded)
	if err != nil {
		b.Fatal(err)
	}
	return text
}

// regionWithout returns the policy without one of the clusters.
func regionWithout(b *testing.B, cluster int) *unstructured.Unstructured {
	b.Helper()
	out := encodedPolicy(b)
	text := strings.Replace(regionPolicy, "  c.labels", fmt.Sprintf("  name != \"cluster-%d\"\n  c.labels", cluster), 1)
	if err := unstructured.SetNestedField(out.Object, text, "spec", "rego"); err != nil {
		b.Fatal(err)
	}
	return out
}

// encodedPolicy returns the policy of the cluster.
func encodedPolicy(b *testing.B) *unstructured.Unstructured {
	b.Helper()
	policy := &placementv1.PlacementPolicy{Spec: placementv1.PlacementPolicySpec{
		Match: placementv1.Match{ResourceRules: []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}}},
		Mode:  placementv1.ModeEnforce, Rego: regionPolicy,
	}}
	policy.Name = "region"
	return encoded(b, policy)
}

// encoded returns a policy as the API server has it.
func encoded(b *testing.B, policy *placementv1.PlacementPolicy) *unstructured.Unstructured {
	b.Helper()
	policy.APIVersion, policy.Kind = placementv1.GroupVersion.String(), "PlacementPolicy"
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(policy)
	if err != nil {
		b.Fatal(err)
	}
	return &unstructured.Unstructured{Object: object}
}

// simulatedCluster returns a cluster with Deployments, clusters, and one policy.
func simulatedCluster(b *testing.B, policy *unstructured.Unstructured) *simulation.Static {
	b.Helper()
	objects := []*unstructured.Unstructured{policy}
	add := func(apiVersion, kind, namespace, name string, region int) {
		obj := &unstructured.Unstructured{Object: map[string]any{}}
		obj.SetAPIVersion(apiVersion)
		obj.SetKind(kind)
		obj.SetNamespace(namespace)
		obj.SetName(name)
		obj.SetLabels(map[string]string{"region": fmt.Sprintf("region-%d", region%simulatedRegions), "app": name})
		objects = append(objects, obj)
	}
	for i := range simulatedClusters {
		add("multicluster.x-k8s.io/v1alpha1", "ClusterProfile", fixture.FleetNamespace, fmt.Sprintf("cluster-%d", i), i)
	}
	for i := range simulatedDeployments {
		add("apps/v1", "Deployment", fmt.Sprintf("namespace-%d", i%500), fmt.Sprintf("web-%d", i), i)
	}
	cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), objects...)
	if err != nil {
		b.Fatal(err)
	}
	return cluster
}
