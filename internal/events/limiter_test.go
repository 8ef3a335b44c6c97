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

package events_test

import (
	"fmt"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/internal/events"
)

// TestLimiter checks that the first events are emitted, and one in each minute after them, that each of the others is in one sum, and that
// sums become rarer.
func TestLimiter(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Unix(0, 0))
	l := events.NewLimiter(clock)
	of := events.Alike{Kind: events.Remediated, Namespace: "shop", Policy: "p", Policies: `PlacementPolicy "p"`}
	at, emitted, summed, last, gaps := 0, 0, 0, 0, []time.Duration{}
	// A sweep takes two hours, with a patch in each second.
	for ; at < 7200; at++ {
		clock.SetTime(time.Unix(int64(at), 0))
		if l.Count(of, "eu-2 left") {
			emitted++
		}
		for _, sum := range l.Sums(false) {
			if sum.Alike != of || sum.Cause != "eu-2 left" || sum.OtherCauses {
				t.Fatalf("sum of %+v", sum)
			}
			gaps, summed, last = append(gaps, time.Duration(at-last)*time.Second), summed+sum.Events, at
		}
	}
	if emitted < 10 || emitted > 10+7200/60 {
		t.Errorf("%d events were emitted", emitted)
	}
	for i, gap := range gaps {
		want := []time.Duration{1, 2, 4, 8, 10}[min(i, 4)] * time.Minute
		if gap < want || gap > want+20*time.Second {
			t.Errorf("sum %d came after %s, want %s", i, gap, want)
		}
	}
	if len(gaps) != 14 {
		t.Errorf("%d sums in two hours", len(gaps))
	}
	for _, sum := range l.Sums(true) {
		summed += sum.Events
	}
	if emitted+summed != at {
		t.Errorf("%d events were emitted and %d are in sums, of %d", emitted, summed, at)
	}
	if again := l.Sums(true); len(again) > 0 {
		t.Errorf("another sum: %+v", again)
	}
}

// TestLimiterSeparates checks that events of other kinds, namespaces, and policies do not use up what is permitted, and that as many events
// are permitted as at first after a pause.
func TestLimiterSeparates(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Unix(0, 0))
	l := events.NewLimiter(clock)
	first := events.Alike{Kind: events.Remediated, Namespace: "shop", Policy: "p", Policies: "p"}
	kind, namespace, policy := first, first, first
	kind.Kind, namespace.Namespace, policy.Policies = events.Evicted, "bank", "q"
	permitted := func(of events.Alike) (n int) {
		for range 100 {
			if l.Count(of, "c") {
				n++
			}
		}
		return n
	}
	for _, of := range []events.Alike{first, kind, namespace, policy} {
		if n := permitted(of); n != 10 {
			t.Errorf("%d events of %+v are permitted", n, of)
		}
	}
	if sums := l.Sums(true); len(sums) != 4 || sums[0] != (events.Sum{Alike: namespace, Events: 90, Cause: "c"}) {
		t.Errorf("sums %+v", sums)
	}
	clock.SetTime(clock.Now().Add(10 * time.Minute))
	l.Sums(false)
	if n := permitted(first); n != 10 {
		t.Errorf("%d events are permitted after a pause", n)
	}
}

// TestLimiterBoundsCauses checks that another cause permits as many events as at first, but only once in each minute, and that the sum
// names the first cause of those that it counts.
func TestLimiterBoundsCauses(t *testing.T) {
	start := time.Unix(0, 0)
	clock := testingclock.NewFakePassiveClock(start)
	l := events.NewLimiter(clock)
	of := events.Alike{Kind: events.Remediated, Namespace: "shop", Policy: "p", Policies: "p"}
	emitted := map[int]int{}
	// In each second, the policy has another generation, which moves 20 objects.
	for second := range 600 {
		clock.SetTime(start.Add(time.Duration(second) * time.Second))
		for range 20 {
			if l.Count(of, fmt.Sprint("generation ", second)) {
				emitted[second/60]++
			}
		}
	}
	for minute, n := range emitted {
		if n < 10 || n > 11 {
			t.Errorf("minute %d: %d events were emitted", minute, n)
		}
	}
	sums := l.Sums(true)
	if len(sums) != 1 || sums[0].Cause != "generation 0" || !sums[0].OtherCauses || sums[0].Events < 600*20-10*11 {
		t.Errorf("sums %+v", sums)
	}
}
