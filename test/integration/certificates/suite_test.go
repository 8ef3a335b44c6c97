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

// Package certificates_test shows that the webhook's certificate and its authority change without a refused request.
package certificates_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/controllers/webhookconfiguration"
	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

const (
	// replicas share the load.
	replicas = 2
	// overlap is how long an authority stays trusted here.
	overlap = 20 * time.Second
	// burst is how many creates are under way at once: more than the connections that the API server keeps, so that
	// every burst makes new ones, and there is always a handshake to fail.
	burst = 40
	pause = 2 * time.Second
)

var f *framework.Framework

func TestCertificates(t *testing.T) {
	suite.Run(t, "Certificates")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx)
	DeferCleanup(f.Stop)
})

// address is where a replica's webhooks listen.
func address(m *framework.Manager) string {
	GinkgoHelper()
	u, err := url.Parse(m.URL)
	Expect(err).NotTo(HaveOccurred())
	return net.JoinHostPort("127.0.0.1", u.Port())
}

// start starts a leader, which the API server is not led to, and replicas behind one URL. The spec's end stops them.
func start(ctx context.Context, tune ...func(*setup.Options)) (leader *framework.Manager, others []*framework.Manager, b *framework.Proxy) {
	GinkgoHelper()
	b = framework.StartProxy()
	for range 1 + replicas {
		m := f.StartReadyManager(ctx, append(tune, func(o *setup.Options) {
			o.LeaderElection, o.WebhookURL, o.WebhookCAOverlap = true, b.URL(), overlap
		})...)
		DeferCleanup(m.Stop)
		others = append(others, m)
	}
	leader, others = others[0], others[1:]
	for _, m := range others {
		b.Add(m.URL)
	}
	return leader, others, b
}

// served returns the certificate that a replica serves, whichever authority signed it.
func served(ctx context.Context, m *framework.Manager) (*x509.Certificate, error) {
	//nolint:gosec // What is served is asked for, not relied on.
	return handshake(ctx, m, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
}

func handshake(ctx context.Context, m *framework.Manager, config *tls.Config) (*x509.Certificate, error) {
	dialer := &tls.Dialer{Config: config}
	connection, err := dialer.DialContext(ctx, "tcp", address(m))
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// probe shakes hands with a replica as an API server does that has just read the webhook configurations.
func probe(ctx context.Context, m *framework.Manager) error {
	bundles, err := webhookconfiguration.Bundles(ctx, f.Client)
	if err != nil {
		return err
	}
	for _, bundle := range bundles {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(bundle)
		if _, err := handshake(ctx, m, &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}); err != nil {
			return err
		}
	}
	return nil
}

// load creates objects, and probes replicas, until it is stopped.
type load struct {
	stop func()

	mu              sync.Mutex
	created, probed int
	refused         []error
}

func startLoad(ctx context.Context, namespace string, replicas []*framework.Manager) *load {
	l := &load{}
	running, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	count := func(counter *int, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		*counter++
		if err != nil && len(l.refused) < 10 {
			l.refused = append(l.refused, fmt.Errorf("%s: %w", time.Now().Format(time.StampMilli), err))
		}
	}
	repeat := func(every time.Duration, do func(i int)) {
		all.Go(func() {
			ticker := time.NewTicker(every)
			defer ticker.Stop()
			for i := 0; ; i++ {
				// What has begun is finished.
				do(i)
				select {
				case <-running.Done():
					return
				case <-ticker.C:
				}
			}
		})
	}
	repeat(pause, func(round int) {
		var creates sync.WaitGroup
		for i := range burst {
			creates.Go(func() {
				obj := framework.NewObject(framework.ConfigMap, namespace, fmt.Sprintf("c-%d-%d", round, i), nil)
				err := f.Client.Create(ctx, obj)
				if err == nil && obj.GetAnnotations()["example.com/zone"] != "a" {
					err = fmt.Errorf("%s got in undecided", obj.GetName())
				}
				count(&l.created, err)
			})
		}
		creates.Wait()
	})
	for _, m := range replicas {
		repeat(200*time.Millisecond, func(int) { count(&l.probed, probe(ctx, m)) })
	}
	l.stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	DeferCleanup(l.stop)
	return l
}

// ok fails the spec if anything was refused so far.
func (l *load) ok(what string) {
	GinkgoHelper()
	l.mu.Lock()
	defer l.mu.Unlock()
	Expect(l.refused).To(BeEmpty(), what)
	AddReportEntry(what, fmt.Sprintf("%d creates, %d handshakes, none refused", l.created, l.probed))
}

func secretName() client.ObjectKey {
	return client.ObjectKey{Namespace: framework.OperatorNamespace, Name: "berth-webhook-cert"}
}

// change changes the Secret's data.
func change(ctx context.Context, how func(*corev1.Secret)) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) error {
		secret := &corev1.Secret{}
		if err := f.Client.Get(ctx, secretName(), secret); err != nil {
			return err
		}
		how(secret)
		return f.Client.Update(ctx, secret)
	}).WithContext(ctx).Should(Succeed())
}

// inSecret returns the certificate and the text of the authority that are in the Secret.
func inSecret(ctx context.Context) (*x509.Certificate, string, error) {
	secret := &corev1.Secret{}
	if err := f.Client.Get(ctx, secretName(), secret); err != nil {
		return nil, "", err
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, "", err
	}
	return pair.Leaf, string(secret.Data["ca.crt"]), nil
}

// awaitServed waits until every replica serves what is in the Secret, which is not to be the same as before and to be valid for
// a lifetime, and says so in its metrics. It returns that and its authority.
func awaitServed(ctx context.Context, all []*framework.Manager, before *x509.Certificate, lifetime time.Duration) (leaf *x509.Certificate, authority string) {
	GinkgoHelper()
	Eventually(func(g Gomega, ctx context.Context) {
		var err error
		leaf, authority, err = inSecret(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(leaf.Equal(before)).To(BeFalse(), "the Secret has the old certificate")
		g.Expect(leaf.NotAfter).To(BeTemporally("~", time.Now().Add(lifetime), lifetime/100), "the certificate in the Secret is not renewed")
		for _, m := range all {
			got, err := served(ctx, m)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Equal(leaf)).To(BeTrue(), "%s serves another certificate", m.URL)
			g.Expect(expiry(m)).To(BeEquivalentTo(leaf.NotAfter.Unix()))
		}
	}).WithContext(ctx).Should(Succeed())
	return leaf, authority
}

// awaitOnly waits until this authority alone is trusted.
func awaitOnly(ctx context.Context, authority string) {
	GinkgoHelper()
	Eventually(bundles).WithContext(ctx).WithTimeout(overlap + framework.Timeout).Should(And(Not(BeEmpty()), HaveEach(authority)))
}

func bundles(ctx context.Context) ([]string, error) {
	raw, err := webhookconfiguration.Bundles(ctx, f.Client)
	var out []string
	for _, b := range raw {
		out = append(out, string(b))
	}
	return out, err
}

// expiry is what a replica's metrics say of its certificate; 0 if nothing.
func expiry(m *framework.Manager) (float64, error) {
	families, err := m.Metrics.Gather()
	for _, family := range families {
		if family.GetName() == "berth_webhook_certificate_expiry_timestamp_seconds" {
			return family.GetMetric()[0].GetGauge().GetValue(), err
		}
	}
	return 0, err
}

// authority signs certificates as cert-manager or an administrator would.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(lifetime time.Duration) *authority {
	GinkgoHelper()
	a := &authority{}
	a.certificate, a.key = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "somebody's authority"}, NotAfter: time.Now().Add(lifetime),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	})
	return a
}

func (a *authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = template, key
	}
	template.NotBefore = time.Now().Add(-time.Minute)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	Expect(err).NotTo(HaveOccurred())
	out, err := x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	return out, key
}

// fill puts a new certificate into the Secret, and with withKey also the authority's own key.
func (a *authority) fill(secret *corev1.Secret, lifetime time.Duration, withKey bool) {
	GinkgoHelper()
	leaf, key := a.sign(&x509.Certificate{
		NotAfter: time.Now().Add(lifetime), DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	secret.Data = map[string][]byte{
		"ca.crt": pemOf(a.certificate), corev1.TLSCertKey: pemOf(leaf), corev1.TLSPrivateKeyKey: pemOfKey(key),
	}
	if withKey {
		secret.Data["ca.key"] = pemOfKey(a.key)
	}
}

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func pemOfKey(key *ecdsa.PrivateKey) []byte {
	GinkgoHelper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// newSecret is the Secret, empty.
func newSecret() *corev1.Secret {
	name := secretName()
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
}
