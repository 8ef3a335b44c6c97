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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/containment"
	"github.com/berth-dev/berth/internal/placement"
)

// movement is an object that is patched or moved, or that was granted a patch.
type movement struct {
	// patching are the policies for which the object is patched or may be patched now, with what they want.
	patching map[string]claim
	// granted is the place in line that the object had, if it may be patched now and was not asked for yet; otherwise nil.
	granted *waiter
	// following are the policies whose patch is followed, from its end until the object is ready. The value reports whether the object is
	// unavailable meanwhile. uid is the object's UID, and generation and version are its generation and its resource version after the
	// patch.
	following  map[string]bool
	uid        types.UID
	generation int64
	version    string
	// reported is set if only a report of a system says that the object is ready. moved is when the patch was over that moved the object to other
	// clusters, zero if none did, and timeout is how long the object may take from then on until it is ready.
	reported bool
	moved    time.Time
	timeout  time.Duration
	// late is set once the object has failed because it took longer.
	late bool
	// seen is the newest progress since the object began to be moved, which may be newer than the patch.
	seen Rollout
	// unobserved is set if rollouts of the object are not observed any more, so that no rollout counts after a patch under way.
	unobserved bool
	// began is when Ask allowed the last patch.
	began time.Time
	// evicted is set if the object is a Pod that was evicted, so that it is moved until there is none with the UID.
	evicted bool
	// adopted is set if it is not known whether an earlier leader was moving the object.
	adopted bool
}

// deadline returns when the object has failed if it is not ready by then; zero if it has, or if there is none.
func (m *movement) deadline() time.Time {
	if m.moved.IsZero() || m.late {
		return time.Time{}
	}
	return m.moved.Add(m.timeout)
}

// movesFor reports whether the object is patched or moved for a policy.
func (m *movement) movesFor(policy string) bool {
	if m == nil {
		return false
	}
	_, patching := m.patching[policy]
	return patching || m.follows(policy)
}

// policies returns the policies for which the object is patched or moved.
func (m *movement) policies() (out []string) {
	if m == nil {
		return nil
	}
	return slices.AppendSeq(slices.Collect(maps.Keys(m.patching)), maps.Keys(m.following))
}

// claims returns what policies want of the patch, in the order of their names.
func (m *movement) claims() []claim {
	return slices.SortedFunc(maps.Values(m.patching), byPolicy)
}

// follows reports whether the object counts as moved after its patch for a policy.
func (m *movement) follows(policy string) bool {
	_, follows := m.following[policy]
	return follows
}

// rolls reports whether a patch makes the object unavailable.
func (m *movement) rolls() bool {
	if m == nil {
		return false
	}
	for _, c := range m.patching {
		if c.rolls {
			return true
		}
	}
	for _, unavailable := range m.following {
		if unavailable {
			return true
		}
	}
	return false
}

// precedes reports whether an object was observed before it was patched, or by what does not say whether it is ready.
func (m *movement) precedes(r Rollout) bool {
	if r.Version == "" || !m.reported {
		return m.reported || r.Generation < m.generation
	}
	order, err := resourceversion.CompareResourceVersion(r.Version, m.version)
	return err != nil || order < 0
}

// claim is what a policy wants to do with an object.
type claim struct {
	policy *placement.Policy
	// follows reports whether the object counts as moved after the patch until it is ready, or until the Pod is gone: the patch rolls
	// pods, is an eviction, or changes clusters in which a system reports the object. rolls reports whether the object is unavailable
	// meanwhile.
	follows, rolls bool
}

func claimsOf(key Key, due Due, carrier Carrier) []claim {
	out := make([]claim, len(due))
	for i, v := range due {
		rolls := (carrier.Reports || Observes(v.Policy, key.Resource.GroupResource())) && slices.ContainsFunc(v.Changes, rollsPods)
		moves := carrier.Reports && slices.ContainsFunc(v.Changes, movesClusters)
		// An object without clusters runs nowhere anyway.
		leaves := moves && !carrier.Surges && slices.ContainsFunc(v.Changes, placement.Change.LeavesClusters)
		out[i] = claim{v.Policy, rolls || moves, rolls || leaves}
	}
	slices.SortFunc(out, byPolicy)
	return out
}

func byPolicy(a, b claim) int { return strings.Compare(a.policy.Name, b.policy.Name) }

// movesClusters reports whether a change is one of the object's clusters.
func movesClusters(c placement.Change) bool { return possible(c) && c.MovesClusters() }

// MovesClusters reports whether the verdicts change the clusters of an object.
func (d Due) MovesClusters() bool {
	return slices.ContainsFunc(d.changes(), placement.Change.MovesClusters)
}

// Carrier is what is known of the systems that carry an object to clusters. The zero value stands for none.
type Carrier struct {
	// Reports reports whether one of them says where the object runs. Surges reports whether the object stays in clusters that it leaves
	// until it runs in its new ones.
	Reports, Surges bool
}

// rollsPods reports whether a change is one of the pod template.
func rollsPods(c placement.Change) bool { return possible(c) && c.ChangesPods() }

// moveTimeout returns how long an object may take to run in its new clusters.
func moveTimeout(p *placement.Policy) time.Duration {
	return ptr.Deref(p.Budget.MoveTimeout, metav1.Duration{Duration: placementv1.DefaultMoveTimeout}).Duration
}

// movementOf returns the movement of an object, which is new if there is none. The caller holds mu.
func (s *Scheduler) movementOf(key Key) *movement {
	m := s.moving[key]
	if m == nil {
		m = &movement{patching: map[string]claim{}, following: map[string]bool{}, seen: s.unready[key]}
		s.moving[key] = m
	}
	return m
}

// drop removes a movement if it is over. The caller holds mu and calls update.
func (s *Scheduler) drop(key Key, m *movement) {
	if len(m.patching)+len(m.following) == 0 {
		delete(s.moving, key)
	}
}

// follow makes an object count as moved after its patch for the policies that require it. The caller holds mu.
func (s *Scheduler) follow(now time.Time, m *movement) {
	var timeout time.Duration
	for policy, c := range m.patching {
		b := s.policies[policy]
		if !c.follows || m.unobserved || b == nil || b.version == nil || !m.reported && !b.version.WatchesRollouts() {
			continue
		}
		m.following[policy] = c.rolls
		if most := moveTimeout(b.version); timeout == 0 || most < timeout {
			timeout = most
		}
	}
	if m.reported && timeout > 0 {
		m.moved, m.timeout, m.late = now.Round(0), timeout, false
		s.late = earliest(s.late, m.deadline())
		s.changes.Notify()
	}
}

// Observe declares how far an object's rollout is.
func (s *Scheduler) Observe(now time.Time, key Key, r Rollout) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observe(now, key, r)
}

// observe is Observe. The caller holds mu.
func (s *Scheduler) observe(now time.Time, key Key, r Rollout) {
	m := s.moving[key]
	if _, known := s.unready[key]; r.Ready && !known && m == nil && s.failed[unversioned(key)] == nil {
		return
	}
	if m != nil {
		m.seen, m.unobserved = r, false
	}
	if r.Ready {
		delete(s.unready, key)
		for policy, f := range s.failed[unversioned(key)] {
			if f.rollout {
				s.clearFailures(key, policy)
			}
		}
	} else {
		s.unready[key] = r
	}
	s.conclude(now, key, r)
	s.update(key)
}

// conclude ends the move of an object whose rollout is over. The caller holds mu and calls update.
func (s *Scheduler) conclude(now time.Time, key Key, r Rollout) {
	m := s.moving[key]
	switch {
	case m == nil:
		return
	case len(m.following) == 0 || r.UID == m.uid && m.precedes(r):
		// Nothing is followed, or the object was observed before the patch.
	case m.evicted && (r.UID == m.uid || r.UID == ""):
		// The evicted Pod is not gone, as far as is known.
	case m.evicted || r.Ready || r.Failure != "":
		for policy := range m.following {
			if !m.evicted && !r.Ready {
				s.fail(now, key, policy, failure{"its rollout failed: " + r.Failure, true})
			}
		}
		s.endRollout(m)
	}
	s.drop(key, m)
}

// endRollout declares that no rollout of an object counts any more. The caller holds mu.
func (s *Scheduler) endRollout(m *movement) {
	s.changed(slices.Collect(maps.Keys(m.following))...)
	clear(m.following)
	m.adopted, m.moved, m.late = false, time.Time{}, false
}

// changed has Schedule return policies whose rollouts or failures changed. The caller holds mu.
func (s *Scheduler) changed(policies ...string) {
	if len(policies) > 0 {
		s.news.Changed = append(s.news.Changed, policies...)
		s.changes.Notify()
	}
}

// ObserveAll declares how far the rollouts of all objects of a type are. There are no others.
func (s *Scheduler) ObserveAll(now time.Time, resource schema.GroupVersionResource, all map[Key]Rollout) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unobserveType(resource, all)
	for key, r := range all {
		s.observe(now, key, r)
	}
}

// Unwatch declares that rollouts of a type are not observed any more. Until Settle is called again, no policy rolls pods.
func (s *Scheduler) Unwatch(resource schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsettle()
	s.unobserveType(resource, nil)
}

// Unsettle declares that policies may match objects whose rollouts have not been observed.
func (s *Scheduler) Unsettle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsettle()
}

// unsettle is Unsettle. The caller holds mu.
func (s *Scheduler) unsettle() {
	s.epoch++
	for _, b := range s.policies {
		b.settled = false
	}
}

// Unobserve declares that an object does not exist any more, or that another one has its name.
func (s *Scheduler) Unobserve(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unobserve(key)
}

// unobserveType forgets the rollouts of a type, except those of the objects that remain. The caller holds mu.
func (s *Scheduler) unobserveType(resource schema.GroupVersionResource, remaining map[Key]Rollout) {
	forget := func(key Key) {
		if _, remains := remaining[key]; key.Resource == resource && !remains && !s.reported(key) {
			s.unobserve(key)
		}
	}
	for key := range s.unready {
		forget(key)
	}
	for key := range s.moving {
		forget(key)
	}
}

// EndReports declares that no system reports any more where an object runs.
func (s *Scheduler) EndReports(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reported(key) {
		s.unobserve(key)
	}
}

// reported reports whether what is known of an object is a report of a system, or waits for one. The caller holds mu.
func (s *Scheduler) reported(key Key) bool {
	m := s.moving[key]
	return s.unready[key].Version != "" || m != nil && m.reported
}

// unobserve forgets an object's rollout. The caller holds mu.
func (s *Scheduler) unobserve(key Key) {
	delete(s.unready, key)
	if m := s.moving[key]; m != nil {
		m.unobserved = true
		s.endRollout(m)
		s.drop(key, m)
	}
	s.update(key)
}

// Settled reports whether it is known which objects of a policy are not ready, so that Ask lets the policy roll pods. If
// not, the caller should call Settle as soon as all objects that the policy matches have been observed and decided. epoch
// changes when that has to be found out again.
func (s *Scheduler) Settled(policy string) (settled bool, epoch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.policies[policy]
	return b != nil && b.settled, s.epoch
}

// adoption is how long objects whose rollouts are not complete count as moved because an earlier leader may have been moving
// them.
const adoption = 10 * time.Minute

// Settle declares that all objects that a version of a policy matches have been decided, and that the rollouts of those types
// of them are observed that have any. It does nothing if another version is in force, or if that has to be found out again
// since the epoch.
func (s *Scheduler) Settle(now time.Time, version *placement.Policy, rolled []schema.GroupVersionResource, epoch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.policies[version.Name]
	if b == nil || b.version != version || s.epoch != epoch {
		return
	}
	b.settled, b.rolled = true, rolled
	if b.resuming {
		s.goOn(b)
		s.takeOver(now, b)
	}
	b.resuming = false
	b.unavailable.Clear()
	for key := range s.unready {
		s.update(key)
	}
	for key := range s.moving {
		s.update(key)
	}
	s.reclassify()
	s.freed()
}

// goOn goes on with the moves of an earlier leader to other clusters that are known, as far as the objects do not run there yet: they fail when
// they would have under that leader. The caller holds mu and calls update.
func (s *Scheduler) goOn(b *bounds) {
	for key, r := range s.unready {
		move, known := b.left[unversioned(key)]
		if !known || r.Version == "" {
			continue
		}
		m := s.movementOf(key)
		m.following[b.name] = !r.Serves
		if m.uid == r.UID && !m.adopted {
			// This leader moved it again, or the move is also one for another policy.
			continue
		}
		m.uid, m.generation, m.version, m.reported, m.adopted = r.UID, r.Generation, r.Version, true, false
		m.moved, m.timeout, m.late = move.Since, move.Deadline.Sub(move.Since), move.Deadline.IsZero()
		s.late = earliest(s.late, m.deadline())
	}
	b.left = nil
	s.changed(b.name)
}

// takeOver goes on with what else an earlier leader left of a policy: objects that it may have been moving count as moved for some
// time, and failures that are over do not count any more. The caller holds mu and calls update.
func (s *Scheduler) takeOver(now time.Time, b *bounds) {
	for key, failed := range s.failed {
		if _, known := failed[b.name]; known && !s.objects.Requires(b.name, key) && !s.unreadyInAnyVersion(key) {
			s.clearFailures(key, b.name)
		}
	}
	for key, r := range s.unready {
		reported := r.Version != ""
		if r.Failure != "" || !reported && !Observes(b.version, key.Resource.GroupResource()) || !slices.Contains(s.objects.Matching(key), b.name) {
			continue
		}
		m := s.movementOf(key)
		m.following[b.name] = !r.Serves
		if m.uid != r.UID {
			// What has failed since it was moved is known to be one of those.
			known := reported && s.failed[unversioned(key)][b.name].rollout
			m.uid, m.generation, m.version, m.reported, m.adopted, m.late = r.UID, r.Generation, r.Version, reported, !known, known
		}
		s.adoptedUntil = now.Add(adoption).Round(0)
	}
}

// unreadyInAnyVersion reports whether an object, without the version of its resource, is not ready. The caller holds mu.
func (s *Scheduler) unreadyInAnyVersion(key Key) bool {
	for k := range s.unready {
		if unversioned(k) == key {
			return true
		}
	}
	return false
}

// abandon ends the moves of objects of which it is not known whether an earlier leader was moving them. The caller holds mu.
func (s *Scheduler) abandon() {
	s.adoptedUntil = time.Time{}
	for key, m := range s.moving {
		if m.adopted {
			s.endRollout(m)
			s.drop(key, m)
			s.update(key)
		}
	}
}

// failLate records that objects have failed that do not run in their clusters in time. They go on to count as moved. The caller holds mu.
func (s *Scheduler) failLate(now time.Time) {
	s.late = time.Time{}
	for key, m := range s.moving {
		if !passed(m.deadline(), now) {
			s.late = earliest(s.late, m.deadline())
			continue
		}
		m.late = true
		reason := fmt.Sprintf("it does not run in its clusters %s after it was moved", m.timeout)
		if m.seen.Missing != "" {
			reason += ": " + m.seen.Missing
		}
		for policy := range m.following {
			s.fail(now, key, policy, failure{reason, true})
		}
		s.update(key)
	}
}

// Resuming returns the policies for which it is not known yet which objects an earlier leader was moving.
func (s *Scheduler) Resuming() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resuming()
}

// ResumeLimit is how long a new leader tries to find out what an earlier one left.
const ResumeLimit = 10 * time.Minute

// stopResuming gives up to find that out. The caller holds mu.
func (s *Scheduler) stopResuming() {
	s.resumeUntil = time.Time{}
	for _, name := range s.resuming() {
		s.policies[name].resuming = false
		s.goOn(s.policies[name])
		s.freed()
	}
	for key := range s.moving {
		s.update(key)
	}
}

// resuming is Resuming. The caller holds mu.
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
	// Failed are the objects that failed. Pause identifies the pause of the policy's patches that lasts, "" for none, and PausedIn is where
	// it stops them.
	Failed   []Failure
	Pause    string
	PausedIn containment.Scope
}

// Resume declares what an earlier leader left of a policy. Call it before Ask.
func (s *Scheduler) Resume(now time.Time, policy string, left Left) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.policies[policy]
	if b == nil {
		b = newBounds(policy, now)
		s.policies[policy] = b
	}
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
		s.fail(now, f.Key, policy, failure{f.Reason, f.Rollout})
	}
}
