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

package review_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/berth-dev/berth/internal/review"
)

// TestGuard checks that a webhook responds only while its replica may decide, and that only such a replica is Ready.
func TestGuard(t *testing.T) {
	tests := map[string]struct {
		restored      error
		loaded, ready bool
	}{
		"Ready":                     {loaded: true, ready: true},
		"QuotasAreNotCached":        {},
		"StoreWentBack":             {restored: errors.New("the store went back"), loaded: true},
		"StoreWentBackWhileLoading": {restored: errors.New("the store went back")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			yes := func() bool { return true }
			var restored error
			r := &review.Readiness{
				Certificate: yes, Tokens: yes, Policies: func(context.Context) bool { return true }, Data: yes,
				Quotas: func() bool { return test.loaded }, Adopted: yes, Current: yes, Restored: func() error { return restored },
			}
			// A replica may have been ready before.
			if got := r.IsReady(t.Context()); got != test.loaded {
				t.Errorf("ready: %t", got)
			}
			restored = test.restored
			reached := false
			recorder := httptest.NewRecorder()
			r.Guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				reached = true
				w.WriteHeader(http.StatusOK)
			})).ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/quota", nil))
			want := http.StatusOK
			if !test.ready {
				want = http.StatusServiceUnavailable
			}
			if recorder.Code != want || reached != test.ready {
				t.Errorf("status %d, reached = %t", recorder.Code, reached)
			}
			if got := r.IsReady(t.Context()); got != test.ready {
				t.Errorf("ready: %t, want %t", got, test.ready)
			}
		})
	}
}
