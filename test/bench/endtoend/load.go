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

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// clients are users of the API server with a connection each.
type clients struct {
	url  string
	each []*http.Client
}

func newClients(cfg *rest.Config, n int) (*clients, error) {
	url, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	out := &clients{url: strings.TrimSuffix(url.String(), "/")}
	for range n {
		own := rest.CopyConfig(cfg)
		// Clients of equal configurations share a connection; a function of one's own makes them differ.
		own.Dial = (&net.Dialer{}).DialContext
		c, err := rest.HTTPClientFor(own)
		if err != nil {
			return nil, fmt.Errorf("making a client: %w", err)
		}
		out.each = append(out.each, c)
	}
	return out, nil
}

// load has the first n clients create the Deployments of the bodies, each when its last one is answered, and returns
// how long each creation took. Nothing is stored.
func (c *clients) load(ctx context.Context, n int, namespace string, bodies [][]byte) ([]time.Duration, error) {
	took := make([]time.Duration, len(bodies))
	errs := make([]error, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for worker, client := range c.each[:n] {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(bodies) && errs[worker] == nil; i = int(next.Add(1)) - 1 {
				start := time.Now()
				_, errs[worker] = c.create(ctx, client, namespace, bodies[i])
				took[i] = time.Since(start)
			}
		})
	}
	wg.Wait()
	return took, errors.Join(errs...)
}

// create creates a Deployment without storing it, and returns what it would have become.
func (c *clients) create(ctx context.Context, client *http.Client, namespace string, body []byte) ([]byte, error) {
	url := c.url + "/apis/apps/v1/namespaces/" + namespace + "/deployments?dryRun=All"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusCreated {
		return nil, fmt.Errorf("creating a Deployment in %s: %s: %s", namespace, response.Status, text)
	}
	return text, nil
}

// quantile returns the duration below which a share of them is. There must be some.
func quantile(took []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
