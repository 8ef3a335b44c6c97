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

package quotacharge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/utils/clock"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/tracing"
)

// maxBatch is the maximum number of requests in a batch.
const maxBatch = 128

// batchTimeout is the maximum duration of the decision of one batch. The API server's timeout is a little longer.
const batchTimeout = 7 * time.Second

// errContended is returned if a charge could not be stored in time because of concurrent charges.
var errContended = errors.New("the quota is being changed by too many others")

// errUnreachable marks errors outside of Berth.
var errUnreachable = errors.New("quotas can't be read or charged now")

// errModule marks a module that does not compile. No spec that the schema admits leads to it.
var errModule = errors.New("the quota can't be evaluated")

// unreachable marks an error of reading quotas as errUnreachable, so that the client retries. It leaves errModule as it
// is, because a retry would not help.
func unreachable(err error) error {
	if errors.Is(err, errModule) {
		return err
	}
	return fmt.Errorf("%w: %w", errUnreachable, err)
}

// Transient reports whether a request that failed with this error may succeed if the client tries it again.
func Transient(err error) bool { return errors.Is(err, errContended) || errors.Is(err, errUnreachable) }

// waiter is a request that waits for its decision. Without a request it stands for a charge that must be released.
type waiter struct {
	// context is the caller's context. When it ends, the caller does not need the decision any more.
	context   context.Context
	charge    string
	namespace string
	request   *quota.Request
	verdict   *quota.Verdict
	err       error
	done      chan struct{}
}

// Charger decides requests and charges them in batches. Requests that compete for the same quotas are in the same
// queue. While one batch of a queue is being stored, the next one collects requests. So the number of
// writes does not grow with the number of requests. It is safe for concurrent use.
type Charger struct {
	*Ledger
	Clock clock.PassiveClock
	// ReservationTTL is how long a charge is reserved for its object. It must be longer than the API server's timeout
	// of a request.
	ReservationTTL time.Duration
	// OnConflict is called after each round whose writes conflicted.
	OnConflict func()

	mu     sync.Mutex
	queues map[string]*queue
}

// queue is the queue of requests for the quotas of one namespace, or of all namespaces that share quotas.
type queue struct {
	waiting []*waiter
	busy    bool
}

// Charge decides a request, and charges it if it is allowed. If ctx ends before the decision is returned, the charge is
// released.
func (d *Charger) Charge(ctx context.Context, r *quota.Request) (*quota.Verdict, error) {
	key, err := d.Ledger.queueKey(ctx, r.Namespace)
	if err != nil {
		return nil, unreachable(err)
	}
	w := &waiter{context: ctx, charge: r.ChargeID, namespace: r.Namespace, request: r, done: make(chan struct{})}
	d.enqueue(ctx, key, w)
	select {
	case <-w.done:
		return w.verdict, w.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errContended, ctx.Err())
	}
}

func (d *Charger) enqueue(ctx context.Context, key string, w *waiter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queues == nil {
		d.queues = map[string]*queue{}
	}
	q, ok := d.queues[key]
	if !ok {
		q = &queue{}
		d.queues[key] = q
	}
	q.waiting = append(q.waiting, w)
	if q.busy {
		return
	}
	q.busy = true
	// The goroutine works for all requests in the queue, so its context must not end with that of the first one.
	go d.processQueue(tracing.Detach(context.WithoutCancel(ctx)), key, q)
}

// processQueue processes a queue until it is empty.
func (d *Charger) processQueue(ctx context.Context, key string, q *queue) {
	for {
		b := &batch{more: func(room int) []*waiter { return d.dequeue(q, room) }}
		d.mu.Lock()
		if len(q.waiting) == 0 {
			q.busy = false
			delete(d.queues, key)
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		for _, release := range d.processBatch(ctx, b) {
			// No client will retry these, so they go to the queue again.
			d.enqueue(ctx, key, release)
		}
	}
}

// dequeue removes up to room waiters from a queue.
func (d *Charger) dequeue(q *queue, room int) []*waiter {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(q.waiting), room)
	out := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return out
}

// batch is a set of requests that are decided and stored together.
type batch struct {
	waiters []*waiter
	// charges holds the IDs of the charges of the waiters.
	charges map[string]bool
	// more removes from the queue the requests that arrived meanwhile.
	more func(room int) []*waiter
}

// grow adds the requests that arrived meanwhile, up to maxBatch.
func (b *batch) grow() {
	if b.charges == nil {
		b.charges = map[string]bool{}
	}
	for _, w := range b.more(maxBatch - len(b.waiters)) {
		b.waiters = append(b.waiters, w)
		b.charges[w.charge] = true
	}
}

// processBatch decides a batch and wakes the waiters. It returns stored charges that must be released because their
// request failed or its client is gone.
func (d *Charger) processBatch(ctx context.Context, b *batch) []*waiter {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	stored, err := d.decideAndChargeSafely(ctx, b)
	var releases []*waiter
	for _, w := range b.waiters {
		if w.request == nil {
			continue
		}
		if err != nil {
			w.verdict, w.err = nil, err
		}
		if stored && !w.request.DryRun && (err != nil || w.context.Err() != nil) {
			releases = append(releases, &waiter{context: ctx, charge: w.charge, namespace: w.namespace})
		}
		close(w.done)
	}
	return releases
}

// decideAndChargeSafely calls decideAndCharge and converts a panic to an error, because a panic in this goroutine would
// end the process.
func (d *Charger) decideAndChargeSafely(ctx context.Context, b *batch) (stored bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			stored, err = true, panicError(ctx, r)
		}
	}()
	return d.decideAndCharge(ctx, b)
}

// decideAndCharge decides a batch against one state of the quotas and stores the charges. If a write of a quota
// conflicts, it decides the whole batch again, because a decision is valid only for the state that it read. Requests
// that arrived meanwhile join the batch, because fewer writes mean fewer conflicts. stored reports whether any charge
// was stored.
func (d *Charger) decideAndCharge(ctx context.Context, b *batch) (stored bool, err error) {
	released := func(id string) bool { return b.charges[id] }
	fresh := cached
	for attempt := 1; ; attempt++ {
		b.grow()
		r := d.Ledger.beginRound(fresh, released)
		if needed := d.decideAll(ctx, r, b.waiters); needed > fresh {
			fresh = needed
			continue
		}
		writes, conflicts, err := storeCharges(ctx, r, b, attempt)
		stored = stored || writes > conflicts
		switch {
		case err != nil && ctx.Err() == nil:
			return stored, fmt.Errorf("%w: %w", errUnreachable, err)
		case err == nil && conflicts == 0:
			return stored, nil
		}
		fresh = max(fresh, reread)
		d.OnConflict()
		pause := time.NewTimer(time.Duration(rand.Int64N(int64(min(attempt, 10)) * int64(5*time.Millisecond))))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return stored, errContended
		}
	}
}

// storeCharges stores the charges of a round. Each traced request gets a span of its own for that. The calls to the API
// server belong to the span of the first one.
func storeCharges(ctx context.Context, r *round, b *batch, attempt int) (writes, conflicts int, err error) {
	var spans []trace.Span
	calls := ctx
	for _, w := range b.waiters {
		if w.verdict == nil || len(w.verdict.Charged) == 0 {
			continue
		}
		charging, span := tracing.Start(tracing.Join(ctx, w.context), "charge")
		if !span.IsRecording() {
			continue
		}
		if len(spans) == 0 {
			calls = charging
		}
		spans = append(spans, span)
	}
	writes, conflicts, err = r.write(calls)
	for _, span := range spans {
		span.SetAttributes(tracing.Round.Int(attempt), tracing.Requests.Int(len(b.waiters)), tracing.Writes.Int(writes), tracing.Conflicts.Int(conflicts))
		tracing.Fail(span, err)
		span.End()
	}
	return writes, conflicts, err
}

// decideAll decides every request of a batch. It returns how fresh the data must be for the decisions to be valid. A
// stale cache must not cause a denial, and must not admit a request because it lacks a quota or a limit.
func (d *Charger) decideAll(ctx context.Context, r *round, batch []*waiter) (needed freshness) {
	expires := d.Clock.Now().Add(d.ReservationTTL)
	for _, w := range batch {
		w.verdict, w.err = nil, nil
		if w.request == nil {
			// The cache may lack the charge that must be released. An error has no receiver.
			_, _ = r.accountsIn(ctx, w.namespace)
			needed = max(needed, reread)
			continue
		}
		if err := w.context.Err(); err != nil {
			w.err = fmt.Errorf("%w: %w", errContended, err)
			continue
		}
		var considered int
		if w.verdict, considered, w.err = d.decideOne(ctx, r, w, expires); w.err != nil {
			continue
		}
		switch {
		case considered == 0, w.verdict.Uncovered:
			needed = relisted
		case !w.verdict.Allowed():
			needed = max(needed, reread)
		}
	}
	return needed
}

// decideOne decides one request. It returns by how many quotas and limits the request was decided. An error or panic
// must not affect the other requests of the batch.
func (d *Charger) decideOne(ctx context.Context, r *round, w *waiter, expires time.Time) (verdict *quota.Verdict, considered int, err error) {
	defer func() {
		if r := recover(); r != nil {
			verdict, err = nil, panicError(ctx, r)
		}
	}()
	ctx, span := tracing.Start(tracing.Join(ctx, w.context), "decide")
	defer func() { endDecisionSpan(span, r.freshness, verdict, considered, err) }()
	accounts, err := r.accountsIn(ctx, w.namespace)
	if err != nil {
		return nil, 0, unreachable(err)
	}
	limits, err := r.limitsFor(ctx, w.namespace, w.request.Resource)
	if err != nil {
		return nil, 0, unreachable(err)
	}
	verdict, err = w.request.Admit(ctx, accounts, limits, expires)
	return verdict, len(accounts) + len(limits), err
}

// endDecisionSpan sets the attributes of the span of one request's decision, and ends the span.
func endDecisionSpan(span trace.Span, read freshness, verdict *quota.Verdict, considered int, err error) {
	if span.IsRecording() {
		outcome := metrics.QuotaAllowed
		switch {
		case verdict == nil:
			outcome = metrics.QuotaError
		case len(verdict.Denied) > 0:
			outcome = metrics.QuotaDenied
		case len(verdict.Pending) > 0:
			outcome = metrics.QuotaPending
		}
		span.SetAttributes(tracing.Outcome.String(outcome), tracing.Asked.Int(considered), tracing.Read.String(read.String()))
		tracing.Fail(span, err)
	}
	span.End()
}

// panicError logs a panic and returns the error for the client.
func panicError(ctx context.Context, panicked any) error {
	ctrllog.FromContext(ctx).Error(fmt.Errorf("panic: %v", panicked), "Deciding", "stack", string(debug.Stack()))
	return errors.New("an internal error; the operator's log has more")
}
