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

const (
	// holdDown is how long the patches for a change of data wait after the patches for the previous change. It doubles
	// with each change, up to holdDownMax. It is reset after twice holdDownMax without a change.
	holdDown    = time.Second
	holdDownMax = 5 * time.Minute
)

// bounds is what keeps back the patches of one policy, or of all policies together. The Scheduler's mutex protects it.
type bounds struct {
	// name is the name of the policy; "" for all policies together.
	name string
	// usage is what counts against the pace and the bounds of moves. Policies of a group share it.
	*usage
	// version is the version of the policy in force; nil if there is none, or if it is not known yet. limits and generation are
	// those of the newest version. interval is the minimum time between two patches; 0 for no bound.
	version    *placement.Policy
	limits     placementv1.RemediationBudget
	generation int64
	interval   time.Duration
	// unavailable are the matched objects that are not ready, or that are moved by a patch that rolls pods.
	unavailable sets.Set[Key]
	// settled reports whether all objects that the policy matches have been observed. resuming reports whether an earlier
	// leader was carrying out a plan of the policy, so that objects whose rollouts are not complete are being moved.
	settled, resuming bool
	// left are the moves of an earlier leader to other clusters that are known, until it is known which of the objects run there.
	left map[Key]Move
	// rolled are the types of matched objects whose rollouts are observed.
	rolled []schema.GroupVersionResource
	// most is how many objects may be unavailable, as mayHaveMore found last.
	most int
	// failures are the numbers of objects whose patch or rollout failed, by namespace. pause identifies the pause because of them; ""
	// for none. paused is where it stops patches, if there is one.
	failures map[string]int
	pause    string
	paused   containment.Scope
	// probes are the patches that fail for reasons that objects share, and data the changes of the policy's data.
	probes failing
	data   holding
}

func newBounds(name string, last time.Time) *bounds {
	b := &bounds{name: name, unavailable: sets.New[Key](), failures: map[string]int{}}
	b.share(newUsage(last))
	return b
}

// usage is what is done for one policy, for the policies of a group, or for all policies.
type usage struct {
	// members are the policies that share it.
	members sets.Set[*bounds]
	// last is the time of the last patch, and earlier that of the one before it. granted is when an object was last granted a patch.
	last, earlier, granted time.Time
	// moving are the objects that are moved, and late are those of them that have failed because they do not run in time.
	moving, late tally
}

func newUsage(last time.Time) *usage {
	return &usage{members: sets.New[*bounds](), last: last, moving: newTally(), late: newTally()}
}

// share makes the policy share a usage in place of its present one.
func (b *bounds) share(u *usage) {
	if b.usage != nil {
		b.members.Delete(b)
	}
	b.usage = u
	u.members.Insert(b)
}

// tally is a set of objects with their numbers by namespace.
type tally struct {
	sets.Set[Key]
	namespaces map[string]int
}

func newTally() tally { return tally{sets.New[Key](), map[string]int{}} }

// put adds an object, or removes it.
func (t tally) put(key Key, member bool) {
	if t.Has(key) == member {
		return
	}
	setMember(t.Set, key, member)
	if member {
		t.namespaces[key.Namespace]++
		return
	}
	if t.namespaces[key.Namespace]--; t.namespaces[key.Namespace] == 0 {
		delete(t.namespaces, key.Namespace)
	}
}

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
	h.acted, h.hold = now, min(max(2*h.hold, holdDown), holdDownMax)
}

// next returns the time of the earliest next patch, or grant; zero if there is no bound.
func (b *bounds) next(granted bool) time.Time {
	last := b.last
	if b.interval == 0 {
		return time.Time{}
	}
	if !granted && b.granted.After(last) {
		last = b.granted
	}
	return last.Add(b.interval)
}

// intervalOf returns the time between two patches; 0 for no bound.
func intervalOf(perMinute int) time.Duration {
	if perMinute <= 0 {
		return 0
	}
	// Round up: the patches of a minute must not exceed the bound.
	return (time.Minute + time.Duration(perMinute) - 1) / time.Duration(perMinute)
}

// apply sets the bounds of a version of the policy.
func (b *bounds) apply(version *placement.Policy) {
	b.version, b.limits, b.generation = version, version.Budget, version.Generation
	b.interval = intervalOf(int(version.Budget.MaxPerMinute))
}

// idle reports whether there is nothing to remember.
func (b *bounds) idle(now time.Time) bool {
	return b.moving.Len() == 0 && len(b.failures) == 0 && b.pause == "" && !b.resuming && !now.Before(b.next(false))
}

// boundsMoves reports whether the number of objects that are moved at the same time is bounded.
func (b *bounds) boundsMoves() bool { return b.limits.MaxConcurrent > 0 || b.limits.PerNamespace > 0 }

// sharesBounds reports whether the number of objects that are moved at the same time is bounded for the policy, or for another one of its group.
func (b *bounds) sharesBounds() bool {
	for member := range b.members {
		if member.boundsMoves() {
			return true
		}
	}
	return false
}

// stops reports whether the policy patches no objects of a namespace because too many failed.
func (b *bounds) stops(namespace string) bool {
	return b.pause != "" && b.paused.Includes(namespace)
}

// failed counts another failure in a namespace. It returns whether that pauses the policy where it was not paused before.
func (b *bounds) failed(now time.Time, namespace string) (paused bool) {
	b.failures[namespace]++
	scope, stops := b.stopped()
	if !stops || b.pause != "" && b.paused.Covers(scope) {
		return false
	}
	if b.pause != "" {
		scope = b.paused.Join(scope)
	}
	// A release of the earlier pause must not release this one.
	b.pause, b.paused = pauseID(b.generation, now), scope
	return true
}

// stopped returns where the failures stop patches, and whether they do anywhere.
func (b *bounds) stopped() (scope containment.Scope, stops bool) {
	return containment.Of(b.failures, containment.LimitOf(b.limits.PauseAfterFailures, containment.Never))
}

// recovered counts one failure in a namespace less. A pause of the whole policy lasts until it is released. A pause of namespaces
// ends where its cause is gone.
func (b *bounds) recovered(namespace string) {
	if b.failures[namespace]--; b.failures[namespace] == 0 {
		delete(b.failures, namespace)
	}
	if b.pause == "" || b.paused.All() || b.version == nil {
		return
	}
	var stops bool
	if b.paused, stops = b.stopped(); !stops {
		b.pause = ""
	}
}

// blocked returns what keeps an object back before the policy, or another one of its group, may move it.
func (b *bounds) blocked(now time.Time, key Key, granted bool) block {
	// An object that is moved already takes no other slot. One that has failed takes a slot of its namespace alone, so that no tenant stops
	// the moves of others.
	self := count(b.moving.Has(key))
	if most := int(b.limits.MaxConcurrent); most > 0 {
		selfLate := count(b.late.Has(key))
		others := b.moving.Len() - self - (b.late.Len() - selfLate) + b.late.namespaces[key.Namespace] - selfLate
		if others >= most {
			return block{reason: forSlot, policy: b.name}
		}
	}
	if most := b.limits.PerNamespace; most > 0 && b.moving.namespaces[key.Namespace]-self >= int(most) {
		return block{reason: forSlot, policy: b.name}
	}
	if next := b.next(granted); now.Before(next) {
		return block{forPace, b.name, next}
	}
	return block{}
}

// takesTooMany reports whether the policy may not make the object unavailable because too many are.
func (b *bounds) takesTooMany(key Key, objects Matches) bool {
	return b.limits.MaxUnavailable != nil && !b.unavailable.Has(key) && b.unavailable.Len() >= b.maxUnavailable(objects.Matched(b.name, b.rolled))
}

// countsUnready reports whether the policy counts an object that is not ready as unavailable. It does not if the object is a Pod and
// the policy evicts none: the readiness of the Pod is known only because of other policies.
func (b *bounds) countsUnready(key Key) bool {
	return key.Resource.GroupResource() != podResource || b.version != nil && b.version.Evict
}

// maxUnavailable returns how many of the matched objects may be unavailable. A percentage is rounded down, but to 1 at
// least: with 0, no object could ever be moved.
func (b *bounds) maxUnavailable(matched int) int {
	out, err := intstr.GetScaledValueFromIntOrPercent(new(ptr.Deref(b.limits.MaxUnavailable, intstr.FromString("100%"))), matched, false)
	if err != nil {
		// The schema refuses such a value.
		return 1
	}
	return max(out, 1)
}

// mayHaveMore reports whether more objects may be unavailable than when it was called last.
func (b *bounds) mayHaveMore(matched int) bool {
	before := b.most
	b.most = b.maxUnavailable(matched)
	return b.most > before
}

// moves reports whether the policy, or another one of its group, moves an object; for all policies together, whether any does.
func (b *bounds) moves(m *movement) bool {
	if m == nil || b.name == "" {
		return m != nil && len(m.patching)+len(m.following) > 0
	}
	for member := range b.members {
		if m.movesFor(member.name) {
			return true
		}
	}
	return false
}

// othersResume reports whether it is not known yet which objects an earlier leader was moving for other policies of the group.
func (b *bounds) othersResume() bool {
	for member := range b.members {
		if member != b && member.resuming {
			return true
		}
	}
	return false
}

// setMember adds a key to a set, or removes it.
func setMember(set sets.Set[Key], key Key, member bool) {
	if member {
		set.Insert(key)
	} else {
		set.Delete(key)
	}
}

// unversioned returns the key without the version of its resource. An object is the same in all versions.
func unversioned(key Key) Key {
	key.Resource.Version = ""
	return key
}

// pauseID returns an identifier of a pause that begins now.
func pauseID(generation int64, now time.Time) string {
	return strconv.FormatInt(generation, 10) + "-" + strconv.FormatInt(now.UnixMilli(), 36)
}
