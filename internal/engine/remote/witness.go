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

// pollAfter is the minimum interval between requests for the manifest that poll starts.
const pollAfter = 500 * time.Millisecond

// witness reads the manifest of an engine. Policies that reach the engine in the same way share one. It is safe for
// concurrent use.
type witness struct {
	access *access
	at     *url.URL

	mu sync.Mutex
	// last is the last manifest that was read; nil for none. polled is when poll last started a request.
	last   *holdings
	polled time.Time
	// running is the current request, which may have begun before a caller asked for the manifest. next begins after it.
	// Both may be nil.
	running, next *look
}

// look is one request for the manifest.
type look struct {
	timeout time.Duration
	done    chan struct{}
	// held and err are the result. They are set before done is closed.
	held *holdings
	err  error
}

// witnessOf returns the reader of the manifest of a policy's engine.
func (e *Engine) witnessOf(r *policy.Remote, a *access) (*witness, error) {
	return e.witnesses.Get(fmt.Sprintf("%p %s", a, r.Base), func() (*witness, error) {
		return &witness{access: a, at: holdingsAddress(r.Base)}, nil
	})
}

// seen returns the last manifest that was read; nil for none.
func (w *witness) seen() *holdings {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// look reads the manifest with a request that begins after the call. Callers that arrive while a request is running
// share the next one, which uses the timeout of the first of them.
func (w *witness) look(ctx context.Context, timeout time.Duration) (*holdings, error) {
	l := w.begin(timeout)
	select {
	case <-l.done:
		return l.held, l.err
	case <-ctx.Done():
		return nil, w.access.broken(ctx, fmt.Errorf("waiting for what it holds: %w", ctx.Err()))
	}
}

// poll starts a request for the manifest unless it did so recently. It does not wait for the result.
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

// run sends requests until no caller wants another one. It uses a context of its own, because the callers have
// different deadlines.
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

// before returns a manifest that lists everything that the policy needs, as read before the engine decides. The error
// is an *engine.RemoteError.
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

// after verifies that the engine had everything that the policy needs from before until now, and so while it decided.
// superseded reports that the engine has newer modules than the policy, so that an undefined result means nothing. The
// error is an *engine.RemoteError.
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
