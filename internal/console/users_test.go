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

package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/internal/console"
)

// apiServer accepts some tokens, and counts how often each user is verified and reads.
type apiServer struct {
	*httptest.Server

	mu              sync.Mutex
	accepted        map[string]bool
	verified, reads map[string]int
}

func startAPIServer(t *testing.T, tokens ...string) *apiServer {
	t.Helper()
	out := &apiServer{accepted: map[string]bool{}, verified: map[string]int{}, reads: map[string]int{}}
	for _, token := range tokens {
		out.accepted[token] = true
	}
	out.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out.mu.Lock()
		defer out.mu.Unlock()
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !out.accepted[token] {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.URL.Path == "/verify" {
			out.verified[token]++
		} else {
			out.reads[token]++
		}
		_, _ = io.WriteString(w, token)
	}))
	t.Cleanup(out.Close)
	return out
}

// user returns what a user of a shared console gets: a cluster with the name of the token as its source.
func (a *apiServer) user(t *testing.T) func(*console.Credentials) console.User {
	return func(c *console.Credentials) console.User {
		client := &http.Client{Transport: c.Wrap(http.DefaultTransport)}
		request := func(ctx context.Context, path string) (string, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL+path, nil)
			if err != nil {
				return "", err
			}
			response, err := client.Do(r)
			if err != nil {
				return "", err
			}
			defer func() { _ = response.Body.Close() }()
			if response.StatusCode == http.StatusUnauthorized {
				return "", apierrors.NewUnauthorized("no such token")
			}
			text, err := io.ReadAll(response.Body)
			return string(text), err
		}
		out := console.User{Config: config(static(t, clusters+policies+workloads+quotas))}
		read := out.Read
		out.Read = func(ctx context.Context) (*console.Reading, error) {
			reading, err := read(ctx)
			if err == nil {
				reading.Source, err = request(ctx, "/read")
			}
			return reading, err
		}
		out.Verify = func(ctx context.Context) error {
			_, err := request(ctx, "/verify")
			return err
		}
		return out
	}
}

// TestUsers checks that each user of a shared console gets what the own token reads, and that a console keeps no token.
func TestUsers(t *testing.T) {
	api := startAPIServer(t, "alice", "bob")
	server := httptest.NewServer(console.NewUsers(api.user(t)).Handler())
	t.Cleanup(server.Close)
	request := func(method, path string, header http.Header) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = header
		response, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		if response.Header.Get("Content-Security-Policy") == "" && path != "/healthz" {
			t.Errorf("%s has no policy for content", path)
		}
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	bearer := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	and := func(h http.Header, name, value string) http.Header {
		h.Set(name, value)
		return h
	}
	source := func(text string) string {
		var out struct{ Source string }
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		return out.Source
	}
	for range 3 {
		for _, token := range []string{"alice", "bob"} {
			if status, text := request(http.MethodGet, "/api/fleet", bearer(token)); status != http.StatusOK || source(text) != token {
				t.Errorf("%s: %d: %s", token, status, text)
			}
		}
	}
	status, text := request(http.MethodGet, "/api/fleet", http.Header{"X-Berth-Authorization": {"Bearer alice"}})
	if status != http.StatusOK || source(text) != "alice" {
		t.Errorf("the header for the service proxy: %d: %s", status, text)
	}
	if api.reads["alice"] != 1 || api.verified["alice"] != 1 || api.reads["bob"] != 1 {
		t.Errorf("read %v, verified %v", api.reads, api.verified)
	}
	for name, tt := range map[string]struct {
		method, path string
		header       http.Header
		want         int
	}{
		"no token":             {http.MethodGet, "/api/fleet", http.Header{}, http.StatusUnauthorized},
		"another token":        {http.MethodGet, "/api/fleet", bearer("mallory"), http.StatusUnauthorized},
		"another scheme":       {http.MethodGet, "/api/fleet", http.Header{"Authorization": {"Basic alice"}}, http.StatusUnauthorized},
		"the pages":            {http.MethodGet, "/", http.Header{}, http.StatusOK},
		"another site":         {http.MethodGet, "/api/fleet", and(bearer("alice"), "Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		"a form":               {http.MethodPost, "/api/whatif", and(bearer("alice"), "Content-Type", "text/plain"), http.StatusMethodNotAllowed},
		"a link to the pages":  {http.MethodGet, "/", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}}, http.StatusOK},
		"the health":           {http.MethodGet, "/healthz", http.Header{}, http.StatusOK},
		"an unknown end point": {http.MethodGet, "/api/none", bearer("alice"), http.StatusNotFound},
	} {
		if status, text := request(tt.method, tt.path, tt.header); status != tt.want {
			t.Errorf("%s: %d, want %d: %s", name, status, tt.want, text)
		}
	}
	if api.verified["mallory"] != 0 {
		t.Error("the API server accepted another token")
	}
}

// TestManyUsers checks that the number of users whose readings a console keeps is bounded.
func TestManyUsers(t *testing.T) {
	var tokens []string
	for i := range 40 {
		tokens = append(tokens, fmt.Sprint("user-", i))
	}
	api := startAPIServer(t, tokens...)
	handler := console.NewUsers(api.user(t)).Handler()
	for range 2 {
		for _, token := range tokens {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/quotas", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			if handler.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Fatalf("%s: %d: %s", token, w.Code, w.Body)
			}
		}
	}
	if api.reads["user-0"] != 2 || api.reads["user-39"] < 1 {
		t.Errorf("the first user reads %d times, and the last %d times", api.reads["user-0"], api.reads["user-39"])
	}
}

// TestCredentials checks that a request to the API server has the token only while a request of the user is under way.
func TestCredentials(t *testing.T) {
	api := startAPIServer(t, "alice")
	var kept *console.Credentials
	users := console.NewUsers(func(c *console.Credentials) console.User {
		kept = c
		return api.user(t)(c)
	})
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/quotas", nil)
	r.Header.Set("Authorization", "Bearer alice")
	if users.Handler().ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Fatal(w.Body)
	}
	later, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := kept.Wrap(http.DefaultTransport).RoundTrip(later)
	if err == nil {
		_ = response.Body.Close()
		t.Error("the token is still there")
	}
}
