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

package rollout_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/rollout"
)

type assignment struct {
	spec   placementv1.PlacementPolicySpec
	status *placementv1.RolloutStatus
	// canary, half, other, and none are what Explain returns for a namespace of each stage, for one in no stage, and for objects
	// without a namespace.
	canary, half, other, none string
}

func inAllNamespaces(spec placementv1.PlacementPolicySpec, status *placementv1.RolloutStatus, want string) assignment {
	return assignment{spec, status, want, want, want, want}
}

func TestAssign(t *testing.T) {
	stage := func(name string) placementv1.RolloutStage {
		return placementv1.RolloutStage{Name: name, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": name}}}
	}
	staged := func(revision int64) placementv1.PlacementPolicySpec {
		return placementv1.PlacementPolicySpec{Rego: "package p", Rollout: &placementv1.PolicyRollout{Stages: []placementv1.RolloutStage{stage("canary"), stage("half")}, Revision: revision}}
	}
	digest := rollout.Digest(staged(0))
	status := func(state placementv1.RolloutState, digest string, previous int64) *placementv1.RolloutStatus {
		return &placementv1.RolloutStatus{State: state, Digest: digest, Revision: 4, PreviousRevision: previous, Reached: new(int32(1))}
	}
	for name, tc := range map[string]assignment{
		"no rollout": {spec: placementv1.PlacementPolicySpec{Rego: "package p"}, status: status(placementv1.RolloutProgressing, digest, 2)},
		"in the midst": {
			staged(0), status(placementv1.RolloutSoaking, digest, 2),
			"revision 4 decides, which is the version in the spec: namespace canary is in stage canary, which the rollout has reached",
			"revision 2 decides: namespace half is in stage half, which the rollout has not reached",
			"revision 2 decides: namespace other is in no stage and follows after the last one",
			"revision 2 decides: objects without a namespace follow after the last stage",
		},
		"no version before": {
			staged(0), status(placementv1.RolloutProgressing, digest, 0),
			"revision 4 decides, which is the version in the spec: namespace canary is in stage canary, which the rollout has reached",
			"no version decides: namespace half is in stage half, which the rollout has not reached, and there is no version before",
			"no version decides: namespace other is in no stage and follows after the last one, and there is no version before",
			"no version decides: objects without a namespace follow after the last stage, and there is no version before",
		},
		"complete":            inAllNamespaces(staged(0), status(placementv1.RolloutComplete, digest, 0), "revision 4 decides, which is the version in the spec: its rollout is complete"),
		"rolled back":         inAllNamespaces(staged(3), status(placementv1.RolloutRolledBack, "x", 0), "revision 3 decides: spec.rollout.revision selects this revision for all namespaces"),
		"going back":          inAllNamespaces(staged(3), status(placementv1.RolloutProgressing, digest, 2), "revision 3 decides: spec.rollout.revision selects this revision for all namespaces"),
		"going on":            inAllNamespaces(staged(0), status(placementv1.RolloutRolledBack, "x", 0), "revision 4 decides: the rollout of the version in the spec has not begun"),
		"status is older":     inAllNamespaces(staged(0), status(placementv1.RolloutProgressing, "x-y", 2), "revision 2 decides: the rollout of the version in the spec has not begun"),
		"first, status older": inAllNamespaces(staged(0), status(placementv1.RolloutProgressing, "x-y", 0), "no version decides: the rollout of the version in the spec has not begun, and there is no version before"),
		"no status":           inAllNamespaces(staged(0), nil, "the version in the spec decides: the policy has no status.rollout"),
	} {
		t.Run(name, func(t *testing.T) {
			obj := &placementv1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: tc.spec, Status: placementv1.PlacementPolicyStatus{Rollout: tc.status}}
			a := rollout.Assign(obj)
			for namespace, want := range map[string]string{"canary": tc.canary, "half": tc.half, "other": tc.other, "": tc.none} {
				if got := a.Explain(namespace, map[string]string{"stage": namespace}); got != want {
					t.Errorf("namespace %q: got %q, want %q", namespace, got, want)
				}
			}
		})
	}
}
