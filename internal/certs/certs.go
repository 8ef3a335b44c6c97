// Package certs makes, rotates and serves the webhook's certificate. Making and rotating is cert-controller's; the
// certificate lives in a Secret, and every replica takes it from there the moment it changes, without a mounted volume.
package certs

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/internal/placement"
)

const (
	certSecret = "berth-webhook-cert"
	keySecret  = "berth-intent-key"
	keyName    = "key"
	caName     = "ca.crt"
)

// Options configure the certificate.
type Options struct {
	// Namespace holds the Secrets.
	Namespace string
	// DNSNames are the names by which the API server calls the webhook; the first is the certificate's own.
	DNSNames []string
	// Dir is an empty, writable folder; cert-controller wants to see the certificate arrive in one.
	Dir string
}

// Source is the certificate as this replica has it. It is safe for concurrent use.
type Source struct {
	options Options
	reader  client.Reader
	current atomic.Pointer[loaded]
	changes chan event.GenericEvent
}

// loaded is one certificate and the authority that signed it.
type loaded struct {
	certificate tls.Certificate
	bundle      []byte
}

// rotators numbers the rotations of this process: controller names are unique in a process, and cert-controller does
// not leave the check out where several managers run in one, as they do in tests.
var rotators atomic.Uint64

// Add adds the rotation, which the leader does, and the loading, which every replica does, to a manager.
func Add(mgr manager.Manager, o Options) (*Source, error) {
	s := &Source{options: o, reader: mgr.GetClient(), changes: make(chan event.GenericEvent, 1)}
	name := types.NamespacedName{Namespace: o.Namespace, Name: certSecret}
	err := rotator.AddRotator(mgr, &rotator.CertRotator{
		SecretKey:             name,
		CertDir:               o.Dir,
		CAName:                "berth-ca",
		CAOrganization:        "berth",
		DNSName:               o.DNSNames[0],
		ExtraDNSNames:         o.DNSNames[1:],
		IsReady:               make(chan struct{}),
		RequireLeaderElection: true,
		ControllerName:        "cert-rotator-" + strconv.FormatUint(rotators.Add(1), 10),
	})
	if err != nil {
		return nil, fmt.Errorf("adding certificate rotation: %w", err)
	}
	err = builder.ControllerManagedBy(mgr).
		Named("certificate").
		For(&corev1.Secret{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			return client.ObjectKeyFromObject(o) == name
		}))).
		WithOptions(controller.Options{NeedLeaderElection: new(false)}).
		Complete(s)
	if err != nil {
		return nil, fmt.Errorf("adding certificate loading: %w", err)
	}
	return s, nil
}

// Prepare creates what the rotation needs to start: the Secret that it fills. c must not read from a cache.
func Prepare(ctx context.Context, c client.Client, namespace string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: certSecret}}
	if err := c.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Secret %s/%s: %w", namespace, certSecret, err)
	}
	return nil
}

// Reconcile loads the certificate from the Secret.
func (s *Source) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{}
	if err := s.reader.Get(ctx, req.NamespacedName, secret); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	cert, key, bundle := secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey], secret.Data[caName]
	if len(cert) == 0 || len(bundle) == 0 {
		// The leader fills it in a moment, and that wakes us.
		return reconcile.Result{}, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("loading certificate from Secret %s: %w", req, err))
	}
	s.current.Store(&loaded{certificate: pair, bundle: bundle})
	select {
	case s.changes <- event.GenericEvent{Object: secret}:
	default:
	}
	// Its being there is all that cert-controller looks at.
	if err := os.WriteFile(filepath.Join(s.options.Dir, corev1.TLSCertKey), cert, 0o600); err != nil {
		return reconcile.Result{}, fmt.Errorf("announcing the certificate to its rotation: %w", err)
	}
	return reconcile.Result{}, nil
}

// GetCertificate is for tls.Config; handshakes fail until the certificate is there.
func (s *Source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	l := s.current.Load()
	if l == nil {
		return nil, errors.New("certificate not loaded yet")
	}
	return &l.certificate, nil
}

// CABundle is what the API server needs to trust the certificate; nil until there is one.
func (s *Source) CABundle() []byte {
	if l := s.current.Load(); l != nil {
		return l.bundle
	}
	return nil
}

// Changes tells one receiver that the certificate was replaced.
func (s *Source) Changes() <-chan event.GenericEvent { return s.changes }

// LoadKeyring returns the keyring that signs developers' intents. Its key is made once and shared by all replicas
// through a Secret, which outlives them. c must not read from a cache.
func LoadKeyring(ctx context.Context, c client.Client, namespace string) (*placement.Keyring, error) {
	fresh := make([]byte, placement.KeySize)
	// Never fails on the platforms that Go supports.
	_, _ = rand.Read(fresh)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: keySecret},
		Data:       map[string][]byte{keyName: fresh},
	}
	err := c.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	}
	if err != nil {
		return nil, fmt.Errorf("getting Secret %s/%s: %w", namespace, keySecret, err)
	}
	keyring, err := placement.NewKeyring(secret.Data[keyName])
	if err != nil {
		return nil, fmt.Errorf("reading key %q of Secret %s/%s: %w; if you delete the Secret a new one is made, and what developers asked for before is forgotten", keyName, namespace, keySecret, err)
	}
	return keyring, nil
}
