package embedded

import (
	"container/list"
	"context"
	"sync"
)

// queue lends a number of slots to policies, by name. Who finds none waits: a policy's own in their order, and among
// policies first the one that has the fewest slots, then the one whose turn is longest ago. No policy has more than a
// share of all slots, so that evaluations of it that do not end leave the others room. It is safe for concurrent use.
//
// x/sync's semaphore is fair among requests and not among policies: a thousand requests of one would be in front of
// the first of another. The API server's fair queuing is about requests of unknown length with seats, and needs its
// clock, its metrics and its configuration.
type queue struct {
	mu      sync.Mutex
	free    int
	share   int
	tenants map[string]*tenant
	// turns counts the turns that were given.
	turns uint64
}

// tenant is a policy that has slots, or waits for some.
type tenant struct {
	slots int
	// waiting are channels that are closed when the slot is there.
	waiting list.List
	// turn is when it got its last slot, or came.
	turn uint64
}

func newQueue(slots int) *queue {
	return &queue{free: slots, share: max(1, slots/2), tenants: map[string]*tenant{}}
}

// take waits for a slot and has the caller give it back. It returns false, and has taken none, if ctx is done first.
func (q *queue) take(ctx context.Context, name string) bool {
	granted, at := q.ask(name)
	if granted == nil {
		return true
	}
	select {
	case <-granted:
		return true
	case <-ctx.Done():
		return !q.withdraw(name, granted, at)
	}
}

// ask takes a slot, or has the caller wait for the channel to close.
func (q *queue) ask(name string) (granted chan struct{}, at *list.Element) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.tenant(name)
	// Whoever waits while a slot is free has its share already.
	if q.free > 0 && t.slots < q.share {
		q.grant(t)
		return nil, nil
	}
	granted = make(chan struct{})
	return granted, t.waiting.PushBack(granted)
}

// tryTake takes a slot if that takes no waiting.
func (q *queue) tryTake(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.tenant(name)
	if q.free == 0 || t.slots == q.share {
		q.leave(name, t)
		return false
	}
	q.grant(t)
	return true
}

// give gives a slot back.
func (q *queue) give(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.tenants[name]
	t.slots--
	q.free++
	q.leave(name, t)
	q.dispatch()
}

// withdraw ends a wait; false if the slot was there already.
func (q *queue) withdraw(name string, granted chan struct{}, at *list.Element) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-granted:
		return false
	default:
	}
	t := q.tenants[name]
	t.waiting.Remove(at)
	q.leave(name, t)
	return true
}

// dispatch lends what is free to who waits.
func (q *queue) dispatch() {
	for q.free > 0 {
		var next *tenant
		for _, t := range q.tenants {
			if t.waiting.Len() > 0 && t.slots < q.share && (next == nil || t.slots < next.slots || t.slots == next.slots && t.turn < next.turn) {
				next = t
			}
		}
		if next == nil {
			return
		}
		q.grant(next)
		close(next.waiting.Remove(next.waiting.Front()).(chan struct{}))
	}
}

func (q *queue) grant(t *tenant) {
	q.free--
	t.slots++
	q.turns++
	t.turn = q.turns
}

func (q *queue) tenant(name string) *tenant {
	t := q.tenants[name]
	if t == nil {
		q.turns++
		t = &tenant{turn: q.turns}
		q.tenants[name] = t
	}
	return t
}

// leave forgets a tenant that has and wants nothing.
func (q *queue) leave(name string, t *tenant) {
	if t.slots == 0 && t.waiting.Len() == 0 {
		delete(q.tenants, name)
	}
}
