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
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/config/schema"
	"github.com/berth-dev/berth/internal/decisionlog"
	"github.com/berth-dev/berth/internal/fleet"
	"github.com/berth-dev/berth/internal/whatif"
)

// Endpoint is a kind of request that the pages can make.
type Endpoint struct {
	// Method is GET or POST, and Name is the path below api/.
	Method, Name string
	// Request is the type of the body of a request; nil if it has none. Response is the type of the response's body. Both are JSON.
	Request, Response reflect.Type

	handler http.Handler
}

// Endpoints returns all endpoints with JSON responses, from which hack/consoletypes writes the types of the pages.
func Endpoints() []Endpoint { return New(Config{}).endpoints() }

// Values returns, for each string type in responses that has only a few values, such as fleet.State, all of these.
func Values() map[reflect.Type][]string {
	return map[reflect.Type][]string{
		reflect.TypeFor[fleet.State]():       texts(fleet.States()),
		reflect.TypeFor[fleet.Change]():      texts([]fleet.Change{fleet.Arriving, fleet.Leaving}),
		reflect.TypeFor[whatif.Transition](): texts(whatif.Transitions()),
		reflect.TypeFor[decisionlog.Action](): texts([]decisionlog.Action{decisionlog.Created, decisionlog.Updated,
			decisionlog.Patched, decisionlog.Evicted}),
	}
}

// schemaOfPolicies returns the JSON Schema of policies, by which the editor completes fields.
func schemaOfPolicies(*http.Request) (json.RawMessage, error) { return schema.PlacementPolicies, nil }

// texts returns values as strings.
func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

func (c *Console) endpoints() []Endpoint {
	return []Endpoint{
		get("fleet", c.fleet),
		get("objects", c.objects),
		get("cluster", c.cluster),
		get("labeled", c.labeled),
		get("workload", c.workload),
		get("policies", c.policies),
		get("policy", c.policy),
		get("manifest", c.manifest),
		get("plan", c.plan),
		get("quotas", c.quotas),
		get("history", c.history),
		get("values", c.values),
		get("schema", schemaOfPolicies),
		post("whatif", c.whatif),
		post("unaffected", c.unaffected),
		post("testcase", c.testCase),
		post("refresh", c.refresh),
	}
}

// get returns an endpoint for GET, whose response is what serve returns, in JSON.
func get[Response any](name string, serve func(*http.Request) (Response, error)) Endpoint {
	return Endpoint{Method: http.MethodGet, Name: name, Response: reflect.TypeFor[Response](), handler: answering(serve)}
}

// post returns an endpoint for POST, whose response is what serve computes from the decoded body of a request. A body that is no JSON of
// that type is an error with status 400.
func post[Request, Response any](name string, serve func(*http.Request, Request) (Response, error)) Endpoint {
	handler := answering(func(r *http.Request) (out Response, err error) {
		var body Request
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return out, problem{http.StatusBadRequest, "the request can't be decoded as JSON: " + err.Error()}
		}
		return serve(r, body)
	})
	return Endpoint{Method: http.MethodPost, Name: name, Request: reflect.TypeFor[Request](),
		Response: reflect.TypeFor[Response](), handler: handler}
}

// problem is an error with the HTTP status of the response, and its text for the user.
type problem struct {
	status int
	text   string
}

func (p problem) Error() string { return p.text }

// answering returns the handler that writes what a function returns as JSON, or its error by writeError.
func answering[T any](serve func(r *http.Request) (T, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := readBody(w, r)
		var value T
		if err == nil {
			value, err = serve(r)
		}
		var text []byte
		if err == nil {
			text, err = json.Marshal(value)
		}
		if err != nil {
			writeError(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		// A failed write ends the connection.
		_, _ = w.Write(text)
	})
}

// readBody reads the body of a POST request into memory, so that later code does not wait for a slow client. A body of more than maxBody,
// or one that takes longer than bodyTimeout, is an error with status 400.
func readBody(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return nil
	}
	control := http.NewResponseController(w)
	// Not all connections have deadlines.
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	_ = control.SetReadDeadline(time.Time{})
	if err != nil {
		return problem{http.StatusBadRequest, "the request can't be read: " + err.Error()}
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	return nil
}

// writeError writes an error as a JSON response with the member error, and with the status of statusOf.
func writeError(w http.ResponseWriter, err error) {
	// A map of texts has a JSON form.
	text, _ := json.Marshal(map[string]string{"error": err.Error()})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(statusOf(err))
	_, _ = w.Write(text)
}

// Limits of the body of a request: its size in bytes, which is small in comparison to what the console reads of the cluster, and how long
// it may take.
const (
	maxBody     = 4 << 20
	bodyTimeout = 30 * time.Second
)

// statusOf returns the HTTP status of the response for an error: that of a problem, 403 or 401 if the API server answered with it, and
// otherwise 500.
func statusOf(err error) int {
	if p, ok := errors.AsType[problem](err); ok {
		return p.status
	}
	switch {
	case apierrors.IsForbidden(err):
		return http.StatusForbidden
	case apierrors.IsUnauthorized(err):
		return http.StatusUnauthorized
	}
	return http.StatusInternalServerError
}
