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
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/containment"
	"github.com/berth-dev/berth/internal/placement"
)

// bounds holds the limits on the patches of one policy, or of all policies together, and what counts for them. Scheduler.mu protects it.
type bounds struct {
	name string // The name of the policy; "" for all policies together.
	// usage is what counts for the pace and the bounds of moves. Policies of a group share it.
	*usage
	version    *placement.Policy             // The policy's version in force; nil if there is none, or none known yet.
	limits     placementv1.RemediationBudget // The budget of the newest known version.
	generation int64                         // The generation of the newest known version; -1 after the policy was deleted.
	// unavailable are the matched objects that are not ready, or that are being moved by a patch that replaces pods.
	unavailable tally[struct{}]
	// settled is the Scheduler.epoch in which all matched objects had been observed; 0 if they were not. It counts only in that epoch.
	settled  int
	resuming bool // Whether an earlier leader may have been moving those matched objects that are not ready.
	// left are the known moves of an earlier leader to other clusters, until it is known where these objects run. Keys have no version.
	left               map[Key]Move
	rolled             []schema.GroupVersionResource // The types of matched objects whose rollouts are observed.
	lastMaxUnavailable int                           // What maxUnavailable returned when a matched object was last decided.
	failed             tally[Failure]                // The objects, by unversioned key, whose patch or rollout failed.
	pause              string                        // The ID of the pause that failed patches or rollouts caused; "" for none.
	paused             containment.Scope             // Where the pause stops patches.
	probes             failing                       // The recent patches that failed for reasons that other objects may share.
	data               holding                       // Delays patches while the policy's data keeps changing.
}

// newBounds returns bounds that behave as if the last patch had been at the time last.
func newBounds(name string, last time.Time) *bounds {
	b := &bounds{name: name, usage: newUsage(last), unavailable: newTally[struct{}](), failed: newTally[Failure]()}
	b.members = []*bounds{b}
	return b
}

// usage is what counts for the pace and the limits of moves of one policy, of the policies of a group, or of all policies.
type usage struct {
	members []*bounds // The bounds of the policies that share the usage.
	// last is the time of the last patch, and earlier that of the patch before. granted is when Schedule last granted an object a patch.
	last, earlier, granted time.Time
	// moving are the objects that are being moved. late are those of them that have failed because they did not run in time.
	moving, late tally[struct{}]
}

// newUsage returns a usage whose last patch was at a time.
func newUsage(last time.Time) *usage {
	return &usage{last: last, moving: newTally[struct{}](), late: newTally[struct{}]()}
}

// tally is a set of objects with values of a type, and their number in each namespace.
type tally[V any] struct {
	objects    map[Key]V      // The objects in the set, with their values.
	namespaces map[string]int // The numbers of objects, by namespace.
}

// newTally returns an empty tally.
func newTally[V any]() tally[V] { return tally[V]{map[Key]V{}, map[string]int{}} }

// has reports whether an object is in the tally.
func (t tally[V]) has(key Key) bool {
	_, has := t.objects[key]
	return has
}

// put adds an object, or replaces its value.
func (t tally[V]) put(key Key, v V) {
	if !t.has(key) {
		t.namespaces[key.Namespace]++
	}
	t.objects[key] = v
}

// remove removes an object, and reports whether it was in the tally.
func (t tally[V]) remove(key Key) (removed bool) {
	if !t.has(key) {
		return false
	}
	delete(t.objects, key)
	if t.namespaces[key.Namespace]--; t.namespaces[key.Namespace] == 0 {
		delete(t.namespaces, key.Namespace)
	}
	return true
}

// set adds an object with the zero value if member is true, and removes it otherwise. It keeps the value of an object that is in the tally.
func (t tally[V]) set(key Key, member bool) {
	var none V
	if !member {
		t.remove(key)
	} else if !t.has(key) {
		t.put(key, none)
	}
}

// next returns the earliest time of the next patch by MaxPerMinute; zero if that is not limited. Unless granted, the patch must also keep
// the interval to the last grant.
func (b *bounds) next(granted bool) time.Time {
	perMinute := time.Duration(b.limits.MaxPerMinute)
	if perMinute <= 0 {
		return time.Time{}
	}
	last := b.last
	if !granted && b.granted.After(last) {
		last = b.granted
	}
	// Round up: the patches of a minute must not exceed the bound.
	return last.Add((time.Minute + perMinute - 1) / perMinute)
}

// boundsMoves reports whether the number of objects that are being moved at the same time is limited.
func (b *bounds) boundsMoves() bool { return b.limits.MaxConcurrent > 0 || b.limits.PerNamespace > 0 }

// stopped returns where failures are so many that they stop patches; stops is false if they do so nowhere.
func (b *bounds) stopped() (scope containment.Scope, stops bool) {
	return containment.Of(b.failed.namespaces, containment.LimitOf(b.limits.PauseAfterFailures, containment.Never))
}

// pauseID returns the ID of a pause of a policy of a generation that begins now.
func pauseID(generation int64, now time.Time) string {
	return strconv.FormatInt(generation, 10) + "-" + strconv.FormatInt(now.UnixMilli(), 36)
}

// blocked returns which limit of the pace or of moves keeps an object back; the zero block if none does. granted: it was granted a patch.
func (b *bounds) blocked(now time.Time, key Key, granted bool) block {
	// A moved object takes no other slot. One that has failed takes a slot of its namespace alone, so that no tenant stops the others.
	self, elsewhere := count(b.moving.has(key)), len(b.late.objects)-b.late.namespaces[key.Namespace]
	most, mostHere := int(b.limits.MaxConcurrent), int(b.limits.PerNamespace)
	switch next := b.next(granted); {
	case most > 0 && len(b.moving.objects)-self-elsewhere >= most, mostHere > 0 && b.moving.namespaces[key.Namespace]-self >= mostHere:
		return block{reason: forSlot, policy: b.name}
	case now.Before(next):
		return block{forPace, b.name, next}
	}
	return block{}
}

// maxUnavailable returns how many of the policy's matched objects may be unavailable: at least 1, or no object could ever be moved.
func (b *bounds) maxUnavailable(objects Matches) int {
	most := ptr.Deref(b.limits.MaxUnavailable, intstr.FromString("100%"))
	out, err := intstr.GetScaledValueFromIntOrPercent(&most, objects.Matched(b.name, b.rolled), false)
	if err != nil {
		// The schema refuses such a value.
		return 1
	}
	return max(out, 1)
}

// count updates whether an object counts as moving, late, and unavailable. freed reports whether this may let other objects be patched.
func (b *bounds) count(key Key, m *movement, unavailable bool) (freed bool) {
	moved, was, late := b.moving.has(key), b.unavailable.has(key), b.late.has(key)
	moves := b.name == "" && len(m.patching)+len(m.following) > 0 || slices.ContainsFunc(b.members, m.movesFor)
	b.moving.set(key, moves)
	b.late.set(key, moves && m.late && len(m.patching) == 0)
	b.unavailable.set(key, unavailable)
	room := moved && !moves || !late && b.late.has(key)
	return room && slices.ContainsFunc(b.members, (*bounds).boundsMoves) || was && !unavailable && b.limits.MaxUnavailable != nil
}

// unversioned returns the key without the version of its resource. An object is the same in all versions.
func unversioned(key Key) Key {
	key.Resource.Version = ""
	return key
}

// inAnyVersion returns the value of an object in a map. If the key has no version of its resource, it finds the object under any version.
func inAnyVersion[V any](objects map[Key]V, key Key) (v V, found bool) {
	if v, found = objects[key]; found || key.Resource.Version != "" {
		return v, found
	}
	for k, v := range objects {
		if unversioned(k) == key {
			return v, true
		}
	}
	return v, false
}

const (
	// holdDown is how long patches for a change of data wait after those for the change before. It doubles with each change, up to
	// holdDownMax, and is reset after twice holdDownMax without a change.
	holdDown    = time.Second
	holdDownMax = 5 * time.Minute
	// retryDelay and retryDelayMax are the first and the longest delay before a failed patch is retried.
	retryDelay    = 200 * time.Millisecond
	retryDelayMax = 5 * time.Minute
	// probeLimit is how long other patches wait for the result of a probe, the one patch that tests whether patches succeed again.
	probeLimit = 30 * time.Second
	// toleratedObjects is how many objects of a policy in a namespace must fail in a row before objects that have not failed wait, too.
	// toleratedNamespaces is how many namespaces must fail before all objects of the policy wait.
	toleratedObjects, toleratedNamespaces = 3, 10
	// policyRetryDelayMax is the longest delay before a probe for a policy that fails in many namespaces.
	policyRetryDelayMax = 20 * time.Second
	// reportInterval is the minimum interval between two log messages about failing patches of a policy.
	reportInterval = time.Minute
)

// backoff returns the delay that follows the delay before: twice as long, at least first, and at most most.
func backoff(before, first, most time.Duration) time.Duration { return min(max(2*before, first), most) }

// holding delays the patches of a policy while its data keeps changing: longer with each change.
type holding struct {
	revised bool          // Set from a change of the data until the next object is patched.
	acted   time.Time     // When an object was first patched for the last change of the data.
	hold    time.Duration // How long after acted the patches for the next change wait.
}

// until returns when patches for the newest change of the data may begin; zero if they may begin now.
func (h *holding) until(now time.Time) time.Time {
	if at := h.acted.Add(h.hold); h.revised && now.Before(at) {
		return at
	}
	return time.Time{}
}

// act records that an object is patched, for the newest data.
func (h *holding) act(now time.Time) {
	if h.revised && !now.Before(h.acted.Add(h.hold)) {
		if now.Sub(h.acted) > 2*holdDownMax {
			h.hold = 0
		}
		h.acted, h.hold = now, backoff(h.hold, holdDown, holdDownMax)
	}
	h.revised = false
}

// streak is a series of failed patches, without a success between them, that fail for reasons that objects may share. After it, one patch
// at a time, the probe, tests whether patches succeed again.
type streak struct {
	members sets.Set[Key] // The objects that failed; in failing.namespaces, the namespaces, as keys without names.
	failed  time.Time     // When a failure last set pace: the first one, or one after the pace before had passed.
	pace    time.Duration // How long all patches wait after failed.
	probed  time.Time     // When the running probe began; zero if none runs.
	probe   Key           // The object of the running probe.
}

// fail adds a failure. most limits the pace. Failures of patches that ran at the same time lengthen the pace only once.
func (s *streak) fail(now time.Time, member Key, most time.Duration) {
	if s.members == nil {
		s.members = sets.New[Key]()
	}
	s.members.Insert(member)
	s.probed = time.Time{}
	if !now.Before(s.failed.Add(s.pace)) {
		s.failed, s.pace = now, backoff(s.pace, retryDelay, most)
	}
}

// end ends the running probe without a result if it is that of the given object.
func (s *streak) end(key Key) {
	if s.probe == key {
		s.probed, s.probe = time.Time{}, Key{}
	}
}

// until returns when an object may be patched as the probe; zero if it may be now.
func (s *streak) until(now time.Time, key Key) time.Time {
	if until := s.failed.Add(s.pace); now.Before(until) {
		return until
	}
	if until := s.probed.Add(probeLimit); !s.probed.IsZero() && s.probe != key && now.Before(until) {
		return until
	}
	return time.Time{}
}

// failing holds the failures of a policy's patches whose reasons objects may share. Failures in one namespace delay the other patches
// there, and failures in many namespaces delay all patches.
type failing struct {
	objects    map[string]*streak // A streak of failed objects for each namespace.
	namespaces streak             // The streak of namespaces in which objects failed.
	reported   time.Time          // The time of the last log message about a failure.
}

// of returns the streaks that delay an object, each with the key that is a member if the object failed.
func (f *failing) of(key Key) iter.Seq2[*streak, Key] {
	return func(yield func(*streak, Key) bool) {
		if t := f.objects[key.Namespace]; t != nil && (len(t.members) >= toleratedObjects || t.members.Has(key)) && !yield(t, key) {
			return
		}
		if len(f.namespaces.members) >= toleratedNamespaces {
			yield(&f.namespaces, Key{Namespace: key.Namespace})
		}
	}
}

// until returns when an object may be patched; zero if it may be now.
func (f *failing) until(now time.Time, key Key) (out time.Time) {
	for t := range f.of(key) {
		if out = t.until(now, key); !out.IsZero() {
			break
		}
	}
	return out
}

// end records that the patch of an object has no result, or is not made.
func (f *failing) end(key Key) {
	f.namespaces.end(key)
	if t := f.objects[key.Namespace]; t != nil {
		t.end(key)
	}
}

// fail records that the patch of an object failed.
func (f *failing) fail(now time.Time, key Key) {
	if f.objects == nil {
		f.objects = map[string]*streak{}
	}
	if f.objects[key.Namespace] == nil {
		f.objects[key.Namespace] = &streak{}
	}
	f.objects[key.Namespace].fail(now, key, retryDelayMax)
	f.namespaces.fail(now, Key{Namespace: key.Namespace}, policyRetryDelayMax)
}

// succeed records that the patch of an object succeeded. It forgets the failures in the object's namespace, and that namespaces failed, and
// returns the objects that had failed in that namespace.
func (f *failing) succeed(key Key) (failed sets.Set[Key]) {
	if t := f.objects[key.Namespace]; t != nil {
		failed = t.members
	}
	delete(f.objects, key.Namespace)
	f.namespaces = streak{}
	return failed
}

// forget records that an object does not exist any more.
func (f *failing) forget(key Key) {
	f.end(key)
	if t := f.objects[key.Namespace]; t != nil && len(t.members.Delete(key)) == 0 {
		delete(f.objects, key.Namespace)
		f.namespaces.members.Delete(Key{Namespace: key.Namespace})
	}
}

// has reports whether the object failed since the last success in its namespace.
func (f *failing) has(key Key) bool {
	t := f.objects[key.Namespace]
	return t != nil && t.members.Has(key)
}

const (
	// maxPatches is how many patches within patchWindow show that an object does not settle. A decision that depends on its own output is
	// patched many times a second. Changes of the cluster's data that cause as many patches of one object are very rare.
	maxPatches  = 100
	patchWindow = time.Minute
	// maxRounds is how many patches of a field of an object may fail to last within roundWindow before it is left alone, until the first of
	// them is older than that. Controllers that write what they want at an interval use intervals of minutes.
	maxRounds   = 3
	roundWindow = time.Hour
	// maxEarlier is the number of patches before the last one that are remembered.
	maxEarlier = 4
	// refusedDelay is the first delay after a patch was refused for a reason of the object's own. The longest one is retryDelayMax.
	refusedDelay = 10 * time.Second
	// protectedDelay is the first delay after a PodDisruptionBudget did not allow an eviction. It doubles up to protectedDelayMax.
	protectedDelay    = 5 * time.Second
	protectedDelayMax = 5 * time.Minute
	// repeatDelay is the age that new Pods of a controller need before they are evicted for the same changes as an earlier one. It doubles up
	// to repeatDelayMax with each new Pod that is evicted. It is forgotten when no Pod of the controller was evicted for repeatMemory.
	repeatDelay    = time.Minute
	repeatDelayMax = time.Hour
	repeatMemory   = 2 * repeatDelayMax
)

// Stability is whether patches of an object last.
type Stability uint8

// The kinds of stability.
const (
	Settling    Stability = iota // The object may be patched.
	NotSettling                  // The decision on the object changes after each patch.
	Contested                    // Other clients, or an admission webhook, change the object back after each patch.
)

// Decided is an object with what was decided on it.
type Decided struct {
	Object    *unstructured.Unstructured
	Verdicts  []*placement.Verdict // The verdicts of all policies that match the object.
	Decisions []*PolicyDecision    // What the verdicts are based on.
}

var dataSeed = maphash.MakeSeed()

// hashOf returns a hash of a text that is comparable only within this process.
func hashOf[T ~string](text T) uint64 { return maphash.String(dataSeed, string(text)) }

// DataOf returns a hash of the versions of policies and the revisions of data that decisions are based on; 0 if data of one was missing.
func DataOf(decisions []*PolicyDecision) uint64 {
	out := uint64(1)
	for _, d := range decisions {
		if d.revision == 0 {
			return 0
		}
		// The decisions have no order.
		out += maphash.Comparable(dataSeed, struct {
			policy   *placement.Policy
			revision uint64
		}{d.policy, d.revision})
	}
	return max(out, 1)
}

// history holds the recent patches of one object.
type history struct {
	times []time.Time // The times of the patches within patchWindow.
	// object is a hash of the object's UID. before and version are hashes of its resource versions before and after the last patch.
	object, before, version uint64
	last                    patched   // The last patch.
	earlier                 []patched // Patches before the last one that made other changes, the newest first, at most maxEarlier.
	rounds                  []round   // The patches that did not last within roundWindow.
}

// patched is a patch of an object.
type patched struct {
	changes unique.Handle[string] // The changes that the patch made, as encodeChanges returns them.
	data    uint64                // What DataOf returned for the decisions that required the patch.
	at      time.Time             // When the patch was made.
	judged  bool                  // Whether it is known that the patch did not last.
}

// round is a patch that did not last.
type round struct {
	at        time.Time             // When it was found that the patch did not last.
	changes   unique.Handle[string] // The changes that are required again, or instead, as encodeChanges returns them.
	stability Stability             // Why the patch did not last.
}

// patched adds a patch that changed an object to its history. It reports whether there were at least maxPatches within patchWindow.
func (s *Scheduler) patched(now time.Time, key Key, patch Patch, due Due) bool {
	if now.Sub(s.swept) >= patchWindow {
		s.swept = now
		maps.DeleteFunc(s.histories, func(_ compactKey, h *history) bool { return now.Sub(h.last.at) > roundWindow+patchWindow })
	}
	h := s.histories[key.compact()]
	if uid := hashOf(patch.Object.GetUID()); h == nil || h.object != uid {
		h = &history{object: uid}
		s.histories[key.compact()] = h
	}
	h.times = append(h.recent(now), now)
	h.before, h.version = hashOf(patch.Object.GetResourceVersion()), hashOf(patch.Version)
	next := patched{changes: unique.Make(encodeChanges(due.changes())), data: patch.Data, at: now}
	if h.last.changes != (unique.Handle[string]{}) {
		known := func(p patched) bool { return p.changes == next.changes || p.changes == h.last.changes }
		h.earlier = slices.Insert(slices.DeleteFunc(h.earlier, known), 0, h.last)
		h.earlier = h.earlier[:min(len(h.earlier), maxEarlier)]
	}
	h.last = next
	return len(h.times) >= maxPatches
}

// recent returns the times of the patches within patchWindow, and drops earlier ones.
func (h *history) recent(now time.Time) []time.Time {
	for len(h.times) > 0 && now.Sub(h.times[0]) > patchWindow {
		h.times = h.times[1:]
	}
	return h.times
}

// ForgetPatches drops the histories of the objects for which forgotten returns true, so that these objects may be patched again.
func (s *Scheduler) ForgetPatches(forgotten func(Key) bool) {
	defer s.lock()()
	maps.DeleteFunc(s.histories, func(key compactKey, _ *history) bool { return forgotten(key.key()) })
}

// Judgment is the result of Judge.
type Judgment struct {
	Stability Stability
	// TooOften reports whether the object was patched too often within a minute, and must not be patched even if Stability is Settling.
	TooOften bool
	Due      Due           // The verdicts that require changes that Berth stops making because they do not last; nil if it does not stop.
	Began    bool          // Whether Judge found only now that patches of the object do not last.
	Again    time.Duration // The delay after which an object that must not be patched must be judged again.
}

// Judge reports whether patches of an object last. If they do not last for any field that is required to change, the object must not be
// patched. Judge counts the last patch as one that did not last in two cases:
//
//   - The same change is required again, although a client has written since, or although nothing has changed.
//   - Another change is required although nothing has changed.
//
// Changes that are required because of other data do not count.
func (s *Scheduler) Judge(now time.Time, key Key, d Decided) (out Judgment) {
	defer s.lock()()
	h := s.histories[key.compact()]
	if h == nil {
		return out
	}
	required := DueOf(d.Verdicts)
	for _, v := range DueOf(released(d.Verdicts)) {
		if !slices.Contains(required, v) {
			required = append(required, v)
		}
	}
	settling := Judgment{TooOften: len(h.recent(now)) >= maxPatches && len(required) > 0}
	if h.object != hashOf(d.Object.GetUID()) {
		return settling
	}
	h.rounds = slices.DeleteFunc(h.rounds, func(r round) bool { return now.Sub(r.at) >= roundWindow })
	before := len(h.rounds)
	if version := hashOf(d.Object.GetResourceVersion()); version != h.before {
		// Otherwise the watch has not delivered the object as it is after the patch.
		h.count(now, d, required, version != h.version)
	}
	out = settling
	for _, c := range required.changes() {
		n := 0
		for _, r := range h.rounds {
			if slices.ContainsFunc(decodeChanges(r.changes.Value()), func(of placement.Change) bool { return of.Field == c.Field && of.Key == c.Key }) {
				n, out.Stability = n+1, r.stability
			}
		}
		if n < maxRounds {
			return settling
		}
	}
	if out.Due = required; len(out.Due) > 0 {
		out.Began, out.Again = len(h.rounds) > before, roundWindow-now.Sub(h.rounds[0].at)
	}
	return out
}

// count adds a round for a patch that did not last. d and required are the newest decision. written: a client wrote since the last patch.
func (h *history) count(now time.Time, d Decided, required Due, written bool) {
	data := DataOf(d.Decisions)
	changes, sameData := required.changes(), h.last.data == data && data != 0
	again := h.last.common(changes)
	switch {
	case len(changes) == 0 && (sameData || h.last.holds(d.Object)):
		// The patch lasts so far.
		return
	case len(again) == 0 && !sameData:
		// Other data require something else, or an update by a client got that already.
		h.last.judged, h.rounds, h.earlier = true, nil, nil
		return
	case len(again) == 0 && !written:
		// A plan that is approved later is no result of the patch.
		if others := required.needing(false).changes(); len(others) > 0 && !h.last.judged {
			h.last.judged = true
			h.rounds = append(h.rounds, round{now, unique.Make(encodeChanges(others)), NotSettling})
		}
		return
	case h.last.judged || !written && !sameData:
		again = nil
	case len(again) > 0:
		h.last.judged = true
	}
	for i := range h.earlier {
		if p := &h.earlier[i]; !p.judged && p.data == data && data != 0 {
			more := p.common(changes)
			p.judged = len(more) > 0
			again = append(again, more...)
		}
	}
	if len(again) > 0 {
		h.rounds = append(h.rounds, round{now, unique.Make(encodeChanges(again)), Contested})
	}
}

// holds reports whether an object still has the annotations, labels, and list of clusters that the patch set.
func (p patched) holds(obj *unstructured.Unstructured) bool {
	return !slices.ContainsFunc(decodeChanges(p.changes.Value()), func(c placement.Change) bool { return !c.ChangesPods() && !c.Done(obj) })
}

// common returns those of the changes that set the same value as the patch did.
func (p patched) common(changes []placement.Change) (out []placement.Change) {
	before := decodeChanges(p.changes.Value())
	for _, c := range changes {
		if slices.ContainsFunc(before, func(b placement.Change) bool { return b.Field == c.Field && b.Key == c.Key && ptr.Equal(b.To, c.To) }) {
			out = append(out, c)
		}
	}
	return out
}

// protectedPod is a Pod whose eviction a PodDisruptionBudget did not allow.
type protectedPod struct {
	policies []string      // The names of the policies that require the eviction.
	at       time.Time     // When the eviction was tried last.
	delay    time.Duration // How long the Pod waits after at.
}

// repeat describes the evictions of Pods of one controller whose new Pods may require the same changes again.
type repeat struct {
	age time.Duration // How old a Pod that was created after the first eviction must be before it is evicted.
	// since is the time of the first eviction, and last that of the newest one.
	since, last time.Time
	made        patched // The changes for which the Pods are evicted.
}

// over reports whether the last eviction is so long ago that the repeat no longer counts.
func (r repeat) over(now time.Time) bool { return now.Sub(r.last) > repeatMemory }

// concerns reports whether a Pod was created after the first eviction, and requires the same changes again: the webhook did not place the
// new Pod. The API server stores the time of creation in whole seconds, so a Pod that was created in the same second counts as older.
func (r repeat) concerns(pod *unstructured.Unstructured, due Due) bool {
	return pod.GetCreationTimestamp().After(r.since.Truncate(time.Second)) && len(r.made.common(due.changes())) > 0
}

// evictionDelay returns the delay after which a Pod may be evicted; 0 if it may be evicted now. A Pod waits after a PodDisruptionBudget did
// not allow its eviction. It also waits if it is young, and Berth evicted another Pod of its controller before it was created: a controller
// whose Pods always violate the decision, for example because the webhook does not place them, must not lose one after the other.
func (s *Scheduler) evictionDelay(now time.Time, key Key, pod *unstructured.Unstructured, due Due) (out time.Duration) {
	if p, protected := s.protected[key]; protected {
		out = max(0, p.at.Add(p.delay).Sub(now))
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		if r := s.repeats[owner.UID]; !r.over(now) && r.concerns(pod, due) {
			// At least the age lies between two of them, too.
			out = max(out, pod.GetCreationTimestamp().Add(r.age).Sub(now), r.last.Add(r.age).Sub(now))
		}
	}
	return out
}

// evicted records that a Pod was evicted at a time, which must not be later than the request. It returns how old the controller's next Pods
// must be before they are evicted; 0 unless the Pod was created after an eviction of another one for the same changes.
func (s *Scheduler) evicted(at time.Time, key Key, pod *unstructured.Unstructured, due Due) (age time.Duration) {
	delete(s.protected, key)
	maps.DeleteFunc(s.repeats, func(_ types.UID, r repeat) bool { return r.over(at) })
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return 0
	}
	r, known := s.repeats[owner.UID]
	if !known || len(r.made.common(due.changes())) == 0 {
		r = repeat{age: repeatDelay, since: at, made: patched{changes: unique.Make(encodeChanges(due.changes()))}}
	}
	if known && r.concerns(pod, due) && !r.last.IsZero() {
		r.age = min(2*r.age, repeatDelayMax)
		age = r.age
	}
	r.last = at
	s.repeats[owner.UID] = r
	return age
}
