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

// Package pki issues certificates for tests.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Authority signs certificates. It is safe for concurrent use.
type Authority struct {
	// PEM is its own certificate.
	PEM []byte

	t           testing.TB
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority returns a new authority, which no client trusts yet.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Authority of tests"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotAfter: time.Now().Add(24 * time.Hour),
	}
	a.PEM, _, a.certificate, a.key = a.issue(template)
	return a
}

// Pool has the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// Server returns a certificate for 127.0.0.1 and localhost that ends after some time, in the past if that is negative,
// and its key, in PEM.
func (a *Authority) Server(validFor time.Duration) (certificate, key []byte) {
	a.t.Helper()
	certificate, key, _, _ = a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
		NotAfter: time.Now().Add(validFor),
	})
	return certificate, key
}

// Client returns a client's certificate, and its key, in PEM.
func (a *Authority) Client(name string) (certificate, key []byte) {
	a.t.Helper()
	certificate, key, _, _ = a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
		NotAfter: time.Now().Add(24 * time.Hour),
	})
	return certificate, key
}

// issue signs a certificate with the authority, or with itself where there is none yet.
func (a *Authority) issue(template *x509.Certificate) (certificatePEM, keyPEM []byte, certificate *x509.Certificate,
	key *ecdsa.PrivateKey) {
	a.t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	a.must(err)
	template.SerialNumber, template.NotBefore = serial, time.Now().Add(-48*time.Hour)
	key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	a.must(err)
	certificate, err = x509.ParseCertificate(der)
	a.must(err)
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	a.must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), certificate, key
}

func (a *Authority) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}
