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
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/attempts"
	"github.com/berth-dev/berth/internal/containment"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/probing"
)

// bounds holds the limits on the patches of one policy, or of all policies together, and what counts for them. Scheduler.mu protects it.
type bounds struct {
	name string // The name of the policy; "" for all policies together.
	// usage is what counts for the pace and the bounds of moves. Policies of a group share it.
	*usage
	version    *placement.Policy             // The policy's version in force; nil if there is none, or none known yet.
	limits     placementv1.RemediationBudget // The budget of the newest known version; for all policies together, the Limits.
	generation int64                         // The generation of the newest known version, to which failures belong; -1 after a deletion.
	// unavailable are the matched objects that are not ready, unless they still run in the clusters that they leave, and those that a patch
	// for any policy makes unavailable (claim.rolls), from its grant until they are ready.
	unavailable tally[struct{}]
	// settled is the Scheduler.epoch for which it is known which matched objects are ready; 0 for none. In another epoch it is not known, and
	// patches wait after which the object counts as being moved (claim.follows).
	settled  int
	resuming bool // Set until it is known which matched objects an earlier leader was moving. Only then do these count as moves.
	// left has, while resuming is set, the moves to other clusters that an earlier leader had not ended. They count as moves, against the
	// limits, only once resuming ends. Keys have no version.
	left               map[Key]Move
	rolled             []schema.GroupVersionResource // The types of matched objects whose rollouts are observed.
	lastMaxUnavailable int                           // The last maxUnavailable while objects waited. If it grows, they are tried again.
	failed             tally[Failure]                // Objects with a refused patch or failed rollout; keys have no API version. None expires.
	pause              string                        // The ID of the pause that failed patches or rollouts caused; "" for none.
	paused             containment.Scope             // In which namespaces the pause stops patches; empty for all, and without a pause.
	// probes are the objects with a patch that ended as Failed since the last success in their namespace. They wait before they are patched
	// again. Several in one namespace make all objects there wait, and failures in many namespaces make all objects wait.
	probes   probing.Failures[Key]
	reported time.Time // When learn last returned that a failure should be logged.
	data     holding   // Delays patches while the policy's data keeps changing.
}

// newBounds returns bounds that behave as if the last patch had been at the time last.
func newBounds(name string, last time.Time) *bounds {
	b := &bounds{name: name, usage: newUsage(last), unavailable: newTally[struct{}](), failed: newTally[Failure]()}
	b.members = []*bounds{b}
	return b
}

// usage has the times of the last patch and of the last grant, for the pace (MaxPerMinute), which is a minimum interval, and the objects
// that are being moved, for the limits on these. It is that of one policy, of the policies of a group together, or of all policies. It does
// not have the objects that are unavailable.
type usage struct {
	members []*bounds // The bounds that share the usage: of one policy, of the policies of a group, or only Scheduler.all.
	// last is the time of the last patch, or when this replica began to lead, if it has made none. earlier is what last was before that patch.
	// granted is when Schedule last granted an object a patch; zero for never.
	last, earlier, granted time.Time
	// moving are the objects that are being moved. late are those of them that have failed because they did not run in time: they take room
	// within all limits on moves, but only from other objects of their namespace.
	moving, late tally[struct{}]
}

// newUsage returns a usage without objects that are being moved, for which the last patch counts as made at the time last.
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

// stopped returns in which namespaces the objects that have failed now are so many that the policy's patches stop, whether or not it is
// paused yet: an empty scope is all namespaces. stops is false if in none.
func (b *bounds) stopped() (scope containment.Scope, stops bool) {
	return containment.Of(b.failed.namespaces, containment.LimitOf(b.limits.PauseAfterFailures, containment.Never))
}

// pauseID returns the ID of a pause of a policy of a generation that begins now, such as 3-mi9q2k1c: a release names it.
func pauseID(generation int64, now time.Time) string {
	return strconv.FormatInt(generation, 10) + "-" + strconv.FormatInt(now.UnixMilli(), 36)
}

// blocked returns what keeps an object back: first a limit on objects that are being moved, unless it is one of them already, then the pace
// (MaxPerMinute); the zero block if neither does. granted reports whether Schedule has granted the object a patch: then the interval of
// MaxPerMinute counts from the last patch alone, and not from the last grant.
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

// maxUnavailable returns how many of the policy's matched objects may be unavailable: the number in its budget, or the percentage, rounded
// down, of the objects of the types in rolled; all of these if the budget has neither. It is at least 1, or no object could ever be moved.
func (b *bounds) maxUnavailable(objects Matches) int {
	most := ptr.Deref(b.limits.MaxUnavailable, intstr.FromString("100%"))
	out, err := intstr.GetScaledValueFromIntOrPercent(&most, objects.Matched(b.name, b.rolled), false)
	if err != nil {
		// The schema refuses such a value.
		return 1
	}
	return max(out, 1)
}

// count updates whether an object counts as moving and late, by its movement, and as unavailable, by the argument. freed reports whether
// the object no longer counts against a limit that is set, so that other objects may be patched now.
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

const (
	// holdDown is how long patches for a change of data wait after those for the change before. It doubles with each change, up to
	// holdDownMax, and is reset after twice holdDownMax without a change.
	holdDown    = time.Second
	holdDownMax = 5 * time.Minute
	// reportInterval is the minimum interval between two log messages about failing patches of a policy.
	reportInterval = time.Minute
)

// holding delays the patches of a policy while its data keeps changing: longer with each change, up to a maximum. It has the time of the
// first patch for the newest change, and the delay.
type holding struct {
	revised bool          // Set from a change of the data until the next object is patched.
	acted   time.Time     // When the first object was patched for the newest change for which any was; zero if none was.
	hold    time.Duration // How long after acted the patches for the next change wait: doubled with each change, up to holdDownMax.
}

// until returns when patches for the newest change of the data may begin: the time hold after the first patch for an earlier change. It
// returns zero if that time has come, or once an object has been patched for the newest change.
func (h *holding) until(now time.Time) time.Time {
	if at := h.acted.Add(h.hold); h.revised && now.Before(at) {
		return at
	}
	return time.Time{}
}

// act records that an object is patched for the newest data of the policy. Other patches for that data no longer wait, and those for the
// next change of the data wait longer, counted from the first patch for this one.
func (h *holding) act(now time.Time) {
	if h.revised && !now.Before(h.acted.Add(h.hold)) {
		if now.Sub(h.acted) > 2*holdDownMax {
			h.hold = 0
		}
		h.acted, h.hold = now, attempts.Backoff(h.hold, holdDown, holdDownMax)
	}
	h.revised = false
}

// Judgment is whether patches of one object last, or are undone by other clients or by the policies themselves, whether this object was
// patched too often within a minute, whatever MaxPerMinute of the policies is, and when to judge again. Judge returns it.
type Judgment struct {
	attempts.Judgment
	Due Due // If patches do not last, all verdicts that require changes, or would once approved; nil if they last, even if made too often.
}

// Judge returns whether patches of an object last, or are undone by other clients or by the policies themselves. obj is its newest version,
// verdicts what was decided on that, and data a hash of what the verdicts are based on.
func (s *Scheduler) Judge(now time.Time, key Key, obj *unstructured.Unstructured, verdicts []*placement.Verdict,
	data uint64) (out Judgment) {
	required := DueOf(verdicts)
	for _, v := range DueOf(released(verdicts)) {
		if !slices.Contains(required, v) {
			required = append(required, v)
		}
	}
	defer s.lock()()
	out.Judgment = s.attempts.Judge(now, key.Compact(), obj, required.changes(), required.needing(false).changes(), data)
	if out.Stability != attempts.Settling {
		out.Due = required
	}
	return out
}

// ForgetPatches drops the histories of patches of the objects for which forgotten returns true, so that these objects may be patched again
// although patches of them did not last.
func (s *Scheduler) ForgetPatches(forgotten func(Key) bool) {
	defer s.lock()()
	s.attempts.ForgetPatches(func(key CompactKey) bool { return forgotten(key.Key()) })
}
