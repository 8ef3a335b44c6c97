package setup

import (
	"context"
	"net/http"
	"sync/atomic"
)

// readiness says whether this replica may decide: its certificate is served and trusted, every policy that existed at
// the start is compiled, everything that they read is replicated or known not to be to be had, the quotas are read, and
// the webhook configurations stay when a version that was before goes.
// Once that was so it stays so: policies that come later answer for themselves.
type readiness struct {
	certificate func() bool
	policies    func(context.Context) bool
	data        func() bool
	quotas      func() bool
	adopted     func() bool

	reached atomic.Bool
}

func (r *readiness) isReady(ctx context.Context) bool {
	if r.reached.Load() {
		return true
	}
	if !r.certificate() || !r.policies(ctx) || !r.data() || !r.quotas() || !r.adopted() {
		return false
	}
	r.reached.Store(true)
	return true
}

// guard has a webhook answer only once this replica may decide. Until then it is no webhook at all: the API server gets
// an HTTP error and does what the webhook's failure policy says.
func (r *readiness) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if !r.isReady(request.Context()) {
			http.Error(w, "Berth is starting: policies, their data or quotas are not loaded yet", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, request)
	})
}
