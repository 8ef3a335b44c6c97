package setup

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// readiness says whether this replica may decide: its certificate is served and trusted, it knows
// the API server by a token, every policy that existed at
// the start is compiled, everything that they read is replicated or known not to be to be had, the quotas are read, and
// the webhook configurations stay when a version that was before goes.
// Once that was so it stays so: policies that come later answer for themselves.
type readiness struct {
	certificate func() bool
	tokens      func() bool
	policies    func(context.Context) bool
	data        func() bool
	quotas      func() bool
	adopted     func() bool
	// current reports whether the API server confirmed within a bound that this replica has its policies, and confirm asks
	// for that now.
	current func() bool
	confirm func(context.Context) error

	reached atomic.Bool
}

func (r *readiness) isReady(ctx context.Context) bool {
	if r.reached.Load() {
		return true
	}
	if !r.certificate() || !r.tokens() || !r.policies(ctx) || !r.data() || !r.quotas() || !r.adopted() {
		return false
	}
	r.reached.Store(true)
	return true
}

// once returns a check that is not made again after it succeeded. The check of the webhook server shakes hands without a
// client certificate, which a server that requires one logs as an error each time.
func once(check healthz.Checker) healthz.Checker {
	var succeeded atomic.Bool
	return func(request *http.Request) error {
		if succeeded.Load() {
			return nil
		}
		err := check(request)
		succeeded.Store(err == nil)
		return err
	}
}

// confirmation is how long a request waits for the API server to confirm the policies of this replica.
const confirmation = 3 * time.Second

// guard has a webhook answer only once this replica may decide. Until then it is no webhook at all: the API server gets
// an HTTP error and does what the webhook's failure policy says. The same holds while this replica may have old policies;
// a request has that looked at again at once, so that a replica which was cut off, or whose API server restarted, answers
// the first request that it can.
func (r *readiness) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if !r.isReady(request.Context()) {
			http.Error(w, "Berth is starting: policies, their data or quotas are not loaded yet", http.StatusServiceUnavailable)
			return
		}
		if !r.current() {
			ctx, cancel := context.WithTimeout(request.Context(), confirmation)
			defer cancel()
			if err := r.confirm(ctx); err != nil {
				http.Error(w, "Berth does not know whether it has the newest policies: "+err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		next.ServeHTTP(w, request)
	})
}
