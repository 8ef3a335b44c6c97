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

// Package attempts remembers the patches and evictions of single objects: whether patches last, and how long the next one waits.
package attempts

import (
	"hash/maphash"
	"maps"
	"slices"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/moveset"
	"github.com/berth-dev/berth/internal/placement"
)

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
	// RefusedDelay is the first delay after a patch was refused for a reason of the object's own. The longest one is refusedDelayMax.
	RefusedDelay    = 10 * time.Second
	refusedDelayMax = 5 * time.Minute
	// protectedDelay is the first delay after a PodDisruptionBudget did not allow an eviction. It doubles up to protectedDelayMax.
	protectedDelay    = 5 * time.Second
	protectedDelayMax = 5 * time.Minute
	// repeatDelay is the age that new Pods of a controller need before they are evicted for the same changes as an earlier one. It doubles up
	// to repeatDelayMax with each new Pod that is evicted. It is forgotten when no Pod of the controller was evicted for repeatMemory.
	repeatDelay    = time.Minute
	repeatDelayMax = time.Hour
	repeatMemory   = 2 * repeatDelayMax
)

// Stability tells whether patches of an object last, or why they do not: the decision changes after each, or a client or a webhook changes
// the object back. The zero value means that they last, or that this is not known yet.
type Stability uint8

// The kinds of stability.
const (
	Settling    Stability = iota // The object may be patched.
	NotSettling                  // The decision on the object changes after each patch.
	Contested                    // Other clients, or an admission webhook, change the object back after each patch.
)

// Judgment is the result of judging the patches of an object: whether they last, whether there were too many, whether one was just found
// not to last, and when to judge again.
type Judgment struct {
	Stability Stability
	// TooOften reports whether the object was patched too often within a minute, and must not be patched even if Stability is Settling.
	TooOften bool
	// Began reports whether patches do not last, and this call of Judge found another one that did not.
	Began bool
	// Again is the time until Judge must be called again: if patches do not last, until the first of the counted patches that did not is an
	// hour old and no longer counts; if there were too many within a minute, until there are fewer; otherwise 0.
	Again time.Duration
}

// Attempts has the recent patches and evictions of objects, which keys of type K identify. It is not safe for concurrent use.
type Attempts[K comparable] struct {
	histories map[K]*history       // The recent patches of each object.
	swept     time.Time            // When old histories were last removed.
	refusals  map[K]time.Duration  // The delay before the next patch of each object whose last patch was refused.
	protected map[K]protectedPod   // The Pods whose eviction a PodDisruptionBudget did not allow.
	repeats   map[types.UID]repeat // The recent evictions of the Pods of each controller, by UID of the controller.
}

// New returns attempts without patches.
func New[K comparable]() *Attempts[K] {
	return &Attempts[K]{
		histories: map[K]*history{}, refusals: map[K]time.Duration{}, protected: map[K]protectedPod{}, repeats: map[types.UID]repeat{},
	}
}

// history holds the recent patches of one object, and which of them did not last.
type history struct {
	times []time.Time // The times of the patches within patchWindow.
	// object is a hash of the object's UID. before and version are hashes of its resource versions before and after the last patch.
	object, before, version uint64
	last                    patched   // The last patch.
	earlier                 []patched // Patches before the last one that made other changes, the newest first, at most maxEarlier.
	rounds                  []round   // The patches of which it was found within roundWindow that they did not last.
}

// patched is a patch that Berth has made to an object: which changes it made, on which data they were decided, and when.
type patched struct {
	changes unique.Handle[string] // The changes that the patch made, as moveset.Encode returns them.
	data    uint64                // A hash of the data on which the changes were decided; 0 if data was missing.
	at      time.Time             // When the patch was made.
	judged  bool                  // Whether it needs no judging any more: it is known that it did not last, or other data replaced it.
}

// round is a patch that did not last: when that was found, which changes are required now, and why it did not: because the decision changes
// (NotSettling), or because a client or a webhook changed the object back (Contested).
type round struct {
	at        time.Time             // When it was found that the patch did not last.
	changes   unique.Handle[string] // The changes that are required again, or instead, as moveset.Encode returns them.
	stability Stability             // Why the patch did not last: NotSettling or Contested.
}

var seed = maphash.MakeSeed()

// hashOf returns a hash of a text that is comparable only within this process.
func hashOf[T ~string](text T) uint64 { return maphash.String(seed, string(text)) }

// Patched records a patch of an object: the object before it (obj), the resource version that it led to, the changes that it made, and a
// hash of the data on which these were decided, or 0 if data was missing. It reports whether there were at least maxPatches within
// patchWindow.
func (a *Attempts[K]) Patched(now time.Time, key K, obj *unstructured.Unstructured, version string,
	changes []placement.Change, data uint64) bool {
	if now.Sub(a.swept) >= patchWindow {
		a.swept = now
		maps.DeleteFunc(a.histories, func(_ K, h *history) bool { return now.Sub(h.last.at) > roundWindow+patchWindow })
	}
	h := a.histories[key]
	if uid := hashOf(obj.GetUID()); h == nil || h.object != uid {
		h = &history{object: uid}
		a.histories[key] = h
	}
	h.times = append(h.recent(now), now)
	h.before, h.version = hashOf(obj.GetResourceVersion()), hashOf(version)
	next := patched{changes: unique.Make(moveset.Encode(changes)), data: data, at: now}
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
	for len(h.times) > 0 && now.Sub(h.times[0]) >= patchWindow {
		h.times = h.times[1:]
	}
	return h.times
}

// Forget drops the attempts on an object that does not exist any more, but not what is known of the evictions of its controller's Pods.
func (a *Attempts[K]) Forget(key K) {
	delete(a.histories, key)
	delete(a.refusals, key)
	delete(a.protected, key)
}

// ForgetPatches drops the patches of the objects for which forgotten returns true. It keeps what is known of refusals and evictions.
func (a *Attempts[K]) ForgetPatches(forgotten func(K) bool) {
	maps.DeleteFunc(a.histories, func(key K, _ *history) bool { return forgotten(key) })
}

// Judge reports whether patches of an object last. required are the changes that the newest decision on it requires because of data, and
// automatic are those of them that need no approval. If patches do not last for any field that is required to change, the object must not
// be patched. Judge counts the last patch as one that did not last in two cases:
//
//   - The same change is required again, although a client has written since, or although nothing has changed.
//   - Another change is required although nothing has changed.
//
// If only other changes are required, and because of other data, Judge forgets the patches that did not last.
func (a *Attempts[K]) Judge(now time.Time, key K, obj *unstructured.Unstructured, required, automatic []placement.Change,
	data uint64) (out Judgment) {
	h := a.histories[key]
	if h == nil {
		return out
	}
	var settling Judgment
	if recent := h.recent(now); len(recent) >= maxPatches && len(required) > 0 {
		settling.TooOften, settling.Again = true, patchWindow-now.Sub(recent[len(recent)-maxPatches])
	}
	if h.object != hashOf(obj.GetUID()) {
		return settling
	}
	h.rounds = slices.DeleteFunc(h.rounds, func(r round) bool { return now.Sub(r.at) >= roundWindow })
	before := len(h.rounds)
	if version := hashOf(obj.GetResourceVersion()); version != h.before {
		// Otherwise the watch has not delivered the object as it is after the patch.
		h.count(now, obj, required, automatic, data, version != h.version)
	}
	out = settling
	for _, c := range required {
		n := 0
		for _, r := range h.rounds {
			if slices.ContainsFunc(moveset.Decode(r.changes.Value()), func(of placement.Change) bool {
				return of.Field == c.Field && of.Key == c.Key
			}) {
				n, out.Stability = n+1, r.stability
			}
		}
		if n < maxRounds {
			return settling
		}
	}
	if len(required) > 0 {
		out.Began, out.Again = len(h.rounds) > before, roundWindow-now.Sub(h.rounds[0].at)
	}
	return out
}

// count adds a round if the last patch, or an earlier one, did not last: if a value is required again that it set, or another one although
// neither the object nor the data have changed. If none is required again, and the data have changed, count forgets the rounds so far. The
// arguments from obj to data are those of Judge. written reports whether a client has written the object since the last patch.
func (h *history) count(now time.Time, obj *unstructured.Unstructured, required, automatic []placement.Change, data uint64, written bool) {
	sameData := h.last.data == data && data != 0
	again := h.last.common(required)
	switch {
	case len(required) == 0 && (sameData || h.last.holds(obj)):
		// The patch lasts so far.
		return
	case len(again) == 0 && !sameData:
		// Other data require something else, or an update by a client got that already.
		h.last.judged, h.rounds, h.earlier = true, nil, nil
		return
	case len(again) == 0 && !written:
		// A plan that is approved later is no result of the patch.
		if len(automatic) > 0 && !h.last.judged {
			h.last.judged = true
			h.rounds = append(h.rounds, round{now, unique.Make(moveset.Encode(automatic)), NotSettling})
		}
		return
	case h.last.judged || !written && !sameData:
		again = nil
	case len(again) > 0:
		h.last.judged = true
	}
	for i := range h.earlier {
		if p := &h.earlier[i]; !p.judged && p.data == data && data != 0 {
			more := p.common(required)
			p.judged = len(more) > 0
			again = append(again, more...)
		}
	}
	if len(again) > 0 {
		h.rounds = append(h.rounds, round{now, unique.Make(moveset.Encode(again)), Contested})
	}
}

// holds reports whether an object still has the annotations, labels, and list of clusters that the patch set.
func (p patched) holds(obj *unstructured.Unstructured) bool {
	return !slices.ContainsFunc(moveset.Decode(p.changes.Value()), func(c placement.Change) bool { return !c.ChangesPods() && !c.Done(obj) })
}

// common returns those of the changes that set the same value as the patch did.
func (p patched) common(changes []placement.Change) []placement.Change {
	return moveset.Common(p.changes.Value(), changes)
}

// Succeeded records that a patch or an eviction of an object gave it its placement, so that Refused begins with its shortest delay again.
func (a *Attempts[K]) Succeeded(key K) { delete(a.refusals, key) }

// Refused records that the API server refused a patch for a reason of the object's own, such as its validation. It returns the delay before
// the object may be patched again, which grows with each refusal in a row.
func (a *Attempts[K]) Refused(key K) time.Duration {
	a.refusals[key] = Backoff(a.refusals[key], RefusedDelay, refusedDelayMax)
	return a.refusals[key]
}

// Backoff returns the delay that follows the delay before: twice as long, at least first, and at most most.
func Backoff(before, first, most time.Duration) time.Duration { return min(max(2*before, first), most) }

// protectedPod is a Pod whose eviction a PodDisruptionBudget did not allow: which policies require it, when it was tried last, and how long
// the next one waits.
type protectedPod struct {
	policies []string      // The names of the policies that require the eviction by the newest decision.
	at       time.Time     // When the eviction was tried last.
	delay    time.Duration // From at to the next attempt. It doubles each time that one is not allowed, up to protectedDelayMax.
}

// Protected records that a PodDisruptionBudget did not allow an eviction for policies. It returns the delay before the next one.
func (a *Attempts[K]) Protected(now time.Time, key K, policies []string) time.Duration {
	p := protectedPod{policies, now, Backoff(a.protected[key].delay, protectedDelay, protectedDelayMax)}
	a.protected[key] = p
	return p.delay
}

// Decided records, for a Pod whose last eviction a PodDisruptionBudget did not allow, which policies require its eviction by the newest
// decision. If evicts is false, none does: the Pod is forgotten, so that ProtectedFor no longer counts it, and its delay ends. It has no
// effect on other Pods.
func (a *Attempts[K]) Decided(key K, policies []string, evicts bool) {
	if p, protected := a.protected[key]; !evicts {
		delete(a.protected, key)
	} else if protected {
		p.policies = policies
		a.protected[key] = p
	}
}

// ProtectedFor returns the number of Pods that a policy requires to be evicted and whose last eviction a PodDisruptionBudget did not allow.
func (a *Attempts[K]) ProtectedFor(policy string) (n int) {
	for _, p := range a.protected {
		if slices.Contains(p.policies, policy) {
			n++
		}
	}
	return n
}

// repeat describes the evictions of Pods of one controller whose new Pods may require the same changes again: for which changes and when
// they were evicted, and how old new Pods must be before they are.
type repeat struct {
	// age is how old a Pod that was created after the first eviction must be before it is evicted for one of the same changes. It doubles each
	// time that such a Pod is evicted, up to repeatDelayMax.
	age time.Duration
	// since is the time of the first eviction, and last that of the newest one.
	since, last time.Time
	changes     string // What Pods are evicted for, as moveset.Encode returns it. One of these changes makes a later Pod wait.
}

// over reports whether the last eviction is so long ago that the repeat no longer counts.
func (r repeat) over(now time.Time) bool { return now.Sub(r.last) > repeatMemory }

// concerns reports whether a Pod was created after the first eviction, and at least one of the changes that it requires sets the same value
// as one for which Pods were evicted: the webhook did not place the new Pod. The API server stores the time of creation in whole seconds,
// so a Pod that was created in the same second counts as older.
func (r repeat) concerns(pod *unstructured.Unstructured, changes []placement.Change) bool {
	return pod.GetCreationTimestamp().After(r.since.Truncate(time.Second)) && len(moveset.Common(r.changes, changes)) > 0
}

// EvictionDelay returns the delay after which a Pod may be evicted; 0 if it may be evicted now. A Pod waits after a PodDisruptionBudget did
// not allow its eviction. It also waits if Berth evicted a Pod of its controller for the same change before it was created, until it and
// the last such eviction are old enough: a controller whose Pods always violate the decision, for example because the webhook does not
// place them, must not lose one after the other.
func (a *Attempts[K]) EvictionDelay(now time.Time, key K, pod *unstructured.Unstructured, changes []placement.Change) (out time.Duration) {
	if p, protected := a.protected[key]; protected {
		out = max(0, p.at.Add(p.delay).Sub(now))
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		if r := a.repeats[owner.UID]; !r.over(now) && r.concerns(pod, changes) {
			// At least the age lies between two of them, too.
			out = max(out, pod.GetCreationTimestamp().Add(r.age).Sub(now), r.last.Add(r.age).Sub(now))
		}
	}
	return out
}

// Evicted records that the Pod with a key was evicted at a time, which must not be later than the request. From then on, EvictionDelay
// makes those Pods wait that the Pod's controller creates later and that require one of the same changes, until they and the last eviction
// are repeatDelay old. If the Pod was such a one itself, that age doubles, and Evicted returns it, for users; otherwise it returns 0,
// although new Pods wait.
func (a *Attempts[K]) Evicted(at time.Time, key K, pod *unstructured.Unstructured, changes []placement.Change) (age time.Duration) {
	delete(a.protected, key)
	maps.DeleteFunc(a.repeats, func(_ types.UID, r repeat) bool { return r.over(at) })
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return 0
	}
	r, known := a.repeats[owner.UID]
	if !known || len(moveset.Common(r.changes, changes)) == 0 {
		r = repeat{age: repeatDelay, since: at, changes: moveset.Encode(changes)}
	}
	if known && r.concerns(pod, changes) && !r.last.IsZero() {
		r.age = min(2*r.age, repeatDelayMax)
		age = r.age
	}
	r.last = at
	a.repeats[owner.UID] = r
	return age
}
