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

package webhookauth

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// defaultLifetime limits how long a token that leaked in an error message of the API server can be used.
	defaultLifetime = time.Hour
	// defaultSettle gives the watches of all replicas time to receive a new token.
	defaultSettle = 10 * time.Second
	// defaultOverlap gives API servers time to follow a changed configuration, and requests in flight time to arrive.
	defaultOverlap = time.Minute
	// upgradeSettle is the least time for which replicas learn a new token while a configuration has a path without one. Replicas of an
	// earlier version of Berth, which serve only such paths, may still be running.
	upgradeSettle = 5 * time.Minute
	// maxTokens limits the size of the Secret if the leader changes often. The newest tokens are kept.
	maxTokens = 16
)

// rotation reconciles the Secret. It runs on the leader.
type rotation struct {
	tokens *Tokens
	client client.Client
	clock  clock.PassiveClock

	schedule schedule
}

// Reconcile introduces a new token if it is due, removes tokens that are no longer used, and selects the token for the
// webhook configurations.
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
	// The change of the Secret triggers the next reconcile. The requeue is for the case that its event came before.
	return reconcile.Result{RequeueAfter: r.schedule.settle}, nil
}

// newToken returns 130 random bits, encoded with the characters that the path of a webhook may have, which are those of
// DNS names.
func newToken() string { return strings.ToLower(rand.Text()) }

// schedule decides when tokens are introduced and removed. It holds what this leader has seen. A new leader starts
// over, which rotates the token and accepts old tokens for a little longer.
type schedule struct {
	lifetime, settle, overlap time.Duration

	// introduced is when this leader last introduced a token, or zero for never.
	introduced time.Time
	// newest is the newest token in the Secret, and seen is when this leader first saw it there.
	newest string
	seen   time.Time
	// unused holds, for each token that no configuration contains, since when that is so.
	unused map[string]time.Time
}

// step is what the leader must do now.
type step struct {
	// introduce is set if a new token is due. It goes before tokens.
	introduce bool
	// tokens are the tokens to accept, the newest first.
	tokens []string
	// current is the token for the webhook configurations.
	current string
	// after is the time until the next step, or zero for no limit.
	after time.Duration
}

// next returns the next step. have are the tokens in the Secret, and used are the tokens in the webhook configurations.
func (s *schedule) next(have, used []string, now time.Time) step {
	out := step{introduce: len(have) == 0 || s.introduced.IsZero() || now.Sub(s.introduced) >= s.lifetime}
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
		// Use the newest token that is in use, so that a configuration that is written now is like the others.
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

// prune selects the tokens to accept: the newest one, those in use, and those that were in use within the overlap.
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
	for _, token := range sets.List(sets.New(used...)) {
		if !slices.Contains(out.tokens, token) {
			out.tokens = append(out.tokens, token)
		}
	}
}

// wait limits after to at most d.
func (s *step) wait(d time.Duration) {
	if s.after == 0 || d < s.after {
		s.after = d
	}
}
