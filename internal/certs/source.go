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
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// settle is how long the webhook configurations must have a new authority before anybody serves what it signed:
	// API servers, of which there may be several, take a moment to follow a configuration.
	settle = 10 * time.Second
	// defaultOverlap is far longer than settle, for replicas that learn late that a configuration has changed.
	defaultOverlap = time.Hour
	// retry is how often is looked at a Secret that can't be used: time alone may mend it.
	retry = time.Minute
)

// Options configure the certificate.
type Options struct {
	// Namespace holds the Secrets.
	Namespace string
	// Hosts are the names or addresses by which the API server calls the webhook; the first is the certificate's own.
	Hosts []string
	// External says that somebody else fills the Secret and renews what is in it.
	External bool
	// Overlap is how long an authority that was replaced is trusted still; 0 for an hour. It is to be much longer than
	// settle.
	Overlap time.Duration
	// Bundles returns the authorities, in PEM, that the served API server trusts, one text for each webhook configured.
	Bundles func(context.Context) ([][]byte, error)
}

// Source is the certificate as this replica has it. It is safe for concurrent use.
//
// When an authority is replaced, replicas and API servers learn it at different times, and neither is to meet one that
// it does not know. Hence an order, which everybody keeps by looking at the webhook configurations alone:
//
//  1. The Secret has a new certificate of a new authority. Replicas that have one go on serving that.
//  2. The leader adds the new authority to the webhook configurations; the old one stays.
//  3. Each replica that has seen the new authority in all of them, for as long as settle, serves the new certificate.
//  4. After a much longer time, Overlap, the leader takes the old authority out.
//
// The configurations are the record of what was trusted, so that nothing is lost when the Secret is, when the leader
// ends, or when somebody else than Berth fills the Secret. When step 2 does not come about, nor do 3 and 4. A replica
// that starts meanwhile has nothing older to serve: it serves the new one from the start, and is not ready before step
// 2, see Trusted. Since when the configurations are as they are nobody tells it; step 4 it counts anew, and settle it
// does not wait, or every start would take that long.
type Source struct {
	options Options
	reader  client.Reader
	clock   clock.PassiveClock
	changes chan event.GenericEvent

	// Of Reconcile, which runs once at a time: the newest certificate, which may not be served yet, and since when all
	// webhook configurations are seen to trust it; zero if they don't.
	newest       *loaded
	trustedSince time.Time

	serving atomic.Pointer[loaded]
	bundle  atomic.Pointer[[]byte]
	trusted atomic.Bool
}

// loaded is one certificate and the authorities that come with it.
type loaded struct {
	certificate   tls.Certificate
	intermediates *x509.CertPool
	authorities   []*x509.Certificate
}

// Add adds the renewal, which the leader does, and the loading, which every replica does, to a manager. The Secret is in
// state, which may be the manager itself; the webhook configurations are in the manager's cluster.
func Add(mgr manager.Manager, state cluster.Cluster, o Options) (*Source, error) {
	s := &Source{options: o, reader: state.GetClient(), clock: clock.RealClock{}, changes: make(chan event.GenericEvent, 1)}
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
			// A Secret that is not there makes no event.
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

// Reconcile loads the certificate from the Secret, and serves it when it is time.
func (s *Source) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{}
	if err := s.reader.Get(ctx, req.NamespacedName, secret); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	var next time.Duration
	if err := s.load(secret.Data); err != nil {
		ctrllog.FromContext(ctx).Error(err, "Refusing the certificate in the Secret, and keeping to the one before if there is one")
		next = retry
	}
	if s.newest == nil {
		// The Secret's being filled wakes us.
		return reconcile.Result{RequeueAfter: next}, nil
	}
	present, err := s.options.Bundles(ctx)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the webhook configurations: %w", err)
	}
	return reconcile.Result{RequeueAfter: sooner(next, s.judge(ctx, present))}, nil
}

// sooner returns the shorter span; 0 stands for never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// load makes the newest certificate what the Secret has. One that the API server would refuse is an error, and nothing
// changes; neither does it for a Secret that is empty.
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

// verify does what the API server does with the certificate.
func (l *loaded) verify(bundle []byte, host string, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := l.certificate.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: l.intermediates, CurrentTime: now})
	return err
}

// judge decides, from what the API server trusts, what is served and what is to be trusted. It returns after what time
// that may come out differently; 0 for never.
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
			log.V(1).Info("Waiting for the API server to trust a new certificate's authority before serving it", "configured", trusted)
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
			// What can't be read is trusted by nobody.
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

func (s *Source) setBundle(authorities []*x509.Certificate) {
	var bundle []byte
	for _, c := range authorities {
		bundle = append(bundle, encode(c.Raw)...)
	}
	if bytes.Equal(bundle, s.CABundle()) {
		return
	}
	s.bundle.Store(&bundle)
	select {
	case s.changes <- event.GenericEvent{Object: &corev1.Secret{}}:
	default:
	}
}

// GetCertificate is for tls.Config; handshakes fail until the certificate is there.
func (s *Source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	l := s.serving.Load()
	if l == nil {
		return nil, errors.New("certificate not loaded yet")
	}
	return &l.certificate, nil
}

// Expiry is when the served certificate ends; the zero time until there is one.
func (s *Source) Expiry() time.Time {
	if l := s.serving.Load(); l != nil {
		return l.certificate.Leaf.NotAfter
	}
	return time.Time{}
}

// Trusted says whether a certificate is served and the API server, as far as it is configured to ask Berth, trusts the
// newest.
func (s *Source) Trusted() bool { return s.trusted.Load() }

// CABundle is what the API server is to trust; nil until there is a certificate.
func (s *Source) CABundle() []byte {
	if b := s.bundle.Load(); b != nil {
		return *b
	}
	return nil
}

// Changes tells one receiver that CABundle has changed.
func (s *Source) Changes() <-chan event.GenericEvent { return s.changes }
