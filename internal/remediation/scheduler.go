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
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-dev/berth/internal/attempts"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/probing"
)

// Scheduler decides when existing objects may be patched or evicted. It delays patches and never drops any. docs/scheduler.md describes its
// states, its rules, and what always holds. It is safe for concurrent use. Callers of unexported methods hold mu.
//
// To patch an object that is unavailable anyway does not make more objects unavailable, so it does not wait for others to be available. An
// eviction counts as a patch that replaces the one pod of the object. The Pod that takes its place is another object.
type Scheduler struct {
	locked
	objects Matches                  // Tells which policies match an object: the Ledger.
	exempt  func(policy string) bool // Whether patches for a policy do not wait longer if its data changes again and again.
	changes notify.Signal            // Wakes the caller of Schedule.

	began    time.Time          // When this replica began to lead; zero before. A new policy's last patch counts as made then.
	policies map[string]*bounds // The bounds of each policy that is known or still has moves or failures, by name.
	all      *bounds            // The bounds of all policies together.
	line     line               // The objects that wait for a patch.
	dirty    bool               // Set if an event since the last call of pass may let waiting objects go on.
	wake     time.Time          // When the time may let waiting objects go on; zero if only an event can.
	news     Next               // What the next call of Schedule returns, except for Wake.
	moving   map[Key]*movement  // The objects that are being patched or moved, or were granted a patch.
	unready  map[Key]Rollout    // The newest progress of the objects that are not ready.
	counted  map[Key][]*bounds  // For each object, the bounds that count it as moving or unavailable.
	// deadline is the earliest deadline of the movements. resumeUntil is when the Scheduler stops waiting to know what an earlier leader
	// left. Zero stands for none.
	deadline, resumeUntil time.Time
	attempts              *attempts.Attempts[CompactKey]
	// epoch is a number that increases whenever it must be found out again which matched objects are ready. See Settled.
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

// Limits has the limits on all policies together: on patches a minute, and on objects that are being moved at the same time. 0 means no
// limit.
type Limits struct {
	MaxPerMinute  int // The maximum number of patches a minute.
	MaxConcurrent int // The maximum number of objects that are being moved at the same time.
}

// Next is what the caller of Schedule must do.
type Next struct {
	// Keys are objects that must be decided again now, and may be patched. For each, call Ask, or Yield or Decided if it is not patched.
	Keys []Key
	Wake time.Time // When Schedule must be called again at the latest; zero if only after an event.
	// Unsettled are the policies for which it must become known which objects are ready before waiting objects may be patched. See Settled.
	Unsettled []string
	// Paused are the policies whose patches stopped since the last call, in all namespaces or in more than before, because too many failed.
	// Changed are the policies whose rollouts or failures changed, or whose objects may wait for another reason now.
	Paused, Changed []string
}

// NewScheduler returns a scheduler. exempt reports whether patches for a policy do not wait longer if its data changes again and again (see
// DataChanged), because its own patches may be what changes the data. It must not call the Scheduler, and neither must objects.
func NewScheduler(limits Limits, objects Matches, exempt func(policy string) bool) *Scheduler {
	s := &Scheduler{
		objects: objects, exempt: exempt, changes: notify.NewSignal(), policies: map[string]*bounds{}, all: newBounds("", time.Time{}),
		line:   line{byKey: map[Key]*waiter{}, classes: map[classID]*class{}},
		moving: map[Key]*movement{}, unready: map[Key]Rollout{}, counted: map[Key][]*bounds{},
		attempts: attempts.New[CompactKey](), epoch: 1,
	}
	s.all.limits.MaxPerMinute, s.all.limits.MaxConcurrent = int32(limits.MaxPerMinute), int32(limits.MaxConcurrent)
	return s
}

// Changes returns a channel that receives when Schedule may have something to return. It has one reader: the caller of Schedule.
func (s *Scheduler) Changes() <-chan struct{} { return s.changes }

// Begin records that this replica begins to lead: for the pace (MaxPerMinute), the last patch counts as made now. Call it before Ask.
func (s *Scheduler) Begin(now time.Time) {
	defer s.lock()()
	s.began, s.all.last = now, now
	for _, b := range s.policies {
		b.last = now
	}
}

// Ask reports whether an object may be patched or evicted now for the verdicts that are due. If ok is true, the patch counts, and Done must
// be called when it has ended. If ok is false, the object waits until Schedule returns it; if retry is not 0, as for some evictions, the
// object does not wait, and the caller must ask again after that delay instead.
func (s *Scheduler) Ask(now time.Time, key Key, obj *unstructured.Unstructured, due Due, carrier Carrier) (ok bool, retry time.Duration) {
	defer s.lock()()
	claims := s.claimsOf(key, due, carrier)
	// No object overtakes those that have waited longer.
	s.pass(now)
	granted := s.cancel(key)
	if due.Evicts(key.Resource.GroupResource()) {
		if retry = s.attempts.EvictionDelay(now, key.Compact(), obj, due.changes()); retry > 0 {
			s.line.remove(key)
			return false, retry
		}
	}
	w := cmp.Or(granted, s.line.byKey[key], &waiter{key: key, since: now})
	w.claims = claims
	if blocked := s.blocked(now, w, granted != nil); blocked.reason != forNothing {
		s.wait(w, blocked)
		return false, 0
	}
	s.line.remove(key)
	for u := range s.usesOf(claims) {
		u.earlier, u.last = u.last, now
	}
	m := s.reserve(now, key, claims)
	m.began, m.reported = now, carrier.Reports
	for _, c := range claims {
		c.data.act(now)
	}
	return true, 0
}

// passed reports whether a time has come; zero never does.
func passed(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// earliest returns the earlier of two times. It ignores a zero time, and returns zero if both are zero.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// wait makes an object wait at its place in line, or at the end if it has none. blocked is what keeps it back. If a policy that wants to
// patch the object was deleted, the object does not wait: the next call of Schedule returns it, so that it is decided again.
func (s *Scheduler) wait(w *waiter, blocked block) {
	s.changes.Notify()
	if slices.ContainsFunc(w.claims, func(c claim) bool { return c.version == nil }) {
		// The policy was deleted, so its verdict will not be due any more.
		s.line.remove(w.key)
		s.news.Keys = append(s.news.Keys, w.key)
		return
	}
	if w.place == 0 {
		s.line.last++
		w.place = s.line.last
	}
	s.line.byKey[w.key] = w
	s.classify(w)
	s.wake = earliest(s.wake, blocked.until)
	s.dirty = s.dirty || blocked.reason == forSettling
}

// classify puts a waiting object into its class. It must be called whenever the result of classOf may change. An object that changes its
// class may go on, such as one that became unavailable. It ignores nil.
func (s *Scheduler) classify(w *waiter) {
	if w == nil {
		return
	}
	id := s.classOf(w)
	if w.class != nil && w.class.id == id {
		return
	}
	if w.class != nil {
		s.freed()
	}
	s.line.declassify(w)
	if s.line.classes[id] == nil {
		s.line.classes[id] = &class{id: id}
	}
	w.class = s.line.classes[id]
	w.class.waiters = slices.Insert(w.class.waiters, w.class.at(w), w)
}

// classOf returns the ID of the class of a waiting object. What the method blocked reads of an object is equal for all objects of a class,
// except for the time since which it waits. So it is enough to check the first object of a class, which has waited longest.
func (s *Scheduler) classOf(w *waiter) classID {
	id := classID{namespace: w.key.Namespace}
	if s.moving[w.key] != nil {
		id.own = w.key
	}
	var text strings.Builder
	for _, c := range w.claims {
		// No name contains a slash.
		text.WriteString(c.name)
		for _, differs := range []bool{c.follows, c.rolls, c.unavailable.has(w.key), c.probes.Has(w.key.Namespace, w.key), c.refused(w.key)} {
			text.WriteByte(byte('/' + count(differs)))
		}
	}
	id.claims = text.String()
	return id
}

// reclassify calls classify for all waiting objects.
func (s *Scheduler) reclassify() {
	for _, w := range s.line.byKey {
		s.classify(w)
	}
}

// freed records that an event may let waiting objects go on, and wakes the caller of Schedule. It does nothing if no object waits.
func (s *Scheduler) freed() {
	if len(s.line.byKey) > 0 {
		s.dirty = true
		s.changes.Notify()
	}
}

// Schedule grants patches to the waiting objects that no limit, pause, or window keeps back any more. It returns these as Next.Keys, so
// that they are decided and patched, with when to call it again and what changed since the last call.
func (s *Scheduler) Schedule(now time.Time) Next {
	defer s.lock()()
	if passed(s.resumeUntil, now) {
		s.resumeUntil = time.Time{}
		for _, name := range s.resuming() {
			s.takeOver(now, s.policies[name], false)
			s.freed()
		}
		s.updateAll()
	}
	if passed(s.deadline, now) {
		s.expire(now)
	}
	s.pass(now)
	for name, b := range s.policies {
		remembers := len(b.moving.objects)+len(b.failed.objects) > 0 || b.pause != "" || b.resuming || now.Before(b.next(false))
		if b.version == nil && !remembers {
			delete(s.policies, name)
		}
	}
	out := s.news
	s.news = Next{}
	out.Wake = earliest(earliest(s.wake, s.resumeUntil), s.deadline)
	for _, names := range []*[]string{&out.Unsettled, &out.Paused, &out.Changed} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	return out
}

// pass grants patches to the waiting objects that nothing keeps back, those first that have waited longest: they leave the line, count as
// being moved, and are returned by Schedule. It does nothing unless an event or the time may let an object go on.
func (s *Scheduler) pass(now time.Time) {
	late := passed(s.wake, now)
	if !late && !s.dirty {
		return
	}
	s.dirty, s.wake = false, time.Time{}
	var open []*class
	for _, c := range s.line.classes {
		if c.postponed = false; late {
			// They may wait for something else from now on.
			for _, claim := range c.waiters[0].claims {
				s.changed(claim.name)
			}
		}
		if blocked := s.blocked(now, c.waiters[0], false); blocked.reason == forNothing {
			open = append(open, c)
		} else {
			s.awaitEnd(blocked)
		}
	}
	s.postpone(open)
	order := func(a, b *class) int {
		return cmp.Or(count(a.postponed)-count(b.postponed), cmp.Compare(a.waiters[0].place, b.waiters[0].place))
	}
	slices.SortFunc(open, order)
	for len(open) > 0 {
		c, w := open[0], open[0].waiters[0]
		open = open[1:]
		if blocked := s.blocked(now, w, false); blocked.reason != forNothing {
			s.awaitEnd(blocked)
			continue
		}
		s.line.remove(w.key)
		for u := range s.usesOf(w.claims) {
			u.granted = now
		}
		s.reserve(now, w.key, w.claims).granted = w
		s.news.Keys = append(s.news.Keys, w.key)
		if len(c.waiters) > 0 {
			i, _ := slices.BinarySearchFunc(open, c, order)
			open = slices.Insert(open, i, c)
		}
	}
}

// postpone marks the classes of objects that failed before, so that they go last, if an object that has not failed may be the probe
// instead: the one patch that tests for the others whether patches succeed again.
func (s *Scheduler) postpone(open []*class) {
	visit := func(f func(c *class, in *probing.Streak[Key], failed bool)) {
		for _, c := range open {
			for _, claim := range c.waiters[0].claims {
				for in, failed := range claim.probes.Streaks(c.id.namespace, c.waiters[0].key) {
					f(c, in, failed)
				}
			}
		}
	}
	fresh := map[*probing.Streak[Key]]bool{}
	visit(func(_ *class, in *probing.Streak[Key], failed bool) { fresh[in] = fresh[in] || !failed })
	visit(func(c *class, in *probing.Streak[Key], failed bool) { c.postponed = c.postponed || failed && fresh[in] })
}

// awaitEnd prepares for the end of what keeps an object back. It lowers wake to the time of the end, if that is known. If it must become
// known which objects of a policy are ready, it adds that policy to Next.Unsettled.
func (s *Scheduler) awaitEnd(blocked block) {
	s.wake = earliest(s.wake, blocked.until)
	if blocked.reason == forSettling {
		s.news.Unsettled = append(s.news.Unsettled, blocked.policy)
	}
}

// reserve makes an object count as being moved for the claims, and as the probe of their policies, if patches for these failed lately.
func (s *Scheduler) reserve(now time.Time, key Key, claims []claim) *movement {
	m := s.movementOf(key)
	for _, c := range claims {
		m.patching[c.bounds] = c
		c.probes.Begin(now, key.Namespace, key)
	}
	s.update(key)
	return m
}

// cancel takes back the patch that Schedule granted to an object. It returns the object's place in line; nil if it was granted none.
func (s *Scheduler) cancel(key Key) (place *waiter) {
	m := s.moving[key]
	if m == nil || m.granted == nil {
		return nil
	}
	place, m.granted = m.granted, nil
	for b := range m.patching {
		b.probes.End(key.Namespace, key)
	}
	clear(m.patching)
	s.update(key)
	return place
}

// waitReason is what an object waits for.
type waitReason uint8

const (
	forNothing      waitReason = iota // The object does not wait.
	forRelease                        // The patches of the policy stopped, everywhere or in the object's namespace, because too many failed.
	forProbe                          // One patch tests for the others whether patches succeed again.
	forData                           // The policy's data changed soon after patches for the change before.
	forChange                         // A change is being assessed, or is not carried out because it would harm too many objects.
	forWindow                         // No window of the policy is open.
	forPace                           // The last patch or grant was too recent.
	forSettling                       // It is not known yet which objects of the policy are ready.
	forSlot                           // Other objects are being moved.
	forAvailability                   // Other objects are unavailable.
)

// block is what keeps an object back; the zero block if nothing does.
type block struct {
	reason waitReason // The kind of rule.
	policy string     // The name of the policy whose rule it is; "" for the limits of all policies together.
	until  time.Time  // When the time ends the block, or, with forSettling, when to try again; zero if only an event can end it.
}

const (
	// holdLimit is the maximum time for which an object waits for assessments. New ones may begin whenever data changes.
	holdLimit = 2 * AssessmentLimit
	// settleInterval is the time after which it is tried again to find out what is ready.
	settleInterval = time.Second
)

// blocked returns what keeps a waiting object back; the zero block if nothing does. granted reports whether Schedule has granted the object
// a patch: then the interval of MaxPerMinute counts from the last patch alone, and not from the last grant.
func (s *Scheduler) blocked(now time.Time, w *waiter, granted bool) block {
	for _, c := range w.claims {
		since, paused := s.objects.Holds(c.name, w.key.Namespace)
		assessed := !since.IsZero()
		if w.since.After(since) {
			since = w.since
		}
		if until := since.Add(holdLimit); paused {
			return block{reason: forChange, policy: c.name}
		} else if assessed && now.Before(until) {
			return block{forChange, c.name, until}
		}
	}
	for _, c := range w.claims {
		if out := s.blockedBy(now, w.key, c, granted); out.reason != forNothing {
			return out
		}
	}
	if s.all.boundsMoves() {
		if resuming := s.resuming(); len(resuming) > 0 {
			return block{forSettling, resuming[0], now.Add(settleInterval)}
		}
	}
	return s.all.blocked(now, w.key, granted)
}

// blockedBy returns what keeps an object back because of one policy that wants to patch it, or of the policies of its group: a pause
// because of failures, a probe, changing data, the windows, objects of which it is not known whether they are ready, the budget. It does
// not check assessments, nor the pause because of harmed objects.
func (s *Scheduler) blockedBy(now time.Time, key Key, c claim, granted bool) block {
	b := c.bounds
	if b.version == nil {
		// The policy was deleted, so its verdict will not be due any more.
		return block{}
	}
	probe, data := b.probes.Until(now, key.Namespace, key), b.data.until(now)
	open, opens := b.version.Windows.Open(now)
	switch {
	case b.pause != "" && b.paused.Includes(key.Namespace) && (b.paused.All() || !b.refused(key)):
		// A stop in single namespaces ends when what was refused is accepted, so that is tried again.
		return block{reason: forRelease, policy: b.name}
	case !probe.IsZero():
		return block{forProbe, b.name, probe}
	case !data.IsZero() && !s.exempt(b.name):
		return block{forData, b.name, data}
	case !open:
		return block{forWindow, b.name, opens}
	case b.settled != s.epoch && c.follows || slices.ContainsFunc(b.members, (*bounds).boundsMoves) &&
		slices.ContainsFunc(b.members, func(member *bounds) bool { return member.resuming }):
		return block{forSettling, b.name, now.Add(settleInterval)}
	case c.rolls && b.limits.MaxUnavailable != nil && !b.unavailable.has(key) && len(b.unavailable.objects) >= b.maxUnavailable(s.objects):
		return block{reason: forAvailability, policy: b.name}
	}
	for _, member := range b.members {
		if out := member.blocked(now, key, granted); out.reason != forNothing {
			return out
		}
	}
	return block{}
}

// Ending is how a patch or an eviction ended, for example with success, or with an error that other objects may share.
type Ending uint8

// The endings of patches and evictions.
const (
	Unmade    Ending = iota // The object is gone, or was changed by others, so that it is decided again.
	Made                    // The object has the placement that was decided, or is evicted.
	Overtaken               // The object was changed, and has another placement.
	Refused                 // The API server refused to patch this object for a reason of its own.
	Failed                  // It was not patched for a reason that other objects may share.
	Protected               // A PodDisruptionBudget does not allow the eviction. It does not count for the pace.
)

// Patch describes how a patch or an eviction ended.
type Patch struct {
	Ending     Ending                     // Whether the object got its placement or was evicted (Made), got another (Overtaken), or neither.
	Object     *unstructured.Unstructured // The object before the patch or the eviction, for the history of its patches; nil for no entry.
	Data       uint64                     // A hash of the policies and data that the decisions are based on; 0 if data was missing.
	UID        types.UID                  // The UID of the object, if Ending is Made or Overtaken.
	Generation int64                      // The generation of the object after the patch, if Ending is Made or Overtaken; 0 for an eviction.
	Version    string                     // The resource version after the patch, if Ending is Made or Overtaken; "" for an eviction.
	Reason     string                     // The error of a patch or an eviction that the API server did not accept; "" otherwise.
}

// Result is what the caller of Done must do or report.
type Result struct {
	Retry  time.Duration // The delay before the object must be decided again; 0 if the scheduler or an event does that.
	Report bool          // Whether the failure should be logged at the normal level: one for each policy in reportInterval.
	// Age is set if the evicted Pod replaced one that was evicted for the same changes: how old the next Pods of their controller must be
	// before they are evicted for these. It is 0 after the first of these evictions, although the next Pods wait then, too.
	Age       time.Duration
	Unsettled bool // Whether the object was patched too often within a minute, so that Berth stops patching it.
}

// Done records the end of a patch or an eviction that Ask allowed. If it ended as Failed, the object waits again. Otherwise, the result
// says when the object must be decided again, if no event follows.
func (s *Scheduler) Done(now time.Time, key Key, due Due, patch Patch) (out Result) {
	defer s.lock()()
	m, evicts := s.moving[key], due.Evicts(key.Resource.GroupResource())
	changed := patch.Ending == Made || patch.Ending == Overtaken
	for _, v := range due {
		if b := s.policies[v.Policy.Name]; b != nil {
			out.Report = s.learn(now, key, b, patch) || out.Report
		}
	}
	w, began := &waiter{key: key, since: now}, time.Time{}
	if m != nil {
		w.claims, began = m.claims(), m.began
		s.end(now, key, m, evicts, patch, changed)
	}
	switch {
	case patch.Ending == Failed:
		s.line.remove(key)
		s.wait(w, s.blocked(now, w, false))
	case patch.Ending == Refused:
		out.Retry = s.attempts.Refused(key.Compact())
	case patch.Ending == Protected:
		out.Retry = s.attempts.Protected(now, key.Compact(), Names(due))
	case !changed || patch.Object == nil:
	case !evicts:
		out.Unsettled = s.attempts.Patched(now, key.Compact(), patch.Object, patch.Version, due.changes(), patch.Data)
	case patch.Ending == Made:
		out.Age = s.attempts.Evicted(began, key.Compact(), patch.Object, due.changes())
	}
	if patch.Ending == Made {
		s.attempts.Succeeded(key.Compact())
	}
	return out
}

// end ends the patch of a movement. changed reports whether the patch changed the object, or evicted it: then the object counts as being
// moved from now on for the policies whose claims say so. The movement ends if the object counts as being moved for no policy, or is ready
// already. end does not record whether the patch failed.
func (s *Scheduler) end(now time.Time, key Key, m *movement, evicts bool, patch Patch, changed bool) {
	for u := range s.usesOf(m.claims()) {
		// It does not count for the pace, unless another one began meanwhile.
		if patch.Ending == Protected && u.last.Equal(m.began) {
			if u.last = u.earlier; !u.granted.After(m.began) {
				u.granted = time.Time{}
			}
		}
	}
	if changed {
		if m.adopted {
			m.adopted, m.deadline = false, time.Time{}
		}
		m.patched = Rollout{UID: patch.UID, Generation: patch.Generation, Version: patch.Version}
		m.evicted = evicts
		s.follow(now, m)
	}
	clear(m.patching)
	s.conclude(now, key, m.seen)
	s.update(key)
}

// learn records for a policy how a patch of an object ended. If it was Refused, the object counts as failed. If it Failed, the policy's
// other patches are delayed (probes). If it was Made, both end; if Overtaken, only the former. learn reports whether the error should be
// logged at the normal level: at most one in reportInterval.
func (s *Scheduler) learn(now time.Time, key Key, b *bounds, patch Patch) (report bool) {
	if b.probes.Any() {
		s.freed()
	}
	b.probes.End(key.Namespace, key)
	switch patch.Ending {
	case Failed:
		b.probes.Fail(now, key.Namespace, key)
	case Refused:
		// An object that is not observed may not exist any more.
		if m := s.moving[key]; m != nil && !m.unobserved {
			s.fail(now, b, Failure{key, patch.Reason, false})
		}
	case Made:
		for other := range b.probes.Succeed(key.Namespace) {
			s.classify(s.line.byKey[other])
		}
		s.clearFailures(key, b)
	case Overtaken:
		s.clearFailures(key, b)
	}
	if report = (patch.Ending == Failed || patch.Ending == Refused) && now.Sub(b.reported) >= reportInterval; report {
		b.reported = now
	}
	return report
}

// Decided records that an object was decided, so that other policies may match it now, and which verdicts require a patch. If none do, the
// object does not wait any more. For a policy that requires no patch, a refused patch of the object no longer counts as a failure,
// unless it may be an earlier leader's.
func (s *Scheduler) Decided(key Key, due Due) {
	defer s.lock()()
	names := Names(due)
	for name, b := range s.policies {
		if b.refused(key) && !b.resuming && !slices.Contains(names, name) {
			s.clearFailures(key, b)
		}
	}
	s.attempts.Decided(key.Compact(), names, due.Evicts(key.Resource.GroupResource()))
	if _, unready := s.unready[key]; unready || s.moving[key] != nil {
		s.update(key)
	}
	if len(s.line.byKey) > 0 {
		// The more objects a policy matches, the more of them may be unavailable.
		for _, name := range s.objects.Matching(key) {
			if b := s.policies[name]; b != nil {
				before := b.lastMaxUnavailable
				if b.lastMaxUnavailable = b.maxUnavailable(s.objects); b.lastMaxUnavailable > before {
					s.freed()
				}
			}
		}
	}
	if len(due) == 0 {
		s.line.remove(key)
		s.cancel(key)
	}
}

// Reconsider records that Matches.Holds no longer holds back some objects that it held back before.
func (s *Scheduler) Reconsider() {
	defer s.lock()()
	s.freed()
}

// Yield gives back the patch that Schedule granted to an object, because the object can't be patched now. The object does not wait any
// more: the caller must decide it again later. Yield does nothing if the object was granted no patch.
func (s *Scheduler) Yield(key Key) {
	defer s.lock()()
	s.cancel(key)
}

// Forget records that an object does not exist any more: it does not wait or move any more, and its failures do not count.
func (s *Scheduler) Forget(now time.Time, key Key) {
	defer s.lock()()
	s.line.remove(key)
	s.attempts.Forget(key.Compact())
	s.cancel(key)
	s.unobserve(key)
	for _, b := range s.policies {
		if s.clearFailures(key, b); b.probes.Any() {
			b.probes.Forget(key.Namespace, key)
			s.freed()
		}
	}
}

// DataChanged records that the data of a policy changed. If it changes again and again, the patches for each change wait longer.
func (s *Scheduler) DataChanged(policy string) {
	defer s.lock()()
	if b := s.policies[policy]; b != nil {
		b.data.revised = true
	}
}

// PolicyChanged records which version of a policy is in force; nil for none. Schedule then returns the objects that wait for the earlier
// version, so that they are decided again. The pace and the moves of the policy stay, also if version is nil. Another generation, or nil,
// removes the failures of the policy and the pause that they caused, because other patches may succeed.
func (s *Scheduler) PolicyChanged(now time.Time, name string, version *placement.Policy) {
	defer s.lock()()
	if again := s.line.removePolicy(name); len(again) > 0 {
		s.news.Keys = append(s.news.Keys, again...)
		s.changes.Notify()
	}
	b := s.policies[name]
	if b != nil {
		b.settled, b.probes, b.reported, b.data = 0, probing.Failures[Key]{}, time.Time{}, holding{}
	}
	if version != nil {
		s.apply(version)
	} else if b != nil {
		s.pardon(b)
		s.regroup(b, "")
		// A policy that is created again has no generation in common with this one.
		b.resuming, b.left, b.version, b.generation = false, nil, nil, -1
	}
	s.freed()
}

// apply puts a version of a policy in force, with its budget. If it has another generation than the one before, the failures of the policy
// and the pause that they caused end.
func (s *Scheduler) apply(version *placement.Policy) {
	b := s.boundsOf(version.Name, s.began)
	if b.generation != version.Generation {
		s.pardon(b)
	}
	s.regroup(b, version.Budget.Group)
	b.version, b.limits, b.generation = version, version.Budget, version.Generation
}

// boundsOf returns the bounds of a policy, and creates them if there are none, as if the last patch had been at the time last.
func (s *Scheduler) boundsOf(policy string, last time.Time) *bounds {
	if s.policies[policy] == nil {
		s.policies[policy] = newBounds(policy, last)
	}
	return s.policies[policy]
}

// regroup makes a policy share the usage of the policies of a group; "" for none.
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
	before := b.members
	b.members = slices.DeleteFunc(slices.Clone(before), func(member *bounds) bool { return member == b })
	shared.members, b.usage = append(shared.members, b), shared
	s.updateAll(before...)
}

// usesOf returns the usages in which a patch for the claims counts, among them that of all policies together.
func (s *Scheduler) usesOf(claims []claim) sets.Set[*usage] {
	out := sets.New(s.all.usage)
	for _, c := range claims {
		out.Insert(c.usage)
	}
	return out
}

// update drops the movement of an object if it has ended, and updates how the object counts in the bounds of the policies that match or
// move it or did before, and in others.
func (s *Scheduler) update(key Key, others ...*bounds) {
	m := cmp.Or(s.moving[key], &movement{})
	if len(m.patching)+len(m.following) == 0 {
		delete(s.moving, key)
	}
	r, unready := s.unready[key]
	unready = unready && !r.Serves
	matching := s.objects.Matching(key)
	concerned := sets.New(others...).Insert(s.counted[key]...)
	of := slices.AppendSeq(slices.Collect(maps.Keys(m.patching)), maps.Keys(m.following))
	for _, name := range matching {
		if b := s.policies[name]; b != nil {
			of = append(of, b)
		}
	}
	for _, b := range of {
		concerned.Insert(b.members...)
	}
	freed := s.all.count(key, m, false)
	var counted []*bounds
	for b := range concerned {
		// The readiness of a Pod is known only because of other policies if the policy evicts none.
		counts := r.Version != "" || key.Resource.GroupResource() != podResource || b.version != nil && b.version.Evict
		matched := counts && slices.Contains(matching, b.name)
		freed = b.count(key, m, (unready || m.rolls()) && (matched || m.movesFor(b))) || freed
		if b.moving.has(key) || b.unavailable.has(key) {
			counted = append(counted, b)
		}
	}
	if s.counted[key] = counted; counted == nil {
		delete(s.counted, key)
	}
	s.classify(s.line.byKey[key])
	if freed {
		s.freed()
	}
}

// line holds the objects that wait for a patch, by key and by class.
type line struct {
	byKey   map[Key]*waiter    // All waiting objects.
	classes map[classID]*class // The same objects, in classes.
	last    uint64             // The highest place that was given to an object.
}

// waiter is an object that waits for a patch, or is about to.
type waiter struct {
	key    Key
	claims []claim   // What policies want to do with the object.
	place  uint64    // The object's place in the order in which objects began to wait; kept if Ask refuses it after a grant. 0 before.
	since  time.Time // When the object began to wait. Assessments hold it back for at most holdLimit from then.
	class  *class    // The class that the object waits in; nil if it does not wait.
}

// classID identifies a class of waiting objects: those of a namespace that the same rules keep back.
type classID struct {
	// claims encodes the policies that want to patch the objects, and what their rules depend on.
	namespace, claims string
	own               Key // The key of an object that is being moved, which is in a class of its own; otherwise zero.
}

// class holds the waiting objects of a class, in the order in which they began to wait. It is never empty.
type class struct {
	id        classID
	waiters   []*waiter
	postponed bool // Set during a call of pass if its objects failed before, and those of other classes go first.
}

// at returns the index of a waiting object in the class, or the index at which it must be inserted.
func (c *class) at(w *waiter) int {
	i, _ := slices.BinarySearchFunc(c.waiters, w.place, func(other *waiter, place uint64) int { return cmp.Compare(other.place, place) })
	return i
}

// wantedBy reports whether a policy wants to patch the objects of the class.
func (c *class) wantedBy(policy string) bool {
	return slices.ContainsFunc(c.waiters[0].claims, func(c claim) bool { return c.name == policy })
}

// declassify removes an object from its class.
func (l *line) declassify(w *waiter) {
	if w.class == nil {
		return
	}
	if i := w.class.at(w); i == 0 {
		// The objects behind the first one stay where they are: there may be many.
		w.class.waiters[0], w.class.waiters = nil, w.class.waiters[1:]
	} else {
		w.class.waiters = slices.Delete(w.class.waiters, i, i+1)
	}
	if len(w.class.waiters) == 0 {
		delete(l.classes, w.class.id)
	}
	w.class = nil
}

// remove removes an object from the line and from its class. It does nothing if the object does not wait.
func (l *line) remove(key Key) {
	if w := l.byKey[key]; w != nil {
		l.declassify(w)
		delete(l.byKey, key)
	}
}

// removePolicy removes the objects that a policy wants to patch, and returns them.
func (l *line) removePolicy(policy string) (out []Key) {
	for _, c := range l.classes {
		for _, w := range c.waiters {
			if c.wantedBy(policy) {
				out = append(out, w.key)
			}
		}
	}
	for _, key := range out {
		l.remove(key)
	}
	return out
}
