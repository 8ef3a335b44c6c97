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
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/notify"
)

const (
	// pushTimeout is the timeout of one request.
	pushTimeout = 30 * time.Second
	// maxRetryAfter is the maximum delay that an engine may request with Retry-After.
	maxRetryAfter = 5 * time.Minute
	// maxMalformed is the number of consecutive unreadable responses after which a request fails.
	maxMalformed = 5
	// emptyingTimeout is how long to keep trying to empty an engine that no policy needs any more.
	emptyingTimeout = time.Minute
)

// requests sends the requests of one writer to its engine, again until the engine answers. It implements sender.
type requests struct {
	clients  *opaclient.Pool
	observer Observer
	endpoint string // the scheme, host, and port of the engine, as in https://opa.example:8181, for the observer
	status   *status

	// client is the client of the last request; nil before the first. The connections stay open while it is referenced.
	client *opaclient.Client
	// unneededSince is the time of the first failed request after the last policy stopped needing the engine; zero if there is none. Requests
	// that fail emptyingTimeout later are not sent again.
	unneededSince time.Time
}

// send sends a request until the engine answers, with backoff, and returns the body of the response. It records in the status the error of
// each attempt after which it would try again, and nil after a success. It returns an error that wraps errRefused, and is not in the
// status, if sending again would not help, and errUnneeded if requests keep failing while no policy needs the engine.
func (s *requests) send(ctx context.Context, r opaclient.Request) ([]byte, error) {
	pause := newBackoff()
	for tries := 1; ; tries++ {
		answer, err := s.sendOnce(ctx, r)
		needed := len(s.status.currentNeeds().policies) > 0
		if needed {
			s.unneededSince = time.Time{}
		}
		if err == nil {
			s.status.setError(nil)
			return answer, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var fault *engine.RemoteError
		errors.As(err, &fault)
		// A response that is too large stays too large.
		if fault != nil && (fault.Fault == engine.FaultRefused || fault.Fault == engine.FaultMalformed && tries == maxMalformed) {
			return nil, fmt.Errorf("%w: %w", errRefused, err)
		}
		s.status.setError(err)
		if !needed && s.unneededSince.IsZero() {
			s.unneededSince = time.Now()
		}
		if !needed && time.Since(s.unneededSince) > emptyingTimeout {
			return nil, errUnneeded
		}
		d := pause.Step()
		if fault != nil {
			d = max(d, min(fault.RetryAfter, maxRetryAfter))
		}
		if !notify.Sleep(ctx, d) {
			return nil, ctx.Err()
		}
	}
}

// sendOnce sends a request once, with a timeout, and returns the body of the response. Its error is that of the client, and does not wrap
// errRefused. It notifies the observer of a request that may write.
func (s *requests) sendOnce(ctx context.Context, r opaclient.Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	var err error
	if s.client, err = s.clients.Client(s.status.currentNeeds().remote); err != nil {
		return nil, err
	}
	answer, err := s.client.Send(ctx, r)
	if r.Method != http.MethodGet {
		s.observer.Pushed(s.endpoint, engine.FaultOf(err))
	}
	return answer, err
}
