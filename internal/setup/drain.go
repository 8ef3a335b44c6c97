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
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/berth-dev/berth/internal/notify"
)

// drainingManager is a manager that keeps running for a delay after it is told to stop. Meanwhile it makes its clients connect to other
// replicas. Without that, a request that the API server sends on an idle connection while the server closes it would be lost, and the
// client's request refused.
type drainingManager struct {
	manager.Manager
	delay    time.Duration // how long the manager keeps running after it is told to stop
	stopping atomic.Bool   // whether the manager was told to stop; then webhooks close connections, but the replica stays Ready
}

// Start runs the manager until ctx has ended and the delay has passed.
func (d *drainingManager) Start(ctx context.Context) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		d.stopping.Store(true)
		if notify.Sleep(running, d.delay) {
			stop()
		}
	})()
	return d.Manager.Start(running)
}

// handler returns a handler that, once the manager was told to stop, closes each connection after its next response, so that the client
// connects to another replica.
func (d *drainingManager) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if d.stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, request)
	})
}
