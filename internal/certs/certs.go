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

// Package certs creates, renews, and serves the webhook's certificate. The certificate is stored in a Secret. Every
// replica watches the Secret and loads changes at once, without a mounted volume. Either Berth's leader fills the
// Secret (see rotation.go), or another program, such as cert-manager. Serving works the same in both cases (see
// source.go).
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

// SecretName is the name of the Secret, in Berth's own namespace, with the webhook's certificate, its key, and its certificate authority.
// If Berth renews the certificate, the Secret has the authority's key, too.
const SecretName = "berth-webhook-cert"

// KeySecretName is the name of the Secret with the key that signs the records of requested values.
const KeySecretName = "berth-intent-key"

const (
	keyName   = "key"
	caName    = "ca.crt"
	caKeyName = "ca.key"
)

// LoadKeyring returns the keyring that signs the records of requested values. It first tries to create the Secret KeySecretName in a
// namespace, with a new key. If the Secret exists, LoadKeyring reads the key from it. It fails without the permission to create Secrets,
// even if the Secret exists. All replicas share the Secret. c must not read from a cache.
func LoadKeyring(ctx context.Context, c client.Client, namespace string) (*placement.Keyring, error) {
	fresh := make([]byte, placement.KeySize)
	// rand.Read does not fail on the platforms that Go supports.
	_, _ = rand.Read(fresh)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: KeySecretName},
		Data:       map[string][]byte{keyName: fresh},
	}
	if err := c.Create(ctx, secret); apierrors.IsAlreadyExists(err) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
			return nil, fmt.Errorf("reading Secret %s/%s: %w", namespace, KeySecretName, err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("creating Secret %s/%s, which Berth tries at each start, even if the Secret exists: %w",
			namespace, KeySecretName, err)
	}
	return KeyringOf(secret)
}

// KeyringOf returns a keyring with the key in a Secret, which is the one with the name KeySecretName. It returns an error if the Secret has
// no key or an invalid one.
func KeyringOf(secret *corev1.Secret) (*placement.Keyring, error) {
	keyring, err := placement.NewKeyring(secret.Data[keyName])
	if err != nil {
		return nil, fmt.Errorf("reading key %q of Secret %s/%s: %w; restore the Secret from a backup, or delete it: Berth then creates a "+
			"new key, and no longer trusts the values that it recorded as requested by developers", keyName, secret.Namespace, secret.Name, err)
	}
	return keyring, nil
}
