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
