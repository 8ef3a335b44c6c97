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
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/util/wait"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/opaclient/opaclienttest"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/test/framework/pki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secured is a TLS server. Tests replace its certificate and the authorities that client certificates must be from.
type secured struct {
	*httptest.Server
	mu     sync.Mutex
	config *tls.Config
	// seen are the names of the clients and the tokens that they sent.
	seen []string
	// open are the connections that are open.
	open map[net.Conn]bool
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	s := &secured{open: map[net.Conn]bool{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		for _, c := range r.TLS.PeerCertificates {
			who += "/" + c.Subject.CommonName
		}
		s.mu.Lock()
		s.seen = append(s.seen, who)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, eu)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[c] = true; state == http.StateClosed {
			delete(s.open, c)
		}
	}
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.config, nil
	}}
	s.EnableHTTP2 = true
	certificate, key := pki.NewAuthority(t).Server(time.Hour)
	s.use(t, certificate, key, nil)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// use sets the certificate for new connections. Clients must send a certificate if authorities for clients are set.
func (s *secured) use(t *testing.T, certificate, key, clients []byte) {
	t.Helper()
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if clients != nil {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM(clients)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config = config
}

// last returns the client and the token of the last request.
func (s *secured) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) == 0 {
		return ""
	}
	return s.seen[len(s.seen)-1]
}

// waitOpen waits until the number of open connections is want. collect also runs the garbage collector, which closes
// connections without an owner.
func (s *secured) waitOpen(t *testing.T, want int, collect bool) {
	t.Helper()
	got := 0
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		if collect {
			runtime.GC()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		got = len(s.open)
		return got == want, nil
	})
	if err != nil {
		t.Errorf("%d connections, want %d", got, want)
	}
}

// eu is a response with a decision.
const eu = `{"result": {"annotations": {"region": "eu"}}}`

// token is the content of a Secret that no message may contain.
const token = "s3cr3t-t0k3n"

// clientOf returns the client for a policy with the address of a server.
func clientOf(t *testing.T, p *Pool, spec placementv1.Remote) *Client {
	t.Helper()
	spec.Insecure = true
	m, err := policy.Compile("p", placementv1.PlacementPolicySpec{Remote: &spec})
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.Client(m.Remote)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask queries a document until there is a response, but only a few times: a connection that the server closed may be
// noticed only by a request.
func ask(t *testing.T, c *Client) (answer []byte, err error) {
	t.Helper()
	document, err := url.Parse(c.endpoint + "/v1/data/policy")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if answer, _, err = c.Query(t.Context(), document, false, []byte(`{"input": {}}`)); err == nil {
			return answer, nil
		}
	}
	return nil, err
}

// answers fails the test unless the server answers.
func answers(t *testing.T, c *Client) {
	t.Helper()
	if answer, err := ask(t, c); err != nil || string(answer) != eu {
		t.Fatalf("got %s, %v", answer, err)
	}
}

// fails returns the fault of a request.
func fails(t *testing.T, c *Client) *engine.RemoteError {
	t.Helper()
	answer, err := ask(t, c)
	var fault *engine.RemoteError
	if !errors.As(err, &fault) {
		t.Fatalf("got %s, %v, want a fault", answer, err)
	}
	return fault
}

func reference(name string) placementv1.SecretReference {
	return placementv1.SecretReference{Name: name}
}

// TestRotation verifies that each request uses the current content of the Secrets without a new client. New
// connections are made only when certificates change, and the old ones are closed.
func TestRotation(t *testing.T) {
	server := newSecured(t)
	ours, theirs := pki.NewAuthority(t), pki.NewAuthority(t)
	certificate, key := ours.Server(time.Hour)
	server.use(t, certificate, key, ours.PEM)
	s := &opaclienttest.Secrets{}
	pool := NewPool(Options{Secrets: s})
	c := clientOf(t, pool, placementv1.Remote{
		URL:                        server.URL + "/v1/data/policy",
		TokenSecretRef:             &placementv1.TokenSecretReference{SecretReference: reference("token")},
		CASecretRef:                &placementv1.CASecretReference{SecretReference: reference("ca")},
		ClientCertificateSecretRef: new(reference("client")),
	})
	set := func(token string, ca *pki.Authority, client string) {
		certificate, key := ca.Client(client)
		s.Set("token", map[string]string{"token": token})
		s.Set("ca", map[string]string{"ca.crt": string(ca.PEM)})
		s.Set("client", map[string]string{"tls.crt": string(certificate), "tls.key": string(key)})
	}
	set("one", ours, "alice")
	answers(t, c)
	if got := server.last(); got != "one/alice" {
		t.Errorf("asked by %s", got)
	}
	server.waitOpen(t, 1, false)
	first := c.current

	s.Set("token", map[string]string{"token": "two"})
	answers(t, c)
	if got := server.last(); got != "two/alice" || c.current != first {
		t.Errorf("asked by %s, new connections %t", got, c.current != first)
	}

	set("two", ours, "bob")
	answers(t, c)
	if got := server.last(); got != "two/bob" {
		t.Errorf("asked by %s", got)
	}
	server.waitOpen(t, 1, false)

	// From here on, another authority signs the server's certificate.
	certificate, key = theirs.Server(time.Hour)
	server.use(t, certificate, key, theirs.PEM)
	server.CloseClientConnections()
	got := fails(t, c)
	if got.Fault != engine.FaultNetwork || !strings.Contains(got.Error(), "unknown authority") {
		t.Error(got)
	}
	set("two", theirs, "carol")
	answers(t, c)
	if got := server.last(); got != "two/carol" {
		t.Errorf("asked by %s", got)
	}

	// The server's certificate expires.
	certificate, key = theirs.Server(-time.Minute)
	server.use(t, certificate, key, theirs.PEM)
	server.CloseClientConnections()
	if got := fails(t, c); got.Fault != engine.FaultNetwork || !strings.Contains(got.Error(), "expired") {
		t.Error(got)
	}
	// An authority that the server does not know signs the client's certificate.
	certificate, key = theirs.Server(time.Hour)
	server.use(t, certificate, key, theirs.PEM)
	certificate, key = ours.Client("carol")
	s.Set("client", map[string]string{"tls.crt": string(certificate), "tls.key": string(key)})
	if got := fails(t, c); got.Fault != engine.FaultNetwork || !strings.Contains(got.Error(), "Secret client") {
		t.Error(got)
	}
	runtime.KeepAlive(pool)
}

// TestConnectionsAreShared verifies that policies with the same endpoint and credentials share a client and its
// connections, that other policies do not, and that connections are closed once no policy needs them.
func TestConnectionsAreShared(t *testing.T) {
	server := newSecured(t)
	ca := pki.NewAuthority(t)
	certificate, key := ca.Server(time.Hour)
	server.use(t, certificate, key, nil)
	s := &opaclienttest.Secrets{}
	s.Set("one", map[string]string{"token": "one"})
	s.Set("two", map[string]string{"token": "two"})
	pool := NewPool(Options{Secrets: s})
	of := func(name, token string) *Client {
		c := clientOf(t, pool, placementv1.Remote{
			URL: server.URL + "/v1/data/" + name, CABundle: ca.PEM,
			TokenSecretRef: &placementv1.TokenSecretReference{SecretReference: reference(token)},
		})
		answers(t, c)
		return c
	}
	p, q, r := of("p", "one"), of("q", "one"), of("r", "two")
	if p != q || p == r {
		t.Error("shared in another way")
	}
	server.waitOpen(t, 2, true)
	runtime.KeepAlive(r)
	runtime.KeepAlive(p)
	server.waitOpen(t, 1, true)
	runtime.KeepAlive(q)
	server.waitOpen(t, 0, true)
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		runtime.GC()
		return pool.clients.Len() == 0, nil
	})
	if err != nil {
		t.Errorf("%d clients are left", pool.clients.Len())
	}
}

// TestOldTLS verifies that TLS versions older than 1.2 are refused.
func TestOldTLS(t *testing.T) {
	server := newSecured(t)
	ca := pki.NewAuthority(t)
	certificate, key := ca.Server(time.Hour)
	server.use(t, certificate, key, nil)
	server.config.MaxVersion = tls.VersionTLS11
	server.config.MinVersion = tls.VersionTLS10
	server.config.NextProtos = nil
	c := clientOf(t, NewPool(Options{}), placementv1.Remote{URL: server.URL + "/v1/data/p", CABundle: ca.PEM})
	if got := fails(t, c); got.Fault != engine.FaultNetwork {
		t.Error(got)
	}
}

// TestUnusableSecrets verifies that an error about a Secret contains its name and key, and never its content.
func TestUnusableSecrets(t *testing.T) {
	ca := pki.NewAuthority(t)
	certificate, _ := ca.Client("client")
	_, otherKey := ca.Client("client")
	tests := map[string]struct {
		spec placementv1.Remote
		data map[string]string
		says []string
	}{
		"NoSecret":     {spec: placementv1.Remote{TokenSecretRef: &placementv1.TokenSecretReference{SecretReference: reference("s")}}, says: []string{"tokenSecretRef", "Secret s", "there is none"}},
		"NoKey":        {spec: placementv1.Remote{TokenSecretRef: &placementv1.TokenSecretReference{SecretReference: reference("s"), Key: "k"}}, data: map[string]string{"token": token}, says: []string{"tokenSecretRef", "Secret s", "key k"}},
		"EmptyToken":   {spec: placementv1.Remote{TokenSecretRef: &placementv1.TokenSecretReference{SecretReference: reference("s")}}, data: map[string]string{"token": "\n"}, says: []string{"Secret s", "key token"}},
		"TwoTokens":    {spec: placementv1.Remote{TokenSecretRef: &placementv1.TokenSecretReference{SecretReference: reference("s")}}, data: map[string]string{"token": token + "\n" + token}, says: []string{"Secret s", "key token", "no valid bearer token"}},
		"NoCA":         {spec: placementv1.Remote{CASecretRef: &placementv1.CASecretReference{SecretReference: reference("s")}}, data: map[string]string{"ca": string(ca.PEM)}, says: []string{"caSecretRef", "Secret s", "key ca.crt"}},
		"NoPEM":        {spec: placementv1.Remote{CASecretRef: &placementv1.CASecretReference{SecretReference: reference("s")}}, data: map[string]string{"ca.crt": token}, says: []string{"caSecretRef", "Secret s", "key ca.crt", "PEM"}},
		"NoClientKey":  {spec: placementv1.Remote{ClientCertificateSecretRef: new(reference("s"))}, data: map[string]string{"tls.crt": string(certificate)}, says: []string{"clientCertificateSecretRef", "Secret s", "key tls.key"}},
		"BadClientKey": {spec: placementv1.Remote{ClientCertificateSecretRef: new(reference("s"))}, data: map[string]string{"tls.crt": string(certificate), "tls.key": token}, says: []string{"clientCertificateSecretRef", "Secret s", "tls.key"}},
		"OtherKey":     {spec: placementv1.Remote{ClientCertificateSecretRef: new(reference("s"))}, data: map[string]string{"tls.crt": string(certificate), "tls.key": string(otherKey)}, says: []string{"Secret s", "does not match"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &opaclienttest.Secrets{}
			s.Set("s", tc.data)
			tc.spec.URL = "https://127.0.0.1:1/v1/data/p"
			got := fails(t, clientOf(t, NewPool(Options{Secrets: s}), tc.spec))
			if got.Fault != engine.FaultCredentials {
				t.Errorf("got %+v", got)
			}
			for _, part := range tc.says {
				if !strings.Contains(got.Error(), part) {
					t.Errorf("%q does not say %q", got, part)
				}
			}
			if strings.Contains(got.Error(), token) {
				t.Errorf("%q has the Secret", got)
			}
		})
	}
}
