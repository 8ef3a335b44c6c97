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

package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/policy"
)

// access is the way to reach an engine: its connections and credentials. Policies with the same endpoint and
// credentials share one. It is safe for concurrent use.
type access struct {
	// endpoint is the engine's scheme, host, and port.
	endpoint  string
	secrets   Secrets
	userAgent string
	spec      placementv1.Remote
	dial      dialer
	// bearer is the token that was sent last; nil for none.
	bearer atomic.Pointer[string]

	mu sync.Mutex
	// current are the connections in use; nil for none yet. tlsMaterial is what they were made with.
	current     *connections
	tlsMaterial tlsMaterial
}

// tlsMaterial is the content of the certificates and the key, in PEM.
type tlsMaterial struct {
	authorities, certificate, key []byte
}

func (m tlsMaterial) equal(o tlsMaterial) bool {
	return bytes.Equal(m.authorities, o.authorities) && bytes.Equal(m.certificate, o.certificate) && bytes.Equal(m.key, o.key)
}

// accessTo returns the access to a policy's engine. Policies that reach the engine in the same way share it.
func (e *Engine) accessTo(r *policy.Remote) (*access, error) {
	a := &access{
		endpoint:  endpointOf(r),
		secrets:   e.options.Secrets,
		userAgent: e.options.UserAgent,
		dial:      e.dial,
		spec: placementv1.Remote{
			TokenSecretRef: r.Spec.TokenSecretRef, CABundle: r.Spec.CABundle, CASecretRef: r.Spec.CASecretRef,
			ClientCertificateSecretRef: r.Spec.ClientCertificateSecretRef,
		},
	}
	key, err := keyFor(a.endpoint, a.spec)
	if err != nil {
		return nil, fmt.Errorf("spec.remote: %w", err)
	}
	return e.accesses.Get(key, func() (*access, error) { return a, nil })
}

// keyFor returns a hash of the values' JSON, which is a key for caches.
func keyFor(values ...any) (string, error) {
	text, err := json.Marshal(values)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return string(sum[:]), nil
}

func endpointOf(r *policy.Remote) string {
	return r.Document.Scheme + "://" + strings.ToLower(r.Document.Host)
}

// connections returns connections that use the current content of the Secrets. The error is an *engine.RemoteError.
func (a *access) connections(ctx context.Context) (*connections, error) {
	m, err := a.read(ctx)
	if err != nil {
		return nil, a.fault(engine.FaultCredentials, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != nil && a.tlsMaterial.equal(m) {
		return a.current, nil
	}
	config, err := a.tls(m)
	if err != nil {
		return nil, a.fault(engine.FaultCredentials, err)
	}
	if a.current != nil {
		a.current.transport.CloseIdleConnections()
	}
	a.current, a.tlsMaterial = newConnections(config, a.dial), m
	return a.current, nil
}

// close closes idle connections at once, and the others when they become idle.
func (a *access) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != nil {
		a.current.transport.CloseIdleConnections()
	}
}

// read returns the current certificates and key.
func (a *access) read(ctx context.Context) (tlsMaterial, error) {
	m := tlsMaterial{authorities: a.spec.CABundle}
	var err error
	if ref := a.spec.CASecretRef; ref != nil {
		if m.authorities, err = a.secret(ctx, "caSecretRef", ref.Name, ref.Key); err != nil {
			return tlsMaterial{}, err
		}
	}
	if ref := a.spec.ClientCertificateSecretRef; ref != nil {
		if m.certificate, err = a.secret(ctx, "clientCertificateSecretRef", ref.Name, corev1.TLSCertKey); err != nil {
			return tlsMaterial{}, err
		}
		if m.key, err = a.secret(ctx, "clientCertificateSecretRef", ref.Name, corev1.TLSPrivateKeyKey); err != nil {
			return tlsMaterial{}, err
		}
	}
	return m, nil
}

// tls returns the TLS configuration for the certificates and the key.
func (a *access) tls(m tlsMaterial) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(m.authorities) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(m.authorities) {
			if ref := a.spec.CASecretRef; ref != nil {
				return nil, fmt.Errorf("spec.remote.caSecretRef: key %s of Secret %s has no certificate in PEM", ref.Key, ref.Name)
			}
			return nil, errors.New("spec.remote.caBundle: there is no certificate in PEM")
		}
	}
	if ref := a.spec.ClientCertificateSecretRef; ref != nil {
		pair, err := tls.X509KeyPair(m.certificate, m.key)
		if err != nil {
			return nil, fmt.Errorf("spec.remote.clientCertificateSecretRef: keys %s and %s of Secret %s: %w",
				corev1.TLSCertKey, corev1.TLSPrivateKeyKey, ref.Name, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// token returns the current bearer token; empty if the policy sets none. The error is an *engine.RemoteError.
func (a *access) token(ctx context.Context) (string, error) {
	ref := a.spec.TokenSecretRef
	if ref == nil {
		return "", nil
	}
	value, err := a.secret(ctx, "tokenSecretRef", ref.Name, ref.Key)
	if err != nil {
		return "", a.fault(engine.FaultCredentials, err)
	}
	// Secrets made from files often end in a newline.
	token := bytes.TrimSpace(value)
	if bytes.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", a.fault(engine.FaultCredentials,
			fmt.Errorf("spec.remote.tokenSecretRef: what key %s of Secret %s has is no bearer token", ref.Key, ref.Name))
	}
	bearer := string(token)
	a.bearer.Store(&bearer)
	return bearer, nil
}

// secret returns the value of a Secret's key. An empty value is an error.
func (a *access) secret(ctx context.Context, field, name, key string) ([]byte, error) {
	if a.secrets == nil {
		return nil, fmt.Errorf("spec.remote.%s: Secret %s: no Secrets are read here", field, name)
	}
	data, err := a.secrets.Secret(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("spec.remote.%s: key %s of Secret %s: %w", field, key, name, err)
	}
	value := data[key]
	if len(bytes.TrimSpace(value)) == 0 {
		return nil, fmt.Errorf("spec.remote.%s: Secret %s has nothing in its key %s", field, name, key)
	}
	return value, nil
}

// fault returns an error of the engine. Its message does not contain the bearer token, even if the engine repeated it
// in a response.
func (a *access) fault(f engine.Fault, err error) *engine.RemoteError {
	if token := a.bearer.Load(); token != nil && *token != "" {
		err = redactedError{err, *token}
	}
	return &engine.RemoteError{Endpoint: a.endpoint, Fault: f, Err: err}
}

// redactedError is an error whose message hides a token.
type redactedError struct {
	error
	token string
}

func (d redactedError) Error() string { return strings.ReplaceAll(d.error.Error(), d.token, "[token]") }

func (d redactedError) Unwrap() error { return d.error }
