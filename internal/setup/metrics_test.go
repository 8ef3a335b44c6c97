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
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// reviewed is a manager of an API server that knows one token, and counts the reviews of tokens.
type reviewed struct {
	manager.Manager
	reviews *atomic.Int64
}

func (reviewed) GetConfig() *rest.Config { return &rest.Config{Host: "https://api", QPS: -1} }
func (reviewed) GetLogger() logr.Logger  { return logr.Discard() }
func (r reviewed) GetHTTPClient() *http.Client {
	return &http.Client{Transport: r}
}

// RoundTrip implements http.RoundTripper.
func (r reviewed) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	answer := `{"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": {"allowed": true}}`
	if strings.HasSuffix(request.URL.Path, "/tokenreviews") {
		r.reviews.Add(1)
		answer = fmt.Sprintf(`{"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": {"authenticated": %t, "user": {"username": "prometheus"}}}`,
			strings.Contains(string(body), "known"))
	}
	return &http.Response{
		StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
		Body: io.NopCloser(strings.NewReader(answer)),
	}, nil
}

// TestUnknownScrapers checks that clients that are not known do not make the replica flood the API server with reviews of their tokens, and
// that one that is known is served meanwhile.
func TestUnknownScrapers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reviews := &atomic.Int64{}
		handler, err := (&state{}).authenticateScrapers(&base{mgr: reviewed{reviews: reviews}}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		if err != nil {
			t.Fatal(err)
		}
		scrape := func(ctx context.Context, token string) int {
			request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil)
			request.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, request)
			return w.Code
		}
		// As many connections as are open stay, and the others are closed soon.
		for i := range 1000 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go scrape(ctx, fmt.Sprint("unknown", i))
			if i >= metricsStrangers {
				<-time.After(time.Millisecond)
				cancel()
			}
		}
		began := time.Now()
		if code := scrape(t.Context(), "known"); code != http.StatusOK {
			t.Errorf("got %d", code)
		}
		if took := time.Since(began); took > (metricsStrangers+1)*scrapeInterval {
			t.Errorf("a known client waited %s", took)
		}
		<-time.After(time.Minute)
		if got := reviews.Load(); got > metricsStrangers+2 {
			t.Errorf("the API server reviewed %d tokens", got)
		}
	})
}
