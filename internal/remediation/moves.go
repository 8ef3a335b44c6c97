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

package remediation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/containment"
	"github.com/berth-dev/berth/internal/feasibility"
	"github.com/berth-dev/berth/internal/moveset"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/printable"
	"github.com/berth-dev/berth/internal/projection"
)

// Rollout is the progress of an object's rollout, and whether the object is ready.
type Rollout struct {
	UID        types.UID // The UID of the object.
	Generation int64     // The generation of the object when it was observed.
	Ready      bool      // Whether the rollout is complete and the object is ready.
	Failure    string    // Why the rollout failed, by the object's own status; "" if it did not, and for reports of multi-cluster systems.
	// Version is the resource version that the object had when Berth read what multi-cluster systems report of it. Ready then reports whether
	// the object runs in its clusters. It is empty if Ready comes from the object's own status.
	Version string
	// Serves reports whether an object that is not ready still runs in clusters that it leaves. Only reports of multi-cluster systems set it.
	Serves  bool
	Missing string // What is missing until the object runs in its clusters, as text. Only reports of multi-cluster systems set it.
}

// rolls reports whether the pods of an object are replaced automatically when its pod template changes. It is false for a paused
// Deployment, and for objects with the update strategy OnDelete. It is true for all others, of whatever kind.
func rolls(obj *unstructured.Unstructured) bool {
	if (obj.GroupVersionKind().GroupKind() == schema.GroupKind{Group: "apps", Kind: "Deployment"}) {
		paused, _, _ := unstructured.NestedBool(obj.Object, "spec", "paused")
		return !paused
	}
	// With this strategy, the pods of StatefulSets and DaemonSets stay as they are until they are deleted.
	strategy, _, _ := unstructured.NestedString(obj.Object, "spec", "updateStrategy", "type")
	return strategy != "OnDelete"
}

// RolloutOf returns the progress by kstatus of an object that has the fields of RolloutFields. With a malformed status, it is not ready. A
// Pod that has finished or has scheduling gates is ready, and so is a workload whose pods are not replaced automatically.
func RolloutOf(obj *unstructured.Unstructured) Rollout {
	out := Rollout{UID: obj.GetUID(), Generation: obj.GetGeneration()}
	pod := obj.GroupVersionKind().GroupKind() == feasibility.PodKind
	// A Pod that has finished, or that is gated, is not missed. For OnDelete, kstatus has this rule for StatefulSets alone.
	if obj.GetDeletionTimestamp() == nil && (pod && (feasibility.Finished(obj) || feasibility.Gated(obj)) || !pod && !rolls(obj)) {
		out.Ready = true
	} else if result, err := status.Compute(obj); err == nil {
		out.Ready = result.Status == status.CurrentStatus
		// A Pod has no rollout, so none can fail.
		if result.Status == status.FailedStatus && !pod {
			out.Failure = result.Message
		}
	}
	return out
}

// RolloutFields returns the fields that RolloutOf reads, for all types. The field set is sealed.
func RolloutFields() *projection.FieldSet {
	return projection.Fields("metadata.generation", "metadata.deletionTimestamp", "spec.replicas", "spec.paused",
		"spec.progressDeadlineSeconds", "spec.updateStrategy.**", "spec.schedulingGates.**", "status.**")
}

// notRolled are the types whose running pods stay as they are when the pod template changes.
var notRolled = []schema.GroupResource{
	podResource, {Group: "apps", Resource: "replicasets"}, {Resource: "podtemplates"}, {Resource: "replicationcontrollers"},
	{Group: "batch", Resource: "jobs"}, {Group: "batch", Resource: "cronjobs"},
}

// Observes reports whether remediation of a policy must know which objects of a type are ready: the policy patches existing objects and may
// decide on scheduling fields, and the type is not in notRolled, or it is Pod and the policy lets Berth evict. It is true for types without
// pods, too.
func Observes(p *placement.Policy, resource schema.GroupResource) bool {
	return p.WatchesRollouts() && (!slices.Contains(notRolled, resource) || EvictsFrom(p, resource))
}

// movement is the state of an object that was granted a patch, is being patched, or is being moved.
type movement struct {
	// patching has the claim of each policy for which the object is being patched, or was granted a patch, by the bounds of that policy. It
	// never has the bounds of all policies together, and is empty at other times.
	patching map[*bounds]claim
	began    time.Time // When Ask allowed the last patch.
	granted  *waiter   // The object's place in line, from its grant by Schedule until Ask uses it, or Yield drops it; nil otherwise.
	// following has the bounds of the policies for which the object counts as being moved, from the end of the patch until the object is
	// ready. The value reports whether the object counts as unavailable meanwhile.
	following map[*bounds]bool
	patched   Rollout // The UID, the generation, and the resource version of the object after the patch.
	reported  bool    // Set if only the report of a multi-cluster system tells whether the object is ready.
	// moved is when the object was patched, if only the report of a multi-cluster system tells whether it is ready (reported), from the end
	// of the patch until it is ready. It is zero otherwise, and if an earlier leader made the patch at a time that is not known.
	moved time.Time
	// deadline is when an object that is not ready fails its move, or, if adopted is set, no longer counts as being moved; zero for never.
	deadline time.Time
	// adopted is set while the object counts as being moved only because an earlier leader may have been moving it. late is set once the
	// move has failed because the object was not ready by the deadline.
	adopted, late bool
	seen          Rollout // The newest known progress, from before or after the patch; zero if none is known.
	// unobserved is set if the rollout of the object is no longer observed. The object then does not count as being moved after the patch.
	unobserved bool
	evicted    bool // Set if the object is a Pod that was evicted. It counts as being moved until there is no Pod with its UID.
}

// movesFor reports whether the object is being patched or moved for the policy of the bounds.
func (m *movement) movesFor(b *bounds) bool {
	_, patching := m.patching[b]
	_, follows := m.following[b]
	return patching || follows
}

// claims returns the claims of the policies for which the object is being patched or was granted a patch, sorted by the name of the policy.
func (m *movement) claims() []claim { return slices.SortedFunc(maps.Values(m.patching), byPolicy) }

// rolls reports whether the object counts as unavailable because of a patch, from the grant of the patch until the object is ready: for a
// policy, the patch replaces its pods, evicts it, or has it leave clusters before it runs in others.
func (m *movement) rolls() bool {
	for _, c := range m.patching {
		if c.rolls {
			return true
		}
	}
	return slices.Contains(slices.Collect(maps.Values(m.following)), true)
}

// precedes reports whether a progress does not say whether the patched object is ready: it was observed before the patch, or is not a
// report where one is needed.
func (m *movement) precedes(r Rollout) bool {
	if r.Version == "" || !m.reported {
		return m.reported || r.Generation < m.patched.Generation
	}
	order, err := resourceversion.CompareResourceVersion(r.Version, m.patched.Version)
	return err != nil || order < 0
}

// claim says that one policy requires a patch of an object, whether the object counts as being moved after the patch, and whether it counts
// as unavailable meanwhile. It has the bounds of the policy.
type claim struct {
	*bounds
	// follows reports whether the object counts as being moved after the patch until it is ready, or until the Pod is gone: the patch
	// replaces pods, is an eviction, or changes clusters in which a system reports the object. rolls reports whether the object counts
	// as unavailable meanwhile.
	follows, rolls bool
}

// claimsOf returns the claims of the policies whose verdicts on an object are due, sorted by the name of the policy. For a policy whose
// version in force is not known yet, it makes the version that decided the verdict the one in force.
func (s *Scheduler) claimsOf(key Key, due Due, carrier Carrier) []claim {
	out := make([]claim, len(due))
	for i, v := range due {
		if b := s.boundsOf(v.Policy.Name, s.began); b.version == nil {
			s.apply(v.Policy)
		}
		rolls := (carrier.Reports || Observes(v.Policy, key.Resource.GroupResource())) &&
			slices.ContainsFunc(v.Changes, func(c placement.Change) bool { return moveset.Possible(c) && c.ChangesPods() })
		moves := carrier.Reports && slices.ContainsFunc(v.Changes, func(c placement.Change) bool {
			return moveset.Possible(c) && c.MovesClusters()
		})
		// An object without clusters runs nowhere anyway.
		leaves := moves && !carrier.Surges && slices.ContainsFunc(v.Changes, placement.Change.LeavesClusters)
		out[i] = claim{s.policies[v.Policy.Name], rolls || moves, rolls || leaves}
	}
	slices.SortFunc(out, byPolicy)
	return out
}

// byPolicy orders claims by the name of the policy.
func byPolicy(a, b claim) int { return strings.Compare(a.name, b.name) }

// Carrier is what the scheduler must know of the multi-cluster systems that carry an object to clusters: whether they report where it runs,
// and whether it stays in its old clusters meanwhile. It does not name them. The zero value stands for none.
type Carrier struct {
	// Reports is set if a system reports where the object runs, Surges if the object stays in its old clusters until it runs in the new ones.
	Reports, Surges bool
}

// movementOf returns the movement of an object, and creates it if there is none.
func (s *Scheduler) movementOf(key Key) *movement {
	if s.moving[key] == nil {
		s.moving[key] = &movement{patching: map[*bounds]claim{}, following: map[*bounds]bool{}, seen: s.unready[key]}
	}
	return s.moving[key]
}

// follow makes an object count as being moved after its patch, for the policies whose claim says that. If a multi-cluster system reports
// where the object runs, follow also sets the deadline, by the shortest moveTimeout of these policies.
func (s *Scheduler) follow(now time.Time, m *movement) {
	var timeout time.Duration
	for b, c := range m.patching {
		if !c.follows || m.unobserved || b.version == nil || !m.reported && !b.version.WatchesRollouts() {
			continue
		}
		m.following[b] = c.rolls
		if most := ptr.Deref(b.version.Budget.MoveTimeout, metav1.Duration{Duration: placementv1.DefaultMoveTimeout}).Duration; timeout == 0 ||
			most < timeout {
			timeout = most
		}
	}
	if m.reported && timeout > 0 {
		m.moved, m.late = now.Round(0), false
		s.expect(m, m.moved.Add(timeout))
		s.changes.Notify()
	}
}

// expect sets the deadline of a movement, zero for none, and lowers the time until which Schedule must be called to it.
func (s *Scheduler) expect(m *movement, deadline time.Time) {
	m.deadline, s.deadline = deadline, earliest(s.deadline, deadline)
}

// Observe records the progress of an object's rollout. If it is complete or has failed, the object's move ends.
func (s *Scheduler) Observe(now time.Time, key Key, r Rollout) {
	defer s.lock()()
	s.observe(now, key, r)
}

// observe records the progress of an object's rollout, as Observe does. Callers hold mu.
func (s *Scheduler) observe(now time.Time, key Key, r Rollout) {
	m := s.moving[key]
	if m != nil {
		m.seen, m.unobserved = r, false
	}
	if r.Ready {
		for _, b := range s.policies {
			if b.failed.objects[unversioned(key)].Rollout {
				s.clearFailures(key, b)
			}
		}
		if _, known := s.unready[key]; !known && m == nil {
			return
		}
		delete(s.unready, key)
	} else {
		s.unready[key] = r
	}
	s.conclude(now, key, r)
	s.update(key)
}

// conclude ends the move of an object if r says that its rollout is over. The caller must call update afterwards.
func (s *Scheduler) conclude(now time.Time, key Key, r Rollout) {
	m := s.moving[key]
	switch {
	case m == nil || len(m.following) == 0 || r.UID == m.patched.UID && m.precedes(r):
		// Nothing is followed, or the object was observed before the patch.
	case m.evicted && (r.UID == m.patched.UID || r.UID == ""):
		// The evicted Pod is not gone, as far as is known.
	case m.evicted || r.Ready || r.Failure != "":
		for b := range m.following {
			if !m.evicted && !r.Ready {
				s.fail(now, b, Failure{key, "its rollout failed: " + r.Failure, true})
			}
		}
		s.endRollout(m)
	}
}

// endRollout ends the move of an object for all policies, but not a patch that is still running.
func (s *Scheduler) endRollout(m *movement) {
	for b := range m.following {
		s.changed(b.name)
	}
	clear(m.following)
	m.adopted, m.moved, m.deadline, m.late = false, time.Time{}, time.Time{}, false
}

// changed has Schedule return the policy among those whose rollouts or failures changed.
func (s *Scheduler) changed(policy string) {
	s.news.Changed = append(s.news.Changed, policy)
	s.changes.Notify()
}

// ObserveAll records the progress of all objects of a type that have a rollout, by key. Other objects of the type are no longer observed,
// except those of which multi-cluster systems report whether they run.
func (s *Scheduler) ObserveAll(now time.Time, resource schema.GroupVersionResource, all map[Key]Rollout) {
	defer s.lock()()
	for _, key := range s.tracked() {
		if _, remains := all[key]; key.Resource == resource && !remains && !s.reported(key) {
			s.unobserve(key)
		}
	}
	for key, r := range all {
		s.observe(now, key, r)
	}
}

// Unsettle records that policies may match objects with unobserved rollouts. No policy may replace pods until Settle is called for it.
func (s *Scheduler) Unsettle() {
	defer s.lock()()
	s.epoch++
}

// Unobserve ends the observation of an object's rollout, because the object does not exist any more, or another one has its name: it no
// longer counts as unavailable, and its move ends, but not a patch that is running. Its failures stay, and it waits on, until Forget. If
// reports is set, only what a multi-cluster system reported ends, because none reports any more where the object runs.
func (s *Scheduler) Unobserve(key Key, reports bool) {
	defer s.lock()()
	if !reports || s.reported(key) {
		s.unobserve(key)
	}
}

// reported reports whether the readiness of an object comes, or is expected, from the report of a multi-cluster system.
func (s *Scheduler) reported(key Key) bool {
	m := s.moving[key]
	return s.unready[key].Version != "" || m != nil && m.reported
}

// unobserve drops the progress of an object's rollout, and ends its move, but not a patch that is still running. After such a patch, the
// object does not count as being moved unless its rollout has been observed again.
func (s *Scheduler) unobserve(key Key) {
	delete(s.unready, key)
	if m := s.moving[key]; m != nil {
		m.unobserved = true
		s.endRollout(m)
	}
	s.update(key)
}

// Settled reports whether it is known which objects of a policy are not ready, so that Ask may let the policy replace pods. If it is not
// known, the caller should call Settle with epoch once all matched objects have been observed and decided. epoch changes when that must be
// found out again.
func (s *Scheduler) Settled(policy string) (settled bool, epoch int) {
	defer s.lock()()
	b := s.policies[policy]
	return b != nil && b.settled == s.epoch, s.epoch
}

const (
	// adoption is how long objects whose rollouts are not complete count as being moved because an earlier leader may have been moving them.
	adoption = 10 * time.Minute
	// ResumeLimit is how long a new leader tries to find out what an earlier one left.
	ResumeLimit = 10 * time.Minute
)

// Settle records that all objects that a version of a policy matches have been decided, and that the rollouts of their types in rolled are
// observed. From now on, the policy may replace pods, and it is known what an earlier leader was moving for it. Settle does nothing if
// another version is in force, or if epoch is not the newest one that Settled returned.
func (s *Scheduler) Settle(now time.Time, version *placement.Policy, rolled []schema.GroupVersionResource, epoch int) {
	defer s.lock()()
	b := s.policies[version.Name]
	if b == nil || b.version != version || s.epoch != epoch {
		return
	}
	b.settled, b.rolled = epoch, rolled
	if b.resuming {
		// Failures that are over do not count any more.
		unready := sets.New[Key]()
		for key := range s.unready {
			unready.Insert(unversioned(key))
		}
		for key := range b.failed.objects {
			if !unready.Has(key) && !s.objects.Requires(b.name, key) {
				s.clearFailures(key, b)
			}
		}
		s.takeOver(now, b, true)
	}
	b.unavailable = newTally[struct{}]()
	s.updateAll()
	s.reclassify()
	s.freed()
}

// updateAll calls update, with the bounds others, for each object that is being moved or is not ready.
func (s *Scheduler) updateAll(others ...*bounds) {
	for _, key := range s.tracked() {
		s.update(key, others...)
	}
}

// tracked returns the objects that are being moved or are not ready.
func (s *Scheduler) tracked() []Key {
	return sets.KeySet(s.moving).Union(sets.KeySet(s.unready)).UnsortedList()
}

// takeOver continues the moves that an earlier leader left of a policy. Known moves to other clusters keep their deadline. If all is true,
// other objects that are not ready and that the earlier leader may have been moving count as being moved until adoption has passed. The
// caller must call update afterwards.
func (s *Scheduler) takeOver(now time.Time, b *bounds, all bool) {
	for key, r := range s.unready {
		reported := r.Version != ""
		move, known := b.left[unversioned(key)]
		known = known && reported
		may := all && r.Failure == "" && (reported || Observes(b.version, key.Resource.GroupResource()))
		if !known && (!may || !slices.Contains(s.objects.Matching(key), b.name)) {
			continue
		}
		m := s.movementOf(key)
		m.following[b] = !r.Serves
		if another := m.patched.UID != r.UID; known && (another || m.adopted) {
			// Otherwise, this leader moved it again, or the move is also one for another policy.
			m.adopt(r, false, move.Deadline.IsZero())
			m.moved = move.Since
			s.expect(m, move.Deadline)
		} else if another {
			// What has failed since it was moved is known to be one of those.
			failed := reported && b.failed.objects[unversioned(key)].Rollout
			m.adopt(r, !failed, failed)
			m.moved, m.deadline = time.Time{}, time.Time{}
		}
		if m.adopted {
			s.expect(m, now.Add(adoption).Round(0))
		}
	}
	b.left, b.resuming = nil, false
	s.changed(b.name)
}

// adopt makes a movement wait for the rollout r, which an earlier leader began, or only may have begun if adopted is true. late reports
// whether the move has failed because the object did not run in its clusters in time. The caller sets the times moved and deadline.
func (m *movement) adopt(r Rollout, adopted, late bool) {
	m.patched, m.reported, m.adopted, m.late = r, r.Version != "", adopted, late
}

// expire handles the movements whose deadline has come: adopted objects no longer count as being moved. The moves of others have failed,
// but until these objects are ready, they take room within the limits on moves from other objects of their namespace.
func (s *Scheduler) expire(now time.Time) {
	s.deadline = time.Time{}
	for key, m := range s.moving {
		switch {
		case !passed(m.deadline, now):
			s.expect(m, m.deadline)
			continue
		case m.adopted:
			s.endRollout(m)
		default:
			reason := fmt.Sprintf("the object does not run in its clusters %s after it was moved", m.deadline.Sub(m.moved))
			if m.seen.Missing != "" {
				reason += ": " + m.seen.Missing
			}
			m.late, m.deadline = true, time.Time{}
			for b := range m.following {
				s.fail(now, b, Failure{key, reason, true})
			}
		}
		s.update(key)
	}
}

// Resuming returns the names of the policies for which it is not known yet which objects an earlier leader was moving.
func (s *Scheduler) Resuming() []string {
	defer s.lock()()
	return s.resuming()
}

// resuming returns the names of the policies for which it is not known yet which objects an earlier leader was moving. Callers hold mu.
func (s *Scheduler) resuming() (out []string) {
	for name, b := range s.policies {
		if b.resuming {
			out = append(out, name)
		}
	}
	return out
}

// Left is what an earlier leader left of a policy's patches: the moves to other clusters that had not ended, the failures, and the pause
// that they caused. It has neither a plan nor the times of patches.
type Left struct {
	Generation int64             // The generation of the policy's version that was in force.
	Moving     bool              // Whether the leader may have been moving more objects than Moves has.
	Moves      []Move            // The known moves to other clusters that had not ended.
	Failed     []Failure         // The objects whose patch or rollout had failed, as far as the status of the policy names them.
	Pause      string            // The ID of the pause because of failed patches or rollouts; "" for none.
	PausedIn   containment.Scope // In which namespaces the pause stops patches; empty for all, and without a pause.
}

// Resume restores what an earlier leader left of a policy's patches: the moves that go on once it is known which objects are not ready, the
// objects whose patch or rollout failed, and the pause that failures caused. If another generation is in force already, it restores no
// failures and no pause. For a policy that is not known yet, the last patch counts as made now. Call Resume before Ask.
func (s *Scheduler) Resume(now time.Time, policy string, left Left) {
	defer s.lock()()
	b := s.boundsOf(policy, now)
	b.resuming, s.resumeUntil = left.Moving || len(left.Moves) > 0, now.Add(ResumeLimit).Round(0)
	b.left = make(map[Key]Move, len(left.Moves))
	for _, m := range left.Moves {
		b.left[m.Key] = m
	}
	if b.version != nil && b.version.Generation != left.Generation {
		return
	}
	b.generation, b.pause, b.paused = left.Generation, left.Pause, left.PausedIn
	b.resuming = b.resuming || len(left.Failed) > 0
	for _, f := range left.Failed {
		s.fail(now, b, f)
	}
}

// fail records that a patch of an object for a policy, or its rollout, failed. It pauses the policy where there are too many failures.
func (s *Scheduler) fail(now time.Time, b *bounds, f Failure) {
	if b.version == nil && !b.resuming {
		return
	}
	f.Key, f.Reason = unversioned(f.Key), printable.Truncate(f.Reason, maxMessage)
	before, known := b.failed.objects[f.Key]
	if b.failed.put(f.Key, f); f != before {
		s.changed(b.name)
	}
	scope, stops := b.stopped()
	if known || !stops || b.pause != "" && b.paused.Covers(scope) {
		return
	}
	if b.pause != "" {
		scope = b.paused.Join(scope)
	}
	// A release of the earlier pause must not release this one.
	b.pause, b.paused = pauseID(b.generation, now), scope
	s.news.Paused = append(s.news.Paused, b.name)
}

// refused reports whether the API server refused the last patch of an object for the policy.
func (b *bounds) refused(key Key) bool {
	f, failed := b.failed.objects[unversioned(key)]
	return failed && !f.Rollout
}

// clearFailures removes an object from those whose patches or rollout for a policy failed. That ends a pause of single namespaces if the
// failures that are left cause none; a pause in all namespaces lasts until it is released.
func (s *Scheduler) clearFailures(key Key, b *bounds) {
	if b.failed.remove(unversioned(key)) {
		// A pause of the whole policy lasts until it is released. A pause of namespaces ends where its cause is gone.
		if b.pause != "" && !b.paused.All() && b.version != nil {
			var stops bool
			if b.paused, stops = b.stopped(); !stops {
				b.pause = ""
			}
		}
		s.changed(b.name)
		s.freed()
	}
	s.classify(s.line.byKey[key])
}

// pardon ends a policy's pause because of failures, and removes all of its refused patches and failed rollouts. Failures that make other
// patches wait for a probe remain.
func (s *Scheduler) pardon(b *bounds) {
	if b.pause != "" {
		b.pause, b.paused = "", nil
		s.changed(b.name)
		s.freed()
	}
	for key := range b.failed.objects {
		s.clearFailures(key, b)
	}
	s.reclassify()
}

// Release ends the pause of a policy's patches that failures caused, and removes all failures of the policy. It returns false, and does
// nothing, if the policy has no pause with this ID.
func (s *Scheduler) Release(policy, pause string) bool {
	defer s.lock()()
	b := s.policies[policy]
	if b == nil || b.pause == "" || b.pause != pause {
		return false
	}
	s.pardon(b)
	return true
}

// Waiting describes the objects that a policy has to patch and that wait for the scheduler, and the objects that are being moved for it.
type Waiting struct {
	// Paced is how many objects wait because of the limit on patches a minute, or on objects that are moved at the same time. Settling is how
	// many wait until it is known which objects are ready, Stopped how many wait because too many patches failed, and Protected how many Pods
	// wait because a PodDisruptionBudget did not allow their eviction. The last ones may also count in another number, once the eviction may
	// be tried again.
	Paced, Settling, Stopped, Protected int
	Closed                              int // How many objects wait until a window opens.
	// Opens is when the first window for which objects wait opens; zero if none ever does, and if Closed is 0.
	Opens time.Time
	// ClosedFor is the policy that has the window of Opens; "" if Closed is 0. It may be another policy that wants to patch the same objects.
	ClosedFor string
	// Unavailable is how many objects wait because other objects are unavailable. UnavailableNow is how many objects of the policy
	// UnavailableFor are unavailable, and MaxUnavailable is how many of them may be.
	Unavailable, UnavailableNow, MaxUnavailable int
	FirstUnavailable                            Key // The first unavailable object of the policy UnavailableFor; zero for none.
	// UnavailableFor is the policy whose maxUnavailable makes objects wait; "" if Unavailable is 0. It may be another policy that wants to
	// patch the same objects.
	UnavailableFor string
	// Rollouts is the number of objects that were patched for the policy and whose rollout, or move to other clusters, is not complete, and
	// of evicted Pods that are not gone. It is not known while Resuming is set.
	Rollouts int
	Resuming bool // Whether it is not known yet which objects an earlier leader was moving.
	// Moves are the moves to other clusters in which the object does not run yet, as far as a multi-cluster system reports that, sorted.
	// While Resuming is set, they include all that the earlier leader left.
	Moves []Move
	// Late is the number of objects in Rollouts whose move has failed because they did not run in their new clusters in time. They still
	// take room within all limits on moves, but only from other objects of their namespace.
	Late     int
	Failures []Failure         // The objects whose patch was refused, or whose rollout failed, sorted by key.
	Pause    string            // The ID of the pause because of failed patches or rollouts; "" for none.
	PausedIn containment.Scope // In which namespaces the pause stops patches; empty for all, and without a pause.
}

// Paused reports whether the patches of the policy stopped in all namespaces because too many failed.
func (w *Waiting) Paused() bool { return w.Pause != "" && w.PausedIn.All() }

// PauseMessage describes why the patches of a policy stopped, and how to resume them; "" if they did not stop. It names one of the objects
// if named is true, which it must not be for an Event on the policy.
func (w *Waiting) PauseMessage(policy string, named bool) string {
	if w.Pause == "" {
		return ""
	}
	failed := slices.DeleteFunc(slices.Clone(w.Failures), func(f Failure) bool { return !w.PausedIn.Includes(f.Namespace) })
	var example, where string
	if !w.PausedIn.All() {
		where = " " + w.PausedIn.String()
	}
	cause, correct := "too many objects failed, which no longer fail", "Let"
	if len(failed) > 0 {
		cause, correct = fmt.Sprintf("%d objects failed", len(failed)), "Correct the cause, then let"
		if named {
			example = fmt.Sprintf(", such as %s: %s", failed[0].Key, failed[0].Reason)
		}
	}
	return fmt.Sprintf("%s, so Berth patches no more objects of this policy%s (spec.remediation.budget.pauseAfterFailures)%s. "+
		"%s the patches go on: kubectl annotate plpol %s --overwrite %s=%s",
		cause, where, example, correct, policy, placementv1.ResumeAfterFailuresAnnotation, w.Pause)
}

// Move is an object that was moved to other clusters, in which it does not run yet, with the times of its move. It does not have the
// clusters.
type Move struct {
	Key // The object, without the version of its resource.
	// Since is when the object was moved. Deadline is when the move fails unless the object runs in its clusters; zero if it has failed.
	Since, Deadline time.Time
}

// Failure is an object whose patch the API server refused, or whose rollout failed after a patch.
type Failure struct {
	Key            // The object, without the version of its resource.
	Reason  string // Why the patch or the rollout failed.
	Rollout bool   // Whether the rollout failed, and not the patch.
}

// Waiting returns what the objects that a policy has to patch wait for at a time.
func (s *Scheduler) Waiting(now time.Time, policy string) (out Waiting) {
	defer s.lock()()
	for _, c := range s.line.classes {
		if c.wantedBy(policy) {
			out.add(len(c.waiters), s.blocked(now, c.waiters[0], false))
		}
	}
	out.Protected = s.attempts.ProtectedFor(policy)
	b := s.policies[policy]
	if b == nil {
		return out
	}
	if by := s.policies[out.UnavailableFor]; by != nil && len(by.unavailable.objects) > 0 {
		out.UnavailableNow, out.MaxUnavailable = len(by.unavailable.objects), by.maxUnavailable(s.objects)
		out.FirstUnavailable = slices.MinFunc(slices.Collect(maps.Keys(by.unavailable.objects)), compareKeys)
	}
	moves := map[Key]Move{}
	maps.Copy(moves, b.left)
	for key := range b.moving.objects {
		m := s.moving[key]
		if _, follows := m.following[b]; !follows {
			continue
		}
		out.Rollouts++
		out.Late += count(b.late.has(key))
		if !m.moved.IsZero() {
			moves[unversioned(key)] = Move{unversioned(key), m.moved, m.deadline}
		}
	}
	out.Resuming, out.Pause, out.PausedIn = b.resuming, b.pause, b.paused
	out.Failures = slices.SortedFunc(maps.Values(b.failed.objects), func(a, b Failure) int { return compareKeys(a.Key, b.Key) })
	out.Moves = slices.SortedFunc(maps.Values(moves), func(a, b Move) int { return compareKeys(a.Key, b.Key) })
	return out
}

// add counts n objects that the block keeps back. It counts none that wait for an assessment, a probe, or data that keeps changing.
func (w *Waiting) add(n int, by block) {
	switch by.reason {
	case forWindow:
		w.Closed += n
		// Of windows that open at the same time, the name decides, so that reports do not alternate.
		next := earliest(w.Opens, by.until)
		if w.ClosedFor == "" || !next.Equal(w.Opens) || by.until.Equal(next) && by.policy < w.ClosedFor {
			w.Opens, w.ClosedFor = next, by.policy
		}
	case forAvailability:
		w.Unavailable += n
		if w.UnavailableFor == "" {
			w.UnavailableFor = by.policy
		}
	case forRelease:
		w.Stopped += n
	case forSettling:
		w.Settling += n
	case forChange, forProbe, forData:
		// These are short, or the status has a pause.
	default:
		w.Paced += n
	}
}
