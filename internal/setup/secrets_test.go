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

package setup

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestSecretsForEngines checks which Secrets in Berth's own namespace policies may send to an engine.
func TestSecretsForEngines(t *testing.T) {
	const namespace = "berth-system"
	tests := map[string]struct {
		secretType corev1.SecretType
		err        string
	}{
		"opa":         {corev1.SecretTypeOpaque, ""},
		"untyped":     {"", ""},
		"opa-client":  {corev1.SecretTypeTLS, ""},
		"token-of-sa": {corev1.SecretTypeServiceAccountToken, "the Secret berth-system/token-of-sa is of type kubernetes.io/service-account-token: engines get only those of type Opaque or kubernetes.io/tls"},
		"sh.helm.v1":  {"helm.sh/release.v1", "the Secret berth-system/sh.helm.v1 is of type helm.sh/release.v1: engines get only those of type Opaque or kubernetes.io/tls"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: tc.secretType, Data: map[string][]byte{"token": []byte("t")},
			}
			reader := fake.NewClientBuilder().WithObjects(secret).Build()
			got, err := newEngineSecrets(reader, namespace, clocktesting.NewFakePassiveClock(time.Now())).Secret(t.Context(), name)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err || got != nil {
					t.Errorf("got %v, error %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(secret.Data, got); diff != "" {
				t.Errorf("data (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSecretsAreReadAgain checks that a Secret is read again when it may have changed, and remains in use while the API
// server is unavailable.
func TestSecretsAreReadAgain(t *testing.T) {
	const namespace, name = "berth-system", "opa"
	var reads int
	// fault is the API server's error, or nil if it returns the Secret.
	var fault error
	value := "first"
	reader := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
			reads++
			if want := (client.ObjectKey{Namespace: namespace, Name: name}); key != want {
				t.Errorf("reads %s, want %s", key, want)
			}
			if secret, ok := o.(*corev1.Secret); ok && fault == nil {
				secret.Data = map[string][]byte{"token": []byte(value)}
			}
			return fault
		},
	})
	clock := clocktesting.NewFakePassiveClock(time.Now())
	secrets := newEngineSecrets(reader, namespace, clock)
	resource := schema.GroupResource{Resource: "secrets"}
	for _, step := range []struct {
		what  string
		after time.Duration
		value string
		fault error
		want  string
		reads int
	}{
		{what: "at first", value: "first", want: "first", reads: 1},
		{what: "a moment later", after: secretMaxAge / 2, value: "second", want: "first", reads: 1},
		{what: "once it may have changed", after: secretMaxAge, value: "second", want: "second", reads: 2},
		{what: "without the API server", after: secretMaxAge, fault: errors.New("connection refused"), want: "second", reads: 3},
		{what: "without the right to read it", after: secretMaxAge, fault: apierrors.NewForbidden(resource, name, nil), reads: 4},
		{what: "once the right is granted", after: secretMaxAge, value: "second", want: "second", reads: 5},
		{what: "once it is deleted", after: secretMaxAge, fault: apierrors.NewNotFound(resource, name), reads: 6},
		{what: "deleted, without the API server", after: secretMaxAge, fault: errors.New("connection refused"), reads: 7},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		value, fault = step.value, step.fault
		got, err := secrets.Secret(t.Context(), name)
		if string(got["token"]) != step.want || reads != step.reads {
			t.Errorf("%s: got %q after %d reads, want %q after %d", step.what, got["token"], reads, step.want, step.reads)
		}
		if (err == nil) != (step.want != "") || err != nil && !errors.Is(err, fault) {
			t.Errorf("%s: error %v", step.what, err)
		}
	}
}
