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
	"time"
)

// waitReason is what objects wait for.
type waitReason uint8

const (
	// forNothing means that the object does not wait.
	forNothing waitReason = iota
	// forRelease means that the patches of the policy stopped in the object's namespace because too many failed.
	forRelease
	// forProbe means that one patch tests for the others whether patches succeed again.
	forProbe
	// forData means that the policy's data changed soon after patches for the change before.
	forData
	// forChange means that a change is being assessed, or is not carried out because it would harm too many objects.
	forChange
	// forWindow means a window of the policy, and forPace the pace of its patches.
	forWindow
	forPace
	// forSettling means that it is not known yet which objects of the policy are ready.
	forSettling
	// forSlot and forAvailability mean that other objects are being moved, or are unavailable.
	forSlot
	forAvailability
)

// block is what keeps an object back.
type block struct {
	reason waitReason
	// policy is the policy whose rule it is; "" for the bounds of all policies together.
	policy string
	// until is when time ends it; zero if only an event can.
	until time.Time
}

// waiter is an object that waits.
type waiter struct {
	key    Key
	claims []claim
	// place is the object's place in the order in which objects began to wait, and since when it did.
	place uint64
	since time.Time
	class *class
	at    *list.Element
}

// classID identifies objects that the same rules keep back: they are in one namespace, and claims says which policies want to patch them,
// and how rules treat them. own is set for an object that is moved, which is a class by itself.
type classID struct {
	namespace, claims string
	own               Key
}

// class holds the waiting objects of a class in the order in which they began to wait. It is never empty.
type class struct {
	id      classID
	waiters list.List
	// last is set in a pass if others go first.
	last bool
}

func (c *class) first() *waiter { return c.waiters.Front().Value.(*waiter) }

// line holds the objects that wait.
type line struct {
	byKey   map[Key]*waiter
	classes map[classID]*class
	// last is the place of the object that began to wait last.
	last uint64
}

func newLine() line { return line{byKey: map[Key]*waiter{}, classes: map[classID]*class{}} }

// put makes an object wait, which must be put into a class then. at is the place that it has already; nil to put it at the end.
func (l *line) put(now time.Time, key Key, claims []claim, at *waiter) *waiter {
	if at == nil {
		l.last++
		at = &waiter{key: key, place: l.last, since: now}
	}
	at.claims = claims
	l.byKey[key] = at
	return at
}

// classify puts a waiting object into a class, at its place.
func (l *line) classify(w *waiter, id classID) {
	if w.class != nil && w.class.id == id {
		return
	}
	l.declassify(w)
	c := l.classes[id]
	if c == nil {
		c = &class{id: id}
		l.classes[id] = c
	}
	w.class = c
	for e := c.waiters.Back(); e != nil; e = e.Prev() {
		if e.Value.(*waiter).place < w.place {
			w.at = c.waiters.InsertAfter(w, e)
			return
		}
	}
	w.at = c.waiters.PushFront(w)
}

// declassify takes an object out of its class.
func (l *line) declassify(w *waiter) {
	if w.class == nil {
		return
	}
	w.class.waiters.Remove(w.at)
	if w.class.waiters.Len() == 0 {
		delete(l.classes, w.class.id)
	}
	w.class, w.at = nil, nil
}

// remove removes an object if it waits.
func (l *line) remove(key Key) {
	if w := l.byKey[key]; w != nil {
		l.declassify(w)
		delete(l.byKey, key)
	}
}

// removePolicy removes the objects that a policy wants to patch, and returns them.
func (l *line) removePolicy(policy string) (out []Key) {
	for _, c := range l.classes {
		if !c.wantedBy(policy) {
			continue
		}
		for e := c.waiters.Front(); e != nil; e = e.Next() {
			out = append(out, e.Value.(*waiter).key)
		}
	}
	for _, key := range out {
		l.remove(key)
	}
	return out
}

// wantedBy reports whether a policy wants to patch the objects of the class.
func (c *class) wantedBy(policy string) bool {
	for _, claim := range c.first().claims {
		if claim.policy.Name == policy {
			return true
		}
	}
	return false
}

// byTurn is a heap of classes whose objects may go on. The one that goes first is on top.
type byTurn []*class

func (h byTurn) Len() int      { return len(h) }
func (h byTurn) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *byTurn) Push(c any)   { *h = append(*h, c.(*class)) }
func (h byTurn) Less(i, j int) bool {
	if h[i].last != h[j].last {
		return h[j].last
	}
	return h[i].first().place < h[j].first().place
}
func (h *byTurn) Pop() any {
	last := len(*h) - 1
	out := (*h)[last]
	*h = (*h)[:last]
	return out
}
