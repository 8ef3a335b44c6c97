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
	"slices"
	"time"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/rollout"
	"github.com/berth-dev/berth/internal/watches"
)

// rollOut sets Rollout and RolloutPending of the facts, by the next status of the policy's rollout. It returns after which time it has to
// be called again although nothing changes; 0 for never.
func (c *Controller) rollOut(ctx context.Context, obj *placementv1.PlacementPolicy, f *Facts) (again time.Duration, err error) {
	if obj.Spec.Rollout == nil {
		return 0, nil
	}
	facts := rollout.Facts{Now: c.Clock.Now(), Spec: obj.Spec.Rollout, Approved: obj.Annotations[placementv1.ApproveStageAnnotation]}
	if facts.Stored, facts.Fallback, err = c.Revisions.Numbered(ctx, obj); err != nil {
		return 0, err
	}
	s, newest := f.State, placement.LoadedVersion{UID: obj.UID, Generation: obj.Generation}
	if s != nil && !s.Broken && s.Staged != nil && s.Loaded == newest {
		facts.InForce, facts.Candidate = &s.Staged.InForce, s.Staged.Candidate
		// State was read first, then whether the objects are assessed, and then the counts. So if the objects are decided, it is by the
		// versions in State, and the counts have them.
		facts.Busy = f.Resuming || !c.Remediator.Assessed(s.Versions()...) || f.Waiting.Resuming || f.Waiting.Rollouts > 0 ||
			!f.MatchedWatches.Settled()
		facts.Paused = whyPaused(f)
		if !facts.Settled(obj.Status.Rollout) {
			if facts.Counts, facts.Rest, err = c.stageCounts(ctx, s.Policy, s.Staged.Stages, f); err != nil {
				return 0, err
			}
		}
	}
	next, at := rollout.Next(obj.Status.Rollout, facts)
	if facts.Busy && !facts.Settled(next) {
		// No event reports that all objects are decided.
		again = settledDelay
	}
	f.Rollout, f.RolloutPending = next, facts.Candidate != "" && facts.Spec.Revision == 0 &&
		!rollout.PositionOf(next).Concerns(facts.Candidate)
	if !at.IsZero() {
		again = max(at.Sub(facts.Now), settle)
	}
	return again, nil
}

// whyPaused returns why the rollout can't go on: remediation is paused, or existing objects can't be read. It returns "" if the rollout can
// go on.
func whyPaused(f *Facts) string {
	switch {
	case f.Report.Pause.Everywhere() || f.Waiting.Paused():
		return "the rollout waits, because remediation of the policy is paused; see the Paused condition"
	case f.MatchedWatches.Err != nil && !f.MatchedWatches.Synced:
		return "the rollout waits, because existing objects can't be read; see the Compliant condition"
	default:
		return ""
	}
}

// stageCounts returns, for each stage, how many existing objects a policy matches there, and how many of these are moved, failed, denied,
// and pending. None are pending if Berth moves no objects of the policy. rest describes the namespaces and cluster-scoped objects that it
// matches and no stage has; "" for none.
func (c *Controller) stageCounts(ctx context.Context, p *placement.Policy, stages *rollout.Stages,
	f *Facts) (counts []rollout.Counts, rest string, err error) {
	all, err := (&watches.Namespaces{Cached: c.Client}).All(ctx)
	if err != nil {
		return nil, "", err
	}
	stageOf := map[string]int{}
	var without []string
	for namespace, labels := range all {
		stageOf[namespace] = stages.Of(namespace, labels)
		if stageOf[namespace] == stages.Len() && p.Matcher.SelectsByLabels(namespace, labels) &&
			!match.IsProtectedNamespace(namespace, c.OwnNamespace) {
			without = append(without, namespace)
		}
	}
	if len(without) > 0 {
		rest = slices.Min(without)
	}
	rest = rollout.DescribeRest(len(without), rest, p.Matcher.MayMatchOutsideNamespaces(c.Catalog.Served()))
	counts = c.Ledger.RolloutCounts(p.Name, stages.Len(), stageOf, f.Waiting)
	if !p.Automatic() && !p.NeedsApproval() {
		// Berth moves no objects, so the rollout does not wait for that.
		for i := range counts {
			counts[i].Pending = 0
		}
	}
	return counts, rest, nil
}
