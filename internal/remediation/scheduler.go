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
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/placement"
)

// Scheduler says when existing objects may be patched or evicted. It keeps to the budgets and windows of the policies and of all policies together,
// delays patches while the data of their policy keeps changing, and lets one patch probe for others when patches fail. It delays patches and
// never drops any. docs/scheduler.md has its states and rules. It is safe for concurrent use.
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
type Scheduler struct {
	objects Matches
	exempt  func(policy string) bool
	changes notify.Signal

	mu    sync.Mutex
	began time.Time
	// policies has the bounds of each policy that patched anything, and all those of all policies together.
	policies map[string]*bounds
	all      *bounds
	line     line
	// dirty is set if objects that wait may go on since the last pass, and wake is when they may because time passed; zero if
	// only an event can help.
	dirty bool
	wake  time.Time
	// news is what Schedule has to return besides the objects of a pass.
	news Next
	// moving holds the objects that are moved, and unready those that are not ready.
	moving  map[Key]*movement
	unready map[Key]Rollout
	// counted are the bounds for which an object is moved or unavailable.
	counted map[Key][]*bounds
	// late is when the first movement fails that has a deadline; zero if none has.
	late time.Time
	// failed holds the objects whose patch or rollout failed, without the version of the resource, by policy.
	failed map[Key]map[string]failure
	// refusals holds the delay before the next attempt for each object whose last patch was refused.
	refusals  map[Key]time.Duration
	evictions evictions
	histories
	// resumeUntil is when it is given up to find out what an earlier leader was moving; zero if that is known, or given up.
	resumeUntil time.Time
	// adoptedUntil is when objects no longer count as moved because an earlier leader may have been moving them; zero if none
	// do.
	adoptedUntil time.Time
	// epoch is the number of calls of unsettle.
	epoch int
}

// Matches knows which policies match existing objects. The Ledger implements it. It must not call the Scheduler.
type Matches interface {
	// Matching returns the policies that matched an object when it was last decided.
	Matching(key Key) []string
	// Matched returns the number of objects of some types that a policy matches.
	Matched(policy string, types []schema.GroupVersionResource) int
	// Requires reports whether a policy requires a move of an object. The version of its resource does not matter.
	Requires(policy string, key Key) bool
	// Holds returns since when assessments of a policy follow one another, zero if none is open, and whether a change is not carried out in a
	// namespace because it would harm too many objects.
	Holds(policy, namespace string) (assessed time.Time, paused bool)
}

// Limits are bounds for all policies together. 0 means no bound.
type Limits struct {
	// MaxPerMinute bounds the patches a minute, and MaxConcurrent the objects that are moved at the same time.
	MaxPerMinute, MaxConcurrent int
}

// Next is what the caller of Schedule must do next.
type Next struct {
	// Keys are objects to decide again now. They may be patched, so each must be asked for, or given back with Yield or Decided.
	Keys []Key
	// Wake is when Schedule must be called again at the latest; zero if only after an event.
	Wake time.Time
	// Unsettled are the policies of which it must be known what is ready before waiting objects may go on. See Settled.
	Unsettled []string
	// Paused are the policies whose patches stopped, in all namespaces or in some, because too many failed. Changed are those
	// whose rollouts or failures changed.
	Paused, Changed []string
}

// NewScheduler returns a scheduler. objects knows the objects that the policies match. exempt reports whether changes of a policy's data are
// not held down; it must not call the Scheduler.
func NewScheduler(limits Limits, objects Matches, exempt func(policy string) bool) *Scheduler {
	s := &Scheduler{
		objects: objects, exempt: exempt, changes: notify.NewSignal(), policies: map[string]*bounds{}, all: newBounds("", time.Time{}), line: newLine(),
		moving: map[Key]*movement{}, unready: map[Key]Rollout{}, counted: map[Key][]*bounds{}, failed: map[Key]map[string]failure{}, refusals: map[Key]time.Duration{},
		evictions: newEvictions(), histories: newHistories(),
	}
	s.all.apply(&placement.Policy{Budget: placementv1.RemediationBudget{MaxPerMinute: int32(limits.MaxPerMinute), MaxConcurrent: int32(limits.MaxConcurrent)}})
	return s
}

// Changes wakes the one caller of Schedule: something may have changed that it returns.
func (s *Scheduler) Changes() <-chan struct{} { return s.changes }

// Begin declares that this replica begins to lead. Call it before Ask.
func (s *Scheduler) Begin(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began, s.all.last = now, now
	for _, b := range s.policies {
		b.last = now
	}
}

// Ask reports whether an object may be patched or evicted now for the verdicts. If so, the patch counts, and Done must be called
// when it is over. If not, the object waits until Schedule returns it; if retry is not 0, the caller has to ask again after that time instead.
func (s *Scheduler) Ask(now time.Time, key Key, obj *unstructured.Unstructured, due Due, carrier Carrier) (ok bool, retry time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	claims := claimsOf(key, due, carrier)
	for _, c := range claims {
		s.know(c.policy)
	}
	if s.due(now) {
		// No object overtakes those that have waited longer.
		s.pass(now)
	}
	granted := s.cancel(key)
	place := cmp.Or(granted, s.line.byKey[key])
	if due.Evicts(key.Resource.GroupResource()) {
		if retry = s.evictions.delay(now, key, obj, due); retry > 0 {
			s.line.remove(key)
			return false, retry
		}
	}
	since := now
	if place != nil {
		since = place.since
	}
	if blocked := s.blocked(now, key, claims, since, granted != nil); blocked.reason != forNothing {
		s.wait(now, key, claims, blocked, place)
		return false, 0
	}
	s.line.remove(key)
	for u := range s.usesOf(claims) {
		u.earlier, u.last = u.last, now
	}
	m := s.reserve(now, key, claims)
	m.began, m.reported = now, carrier.Reports
	for _, c := range claims {
		s.policies[c.policy.Name].data.act(now)
	}
	return true, 0
}

// due reports whether a pass is due. The caller holds mu.
func (s *Scheduler) due(now time.Time) bool { return s.dirty || passed(s.wake, now) }

// passed reports whether a time has come; zero never does.
func passed(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// earliest returns the earlier one of two times, of which zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// wait makes an object wait at the place that it had; nil for the end of the line. The caller holds mu.
func (s *Scheduler) wait(now time.Time, key Key, claims []claim, blocked block, place *waiter) {
	s.changes.Notify()
	if slices.ContainsFunc(claims, func(c claim) bool { b := s.policies[c.policy.Name]; return b == nil || b.version == nil }) {
		// The policy was deleted, so its verdict will not be due any more.
		s.line.remove(key)
		s.news.Keys = append(s.news.Keys, key)
		return
	}
	s.classify(s.line.put(now, key, claims, place))
	s.wake = earliest(s.wake, blocked.until)
	s.dirty = s.dirty || blocked.reason == forSettling
}

// classify puts a waiting object into its class. The caller holds mu, and calls it whenever classOf changes.
func (s *Scheduler) classify(w *waiter) { s.line.classify(w, s.classOf(w)) }

// classOf returns the class of a waiting object: what blocked reads of one object is equal for all objects of a class. The caller holds mu.
func (s *Scheduler) classOf(w *waiter) classID {
	id := classID{namespace: w.key.Namespace}
	if s.moving[w.key] != nil {
		id.own = w.key
	}
	var text strings.Builder
	for _, c := range w.claims {
		b := s.policies[c.policy.Name]
		// No name contains a slash.
		text.WriteString(c.policy.Name)
		for _, differs := range []bool{c.follows, c.rolls, b.unavailable.Has(w.key), b.probes.has(w.key), s.refusedFor(b, w.key)} {
			text.WriteByte(byte('/' + count(differs)))
		}
	}
	id.claims = text.String()
	return id
}

// reclassify puts all waiting objects into their classes. The caller holds mu.
func (s *Scheduler) reclassify() {
	for _, w := range s.line.byKey {
		s.classify(w)
	}
}

// freed declares that waiting objects may go on. The caller holds mu.
func (s *Scheduler) freed() {
	if len(s.line.byKey) > 0 {
		s.dirty = true
		s.changes.Notify()
	}
}

// Schedule returns the objects that may go on, and what else has changed since it was called last. It grants each of them what its patch
// needs.
func (s *Scheduler) Schedule(now time.Time) Next {
	s.mu.Lock()
	defer s.mu.Unlock()
	if passed(s.adoptedUntil, now) {
		s.abandon()
	}
	if passed(s.resumeUntil, now) {
		s.stopResuming()
	}
	if passed(s.late, now) {
		s.failLate(now)
	}
	if s.due(now) {
		s.pass(now)
	}
	out := s.news
	s.news = Next{}
	out.Wake = earliest(earliest(s.wake, s.resumeUntil), earliest(s.adoptedUntil, s.late))
	for _, names := range []*[]string{&out.Unsettled, &out.Paused, &out.Changed} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	return out
}

// pass grants patches to the objects that nothing keeps back, those first that have waited longest. The caller holds mu.
func (s *Scheduler) pass(now time.Time) {
	late := passed(s.wake, now)
	s.dirty, s.wake = false, time.Time{}
	var open byTurn
	for _, c := range s.line.classes {
		if c.last = false; late {
			// They may wait for something else from now on.
			for _, claim := range c.first().claims {
				s.changed(claim.policy.Name)
			}
		}
		if s.mayGoOn(now, c) {
			open = append(open, c)
		}
	}
	s.postpone(open)
	heap.Init(&open)
	for len(open) > 0 {
		c := open[0]
		if !s.mayGoOn(now, c) {
			heap.Pop(&open)
			continue
		}
		w, last := c.first(), c.waiters.Len() == 1
		if last {
			heap.Pop(&open)
		}
		s.grant(now, w)
		if !last {
			heap.Fix(&open, 0)
		}
	}
}

// postpone lets objects go first that have not failed where one object has to probe for others: they may succeed. The caller holds mu.
func (s *Scheduler) postpone(open byTurn) {
	fresh := map[any]bool{}
	for _, visit := range []func(c *class, streak any, failed bool){
		func(_ *class, streak any, failed bool) { fresh[streak] = fresh[streak] || !failed },
		func(c *class, streak any, failed bool) { c.last = c.last || failed && fresh[streak] },
	} {
		for _, c := range open {
			key := c.first().key
			for _, claim := range c.first().claims {
				probes := &s.policies[claim.policy.Name].probes
				in, wide := probes.streaksOf(key)
				if in != nil {
					visit(c, in, in.members.Has(key))
				}
				if wide != nil {
					visit(c, wide, wide.members.Has(key.Namespace))
				}
			}
		}
	}
}

// mayGoOn reports whether nothing keeps back the first object of a class. Otherwise it remembers when that may end. The caller holds mu.
func (s *Scheduler) mayGoOn(now time.Time, c *class) bool {
	w := c.first()
	blocked := s.blocked(now, w.key, w.claims, w.since, false)
	s.wake = earliest(s.wake, blocked.until)
	if blocked.reason == forSettling {
		s.news.Unsettled = append(s.news.Unsettled, blocked.policy)
	}
	return blocked.reason == forNothing
}

// grant takes what the patch of a waiting object needs. The caller holds mu.
func (s *Scheduler) grant(now time.Time, w *waiter) {
	s.line.remove(w.key)
	for u := range s.usesOf(w.claims) {
		u.granted = now
	}
	s.reserve(now, w.key, w.claims).granted = w
	s.news.Keys = append(s.news.Keys, w.key)
}

// reserve makes an object count as moved, and as the probe of its policies. The caller holds mu.
func (s *Scheduler) reserve(now time.Time, key Key, claims []claim) *movement {
	m := s.movementOf(key)
	for _, c := range claims {
		m.patching[c.policy.Name] = c
		if b := s.policies[c.policy.Name]; b != nil {
			b.probes.begin(now, key)
		}
	}
	s.update(key)
	return m
}

// cancel takes back what an object was granted. It returns the place that it had in line; nil if it was granted nothing. The caller holds mu.
func (s *Scheduler) cancel(key Key) (place *waiter) {
	m := s.moving[key]
	if m == nil || m.granted == nil {
		return nil
	}
	place, m.granted = m.granted, nil
	for policy := range m.patching {
		if b := s.policies[policy]; b != nil {
			b.probes.end(key)
		}
	}
	clear(m.patching)
	s.drop(key, m)
	s.update(key)
	return place
}

// holdLimit is the maximum time for which an object waits for assessments. New ones may begin whenever data changes.
const holdLimit = 2 * AssessmentLimit

// blocked returns what keeps an object back that waits since some time. granted reports whether it was granted a patch, so that its turn has
// come. The caller holds mu.
func (s *Scheduler) blocked(now time.Time, key Key, claims []claim, since time.Time, granted bool) block {
	for _, c := range claims {
		if out := s.held(now, key, c.policy.Name, since); out.reason != forNothing {
			return out
		}
	}
	for _, c := range claims {
		b := s.policies[c.policy.Name]
		if b == nil || b.version == nil {
			// The policy was deleted, so its verdict will not be due any more.
			continue
		}
		if out := s.blockedBy(now, key, c, b, granted); out.reason != forNothing {
			return out
		}
	}
	if s.all.boundsMoves() {
		if resuming := s.resuming(); len(resuming) > 0 {
			return block{forSettling, resuming[0], now.Add(settleInterval)}
		}
	}
	return s.all.blocked(now, key, granted)
}

// held returns how the ledger keeps an object back that waits since some time. The caller holds mu.
func (s *Scheduler) held(now time.Time, key Key, policy string, since time.Time) block {
	assessed, paused := s.objects.Holds(policy, key.Namespace)
	if paused {
		return block{reason: forChange, policy: policy}
	}
	if assessed.After(since) {
		since = assessed
	}
	if until := since.Add(holdLimit); !assessed.IsZero() && now.Before(until) {
		return block{forChange, policy, until}
	}
	return block{}
}

// settleInterval is the time after which it is tried again to find out what is ready.
const settleInterval = time.Second

// blockedBy returns how one of the policies that want to patch an object keeps it back. The caller holds mu.
func (s *Scheduler) blockedBy(now time.Time, key Key, c claim, b *bounds, granted bool) block {
	if b.stops(key.Namespace) && !s.mayBeMended(b, key) {
		return block{reason: forRelease, policy: b.name}
	}
	if until := b.probes.until(now, key); !until.IsZero() {
		return block{forProbe, b.name, until}
	}
	if until := b.data.until(now); !until.IsZero() && !s.exempt(b.name) {
		return block{forData, b.name, until}
	}
	if open, opens := b.version.Windows.Open(now); !open {
		return block{forWindow, b.name, opens}
	}
	if bounded := b.sharesBounds(); !b.settled && (c.follows || b.resuming && bounded) || bounded && b.othersResume() {
		return block{forSettling, b.name, now.Add(settleInterval)}
	}
	if c.rolls && b.takesTooMany(key, s.objects) {
		return block{reason: forAvailability, policy: b.name}
	}
	for member := range b.members {
		if out := member.blocked(now, key, granted); out.reason != forNothing {
			return out
		}
	}
	return block{}
}

// mayBeMended reports whether the patch of an object is tried again although the patches of its namespace stopped: that ends when what
// was refused is accepted. A stop of all patches lasts until it is released. The caller holds mu.
func (s *Scheduler) mayBeMended(b *bounds, key Key) bool {
	return !b.paused.All() && s.refusedFor(b, key)
}

// refusedFor reports whether the last patch of an object for the policy was refused. The caller holds mu.
func (s *Scheduler) refusedFor(b *bounds, key Key) bool {
	f, failed := s.failed[unversioned(key)][b.name]
	return failed && !f.rollout
}

// Ending is how a patch or an eviction ended.
type Ending uint8

const (
	// Unmade means that the object is gone, or was changed by others, so that it is decided again.
	Unmade Ending = iota
	// Made means that the object has the placement that was decided, or is evicted.
	Made
	// Overtaken means that the object was changed, and has another placement.
	Overtaken
	// Refused means that the API server refused to patch this object for a reason of its own.
	Refused
	// Failed means that it was not patched for a reason that other objects may share.
	Failed
	// Protected means that a PodDisruptionBudget does not allow the eviction. It does not count for the pace.
	Protected
)

// Patch is the result of a patch or an eviction.
type Patch struct {
	Ending Ending
	// Object is the object that was patched or evicted, as it was before, and Data what DataOf returned for it.
	Object *unstructured.Unstructured
	Data   uint64
	// UID, Generation, and Version are those of the object since the patch, if it was made or overtaken.
	UID        types.UID
	Generation int64
	Version    string
	// Reason is why the API server refused it.
	Reason string
}

// changed reports whether the patch changed the object.
func (p Patch) changed() bool { return p.Ending == Made || p.Ending == Overtaken }

// Result is what follows from a patch.
type Result struct {
	// Retry is the delay before the next attempt; 0 if the scheduler or an event has the object decided again.
	Retry time.Duration
	// Report reports whether the failure should be logged.
	Report bool
	// Age is the age that the next Pods of the evicted one's controller need before they are evicted; 0 for none. They were created after
	// an eviction for the same changes, and require them again.
	Age time.Duration
	// Unsettled reports whether the object was patched too often within a minute.
	Unsettled bool
}

// Done declares that a patch that Ask allowed is over.
func (s *Scheduler) Done(now time.Time, key Key, due Due, patch Patch) Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	var claims []claim
	var began time.Time
	if m := s.moving[key]; m != nil {
		claims, began = m.claims(), m.began
		s.end(now, key, m, due, patch)
	}
	out := s.learn(now, key, due, patch)
	evicts := patch.Object != nil && due.Evicts(key.Resource.GroupResource())
	switch {
	case patch.Ending == Failed:
		s.line.remove(key)
		s.wait(now, key, claims, s.blocked(now, key, claims, now, false), nil)
	case patch.Ending == Protected:
		out.Retry = s.evictions.protect(now, key, due)
	case patch.Ending == Made && evicts:
		out.Age = s.evictions.evicted(began, key, patch.Object, due)
	case patch.changed() && !evicts && patch.Object != nil:
		out.Unsettled = s.patched(now, key, patch, due)
	}
	return out
}

// end ends the patch of a movement. The caller holds mu.
func (s *Scheduler) end(now time.Time, key Key, m *movement, due Due, patch Patch) {
	for _, name := range Names(due) {
		switch {
		case patch.Ending == Refused && m.unobserved:
			// The object may not exist any more.
		case patch.Ending == Refused:
			s.fail(now, key, name, failure{reason: patch.Reason})
		case patch.changed():
			s.clearFailures(key, name)
		}
	}
	if patch.Ending == Protected {
		s.takeBack(m)
	}
	if patch.changed() {
		m.uid, m.generation, m.version, m.adopted, m.evicted = patch.UID, patch.Generation, patch.Version, false, due.Evicts(key.Resource.GroupResource())
		s.follow(now, m)
	}
	clear(m.patching)
	s.conclude(now, key, m.seen)
	s.update(key)
}

// learn records what the result of a patch says of others. The caller holds mu.
func (s *Scheduler) learn(now time.Time, key Key, due Due, patch Patch) (out Result) {
	for _, name := range Names(due) {
		b := s.policies[name]
		if b == nil {
			continue
		}
		if len(b.probes.objects) > 0 {
			s.freed()
		}
		b.probes.end(key)
		switch patch.Ending {
		case Failed:
			b.probes.fail(now, key)
			out.Report = b.probes.report(now) || out.Report
		case Refused:
			out.Report = b.probes.report(now) || out.Report
		case Made:
			for other := range b.probes.succeed(key) {
				if w := s.line.byKey[other]; w != nil {
					s.classify(w)
				}
			}
		}
		s.tidy(now, b)
	}
	switch patch.Ending {
	case Refused:
		out.Retry = min(max(2*s.refusals[key], refusedDelay), retryDelayMax)
		s.refusals[key] = out.Retry
	case Made:
		delete(s.refusals, key)
	}
	return out
}

// takeBack takes back that a patch counts for the pace, unless another one began meanwhile. The caller holds mu.
func (s *Scheduler) takeBack(m *movement) {
	for u := range s.usesOf(m.claims()) {
		if !u.last.Equal(m.began) {
			continue
		}
		if u.last = u.earlier; !u.granted.After(m.began) {
			u.granted = time.Time{}
		}
	}
}

// tidy removes the bounds of a policy that was deleted, if there is nothing to remember. The caller holds mu.
func (s *Scheduler) tidy(now time.Time, b *bounds) {
	if b != nil && b.version == nil && b.idle(now) {
		b.members.Delete(b)
		delete(s.policies, b.name)
	}
}

// Decided declares that an object was decided, so that other policies may match it now, and which verdicts require a patch. If none do, the
// object does not wait any more, and failures of its patches do not count, unless they are those of an earlier leader, of which it is not
// known yet whether they last.
func (s *Scheduler) Decided(key Key, due Due) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearRefusals(key, due)
	s.evictions.decided(key, due)
	if _, unready := s.unready[key]; unready || s.moving[key] != nil {
		s.update(key)
	}
	if len(s.line.byKey) > 0 {
		// The more objects a policy matches, the more of them may be unavailable.
		for _, name := range s.objects.Matching(key) {
			if b := s.policies[name]; b != nil && b.mayHaveMore(s.objects.Matched(name, b.rolled)) {
				s.freed()
			}
		}
	}
	if len(due) == 0 {
		s.line.remove(key)
		s.cancel(key)
	}
}

// Reconsider declares that Matches no longer holds back objects that it held back before.
func (s *Scheduler) Reconsider() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freed()
}

// Yield gives back what an object was granted, because it can't be patched now. The caller has to try again later.
func (s *Scheduler) Yield(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel(key)
}

// Forget declares that an object does not exist any more.
func (s *Scheduler) Forget(now time.Time, key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line.remove(key)
	s.evictions.forget(key)
	delete(s.refusals, key)
	delete(s.byKey, key)
	s.clearFailures(key, slices.Collect(maps.Keys(s.failed[unversioned(key)]))...)
	s.cancel(key)
	s.unobserve(key)
	for _, b := range s.policies {
		if len(b.probes.objects) > 0 {
			b.probes.forget(key)
			s.freed()
		}
	}
}

// DataChanged declares that the data of a policy changed.
func (s *Scheduler) DataChanged(policy string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.policies[policy]; b != nil {
		b.data.revised = true
	}
}

// PolicyChanged declares that another version of a policy is in force, or none if it is nil. The objects that wait for the earlier version
// must be decided again. The pace of the policy's patches goes on, and so do its rollouts. Another generation ends a pause because of
// failures: its patches may succeed.
func (s *Scheduler) PolicyChanged(now time.Time, name string, version *placement.Policy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if again := s.line.removePolicy(name); len(again) > 0 {
		s.news.Keys = append(s.news.Keys, again...)
		s.changes.Notify()
	}
	b := s.policies[name]
	switch {
	case b == nil && version == nil:
	case version == nil:
		s.pardon(name)
		s.regroup(b, "")
		// A policy that is created again has no generation in common with this one.
		b.settled, b.resuming, b.left, b.version, b.generation = false, false, nil, nil, -1
		s.tidy(now, b)
	case b == nil:
		s.know(version)
	default:
		b.settled = false
		s.apply(version)
	}
	if b != nil {
		b.probes, b.data = failing{}, holding{}
	}
	s.freed()
}

// know makes sure that the bounds of a policy are known. If they are not yet, they are those of this version. The caller holds mu.
func (s *Scheduler) know(version *placement.Policy) {
	if s.policies[version.Name] == nil {
		s.policies[version.Name] = newBounds(version.Name, s.began)
	}
	if s.policies[version.Name].version == nil {
		s.apply(version)
	}
}

// apply sets the bounds of a version of a policy. Another generation ends a pause because of failures. The caller holds mu.
func (s *Scheduler) apply(version *placement.Policy) {
	b := s.policies[version.Name]
	if b.generation != version.Generation {
		s.pardon(version.Name)
	}
	s.regroup(b, version.Budget.Group)
	b.apply(version)
}

// regroup makes a policy share what is done for the policies of a group; "" for none. The caller holds mu.
func (s *Scheduler) regroup(b *bounds, group string) {
	if b.limits.Group == group {
		return
	}
	b.limits.Group = group
	shared := newUsage(b.last)
	for _, other := range s.policies {
		if group != "" && other != b && other.limits.Group == group {
			shared = other.usage
			if b.last.After(shared.last) {
				shared.earlier, shared.last = shared.last, b.last
			}
			break
		}
	}
	before := b.members.UnsortedList()
	b.share(shared)
	for key := range s.moving {
		s.update(key, before...)
	}
}

// usesOf returns what patches for the claims count for. The caller holds mu.
func (s *Scheduler) usesOf(claims []claim) sets.Set[*usage] {
	out := sets.New(s.all.usage)
	for _, c := range claims {
		if b := s.policies[c.policy.Name]; b != nil {
			out.Insert(b.usage)
		}
	}
	return out
}

// update recomputes what an object is to the bounds of the policies that match or move it, of those to which it was something before, and of
// others. The caller holds mu.
func (s *Scheduler) update(key Key, others ...*bounds) {
	m := s.moving[key]
	r, unready := s.unready[key]
	unready = unready && !r.Serves
	matching := s.objects.Matching(key)
	concerned := sets.New(others...).Insert(s.counted[key]...)
	for _, name := range append(m.policies(), matching...) {
		if b := s.policies[name]; b != nil {
			concerned.Insert(b.members.UnsortedList()...)
		}
	}
	freed := s.all.count(key, m, false)
	var counted []*bounds
	for b := range concerned {
		matched := slices.Contains(matching, b.name) && (b.countsUnready(key) || r.Version != "")
		freed = b.count(key, m, (unready || m.rolls()) && (matched || m.movesFor(b.name))) || freed
		if b.moving.Has(key) || b.unavailable.Has(key) {
			counted = append(counted, b)
		}
	}
	if s.counted[key] = counted; counted == nil {
		delete(s.counted, key)
	}
	if w := s.line.byKey[key]; w != nil {
		s.classify(w)
	}
	if freed {
		s.freed()
	}
}

// count records what an object is to the bounds of a policy: how it is moved, and whether it is unavailable. It reports whether that leaves more
// room for others.
func (b *bounds) count(key Key, m *movement, unavailable bool) (freed bool) {
	moved, was, late := b.moving.Has(key), b.unavailable.Has(key), b.late.Has(key)
	b.moving.put(key, b.moves(m))
	b.late.put(key, b.moving.Has(key) && m.late && len(m.patching) == 0)
	setMember(b.unavailable, key, unavailable)
	room := moved && !b.moving.Has(key) || !late && b.late.Has(key)
	return room && b.sharesBounds() || was && !unavailable && b.limits.MaxUnavailable != nil
}
