package webhookauth

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// defaultLifetime bounds for how long a token is worth anything that leaked in an error message of the API server.
	defaultLifetime = time.Hour
	// defaultSettle is for replicas, whose watches take a moment.
	defaultSettle = 10 * time.Second
	// defaultOverlap is for API servers, which take a moment to follow a configuration, and for requests under way.
	defaultOverlap = time.Minute
	// upgradeSettle takes the place of a shorter settle while a configuration has a path without a token: replicas of the
	// version before, which serve no other paths, may still be running.
	upgradeSettle = 5 * time.Minute
	// maxTokens bounds the Secret where leaders keep changing. The newest ones are kept.
	maxTokens = 16
)

// rotation keeps the Secret; the leader runs it.
type rotation struct {
	tokens *Tokens
	client client.Client
	clock  clock.PassiveClock

	schedule schedule
}

// Reconcile introduces a token if it is time, drops those that nobody uses any more, and decides which one belongs into
// the webhook configurations.
func (r *rotation) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	used, err := r.tokens.options.Used(ctx)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the webhook configurations: %w", err)
	}
	secret := &corev1.Secret{}
	err = r.client.Get(ctx, req.NamespacedName, secret)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	missing := apierrors.IsNotFound(err)
	have, err := decode(secret.Data)
	if err != nil {
		ctrllog.FromContext(ctx).Error(err, "Replacing the tokens of the webhooks")
	}
	now := r.clock.Now()
	step := r.schedule.next(have, used, now)
	if step.introduce {
		step.tokens = append([]string{newToken()}, step.tokens...)
		step.tokens = step.tokens[:min(len(step.tokens), maxTokens)]
	}
	if !step.introduce && slices.Equal(have, step.tokens) {
		r.tokens.setCurrent(step.current)
		return reconcile.Result{RequeueAfter: step.after}, nil
	}
	if missing {
		err = r.client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}, Data: encode(step.tokens),
		})
	} else {
		secret.Data = encode(step.tokens)
		err = r.client.Update(ctx, secret)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("storing the tokens of the webhooks: %w", err)
	}
	if step.introduce {
		ctrllog.FromContext(ctx).Info("Introduced a new token for the paths of the webhooks", "accepted", len(step.tokens))
		r.schedule.introduced = now
	}
	// The Secret's change wakes us, this is in case that it has come before.
	return reconcile.Result{RequeueAfter: r.schedule.settle}, nil
}

// newToken returns 130 random bits in a form that the path of a webhook may have, which is that of DNS names.
func newToken() string { return strings.ToLower(rand.Text()) }

// schedule decides when tokens come and go. It keeps what one leader has seen: another one starts over, which rotates the
// token and lets old ones be accepted for a little longer.
type schedule struct {
	lifetime, settle, overlap time.Duration

	// introduced is when this leader last introduced a token; zero for never.
	introduced time.Time
	// newest is the newest token in the Secret, seen there since seen.
	newest string
	seen   time.Time
	// unused is since when no configuration has a token.
	unused map[string]time.Time
}

// step is what is to be done now.
type step struct {
	// introduce says that a new token is due; it goes before tokens.
	introduce bool
	// tokens are those to be accepted, the newest first.
	tokens []string
	// current belongs into the configurations.
	current string
	// after is how long nothing else is to be done; zero for no limit.
	after time.Duration
}

// next returns what to do about the tokens of the Secret, of which used are in webhook configurations.
func (s *schedule) next(have, used []string, now time.Time) step {
	out := step{}
	if len(have) == 0 || s.introduced.IsZero() || now.Sub(s.introduced) >= s.lifetime {
		out.introduce = true
	}
	if len(have) > 0 && have[0] != s.newest {
		s.newest, s.seen = have[0], now
	}
	s.prune(&out, have, used, now)
	if out.introduce {
		return out
	}
	out.wait(s.lifetime - now.Sub(s.introduced))
	settle := s.settle
	if slices.Contains(used, "") {
		settle = max(settle, upgradeSettle)
	}
	switch left := settle - now.Sub(s.seen); {
	case left <= 0 || len(used) == 0 || slices.Contains(used, s.newest):
		out.current = s.newest
	default:
		// The newest of those that are in use, so that a configuration which is written now is like the others.
		out.current = used[0]
		for _, token := range slices.Backward(have) {
			if slices.Contains(used, token) {
				out.current = token
			}
		}
		out.wait(left)
	}
	return out
}

// prune sets the tokens to those that are accepted further on: the newest, those in use, and those that were a moment ago.
func (s *schedule) prune(out *step, have, used []string, now time.Time) {
	before := s.unused
	s.unused = map[string]time.Time{}
	for i, token := range have {
		if i > 0 && !slices.Contains(used, token) {
			since, known := before[token]
			if !known {
				since = now
			}
			left := s.overlap - now.Sub(since)
			if left <= 0 {
				continue
			}
			s.unused[token] = since
			out.wait(left)
		}
		out.tokens = append(out.tokens, token)
	}
	for _, token := range slices.Sorted(maps.Keys(set(used))) {
		if !slices.Contains(out.tokens, token) {
			out.tokens = append(out.tokens, token)
		}
	}
}

func set(tokens []string) map[string]bool {
	out := map[string]bool{}
	for _, token := range tokens {
		out[token] = true
	}
	return out
}

// wait makes after no longer than d.
func (s *step) wait(d time.Duration) {
	if s.after == 0 || d < s.after {
		s.after = d
	}
}
