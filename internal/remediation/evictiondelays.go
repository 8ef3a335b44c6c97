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
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// protectedDelay is the first delay before an eviction is tried again that a PodDisruptionBudget did not allow. It doubles up
	// to protectedDelayMax.
	protectedDelay    = 5 * time.Second
	protectedDelayMax = 5 * time.Minute
	// repeatDelay is the age that new Pods of a controller need before they are evicted for the same changes as an earlier one. It
	// doubles up to repeatDelayMax with each new Pod that is evicted. It is forgotten when no Pod of the controller was evicted
	// for repeatMemory.
	repeatDelay    = time.Minute
	repeatDelayMax = time.Hour
	repeatMemory   = 2 * repeatDelayMax
)

// evictions delays the evictions of single Pods. The Scheduler's mutex protects it.
type evictions struct {
	// waiting holds the Pods that PodDisruptionBudgets protect.
	waiting map[Key]*protectedPod
	// repeats holds the controllers of Pods that were evicted recently, by UID.
	repeats map[types.UID]repeat
}

// protectedPod is a Pod whose eviction a PodDisruptionBudget did not allow.
type protectedPod struct {
	policies []string
	delay    time.Duration
	until    time.Time
}

// repeat is the age that Pods of a controller need that were created after the first eviction for some changes.
type repeat struct {
	age time.Duration
	// since is the time of that eviction, and last that of the newest one.
	since, last time.Time
	made        patched
}

func (r repeat) over(now time.Time) bool { return now.Sub(r.last) > repeatMemory }

// concerns reports whether a Pod was created since then, and requires the same again. Then the webhook does not place new Pods. The
// API server stores the time of creation in whole seconds, so a Pod that was created in the same second counts as older.
func (r repeat) concerns(pod *unstructured.Unstructured, due Due) bool {
	return pod.GetCreationTimestamp().After(r.since.Truncate(time.Second)) && len(common(r.made, due.changes())) > 0
}

func newEvictions() evictions {
	return evictions{waiting: map[Key]*protectedPod{}, repeats: map[types.UID]repeat{}}
}

// delay returns the delay after which a Pod may be evicted; 0 if it may be evicted now. A Pod waits after a
// PodDisruptionBudget did not allow its eviction. It also waits if it is young, and Berth evicted another Pod of its controller
// before it was created: a controller whose Pods always violate the decision, for example because the webhook does not place
// them, must not lose one after the other.
func (e *evictions) delay(now time.Time, key Key, pod *unstructured.Unstructured, due Due) time.Duration {
	var out time.Duration
	if p := e.waiting[key]; p != nil {
		out = p.until.Sub(now)
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		if r := e.repeats[owner.UID]; !r.over(now) && r.concerns(pod, due) {
			// At least the age lies between two of them, too.
			out = max(out, pod.GetCreationTimestamp().Add(r.age).Sub(now), r.last.Add(r.age).Sub(now))
		}
	}
	return max(out, 0)
}

// protect declares that a PodDisruptionBudget does not allow the eviction of a Pod. It returns the delay before the next attempt.
func (e *evictions) protect(now time.Time, key Key, due Due) time.Duration {
	p := e.waiting[key]
	if p == nil {
		p = &protectedPod{}
		e.waiting[key] = p
	}
	p.policies, p.delay = Names(due), min(max(2*p.delay, protectedDelay), protectedDelayMax)
	p.until = now.Add(p.delay)
	return p.delay
}

// evicted declares that a Pod was evicted at a time, which must not be later than the request. If the Pod was created after an
// eviction of another Pod of its controller for the same changes, evicted returns the age that the next ones need before they are
// evicted; otherwise 0.
func (e *evictions) evicted(at time.Time, key Key, pod *unstructured.Unstructured, due Due) time.Duration {
	e.forget(key)
	maps.DeleteFunc(e.repeats, func(_ types.UID, r repeat) bool { return r.over(at) })
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return 0
	}
	r, known := e.repeats[owner.UID]
	if made := newPatched(at, due, 0); !known || len(common(r.made, due.changes())) == 0 {
		r = repeat{age: repeatDelay, since: at, made: made}
	}
	repeats := known && r.concerns(pod, due) && !r.last.IsZero()
	if r.last = at; repeats {
		r.age = min(2*r.age, repeatDelayMax)
	}
	e.repeats[owner.UID] = r
	if !repeats {
		return 0
	}
	return r.age
}

// decided updates a Pod that waits after it was decided again.
func (e *evictions) decided(key Key, due Due) {
	if p := e.waiting[key]; p != nil {
		if p.policies = Names(due); !due.Evicts(key.Resource.GroupResource()) {
			e.forget(key)
		}
	}
}

// forget removes a Pod that does not wait any more.
func (e *evictions) forget(key Key) { delete(e.waiting, key) }

// protected returns the number of Pods that wait for a policy.
func (e *evictions) protected(policy string) (n int) {
	for _, p := range e.waiting {
		n += count(slices.Contains(p.policies, policy))
	}
	return n
}
