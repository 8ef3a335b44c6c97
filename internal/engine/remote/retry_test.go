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
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/test/budget"
)

// TestAttemptsEndInTime verifies for all kinds of faults that the attempts end before the caller's deadline, with
// enough time left to report the error, and that there are no more of them than the policy allows.
func TestAttemptsEndInTime(t *testing.T) {
	faults := []engine.Fault{
		engine.FaultTimeout, engine.FaultNetwork, engine.FaultUnauthorized, engine.FaultBackPressure, engine.FaultServer,
		engine.FaultMalformed, engine.FaultIncomplete, engine.FaultRefused,
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range budget.Rounds(500) {
		spec := placementv1.Remote{
			TimeoutSeconds: 1 + random.Int32N(30),
			Retry: placementv1.RemoteRetry{
				MaxAttempts:                1 + random.Int32N(10),
				InitialBackoffMilliseconds: 1 + random.Int32N(1000),
				MaxBackoffMilliseconds:     1000 + random.Int32N(29000),
			},
		}
		limit := time.Duration(1+random.Int64N(int64(30*time.Second/time.Millisecond))) * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			began, attempts := time.Now(), 0
			_, err := retry(ctx, spec, func(ctx context.Context) (struct{}, error) {
				attempts++
				if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > time.Duration(spec.TimeoutSeconds)*time.Second {
					t.Errorf("an attempt has until %v, %v", deadline, ok)
				}
				fault := &engine.RemoteError{Fault: faults[random.IntN(len(faults))], Err: errors.New("x")}
				if random.IntN(2) == 0 {
					fault.RetryAfter = time.Duration(random.Int64N(int64(5 * time.Second)))
				}
				select {
				case <-time.After(time.Duration(random.Int64N(int64(2 * time.Second)))):
				case <-ctx.Done():
					fault.Fault = engine.FaultTimeout
				}
				return struct{}{}, fault
			})
			var fault *engine.RemoteError
			if !errors.As(err, &fault) || fault.Attempts != attempts || attempts > int(spec.Retry.MaxAttempts) || attempts < 1 {
				t.Errorf("%d attempts of %d, error %+v", attempts, spec.Retry.MaxAttempts, err)
			}
			if took, most := time.Since(began), limit-min(deadlineMargin, limit/4); took > most {
				t.Errorf("%s of %s, with %d attempts", took, limit, attempts)
			}
		})
	}
}

// TestAttemptsEndWithoutADeadline verifies that a caller without a deadline does not wait forever.
func TestAttemptsEndWithoutADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, hangs)
		p := f.put(t, "p", placementv1.Remote{TimeoutSeconds: 30, Retry: placementv1.RemoteRetry{MaxAttempts: 10}})
		began := time.Now()
		if got := fails(t, p); got.Fault != engine.FaultTimeout || time.Since(began) > defaultDeadline {
			t.Errorf("%v after %s", got, time.Since(began))
		}
	})
}

func TestAttempts(t *testing.T) {
	refused := status(503, "Retry-After", "2", "")
	tests := map[string]struct {
		answers []http.HandlerFunc
		within  time.Duration

		fault    engine.Fault
		attempts int
		// least is the minimum duration and most the maximum.
		least, most time.Duration
		says        string
	}{
		"SecondTry":     {answers: []http.HandlerFunc{rejects(500), says(eu)}, attempts: 2, least: 100 * time.Millisecond, most: 150 * time.Millisecond},
		"ThirdTry":      {answers: []http.HandlerFunc{rejects(500), says("{"), says(eu)}, attempts: 3, least: 300 * time.Millisecond, most: 450 * time.Millisecond},
		"NoMore":        {answers: []http.HandlerFunc{rejects(500), rejects(401), rejects(429), says(eu)}, attempts: 3, fault: engine.FaultBackPressure, most: 450 * time.Millisecond, says: "3 attempts"},
		"AfterTimeout":  {answers: []http.HandlerFunc{hangs, says(eu)}, attempts: 2, least: 1100 * time.Millisecond, most: 1150 * time.Millisecond},
		"InVain":        {answers: []http.HandlerFunc{rejects(400), says(eu)}, attempts: 1, fault: engine.FaultRefused},
		"RetryAfter":    {answers: []http.HandlerFunc{refused, says(eu)}, attempts: 2, least: 2 * time.Second, most: 2100 * time.Millisecond},
		"TooLongAfter":  {answers: []http.HandlerFunc{refused, says(eu)}, within: 2 * time.Second, attempts: 1, fault: engine.FaultBackPressure, says: "no time for another attempt"},
		"CutOff":        {answers: []http.HandlerFunc{hangs}, within: time.Second, attempts: 1, fault: engine.FaultTimeout, least: 750 * time.Millisecond, most: 750 * time.Millisecond, says: "1 attempt"},
		"NoMoreTime":    {answers: []http.HandlerFunc{hangs}, within: 1390 * time.Millisecond, attempts: 1, fault: engine.FaultTimeout, least: time.Second, most: time.Second},
		"SecondInShort": {answers: []http.HandlerFunc{hangs}, within: 2 * time.Second, attempts: 2, fault: engine.FaultTimeout, least: 1700 * time.Millisecond, most: 1700 * time.Millisecond},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int64
				f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
					tc.answers[min(int(asked.Add(1)), len(tc.answers))-1](w, r)
				})
				p := f.put(t, "p", placementv1.Remote{})
				ctx := t.Context()
				if tc.within > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.within)
					defer cancel()
				}
				began := time.Now()
				_, err := p.Evaluate(ctx, deployment())
				took := time.Since(began)
				if engine.FaultOf(err) != tc.fault || int(asked.Load()) != tc.attempts || took < tc.least || took > tc.most {
					t.Errorf("%d attempts, %s, error %v", asked.Load(), took, err)
				}
				if tc.says != "" && !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%q does not say %q", err, tc.says)
				}
				var fault *engine.RemoteError
				if errors.As(err, &fault) && fault.Attempts != tc.attempts {
					t.Errorf("the error has %d attempts", fault.Attempts)
				}
			})
		})
	}
}

// TestCancelled verifies that a request that the caller canceled does not count against the engine.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, hangs)
		p := f.put(t, "p", placementv1.Remote{})
		for range 2 * faultsToOpen {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			if _, err := p.Evaluate(ctx, deployment()); engine.FaultOf(err) != engine.FaultTimeout {
				t.Errorf("got %v", err)
			}
		}
		if h := p.Health(); h.Err != nil || h.BreakerOpen {
			t.Errorf("health is %+v", h)
		}
	})
}
