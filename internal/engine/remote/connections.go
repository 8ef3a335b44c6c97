package remote

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"runtime"
	"time"
)

const (
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 64 << 10
	// idle is for how long a connection is kept that nobody uses.
	idle = 90 * time.Second
	// connecting bounds a connection attempt, also one that nobody waits for any more.
	connecting = 10 * time.Second
)

// dialer connects to an address.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// connections are what one access reaches its engine by. They are closed once nobody holds them and they are idle.
type connections struct {
	transport *http.Transport
}

func newConnections(config *tls.Config, dial dialer) *connections {
	if dial == nil {
		dial = (&net.Dialer{Timeout: connecting}).DialContext
	}
	out := &connections{transport: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dial,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    connecting,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           maxInFlight,
		MaxIdleConnsPerHost:    maxInFlight,
		IdleConnTimeout:        idle,
		MaxResponseHeaderBytes: maxHeader,
		// All requests to an engine share one connection of HTTP/2: one that is silently gone has to be noticed.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 2 * time.Second},
	}}
	runtime.AddCleanup(out, (*http.Transport).CloseIdleConnections, out.transport)
	return out
}
