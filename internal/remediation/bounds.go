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
	"iter"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/containment"
	"github.com/berth-dev/berth/internal/placement"
)

// bounds is what keeps back the patches of one policy, or of all policies together. The Scheduler's mutex protects it.
type bounds struct {
	// name is the name of the policy; "" for all policies together.
	name string
	// usage is what counts for the pace and the bounds of moves. Policies of a group share it.
	*usage
	// version is the policy's version in force; nil if there is none, or none known yet. limits and generation are those of the newest one.
	version    *placement.Policy
	limits     placementv1.RemediationBudget
	generation int64
	// unavailable are the matched objects that are not ready, or that are moved by a patch that rolls pods.
	unavailable tally[struct{}]
	// settled reports whether all matched objects have been observed, and resuming whether an earlier leader may have been moving those that
	// are not ready. left are the known moves of that leader to other clusters, until it is known which objects run there.
	settled, resuming bool
	left              map[Key]Move
	// rolled are the types of matched objects whose rollouts are observed.
	rolled []schema.GroupVersionResource
	// most is how many objects might be unavailable when an object was decided last.
	most int
	// failed are the objects, unversioned, whose patch or rollout failed. pause identifies the pause because of them, "" for none, and paused
	// is where it stops patches.
	failed tally[failure]
	pause  string
	paused containment.Scope
	// probes are the patches that fail for reasons that objects share, and data the changes of the policy's data.
	probes failing
	data   holding
}

// failure is why a patch of an object, or its rollout, failed.
type failure struct {
	reason  string
	rollout bool
}

func newBounds(name string, last time.Time) *bounds {
	b := &bounds{name: name, unavailable: newTally[struct{}](), failed: newTally[failure]()}
	b.share(newUsage(last))
	return b
}

// usage is what is done for one policy, for the policies of a group, or for all policies.
type usage struct {
	// members are the policies that share it.
	members sets.Set[*bounds]
	// last is the time of the last patch, and earlier that of the one before it. granted is when an object was last granted a patch.
	last, earlier, granted time.Time
	// moving are the objects that are moved, and late those of them that have failed because they do not run in time.
	moving, late tally[struct{}]
}

func newUsage(last time.Time) *usage {
	return &usage{members: sets.New[*bounds](), last: last, moving: newTally[struct{}](), late: newTally[struct{}]()}
}

// share makes the policy share a usage in place of its present one.
func (b *bounds) share(u *usage) {
	if b.usage != nil {
		b.members.Delete(b)
	}
	b.usage = u
	u.members.Insert(b)
}

// any reports whether f is true for one of the policies that share the usage.
func (u *usage) any(f func(*bounds) bool) bool {
	for member := range u.members {
		if f(member) {
			return true
		}
	}
	return false
}

// tally holds objects, with their numbers by namespace.
type tally[V any] struct {
	objects    map[Key]V
	namespaces map[string]int
}

func newTally[V any]() tally[V] { return tally[V]{map[Key]V{}, map[string]int{}} }

func (t tally[V]) has(key Key) bool {
	_, has := t.objects[key]
	return has
}

func (t tally[V]) put(key Key, v V) {
	if !t.has(key) {
		t.namespaces[key.Namespace]++
	}
	t.objects[key] = v
}

// remove removes an object, and reports whether the tally had it.
func (t tally[V]) remove(key Key) bool {
	if !t.has(key) {
		return false
	}
	delete(t.objects, key)
	if t.namespaces[key.Namespace]--; t.namespaces[key.Namespace] == 0 {
		delete(t.namespaces, key.Namespace)
	}
	return true
}

// set adds an object without a value, or removes it.
func (t tally[V]) set(key Key, member bool) {
	var none V
	if !member {
		t.remove(key)
	} else if !t.has(key) {
		t.put(key, none)
	}
}

// next returns the time of the earliest next patch, or grant; zero if there is no bound.
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

// boundsMoves reports whether the number of objects that are moved at the same time is bounded.
func (b *bounds) boundsMoves() bool { return b.limits.MaxConcurrent > 0 || b.limits.PerNamespace > 0 }

// stopped returns where the failures stop patches, and whether they do anywhere.
func (b *bounds) stopped() (scope containment.Scope, stops bool) {
	return containment.Of(b.failed.namespaces, containment.LimitOf(b.limits.PauseAfterFailures, containment.Never))
}

// pauseID returns an identifier of a pause that begins now.
func pauseID(generation int64, now time.Time) string {
	return strconv.FormatInt(generation, 10) + "-" + strconv.FormatInt(now.UnixMilli(), 36)
}

// blocked returns what keeps an object back before the policy, or another one of its group, may move it.
func (b *bounds) blocked(now time.Time, key Key, granted bool) block {
	// A moved object takes no other slot. One that has failed takes a slot of its namespace alone, so that no tenant stops the others.
	self, elsewhere := count(b.moving.has(key)), len(b.late.objects)-b.late.namespaces[key.Namespace]
	if most := int(b.limits.MaxConcurrent); most > 0 && len(b.moving.objects)-self-elsewhere >= most {
		return block{reason: forSlot, policy: b.name}
	}
	if most := b.limits.PerNamespace; most > 0 && b.moving.namespaces[key.Namespace]-self >= int(most) {
		return block{reason: forSlot, policy: b.name}
	}
	if next := b.next(granted); now.Before(next) {
		return block{forPace, b.name, next}
	}
	return block{}
}

// maxUnavailable returns how many matched objects may be unavailable: at least 1, since with 0, no object could ever be moved.
func (b *bounds) maxUnavailable(objects Matches) int {
	most := ptr.Deref(b.limits.MaxUnavailable, intstr.FromString("100%"))
	out, err := intstr.GetScaledValueFromIntOrPercent(&most, objects.Matched(b.name, b.rolled), false)
	if err != nil {
		// The schema refuses such a value.
		return 1
	}
	return max(out, 1)
}

// count records whether an object is moved, late, or unavailable for the policy. It reports whether that leaves more room for others.
func (b *bounds) count(key Key, m *movement, unavailable bool) (freed bool) {
	moved, was, late := b.moving.has(key), b.unavailable.has(key), b.late.has(key)
	moves := b.name == "" && len(m.patching)+len(m.following) > 0 || b.any(m.movesFor)
	b.moving.set(key, moves)
	b.late.set(key, moves && m.late && len(m.patching) == 0)
	b.unavailable.set(key, unavailable)
	room := moved && !moves || !late && b.late.has(key)
	return room && b.any((*bounds).boundsMoves) || was && !unavailable && b.limits.MaxUnavailable != nil
}

// unversioned returns the key without the version of its resource. An object is the same in all versions.
func unversioned(key Key) Key {
	key.Resource.Version = ""
	return key
}

// inAnyVersion returns the value of an object. If the key has no version of its resource, it looks at all objects for any version.
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
	// holdDown is how long the patches for a change of data wait after the patches for the previous change. It doubles with each change, up to
	// holdDownMax. It is reset after twice holdDownMax without a change.
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

// backoff returns the delay that follows a delay: twice of it, but first at least, and most at most.
func backoff(before, first, most time.Duration) time.Duration { return min(max(2*before, first), most) }

// holding delays patches longer and longer while the data of their policy keeps changing.
type holding struct {
	// revised is set when the data changed, until the next object is patched.
	revised bool
	// acted is when objects were first patched for the last change of data. hold is how long patches for the next change wait from then on.
	acted time.Time
	hold  time.Duration
}

// until returns when patches for the newest change of data may begin; zero if they may now.
func (h *holding) until(now time.Time) time.Time {
	if at := h.acted.Add(h.hold); h.revised && now.Before(at) {
		return at
	}
	return time.Time{}
}

// act declares that an object is patched for the newest data.
func (h *holding) act(now time.Time) {
	revised := h.revised
	if h.revised = false; !revised || now.Before(h.acted.Add(h.hold)) {
		return
	}
	if now.Sub(h.acted) > 2*holdDownMax {
		h.hold = 0
	}
	h.acted, h.hold = now, backoff(h.hold, holdDown, holdDownMax)
}

// streak is what is known of patches that fail for a reason that other objects may share, since the last one that succeeded.
type streak struct {
	// members are the objects that failed, or the namespaces, as keys without names.
	members sets.Set[Key]
	// failed is when a probe failed last. pace is how long all patches wait after that.
	failed time.Time
	pace   time.Duration
	// probed is when the probe began that is under way, and probe its object; zero if there is none.
	probed time.Time
	probe  Key
}

// fail adds a failure. Failures of patches that ran at the same time lengthen the pace only once.
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

// end declares that the probe of an object has no result.
func (s *streak) end(key Key) {
	if s.probe == key {
		s.probed, s.probe = time.Time{}, Key{}
	}
}

// until returns when an object may be the probe; zero if it may now.
func (s *streak) until(now time.Time, key Key) time.Time {
	if until := s.failed.Add(s.pace); now.Before(until) {
		return until
	}
	if until := s.probed.Add(probeLimit); !s.probed.IsZero() && s.probe != key && now.Before(until) {
		return until
	}
	return time.Time{}
}

// failing are the patches of a policy that fail for reasons that objects may share. The failures of a namespace hold up the other patches
// there, and those of many namespaces all patches.
type failing struct {
	objects    map[string]*streak
	namespaces streak
	// reported is the time of the last log message about a failure.
	reported time.Time
}

// of returns the streaks that hold up an object, with what is a member of them if it failed.
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

// until returns when a patch of an object may be tried; zero if it may now.
func (f *failing) until(now time.Time, key Key) (out time.Time) {
	for t := range f.of(key) {
		if out = t.until(now, key); !out.IsZero() {
			break
		}
	}
	return out
}

// begin declares that an object may be patched, so that it is the probe for others.
func (f *failing) begin(now time.Time, key Key) {
	for t := range f.of(key) {
		t.probed, t.probe = now, key
	}
}

// end declares that the patch of an object has no result, or is not made.
func (f *failing) end(key Key) {
	f.namespaces.end(key)
	if t := f.objects[key.Namespace]; t != nil {
		t.end(key)
	}
}

// fail declares that the patch of an object failed.
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

// succeed declares that the patch of an object succeeded. It returns the objects that had failed in its namespace.
func (f *failing) succeed(key Key) (failed sets.Set[Key]) {
	if t := f.objects[key.Namespace]; t != nil {
		failed = t.members
	}
	delete(f.objects, key.Namespace)
	f.namespaces = streak{}
	return failed
}

// forget declares that an object does not exist any more.
func (f *failing) forget(key Key) {
	f.end(key)
	if t := f.objects[key.Namespace]; t != nil && len(t.members.Delete(key)) == 0 {
		delete(f.objects, key.Namespace)
		f.namespaces.members.Delete(Key{Namespace: key.Namespace})
	}
}

// has reports whether an object failed since the last success in its namespace.
func (f *failing) has(key Key) bool {
	t := f.objects[key.Namespace]
	return t != nil && t.members.Has(key)
}
