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

// policyBudget is the budget of one policy, or of all policies together. The Budget's mutex protects it.
type policyBudget struct {
	// usage is what counts against the pace and the bounds of moves. Policies of a group share it.
	*usage
	// interval is the minimum time between two patches; 0 for no bound.
	interval time.Duration
	// version is the version of the policy in force; nil if there is none, or if it is not known yet. bounds and generation are
	// those of the newest version.
	version    *placement.Policy
	bounds     placementv1.RemediationBudget
	generation int64
	// unavailable are the matched objects that are not ready, or that are moved by a patch that rolls pods.
	unavailable sets.Set[Key]
	// settled reports whether all objects that the policy matches have been observed. resuming reports whether an earlier
	// leader was carrying out a plan of the policy, so that objects whose rollouts are not complete are being moved.
	settled, resuming bool
	// rolled are the types of matched objects whose rollouts are observed.
	rolled []schema.GroupVersionResource
	// most is how many objects may be unavailable, as mayHaveMore found last.
	most int
	// failures are the numbers of objects whose patch or rollout failed, by namespace. pause identifies the pause because of them; ""
	// for none. paused is where it stops patches, if there is one.
	failures map[string]int
	pause    string
	paused   containment.Scope
}

func newPolicyBudget(last time.Time) *policyBudget {
	return &policyBudget{usage: newUsage(last), unavailable: sets.New[Key](), failures: map[string]int{}}
}

// usage is what is done for one policy, for the policies of a group, or for all policies.
type usage struct {
	// last is the time of the last patch, and earlier that of the one before it.
	last, earlier time.Time
	// moving are the objects that are moved, and late are those of them that have failed because they do not run in time.
	moving, late tally
}

func newUsage(last time.Time) *usage { return &usage{last: last, moving: newTally(), late: newTally()} }

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

// next returns the time of the earliest next patch; zero if there is no bound.
func (p *policyBudget) next() time.Time {
	if p.interval == 0 {
		return time.Time{}
	}
	return p.last.Add(p.interval)
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
func (p *policyBudget) apply(version *placement.Policy) {
	p.version, p.bounds, p.generation = version, version.Budget, version.Generation
	p.interval = intervalOf(int(version.Budget.MaxPerMinute))
}

// idle reports whether the budget has nothing to remember.
func (p *policyBudget) idle(now time.Time) bool {
	return p.moving.Len() == 0 && len(p.failures) == 0 && p.pause == "" && !p.resuming && !now.Before(p.next())
}

// boundsMoves reports whether the number of objects that are moved at the same time is bounded.
func (p *policyBudget) boundsMoves() bool {
	return p.bounds.MaxConcurrent > 0 || p.bounds.PerNamespace > 0
}

// stops reports whether the policy patches no objects of a namespace because too many failed.
func (p *policyBudget) stops(namespace string) bool {
	return p.pause != "" && p.paused.Includes(namespace)
}

// failed counts another failure in a namespace. It returns whether that pauses the policy where it was not paused before.
func (p *policyBudget) failed(now time.Time, namespace string) (paused bool) {
	p.failures[namespace]++
	scope, stops := containment.Of(p.failures, containment.LimitOf(p.bounds.PauseAfterFailures, containment.Never))
	if !stops || p.pause != "" && p.paused.Covers(scope) {
		return false
	}
	if p.pause != "" {
		scope = p.paused.Join(scope)
	}
	// A release of the earlier pause must not release this one.
	p.pause, p.paused = pauseID(p.generation, now), scope
	return true
}

// recovered counts one failure in a namespace less. A pause of the whole policy lasts until it is released. A pause of namespaces
// ends where its cause is gone. recovered returns whether it did somewhere.
func (p *policyBudget) recovered(namespace string) (resumed bool) {
	if p.failures[namespace]--; p.failures[namespace] == 0 {
		delete(p.failures, namespace)
	}
	if p.pause == "" || p.paused.All() || p.version == nil {
		return false
	}
	before := p.paused
	scope, stops := containment.Of(p.failures, containment.LimitOf(p.bounds.PauseAfterFailures, containment.Never))
	if p.paused = scope; !stops {
		p.pause = ""
	}
	return !stops || !scope.Covers(before)
}

// blocks returns the queue in which an object must wait before the policy with the name, or another one of its group, may move it, and until
// when; zero if only an event can end the wait.
func (p *policyBudget) blocks(now time.Time, key Key, name string) (in queueName, until time.Time, waits bool) {
	// An object that is moved already takes no other slot. One that has failed takes a slot of its namespace alone, so that no tenant stops
	// the moves of others.
	self := count(p.moving.Has(key))
	if most := int(p.bounds.MaxConcurrent); most > 0 {
		selfLate := count(p.late.Has(key))
		switch others := p.moving.Len() - self - (p.late.Len() - selfLate); {
		case others >= most:
			return queueName{policy: name, reason: forConcurrency}, time.Time{}, true
		case others+p.late.namespaces[key.Namespace]-selfLate >= most:
			return queueName{policy: name, reason: forNamespace, namespace: key.Namespace}, time.Time{}, true
		}
	}
	if most := p.bounds.PerNamespace; most > 0 && p.moving.namespaces[key.Namespace]-self >= int(most) {
		return queueName{policy: name, reason: forNamespace, namespace: key.Namespace}, time.Time{}, true
	}
	next := p.next()
	return queueName{policy: name, reason: forPace}, next, now.Before(next)
}

// blocksRollout returns the queue in which an object must wait before the policy with the name may make it unavailable.
func (p *policyBudget) blocksRollout(key Key, name string, rolls bool, objects Matches) (in queueName, waits bool) {
	if rolls && p.bounds.MaxUnavailable != nil && !p.unavailable.Has(key) && p.unavailable.Len() >= p.maxUnavailable(objects.Matched(name, p.rolled)) {
		return queueName{policy: name, reason: forAvailability}, true
	}
	return queueName{}, false
}

// countsUnready reports whether the policy counts an object that is not ready as unavailable. It does not if the object is a Pod and
// the policy evicts none: the readiness of the Pod is known only because of other policies.
func (p *policyBudget) countsUnready(key Key) bool {
	return key.Resource.GroupResource() != podResource || p.version != nil && p.version.Evict
}

// maxUnavailable returns how many of the matched objects may be unavailable. A percentage is rounded down, but to 1 at
// least: with 0, no object could ever be moved.
func (p *policyBudget) maxUnavailable(matched int) int {
	out, err := intstr.GetScaledValueFromIntOrPercent(new(ptr.Deref(p.bounds.MaxUnavailable, intstr.FromString("100%"))), matched, false)
	if err != nil {
		// The schema refuses such a value.
		return 1
	}
	return max(out, 1)
}

// mayHaveMore reports whether more objects may be unavailable than when it was called last.
func (p *policyBudget) mayHaveMore(matched int) bool {
	before := p.most
	p.most = p.maxUnavailable(matched)
	return p.most > before
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
