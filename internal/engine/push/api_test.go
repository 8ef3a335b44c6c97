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
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// dataAPI is a minimal engine with the data API and the policy API. It is safe for concurrent use.
type dataAPI struct {
	t *testing.T

	mu       sync.Mutex
	data     map[string]any
	policies map[string]string
	// requests are the requests that changed something or tried to, as in "PATCH /v1/data".
	requests []string
	// disturb, if not nil, is called with each request and returns how to disturb it.
	disturb func(method, path string) disturbance
	// changed, if not nil, is called after each change, with the lock held.
	changed func()
	// late are requests whose outcome the client does not know. The test executes them at any later time.
	late []func()
}

// dialer connects to an address.
type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// disturbance is how a request fails.
type disturbance struct {
	// status is the status of the response that is sent without executing the request; retryAfter is its header.
	status     int
	retryAfter string
	// cut breaks the connection: before the request is executed, after that, or so that the request is executed later.
	cut when
}

type when int

const (
	never when = iota
	before
	after
	later
)

func newDataAPI(t *testing.T) *dataAPI {
	return &dataAPI{t: t, data: map[string]any{}, policies: map[string]string{}}
}

// restart deletes everything.
func (a *dataAPI) restart() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.data, a.policies = map[string]any{}, map[string]string{}
}

// sent returns the requests since the last call.
func (a *dataAPI) sent() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.requests
	a.requests = nil
	return out
}

// document returns a copy of the document at a path; nil if there is none.
func (a *dataAPI) document(path ...string) any {
	a.mu.Lock()
	defer a.mu.Unlock()
	out, _ := get(a.data, path)
	var clone any
	if err := json.Unmarshal(toJSON(out), &clone); err != nil {
		a.t.Error(err)
	}
	return clone
}

func get(at any, path []string) (any, bool) {
	for _, name := range path {
		object, _ := at.(map[string]any)
		next, ok := object[name]
		if !ok {
			return nil, false
		}
		at = next
	}
	return at, true
}

func (a *dataAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	path := r.URL.EscapedPath()
	if r.Method != http.MethodGet {
		a.requests = append(a.requests, r.Method+" "+path)
	}
	var d disturbance
	if a.disturb != nil {
		d = a.disturb(r.Method, path)
	}
	if d.status != 0 {
		w.Header().Set("Retry-After", d.retryAfter)
		w.WriteHeader(d.status)
		return
	}
	do := func() (int, any) {
		status, answer := a.do(r, body)
		if a.changed != nil && r.Method != http.MethodGet {
			a.changed()
		}
		return status, answer
	}
	switch d.cut {
	case before:
		panic(http.ErrAbortHandler)
	case later:
		a.late = append(a.late, func() { do() })
		panic(http.ErrAbortHandler)
	case never, after:
	}
	status, answer := do()
	if d.cut == after {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if answer != nil {
		_, _ = w.Write(toJSON(answer))
	}
}

func said(code, message string) map[string]any {
	return map[string]any{"code": code, "message": message}
}

func (a *dataAPI) do(r *http.Request, body []byte) (int, any) {
	if id, ok := strings.CutPrefix(r.URL.Path, "/v1/policies"); ok {
		return a.policy(r.Method, strings.TrimPrefix(id, "/"), string(body))
	}
	var path []string
	for _, name := range strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/v1/data"), "/")[1:] {
		unescaped := must(a.t, func() (string, error) { return pathUnescape(name) })
		path = append(path, unescaped)
	}
	switch r.Method {
	case http.MethodGet:
		if document, ok := get(a.data, path); ok {
			return http.StatusOK, map[string]any{"result": document}
		}
		return http.StatusOK, map[string]any{}
	case http.MethodPut:
		if _, ok := get(a.data, path); ok && r.Header.Get("If-None-Match") == "*" {
			return http.StatusNotModified, nil
		}
		var value any
		if err := json.Unmarshal(body, &value); err != nil {
			return http.StatusBadRequest, said("invalid_parameter", err.Error())
		}
		at := a.data
		for _, name := range path[:len(path)-1] {
			if _, ok := at[name]; !ok {
				at[name] = map[string]any{}
			}
			at = at[name].(map[string]any)
		}
		at[path[len(path)-1]] = value
		return http.StatusNoContent, nil
	case http.MethodPatch:
		if r.Header.Get("Content-Type") != "application/json-patch+json" {
			return http.StatusUnsupportedMediaType, nil
		}
		return a.patch(body)
	}
	return http.StatusMethodNotAllowed, nil
}

func pathUnescape(name string) (string, error) {
	return strings.NewReplacer("%2F", "/", "%20", " ", "%25", "%").Replace(name), nil
}

func must[T any](t *testing.T, f func() (T, error)) T {
	t.Helper()
	out, err := f()
	if err != nil {
		t.Error(err)
	}
	return out
}

// patch applies all operations or none.
func (a *dataAPI) patch(body []byte) (int, any) {
	var operations []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(body, &operations); err != nil {
		return http.StatusBadRequest, said("invalid_parameter", err.Error())
	}
	next := clone(a.data)
	for _, o := range operations {
		names := strings.Split(o.Path, "/")[1:]
		for i := range names {
			names[i] = strings.NewReplacer("~1", "/", "~0", "~", "%25", "%").Replace(names[i])
		}
		last := names[len(names)-1]
		parent, _ := get(next, names[:len(names)-1])
		object, ok := parent.(map[string]any)
		if ok && o.Op == "remove" {
			// As in OPA, a transaction can't remove what only it has written.
			if _, ok = get(a.data, names); ok {
				_, ok = object[last]
			}
		}
		if !ok {
			return http.StatusNotFound, said("resource_not_found", o.Path)
		}
		if o.Op == "remove" {
			delete(object, last)
		} else {
			object[last] = o.Value
		}
	}
	a.data = next
	return http.StatusNoContent, nil
}

func clone(at map[string]any) map[string]any {
	out := maps.Clone(at)
	for name, value := range out {
		if object, ok := value.(map[string]any); ok {
			out[name] = clone(object)
		}
	}
	return out
}

var defines, calls = regexp.MustCompile(`def (\w+)`), regexp.MustCompile(`call (\w+)`)

// policy stores modules. A module compiles if it does not contain "bad", and if some module contains "def x" for each
// "call x". No two modules may contain the same "def x".
func (a *dataAPI) policy(method, id, rego string) (int, any) {
	next := maps.Clone(a.policies)
	switch method {
	case http.MethodGet:
		if id != "" {
			if _, ok := next[id]; !ok {
				return http.StatusNotFound, said("resource_not_found", id)
			}
			return http.StatusOK, map[string]any{"result": map[string]any{"id": id, "raw": next[id]}}
		}
		list := []any{}
		for id, raw := range next {
			list = append(list, map[string]any{"id": id, "raw": raw})
		}
		return http.StatusOK, map[string]any{"result": list}
	case http.MethodPut:
		next[id] = rego
	case http.MethodDelete:
		if _, ok := next[id]; !ok {
			return http.StatusNotFound, said("resource_not_found", id)
		}
		delete(next, id)
	}
	if err := compile(next); err != nil {
		return http.StatusBadRequest, said("invalid_parameter", err.Error())
	}
	a.policies = next
	return http.StatusOK, map[string]any{}
}

func compile(modules map[string]string) error {
	defined := map[string]bool{}
	for _, rego := range modules {
		if strings.Contains(rego, "bad") {
			return errors.New("rego_parse_error at 1:1")
		}
		for _, found := range defines.FindAllStringSubmatch(rego, -1) {
			if defined[found[1]] {
				return errors.New("defined twice: " + found[1])
			}
			defined[found[1]] = true
		}
	}
	for _, rego := range modules {
		for _, found := range calls.FindAllStringSubmatch(rego, -1) {
			if !defined[found[1]] {
				return errors.New("undefined function " + found[1])
			}
		}
	}
	return nil
}

// serve serves the API within this process and returns a dialer for it. Everything ends with the test.
func (a *dataAPI) serve(t *testing.T) dialer {
	l := &pipes{connections: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: a, ErrorLog: nil}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		server.Close()
		running.Wait()
	})
	return l.dial
}

// pipes is a listener for connections within this process.
type pipes struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (*pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (l *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.connections <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sorted returns a value as JSON with sorted keys.
func sorted(value any) string { return string(bytes.TrimSpace(toJSON(value))) }

// count returns how many of the requests begin with a prefix.
func count(requests []string, prefix string) int {
	out := 0
	for range slices.Values(requests) {
		out++
	}
	return out - len(slices.DeleteFunc(slices.Clone(requests), func(r string) bool { return strings.HasPrefix(r, prefix) }))
}
