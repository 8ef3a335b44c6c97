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
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/console"
)

// TestGuard checks which requests the guard lets through: those of other pages, names that resolve to the loopback address, and methods
// that change something are refused.
func TestGuard(t *testing.T) {
	b := serve(t, config(static(t, clusters+policies+workloads+quotas))).open(t)
	own := strings.TrimSuffix(b.guard.URL(), "/")
	port := own[strings.LastIndex(own, ":"):]
	header := func(pairs ...string) func(*http.Request) {
		return func(r *http.Request) {
			for i := 0; i < len(pairs); i += 2 {
				r.Header.Set(pairs[i], pairs[i+1])
			}
		}
	}
	navigation := func(to string) func(*http.Request) {
		return header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", to)
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	for _, tt := range []struct {
		name, method, path string
		change             func(*http.Request)
		want               int
	}{
		{"a page", http.MethodGet, "/", nil, http.StatusOK},
		{"a file", http.MethodGet, "/index.js", nil, http.StatusOK},
		{"the head of a file", http.MethodHead, "/index.js", nil, http.StatusOK},
		{"an endpoint", http.MethodGet, "/api/policies", nil, http.StatusOK},
		{"an endpoint from an own page", http.MethodGet, "/api/policies", header("Sec-Fetch-Site", "same-origin"), http.StatusOK},
		{"JSON from an own page", http.MethodPost, "/api/refresh", header("Origin", own, "Sec-Fetch-Site", "same-origin"), http.StatusOK},
		{"the first page, by a link of another page", http.MethodGet, "/", navigation("document"), http.StatusOK},

		{"another name", http.MethodGet, "/api/policies", host("attacker.example.com"), http.StatusMisdirectedRequest},
		{"another name with the port", http.MethodGet, "/api/policies", host("attacker.example.com" + port), http.StatusMisdirectedRequest},
		{"another port", http.MethodGet, "/api/policies", host("127.0.0.1:1"), http.StatusMisdirectedRequest},
		{"another origin", http.MethodGet, "/api/policies", header("Origin", "http://attacker.example.com"), http.StatusForbidden},
		{"another port as origin", http.MethodPost, "/api/refresh", header("Origin", "http://127.0.0.1:1"), http.StatusForbidden},
		{"no origin", http.MethodPost, "/api/refresh", header("Origin", "null"), http.StatusForbidden},
		{"another page", http.MethodGet, "/api/policies", header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		{"a page at another port", http.MethodGet, "/api/policies", header("Sec-Fetch-Site", "same-site"), http.StatusForbidden},
		{"an endpoint, by a link of another page", http.MethodGet, "/api/policies", navigation("document"), http.StatusForbidden},
		{"a frame of another page", http.MethodGet, "/", navigation("iframe"), http.StatusForbidden},
		{"a form", http.MethodPost, "/api/refresh", header("Content-Type", "application/x-www-form-urlencoded"), http.StatusMethodNotAllowed},
		{"plain text", http.MethodPost, "/api/refresh", header("Content-Type", "text/plain"), http.StatusMethodNotAllowed},
		{"another method", http.MethodDelete, "/api/policies", nil, http.StatusMethodNotAllowed},
		{"JSON for a page", http.MethodPost, "/", nil, http.StatusMethodNotAllowed},
		{"a change of what is only read", http.MethodPost, "/api/policies", nil, http.StatusMethodNotAllowed},
		{"a file that there is not", http.MethodGet, "/../console.go", nil, http.StatusNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, text := b.do(t, tt.method, own+tt.path, "{}", tt.change); got != tt.want {
				t.Errorf("status %d, want %d: %s", got, tt.want, text)
			}
			jar := b.Jar
			defer func() { b.Jar = jar }()
			b.Jar = nil
			if got, _ := b.do(t, tt.method, own+tt.path, "{}", tt.change); got == http.StatusOK {
				t.Error("served without the cookie")
			}
		})
	}
}

// TestLink checks that the link works in one browser.
func TestLink(t *testing.T) {
	b := serve(t, config(static(t, clusters+policies+workloads+quotas)))
	link := b.guard.Link()
	if status, _ := b.do(t, http.MethodGet, b.guard.URL()+"?token=wrong", "", nil); status != http.StatusForbidden {
		t.Errorf("a wrong token: %d", status)
	}
	if status, _ := b.do(t, http.MethodGet, b.guard.URL()+"?token=", "", nil); status != http.StatusForbidden {
		t.Errorf("no token: %d", status)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, link, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := b.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	cookies := response.Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode || strings.Contains(link, cookies[0].Value) {
		t.Errorf("cookies %v", cookies)
	}
	if policy := response.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'self';") {
		t.Errorf("policy %q", policy)
	}
	if status, _ := b.do(t, http.MethodGet, link, "", nil); status != http.StatusOK {
		t.Errorf("the link again in the same browser: %d", status)
	}
	if b.Jar, err = cookiejar.New(nil); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{link, b.guard.Link()} {
		if status, _ := b.do(t, http.MethodGet, address, "", nil); status != http.StatusForbidden {
			t.Errorf("%s in another browser: %d", address, status)
		}
	}
	if a, b := console.NewGuard("127.0.0.1:1").Link(), console.NewGuard("127.0.0.1:1").Link(); a == b {
		t.Error("two consoles have one token")
	}
}
