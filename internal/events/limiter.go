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

package events

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
)

// The events of one Alike: maxAtOnce may be emitted at once, and another one after each interval. Those are the numbers of objects for
// which client-go's older recorder combines events. If their cause changes, maxAtOnce may be emitted again, at most once in an interval.
const (
	maxAtOnce = 10
	interval  = time.Minute
	// maxSumInterval is the longest time between two sums. The first is due an interval after the first event that it counts. The time
	// doubles with each sum.
	maxSumInterval = maxAtOnce * interval
	// lookInterval is the shortest time between two looks for sums that are due, because each looks at everything that is alike.
	lookInterval = 5 * time.Second
)

// Alike is the key by which a Limiter counts events on different objects together: the kind of the events, the namespace of the objects,
// and the policies that act on the objects. The cause is not in it: that of a policy that changes each second would be another one each
// second.
type Alike struct {
	Kind Kind
	// Namespace is that of the objects; empty for objects without a namespace.
	Namespace string
	// Policy is the name of the first of the policies that act on the objects. If the objects have no namespace, the event with the sum is
	// emitted on that policy. Policies names all of them for a message.
	Policy, Policies string
}

// Sum is the number of events that were alike and have not been emitted.
type Sum struct {
	Alike
	Events int
	// Cause says why the policies act on the object of the first of these events; empty if the events have no causes. OtherCauses is whether
	// another one of them had another cause.
	Cause       string
	OtherCauses bool
}

// Limiter bounds the events on the objects of sweeps, each of which is a write to the API server, and stays in client-go's recorder for
// minutes. It permits the first events that are alike, and then one in each interval. It counts the others.
//
// client-go does not bound them: the recorder of the events API combines events on one object only. That of the older API, with
// record.CorrelatorOptions, could treat all objects as one. Then the sum would be on one of the objects, and each event that it counts
// would be a write, or its spam filter would drop events without a sum.
//
// It is safe for concurrent use.
type Limiter struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	alike map[Alike]*counter
	// looked is when Sums last looked for sums that are due; zero before the first time. Unless its argument is true, Sums looks at most once
	// in lookInterval.
	looked time.Time
}

// counter bounds the events of one Alike: how many may be emitted now, how many were withheld, and when these are due in a sum.
type counter struct {
	// permits has a token for each event that may be emitted. An event for which it has none is withheld.
	permits flowcontrol.PassiveRateLimiter
	// cause is that of the event that came when permits was made, and renewed that time.
	cause   string
	renewed time.Time
	// withheld are the events that were not emitted and are in no sum yet. due is when their sum is due, if there are any.
	withheld Sum
	due      time.Time
	// sumInterval is the time from the next event that is withheld to its sum. It doubles with each sum, up to maxSumInterval.
	sumInterval time.Duration
	// last is when the last event came, permitted or not. Sums removes a counter without withheld events for which none came for maxAtOnce
	// intervals.
	last time.Time
}

// NewLimiter returns a limiter that has permitted nothing yet.
func NewLimiter(c clock.PassiveClock) *Limiter {
	return &Limiter{clock: c, alike: map[Alike]*counter{}}
}

// Count counts an event, and reports whether it may be emitted. If it may not, it will be in a sum. cause says why the policies act on the
// object; it is empty for events that have no causes.
func (l *Limiter) Count(of Alike, cause string) bool {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.alike[of]
	if c == nil {
		c = &counter{sumInterval: interval}
		l.alike[of] = c
	}
	if c.permits == nil || c.cause != cause && now.Sub(c.renewed) >= interval {
		qps := float32(1 / interval.Seconds())
		c.permits, c.cause, c.renewed = flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(qps, maxAtOnce, l.clock), cause, now
	}
	c.last = now
	if c.permits.TryAccept() {
		return true
	}
	if c.withheld.Events == 0 {
		c.withheld = Sum{Alike: of, Cause: cause}
		c.due = now.Add(c.sumInterval)
		c.sumInterval = min(2*c.sumInterval, maxSumInterval)
	}
	c.withheld.Events++
	c.withheld.OtherCauses = c.withheld.OtherCauses || c.withheld.Cause != cause
	return false
}

// Sums returns the sums that are due or, if all is true, those of all events that were withheld. It returns none if it last looked less
// than lookInterval ago, unless all is true. Each event is in one sum. Call it at least once in each interval: it also removes the counters
// of events that have not come for so long that as many are permitted as at first.
func (l *Limiter) Sums(all bool) (out []Sum) {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !all && now.Sub(l.looked) < lookInterval {
		return nil
	}
	l.looked = now
	for of, c := range l.alike {
		switch {
		case c.withheld.Events > 0 && (all || !now.Before(c.due)):
			out = append(out, c.withheld)
			c.withheld = Sum{}
		case c.withheld.Events == 0 && now.Sub(c.last) >= maxAtOnce*interval:
			delete(l.alike, of)
		}
	}
	slices.SortFunc(out, func(a, b Sum) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Policies, b.Policies), cmp.Compare(a.Kind.Reason, b.Kind.Reason))
	})
	return out
}
