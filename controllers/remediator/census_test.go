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

package remediator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/census"
)

// TestClusterCounts checks that objects count in the clusters that they name, as long as they exist and a policy matches them.
func TestClusterCounts(t *testing.T) {
	l := newLeader(t)
	l.apply("p", onDeployments(`clusters := {"eu-1"}`, ""))
	web, db := deployment("web", "front", ""), deployment("db", "front", "")
	web.SetAnnotations(map[string]string{placementv1.ClustersAnnotation: `["eu-1"]`})
	db.SetAnnotations(map[string]string{placementv1.ClustersAnnotation: `["eu-1","us-1"]`})
	l.fill(deployments, []*unstructured.Unstructured{web, db, deployment("nowhere", "front", "")})
	expect := func(what string, want ...census.ClusterCount) {
		t.Helper()
		l.catchUpAndDecide()
		if diff := cmp.Diff(want, l.Ledger.Census.Clusters(10), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: counts (-want +got):\n%s", what, diff)
		}
	}
	violating := census.Counts{census.Violates: 1}
	expect("at first", census.ClusterCount{Cluster: "eu-1", Objects: census.Counts{census.Placed: 1, census.Violates: 1}},
		census.ClusterCount{Cluster: "us-1", Objects: violating})
	l.objects.Delete(deployments, "shop", "web")
	expect("without web", census.ClusterCount{Cluster: "eu-1", Objects: violating}, census.ClusterCount{Cluster: "us-1", Objects: violating})
	l.Registry.Remove("p")
	expect("without the policy")
}
