package setup

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// drainingManager is a manager that keeps running for a delay after it is told to stop. Meanwhile it makes its clients
// connect to other replicas. A server that stops closes its idle connections. A request that the API server is about to
// send on one of them would be lost, and the client's request refused.
type drainingManager struct {
	manager.Manager
	delay    time.Duration
	stopping atomic.Bool
}

// Start runs the manager until ctx has ended and the delay has passed.
func (d *drainingManager) Start(ctx context.Context) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		d.stopping.Store(true)
		timer := time.NewTimer(d.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
			stop()
		case <-running.Done():
		}
	})()
	return d.Manager.Start(running)
}

// handler closes each connection after its next response once the manager must stop. A new connection goes to another
// replica.
func (d *drainingManager) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if d.stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, request)
	})
}
