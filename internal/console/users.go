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

package console

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Users serves several users, each with the rights of the bearer token in their requests. It has no rights of its own. It keeps what a user
// has read for a while, by the hash of the token, and forgets the token at the end of each request. It is safe for concurrent use.
type Users struct {
	open func(*Credentials) User
	now  func() time.Time

	mu   sync.Mutex
	byID map[userID]*user
}

// User is what the plugin does for a user of a shared console.
type User struct {
	Config
	// Verify returns an error if the API server does not accept the token of the user.
	Verify func(ctx context.Context) error
}

// userID is the hash of a token.
type userID [sha256.Size]byte

// user is a user of the last minutes.
type user struct {
	credentials *Credentials
	verify      func(ctx context.Context) error
	handler     http.Handler

	// The mutex of Users guards these: the number of requests that are under way, the end of the last one, and the last verification.
	requests       int
	used, verified time.Time
}

// Limits of what a shared console keeps: how many users, how long after their last request, and how long a token is not verified again.
const (
	maxUsers   = 32
	maxIdle    = 10 * time.Minute
	maxTrusted = 30 * time.Second
)

// NewUsers returns a shared console. open returns what the plugin does for a user with credentials.
func NewUsers(open func(*Credentials) User) *Users {
	return &Users{open: open, now: time.Now, byID: map[userID]*user{}}
}

// Handler returns the handler of the pages, which are the same for all users, and of the endpoints, which need a token.
func (u *Users) Handler() http.Handler {
	pages := http.FileServerFS(Assets())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		switch {
		case r.URL.Path == "/healthz":
			w.WriteHeader(http.StatusOK)
		case !sameSite(r):
			http.Error(w, "This request comes from another page. The console answers only its own pages.", http.StatusForbidden)
		case !safe(r):
			http.Error(w, readOnly, http.StatusMethodNotAllowed)
		case !strings.HasPrefix(r.URL.Path, "/api/"):
			pages.ServeHTTP(w, r)
		default:
			u.serve(w, r)
		}
	})
}

// sameSite reports whether a request comes from a page of the console, or from a client that is no browser. Other pages may open it.
func sameSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	return r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/api/") && r.Header.Get("Sec-Fetch-Mode") == "navigate"
}

// tokenHeader has the token of a request that passes the service proxy of the API server, which removes the header Authorization.
const tokenHeader = "X-Berth-Authorization"

// tokenOf returns the bearer token of a request.
func tokenOf(r *http.Request) string {
	for _, name := range []string{tokenHeader, "Authorization"} {
		if scheme, token, ok := strings.Cut(r.Header.Get(name), " "); ok && strings.EqualFold(scheme, "Bearer") {
			return strings.TrimSpace(token)
		}
	}
	return ""
}

// serve serves an endpoint for the user of a request.
func (u *Users) serve(w http.ResponseWriter, r *http.Request) {
	token := tokenOf(r)
	if token == "" {
		w.Header().Set("WWW-Authenticate", "Bearer")
		writeError(w, problem{http.StatusUnauthorized, "The console reads the cluster with your rights: it needs your bearer token."})
		return
	}
	one, err := u.begin(r.Context(), token)
	if err != nil {
		w.Header().Set("WWW-Authenticate", "Bearer")
		writeError(w, err)
		return
	}
	defer u.end(one)
	one.handler.ServeHTTP(w, r)
}

// errBusy is the error for a user for which there is no room.
var errBusy = problem{http.StatusServiceUnavailable, "Too many users have the console open. Try again in some minutes."}

// begin returns the user of a token, after the API server has accepted the token. end has to follow.
func (u *Users) begin(ctx context.Context, token string) (*user, error) {
	id := userID(sha256.Sum256([]byte(token)))
	u.mu.Lock()
	u.forget()
	one := u.byID[id]
	trusted := one != nil && u.now().Sub(one.verified) < maxTrusted
	if one == nil {
		// Only an accepted token takes a place.
		one = newUser(u.open)
	}
	one.requests++
	u.mu.Unlock()
	one.credentials.begin(token)
	if trusted {
		return one, nil
	}
	err := one.verify(ctx)
	u.mu.Lock()
	known := u.byID[id]
	switch {
	case err != nil && apierrors.IsUnauthorized(err):
		err = problem{http.StatusUnauthorized, "The API server does not accept the token: it may have expired."}
		delete(u.byID, id)
	case err != nil, known == one:
	case known != nil:
		// Another request of the user was faster.
		known.requests++
		known.credentials.begin(token)
		one.credentials.end()
		one = known
	case len(u.byID) >= maxUsers && !u.makeRoom():
		err = errBusy
	default:
		u.byID[id] = one
	}
	if err == nil {
		one.verified = u.now()
	}
	u.mu.Unlock()
	if err != nil {
		u.end(one)
		return nil, err
	}
	return one, nil
}

func newUser(open func(*Credentials) User) *user {
	credentials := &Credentials{}
	opened := open(credentials)
	return &user{credentials: credentials, verify: opened.Verify, handler: New(opened.Config).api()}
}

// end ends a request of a user.
func (u *Users) end(one *user) {
	one.credentials.end()
	u.mu.Lock()
	defer u.mu.Unlock()
	one.requests--
	one.used = u.now()
	if one.requests > 0 {
		return
	}
	time.AfterFunc(maxIdle+time.Second, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.forget()
	})
}

// forget forgets the users who have sent no request for long. The caller holds mu.
func (u *Users) forget() {
	for id, one := range u.byID {
		if one.requests == 0 && u.now().Sub(one.used) > maxIdle {
			delete(u.byID, id)
		}
	}
}

// makeRoom forgets the user whose last request is the oldest, of those without a request under way. It reports false if there is none. The
// caller holds mu.
func (u *Users) makeRoom() bool {
	var oldest userID
	found := false
	for id, one := range u.byID {
		if one.requests == 0 && (!found || one.used.Before(u.byID[oldest].used)) {
			oldest, found = id, true
		}
	}
	delete(u.byID, oldest)
	return found
}

// Credentials add the token of a user to requests to the API server, while a request of the user is under way. They are safe for concurrent
// use.
type Credentials struct {
	mu       sync.Mutex
	token    string
	requests int
}

// begin notes that a request of the user with the token is under way.
func (c *Credentials) begin(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = token
	c.requests++
}

// end notes that a request has ended. After the last one, the token is forgotten.
func (c *Credentials) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests--; c.requests == 0 {
		c.token = ""
	}
}

// errNoRequest is the error of a request to the API server while no request of the user is under way.
var errNoRequest = errors.New("no request of the user is under way")

// Wrap returns a transport that adds the token.
func (c *Credentials) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		c.mu.Lock()
		token := c.token
		c.mu.Unlock()
		if token == "" {
			return nil, errNoRequest
		}
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
