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

package framework

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Request is one request of the operator to the API server.
type Request struct {
	Path  string
	Query url.Values
	Body  []byte
	// Code is the answer's.
	Code int
}

// Patches are the PATCH requests of the operator's replicas. It is safe for concurrent use.
type Patches struct {
	// underway is held for reading while a request waits for its answer.
	underway sync.RWMutex
	mu       sync.Mutex
	requests []Request
}

// RecordPatches records the patches of the replicas that are started from now on.
func (f *Framework) RecordPatches() *Patches {
	out := &Patches{}
	f.Operator.Wrap(func(next http.RoundTripper) http.RoundTripper { return &recordingTransport{next, out} })
	return out
}

// By returns the patches of a field manager below a path, in the order in which they were answered. It waits for the
// answers of those that were sent: a patch can be read from the API server before its sender has the answer.
func (p *Patches) By(fieldManager, path string) []Request {
	p.underway.Lock()
	defer p.underway.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.requests), func(r Request) bool {
		return r.Query.Get("fieldManager") != fieldManager || !strings.Contains(r.Path, path)
	})
}

type recordingTransport struct {
	next http.RoundTripper
	to   *Patches
}

// RoundTrip implements http.RoundTripper.
func (t *recordingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodPatch || req.Body == nil {
		return t.next.RoundTrip(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if err := req.Body.Close(); err != nil {
		return nil, err
	}
	t.to.underway.RLock()
	defer t.to.underway.RUnlock()
	sent := req.Clone(req.Context())
	sent.Body = io.NopCloser(bytes.NewReader(body))
	response, err := t.next.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	t.to.mu.Lock()
	defer t.to.mu.Unlock()
	t.to.requests = append(t.to.requests, Request{Path: req.URL.Path, Query: req.URL.Query(), Body: body, Code: response.StatusCode})
	return response, nil
}
