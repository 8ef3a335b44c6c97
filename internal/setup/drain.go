package setup

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// drain is a manager that goes on as before for a while when it is told to end, and has its clients connect elsewhere
// meanwhile. A server that ends closes the connections that idle; a request that the API server is about to send on one
// of them would be lost, and what it is about refused.
type drain struct {
	manager.Manager
	delay  time.Duration
	ending atomic.Bool
}

// Start runs the manager until ctx has ended and the delay is over.
func (d *drain) Start(ctx context.Context) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		d.ending.Store(true)
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

// handler closes each connection after its next answer once the manager is to end. A new one leads to another replica.
func (d *drain) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if d.ending.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, request)
	})
}
