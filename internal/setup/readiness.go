package setup

import (
	"context"
	"sync/atomic"
)

// readiness says whether this replica may decide: its certificate is there, every policy that existed at the start is
// compiled, and everything that they read is replicated or known not to be to be had. Once that was so it stays so:
// policies that come later answer for themselves.
type readiness struct {
	certificate func() bool
	policies    func(context.Context) bool
	data        func() bool

	reached atomic.Bool
}

func (r *readiness) isReady(ctx context.Context) bool {
	if r.reached.Load() {
		return true
	}
	if !r.certificate() || !r.policies(ctx) || !r.data() {
		return false
	}
	r.reached.Store(true)
	return true
}
