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
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/rollout"
	"github.com/berth-dev/berth/internal/status"
	"github.com/berth-dev/berth/internal/watches"
)

// rollOut adds to the facts how far the policy is rolled out next. It returns after which time it has to be called again although
// nothing changes; 0 for never.
func (c *Controller) rollOut(ctx context.Context, obj *placementv1.PlacementPolicy, f *status.Facts) (again time.Duration, err error) {
	if obj.Spec.Rollout == nil {
		return 0, nil
	}
	now := c.Clock.Now()
	facts := rollout.Facts{Now: now, Spec: obj.Spec.Rollout, Approved: obj.Annotations[placementv1.ApproveStageAnnotation]}
	if facts.Stored, facts.Fallback, err = c.Revisions(ctx, obj); err != nil {
		return 0, err
	}
	if s := f.State; s != nil && s.Staged != nil && s.Loaded.UID == obj.UID && s.Loaded.Generation == obj.Generation && isOf(s.Staged.Candidate, obj.Spec) {
		facts.InForce, facts.Candidate = &s.Staged.InForce, s.Staged.Candidate
		// State was read first, then Deciding, then whether the objects are assessed, and then the counts. So if the objects are
		// decided, it is by the versions in State, and the counts have them.
		facts.Busy = f.Deciding || !c.Ledger.Assessed(obj.Name) || f.Resuming || f.Report.Assessing || f.Waiting.Resuming || f.Waiting.Rollouts > 0 || !f.MatchedWatches.Synced
		facts.Paused = pausedBecause(f)
		if !facts.Settled(obj.Status.Rollout) {
			if facts.Counts, err = c.stageCounts(ctx, obj.Name, s.Staged.Stages, f); err != nil {
				return 0, err
			}
		}
	}
	next, at := rollout.Next(obj.Status.Rollout, facts)
	f.Rollout, f.RolloutPending = next, facts.Candidate != "" && facts.Spec.Revision == 0 && !rollout.PositionOf(next).Concerns(facts.Candidate)
	if at.IsZero() {
		return 0, nil
	}
	return max(at.Sub(now), settle), nil
}

// isOf reports whether a digest that the registry has is that of a spec. After a restore of the API server's store from a backup,
// two specs can have the same generation. The digest is empty for a version that can't decide.
func isOf(digest string, spec placementv1.PlacementPolicySpec) bool {
	return digest == "" || digest == rollout.Digest(spec)
}

// pausedBecause returns why remediation of the policy is paused; empty if it is not.
func pausedBecause(f *status.Facts) string {
	if f.Report.Pause != nil || f.Waiting.Pause != "" {
		return "remediation of the policy is paused; see the Paused condition"
	}
	return ""
}

// stageCounts returns the numbers of existing objects in each stage.
func (c *Controller) stageCounts(ctx context.Context, policy string, stages *rollout.Stages, f *status.Facts) ([]rollout.Counts, error) {
	var failed error
	groupOf := func(namespace string) int {
		if namespace == "" {
			return stages.Len()
		}
		object := watches.NewNamespace()
		if err := c.Client.Get(ctx, client.ObjectKey{Name: namespace}, object); client.IgnoreNotFound(err) != nil {
			failed = err
		}
		return stages.Of(namespace, object.Labels)
	}
	return c.Ledger.RolloutCounts(policy, stages.Len(), groupOf, f.Waiting.Failures), failed
}
