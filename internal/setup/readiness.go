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
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/berth-dev/berth/internal/httpserver"
)

// readiness knows whether this replica may decide. These conditions must be met:
//
//   - Its certificate is served and trusted, and it knows a token of the API server.
//   - Every policy that existed at the start is loaded.
//   - All data that those policies read is replicated or known to be unavailable.
//   - The quotas and the DeviceClasses are cached.
//   - Its ClusterRoles own the webhook configurations, so that these remain when an earlier version is removed.
//
// Once the replica was ready it remains so until it ends: a policy that is created later can't decide until its own data is complete. A
// replica that ends because the store of an API server went back to an earlier state is not ready.
type readiness struct {
	certificate func() bool                // whether the webhooks' certificate is served and trusted
	tokens      func() bool                // whether a token of the API server is known
	policies    func(context.Context) bool // whether the policies that existed at the start are loaded
	data        func() bool                // whether the data of the policies is replicated or unavailable
	quotas      func() bool                // whether quotas and DeviceClasses are cached
	adopted     func() bool                // whether the ClusterRoles own the webhook configurations
	// current reports whether the API server recently confirmed that this replica has its policies.
	current func() bool
	confirm func(context.Context) error // asks the API server now whether this replica has its policies; an error means no, or unknown
	// restored returns an error if the store of an API server went back to an earlier state, so that this replica must not decide any more.
	restored func() error

	reached atomic.Bool // whether all conditions were met once
}

// isReady reports whether this replica may decide.
func (r *readiness) isReady(ctx context.Context) bool {
	if r.restored() != nil {
		return false
	}
	if r.reached.Load() {
		return true
	}
	if !r.certificate() || !r.tokens() || !r.policies(ctx) || !r.data() || !r.quotas() || !r.adopted() {
		return false
	}
	r.reached.Store(true)
	return true
}

// confirmTimeout is how long a request waits for the API server to confirm the policies of this replica.
const confirmTimeout = 3 * time.Second

// guard returns a handler that passes requests to a webhook only if this replica may decide. Otherwise the API server gets an HTTP error,
// and applies the webhook's failure policy. If the API server has not confirmed the policies of this replica recently, the handler requests
// a confirmation for the request. So a replica that was disconnected, or whose API server restarted, decides the first request that it can.
func (r *readiness) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if err := r.restored(); err != nil {
			http.Error(w, "Berth is ending: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		if !r.isReady(request.Context()) {
			http.Error(w, "Berth is starting: its certificate, policies, their data, or quotas are not loaded yet; try again", http.StatusServiceUnavailable)
			return
		}
		if !r.current() {
			ctx, cancel := context.WithTimeout(request.Context(), confirmTimeout)
			defer cancel()
			if err := r.confirm(ctx); err != nil {
				http.Error(w, "Berth can't decide, because it does not know whether it has the newest policies: "+err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		next.ServeHTTP(w, request)
	})
}

// addProbes adds a server of /healthz and /readyz to the manager, unless ProbeAddress is empty or "0".
func addProbes(base *base, controllers *controllers) error {
	if o := base.options; o.ProbeAddress == "" || o.ProbeAddress == "0" {
		return nil
	}
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{
		"/healthz": {"ping": healthz.Ping},
		"/readyz":  {"loaded": controllers.loaded},
	} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler)
	}
	return base.mgr.Add(httpserver.Server{Name: "probes", Address: base.options.ProbeAddress, Strangers: probeStrangers, Handler: mux}.Runnable())
}

// loaded is the check behind /readyz. It returns why this replica is not ready, or nil.
func (c *controllers) loaded(r *http.Request) error {
	// Without a timeout, a probe that waits for a cache would look like a hanging process.
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if err := c.readiness.restored(); err != nil {
		return err
	}
	if !c.readiness.isReady(ctx) {
		return errors.New("the certificate, policies, their data, or quotas are not loaded yet")
	}
	if !c.freshness.Current() {
		return errors.New("the API server has not confirmed the policies of this replica within --policy-max-staleness")
	}
	return nil
}
