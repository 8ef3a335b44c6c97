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
	"fmt"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/tracing"
)

// maxBatch is the maximum number of requests in a batch.
const maxBatch = 128

// batchTimeout is the maximum duration of the decision of one batch. The API server's timeout is a little longer.
const batchTimeout = 7 * time.Second

// batch is a set of requests of one queue that are decided and stored together. It belongs to the goroutine that
// processes the queue.
type batch struct {
	*Charger
	queue   string // The key of the queue that the requests are from: a namespace, or the UIDs of ClusterScopedQuotas.
	waiters []*waiter
	// charges holds the IDs of the charges of the waiters. Stored charges with these IDs are reverted before a decision.
	charges map[string]bool
}

// grow moves requests that wait in the queue to the batch, until the batch has maxBatch.
func (b *batch) grow() {
	for _, w := range b.dequeue(b.queue, maxBatch-len(b.waiters)) {
		b.waiters = append(b.waiters, w)
		b.charges[w.charge] = true
	}
}

// process decides a batch and wakes the waiters. It returns stored charges that must be released because their
// request failed or its client is gone.
func (b *batch) process(ctx context.Context) []*waiter {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	stored, err := b.charge(ctx)
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

// charge decides a batch against one state of the quotas and stores the charges. If a write of a quota conflicts, it
// decides the whole batch again, because a decision is valid only for the state that it read. Requests that arrived
// meanwhile join the batch, because fewer writes mean fewer conflicts. stored reports whether any charge may have been
// stored. A panic is an error, because in this goroutine it would end the process.
func (b *batch) charge(ctx context.Context) (stored bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			stored, err = true, panicError(ctx, r)
		}
	}()
	fresh := cached
	for attempt := 1; ; attempt++ {
		b.grow()
		r := b.beginRound(fresh, b.charges)
		if needed := b.decide(ctx, r); needed > fresh {
			fresh = needed
			continue
		}
		writes, conflicts, err := b.store(ctx, r, attempt)
		stored = stored || writes > conflicts
		switch {
		case err != nil && ctx.Err() == nil:
			return stored, fmt.Errorf("%w: %w", errUnreachable, err)
		case err == nil && conflicts == 0:
			return stored, nil
		}
		fresh = max(fresh, reread)
		b.OnConflict()
		if !notify.Sleep(ctx, time.Duration(rand.Int64N(int64(min(attempt, 10))*int64(5*time.Millisecond)))) {
			return stored, errContended
		}
	}
}

// decide decides every request of a batch. It returns how fresh the data must be for the decisions to be valid: reread if a request was
// denied or a charge must be released, relisted if a request concerns no known quota or limit, or a limit requires a quota that is not
// known, and otherwise cached. If that is fresher than what r has read, the caller must decide again: a stale cache must not cause a
// denial, and must not admit a request because it lacks a quota or a limit.
func (b *batch) decide(ctx context.Context, r *round) (needed freshness) {
	expires := b.Clock.Now().Add(b.ReservationTTL)
	for _, w := range b.waiters {
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
		if w.verdict, considered, w.err = r.decide(ctx, w, expires); w.err != nil {
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

// decide decides one request, and charges the working copies if it is allowed and no dry run. The charge lasts until expires. considered is
// the number of quotas and limits by which it was decided. An error charges nothing. A panic becomes an error, but may leave a charge.
func (r *round) decide(ctx context.Context, w *waiter, expires time.Time) (verdict *quota.Verdict, considered int, err error) {
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

// endDecisionSpan ends the span of one request's decision. It sets as attributes the outcome (allowed, denied, pending, or error), by how
// many quotas and limits it was decided (considered), and how fresh these were (read), and marks the span as failed if err is not nil. The
// names of the quotas are not among the attributes.
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

// store writes the charges in the working copies of r to the quotas. attempt is the number of the attempt, from 1. store returns the number
// of writes, and how many of them conflicted. Each traced request gets a span of its own for that. The calls to the API server belong to
// the span of the first one.
func (b *batch) store(ctx context.Context, r *round, attempt int) (writes, conflicts int, err error) {
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
		span.SetAttributes(tracing.Round.Int(attempt), tracing.Requests.Int(len(b.waiters)), tracing.Writes.Int(writes),
			tracing.Conflicts.Int(conflicts))
		tracing.Fail(span, err)
		span.End()
	}
	return writes, conflicts, err
}
