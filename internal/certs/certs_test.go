package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const namespace = "berth-system"

// selfSigned is a certificate and its key, as a Secret has them.
func selfSigned(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

func TestCertificateFollowsTheSecret(t *testing.T) {
	first, firstKey := selfSigned(t, "first")
	second, secondKey := selfSigned(t, "second")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: certSecret}}
	c := fake.NewClientBuilder().WithObjects(secret).Build()
	dir := t.TempDir()
	s := &Source{options: Options{Namespace: namespace, Dir: dir}, reader: c, changes: make(chan event.GenericEvent, 1)}
	req := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: certSecret}}
	fill := func(data map[string][]byte) error {
		t.Helper()
		if err := c.Get(t.Context(), req.NamespacedName, secret); err != nil {
			t.Fatal(err)
		}
		secret.Data = data
		if err := c.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		_, err := s.Reconcile(t.Context(), req)
		return err
	}
	serves := func(name string) {
		t.Helper()
		certificate, err := s.GetCertificate(nil)
		if name == "" {
			if err == nil || s.CABundle() != nil {
				t.Errorf("a certificate is served before there is one")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := x509.ParseCertificate(certificate.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if parsed.Subject.CommonName != name || string(s.CABundle()) != "ca of "+name {
			t.Errorf("serves %s with bundle %q, want %s", parsed.Subject.CommonName, s.CABundle(), name)
		}
	}
	serves("")
	if err := fill(nil); err != nil {
		t.Error(err)
	}
	serves("")
	data := func(name string, certificate, key []byte) map[string][]byte {
		return map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key, caName: []byte("ca of " + name)}
	}
	if err := fill(data("first", first, firstKey)); err != nil {
		t.Fatal(err)
	}
	serves("first")
	select {
	case <-s.Changes():
	default:
		t.Error("nobody is told of the certificate")
	}
	if _, err := os.Stat(filepath.Join(dir, corev1.TLSCertKey)); err != nil {
		t.Error(err)
	}
	if err := fill(data("x", first, secondKey)); !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("a key of another certificate: %v", err)
	}
	serves("first")
	if err := fill(data("second", second, secondKey)); err != nil {
		t.Fatal(err)
	}
	serves("second")
	if err := c.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reconcile(t.Context(), req); err != nil {
		t.Error(err)
	}
	serves("second")
}

func TestPrepare(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	for range 2 {
		if err := Prepare(t.Context(), c, namespace); err != nil {
			t.Fatal(err)
		}
	}
	broken := interceptor.NewClient(c, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return errors.New("no grant")
	}})
	if err := Prepare(t.Context(), broken, namespace); err == nil {
		t.Error("no error")
	}
}

// Replicas that start together end up with one key, and one that starts later gets the same.
func TestKeyringIsShared(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	if _, err := LoadKeyring(t.Context(), c, namespace); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{}
	name := types.NamespacedName{Namespace: namespace, Name: keySecret}
	if err := c.Get(t.Context(), name, secret); err != nil {
		t.Fatal(err)
	}
	key := string(secret.Data[keyName])
	if len(key) != 32 {
		t.Errorf("key of %d bytes", len(key))
	}
	if _, err := LoadKeyring(t.Context(), c, namespace); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), name, secret); err != nil {
		t.Fatal(err)
	}
	if string(secret.Data[keyName]) != key {
		t.Error("the second replica made a key of its own")
	}
	secret.Data[keyName] = []byte("short")
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKeyring(t.Context(), c, namespace); err == nil {
		t.Error("a broken key is taken")
	}
}
