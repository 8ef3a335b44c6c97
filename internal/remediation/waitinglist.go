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
	"container/list"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// waitReason is what objects wait for.
type waitReason uint8

const (
	// forWindow means a window of the policy, and forPace the pace of its patches.
	forWindow waitReason = iota
	forPace
	// forSettling means that it is not known yet which objects of the policy are ready.
	forSettling
	// forConcurrency, forNamespace, and forAvailability mean a slot: in the policy, in a namespace, or among the objects that
	// may be unavailable.
	forConcurrency
	forNamespace
	forAvailability
	// forRelease means that the patches of the policy stopped in the object's namespace because too many failed.
	forRelease
)

// queueName says what the objects in a queue wait for. policy is "" for the bounds of all policies together. namespace is set
// only if reason is forNamespace or forRelease.
type queueName struct {
	policy    string
	reason    waitReason
	namespace string
}

// queue holds the objects that wait for the same thing, in the order in which they began to wait. It is never empty.
type queue struct {
	// until is the earliest time when the first of them may be patched. It is zero if time alone does not help.
	until time.Time
	list  list.List
}

func (q *queue) length() int { return q.list.Len() }

func (q *queue) first() Key { return q.list.Front().Value.(Key) }

func (q *queue) keys() []Key {
	out := make([]Key, 0, q.list.Len())
	for e := q.list.Front(); e != nil; e = e.Next() {
		out = append(out, e.Value.(Key))
	}
	return out
}

// waiter is an object that waits.
type waiter struct {
	claims []claim
	in     queueName
	at     *list.Element
}

// waitingList holds the objects that wait for a budget. The Budget's mutex protects it.
type waitingList struct {
	byKey  map[Key]*waiter
	queues map[queueName]*queue
	// namespaces holds the namespaces of the queues for namespaces, by policy.
	namespaces map[string]sets.Set[string]
	// wakes is when Open must be called, or zero if no call is scheduled.
	wakes time.Time
}

func newWaitingList() waitingList {
	return waitingList{byKey: map[Key]*waiter{}, queues: map[queueName]*queue{}, namespaces: map[string]sets.Set[string]{}}
}

// add makes an object wait in a queue whose first object may be patched at a time, or zero. It returns the delay after which
// Open must be called. It returns 0 if an earlier call is scheduled, or if no call helps.
func (l *waitingList) add(now time.Time, key Key, claims []claim, in queueName, until time.Time) time.Duration {
	if w := l.byKey[key]; w != nil && w.in == in {
		// It keeps its place.
		w.claims, l.queues[in].until = claims, until
		return l.wakeAt(now, until)
	}
	l.remove(key)
	q := l.queues[in]
	if q == nil {
		q = &queue{}
		l.queues[in] = q
		if in.reason == forNamespace {
			if l.namespaces[in.policy] == nil {
				l.namespaces[in.policy] = sets.New[string]()
			}
			l.namespaces[in.policy].Insert(in.namespace)
		}
	}
	q.until = until
	l.byKey[key] = &waiter{claims, in, q.list.PushBack(key)}
	return l.wakeAt(now, until)
}

// remove removes an object from its queue if it waits.
func (l *waitingList) remove(key Key) {
	w := l.byKey[key]
	if w == nil {
		return
	}
	delete(l.byKey, key)
	q := l.queues[w.in]
	q.list.Remove(w.at)
	if q.list.Len() == 0 {
		delete(l.queues, w.in)
		if w.in.reason == forNamespace {
			l.namespaces[w.in.policy].Delete(w.in.namespace)
		}
	}
}

// removePolicy removes the objects that a policy wants to patch, and returns them.
func (l *waitingList) removePolicy(policy string) []Key {
	var out []Key
	for key, w := range l.byKey {
		if slices.ContainsFunc(w.claims, func(c claim) bool { return c.policy.Name == policy }) {
			out = append(out, key)
			l.remove(key)
		}
	}
	return out
}

// release removes the objects that wait because a policy's patches stopped, except where they still do, and returns them.
func (l *waitingList) release(policy string, stops func(namespace string) bool) []Key {
	var out []Key
	for name, q := range l.queues {
		if name.policy == policy && name.reason == forRelease && !stops(name.namespace) {
			out = append(out, q.keys()...)
		}
	}
	for _, key := range out {
		l.remove(key)
	}
	return out
}

// wakeAt returns the delay after which Open must be called so that it is called at a time. It returns 0 if an earlier
// call is scheduled, or if the time is zero.
func (l *waitingList) wakeAt(now, at time.Time) time.Duration {
	if at.IsZero() || !l.wakes.IsZero() && !at.Before(l.wakes) {
		return 0
	}
	// By the time of day, as the caller measures it, which may be set.
	l.wakes = at.Round(0)
	return max(at.Sub(now), time.Millisecond)
}

// due reports whether a call of Open is due, and if so, that no call is scheduled any more.
func (l *waitingList) due(now time.Time) bool {
	if l.wakes.IsZero() || now.Before(l.wakes) {
		return false
	}
	l.wakes = time.Time{}
	return true
}
