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
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestGuard(t *testing.T) {
	for _, ready := range []bool{true, false} {
		t.Run(fmt.Sprint(ready), func(t *testing.T) {
			yes := func() bool { return true }
			r := &readiness{
				certificate: yes, tokens: yes, policies: func(context.Context) bool { return true }, data: yes,
				quotas: func() bool { return ready }, adopted: yes, current: yes,
			}
			reached := false
			recorder := httptest.NewRecorder()
			r.guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				reached = true
				w.WriteHeader(http.StatusOK)
			})).ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/quota", nil))
			want := http.StatusOK
			if !ready {
				want = http.StatusServiceUnavailable
			}
			if recorder.Code != want || reached != ready {
				t.Errorf("status %d, reached = %t", recorder.Code, reached)
			}
		})
	}
}
