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
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/engine/opaclient/opaclienttest"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder records the notifications of an observer.
type recorder struct {
	mu     sync.Mutex
	faults []engine.Fault
	// transitions are changes of health, as in "p: healthy->failing timeout".
	transitions []string
	revised     []string
}

func (r *recorder) Requested(_ string, fault engine.Fault, _ time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, fault)
}

func (r *recorder) HealthChanged(name string, before, after placement.RemoteHealth) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.transitions = append(r.transitions, fmt.Sprintf("%s: %s->%s", name, describeHealth(before), describeHealth(after)))
}

func (r *recorder) Revised(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.revised = append(r.revised, name)
}

// take returns the transitions since the last call.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.transitions
	r.transitions = nil
	return out
}

// takeRevised returns the policies that were revised since the last call.
func (r *recorder) takeRevised() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.revised
	r.revised = nil
	return out
}

func describeHealth(h placement.RemoteHealth) string {
	switch {
	case !h.Queried:
		return "unasked"
	case h.BreakerOpen:
		return "open"
	case h.Err != nil:
		return string(engine.FaultOf(h.Err))
	}
	return "healthy"
}

// memory is an in-memory network, which works with the fake time of testing/synctest.
type memory struct {
	conns chan net.Conn
	done  chan struct{}
	// dialed counts connections.
	dialed atomic.Int64
	// refuse makes all connection attempts fail.
	refuse atomic.Bool
}

func (m *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if m.refuse.Load() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	m.dialed.Add(1)
	client, server := net.Pipe()
	select {
	case m.conns <- server:
		return client, nil
	case <-m.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error {
	close(m.done)
	return nil
}

func (m *memory) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// fixture is an engine with an in-memory server.
type fixture struct {
	*memory
	*recorder
	secrets *opaclienttest.Secrets
	engine  *Engine

	mu       sync.Mutex
	inForce  []*placement.Policy
	evaluate []placement.Evaluator
}

const address0 = "http://opa.example:8181"

// newFixture returns a fixture whose server uses the handler. Tests that depend on time must call it within a bubble of
// testing/synctest.
func newFixture(t *testing.T, handler http.HandlerFunc) *fixture {
	t.Helper()
	f := &fixture{memory: &memory{conns: make(chan net.Conn), done: make(chan struct{})}, recorder: &recorder{}, secrets: &opaclienttest.Secrets{}}
	clients := opaclient.NewPool(opaclient.Options{Secrets: f.secrets, UserAgent: "berth/test", Dial: f.dial})
	f.engine = New(Options{Clients: clients, Policies: f.policies, Observer: f.recorder})
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(f.memory)
	}()
	t.Cleanup(func() {
		// Close connections before the bubble ends, because later cleanups run outside of it.
		for _, e := range f.evaluate {
			if p, ok := e.(*evaluator); ok {
				p.client.CloseIdleConnections()
			}
		}
		server.Close()
		<-ended
	})
	return f
}

func (f *fixture) policies() []*placement.Policy {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inForce
}

// put puts a policy in force.
func (f *fixture) put(t *testing.T, name string, spec placementv1.Remote) *evaluator {
	t.Helper()
	p := prepare(t, f.engine, name, spec)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.evaluate = append(f.evaluate, p)
	f.inForce = append(f.inForce, &placement.Policy{Name: name, Evaluator: p})
	return p
}

func prepare(t testing.TB, e *Engine, name string, spec placementv1.Remote, supplies ...policy.Resource) *evaluator {
	t.Helper()
	spec.Insecure = true
	if spec.URL == "" {
		spec.URL = address0 + "/v1/data/policy"
	}
	m, err := policy.Compile(name, placementv1.PlacementPolicySpec{Remote: &spec})
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Prepare(t.Context(), name, m, &policy.Binding{Remote: m.Remote, PushedTypes: supplies})
	if err != nil {
		t.Fatal(err)
	}
	p, ok := got.(*evaluator)
	if !ok {
		t.Fatalf("got a %T", got)
	}
	return p
}

// noRetry is for policies that send one request only.
var noRetry = placementv1.RemoteRetry{MaxAttempts: 1}

func deployment() map[string]any {
	return map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web"}}
}

// decides evaluates the policy and fails the test unless there is a decision.
func decides(t *testing.T, p *evaluator) placement.Decision {
	t.Helper()
	d, err := p.Evaluate(t.Context(), deployment())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// fails evaluates the policy and fails the test unless there is a fault, which it returns.
func fails(t *testing.T, p *evaluator) *engine.RemoteError {
	t.Helper()
	d, err := p.Evaluate(t.Context(), deployment())
	var fault *engine.RemoteError
	if !errors.As(err, &fault) {
		t.Fatalf("got %v, %v, want a fault", d, err)
	}
	return fault
}

// inVain evaluates the policy and fails the test unless there is a fault.
func inVain(t *testing.T, p *evaluator) {
	t.Helper()
	_ = fails(t, p)
}

// pass waits, in the fake time of testing/synctest.
func pass(d time.Duration) { <-time.After(d) }

// says responds with JSON.
func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}
}

// rejects responds with a status.
func rejects(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// hangs does not respond until the client gives up.
func hangs(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

const eu = `{"result": {"annotations": {"region": "eu"}}}`

// switched is a handler that tests replace.
type switched struct {
	handler atomic.Pointer[http.HandlerFunc]
}

func (s *switched) to(h http.HandlerFunc) { s.handler.Store(&h) }

func (s *switched) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*s.handler.Load())(w, r) }
