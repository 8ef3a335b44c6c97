// Package certs makes, renews and serves the webhook's certificate. It lives in a Secret, from which every replica
// takes it the moment it changes, without a mounted volume. Who fills the Secret is Berth's leader (see rotation.go) or
// somebody else, such as cert-manager; for how it is served that makes no difference (see source.go).
package certs

import (
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/placement"
)

// SecretName is the Secret that has the webhook's certificate and its authority.
const SecretName = "berth-webhook-cert"

// KeySecretName is the Secret that has the key which developers' intents are signed with.
const KeySecretName = "berth-intent-key"

const (
	keyName   = "key"
	caName    = "ca.crt"
	caKeyName = "ca.key"
)

// LoadKeyring returns the keyring that signs developers' intents. Its key is made once and shared by all replicas
// through a Secret, which outlives them. c must not read from a cache.
func LoadKeyring(ctx context.Context, c client.Client, namespace string) (*placement.Keyring, error) {
	fresh := make([]byte, placement.KeySize)
	// Never fails on the platforms that Go supports.
	_, _ = rand.Read(fresh)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: KeySecretName},
		Data:       map[string][]byte{keyName: fresh},
	}
	err := c.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	}
	if err != nil {
		return nil, fmt.Errorf("getting Secret %s/%s: %w", namespace, KeySecretName, err)
	}
	return KeyringOf(secret)
}

// KeyringOf returns the keyring over the key in the Secret KeySecretName.
func KeyringOf(secret *corev1.Secret) (*placement.Keyring, error) {
	keyring, err := placement.NewKeyring(secret.Data[keyName])
	if err != nil {
		return nil, fmt.Errorf("reading key %q of Secret %s/%s: %w; if you delete the Secret a new one is made, and what developers asked for before is forgotten", keyName, secret.Namespace, secret.Name, err)
	}
	return keyring, nil
}
