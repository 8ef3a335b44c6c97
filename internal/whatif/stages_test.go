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
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/rollout"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/whatif"
)

const tiers = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: tiers, uid: policy-uid, generation: 4}
spec:
  match: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}
  remediation: {mode: Automatic}
  rollout: {stages: [{name: canary, namespaceSelector: {matchLabels: {stage: canary}}}]}
  rego: |
    package tiers

    annotations.tier := "silver"
`

const tiered = `apiVersion: v1
kind: Namespace
metadata: {name: first, labels: {stage: canary}}
---
apiVersion: v1
kind: Namespace
metadata: {name: rest}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: first}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: rest}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b, namespace: rest}
---
`

// tiersPolicy returns the policy after edits of its manifest, with a status that is computed for its spec.
func tiersPolicy(t *testing.T, status *placementv1.RolloutStatus, edits ...string) *unstructured.Unstructured {
	t.Helper()
	content := parse(t, strings.NewReplacer(edits...).Replace(tiers))[0]
	if status == nil {
		return content
	}
	obj := &placementv1.PlacementPolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, obj); err != nil {
		t.Fatal(err)
	}
	obj.Status.Rollout = status
	status.Digest = cmp.Or(status.Digest, rollout.Digest(obj.Spec))
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: out}
}

// storedTiers returns the ControllerRevision of the policy after edits of its manifest.
func storedTiers(t *testing.T, number int64, edits ...string) *unstructured.Unstructured {
	t.Helper()
	obj := &placementv1.PlacementPolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tiersPolicy(t, nil, edits...).Object, obj); err != nil {
		t.Fatal(err)
	}
	text, err := policy.EncodeRevision(policy.Revision{UID: obj.UID, Generation: number, Spec: obj.Spec})
	if err != nil {
		t.Fatal(err)
	}
	var data map[string]any
	if err := json.Unmarshal(text, &data); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "ControllerRevision", "data": data,
		"metadata": map[string]any{"name": policy.NumberedRevisionName(obj.Name, number), "namespace": "berth-system"},
	}}
}

// TestStages checks what a change of a policy with stages does in the end, and what is said about its stages.
func TestStages(t *testing.T) {
	complete := func() *placementv1.RolloutStatus {
		return &placementv1.RolloutStatus{State: placementv1.RolloutComplete, Revision: 4, Reached: new(int32(1))}
	}
	midst := func() *placementv1.RolloutStatus {
		return &placementv1.RolloutStatus{State: placementv1.RolloutSoaking, Revision: 4, PreviousRevision: 2, Reached: new(int32(1))}
	}
	const report = ". This report has the state after the last stage"
	for name, tc := range map[string]struct {
		before *unstructured.Unstructured
		stored []*unstructured.Unstructured
		change *unstructured.Unstructured
		moves  int
		want   []string
	}{
		"new version": {tiersPolicy(t, complete()), nil, tiersPolicy(t, nil, "silver", "gold"), 3, []string{
			"the change comes into force in stages: stage canary (1 objects get other values), and then everything else (2 objects). Until a namespace is reached, the version before decides its objects" + report,
		}},
		"new policy": {nil, nil, tiersPolicy(t, nil), 3, []string{
			"the change comes into force in stages: stage canary (1 objects get other values), and then everything else (2 objects). Until a namespace is reached, the policy matches nothing there" + report,
		}},
		"another version in the midst": {tiersPolicy(t, midst()), []*unstructured.Unstructured{storedTiers(t, 2, "silver", "gold")}, tiersPolicy(t, nil, "silver", "bronze"), 3, []string{
			"the change comes into force in stages: stage canary (1 objects get other values), and then everything else (2 objects). Until a namespace is reached, the version before decides its objects" + report,
		}},
		"back to the version before": {tiersPolicy(t, midst()), []*unstructured.Unstructured{storedTiers(t, 2, "silver", "gold")}, tiersPolicy(t, nil, "silver", "gold"), 1, nil},
		"without stages":             {tiersPolicy(t, midst()), []*unstructured.Unstructured{storedTiers(t, 2, "silver", "gold")}, tiersPolicy(t, nil, "  rollout: {stages: [{name: canary, namespaceSelector: {matchLabels: {stage: canary}}}]}\n", ""), 2, nil},
		"rollback":                   {tiersPolicy(t, midst()), []*unstructured.Unstructured{storedTiers(t, 2, "silver", "gold")}, tiersPolicy(t, nil, "rollout: {", "rollout: {revision: 2, "), 1, nil},
		"new version while rolled back": {tiersPolicy(t, complete(), "rollout: {", "rollout: {revision: 2, "), []*unstructured.Unstructured{storedTiers(t, 2, "silver", "gold")},
			tiersPolicy(t, nil, "rollout: {", "rollout: {revision: 2, ", "silver", "bronze"), 0, []string{
				"revision 2 is in force because of spec.rollout.revision: the version in the spec decides nothing until you remove this field",
			}},
		"before the first status": {tiersPolicy(t, &placementv1.RolloutStatus{State: placementv1.RolloutProgressing, Revision: 4, Digest: "older", Reached: new(int32(0))}), nil, tiersPolicy(t, nil, "silver", "gold"), 3, []string{
			"the change comes into force in stages: stage canary (1 objects get other values), and then everything else (2 objects). Until a namespace is reached, the policy matches nothing there" + report,
		}},
		"remediation only": {tiersPolicy(t, midst()), []*unstructured.Unstructured{storedTiers(t, 2, "silver", "gold")}, tiersPolicy(t, nil, "mode: Automatic", "mode: Automatic, evict: true"), 0, nil},
		"revision not stored": {tiersPolicy(t, midst()), nil, tiersPolicy(t, nil, "mode: Automatic", "mode: Automatic, evict: true"), 0, []string{
			"some objects are not decided: revision 2 of the policy is in force, and the namespace berth-system has no ControllerRevision " + policy.NumberedRevisionName("tiers", 2) +
				" of the policy: set --berth-namespace to the namespace that Berth runs in, or add the ControllerRevision to the files",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append(parse(t, strings.TrimSuffix(tiered, "---\n")), tc.stored...)
			if tc.before != nil {
				objects = append(objects, tc.before)
			}
			cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), objects...)
			if err != nil {
				t.Fatal(err)
			}
			session, err := whatif.NewSession(t.Context(), cluster, simulation.Options{OwnNamespace: "berth-system"})
			if err != nil {
				t.Fatal(err)
			}
			got, err := session.WhatIf(t.Context(), whatif.Changes{Apply: []*unstructured.Unstructured{tc.change}})
			if err != nil {
				t.Fatal(err)
			}
			var findings []string
			for _, f := range got.Findings {
				findings = append(findings, f.Message)
			}
			if diff := gocmp.Diff(tc.want, findings); diff != "" || got.Moves() != tc.moves {
				t.Errorf("%d moves, want %d; findings (-want +got):\n%s", got.Moves(), tc.moves, diff)
			}
		})
	}
}
