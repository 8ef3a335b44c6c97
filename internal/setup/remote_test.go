package setup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// What the cache keeps of the own namespace's Secrets, and what of that policies may have shown to an engine.
func TestSecretsForEngines(t *testing.T) {
	const namespace = "berth-system"
	tests := map[string]struct {
		secretType corev1.SecretType
		kept       bool
		err        string
	}{
		"opa":         {corev1.SecretTypeOpaque, true, ""},
		"untyped":     {"", true, ""},
		"opa-client":  {corev1.SecretTypeTLS, true, ""},
		"token-of-sa": {corev1.SecretTypeServiceAccountToken, false, "the Secret berth-system/token-of-sa is of type kubernetes.io/service-account-token: engines are shown those of type Opaque or kubernetes.io/tls"},
		"sh.helm.v1":  {"helm.sh/release.v1", false, "the Secret berth-system/sh.helm.v1 is of type helm.sh/release.v1: engines are shown those of type Opaque or kubernetes.io/tls"},
		// Policies that name them are refused.
		"berth-webhook-cert":      {corev1.SecretTypeTLS, true, ""},
		"berth-intent-key":        {corev1.SecretTypeOpaque, false, ""},
		"berth-served-kubeconfig": {corev1.SecretTypeOpaque, false, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}},
				Type:       tc.secretType, Data: map[string][]byte{"token": []byte("t")},
			}
			want := map[string][]byte{}
			if tc.kept {
				want = secret.Data
			}
			object, err := withoutForeignData(secret.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			cached, ok := object.(*corev1.Secret)
			if !ok || cached.ManagedFields != nil {
				t.Fatalf("cached is %v", object)
			}
			got, err := ownSecrets{reader: fake.NewClientBuilder().WithObjects(cached).Build(), namespace: namespace}.Secret(t.Context(), name)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err || got != nil {
					t.Errorf("got %v, error %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got == nil {
				got = map[string][]byte{}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("data (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := (ownSecrets{reader: fake.NewClientBuilder().Build(), namespace: namespace}).Secret(t.Context(), "none"); !apierrors.IsNotFound(err) {
		t.Errorf("of a Secret that is not there: %v", err)
	}
}
