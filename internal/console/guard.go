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
	"crypto/rand"
	"crypto/subtle"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
)

// Guard lets requests to a handler only if they come from a page of the handler in a browser that opened the link of the console. Other
// pages and other users of the machine can connect to the port, too. It is safe for concurrent use.
type Guard struct {
	// address is the host and port at which the console listens. Requests to any other are refused, such as to a name of an attacker that
	// resolves to the loopback address.
	address string
	session string // the secret value of the cookie

	mu sync.Mutex
	// token is the secret in the link. It is empty once a browser has used the link, because other users of the machine see the arguments of
	// the command that opened it.
	token string
}

// NewGuard returns a guard for a console at an address, such as 127.0.0.1:8080, with new secrets for the link and the cookie.
func NewGuard(address string) *Guard {
	return &Guard{address: address, session: rand.Text(), token: rand.Text()}
}

// URL returns the address of the console without the token.
func (g *Guard) URL() string { return "http://" + g.address + "/" }

// Link returns the link with the token that opens the console in a browser. It works once; afterwards, Link returns one with an empty
// token, which opens nothing.
func (g *Guard) Link() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.URL() + "?" + tokenParameter + "=" + g.token
}

const tokenParameter = "token"

// cookieName is the name of the cookie with the session, berth-console- and the port. Browsers send cookies to all ports of a host, so
// consoles need different names.
func (g *Guard) cookieName() string {
	return "berth-console-" + g.address[strings.LastIndex(g.address, ":")+1:]
}

// headers are those of every response. The Content-Security-Policy allows nothing but the files of the console itself.
var headers = map[string]string{
	"Content-Security-Policy":      "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy":              "no-referrer",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Cache-Control":                "no-store",
}

// Handler returns a handler that passes to next only the requests that the guard lets through, and sets headers in all responses. It
// refuses a request with status 421 for another host, 405 for a method that changes something, and 403 if it comes from another page or
// lacks the cookie. It answers a request with the token of the link itself.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		switch {
		case r.Host != g.address:
			http.Error(w, "This console has another address: open the link that kubectl berth console printed.", http.StatusMisdirectedRequest)
		case !g.sameOrigin(r):
			http.Error(w, "This request comes from another page. The console answers only its own pages.", http.StatusForbidden)
		case !safe(r):
			http.Error(w, readOnly, http.StatusMethodNotAllowed)
		case r.URL.Path == "/" && r.URL.Query().Has(tokenParameter):
			g.exchange(w, r)
		case !g.knows(r):
			http.Error(w, "Open the link that kubectl berth console printed. It works once. If it was used already, run the command again.",
				http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// sameOrigin reports whether a request comes from a page of the console, from the address bar, or from a client that is no browser, by the
// headers Origin and Sec-Fetch-*. A link on another page may open the first page.
func (g *Guard) sameOrigin(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+g.address {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	return r.Method == http.MethodGet && r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
}

// readOnly is the error for requests with other methods than GET, HEAD, and POST of JSON.
const readOnly = "The console is read-only: it has only GET, and POST of JSON to the endpoints that compute something."

// safe reports whether a request has a method that the console serves: GET, HEAD, or, below /api/, POST of JSON, which no form of another
// page can send.
func safe(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return true
	case http.MethodPost:
		contentType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		return contentType == "application/json" && strings.HasPrefix(r.URL.Path, "/api/")
	}
	return false
}

// knows reports whether a request has the cookie with the session.
func (g *Guard) knows(r *http.Request) bool {
	cookie, err := r.Cookie(g.cookieName())
	return err == nil && equal(cookie.Value, g.session)
}

// exchange answers a request with the token of the link by setting the cookie, or with status 403 if the token is wrong or used, unless the
// request has the cookie already. The response is a page that opens the first page, and no redirect, after which a browser does not send
// the cookie if the link was on another page.
func (g *Guard) exchange(w http.ResponseWriter, r *http.Request) {
	if !g.knows(r) && !g.use(r.URL.Query().Get(tokenParameter)) {
		http.Error(w, "This link was used already, or is not the one that kubectl berth console printed. Run the command again.",
			http.StatusForbidden)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: g.cookieName(), Value: g.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// A failed write ends the connection.
	_, _ = io.WriteString(w, continuePage)
}

// continuePage is a page that opens the first page of the console.
const continuePage = `<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0;url=/">
<link rel="icon" href="/icon.svg">
<title>Berth</title>
<a href="/">Open the console</a>
`

// use reports whether a token is the one of the link. If it is, it removes the token, so that the link works no longer.
func (g *Guard) use(token string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token == "" || !equal(token, g.token) {
		return false
	}
	g.token = ""
	return true
}

// equal compares secrets in a time that does not depend on how much of them is equal.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
