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

package remote

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/placement"
)

// raw writes bytes as the response and closes the connection.
func raw(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		hijacker, ok := w.(http.Hijacker)
		if !ok {
			panic("no connection to take over")
		}
		conn, _, err := hijacker.Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, text)
		conn.Close()
	}
}

func typed(contentType, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, text)
	}
}

func status(code int, header, value, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if header != "" {
			w.Header().Set(header, value)
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

// zipped responds with compressed JSON of a size.
func zipped(size int, cut bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		_, _ = io.WriteString(z, `{"result": {"annotations": {"region": "`+strings.Repeat("e", size)+`"}}}`)
		z.Close()
		body := out.Bytes()
		if cut {
			body = body[:len(body)-6]
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(body)
	}
}

const token = "s3cr3t-t0k3n"

// TestFaults verifies that each kind of failure yields a fault of its kind and a message, and never a decision.
func TestFaults(t *testing.T) {
	tests := map[string]struct {
		answer http.HandlerFunc
		refuse bool

		fault  engine.Fault
		status int
		after  time.Duration
		// says are parts of the message.
		says []string
	}{
		"NoConnection":     {refuse: true, fault: engine.FaultNetwork, says: []string{"connection refused"}},
		"Hangs":            {answer: hangs, fault: engine.FaultTimeout, says: []string{"no answer in time"}},
		"ClosedAtOnce":     {answer: raw(""), fault: engine.FaultNetwork},
		"NoHTTP":           {answer: raw("hello\n"), fault: engine.FaultNetwork},
		"HugeHeader":       {answer: raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", opaclient.MaxHeader+8<<10) + "\r\n\r\n"), fault: engine.FaultNetwork},
		"CutBody":          {answer: raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n" + eu), fault: engine.FaultMalformed, says: []string{"cut off"}},
		"CutChunk":         {answer: raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n", len(eu)) + eu + "\r\n"), fault: engine.FaultMalformed, says: []string{"cut off"}},
		"NoLengthAndCut":   {answer: raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + eu[:20]), fault: engine.FaultMalformed},
		"Unauthorized":     {answer: status(401, "", "", `{"code": "unauthorized", "message": "who are `+token+`?"}`), fault: engine.FaultUnauthorized, status: 401, says: []string{"401", "unauthorized", "tokenSecretRef"}},
		"Forbidden":        {answer: status(403, "", "", `{}`), fault: engine.FaultUnauthorized, status: 403},
		"UnauthorizedCode": {answer: status(401, "", "", `{"code": "`+token+`"}`), fault: engine.FaultUnauthorized, status: 401, says: []string{"an object with 1 members"}},
		"TokenAsSuccess":   {answer: says(`{"error": "who is ` + token + `?"}`), fault: engine.FaultMalformed, says: []string{"an object with 1 members, without result"}},
		"TokenAsType":      {answer: typed("text/"+token, eu), fault: engine.FaultMalformed, says: []string{"another type than JSON"}},
		"TooMany":          {answer: status(429, "Retry-After", "7", ``), fault: engine.FaultBackPressure, status: 429, after: 7 * time.Second},
		"Unavailable":      {answer: status(503, "", "", ``), fault: engine.FaultBackPressure, status: 503},
		"UnavailableUntil": {answer: status(503, "Retry-After", "Sat, 01 Jan 2000 00:00:30 GMT", ``), fault: engine.FaultBackPressure, status: 503, after: 30 * time.Second},
		"Internal": {answer: status(500, "", "", `{"code": "internal_error", "message": "error(s) occurred while evaluating query", "errors": [{"code": "eval_conflict_error", "message": "complete rules must not produce multiple outputs", "location": {"file": "p.rego", "row": 7, "col": 1}}]}`),
			fault: engine.FaultServer, status: 500, says: []string{"internal_error, eval_conflict_error"}},
		"LongWords": {answer: status(500, "", "", `{"code": "internal_error", "message": "`+strings.Repeat("x", 5000)+`"}`), fault: engine.FaultServer, status: 500, says: []string{"internal_error"}},
		"Text": {answer: func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no \x1b[1mhealthy upstream", http.StatusBadGateway)
		}, fault: engine.FaultServer, status: 502, says: []string{"24 bytes that are not JSON"}},
		"BadRequest": {answer: status(400, "", "", `{"code": "invalid_parameter", "message": "odd"}`), fault: engine.FaultRefused, status: 400, says: []string{"invalid_parameter"}},
		"NotFound":   {answer: rejects(404), fault: engine.FaultRefused, status: 404, says: []string{"path of spec.remote.url"}},
		"Redirect": {answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/v1/data/other", http.StatusTemporaryRedirect)
		}, fault: engine.FaultRefused, status: 307, says: []string{"redirects are not followed"}},
		"HTML":           {answer: typed("text/html", eu), fault: engine.FaultMalformed, says: []string{"another type than JSON"}},
		"NoMediaType":    {answer: typed("json;;", eu), fault: engine.FaultMalformed},
		"Empty":          {answer: typed("application/json", ""), fault: engine.FaultMalformed},
		"NoJSON":         {answer: says("{"), fault: engine.FaultMalformed},
		"Trailing":       {answer: says(eu + "x"), fault: engine.FaultMalformed},
		"Two":            {answer: says(eu + eu), fault: engine.FaultMalformed},
		"Array":          {answer: says("[]"), fault: engine.FaultMalformed},
		"NoUTF8":         {answer: says("{\"result\": {\"annotations\": {\"region\": \"\xff\"}}}"), fault: engine.FaultMalformed},
		"ErrorAsSuccess": {answer: says(`{"code": "internal_error", "message": "x"}`), fault: engine.FaultMalformed, says: []string{"an object with 2 members, without result"}},
		"OtherSuccess":   {answer: says(`{"decision_id": "1", "status": "in maintenance"}`), fault: engine.FaultMalformed, says: []string{"an object with 2 members, without result"}},
		"OtherCase":      {answer: says(`{"Result": {"errors": ["no"]}}`), fault: engine.FaultMalformed, says: []string{"an object with 1 members, without result"}},
		"TooLarge":       {answer: says(`{"result": {"annotations": {"region": "` + strings.Repeat("e", opaclient.MaxResponse) + `"}}}`), fault: engine.FaultMalformed, says: []string{"more than 1048576 bytes"}},
		"Bomb":           {answer: zipped(50<<20, false), fault: engine.FaultMalformed, says: []string{"more than 1048576 bytes"}},
		"CutCompressed":  {answer: zipped(100, true), fault: engine.FaultMalformed},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, tc.answer)
				f.refuse.Store(tc.refuse)
				f.secrets.Set("opa", map[string]string{"token": token + "\n"})
				p := f.put(t, "p", placementv1.Remote{Retry: noRetry, TokenSecretRef: &placementv1.TokenSecretReference{SecretReference: placementv1.SecretReference{Name: "opa"}}})
				got := fails(t, p)
				if got.Fault != tc.fault || got.Status != tc.status || got.RetryAfter != tc.after || got.Attempts != 1 || got.Endpoint != address0 {
					t.Errorf("got %+v, want fault %s, status %d, retry after %s", got, tc.fault, tc.status, tc.after)
				}
				message := got.Error()
				for _, part := range append(tc.says, address0, string(tc.fault)) {
					if !strings.Contains(message, part) {
						t.Errorf("%q does not say %q", message, part)
					}
				}
				if strings.Contains(message, token) || len(message) > 1024 || strings.ContainsAny(message, "\n\x1b") {
					t.Errorf("message %q", message)
				}
				if diff := cmp.Diff([]engine.Fault{tc.fault}, f.faults); diff != "" {
					t.Errorf("the observer knows of: %s", diff)
				}
				if h := p.Health(); engine.FaultOf(h.Err) != tc.fault || !h.Queried {
					t.Errorf("health is %+v", h)
				}
			})
		})
	}
}

// other is confidential content of a server that is not an engine, such as a service that only the manager's network
// reaches.
const other = "s3cr3t-of-0thers"

// TestAnswersAreNotRepeated verifies that no message repeats the response of a server that is not an engine. People who
// can't reach that server could read it in the status of policies, in Events, and in warnings.
func TestAnswersAreNotRepeated(t *testing.T) {
	document := `{"` + other + `": "` + other + `", "code": "` + other + `", "message": "` + other + `", "error": "` + other + `", "errors": [{"code": "` + other + `", "message": "` + other + `", "location": {"file": "` + other + `"}}]}`
	answers := map[string]http.HandlerFunc{
		"Document":     says(document),
		"List":         says(`["` + other + `"]`),
		"Number":       says("1729172917291729"),
		"Text":         says(other),
		"Unfinished":   says(document[:40]),
		"Type":         typed("text/"+other, other),
		"PlainText":    func(w http.ResponseWriter, _ *http.Request) { http.Error(w, other, http.StatusForbidden) },
		"Redirect":     status(302, "Location", "http://"+other+"/?"+other, document),
		"Challenge":    status(401, "WWW-Authenticate", other, document),
		"RetryAfter":   status(503, "Retry-After", other, document),
		"Reason":       raw("HTTP/1.1 500 " + other + "\r\n\r\n"),
		"OtherStatus":  raw("HTTP/1.1 " + other + "\r\n\r\n"),
		"Banner":       raw(other + "\n"),
		"Header":       raw("HTTP/1.1 200 OK\r\n" + other + "\r\n\r\n"),
		"Length":       raw("HTTP/1.1 200 OK\r\nContent-Length: " + other + "\r\n\r\n"),
		"Chunk":        raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + other + "\r\n"),
		"Encoding":     raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + other + "\r\n\r\n"),
		"Compression":  status(200, "Content-Encoding", "gzip", other),
		"Internal":     status(500, "", "", document),
		"NotFound":     status(404, "", "", document),
		"NotDecisions": says(`"` + other + `"`),
	}
	for name, answer := range answers {
		for _, path := range []string{"/v1/data/policy", "/v0/data/policy"} {
			t.Run(name+path, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t, answer)
					p := f.put(t, "p", placementv1.Remote{URL: address0 + path, Retry: noRetry})
					_, err := p.Evaluate(t.Context(), deployment())
					if err == nil {
						t.Fatal("there is a decision")
					}
					for _, secret := range []string{other, "1729172917291729"} {
						if strings.Contains(err.Error(), secret) || strings.Contains(fmt.Sprint(p.Health().Err), secret) {
							t.Errorf("message %q", err)
						}
					}
				})
			})
		}
	}
}

// TestAnswers verifies that decisions are read from both forms of the API, and that a response without a result is no
// decision.
func TestAnswers(t *testing.T) {
	tests := map[string]struct {
		path      string
		answer    http.HandlerFunc
		undefined placementv1.UndefinedResult

		want     placement.Decision
		contract string
		fault    engine.Fault
	}{
		"Result":              {answer: says(eu), want: placement.Decision{Annotations: map[string]string{"region": "eu"}}},
		"OtherJSON":           {answer: typed("application/problem+json; charset=utf-8", eu), want: placement.Decision{Annotations: map[string]string{"region": "eu"}}},
		"NoType":              {answer: raw("HTTP/1.1 200 OK\r\nContent-Length: 45\r\n\r\n" + eu), want: placement.Decision{Annotations: map[string]string{"region": "eu"}}},
		"Compressed":          {answer: zipped(2, false), want: placement.Decision{Annotations: map[string]string{"region": "ee"}}},
		"LargeNumber":         {answer: says(`{"result": {"annotations": {"n": 12345678901234567890}}}`), want: placement.Decision{Annotations: map[string]string{"n": "12345678901234567890"}}},
		"Errors":              {answer: says(`{"result": {"errors": ["no"]}}`), want: placement.Decision{Errors: []string{"no"}}},
		"Undefined":           {answer: says(`{"decision_id": "1"}`)},
		"UndefinedIsAnError":  {answer: says(`{}`), undefined: placementv1.UndefinedError, fault: engine.FaultUndefined},
		"V0":                  {path: "/v0/data/policy", answer: says(`{"annotations": {"region": "eu"}}`), want: placement.Decision{Annotations: map[string]string{"region": "eu"}}},
		"V0Undefined":         {path: "/v0/data/policy", answer: status(404, "", "", `{"code": "undefined_document", "message": "not found"}`)},
		"V0UndefinedAsError":  {path: "/v0/data/policy", answer: status(404, "", "", `{"code": "undefined_document", "message": "not found"}`), undefined: placementv1.UndefinedError, fault: engine.FaultUndefined},
		"V0OtherNotFound":     {path: "/v0/data/policy", answer: rejects(404), fault: engine.FaultRefused},
		"V1NotFoundIsNoneToo": {answer: status(404, "", "", `{"code": "undefined_document"}`), fault: engine.FaultRefused},
		"V0ErrorAsSuccess":    {path: "/v0/data/policy", answer: says(`{"code": "internal_error", "message": "x"}`), fault: engine.FaultMalformed},
		"V0ErrorOnly":         {path: "/v0/data/policy", answer: says(`{"error": "in maintenance"}`), fault: engine.FaultMalformed},
		"V0Helpers":           {path: "/v0/data/policy", answer: says(`{"code": 7, "error": false, "zone": "a"}`)},
		"V0Error":             {path: "/v0/data/policy", answer: says(`{"code": "x", "message": "y", "errors": ["no"]}`), want: placement.Decision{Errors: []string{"no"}}},
		"Null":                {answer: says(`{"result": null}`), contract: "rule result: must be an object, is null"},
		"Boolean":             {answer: says(`{"result": true}`), contract: "rule result: must be an object, is a boolean"},
		"V0Array":             {path: "/v0/data/policy", answer: says(`[]`), contract: "rule result: must be an object, is an array"},
		"NoDecision":          {answer: says(`{"result": {"annotations": 1}}`), contract: "rule annotations: must be an object, is a number"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
					asked++
					want := map[string]any{"input": deployment()}
					if tc.path != "" {
						want = deployment()
					}
					var got any
					if err := json.NewDecoder(r.Body).Decode(&got); err != nil || r.Method != http.MethodPost {
						t.Errorf("%s: %v", r.Method, err)
					}
					if diff := cmp.Diff(any(want), got); diff != "" {
						t.Errorf("asked with %s", diff)
					}
					if got, want := r.Header.Get("Content-Type"), "application/json"; got != want {
						t.Errorf("asked with type %s", got)
					}
					if got, want := r.Header.Get("User-Agent"), "berth/test"; got != want {
						t.Errorf("asked by %s", got)
					}
					tc.answer(w, r)
				})
				spec := placementv1.Remote{Undefined: tc.undefined}
				if tc.path != "" {
					spec.URL = address0 + tc.path
				}
				p := f.put(t, "p", spec)
				got, err := p.Evaluate(t.Context(), deployment())
				var contract *placement.ContractError
				switch {
				case tc.contract != "":
					if !errors.As(err, &contract) || err.Error() != tc.contract {
						t.Errorf("got error %v, want %s", err, tc.contract)
					}
				case tc.fault != "":
					if engine.FaultOf(err) != tc.fault {
						t.Errorf("got error %v, want %s", err, tc.fault)
					}
				case err != nil:
					t.Error(err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Error(diff)
				}
				if asked != 1 && tc.fault != engine.FaultMalformed {
					t.Errorf("asked %d times", asked)
				}
			})
		})
	}
}

func TestObjectsThatCannotBeSent(t *testing.T) {
	f := newFixture(t, says(eu))
	p := f.put(t, "p", placementv1.Remote{})
	if _, err := p.Evaluate(t.Context(), map[string]any{"x": make(chan int)}); engine.FaultOf(err) != engine.FaultSerialization {
		t.Errorf("no JSON: got %v", err)
	}
	_, err := p.Evaluate(t.Context(), map[string]any{"x": strings.Repeat("x", placementv1.DefaultInputBytes)})
	if _, ok := errors.AsType[*engine.InputError](err); !ok {
		t.Errorf("above spec.limits.inputBytes: got %v", err)
	}
	// An object of the largest size that a policy may set is too large once the request's envelope is added.
	if _, err := opaclient.EncodeInput(map[string]any{"x": strings.Repeat("x", opaclient.MaxRequest-len(`{"x":""}`))}, false); err == nil {
		t.Error("a request above the largest size is sent")
	}
	if len(f.faults) > 0 {
		t.Error("the engine was asked")
	}
}
