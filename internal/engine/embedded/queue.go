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

package embedded

import (
	"container/list"
	"context"
	"sync"
)

// queue grants evaluation slots to policies, by name, and within a policy to namespaces. A caller without a slot waits.
// Waiters of one namespace are served in order. Among policies, the one with the fewest slots comes first, then the one
// whose last grant is the oldest. The same order applies to the namespaces of a policy. A policy gets at most a share
// of all slots, and a namespace at most a share of its policy's. So evaluations that do not end leave room for others.
// It is safe for concurrent use.
//
// The semaphore of x/sync is fair among requests and not among policies: a thousand requests of one policy would come
// before the first of another. The API server's fair queuing schedules requests of unknown length, and needs its clock,
// metrics, and configuration.
type queue struct {
	mu       sync.Mutex
	free     int                     // the number of free slots
	share    int                     // the maximum number of slots of one policy: half of all, at least 1
	policies map[string]*policyQueue // the policies that have slots or wait for some, by name
	// grants is the number of grants and of arrivals of policies and namespaces so far. It orders them in time.
	grants uint64
}

// slotUse has the number of slots that a policy or a namespace uses, and when it last got one, or first waited for one. Times are numbers
// from queue.grants, never 0.
type slotUse struct {
	slots int // the number of slots in use
	// lastGrant is the value of queue.grants when it last got a slot, or when it first asked for one.
	lastGrant uint64
}

// before reports whether a policy or namespace with the use u is served before one with the other use.
func (u slotUse) before(other slotUse) bool {
	return u.slots < other.slots || u.slots == other.slots && u.lastGrant < other.lastGrant
}

// policyQueue is a policy that has slots or waits for some.
type policyQueue struct {
	slotUse
	namespaces map[string]*namespaceQueue // by name; "" for objects in no namespace
}

// namespaceQueue is a namespace of a policy whose evaluations have slots or wait for some.
type namespaceQueue struct {
	slotUse
	// share is the maximum number of its slots: half of the policy's share, or all of it for objects in no namespace.
	share int
	// waiting has a channel for each waiter, which is closed when the slot is granted.
	waiting list.List
}

// DefaultConcurrency returns a number of evaluation slots for a number of processors. With it, one namespace occupies at most half of the
// processors by a policy, unless there is only one, and a policy may occupy all of them. Go lets a goroutine compute for 10 ms while
// others wait for its processor. So where one namespace had a slot for each processor, requests of other namespaces would take that long.
func DefaultConcurrency(processors int) int {
	// With fewer slots than 4, a policy would have one, which one namespace could keep.
	return max(4, 2*processors)
}

// newQueue returns a queue that grants a number of slots. One policy gets at most half of them, but at least one, and one namespace at most
// half of its policy's.
func newQueue(slots int) *queue {
	return &queue{free: slots, share: max(1, slots/2), policies: map[string]*policyQueue{}}
}

// acquire waits for a slot for an object in a namespace and the policy with a name. It returns true if the caller has a slot, which the
// caller must release. It returns false if ctx is done first.
func (q *queue) acquire(ctx context.Context, name, namespace string) bool {
	granted, at := q.request(name, namespace)
	if granted == nil {
		return true
	}
	select {
	case <-granted:
		return true
	case <-ctx.Done():
		return !q.withdraw(name, namespace, granted, at)
	}
}

// request takes a slot and returns nil. If it can't, it returns a channel that is closed when the slot is granted, and the waiter's place
// in the list namespaceQueue.waiting.
func (q *queue) request(name, namespace string) (granted chan struct{}, at *list.Element) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t, s := q.queuesOf(name, namespace)
	// While a slot is free, requests wait only if their policy or namespace has all the slots that it may have. A request of
	// another one may take the free slot: none of those could.
	if q.free > 0 && t.slots < q.share && s.slots < s.share {
		q.grant(t, s)
		return nil, nil
	}
	granted = make(chan struct{})
	return granted, s.waiting.PushBack(granted)
}

// tryAcquire takes a slot if one is free and neither the policy nor the namespace has its share of slots, and reports whether it did. It
// does not wait.
func (q *queue) tryAcquire(name, namespace string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	t, s := q.queuesOf(name, namespace)
	if q.free == 0 || t.slots == q.share || s.slots == s.share {
		q.removeIdle(name, namespace)
		return false
	}
	q.grant(t, s)
	return true
}

// release gives back a slot that a policy got for an object in a namespace, and grants it to a waiter.
func (q *queue) release(name, namespace string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.policies[name]
	t.slots--
	t.namespaces[namespace].slots--
	q.free++
	q.removeIdle(name, namespace)
	q.dispatch()
}

// withdraw ends the wait of a caller of request. It returns false if the slot was already granted: the caller then has it.
func (q *queue) withdraw(name, namespace string, granted chan struct{}, at *list.Element) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-granted:
		return false
	default:
	}
	q.policies[name].namespaces[namespace].waiting.Remove(at)
	q.removeIdle(name, namespace)
	return true
}

// dispatch grants free slots to waiting evaluations.
func (q *queue) dispatch() {
	for q.free > 0 {
		var next *policyQueue
		var within *namespaceQueue
		for _, t := range q.policies {
			if t.slots >= q.share || next != nil && !t.before(next.slotUse) {
				continue
			}
			if s := t.next(); s != nil {
				next, within = t, s
			}
		}
		if next == nil {
			return
		}
		q.grant(next, within)
		close(within.waiting.Remove(within.waiting.Front()).(chan struct{}))
	}
}

// next returns the namespace of the policy that gets the next slot; nil if no namespace that may have another slot has waiters.
func (t *policyQueue) next() *namespaceQueue {
	var next *namespaceQueue
	for _, s := range t.namespaces {
		if s.waiting.Len() > 0 && s.slots < s.share && (next == nil || s.before(next.slotUse)) {
			next = s
		}
	}
	return next
}

// grant gives a free slot to an evaluation of a policy in a namespace: it counts the slot as used by both, now. The caller tells a waiter.
func (q *queue) grant(t *policyQueue, s *namespaceQueue) {
	q.free--
	t.slots++
	s.slots++
	q.grants++
	t.lastGrant, s.lastGrant = q.grants, q.grants
}

// queuesOf returns the queues of a policy and of a namespace of the policy. It creates those that are missing.
func (q *queue) queuesOf(name, namespace string) (*policyQueue, *namespaceQueue) {
	t := q.policies[name]
	if t == nil {
		q.grants++
		t = &policyQueue{slotUse: slotUse{lastGrant: q.grants}, namespaces: map[string]*namespaceQueue{}}
		q.policies[name] = t
	}
	s := t.namespaces[namespace]
	if s == nil {
		q.grants++
		s = &namespaceQueue{slotUse: slotUse{lastGrant: q.grants}, share: max(1, q.share/2)}
		if namespace == "" {
			s.share = q.share
		}
		t.namespaces[namespace] = s
	}
	return t, s
}

// removeIdle removes the queue of the namespace if it has neither slots nor waiters, and then that of the policy if it has no namespaces.
func (q *queue) removeIdle(name, namespace string) {
	t := q.policies[name]
	if s := t.namespaces[namespace]; s.slots == 0 && s.waiting.Len() == 0 {
		delete(t.namespaces, namespace)
	}
	if len(t.namespaces) == 0 {
		delete(q.policies, name)
	}
}
