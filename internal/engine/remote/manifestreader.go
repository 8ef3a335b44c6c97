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
	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/policy"
)

// minPollInterval is the minimum interval between requests for the manifest that poll starts.
const minPollInterval = 500 * time.Millisecond

// manifestReader reads the manifest of an engine, and keeps the last one. Policies that reach the engine in the same way share one, and
// their concurrent reads share requests. It is safe for concurrent use.
type manifestReader struct {
	client *opaclient.Client
	url    *url.URL // the URL of the manifest

	mu sync.Mutex
	// last is the last manifest that was read; nil if the engine had none, or before the first one.
	last   *opaclient.Manifest
	polled time.Time // when poll last started a request
	// running is the current request, which may have begun before a caller asked for the manifest. next begins after it.
	// Both may be nil.
	running, next *manifestRequest
}

// manifestRequest is one request for the manifest.
type manifestRequest struct {
	timeout time.Duration
	done    chan struct{} // closed when the result is set
	// manifest is the result. It is set before done is closed.
	manifest *opaclient.Manifest
	err      error // the error of the request
}

// manifestReaderOf returns the reader of the manifest in a policy's engine, which uses the client. Policies with the same client and base
// URL share it. It sends no request, and its error is always nil.
func (e *Engine) manifestReaderOf(r *policy.Remote, c *opaclient.Client) (*manifestReader, error) {
	return e.manifestReaders.Get(fmt.Sprintf("%p %s", c, r.Base), func() (*manifestReader, error) {
		return &manifestReader{client: c, url: opaclient.ManifestURL(r.Base)}, nil
	})
}

// latest returns the last manifest that was read; nil for none.
func (w *manifestReader) latest() *opaclient.Manifest {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// read reads the manifest with a request that begins after the call. Callers that arrive while a request is running
// share the next one, which uses the timeout of the first of them.
func (w *manifestReader) read(ctx context.Context, timeout time.Duration) (*opaclient.Manifest, error) {
	w.mu.Lock()
	l := w.startRequest(timeout)
	w.mu.Unlock()
	select {
	case <-l.done:
		return l.manifest, l.err
	case <-ctx.Done():
		return nil, w.client.Fault(engine.FaultTimeout, fmt.Errorf("no answer in time to the request for the manifest of the pushed data: %w",
			ctx.Err()))
	}
}

// poll starts a request for the manifest unless it did so less than minPollInterval ago. It does not wait for the result.
func (w *manifestReader) poll(timeout time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Sub(w.polled) >= minPollInterval {
		w.polled = now
		w.startRequest(timeout)
	}
}

// startRequest starts a request for the manifest, or schedules it after the current one. The caller holds the lock.
func (w *manifestReader) startRequest(timeout time.Duration) *manifestRequest {
	if w.next != nil {
		return w.next
	}
	l := &manifestRequest{timeout: timeout, done: make(chan struct{})}
	if w.running != nil {
		w.next = l
		return l
	}
	w.running = l
	go w.run(l)
	return l
}

// run sends the request l and then, one after another, those that were scheduled meanwhile, and ends when there is none. It uses a context
// of its own, because the callers have different deadlines.
func (w *manifestReader) run(l *manifestRequest) {
	for l != nil {
		ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
		l.manifest, l.err = w.fetch(ctx)
		cancel()
		close(l.done)
		w.mu.Lock()
		if l.err == nil {
			w.last = l.manifest
		}
		w.running, w.next = w.next, nil
		l = w.running
		w.mu.Unlock()
	}
}

// fetch requests the manifest; nil if the engine has none.
func (w *manifestReader) fetch(ctx context.Context) (*opaclient.Manifest, error) {
	answer, err := w.client.Send(ctx, opaclient.Request{Method: http.MethodGet, URL: w.url})
	if err != nil {
		return nil, err
	}
	current, err := opaclient.ParseManifest(answer)
	if err != nil {
		return nil, w.client.Fault(engine.FaultMalformed, err)
	}
	return current, nil
}

// verifyBefore returns a manifest that lists everything that the policy needs, as read before the engine decides: the last one that was
// read, if it does, or else a new one. The error is an *engine.RemoteError: also the new manifest lacks something, or can't be read.
func (w *manifestReader) verifyBefore(ctx context.Context, b *policy.Binding) (*opaclient.Manifest, error) {
	current := w.latest()
	if missing, _ := current.Missing(b); missing == "" && current != nil {
		return current, nil
	}
	current, err := w.read(ctx, timeoutOf(b.Remote))
	if err != nil {
		return nil, err
	}
	if missing, _ := current.Missing(b); missing != "" {
		return nil, w.client.Fault(engine.FaultIncomplete, errors.New("it "+missing))
	}
	return current, nil
}

// verifyAfter verifies that the engine had everything that the policy needs from before until now, and so while it
// decided. superseded reports that the engine has newer modules than the policy, so that an undefined result means
// nothing. The error is an *engine.RemoteError.
func (w *manifestReader) verifyAfter(ctx context.Context, before *opaclient.Manifest, b *policy.Binding) (superseded bool, err error) {
	current, err := w.read(ctx, timeoutOf(b.Remote))
	if err != nil {
		return false, err
	}
	missing, superseded := current.Missing(b)
	switch {
	case missing != "":
		return false, w.client.Fault(engine.FaultIncomplete, errors.New("it "+missing))
	case current.LoadID != before.LoadID:
		return false, w.client.Fault(engine.FaultIncomplete, errors.New("the engine lost data during the decision, and Berth has pushed the "+
			"data again since"))
	}
	return superseded, nil
}

// timeoutOf returns the timeout of one request to the engine of a policy: spec.remote.timeoutSeconds, for which r.Spec has the default if
// it is not set.
func timeoutOf(r *policy.Remote) time.Duration {
	return time.Duration(r.Spec.TimeoutSeconds) * time.Second
}
