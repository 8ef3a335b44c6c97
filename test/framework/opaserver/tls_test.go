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

package opaserver_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/test/framework/opaserver"
	"github.com/berth-dev/berth/test/framework/pki"
)

// TestTLS: clients have to show a certificate, and see that of the server change.
func TestTLS(t *testing.T) {
	authority, clients, next := pki.NewAuthority(t), pki.NewAuthority(t), pki.NewAuthority(t)
	certificate, key := authority.Server(time.Hour)
	s := opaserver.Start(t, opaserver.Options{Certificate: certificate, Key: key, ClientCA: clients.PEM})
	get := func(ctx context.Context, known *pki.Authority, shown ...tls.Certificate) error {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: known.Pool(), Certificates: shown}}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/health", nil)
		if err != nil {
			return err
		}
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	pair, err := tls.X509KeyPair(clients.Client("somebody"))
	if err != nil {
		t.Fatal(err)
	}
	if err := get(t.Context(), authority, pair); err != nil {
		t.Error(err)
	}
	if get(t.Context(), authority) == nil {
		t.Error("nobody has to show a certificate")
	}
	if get(t.Context(), next, pair) == nil {
		t.Error("the certificate is of another authority")
	}
	s.SetCertificate(next.Server(time.Hour))
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		return get(ctx, next, pair) == nil, nil
	})
	if err != nil {
		t.Errorf("the new certificate is not seen: %v", err)
	}
	s.PutData("still/there", true)
}
