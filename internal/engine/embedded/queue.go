package embedded

import (
	"container/list"
	"context"
	"sync"
)

// queue lends a number of slots to policies, by name, and of a policy's slots to namespaces. Who finds none waits: a
// namespace's own in their order, and among policies first the one that has the fewest slots, then the one whose turn is
// longest ago, and so among a policy's namespaces. No policy has more than a share of all slots, and no namespace more than
// a share of a policy's, so that evaluations that do not end leave the others room. It is safe for concurrent use.
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
	// turn is when it got its last slot, or came.
	turn       uint64
	namespaces map[string]*subtenant
}

// subtenant is a namespace, of whose objects evaluations of a policy have slots or wait for some.
type subtenant struct {
	slots int
	// share is how many it has at the most.
	share int
	turn  uint64
	// waiting are channels that are closed when the slot is there.
	waiting list.List
}

func newQueue(slots int) *queue {
	return &queue{free: slots, share: max(1, slots/2), tenants: map[string]*tenant{}}
}

// take waits for a slot and has the caller give it back. It returns false, and has taken none, if ctx is done first.
func (q *queue) take(ctx context.Context, name, namespace string) bool {
	granted, at := q.ask(name, namespace)
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

// ask takes a slot, or has the caller wait for the channel to close.
func (q *queue) ask(name, namespace string) (granted chan struct{}, at *list.Element) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t, s := q.tenant(name, namespace)
	// Whoever waits while a slot is free has its share already.
	if q.free > 0 && t.slots < q.share && s.slots < s.share {
		q.grant(t, s)
		return nil, nil
	}
	granted = make(chan struct{})
	return granted, s.waiting.PushBack(granted)
}

// tryTake takes a slot if that takes no waiting.
func (q *queue) tryTake(name, namespace string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	t, s := q.tenant(name, namespace)
	if q.free == 0 || t.slots == q.share || s.slots == s.share {
		q.leave(name, namespace)
		return false
	}
	q.grant(t, s)
	return true
}

// give gives a slot back.
func (q *queue) give(name, namespace string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.tenants[name]
	t.slots--
	t.namespaces[namespace].slots--
	q.free++
	q.leave(name, namespace)
	q.dispatch()
}

// withdraw ends a wait; false if the slot was there already.
func (q *queue) withdraw(name, namespace string, granted chan struct{}, at *list.Element) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-granted:
		return false
	default:
	}
	q.tenants[name].namespaces[namespace].waiting.Remove(at)
	q.leave(name, namespace)
	return true
}

// dispatch lends what is free to who waits.
func (q *queue) dispatch() {
	for q.free > 0 {
		var next *tenant
		var within *subtenant
		for _, t := range q.tenants {
			if t.slots >= q.share || next != nil && !before(t.slots, t.turn, next.slots, next.turn) {
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

// next is the namespace whose turn it is; nil if none waits that may have another slot.
func (t *tenant) next() *subtenant {
	var next *subtenant
	for _, s := range t.namespaces {
		if s.waiting.Len() > 0 && s.slots < s.share && (next == nil || before(s.slots, s.turn, next.slots, next.turn)) {
			next = s
		}
	}
	return next
}

// before reports whether one comes before another.
func before(slots int, turn uint64, others int, othersTurn uint64) bool {
	return slots < others || slots == others && turn < othersTurn
}

func (q *queue) grant(t *tenant, s *subtenant) {
	q.free--
	t.slots++
	s.slots++
	q.turns++
	t.turn, s.turn = q.turns, q.turns
}

func (q *queue) tenant(name, namespace string) (*tenant, *subtenant) {
	t := q.tenants[name]
	if t == nil {
		q.turns++
		t = &tenant{turn: q.turns, namespaces: map[string]*subtenant{}}
		q.tenants[name] = t
	}
	s := t.namespaces[namespace]
	if s == nil {
		q.turns++
		s = &subtenant{turn: q.turns, share: max(1, q.share/2)}
		if namespace == "" {
			s.share = q.share
		}
		t.namespaces[namespace] = s
	}
	return t, s
}

// leave forgets a namespace that has and wants nothing, and a policy of which there is none left.
func (q *queue) leave(name, namespace string) {
	t := q.tenants[name]
	if s := t.namespaces[namespace]; s.slots == 0 && s.waiting.Len() == 0 {
		delete(t.namespaces, namespace)
	}
	if len(t.namespaces) == 0 {
		delete(q.tenants, name)
	}
}
