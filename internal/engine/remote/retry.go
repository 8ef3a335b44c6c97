package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
)

const (
	// margin is what is left of the caller's time when all attempts are over, so that the reason still gets to the user.
	margin = 300 * time.Millisecond
	// bound is the time for all attempts if the caller sets none.
	bound = 30 * time.Second
	// least is the time that an attempt needs to be worth it.
	least = 20 * time.Millisecond
	// jitter is by how much a pause is longer at most, as a share of it.
	jitter = 0.5
)

// within is the context for all attempts.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithTimeout(ctx, bound)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(margin, time.Until(deadline)/4)))
}

// retry attempts until an attempt succeeds, or it would be in vain to go on, or the policy's bounds or the time of ctx do
// not allow for another one. An *engine.RemoteError that it returns has the number of attempts.
func retry[T any](ctx context.Context, spec placementv1.Remote, attempt func(context.Context) (T, error)) (T, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	backoff := wait.Backoff{
		Duration: time.Duration(spec.Retry.InitialBackoffMilliseconds) * time.Millisecond,
		Cap:      time.Duration(spec.Retry.MaxBackoffMilliseconds) * time.Millisecond,
		Factor:   2,
		Jitter:   jitter,
		Steps:    int(spec.Retry.MaxAttempts),
	}
	for n := 1; ; n++ {
		out, err := once(ctx, spec, attempt)
		var last *engine.RemoteError
		if err == nil || !errors.As(err, &last) {
			return out, err
		}
		// Others may have the same error.
		fault := *last
		fault.Attempts = n
		if n >= int(spec.Retry.MaxAttempts) || !transient(fault.Fault) || ctx.Err() != nil {
			return out, &fault
		}
		pause := backoff.Step()
		if fault.RetryAfter > pause {
			pause = wait.Jitter(fault.RetryAfter, jitter/10)
		}
		if !sleep(ctx, pause) {
			fault.Err = fmt.Errorf("%w; there is no time for another attempt after %s", fault.Err, pause.Round(time.Millisecond))
			return out, &fault
		}
	}
}

func once[T any](ctx context.Context, spec placementv1.Remote, attempt func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(spec.TimeoutSeconds)*time.Second)
	defer cancel()
	return attempt(ctx)
}

// transient says whether another attempt may fare better.
func transient(f engine.Fault) bool {
	switch f {
	case engine.FaultTimeout, engine.FaultNetwork, engine.FaultUnauthorized, engine.FaultBackPressure, engine.FaultServer,
		engine.FaultMalformed, engine.FaultIncomplete:
		return true
	}
	return false
}

// sleep says whether there is time for an attempt after a pause, and if so makes it.
func sleep(ctx context.Context, pause time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < pause+least {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
