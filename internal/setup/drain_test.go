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

package setup

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// running is a manager that runs until it is told to stop.
type running struct{ manager.Manager }

func (running) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 5 * time.Second
		d := &drainingManager{Manager: running{}, delay: delay}
		answer := func() string {
			t.Helper()
			w := httptest.NewRecorder()
			d.handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
			if w.Code != http.StatusNotFound {
				t.Fatalf("the handler itself was not asked: %d", w.Code)
			}
			return w.Header().Get("Connection")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan time.Time, 1)
		go func() {
			if err := d.Start(ctx); err != nil {
				t.Error(err)
			}
			ended <- time.Now()
		}()
		synctest.Wait()
		if got := answer(); got != "" {
			t.Errorf("a manager that runs answers Connection: %s", got)
		}

		told := time.Now()
		cancel()
		synctest.Wait()
		if got := answer(); got != "close" {
			t.Errorf("a manager that is to end answers Connection: %q, want close", got)
		}
		if got := (<-ended).Sub(told); got != delay {
			t.Errorf("it ended after %s, want %s", got, delay)
		}
	})
}

func TestDrainEndsWithItsManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &drainingManager{Manager: failing{}, delay: time.Hour}
		if err := d.Start(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the manager's own error", err)
		}
	})
}

// failing is a manager that stops with an error.
type failing struct{ manager.Manager }

func (failing) Start(context.Context) error { return context.DeadlineExceeded }
