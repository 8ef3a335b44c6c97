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
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/test/budget"
)

const runsAway = `package p
errors contains "x" if { input.endless; some i in numbers.range(1, 1000); some j in numbers.range(1, 1000); some k in numbers.range(1, 1000); i + j + k == -1 }
labels := {"a": input.name}`

// TestQuarantineIsOfANamespace verifies that a policy which exceeds its deadline on any number of objects of one
// namespace still decides those of other namespaces. Only several such namespaces, or objects in no namespace, put the
// whole policy in quarantine.
func TestQuarantineIsOfANamespace(t *testing.T) {
	const concurrency = 4
	clock := testingclock.NewFakePassiveClock(time.Now())
	seen := &counts{}
	e := New(NewData(), Options{Concurrency: concurrency, Clock: clock, Observer: seen})
	p, _ := prepare(t, e, v1(runsAway))
	evaluate := func(namespace, name string, endless bool) error {
		// Evaluations that end get enough time for slow machines.
		e.Timeout = time.Minute
		if endless {
			e.Timeout = 20 * time.Millisecond
		}
		_, err := p.Evaluate(placement.WithNamespace(t.Context(), namespace), map[string]any{"name": name, "endless": endless})
		awaitFree(t, e, concurrency)
		return err
	}
	attack := func(namespace string) {
		t.Helper()
		for i := range quarantineAfter {
			if err := evaluate(namespace, fmt.Sprint(i), true); !errors.Is(err, engine.ErrDeadline) {
				t.Fatalf("error %v, want the deadline", err)
			}
		}
		err := evaluate(namespace, "next", false)
		if refusal, ok := errors.AsType[*engine.QuarantinedError](err); !ok || refusal.Namespace != namespace {
			t.Fatalf("error %v, want the quarantine of the namespace", err)
		}
	}
	attack("a")
	attack("b")
	if err := evaluate("c", "c", false); err != nil {
		t.Errorf("another namespace: %v", err)
	}
	if err := evaluate("", "d", false); err != nil {
		t.Errorf("no namespace: %v", err)
	}
	if seen.quarantines.Load() != 0 || p.(placement.Quarantinable).QuarantinedNamespaces() != 2 {
		t.Errorf("%d quarantines, %d namespaces", seen.quarantines.Load(), p.(placement.Quarantinable).QuarantinedNamespaces())
	}
	for i := range quarantineAfter {
		_ = evaluate("c", fmt.Sprint("c", i), true)
	}
	if err := evaluate("e", "e", false); seen.quarantines.Load() != 1 || err == nil || !strings.Contains(err.Error(), "the policy is in quarantine since") {
		t.Errorf("three namespaces: %v", err)
	}
	// A trial on other objects ends the quarantine of the policy, and not those of the namespaces.
	clock.SetTime(clock.Now().Add(quarantinePause))
	if err := evaluate("e", "trial", false); err != nil || seen.releases.Load() != 1 {
		t.Errorf("trial: %v", err)
	}
	if err := evaluate("a", "trial-of-a", false); err != nil {
		t.Errorf("trial in the namespace: %v", err)
	}
	if n := p.(placement.Quarantinable).QuarantinedNamespaces(); n != 2 {
		t.Errorf("%d namespaces are in quarantine", n)
	}
}

// TestAbandonedEvaluationsEndBeforeTheirSlotIsFree verifies that an abandoned evaluation counts as ended before its
// slot is granted again. Otherwise a trial that is due would be refused.
func TestAbandonedEvaluationsEndBeforeTheirSlotIsFree(t *testing.T) {
	e := New(NewData(), Options{Concurrency: 1})
	prepared, _ := prepare(t, e, v1(runsAway))
	p := prepared.(*evaluator)
	input, err := projection.AllFields().Value(map[string]any{"name": "a", "endless": true})
	if err != nil {
		t.Fatal(err)
	}
	at, err := p.currentState()
	if err != nil {
		t.Fatal(err)
	}
	for range budget.Rounds(150) {
		if !e.slots.acquire(t.Context(), p.name, "a") {
			t.Fatal("the slot is taken")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err := p.run(ctx, admission{namespace: "a"}, at, input, nil, nil)
		cancel()
		if !errors.Is(err, engine.ErrDeadline) {
			t.Fatalf("error %v, want the deadline", err)
		}
		awaitFree(t, e, 1)
		if own := p.quarantine.find("a"); !p.quarantine.wholePolicy.ready() || own != nil && !own.ready() {
			t.Fatal("the slot is free, and the evaluation is not counted as ended")
		}
	}
}

// ready reports whether no abandoned evaluation is still running.
func (q *quarantine) ready() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.abandoned == 0
}

// TestQuarantinesAreBounded verifies that the number of tracked namespaces is limited, and that namespaces in
// quarantine are removed last.
func TestQuarantinesAreBounded(t *testing.T) {
	q := &quarantines{clock: testingclock.NewFakePassiveClock(time.Now())}
	q.wholePolicy.clock = q.clock
	for range quarantineAfter {
		a, err := q.admit("attacker")
		if err != nil {
			t.Fatal(err)
		}
		q.recordOutcome(a, outcomeTimedOut)
	}
	for i := range 3 * maxQuarantines {
		a, err := q.admit(fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		q.recordOutcome(a, outcomeTimedOut)
	}
	if n := len(q.namespaces); n > maxQuarantines {
		t.Errorf("%d namespaces are remembered", n)
	}
	if _, err := q.admit("attacker"); err == nil {
		t.Error("the quarantine is forgotten")
	}
}

// TestQueueIsFairAmongNamespaces verifies that the evaluations of a namespace do not delay those of other namespaces.
func TestQueueIsFairAmongNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(8)
		// Of eight slots, a policy gets four, and a namespace two of those.
		for range 2 {
			if !q.tryAcquire("p", "a") {
				t.Fatal("no slot")
			}
		}
		if q.tryAcquire("p", "a") {
			t.Error("a namespace has more than its share")
		}
		order := make(chan string, 100)
		wait := func(namespace string) {
			go func() {
				q.acquire(t.Context(), "p", namespace)
				order <- namespace
				q.release("p", namespace)
			}()
			synctest.Wait()
		}
		for range 20 {
			wait("a")
		}
		wait("b")
		if got := <-order; got != "b" {
			t.Errorf("%s was first", got)
		}
		q.release("p", "a")
		q.release("p", "a")
		synctest.Wait()
		if len(order) != 20 {
			t.Errorf("%d of 20 had their turn", len(order))
		}
		idle(t, q, 8)
	})
}

// TestInputsAreBounded verifies that an input beyond the policy's limit is not evaluated, even if its decision is
// cached. Fields that the policy does not read don't count.
func TestInputsAreBounded(t *testing.T) {
	e := New(NewData(), Options{Timeout: time.Minute, Concurrency: 2})
	spec := v1("package p\nlabels := {\"a\": input.name}")
	spec.Limits = &placementv1.Limits{InputBytes: 1024}
	p, _ := prepare(t, e, spec)
	large := strings.Repeat("x", 2000)
	if _, err := p.Evaluate(t.Context(), map[string]any{"name": "n", "other": large}); err != nil {
		t.Error(err)
	}
	_, err := p.Evaluate(t.Context(), map[string]any{"name": large})
	if tooLarge, ok := errors.AsType[*engine.InputError](err); !ok || tooLarge.Size != len(`{"name":""}`)+2000 || tooLarge.Limit != 1024 || !strings.Contains(err.Error(), "spec.limits.inputBytes") {
		t.Errorf("error %v", err)
	}
	spec.Rego = "package p\nlabels := {\"a\": json.marshal(input)}"
	whole, _ := prepare(t, e, spec)
	if _, err := whole.Evaluate(t.Context(), map[string]any{"other": large}); err == nil || !strings.Contains(err.Error(), "has 2012 bytes as JSON, at most 1024") {
		t.Errorf("error %v", err)
	}
}
