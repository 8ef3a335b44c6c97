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

// Package webhookauth authenticates the API server to the webhook server. Every webhook has a secret token in its path,
// which only the webhook configurations contain. The leader replaces the token regularly (see rotation.go). If the API
// server presents client certificates, the server can require them too (see clientcertificates.go).
package webhookauth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
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
	"github.com/berth-dev/berth/internal/watches"
)

// SecretName is the name of the Secret in Berth's own namespace that contains the tokens.
const SecretName = "berth-webhook-token"

// Keys of the Secret's data: a JSON list of the accepted tokens, the newest first; when the newest one was introduced; and when a user may
// last have seen the one in use. Times are in the form of RFC 3339.
const (
	tokensKey     = "tokens"
	introducedKey = "introduced"
	exposedKey    = "exposed"
)

// maxLength is the maximum length of a token that a client sends, in bytes. A longer one is refused unchecked. Berth's own tokens are
// shorter.
const maxLength = 128

// Options configure Tokens: the namespace of their Secret, how long tokens are used, how the tokens in the webhook configurations are read,
// and what is called for a refused request. A token is a secret in the paths of the webhooks by which the API server authenticates.
type Options struct {
	// Namespace is the namespace of the Secret.
	Namespace string
	// Lifetime is how long a token is used before the leader replaces it. 0 means an hour.
	Lifetime time.Duration
	// Settle is how long replicas have to learn a token before the webhook configurations contain it. 0 means 10
	// seconds.
	Settle time.Duration
	// Overlap is how long a token is accepted after the webhook configurations contain the next one. 0 means a minute.
	Overlap time.Duration
	// Used returns the tokens in the webhook configurations that this replica's cache has, one for each webhook.
	Used func(context.Context) ([]string, error)
	// Refused is called for each request without an accepted token.
	Refused func()
}

// Tokens holds the tokens that this replica accepts. It is safe for concurrent use.
//
// Replicas and API servers learn a new token at different times. Hence this order:
//
//  1. The leader puts a new token before the others in the Secret. From then on all replicas accept it.
//  2. After Settle the leader writes the new token to the webhook configurations.
//  3. After Overlap the leader removes the old token from the Secret. No replica accepts it any more.
//
// A replica also accepts the tokens in the webhook configurations, independently of the Secret, because the API servers
// use them. So no request is refused when the Secret is lost, or when an older configuration is restored or not yet written.
//
// If an API server gives up a request, it shows the URL to the user, and with it the token. The replica then notes that in the Secret,
// and the leader introduces a new token, unless the rotation before has not ended.
type Tokens struct {
	options  Options
	schedule schedule
	client   client.Client
	clock    clock.PassiveClock
	changes  notify.Signal // signals that the result of Current changed

	// exposed is when an API server last gave up a request, in nanoseconds since 1970; 0 for never.
	exposed   atomic.Int64
	exposures notify.Signal // signals that exposed changed

	// accepted are the digests of the accepted tokens, or nil until they are known.
	accepted atomic.Pointer[[]digest]
	// current is what Current returns; nil on a replica that has not been the leader yet.
	current atomic.Pointer[string]
}

// digest is the SHA-256 digest of a token.
type digest [sha256.Size]byte

// Add adds two controllers to a manager: the rotation, which runs on the leader, and the loading, which runs on every
// replica. The Secret is in state, which may be the manager itself. The webhook configurations are in the manager's
// cluster.
func Add(mgr manager.Manager, state cluster.Cluster, o Options) (*Tokens, error) {
	o.Lifetime, o.Settle, o.Overlap = cmp.Or(o.Lifetime, defaultLifetime), cmp.Or(o.Settle, defaultSettle), cmp.Or(o.Overlap, defaultOverlap)
	t := newTokens(o, state.GetClient(), clock.RealClock{})
	for name, r := range map[string]struct {
		reconciler reconcile.Reconciler
		leads      bool
	}{
		"webhook-token":          {reconciler: t},
		"webhook-token-rotation": {leads: true, reconciler: &rotation{tokens: t}},
	} {
		if err := t.add(mgr, state, name, r.reconciler, r.leads); err != nil {
			return nil, fmt.Errorf("adding controller %s: %w", name, err)
		}
	}
	return t, nil
}

// newTokens returns a Tokens that accepts no token before its first Reconcile.
func newTokens(o Options, c client.Client, clock clock.PassiveClock) *Tokens {
	return &Tokens{
		options: o, schedule: schedule{lifetime: o.Lifetime, settle: o.Settle, overlap: o.Overlap}, client: c, clock: clock,
		changes: notify.NewSignal(), exposures: notify.NewSignal(),
	}
}

// add adds a controller with a reconciler to a manager. It watches the Secret in the cluster state and the webhook configurations. leads
// reports whether it runs only on the leader.
func (t *Tokens) add(mgr manager.Manager, state cluster.Cluster, name string, r reconcile.Reconciler, leads bool) error {
	secret := types.NamespacedName{Namespace: t.options.Namespace, Name: SecretName}
	same := func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: secret}}
	}
	out := builder.ControllerManagedBy(mgr).
		Named(name).
		WatchesRawSource(source.Kind[client.Object](state.GetCache(), &corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(same),
			predicate.NewPredicateFuncs(func(o client.Object) bool { return client.ObjectKeyFromObject(o) == secret }))).
		Watches(&admissionregistrationv1.MutatingWebhookConfiguration{}, handler.EnqueueRequestsFromMapFunc(same)).
		Watches(&admissionregistrationv1.ValidatingWebhookConfiguration{}, handler.EnqueueRequestsFromMapFunc(same)).
		// If the Secret is missing, no event occurs. So enqueue the request at the start.
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			q.Add(reconcile.Request{NamespacedName: secret})
			return nil
		})).
		WithOptions(controller.Options{NeedLeaderElection: &leads})
	if !leads {
		out.WatchesRawSource(watches.OnSignal(t.exposures, same))
	}
	return out.Complete(r)
}

// Reconcile makes this replica accept the tokens in the Secret and in the webhook configurations, and no others. It stores the time in the
// Secret's data if an API server gave up a request since the newest token was introduced, so that a user may have seen a token.
func (t *Tokens) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	used, err := t.options.Used(ctx)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the webhook configurations: %w", err)
	}
	secret := &corev1.Secret{}
	if err := t.client.Get(ctx, req.NamespacedName, secret); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	have, err := decode(secret.Data)
	if err != nil {
		// The leader will write a new token.
		ctrllog.FromContext(ctx).Error(err, "Accepting only the tokens of the webhook configurations until the leader has replaced those in "+
			"the Secret")
	}
	t.accept(slices.Concat(have.tokens, used))
	exposed := time.Unix(0, t.exposed.Load())
	if len(have.tokens) == 0 || !exposed.After(have.introduced) || have.exposed.After(have.introduced) {
		return reconcile.Result{}, nil
	}
	have.exposed = exposed
	secret.Data = have.encode()
	return reconcile.Result{}, t.client.Update(ctx, secret)
}

// accept makes this replica accept the given tokens and no others.
func (t *Tokens) accept(tokens []string) {
	if len(tokens) == 0 {
		t.accepted.Store(nil)
		return
	}
	digests := make([]digest, len(tokens))
	for i, token := range tokens {
		digests[i] = sha256.Sum256([]byte(token))
	}
	slices.SortFunc(digests, func(a, b digest) int { return slices.Compare(a[:], b[:]) })
	digests = slices.Compact(digests)
	t.accepted.Store(&digests)
}

// accepts reports whether this replica accepts a token. How long it takes does not depend on the content of the token.
func (t *Tokens) accepts(token string) bool {
	accepted := t.accepted.Load()
	if accepted == nil || len(token) > maxLength {
		return false
	}
	sum := sha256.Sum256([]byte(token))
	found := 0
	for _, d := range *accepted {
		found |= subtle.ConstantTimeCompare(d[:], sum[:])
	}
	return found == 1
}

// Known reports whether this replica accepts any token. Otherwise it refuses every request to a webhook.
func (t *Tokens) Known() bool { return t.accepted.Load() != nil }

// Current returns the token for the webhook configurations. ok is false while this replica is not the leader or has not
// stored a token yet.
func (t *Tokens) Current() (token string, ok bool) {
	if current := t.current.Load(); current != nil {
		return *current, true
	}
	return "", false
}

// setCurrent sets what Current returns, and signals a change.
func (t *Tokens) setCurrent(token string) {
	if before, ok := t.Current(); ok && before == token {
		return
	}
	t.current.Store(&token)
	t.changes.Notify()
}

// Changes signals to a single receiver that the result of Current has changed.
func (t *Tokens) Changes() <-chan struct{} { return t.changes }

// Path returns the path at which the API server calls a webhook: the webhook's own path, followed by a token.
func Path(path, token string) string { return path + "/" + token }

// TokenIn returns the token of a configured webhook: all that follows PATH/ in the path of its service or URL, where PATH is one of the
// given paths. A prefix, which a proxy may add, may precede PATH. ok is false if none of the paths occurs.
func TokenIn(w admissionregistrationv1.WebhookClientConfig, paths ...string) (token string, ok bool) {
	var have string
	switch {
	case w.Service != nil && w.Service.Path != nil:
		have = *w.Service.Path
	case w.URL != nil:
		u, err := url.Parse(*w.URL)
		if err != nil {
			return "", false
		}
		have = u.Path
	}
	for _, path := range paths {
		// A proxy may add a prefix.
		if i := strings.LastIndex(have, path+"/"); i >= 0 {
			return have[i+len(path)+1:], true
		}
	}
	return "", false
}

// Handler serves a webhook to clients that send an accepted token in the path. Register it for path and for path + "/".
// Any other client gets 404 before the body of its request is read. next gets the path without the token, so that it
// can't log, trace, or count the token.
func (t *Tokens) Handler(path string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		token, ok := strings.CutPrefix(request.URL.Path, path+"/")
		if !ok || !t.accepts(token) {
			t.options.Refused()
			// Otherwise the server would read the body to keep the connection open.
			w.Header().Set("Connection", "close")
			http.NotFound(w, request)
			return
		}
		inner := request.WithContext(request.Context())
		inner.URL = &url.URL{Path: path, RawQuery: request.URL.RawQuery}
		inner.RequestURI = inner.URL.RequestURI()
		next.ServeHTTP(w, inner)
		if request.Context().Err() != nil {
			t.exposed.Store(t.clock.Now().UnixNano())
			t.exposures.Notify()
		}
	})
}

// stored is the content of the Secret with the tokens: these, when the newest was introduced, and when a user may have seen one since.
type stored struct {
	// tokens are the accepted tokens, the newest first.
	tokens     []string
	introduced time.Time // when the newest token was introduced; zero if unknown
	// exposed is the first time after introduced at which, as a replica noted, a user may have seen a token in an error; zero if unknown.
	exposed time.Time
}

// decode parses the data of the Secret. It returns an error if the tokens can't be read, and no tokens if there are none. A time that can't
// be read is zero.
func decode(data map[string][]byte) (stored, error) {
	var out stored
	if len(data[tokensKey]) == 0 {
		return out, nil
	}
	if json.Unmarshal(data[tokensKey], &out.tokens) != nil {
		// Don't wrap the decoder's error, because it quotes the input.
		return stored{}, errors.New("the tokens in Secret " + SecretName + " can't be read")
	}
	out.introduced, _ = time.Parse(time.RFC3339Nano, string(data[introducedKey]))
	out.exposed, _ = time.Parse(time.RFC3339Nano, string(data[exposedKey]))
	return out, nil
}

// encode returns the data of the Secret, from which decode reads the same: the tokens as a JSON list, and the times.
func (s stored) encode() map[string][]byte {
	// The encoding of strings never fails.
	text, _ := json.Marshal(s.tokens)
	out := map[string][]byte{tokensKey: text, introducedKey: []byte(s.introduced.Format(time.RFC3339Nano))}
	if !s.exposed.IsZero() {
		out[exposedKey] = []byte(s.exposed.Format(time.RFC3339Nano))
	}
	return out
}
