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

// maxBatch bounds how many requests are decided in one round.
const maxBatch = 128

// budget is what the decision of one batch may take; the API server waits a little longer.
const budget = 7 * time.Second

// errContended says that a charge could not be stored in time because others kept storing theirs.
var errContended = errors.New("the quota is being changed by too many others")

// errUnreachable marks what went wrong outside of Berth.
var errUnreachable = errors.New("quotas can't be read or charged now")

// errModule marks a module that does not compile, which no spec leads to that the schema admits.
var errModule = errors.New("the quota can't be evaluated")

// unreachable says of an error in reading quotas that it is to be tried again, unless that changes nothing.
func unreachable(err error) error {
	if errors.Is(err, errModule) {
		return err
	}
	return fmt.Errorf("%w: %w", errUnreachable, err)
}

// waiter is a request that waits for its decision; with no request it stands for a charge to be given back.
type waiter struct {
	// context is the caller's: when it ends, nobody wants the answer any more.
	context   context.Context
	charge    string
	namespace string
	request   *quota.Request
	verdict   *quota.Verdict
	err       error
	done      chan struct{}
}

// desk decides requests and charges them. Requests that compete for the same quotas stand in one lane: while one batch
// of a lane is being stored, the next one gathers, so that the number of writes does not grow with that of requests.
type desk struct {
	ledger    *Ledger
	clock     clock.PassiveClock
	ttl       time.Duration
	conflicts func()

	mu    sync.Mutex
	lanes map[string]*lane
}

// lane is what waits for the quotas of one namespace, or of all those that share quotas.
type lane struct {
	waiting []*waiter
	busy    bool
}

// decide decides a request. What it charged is given back if ctx ends before the answer is out.
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
	// The lane works for all who wait in it, not for the first alone.
	go d.work(tracing.Detach(context.WithoutCancel(ctx)), key, l)
}

// work serves a lane until nobody waits.
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
			// Nobody is left who could try again.
			d.enqueue(ctx, key, orphan)
		}
	}
}

// next takes those who wait in a lane.
func (d *desk) next(l *lane, room int) []*waiter {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(l.waiting), room)
	out := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	return out
}

// batch is decided and stored together.
type batch struct {
	waiters []*waiter
	// charges are the ids of what the waiters charge.
	charges map[string]bool
	// more takes those who came meanwhile.
	more func(room int) []*waiter
}

// grow adds those who came meanwhile.
func (b *batch) grow() {
	if b.charges == nil {
		b.charges = map[string]bool{}
	}
	for _, w := range b.more(maxBatch - len(b.waiters)) {
		b.waiters = append(b.waiters, w)
		b.charges[w.charge] = true
	}
}

// serve decides a batch and wakes who waits. It returns charges that are still to be given back.
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

// settleSafely is settle for a goroutine of its own, where a panic would end the process.
func (d *desk) settleSafely(ctx context.Context, b *batch) (stored bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			stored, err = true, internal(ctx, r)
		}
	}()
	return d.settle(ctx, b)
}

// settle decides a batch against the quotas of one moment and stores the charges. If somebody else was faster with one
// of the quotas, everything is decided anew against all of them: a decision holds for no other moment than its own. Who
// came meanwhile is decided along: the fewer the writes, the fewer there are to be too late.
// stored says whether any charge was stored.
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

// store stores the charges of a round. Every request that is traced shows it as a span of its own; the calls to the API
// server are parts of the first one's.
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

// round decides every request of a batch, and says how fresh what they are decided by has to be for that to hold: a
// cache that lags behind must not deny anybody, nor let through what it does not know to ask about.
func (d *desk) round(ctx context.Context, p *page, batch []*waiter) (needed freshness) {
	expires := d.clock.Now().Add(d.ttl)
	for _, w := range batch {
		w.verdict, w.err = nil, nil
		if w.request == nil {
			// The cache may not show the charge that is to be given back, and there is nobody to tell of an error.
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

// judge decides one request and says how many quotas and limits it was decided by. What goes wrong with it is not to go
// wrong with those beside it, not even a panic.
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

// decided describes the decision of one request and ends its span.
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

// internal logs a panic and returns what to tell of it.
func internal(ctx context.Context, panicked any) error {
	ctrllog.FromContext(ctx).Error(fmt.Errorf("panic: %v", panicked), "Deciding", "stack", string(debug.Stack()))
	return errors.New("an internal error; the operator's log has more")
}
