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

package review

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// Readiness knows whether this replica may decide. These conditions must be met:
//
//   - Its certificate is served and trusted, and it knows a token of the API server.
//   - Every policy that existed at the start is loaded.
//   - All data that those policies read is replicated or known to be unavailable.
//   - The quotas and the DeviceClasses are cached.
//   - Its ClusterRoles own the webhook configurations, so that these remain when an earlier version is removed.
//
// Once the replica was ready it remains so until it ends: a policy that is created later can't decide until its own data is complete. A
// replica that ends because the store of an API server went back to an earlier state is not ready.
type Readiness struct {
	Certificate func() bool                // whether the webhooks' certificate is served and trusted
	Tokens      func() bool                // whether a token of the API server is known
	Policies    func(context.Context) bool // whether all policies that existed at the start are loaded
	Data        func() bool                // whether the data of the policies is replicated or unavailable
	Quotas      func() bool                // whether quotas and DeviceClasses are cached
	Adopted     func() bool                // whether the ClusterRoles own the webhook configurations
	// Current reports whether the API server recently confirmed that this replica has its policies.
	Current func() bool
	Confirm func(context.Context) error // asks the API server now whether this replica has its policies; an error means no, or unknown
	// Restored returns an error if the store of an API server went back to an earlier state, so that this replica must not decide any more.
	Restored func() error

	reached atomic.Bool // whether all conditions were met once
}

// IsReady reports whether this replica may decide.
func (r *Readiness) IsReady(ctx context.Context) bool {
	if r.Restored() != nil {
		return false
	}
	if r.reached.Load() {
		return true
	}
	if !r.Certificate() || !r.Tokens() || !r.Policies(ctx) || !r.Data() || !r.Quotas() || !r.Adopted() {
		return false
	}
	r.reached.Store(true)
	return true
}

// confirmTimeout is how long a request waits for the API server to confirm that this replica has all policies, as they are now.
const confirmTimeout = 3 * time.Second

// Guard returns a handler that passes requests to a webhook only if this replica may decide. Otherwise the API server gets an HTTP error
// (503), and applies the webhook's failure policy. If the API server has not confirmed recently that this replica has all policies, as
// they are now, the handler asks it before it passes the request. So a replica that was disconnected, or whose API server restarted,
// decides the first request that it can.
func (r *Readiness) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if err := r.Restored(); err != nil {
			http.Error(w, "Berth is ending: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		if !r.IsReady(request.Context()) {
			http.Error(w, "Berth is starting: not all is ready yet, such as its certificate, policies, their data, or quotas; try again",
				http.StatusServiceUnavailable)
			return
		}
		if !r.Current() {
			ctx, cancel := context.WithTimeout(request.Context(), confirmTimeout)
			defer cancel()
			if err := r.Confirm(ctx); err != nil {
				http.Error(w, "Berth can't decide, because it does not know whether it has the newest policies: "+err.Error(),
					http.StatusServiceUnavailable)
				return
			}
		}
		next.ServeHTTP(w, request)
	})
}
