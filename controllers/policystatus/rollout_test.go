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

package policystatus

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	testclock "k8s.io/utils/clock/testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/rollout"
	"github.com/berth-dev/berth/internal/watches"
)

// noRevisions stores no revision.
type noRevisions struct{}

func (noRevisions) Numbered(context.Context, *placementv1.PlacementPolicy) ([]rollout.Revision, rollout.Revision, error) {
	return nil, rollout.Revision{}, nil
}

// unknownTypes is a catalog before the API server was asked.
type unknownTypes struct{}

func (unknownTypes) Served() *match.ServedTypes { return nil }

// assessed has decided all objects.
type assessed struct{}

func (assessed) MatchedState(...*placement.Policy) watches.State { return watches.State{Synced: true} }
func (assessed) HasUndecided(...*placement.Policy) bool          { return false }
func (assessed) Assessed(...*placement.Policy) bool              { return true }
func (assessed) Resuming() bool                                  { return false }

// TestAnotherSpecIsLoaded checks that the status waits for the registry if that has another spec.
func TestAnotherSpecIsLoaded(t *testing.T) {
	stages := []placementv1.RolloutStage{{Name: "canary", Percent: 10}, {Name: "rest", Percent: 100}}
	obj := &placementv1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p", Generation: 3}}
	obj.Spec.Rollout = &placementv1.PolicyRollout{Stages: stages}
	digest := rollout.Digest(obj.Spec)
	obj.Status.Rollout = &placementv1.RolloutStatus{
		State: placementv1.RolloutProgressing, Stage: "rest 2/2", Digest: digest, Revision: 2, Reached: new(int32(2)),
		Stages: []placementv1.RolloutStageStatus{{Name: "canary"}, {Name: "rest"}},
	}
	obj.Spec.Rollout = &placementv1.PolicyRollout{Stages: stages[:1]}
	compiled, _ := rollout.NewStages("p", stages, field.NewPath("spec"))
	c := &Controller{Deps: Deps{
		Clock: testclock.NewFakePassiveClock(time.Now()), Ledger: remediation.NewLedger(),
		Revisions: noRevisions{}, Remediator: assessed{}, Catalog: unknownTypes{},
	}}
	facts := Facts{State: &placement.PolicyState{
		Loaded: placement.LoadedVersion{UID: "p", Generation: 2},
		Staged: &placement.StagedVersions{InForce: rollout.InForce{Digest: digest, Reached: 2}, Candidate: digest, Stages: compiled},
	}}
	again, err := c.rollOut(t.Context(), obj, &facts)
	if diff := cmp.Diff(obj.Status.Rollout, facts.Rollout); err != nil || again != 0 || diff != "" {
		t.Errorf("again after %s, error %v, status (-want +got):\n%s", again, err, diff)
	}
}
