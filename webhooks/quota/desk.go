package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/quota"
)

// maxBatch bounds how many requests are decided in one round.
const maxBatch = 128

// budget is what the decision of one batch may take; the API server waits a little longer.
const budget = 7 * time.Second

// errContended says that a charge could not be stored in time because others kept storing theirs.
var errContended = errors.New("the quota is being changed by too many others")

// errUnreachable marks what went wrong outside of Berth.
var errUnreachable = errors.New("quotas can't be read or charged now")

// waiter is a request that waits for its decision; with no request it stands for a charge to be given back.
type waiter struct {
	// context is the caller's: when it ends, nobody wants the answer any more.
	context   context.Context
	uid       string
	namespace string
	request   *quota.Request
	limits    []quota.Limit
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

// sharedLane is the lane of namespaces that have quotas in common; no namespace has this name.
const sharedLane = ""

// decide decides a request. What it charged is given back if ctx ends before the answer is out.
func (d *desk) decide(ctx context.Context, r *quota.Request) (*quota.Verdict, error) {
	limits, err := d.ledger.limits(ctx, r.Namespace, r.Resource)
	if err != nil {
		return nil, err
	}
	shared, err := d.ledger.shared(ctx, r.Namespace)
	if err != nil {
		return nil, err
	}
	key := r.Namespace
	if shared {
		key = sharedLane
	}
	w := &waiter{context: ctx, uid: r.UID, namespace: r.Namespace, request: r, limits: limits, done: make(chan struct{})}
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
	go d.work(context.WithoutCancel(ctx), key, l)
}

// work serves a lane until nobody waits.
func (d *desk) work(ctx context.Context, key string, l *lane) {
	for {
		d.mu.Lock()
		n := min(len(l.waiting), maxBatch)
		batch := l.waiting[:n:n]
		l.waiting = l.waiting[n:]
		if n == 0 {
			l.busy = false
			delete(d.lanes, key)
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		for _, uid := range d.serve(ctx, batch) {
			// Nobody is left who could try again.
			d.enqueue(ctx, key, uid)
		}
	}
}

// serve decides a batch and wakes who waits. It returns charges that are still to be given back.
func (d *desk) serve(ctx context.Context, batch []*waiter) []*waiter {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	stored, err := d.settleSafely(ctx, batch)
	var orphans []*waiter
	for _, w := range batch {
		if w.request == nil {
			continue
		}
		if err != nil {
			w.verdict, w.err = nil, err
		}
		if stored && !w.request.DryRun && (err != nil || w.context.Err() != nil) {
			orphans = append(orphans, &waiter{context: ctx, uid: w.uid, namespace: w.namespace})
		}
		close(w.done)
	}
	return orphans
}

// settleSafely is settle for a goroutine of its own, where a panic would end the process.
func (d *desk) settleSafely(ctx context.Context, batch []*waiter) (stored bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			stored, err = true, fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return d.settle(ctx, batch)
}

// settle decides a batch against the quotas of one moment and stores the charges. If somebody else was faster with one
// of the quotas, everything is decided anew against all of them: a decision holds for no other moment than its own.
// stored says whether any charge was stored.
func (d *desk) settle(ctx context.Context, batch []*waiter) (stored bool, err error) {
	mine := make(map[string]bool, len(batch))
	for _, w := range batch {
		mine[w.uid] = true
	}
	giveBack := func(uid string) bool { return mine[uid] }
	live := false
	for try := 1; ; try++ {
		p := d.ledger.open(live, giveBack)
		sure, err := d.round(ctx, p, batch)
		if err != nil {
			return stored, err
		}
		if !sure && !live {
			// A cache that lags behind must not deny anybody.
			live = true
			continue
		}
		writes, conflicts, err := p.write(ctx)
		stored = stored || writes > conflicts
		switch {
		case err != nil && ctx.Err() == nil:
			return stored, fmt.Errorf("%w: %w", errUnreachable, err)
		case err == nil && conflicts == 0:
			return stored, nil
		}
		live = true
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

// round decides every request of a batch. It is sure if nobody is refused.
func (d *desk) round(ctx context.Context, p *page, batch []*waiter) (sure bool, err error) {
	sure = true
	expires := d.clock.Now().Add(d.ttl)
	for _, w := range batch {
		accounts, err := p.read(ctx, w.namespace)
		if err != nil {
			return false, fmt.Errorf("%w: %w", errUnreachable, err)
		}
		if w.request == nil || w.context.Err() != nil {
			continue
		}
		w.verdict, w.err = w.request.Admit(ctx, accounts, w.limits, expires)
		if w.err == nil && !w.verdict.Allowed() {
			sure = false
		}
	}
	return sure, nil
}
