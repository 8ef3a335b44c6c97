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
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/berth-dev/berth/internal/notify"
)

const (
	// settle is how long the webhook configurations must contain a new authority before replicas serve a certificate
	// that it signed. API servers, of which there may be several, take a moment to load a configuration.
	settle = 10 * time.Second
	// defaultOverlap is much longer than settle, for replicas that notice late that a configuration has changed.
	defaultOverlap = time.Hour
	// retry is the interval at which an invalid Secret is checked again. It may become valid with time alone.
	retry = time.Minute
)

// Options configure the certificate: the namespace of its Secret, the hosts that it is valid for, whether another program renews it, how
// long a replaced authority stays trusted, and how the CA bundles in the webhook configurations are read.
type Options struct {
	// Namespace is the namespace of the Secret with the certificate and the authority.
	Namespace string
	// Hosts are the names or addresses at which the API server calls the webhook. The first is the certificate's common
	// name.
	Hosts []string
	// External reports whether another program fills and renews the Secret.
	External bool
	// Overlap is how long a replaced authority is still trusted; 0 selects one hour. It should be much longer than
	// settle.
	Overlap time.Duration
	// Bundles returns the CA bundles that the served API server trusts, in PEM, one for each configured webhook.
	Bundles func(context.Context) ([][]byte, error)
}

// Source provides the certificate that this replica serves. It is safe for concurrent use.
//
// When an authority is replaced, replicas and API servers notice it at different times. No API server may get a
// certificate whose authority it does not trust yet. So the replacement takes these steps, which all replicas derive
// from the webhook configurations alone:
//
//  1. The Secret gets a new certificate of a new authority. Replicas that serve an older certificate continue to do so.
//  2. The leader adds the new authority to the webhook configurations, beside the old one.
//  3. Each replica serves the new certificate after it has seen the new authority in all configurations for the time
//     settle.
//  4. After the much longer time Overlap, the leader removes the old authority.
//
// The configurations are the record of what is trusted. So nothing is lost if the Secret is deleted, if the leader
// changes, or if another program fills the Secret. If step 2 does not happen, neither do steps 3 and 4.
//
// A replica that starts in between has no older certificate. It serves the new one from the start, and is not ready
// before step 2; see Trusted. It does not know since when the configurations have their content. So it starts to count
// the time for step 4 again. It does not wait for the time settle, because otherwise every start would take that long.
type Source struct {
	options Options
	reader  client.Reader // reads the Secret
	clock   clock.PassiveClock
	changes notify.Signal // signals that the result of CABundle has changed

	// newest is the newest valid certificate that was in the Secret. It may not be served yet. Only Reconcile uses it and trustedSince, and
	// runs once at a time.
	newest       *loaded
	trustedSince time.Time // since when all webhook configurations trust newest; zero if they do not

	serving atomic.Pointer[loaded] // the certificate that handshakes get; nil if none is loaded
	bundle  atomic.Pointer[[]byte] // the authorities to trust, in PEM: the Secret's and replaced ones; nil until a certificate is loaded
	trusted atomic.Bool            // whether all webhook configurations trust the authority of newest
}

// loaded is a certificate that was read from the Secret.
type loaded struct {
	certificate   tls.Certificate
	intermediates *x509.CertPool      // the certificates that follow the first one in tls.crt
	authorities   []*x509.Certificate // the certificates in ca.crt
}

// Add adds two controllers to a manager: the renewal, which runs on the leader, and the loading, which runs on every
// replica. state is the cluster that has the Secret, which may be the manager itself. The webhook configurations are in
// the manager's cluster.
func Add(mgr manager.Manager, state cluster.Cluster, o Options) (*Source, error) {
	s := &Source{options: o, reader: state.GetClient(), clock: clock.RealClock{}, changes: notify.NewSignal()}
	name := types.NamespacedName{Namespace: o.Namespace, Name: SecretName}
	same := func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: name}}
	}
	secret := func() source.Source {
		return source.Kind[client.Object](state.GetCache(), &corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(same),
			predicate.NewPredicateFuncs(func(o client.Object) bool { return client.ObjectKeyFromObject(o) == name }))
	}
	if !o.External {
		err := builder.ControllerManagedBy(mgr).
			Named("certificate-renewal").
			WatchesRawSource(secret()).
			// A Secret that does not exist causes no event, so enqueue it once.
			WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
				q.Add(reconcile.Request{NamespacedName: name})
				return nil
			})).
			Complete(&rotation{client: state.GetClient(), name: name, hosts: o.Hosts, clock: s.clock})
		if err != nil {
			return nil, fmt.Errorf("adding certificate renewal: %w", err)
		}
	}
	err := builder.ControllerManagedBy(mgr).
		Named("certificate").
		WatchesRawSource(secret()).
		Watches(&admissionregistrationv1.MutatingWebhookConfiguration{}, handler.EnqueueRequestsFromMapFunc(same)).
		Watches(&admissionregistrationv1.ValidatingWebhookConfiguration{}, handler.EnqueueRequestsFromMapFunc(same)).
		WithOptions(controller.Options{NeedLeaderElection: new(false)}).
		Complete(s)
	if err != nil {
		return nil, fmt.Errorf("adding certificate loading: %w", err)
	}
	return s, nil
}

// Reconcile loads the certificate from the Secret, and starts to serve it: at once if no certificate is served that a webhook configuration
// trusts, and otherwise when all configurations have trusted it for the time settle.
func (s *Source) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{}
	if err := s.reader.Get(ctx, req.NamespacedName, secret); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	var next time.Duration
	if err := s.load(secret.Data); err != nil {
		ctrllog.FromContext(ctx).Error(err, "Refusing the certificate in the Secret; the earlier certificate stays in use, if there is one")
		next = retry
	}
	if s.newest == nil {
		// The event for the filled Secret triggers the next call.
		return reconcile.Result{RequeueAfter: next}, nil
	}
	present, err := s.options.Bundles(ctx)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the webhook configurations, whose CA bundles decide which certificate this replica "+
			"serves: %w", err)
	}
	return reconcile.Result{RequeueAfter: sooner(next, s.judge(ctx, present))}, nil
}

// sooner returns the shorter of two delays, of which 0 stands for never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// load sets newest to the certificate in the data of the Secret. It leaves newest as it is if the data has no certificate. It also does if
// clients that trust the authority in the data would reject the certificate for the first of the hosts, which is an error.
func (s *Source) load(data map[string][]byte) error {
	cert, key, bundle := data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], data[caName]
	if len(cert) == 0 && len(key) == 0 {
		return nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return err
	}
	l := &loaded{certificate: pair, intermediates: x509.NewCertPool()}
	for _, der := range pair.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("reading %s: %w", corev1.TLSCertKey, err)
		}
		l.intermediates.AddCert(c)
	}
	if l.authorities, err = decode(bundle); err != nil {
		return fmt.Errorf("reading %s: %w", caName, err)
	}
	if err := l.verify(bundle, s.options.Hosts[0], s.clock.Now()); err != nil {
		return err
	}
	if n := s.newest; n != nil && slices.EqualFunc(n.authorities, l.authorities, (*x509.Certificate).Equal) {
		if slices.EqualFunc(n.certificate.Certificate, pair.Certificate, bytes.Equal) {
			return nil
		}
	} else {
		s.trustedSince = time.Time{}
	}
	s.newest = l
	return nil
}

// verify returns the error with which an API server that trusts a CA bundle would reject the certificate for a host.
func (l *loaded) verify(bundle []byte, host string, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := l.certificate.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: l.intermediates, CurrentTime: now})
	return err
}

// judge decides which certificate to serve and which authorities the API server should trust. present are the CA bundles in the webhook
// configurations now. judge returns the delay after which it must be called again without an event, because an authority has then been
// trusted for long enough; 0 for never. The expiry of a certificate does not count.
func (s *Source) judge(ctx context.Context, present [][]byte) time.Duration {
	log := ctrllog.FromContext(ctx)
	now := s.clock.Now()
	refuses := func(l *loaded) func([]byte) bool {
		return func(bundle []byte) bool { return l.verify(bundle, s.options.Hosts[0], now) != nil }
	}
	trusted := !slices.ContainsFunc(present, refuses(s.newest))
	switch {
	case !trusted:
		s.trustedSince = time.Time{}
	case s.trustedSince.IsZero():
		s.trustedSince = now
	}

	var next time.Duration
	if old := s.serving.Load(); old != s.newest {
		settled := trusted && now.Sub(s.trustedSince) >= settle
		useless := old == nil || !slices.ContainsFunc(present, func(b []byte) bool { return !refuses(old)(b) })
		if settled || useless {
			log.Info("Serving a new certificate", "notAfter", s.newest.certificate.Leaf.NotAfter)
			s.serving.Store(s.newest)
		} else {
			log.V(1).Info("Still serving the old certificate, until all webhook configurations have contained the new authority for some seconds",
				"contained", trusted)
			next = settle
			if trusted {
				next -= now.Sub(s.trustedSince)
			}
		}
	}
	s.trusted.Store(trusted)

	overlap := cmp.Or(s.options.Overlap, defaultOverlap)
	authorities := slices.Clone(s.newest.authorities)
	if !trusted || now.Sub(s.trustedSince) < overlap {
		previous := false
		for _, bundle := range present {
			// Ignore the error: nothing in an invalid bundle is trusted.
			before, _ := decode(bundle)
			for _, c := range before {
				if !now.After(c.NotAfter) && !slices.ContainsFunc(authorities, c.Equal) {
					authorities, previous = append(authorities, c), true
				}
			}
		}
		if previous && trusted {
			next = sooner(next, overlap-now.Sub(s.trustedSince))
		}
	}
	s.setBundle(authorities)
	return next
}

// setBundle sets the authorities that CABundle returns, and signals Changes if they changed.
func (s *Source) setBundle(authorities []*x509.Certificate) {
	var bundle []byte
	for _, c := range authorities {
		bundle = append(bundle, encode(c.Raw)...)
	}
	if bytes.Equal(bundle, s.CABundle()) {
		return
	}
	s.bundle.Store(&bundle)
	s.changes.Notify()
}

// GetCertificate returns the served certificate, for the field GetCertificate of tls.Config. It returns an error until one is loaded.
func (s *Source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	l := s.serving.Load()
	if l == nil {
		return nil, errors.New("the certificate of the webhooks is not loaded yet")
	}
	return &l.certificate, nil
}

// Expiry returns the time at which the served certificate expires; the zero time if none is served.
func (s *Source) Expiry() time.Time {
	if l := s.serving.Load(); l != nil {
		return l.certificate.Leaf.NotAfter
	}
	return time.Time{}
}

// Trusted reports whether a certificate is loaded, and all webhook configurations that exist trust the authority of the newest one, which
// may not be served yet.
func (s *Source) Trusted() bool { return s.trusted.Load() }

// CABundle returns the authorities that all webhook configurations should contain, in PEM: those of the newest certificate in the Secret,
// and, until these have been trusted for the time Overlap, those that the configurations contained before. It is nil until a certificate
// is loaded.
func (s *Source) CABundle() []byte {
	if b := s.bundle.Load(); b != nil {
		return *b
	}
	return nil
}

// Changes signals to a single receiver that the result of CABundle has changed.
func (s *Source) Changes() <-chan struct{} { return s.changes }
