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
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"

	"github.com/berth-dev/berth/internal/httpserver"
)

// addMetrics adds a server of /metrics to the manager, unless MetricsAddress is empty or "0". If MetricsSecure is set, it uses HTTPS, and
// answers only clients that the API server authenticates and authorizes; otherwise it uses HTTP, and answers all clients.
func addMetrics(base *base) error {
	o := base.options
	if o.MetricsAddress == "" || o.MetricsAddress == "0" {
		return nil
	}
	server := httpserver.Server{Name: "metrics", Address: o.MetricsAddress, Strangers: metricsStrangers}
	// A registry whose collection fails in part would otherwise look like one in which something is zero.
	handler := promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	if o.MetricsSecure {
		certificate, err := selfSigned()
		if err != nil {
			return err
		}
		server.TLS = serverTLS()
		server.TLS.Certificates = []tls.Certificate{certificate}
		if handler, err = base.state.authenticateScrapers(base, httpserver.WithoutStrangers(handler)); err != nil {
			return err
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", handler)
	server.Handler = mux
	return base.mgr.Add(server.Runnable())
}

// selfSigned returns a new self-signed certificate. Scrapers can't verify it, as that of Kubernetes' own components.
func selfSigned() (tls.Certificate, error) {
	certificate, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{{127, 0, 0, 1}}, nil)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making a certificate for the metrics: %w", err)
	}
	return tls.X509KeyPair(certificate, key)
}

// authenticateScrapers returns a handler that authenticates and authorizes clients that read metrics, one request per scrapeInterval. It
// asks the API server of the host cluster if there is one, because the clients run there, and of the served cluster otherwise.
func (s *state) authenticateScrapers(base *base, next http.Handler) (http.Handler, error) {
	cfg, c := base.mgr.GetConfig(), base.mgr.GetHTTPClient()
	if s.host != nil {
		cfg, c = s.host.GetConfig(), s.host.GetHTTPClient()
	}
	filter, err := filters.WithAuthenticationAndAuthorization(cfg, c)
	if err != nil {
		return nil, fmt.Errorf("preparing the authentication of metrics clients: %w", err)
	}
	authenticated, err := filter(base.mgr.GetLogger(), next)
	if err != nil {
		return nil, err
	}
	return inTurn(authenticated), nil
}

// scrapeInterval is the time between two requests for metrics. No more requests wait for their turn than connections are open.
const scrapeInterval = 100 * time.Millisecond

// inTurn returns a handler that lets one request pass every scrapeInterval, of all clients together. It drops a waiting request when its
// client is gone, because the next handler asks the API server who the client is even then.
func inTurn(next http.Handler) http.Handler {
	turns := time.NewTicker(scrapeInterval)
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		select {
		case <-turns.C:
			next.ServeHTTP(w, request)
		case <-request.Context().Done():
		}
	})
}
