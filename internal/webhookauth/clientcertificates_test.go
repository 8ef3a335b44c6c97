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

package webhookauth

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-dev/berth/test/framework/pki"
)

// call sends a request to a server with a client certificate, or without one if the name is empty.
func call(ctx context.Context, t *testing.T, server *httptest.Server, authority *pki.Authority, name string) error {
	t.Helper()
	transport := server.Client().Transport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	//nolint:gosec // The server is the test's own.
	transport.TLSClientConfig.InsecureSkipVerify = true
	if name != "" {
		pair, err := tls.X509KeyPair(authority.Client(name))
		if err != nil {
			t.Fatal(err)
		}
		transport.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func TestClientCertificates(t *testing.T) {
	ours, theirs := pki.NewAuthority(t), pki.NewAuthority(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, ours.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	serve := func(names ...string) *httptest.Server {
		c, err := NewClientCertificates(file, names)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Start(ctx) }()
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		pair, err := tls.X509KeyPair(ours.Server(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
		c.Configure(server.TLS)
		server.StartTLS()
		t.Cleanup(func() {
			server.Close()
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		return server
	}
	anyName, named := serve(), serve("kube-apiserver", "other")
	for name, test := range map[string]struct {
		server    *httptest.Server
		authority *pki.Authority
		client    string
		want      bool
	}{
		"none":                        {server: anyName},
		"another authority's":         {server: anyName, authority: theirs, client: "kube-apiserver"},
		"any name":                    {server: anyName, authority: ours, client: "somebody", want: true},
		"the name":                    {server: named, authority: ours, client: "kube-apiserver", want: true},
		"another name":                {server: named, authority: ours, client: "somebody"},
		"the name of somebody else's": {server: named, authority: theirs, client: "kube-apiserver"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := call(t.Context(), t, test.server, test.authority, test.client); (err == nil) != test.want {
				t.Errorf("%v", err)
			}
		})
	}

	if err := os.WriteFile(file, theirs.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for call(ctx, t, anyName, theirs, "any") != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the file that was changed is not read")
		}
	}
	if call(t.Context(), t, anyName, ours, "any") == nil {
		t.Error("the authority before is still trusted")
	}
}

func TestClientCertificatesWithoutAuthority(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	if _, err := NewClientCertificates(file, nil); err == nil {
		t.Error("a file that is not there is taken")
	}
	if err := os.WriteFile(file, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewClientCertificates(file, nil); err == nil {
		t.Error("a file without a certificate is taken")
	}
}
