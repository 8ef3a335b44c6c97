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
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/internal/engine"
)

func TestQuarantine(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	q := &quarantine{clock: clock}
	begin := clock.Now()
	pass := func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }
	admit := func(want bool) bool {
		t.Helper()
		trial, err := q.admit()
		if (err == nil) != want {
			t.Fatalf("at %s: %v", clock.Now().Sub(begin), err)
		}
		if _, quarantined := errors.AsType[*engine.QuarantinedError](err); err != nil && !quarantined {
			t.Errorf("error %v", err)
		}
		return trial
	}
	settle := func(trial bool, o outcome, wantBegan, wantLeft bool) {
		t.Helper()
		if began, left := q.recordOutcome(trial, o); began != wantBegan || left != wantLeft {
			t.Errorf("began %v, left %v", began, left)
		}
	}
	run := func(o outcome) { t.Helper(); settle(admit(true), o, false, false) }

	// Evaluations that end reset the count. Those with outcomeUnknown do not.
	for _, o := range []outcome{outcomeTimedOut, outcomeTimedOut, outcomeEnded, outcomeTimedOut, outcomeUnknown, outcomeTimedOut} {
		run(o)
	}
	if _, ok := q.quarantined(); ok {
		t.Fatal("too early")
	}
	late := admit(true)
	settle(admit(true), outcomeTimedOut, true, false)
	if since, ok := q.quarantined(); !ok || !since.Equal(begin) {
		t.Errorf("in quarantine %v since %s", ok, since)
	}
	settle(late, outcomeTimedOut, false, false)
	admit(false)
	pass(quarantinePause - 1)
	admit(false)
	pass(1)
	trial := admit(true)
	admit(false)
	settle(trial, outcomeTimedOut, false, false)

	// The pause doubles up to its maximum.
	for pause := 2 * quarantinePause; pause < 4*maxQuarantinePause; pause *= 2 {
		pass(min(pause, maxQuarantinePause) - 1)
		admit(false)
		pass(1)
		settle(admit(true), outcomeTimedOut, false, false)
	}
	// A trial that did not take place is repeated at once. There is no trial while an abandoned evaluation still runs.
	pass(maxQuarantinePause)
	settle(admit(true), outcomeUnknown, false, false)
	q.count(1)
	admit(false)
	q.count(-1)
	settle(admit(true), outcomeEnded, false, true)
	if _, ok := q.quarantined(); ok || q.inForceError() != nil {
		t.Error("the quarantine did not end")
	}
	// The pauses begin with the shortest again.
	run(outcomeTimedOut)
	run(outcomeTimedOut)
	settle(admit(true), outcomeTimedOut, true, false)
	pass(quarantinePause)
	settle(admit(true), outcomeEnded, false, true)
}

// TestQuarantinedPoliciesTakeNoSlot verifies that a policy that never ends is no longer evaluated, takes no slot, and
// gets trials, and that the other policies are not affected.
func TestQuarantinedPoliciesTakeNoSlot(t *testing.T) {
	const concurrency = 2
	clock := testingclock.NewFakePassiveClock(time.Now())
	seen := &counts{}
	e := New(NewData(), Options{Timeout: 20 * time.Millisecond, Concurrency: concurrency, Clock: clock, Observer: seen})
	runaway, _ := prepare(t, e, v1(`package p
errors contains "x" if { input.endless; some i in numbers.range(1, 1000); some j in numbers.range(1, 1000); some k in numbers.range(1, 1000); i + j + k == -1 }
labels := {"a": input.name}`))
	e.Timeout = time.Minute
	known := map[string]any{"name": "known"}
	decide(t, runaway, known)
	e.Timeout = 20 * time.Millisecond
	evaluate := func(name string, endless bool) error {
		_, err := runaway.Evaluate(t.Context(), map[string]any{"name": name, "endless": endless})
		awaitFree(t, e, concurrency)
		return err
	}
	for range quarantineAfter {
		if err := evaluate("a", true); !errors.Is(err, engine.ErrDeadline) {
			t.Fatalf("error %v, want the deadline", err)
		}
	}
	if n := seen.quarantines.Load(); n != 1 {
		t.Errorf("told of %d quarantines", n)
	}
	// A refusal does not wait for a slot, even if all are taken.
	for _, name := range []string{"b", "c"} {
		e.slots.acquire(t.Context(), name, "")
	}
	for range 100 {
		_, err := runaway.Evaluate(t.Context(), map[string]any{"name": "a", "endless": true})
		if _, quarantined := errors.AsType[*engine.QuarantinedError](err); !quarantined || !strings.Contains(err.Error(), "3 evaluations in a row") {
			t.Fatalf("error %v, want the quarantine", err)
		}
	}
	// Cached decisions remain available and correct.
	if got := decide(t, runaway, known); got.Labels["a"] != "known" {
		t.Errorf("decision %v", got)
	}
	for _, name := range []string{"b", "c"} {
		e.slots.release(name, "")
	}
	// Another version of the same policy starts without a quarantine.
	next, _ := prepare(t, e, v1("package p\nlabels := {\"a\": \"b\"}"))
	e.Timeout = time.Minute
	decide(t, next, known)

	clock.SetTime(clock.Now().Add(quarantinePause))
	if err := evaluate("a", false); err != nil {
		t.Errorf("trial: %v", err)
	}
	if n := seen.releases.Load(); n != 1 {
		t.Errorf("told of %d releases", n)
	}
	if err := evaluate("b", false); err != nil {
		t.Error(err)
	}
}

// TestInnocentPoliciesAreNotQuarantined verifies that a caller's short deadline, an exceeded limit, or an error does
// not count towards a quarantine.
func TestInnocentPoliciesAreNotQuarantined(t *testing.T) {
	seen := &counts{}
	e := New(NewData(), Options{Timeout: time.Minute, Concurrency: 2, Observer: seen})
	hurried, _ := prepare(t, e, v1(endless))
	limited, _ := prepare(t, e, v1("package p\nerrors contains \"x\" if count(numbers.range(1, 100000000)) == 1"))
	wrong, _ := prepare(t, e, v1("package p\nlabels := {\"a\": x} if some x in [\"1\", \"2\"]"))
	for range 2 * quarantineAfter {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		if _, err := hurried.Evaluate(ctx, map[string]any{}); !errors.Is(err, engine.ErrDeadline) {
			t.Errorf("error %v, want the deadline", err)
		}
		cancel()
		if _, err := limited.Evaluate(t.Context(), map[string]any{}); err == nil {
			t.Error("no limit")
		}
		if _, err := wrong.Evaluate(t.Context(), map[string]any{}); err == nil {
			t.Error("no conflict")
		}
	}
	awaitFree(t, e, 2)
	if n := seen.quarantines.Load(); n != 0 {
		t.Errorf("told of %d quarantines", n)
	}
}
