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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// defaultLifetime limits how long a token that leaked can be used.
	defaultLifetime = time.Hour
	// defaultSettle gives the watches of all replicas time to receive a new token.
	defaultSettle = 10 * time.Second
	// defaultOverlap gives API servers time to follow a changed configuration, and requests in flight time to arrive.
	defaultOverlap = time.Minute
)

// rotation is the controller that introduces and removes tokens in the Secret, and selects the token for the webhook configurations. It
// runs on the leader.
type rotation struct {
	tokens *Tokens
	// rotated reports whether this leader has introduced a token. Each new leader introduces one, because errors while there was no leader
	// may have shown the token to users.
	rotated bool
}

// Reconcile introduces a new token if it is time, removes tokens that are no longer used, and selects the token for the webhook
// configurations.
func (r *rotation) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	used, err := r.tokens.options.Used(ctx)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the webhook configurations: %w", err)
	}
	secret := &corev1.Secret{}
	if err := r.tokens.client.Get(ctx, req.NamespacedName, secret); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	have, err := decode(secret.Data)
	if err != nil {
		ctrllog.FromContext(ctx).Error(err, "Replacing the tokens of the webhooks")
	}
	now := r.tokens.clock.Now()
	next, current, after := r.tokens.schedule.next(have, used, now, !r.rotated)
	if slices.Equal(have.tokens, next.tokens) {
		r.tokens.setCurrent(current)
		return reconcile.Result{RequeueAfter: after}, nil
	}
	secret.Data = next.encode()
	if secret.ResourceVersion == "" {
		secret.ObjectMeta = metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}
		err = r.tokens.client.Create(ctx, secret)
	} else {
		err = r.tokens.client.Update(ctx, secret)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("storing the tokens of the webhooks: %w", err)
	}
	if !next.introduced.Equal(have.introduced) {
		ctrllog.FromContext(ctx).Info("Introduced a new token for the paths of the webhooks", "accepted", len(next.tokens))
		r.rotated = true
	}
	// The change of the Secret triggers the next reconcile. The requeue is for the case that its event came before.
	return reconcile.Result{RequeueAfter: r.tokens.schedule.settle}, nil
}

// newToken returns a token of 130 random bits, in characters that the path of a webhook may have, which are those of DNS names.
func newToken() string { return strings.ToLower(rand.Text()) }

// schedule decides when tokens are introduced and removed. Its fields are those of Options.
type schedule struct{ lifetime, settle, overlap time.Duration }

// rotation returns how long it takes from the introduction of a token until it is the only one.
func (s schedule) rotation() time.Duration { return s.settle + s.overlap }

// next returns what the Secret must have at the time now, the token for the webhook configurations ("" if next has a new token, until the
// Secret has it), and the time until the next step. have is what the Secret has, and used are the tokens in the webhook configurations. A
// token is introduced before the lifetime of the last one ends if rotate is set, or if a user may have seen the last one, but not before
// the last rotation has ended.
func (s schedule) next(have stored, used []string, now time.Time, rotate bool) (next stored, current string, after time.Duration) {
	age := now.Sub(have.introduced)
	rotate = rotate || have.exposed.After(have.introduced)
	switch {
	case len(have.tokens) == 0, age < 0, age >= s.lifetime, rotate && age >= s.rotation():
		next = stored{tokens: []string{newToken()}, introduced: now}
		for _, token := range slices.Concat(used, have.tokens[:min(1, len(have.tokens))]) {
			if !slices.Contains(next.tokens, token) {
				next.tokens = append(next.tokens, token)
			}
		}
		return next, "", s.settle
	case age < s.settle && len(have.tokens) > 1:
		return have, have.tokens[1], s.settle - age
	case age < s.rotation():
		return have, have.tokens[0], s.rotation() - age
	default:
		next = have
		next.tokens = have.tokens[:1]
		return next, have.tokens[0], s.lifetime - age
	}
}
