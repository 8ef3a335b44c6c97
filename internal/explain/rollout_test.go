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

package explain_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/explain"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/rollout"
	"github.com/berth-dev/berth/internal/simulation"
)

const oldRego, newRego = `package region

# The version before has one more line.
clusters contains name if {
  some name, c in data.clusters
  c.labels.region == "eu"
}`, `package region

clusters contains name if {
  some name, c in data.clusters
  c.labels.region == "us"
}`

// TestRollout checks that the version is explained that decides the object.
func TestRollout(t *testing.T) {
	decode := func(rego string) *placementv1.PlacementPolicy {
		out := &placementv1.PlacementPolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(parse(t, policyOf("region", rego))[0].Object, out); err != nil {
			t.Fatal(err)
		}
		out.UID = "policy-uid"
		out.Spec.Rollout = &placementv1.PolicyRollout{Stages: []placementv1.RolloutStage{{Name: "canary", Percent: 100}}}
		return out
	}
	text, err := policy.EncodeRevision(policy.Revision{UID: "policy-uid", Generation: 2, Spec: decode(oldRego).Spec})
	if err != nil {
		t.Fatal(err)
	}
	var data map[string]any
	if err := json.Unmarshal(text, &data); err != nil {
		t.Fatal(err)
	}
	stored := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "ControllerRevision", "data": data,
		"metadata": map[string]any{"name": policy.NumberedRevisionName("region", 2), "namespace": "berth-system"},
	}}
	const soaks = "; the rollout waits until a stage of PlacementPolicy region has soaked (status.rollout.message says until when)"
	for name, tc := range map[string]struct {
		reached  int32
		previous int64
		want     string
		// lost is the cluster that is not chosen, and line the one of the expression that fails.
		lost       string
		line       int
		mismatches []explain.Mismatch
	}{
		"reached":     {1, 2, "revision 4 decides, which is the version in the spec: namespace shop is in stage canary, which the rollout has reached" + soaks, "eu-1", 5, nil},
		"not reached": {0, 2, "revision 2 decides: namespace shop is in stage canary, which the rollout has not reached" + soaks, "us-1", 6, nil},
		"no version": {0, 0, "", "", 0, []explain.Mismatch{
			{Policy: "region", Part: "rollout", Reason: "no version decides: namespace shop is in stage canary, which the rollout has not reached, and there is no version before" + soaks},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			obj := decode(newRego)
			obj.Status.Rollout = &placementv1.RolloutStatus{
				State: placementv1.RolloutSoaking, Revision: 4, PreviousRevision: tc.previous, Digest: rollout.Digest(obj.Spec), Reached: new(tc.reached),
			}
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
			if err != nil {
				t.Fatal(err)
			}
			cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), append(parse(t, fleet), stored, &unstructured.Unstructured{Object: content})...)
			if err != nil {
				t.Fatal(err)
			}
			s, err := simulation.New(t.Context(), cluster, simulation.Options{OwnNamespace: "berth-system"})
			if err != nil {
				t.Fatal(err)
			}
			o, err := s.NewObject(parse(t, web)[0], false)
			if err != nil {
				t.Fatal(err)
			}
			got, err := explain.Explain(t.Context(), s, o, explain.Options{WhyNot: tc.lost})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.mismatches, got.Mismatches); diff != "" {
				t.Errorf("mismatches (-want +got):\n%s", diff)
			}
			if tc.want == "" {
				return
			}
			if len(got.Policies) != 1 || got.Policies[0].Rollout != tc.want {
				t.Errorf("policies %+v, want %q", got.Policies, tc.want)
			}
			if listed := got.Clusters.Listed; len(listed) != 1 || listed[0].Chosen || listed[0].Reasons[0].Line != tc.line {
				t.Errorf("clusters %+v, want %s to lose by line %d", listed, tc.lost, tc.line)
			}
		})
	}
}
