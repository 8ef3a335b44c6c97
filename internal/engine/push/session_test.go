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

package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/engine/opaclient"
)

// direct is a sender that executes each request once, without a connection.
type direct struct{ api *dataAPI }

func (d direct) send(ctx context.Context, r opaclient.Request) ([]byte, error) {
	request := httptest.NewRequestWithContext(ctx, r.Method, r.URL.String(), nil)
	if r.ContentType != "" {
		request.Header.Set("Content-Type", r.ContentType)
	}
	if r.IfAbsent {
		request.Header.Set("If-None-Match", "*")
	}
	status, answer := d.api.do(request, r.Body)
	if status/100 != 2 {
		return nil, fmt.Errorf("%w: %w", errRefused, &opaclient.Rejection{Status: status})
	}
	return json.Marshal(answer)
}

func newSession(t *testing.T, api *dataAPI) *session {
	t.Helper()
	base := &url.URL{Scheme: "http", Host: "opa.example", Path: "/"}
	return &session{sender: direct{api}, base: base, published: func(opaclient.Manifest) {}}
}

// listing returns an edit that lists a type as complete.
func listing(name string) func(*opaclient.Manifest) {
	return func(h *opaclient.Manifest) { h.Types = map[string]bool{name: true} }
}

// TestSessionsAreFenced verifies that the token of a later session makes all transactions of an earlier one fail, and
// that the later session learns what the earlier one listed.
func TestSessionsAreFenced(t *testing.T) {
	api := newDataAPI(t)
	first, second := newSession(t, api), newSession(t, api)
	if _, err := first.takeFencingToken(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := first.commit(t.Context(), first.begin(), listing("/v1/pods")); err != nil {
		t.Fatal(err)
	}
	if err := first.poll(t.Context()); err != nil {
		t.Error(err)
	}
	old, err := second.takeFencingToken(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]bool{"/v1/pods": true}, old.Types); diff != "" {
		t.Error(diff)
	}
	before := api.document()
	if err := first.commit(t.Context(), first.begin(), listing("/v1/nodes")); !errors.Is(err, errLost) {
		t.Errorf("got %v", err)
	}
	if err := first.poll(t.Context()); !errors.Is(err, errLost) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, api.document()); diff != "" {
		t.Errorf("an earlier session changed something: %s", diff)
	}
	if err := second.commit(t.Context(), second.begin(), nil); err != nil {
		t.Error(err)
	}
	if err := second.end(t.Context()); !errors.Is(err, errUnneeded) || api.document("berth", "holdings") != nil {
		t.Errorf("got %v, and there is %v", err, api.document("berth", "holdings"))
	}
}

// repeated executes each transaction twice, as if the response to the first request had been lost.
type repeated struct{ sender }

func (r repeated) send(ctx context.Context, request opaclient.Request) ([]byte, error) {
	if request.Method == http.MethodPatch {
		if _, err := r.sender.send(ctx, request); err != nil {
			return nil, err
		}
	}
	return r.sender.send(ctx, request)
}

// TestTransactionsAreAppliedOnce verifies that a session recognizes its own transaction whose response was lost.
func TestTransactionsAreAppliedOnce(t *testing.T) {
	api := newDataAPI(t)
	s := newSession(t, api)
	s.sender = repeated{s.sender}
	if _, err := s.takeFencingToken(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/v1/pods", "/v1/nodes"} {
		if err := s.commit(t.Context(), s.begin(), listing(name)); err != nil {
			t.Fatal(err)
		}
		if err := s.poll(t.Context()); err != nil || !s.manifest.Types[name] {
			t.Errorf("got %v, %v", err, s.manifest)
		}
	}
	api.restart()
	if err := s.commit(t.Context(), s.begin(), nil); !errors.Is(err, errLost) {
		t.Errorf("got %v", err)
	}
}
