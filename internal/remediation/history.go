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
	"maps"
	"slices"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/internal/placement"
)

const (
	// An object that was patched maxPatches times within patchWindow does not settle. A decision that depends on its own output is patched
	// many times a second. Changes of the cluster's data that cause as many patches of one object are very rare.
	maxPatches  = 100
	patchWindow = time.Minute
	// A field of an object is left alone once maxRounds patches of it did not last within roundWindow, until the first of them is older than
	// that. Controllers that write what they want at an interval use intervals of minutes.
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

// Standing is whether an object keeps what Berth patches.
type Standing uint8

// The standings of objects.
const (
	Settling    Standing = iota // The object may be patched.
	NotSettling                 // The decision on the object changes after each patch.
	Contested                   // Other clients, or an admission webhook, change the object back after each patch.
)

// Decided is what was decided on an object, and on what.
type Decided struct {
	Object *unstructured.Unstructured
	// Verdicts are those of all policies that match the object, and Decisions what they are based on.
	Verdicts  []*placement.Verdict
	Decisions []*PolicyDecision
}

var dataSeed = maphash.MakeSeed()

func hashOf[T ~string](text T) uint64 { return maphash.String(dataSeed, string(text)) }

// DataOf identifies the versions of the policies that decided, and the data on which they did; 0 if some data were missing. Equal objects
// with equal data have equal decisions.
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

// history is what is known of the recent patches of one object.
type history struct {
	// times are the times of the patches within patchWindow.
	times []time.Time
	// object, before, and version are hashes of the UID, and of the resource versions before and after the last patch.
	object, before, version uint64
	// last is the last patch, and earlier are other ones that the data still require, the newest first.
	last    patched
	earlier []patched
	// rounds are the patches within roundWindow that did not last.
	rounds []round
}

// patched is a patch of an object.
type patched struct {
	// changes are the changes that it made, as encodeChanges returns them. data is what they were decided on.
	changes unique.Handle[string]
	data    uint64
	at      time.Time
	// judged reports whether it is known that the patch did not last.
	judged bool
}

// round is a patch that did not last.
type round struct {
	at time.Time
	// changes are those that are required again, or instead. standing is what they say of the object.
	changes  unique.Handle[string]
	standing Standing
}

// patched records a patch that changed an object. It reports whether the object was patched too often within a minute.
func (s *Scheduler) patched(now time.Time, key Key, patch Patch, due Due) bool {
	if now.Sub(s.swept) >= patchWindow {
		s.swept = now
		maps.DeleteFunc(s.histories, func(_ Key, h *history) bool { return now.Sub(h.last.at) > roundWindow+patchWindow })
	}
	h := s.histories[key]
	if uid := hashOf(patch.Object.GetUID()); h == nil || h.object != uid {
		h = &history{object: uid}
		s.histories[key] = h
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

// recent returns the times of the patches that count, and drops earlier ones.
func (h *history) recent(now time.Time) []time.Time {
	for len(h.times) > 0 && now.Sub(h.times[0]) > patchWindow {
		h.times = h.times[1:]
	}
	return h.times
}

// ForgetPatches drops the patches of objects for which forgotten returns true: they may settle from now on.
func (s *Scheduler) ForgetPatches(forgotten func(Key) bool) {
	defer s.lock()()
	maps.DeleteFunc(s.histories, func(key Key, _ *history) bool { return forgotten(key) })
}

// Judgment is the result of Judge.
type Judgment struct {
	Standing Standing
	// TooOften reports whether the object was patched too often within a minute, so that it must not be patched although it may settle.
	TooOften bool
	// Due are the verdicts with changes that are not made any more.
	Due Due
	// Began reports whether the object had another standing before.
	Began bool
	// Again is the time after which the object must be judged again if it must not be patched now.
	Again time.Duration
}

// Judge returns the standing of an object. The object must not be patched if all changes that are required of it are of fields of which
// patches do not last. Judge counts the last patch as one that did not last:
//
//   - if the same is required again, although a client has written since, or although nothing has changed;
//   - if something else is required although nothing has changed.
//
// What is required because of other data does not count.
func (s *Scheduler) Judge(now time.Time, key Key, d Decided) (out Judgment) {
	defer s.lock()()
	h := s.histories[key]
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
		n, last := h.roundsOf(c)
		if n < maxRounds {
			return settling
		}
		out.Standing = last.standing
	}
	if out.Due = required; len(out.Due) > 0 {
		out.Began, out.Again = len(h.rounds) > before, roundWindow-now.Sub(h.rounds[0].at)
	}
	return out
}

// count counts the patches that did not last. written reports whether a client wrote the object since the last one.
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
		if others := required.needNoApproval().changes(); len(others) > 0 && !h.last.judged {
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

// roundsOf returns how many patches of a field did not last, and the last of them.
func (h *history) roundsOf(c placement.Change) (n int, last round) {
	for _, r := range h.rounds {
		if slices.ContainsFunc(decodeChanges(r.changes.Value()), func(of placement.Change) bool { return of.Field == c.Field && of.Key == c.Key }) {
			n, last = n+1, r
		}
	}
	return n, last
}

// holds reports whether an object has the annotations and labels that the patch set.
func (p patched) holds(obj *unstructured.Unstructured) bool {
	return !slices.ContainsFunc(decodeChanges(p.changes.Value()), func(c placement.Change) bool { return !c.ChangesPods() && !c.Done(obj) })
}

// common returns those changes that set the same as the patch did.
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
	policies []string
	// at is when the eviction was tried last, and delay how long the Pod waits from then on.
	at    time.Time
	delay time.Duration
}

// repeat is the age that Pods of a controller need that were created after the first eviction for some changes.
type repeat struct {
	age time.Duration
	// since is the time of that eviction, and last that of the newest one.
	since, last time.Time
	made        patched
}

func (r repeat) over(now time.Time) bool { return now.Sub(r.last) > repeatMemory }

// concerns reports whether a Pod was created since then, and requires the same again. Then the webhook does not place new Pods. The API
// server stores the time of creation in whole seconds, so a Pod that was created in the same second counts as older.
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

// evicted declares that a Pod was evicted at a time, which must not be later than the request. If the Pod was created after an eviction of
// another Pod of its controller for the same changes, evicted returns the age that the next ones need before they are evicted; otherwise 0.
func (s *Scheduler) evicted(at time.Time, key Key, pod *unstructured.Unstructured, due Due) time.Duration {
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
	repeats := known && r.concerns(pod, due) && !r.last.IsZero()
	if r.last = at; repeats {
		r.age = min(2*r.age, repeatDelayMax)
	}
	s.repeats[owner.UID] = r
	if !repeats {
		return 0
	}
	return r.age
}
