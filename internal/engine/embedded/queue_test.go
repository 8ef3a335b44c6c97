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
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/test/budget"
)

// idle verifies that all slots are free and no policy is tracked.
func idle(t *testing.T, q *queue, slots int) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.free != slots || len(q.policies) != 0 {
		t.Errorf("%d of %d slots are free, and %d policies are known", q.free, slots, len(q.policies))
	}
}

// TestQueueIsFairAmongPolicies verifies that a single request of one policy is served next, however many requests of
// another policy wait.
func TestQueueIsFairAmongPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots = 4
		q := newQueue(slots)
		for range 2 {
			q.acquire(t.Context(), "a", "")
			q.acquire(t.Context(), "c", "")
		}
		granted := make(chan string, 2000)
		ctx, stop := context.WithCancel(t.Context())
		wait := func(name string) {
			go func() {
				if q.acquire(ctx, name, "") {
					granted <- name
				}
			}()
			synctest.Wait()
		}
		for range 1000 {
			wait("a")
		}
		wait("b")
		wait("c")
		want := []string{"b", "a", "c", "b"}
		wait("b")
		for i, give := range []string{"a", "a", "c", "b"} {
			q.release(give, "")
			if got := <-granted; got != want[i] {
				t.Errorf("slot %d went to %s, want %s", i, got, want[i])
			}
		}
		stop()
		synctest.Wait()
		for _, name := range []string{"a", "b", "c", "c"} {
			q.release(name, "")
		}
		idle(t, q, slots)
	})
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

// TestNamespaceLeavesProcessors verifies that, with the default number of slots, one namespace gets at most half as many as there are
// processors, and leaves a slot of its policy to others.
func TestNamespaceLeavesProcessors(t *testing.T) {
	for processors := 1; processors <= 64; processors++ {
		q := newQueue(DefaultConcurrency(processors))
		got := 0
		for q.tryAcquire("p", "a") {
			got++
		}
		if got != max(1, processors/2) {
			t.Errorf("of %d processors, one namespace may occupy %d", processors, got)
		}
		if !q.tryAcquire("p", "b") {
			t.Errorf("with %d processors, the policy has no slot for another namespace", processors)
		}
	}
}

// TestQueueKeepsTheOrderOfAPolicy verifies that the requests of one policy are served in order.
func TestQueueKeepsTheOrderOfAPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		q.acquire(t.Context(), "a", "")
		var order []int
		for i := range 5 {
			go func() {
				q.acquire(t.Context(), "a", "")
				order = append(order, i)
				q.release("a", "")
			}()
			synctest.Wait()
		}
		q.release("a", "")
		synctest.Wait()
		if fmt.Sprint(order) != "[0 1 2 3 4]" {
			t.Errorf("order %v", order)
		}
		idle(t, q, 1)
	})
}

// TestQueueLeavesRoom verifies that a policy whose evaluations do not end leaves slots for others.
func TestQueueLeavesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(4)
		for range 2 {
			if !q.tryAcquire("a", "") {
				t.Fatal("a slot within the share was not granted")
			}
		}
		if q.tryAcquire("a", "") {
			t.Error("a policy took more than its share")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if q.acquire(ctx, "a", "") {
			t.Error("a policy waited for more than its share, and got it")
		}
		if !q.tryAcquire("b", "") || !q.acquire(t.Context(), "b", "") {
			t.Error("another policy finds no slot")
		}
		if q.tryAcquire("c", "") {
			t.Error("there are more slots than there are")
		}
		for _, name := range []string{"a", "b", "a", "b"} {
			q.release(name, "")
		}
		idle(t, q, 4)
	})
}

// TestQueueUnderLoad verifies under random load that no more slots are granted than there are, or than a policy's
// share, and that none is lost.
func TestQueueUnderLoad(t *testing.T) {
	for _, slots := range []int{1, 2, 3, 8} {
		q := newQueue(slots)
		var all atomic.Int64
		var of [5]atomic.Int64
		var done sync.WaitGroup
		for worker := range 40 {
			done.Go(func() {
				r := rand.New(rand.NewPCG(uint64(worker), uint64(slots)))
				for range budget.Rounds(200) {
					n := r.IntN(len(of))
					name := fmt.Sprint(n)
					ctx, cancel := context.WithCancel(t.Context())
					switch r.IntN(4) {
					case 0:
						cancel()
					case 1:
						go cancel()
					}
					taken := false
					if r.IntN(4) == 0 {
						taken = q.tryAcquire(name, "")
					} else {
						taken = q.acquire(ctx, name, "")
					}
					if taken {
						if all.Add(1) > int64(slots) || of[n].Add(1) > int64(q.share) {
							t.Errorf("of %d slots too many are lent", slots)
						}
						of[n].Add(-1)
						all.Add(-1)
						q.release(name, "")
					}
					cancel()
				}
			})
		}
		done.Wait()
		idle(t, q, slots)
	}
}

func BenchmarkQueue(b *testing.B) {
	q := newQueue(8)
	b.ReportAllocs()
	for b.Loop() {
		q.acquire(b.Context(), "a", "")
		q.release("a", "")
	}
}
