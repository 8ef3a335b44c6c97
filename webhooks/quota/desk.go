package quota

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

// budget is the maximum duration of the decision of one batch. The API server's timeout is a little longer.
const budget = 7 * time.Second

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

// waiter is a request that waits for its decision. Without a request it stands for a charge that must be given back.
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

// desk is the batcher: it decides requests and charges them. Requests that compete for the same quotas are in the same
// queue, called lane. While one batch of a queue is being stored, the next one collects requests. So the number of
// writes does not grow with the number of requests.
type desk struct {
	ledger    *Ledger
	clock     clock.PassiveClock
	ttl       time.Duration
	conflicts func()

	mu    sync.Mutex
	lanes map[string]*lane
}

// lane is the queue of requests for the quotas of one namespace, or of all namespaces that share quotas.
type lane struct {
	waiting []*waiter
	busy    bool
}

// decide decides a request. If ctx ends before the decision is returned, the charge is given back.
func (d *desk) decide(ctx context.Context, r *quota.Request) (*quota.Verdict, error) {
	key, err := d.ledger.lane(ctx, r.Namespace)
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

func (d *desk) enqueue(ctx context.Context, key string, w *waiter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lanes == nil {
		d.lanes = map[string]*lane{}
	}
	l, ok := d.lanes[key]
	if !ok {
		l = &lane{}
		d.lanes[key] = l
	}
	l.waiting = append(l.waiting, w)
	if l.busy {
		return
	}
	l.busy = true
	// The goroutine works for all requests in the queue, so its context must not end with that of the first one.
	go d.work(tracing.Detach(context.WithoutCancel(ctx)), key, l)
}

// work processes a queue until it is empty.
func (d *desk) work(ctx context.Context, key string, l *lane) {
	for {
		b := &batch{more: func(room int) []*waiter { return d.next(l, room) }}
		d.mu.Lock()
		if len(l.waiting) == 0 {
			l.busy = false
			delete(d.lanes, key)
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		for _, orphan := range d.serve(ctx, b) {
			// No client will retry these, so they go to the queue again.
			d.enqueue(ctx, key, orphan)
		}
	}
}

// next removes up to room waiters from a queue.
func (d *desk) next(l *lane, room int) []*waiter {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(l.waiting), room)
	out := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
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

// serve decides a batch and wakes the waiters. It returns stored charges that must be given back because their request
// failed or its client is gone.
func (d *desk) serve(ctx context.Context, b *batch) []*waiter {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	stored, err := d.settleSafely(ctx, b)
	var orphans []*waiter
	for _, w := range b.waiters {
		if w.request == nil {
			continue
		}
		if err != nil {
			w.verdict, w.err = nil, err
		}
		if stored && !w.request.DryRun && (err != nil || w.context.Err() != nil) {
			orphans = append(orphans, &waiter{context: ctx, charge: w.charge, namespace: w.namespace})
		}
		close(w.done)
	}
	return orphans
}

// settleSafely calls settle and converts a panic to an error, because a panic in this goroutine would end the process.
func (d *desk) settleSafely(ctx context.Context, b *batch) (stored bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			stored, err = true, internal(ctx, r)
		}
	}()
	return d.settle(ctx, b)
}

// settle decides a batch against one state of the quotas and stores the charges. If a write of a quota conflicts, it
// decides the whole batch again, because a decision is valid only for the state that it read. Requests that arrived
// meanwhile join the batch, because fewer writes mean fewer conflicts. stored reports whether any charge was stored.
func (d *desk) settle(ctx context.Context, b *batch) (stored bool, err error) {
	giveBack := func(id string) bool { return b.charges[id] }
	fresh := cached
	for try := 1; ; try++ {
		b.grow()
		p := d.ledger.open(fresh, giveBack)
		if needed := d.round(ctx, p, b.waiters); needed > fresh {
			fresh = needed
			continue
		}
		writes, conflicts, err := store(ctx, p, b, try)
		stored = stored || writes > conflicts
		switch {
		case err != nil && ctx.Err() == nil:
			return stored, fmt.Errorf("%w: %w", errUnreachable, err)
		case err == nil && conflicts == 0:
			return stored, nil
		}
		fresh = max(fresh, reread)
		d.conflicts()
		pause := time.NewTimer(time.Duration(rand.Int64N(int64(min(try, 10)) * int64(5*time.Millisecond))))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return stored, errContended
		}
	}
}

// store stores the charges of a round. Each traced request gets a span of its own for that. The calls to the API server
// belong to the span of the first one.
func store(ctx context.Context, p *page, b *batch, round int) (writes, conflicts int, err error) {
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
	writes, conflicts, err = p.write(calls)
	for _, span := range spans {
		span.SetAttributes(tracing.Round.Int(round), tracing.Requests.Int(len(b.waiters)), tracing.Writes.Int(writes), tracing.Conflicts.Int(conflicts))
		tracing.Fail(span, err)
		span.End()
	}
	return writes, conflicts, err
}

// round decides every request of a batch. It returns how fresh the data must be for the decisions to be valid. A stale
// cache must not cause a denial, and must not admit a request because it lacks a quota or a limit.
func (d *desk) round(ctx context.Context, p *page, batch []*waiter) (needed freshness) {
	expires := d.clock.Now().Add(d.ttl)
	for _, w := range batch {
		w.verdict, w.err = nil, nil
		if w.request == nil {
			// The cache may lack the charge that must be given back. An error has no receiver.
			_, _ = p.read(ctx, w.namespace)
			needed = max(needed, reread)
			continue
		}
		if err := w.context.Err(); err != nil {
			w.err = fmt.Errorf("%w: %w", errContended, err)
			continue
		}
		var asked int
		if w.verdict, asked, w.err = d.judge(ctx, p, w, expires); w.err != nil {
			continue
		}
		switch {
		case asked == 0, w.verdict.Uncovered:
			needed = relisted
		case !w.verdict.Allowed():
			needed = max(needed, reread)
		}
	}
	return needed
}

// judge decides one request. It returns by how many quotas and limits the request was decided. An error or panic must
// not affect the other requests of the batch.
func (d *desk) judge(ctx context.Context, p *page, w *waiter, expires time.Time) (verdict *quota.Verdict, asked int, err error) {
	defer func() {
		if r := recover(); r != nil {
			verdict, err = nil, internal(ctx, r)
		}
	}()
	ctx, span := tracing.Start(tracing.Join(ctx, w.context), "decide")
	defer func() { decided(span, p.freshness, verdict, asked, err) }()
	accounts, err := p.read(ctx, w.namespace)
	if err != nil {
		return nil, 0, unreachable(err)
	}
	limits, err := p.limits(ctx, w.namespace, w.request.Resource)
	if err != nil {
		return nil, 0, unreachable(err)
	}
	verdict, err = w.request.Admit(ctx, accounts, limits, expires)
	return verdict, len(accounts) + len(limits), err
}

// decided sets the attributes of the span of one request's decision, and ends the span.
func decided(span trace.Span, read freshness, verdict *quota.Verdict, asked int, err error) {
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
		span.SetAttributes(tracing.Outcome.String(outcome), tracing.Asked.Int(asked), tracing.Read.String(read.String()))
		tracing.Fail(span, err)
	}
	span.End()
}

// internal logs a panic and returns the error for the client.
func internal(ctx context.Context, panicked any) error {
	ctrllog.FromContext(ctx).Error(fmt.Errorf("panic: %v", panicked), "Deciding", "stack", string(debug.Stack()))
	return errors.New("an internal error; the operator's log has more")
}
