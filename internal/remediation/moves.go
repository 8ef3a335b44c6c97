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
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/printable"
	"github.com/berth-dev/berth/internal/projection"
)

// Rollout is the progress of an object's rollout, and whether the object is ready.
type Rollout struct {
	// UID identifies the object. Generation is the generation of its spec that was observed.
	UID        types.UID
	Generation int64
	// Ready reports whether the rollout is complete and the object is ready. Failure is why the rollout failed; "" if it did not.
	Ready   bool
	Failure string
	// Version is the resource version of the object on which a multi-cluster system reports. Then Ready reports whether the object runs in its
	// clusters. It is empty if Ready is what the object's own status says.
	Version string
	// Serves reports whether the object is available although it is not ready: it is still in clusters that it leaves. Missing says what is
	// missing, for a message. Both are only set for reports.
	Serves  bool
	Missing string
}

// rolls reports whether the pods of an object are replaced without a user when its pod template changes.
func rolls(obj *unstructured.Unstructured) bool {
	if (obj.GroupVersionKind().GroupKind() == schema.GroupKind{Group: "apps", Kind: "Deployment"}) {
		paused, _, _ := unstructured.NestedBool(obj.Object, "spec", "paused")
		return !paused
	}
	// With this strategy, the pods of StatefulSets and DaemonSets stay as they are until they are deleted.
	strategy, _, _ := unstructured.NestedString(obj.Object, "spec", "updateStrategy", "type")
	return strategy != "OnDelete"
}

// RolloutOf returns the progress of an object, which must have the RolloutFields, by kstatus. With a malformed status, it is not ready.
func RolloutOf(obj *unstructured.Unstructured) Rollout {
	out := Rollout{UID: obj.GetUID(), Generation: obj.GetGeneration()}
	pod := obj.GroupVersionKind().GroupKind() == podKind
	// A Pod that has finished, or that is gated, is not missed. For OnDelete, kstatus has this rule for StatefulSets alone.
	if obj.GetDeletionTimestamp() == nil && (pod && (finished(obj) || gated(obj)) || !pod && !rolls(obj)) {
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
	return projection.Fields("metadata.generation", "metadata.deletionTimestamp", "spec.replicas", "spec.paused", "spec.progressDeadlineSeconds",
		"spec.updateStrategy.**", "spec.schedulingGates.**", "status.**")
}

// notRolled are the types whose running pods stay as they are when the pod template changes.
var notRolled = []schema.GroupResource{
	podResource, {Group: "apps", Resource: "replicasets"}, {Resource: "podtemplates"}, {Resource: "replicationcontrollers"},
	{Group: "batch", Resource: "jobs"}, {Group: "batch", Resource: "cronjobs"},
}

// Observes reports whether remediation of a policy may replace or evict pods of a type, so that it has to know which objects are ready.
func Observes(p *placement.Policy, resource schema.GroupResource) bool {
	return p.WatchesRollouts() && (!slices.Contains(notRolled, resource) || EvictsFrom(p, resource))
}

// movement is an object that is patched or moved, or that was granted a patch.
type movement struct {
	// patching has what the policies want for which the object is, or may be, patched now. began is when Ask allowed the last patch.
	patching map[*bounds]claim
	began    time.Time
	// granted is the place in line that the object had, if it may be patched now and was not asked for yet; otherwise nil.
	granted *waiter
	// following are the policies whose patch is followed, from its end until the object is ready. The value reports whether the object is
	// unavailable meanwhile. patched has its UID, generation, and resource version after the patch.
	following map[*bounds]bool
	patched   Rollout
	// reported is set if only a system's report says that the object is ready. moved is when it was moved to other clusters; zero for never.
	reported bool
	moved    time.Time
	// deadline is when the object has failed if it is not ready by then, zero for none, and late is set once it has. If adopted is set, it is
	// not known whether an earlier leader was moving the object, which does not count as moved any more at the deadline.
	deadline      time.Time
	adopted, late bool
	// seen is the newest progress since the object began to be moved, which may be newer than the patch.
	seen Rollout
	// unobserved is set if rollouts of the object are not observed any more, so that no rollout counts after a patch under way.
	unobserved bool
	// evicted is set if the object is a Pod that was evicted, so that it is moved until there is none with the UID.
	evicted bool
}

// movesFor reports whether the object is patched or moved for a policy.
func (m *movement) movesFor(b *bounds) bool {
	_, patching := m.patching[b]
	_, follows := m.following[b]
	return patching || follows
}

// claims returns what policies want of the patch, in the order of their names.
func (m *movement) claims() []claim { return slices.SortedFunc(maps.Values(m.patching), byPolicy) }

// rolls reports whether a patch makes the object unavailable.
func (m *movement) rolls() bool {
	for _, c := range m.patching {
		if c.rolls {
			return true
		}
	}
	return slices.Contains(slices.Collect(maps.Values(m.following)), true)
}

// precedes reports whether an object was observed before it was patched, or by what does not say whether it is ready.
func (m *movement) precedes(r Rollout) bool {
	if r.Version == "" || !m.reported {
		return m.reported || r.Generation < m.patched.Generation
	}
	order, err := resourceversion.CompareResourceVersion(r.Version, m.patched.Version)
	return err != nil || order < 0
}

// claim is what a policy wants to do with an object.
type claim struct {
	*bounds
	// follows reports whether the object counts as moved after the patch until it is ready, or until the Pod is gone: the patch rolls pods, is
	// an eviction, or changes clusters in which a system reports the object. rolls reports whether the object is unavailable meanwhile.
	follows, rolls bool
}

// claimsOf returns what policies want to do with an object. The bounds of a policy that are not known yet are those of its verdict.
func (s *Scheduler) claimsOf(key Key, due Due, carrier Carrier) []claim {
	out := make([]claim, len(due))
	for i, v := range due {
		if b := s.boundsOf(v.Policy.Name, s.began); b.version == nil {
			s.apply(v.Policy)
		}
		rolls := (carrier.Reports || Observes(v.Policy, key.Resource.GroupResource())) &&
			slices.ContainsFunc(v.Changes, func(c placement.Change) bool { return possible(c) && c.ChangesPods() })
		moves := carrier.Reports && slices.ContainsFunc(v.Changes, func(c placement.Change) bool { return possible(c) && c.MovesClusters() })
		// An object without clusters runs nowhere anyway.
		leaves := moves && !carrier.Surges && slices.ContainsFunc(v.Changes, placement.Change.LeavesClusters)
		out[i] = claim{s.policies[v.Policy.Name], rolls || moves, rolls || leaves}
	}
	slices.SortFunc(out, byPolicy)
	return out
}

func byPolicy(a, b claim) int { return strings.Compare(a.name, b.name) }

// Carrier is what is known of the systems that carry an object to clusters. The zero value stands for none.
type Carrier struct {
	// Reports reports whether one of them says where the object runs, and Surges whether it stays in clusters until it runs in its new ones.
	Reports, Surges bool
}

// movementOf returns the movement of an object, which is new if there is none.
func (s *Scheduler) movementOf(key Key) *movement {
	if s.moving[key] == nil {
		s.moving[key] = &movement{patching: map[*bounds]claim{}, following: map[*bounds]bool{}, seen: s.unready[key]}
	}
	return s.moving[key]
}

// follow makes an object count as moved after its patch for the policies that require it, with the shortest moveTimeout of them.
func (s *Scheduler) follow(now time.Time, m *movement) {
	var timeout time.Duration
	for b, c := range m.patching {
		if !c.follows || m.unobserved || b.version == nil || !m.reported && !b.version.WatchesRollouts() {
			continue
		}
		m.following[b] = c.rolls
		if most := ptr.Deref(b.version.Budget.MoveTimeout, metav1.Duration{Duration: placementv1.DefaultMoveTimeout}).Duration; timeout == 0 || most < timeout {
			timeout = most
		}
	}
	if m.reported && timeout > 0 {
		m.moved, m.late = now.Round(0), false
		s.expect(m, m.moved.Add(timeout))
		s.changes.Notify()
	}
}

// expect sets the deadline of a movement; zero for none.
func (s *Scheduler) expect(m *movement, deadline time.Time) {
	m.deadline, s.deadline = deadline, earliest(s.deadline, deadline)
}

// Observe declares how far an object's rollout is.
func (s *Scheduler) Observe(now time.Time, key Key, r Rollout) {
	defer s.lock()()
	s.observe(now, key, r)
}

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

// conclude ends the move of an object whose rollout is over. The caller calls update.
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

// endRollout declares that no rollout of an object counts any more.
func (s *Scheduler) endRollout(m *movement) {
	for b := range m.following {
		s.changed(b.name)
	}
	clear(m.following)
	m.adopted, m.moved, m.deadline, m.late = false, time.Time{}, time.Time{}, false
}

// changed has Schedule return a policy whose rollouts or failures changed.
func (s *Scheduler) changed(policy string) {
	s.news.Changed = append(s.news.Changed, policy)
	s.changes.Notify()
}

// ObserveAll declares how far the rollouts of all objects of a type are. There are no others.
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

// Unsettle declares that policies may match objects whose rollouts have not been observed. No policy rolls pods before the next Settle.
func (s *Scheduler) Unsettle() {
	defer s.lock()()
	s.epoch++
}

// Unobserve declares that an object does not exist any more, or that another one has its name; or, if reports is set, only that no system
// reports any more where it runs.
func (s *Scheduler) Unobserve(key Key, reports bool) {
	defer s.lock()()
	if !reports || s.reported(key) {
		s.unobserve(key)
	}
}

// reported reports whether what is known of an object is a report of a system, or waits for one.
func (s *Scheduler) reported(key Key) bool {
	m := s.moving[key]
	return s.unready[key].Version != "" || m != nil && m.reported
}

// unobserve forgets an object's rollout.
func (s *Scheduler) unobserve(key Key) {
	delete(s.unready, key)
	if m := s.moving[key]; m != nil {
		m.unobserved = true
		s.endRollout(m)
	}
	s.update(key)
}

// Settled reports whether it is known which objects of a policy are not ready, so that Ask lets it roll pods. If not, the caller should
// call Settle once all matched objects have been observed and decided. epoch changes when that has to be found out again.
func (s *Scheduler) Settled(policy string) (settled bool, epoch int) {
	defer s.lock()()
	b := s.policies[policy]
	return b != nil && b.settled == s.epoch, s.epoch
}

const (
	// adoption is how long objects whose rollouts are not complete count as moved because an earlier leader may have been moving them.
	adoption = 10 * time.Minute
	// ResumeLimit is how long a new leader tries to find out what an earlier one left.
	ResumeLimit = 10 * time.Minute
)

// Settle declares that all objects that a version of a policy matches have been decided, and that the rollouts of those types of them are
// observed that have any. It does nothing if another version is in force, or if that has to be found out again since the epoch.
func (s *Scheduler) Settle(now time.Time, version *placement.Policy, rolled []schema.GroupVersionResource, epoch int) {
	defer s.lock()()
	b := s.policies[version.Name]
	if b == nil || b.version != version || s.epoch != epoch {
		return
	}
	b.settled, b.rolled = epoch, rolled
	if b.resuming {
		// Failures that are over do not count any more.
		for key := range b.failed.objects {
			if _, unready := inAnyVersion(s.unready, key); !unready && !s.objects.Requires(b.name, key) {
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

func (s *Scheduler) updateAll(others ...*bounds) {
	for _, key := range s.tracked() {
		s.update(key, others...)
	}
}

// tracked returns the objects that are moved or not ready.
func (s *Scheduler) tracked() []Key {
	return sets.KeySet(s.moving).Union(sets.KeySet(s.unready)).UnsortedList()
}

// takeOver goes on with what an earlier leader left of a policy. Known moves to other clusters fail when they would have under that leader.
// If all is set, other objects that it may have been moving count as moved for some time. The caller calls update.
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

// adopt makes a movement that of an object whose rollout an earlier leader began, if it did.
func (m *movement) adopt(r Rollout, adopted, late bool) {
	m.patched, m.reported, m.adopted, m.late = r, r.Version != "", adopted, late
}

// expire ends the movements whose deadline has come: what was adopted does not count any more, and other objects have failed.
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
			reason := fmt.Sprintf("it does not run in its clusters %s after it was moved", m.deadline.Sub(m.moved))
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

// Resuming returns the policies for which it is not known yet which objects an earlier leader was moving.
func (s *Scheduler) Resuming() []string {
	defer s.lock()()
	return s.resuming()
}

func (s *Scheduler) resuming() (out []string) {
	for name, b := range s.policies {
		if b.resuming {
			out = append(out, name)
		}
	}
	return out
}

// Left is what an earlier leader left of a policy.
type Left struct {
	// Generation is the generation of the policy that was in force.
	Generation int64
	// Moving reports whether the leader may have been moving objects. Moves are those to other clusters that are known.
	Moving bool
	Moves  []Move
	// Failed are the objects that failed. Pause identifies the pause because of them, "" for none, and PausedIn is where it stops patches.
	Failed   []Failure
	Pause    string
	PausedIn containment.Scope
}

// Resume declares what an earlier leader left of a policy. Call it before Ask.
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

// fail records that a patch of an object for a policy, or its rollout, failed, and pauses the policy where too many did.
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

// refused reports whether the last patch of an object for the policy was refused.
func (b *bounds) refused(key Key) bool {
	f, failed := b.failed.objects[unversioned(key)]
	return failed && !f.Rollout
}

// clearFailures records that an object's patches and rollout for a policy do not fail.
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

// pardon ends a policy's pause, and forgets the failures that caused it.
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

// Release lets a policy's patches go on that stopped because too many failed. It returns false if the policy has no such pause.
func (s *Scheduler) Release(policy, pause string) bool {
	defer s.lock()()
	b := s.policies[policy]
	if b == nil || b.pause == "" || b.pause != pause {
		return false
	}
	s.pardon(b)
	return true
}

// Waiting are the numbers of objects that a policy has to patch and that wait for the scheduler.
type Waiting struct {
	// Paced are the objects that wait because of the number of patches a minute, or of objects that are moved at the same time, Settling those
	// that wait until it is known which objects are ready, Stopped those that wait because too many patches failed, and Protected the Pods
	// that wait because a PodDisruptionBudget does not allow their eviction.
	Paced, Settling, Stopped, Protected int
	// Closed are the objects that wait until a window opens, and Opens is when the first one does; zero if none ever does. It is one of the
	// policy ClosedFor, which may be another one that wants to patch the same objects.
	Closed    int
	Opens     time.Time
	ClosedFor string
	// Unavailable are the objects that wait because UnavailableNow objects, of which FirstUnavailable is one, are unavailable, and
	// MaxUnavailable may be, for the policy UnavailableFor, which may be another one that wants to patch the same objects.
	Unavailable, UnavailableNow, MaxUnavailable int
	FirstUnavailable                            Key
	UnavailableFor                              string
	// Rollouts is the number of patched objects whose rollout is not complete, and of evicted Pods that are not gone. It is not known while
	// Resuming is set: an earlier leader was moving objects.
	Rollouts int
	Resuming bool
	// Moves are those of them that were moved to other clusters and do not run there yet, as far as a system reports that, sorted. While
	// Resuming is set, they include all that the earlier leader left.
	Moves []Move
	// Late are those of them that do not run in their new clusters in time, so that they have failed and count in their namespace alone.
	Late int
	// Failures are the objects that failed. Pause identifies the pause because of them, "" for none, and PausedIn is where it stops patches.
	Failures []Failure
	Pause    string
	PausedIn containment.Scope
}

// Paused reports whether patches of the whole policy stopped because too many failed.
func (w *Waiting) Paused() bool { return w.Pause != "" && w.PausedIn.All() }

// PauseMessage describes why the patches of a policy stopped, and how to let them go on; "" if they did not. It names one of the objects if
// named is set, which it must not be for an Event on the policy.
func (w *Waiting) PauseMessage(policy string, named bool) string {
	if w.Pause == "" {
		return ""
	}
	failed := slices.DeleteFunc(slices.Clone(w.Failures), func(f Failure) bool { return !w.PausedIn.Includes(f.Namespace) })
	var example, where string
	if !w.PausedIn.All() {
		where = " " + w.PausedIn.String()
	}
	cause, correct := "objects failed that do not fail any more", "Let"
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

// Move is an object that was moved to other clusters.
type Move struct {
	// Key is the object, without the version of its resource.
	Key
	// Since is when it was moved, and Deadline when it has failed if it does not run in its clusters by then; zero if it has.
	Since, Deadline time.Time
}

// Failure is an object whose patch the API server refused, or whose rollout failed after a patch.
type Failure struct {
	// Key is the object, without the version of its resource.
	Key
	Reason string
	// Rollout reports whether it is the rollout that failed.
	Rollout bool
}

// Waiting returns the numbers of objects that a policy has to patch and that wait for the scheduler at a time.
func (s *Scheduler) Waiting(now time.Time, policy string) (out Waiting) {
	defer s.lock()()
	for _, c := range s.line.classes {
		if c.wantedBy(policy) {
			out.add(len(c.waiters), s.blocked(now, c.waiters[0], false))
		}
	}
	for _, p := range s.protected {
		out.Protected += count(slices.Contains(p.policies, policy))
	}
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

// add counts objects that something keeps back.
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
