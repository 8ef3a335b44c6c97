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

package quotavalidator_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/apiserver/pkg/quota/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota/quotatest"
)

// sameAmounts compares quantities by value.
var sameAmounts = cmp.Comparer(func(a, b corev1.ResourceList) bool { return upstream.Equals(a, b) })

// TestTranscribedCases runs the cases of upstream's own tests through the webhook. TestTranscribedCasesAgainstUpstream
// in internal/quota verifies that they match upstream.
func TestTranscribedCases(t *testing.T) {
	text, err := os.ReadFile("../../internal/quota/testdata/upstream-admission.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range quotatest.Cases(t, text) {
		t.Run(c.Name, func(t *testing.T) {
			var objects []client.Object
			for _, q := range c.ScopedQuotas() {
				objects = append(objects, q)
			}
			for _, l := range c.Limits() {
				objects = append(objects, l)
			}
			store := quotatest.NewStore(t, objects...)
			f := newFixture(t, store, interceptor.Funcs{})
			want := c.Used()
			for i, step := range c.Steps {
				response := f.ask(t, step.Request(t, types.UID(fmt.Sprint(i))))
				if response.Allowed != step.Allowed {
					t.Fatalf("step %d: allowed %v, want %v: %+v", i, response.Allowed, step.Allowed, response.Result)
				}
				if !response.Allowed && (response.Result.Code != http.StatusForbidden || !strings.Contains(response.Result.Message, step.Message)) {
					t.Errorf("step %d: %d %q, want 403 with %q", i, response.Result.Code, response.Result.Message, step.Message)
				}
				maps.Copy(want, step.Used)
				got := map[string]corev1.ResourceList{}
				stored := &placementv1.ScopedQuotaList{}
				if err := store.List(t.Context(), stored); err != nil {
					t.Fatal(err)
				}
				for _, q := range stored.Items {
					got[q.Name] = q.Status.Used
				}
				if diff := cmp.Diff(want, got, sameAmounts); diff != "" {
					t.Errorf("step %d: used -want +got:\n%s", i, diff)
				}
			}
		})
	}
}
