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

package remediator

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
)

// TestPostEviction checks what an eviction sends, and what follows from each response of the API server.
func TestPostEviction(t *testing.T) {
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
			pod := running("web", 1, "a")
			pod.SetResourceVersion("7")
			c := &Controller{Deps: Deps{Core: client.RESTClient()}}
			patch, err := c.evict(t.Context(), &scope{key: keyOf(pods, pod), object: pod})
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

// TestNeedsOfEvictions checks that the fields that evictions read are kept of Pods only if a policy evicts.
func TestNeedsOfEvictions(t *testing.T) {
	for name, evict := range map[string]bool{"Evicts": true, "EvictsNot": false} {
		t.Run(name, func(t *testing.T) {
			l := newLeader(t)
			spec := onDeployments("", "")
			spec.Match.ResourceRules[0].APIGroups, spec.Match.ResourceRules[0].Resources = []string{""}, []string{"pods"}
			spec.Rego = "package p\nlabels.a := input.metadata.name"
			spec.Remediation.Evict = evict
			l.apply("p", spec)
			for resource, want := range map[string]bool{"pods": evict, "services": false} {
				fields := l.types.fields(corev1.SchemeGroupVersion.WithResource(resource))
				if got := fields.Covers(projection.Union(remediation.EvictionFields())); got != want {
					t.Errorf("%s: %v, want %v", resource, got, want)
				}
			}
		})
	}
}
