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
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/notify"
)

const (
	// deadlineMargin is the part of the caller's time that the attempts leave over, so that the error still reaches the
	// user.
	deadlineMargin = 300 * time.Millisecond
	// defaultDeadline is the time for all attempts if the caller sets no deadline.
	defaultDeadline = 30 * time.Second
	// minAttemptTime is the minimum time left for another attempt.
	minAttemptTime = 20 * time.Millisecond
	// jitter is the maximum jitter of a pause, as a fraction of it.
	jitter = 0.5
)

// attemptsContext returns the context for all attempts together. Its deadline is deadlineMargin before the one of ctx, or less if little
// time is left; without a deadline of ctx, it is defaultDeadline from now.
func attemptsContext(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithTimeout(ctx, defaultDeadline)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(deadlineMargin, time.Until(deadline)/4)))
}

// retry calls attempt until it succeeds or fails with an error that is not transient, or until the policy's limits or
// the deadline of ctx allow no further attempt. A returned *engine.RemoteError contains the number of attempts.
func retry[T any](ctx context.Context, spec placementv1.Remote, attempt func(context.Context) (T, error)) (T, error) {
	ctx, cancel := attemptsContext(ctx)
	defer cancel()
	backoff := wait.Backoff{
		Duration: time.Duration(spec.Retry.InitialBackoffMilliseconds) * time.Millisecond,
		Cap:      time.Duration(spec.Retry.MaxBackoffMilliseconds) * time.Millisecond,
		Factor:   2,
		Jitter:   jitter,
		Steps:    int(spec.Retry.MaxAttempts),
	}
	for n := 1; ; n++ {
		out, err := attemptOnce(ctx, spec, attempt)
		var last *engine.RemoteError
		if err == nil || !errors.As(err, &last) {
			return out, err
		}
		// Copy the fault, because other callers may share it.
		fault := *last
		fault.Attempts = n
		if fault.Fault == engine.FaultCircuitOpen {
			// The circuit breaker prevented the last attempt, so no request was sent for it.
			fault.Attempts--
		}
		if n >= int(spec.Retry.MaxAttempts) || !transient(fault.Fault) || ctx.Err() != nil {
			return out, &fault
		}
		pause := backoff.Step()
		if fault.RetryAfter > pause {
			pause = wait.Jitter(fault.RetryAfter, jitter/10)
		}
		// ctx has a deadline.
		if deadline, _ := ctx.Deadline(); time.Until(deadline) < pause+minAttemptTime || !notify.Sleep(ctx, pause) {
			fault.Err = fmt.Errorf("%w; there is no time for another attempt after a pause of %s", fault.Err, pause.Round(time.Millisecond))
			return out, &fault
		}
	}
}

// attemptOnce calls attempt with the policy's timeout for one attempt, spec.timeoutSeconds.
func attemptOnce[T any](ctx context.Context, spec placementv1.Remote, attempt func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(spec.TimeoutSeconds)*time.Second)
	defer cancel()
	return attempt(ctx)
}

// transient reports whether another attempt may succeed after a fault: after a timeout, a fault of the network (also a certificate that is
// not trusted) or the server, back pressure, refused credentials, an unreadable response, or one of an engine that lacks what Berth pushes
// there. It is false for all others, such as an open circuit breaker or an undefined result.
func transient(f engine.Fault) bool {
	switch f {
	case engine.FaultTimeout, engine.FaultNetwork, engine.FaultUnauthorized, engine.FaultBackPressure, engine.FaultServer,
		engine.FaultMalformed, engine.FaultIncomplete:
		return true
	}
	return false
}
