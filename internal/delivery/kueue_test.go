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

package delivery

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestMayNominate(t *testing.T) {
	const pending = `{conditions: [{type: QuotaReserved, status: "True"}], admissionChecks: [{name: mk, state: Pending}]`
	tests := map[string]struct {
		status string
		want   bool
	}{
		"Pending":      {status: pending + `}`, want: true},
		"Chosen":       {status: pending + `, clusterName: eu-1}`},
		"Evicted":      {status: `{conditions: [{type: QuotaReserved, status: "True"}, {type: Evicted, status: "True"}], admissionChecks: [{state: Pending}]}`},
		"NoLongerThat": {status: `{conditions: [{type: QuotaReserved, status: "True"}, {type: Evicted, status: "False"}], admissionChecks: [{state: Pending}]}`, want: true},
		"Finished":     {status: `{conditions: [{type: QuotaReserved, status: "True"}, {type: Finished, status: "True"}], admissionChecks: [{state: Pending}]}`},
		"NoQuota":      {status: `{admissionChecks: [{state: Pending}]}`},
		"Ready":        {status: `{conditions: [{type: QuotaReserved, status: "True"}], admissionChecks: [{state: Ready}]}`},
		"Nothing":      {status: `{}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var status map[string]any
			if err := yaml.Unmarshal([]byte(tc.status), &status); err != nil {
				t.Fatal(err)
			}
			if got := mayNominate(map[string]any{"status": status}); got != tc.want {
				t.Errorf("mayNominate is %t, want %t", got, tc.want)
			}
		})
	}
}

func TestRunOfWorkload(t *testing.T) {
	const (
		chosen = `clusterName: eu-1, nominatedClusterNames: [], conditions: [{type: QuotaReserved, status: "True"}, {type: Admitted, status: "True"}`
		leave  = "the Workload still runs in cluster eu-1, which is none of the decided ones, and MultiKueue moves no Workload: delete the Job that owns it, and create the Job again"
	)
	missing := func(message string) Run { return Run{State: NotRunning, Message: message} }
	tests := map[string]struct {
		status   string
		clusters []string
		want     Run
	}{
		"New": {`{}`, []string{"eu-1"}, missing("Kueue has not reserved quota for the Workload yet")},
		"Nominated": {`{nominatedClusterNames: [eu-1], conditions: [{type: QuotaReserved, status: "True"}]}`, []string{"eu-1"},
			missing("MultiKueue has not chosen a cluster for the Workload yet")},
		"Withdrawn": {`{admissionChecks: [{name: mk, state: Retry}]}`, []string{"eu-1"}, Run{
			State: NotRunning, Remains: true, Message: "Kueue has not withdrawn the Workload yet from the clusters that were nominated before",
		}},
		"Runs":            {`{` + chosen + `]}`, []string{"eu-1", "eu-2"}, Run{State: Running}},
		"RunsReady":       {`{` + chosen + `, {type: PodsReady, status: "True"}]}`, []string{"eu-1"}, Run{State: Running}},
		"Starts":          {`{` + chosen + `, {type: PodsReady, status: "False"}]}`, []string{"eu-1"}, missing("cluster eu-1: the pods of the Workload are not ready")},
		"NotAdmitted":     {`{clusterName: eu-1}`, []string{"eu-1"}, missing("cluster eu-1: Kueue has not admitted the Workload yet")},
		"Left":            {`{` + chosen + `]}`, []string{"eu-2"}, Run{State: NotRunning, Remains: true, Message: leave}},
		"LeftWithout":     {`{` + chosen + `]}`, nil, Run{State: NotRunning, Remains: true, Message: leave}},
		"LeftNotAdmitted": {`{clusterName: eu-1}`, []string{"eu-2"}, Run{State: NotRunning, Remains: true, Message: leave}},
		"Finished":        {`{` + chosen + `, {type: Finished, status: "True", reason: Succeeded}]}`, []string{"eu-2"}, Run{}},
		"Orphaned": {`{` + chosen + `, {type: Finished, status: "True", reason: OwnerNotFound}]}`, []string{"eu-2"}, Run{
			State: NotRunning, Remains: true, Message: "the owner of the Workload was deleted, and MultiKueue may have left the Job in cluster eu-1: delete the Workload",
		}},
		"OrphanedThere":  {`{` + chosen + `, {type: Finished, status: "True", reason: OwnerNotFound}]}`, []string{"eu-1"}, Run{}},
		"OrphanedBefore": {`{nominatedClusterNames: [eu-1], conditions: [{type: Finished, status: "True", reason: OwnerNotFound}]}`, []string{"eu-2"}, Run{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var status map[string]any
			if err := yaml.Unmarshal([]byte(tc.status), &status); err != nil {
				t.Fatal(err)
			}
			got := multiKueue.RunOf(&unstructured.Unstructured{Object: map[string]any{"status": status}}, Decision{Clusters: tc.clusters})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("run (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithdrawal(t *testing.T) {
	const pending = `admissionChecks: [{name: other, state: Ready}, {name: multikueue, state: Pending}]`
	tests := map[string]struct {
		status   string
		clusters []string
		want     bool
	}{
		"Left":       {`{nominatedClusterNames: [eu-1], ` + pending + `}`, []string{"eu-2"}, true},
		"LeftPartly": {`{nominatedClusterNames: [eu-1, eu-2], ` + pending + `}`, []string{"eu-2"}, true},
		"LeftAll":    {`{nominatedClusterNames: [eu-1], ` + pending + `}`, nil, true},
		"Joined":     {`{nominatedClusterNames: [eu-1], ` + pending + `}`, []string{"eu-1", "eu-2"}, false},
		"Same":       {`{nominatedClusterNames: [eu-2, eu-1], ` + pending + `}`, []string{"eu-1", "eu-2"}, false},
		"New":        {`{` + pending + `}`, []string{"eu-1"}, false},
		"NotCopied":  {`{nominatedClusterNames: [eu-1], admissionChecks: [{name: a, state: Pending}, {name: b, state: Pending}]}`, []string{"eu-2"}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var status map[string]any
			if err := yaml.Unmarshal([]byte(tc.status), &status); err != nil {
				t.Fatal(err)
			}
			objects, err := multiKueue.Render(Object{Name: "train", Namespace: "shop"}, Decision{Clusters: tc.clusters}, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := objects[0].Withdrawal(&unstructured.Unstructured{Object: map[string]any{"status": status}}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
			if (got != nil) != tc.want {
				t.Fatalf("withdrawal %v, want one: %t", got, tc.want)
			}
			want := map[string]any{"nominatedClusterNames": []any{}, "admissionChecks": []any{map[string]any{
				"name": "multikueue", "state": "Retry", "lastTransitionTime": "2026-01-02T03:04:05Z",
				"message": "Berth decides other clusters than those nominated: Kueue withdraws the Workload, and Berth nominates clusters again",
			}}}
			if tc.want && (got.GetName() != "train" || !cmp.Equal(want, got.Object["status"])) {
				t.Errorf("withdrawal (-want +got):\n%s", cmp.Diff(want, got.Object["status"]))
			}
		})
	}
}
