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

package opaserver_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/test/framework/opaserver"
)

// status returns what the server answers to a token; 0 if it can't be asked.
func status(t *testing.T, url, token string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

func TestServer(t *testing.T) {
	s := opaserver.Start(t, opaserver.Options{Files: map[string]string{
		"base.json": `{"base": {"n": 12345678901234567890}}`, "base.rego": `package started

p := data.base.n`,
	}})
	s.PutPolicy("x/y.rego", `package p

q := data.d.a + 1`)
	s.PutData("d", map[string]any{"a": 1})
	check := func(path string, want any) {
		t.Helper()
		if got, ok := s.GetData(path); ok != (want != nil) || !cmp.Equal(got, want) {
			t.Errorf("data.%s is %v, %v; want %v", path, got, ok, want)
		}
	}
	check("p/q", json.Number("2"))
	check("started/p", json.Number("12345678901234567890"))
	if _, ok := s.Policies()["x/y.rego"]; !ok {
		t.Errorf("modules %v", s.Policies())
	}
	address := s.URL()
	s.Restart()
	if s.URL() != address {
		t.Errorf("it moved from %s to %s", address, s.URL())
	}
	check("p/q", nil)
	check("started/p", json.Number("12345678901234567890"))
	s.Stop()
	if _, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Address()); err == nil {
		t.Error("a stopped server is reached")
	}
	s.Restart()
	if got := status(t, s.URL()+"/health", ""); got != http.StatusOK {
		t.Errorf("health is %d", got)
	}
	if log, err := os.ReadFile(s.LogPath()); err != nil || !strings.Contains(string(log), "Initializing server") {
		t.Errorf("log %q, %v", log, err)
	}
}

func TestTokens(t *testing.T) {
	s := opaserver.Start(t, opaserver.Options{Tokens: []string{"first"}})
	check := func(token string, want int) {
		t.Helper()
		if got := status(t, s.URL()+"/v1/data", token); got != want {
			t.Errorf("token %q: %d, want %d", token, got, want)
		}
	}
	check("first", http.StatusOK)
	check("second", http.StatusUnauthorized)
	check("", http.StatusUnauthorized)
	s.SetTokens("second")
	check("first", http.StatusUnauthorized)
	check("second", http.StatusOK)
	s.Restart()
	check("first", http.StatusUnauthorized)
	check("second", http.StatusOK)
}

// TestEnd: nothing is left of a server whose test is over.
func TestEnd(t *testing.T) {
	var address string
	t.Run("Server", func(t *testing.T) { address = opaserver.Start(t, opaserver.Options{}).Address() })
	if conn, err := (&net.Dialer{}).DialContext(context.WithoutCancel(t.Context()), "tcp", address); err == nil {
		conn.Close()
		t.Error("it still listens")
	}
}
