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

package embedded

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy/language"
)

// unreadyCluster returns a ManagedCluster with taints.
func unreadyCluster(name string, taints ...any) *unstructured.Unstructured {
	return document("", name, "spec", map[string]any{"taints": taints})
}

// TestTolerated checks that taints for readiness do not count in the clusters that the input names, that the caches tell such inputs from
// others, and that no other taint is left out.
func TestTolerated(t *testing.T) {
	e, seen := ruledEngine()
	e.data.Replace(profiles.GroupVersionResource, nil)
	unreachable := map[string]any{"key": "cluster.open-cluster-management.io/unreachable", "effect": "NoSelect", "timeAdded": "2026-07-01T12:00:00Z"}
	evicting := map[string]any{"key": "cluster.open-cluster-management.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-07-01T12:00:00Z"}
	unknown := map[string]any{"key": "cluster.open-cluster-management.io/unavailable", "effect": "NoSelect"}
	own := map[string]any{"key": "example.com/drain", "effect": "NoSelect"}
	e.data.Replace(managed.GroupVersionResource, []*unstructured.Unstructured{
		unreadyCluster("ready"), unreadyCluster("gone", unreachable), unreadyCluster("away", unreachable, unknown), unreadyCluster("drained", unreachable, own), unreadyCluster("left", evicting),
	})
	ev, _ := prepare(t, e, ruledBy(t, `[{name: a, require: [{field: name, operator: Exists}]}]`))
	since := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	if diff := cmp.Diff(map[string]time.Time{"gone": since, "away": {}, "drained": since}, ev.(placement.Tolerant).Unready()); diff != "" {
		t.Errorf("clusters that are not ready (-want +got):\n%s", diff)
	}
	tests := []struct {
		tolerated []any
		want      []string
	}{
		{want: []string{"ready"}},
		{tolerated: []any{"gone"}, want: []string{"gone", "ready"}},
		{tolerated: []any{"away", "gone"}, want: []string{"away", "gone", "ready"}},
		{tolerated: []any{"drained", "left", "unknown"}, want: []string{"ready"}},
	}
	for range 2 {
		for _, tc := range tests {
			object := ruledObject("web")
			if tc.tolerated != nil {
				object[language.InputTolerated] = tc.tolerated
			}
			got, err := ev.Evaluate(t.Context(), object)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Clusters); diff != "" {
				t.Errorf("clusters while %v are tolerated (-want +got):\n%s", tc.tolerated, diff)
			}
		}
	}
	if int(seen.hits.Load()) != len(tests) {
		t.Errorf("%d decisions were remembered, want %d", seen.hits.Load(), len(tests))
	}
}

// TestRegoSeesAllTaints checks that a policy in Rego is not tolerant: its author reads the taints.
func TestRegoSeesAllTaints(t *testing.T) {
	e, _ := ruledEngine()
	e.data.Replace(managed.GroupVersionResource, []*unstructured.Unstructured{unreadyCluster("gone", map[string]any{"key": "cluster.karmada.io/not-ready", "effect": "NoSchedule"})})
	spec := ruledBy(t, "[]")
	spec.Rego = `package p

clusters := {name | some name, cluster in data.clusters; count(cluster.taints) == 0}`
	ev, _ := prepare(t, e, spec)
	if got := ev.(placement.Tolerant).Unready(); got != nil {
		t.Errorf("got %v", got)
	}
}
