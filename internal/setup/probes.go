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
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/berth-dev/berth/internal/httpserver"
)

// addProbes adds a server of /healthz and /readyz to the manager, unless ProbeAddress is empty or "0". /healthz always succeeds, and
// /readyz does if this replica may decide.
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
	return base.mgr.Add(httpserver.Server{Name: "probes", Address: base.options.ProbeAddress, Strangers: probeStrangers,
		Handler: mux}.Runnable())
}

// loaded is the check behind /readyz. It returns nil if this replica may decide. Otherwise it returns one of three errors: the store of an
// API server was restored, something is not loaded yet (it does not say what), or the policies were not confirmed within the maximum
// staleness. It ends with the request, after a second at the latest.
func (c *controllers) loaded(r *http.Request) error {
	// Without a timeout, a probe that waits for a cache would look like a hanging process.
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if err := c.readiness.Restored(); err != nil {
		return err
	}
	if !c.readiness.IsReady(ctx) {
		return errors.New("not all is ready yet, such as the certificate, policies, their data, or quotas")
	}
	if !c.freshness.Current() {
		return errors.New("the API server has not confirmed the policies of this replica within --policy-max-staleness")
	}
	return nil
}
