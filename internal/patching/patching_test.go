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

package patching

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/remediation"
)

// TestEvict checks what an eviction sends, and what follows from each response of the API server.
func TestEvict(t *testing.T) {
	protected := apierrors.NewTooManyRequests("no", 10).ErrStatus
	protected.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause}}
	for name, tc := range map[string]struct {
		code   int
		status metav1.Status
		want   remediation.Ending
	}{
		"Evicted":   {http.StatusCreated, metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}, remediation.Made},
		"Gone":      {http.StatusNotFound, apierrors.NewNotFound(corev1.Resource("pods"), "web").ErrStatus, remediation.Unmade},
		"Conflict":  {http.StatusConflict, apierrors.NewConflict(corev1.Resource("pods"), "web", nil).ErrStatus, remediation.Unmade},
		"Protected": {http.StatusTooManyRequests, protected, remediation.Protected},
		"Overload":  {http.StatusTooManyRequests, apierrors.NewTooManyRequests("later", 10).ErrStatus, remediation.Failed},
		"TwoBudgets": {
			http.StatusInternalServerError, metav1.Status{Status: metav1.StatusFailure, Message: "This pod has more than one PodDisruptionBudget", Code: http.StatusInternalServerError},
			remediation.Refused,
		},
		"TwoBudgetsAsResult": {
			http.StatusCreated, metav1.Status{Status: metav1.StatusFailure, Message: "This pod has more than one PodDisruptionBudget", Code: http.StatusInternalServerError},
			remediation.Refused,
		},
		"WebhookDown": {http.StatusInternalServerError, apierrors.NewInternalError(http.ErrServerClosed).ErrStatus, remediation.Failed},
		"NoPermission": {
			http.StatusForbidden,
			metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: `User "berth" cannot create resource "pods/eviction" in API group ""`},
			remediation.Failed,
		},
		"Denied": {
			http.StatusForbidden,
			metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: `admission webhook "other.example.com" denied the request: no`},
			remediation.Refused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var requests []string
			var sent policyv1.Eviction
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests = append(requests, r.Method+" "+r.URL.Path)
				if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
					t.Error(err)
				}
				tc.status.APIVersion, tc.status.Kind = "v1", "Status"
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Retry-After", "10")
				w.WriteHeader(tc.code)
				if err := json.NewEncoder(w).Encode(tc.status); err != nil {
					t.Error(err)
				}
			}))
			defer api.Close()
			client, err := typedcorev1.NewForConfig(&rest.Config{Host: api.URL})
			if err != nil {
				t.Fatal(err)
			}
			pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
			pod.SetNamespace("shop")
			pod.SetName("web")
			pod.SetUID("uid of web")
			pod.SetResourceVersion("7")
			key := remediation.Key{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: "shop", Name: "web"}
			p := &Patcher{Core: client.RESTClient()}
			patch, err := p.evict(t.Context(), key, pod)
			if patch.Ending != tc.want || (err == nil) != (tc.want == remediation.Made) {
				t.Errorf("ending %v with %v, want %v", patch.Ending, err, tc.want)
			}
			if diff := cmp.Diff([]string{"POST /api/v1/namespaces/shop/pods/web/eviction"}, requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(&metav1.Preconditions{UID: new(pod.GetUID()), ResourceVersion: new("7")}, sent.DeleteOptions.Preconditions); diff != "" {
				t.Errorf("preconditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefusedForTheObjectsOwnSake(t *testing.T) {
	forbidden := func(why string) error {
		return apierrors.NewForbidden(corev1.Resource("configmaps"), "web", errors.New(why))
	}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"NotTaken":       {ErrNotTaken, false},
		"Connection":     {errors.New("connection refused"), false},
		"WebhookDown":    {apierrors.NewInternalError(errors.New("failed calling webhook")), false},
		"NoRight":        {forbidden(`User "berth" cannot patch resource "configmaps" in API group "" in the namespace "shop"`), false},
		"Denied":         {forbidden(`admission webhook "other.example.com" denied the request: no`), true},
		"Quota":          {forbidden(`exceeded quota: compute`), true},
		"Invalid":        {apierrors.NewBadRequest("no"), true},
		"TooManyAtATime": {apierrors.NewTooManyRequests("later", 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := endingOf(test.err) == remediation.Refused; got != test.want {
				t.Errorf("refused: %t, want %t", got, test.want)
			}
		})
	}
}
