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
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/console"
	"github.com/berth-dev/berth/internal/simulation"
)

// apiServer accepts some tokens, and counts how often each user is verified and reads.
type apiServer struct {
	*httptest.Server

	mu              sync.Mutex
	asked           int
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
		// As the real one does, it ignores what comes after the token.
		_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		token, _, _ = strings.Cut(token, " ")
		out.asked++
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

// user returns what a user of a shared console gets: a cluster with the name of the token as its source. The name of the user is what a
// token has before a slash.
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
		out.Verify = func(ctx context.Context) (string, error) {
			token, err := request(ctx, "/verify")
			name, _, _ := strings.Cut(token, "/")
			return name, err
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
		"two words":            {http.MethodGet, "/api/fleet", bearer("alice x"), http.StatusUnauthorized},
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

// send sends a request for an endpoint with a token to a shared console, and returns the response.
func send(ctx context.Context, handler http.Handler, path, token string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/"+path, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	handler.ServeHTTP(w, r)
	return w
}

// TestTokensOfOneUser checks that many tokens of one user do not take the places of others.
func TestTokensOfOneUser(t *testing.T) {
	tokens := []string{"bob"}
	for i := range 40 {
		tokens = append(tokens, fmt.Sprint("alice/", i))
	}
	api := startAPIServer(t, tokens...)
	handler := console.NewUsers(api.user(t)).Handler()
	for _, token := range append(tokens, "bob") {
		if w := send(t.Context(), handler, "quotas", token); w.Code != http.StatusOK {
			t.Fatalf("%s: %d: %s", token, w.Code, w.Body)
		}
	}
	if api.reads["bob"] != 1 {
		t.Errorf("bob reads %d times", api.reads["bob"])
	}
}

// TestRejectedTokens checks that requests without a valid token seldom reach the API server.
func TestRejectedTokens(t *testing.T) {
	api := startAPIServer(t)
	handler := console.NewUsers(api.user(t)).Handler()
	for range 3 {
		if w := send(t.Context(), handler, "schema", "mallory"); w.Code != http.StatusUnauthorized {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
	}
	if api.asked != 1 {
		t.Errorf("the API server was asked %d times about one token", api.asked)
	}
	refused := 0
	for i := range 1000 {
		if w := send(t.Context(), handler, "schema", fmt.Sprint("mallory-", i)); w.Code == http.StatusServiceUnavailable {
			refused++
		}
	}
	if refused == 0 || api.asked+refused != 1001 {
		t.Errorf("the API server was asked %d times, and %d requests were refused", api.asked, refused)
	}
}

// verifier accepts tokens, and needs no network.
type verifier struct {
	mu      sync.Mutex
	revoked bool
	opened  int
}

// user returns what a user gets. Each user has another name.
func (v *verifier) user(t *testing.T) func(*console.Credentials) console.User {
	return func(*console.Credentials) console.User {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.opened++
		name := fmt.Sprint("user-", v.opened)
		return console.User{Config: config(static(t, clusters+policies+workloads+quotas)), Verify: func(context.Context) (string, error) {
			v.mu.Lock()
			defer v.mu.Unlock()
			if v.revoked {
				return "", apierrors.NewUnauthorized("no such token")
			}
			return name, nil
		}}
	}
}

// TestRevokedToken checks that the updates of a page end when the API server no longer accepts the token.
func TestRevokedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &verifier{}
		handler := console.NewUsers(v.user(t)).Handler()
		ended := make(chan *httptest.ResponseRecorder, 1)
		go func() { ended <- send(t.Context(), handler, "updates", "alice") }()
		select {
		case w := <-ended:
			t.Fatalf("the updates end although the token is valid: %d: %s", w.Code, w.Body)
		case <-time.After(time.Hour):
		}
		v.mu.Lock()
		v.revoked = true
		v.mu.Unlock()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Error("the updates do not end")
		}
	})
}

// TestWaitingUsers checks that users whose pages only wait for updates make room for another user.
func TestWaitingUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		handler := console.NewUsers((&verifier{}).user(t)).Handler()
		ended := make(chan int, 32)
		for i := range 32 {
			go func() {
				send(ctx, handler, "updates", fmt.Sprint("alice-", i))
				ended <- i
			}()
		}
		synctest.Wait()
		if w := send(ctx, handler, "schema", "bob"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("the other users have just come: %d: %s", w.Code, w.Body)
		}
		<-time.After(2 * time.Minute)
		if w := send(ctx, handler, "schema", "bob"); w.Code != http.StatusOK {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
		synctest.Wait()
		if len(ended) != 1 {
			t.Errorf("the updates of %d users have ended", len(ended))
		}
		leave()
	})
}

// TestManyRequests checks that the requests of a token are bounded.
func TestManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		handler := console.NewUsers((&verifier{}).user(t)).Handler()
		send(ctx, handler, "schema", "alice")
		for range 64 {
			go send(ctx, handler, "updates", "alice")
		}
		synctest.Wait()
		if w := send(ctx, handler, "schema", "alice"); w.Code != http.StatusTooManyRequests {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
		leave()
	})
}

// TestShortMemory checks that a new user gets no place while memory is short and all others are served.
func TestShortMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		handler := console.NewUsers((&verifier{}).user(t)).Handler()
		go send(ctx, handler, "updates", "alice")
		synctest.Wait()
		runtime.GC()
		before := debug.SetMemoryLimit(1 << 20)
		w := send(ctx, handler, "schema", "bob")
		debug.SetMemoryLimit(before)
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
		leave()
	})
}

// slow is a cluster that takes some time to fail. It counts the readings at once.
type slow struct {
	simulation.Cluster
	running, most *atomic.Int32
}

// Policies implements simulation.Cluster.
func (c slow) Policies(context.Context) ([]placementv1.PlacementPolicy, error) {
	defer c.running.Add(-1)
	if now := c.running.Add(1); now > c.most.Load() {
		c.most.Store(now)
	}
	<-time.After(100 * time.Millisecond)
	return nil, errors.New("the cluster can't be read")
}

// TestComputations checks that a shared console decides the clusters of few users at once.
func TestComputations(t *testing.T) {
	var running, most atomic.Int32
	handler := console.NewUsers(func(*console.Credentials) console.User {
		return console.User{
			Config: config(slow{static(t, clusters+quotas), &running, &most}), Verify: func(context.Context) (string, error) { return "", nil },
		}
	}).Handler()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() { send(t.Context(), handler, "fleet", fmt.Sprint("user-", i)) })
	}
	group.Wait()
	if got := most.Load(); got == 0 || got > 2 {
		t.Errorf("%d clusters are decided at once", got)
	}
}

// TestParallelRefresh checks that requests to read the cluster again share one reading.
func TestParallelRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, read, release := config(nil), 0, make(chan struct{})
		c.Read = func(context.Context) (*console.Reading, error) {
			read++
			<-release
			return nil, errors.New("the cluster can't be read")
		}
		one := console.New(c)
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() { _ = one.Refresh(t.Context()) })
		}
		synctest.Wait()
		close(release)
		group.Wait()
		if read != 1 {
			t.Errorf("the cluster was read %d times", read)
		}
	})
}
