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

package framework

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

// errLost is how the loss of a port comes out of a manager.
var errLost = fmt.Errorf("failed to start webhooks: %w", &net.OpError{Op: "listen", Err: syscall.EADDRINUSE})

// replicas are Managers without a replica behind them. Of the first ones each ends with one of the errors; the rest run
// and are Ready.
func replicas(t *testing.T, ends ...error) (start func() *Manager, started *int) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	started = new(int)
	return func() *Manager {
		m := &Manager{probes: server.Listener.Addr().String(), cancel: func() {}, done: make(chan struct{})}
		if *started < len(ends) {
			m.err = ends[*started]
			close(m.done)
		}
		*started++
		return m
	}, started
}

// slow is longer than a start of nothing takes on any machine.
const slow = 30 * time.Second

func TestStartReady(t *testing.T) {
	broken := errors.New("no caches")
	tests := map[string]struct {
		ends    []error
		started int
		// failure is what the wait fails with, if it does.
		failure string
	}{
		"Ready":        {started: 1},
		"PortLostOnce": {ends: []error{errLost}, started: 2},
		"PortsLost":    {ends: []error{errLost, errLost, errLost, errLost}, started: 3, failure: "address already in use"},
		"Broken":       {ends: []error{broken}, started: 1, failure: "no caches"},
		"LostThenEnd":  {ends: []error{errLost, broken}, started: 2, failure: "no caches"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			start, started := replicas(t, tc.ends...)
			failure := ""
			gomega.RegisterFailHandler(func(message string, _ ...int) { failure = message; panic(message) })
			defer gomega.RegisterTestingT(t)
			// Far more than starting takes: a wait for what can't come shows, however slow the machine is.
			gomega.SetDefaultEventuallyTimeout(4 * slow)
			defer gomega.SetDefaultEventuallyTimeout(time.Second)
			begun := time.Now()
			func() {
				defer func() { _ = recover() }()
				startReady(t.Context(), start)
			}()
			if *started != tc.started || (failure == "") != (tc.failure == "") || !strings.Contains(failure, tc.failure) {
				t.Errorf("%d started, failure %q; want %d, %q", *started, failure, tc.started, tc.failure)
			}
			if waited := time.Since(begun); waited > slow {
				t.Errorf("that took %s: it was waited for what can't come", waited)
			}
		})
	}
}

func TestReadyAfterTheEnd(t *testing.T) {
	for _, end := range []error{nil, context.Canceled, errLost} {
		start, _ := replicas(t, end)
		if err := start().Ready(t.Context()); err == nil || (end != nil && !errors.Is(err, end)) {
			t.Errorf("ended by %v: ready says %v", end, err)
		}
	}
}
