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
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/placement"
)

// Budget bounds the pace of patches: it spreads the patches for one policy evenly over time, and lets them happen only in
// the windows of the policy. A second bound applies to the patches for all policies together. A Budget delays patches and
// never drops any. It is safe for concurrent use.
//
// Two patches for a policy with n patches a minute are at least a minute/n apart. So no period of a minute contains more
// than n of them, wherever it begins. A new leader does not know when its predecessor patched last. It behaves as if that
// had been when it began to lead.
type Budget struct {
	mu      sync.Mutex
	began   time.Time
	overall pacer
	// policies holds the pacers of the policies that bound their pace.
	policies map[string]*pacer
	// waiting holds the objects whose patch waits, and queues the queues that they wait in.
	waiting map[Key]*waiter
	queues  map[queueName]*queue
	// wakes is when Open must be called, or zero if no call is scheduled.
	wakes time.Time
}

// queueName says what the objects in a queue wait for: a window of a policy, the pace of a policy, or the pace of all
// policies, for which policy is "".
type queueName struct {
	policy string
	window bool
}

// queue holds the objects that wait for the same thing, in the order in which they began to wait.
type queue struct {
	// until is the earliest time when the first of them may be patched; zero if no window ever opens.
	until time.Time
	keys  list.List
}

// waiter is an object that waits.
type waiter struct {
	// policies are the policies that the object is patched for.
	policies []string
	in       queueName
	at       *list.Element
}

// pacer remembers the last patch for one policy, or for all policies.
type pacer struct {
	// interval is the minimum time between two patches; 0 for no bound.
	interval time.Duration
	last     time.Time
}

// next returns the time of the earliest next patch; zero if there is no bound.
func (p *pacer) next() time.Time {
	if p.interval == 0 {
		return time.Time{}
	}
	return p.last.Add(p.interval)
}

// Waiting are the numbers of objects that a policy has to patch and that wait for its budget.
type Waiting struct {
	// Paced are the objects that wait because of the number of patches a minute.
	Paced int
	// Closed are the objects that wait until a window opens, and Opens is when one does; zero if none ever does.
	Closed int
	Opens  time.Time
}

// NewBudget returns a budget. perMinute bounds the patches a minute for all policies together; 0 means no bound.
func NewBudget(perMinute int) *Budget {
	return &Budget{overall: pacer{interval: intervalOf(perMinute)}, policies: map[string]*pacer{}, waiting: map[Key]*waiter{}, queues: map[queueName]*queue{}}
}

// Begin declares that this replica begins to lead. Call it before Spend.
func (b *Budget) Begin(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.began, b.overall.last = now, now
}

// intervalOf returns the time between two patches; 0 for no bound.
func intervalOf(perMinute int) time.Duration {
	if perMinute <= 0 {
		return 0
	}
	// Round up: the patches of a minute must not exceed the bound.
	return (time.Minute + time.Duration(perMinute) - 1) / time.Duration(perMinute)
}

// Spend reports whether an object may be patched now for the verdicts. If so, the patch counts. If not, the object waits
// until Open returns it. wake is the time after which Open must be called; 0 if no call is needed.
func (b *Budget) Spend(now time.Time, key Key, due Due) (ok bool, wake time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	spent := []*pacer{&b.overall}
	for _, v := range due {
		p := v.Policy
		if open, next := p.Windows.Open(now); !open {
			return false, b.wait(now, key, due, queueName{p.Name, true}, next)
		}
		pacer := b.pacer(p)
		if next := pacer.next(); now.Before(next) {
			return false, b.wait(now, key, due, queueName{p.Name, false}, next)
		}
		spent = append(spent, pacer)
	}
	if next := b.overall.next(); now.Before(next) {
		return false, b.wait(now, key, due, queueName{}, next)
	}
	for _, pacer := range spent {
		pacer.last = now
	}
	b.remove(key)
	return true, 0
}

// pacer returns the pacer of a policy. Only the pacers of policies with a bound are kept. The caller holds mu.
func (b *Budget) pacer(p *placement.Policy) *pacer {
	out := &pacer{intervalOf(p.MaxPerMinute), b.began}
	if out.interval == 0 {
		delete(b.policies, p.Name)
		return out
	}
	if known := b.policies[p.Name]; known != nil {
		known.interval = out.interval
		return known
	}
	b.policies[p.Name] = out
	return out
}

// wait makes an object wait in a queue whose first object may be patched at a time. It returns the delay after which Open
// must be called. It returns 0 if an earlier call is scheduled, or if no call helps. The caller holds mu.
func (b *Budget) wait(now time.Time, key Key, due Due, in queueName, until time.Time) time.Duration {
	b.remove(key)
	q := b.queues[in]
	if q == nil {
		q = &queue{}
		b.queues[in] = q
	}
	q.until = until
	b.waiting[key] = &waiter{Names(due), in, q.keys.PushBack(key)}
	return b.wakeAt(now, until)
}

// remove removes an object from its queue if it waits. The caller holds mu.
func (b *Budget) remove(key Key) {
	w := b.waiting[key]
	if w == nil {
		return
	}
	delete(b.waiting, key)
	q := b.queues[w.in]
	q.keys.Remove(w.at)
	if q.keys.Len() == 0 {
		delete(b.queues, w.in)
	}
}

// wakeAt returns the delay after which Open must be called so that it is called at a time. It returns 0 if an earlier
// call is scheduled, or if the time is zero. The caller holds mu.
func (b *Budget) wakeAt(now, at time.Time) time.Duration {
	if at.IsZero() || !b.wakes.IsZero() && !at.Before(b.wakes) {
		return 0
	}
	b.wakes = at
	return max(at.Sub(now), time.Millisecond)
}

// Open returns the objects to decide next, because they may be patched now. Of the objects that wait for the pace of a
// policy, that is the one that has waited longest. wake is the time after which Open must be called again; 0 if no call is
// needed.
func (b *Budget) Open(now time.Time) (next []Key, wake time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wakes.IsZero() || now.Before(b.wakes) {
		// Another call opened it meanwhile, and scheduled the next one.
		return nil, 0
	}
	b.wakes = time.Time{}
	var again time.Time
	for name, q := range b.queues {
		switch {
		case q.until.IsZero():
			continue
		case now.Before(q.until):
		case name.window:
			for e := q.keys.Front(); e != nil; e = e.Next() {
				next = append(next, e.Value.(Key))
			}
			continue
		default:
			next = append(next, q.keys.Front().Value.(Key))
			if q.keys.Len() == 1 {
				continue
			}
			// If the object needs no patch any more, the others wait no longer than if it had been patched.
			q.until = now.Add(b.intervalBy(name.policy))
		}
		if again.IsZero() || q.until.Before(again) {
			again = q.until
		}
	}
	for _, key := range next {
		b.remove(key)
	}
	return next, b.wakeAt(now, again)
}

// intervalBy returns the time between two patches for a policy, or for all policies if the name is "". The caller holds mu.
func (b *Budget) intervalBy(policy string) time.Duration {
	if policy == "" {
		return b.overall.interval
	}
	if p := b.policies[policy]; p != nil {
		return p.interval
	}
	return 0
}

// Leave declares that an object needs no patch any more.
func (b *Budget) Leave(key Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(key)
}

// ForgetPolicy returns the objects that wait for a version of a policy that is no longer in force. They must be decided
// again. The pace of the policy's patches goes on.
func (b *Budget) ForgetPolicy(now time.Time, name string) []Key {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.policies[name]; p != nil && !now.Before(p.next()) {
		delete(b.policies, name)
	}
	var out []Key
	for key, w := range b.waiting {
		if w.in.policy == name {
			out = append(out, key)
			b.remove(key)
		}
	}
	return out
}

// Waiting returns the numbers of objects that a policy has to patch and that wait for a budget.
func (b *Budget) Waiting(policy string) Waiting {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out Waiting
	for _, w := range b.waiting {
		switch {
		case !slices.Contains(w.policies, policy):
		case !w.in.window:
			out.Paced++
		default:
			out.Closed++
			if opens := b.queues[w.in].until; out.Opens.IsZero() || !opens.IsZero() && opens.Before(out.Opens) {
				out.Opens = opens
			}
		}
	}
	return out
}
