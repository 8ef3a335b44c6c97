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
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/rollout"
)

// now is the time of all facts in the table tests, and then is now as a status has it.
var (
	now  = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	then = metav1.NewTime(now)
)

// twoStages returns a rollout with the stages canary and rest.
func twoStages(change ...func(*placementv1.PolicyRollout)) *placementv1.PolicyRollout {
	out := &placementv1.PolicyRollout{Stages: []placementv1.RolloutStage{{Name: "canary", Percent: 10}, {Name: "rest", Percent: 100}}}
	for _, f := range change {
		f(out)
	}
	return out
}

// versionDigest and digestOf return the digests of a version that has a name as its Rego.
func versionDigest(version string) string {
	return rollout.VersionDigest(placementv1.PlacementPolicySpec{Rego: version})
}

func digestOf(version string, r *placementv1.PolicyRollout) string {
	return rollout.Digest(placementv1.PlacementPolicySpec{Rego: version, Rollout: r})
}

// facts returns the facts of a rollout of version b to stages, while revision 1, version a, is in force. Revision 2 is b. All
// objects are moved.
func facts(r *placementv1.PolicyRollout, reached int) rollout.Facts {
	return rollout.Facts{
		Now: now, Spec: r, Candidate: digestOf("b", r), InForce: &rollout.InForce{Digest: digestOf("b", r), Reached: reached},
		Stored: []rollout.Revision{{Number: 2, Version: versionDigest("b")}, {Number: 1, Version: versionDigest("a")}},
		Counts: []rollout.Counts{{Matched: 4, Moved: 4}, {Matched: 6, Moved: 5, Pending: 1}},
	}
}

// at returns the status of that rollout when it has reached stages and the present one has just been reached.
func at(r *placementv1.PolicyRollout, reached int32) *placementv1.RolloutStatus {
	out := &placementv1.RolloutStatus{
		State: placementv1.RolloutProgressing, Stage: []string{"0/2", "canary 1/2", "rest 2/2"}[reached], Revision: 2, PreviousRevision: 1, Digest: digestOf("b", r),
		Reached: new(reached), Stages: []placementv1.RolloutStageStatus{{Name: "canary"}, {Name: "rest"}}, Revisions: []int64{2, 1},
	}
	for i := range reached {
		out.Stages[i].StartTime = new(then)
	}
	return out
}

func complete(version string, revision int64, r *placementv1.PolicyRollout) *placementv1.RolloutStatus {
	return &placementv1.RolloutStatus{State: placementv1.RolloutComplete, Stage: "Complete", Revision: revision, Digest: digestOf(version, r), Reached: new(int32(0)), Revisions: []int64{2, 1}}
}

func rolledBackTo(version string, revision int64) *placementv1.RolloutStatus {
	return &placementv1.RolloutStatus{State: placementv1.RolloutRolledBack, Stage: "Revision 1", Revision: revision, Digest: versionDigest(version), Reached: new(int32(0)), Revisions: []int64{2, 1}}
}

// in are numbers of objects by namespace.
type in = map[string]int

func TestNext(t *testing.T) {
	soaked := func(r *placementv1.PolicyRollout) { r.Stages[0].Soak = &metav1.Duration{Duration: time.Hour} }
	approved := func(r *placementv1.PolicyRollout) { r.Stages[1].Approval = true }
	pauseAfter := func(n int32) func(*placementv1.PolicyRollout) {
		return func(r *placementv1.PolicyRollout) { r.Stages[0].PauseAfterFailures = new(intstr.FromInt32(n)) }
	}
	pinned := func(revision int64) func(*placementv1.PolicyRollout) {
		return func(r *placementv1.PolicyRollout) { r.Revision = revision }
	}
	failures := func(n int) func(*rollout.Facts) {
		return func(f *rollout.Facts) {
			f.Counts[0] = rollout.Counts{Matched: 4, Namespaces: 1, Moved: 4 - n, Failed: in{"a": n}}
		}
	}
	// Most cases have the same message and counts of a stage, which are compared in cases of their own.
	type status = placementv1.RolloutStatus
	waits := func(state placementv1.RolloutState, message string) func(*status) {
		return func(s *status) { s.State, s.Message = state, message }
	}
	const lostRevision = "the version in the spec can't be rolled out, because revision 1, which has to decide in stages that are not reached, is not stored any more: set spec.rollout.revision to one of status.rollout.revisions, or remove spec.rollout to put the version in the spec in force everywhere at once"
	const deciding, allMoved = "objects of stage canary are being decided", 4
	counted := func(s *status) {
		s.Stages[0].Matched, s.Stages[1].Matched = 4, 6
		if *s.Reached > 0 {
			s.Stages[0].Moved = allMoved
		}
		if *s.Reached > 1 {
			s.Stages[1].Moved = 5
		}
	}
	moved := func(s *status) { s.Stages[0].MovedTime = new(then) }
	// first is the status in which the first stage is reached. Its objects are not decided yet.
	first := func(r *placementv1.PolicyRollout) *status {
		out := at(r, 1)
		out.Message = deciding
		out.Stages[0].Matched, out.Stages[1].Matched = 4, 6
		return out
	}
	second := func(s *status) {
		*s.Reached, s.Stage, s.Message, s.State, s.ApprovalID = 2, "rest 2/2", "objects of stage rest are being decided", placementv1.RolloutProgressing, ""
		s.Stages[1].StartTime = new(then)
	}
	for name, tc := range map[string]struct {
		spec *placementv1.PolicyRollout
		old  func(r *placementv1.PolicyRollout) *status
		// facts changes the facts of the stage that old has reached.
		facts func(*rollout.Facts)
		// want changes old. If it is nil, the status does not change. fresh is the status itself, if it is another one.
		want  []func(*status)
		fresh func(r *placementv1.PolicyRollout) *status
		again time.Time
	}{
		"no rollout":             {old: func(*placementv1.PolicyRollout) *status { return at(twoStages(), 1) }, fresh: func(*placementv1.PolicyRollout) *status { return nil }},
		"nothing is loaded":      {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }, facts: func(f *rollout.Facts) { f.InForce = nil }},
		"nothing, and no status": {spec: twoStages(), facts: func(f *rollout.Facts) { f.InForce = nil }},
		"begins without an earlier version": {spec: twoStages(), fresh: func(r *placementv1.PolicyRollout) *status {
			out := first(r)
			out.PreviousRevision = 0
			return out
		}},
		"begins after the version without a rollout": {spec: twoStages(), facts: func(f *rollout.Facts) { f.Fallback = f.Stored[1] }, fresh: first},
		"the version without a rollout is stored under another number": {spec: twoStages(), facts: func(f *rollout.Facts) {
			f.Fallback = rollout.Revision{Number: 7, Version: versionDigest("a")}
		}, fresh: first},
		"the version without a rollout is not stored yet": {spec: twoStages(), facts: func(f *rollout.Facts) {
			f.Fallback = rollout.Revision{Number: 1, Version: versionDigest("a")}
			f.Stored = f.Stored[:1]
		}},
		"the version without a rollout is the candidate": {spec: twoStages(), facts: func(f *rollout.Facts) { f.Fallback = f.Stored[0] }, fresh: func(r *placementv1.PolicyRollout) *status { return complete("b", 2, r) }},
		"begins after a complete rollout":                {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status { return complete("a", 1, r) }, fresh: first},
		"begins after a rollback":                        {spec: twoStages(), old: func(*placementv1.PolicyRollout) *status { return rolledBackTo("a", 1) }, fresh: first},
		"begins after a rollback to the same version": {spec: twoStages(), old: func(*placementv1.PolicyRollout) *status { return rolledBackTo("b", 2) }, fresh: func(r *placementv1.PolicyRollout) *status {
			return complete("b", 2, r)
		}},
		"the candidate is not stored yet": {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status { return complete("a", 1, r) }, facts: func(f *rollout.Facts) {
			f.Stored = f.Stored[1:]
		}, want: []func(*status){func(s *status) { s.Revisions = []int64{1} }}},
		"the candidate does not compile":              {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status { return complete("a", 1, r) }, facts: func(f *rollout.Facts) { f.Candidate = "" }},
		"the candidate does not compile in the midst": {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }, facts: func(f *rollout.Facts) { f.Candidate = "" }},
		"no stages": {spec: &placementv1.PolicyRollout{}, old: func(r *placementv1.PolicyRollout) *status { return complete("a", 1, r) }, fresh: func(r *placementv1.PolicyRollout) *status {
			return complete("b", 2, r)
		}},
		"stages are removed in the midst": {spec: &placementv1.PolicyRollout{}, old: func(*placementv1.PolicyRollout) *status { return at(twoStages(), 1) }, fresh: func(r *placementv1.PolicyRollout) *status {
			return complete("b", 2, r)
		}},
		"superseded in the midst": {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status {
			out := at(r, 2)
			out.Revision, out.Digest = 3, digestOf("c", r)
			return out
		}, facts: func(f *rollout.Facts) { f.InForce.Digest = digestOf("c", f.Spec) }, fresh: first},
		"the spec goes back in the midst": {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status {
			out := at(r, 1)
			out.Revision, out.Digest, out.PreviousRevision = 3, digestOf("c", r), 2
			return out
		}, fresh: func(r *placementv1.PolicyRollout) *status { return complete("b", 2, r) }},
		"stages change in the midst":        {spec: twoStages(func(r *placementv1.PolicyRollout) { r.Stages[0].Percent = 20 }), old: func(*placementv1.PolicyRollout) *status { return at(twoStages(), 2) }, fresh: first},
		"stages change when it is complete": {spec: twoStages(func(r *placementv1.PolicyRollout) { r.Stages[0].Percent = 20 }), old: func(*placementv1.PolicyRollout) *status { return complete("b", 2, twoStages()) }},
		"the soak changes in the midst": {spec: twoStages(soaked), old: func(*placementv1.PolicyRollout) *status { return at(twoStages(), 1) }, want: []func(*status){
			counted, moved, waits(placementv1.RolloutSoaking, "stage canary soaks until 2026-05-04T04:02:01Z; after it, stage rest follows without an approval"),
		}, again: now.Add(time.Hour)},

		"superseded, and the version before is lost": {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status {
			out := at(r, 1)
			out.Revision, out.Digest = 3, digestOf("c", r)
			return out
		}, facts: func(f *rollout.Facts) { f.Stored = f.Stored[:1] }, want: []func(*status){func(s *status) { s.Revisions = []int64{2} }, waits(placementv1.RolloutPaused, lostRevision)}},
		"the version in force is lost": {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status { return complete("a", 1, r) }, facts: func(f *rollout.Facts) {
			f.Stored = f.Stored[:1]
		}, want: []func(*status){func(s *status) { s.Revisions = []int64{2} }, waits(placementv1.RolloutComplete, lostRevision)}},
		"the version in force is stored again, under another number": {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status { return complete("a", 1, r) }, facts: func(f *rollout.Facts) {
			f.Stored[1].Number = 4
		}, fresh: func(r *placementv1.PolicyRollout) *status {
			out := first(r)
			out.PreviousRevision, out.Revisions = 4, []int64{2, 4}
			return out
		}},
		"the version in force was lost, and the spec goes back to it": {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status {
			out := complete("b", 2, r)
			out.Message = lostRevision
			return out
		}, fresh: func(r *placementv1.PolicyRollout) *status { return complete("b", 2, r) }},

		"revision": {spec: twoStages(pinned(1)), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }, facts: func(f *rollout.Facts) {
			f.InForce = &rollout.InForce{Digest: versionDigest("a"), Complete: true, Revision: 1}
		}, fresh: func(*placementv1.PolicyRollout) *status { return rolledBackTo("a", 1) }},
		"revision is not in force yet":   {spec: twoStages(pinned(1)), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }},
		"revision, and no status":        {spec: twoStages(pinned(1))},
		"another revision is in force":   {spec: twoStages(pinned(2)), old: func(*placementv1.PolicyRollout) *status { return rolledBackTo("a", 1) }, facts: func(f *rollout.Facts) { f.InForce.Revision = 1 }},
		"revision is not stored":         {spec: twoStages(pinned(7)), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }, facts: func(f *rollout.Facts) { f.InForce.Revision = 7 }},
		"revision while it waits":        {spec: twoStages(pinned(1), approved), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }},
		"revision removed, no candidate": {spec: twoStages(), old: func(*placementv1.PolicyRollout) *status { return rolledBackTo("a", 1) }, facts: func(f *rollout.Facts) { f.Candidate = "" }},

		"the stage is not in force":   {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }, facts: func(f *rollout.Facts) { f.InForce.Reached = 0 }, want: []func(*status){counted, waits(placementv1.RolloutProgressing, deciding)}},
		"another version is in force": {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }, facts: func(f *rollout.Facts) { f.InForce.Digest = digestOf("a", f.Spec) }, want: []func(*status){counted, waits(placementv1.RolloutProgressing, deciding)}},
		"busy":                        {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }, facts: func(f *rollout.Facts) { f.Busy = true }, want: []func(*status){counted, waits(placementv1.RolloutProgressing, deciding)}},
		"paused":                      {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }, facts: func(f *rollout.Facts) { f.Paused = "no" }, want: []func(*status){counted, waits(placementv1.RolloutPaused, "no")}},
		"pending": {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }, facts: func(f *rollout.Facts) { f.Counts[0] = rollout.Counts{Matched: 4, Moved: 1, Pending: 3} }, want: []func(*status){
			counted, func(s *status) { s.Stages[0].Moved = 1 }, waits(placementv1.RolloutProgressing, "3 objects of the stages up to canary have to be moved"),
		}},
		"moved": {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }, want: []func(*status){counted, moved, second}},
		"objects of an earlier stage are pending": {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status { return at(r, 2) }, facts: func(f *rollout.Facts) {
			f.Counts[0], f.Counts[1] = rollout.Counts{Matched: 4, Moved: 3, Pending: 1}, rollout.Counts{Matched: 6, Moved: 5}
		}, want: []func(*status){counted, func(s *status) { s.Stages[0].Moved = 3 }, waits(placementv1.RolloutProgressing, "1 objects of the stages up to rest have to be moved")}},
		"all moved": {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status { return at(r, 2) }, facts: func(f *rollout.Facts) { f.Counts[1] = rollout.Counts{Matched: 6, Moved: 5} }, want: []func(*status){counted, func(s *status) {
			s.State, s.Stage, s.PreviousRevision = placementv1.RolloutComplete, "Complete", 0
			s.Stages[1].MovedTime = new(then)
		}}},

		"one failure": {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }, facts: failures(1), want: []func(*status){counted, func(s *status) {
			s.Stages[0].Moved, s.Stages[0].Failed = 3, 1
		}, waits(placementv1.RolloutPaused, "1 objects of stage canary failed, 0 more are denied than before, and its pauseAfterFailures is 1: correct the policy or the objects, or roll back with spec.rollout.revision")}},
		"fewer failures than 3": {spec: twoStages(pauseAfter(3)), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }, facts: failures(2), want: []func(*status){counted, moved, second, func(s *status) {
			s.Stages[0].Moved, s.Stages[0].Failed = 2, 2
		}}},
		"3 failures": {spec: twoStages(pauseAfter(3)), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }, facts: failures(3), want: []func(*status){counted, func(s *status) {
			s.Stages[0].Moved, s.Stages[0].Failed = 1, 3
		}, waits(placementv1.RolloutPaused, "3 objects of stage canary failed, 0 more are denied than before, and its pauseAfterFailures is 3: correct the policy or the objects, or roll back with spec.rollout.revision")}},
		"failures do not pause": {spec: twoStages(func(r *placementv1.PolicyRollout) {
			r.Stages[0].PauseAfterFailures = new(intstr.FromString(placementv1.Never))
		}), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }, facts: failures(4), want: []func(*status){counted, moved, second, func(s *status) {
			s.Stages[0].Moved, s.Stages[0].Failed = 0, 4
		}}},
		"failures of an earlier stage": {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status { return at(r, 2) }, facts: func(f *rollout.Facts) {
			failures(1)(f)
			f.Counts[1] = rollout.Counts{Matched: 6, Moved: 5}
		}, want: []func(*status){counted, func(s *status) { s.Stages[0].Moved, s.Stages[0].Failed = 3, 1 },
			waits(placementv1.RolloutPaused, "1 objects of stage canary failed, 0 more are denied than before, and its pauseAfterFailures is 1: correct the policy or the objects, or roll back with spec.rollout.revision")}},
		"failures of a stage that is not reached": {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }, facts: func(f *rollout.Facts) { f.Counts[1].Failed = in{"a": 9} }, want: []func(*status){counted, moved, second}},

		"soaks": {spec: twoStages(soaked), old: func(r *placementv1.PolicyRollout) *status {
			out := at(r, 1)
			out.Stages[0].MovedTime = new(metav1.NewTime(now.Add(-time.Minute)))
			return out
		}, want: []func(*status){counted, waits(placementv1.RolloutSoaking, "stage canary soaks until 2026-05-04T04:01:01Z; after it, stage rest follows without an approval")}, again: now.Add(59 * time.Minute)},
		"has soaked": {spec: twoStages(soaked), old: func(r *placementv1.PolicyRollout) *status {
			out := at(r, 1)
			out.Stages[0].MovedTime = new(metav1.NewTime(now.Add(-time.Hour)))
			return out
		}, want: []func(*status){counted, second}},
		"soaks from the next second": {spec: twoStages(soaked), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }, facts: func(f *rollout.Facts) { f.Now = now.Add(-time.Millisecond) }, want: []func(*status){
			counted, moved, waits(placementv1.RolloutSoaking, "stage canary soaks until 2026-05-04T04:02:01Z; after it, stage rest follows without an approval"),
		}, again: now.Add(time.Hour)},

		"waits for approval": {spec: twoStages(approved), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }, want: []func(*status){counted, moved, func(s *status) {
			s.ApprovalID = "2-rest-moqm5mp4"
		}, waits(placementv1.RolloutWaitingForApproval, "stage rest waits for its approval: set the policy's annotation placement.berth.dev/approve-stage to 2-rest-moqm5mp4")}},
		"approved before it waits": {spec: twoStages(approved), old: func(r *placementv1.PolicyRollout) *status { return at(r, 1) }, facts: func(f *rollout.Facts) { f.Approved = "2-rest-moqm5mp4" }, want: []func(*status){counted, moved, func(s *status) {
			s.ApprovalID = "2-rest-moqm5mp4"
		}, waits(placementv1.RolloutWaitingForApproval, "stage rest waits for its approval: set the policy's annotation placement.berth.dev/approve-stage to 2-rest-moqm5mp4")}},
		"approved with the ID of another wait": {spec: twoStages(approved), old: func(r *placementv1.PolicyRollout) *status {
			out := at(r, 1)
			out.ApprovalID = "2-rest-x"
			return out
		}, facts: func(f *rollout.Facts) { f.Approved = "2-rest-y" }, want: []func(*status){counted, moved,
			waits(placementv1.RolloutWaitingForApproval, "stage rest waits for its approval: set the policy's annotation placement.berth.dev/approve-stage to 2-rest-x")}},
		"a value that is the ID of no wait": {spec: twoStages(approved), old: func(r *placementv1.PolicyRollout) *status {
			out := at(r, 1)
			out.ApprovalID = "2-rest-x"
			return out
		}, facts: func(f *rollout.Facts) { f.Approved = "rest" }, want: []func(*status){counted, moved,
			waits(placementv1.RolloutWaitingForApproval, "stage rest waits for its approval: set the policy's annotation placement.berth.dev/approve-stage to 2-rest-x (the present value \"rest\" of the annotation approves nothing)")}},
		"a value that is the ID of no wait, of the rest": {spec: twoStages(approved), old: func(r *placementv1.PolicyRollout) *status { return at(r, 2) }, facts: func(f *rollout.Facts) {
			f.Counts[1], f.Rest, f.Approved = rollout.Counts{Matched: 6, Moved: 5}, "cluster-scoped objects", "true"
		}, want: []func(*status){counted, func(s *status) {
			s.ApprovalID, s.Stages[1].MovedTime = "2-_rest-moqm5mp4", new(then)
		}, waits(placementv1.RolloutWaitingForApproval, "cluster-scoped objects wait for an approval of their own: set the policy's annotation placement.berth.dev/approve-stage to 2-_rest-moqm5mp4 (the present value \"true\" of the annotation approves nothing)")}},
		"waits for the approval of the rest": {spec: twoStages(approved), old: func(r *placementv1.PolicyRollout) *status { return at(r, 2) }, facts: func(f *rollout.Facts) {
			f.Counts[1], f.Rest = rollout.Counts{Matched: 6, Moved: 5}, rollout.DescribeRest(2, "shop", true)
		}, want: []func(*status){counted, func(s *status) {
			s.ApprovalID, s.Stages[1].MovedTime = "2-_rest-moqm5mp4", new(then)
		}, waits(placementv1.RolloutWaitingForApproval, "namespaces of no stage (2, such as shop) and cluster-scoped objects wait for an approval of their own: set the policy's annotation placement.berth.dev/approve-stage to 2-_rest-moqm5mp4")}},
		"the approval of the last stage is not that of the rest": {spec: twoStages(approved), old: func(r *placementv1.PolicyRollout) *status { return at(r, 2) }, facts: func(f *rollout.Facts) {
			f.Counts[1], f.Rest, f.Approved = rollout.Counts{Matched: 6, Moved: 5}, "cluster-scoped objects", "2-rest-x"
		}, want: []func(*status){counted, func(s *status) {
			s.ApprovalID, s.Stages[1].MovedTime = "2-_rest-moqm5mp4", new(then)
		}, waits(placementv1.RolloutWaitingForApproval, "cluster-scoped objects wait for an approval of their own: set the policy's annotation placement.berth.dev/approve-stage to 2-_rest-moqm5mp4")}},
		"the rest is approved": {spec: twoStages(approved), old: func(r *placementv1.PolicyRollout) *status {
			out := at(r, 2)
			out.ApprovalID = "2-_rest-x"
			return out
		}, facts: func(f *rollout.Facts) {
			f.Counts[1], f.Rest, f.Approved = rollout.Counts{Matched: 6, Moved: 5}, "cluster-scoped objects", "2-_rest-x"
		}, want: []func(*status){counted, func(s *status) {
			s.State, s.Stage, s.PreviousRevision, s.ApprovalID = placementv1.RolloutComplete, "Complete", 0, ""
			s.Stages[1].MovedTime = new(then)
		}}},
		"approved": {spec: twoStages(approved), old: func(r *placementv1.PolicyRollout) *status {
			out := at(r, 1)
			out.ApprovalID = "2-rest-x"
			return out
		}, facts: func(f *rollout.Facts) { f.Approved = "2-rest-x" }, want: []func(*status){counted, moved, second}},
		"approved, and an object fails": {spec: twoStages(approved), old: func(r *placementv1.PolicyRollout) *status {
			out := at(r, 1)
			out.ApprovalID = "2-rest-x"
			return out
		}, facts: func(f *rollout.Facts) {
			failures(1)(f)
			f.Approved = "2-rest-x"
		}, want: []func(*status){counted, func(s *status) { s.Stages[0].Moved, s.Stages[0].Failed = 3, 1 },
			waits(placementv1.RolloutPaused, "1 objects of stage canary failed, 0 more are denied than before, and its pauseAfterFailures is 1: correct the policy or the objects, or roll back with spec.rollout.revision")}},
		"approval is no longer needed": {spec: twoStages(), old: func(r *placementv1.PolicyRollout) *status {
			out := at(r, 1)
			out.ApprovalID = "2-rest-x"
			return out
		}, want: []func(*status){counted, moved, second}},
	} {
		t.Run(name, func(t *testing.T) {
			var f rollout.Facts
			var old, want *status
			if tc.spec != nil {
				f = facts(tc.spec, 0)
			}
			if tc.old != nil {
				old, want = tc.old(tc.spec), tc.old(tc.spec)
				if f.InForce != nil {
					f.InForce.Reached = int(*old.Reached)
				}
			}
			if tc.facts != nil {
				tc.facts(&f)
			}
			for _, change := range tc.want {
				change(want)
			}
			if tc.fresh != nil {
				want = tc.fresh(tc.spec)
			}
			before := old.DeepCopy()
			got, again := rollout.Next(old, f)
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(placementv1.RolloutStageStatus{}, "DeniedBefore")); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if !again.Equal(tc.again) {
				t.Errorf("has to be called again at %s, want %s", again, tc.again)
			}
			if diff := cmp.Diff(before, old); diff != "" {
				t.Errorf("the status before changes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTenants checks that failures and denials in one or two namespaces of a stage do not stop a rollout, unless the stage has no
// other namespaces.
func TestTenants(t *testing.T) {
	for name, tc := range map[string]struct {
		namespaces, most int
		never            bool
		failed, denied   in
		// before are those that the version before denied.
		before in
		paused bool
	}{
		"no failures":                                    {namespaces: 4, most: 1},
		"one of four namespaces":                         {namespaces: 4, most: 1, failed: in{"a": 9}},
		"two of four namespaces":                         {namespaces: 4, most: 1, failed: in{"a": 9, "b": 9}},
		"three of four namespaces":                       {namespaces: 4, most: 1, failed: in{"a": 1, "b": 1, "c": 1}, paused: true},
		"three of four, one of which has most":           {namespaces: 4, most: 10, failed: in{"a": 9, "b": 1, "c": 1}},
		"three of four, each with a third":               {namespaces: 4, most: 10, failed: in{"a": 4, "b": 4, "c": 4}, paused: true},
		"one of one namespace":                           {namespaces: 1, most: 1, failed: in{"a": 1}, paused: true},
		"one of two namespaces":                          {namespaces: 2, most: 1, failed: in{"a": 9}},
		"two of two namespaces":                          {namespaces: 2, most: 1, failed: in{"a": 1, "b": 1}, paused: true},
		"fewer than the bound":                           {namespaces: 1, most: 3, failed: in{"a": 2}},
		"no bound":                                       {namespaces: 1, never: true, failed: in{"a": 9}},
		"one of four, none tolerated":                    {namespaces: 4, failed: in{"a": 1}, paused: true},
		"denials in one of four, none tolerated":         {namespaces: 4, denied: in{"a": 2}, before: in{"a": 1}, paused: true},
		"denials as before, none tolerated":              {namespaces: 4, denied: in{"a": 1}, before: in{"a": 1}},
		"none failed, none tolerated":                    {namespaces: 4},
		"denials in one of four":                         {namespaces: 4, most: 1, denied: in{"a": 9}},
		"denials in three of four":                       {namespaces: 4, most: 1, denied: in{"a": 1, "b": 1, "c": 1}, paused: true},
		"denials and failures in three of four":          {namespaces: 4, most: 1, denied: in{"a": 1, "b": 1}, failed: in{"c": 1}, paused: true},
		"denials, which two other namespaces had before": {namespaces: 4, most: 1, denied: in{"a": 9, "b": 2, "c": 2}, before: in{"b": 2, "c": 2}},
		"denials in three that had some before":          {namespaces: 4, most: 1, denied: in{"a": 2, "b": 2, "c": 2}, before: in{"a": 1, "b": 1, "c": 1}, paused: true},
		"denials in another namespace than before":       {namespaces: 1, most: 1, denied: in{"a": 1}, before: in{"b": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			most := intstr.FromInt(tc.most)
			if tc.never {
				most = intstr.FromString(placementv1.Never)
			}
			r := twoStages(func(r *placementv1.PolicyRollout) { r.Stages[0].PauseAfterFailures = &most })
			f := facts(r, 0)
			f.InForce = &rollout.InForce{Digest: digestOf("a", r), Complete: true}
			f.Counts[0] = rollout.Counts{Matched: 40, Namespaces: tc.namespaces, Denied: tc.before}
			old, _ := rollout.Next(complete("a", 1, r), f)
			f.InForce = &rollout.InForce{Digest: digestOf("b", r), Reached: 1}
			f.Counts[0].Failed, f.Counts[0].Denied = tc.failed, tc.denied
			next, _ := rollout.Next(old, f)
			if paused := next.State == placementv1.RolloutPaused; *old.Reached != 1 || paused != tc.paused || paused == (*next.Reached == 2) {
				t.Errorf("state %s, stages %d and %d: %s", next.State, *old.Reached, *next.Reached, next.Message)
			}
		})
	}
}

// TestDeniedBeforeIsBounded checks that a status has the namespaces with most denied objects.
func TestDeniedBeforeIsBounded(t *testing.T) {
	r := twoStages()
	f := facts(r, 0)
	f.InForce = &rollout.InForce{Digest: digestOf("a", r), Complete: true}
	f.Counts[0].Denied = in{}
	for i := range 100 {
		f.Counts[0].Denied[fmt.Sprintf("n-%02d", i)] = 1 + i/50
	}
	next, _ := rollout.Next(complete("a", 1, r), f)
	got := next.Stages[0].DeniedBefore
	first, rest := got[0], got[len(got)-1]
	if len(got) != 33 || first.Namespace != "n-50" || *first.Objects != 2 || rest.Namespace != "*" || *rest.Objects != 150-32*2 {
		t.Errorf("denied before: %v", got)
	}
}

// TestDenied checks that objects that a stage newly denies stop the rollout, and that a corrected version does not inherit those of
// the version that it supersedes.
func TestDenied(t *testing.T) {
	r := twoStages()
	f := facts(r, 0)
	f.InForce = &rollout.InForce{Digest: digestOf("a", r), Complete: true}
	f.Counts[0] = rollout.Counts{Matched: 4, Namespaces: 1, Moved: 3, Denied: in{"a": 1}}
	step := func(old *placementv1.RolloutStatus, state placementv1.RolloutState, reached int32) *placementv1.RolloutStatus {
		t.Helper()
		next, _ := rollout.Next(old, f)
		if next.State != state || *next.Reached != reached {
			t.Fatalf("state %s, %d stages are reached, want %s and %d: %s", next.State, *next.Reached, state, reached, next.Message)
		}
		return next
	}
	f.Busy = true
	s := step(complete("a", 1, r), placementv1.RolloutProgressing, 0)
	f.Busy = false
	s = step(s, placementv1.RolloutProgressing, 1)
	f.InForce = &rollout.InForce{Digest: digestOf("b", r), Reached: 1}
	f.Counts[0].Denied = in{"a": 2}
	s = step(s, placementv1.RolloutPaused, 1)

	f.Candidate, f.Stored = digestOf("c", r), append([]rollout.Revision{{Number: 3, Version: versionDigest("c")}}, f.Stored...)
	s = step(s, placementv1.RolloutProgressing, 1)
	f.InForce.Digest = digestOf("c", r)
	s = step(s, placementv1.RolloutPaused, 1)
	f.Counts[0].Denied = in{"a": 1}
	step(s, placementv1.RolloutProgressing, 2)
}

// TestForeignStatus checks that a rollout begins again if another client wrote a status whose stages are not those of the spec.
func TestForeignStatus(t *testing.T) {
	for name, change := range map[string]func(*placementv1.RolloutStatus){
		"no stages":       func(s *placementv1.RolloutStatus) { s.Stages, s.Reached = nil, new(int32(1)) },
		"fewer stages":    func(s *placementv1.RolloutStatus) { s.Stages = s.Stages[:1] },
		"more stages":     func(s *placementv1.RolloutStatus) { s.Stages = append(s.Stages, s.Stages...) },
		"too many":        func(s *placementv1.RolloutStatus) { s.Stages, s.Reached = s.Stages[:1], new(int32(7)) },
		"another rollout": func(s *placementv1.RolloutStatus) { s.Stages, s.Digest = nil, digestOf("c", twoStages()) },
		"none reached":    func(s *placementv1.RolloutStatus) { s.Stages, s.Reached = nil, nil },
	} {
		r := twoStages()
		old := at(r, 1)
		change(old)
		for _, candidate := range []string{digestOf("b", r), ""} {
			f := facts(r, 1)
			f.Candidate = candidate
			next, _ := rollout.Next(old, f)
			if begun := len(next.Stages) == 2 && *next.Reached <= 1; begun != (candidate != "") || int(*next.Reached) > len(next.Stages) {
				t.Errorf("%s: got %+v", name, next)
			}
		}
	}
	old := at(twoStages(), 2)
	*old.Reached = -1
	if next, _ := rollout.Next(old, facts(twoStages(), 2)); *next.Reached != 1 {
		t.Errorf("%d stages are reached", *next.Reached)
	}
}

// TestListedRevisions checks that a status lists no more revisions than its schema allows, and those that it mentions in any case.
func TestListedRevisions(t *testing.T) {
	r := twoStages()
	f := facts(r, 1)
	f.Stored, f.Busy = nil, true
	for n := int64(30); n > 0; n-- {
		f.Stored = append(f.Stored, rollout.Revision{Number: n, Version: versionDigest(strings.Repeat("v", int(n)))})
	}
	next, _ := rollout.Next(at(r, 1), f)
	if want := []int64{30, 29, 28, 27, 26, 25, 24, 23, 2, 1}; !slices.Equal(next.Revisions, want) {
		t.Errorf("got %v, want %v", next.Revisions, want)
	}
}
