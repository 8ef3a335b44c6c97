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
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"time"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/flowcontrol"
)

// Users serves several users, each with the rights of the bearer token in their requests. It has no rights of its own. It keeps what a user
// has read for a while, by the hash of the token, and keeps the token itself only while a request with it is under way. It is safe for
// concurrent use.
type Users struct {
	open func(*Credentials) User // the argument of NewUsers
	now  func() time.Time
	// computing limits how many computations of all users run at once.
	computing slots
	// strangers limits the rate of requests to the API server that verify unknown tokens. Beyond it, a request with an unknown token is
	// refused at once.
	strangers flowcontrol.RateLimiter

	mu   sync.Mutex
	byID map[userID]*user
	// rejected has the time at which the API server last did not accept a token, by the token's hash. For rejectedRemembers, the token is
	// refused without another question.
	rejected map[userID]time.Time
	// forgetting reports whether a timer is set that will forget idle users.
	forgetting bool
}

// User has the functions of the plugin that a shared console calls for one user.
type User struct {
	Config
	// Verify returns the name of the user; "" if the API server does not tell it. An error means that the API server does not accept the
	// token, or can't be asked.
	Verify func(ctx context.Context) (name string, err error)
}

// userID is the SHA-256 hash of the bearer token of a user.
type userID [sha256.Size]byte

// user is a user of the last minutes, with one token.
type user struct {
	credentials *Credentials
	verify      func(ctx context.Context) (string, error)
	handler     http.Handler
	forgotten   context.Context    // ends when the console forgets the user; all requests of the user end with it
	forget      context.CancelFunc // ends forgotten, and so the requests of the user

	// name is the name that the API server knows the user by; "" if it is not known. The mutex of Users guards it and the fields below.
	name string
	// requests is the number of the user's requests that are under way, and waiting how many of them wait for updates. A user all of whose
	// requests wait for updates may be forgotten, which ends them, to make room for another.
	requests, waiting int
	// used is the end of the last request, at first the time at which the user was kept; verified is the time at which the API server last
	// accepted the token.
	used, verified time.Time
}

// Limits of what a shared console keeps: the number of tokens (maxUsers), of tokens of one user, and of requests of a token at once; how
// long after its last request a token is kept, how long if its pages only wait for updates and another user needs the place (maxWaiting),
// and how long a verified token is trusted.
const (
	maxUsers    = 32
	maxTokens   = 2
	maxRequests = 64
	maxIdle     = 10 * time.Minute
	maxWaiting  = time.Minute
	maxTrusted  = 30 * time.Second
)

// Limits of what others can cause: computations at once, the rate at which unknown tokens are verified, how many rejected ones are known,
// and for how long.
const (
	maxComputations   = 2
	strangersRate     = 20
	strangersBurst    = 100
	maxRejected       = 1000
	rejectedRemembers = 10 * time.Second
)

// NewUsers returns a shared console. It calls open for each new token: open returns the functions of the plugin for that user, which
// connect to the API server by the credentials.
func NewUsers(open func(*Credentials) User) *Users {
	return &Users{
		open: open, now: time.Now, byID: map[userID]*user{}, rejected: map[userID]time.Time{},
		computing: make(slots, maxComputations), strangers: flowcontrol.NewTokenBucketRateLimiter(strangersRate, strangersBurst),
	}
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

// sameSite reports whether a request comes from a page of the console, from a client that is no browser, or from a link on another page
// that opens a page of the console.
func sameSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	return r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/api/") && r.Header.Get("Sec-Fetch-Mode") == "navigate"
}

// tokenHeader is the header with "Bearer" and the token, as in Authorization, for requests through the service proxy of the API server,
// which removes Authorization.
const tokenHeader = "X-Berth-Authorization"

// tokenOf returns the bearer token of a request, from tokenHeader or else from Authorization; "" if it has none. It is "", too, if the
// token has white space inside: the API server ignores what comes after it, so that one token would have many forms.
func tokenOf(r *http.Request) string {
	for _, name := range []string{tokenHeader, "Authorization"} {
		if scheme, token, ok := strings.Cut(r.Header.Get(name), " "); ok && strings.EqualFold(scheme, "Bearer") {
			if token = strings.TrimSpace(token); !strings.ContainsFunc(token, unicode.IsSpace) {
				return token
			}
		}
	}
	return ""
}

// serve serves a request to an endpoint with the rights of the token in the request.
func (u *Users) serve(w http.ResponseWriter, r *http.Request) {
	token := tokenOf(r)
	if token == "" {
		w.Header().Set("WWW-Authenticate", "Bearer")
		writeError(w, problem{http.StatusUnauthorized, "The console reads the cluster with your rights: it needs your bearer token."})
		return
	}
	a := access{id: sha256.Sum256([]byte(token)), token: token, waits: r.URL.Path == "/api/updates"}
	one, err := u.begin(r.Context(), a)
	if err != nil {
		if statusOf(err) == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		writeError(w, err)
		return
	}
	defer u.end(one, a)
	ctx, end := context.WithCancel(r.Context())
	defer end()
	defer context.AfterFunc(one.forgotten, end)()
	if a.waits {
		go u.verifyAgain(ctx, one, a)
	}
	one.handler.ServeHTTP(w, r.WithContext(ctx))
}

// access identifies the user of one request to an endpoint, by the token, and whether the request waits for updates.
type access struct {
	id    userID // the hash of token
	token string // the user's bearer token for the API server, as tokenOf returns it; never empty
	// waits reports whether the request is for /api/updates, which lasts as long as the page is open. The token of such a request is verified
	// again and again.
	waits bool
}

// The errors of requests that are not served.
var (
	errRejected = problem{http.StatusUnauthorized, "The API server does not accept the token: it may have expired."}
	errBusy     = problem{http.StatusServiceUnavailable, "The console has too many users, or gets too many new tokens at once. Try again in " +
		"some minutes."}
	errMany = problem{http.StatusTooManyRequests, "Too many requests with this token are under way. Close other pages of the console."}
)

// begin returns the user of a request, once the API server has accepted the token, now or within maxTrusted. Without an error, the caller
// must call end.
func (u *Users) begin(ctx context.Context, a access) (*user, error) {
	one, trusted, err := u.find(a)
	if err != nil || trusted {
		return one, err
	}
	name, err := one.verify(ctx)
	u.mu.Lock()
	if known := u.byID[a.id]; err == nil && known != nil && known != one {
		// Another request of the user was faster.
		one.finish(a)
		one = known
		one.start(a)
		if one.requests > maxRequests {
			err = errMany
		}
	}
	err = u.verified(one, a, name, err)
	u.mu.Unlock()
	if err != nil {
		u.end(one, a)
		return nil, err
	}
	return one, nil
}

// find returns the user of a request, and notes that the request is under way. For an unknown token, it returns a new user, and leaves it
// to verified to keep that. trusted reports whether the token was verified within maxTrusted. An error means that the token was rejected
// recently, or that too many unknown tokens, or too many requests with this one, come. Then no request is under way.
func (u *Users) find(a access) (one *user, trusted bool, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forgetIdle()
	if one = u.byID[a.id]; one == nil {
		switch rejected, known := u.rejected[a.id]; {
		case known && u.now().Sub(rejected) < rejectedRemembers:
			return nil, false, errRejected
		case !u.strangers.TryAccept():
			return nil, false, errBusy
		}
		// Only an accepted token takes a place.
		one = u.newUser()
	}
	if one.requests >= maxRequests {
		return nil, false, errMany
	}
	one.start(a)
	return one, u.now().Sub(one.verified) < maxTrusted, nil
}

func (u *Users) newUser() *user {
	credentials := &Credentials{}
	opened := u.open(credentials)
	opened.computing = u.computing
	out := &user{credentials: credentials, verify: opened.Verify, handler: New(opened.Config).api()}
	out.forgotten, out.forget = context.WithCancel(context.Background())
	return out
}

// verified notes what verifying the token returned, name and err, and keeps a new user. If err is Unauthorized, it remembers the token as
// rejected, forgets the user, and so ends the requests with that token. It returns an error if the request may not go on: errRejected,
// errBusy if there is no room for a new user or the user was forgotten meanwhile, or another err. The caller holds mu.
func (u *Users) verified(one *user, a access, name string, err error) error {
	switch {
	case apierrors.IsUnauthorized(err):
		if len(u.rejected) >= maxRejected {
			clear(u.rejected)
		}
		u.rejected[a.id] = u.now()
		u.remove(a.id)
		one.forget()
		return errRejected
	case err != nil:
		return err
	case one.forgotten.Err() != nil:
		return errBusy
	case u.byID[a.id] == nil:
		if !u.makeRoom(name) {
			return errBusy
		}
		one.name, one.used = name, u.now()
		u.byID[a.id] = one
		u.forgetLater()
	}
	one.verified = u.now()
	return nil
}

// verifyAgain verifies the token of a request that waits for updates every maxTrusted until the request ends. If the API server does not
// accept the token any more, the request ends.
func (u *Users) verifyAgain(ctx context.Context, one *user, a access) {
	tick := time.NewTicker(maxTrusted)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		u.mu.Lock()
		trusted := u.now().Sub(one.verified) < maxTrusted
		u.mu.Unlock()
		if trusted {
			continue
		}
		name, err := one.verify(ctx)
		u.mu.Lock()
		// If the API server can't be asked, the next tick asks again. If it does not accept the token, the request ends.
		_ = u.verified(one, a, name, err)
		u.mu.Unlock()
	}
}

// start counts a request that begins, also among the waiting ones if it waits for updates, and gives its token to the credentials. The
// caller holds the mutex of Users.
func (one *user) start(a access) {
	one.credentials.begin(a.token)
	one.requests++
	if a.waits {
		one.waiting++
	}
}

// finish stops counting a request that has ended, also among the waiting ones if it waited for updates. After the last one, the credentials
// forget the token. It does not set used. The caller holds the mutex of Users.
func (one *user) finish(a access) {
	one.credentials.end()
	one.requests--
	if a.waits {
		one.waiting--
	}
}

// end ends a request of a user for which begin returned no error, and notes the time as that of the last use.
func (u *Users) end(one *user, a access) {
	u.mu.Lock()
	defer u.mu.Unlock()
	one.finish(a)
	one.used = u.now()
}

// forgetLater sets a timer that forgets idle users, again and again while there are users. The caller holds mu.
func (u *Users) forgetLater() {
	if u.forgetting || len(u.byID) == 0 {
		return
	}
	u.forgetting = true
	time.AfterFunc(maxWaiting, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.forgetting = false
		u.forgetIdle()
		u.forgetLater()
	})
}

// forgetIdle forgets the users who have no request under way, and whose last one ended more than maxIdle ago. The caller holds mu.
func (u *Users) forgetIdle() {
	for id, one := range u.byID {
		if one.requests == 0 && u.now().Sub(one.used) > maxIdle {
			u.remove(id)
		}
	}
}

// remove forgets the user with a token's hash, if it is known, and ends the requests of the user that are under way. The caller holds mu.
func (u *Users) remove(id userID) {
	if one := u.byID[id]; one != nil {
		one.forget()
		delete(u.byID, id)
	}
}

// makeRoom reports whether another token of the user with a name may be kept. If there are too many tokens, or memory is short, it forgets
// the least recently used token: of those of this user if the user has maxTokens, or else of those that have no requests under way, or that
// only wait for updates and whose last request ended more than maxWaiting ago. It reports false if it has to forget one and finds none. The
// caller holds mu.
func (u *Users) makeRoom(name string) bool {
	own := 0
	for _, one := range u.byID {
		if name != "" && one.name == name {
			own++
		}
	}
	switch {
	case own >= maxTokens:
		return u.removeOldest(func(one *user) bool { return one.name == name })
	case len(u.byID) == 0, len(u.byID) < maxUsers && !memoryIsShort():
		return true
	}
	return u.removeOldest(func(one *user) bool {
		return one.requests == 0 || one.requests == one.waiting && u.now().Sub(one.used) > maxWaiting
	})
}

// removeOldest forgets the user whose last request is the oldest, of those for which may reports true. It reports false if there is none.
// The caller holds mu.
func (u *Users) removeOldest(may func(*user) bool) bool {
	var oldest userID
	found := false
	for id, one := range u.byID {
		if may(one) && (!found || one.used.Before(u.byID[oldest].used)) {
			oldest, found = id, true
		}
	}
	u.remove(oldest)
	return found
}

// memoryIsShort reports whether more than half of Go's memory limit (GOMEMLIMIT) was in use after the last garbage collection.
func memoryIsShort() bool {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64() > uint64(debug.SetMemoryLimit(-1))/2
}

// Credentials add the token of a user to requests to the API server, while a request of the user is under way. They are safe for concurrent
// use.
type Credentials struct {
	mu       sync.Mutex
	token    string // the token of the user; empty while no request of the user is under way, so that requests to the API server fail
	requests int    // how many requests of the user are under way
}

// begin notes that a request of the user is under way, and keeps its token.
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

// Wrap returns a transport that sets the header Authorization of requests to the token. While no request of the user is under way, it fails
// with errNoRequest.
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

// roundTripper is a function as the transport of an HTTP client.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
