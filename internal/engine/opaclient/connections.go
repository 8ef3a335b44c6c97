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

package opaclient

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"runtime"
	"time"
)

const (
	// MaxConnections is the maximum number of idle connections that a client keeps.
	MaxConnections = 64
	// MaxHeader is the maximum size of a response's header in bytes.
	MaxHeader = 64 << 10
	// idleTimeout is how long an unused connection is kept.
	idleTimeout = 90 * time.Second
	// connectTimeout is the timeout of a connection attempt. It also applies when no request waits for the attempt any
	// more.
	connectTimeout = 10 * time.Second
)

// connections holds the transport of a client. Idle connections are closed once nothing refers to it.
type connections struct {
	transport *http.Transport
}

func newConnections(config *tls.Config, dial func(ctx context.Context, network, address string) (net.Conn, error)) *connections {
	if dial == nil {
		dial = (&net.Dialer{Timeout: connectTimeout}).DialContext
	}
	out := &connections{transport: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dial,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    connectTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           MaxConnections,
		MaxIdleConnsPerHost:    MaxConnections,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: MaxHeader,
		// All requests to an engine share one HTTP/2 connection. Pings detect a connection that broke silently.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 2 * time.Second},
	}}
	runtime.AddCleanup(out, (*http.Transport).CloseIdleConnections, out.transport)
	return out
}
