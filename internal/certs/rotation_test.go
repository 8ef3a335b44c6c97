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
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"maps"
	"math/big"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/test/budget"
)

var (
	start    = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	hosts    = []string{"berth.berth-system.svc", "berth.berth-system.svc.cluster.local", "192.0.2.1"}
	certName = types.NamespacedName{Namespace: namespace, Name: SecretName}
)

// pair returns the certificate and the authority in a Secret's data.
func pair(t *testing.T, data map[string][]byte) (leaf, authority *x509.Certificate) {
	t.Helper()
	l, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	a, err := decode(data[caName])
	if err != nil {
		t.Fatal(err)
	}
	return l.Leaf, a[0]
}

// renewed returns a Secret's data after a renewal.
func renewed(t *testing.T, data map[string][]byte, now time.Time) map[string][]byte {
	t.Helper()
	out, err := renew(data, hosts, now)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRenewalOverTheYears simulates years with a leader that only runs every fifth day. There must always be a certificate that is
// valid for long, from an authority that outlives it.
func TestRenewalOverTheYears(t *testing.T) {
	const away = 5 * 24 * time.Hour
	c := fake.NewClientBuilder().Build()
	now := testingclock.NewFakePassiveClock(start)
	r := &rotation{client: c, name: certName, hosts: hosts, clock: now}
	var before map[string][]byte
	leaves, authorities, end := 0, 0, start.AddDate(budget.Rounds(10), 0, 0)
	for now.Now().Before(end) {
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: certName})
		if err != nil {
			t.Fatal(err)
		}
		if result.RequeueAfter <= 0 || result.RequeueAfter > lookAgain {
			t.Fatalf("looks again after %v", result.RequeueAfter)
		}
		secret := &corev1.Secret{}
		if err := c.Get(t.Context(), certName, secret); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(secret.Data[corev1.TLSCertKey], before[corev1.TLSCertKey]) {
			leaves++
			leaf, authority := pair(t, secret.Data)
			if leaf.NotAfter.After(authority.NotAfter) {
				t.Fatalf("%v: the certificate ends %v, its authority %v", now.Now(), leaf.NotAfter, authority.NotAfter)
			}
			if !bytes.Equal(secret.Data[caName], before[caName]) {
				authorities++
			}
		} else if !maps.EqualFunc(secret.Data, before, bytes.Equal) {
			t.Fatal("something else than the certificate changed")
		}
		before = secret.Data
		leaf, authority := pair(t, secret.Data)
		roots := x509.NewCertPool()
		roots.AddCert(authority)
		for _, host := range hosts {
			at := now.Now().Add(renewBefore - away)
			if _, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: at}); err != nil {
				t.Fatalf("%v: %v", now.Now(), err)
			}
		}
		now.SetTime(now.Now().Add(away))
	}
	// There is a new certificate every 275 days, and a new authority with every twelfth certificate.
	days := int(end.Sub(start).Hours()) / 24
	if leaves != (days+274)/275 || authorities != (leaves+11)/12 {
		t.Errorf("%d certificates of %d authorities in %d days", leaves, authorities, days)
	}
}

// TestAuthorityOutlivesTheCertificate checks that the authority is replaced only if it would expire before the
// certificate.
func TestAuthorityOutlivesTheCertificate(t *testing.T) {
	data := renewed(t, nil, start)
	last := start.Add(authorityLifetime - leafLifetime)
	for name, test := range map[string]struct {
		now  time.Time
		same bool
	}{
		"just so long":      {now: last, same: true},
		"a second too late": {now: last.Add(time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			next := renewed(t, data, test.now)
			if same := bytes.Equal(next[caName], data[caName]); same != test.same {
				t.Errorf("same authority: %v", same)
			}
			leaf, authority := pair(t, next)
			if leaf.NotAfter.After(authority.NotAfter) {
				t.Errorf("the certificate ends %v, its authority %v", leaf.NotAfter, authority.NotAfter)
			}
		})
	}
}

func TestDueAt(t *testing.T) {
	good, other := renewed(t, nil, start), renewed(t, nil, start)
	with := func(key string, value []byte) map[string][]byte {
		out := maps.Clone(good)
		out[key] = value
		return out
	}
	for name, test := range map[string]struct {
		data  map[string][]byte
		hosts []string
		want  time.Time
	}{
		"good":                      {data: good, hosts: hosts, want: start.Add(leafLifetime - renewBefore)},
		"good without the CA's key": {data: with(caKeyName, nil), hosts: hosts, want: start.Add(leafLifetime - renewBefore)},
		"nothing":                   {hosts: hosts},
		"no key":                    {data: with(corev1.TLSPrivateKeyKey, nil), hosts: hosts},
		"another's key":             {data: with(corev1.TLSPrivateKeyKey, other[corev1.TLSPrivateKeyKey]), hosts: hosts},
		"no authority":              {data: with(caName, nil), hosts: hosts},
		"another's authority":       {data: with(caName, other[caName]), hosts: hosts},
		"garbage":                   {data: with(corev1.TLSCertKey, []byte("x")), hosts: hosts},
		"another host":              {data: good, hosts: []string{hosts[0], "elsewhere.example.com"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := dueAt(test.data, test.hosts); !got.Equal(test.want) {
				t.Errorf("due at %v, want %v", got, test.want)
			}
		})
	}
}

// TestRenewalTakesOverAnRSAAuthority checks that the RSA keys in PKCS #1 form that cert-controller created are still
// used.
func TestRenewalTakesOverAnRSAAuthority(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0), Subject: pkix.Name{CommonName: "berth-ca"}, DNSNames: []string{"berth-ca"},
		NotBefore: start.Add(-time.Hour), NotAfter: start.Add(authorityLifetime), KeyUsage: x509.KeyUsageCertSign,
		BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	data := map[string][]byte{
		caName:    encode(der),
		caKeyName: pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
	}
	next := renewed(t, data, start)
	if !bytes.Equal(next[caName], data[caName]) || !bytes.Equal(next[caKeyName], data[caKeyName]) {
		t.Error("there is a new authority")
	}
	if dueAt(next, hosts).IsZero() {
		t.Error("what it signed can't be served")
	}
}

// TestRenewalRepairsTheSecret checks that deleted data, or a deleted Secret, is restored, and that other data in the
// Secret stays.
func TestRenewalRepairsTheSecret(t *testing.T) {
	for name, damage := range map[string]func(*testing.T, client.Client, *corev1.Secret) error{
		"deleted": func(t *testing.T, c client.Client, s *corev1.Secret) error { return c.Delete(t.Context(), s) },
		"emptied": func(t *testing.T, c client.Client, s *corev1.Secret) error {
			s.Data = nil
			return c.Update(t.Context(), s)
		},
		"without certificate": func(t *testing.T, c client.Client, s *corev1.Secret) error {
			delete(s.Data, corev1.TLSCertKey)
			s.Data["note"] = []byte("keep")
			return c.Update(t.Context(), s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: SecretName}, Data: renewed(t, nil, start)}
			c := fake.NewClientBuilder().WithObjects(secret).Build()
			if err := damage(t, c, secret); err != nil {
				t.Fatal(err)
			}
			noted := secret.Data["note"]
			r := &rotation{client: c, name: certName, hosts: hosts, clock: testingclock.NewFakePassiveClock(start)}
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: certName}); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), certName, secret); err != nil {
				t.Fatal(err)
			}
			if dueAt(secret.Data, hosts).IsZero() || !bytes.Equal(secret.Data["note"], noted) {
				t.Errorf("not repaired: %v", sizes(secret.Data))
			}
		})
	}
}

// sizes returns the sizes of a Secret's values, which unlike the values may be printed.
func sizes(data map[string][]byte) map[string]int {
	out := map[string]int{}
	for k, v := range data {
		out[k] = len(v)
	}
	return out
}
