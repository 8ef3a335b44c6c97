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

package whatif_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/whatif"
)

const runningPods = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: disks}
spec:
  match:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], resources: [pods]}
  remediation: {evict: true}
  rego: |
    package disks

    scheduling.nodeSelector["example.com/disk"] := "ssd"
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: web, uid: web, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: owner, controller: true}]}
spec: {nodeName: node-1, containers: [{name: main, image: web}]}
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: bare, uid: bare}
spec: {nodeName: node-1, containers: [{name: main, image: web}]}
status: {phase: Running}
`

// TestPlanOfEvictions checks that the plan of a cluster and of its snapshot, which has only some fields, evict the same Pods.
func TestPlanOfEvictions(t *testing.T) {
	cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), parse(t, runningPods)...)
	if err != nil {
		t.Fatal(err)
	}
	live, err := simulation.New(t.Context(), cluster, simulation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := live.Snapshot(t.Context(), simulation.KubernetesDiscovery())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	if snapshot, err = simulation.DecodeSnapshot(text); err != nil {
		t.Fatal(err)
	}
	stored, err := snapshot.Cluster(replication.Known())
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := simulation.New(t.Context(), stored, simulation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var plans []*whatif.Plan
	for _, s := range []*simulation.Simulation{live, recorded} {
		plan, err := whatif.PlanOf(t.Context(), s, "disks")
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, plan)
	}
	want := []whatif.Move{{
		Resource: "pods", Namespace: "shop", Name: "web", UID: "web", Evict: true,
		Changes: []whatif.Value{{Field: "scheduling", Key: "nodeSelector/example.com/disk", To: new("ssd"), Policy: "disks"}},
	}}
	if diff := cmp.Diff(want, plans[0].Moves); diff != "" || plans[0].LeftAlone != 1 {
		t.Errorf("%d are left alone; moves (-want +got):\n%s", plans[0].LeftAlone, diff)
	}
	if diff := cmp.Diff(plans[0], plans[1]); diff != "" {
		t.Errorf("plan of the snapshot (-cluster +snapshot):\n%s", diff)
	}
	// The causes in the status are those of the plan with the same digest.
	for digest, want := range map[string][]string{plans[0].Digest: {"Node node-1 changed"}, "another": nil} {
		live.Policy("disks").Object.Status.Plan = &placementv1.RemediationPlan{Digest: digest, Causes: []string{"Node node-1 changed"}}
		plan, err := whatif.PlanOf(t.Context(), live, "disks")
		if err != nil || !slices.Equal(plan.Causes, want) {
			t.Errorf("plan %s in the status: causes %q, want %q, error %v", digest, plan.Causes, want, err)
		}
	}
}
