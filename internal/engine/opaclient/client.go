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
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/weakcache"
)

// Secrets reads Secrets of the operator's own namespace.
type Secrets interface {
	// Secret returns the current data of a Secret. The caller must not change it.
	Secret(ctx context.Context, name string) (map[string][]byte, error)
}

// Options configure a Pool: what reads the Secrets with credentials, the header User-Agent of requests, and how to connect.
type Options struct {
	// Secrets reads the Secrets with the credentials. If it is nil, requests for a policy that refers to a Secret fail.
	Secrets Secrets
	// UserAgent is the User-Agent header of requests; empty for requests without this header.
	UserAgent string
	// Dial connects to an address; nil for the default dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Pool provides the clients of remote engines. It frees a client and its connections soon after the last use. It is safe
// for concurrent use.
type Pool struct {
	options Options
	clients weakcache.Cache[Client]
}

// NewPool returns a pool without clients.
func NewPool(o Options) *Pool {
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: connectTimeout}).DialContext
	}
	return &Pool{options: o}
}

// Client returns the client for a policy's engine. Policies that reach the engine at the same address, with the same fields of spec.remote
// for credentials and certificates, share it. It connects to nothing.
func (p *Pool) Client(r *policy.Remote) (*Client, error) {
	c := &Client{
		options:  p.options,
		endpoint: EndpointOf(r),
		spec: placementv1.Remote{
			TokenSecretRef: r.Spec.TokenSecretRef, CABundle: r.Spec.CABundle, CASecretRef: r.Spec.CASecretRef,
			ClientCertificateSecretRef: r.Spec.ClientCertificateSecretRef,
		},
	}
	key, err := weakcache.Key(c.endpoint, c.spec)
	if err != nil {
		return nil, fmt.Errorf("spec.remote: %w", err)
	}
	return p.clients.Get(key, func() (*Client, error) { return c, nil })
}

// EndpointOf returns the scheme, host, and port of a policy's engine, as in https://opa.example:8181, without the path, and without the
// port if that is 443 for https or 80 for http.
func EndpointOf(r *policy.Remote) string {
	return r.Document.Scheme + "://" + strings.ToLower(r.Document.Host)
}

// Client sends requests to one engine, with the credentials that the Secrets contain at the time of the request. Its connections are made
// again when the certificates change. It is safe for concurrent use.
type Client struct {
	options  Options
	endpoint string // the scheme, host, and port of the engine, as in https://opa.example:8181, for errors; each request has its own URL
	// spec has only the fields with the credentials and the certificates.
	spec placementv1.Remote
	// bearer is the bearer token that was sent last, which errors must not contain; nil for none.
	bearer atomic.Pointer[string]

	mu sync.Mutex
	// current are the connections in use; nil for none yet.
	current     *connections
	tlsMaterial tlsMaterial // the certificates and the key with which current was made
}

// tlsMaterial is the content of the certificates and the key, in PEM.
type tlsMaterial struct {
	// authorities are the trusted certificate authorities; empty for those of the system. certificate and key are those of the client; empty
	// if it has none.
	authorities, certificate, key string
}

// connections returns connections for the certificates and the key that the Secrets contain now: the current ones, or new ones if these
// have changed. The error is an *engine.RemoteError with FaultCredentials.
func (c *Client) connections(ctx context.Context) (*connections, error) {
	m, err := c.read(ctx)
	if err != nil {
		return nil, c.Fault(engine.FaultCredentials, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil && c.tlsMaterial == m {
		return c.current, nil
	}
	config, err := c.tls(m)
	if err != nil {
		return nil, c.Fault(engine.FaultCredentials, err)
	}
	if c.current != nil {
		c.current.transport.CloseIdleConnections()
	}
	c.current, c.tlsMaterial = c.newConnections(config), m
	return c.current, nil
}

// CloseIdleConnections closes idle connections at once, and the others when they become idle. The client can be used afterwards: it
// connects again.
func (c *Client) CloseIdleConnections() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		c.current.transport.CloseIdleConnections()
	}
}

// read reads the current certificates and the key, in PEM, from the policy and the Secrets. A Secret with authorities counts in place of
// caBundle. What the policy does not set stays empty. It is an error if a Secret or its key is missing or empty.
func (c *Client) read(ctx context.Context) (tlsMaterial, error) {
	m := tlsMaterial{authorities: string(c.spec.CABundle)}
	var err error
	if ref := c.spec.CASecretRef; ref != nil {
		if m.authorities, err = c.secret(ctx, "caSecretRef", ref.Name, ref.Key); err != nil {
			return tlsMaterial{}, err
		}
	}
	if ref := c.spec.ClientCertificateSecretRef; ref != nil {
		if m.certificate, err = c.secret(ctx, "clientCertificateSecretRef", ref.Name, corev1.TLSCertKey); err != nil {
			return tlsMaterial{}, err
		}
		if m.key, err = c.secret(ctx, "clientCertificateSecretRef", ref.Name, corev1.TLSPrivateKeyKey); err != nil {
			return tlsMaterial{}, err
		}
	}
	return m, nil
}

// tls returns the TLS configuration for the certificates and the key. It is an error if they are not valid.
func (c *Client) tls(m tlsMaterial) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if m.authorities != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(m.authorities)) {
			if ref := c.spec.CASecretRef; ref != nil {
				return nil, fmt.Errorf("spec.remote.caSecretRef: key %s of Secret %s in Berth's namespace has no certificate in PEM", ref.Key, ref.Name)
			}
			return nil, errors.New("spec.remote.caBundle: it has no certificate in PEM")
		}
	}
	if ref := c.spec.ClientCertificateSecretRef; ref != nil {
		pair, err := tls.X509KeyPair([]byte(m.certificate), []byte(m.key))
		if err != nil {
			return nil, fmt.Errorf("spec.remote.clientCertificateSecretRef: keys %s and %s of Secret %s in Berth's namespace: %w",
				corev1.TLSCertKey, corev1.TLSPrivateKeyKey, ref.Name, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// token returns the bearer token that the Secret contains now, without space around it; empty if the policy sets none. If the Secret is
// missing or has no valid token, the error is an *engine.RemoteError with FaultCredentials.
func (c *Client) token(ctx context.Context) (string, error) {
	ref := c.spec.TokenSecretRef
	if ref == nil {
		return "", nil
	}
	value, err := c.secret(ctx, "tokenSecretRef", ref.Name, ref.Key)
	if err != nil {
		return "", c.Fault(engine.FaultCredentials, err)
	}
	// Secrets made from files often end in a newline.
	bearer := strings.TrimSpace(value)
	if strings.ContainsFunc(bearer, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", c.Fault(engine.FaultCredentials,
			fmt.Errorf("spec.remote.tokenSecretRef: key %s of Secret %s in Berth's namespace has no valid bearer token", ref.Key, ref.Name))
	}
	c.bearer.Store(&bearer)
	return bearer, nil
}

// secret returns the value of a key of a Secret, to which a field of spec.remote refers. It is an error if the Secret or the key is
// missing, or the value is empty or only white space.
func (c *Client) secret(ctx context.Context, field, name, key string) (string, error) {
	if c.options.Secrets == nil {
		return "", fmt.Errorf("spec.remote.%s: Secret %s: this program does not read Secrets", field, name)
	}
	data, err := c.options.Secrets.Secret(ctx, name)
	if err != nil {
		return "", fmt.Errorf("spec.remote.%s: key %s of Secret %s in Berth's namespace: %w", field, key, name, err)
	}
	value := string(data[key])
	if strings.TrimSpace(value) == "" {
		return "", fmt.Errorf("spec.remote.%s: key %s of Secret %s in Berth's namespace is missing or empty", field, key, name)
	}
	return value, nil
}

// Fault returns an error of the engine with a fault and a cause. Its message does not contain the bearer token, even if the engine repeated
// it in a response.
func (c *Client) Fault(f engine.Fault, err error) *engine.RemoteError {
	if token := c.bearer.Load(); token != nil && *token != "" {
		err = redactedError{err, *token}
	}
	return &engine.RemoteError{Endpoint: c.endpoint, Fault: f, Err: err}
}

// redactedError is an error whose message has [token] in place of a token.
type redactedError struct {
	error
	token string
}

func (d redactedError) Error() string { return strings.ReplaceAll(d.error.Error(), d.token, "[token]") }

func (d redactedError) Unwrap() error { return d.error }

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

// connections holds the http.Transport of a client and nothing else. Idle connections are closed once nothing refers to it.
type connections struct {
	transport *http.Transport
}

// newConnections returns connections with a TLS configuration, none of them open yet.
func (c *Client) newConnections(config *tls.Config) *connections {
	out := &connections{transport: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            c.options.Dial,
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
