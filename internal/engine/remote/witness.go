package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/policy"
)

// pollAfter is how long what an engine holds is taken for granted where it is only asked whether to go on waiting.
const pollAfter = 500 * time.Millisecond

// witness sees what an engine holds of what Berth keeps there. Policies that reach the engine in the same way share one. It
// is safe for concurrent use.
type witness struct {
	access *access
	at     *url.URL

	mu sync.Mutex
	// last is what was seen last, nil for nothing, and polled is when somebody wanted to look who did not wait.
	last   *holdings
	polled time.Time
	// running is under way, and may have begun before what its caller wants to see; next begins after it. Both may be nil.
	running, next *look
}

// look is one request for the holdings.
type look struct {
	timeout time.Duration
	done    chan struct{}
	// held and err are the outcome once done is closed.
	held *holdings
	err  error
}

// witnessOf returns the witness of what a policy's engine holds.
func (e *Engine) witnessOf(r *policy.Remote, a *access) (*witness, error) {
	return e.witnesses.Get(fmt.Sprintf("%p %s", a, r.Base), func() (*witness, error) {
		return &witness{access: a, at: holdingsAddress(r.Base)}, nil
	})
}

// seen returns what was seen last; nil for nothing.
func (w *witness) seen() *holdings {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// look returns what the engine holds at a time after the call. Those who call while a request is under way share the next
// one, which then has timeout.
func (w *witness) look(ctx context.Context, timeout time.Duration) (*holdings, error) {
	l := w.begin(timeout)
	select {
	case <-l.done:
		return l.held, l.err
	case <-ctx.Done():
		return nil, w.access.broken(ctx, fmt.Errorf("waiting for what it holds: %w", ctx.Err()))
	}
}

// poll looks unless somebody did lately, and waits for nothing.
func (w *witness) poll(timeout time.Duration) {
	w.mu.Lock()
	now := time.Now()
	due := now.Sub(w.polled) >= pollAfter
	if due {
		w.polled = now
	}
	w.mu.Unlock()
	if due {
		w.begin(timeout)
	}
}

func (w *witness) begin(timeout time.Duration) *look {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next != nil {
		return w.next
	}
	l := &look{timeout: timeout, done: make(chan struct{})}
	if w.running != nil {
		w.next = l
		return l
	}
	w.running = l
	go w.run(l)
	return l
}

// run looks for as long as somebody wants to. It belongs to nobody who waits: each has a deadline of their own.
func (w *witness) run(l *look) {
	for l != nil {
		ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
		l.held, l.err = w.fetch(ctx)
		cancel()
		close(l.done)
		w.mu.Lock()
		if l.err == nil {
			w.last = l.held
		}
		w.running, w.next = w.next, nil
		l = w.running
		w.mu.Unlock()
	}
}

func (w *witness) fetch(ctx context.Context) (*holdings, error) {
	answer, err := w.access.exchange(ctx, query{method: http.MethodGet, at: w.at})
	if err != nil {
		return nil, err
	}
	held, err := parseHoldings(answer)
	if err != nil {
		return nil, w.access.fault(engine.FaultMalformed, err)
	}
	return held, nil
}

// before returns what the engine holds before it is asked to decide, all that the policy needs. The error is an
// *engine.RemoteError.
func (w *witness) before(ctx context.Context, name string, r *policy.Remote, b *policy.Binding) (*holdings, error) {
	held := w.seen()
	if missing, _ := held.has(name, r, b); missing == "" && held != nil {
		return held, nil
	}
	held, err := w.look(ctx, timeoutOf(r))
	if err != nil {
		return nil, err
	}
	if missing, _ := held.has(name, r, b); missing != "" {
		return nil, w.access.fault(engine.FaultIncomplete, errors.New("it "+missing))
	}
	return held, nil
}

// after says whether the engine held everything that the policy needs from before on until now, that is while it decided
// in between. superseded says that it has newer modules than the policy, so that what they leave undefined tells nothing.
// The error is an *engine.RemoteError.
func (w *witness) after(ctx context.Context, before *holdings, name string, r *policy.Remote, b *policy.Binding) (superseded bool, err error) {
	held, err := w.look(ctx, timeoutOf(r))
	if err != nil {
		return false, err
	}
	missing, superseded := held.has(name, r, b)
	switch {
	case missing != "":
		return false, w.access.fault(engine.FaultIncomplete, errors.New("it "+missing))
	case held.Load != before.Load:
		return false, w.access.fault(engine.FaultIncomplete, errors.New("it lost data while it decided, and has them again"))
	}
	return superseded, nil
}

func timeoutOf(r *policy.Remote) time.Duration {
	return time.Duration(r.Spec.TimeoutSeconds) * time.Second
}
