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

package predicates

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// cluster holds everything that predicates read of a cluster.
type cluster struct {
	Labels      map[string]string
	Taints      []corev1.Taint
	Allocatable map[string]int64
	Boundless   bool
}

const (
	gi        = 1 << 30
	limitless = math.MaxInt64 / 1000
)

var notReady = corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: "NoSchedule"}

// clusterOf returns the only cluster of a snapshot.
func clusterOf(t testing.TB, s *Snapshot) cluster {
	t.Helper()
	if s.Len() != 1 {
		t.Fatalf("%d clusters", s.Len())
	}
	info := s.infos[0]
	if len(info.GetPods()) > 0 {
		t.Fatal("a cluster has pods")
	}
	return cluster{
		Labels: info.Node().Labels, Taints: info.Node().Spec.Taints,
		Allocatable: quantitiesOf(info.GetAllocatable()), Boundless: s.hasUnlimitedResources(info.Node().Name),
	}
}

// TestClustersOfInventories converts clusters of each inventory, in the normal form of internal/replication.
func TestClustersOfInventories(t *testing.T) {
	for file, want := range map[string]cluster{
		"clusterprofile": {
			Labels: map[string]string{
				"cluster.clusterset.k8s.io": "eu1-id", "pci-level": "1", "topology.kubernetes.io/region": "eu-west",
				"topology.kubernetes.io/zone": "eu-west-1a", "x-k8s.io/cluster-manager": "fleet-manager",
			},
			Allocatable: map[string]int64{"pods": limitless}, Boundless: true,
		},
		"clusterprofile-minimal": {
			Taints: []corev1.Taint{notReady}, Allocatable: map[string]int64{"pods": limitless}, Boundless: true,
		},
		"managedcluster": {
			Labels: map[string]string{
				"cloud": "Amazon", "topology.kubernetes.io/region": "us-east-1", "id.k8s.io": "us1",
				"platform.open-cluster-management.io": "AWS",
			},
			Taints:      []corev1.Taint{{Key: "gpu", Value: "true", Effect: "NoSchedule"}},
			Allocatable: map[string]int64{"cpu": 60_000, "memory": 250 * gi, "pods": limitless},
		},
		"managedcluster-down": {
			Taints:      []corev1.Taint{{Key: "cluster.open-cluster-management.io/unreachable", Effect: "NoSchedule"}, notReady},
			Allocatable: map[string]int64{"pods": limitless}, Boundless: true,
		},
		// Its label names another region than the cluster itself.
		"karmada": {
			Labels:      map[string]string{"tier": "gold", "topology.kubernetes.io/region": "of-the-label"},
			Taints:      []corev1.Taint{{Key: "cluster.karmada.io/not-ready", Effect: "NoExecute"}},
			Allocatable: map[string]int64{"cpu": 10_050, "memory": 48*gi - 290<<20, "pods": 319},
		},
		"karmada-labels": {
			Labels: map[string]string{"topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": "eu-2"},
			Taints: []corev1.Taint{notReady}, Allocatable: map[string]int64{"pods": limitless}, Boundless: true,
		},
		"membercluster": {
			Labels: map[string]string{
				"env": "prod", "topology.kubernetes.io/region": "westus", "kubernetes-fleet.io/node-count": "3",
				"kubernetes.azure.com/per-cpu-core-cost": "0.05",
			},
			Taints:      []corev1.Taint{{Key: "maintenance", Value: "yes", Effect: "NoSchedule"}},
			Allocatable: map[string]int64{"cpu": 4000, "memory": 20 * gi, "pods": limitless},
		},
		"membercluster-beta": {
			Labels: map[string]string{
				"env": "prod", "topology.kubernetes.io/region": "westus", "kubernetes-fleet.io/node-count": "3",
				"kubernetes.azure.com/per-cpu-core-cost": "0.05",
			},
			Taints:      []corev1.Taint{{Key: "maintenance", Value: "yes", Effect: "NoSchedule"}},
			Allocatable: map[string]int64{"cpu": 4000, "memory": 20 * gi, "pods": limitless},
		},
	} {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "replication", "testdata", file+".golden.json"))
			if err != nil {
				t.Fatal(err)
			}
			var document map[string]any
			if err := json.Unmarshal(text, &document); err != nil {
				t.Fatal(err)
			}
			name := document["name"].(string)
			s := ClusterSnapshot(map[string]map[string]any{name: document})
			if diff := cmp.Diff(want, clusterOf(t, s), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if info, err := s.Get(name); err != nil || info.Node().Name != name {
				t.Errorf("the cluster is not found: %v", err)
			}
		})
	}
}

func TestClusterSnapshot(t *testing.T) {
	ready := func(members string) string { return `{"ready": true, ` + members + `}` }
	for name, c := range map[string]struct {
		document string
		want     cluster
	}{
		"nothing is known": {
			`{}`, cluster{Taints: []corev1.Taint{notReady}, Allocatable: map[string]int64{"pods": limitless}, Boundless: true},
		},
		"what is no label is left out": {
			ready(`"labels": {"a": "b", "with space": "x", "c": "with space", "d": 1, "": "x"}, "properties": {"e": "f", "g": ["h"]}`),
			cluster{Labels: map[string]string{"a": "b", "e": "f"}, Allocatable: map[string]int64{"pods": limitless}, Boundless: true},
		},
		"a label counts before a property, a region and a zone": {
			ready(`"labels": {"a": "label", "topology.kubernetes.io/region": "label"}, "properties": {"a": "property"}, "region": "r", "zones": ["z"]`),
			cluster{
				Labels: map[string]string{
					"a": "label", "topology.kubernetes.io/region": "label", "topology.kubernetes.io/zone": "z",
				},
				Allocatable: map[string]int64{"pods": limitless}, Boundless: true,
			},
		},
		"several zones are no zone": {
			ready(`"region": "r", "zones": ["y", "z"]`),
			cluster{
				Labels: map[string]string{"topology.kubernetes.io/region": "r"}, Allocatable: map[string]int64{"pods": limitless}, Boundless: true,
			},
		},
		"effects of Open Cluster Management": {
			ready(`"taints": [{"key": "a", "effect": "NoSelect"}, {"key": "b", "effect": "PreferNoSelect"}, {"key": "c", "effect": "NoSelectIfNew"}]`),
			cluster{
				Taints: []corev1.Taint{
					{Key: "a", Effect: "NoSchedule"}, {Key: "b", Effect: "PreferNoSchedule"}, {Key: "c", Effect: "NoSchedule"},
				},
				Allocatable: map[string]int64{"pods": limitless}, Boundless: true,
			},
		},
		"a cluster that is being deleted": {
			ready(`"terminating": true`),
			cluster{Taints: []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: "NoSchedule"}}, Allocatable: map[string]int64{"pods": limitless}, Boundless: true},
		},
		"what is no taint is left out": {
			ready(`"taints": [1, {}, {"effect": "Other"}]`), cluster{Allocatable: map[string]int64{"pods": limitless}, Boundless: true},
		},
		"a taint that no node could have repels": {
			ready(`"taints": [{"key": "a"}, {"key": "b", "effect": "Other"}, {"effect": "NoExecute"}, {"key": "c d", "value": "until May, at least", "effect": "NoSelect"}]`),
			cluster{
				Taints: []corev1.Taint{
					{Key: "a", Effect: "NoSchedule"}, {Key: "b", Effect: "NoSchedule"}, {Effect: "NoExecute"},
					{Key: "c d", Value: "until May, at least", Effect: "NoSchedule"},
				},
				Allocatable: map[string]int64{"pods": limitless}, Boundless: true,
			},
		},
		"resources that can't be read are none": {
			ready(`"allocatable": {"cpu": "much"}, "capacity": {"cpu": "2"}`), cluster{Allocatable: map[string]int64{"pods": limitless}},
		},
		"less than nothing is nothing": {
			ready(`"capacity": {"cpu": "-1"}`), cluster{Allocatable: map[string]int64{"pods": limitless}},
		},
		"what can't be read may all be allocated": {
			ready(`"allocatable": {"cpu": "2", "memory": "1Gi"}, "allocated": {"cpu": "much", "memory": "-1"}`),
			cluster{Allocatable: map[string]int64{"pods": limitless}},
		},
		"what is left of resources": {
			ready(`"allocatable": {"cpu": 4, "memory": "1Gi", "pods": "10", "example.com/gpu": "2"}, "allocated": {"cpu": "500m", "memory": "2Gi", "pods": 3, "other": "1"}`),
			cluster{Allocatable: map[string]int64{"cpu": 3500, "pods": 7, "example.com/gpu": 2}},
		},
		"a cluster that is full": {
			ready(`"allocatable": {"cpu": "1"}, "allocated": {"cpu": "1"}`), cluster{Allocatable: map[string]int64{"pods": limitless}},
		},
		"what is no quantity is left out": {
			ready(`"allocatable": {"cpu": "much", "memory": [], "with space": "1", "example.com/gpu": "1"}`),
			cluster{Allocatable: map[string]int64{"example.com/gpu": 1, "pods": limitless}},
		},
		"a quantity that is too long to be read": {
			ready(`"allocatable": {"cpu": "1e1000000000", "memory": "1e-1000000000", "example.com/gpu": "1E", "other": "1e3"}`),
			cluster{Allocatable: map[string]int64{"example.com/gpu": limitless, "pods": limitless}},
		},
		"capacity where nothing allocatable is known": {
			ready(`"capacity": {"cpu": "2"}`), cluster{Allocatable: map[string]int64{"cpu": 2000, "pods": limitless}},
		},
		"capacity is not what is allocatable": {
			ready(`"capacity": {"cpu": "2", "example.com/gpu": "1"}, "allocatable": {"cpu": "1"}`),
			cluster{Allocatable: map[string]int64{"cpu": 1000, "pods": limitless}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var document map[string]any
			if err := json.Unmarshal([]byte(c.document), &document); err != nil {
				t.Fatal(err)
			}
			got := clusterOf(t, ClusterSnapshot(map[string]map[string]any{"c": document}))
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestClustersAreSorted(t *testing.T) {
	s := ClusterSnapshot(map[string]map[string]any{"b": {}, "c": nil, "a": {}, "": {}})
	if diff := cmp.Diff([]string{"a", "b", "c"}, s.names); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if s.Revision() == 0 || s.without("d", nil, "a") != s || s.IsPVCUsedByPods("d/c") {
		t.Error("there is more in it than clusters")
	}
}

// FuzzClusterSnapshot checks that any document gives nodes that plugins can evaluate.
func FuzzClusterSnapshot(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a": null}`, `{"a": {"ready": "yes", "labels": [], "taints": {}, "zones": "z", "allocatable": "all"}}`,
		`{"a": {"labels": {"a": "b"}, "taints": [null, {"key": 1}], "zones": [1], "region": [], "allocatable": {"cpu": null, "pods": -1, "x": 1e400}}}`,
		`{"a": {"allocatable": {"cpu": "1e1000000000", "memory": "0.00000000000000000000000001e-9999999"}}}`,
		`{"a": {"allocatable": {"pods": "9223372036854775807", "cpu": "9223372036854775807"}, "allocated": {"cpu": "-9223372036854775808"}}}`,
	} {
		f.Add(seed)
	}
	files, err := filepath.Glob(filepath.Join("..", "replication", "testdata", "*.golden.json"))
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(`{"a": ` + string(text) + `}`)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var documents map[string]map[string]any
		if json.Unmarshal([]byte(text), &documents) != nil {
			return
		}
		s := ClusterSnapshot(documents)
		for _, info := range s.infos {
			node := info.Node()
			for key, value := range node.Labels {
				if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
					t.Errorf("label %q: %q", key, value)
				}
			}
			for _, taint := range node.Spec.Taints {
				switch taint.Effect {
				case corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule:
				default:
					t.Errorf("effect %q", taint.Effect)
				}
			}
			for name, quantity := range node.Status.Allocatable {
				if quantity.Sign() < 0 {
					t.Errorf("%s of %s is left", quantity.String(), name)
				}
			}
			for name, value := range quantitiesOf(info.GetAllocatable()) {
				if value < 0 {
					t.Errorf("%d of %s is allocatable", value, name)
				}
			}
		}
	})
}
