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
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/containment"
	"github.com/berth-dev/berth/internal/placement"
)

// Budget bounds patches and evictions of existing objects: how many happen in a minute, how many objects are moved at the same time, how
// many may be unavailable, and when. Each policy has its own bounds; others apply to all policies together. Patches also
// stop when too many of them failed. A Budget delays patches and never drops any. It is safe for concurrent use.
//
// An object is moved from its patch until the patch is done, and if the patch rolls pods, until that rollout is complete or
// has failed. An object that is not ready, or that is moved by a patch that rolls pods, is unavailable. To patch an object
// that is unavailable anyway does not make more objects unavailable, so it does not wait for others to be available.
//
// Where a multi-cluster system reports in which clusters an object runs, the object is ready if it runs in them by that report, and one
// whose clusters change is moved until it runs in its new ones. If it does not in time, it has failed, and goes on to count as moved for
// the objects of its namespace: as long as it runs nowhere, they must not follow it.
//
// An eviction is a patch that rolls the one pod that the object is. The Pod is moved until it is gone. The one in its place is
// another object, which is unavailable until it is ready.
//
// Two patches for a policy with n patches a minute are at least a minute/n apart. So no period of a minute contains more
// than n of them, wherever it begins. A new leader does not know when its predecessor patched last. It behaves as if that
// had been when it began to lead.
type Budget struct {
	objects Matches

	mu    sync.Mutex
	began time.Time
	// policies holds the budgets of the policies that patched anything, and under "" that of all policies together.
	policies map[string]*policyBudget
	waiting  waitingList
	// moving holds the objects that are moved, and unready those that are not ready.
	moving  map[Key]*movement
	unready map[Key]Rollout
	// failed holds the objects whose patch or rollout failed, without the version of the resource, by policy.
	failed    map[Key]map[string]failure
	evictions evictions
	// adoptedUntil is when objects no longer count as moved because an earlier leader may have been moving them; zero if none
	// do.
	adoptedUntil time.Time
	// epoch is the number of calls of unsettle.
	epoch int
}

// failure is why a patch of an object, or its rollout, failed.
type failure struct {
	reason  string
	rollout bool
}

// Matches knows which policies match existing objects. The Ledger implements it. It must not call the Budget.
type Matches interface {
	// Matching returns the policies that matched an object when it was last decided.
	Matching(key Key) []string
	// Matched returns the number of objects of some types that a policy matches.
	Matched(policy string, types []schema.GroupVersionResource) int
	// Requires reports whether a policy requires a move of an object. The version of its resource does not matter.
	Requires(policy string, key Key) bool
}

// Limits are bounds for all policies together. 0 means no bound.
type Limits struct {
	// MaxPerMinute bounds the patches a minute, and MaxConcurrent the objects that are moved at the same time.
	MaxPerMinute, MaxConcurrent int
}

// Next is what the caller of a Budget must do next.
type Next struct {
	// Keys are objects to decide again now, because they may be patched. Slots may be reserved for them until Spend, Leave,
	// or Yield is called with them.
	Keys []Key
	// Wake is the time after which Open must be called; 0 if no call is needed.
	Wake time.Duration
	// Paused are the policies whose patches stopped, in all namespaces or in some, because too many failed. Changed are those
	// whose rollouts or failures changed.
	Paused, Changed []string
}

// wakeAfter makes the caller call Open after a delay, too; 0 for never.
func (n *Next) wakeAfter(delay time.Duration) {
	if n.Wake == 0 || delay > 0 && delay < n.Wake {
		n.Wake = delay
	}
}

// movement is an object that is moved, or that has a reservation for it.
type movement struct {
	// patching are the policies for which the object is patched or may be patched now, with what they want.
	patching map[string]claim
	// reserved reports whether patching is a reservation: Spend was not called yet.
	reserved bool
	// following are the policies whose patch is followed, from its end until the object is ready. The value reports whether the object is
	// unavailable meanwhile. uid is the object's UID, and generation and version are its generation and its resource version after the
	// patch.
	following  map[string]bool
	uid        types.UID
	generation int64
	version    string
	// reported is set if only a report of a system says that the object is ready. deadline is when the object has failed if it is not ready
	// by then; zero if it has, or if there is none. timeout is the time from the patch until then.
	reported bool
	deadline time.Time
	timeout  time.Duration
	// late is set once it has failed for that reason.
	late bool
	// seen is the newest progress since the object began to be moved, which may be newer than the patch.
	seen Rollout
	// unobserved is set if rollouts of the object are not observed any more, so that no rollout counts after a patch under way.
	unobserved bool
	// began is when Spend allowed the last patch.
	began time.Time
	// evicted is set if the object is a Pod that was evicted, so that it is moved until there is none with the UID.
	evicted bool
	// adopted is set if it is not known whether an earlier leader was moving the object.
	adopted bool
}

// counts reports whether a policy moves the object; for "", whether any does.
func (m *movement) counts(policy string) bool {
	if m == nil {
		return false
	}
	_, patching := m.patching[policy]
	_, following := m.following[policy]
	return patching || following || policy == "" && len(m.patching)+len(m.following) > 0
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
	return out
}

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

// NewBudget returns a budget. objects knows the objects that the policies match.
func NewBudget(limits Limits, objects Matches) *Budget {
	b := &Budget{
		objects: objects, policies: map[string]*policyBudget{}, waiting: newWaitingList(),
		moving: map[Key]*movement{}, unready: map[Key]Rollout{}, failed: map[Key]map[string]failure{}, evictions: newEvictions(),
	}
	overall := newPolicyBudget(time.Time{})
	overall.apply(&placement.Policy{Budget: placementv1.RemediationBudget{MaxPerMinute: int32(limits.MaxPerMinute), MaxConcurrent: int32(limits.MaxConcurrent)}})
	b.policies[""] = overall
	return b
}

// Begin declares that this replica begins to lead. Call it before Spend.
func (b *Budget) Begin(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.began = now
	for _, p := range b.policies {
		p.last = now
	}
}

// Spend reports whether an object may be patched now for the verdicts. If so, the patch counts, and Finish must be called
// when it is done. If not, the object waits until a Next contains it.
func (b *Budget) Spend(now time.Time, key Key, due Due, carrier Carrier) (ok bool, next Next) {
	b.mu.Lock()
	defer b.mu.Unlock()
	claims := claimsOf(key, due, carrier)
	for _, c := range claims {
		b.know(c.policy)
	}
	freed := b.cancel(key)
	if in, until, waits := b.blocks(now, key, claims); waits {
		next.Wake = b.waiting.add(now, key, claims, in, until)
	} else {
		ok = true
		b.waiting.remove(key)
		for u := range b.usesOf(claims) {
			u.earlier, u.last = u.last, now
		}
		b.reserve(key, claims)
		m := b.moving[key]
		m.began, m.reserved, m.reported = now, false, carrier.Reports
	}
	b.admit(now, &next, freed...)
	return ok, next
}

// Patch is the result of a patch or an eviction.
type Patch struct {
	// Done reports whether the API server patched or evicted the object with the UID. Generation and Version are its generation and its
	// resource version since the patch.
	Done       bool
	UID        types.UID
	Generation int64
	Version    string
	// Refusal is why the API server refused to patch this object; empty if it did not, or for a reason that other objects
	// may share.
	Refusal string
	// Protected reports whether a PodDisruptionBudget did not allow an eviction. It does not count for the pace.
	Protected bool
}

// Finish declares that a patch that Spend allowed is done.
func (b *Budget) Finish(now time.Time, key Key, due Due, result Patch) (next Next) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range Names(due) {
		switch {
		case result.Refusal != "" && b.moving[key] != nil && b.moving[key].unobserved:
			// The object may not exist any more.
		case result.Refusal != "":
			b.fail(now, key, name, failure{reason: result.Refusal}, &next)
		case result.Done:
			b.clearFailures(key, &next, name)
		}
	}
	if m := b.moving[key]; m != nil {
		if result.Protected {
			b.takeBack(m)
		}
		if result.Done {
			m.uid, m.generation, m.version, m.adopted, m.evicted = result.UID, result.Generation, result.Version, false, due.Evicts(key.Resource.GroupResource())
			b.follow(now, m, &next)
		}
		clear(m.patching)
		b.conclude(now, key, m.seen, &next)
	}
	b.admit(now, &next, b.update(key)...)
	for _, name := range Names(due) {
		b.tidy(now, name)
	}
	return next
}

// follow makes an object count as moved after its patch for the policies that require it. The caller holds mu.
func (b *Budget) follow(now time.Time, m *movement, next *Next) {
	var timeout time.Duration
	for policy, c := range m.patching {
		p := b.policies[policy]
		if !c.follows || m.unobserved || p == nil || p.version == nil || !m.reported && !p.version.WatchesRollouts() {
			continue
		}
		m.following[policy] = c.rolls
		if most := moveTimeout(p.version); timeout == 0 || most < timeout {
			timeout = most
		}
	}
	if m.reported && timeout > 0 {
		m.timeout, m.deadline, m.late = timeout, now.Add(timeout).Round(0), false
		next.wakeAfter(b.waiting.wakeAt(now, m.deadline))
	}
}

// follows reports whether the object counts as moved after its patch for a policy.
func (m *movement) follows(policy string) bool {
	_, follows := m.following[policy]
	return follows
}

// moveTimeout returns how long an object may take to run in its new clusters.
func moveTimeout(p *placement.Policy) time.Duration {
	return ptr.Deref(p.Budget.MoveTimeout, metav1.Duration{Duration: placementv1.DefaultMoveTimeout}).Duration
}

// takeBack takes back that a patch counts for the pace, unless another one began meanwhile. The caller holds mu.
func (b *Budget) takeBack(m *movement) {
	for u := range b.usesOf(slices.Collect(maps.Values(m.patching))) {
		if u.last.Equal(m.began) {
			u.last = u.earlier
		}
	}
}

// tidy removes the budget of a policy that was deleted, if it has nothing to remember. The caller holds mu.
func (b *Budget) tidy(now time.Time, policy string) {
	if p := b.policies[policy]; p != nil && policy != "" && p.version == nil && p.idle(now) {
		delete(b.policies, policy)
	}
}

// Leave declares that an object needs no patch any more. Failures of its patches do not count any longer, unless they are
// those of an earlier leader, of which it is not known yet whether they last.
func (b *Budget) Leave(now time.Time, key Key) (next Next) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clearRefusals(key, nil, &next)
	b.waiting.remove(key)
	b.admit(now, &next, b.cancel(key)...)
	return next
}

// clearRefusals forgets the refusals of an object's patches for policies that do not require one any more. The caller holds mu.
func (b *Budget) clearRefusals(key Key, due Due, next *Next) {
	for policy, f := range b.failed[unversioned(key)] {
		if !f.rollout && !b.policies[policy].resuming && !slices.Contains(Names(due), policy) {
			b.clearFailures(key, next, policy)
		}
	}
}

// Yield gives up the slots that are reserved for an object, because it can't be patched now. The caller has to try again
// later.
func (b *Budget) Yield(now time.Time, key Key) (next Next) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.admit(now, &next, b.cancel(key)...)
	return next
}

// Forget declares that an object does not exist any more.
func (b *Budget) Forget(now time.Time, key Key) (next Next) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting.remove(key)
	b.evictions.forget(key)
	b.clearFailures(key, &next, slices.Collect(maps.Keys(b.failed[unversioned(key)]))...)
	freed := b.cancel(key)
	b.admit(now, &next, append(freed, b.unobserve(key, &next)...)...)
	return next
}

// Observe declares how far an object's rollout is.
func (b *Budget) Observe(now time.Time, key Key, r Rollout) (next Next) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.observe(now, key, r, &next)
	return next
}

// observe is Observe. The caller holds mu.
func (b *Budget) observe(now time.Time, key Key, r Rollout, next *Next) {
	m := b.moving[key]
	if _, known := b.unready[key]; r.Ready && !known && m == nil && b.failed[unversioned(key)] == nil {
		return
	}
	if m != nil {
		m.seen, m.unobserved = r, false
	}
	if r.Ready {
		delete(b.unready, key)
		for policy, f := range b.failed[unversioned(key)] {
			if f.rollout {
				b.clearFailures(key, next, policy)
			}
		}
	} else {
		b.unready[key] = r
	}
	b.conclude(now, key, r, next)
	b.admit(now, next, b.update(key)...)
}

// conclude ends the move of an object whose rollout is over. The caller holds mu and calls update.
func (b *Budget) conclude(now time.Time, key Key, r Rollout, next *Next) {
	m := b.moving[key]
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
				b.fail(now, key, policy, failure{"its rollout failed: " + r.Failure, true}, next)
			}
		}
		b.endRollout(m, next)
	}
	b.drop(key, m)
}

// endRollout declares that no rollout of an object counts any more. The caller holds mu.
func (b *Budget) endRollout(m *movement, next *Next) {
	next.Changed = slices.AppendSeq(next.Changed, maps.Keys(m.following))
	clear(m.following)
	m.adopted, m.deadline, m.late = false, time.Time{}, false
}

// precedes reports whether an object was observed before it was patched, or by what does not say whether it is ready.
func (m *movement) precedes(r Rollout) bool {
	if r.Version == "" || !m.reported {
		return m.reported || r.Generation < m.generation
	}
	order, err := resourceversion.CompareResourceVersion(r.Version, m.version)
	return err != nil || order < 0
}

// drop removes a movement if it is over. The caller holds mu and calls update.
func (b *Budget) drop(key Key, m *movement) {
	if len(m.patching)+len(m.following) == 0 {
		delete(b.moving, key)
	}
}

// ObserveAll declares how far the rollouts of all objects of a type are. There are no others.
func (b *Budget) ObserveAll(now time.Time, resource schema.GroupVersionResource, all map[Key]Rollout) (next Next) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unobserveType(now, resource, all, &next)
	for key, r := range all {
		b.observe(now, key, r, &next)
	}
	return next
}

// Unwatch declares that rollouts of a type are not observed any more. Until Settle is called again, no policy rolls pods.
func (b *Budget) Unwatch(now time.Time, resource schema.GroupVersionResource) (next Next) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unsettle()
	b.unobserveType(now, resource, nil, &next)
	return next
}

// Unsettle declares that policies may match objects whose rollouts have not been observed.
func (b *Budget) Unsettle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unsettle()
}

// unsettle is Unsettle. The caller holds mu.
func (b *Budget) unsettle() {
	b.epoch++
	for _, p := range b.policies {
		p.settled = false
	}
}

// Unobserve declares that an object does not exist any more, or that another one has its name.
func (b *Budget) Unobserve(now time.Time, key Key) (next Next) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.admit(now, &next, b.unobserve(key, &next)...)
	return next
}

// unobserveType forgets the rollouts of a type, except those of the objects that remain. The caller holds mu.
func (b *Budget) unobserveType(now time.Time, resource schema.GroupVersionResource, remaining map[Key]Rollout, next *Next) {
	forget := func(key Key) {
		if _, remains := remaining[key]; key.Resource == resource && !remains && !b.reported(key) {
			b.admit(now, next, b.unobserve(key, next)...)
		}
	}
	for key := range b.unready {
		forget(key)
	}
	for key := range b.moving {
		forget(key)
	}
}

// EndReports declares that no system reports any more where an object runs.
func (b *Budget) EndReports(now time.Time, key Key) (next Next) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reported(key) {
		b.admit(now, &next, b.unobserve(key, &next)...)
	}
	return next
}

// reported reports whether what is known of an object is a report of a system, or waits for one. The caller holds mu.
func (b *Budget) reported(key Key) bool {
	m := b.moving[key]
	return b.unready[key].Version != "" || m != nil && m.reported
}

// unobserve forgets an object's rollout. It returns the policies whose slots that frees. The caller holds mu.
func (b *Budget) unobserve(key Key, next *Next) (freed []string) {
	delete(b.unready, key)
	if m := b.moving[key]; m != nil {
		m.unobserved = true
		b.endRollout(m, next)
		b.drop(key, m)
	}
	return b.update(key)
}

// Recorded declares that an object was decided, so that other policies may match it now, and that the verdicts require a patch.
func (b *Budget) Recorded(now time.Time, key Key, due Due) (next Next) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var freed []string
	b.clearRefusals(key, due, &next)
	b.evictions.recorded(key, due)
	if _, unready := b.unready[key]; unready || b.moving[key] != nil {
		freed = b.update(key)
	}
	if len(b.waiting.byKey) > 0 {
		// The more objects a policy matches, the more of them may be unavailable.
		for _, name := range b.objects.Matching(key) {
			if p := b.policies[name]; p != nil && p.mayHaveMore(b.objects.Matched(name, p.rolled)) {
				freed = append(freed, name)
			}
		}
	}
	b.admit(now, &next, freed...)
	return next
}

// Settled reports whether it is known which objects of a policy are not ready, so that Spend lets the policy roll pods. If
// not, the caller should call Settle as soon as all objects that the policy matches have been observed and decided. epoch
// changes when that has to be found out again.
func (b *Budget) Settled(policy string) (settled bool, epoch int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.policies[policy]
	return p != nil && p.settled, b.epoch
}

// adoption is how long objects whose rollouts are not complete count as moved because an earlier leader may have been moving
// them.
const adoption = 10 * time.Minute

// Settle declares that all objects that a version of a policy matches have been decided, and that the rollouts of those types
// of them are observed that have any. It does nothing if another version is in force, or if that has to be found out again
// since the epoch.
func (b *Budget) Settle(now time.Time, version *placement.Policy, rolled []schema.GroupVersionResource, epoch int) (next Next) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.policies[version.Name]
	if p == nil || p.version != version || b.epoch != epoch {
		return next
	}
	p.settled, p.rolled = true, rolled
	if p.resuming {
		b.takeOver(now, version, &next)
	}
	p.resuming = false
	p.unavailable.Clear()
	for key := range b.unready {
		b.update(key)
	}
	for key := range b.moving {
		b.update(key)
	}
	b.admit(now, &next, append(b.group(version.Name), "")...)
	return next
}

// takeOver goes on with what an earlier leader left of a policy: objects that it may have been moving count as moved for some
// time, and failures that are over do not count any more. The caller holds mu.
func (b *Budget) takeOver(now time.Time, version *placement.Policy, next *Next) {
	for key, failed := range b.failed {
		if _, known := failed[version.Name]; known && !b.objects.Requires(version.Name, key) && !b.unreadyInAnyVersion(key) {
			b.clearFailures(key, next, version.Name)
		}
	}
	for key, r := range b.unready {
		reported := r.Version != ""
		if r.Failure != "" || !reported && !Observes(version, key.Resource.GroupResource()) || !slices.Contains(b.objects.Matching(key), version.Name) {
			continue
		}
		m := b.movementOf(key)
		m.following[version.Name] = !r.Serves
		if m.uid != r.UID {
			// What has failed since it was moved is known to be one of those.
			known := reported && b.failed[unversioned(key)][version.Name].rollout
			m.uid, m.generation, m.version, m.reported, m.adopted, m.late = r.UID, r.Generation, r.Version, reported, !known, known
		}
		b.adoptedUntil = now.Add(adoption).Round(0)
	}
	next.wakeAfter(b.waiting.wakeAt(now, b.adoptedUntil))
}

// unreadyInAnyVersion reports whether an object, without the version of its resource, is not ready. The caller holds mu.
func (b *Budget) unreadyInAnyVersion(key Key) bool {
	for k := range b.unready {
		if unversioned(k) == key {
			return true
		}
	}
	return false
}

// abandon ends the moves of objects of which it is not known whether an earlier leader was moving them. The caller holds mu.
func (b *Budget) abandon(now time.Time, next *Next) {
	b.adoptedUntil = time.Time{}
	for key, m := range b.moving {
		if m.adopted {
			b.endRollout(m, next)
			b.drop(key, m)
			b.admit(now, next, b.update(key)...)
		}
	}
}

// failLate records that objects have failed that do not run in their clusters in time. They go on to count as moved. It returns when
// the next one fails; zero if none does. The caller holds mu.
func (b *Budget) failLate(now time.Time, next *Next) (again time.Time) {
	for key, m := range b.moving {
		if m.deadline.IsZero() {
			continue
		}
		if now.Before(m.deadline) {
			if again.IsZero() || m.deadline.Before(again) {
				again = m.deadline
			}
			continue
		}
		m.deadline, m.late = time.Time{}, true
		reason := fmt.Sprintf("it does not run in its clusters %s after it was moved", m.timeout)
		if m.seen.Missing != "" {
			reason += ": " + m.seen.Missing
		}
		for policy := range m.following {
			b.fail(now, key, policy, failure{reason, true}, next)
		}
		b.admit(now, next, b.update(key)...)
	}
	return again
}

// Resuming returns the policies for which it is not known yet which objects an earlier leader was moving.
func (b *Budget) Resuming() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.resuming()
}

// StopResuming declares that it will not be known any more which objects an earlier leader was moving.
func (b *Budget) StopResuming(now time.Time) (next Next) {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := b.resuming()
	for _, name := range names {
		b.policies[name].resuming = false
	}
	b.admit(now, &next, append(names, "")...)
	return next
}

// resuming is Resuming. The caller holds mu.
func (b *Budget) resuming() (out []string) {
	for name, p := range b.policies {
		if p.resuming {
			out = append(out, name)
		}
	}
	return out
}

// Resume declares what an earlier leader left of a generation of a policy: whether it may be moving objects, which objects
// failed, which pause of the policy's patches lasts, "" for none, and where. Call it before Spend.
func (b *Budget) Resume(now time.Time, policy string, generation int64, moving bool, failed []Failure, pause string, paused containment.Scope) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.policies[policy]
	if p == nil {
		p = newPolicyBudget(now)
		b.policies[policy] = p
	}
	p.resuming = moving
	if p.version != nil && p.version.Generation != generation {
		return
	}
	p.generation, p.pause, p.paused = generation, pause, paused
	p.resuming = p.resuming || len(failed) > 0
	for _, f := range failed {
		b.fail(now, f.Key, policy, failure{f.Reason, f.Rollout}, &Next{})
	}
}

// Release lets a policy's patches go on that stopped because too many failed. ok is false if the policy has no such pause.
func (b *Budget) Release(policy, pause string) (next Next, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.policies[policy]
	if p == nil || p.pause == "" || p.pause != pause {
		return next, false
	}
	b.pardon(policy, &next)
	return next, true
}

// fail records that a patch of an object for a policy, or its rollout, failed. If too many did, it pauses the policy, or some
// namespaces of it. The caller holds mu.
func (b *Budget) fail(now time.Time, key Key, policy string, f failure, next *Next) {
	p := b.policies[policy]
	if p == nil || p.version == nil && !p.resuming {
		return
	}
	key, f.reason = unversioned(key), truncate(f.reason)
	if b.failed[key] == nil {
		b.failed[key] = map[string]failure{}
	}
	before, known := b.failed[key][policy]
	if b.failed[key][policy] = f; f != before {
		next.Changed = append(next.Changed, policy)
	}
	if !known && p.failed(now, key.Namespace) {
		next.Paused = append(next.Paused, policy)
	}
}

// clearFailures records that an object's patches and rollout for some policies do not fail. It lets objects be decided again for
// which that ends a pause. The caller holds mu.
func (b *Budget) clearFailures(key Key, next *Next, policies ...string) {
	key = unversioned(key)
	failed := b.failed[key]
	for _, policy := range policies {
		if _, known := failed[policy]; !known {
			continue
		}
		delete(failed, policy)
		if p := b.policies[policy]; p.recovered(key.Namespace) {
			next.Keys = append(next.Keys, b.waiting.release(policy, p.stops)...)
		}
		next.Changed = append(next.Changed, policy)
	}
	if len(failed) == 0 {
		delete(b.failed, key)
	}
}

// pardon ends a policy's pause, and forgets the failures that caused it. The caller holds mu.
func (b *Budget) pardon(policy string, next *Next) {
	if p := b.policies[policy]; p.pause != "" {
		p.pause, p.paused = "", nil
		next.Keys = append(next.Keys, b.waiting.release(policy, p.stops)...)
		next.Changed = append(next.Changed, policy)
	}
	for key := range b.failed {
		b.clearFailures(key, next, policy)
	}
}

// Open returns the objects that may be patched since some time passed: those whose window opened, and for each pace the one
// that has waited longest.
func (b *Budget) Open(now time.Time) (next Next) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.waiting.due(now) {
		// Another call opened it meanwhile, and scheduled the next one.
		return next
	}
	if !b.adoptedUntil.IsZero() && !now.Before(b.adoptedUntil) {
		b.abandon(now, &next)
	}
	again := b.failLate(now, &next)
	if again.IsZero() || !b.adoptedUntil.IsZero() && b.adoptedUntil.Before(again) {
		again = b.adoptedUntil
	}
	for name, q := range b.waiting.queues {
		switch {
		case q.until.IsZero():
			continue
		case now.Before(q.until):
		case name.reason == forWindow:
			next.Keys = append(next.Keys, q.keys()...)
			continue
		default:
			next.Keys = append(next.Keys, q.first())
			if q.length() == 1 {
				continue
			}
			// If the object needs no patch any more, the others wait no longer than if it had been patched.
			q.until = now.Add(b.intervalBy(name))
		}
		if again.IsZero() || q.until.Before(again) {
			again = q.until
		}
	}
	for _, key := range next.Keys {
		b.waiting.remove(key)
	}
	next.wakeAfter(b.waiting.wakeAt(now, again))
	return next
}

// settleInterval is the time after which an object is tried again that waits until its policy is settled.
const settleInterval = time.Second

// intervalBy returns the time between two objects of a queue. The caller holds mu.
func (b *Budget) intervalBy(name queueName) time.Duration {
	if p := b.policies[name.policy]; p != nil && name.reason == forPace {
		return p.interval
	}
	return settleInterval
}

// PolicyChanged declares that another version of a policy is in force, or none if it is nil. It returns the objects that wait
// for the earlier version. They must be decided again. The pace of the policy's patches goes on, and so do its rollouts.
// Another generation ends a pause because of failures: its patches may succeed.
func (b *Budget) PolicyChanged(now time.Time, name string, version *placement.Policy) (next Next) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.policies[name]
	concerned := append(b.group(name), "")
	switch {
	case p == nil && version == nil:
	case version == nil:
		b.pardon(name, &next)
		// A policy that is created again has no generation in common with this one.
		p.settled, p.resuming, p.version, p.generation = false, false, nil, -1
		b.tidy(now, name)
	case p == nil:
		b.know(version)
	default:
		p.settled = false
		b.apply(version, &next)
	}
	next.Keys = append(next.Keys, b.waiting.removePolicy(name)...)
	b.admit(now, &next, append(concerned, b.group(name)...)...)
	return next
}

// Waiting are the numbers of objects that a policy has to patch and that wait for its budget.
type Waiting struct {
	// Paced are the objects that wait because of the number of patches a minute, or of objects that are moved at the same
	// time.
	Paced int
	// Settling are the objects that wait until it is known which objects are ready.
	Settling int
	// Closed are the objects that wait until a window opens, and Opens is when one does; zero if none ever does.
	Closed int
	Opens  time.Time
	// Unavailable are the objects that wait because too many objects are unavailable: as many as UnavailableNow. At most
	// MaxUnavailable may be.
	Unavailable, UnavailableNow, MaxUnavailable int
	// Stopped are the objects that wait because too many patches failed.
	Stopped int
	// Protected are the Pods that wait because a PodDisruptionBudget does not allow their eviction.
	Protected int
	// Rollouts is the number of objects that were patched and whose rollout is not complete, and of evicted Pods that are not
	// gone. It is not known while Resuming is
	// set: an earlier leader was moving objects.
	Rollouts int
	Resuming bool
	// Failures are the objects whose patch or rollout failed, and Pause identifies the pause because of them; "" for none. PausedIn
	// is where it stops patches, if there is one.
	Failures []Failure
	Pause    string
	PausedIn containment.Scope
}

// Paused reports whether patches of the whole policy stopped because too many failed.
func (w *Waiting) Paused() bool { return w.Pause != "" && w.PausedIn.All() }

// PauseMessage describes why the patches of a policy stopped, and how to let them go on; "" if they did not. It names one of the
// objects.
func (w *Waiting) PauseMessage(policy string) string {
	var example string
	if failed := w.failedThere(); len(failed) > 0 {
		example = fmt.Sprintf(", such as %s: %s", failed[0].Key, failed[0].Reason)
	}
	return w.pauseMessage(policy, example)
}

// PauseNote is PauseMessage without an object, for an Event on the policy.
func (w *Waiting) PauseNote(policy string) string { return w.pauseMessage(policy, "") }

// failedThere returns the failures where the pause stops patches.
func (w *Waiting) failedThere() []Failure {
	return slices.DeleteFunc(slices.Clone(w.Failures), func(f Failure) bool { return !w.PausedIn.Includes(f.Namespace) })
}

func (w *Waiting) pauseMessage(policy, example string) string {
	if w.Pause == "" {
		return ""
	}
	var where string
	if !w.PausedIn.All() {
		where = " " + w.PausedIn.String()
	}
	cause, correct := fmt.Sprintf("%d objects failed", len(w.failedThere())), "Correct the cause, then let"
	if len(w.failedThere()) == 0 {
		cause, correct = "objects failed that do not fail any more", "Let"
	}
	return fmt.Sprintf("%s, so Berth patches no more objects of this policy%s (spec.remediation.budget.pauseAfterFailures)%s. "+
		"%s the patches go on: kubectl annotate placementpolicy %s --overwrite %s=%s",
		cause, where, example, correct, policy, placementv1.ResumeAfterFailuresAnnotation, w.Pause)
}

// Failure is an object whose patch the API server refused, or whose rollout failed after a patch.
type Failure struct {
	// Key is the object, without the version of its resource.
	Key
	Reason string
	// Rollout reports whether it is the rollout that failed.
	Rollout bool
}

// Waiting returns the numbers of objects that a policy has to patch and that wait for a budget.
func (b *Budget) Waiting(policy string) Waiting {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out Waiting
	p := b.policies[policy]
	for key, w := range b.waiting.byKey {
		if !slices.ContainsFunc(w.claims, func(c claim) bool { return c.policy.Name == policy }) {
			continue
		}
		reason := w.in.reason
		if p != nil && p.stops(key.Namespace) {
			// Its patches stopped while it waited for something else.
			reason = forRelease
		}
		switch reason {
		case forWindow:
			out.Closed++
			if opens := b.waiting.queues[w.in].until; out.Opens.IsZero() || !opens.IsZero() && opens.Before(out.Opens) {
				out.Opens = opens
			}
		case forAvailability:
			out.Unavailable++
		case forRelease:
			out.Stopped++
		case forSettling:
			out.Settling++
		default:
			out.Paced++
		}
	}
	out.Protected = b.evictions.protected(policy)
	if p == nil || policy == "" {
		return out
	}
	if out.Unavailable > 0 {
		out.UnavailableNow, out.MaxUnavailable = p.unavailable.Len(), p.maxUnavailable(b.objects.Matched(policy, p.rolled))
	}
	out.Resuming = p.resuming
	for key := range p.moving.Set {
		if b.moving[key].follows(policy) {
			out.Rollouts++
		}
	}
	out.Pause, out.PausedIn = p.pause, p.paused
	for key, reasons := range b.failed {
		if f, failed := reasons[policy]; failed {
			out.Failures = append(out.Failures, Failure{key, f.reason, f.rollout})
		}
	}
	slices.SortFunc(out.Failures, func(a, b Failure) int { return compareKeys(a.Key, b.Key) })
	return out
}

// know makes sure that a policy has a budget. If it has none yet, it gets the bounds of this version. The caller holds mu.
func (b *Budget) know(version *placement.Policy) {
	if b.policies[version.Name] == nil {
		b.policies[version.Name] = newPolicyBudget(b.began)
	}
	if b.policies[version.Name].version == nil {
		b.apply(version, &Next{})
	}
}

// apply sets the bounds of a version of a policy. Another generation ends a pause because of failures. The caller holds mu.
func (b *Budget) apply(version *placement.Policy, next *Next) {
	p := b.policies[version.Name]
	if p.generation != version.Generation {
		b.pardon(version.Name, next)
	}
	regrouped := p.bounds.Group != version.Budget.Group
	if regrouped {
		p.usage = b.usageOf(version.Budget.Group, p.last)
	}
	if p.apply(version); !regrouped {
		return
	}
	for key := range b.moving {
		b.update(key)
	}
}

// usageOf returns what is done for the policies of a group, or a new usage for none. A policy that joins it was patched for last at a
// time. The caller holds mu.
func (b *Budget) usageOf(group string, last time.Time) *usage {
	for _, p := range b.policies {
		if group != "" && p.bounds.Group == group {
			if last.After(p.last) {
				p.earlier, p.last = p.last, last
			}
			return p.usage
		}
	}
	return newUsage(last)
}

// group returns the names of the policies that share the usage of a policy, and its own. Each keeps to the bounds of all of them. The caller
// holds mu.
func (b *Budget) group(policy string) []string {
	out := []string{policy}
	if p := b.policies[policy]; p != nil && p.bounds.Group != "" {
		for name, other := range b.policies {
			if other.usage == p.usage && other.version != nil && name != policy {
				out = append(out, name)
			}
		}
	}
	return out
}

// usesOf returns what patches for the claims count for. The caller holds mu.
func (b *Budget) usesOf(claims []claim) sets.Set[*usage] {
	out := sets.New(b.policies[""].usage)
	for _, c := range claims {
		out.Insert(b.policies[c.policy.Name].usage)
	}
	return out
}

// blocks returns what an object has to wait for, and until when; zero if only an event can end the wait. The caller holds mu.
func (b *Budget) blocks(now time.Time, key Key, claims []claim) (in queueName, until time.Time, waits bool) {
	for _, c := range claims {
		p, name := b.policies[c.policy.Name], c.policy.Name
		if p == nil || p.version == nil {
			// The policy was deleted, so its verdict will not be due any more.
			continue
		}
		if p.stops(key.Namespace) && !b.mayBeMended(name, key) {
			return queueName{policy: name, reason: forRelease, namespace: key.Namespace}, time.Time{}, true
		}
		if open, next := p.version.Windows.Open(now); !open {
			return queueName{policy: name, reason: forWindow}, next, true
		}
		if !p.settled && (c.follows || p.resuming && p.boundsMoves()) || p.boundsMoves() && b.othersResume(name) {
			return queueName{policy: name, reason: forSettling}, now.Add(settleInterval), true
		}
		if in, waits := p.blocksRollout(key, name, c.rolls, b.objects); waits {
			return in, time.Time{}, true
		}
		for _, member := range b.group(name) {
			if in, until, waits := b.policies[member].blocks(now, key, member); waits {
				return in, until, true
			}
		}
	}
	overall := b.policies[""]
	if overall.boundsMoves() && len(b.resuming()) > 0 {
		return queueName{reason: forSettling}, now.Add(settleInterval), true
	}
	return overall.blocks(now, key, "")
}

// othersResume reports whether it is not known yet which objects an earlier leader was moving for other policies of the group. The caller
// holds mu.
func (b *Budget) othersResume(policy string) bool {
	return slices.ContainsFunc(b.group(policy)[1:], func(name string) bool { return b.policies[name].resuming })
}

// mayBeMended reports whether the patch of an object is tried again although the patches of its namespace stopped: that ends when what
// was refused is accepted. A stop of all patches lasts until it is released. The caller holds mu.
func (b *Budget) mayBeMended(policy string, key Key) bool {
	f, failed := b.failed[unversioned(key)][policy]
	return failed && !f.rollout && !b.policies[policy].paused.All()
}

// reserve makes an object count as moved. The caller holds mu.
func (b *Budget) reserve(key Key, claims []claim) {
	m := b.movementOf(key)
	m.reserved = true
	for _, c := range claims {
		m.patching[c.policy.Name] = c
	}
	b.update(key)
}

// movementOf returns the movement of an object, which is new if there is none. The caller holds mu.
func (b *Budget) movementOf(key Key) *movement {
	m := b.moving[key]
	if m == nil {
		m = &movement{patching: map[string]claim{}, following: map[string]bool{}, seen: b.unready[key]}
		b.moving[key] = m
	}
	return m
}

// cancel ends the reservation of an object if it has one. It returns the policies whose slots it frees. The caller holds mu.
func (b *Budget) cancel(key Key) (freed []string) {
	m := b.moving[key]
	if m == nil || !m.reserved {
		return nil
	}
	m.reserved = false
	clear(m.patching)
	b.drop(key, m)
	return b.update(key)
}

// update recomputes what an object is to the budgets of all policies. It returns those whose slots that frees. The caller
// holds mu.
func (b *Budget) update(key Key) (freed []string) {
	m := b.moving[key]
	r, unready := b.unready[key]
	unready = unready && !r.Serves
	matching := b.objects.Matching(key)
	var freedIn []*usage
	for name, p := range b.policies {
		moving, late, unavailable := p.moving.Has(key), p.late.Has(key), p.unavailable.Has(key)
		p.moving.put(key, b.moves(m, name))
		p.late.put(key, p.moving.Has(key) && m.late && len(m.patching) == 0)
		setMember(p.unavailable, key, (unready || m.rolls()) && (slices.Contains(matching, name) && (p.countsUnready(key) || r.Version != "") || m.counts(name)))
		if moving && !p.moving.Has(key) || !late && p.late.Has(key) {
			freedIn = append(freedIn, p.usage)
		}
		if unavailable && !p.unavailable.Has(key) {
			freed = append(freed, name)
		}
	}
	for name, p := range b.policies {
		if slices.Contains(freedIn, p.usage) && !slices.Contains(freed, name) {
			freed = append(freed, name)
		}
	}
	return freed
}

// moves reports whether the policy, or another one of its group, moves an object. The caller holds mu.
func (b *Budget) moves(m *movement, policy string) bool {
	if m == nil || b.policies[policy].bounds.Group == "" {
		return m.counts(policy)
	}
	return slices.ContainsFunc(b.group(policy), m.counts)
}

// admit adds to next the waiting objects that may be patched now, after slots of some policies may have become free, and
// reserves slots for them. The caller holds mu.
func (b *Budget) admit(now time.Time, next *Next, policies ...string) {
	for _, policy := range policies {
		for _, reason := range []waitReason{forSettling, forConcurrency, forAvailability} {
			b.admitFrom(now, next, queueName{policy: policy, reason: reason})
		}
		for namespace := range b.waiting.namespaces[policy] {
			b.admitFrom(now, next, queueName{policy: policy, reason: forNamespace, namespace: namespace})
		}
	}
}

// admitFrom admits objects that wait in one queue. Objects that must wait for something else move to another queue, unless
// that is a slot of the same policy: admit looks at all queues of a policy, and objects would move back and forth. The caller
// holds mu.
func (b *Budget) admitFrom(now time.Time, next *Next, name queueName) {
	for q := b.waiting.queues[name]; q != nil; q = b.waiting.queues[name] {
		key := q.first()
		claims := b.waiting.byKey[key].claims
		in, until, waits := b.blocks(now, key, claims)
		if waits && (in == name || name.reason == forNamespace && in.policy == name.policy && until.IsZero()) {
			return
		}
		b.waiting.remove(key)
		if waits {
			next.wakeAfter(b.waiting.add(now, key, claims, in, until))
			continue
		}
		b.reserve(key, claims)
		next.Keys = append(next.Keys, key)
	}
}
