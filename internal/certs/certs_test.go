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
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/berth-dev/berth/internal/policy"
)

const namespace = "berth-system"

// TestKeyringIsShared checks that replicas that start concurrently, and later ones, get the same key.
func TestKeyringIsShared(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	if _, err := LoadKeyring(t.Context(), c, namespace); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{}
	name := types.NamespacedName{Namespace: namespace, Name: KeySecretName}
	if err := c.Get(t.Context(), name, secret); err != nil {
		t.Fatal(err)
	}
	key := string(secret.Data[keyName])
	if len(key) != 32 {
		t.Errorf("key of %d bytes", len(key))
	}
	if _, err := LoadKeyring(t.Context(), c, namespace); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), name, secret); err != nil {
		t.Fatal(err)
	}
	if string(secret.Data[keyName]) != key {
		t.Error("the second replica made a key of its own")
	}
	secret.Data[keyName] = []byte("short")
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKeyring(t.Context(), c, namespace); err == nil {
		t.Error("a broken key is taken")
	}
}

// TestOwnSecretsAreReserved checks that policies cannot read Berth's own Secrets.
func TestOwnSecretsAreReserved(t *testing.T) {
	for _, name := range []string{SecretName, KeySecretName} {
		if !slices.Contains(policy.ReservedSecrets, name) {
			t.Errorf("policies can name the Secret %s", name)
		}
	}
}
