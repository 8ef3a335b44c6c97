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

package setup

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/census"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
)

// healthy is the evaluator of a policy with a remote engine of a health.
type healthy struct {
	placement.Evaluator
	health placement.RemoteHealth
}

func (healthy) Input() *projection.FieldSet      { return projection.AllFields() }
func (h healthy) Health() placement.RemoteHealth { return h.health }

func TestOpenCircuits(t *testing.T) {
	policies := []*placement.Policy{{Name: "own"}}
	for i, h := range []placement.RemoteHealth{{Endpoint: "https://a"}, {Endpoint: "https://b", BreakerOpen: true}, {Endpoint: "https://a", BreakerOpen: true}, {Endpoint: "https://c"}, {Endpoint: "https://a"}} {
		policies = append(policies, &placement.Policy{Name: fmt.Sprint(i), Evaluator: healthy{health: h}})
	}
	if diff := cmp.Diff(map[string]bool{"https://a": true, "https://b": true, "https://c": false}, openCircuits(policies)); diff != "" {
		t.Errorf("circuits (-want +got):\n%s", diff)
	}
}

func TestPolicyStates(t *testing.T) {
	states := map[string]*placement.PolicyState{"a": {}, "kept": {Err: errors.New("no")}, "d": {Err: errors.New("no"), Broken: true}, "e": {Broken: true}}
	want := []string{metrics.StateBroken, metrics.StateBroken, metrics.StateInForce, metrics.StateLastGood}
	if got := slices.Sorted(policyStates(maps.All(states))); !slices.Equal(got, want) {
		t.Errorf("states %q, want %q", got, want)
	}
}

func TestQuotaUsage(t *testing.T) {
	q := &placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "q"}}
	q.Status.Hard = corev1.ResourceList{"pods": resource.MustParse("10"), "requests.cpu": resource.MustParse("1500m")}
	q.Status.Used = corev1.ResourceList{"pods": resource.MustParse("3")}
	want := []metrics.QuotaUsage{{
		QuotaKey: metrics.QuotaKey{Kind: metrics.KindScopedQuota, Namespace: "n", Name: "q"},
		Hard:     map[string]float64{"pods": 10, "requests.cpu": 1.5}, Used: map[string]float64{"pods": 3},
	}}
	if diff := cmp.Diff(want, quotaUsage([]placementv1.Quota{q})); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestClusterCounts(t *testing.T) {
	counts := []census.ClusterCount{{Cluster: "eu-1", Objects: census.Counts{census.Placed: 2, census.AwaitsPatch: 1, census.Violates: 3}}}
	want := []metrics.ClusterCount{{Cluster: "eu-1", Objects: map[string]int{metrics.ClusterPlaced: 2, metrics.ClusterWaiting: 1, metrics.ClusterViolating: 3}}}
	if diff := cmp.Diff(want, clusterCounts(counts)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}
