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

package admission_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// Content types of requests.
const (
	contentJSON      = "application/json"
	contentApply     = "application/apply-patch+yaml"
	contentJSONPatch = "application/json-patch+json"
	contentMerge     = "application/merge-patch+json"
	contentStrategic = "application/strategic-merge-patch+json"
)

// call is one request to the API server. Its body is sent as it is: a typed client would not send what an attacker does.
type call struct {
	method, path, contentType string
	body                      []byte
}

// client sends requests as one user. It is safe for concurrent use.
type client struct {
	http *http.Client
	host string
}

func newClient(config *rest.Config) (*client, error) {
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &client{http: c, host: strings.TrimSuffix(config.Host, "/")}, nil
}

// do sends a request. An answer with any code is no error.
func (c *client) do(ctx context.Context, r call) (response, error) {
	request, err := http.NewRequestWithContext(ctx, r.method, c.host+r.path, bytes.NewReader(r.body))
	if err != nil {
		return response{}, err
	}
	request.Header.Set("Accept", contentJSON)
	if r.contentType != "" {
		request.Header.Set("Content-Type", r.contentType)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return response{}, fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return response{}, fmt.Errorf("reading the answer to %s %s: %w", r.method, r.path, err)
	}
	return response{code: answer.StatusCode, body: body}, nil
}
