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

package opaclient

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/policy"
)

// TestSend verifies that a request has what it says, and that only a readable response with status 2xx is no fault.
func TestSend(t *testing.T) {
	tests := map[string]struct {
		status     int
		header     map[string]string
		body       string
		request    Request
		wantHeader map[string]string
		fault      engine.Fault
		retryAfter time.Duration
		code       string
		ofObject   bool
		unreadable bool
	}{
		"Success":       {request: Request{Method: http.MethodGet}, body: `{"result": 1}`, wantHeader: map[string]string{"Content-Type": "", "Accept": "application/json", "User-Agent": "berth/test", "If-None-Match": ""}},
		"Empty":         {request: Request{Method: http.MethodPatch, ContentType: "application/json-patch+json", Body: []byte("[]")}, status: 204, wantHeader: map[string]string{"Content-Type": "application/json-patch+json"}},
		"IfAbsent":      {request: Request{Method: http.MethodPut, Body: []byte("{}"), IfAbsent: true}, status: 304, fault: engine.FaultRefused, wantHeader: map[string]string{"Content-Type": "application/json", "If-None-Match": "*"}},
		"TooLarge":      {request: Request{Method: http.MethodGet}, body: `"` + strings.Repeat("x", MaxResponse) + `"`, fault: engine.FaultMalformed, unreadable: true},
		"LargerLimit":   {request: Request{Method: http.MethodGet, Limit: 2 * MaxResponse}, body: `"` + strings.Repeat("x", MaxResponse) + `"`},
		"OtherType":     {request: Request{Method: http.MethodGet}, header: map[string]string{"Content-Type": "text/html"}, body: "x", fault: engine.FaultMalformed, unreadable: true},
		"Unauthorized":  {request: Request{Method: http.MethodGet}, status: 401, fault: engine.FaultUnauthorized},
		"BackPressure":  {request: Request{Method: http.MethodGet}, status: 503, header: map[string]string{"Retry-After": "7"}, fault: engine.FaultBackPressure, retryAfter: 7 * time.Second},
		"OfTheObject":   {request: Request{Method: http.MethodPost}, status: 500, body: `{"code": "internal_error", "errors": [{"code": "eval_conflict_error"}]}`, fault: engine.FaultServer, code: "internal_error", ofObject: true},
		"OfTheDeadline": {request: Request{Method: http.MethodPost}, status: 500, body: `{"code": "internal_error", "errors": [{"code": "eval_cancel_error"}]}`, fault: engine.FaultServer, code: "internal_error"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || r.Method != tc.request.Method || string(body) != string(tc.request.Body) {
					t.Errorf("got %s with %s, %v", r.Method, body, err)
				}
				for key, want := range tc.wantHeader {
					if got := r.Header.Get(key); got != want {
						t.Errorf("header %s is %q, want %q", key, got, want)
					}
				}
				w.Header().Set("Content-Type", "application/json")
				for key, value := range tc.header {
					w.Header().Set(key, value)
				}
				if tc.status != 0 {
					w.WriteHeader(tc.status)
				}
				_, _ = io.WriteString(w, tc.body)
			}))
			defer server.Close()
			pool := NewPool(Options{UserAgent: "berth/test"})
			c := clientOf(t, pool, placementv1.Remote{URL: server.URL + "/v1/data/p"})
			defer c.CloseIdleConnections()
			at, err := url.Parse(server.URL + "/v1/data/x")
			if err != nil {
				t.Fatal(err)
			}
			tc.request.URL = at
			got, err := c.Send(t.Context(), tc.request)
			if engine.FaultOf(err) != tc.fault {
				t.Fatalf("got error %v, want fault %q", err, tc.fault)
			}
			if tc.fault == "" && string(got) != tc.body {
				t.Errorf("got %.100s", got)
			}
			fault, _ := errors.AsType[*engine.RemoteError](err)
			if fault != nil && (fault.RetryAfter != tc.retryAfter || fault.Endpoint != server.URL || fault.Attempts != 0) {
				t.Errorf("got %+v", fault)
			}
			if said, ok := errors.AsType[*Rejection](err); ok && (said.Status != tc.status || said.Code != tc.code || said.OfObject() != tc.ofObject) {
				t.Errorf("got %+v", said)
			}
			if _, unreadable := errors.AsType[UnreadableError](err); unreadable != tc.unreadable {
				t.Errorf("%v is unreadable: %t", err, unreadable)
			}
		})
	}
}

func TestRetryAfterHeader(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	got := map[string]time.Duration{}
	want := map[string]time.Duration{
		"": 0, "0": 0, "120": 2 * time.Minute, "-1": 0, "1.5": 0, "soon": 0, "99999999999999999999": 0,
		"Sat, 21 Nov 2026 12:00:05 GMT": 5 * time.Second, "Sat, 21 Nov 2026 11:00:00 GMT": 0,
	}
	for value := range want {
		got[value] = retryAfter(value, now)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestAnswersThatDoNotEnd checks that no answer holds a request longer than its context.
func TestAnswersThatDoNotEnd(t *testing.T) {
	for name, answer := range map[string]string{
		"none":          "",
		"a header":      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n",
		"informational": "HTTP/1.1 103 Early Hints\r\n\r\n",
		"a body":        "HTTP/1.1 200 OK\r\n\r\n{",
		"chunks":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
		"a trailer":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nA: b\r\n",
		"an error":      "HTTP/1.1 500 Error\r\n\r\n{",
		"a redirect":    "HTTP/1.1 302 Found\r\nLocation: http://a/\r\n\r\n",
		"a protocol":    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				closed := make(chan struct{})
				go func() {
					defer close(closed)
					_, _ = http.ReadRequest(bufio.NewReader(there))
					_, _ = io.WriteString(there, answer)
					_, _ = io.Copy(io.Discard, there)
				}()
				document := &url.URL{Scheme: "http", Host: "engine", Path: "/v1/data/berth"}
				client, err := NewPool(Options{Dial: func(context.Context, string, string) (net.Conn, error) { return here, nil }}).
					Client(&policy.Remote{Document: document, Base: document})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if answer, err := client.Send(ctx, Request{Method: http.MethodPost, URL: document, Body: []byte("{}")}); err == nil {
					t.Errorf("got %s", answer)
				}
				// The connection is closed, so that it serves no other request.
				<-closed
			})
		})
	}
}
