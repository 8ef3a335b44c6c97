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

package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Lifetimes of the certificates that Berth creates.
const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	leafLifetime      = 365 * 24 * time.Hour
	// renewBefore is the remaining lifetime at which a certificate is renewed. It leaves enough time to repair a
	// failing renewal.
	renewBefore = 90 * 24 * time.Hour
	// backdating allows for API servers whose clock is behind.
	backdating = time.Hour
	// lookAgain is the maximum time between two checks of the clock, because timers stop while a machine is suspended.
	lookAgain = 12 * time.Hour
)

// rotation creates and renews the certificate in the Secret. It runs on the leader.
//
// Berth does not use the library cert-controller for this, for three reasons. It renews the authority and the
// certificate by the same remaining lifetime, so near the authority's end it signs certificates that outlive their
// authority. It does not create a deleted Secret again. It needs a directory and a second cache of Secrets.
type rotation struct {
	client client.Client
	name   types.NamespacedName // the namespace and name of the Secret with the certificate
	// hosts are the names that the certificate is valid for. The first is its common name.
	hosts []string
	clock clock.PassiveClock
}

// Reconcile renews the certificate in the Secret if it is due, and creates the Secret if it does not exist.
func (r *rotation) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{}
	err := r.client.Get(ctx, r.name, secret)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	missing := apierrors.IsNotFound(err)
	now := r.clock.Now()
	if at := dueAt(secret.Data, r.hosts); now.Before(at) {
		return reconcile.Result{RequeueAfter: min(at.Sub(now), lookAgain)}, nil
	}
	fresh, err := renew(secret.Data, r.hosts, now)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("renewing the webhook's certificate for the hosts %q: %w", r.hosts, err)
	}
	ctrllog.FromContext(ctx).Info("Renewing the webhook's certificate", "authorityToo", string(fresh[caName]) != string(secret.Data[caName]))
	if missing {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.name.Namespace, Name: r.name.Name}, Data: fresh}
		return reconcile.Result{RequeueAfter: lookAgain}, r.client.Create(ctx, secret)
	}
	secret.Data = fresh
	return reconcile.Result{RequeueAfter: lookAgain}, r.client.Update(ctx, secret)
}

// dueAt returns the time at which the certificate in a Secret's data must be renewed for the hosts: 90 days (renewBefore) before it
// expires. It returns the zero time, so that it is renewed now, if the data has no certificate that clients of all hosts accept until then.
func dueAt(data map[string][]byte, hosts []string) time.Time {
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return time.Time{}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data[caName])
	due := pair.Leaf.NotAfter.Add(-renewBefore)
	for _, host := range hosts {
		// Verify at that time, because the authority must not expire before.
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: due}); err != nil {
			return time.Time{}
		}
	}
	return due
}

// renew returns the Secret's data with a new certificate. It also creates a new authority if there is no valid one, or if the current one
// would expire before the certificate. Authorities are only replaced then, and always together with the certificate that they signed.
func renew(data map[string][]byte, hosts []string, now time.Time) (map[string][]byte, error) {
	out := maps.Clone(data)
	if out == nil {
		out = map[string][]byte{}
	}
	authority, err := tls.X509KeyPair(data[caName], data[caKeyName])
	if err != nil || !authority.Leaf.IsCA || authority.Leaf.NotAfter.Before(now.Add(leafLifetime)) || now.Before(authority.Leaf.NotBefore) {
		template := &x509.Certificate{
			Subject:  pkix.Name{CommonName: "berth-ca", Organization: []string{"berth"}},
			NotAfter: now.Add(authorityLifetime), KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
		}
		if out[caName], out[caKeyName], err = sign(template, nil, now); err != nil {
			return nil, err
		}
		if authority, err = tls.X509KeyPair(out[caName], out[caKeyName]); err != nil {
			return nil, err
		}
	}
	template := &x509.Certificate{
		Subject:  pkix.Name{CommonName: hosts[0]},
		NotAfter: now.Add(leafLifetime), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	out[corev1.TLSCertKey], out[corev1.TLSPrivateKeyKey], err = sign(template, &authority, now)
	return out, err
}

// sign creates a key and its certificate from a template; both results are PEM. The certificate is valid from an hour before now, and
// self-signed if authority is nil.
func sign(template *x509.Certificate, authority *tls.Certificate, now time.Time) (certificate, key []byte, err error) {
	template.NotBefore = now.Add(-backdating)
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	parent, signer := template, any(own)
	if authority != nil {
		parent, signer = authority.Leaf, authority.PrivateKey
	}
	// CreateCertificate generates a random serial number if the template has none.
	der, err := x509.CreateCertificate(rand.Reader, template, parent, own.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return nil, nil, err
	}
	return encode(der), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), nil
}

// encode returns the PEM text of a certificate in DER.
func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// decode returns the certificates in a PEM text, and skips what else is in it. It returns an error if there are none or one is invalid.
func decode(text []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("the text has no certificate in PEM")
	}
	return out, nil
}
