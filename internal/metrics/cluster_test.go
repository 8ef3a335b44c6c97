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

package metrics_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-dev/berth/internal/metrics"
)

// TestClusters checks the series of clusters, and of those that have none of their own.
func TestClusters(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(metrics.NewClusters(func(limit int) []metrics.ClusterCount {
		if limit < 100 || limit > 1000 {
			t.Errorf("limit %d", limit)
		}
		return []metrics.ClusterCount{
			{Cluster: "eu-1", Objects: map[string]int{metrics.ClusterPlaced: 2, metrics.ClusterViolating: 3}},
			{Objects: map[string]int{metrics.ClusterWaiting: 1}},
		}
	}))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			text := family.GetName()
			for _, label := range m.GetLabel() {
				text += " " + label.GetValue()
			}
			got = append(got, fmt.Sprintf("%s %g", text, m.GetGauge().GetValue()))
		}
	}
	slices.Sort(got)
	want := []string{
		"berth_cluster_objects (other) placed 0", "berth_cluster_objects (other) violating 0", "berth_cluster_objects (other) waiting 1",
		"berth_cluster_objects eu-1 placed 2", "berth_cluster_objects eu-1 violating 3", "berth_cluster_objects eu-1 waiting 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}
